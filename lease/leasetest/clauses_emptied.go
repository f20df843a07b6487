package leasetest

import (
	"context"
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Emptier is an optional ability of a store that is tested: its records can be lost. A test gives it to the
// store with a type of its own, which embeds the store.
type Emptier interface {
	// Empty takes all records away without the store's help, as somebody does who drops its table, or a server
	// that evicts its key. What the store has noted elsewhere stays.
	Empty(ctx context.Context) error
}

func emptied() clause {
	return clause{
		name: "a store that has lost its records grants nothing",
		why: "Nothing tells which windows run when the records are gone, so a handle that has met them grants " +
			"no first record: Swap returns false. List returns an error that wraps " +
			"snowflakeplugin.ErrAuthority and says what to do, so keepers end their attempts with it.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			able, ok := s.(Emptier)
			if !ok {
				p.t.Skipf("the test of the store has no method Empty")
			}
			if s, identified := s.(lease.Identifier); identified {
				if _, err := s.Identity(p.ctx); err != nil {
					p.failf("Identity: %v", err)
				}
			}
			k := p.keeper(s, lease.WithNodes(5, 5), lease.WithSpan(short))
			p.list(other)
			held := p.find(s, 5)
			if err := able.Empty(p.ctx); err != nil {
				p.failf("the records could not be taken away: %v", err)
			}
			for _, s := range []lease.Store{other, s} {
				p.refuse(s, held, following(held, held.Owner), "the record is gone")
				p.grantsNothing(s)
			}
			p.eventually("the keeper went on as if its record was there", func() bool {
				return errors.Is(k.Status().Failure, errs.ErrAuthority)
			})
			p.grantsNothing(s)
		},
	}
}

// grantsNothing expects that a store has lost its records and says so.
func (p *probe) grantsNothing(s lease.Store) {
	p.t.Helper()
	for _, node := range []int64{5, 6} {
		p.refuse(s, lease.Record{Node: node}, first(node, "two"), "nothing tells who has the node")
		if s, able := s.(bounded); able {
			p.refuse(hasty{s}, lease.Record{Node: node}, first(node, "two"), "nothing tells who has the node")
		}
	}
	if records, err := s.List(p.ctx); !errors.Is(err, errs.ErrAuthority) {
		p.failf("List returned %+v and the error %v, want one that wraps ErrAuthority", records, err)
	}
	if k, err := p.acquire(s, layout(), lease.WithNodes(5, 6)); !errors.Is(err, errs.ErrAuthority) {
		p.failf("Acquire returned the error %v, want one that wraps ErrAuthority (a keeper: %t)", err, k != nil)
	}
}
