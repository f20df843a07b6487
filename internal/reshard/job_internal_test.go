package reshard

import (
	"context"
	"fmt"
	"testing"
	"time"

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
