//go:build unix

package faults_test

import (
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestTwoProcessesCannotHaveOneFixedNumber(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, target dbtest.Target) {
		const number = 7
		base := order{
			Target: target, DSN: target.DSN(t), Lo: number, Hi: number, Fixed: true,
			Span: roundsSpan(), Pace: usualPace(), Patience: forever,
		}
		c := newCrew(t, base, 1, base.DSN)
		// A window so long that no machine is too slow to extend it: the second process is refused at once.
		c.base.Span = forever
		first := c.hire()
		c.progress()
		c.base.Span = base.Span

		second := c.try()
		c.eventually("the second process is not refused", func() bool { return !second.alive() })
		refused := look(second, func() []report { return second.refused })
		if len(refused) != 1 || refused[0].Class != classHeld {
			t.Fatalf("the second process was not refused because the number is held: %+v", refused)
		}
		for _, word := range []string{
			lease.ErrNodeHeld.Error(), fmt.Sprintf("node %d", number),
			ownerPrefix + first.Name + fmt.Sprintf(" pid %d", first.cmd.Process.Pid), "stop one of them",
		} {
			if !strings.Contains(refused[0].Error, word) {
				t.Errorf("the refusal does not say %q: %s", word, refused[0].Error)
			}
		}
		c.progress() // the first has not noticed

		first.end(t)
		if given := recordOf(t, c.db, number); given.Owner != "" {
			t.Errorf("the number was not given back: %+v", given)
		}
		third := c.hire()
		c.eventually("a number that was given back is not given to another", third.isReady)
		if log := third.stderr(); strings.Contains(log, "waiting") {
			t.Errorf("a number that was given back is not taken at once:\n%s", log)
		}
		c.progress(first, second)

		third.kill(t)
		left := recordOf(t, c.db, number)
		fourth := c.hire()
		c.eventually("the number of a process that was killed is not given to another", fourth.isReady)
		c.progress(first, second, third)
		taken := recordOf(t, c.db, number)
		if !strings.Contains(taken.Owner, fourth.Name) || taken.Version <= left.Version {
			t.Errorf("the record went from %+v to %+v, where %s has the number", left, taken, fourth.Name)
		}
		c.ledger.mu.Lock()
		for id, n := range c.ledger.rows {
			if stamped := partsOf(id).Time; n.worker() == fourth.Name && stamped.Before(left.Until) {
				t.Errorf("%s has stamped %v, before the window of the killed process ended at %v",
					fourth.Name, stamped, left.Until)
				break
			}
		}
		c.ledger.mu.Unlock()

		s := c.finish()
		c.complain(func(class, _ string) bool { return class == classHeld || class == classWindow })
		t.Logf("%s; %s", c.summary(), s)
	})
}

// try starts a worker that ends if it gets no number.
func (c *crew) try() *process {
	c.t.Helper()
	o := c.base
	o.Role, o.Name = roleOnce, fmt.Sprintf("w%03d", len(c.all)+1)
	p := start(c.t, o, c.ledger)
	c.all = append(c.all, p)
	return p
}

// records returns what the database of a handle says of the numbers.
func records(t *testing.T, db *gorm.DB) []lease.Record {
	t.Helper()
	var records []lease.Record
	patiently(t, func() error {
		store, err := gormlease.New(db)
		if err != nil {
			return err
		}
		defer store.Close()
		records, err = store.List(t.Context())
		return err
	})
	return records
}

func recordOf(t *testing.T, db *gorm.DB, node int64) lease.Record {
	t.Helper()
	for _, r := range records(t, db) {
		if r.Node == node {
			return r
		}
	}
	t.Fatalf("there is no record of node %d", node)
	return lease.Record{}
}
