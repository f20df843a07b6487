package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

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

// connect opens the only connection of this example. The errors of pgx contain no password.
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
	return nil, fmt.Errorf("no connection: %w", err)
}
