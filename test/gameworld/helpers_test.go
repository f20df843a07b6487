package gameworld_test

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
)

// databases runs fn on SQLite, PostgreSQL, MariaDB and MySQL. What GORM makes of them is no matter here.
func databases(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	dbtest.EachServer(t, fn)
}

// kindOf is what the package calls the database of a target.
func kindOf(target dbtest.Target) gameworld.Kind { return gameworld.Kind(target.Dialect) }

// world is a server's database in a test.
type world struct {
	*sql.DB
	gameworld.Summary
}

// create makes a server in a database of its own.
func create(t testing.TB, target dbtest.Target, cfg gameworld.Config) world {
	t.Helper()
	db := empty(t, target)
	summary, err := gameworld.Create(t.Context(), db, kindOf(target), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return world{db, summary}
}

func empty(t testing.TB, target dbtest.Target) *sql.DB {
	t.Helper()
	db, err := target.Open(t, nil).DB()
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// try executes a statement whose placeholders are question marks.
func try(t *testing.T, target dbtest.Target, db *sql.DB, statement string, args ...any) error {
	t.Helper()
	if target.Dialect == "postgres" {
		for i := range args {
			statement = strings.Replace(statement, "?", "$"+strconv.Itoa(i+1), 1)
		}
	}
	_, err := db.ExecContext(t.Context(), statement, args...)
	return err
}

// number reads one number. A sum of bigints is a decimal on some databases.
func number(t *testing.T, db *sql.DB, query string) int64 {
	t.Helper()
	var n sql.NullInt64
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n.Int64
}

// texts reads one column.
func texts(t *testing.T, db *sql.DB, query string) []string { return column[string](t, db, query) }

func column[T any](t *testing.T, db *sql.DB, query string) (values []T) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var v T
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return values
}

// references are all foreign keys: table, column, and the table whose id it is.
var references = [][3]string{
	{"guilds", "leader_id", "roles"}, {"roles", "account_id", "accounts"}, {"roles", "guild_id", "guilds"},
	{"items", "role_id", "roles"}, {"items", "parent_id", "items"},
	{"mail", "from_id", "roles"}, {"mail", "to_id", "roles"},
	{"friends", "role_id", "roles"}, {"friends", "friend_id", "roles"},
	{"rankings", "role_id", "roles"}, {"world", "champion_id", "roles"},
	{"gold_ledger", "role_id", "roles"}, {"login_log", "role_id", "roles"},
}

// orphans counts the rows whose reference leads nowhere.
func orphans(t *testing.T, db *sql.DB, ref [3]string) int64 {
	t.Helper()
	return number(t, db, fmt.Sprintf("SELECT count(*) FROM %s c LEFT JOIN %s p ON p.id = c.%s "+
		"WHERE c.%s IS NOT NULL AND p.id IS NULL", ref[0], ref[2], ref[1], ref[1]))
}
