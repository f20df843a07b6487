package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// A holder that is paused or cut off, and outlives its lease.

func TestS01_AProcessPausedPastItsWindowStampsNothingWhenItGoesOn(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a := s.process("a")
		a.mustStart(t, lease.WithNodes(5, 6), lease.Random(alwaysFirst))
		a.draw(t)
		a.pause()
		time.Sleep(5 * time.Minute)

		// While there are unused numbers nobody takes that of a.
		for range 10 {
			other := s.process("another")
			other.mustStart(t, lease.WithNodes(5, 1000))
			if other.node() == 6 {
				mustClose(t, other.k) // it is what a is to have later
			}
			if other.node() == a.node() {
				t.Fatalf("node %d was taken, though others were never used", a.node())
			}
		}
		b := s.process("b")
		b.mustStart(t, lease.WithNodes(5, 5))
		if from := b.k.Window().From; from.Before(a.k.Window().Until) {
			t.Errorf("the window of b begins at %v, that of a ends at %v", from, a.k.Window().Until)
		}
		_, _ = b.work(t, 100*time.Millisecond)

		// Before anybody told it anything, and without a request.
		s.forget()
		_, err := a.tryDraw(t)
		wantError(t, err, generator.ErrOutsideWindow)
		s.wantAsked(t)

		bs := s.of(t, 5)
		a.resume()
		if s.of(t, 5) != bs {
			t.Errorf("a has changed the record of b to %+v", s.of(t, 5))
		}
		for range 100 {
			_, _ = a.work(t, 10*time.Millisecond)
			_, _ = b.work(t, 10*time.Millisecond)
		}
		if a.node() != 6 || b.node() != 5 {
			t.Errorf("a has node %d and b node %d", a.node(), b.node())
		}
		a.draw(t)
	})
}

func TestS02_ANumberThatWasExtendedCannotBeStolen(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a := s.process("a")
		a.mustStart(t, lease.WithNodes(5, 5))
		a.draw(t)
		a.pause()
		time.Sleep(time.Minute)

		// b finds the number free. Before it takes it, a goes on and extends its window.
		b := s.process("b")
		b.beforeSwap(func(request) {
			b.mend()
			a.resume()
			eventually(t, "an extension", span/3, func() bool { return a.k.Extensions() == 1 })
		})
		err := b.start(t, lease.WithNodes(5, 5))
		wantError(t, err, lease.ErrNodeHeld, `by "a #`)
		_, _ = a.work(t, span)
		a.draw(t)
	})
}

// New names with every start, and nothing given back.
func TestS02_CrashesDoNotUseUpTheNumbers(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		for range 100 {
			p := s.process("p")
			p.startInTime(t, span+time.Second, lease.WithNodes(0, 7))
			p.draw(t)
			p.k.Crash()
		}
		if n := len(s.all()); n != 8 {
			t.Errorf("%d records", n)
		}
	})
}

func TestS07_AnExtensionOfAnothersNumberIsRefusedAndEndsTheTenure(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a, c := s.process("a"), s.process("c")
		a.mustStart(t, lease.WithNodes(5, 5))
		a.draw(t)
		a.pause()
		time.Sleep(70 * time.Minute)
		c.mustStart(t, lease.WithNodes(5, 5))
		a.resume()
		for range 4 {
			if _, err := a.work(t, span/4); err == nil {
				t.Error("a goes on with the number of c")
			}
			if _, err := c.work(t, span/4); err != nil {
				t.Error(err)
			}
		}
		if owner := s.of(t, 5).Owner; owner[:1] != "c" {
			t.Errorf("the number belongs to %q", owner)
		}
	})
}

// The one stops when its window ends, the other begins not before, to the millisecond.
func TestS07_APartitionedProcessStopsBeforeTheNextOneBegins(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a, c := s.process("a", generator.WithMaxAhead(0)), s.process("c")
		c.clock.Step(-4 * time.Second) // which makes no difference
		a.mustStart(t, lease.WithNodes(5, 5))
		_, _ = a.work(t, span)
		a.cut()
		until := a.k.Window().Until
		started := make(chan error)
		go func() { started <- c.start(t, lease.WithNodes(5, 5)) }()
		last, err := a.work(t, span)
		wantError(t, err, generator.ErrOutsideWindow)
		if last.Time.Before(until.Add(-5*time.Millisecond)) || !last.Time.Before(until) {
			t.Errorf("the last id of a is of %v, its window ends at %v", last.Time, until)
		}
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		if from := c.k.Window().From; from.Before(until) {
			t.Errorf("the window of c begins at %v, that of a ends at %v", from, until)
		}
		a.mend()
		for range 100 {
			_, _ = a.work(t, 50*time.Millisecond)
			_, _ = c.work(t, 50*time.Millisecond)
		}
		c.draw(t)
	})
}

// A pod that was deleted by force runs on where nobody sees it; its successor has the same ordinal.
func TestS13_TwoPodsOfOneOrdinalDoNotShareItsNumber(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		before := s.process("web-3")
		before.mustStart(t, lease.WithNodes(3, 3))
		after := s.process("web-3")
		// It can reach the store: the successor is told who has the number.
		err := after.start(t, lease.WithNodes(3, 3))
		wantError(t, err, lease.ErrNodeHeld, "node 3 until", `by "web-3 #`)
		_, _ = before.work(t, span)
		// It cannot: the successor waits for the end of its window.
		before.cut()
		until := before.k.Window().Until
		after.mustStart(t, lease.WithNodes(3, 3))
		if time.Now().Before(until) {
			t.Errorf("the successor has the number at %v, the window ends at %v", time.Now(), until)
		}
		_, _ = after.work(t, 100*time.Millisecond)
		_, err = before.work(t, 100*time.Millisecond)
		wantError(t, err, generator.ErrOutsideWindow)
	})
}

func TestS20_ARenewalAfterThePauseDoesNotExtendTheNextHolder(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a, b := s.process("a"), s.process("b")
		a.mustStart(t, lease.WithNodes(5, 5))
		// The renewal is under way when the pause begins: nothing of it is looked at again.
		a.pause()
		time.Sleep(span / 3)
		b.mustStart(t, lease.WithNodes(5, 5))
		bs := s.of(t, 5)
		a.resume()
		if s.of(t, 5) != bs {
			t.Errorf("the record of b is now %+v", s.of(t, 5))
		}
		mustClose(t, b.k)
		given := s.of(t, 5)
		mustClose(t, a.k)
		if s.of(t, 5) != given {
			t.Errorf("the record that b gave back is now %+v", s.of(t, 5))
		}
	})
}

// Both see that it is free.
func TestS20_OneNumberIsClaimedByOneOfMany(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		const many = 20
		seen := make(chan struct{}, many)
		all := make(chan struct{})
		results := make(chan error, many)
		for range many {
			p := s.process("p")
			p.beforeSwap(func(request) {
				seen <- struct{}{}
				<-all
			})
			go func() { results <- p.start(t, lease.WithNodes(5, 5), lease.WithSpan(5*time.Minute)) }()
		}
		for range many {
			<-seen
		}
		close(all)
		had := 0
		for range many {
			if err := <-results; err == nil {
				had++
			} else {
				wantError(t, err, lease.ErrNodeHeld)
			}
		}
		if had != 1 {
			t.Errorf("%d processes have the number", had)
		}
	})
}

// Nobody can tell it. Its window does.
func TestS24_AProcessWhoseRecordIsGoneStopsAtTheEndOfItsWindow(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a := s.process("a", generator.WithMaxWait(time.Millisecond))
		a.mustStart(t)
		_, _ = a.work(t, span)
		until := a.k.Window().Until
		a.cut()
		s.remove(a.node())
		last, err := a.work(t, 3*span)
		wantError(t, err, generator.ErrOutsideWindow, "no extension since ")
		if !last.Time.Before(until) {
			t.Errorf("the last id is of %v, the window ended at %v", last.Time, until)
		}
		a.mend()
		eventually(t, "an id", span, func() bool {
			_, err := a.tryDraw(t)
			return err == nil
		})
	})
}

func TestS24_ThereIsNoDefaultNumber(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		numbers := map[int64]bool{}
		for range 20 {
			p := s.process("p")
			p.mustStart(t)
			numbers[p.node()] = true
			p.draw(t)
		}
		if len(numbers) != 20 {
			t.Errorf("20 processes have %d numbers", len(numbers))
		}
	})
}

// As short a pause as there is: it ends with the window, and the next holder is there already.
func TestS29_AProcessThatWasNeverToldOfItsLossStampsNothing(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a := s.process("a", generator.WithMaxAhead(0))
		a.mustStart(t, lease.WithNodes(5, 5))
		a.draw(t)
		a.pause()
		time.Sleep(time.Until(a.k.Window().Until))
		b := s.process("b")
		b.mustStart(t, lease.WithNodes(5, 5))
		b.draw(t)
		_, err := a.tryDraw(t)
		wantError(t, err, generator.ErrOutsideWindow)
		synctest.Wait()
		_, _ = b.work(t, time.Second)
		_, err = a.tryDraw(t)
		wantError(t, err, generator.ErrOutsideWindow)
	})
}
