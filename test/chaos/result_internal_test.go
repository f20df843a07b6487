package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/chaos/checker"
)

// An observer is told what a test of another package would be.
type observer struct {
	testing.TB
	errors []string
}

func (*observer) Helper()    {}
func (*observer) Log(...any) {}

func (o *observer) Error(args ...any) { o.errors = append(o.errors, fmt.Sprint(args...)) }

func (o *observer) Errorf(format string, args ...any) {
	o.errors = append(o.errors, fmt.Sprintf(format, args...))
}

func TestARunFailsForEachThingThatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Result)
		want   string // empty for a run that passes
	}{
		"nothing": {func(*Result) {}, ""},
		"IDs that came back late, but not too late": {
			func(r *Result) { r.Gaps = []Gap{{Process: "w1-1", Lasted: tolerated}} }, "",
		},
		"IDs that came back too late": {
			func(r *Result) { r.Gaps = []Gap{{}, {Process: "w2-1", Lasted: tolerated + 1}} }, "w2-1 had no ID for",
		},
		"IDs that came back too late in a run of seconds": {
			func(r *Result) {
				r.Length = time.Second
				r.Gaps = []Gap{{Process: "w1-1", Lasted: tolerated + 1}}
			}, "",
		},
		"an ID that was made twice": {func(r *Result) { r.Verdict.IDsTwice = 1 }, "1 IDs made twice"},
		"a tick that was used twice": {
			func(r *Result) { r.Verdict.TicksTwice = 1 }, "1 ticks of a node were used twice",
		},
		"IDs that go back":  {func(r *Result) { r.Verdict.BackSteps = 1 }, "1 runs of IDs go back"},
		"no number changed": {func(r *Result) { r.Verdict.Takeovers = 0 }, "too little to show anything"},
		"hardly any IDs":    {func(r *Result) { r.Verdict.IDs = 1 }, "too little to show anything"},
		"a fault that did not happen": {
			func(r *Result) { r.Counts[pause] = 0 }, fmt.Sprintf("there were no %v", pause),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Result{
				Config:  Config{Store: "a store", Workers: 1, Length: time.Minute},
				Verdict: checker.Verdict{IDs: 1_000_000, Takeovers: 1},
			}
			for k := range r.Counts {
				r.Counts[k] = 1
			}
			c.change(&r)
			seen := &observer{TB: t}
			r.Check(seen)
			got := strings.Join(seen.errors, "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("the run failed with %q, want %q", got, c.want)
			}
		})
	}
}
