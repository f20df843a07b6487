package lease_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

var errContested = errors.New("orders 17 is there already")

func TestAContestedNumberIsLeftForAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, quick{s}, lease.WithNodes(4, 5), j.option())
		g := newGenerator(t, k)
		node := k.Window().Node
		ids := []int64{mustNext(t, g)}
		k.Contest(node, errContested)
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			ids = append(ids, mustNext(t, g))
		}
		for i := 1; i < len(ids); i++ {
			if ids[i] <= ids[i-1] {
				t.Fatalf("id %d is %d, not above the one before it, %d", i, ids[i], ids[i-1])
			}
		}
		other := k.Window().Node
		if last := partsOf(t, ids[len(ids)-1]); other == node || last.Node != other {
			t.Errorf("the keeper had %d and has %d, and the last id is of %d", node, other, last.Node)
		}
		if left := s.of(t, node); left.Owner == "" || left.Until.After(time.Now().Add(2*span)) {
			t.Errorf("the record of the number that was left is %+v", left)
		}
		lines := j.want(t, "INFO node taken", "ERROR the node is contested; another taken, a restart is not needed")
		lines[1].wantAttrs(t, map[string]string{
			"contested": fmt.Sprint(node), "node": fmt.Sprint(other), "reason": errContested.Error(),
		})
		mustClose(t, k)
	})
}

// A fleet that takes number after number from each other would end with none.
func TestANumberIsLeftAtMostOnceASpan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := acquire(t, quick{newTable()}, lease.WithNodes(0, 9))
		seen := map[int64]bool{}
		for range 30 {
			node := k.Window().Node
			seen[node] = true
			k.Contest(node, errContested)
			time.Sleep(span / 10)
		}
		if len(seen) < 2 || len(seen) > 4 {
			t.Errorf("within three spans the keeper had %d numbers", len(seen))
		}
	})
}

func TestAKeeperThatCanTakeNoOtherNumberGoesOn(t *testing.T) {
	for name, nodes := range map[string][2]int64{"the only one": {4, 4}, "the others are held": {4, 5}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				k := acquire(t, quick{newTable(heldBy("web 1", 5, after(time.Hour)))}, lease.WithNodes(nodes[0], nodes[1]))
				g := newGenerator(t, k)
				for range 10 {
					k.Contest(4, errContested)
					time.Sleep(span / 2)
					synctest.Wait()
					if id := partsOf(t, mustNext(t, g)); id.Node != 4 {
						t.Fatalf("an id is of node %d", id.Node)
					}
				}
			})
		})
	}
}

// The answer of a database may be old: it is about the number that the keeper had then.
func TestAContestOfAnotherNumberChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := acquire(t, quick{newTable()})
		node := k.Window().Node
		k.Contest(node+1, errContested)
		time.Sleep(time.Second)
		if now := k.Window().Node; now != node {
			t.Errorf("the keeper had %d and has %d", node, now)
		}
	})
}
