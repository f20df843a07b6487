package main

import (
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestTheExitStatusTellsWhatWasFound(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		dsn  string
		want int
		says string
	}{
		{"nobody listens", []string{"mariadb"}, "u:s3cret@tcp(127.0.0.1:1)/", exitAbsent, "does not answer"},
		{"no DSN", []string{"mariadb"}, "s3cret", exitUsage, "SNOWFLAKE_MARIADB_DSN"},
		{"no server named", nil, "", exitUsage, "usage"},
		{"two servers named", []string{"mariadb", "postgres"}, "", exitUsage, "usage"},
		{"an unknown server", []string{"oracle"}, "", exitUsage, "oracle"},
		{"an unknown flag", []string{"-now", "mariadb"}, "", exitUsage, "-now"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SNOWFLAKE_MARIADB_DSN", c.dsn)
			var said strings.Builder
			if got := run(t.Context(), c.args, &said); got != c.want {
				t.Errorf("exit status %d, want %d", got, c.want)
			}
			if !strings.Contains(said.String(), c.says) || strings.Contains(said.String(), "s3cret") {
				t.Errorf("it said %q", said.String())
			}
		})
	}
}

func TestARunningServerAnswersOrRefuses(t *testing.T) {
	for name, variable := range map[string]string{
		"mariadb": "SNOWFLAKE_MARIADB_DSN", "mysql": "SNOWFLAKE_MYSQL_DSN",
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := mysql.ParseDSN(dbtest.Named(name).DSN(t))
			if err != nil {
				t.Fatal("the mysql driver cannot parse the DSN")
			}
			t.Setenv(variable, cfg.FormatDSN())
			var said strings.Builder
			if got := run(t.Context(), []string{name}, &said); got != 0 {
				t.Errorf("exit status %d, want 0; it said %q", got, said.String())
			}
			cfg.DBName = "no_such_database"
			t.Setenv(variable, cfg.FormatDSN())
			if got := run(t.Context(), []string{"-wait", "1h", name}, &said); got != exitRefused {
				t.Errorf("with a database that does not exist: exit status %d, want %d", got, exitRefused)
			}
		})
	}
}

func TestTheVariableOfMySQLHasToLeadToMySQL(t *testing.T) {
	maria := dbtest.Named("mariadb")
	if maria.IsMySQL(t) {
		t.Skip("the server that stands for MariaDB is MySQL")
	}
	t.Setenv("SNOWFLAKE_MYSQL_DSN", maria.DSN(t))
	var said strings.Builder
	if got := run(t.Context(), []string{"-wait", "1h", "mysql"}, &said); got != exitUsage {
		t.Errorf("exit status %d, want %d", got, exitUsage)
	}
	for _, word := range []string{"MariaDB", "and not mysql", "SNOWFLAKE_MYSQL_DSN"} {
		if !strings.Contains(said.String(), word) {
			t.Errorf("it said %q, which lacks %q", said.String(), word)
		}
	}
}

func TestTheWaitIsKept(t *testing.T) {
	t.Setenv("SNOWFLAKE_MARIADB_DSN", "u@tcp(127.0.0.1:1)/")
	const wait = 600 * time.Millisecond
	start := time.Now()
	var said strings.Builder
	if got := run(t.Context(), []string{"-wait", wait.String(), "mariadb"}, &said); got != exitAbsent {
		t.Fatalf("exit status %d, want %d", got, exitAbsent)
	}
	if waited := time.Since(start); waited < wait/2 {
		t.Errorf("it gave up after %v", waited)
	}
}
