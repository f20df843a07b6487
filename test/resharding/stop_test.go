package resharding_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// stopVariable is the number of rows for which TestHowLongWritesStop measures.
const stopVariable = "SNOWFLAKE_RESHARD_ROWS"

// The figures of docs/sharding-reference.md come from this test. It does not judge them, because the machine may be
// busy with other tests.
func TestHowLongWritesStop(t *testing.T) {
	rows, err := strconv.Atoi(os.Getenv(stopVariable))
	if err != nil {
		t.Skip("set " + stopVariable + " to a number of rows to measure how long a cutover and an undo stop writes")
	}
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		leased(t, db)
		d := &doubled{T: t, dbs: nil}
		d.dbs = append(d.dbs, db)
		d.router = d.open(doubledFrom)
		must(t, d.router.AutoMigrate(t.Context()), "AutoMigrate")
		for left := rows; left > 0; left -= min(left, 8000) {
			some := make([]doubledOrder, min(left, 8000))
			for i := range some {
				some[i] = doubledOrder{Name: "order", Total: float64(i) / 3, Raw: []byte{0, byte(i), 255}}
			}
			must(t, d.router.Create(t.Context(), some), "Create")
		}
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		must(t, resharding.Copy(t.Context()), "Copy")

		var err error
		took, stop := d.longestStop(func() { _, err = resharding.Cutover(t.Context()) })
		must(t, err, "Cutover")
		t.Logf("%s, %d rows: Cutover took %v, and the longest stop of writes was %v", target.Name, rows, took, stop)
		took, stop = d.longestStop(func() { err = resharding.Undo(t.Context()) })
		must(t, err, "Undo")
		t.Logf("%s, %d rows: Undo took %v, and the longest stop of writes was %v", target.Name, rows, took, stop)
	})
}

// longestStop measures how long a step takes, and the longest time that one of the writes took meanwhile.
func (d *doubled) longestStop(step func()) (took, longest time.Duration) {
	d.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			began := time.Now()
			for d.router.Create(d.Context(), &doubledOrder{Name: "meanwhile"}) != nil {
				time.Sleep(time.Millisecond)
			}
			longest = max(longest, time.Since(began))
		}
	}()
	began := time.Now()
	step()
	took = time.Since(began)
	close(stop)
	<-stopped
	return took.Round(time.Millisecond), longest.Round(time.Millisecond)
}
