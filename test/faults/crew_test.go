//go:build unix

package faults_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A crew is the workers of one table, living and dead.
type crew struct {
	t      *testing.T
	base   order // what they have in common
	size   int   // how many there are at a time
	random *rand.Rand
	ledger *ledger
	db     *gorm.DB // for looking at the table; the plugin is not on it
	all    []*process
	also   []watched // what changes as long as there is hope, beside the workers
	dsns   []string  // of the workers, in turn; that of base if there are none
	done   bool      // the ledger was compared with the table
}

// newCrew makes the table. The test itself looks at it by dsn.
func newCrew(t *testing.T, base order, size int, dsn string) *crew {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &crew{
		t: t, base: base, size: size, ledger: newLedger(),
		random: rand.New(rand.NewPCG(seed, 0)),
		db:     base.Target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(2)),
	}
	if err := c.db.AutoMigrate(&entry{}); err != nil {
		t.Fatal(err)
	}
	// A test that does not come to its end may owe that to duplicates.
	t.Cleanup(func() {
		if !c.done {
			c.ledger.checkItself(t)
		}
	})
	return c
}

// hire starts one more worker.
func (c *crew) hire() *process {
	c.t.Helper()
	o := c.base
	o.Role = roleWorker
	o.Name = fmt.Sprintf("w%03d", len(c.all)+1)
	if len(c.dsns) > 0 {
		o.DSN = c.dsns[len(c.all)%len(c.dsns)]
	}
	p := start(c.t, o, c.ledger)
	c.all = append(c.all, p)
	return p
}

// fill hires as many as are missing.
func (c *crew) fill() {
	c.t.Helper()
	for len(c.living()) < c.size {
		c.hire()
	}
}

func (c *crew) living() []*process {
	return slices.DeleteFunc(slices.Clone(c.all), func(p *process) bool { return !p.alive() })
}

// holders are the living workers whose rows of a number were the last that were heard of.
func (c *crew) holders() []*process {
	return slices.DeleteFunc(c.living(), func(p *process) bool {
		node := p.current()
		return node < 0 || c.ledger.userOf(node) != p.Name
	})
}

// holder picks one of them.
func (c *crew) holder() *process {
	c.t.Helper()
	var found *process
	c.eventually("no worker has a number", func() bool {
		found = c.anyHolder()
		return found != nil
	})
	return found
}

// anyHolder picks one of them, or returns nil if there is none.
func (c *crew) anyHolder() *process {
	found := c.holders()
	if len(found) == 0 {
		return nil
	}
	return found[c.random.IntN(len(found))]
}

// taken tells whether somebody else uses the number that a worker has had.
func (c *crew) taken(node int64, from *process) bool { return c.ledger.userOf(node) != from.Name }

// progress waits for rows of workers other than those.
func (c *crew) progress(except ...*process) {
	c.t.Helper()
	const enough = 25
	count := func() (n int) {
		for _, p := range c.all {
			if !slices.Contains(except, p) {
				n += p.acknowledged()
			}
		}
		return n
	}
	before := count()
	c.eventually("the workers do not go on", func() bool { return count() >= before+enough })
}

// held makes a worker stop itself at a place and returns it, with what it said. A worker that loses its
// number may not come to the place, so another one is told then. A worker says so just before it stops, so a
// signal to go on that came before the stop would be lost; held waits for the stop itself.
func (c *crew) held(place string) (*process, report) {
	c.t.Helper()
	var p *process
	before := 0
	said := func() bool { return p != nil && look(p, func() bool { return len(p.holding) > before }) }
	c.eventually("no worker stops itself when it "+place, func() bool {
		if said() {
			return isStopped(p.cmd.Process.Pid)
		}
		if p != nil && slices.Contains(c.holders(), p) {
			return false
		}
		if p != nil && !c.release(p, before) {
			return false // it has stopped after all
		}
		if p = c.anyHolder(); p != nil {
			before = look(p, func() int { return len(p.holding) })
			p.command(place)
		}
		return false
	})
	return p, look(p, func() report { return p.holding[before] })
}

// release tells a worker not to stop itself any more. It returns false if it has done so before it heard
// that.
func (c *crew) release(p *process, before int) bool {
	c.t.Helper()
	released := look(p, func() int { return p.released })
	p.command(holdNowhere)
	stopped := false
	c.eventually(p.Name+" neither stops itself nor hears that it is not to", func() bool {
		return look(p, func() bool {
			stopped = len(p.holding) > before
			return stopped || p.released > released
		})
	})
	return !stopped
}

// thaw lets a stopped worker go on, and waits until it has said something of a create.
func (c *crew) thaw(p *process) {
	c.t.Helper()
	count := func() (n int) {
		for _, failures := range p.failedSoFar() {
			n += failures
		}
		return n + p.acknowledged()
	}
	before := count()
	p.signal(syscall.SIGCONT)
	c.eventually(p.Name+" is silent after it was stopped", func() bool { return count() > before })
}

// finish ends all workers in good order, and compares what they have acknowledged with the table.
func (c *crew) finish() tally {
	c.t.Helper()
	c.leave()
	return c.ledger.check(c.t, c.db)
}

// leave ends all workers in good order. The test compares the ledger afterwards.
func (c *crew) leave() {
	c.t.Helper()
	c.done = true
	living := c.living()
	for _, p := range living {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGTERM)
	}
	for _, p := range living {
		p.leave(c.t)
	}
}

// complain fails the test for every error that a worker has met and that allowed does not allow.
func (c *crew) complain(allowed func(class, text string) bool) {
	c.t.Helper()
	classes := make(map[string]int)
	for _, p := range c.all {
		for class, n := range p.failedSoFar() {
			classes[class] += n
			if _, text := p.failed(class); class == classConflict || !allowed(class, text) {
				c.t.Errorf("%s: %d creates failed with class %q, the last with: %s", p.Name, n, class, text)
			}
		}
		for _, r := range look(p, func() []report { return p.refused }) {
			classes["refused: "+r.Class]++
			if !allowed(r.Class, r.Error) {
				c.t.Errorf("%s was refused: %s", p.Name, r.Error)
			}
		}
	}
	c.t.Logf("errors by class: %v", classes)
}

// summary says how many workers there were and what became of them.
func (c *crew) summary() string {
	ends := make(map[string]int)
	for _, p := range c.all {
		if p.alive() {
			ends["alive"]++
		} else {
			ends[p.cmd.ProcessState.String()]++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d workers started (", len(c.all))
	for i, how := range slices.Sorted(maps.Keys(ends)) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d %s", ends[how], how)
	}
	return b.String() + ")"
}
