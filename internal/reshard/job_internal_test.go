package reshard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// While programs insert, change, delete and give rows other keys by SQL of their own, each kind of job loses no
// row, doubles none, and puts none where it is not looked for.
func TestNothingIsLostWhileOthersWrite(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{split, joined, moved, splitAway} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
				_, dbs := open(t, target.Privileged(), k)
				w := newWorld(t, k, dbs)
				w.fill(1000)
				stop := w.write(4)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				begun := time.Now()
				w.job.Progress = func(p Progress) { t.Logf("%v %+v", time.Since(begun), p) }
				stopped, err := w.job.Run(ctx)
				done, longest := stop()
				must(t, err, "Run")
				t.Logf("%d transactions; the lock took %v, the longest transaction %v", done, stopped, longest)
				w.check(true)
				must(t, w.job.Clean(t.Context()), "Clean")
				if w.has("_away") || w.has("snowflake_t1") {
					t.Errorf("after Clean there are %v", w.tables())
				}
				w.check(true)
			})
		})
	}
}

func TestAJobEndsThoughNoRoundOfABusyServerIsShort(t *testing.T) {
	t.Parallel()
	target := dbtest.Named("sqlite")
	_, dbs := open(t, target, split)
	w := newWorld(t, split, dbs)
	w.fill(300)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rounds := 0
	w.job.reached = func(s step) {
		switch s {
		case stepApplied:
			time.Sleep(shortRound + shortRound/10)
		case stepDrained:
			rounds++
			must(t, dbs[0].Exec(fmt.Sprintf("UPDATE %s SET name = name WHERE id IN (SELECT id FROM %[1]s LIMIT %d)",
				w.from[0].tables[0].Name, 2*fewKeys-1)).Error, "writes between two rounds")
		}
	}
	_, err := w.job.Run(ctx)
	must(t, err, fmt.Sprintf("Run after %d rounds", rounds))
	w.check(true)
}

// A server ends the statement of a program, and not LOCK TABLES, if both wait for each other. So the cutover must not
// hold what a statement takes last.
func TestNoStatementOfAProgramIsEndedForTheLockOfACutover(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
		dsns, dbs := open(t, target.Privileged(), split)
		w := newWorld(t, split, dbs)
		w.fill(10)
		program := target.OpenDSN(t, dsns[0], nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var own string
		must(t, program.Raw("SELECT DATABASE()").Scan(&own).Error, "the name of the database")
		write := "UPDATE " + w.from[0].tables[2].Name + " SET tag = 'changed' WHERE order_id = 1 AND tag <> 'second'"
		waits := func(statement string) bool {
			var all []struct{ DB, State, Info string } // Another way to ask MySQL fails while any statement has bytes that are no text.
			must(t, program.Raw("SHOW FULL PROCESSLIST").Scan(&all).Error, "the statements that wait")
			for _, one := range all {
				if one.DB == own && strings.HasPrefix(one.State, "Waiting for table") && strings.HasPrefix(one.Info, statement) {
					return true
				}
			}
			return false
		}
		var programs sync.WaitGroup
		w.job.reached = func(s step) {
			if s != stepClosed {
				return
			}
			first := program.Begin()
			must(t, first.Exec(write).Error, "a write")
			programs.Go(func() {
				for !waits("LOCK TABLES") && ctx.Err() == nil {
				}
				second := make(chan error, 1)
				go func() {
					second <- program.Transaction(func(tx *gorm.DB) error {
						var n int // The server tries a statement again by itself if it is the first one of a transaction.
						return errors.Join(tx.Raw("SELECT closed FROM test_map").Scan(&n).Error, tx.Exec(write).Error)
					})
				}()
				for waits("LOCK TABLES") && !waits("UPDATE") {
				}
				must(t, first.Commit().Error, "the first write")
				if err := <-second; err != nil && !dialect.Missing(err) {
					t.Errorf("the second write: %v", err)
				}
			})
		}
		w.job.Budget = 10 * time.Second // A busy machine may show the first tries too late.
		_, err := w.job.Run(ctx)
		cancel()
		programs.Wait()
		must(t, err, "Run")
	})
}
