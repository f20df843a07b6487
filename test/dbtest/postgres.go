package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql
)

// These error codes of PostgreSQL are handled below.
const (
	pgInsufficientPrivilege = "42501"
	pgObjectInUse           = "55006"
	pgTooManyConnections    = "53300"
	pgCannotConnectNow      = "57P03"
)

func postgresFlavor() flavor {
	return flavor{
		name:     namePostgres,
		driver:   driverPgx,
		variable: "SNOWFLAKE_POSTGRES_DSN",
		logins: []string{
			"postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable",
			"postgres://snowflake:snowflake@127.0.0.1:5432/postgres?sslmode=disable",
		},
		parse: func(dsn string) error {
			_, err := pgconn.ParseConfig(dsn)
			return err
		},
		starting: func(err error) bool { return pgCode(err) == pgCannotConnectNow },
		create:   createPostgres,
	}
}

// createPostgres creates a database. If the role may not create databases, it creates a schema in
// the database of its DSN.
func createPostgres(
	ctx context.Context, s *server, admin *sql.DB, name string,
) (string, dropFunc, error) {
	// CREATE DATABASE fails while a connection is open on the template. It uses template0 because
	// no connection can be open there. The C locale sorts in the same way on every machine.
	create := `CREATE DATABASE ` + name +
		` TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'`
	err := retryWhileBusy(ctx, func() error {
		_, err := admin.ExecContext(ctx, create)
		return err
	})
	if err == nil {
		// The tests do not need to survive a crash of this server, so a commit need not wait for the disk.
		_, err = admin.ExecContext(ctx, "ALTER DATABASE "+name+" SET synchronous_commit = off")
	}
	switch {
	case err == nil:
		dsn, err := pgDSN(s.dsn, "dbname", name)
		return dsn, func(ctx context.Context, admin *sql.DB) error {
			return dropPostgres(ctx, admin, name)
		}, err
	case pgCode(err) == pgInsufficientPrivilege:
		if _, err := admin.ExecContext(ctx, `CREATE SCHEMA `+name); err != nil {
			return "", nil, fmt.Errorf("the role may create neither a database nor a schema: %w", err)
		}
		dsn, err := pgDSN(s.dsn, "search_path", name)
		return dsn, func(ctx context.Context, admin *sql.DB) error {
			return dropPostgresSchema(ctx, admin, name)
		}, err
	}
	return "", nil, err
}

// dropPostgres ends the sessions in a database, and drops it. A login that is no superuser may not end those
// of other roles, such as the one of autovacuum, which works in every database. A plain DROP DATABASE ends
// that one itself, and fails while there are others.
func dropPostgres(ctx context.Context, admin *sql.DB, name string) error {
	drop := `DROP DATABASE IF EXISTS ` + name
	return retryWhileBusy(ctx, func() error {
		_, err := admin.ExecContext(ctx, drop+` WITH (FORCE)`)
		if pgCode(err) == pgInsufficientPrivilege {
			_, err = admin.ExecContext(ctx, drop)
		}
		return err
	})
}

// dropPostgresSchema first ends the sessions that hold a lock on an object in the schema. A failed
// test may leave such a session behind, and DROP SCHEMA would wait for it.
func dropPostgresSchema(ctx context.Context, admin *sql.DB, name string) error {
	_, err := admin.ExecContext(ctx, `
		SELECT pg_terminate_backend(l.pid)
		FROM (
			SELECT DISTINCT k.pid
			FROM pg_locks k
			JOIN pg_class c ON c.oid = k.relation
			JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND k.pid <> pg_backend_pid()
		) l`, name)
	if err != nil {
		return err
	}
	_, err = admin.ExecContext(ctx, `DROP SCHEMA IF EXISTS `+name+` CASCADE`)
	return err
}

// retryWhileBusy retries what failed because of other tests: a CREATE DATABASE while another one uses the
// same template, a connection while the server has as many as it allows, and a connection that a busy server
// has reset before it said anything.
func retryWhileBusy(ctx context.Context, do func() error) error {
	const pause = 100 * time.Millisecond
	for {
		err := do()
		code := pgCode(err)
		if code != pgObjectInUse && code != pgTooManyConnections && !errors.Is(err, syscall.ECONNRESET) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// pgDSN sets one setting of a DSN, which is a URL or a list of key=value pairs.
func pgDSN(dsn, key, value string) (string, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " " + key + "=" + value, nil // the last of two values is used
	}
	u, err := url.Parse(dsn)
	if err != nil {
		// The error of url.Parse quotes the DSN, so it must not be returned.
		return "", errors.New("the DSN is not a valid URL")
	}
	query := u.Query()
	if key == "dbname" {
		u.Path = "/" + value
		query.Del("dbname") // this parameter would take precedence over the path
		query.Del("database")
	} else {
		query.Set(key, value)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

func pgCode(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
