package merge_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
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
