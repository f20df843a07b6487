package lease_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func TestTheErrorWhenAllNumbersAreHeldSaysByWhomAndWhenTheFirstFallsFree(t *testing.T) {
	t.Parallel()
	err := &lease.NoFreeNodeError{
		Lo: 3, Hi: 5, Now: midLife(), Free: after(1500 * time.Millisecond),
		Holders: []lease.Record{
			heldBy("web 1", 4, after(1500*time.Millisecond)), heldBy("", 3, after(2*time.Second)),
			heldBy("web 2", 5, after(1000*time.Hour)),
		},
	}
	const want = `lease: no free node: all of 3 to 5 are held; the first falls free at 2026-03-04T05:06:08.5Z, in 1.5s, ` +
		`unless it is extended: 4 until 2026-03-04T05:06:08.5Z by "web 1"; ` +
		`3 until 2026-03-04T05:06:09Z by nobody (it was given back); ` +
		`5 until 2026-04-14T21:06:07Z by "web 2" (no keeper grants that far ahead: a clock was wrong, or the record was altered); ` +
		`wait, stop a process that does not need its number, allow more numbers, or use a layout with more node bits; ` +
		`"snowflake nodes list" shows all holders, and "snowflake nodes release NODE --force --until now" frees ` +
		`the number of one that is dead for certain`
	if err.Error() != want {
		t.Errorf("the error is\n%v\nwant\n%s", err, want)
	}
	if !errors.Is(err, lease.ErrNoFreeNode) {
		t.Error("it does not wrap ErrNoFreeNode")
	}
}

func TestTheErrorWhenTheOnlyNumberIsHeldSaysByWhom(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]*lease.NodeHeldError{
		`lease: node is held: node 4 until 2026-03-04T05:06:22Z, in 15s, by "web 1": ` +
			`two processes want the same number: stop one of them, or give it another number`: {
			Record: heldBy("web 1", 4, after(span)), Now: midLife(),
		},
		`lease: node is held: node 4 until 2026-03-06T05:06:12Z, in 48h0m5s, by "web 1": ` +
			`two processes want the same number: stop one of them, or give it another number`: {
			Record: heldBy("web 1", 4, after(48*time.Hour+lease.MaxSkew)), Now: midLife(),
		},
		`lease: node is held: node 4 until 2036-03-01T05:06:07Z, in 87600h0m0s, by "web 1": no keeper grants that far ahead, ` +
			`so a clock was wrong or the record was altered: use another number, or see "snowflake help nodes release"`: {
			Record: heldBy("web 1", 4, after(87600*time.Hour)), Now: midLife(),
		},
	} {
		if err.Error() != want {
			t.Errorf("the error is\n%v\nwant\n%s", err, want)
		}
		if !errors.Is(err, lease.ErrNodeHeld) {
			t.Error("it does not wrap ErrNodeHeld")
		}
	}
}

func TestWhenAllNumbersAreTakenNobodyGetsOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		for node := range int64(1024) {
			s.put(heldBy(fmt.Sprintf("process %d", node), node, after(time.Minute+time.Duration(node*7919%1024)*time.Second)))
		}
		_, err := tryAcquire(t, s)
		wantError(t, err, lease.ErrNoFreeNode, "all of 0 to 1023 are held; the first falls free at 2026-03-04T05:07:07Z, in 1m0s",
			`0 until 2026-03-04T05:07:07Z by "process 0"; `, "; and 1016 more; wait, stop a process")
		var none *lease.NoFreeNodeError
		if !errors.As(err, &none) {
			t.Fatalf("%T is no *NoFreeNodeError", err)
		}
		if none.Lo != 0 || none.Hi != 1023 || len(none.Holders) != 1024 || !none.Now.Equal(midLife()) {
			t.Errorf("%d holders of %d to %d at %v", len(none.Holders), none.Lo, none.Hi, none.Now)
		}
		for i, r := range none.Holders[1:] {
			if r.Until.Before(none.Holders[i].Until) {
				t.Fatalf("node %d ends before node %d and comes after it", r.Node, none.Holders[i].Node)
			}
		}
		wantTime(t, "the time when the first falls free", none.Free, after(time.Minute))
		s.wantAsked(t, asksNow, asksList)

		// And then it does.
		time.Sleep(time.Minute)
		if node := acquire(t, s).Window().Node; node != 0 {
			t.Errorf("node %d was taken", node)
		}
	})
}
