package lease

import (
	"context"
	"fmt"
	"slices"
)

// maxSent is how many swaps without an answer a keeper remembers. One that is forgotten and lands
// after all costs the keeper its number, nothing else.
const maxSent = 64

// settle asks the store what the keeper has, and drops the number if that is nothing.
func (k *Keeper) settle(ctx context.Context) error {
	stored, found, err := k.find(ctx, k.record.Node)
	if err != nil {
		return err
	}
	if found && k.wrote(stored) {
		k.hold(k.extendedTo(stored))
		return nil
	}
	return k.lose(stored, found)
}

// wrote tells whether a record is the last one that the keeper wrote, or one that it sent without
// getting an answer. Then whatever end it has was granted to the keeper.
//
// The owner alone does not tell: a virtual machine that was cloned while it ran is two processes
// with one owner, and the record that the one writes is not the other's.
func (k *Keeper) wrote(stored Record) bool {
	return same(stored, k.record) || slices.ContainsFunc(k.sent, func(sent Record) bool {
		return same(stored, sent)
	})
}

// same compares what tells two swaps of one node apart.
func same(a, b Record) bool {
	return a.Node == b.Node && a.Version == b.Version && a.Owner == b.Owner && a.Layout == b.Layout &&
		a.Until.Equal(b.Until) && a.UpdatedAt.Equal(b.UpdatedAt)
}

// lose drops the number, whose record is gone or was written by somebody else.
func (k *Keeper) lose(stored Record, found bool) error {
	var reason string
	switch {
	case !found:
		reason = "its record is gone"
	case stored.Owner == k.owner:
		reason = "its record was changed by a copy of this process: was the machine cloned while it ran?"
	default:
		reason = "its record belongs to somebody else"
	}
	k.log.Error("lease: the node was lost; taking another, a restart is not needed", "reason", reason,
		"node", k.record.Node, "owner", k.owner, "holder", stored.Owner)
	k.tell(NodeLost, k.record.Node, fmt.Errorf("lease: the node was lost: %s", reason))
	k.drop()
	// A copy must not go on under the same name.
	owner, err := ownerOf(k.name, k.now())
	if err == nil {
		k.mu.Lock() // Status reads it
		k.owner = owner
		k.mu.Unlock()
	}
	return err
}
