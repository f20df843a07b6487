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
