package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func TestAcquireTakesANumberForASpan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		time.Sleep(123456789) // within a tick
		now := time.Now().UTC()
		k := acquire(t, s, lease.WithNodes(7, 7), lease.WithOwner("web"), j.option())
		wantWindow(t, k, 7, after(124*time.Millisecond), after(15123*time.Millisecond))
		r := s.of(t, 7)
		if r.Node != 7 || r.Version != 1 || r.Layout != lease.Fingerprint(generator.Default()) ||
			!r.Until.Equal(k.Window().Until) || !r.UpdatedAt.Equal(now) {
			t.Errorf("the record is %+v", r)
		}
		if k.Extensions() != 0 {
			t.Errorf("%d extensions so far", k.Extensions())
		}
		lines := j.want(t, "INFO node taken")
		lines[0].wantAttrs(t, map[string]string{
			"node": "7", "owner": r.Owner, "until": "2026-03-04 05:06:22.123 +0000 UTC",
		})
	})
}

func TestTheNextHolderBeginsWhereTheLastOneEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const seconds = time.Second
		for name, c := range map[string]struct {
			ended       time.Duration // the last window, by the store's clock
			local       time.Duration // the local clock, against that of the store
			from, until time.Duration
		}{
			"long ago":                       {ended: -time.Hour, from: 0, until: span},
			"right now":                      {ended: 0, from: 0, until: span},
			"long ago, with a slow clock":    {ended: -time.Hour, local: -4 * seconds, from: -4 * seconds, until: span},
			"lately, with a slow clock":      {ended: -1 * seconds, local: -4 * seconds, from: -1 * seconds, until: span},
			"long ago, with a fast clock":    {ended: -time.Hour, local: 4 * seconds, from: 0, until: span + 4*seconds},
			"within a tick, by another hand": {ended: -1, local: -4 * seconds, from: 0, until: span},
		} {
			s, clock := newTable(heldBy("somebody before", 3, after(c.ended))), new(wallClock)
			clock.Step(c.local)
			k := acquire(t, s, lease.WithNodes(3, 3), lease.WithClock(clock.Now))
			w := k.Window()
			wantTime(t, name+": the beginning", w.From, after(c.from))
			wantTime(t, name+": the end", w.Until, after(c.until))
			if r := s.of(t, 3); r.Version != 2 || !r.Until.Equal(w.Until) || r.Owner == "somebody before" {
				t.Errorf("%s: the record is %+v", name, r)
			}
			mustClose(t, k)
		}
	})
}

// Answered or not: what counts is what the store has.
func TestATakeWithoutAnAnswerCountsAsNotGrantedUnlessTheStoreHasIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		s.spoilWith(unanswered)
		k := acquire(t, s, lease.WithNodes(2, 2))
		wantWindow(t, k, 2, midLife(), after(span))
		s.spoilWith(nil)
		mustClose(t, k)

		s = newTable()
		s.spoilWith(dropped)
		_, err := tryAcquire(t, s, lease.WithNodes(2, 2))
		wantError(t, err, lease.ErrStore, "node 2 could not be taken")
		wantError(t, err, errDown)
		if records := s.all(); len(records) > 0 {
			t.Errorf("the store has %v", records)
		}
	})
}

// The swap of a process that gave up arrives: the number is taken until its window ends, by nobody.
func TestATakeThatLandsLateIsNobodys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var late func() bool
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if r.writes() {
				late = serve
				return false, errDown
			}
			return serve(), nil
		})
		_, err := tryAcquire(t, s, lease.WithNodes(2, 3), lease.Random(alwaysFirst))
		wantError(t, err, lease.ErrStore, "node 2 could not be taken")
		s.spoilWith(nil)
		if !late() {
			t.Fatal("the swap did not land")
		}
		k := acquire(t, s, lease.WithNodes(2, 3))
		wantWindow(t, k, 3, midLife(), after(span))
		_, err = tryAcquire(t, s, lease.WithNodes(2, 3))
		wantError(t, err, lease.ErrNoFreeNode)
		mustClose(t, k)
		time.Sleep(span)
		second := acquire(t, s, lease.WithNodes(2, 2))
		wantWindow(t, second, 2, after(span), after(2*span))
	})
}

func TestATakeWithoutAnAnswerFailsWhenTheStoreCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		errList := errors.New("cannot read")
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if r.kind == asksList && len(s.asked(asksSwap)) > 0 {
				return false, errList
			}
			done := serve()
			if r.writes() {
				return false, errDown
			}
			return done, nil
		})
		_, err := tryAcquire(t, s, lease.WithNodes(2, 2))
		wantError(t, err, lease.ErrStore, "node 2 could not be taken", "its records could not be read")
		wantError(t, err, errDown)
		wantError(t, err, errList)
	})
}

func TestAStoreThatFailsIsAnErrorThatSaysWhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for kind, want := range map[string]string{
			asksNow:  "lease: store failed: its clock could not be read: connection refused",
			asksList: "lease: store failed: its records could not be read: connection refused",
		} {
			s := newTable()
			s.spoilWith(func(ctx context.Context, r request, serve func() bool) (bool, error) {
				if r.kind == kind {
					return down(ctx, r, serve)
				}
				return serve(), nil
			})
			_, err := tryAcquire(t, s)
			wantError(t, err, lease.ErrStore)
			wantError(t, err, errDown)
			if err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
		}
	})
}

func TestAStoreThatDoesNotAnswerIsGivenUpAfterHalfAMinute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		s.spoilWith(silent)
		began := time.Now()
		_, err := tryAcquire(t, s)
		wantError(t, err, lease.ErrStore, "its clock could not be read")
		wantError(t, err, context.DeadlineExceeded)
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		errStopped := errors.New("the program is stopped")
		time.AfterFunc(time.Second, func() { cancel(errStopped) })
		_, err = acquireFor(ctx, t, s, generator.Default())
		wantError(t, err, lease.ErrStore)
		wantError(t, err, errStopped)
	})
}

func TestAStoreOfAnotherLayoutIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		for node := range int64(12) {
			r := freeSince(node, time.Hour)
			if node > 0 {
				r.Layout = lease.Fingerprint(generator.Twitter())
			}
			s.put(r)
		}
		_, err := tryAcquire(t, s, lease.WithNodes(500, 600)) // wherever the others are
		wantError(t, err, lease.ErrLayoutMismatch, fmt.Sprintf("lease: another layout in the store: this process has %q, "+
			"but nodes [1 2 3 4 5 6 7 8] and 3 more have %q: all that share a store use one layout; to change it, "+
			"use a new store (another table or prefix), with node numbers or times whose IDs cannot be equal to the old ones",
			lease.Fingerprint(generator.Default()), lease.Fingerprint(generator.Twitter())))
		s.wantAsked(t, asksNow, asksList)
	})
}

// Both find the store empty, and both write. Neither may go on beside the other.
func TestTwoLayoutsThatStartOnAnEmptyStoreDoNotBothGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var listed sync.WaitGroup
		listed.Add(2)
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if r.kind == asksSwap && r.prev.Version == 0 {
				listed.Done()
				listed.Wait() // until both have seen that there is nothing
			}
			return serve(), nil
		})
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i, l := range []generator.Layout{generator.Default(), generator.Twitter()} {
			wg.Go(func() { _, errs[i] = acquireFor(t.Context(), t, s, l, lease.WithNodes(int64(i), int64(i))) })
		}
		wg.Wait()
		if errs[0] == nil && errs[1] == nil {
			t.Fatal("both have a number")
		}
		for i, err := range errs {
			if err == nil {
				continue
			}
			wantError(t, err, lease.ErrLayoutMismatch)
			if r := s.of(t, int64(i)); r.Owner != "" || r.Version != 2 || r.Until.After(time.Now()) {
				t.Errorf("the number was not given back: %+v", r)
			}
		}
	})
}

func TestWhatCannotBeGivenBackAfterAMismatchIsSaidToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if r.kind == asksSwap && r.prev.Version == 1 {
				return false, errDown
			}
			done := serve()
			if r.kind == asksSwap {
				other := heldBy("a process", 9, after(time.Minute))
				other.Layout = lease.Fingerprint(generator.Twitter())
				s.put(other)
			}
			return done, nil
		})
		_, err := tryAcquire(t, s, lease.WithNodes(2, 2))
		wantError(t, err, lease.ErrLayoutMismatch, "nodes [9]")
		wantError(t, err, errDown)
	})
}

func TestARecordThatNoKeeperWroteIsNamedWithARemedy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		valid := heldBy("a process", 5, after(-time.Hour))
		for name, c := range map[string]struct {
			records []lease.Record
			wants   []string
		}{
			"a negative node": {
				[]lease.Record{{Node: -5, Version: 1, Layout: valid.Layout, Until: valid.Until}},
				[]string{"node -5 is negative", "correct the record or remove it when no process uses the number"},
			},
			"no version": {
				[]lease.Record{{Node: 5, Layout: valid.Layout, Until: valid.Until}},
				[]string{"of node 5: version 0, where 1 is the first", "correct the record"},
			},
			"no layout": {
				[]lease.Record{{Node: 5, Version: 1, Until: valid.Until}},
				[]string{"of node 5: it names no layout", "correct the record"},
			},
			"no end": {
				[]lease.Record{{Node: 5, Version: 1, Layout: valid.Layout}},
				[]string{"of node 5: it has no end (until)", "correct the record"},
			},
			"a node twice": {
				[]lease.Record{valid, valid},
				[]string{"node 5 has two records: remove the one of the lesser version"},
			},
			"a node beyond the layout": {
				[]lease.Record{valid, heldBy("a process", 1024, midLife())},
				[]string{"node 1024, where 1023 is the greatest of this layout: remove the record"},
			},
		} {
			s := newTable()
			s.besides(c.records)
			_, err := tryAcquire(t, s)
			if err == nil {
				t.Errorf("%s: no error", name)
				continue
			}
			wantError(t, err, lease.ErrInvalidRecord, c.wants...)
			s.wantAsked(t, asksNow, asksList)
		}
	})
}

func TestARecordThatTheStoreCannotUnderstandIsAnInvalidRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		s.spoilWith(func(_ context.Context, r request, serve func() bool) (bool, error) {
			if r.kind == asksList {
				return false, fmt.Errorf("%w of node 4: until is %q", lease.ErrInvalidRecord, "soon")
			}
			return serve(), nil
		})
		_, err := tryAcquire(t, s)
		wantError(t, err, lease.ErrInvalidRecord, `of node 4: until is "soon"`)
		wantError(t, err, lease.ErrStore)
	})
}

func TestARecordInTheFarFutureIsSaidOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		far := after(48*time.Hour + 5*time.Second)
		s := newTable(heldBy("a process", 3, far.Add(1)), heldBy("b", 4, far))
		var j journal
		var tried []int64
		s.spoilWith(refusing(20, &tried)) // so that it looks more than once
		acquire(t, s, j.option())
		lines := j.want(t, "WARN a node is taken for longer than any keeper grants", "INFO node taken")
		lines[0].wantAttrs(t, map[string]string{"node": "3", "owner": "a process"})
	})
}

func TestARecordHasToFollowTheOneThatItReplaces(t *testing.T) {
	t.Parallel()
	valid := heldBy("a process", 5, midLife())
	changed := func(change func(*lease.Record)) lease.Record {
		r := valid
		r.Version = 2
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		prev, next lease.Record
		want       string // empty: it is valid
	}{
		"the first":           {lease.Record{Node: 5}, valid, ""},
		"the first, shortly":  {lease.Record{}, valid, ""},
		"the second":          {valid, changed(func(*lease.Record) {}), ""},
		"of another node":     {valid, changed(func(r *lease.Record) { r.Node = 6 }), "a record of node 6 cannot replace one of node 5"},
		"a version skipped":   {valid, changed(func(r *lease.Record) { r.Version = 3 }), "version 3 cannot follow version 1"},
		"the same version":    {valid, valid, "version 1 cannot follow version 1"},
		"first, version two":  {lease.Record{Node: 5}, changed(func(*lease.Record) {}), "version 2 cannot follow version 0"},
		"a negative version":  {lease.Record{Node: 5, Version: -1}, changed(func(r *lease.Record) { r.Version = 0 }), "version 0, where 1"},
		"after a negative":    {lease.Record{Node: 5, Version: -1}, valid, "version 1 cannot follow version -1"},
		"a negative node":     {lease.Record{}, changed(func(r *lease.Record) { r.Node = -1 }), "negative"},
		"without a layout":    {valid, changed(func(r *lease.Record) { r.Layout = "" }), "layout"},
		"without an end":      {valid, changed(func(r *lease.Record) { r.Until = time.Time{} }), "no end"},
		"nobody's, not ended": {valid, changed(func(r *lease.Record) { r.Owner = "" }), ""},
	} {
		err := lease.CheckSwap(c.prev, c.next)
		switch {
		case c.want != "":
			wantError(t, err, lease.ErrInvalidRecord, c.want)
		case err != nil:
			t.Errorf("%s: %v", name, err)
		}
	}
}
