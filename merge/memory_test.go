package merge_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// TestMemoryDoesNotGrowWithTheTable is not parallel: the heap is that of all tests.
func TestMemoryDoesNotGrowWithTheTable(t *testing.T) {
	nightly.Only(t, "tables of 30,000 rows and the heap of the whole process are needed to show it")
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

// TestMemoryDoesNotGrowWithTheRows is not parallel: the heap is that of all tests.
func TestMemoryDoesNotGrowWithTheRows(t *testing.T) {
	nightly.Only(t, "48 MB of rows and the heap of the whole process are needed to show it")
	const doublings, kilobytes, limit = 12, 12, 32 << 20 // 4,096 rows, 48 MB
	for _, target := range dbtest.Servers() {
		t.Run(target.Name, func(t *testing.T) {
			body := map[string]string{"mysql": "LONGTEXT"}[target.Dialect]
			if body == "" {
				body = "TEXT"
			}
			schema := []string{"CREATE TABLE letters (id BIGINT NOT NULL PRIMARY KEY, body " + body + " NOT NULL)"}
			first := []string{"INSERT INTO letters VALUES (" + id(1, 1) + ", '" + strings.Repeat("0123456789abcdef", kilobytes<<6) + "')"}
			for n := range doublings { // the bits above the server and the sequence are the time
				first = append(first, fmt.Sprintf("INSERT INTO letters SELECT id + %d, body FROM letters", 1<<(30+n)))
			}
			_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"letters": {Policy: merge.Copy}}, first)
			before, most := inUse(), uint64(0)
			m := open(t, plan, merge.WithPortableCopy(), merge.WithFailpoint(func(point string) {
				if point == "written" {
					now := inUse()
					most = max(most, now-min(before, now))
				}
			}))
			report, err := m.Run(t.Context())
			if err != nil || report.Rows != 1<<doublings {
				t.Fatalf("%+v, %v", report, err)
			}
			t.Logf("%d kB", most>>10)
			if most > limit {
				t.Errorf("the run held %d bytes, more than %d", most, limit)
			}
			if n := into.number(t, "SELECT SUM(LENGTH(body)) FROM letters"); n != 1<<doublings*kilobytes<<10 {
				t.Errorf("%d letters arrived", n)
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
