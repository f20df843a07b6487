package lease

import "time"

// Random makes the keeper's choices and pauses repeatable: random returns a number from 0 to n-1.
func Random(random func(n int64) int64) Option {
	return func(c *config) error {
		c.random = random
		return nil
	}
}

// Crash ends the keeper as the death of its process does: nothing is sealed and nothing given back.
func (k *Keeper) Crash() {
	k.stop()
	<-k.done
}

// SetUntil makes the keeper believe that its window ends at until, and returns when it did. It is
// for the store that the keeper is calling: nobody else may look at what the keeper holds.
func (k *Keeper) SetUntil(until func(from time.Time) time.Time) (before time.Time) {
	before = k.record.Until
	k.record.Until = until(k.begin)
	return before
}

// Clone returns a copy of a keeper, as there is one on a machine that was cloned while it ran. It
// has another way to the store. Nothing may be under way in the keeper.
func (k *Keeper) Clone(s Store) *Keeper {
	c := newKeeper(s, k.layout, k.config)
	c.holding, c.offset, c.owner, c.doubt = k.holding, k.offset, k.owner, k.doubt
	c.sent = append(c.sent, k.sent...)
	c.maxAhead.Store(k.maxAhead.Load())
	c.grants.Store(k.grants.Load())
	c.window.Store(k.window.Load())
	c.start()
	return c
}
