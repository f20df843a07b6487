package merge_test

import (
	"runtime"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// TestMemoryDoesNotGrowWithTheTable is not parallel: the heap is that of all tests.
func TestMemoryDoesNotGrowWithTheTable(t *testing.T) {
	const rows, times, chunk = 3_000, 10, 1_000
	for _, target := range dbtest.Servers() {
		t.Run(target.Name, func(t *testing.T) {
			few, many := peak(t, target, rows, chunk), peak(t, target, rows*times, chunk)
			t.Logf("%d kB for %d rows, %d kB for %d", few>>10, rows, many>>10, rows*times)
			if limit := 2*few + (2 << 20); many > limit {
				t.Errorf("%d rows took %d bytes and %d rows %d, more than %d", rows, few, rows*times, many, limit)
			}
		})
	}
}

// peak copies a table of one server through the program. It returns the most memory that was in use at the
// end of a chunk, above what was in use before: then the rows of the chunk are still there, and those of
// the next are on their way.
func peak(t *testing.T, target dbtest.Target, rows, chunk int) (most uint64) {
	t.Helper()
	source, into := newBase(t, target), emptyItems(t, target)
	source.exec(t, itemsTable()...)
	fillItems(t, source, 1, rows)
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
		Tables:  map[string]*merge.TablePlan{"items": {Policy: merge.Copy}},
		Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}},
		Target:  merge.Target{Name: "s1", Number: 1, DSN: into.dsn}}
	before, chunks := inUse(), 0
	m := open(t, plan, merge.WithPortableCopy(), merge.WithChunk(chunk), merge.WithFailpoint(func(point string) {
		if point == "written" {
			chunks++
			now := inUse()
			most = max(most, now-min(before, now))
		}
	}))
	report, err := m.Run(t.Context())
	if err != nil || report.Rows != int64(rows) || chunks < rows/chunk {
		t.Fatalf("%+v, %d chunks, %v", report, chunks, err)
	}
	return most
}

// inUse is the memory that is left when all garbage is gone.
func inUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
