package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// The process of before has crashed: whoever wants its number waits for the end of its window.
func TestTheOnlyNumberIsWaitedForUntilItsLastWindowHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, left := range []time.Duration{1, time.Millisecond, 1500 * time.Millisecond, span, span + 10*time.Millisecond + lease.MaxSkew} {
			s := newTable()
			began := time.Now()
			until := began.Add(left)
			s.put(heldBy("web 1", 4, until))
			var j journal
			k := acquire(t, s, lease.WithNodes(4, 4), j.option())
			if took := time.Since(began); took != left {
				t.Errorf("a window that ended in %v was waited for for %v", left, took)
			}
			if from := k.Window().From; from.Before(until) {
				t.Errorf("the window begins at %v, and that of before ends at %v", from, until)
			}
			lines := j.want(t, "INFO waiting for the last window of the node to end", "INFO node taken")
			lines[0].wantAttrs(t, map[string]string{"node": "4", "owner": "web 1", "until": until.UTC().String()})
			mustClose(t, k)
		}
	})
}

func TestTheOnlyNumberIsHeldIfItsHolderExtendsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		first := acquire(t, s, lease.WithNodes(4, 4), lease.WithOwner("web 1"))
		began := time.Now()
		_, err := tryAcquire(t, s, lease.WithNodes(4, 4), j.option())
		wantError(t, err, lease.ErrNodeHeld, "node 4 until ", `by "web 1 #`, "two processes want the same number")
		var held *lease.NodeHeldError
		if !errors.As(err, &held) || held.Record != s.of(t, 4) {
			t.Errorf("the error is about %+v, the record is %+v", held, s.of(t, 4))
		}
		if took := time.Since(began); took > span/3+time.Second {
			t.Errorf("it took %v", took)
		}
		j.want(t, "INFO waiting for the last window of the node to end")
		if first.Extensions() == 0 {
			t.Error("the holder has not extended it")
		}
	})
}

// A rolling update: the old process gives the number back while the new one waits.
func TestTheOnlyNumberIsHadSoonAfterItIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		first := acquire(t, s, lease.WithNodes(4, 4))
		g := newGenerator(t, first)
		last := mustNext(t, g)
		time.AfterFunc(2500*time.Millisecond, func() { mustClose(t, first) })
		second := acquire(t, s, lease.WithNodes(4, 4))
		if took := time.Since(midLife()); took != 3*time.Second {
			t.Errorf("it took %v, want until the first look after the number was given back", took)
		}
		if id := mustNext(t, newGenerator(t, second)); id <= last {
			t.Errorf("%d follows %d", id, last)
		}
	})
}

func TestTheOnlyNumberGoesToSomebodyFasterOrToOneOfThoseWhoWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable(heldBy("web 1", 4, after(span)))
		results := make(chan error)
		for range 5 {
			go func() {
				_, err := tryAcquire(t, s, lease.WithNodes(4, 4))
				results <- err
			}()
		}
		had := 0
		for range 5 {
			if err := <-results; err == nil {
				had++
			} else {
				wantError(t, err, lease.ErrNodeHeld)
			}
		}
		if had != 1 {
			t.Errorf("%d of 5 have the number", had)
		}
	})
}

func TestAWindowThatIsTooLongToBeTheLastIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for left, want := range map[time.Duration]string{
			span + 10*time.Millisecond + lease.MaxSkew + 1: "two processes want the same number",
			1000 * time.Hour: "no keeper grants that far ahead",
		} {
			s := newTable(heldBy("web 1", 4, after(left)))
			_, err := tryAcquire(t, s, lease.WithNodes(4, 4))
			wantError(t, err, lease.ErrNodeHeld, want)
			if took := time.Since(midLife()); took > 0 {
				t.Errorf("%v of waiting for a window of %v", took, left)
			}
			if swaps := s.asked(asksSwap); len(swaps) > 0 {
				t.Errorf("%d swaps", len(swaps))
			}
		}
	})
}

func TestAWaitForANumberEndsWithTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable(heldBy("web 1", 4, after(span)))
		ctx, cancel := context.WithCancelCause(t.Context())
		errStopped := errors.New("the program is stopped")
		time.AfterFunc(2500*time.Millisecond, func() { cancel(errStopped) })
		_, err := acquireFor(ctx, t, s, generator.Default(), lease.WithNodes(4, 4))
		wantError(t, err, errStopped, "no number fell free in time")
		if took := time.Since(midLife()); took != 2500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// A number that was given back may belong to its last holder for some ticks yet, which its
// generator stamped ahead of the clock.
func TestANumberGivenBackAMomentAgoIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable(heldBy("web 1", 4, after(time.Minute)), heldBy("", 5, after(10*time.Millisecond)))
		k := acquire(t, s, lease.WithNodes(4, 5))
		wantWindow(t, k, 5, after(10*time.Millisecond), after(10*time.Millisecond+span))
		mustClose(t, k)
		for name, r := range map[string]lease.Record{
			"given back, but for later":            heldBy("", 5, time.Now().Add(10*time.Millisecond+1)),
			"about to end, but it may be extended": heldBy("web 2", 5, time.Now().Add(time.Millisecond)),
		} {
			_, err := tryAcquire(t, newTable(heldBy("web 1", 4, after(time.Minute)), r), lease.WithNodes(4, 5))
			if !errors.Is(err, lease.ErrNoFreeNode) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// The three processes of a service that may have two numbers: at once, or when one has ended.
func TestTheNumberOfAProcessThatDiedFallsFreeAfterASpan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		first, second := acquire(t, s, lease.WithNodes(0, 1)), acquire(t, s, lease.WithNodes(0, 1))
		g := newGenerator(t, first)
		last := mustNext(t, g)
		node := first.Window().Node
		first.Crash()
		ended := first.Window().Until
		for {
			k, err := tryAcquire(t, s, lease.WithNodes(0, 1))
			if err != nil {
				wantError(t, err, lease.ErrNoFreeNode)
				time.Sleep(100 * time.Millisecond)
				continue
			}
			if k.Window().Node != node || k.Window().Node == second.Window().Node {
				t.Errorf("node %d was taken, want %d", k.Window().Node, node)
			}
			if late := time.Since(ended); late < 0 || late > 100*time.Millisecond {
				t.Errorf("it was taken %v after its window had ended", late)
			}
			if id := mustNext(t, newGenerator(t, k)); id <= last {
				t.Errorf("%d follows %d", id, last)
			}
			return
		}
	})
}
