package merge_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A merge looks for a pooler, and holds its lock, with a second connection.
func TestAPoolThatHasOneConnectionIsNoHindrance(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, []string{"CREATE TABLE things (id BIGINT PRIMARY KEY)"},
			map[string]*merge.TablePlan{"things": {Policy: merge.Copy}}, []string{"INSERT INTO things VALUES (" + id(1, 1) + ")"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m, err := merge.Open(ctx, plan, merge.WithOpener(func(ctx context.Context, dsn string) (*sql.DB, error) {
			pool, err := opener(ctx, dsn)
			if err == nil {
				pool.SetMaxOpenConns(1)
			}
			return pool, err
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := m.Run(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// PgBouncer in transaction mode gives each transaction any of its sessions. A merge that sets one of them to only read
// would keep the game, whose transactions get it next, from writing.
func TestADatabaseBehindAPoolerIsRefusedAndItsProgramsGoOn(t *testing.T) {
	t.Parallel()
	target := dbtest.Named("postgres")
	schema := []string{"CREATE TABLE things (id BIGINT PRIMARY KEY)"}
	tables := map[string]*merge.TablePlan{"things": {Policy: merge.Copy}}
	for _, mode := range []string{"exec", "simple_protocol", "cache_statement"} {
		for _, behind := range []string{"a server", "the target"} {
			t.Run(mode+" "+behind, func(t *testing.T) {
				t.Parallel()
				_, _, plan := small(t, target, schema, tables, []string{"INSERT INTO things VALUES (" + id(1, 1) + ")"},
					[]string{"INSERT INTO things VALUES (" + id(2, 1) + ")"})
				dsn := &plan.Servers[0].DSN
				if behind == "the target" {
					dsn = &plan.Target.DSN
				}
				*dsn = dbtest.PgBouncer(t, *dsn, "transaction")
				game, err := sql.Open("pgx", *dsn+"&default_query_exec_mode=simple_protocol")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = game.Close() })
				*dsn += "&default_query_exec_mode=" + mode
				m, err := merge.Open(t.Context(), plan, merge.WithOpener(opener))
				if err == nil {
					_ = m.Close()
				}
				if !errors.Is(err, merge.ErrOpen) || !strings.Contains(err.Error(), "pooler") ||
					!strings.Contains(err.Error(), "name the server itself") {
					t.Errorf("the error is %v, want one that tells of the pooler", err)
				}
				for n := range 4 { // more than it has sessions
					if _, err := game.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO things VALUES (%d)", n)); err != nil {
						t.Errorf("the game cannot write any more: %v", err)
					}
					var security string
					if err := game.QueryRowContext(t.Context(), "SHOW row_security").Scan(&security); err != nil || security != "on" {
						t.Errorf("the game has row_security = %q, and the error %v", security, err)
					}
				}
			})
		}
	}
}
