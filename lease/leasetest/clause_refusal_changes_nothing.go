package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func refusalChangesNothing() clause {
	return clause{
		name: "a refused swap changes nothing",
		why: "False means that next is not stored, not in part, and never will be: a keeper that was refused " +
			"goes on to the next number and forgets this one.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			one := p.create(s, first(1, "one"))
			two := p.swap(s, one, following(one, "two"))
			beside := p.create(s, first(2, "two"))
			unchanged := func(prev, next lease.Record) {
				p.t.Helper()
				if ok, err := s.Swap(p.ctx, prev, next); ok || err != nil {
					p.failf("%s returned %t, %v; want false and no error", describe(prev, next), ok, err)
				}
				p.holds(s, two, beside)
				p.holds(other, two, beside)
			}
			stranger := two
			stranger.Owner = "stranger"
			unchanged(lease.Record{Node: 1}, first(1, "three"))
			unchanged(stranger, following(two, "three"))
			unchanged(one, following(one, "three"))
			unchanged(following(two, "two"), following(following(two, "two"), "three"))
			unchanged(first(3, "one"), following(first(3, "one"), "three"))
		},
	}
}
