package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/go-sql-driver/mysql"
)

func mariadbFlavor() flavor {
	return flavor{
		name:     nameMariaDB,
		driver:   "mysql",
		variable: "SNOWFLAKE_MARIADB_DSN",
		logins: []string{
			"root@tcp(127.0.0.1:3306)/",
			"snowflake:snowflake@tcp(127.0.0.1:3306)/",
		},
		parse: func(dsn string) error {
			_, err := mysql.ParseDSN(dsn)
			return err
		},
		starting: func(error) bool { return false }, // it listens only when it is ready
		create:   createMariaDB,
	}
}

func createMariaDB(
	ctx context.Context, s *server, admin *sql.DB, name string,
) (string, dropFunc, error) {
	cfg, err := mysql.ParseDSN(s.dsn)
	if err != nil {
		return "", nil, err
	}
	// A collation that MariaDB and MySQL both have, so that letters of either case are equal on
	// each of them, as they are by default.
	_, err = admin.ExecContext(ctx,
		"CREATE DATABASE "+name+" CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
	if err != nil {
		return "", nil, err
	}
	cfg.DBName = name
	cfg.ParseTime = true // GORM scans time.Time
	cfg.Collation = "utf8mb4_unicode_ci"
	return cfg.FormatDSN(), func(ctx context.Context, admin *sql.DB) error {
		return dropMariaDB(ctx, admin, name)
	}, nil
}

// dropMariaDB ends the connections that are left on the database first: DROP DATABASE would wait
// for the transaction of each.
func dropMariaDB(ctx context.Context, admin *sql.DB, name string) error {
	if err := killConnections(ctx, admin, name); err != nil {
		return err
	}
	_, err := admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name)
	return err
}

func killConnections(ctx context.Context, admin *sql.DB, name string) (err error) {
	rows, err := admin.QueryContext(ctx,
		"SELECT id FROM information_schema.processlist WHERE db = ?", name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	const noSuchThread = 1094 // it went by itself meanwhile
	for _, id := range ids {
		_, err := admin.ExecContext(ctx, "KILL "+strconv.FormatInt(id, 10))
		var e *mysql.MySQLError
		if err != nil && (!errors.As(err, &e) || e.Number != noSuchThread) {
			return err
		}
	}
	return nil
}
