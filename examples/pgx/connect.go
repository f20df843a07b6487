package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/snowflakeplugin/snowflakeplugin/pgxid"
)

const (
	variable = "SNOWFLAKE_POSTGRES_DSN"
	patience = 5 * time.Second

	remedy = `This example needs a PostgreSQL server. Any of these helps:

  docker compose up --wait postgres    starts one on this machine
  make services                        starts or installs one without Docker
  go run ./examples/pgx DSN            uses the server of a DSN, as does the variable
                                       ` + variable + `

A DSN is, for example, postgres://user:password@host:5432/database
`
)

// localLogins returns the logins of a development machine. They are tried in order.
func localLogins() []string {
	return []string{
		"postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable",
		"postgres://snowflake:snowflake@127.0.0.1:5432/postgres?sslmode=disable",
	}
}

// connect opens the only connection of this example. Its errors never contain the DSN, because the
// DSN may contain a password.
func connect(ctx context.Context, args []string, env string) (*pgx.Conn, error) {
	dsns := localLogins()
	switch {
	case len(args) > 1:
		return nil, fmt.Errorf("expected at most one DSN, but got %d arguments", len(args))
	case len(args) == 1:
		dsns = args
	case env != "":
		dsns = []string{env}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	for _, dsn := range dsns {
		var conn *pgx.Conn
		if conn, err = pgx.Connect(ctx, dsn); err == nil {
			// Register must be called once for each connection. A pool calls it in AfterConnect.
			pgxid.Register(conn.TypeMap())
			return conn, nil
		}
	}
	return nil, plain(err)
}

// plain returns the reason why there is no connection, without the DSN.
func plain(err error) error {
	var server *pgconn.PgError
	var network *net.OpError
	var name *net.DNSError
	var dsn *pgconn.ParseConfigError
	switch {
	case errors.As(err, &dsn):
		return errors.New("the DSN is invalid")
	case errors.As(err, &server):
		return fmt.Errorf("the server refuses the connection: %s (%s)", server.Message, server.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no server answered within %v", patience)
	case errors.As(err, &name):
		return errors.New("the host of the DSN has no address")
	case errors.As(err, &network):
		return fmt.Errorf("no server answers: %w", network.Err)
	}
	return errors.New("there is no connection to the server")
}
