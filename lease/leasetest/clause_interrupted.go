package leasetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func interrupted() clause {
	return clause{
		name: "answers are true even where contexts end in the middle",
		why: "When a context ends during Swap, the swap may have been done, may be done later, or never; then " +
			"Swap returns an error. It returns true only for what is stored, and false only for what will " +
			"never be: with an error it must not guess.",
		check: func(p *probe) {
			const workers, each = 6, 25
			stores := p.handles(3)
			began := time.Now()
			r := p.create(stores[0], first(7, "one"))
			usual := time.Since(began)
			h := history{answers: make(map[string]bool), versions: map[int64]string{1: "one"}}
			p.together(workers, func(worker int) error {
				s := stores[worker%len(stores)]
				for i := range each {
					owner := fmt.Sprintf("worker %d, swap %d", worker, i)
					if err := h.swap(p.ctx, s, r.Node, owner, usual*time.Duration(i)*2/each); err != nil {
						return err
					}
				}
				return nil
			})
			if err := h.end(p.find(stores[0], r.Node)); err != nil {
				p.failf("%v", err)
			}
			// And it goes on as if nothing had happened.
			if _, err := p.increment(stores[0], r.Node, "last"); err != nil {
				p.failf("%v", err)
			}
		},
	}
}

// A history is what a store has said of one node. Each swap has an owner of its own.
type history struct {
	mu       sync.Mutex
	answers  map[string]bool  // by owner, of the swaps that were answered
	versions map[int64]string // the owner of each version that was seen or acknowledged
}

// swap replaces the record of a node, but gives up after a time.
func (h *history) swap(
	ctx context.Context, s lease.Store, node int64, owner string, timeout time.Duration,
) error {
	prev, err := find(ctx, s, node)
	if err != nil {
		return err
	}
	if err := h.see(prev); err != nil {
		return err
	}
	next := following(prev, owner)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ok, err := s.Swap(limited, prev, next)
	if err != nil {
		return nil // the context has ended, and nothing is known of the swap
	}
	h.mu.Lock()
	h.answers[owner] = ok
	h.mu.Unlock()
	if ok {
		return h.see(next)
	}
	return nil
}

// see adds a record that is or was stored, and returns an error if there is another of its version.
func (h *history) see(r lease.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if owner, seen := h.versions[r.Version]; seen && owner != r.Owner {
		return fmt.Errorf("version %d belongs to %q, but to %q as well", r.Version, owner, r.Owner)
	}
	h.versions[r.Version] = r.Owner
	return nil
}

// end says what cannot be true of the whole history, now that r is stored.
func (h *history) end(r lease.Record) error {
	if err := h.see(r); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for version, owner := range h.versions {
		if done, answered := h.answers[owner]; answered && !done {
			return fmt.Errorf("the swap to %q, version %d, returned false, but was stored", owner, version)
		}
		if version > r.Version {
			return fmt.Errorf("version %d of %q was stored, but now there is version %d", version, owner, r.Version)
		}
	}
	return nil
}
