package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// What a store holds is lost, put back, or of another layout; and a process is there twice. Here
// the package documentation says what is not covered: these tests show how far it reaches.

// lossOf are the ways in which a store loses what it has acknowledged: a table that is emptied, a
// backup that is put back, a replica that takes over and lags behind.
func lossOf(s *site) map[string]func(old map[int64]lease.Record) {
	return map[string]func(old map[int64]lease.Record){
		"emptied":  func(map[int64]lease.Record) { s.restore(nil) },
		"put back": s.restore,
	}
}

// restore makes the records what they were.
func (s *table) restore(old map[int64]lease.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.records)
	for node, r := range old {
		s.records[node] = r
	}
}

// backup returns the records as they are.
func (s *table) backup() map[int64]lease.Record {
	old := map[int64]lease.Record{}
	for _, r := range s.all() {
		old[r.Node] = r
	}
	return old
}

// A process that held a number then finds out with its next extension, and has another one from
// then on.
func TestS15S32S36_AfterALossOfTheStoreNumbersAreSharedForAThirdOfASpanAtMost(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		for name, lose := range lossOf(s) {
			a := s.process("a")
			a.mustStart(t, lease.WithNodes(5, 6), lease.Random(alwaysFirst))
			had := a.node()
			time.Sleep(time.Second)
			old := s.backup()
			old[had] = heldBy("an older one", had, time.Now().Add(-time.Hour))
			lose(old)
			b := s.process("b")
			b.mustStart(t, lease.WithNodes(had, had))

			time.Sleep(span / 3)
			synctest.Wait()
			if a.node() == had || b.node() != had {
				t.Errorf("%s: a has node %d, b has node %d", name, a.node(), b.node())
			}
			for range 200 {
				_, _ = a.work(t, 50*time.Millisecond)
				_, _ = b.work(t, 50*time.Millisecond)
			}
			a.draw(t)
			b.draw(t)
			mustClose(t, a.k)
			mustClose(t, b.k)
			s.restore(nil)
			time.Sleep(span)
		}
	})
}

// What docs/leases.md tells operators to do makes it safe.
func TestS15S36_NothingIsRepeatedIfAllWaitForASpanAfterALoss(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		for name, lose := range lossOf(s) {
			old := s.backup()
			a := s.process("a", generator.WithMaxWait(time.Minute))
			a.mustStart(t, lease.WithNodes(5, 5))
			for range 5000 {
				a.draw(t)
			}
			a.k.Crash()
			lose(old)
			time.Sleep(span + lease.MaxSkew)
			b := s.process("b", generator.WithMaxWait(time.Minute))
			b.clock.Step(-lease.MaxSkew)
			b.mustStart(t, lease.WithNodes(5, 5))
			for range 5000 {
				b.draw(t)
			}
			if b.last <= a.last {
				t.Errorf("%s: %d follows %d", name, b.last, a.last)
			}
			mustClose(t, b.k)
		}
	})
}

// A holder whose store is gone stops by itself, so that nothing hangs on its being told.
func TestS36_WhoeverLostTheStoreStopsWithItsWindow(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a := s.process("a")
		a.mustStart(t, lease.WithNodes(5, 5))
		a.cut()
		until := a.k.Window().Until
		last, failed := a.work(t, 3*span)
		wantError(t, failed, generator.ErrOutsideWindow)
		if last.Time.After(until) || last.Time.Before(until.Add(-time.Second)) {
			t.Errorf("the last ID has the time %v, the window ended at %v", last.Time, until)
		}
	})
}

// A release moves the epoch, later or earlier, or makes room for more nodes.
func TestS23_AnotherLayoutOnTheSameStoreIsRefused(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		p := s.process("p")
		p.mustStart(t)
		p.draw(t)
		mustClose(t, p.k)
		later, earlier, wider, coarser := generator.Default(), generator.Default(), generator.Default(), generator.Default()
		later.Epoch = later.Epoch.Add(8 * time.Hour)
		earlier.Epoch = earlier.Epoch.Add(-8 * time.Hour)
		wider.Node, wider.SequenceBits = []generator.Field{{Name: "node", Bits: 12}}, 10
		coarser.Tick = 10 * time.Millisecond
		for _, l := range []generator.Layout{later, earlier, wider, coarser} {
			time.Sleep(time.Minute) // nobody has a number
			_, err := acquireFor(t.Context(), t, s, l)
			wantError(t, err, lease.ErrLayoutMismatch, lease.Fingerprint(l), lease.Fingerprint(generator.Default()))
		}
	})
}

// clone copies a process as a machine that is cloned does, with its clock and all it believes.
func (p *process) clone(t *testing.T) *process {
	t.Helper()
	synctest.Wait() // nothing is under way
	c := p.site.process("the clone of "+p.name, p.with...)
	c.clock.Set(p.clock.Now())
	c.last = p.last
	c.k = p.k.Clone(c.store())
	// The keeper reads its clock before anything else it does, so this store orders the copy before
	// that. The race detector does not learn it from the time that passes.
	p.clock.Step(0)
	t.Cleanup(func() { abandon(c.k) })
	c.g = newGenerator(t, c.k, c.with...)
	return c
}

func TestS35_AClonedProcessLosesTheNumberWithTheNextExtension(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a := s.process("a")
		a.mustStart(t)
		a.draw(t)
		b := a.clone(t)
		if a.node() != b.node() {
			t.Fatalf("nodes %d and %d: that is no clone", a.node(), b.node())
		}
		time.Sleep(span / 3)
		synctest.Wait()
		if a.node() == b.node() {
			t.Fatalf("both still have node %d", a.node())
		}
		for range 1000 {
			a.draw(t)
			b.draw(t)
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// As a snapshot does that is restored twice, long after it was made.
func TestS35_ClonesThatWakeAfterTheirWindowRepeatNothing(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a := s.process("a")
		a.mustStart(t)
		a.draw(t)
		b, c := a.clone(t), a.clone(t)
		all := []*process{a, b, c}
		for _, p := range all {
			p.pause()
		}
		time.Sleep(2 * span)
		for _, p := range all {
			_, err := p.tryDraw(t)
			wantError(t, err, generator.ErrOutsideWindow)
		}
		for _, p := range all {
			p.resume()
		}
		for range 1000 {
			for _, p := range all {
				_, _ = p.work(t, 5*time.Millisecond)
			}
		}
		for _, p := range all {
			p.draw(t)
		}
	})
}
