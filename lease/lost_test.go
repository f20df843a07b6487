package lease_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// losses are the ways in which a keeper can lose its number.
func losses() map[string]func(s *table, r lease.Record) {
	return map[string]func(s *table, r lease.Record){
		"its record is gone": func(s *table, r lease.Record) { s.remove(r.Node) },
		"its record belongs to somebody else": func(s *table, r lease.Record) {
			r.Owner, r.Version = "an operator", r.Version+1
			s.put(r)
		},
		"its record was changed by a copy of this process: was the machine cloned while it ran?": func(s *table, r lease.Record) {
			r.Version, r.Until = r.Version+1, r.Until.Add(time.Millisecond)
			s.put(r)
		},
		"its record is an older one: was a backup restored, or a standby promoted that lagged?": func(
			s *table, r lease.Record,
		) {
			r.Version, r.Until = r.Version-1, r.Until.Add(-time.Millisecond)
			s.put(r)
		},
	}
}

func TestAKeeperThatLostItsNumberTakesAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for reason, lose := range losses() {
			for _, swaps := range []string{"within", "plainly"} {
				s := newTable()
				var store lease.Store = s
				if swaps == "within" {
					store = quick{s}
				}
				var j journal
				k := acquire(t, store, lease.WithOwner("web"), j.option())
				g := newGenerator(t, k)
				node := k.Window().Node
				time.Sleep(span / 3) // it has extended its window, so that there is an older record
				before := s.of(t, node)
				ids := []int64{mustNext(t, g)}
				lose(s, before)
				for range 1000 {
					time.Sleep(10 * time.Millisecond)
					ids = append(ids, mustNext(t, g))
				}
				for i := 1; i < len(ids); i++ {
					if ids[i] <= ids[i-1] {
						t.Fatalf("%s: id %d is %d, not above the one before it, %d", reason, i, ids[i], ids[i-1])
					}
				}
				first, last := partsOf(t, ids[0]), partsOf(t, ids[len(ids)-1])
				now := k.Window().Node
				if first.Node != node || last.Node != now || now == node && reason != "its record is gone" {
					t.Errorf("%s: the first id is of node %d, the last of %d; the keeper had %d and has %d",
						reason, first.Node, last.Node, node, now)
				}
				after := s.of(t, now)
				if after.Owner == before.Owner {
					t.Errorf("%s: the owner is still %q", reason, after.Owner)
				}
				lines := j.want(t, "INFO node taken", "ERROR the node was lost; taking another, a restart is not needed", "WARN another node taken")
				lines[1].wantAttrs(t, map[string]string{"reason": reason, "node": fmt.Sprint(node), "owner": before.Owner})
				lines[2].wantAttrs(t, map[string]string{"node": fmt.Sprint(now), "owner": after.Owner})
				mustClose(t, k)
			}
		}
	})
}

// From then on it stamps nothing, even though its window has not ended.
func TestALostWindowIsDroppedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable(heldBy("web 1", 4, after(time.Hour)))
		var j journal
		k := acquire(t, quick{s}, lease.WithNodes(4, 5), j.option())
		g := newGenerator(t, k, generator.WithMaxWait(0))
		mustNext(t, g)
		s.put(heldBy("an operator", 5, after(time.Hour)))
		eventually(t, "that the window is dropped", span/3, func() bool { return k.Window().Until.IsZero() })
		if w := k.Window(); w.Node != 5 || !w.From.IsZero() {
			t.Errorf("the window is %+v", w)
		}
		_, err := g.Next(t.Context())
		wantError(t, err, generator.ErrOutsideWindow, "node 5")
		if n := k.Extensions(); n != 0 {
			t.Errorf("%d extensions, though the window only went away", n)
		}
		lines := j.want(t, "INFO node taken", "ERROR the node was lost; taking another, a restart is not needed", "ERROR no IDs until the store grants a window; a restart does not help")
		lines[2].wantAttrs(t, map[string]string{"until": ""})

		// It goes on trying, and whatever falls free first is its own.
		s.remove(4)
		eventually(t, "another number", span/3, func() bool { return k.Window().Node == 4 })
		mustNext(t, g)
		if n := k.Extensions(); n != 1 {
			t.Errorf("%d extensions, want 1: the window has moved", n)
		}
		lines = j.want(t, "INFO node taken", "ERROR the node was lost", "ERROR no IDs", "WARN another node taken",
			"INFO the window is extended again")
		lines[4].wantAttrs(t, map[string]string{"node": "4"})
	})
}

func TestTheOnlyNumberIsTriedForUntilItIsFreeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, s, lease.WithNodes(4, 4), j.option())
		g := newGenerator(t, k)
		last := mustNext(t, g)
		taken := time.Now()
		s.put(heldBy("an operator", 4, taken.Add(time.Minute)))
		time.Sleep(30 * time.Second)
		_, err := g.Next(t.Context())
		wantError(t, err, generator.ErrOutsideWindow)
		wantError(t, err, lease.ErrNodeHeld, `by "an operator"`, "no extension since ")
		time.Sleep(30*time.Second + span/3)
		wantWindow(t, k, 4, k.Window().From, s.of(t, 4).Until)
		if from := k.Window().From; from.Before(taken.Add(time.Minute)) {
			t.Errorf("the window begins at %v, within that of the operator", from)
		}
		if id := mustNext(t, g); id <= last {
			t.Errorf("%d follows %d", id, last)
		}
		j.want(t, "INFO node taken", "ERROR the node was lost", "ERROR no IDs", "WARN another node taken",
			"INFO the window is extended again")
	})
}

func TestAKeeperThatCannotSeeItsRecordKeepsItsWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, s, lease.WithNodes(4, 4))
		s.put(heldBy("an operator", 4, after(time.Hour)))
		s.spoilWith(func(ctx context.Context, r request, serve func() bool) (bool, error) {
			if r.kind == asksList {
				return down(ctx, r, serve)
			}
			return serve(), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), span/2)
		wantError(t, k.Extend(ctx), lease.ErrStore, "it refused the swap", "its records could not be read")
		cancel()
		wantWindow(t, k, 4, midLife(), after(span))
	})
}

// Nothing is stamped with a layout that is not the store's, for longer than the window lasts.
func TestAKeeperWhoseStoreWasChangedToAnotherLayoutSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, s, lease.WithNodes(4, 4), j.option())
		other := s.of(t, 4)
		other.Layout = lease.Fingerprint(generator.Twitter())
		other.Version++
		s.put(other)
		time.Sleep(span / 2)
		lines := j.want(t, "INFO node taken", "WARN the window cannot be extended; IDs go on until it ends")
		if lines[1].attrs["node"] != "4" || lines[1].attrs["error"] == "" {
			t.Errorf("the warning has %v", lines[1].attrs)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		wantError(t, k.Extend(ctx), lease.ErrLayoutMismatch, "nodes [4]")
		cancel()
		wantWindow(t, k, 4, midLife(), after(span))
	})
}

// The number that was lost may be had again, under another name and after the window of whoever
// has it.
func TestACopyTakesAnotherNameAndAnotherNumber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s}, lease.WithNodes(4, 5), lease.Random(alwaysFirst))
		eventually(t, "an extension", span/3, func() bool { return k.Extensions() == 1 })
		r := s.of(t, 4)
		r.Version, r.UpdatedAt = r.Version+1, r.UpdatedAt.Add(time.Second) // as its copy wrote it
		s.put(r)
		eventually(t, "another number", span/3, func() bool { return k.Window().Node == 5 })
		synctest.Wait()
		if s.of(t, 4) != r {
			t.Errorf("the copy's record is now %+v", s.of(t, 4))
		}
	})
}

// locks lets no swap of the record of a node come to an end, as a transaction that has locked it.
func locks(node int64) spoiler {
	return func(ctx context.Context, r request, serve func() bool) (bool, error) {
		if r.writes() && r.prev.Node == node {
			return silent(ctx, r, serve)
		}
		return serve(), nil
	}
}

func TestAKeeperTakesAnotherNumberIfTheRecordOfItsOwnIsLocked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, quick{s}, lease.WithNodes(4, 5), j.option())
		g := newGenerator(t, k, generator.WithMaxWait(span))
		first := k.Window()
		s.spoilWith(locks(first.Node))
		for last := mustNext(t, g); time.Now().Before(first.Until.Add(3 * span)); time.Sleep(100 * time.Millisecond) {
			id := mustNext(t, g)
			if id <= last {
				t.Fatalf("ID %d after %d", id, last)
			}
			last = id
		}
		if other := k.Window().Node; other == first.Node {
			t.Errorf("the keeper still has node %d", other)
		}
		j.want(t, "INFO node taken", "WARN the window cannot", "ERROR no IDs",
			"WARN the record of the node cannot be written", "INFO the window is extended again")
	})
}

// A store that answers reads and no writes grants no other number either. It must not be asked for one number after
// the other, because it may grant each of them too late.
func TestAKeeperAsksForAnotherNumberOnceInASpanAtMost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, quick{s}, lease.WithNodes(0, 99))
		own := k.Window().Node
		mustNext(t, newGenerator(t, k))
		s.spoilWith(func(ctx context.Context, r request, serve func() bool) (bool, error) {
			if r.writes() {
				return silent(ctx, r, serve)
			}
			return serve(), nil
		})
		time.Sleep(span)
		s.forget()
		time.Sleep(20 * span)
		others := 0
		for _, r := range s.asked() {
			if r.writes() && r.prev.Node != own {
				others++
			}
		}
		if others == 0 || others > 21 {
			t.Errorf("in 20 spans the keeper has asked for another number %d times", others)
		}
	})
}

// The clocks of some systems advance in steps of milliseconds, and those of machines that were restored from one
// snapshot are the same. A refused swap proves to one of them that the number is the other's, whatever it wrote.
func TestClonesThatExtendAtTheSameTimeDoNotBothKeepTheNumber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, store := range []lease.Store{quick{newTable()}, newTable()} {
			k := acquire(t, store, lease.WithNodes(4, 4))
			time.Sleep(10 * time.Millisecond)
			copied := k.Clone(store)
			t.Cleanup(func() { abandon(copied) })
			var both sync.WaitGroup
			for _, one := range []*lease.Keeper{k, copied} {
				both.Go(func() { _ = one.Extend(t.Context()) })
			}
			synctest.Wait()
			holders := 0
			for _, one := range []*lease.Keeper{k, copied} {
				if one.Window().Until.After(time.Now()) {
					holders++
				}
			}
			if holders != 1 {
				t.Errorf("%d processes have node 4", holders)
			}
		}
	})
}
