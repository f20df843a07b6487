package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/chaos/checker"
)

// A Gap is a time without IDs after the server was back, in a process to which nothing else had
// happened.
type Gap struct {
	Process string
	Away    time.Duration // how long the server did not answer before
	Lasted  time.Duration // the longest time without IDs from then on
}

// A Result is what has happened, and what the journals say of it.
type Result struct {
	Config
	Processes int // how many there were, one after the other included
	Counts    [kinds]int
	Verdict   checker.Verdict
	Gaps      []Gap // sorted, the longest last
}

const (
	// quiet is how long before the fall of the server a process must not have been disturbed, if it is
	// to tell how fast IDs come back.
	quiet = time.Second
	// watched is for how long after the return of the server its gaps are looked at.
	watched = 4 * time.Second
	// wanted is how long a process should be without IDs after the return of the server at most. A
	// longer time does not fail a run, since it may be the machine that was busy; one that is longer
	// than tolerated does. On a quiet machine the worst times were 0.04 to 0.18 s, and on one with fifteen
	// to twenty times as much work as processors 0.1 to 1.2 s.
	wanted    = 500 * time.Millisecond
	tolerated = 3 * time.Second
	// recent is how old the last ID of such a process may be when the server falls.
	recent = 500 * time.Millisecond
)

// String describes the result for people, in a few lines.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v with seed %d, %d workers, span %v\n", r.Store, r.Length, r.Seed, r.Workers, r.Span)
	fmt.Fprintf(&b, "  faults:")
	for k, n := range r.Counts {
		fmt.Fprintf(&b, " %d %v,", n, kind(k))
	}
	v := r.Verdict
	fmt.Fprintf(&b, " %d processes\n", r.Processes)
	fmt.Fprintf(&b, "  IDs: %d in %d ticks of %d nodes, which changed hands %d times\n",
		v.IDs, v.Ticks, v.Nodes, v.Takeovers)
	fmt.Fprintf(&b, "  ticks of a node used twice: %d\n  IDs made twice: %d\n", v.TicksTwice, v.IDsTwice)
	if n := len(r.Gaps); n > 0 {
		longest := r.Gaps[n-1]
		fmt.Fprintf(&b, "  longest time without IDs after the server was back: %v, where %v is wanted; "+
			"in %s after %v without a server (median %v of %d)\n",
			longest.Lasted.Round(time.Millisecond), wanted, longest.Process,
			longest.Away.Round(time.Millisecond), r.Gaps[n/2].Lasted.Round(time.Millisecond), n)
	}
	return b.String()
}

// least is how many IDs a run has to make.
func (r Result) least() int64 {
	return int64(r.Workers) * int64(r.Length/(100*time.Millisecond)) * usualIDs / 4
}

// ShowsSomething tells whether enough has happened to show anything. In a short run on a busy machine
// there may be too few IDs, or no number may change hands.
func (r Result) ShowsSomething() bool { return r.Verdict.IDs >= r.least() && r.Verdict.Takeovers > 0 }

// Check reports the result, and fails the test if an ID or a tick was used twice, if IDs came
// back too late, or if too little has happened to show anything.
func (r Result) Check(tb testing.TB) {
	tb.Helper()
	tb.Log(r)
	for _, fault := range r.Verdict.Faults {
		tb.Error(fault)
	}
	if !r.Verdict.OK() {
		tb.Errorf("%s: %d ticks of a node were used twice, %d IDs made twice, %d runs of IDs go back",
			r.Store, r.Verdict.TicksTwice, r.Verdict.IDsTwice, r.Verdict.BackSteps)
	}
	if !r.ShowsSomething() {
		tb.Errorf("%s: only %d IDs (at least %d) and %d takeovers: too little to show anything",
			r.Store, r.Verdict.IDs, r.least(), r.Verdict.Takeovers)
	}
	if n := len(r.Gaps); n > 0 && r.Length >= time.Minute && r.Gaps[n-1].Lasted > tolerated {
		tb.Errorf("%s: %s had no ID for %v after the server was back, where %v is wanted and %v tolerated",
			r.Store, r.Gaps[n-1].Process, r.Gaps[n-1].Lasted, wanted, tolerated)
	}
	for k, n := range r.Counts {
		if n == 0 && r.Length >= time.Minute && (r.Server != nil || kind(k) < cut) {
			tb.Errorf("%s: there were no %v", r.Store, kind(k))
		}
	}
}
