package lease_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// A process that starts anew with the number of before, after the clock was set back or after the
// one before had run ahead of it; and one that gives its number back while it still works.

// Requests are still served while the process shuts down, and its successor waits for the number.
func TestS03_ANumberIsGivenBackAfterTheLastID(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		before, after := s.process("web", generator.WithMaxWait(time.Second)), s.process("web", generator.WithMaxWait(time.Second))
		before.mustStart(t, lease.WithNodes(5, 5))
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			for {
				if _, err := before.tryDraw(t); err != nil {
					if !errors.Is(err, generator.ErrSealed) {
						t.Errorf("draining: %v", err)
					}
					return
				}
				time.Sleep(100 * time.Microsecond)
			}
		}()
		time.AfterFunc(1500*time.Millisecond, func() { mustClose(t, before.k) })
		after.mustStart(t, lease.WithNodes(5, 5))
		<-drained
		mark := partsOf(t, before.last).Time.Add(time.Millisecond)
		if from := after.k.Window().From; from.Before(mark) {
			t.Errorf("the successor begins at %v, the mark is %v", from, mark)
		}
		if after.draw(t); after.last <= before.last {
			t.Errorf("%d follows %d", after.last, before.last)
		}
	})
}

// restart is what happens between the last ID of a process and the first of its successor.
type restart struct {
	crash time.Duration // so long after the last look at the store, at most
	step  time.Duration // of the clock
	down  time.Duration // how long nothing runs
}

// restarts combines all values around the length of a window and of its thirds, in tier one the sharpest of them.
func restarts(steps ...time.Duration) []restart {
	crashes := nightly.Pick([]time.Duration{0, span / 3, span},
		[]time.Duration{0, time.Millisecond, span/3 - 1, span / 3, span - time.Millisecond, span, span + time.Second})
	downs := nightly.Pick([]time.Duration{0, span - 1, 2 * span},
		[]time.Duration{0, time.Millisecond, 2 * time.Second, span - 1, span, 2 * span})
	var all []restart
	for _, crash := range crashes {
		for _, step := range steps {
			for _, down := range downs {
				all = append(all, restart{crash, step, down})
			}
		}
	}
	return all
}

// wantNothingRepeated restarts a process with one number, and fails unless the successor begins
// beyond all that was issued.
func (s *site) wantNothingRepeated(t *testing.T, r restart, wholeSite bool) {
	t.Helper()
	before := s.process("before")
	before.clock.Set(s.clock.Now())
	before.mustStart(t, lease.WithNodes(5, 5))
	before.cut() // so that the last extension is as long ago as is said
	_, _ = before.workEvery(t, 100*time.Millisecond, r.crash)
	_, _ = before.tryDraw(t) // up to the very end, if the window lasts so long
	if before.last == 0 {
		before.draw(t)
	}
	until := before.k.Window().Until
	before.mend()
	before.k.Crash()

	if wholeSite {
		s.clock.Step(r.step)
	}
	time.Sleep(r.down)
	after := s.process("after", generator.WithMaxWait(10*time.Second))
	after.clock.Set(before.clock.Now().Add(r.step))
	after.startInTime(t, 3*time.Minute, lease.WithNodes(5, 5))
	if from := after.k.Window().From; from.Before(until) {
		t.Errorf("%+v: the window begins at %v, that of before ended at %v", r, from, until)
	}
	if after.draw(t); after.last <= before.last {
		t.Errorf("%+v: %d follows %d", r, after.last, before.last)
	}
	mustClose(t, after.k)
}

// The machine's clock is set back by as much as is allowed, the store's is not.
func TestS09S12_ARestartAfterASmallStepBackRepeatsNothing(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		for _, r := range restarts(0, -time.Millisecond, -2500*time.Millisecond, -lease.MaxSkew+time.Millisecond) {
			s.wantNothingRepeated(t, r, false)
		}
	})
}

// The store is on the same machine: its clock is set back, too, by any amount.
func TestS12_ARestartAfterAStepBackOfAllClocksRepeatsNothing(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		for _, r := range restarts(-2500*time.Millisecond, -30*time.Second, -2*time.Minute) {
			s.wantNothingRepeated(t, r, true)
		}
	})
}

func TestS10_WithoutItsStoreAProcessDoesNotStart(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		p := s.process("p")
		p.mustStart(t, lease.WithNodes(5, 5))
		p.draw(t)
		p.k.Crash()
		s.spoilWith(down)
		wantError(t, p.start(t, lease.WithNodes(5, 5)), lease.ErrStore)
	})
}

// A burst has pushed the virtual clock ahead, and the next process starts while it is.
func TestS17_WhatWasBorrowedFromTheFutureIsNotIssuedAgain(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		const ahead = 300 * time.Millisecond
		for _, ending := range []string{"closed", "crashed"} {
			// Two numbers, so that the second process need not wait for the first.
			before := s.process("before", generator.WithMaxAhead(ahead))
			before.mustStart(t, lease.WithNodes(5, 5))
			if err := before.k.Extend(t.Context()); err != nil {
				t.Fatal(err) // as it does by itself some seconds later: with the lead on top
			}
			ids := make([]int64, 300*4096)
			if err := before.g.Fill(t.Context(), ids); err != nil {
				t.Fatal(err)
			}
			last := ids[len(ids)-1]
			if lead := before.g.Stats().Lead; lead < ahead-10*time.Millisecond {
				t.Fatalf("the burst is only %v ahead", lead)
			}
			time.Sleep(120 * time.Millisecond)
			if ending == "closed" {
				mustClose(t, before.k)
			} else {
				before.k.Crash()
			}
			after := s.process("after", generator.WithMaxWait(time.Minute))
			after.startInTime(t, 2*span, lease.WithNodes(5, 5))
			if after.draw(t); after.last <= last {
				t.Errorf("%s: %d follows %d", ending, after.last, last)
			}
			mustClose(t, after.k)
		}
	})
}

// The clock goes back while the process runs, which it does not mind; its successor would.
func TestS28_AStepBackThatWasRiddenOverIsNotForgottenByTheNextProcess(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		for _, all := range []bool{true, false} {
			const step = -10 * time.Second
			before := s.process("before", generator.WithMaxAhead(20*time.Second))
			before.clock.Set(s.clock.Now())
			before.mustStart(t, lease.WithNodes(5, 5))
			_, _ = before.work(t, 2*span)
			before.clock.Step(step)
			if all {
				s.clock.Step(step)
			}
			for range 100 {
				before.draw(t)
			}
			mustClose(t, before.k)
			time.Sleep(time.Second)

			after := s.process("after", generator.WithMaxWait(time.Minute))
			after.clock.Set(before.clock.Now())
			if !all {
				// The clocks differ by more than is allowed until somebody corrects the one.
				wantError(t, after.start(t, lease.WithNodes(5, 5)), lease.ErrClockSkew)
				after.clock.Step(-step)
			}
			after.startInTime(t, 2*span, lease.WithNodes(5, 5))
			if after.draw(t); after.last <= before.last {
				t.Errorf("%d follows %d", after.last, before.last)
			}
			mustClose(t, after.k)
		}
	})
}

// As S9, but the record outlives the process, whatever becomes of its connection.
func TestS29_ARestartWithAClockThatWasSetBackWaitsForTheOldWindow(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		for _, step := range []time.Duration{-time.Second, -4 * time.Second} {
			s.wantNothingRepeated(t, restart{crash: time.Second, step: step, down: time.Second}, true)
		}
	})
}

// Not a restart of one process but of all, one after the other, with every clock a little off.
func TestS12_AHundredRestartsOnWanderingClocksRepeatNothing(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		var last int64
		for i := range nightly.Pick(30, 100) {
			p := s.process(fmt.Sprint("p", i), generator.WithMaxWait(time.Minute))
			p.clock.Step(time.Duration(i*7919%9000-4500) * time.Millisecond)
			p.startInTime(t, 2*span, lease.WithNodes(5, 5))
			if p.draw(t); p.last <= last {
				t.Fatalf("%d follows %d", p.last, last)
			}
			_, _ = p.workEvery(t, 50*time.Millisecond, time.Duration(i*104729%20000)*time.Millisecond)
			last = p.last
			if i%2 == 0 {
				mustClose(t, p.k)
			} else {
				p.k.Crash()
			}
		}
	})
}
