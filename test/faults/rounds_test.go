//go:build unix

package faults_test

import (
	"context"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

const (
	// roundsVariable says how many rounds there are.
	roundsVariable = "SNOWFLAKE_FAULT_ROUNDS"
)

// usualRounds is how many there are otherwise: one of each kind, and at night two.
func usualRounds() int { return nightly.Pick(7, 14) }

// roundsSpan leaves a window some time where a busy machine answers each statement late.
func roundsSpan() time.Duration { return nightly.Pick(1500*time.Millisecond, 3*time.Second) }

// usualPace keeps the load low: the tests are about faults.
func usualPace() time.Duration { return nightly.Pick(25*time.Millisecond, 4*time.Millisecond) }

func TestRoundsOfFaultsRepeatAndLoseNothing(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, target dbtest.Target) {
		base := order{
			Target: target, DSN: target.DSN(t), Hi: 3, Span: roundsSpan(), Pace: usualPace(), Patience: forever,
		}
		if target.Name == "sqlite" {
			// Its writers come one after the other. One that is stopped in a transaction holds the
			// lock on the file; the others are to hear of it, not to wait as long as it lasts.
			base.Pace = nightly.Pick[time.Duration](2, 6) * usualPace()
			base.DSN = sqliteBusy(t, base.DSN, base.Span/2)
		}
		c := newCrew(t, base, 6, base.DSN)
		c.fill()
		c.progress()
		n := rounds(t)
		counts := make(map[string]int)
		for i := range n {
			round, began := roundsInTurn[i%len(roundsInTurn)], time.Now()
			round.run(c)
			counts[round.name]++
			c.fill()
			c.progress()
			t.Logf("round %d, a worker %s: %v", i+1, round.name, time.Since(began).Round(time.Millisecond))
		}
		s := c.finish()
		c.complain(func(class, text string) bool {
			locked := target.Name == "sqlite" && strings.Contains(text, "locked")
			return class == classWindow || class == classNoFree || locked || late(class, text)
		})
		t.Logf("%d rounds %v: %s; %s", n, counts, c.summary(), s)
		if s.takeovers < n/2 {
			t.Errorf("%d takeovers in %d rounds: too few to show anything", s.takeovers, n)
		}
	})
}

// late tells whether the store has answered too late to be of use, or had no connection for the worker because
// another run has them all. That is the machine's doing, and the worker tries again.
func late(class, text string) bool {
	const tooMany = "SQLSTATE 53300"
	return strings.Contains(text, tooMany) || class == classStore &&
		(strings.Contains(text, context.DeadlineExceeded.Error()) || strings.Contains(text, "its clock could not be compared"))
}

// roundsInTurn is what happens to the workers while the others go on.
var roundsInTurn = []struct {
	name string
	run  func(c *crew)
}{
	{"is killed", func(c *crew) {
		p := c.holder()
		node := p.current()
		p.kill(c.t)
		c.fill()
		c.handedOver(node, p)
	}},
	{"is stopped", func(c *crew) {
		p := c.holder()
		node := p.current()
		p.signal(syscall.SIGSTOP)
		c.outlast(node, p)
		c.thaw(p)
	}},
	{"is ended", func(c *crew) {
		p := c.holder()
		node := p.current()
		p.end(c.t)
		c.fill()
		c.handedOver(node, p)
	}},
	{"is stopped with an ID in its hand", func(c *crew) {
		p, held := c.held(holdFilled)
		c.outlast(nodeOf(held.IDs[0]), p)
		c.thaw(p)
		// Whatever has become of the number, this ID is this row's.
		id, row := held.IDs[0], note{held.Lane, held.Count[0]}
		c.eventually("nothing was heard of the row that had its ID before the stop", func() bool {
			return c.ledger.has(id) || p.failureOf(row) != nil
		})
		// In SQLite the lock on the file can keep the row out for as long as the connection waits.
		if r := p.failureOf(row); r != nil && c.base.Target.Name != "sqlite" {
			c.t.Errorf("the row that had the ID %d before the stop was not created: %s", id, r.Error)
		}
	}},
	{"is stopped in a transaction", func(c *crew) {
		p, held := c.held(holdOpen)
		c.outlast(nodeOf(held.IDs[0]), p)
		c.thaw(p)
	}},
	{"is killed in a transaction", func(c *crew) {
		p, held := c.held(holdOpen)
		p.kill(c.t)
		c.fill()
		c.handedOver(nodeOf(held.IDs[0]), p)
	}},
	{"is stopped, others killed and ended", func(c *crew) {
		stopped := c.holder()
		stopped.signal(syscall.SIGSTOP)
		var dead []*process
		for _, p := range c.living() {
			if p != stopped && len(dead) < 2 {
				p.kill(c.t)
				dead = append(dead, p)
			}
		}
		ended := c.living()
		c.fill()
		for _, p := range ended {
			if p != stopped {
				p.signal(syscall.SIGTERM)
				break
			}
		}
		c.outlast(stopped.current(), stopped)
		c.thaw(stopped)
	}},
}

// handedOver waits until somebody else uses the number of a worker that has ended.
func (c *crew) handedOver(node int64, from *process) {
	c.t.Helper()
	c.eventually("nobody takes the number "+strconv.FormatInt(node, 10)+" of "+from.Name, func() bool {
		return c.taken(node, from)
	})
}

// outlast waits until somebody else uses the number of a worker that is stopped. In SQLite it may
// hold the lock on the file; then nobody can, so the wait is for as long as its window can last.
func (c *crew) outlast(node int64, stopped *process) {
	c.t.Helper()
	if c.base.Target.Name != "sqlite" {
		c.handedOver(node, stopped)
		c.progress(stopped)
		return
	}
	within(c.base.Span*2, func() bool { return c.taken(node, stopped) })
}

// eachDatabase runs fn on one target of each kind of database. How GORM reads the rows back, which
// is what the fourth target is about, makes no difference here.
func eachDatabase(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	dbtest.EachServer(t, fn)
}

// rounds is how many rounds to run.
func rounds(t *testing.T) int {
	t.Helper()
	if text := os.Getenv(roundsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s: %q is no number of rounds", roundsVariable, text)
		}
		return n
	}
	return usualRounds()
}

// sqliteBusy sets how long a connection waits for the lock.
func sqliteBusy(t *testing.T, dsn string, d time.Duration) string {
	t.Helper()
	file, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := file.Query()
	query.Set("_busy_timeout", strconv.FormatInt(d.Milliseconds(), 10))
	file.RawQuery = query.Encode()
	return file.String()
}
