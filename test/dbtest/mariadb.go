package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// mariadbFlavor is the server that most tests of the dialect run on. The variable may lead to MySQL.
func mariadbFlavor() flavor {
	return flavorOfMySQL(nameMariaDB, "SNOWFLAKE_MARIADB_DSN", "3306", "utf8mb4_unicode_ci")
}

// mysqlFlavor is MySQL itself. Its plain login comes first, because a user's application has one, too: what
// it may not do has to be seen here.
func mysqlFlavor() flavor {
	f := flavorOfMySQL(nameMySQL, "SNOWFLAKE_MYSQL_DSN", "3308", "utf8mb4_0900_ai_ci")
	slices.Reverse(f.logins)
	f.suits = isMySQL
	return f
}

// mysqlTrustedFlavor is MySQL with a login that may create triggers while the binary log is on, which takes
// the right SUPER. Without the variable of that login, a login that was chosen for the other tests has to
// have it.
func mysqlTrustedFlavor() flavor {
	f := mysqlFlavor()
	if os.Getenv(variableTrusted) != "" || os.Getenv(f.variable) == "" {
		f.variable = variableTrusted
		f.logins = []string{"snowflake_trusted:snowflake@tcp(127.0.0.1:3308)/", "root@tcp(127.0.0.1:3308)/"}
	}
	return f
}

// variableTrusted holds the DSN of a login of MySQL that may create triggers.
const variableTrusted = "SNOWFLAKE_MYSQL_TRUSTED_DSN"

// variableTiDB holds the DSN of TiDB. Without it there is no target for TiDB, because hardly any machine has
// a TiDB.
const variableTiDB = "SNOWFLAKE_TIDB_DSN"

// tidbFlavor is TiDB, which speaks the protocol of MySQL.
func tidbFlavor() flavor {
	f := flavorOfMySQL(nameTiDB, variableTiDB, "4000", "utf8mb4_0900_ai_ci")
	f.suits = isTiDB
	return f
}

// isMariaDB tells MariaDB from MySQL by what version() returns.
func isMariaDB(version string) bool { return strings.Contains(version, "MariaDB") }

// isTiDB tells TiDB, whose version begins like one of MySQL.
func isTiDB(version string) bool { return strings.Contains(version, "TiDB") }

func isMySQL(version string) bool { return !isMariaDB(version) && !isTiDB(version) }

// flavorOfMySQL is a server of either kind. The collation is that of its databases. All of them ignore
// case, like the default of each kind of server.
func flavorOfMySQL(name, variable, port, collation string) flavor {
	return flavor{
		name:     name,
		driver:   "mysql",
		variable: variable,
		logins: []string{
			"root@tcp(127.0.0.1:" + port + ")/",
			"snowflake:snowflake@tcp(127.0.0.1:" + port + ")/",
		},
		parse: func(dsn string) error {
			_, err := mysql.ParseDSN(dsn)
			return err
		},
		starting: func(error) bool { return false }, // it listens only when it is ready
		create: func(ctx context.Context, s *server, admin *sql.DB, name string) (string, dropFunc, error) {
			return createMariaDB(ctx, s, admin, name, collation)
		},
	}
}

func createMariaDB(
	ctx context.Context, s *server, admin *sql.DB, name, collation string,
) (string, dropFunc, error) {
	cfg, err := mysql.ParseDSN(s.dsn)
	if err != nil {
		return "", nil, err
	}
	_, err = admin.ExecContext(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4 COLLATE "+collation)
	if err != nil {
		return "", nil, err
	}
	cfg.DBName = name
	cfg.ParseTime = true // GORM scans time.Time
	cfg.Collation = collation
	return cfg.FormatDSN(), func(ctx context.Context, admin *sql.DB) error {
		return dropMariaDB(ctx, admin, name)
	}, nil
}

// dropMariaDB ends the connections that are still open on the database only if DROP DATABASE waits for their
// transactions. It would not always meet the right ones: while a connection of MariaDB reads the catalog, it
// seems to be on one database after the other.
func dropMariaDB(ctx context.Context, admin *sql.DB, name string) (err error) {
	c, err := admin.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_, e := c.ExecContext(ctx, "SET SESSION lock_wait_timeout = DEFAULT")
		err = errors.Join(err, e, c.Close())
	}()
	if _, err := c.ExecContext(ctx, "SET SESSION lock_wait_timeout = 2"); err != nil {
		return err
	}
	for {
		_, err := c.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name)
		const waitedTooLong = 1205
		var e *mysql.MySQLError
		if !errors.As(err, &e) || e.Number != waitedTooLong {
			return err
		}
		if err := killConnections(ctx, c, name); err != nil {
			return err
		}
	}
}

func killConnections(ctx context.Context, c *sql.Conn, name string) error {
	ids, err := mysqlConnections(ctx, c, name)
	if err != nil {
		return err
	}
	const noSuchThread = 1094 // the connection ended by itself in the meantime
	for _, id := range ids {
		_, err := c.ExecContext(ctx, "KILL "+strconv.FormatInt(id, 10))
		var e *mysql.MySQLError
		if err != nil && (!errors.As(err, &e) || e.Number != noSuchThread) {
			return err
		}
	}
	return nil
}

// querier is a pool or one of its connections.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// mysqlConnections returns the connections of a database. It does not use
// information_schema.processlist: on MySQL that fails with error 3854 while any connection runs a
// statement with bytes that are no text.
func mysqlConnections(ctx context.Context, q querier, database string) (ids []int64, err error) {
	rows, err := q.QueryContext(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns() // Id, User, Host and db come first; MariaDB has one more at the end
	if err != nil {
		return nil, err
	}
	var id int64
	var db sql.NullString
	row := make([]any, len(columns))
	for i := range row {
		row[i] = new(sql.RawBytes)
	}
	row[0], row[3] = &id, &db
	for rows.Next() {
		if err := rows.Scan(row...); err != nil {
			return nil, err
		}
		if db.String == database {
			ids = append(ids, id)
		}
	}
	return ids, rows.Err()
}
