//go:build unix

package faults_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestAServerThatIsAwayEndsIDsWithTheWindowAndNothingElse(t *testing.T) {
	t.Parallel()
	eachPrivateServer(t, func(t *testing.T, f flavor) {
		s := newServer(t, f)
		base := order{
			Target: f.target, DSN: f.dsn(s.port), Hi: 3,
			Span: roundsSpan(), Pace: usualPace(), Patience: 3 * time.Second,
		}
		c := newCrew(t, base, 3, base.DSN)
		c.also = append(c.also, s)
		c.fill()
		c.everyone("has not begun")
		before := c.numbers()

		s.endWhile(f.quit, c.untilWindowsEnd) // it may take longer to stop than the windows last
		c.refused()
		late := c.hire() // there is nothing to begin with
		s.start()
		c.everyone("does not go on after the server was stopped and started")
		c.eventually("a worker that was started without a server does not begin", late.isReady)

		s.end(f.crash)
		s.start()
		c.everyone("does not go on after the server has crashed and was started")

		c.refusedAfter(func() { s.signal(syscall.SIGSTOP) })
		s.signal(syscall.SIGCONT)
		c.everyone("does not go on after the server was frozen")

		c.kept(before)
		sum := c.finish()
		c.complain(func(string, string) bool { return true })
		t.Logf("%s; %s", c.summary(), sum)
	})
}

// eachPrivateServer runs fn with each kind of server that can be stopped, and in tier one with the one that
// the name of the test chooses: to make the files of a server costs seconds.
func eachPrivateServer(t *testing.T, fn func(t *testing.T, f flavor)) {
	t.Helper()
	all := privateServers()
	var targets []dbtest.Target
	for _, f := range all {
		targets = append(targets, f.target)
	}
	chosen := dbtest.Chosen(t.Name(), targets)
	for _, f := range all {
		if !slices.Contains(chosen, f.target) {
			continue
		}
		t.Run(f.target.Name, func(t *testing.T) {
			t.Parallel()
			fn(t, f)
		})
	}
}

// everyone waits for rows of each worker.
func (c *crew) everyone(otherwise string) {
	c.t.Helper()
	const enough = 10
	living := c.living()
	before := make([]int, len(living))
	for i, p := range living {
		before[i] = p.acknowledged()
	}
	for i, p := range living {
		c.eventually(p.Name+" "+otherwise, func() bool { return p.acknowledged() >= before[i]+enough })
	}
}

// numbers are those of the living workers.
func (c *crew) numbers() map[*process]int64 {
	numbers := make(map[*process]int64)
	for _, p := range c.living() {
		numbers[p] = p.current()
	}
	return numbers
}

// kept fails the test if a worker has another number than it had before. None of them needs
// another one as long as nobody wants theirs.
func (c *crew) kept(before map[*process]int64) {
	c.t.Helper()
	for p, node := range before {
		if now := p.current(); now != node {
			c.t.Errorf("%s had node %d and has %d, though nobody else wanted it; it said:\n%s",
				p.Name, node, now, tail(p.stderr()))
		}
	}
}

// untilWindowsEnd asks every worker for IDs, beside its creates, until there are none, and checks
// that this is because of the window.
func (c *crew) untilWindowsEnd() {
	c.t.Helper()
	waiting := c.living()
	given := make(map[string]int)
	for asked := 0; len(waiting) > 0; asked++ {
		for _, p := range waiting {
			p.command(reportNext)
		}
		waiting = slices.DeleteFunc(waiting, func(p *process) bool {
			c.eventually(p.Name+" does not answer", func() bool {
				return look(p, func() bool { return len(p.answers) > asked })
			})
			r := look(p, func() report { return p.answers[asked] })
			if r.Error == "" {
				given[p.Name]++
				return false
			}
			// A generator may stamp a few ticks ahead of its clock, so meet the end that much earlier.
			const ahead = 20 * time.Millisecond
			if r.Until.Before(r.WindowEnd.Add(-ahead)) {
				c.t.Errorf("%s got no ID at %v, before its window ended at %v: %s",
					p.Name, r.Until, r.WindowEnd, r.Error)
			}
			checkWindowError(c.t, r.Class, r.Error)
			return true
		})
	}
	c.t.Logf("IDs made while the server was away, until the windows ended: %v", given)
}

// refused waits until creates of every worker fail because there are no IDs.
func (c *crew) refused() {
	c.t.Helper()
	c.refusedAfter(func() {})
}

// refusedAfter does something, and waits until creates of every worker fail because there are no
// IDs, with an error that says so, and why.
func (c *crew) refusedAfter(do func()) {
	c.t.Helper()
	living := c.living()
	before := make([]int, len(living))
	for i, p := range living {
		before[i], _ = p.failed(classWindow)
	}
	do()
	for i, p := range living {
		text := ""
		c.eventually("creates of "+p.Name+" do not fail for want of a window", func() bool {
			var n int
			n, text = p.failed(classWindow)
			return n > before[i]
		})
		checkWindowError(c.t, classWindow, text)
	}
}

// checkWindowError checks what an error says where a store does not answer and the window is over.
func checkWindowError(t *testing.T, class, text string) {
	t.Helper()
	if class != classWindow {
		t.Errorf("class %q, want %q: %s", class, classWindow, text)
	}
	for _, word := range []string{
		generator.ErrOutsideWindow.Error(), "no extension since", lease.ErrStore.Error(), "sqllease: table snowflake_nodes",
	} {
		if !strings.Contains(text, word) {
			t.Errorf("the error does not say %q: %s", word, text)
		}
	}
}
