package merge_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"runtime"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// Verify reads the target beside the sources, and still tells of all rows from the goroutine that called it.
func TestVerifyTellsOfEveryRowFromTheGoroutineOfItsCaller(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		sources, plan := itemServers(t, target, 3000)
		plan.Target = merge.Target{Name: "1", Number: 1, DSN: emptyItems(t, target).dsn}
		var last merge.Progress
		m := open(t, plan, merge.WithProgress(func(p merge.Progress) {
			if p.Phase != "verify" {
				return
			}
			last = p
			if stack := make([]byte, 64<<10); !strings.Contains(
				string(stack[:runtime.Stack(stack, false)]), ".(*Merge).Verify(") {
				t.Errorf("rows of %s are told of from another goroutine", p.Server)
			}
		}))
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, err := m.Verify(t.Context()); err != nil || !v.OK {
			t.Fatal(v, err)
		}
		if want := int64(2 * len(sources) * 3000); last.Done != want || last.Total != want {
			t.Errorf("%d of %d rows were told of, want %d", last.Done, last.Total, want)
		}
	})
}

// connector calls a function before each connection.
type connector struct {
	driver.Connector
	before func() error
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.before(); err != nil {
		return nil, err
	}
	return c.Connector.Connect(ctx)
}

// The target fails while it lets verify wait, and rows of a source are on their way.
func TestVerifyEndsTheSourcesWhenTheTargetFails(t *testing.T) {
	t.Parallel()
	// Only PostgreSQL lets a lock hold up a reader.
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		_, plan := itemServers(t, target, 100)
		into := emptyItems(t, target)
		plan.Target = merge.Target{Name: "1", Number: 1, DSN: into.dsn}
		verifying, ended := false, make(chan struct{})
		end := func() {
			defer close(ended)
			servers.Eventually(t, func() error {
				if into.number(t, "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity "+
					"WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
					return errors.New("nobody reads the target")
				}
				return nil
			})
		}
		var tx *gorm.DB
		lock := func() error {
			if !verifying {
				return nil
			}
			tx = into.Begin()
			go end()
			return tx.Exec("LOCK TABLE items IN ACCESS EXCLUSIVE MODE").Error
		}
		locking := func(ctx context.Context, dsn string) (*sql.DB, error) {
			pool, err := opener(ctx, dsn)
			if err != nil || dsn != plan.Servers[0].DSN { // what is no row of the target is read before
				return pool, err
			}
			c, err := pool.Driver().(driver.DriverContext).OpenConnector(dsn)
			locks := sql.OpenDB(connector{c, lock})
			locks.SetMaxIdleConns(-1) // so that verify opens one
			return locks, errors.Join(err, pool.Close())
		}
		m := open(t, plan, merge.WithOpener(locking))
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		verifying = true
		v, err := m.Verify(t.Context())
		if tx == nil {
			t.Fatalf("no source was opened: %v, %v", v, err)
		}
		defer func() { tx.Rollback() }()
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("verify: %v, %v", v, err)
		}
		<-ended
	})
}
