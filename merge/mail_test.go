package merge_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// TestMailOfAnySizeIsMergedAndVerifiedInLittleMemory is not parallel: the heap is that of all tests.
// SNOWFLAKE_MAIL is the number of rows of each of two servers, 2,000,000 in "make mail".
func TestMailOfAnySizeIsMergedAndVerifiedInLittleMemory(t *testing.T) {
	nightly.Only(t, "it is about memory, and the tests of policies merge and verify mail in tier one")
	const limit = 128 << 20
	rows := 2_000
	if n, err := strconv.Atoi(os.Getenv("SNOWFLAKE_MAIL")); err == nil {
		rows = n
	}
	for _, target := range dbtest.Servers() {
		t.Run(target.Name, func(t *testing.T) {
			schema := []string{
				"CREATE TABLE mail (id BIGINT NOT NULL PRIMARY KEY, to_id BIGINT NOT NULL, title VARCHAR(60), " +
					"body VARCHAR(400), sent BIGINT)",
			}
			servers, _, plan := small(
				t,
				target,
				schema,
				map[string]*merge.TablePlan{"mail": {Policy: merge.Copy}},
				nil,
				nil,
			)
			for i, s := range servers {
				fillMail(t, s, i+1, rows)
			}
			before, most := inUse(), uint64(0)
			m := open(t, plan, merge.WithProgress(func(merge.Progress) {
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				most = max(most, stats.HeapAlloc-min(before, stats.HeapAlloc))
			}))
			report, err := m.Run(t.Context())
			if err != nil || report.Rows != int64(2*rows) {
				t.Fatalf("%+v, %v", report, err)
			}
			copying := most
			most = 0
			began := time.Now()
			verified(t, m)
			t.Logf(
				"%d rows a server: the run took %v and %d MB, verify %v and %d MB",
				rows,
				report.Took.Round(time.Millisecond),
				copying>>20,
				time.Since(began).Round(time.Millisecond),
				most>>20,
			)
			if copying > limit || most > limit {
				t.Errorf("the run took %d bytes and verify %d, more than %d", copying, most, limit)
			}
		})
	}
}

// fillMail makes the mails of a server.
func fillMail(t testing.TB, b base, server, rows int) {
	t.Helper()
	const batch = 1000
	for from := 0; from < rows; from += batch {
		var values []string
		for n := from; n < min(rows, from+batch); n++ {
			values = append(values, fmt.Sprintf("(%s, %d, 'Your reward %d', '%s', %d)", id(server, n), n%5000, n,
				strings.Repeat("words of the mail ", 1+n%10), n))
		}
		b.unchecked(t, "INSERT INTO mail VALUES "+strings.Join(values, ", "))
	}
}
