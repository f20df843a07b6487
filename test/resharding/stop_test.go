package resharding_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// longestStop is how long the writes to a shard may stop, however many rows it has.
const longestStop = 300 * time.Millisecond

// fewRows is so little that copying it takes no time.
const fewRows = 16_000

// fillShard gives the shard 1 so many orders by plain SQL. It returns the ID of one.
func (p *program) fillShard(plain *gorm.DB, rows int) snowflakeplugin.ID {
	p.Helper()
	one := p.onOne(p.create(8))
	const table = "split_orders_01"
	must(p.T, plain.Exec("DELETE FROM "+table+" WHERE id <> ?", one.ID).Error, "the other rows")
	for n := 1; n < rows; n += min(n, rows-n) {
		must(p.T, plain.Exec(fmt.Sprintf("INSERT INTO %s (id, name) SELECT id - %d, name FROM %[1]s ORDER BY id LIMIT %[3]d",
			table, 4*n, min(n, rows-n))).Error, "filling")
	}
	return one.ID
}

func TestTheStopOfWritesDoesNotGrowWithTheRows(t *testing.T) {
	nightly.Only(t, "millions of rows take minutes to copy; TestAShardIsSplitAndJoinedWhileOtherProcessesUseIt "+
		"splits a small shard")
	// One database after the other, so that none is measured while millions of rows are copied on another one.
	for _, target := range dbtest.Chosen(t.Name(), dbtest.Targets()) {
		target = mayMakeTriggers(target.Shared(t))
		few, many := time.Duration(0), time.Duration(0)
		for _, rows := range []int{fewRows, 200_000, 2_000_000, fewRows} {
			t.Run(fmt.Sprint(target.Name, " ", rows), func(t *testing.T) {
				dsn := target.DSN(t)
				db := target.OpenDSN(t, dsn, nil)
				mover := startRouter(t, db)
				id := mover.fillShard(db, rows)
				late := startRouter(t, target.OpenDSN(t, dsn, nil))
				over := make(chan struct{})
				var busy sync.WaitGroup
				var longest [2]time.Duration
				for i := range longest {
					busy.Go(func() {
						for {
							select {
							case <-over:
								return
							case <-time.After(2 * time.Millisecond): // SQLite is not fair to other writers.
							}
							since := time.Now()
							db, err := late.router.DB(t.Context(), &splitOrder{}, id)
							if err == nil {
								err = db.Where("id = ?", id).Update("name", fmt.Sprint("busy ", i)).Error
							}
							if err != nil {
								t.Errorf("a write: %v", err)
								return
							}
							longest[i] = max(longest[i], time.Since(since))
						}
					})
				}
				began := time.Now()
				stopped, err := resharding.Settings{Chunk: 5000}.Split(t.Context(), mover.router,
					resharding.Class{Residue: 1, Modulus: splitFrom}, 2)
				took := time.Since(began)
				close(over)
				busy.Wait()
				must(t, err, "Split")
				t.Logf("%d rows: the split took %v, writes stood still for %v, and one took %v at the most", rows,
					took.Round(time.Millisecond), stopped.Round(time.Millisecond), max(longest[0], longest[1]).Round(time.Millisecond))
				if rows == fewRows {
					few = max(few, stopped)
				} else {
					many = max(many, stopped)
				}
				n, err := mover.router.Count(t.Context(), &splitOrder{})
				must(t, err, "Count")
				same(t, "orders", n >= int64(rows), true)
			})
		}
		// A machine that is busy with other tests takes longer for the few rows, too.
		if limit := max(longestStop, 2*few); many > limit {
			t.Errorf("%s: writes stood still for %v, want %v at the most", target.Name, many, limit)
		}
	}
}
