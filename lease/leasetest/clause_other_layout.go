package leasetest

import (
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func otherLayout() clause {
	return clause{
		name: "a keeper of another layout is turned away",
		why: "IDs of two layouts may be equal although their nodes differ, so all that share a storage use one " +
			"layout. The records say which, and a keeper with another gets ErrLayoutMismatch and stores nothing.",
		check: func(p *probe) {
			s := p.open()
			p.keeper(s, lease.Span(long))
			before := p.list(s)
			for _, l := range []generator.Layout{generator.Twitter(), generator.Game()} {
				_, err := p.acquire(p.open(), l)
				if !errors.Is(err, lease.ErrLayoutMismatch) {
					p.failf("Acquire for layout %s, where %s is in use, returned the error %v, want ErrLayoutMismatch",
						l.Name, layout().Name, err)
				}
			}
			p.holds(s, before...)
		},
	}
}
