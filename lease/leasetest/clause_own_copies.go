package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func ownCopies() clause {
	return clause{
		name: "what List returns belongs to the caller",
		why:  "Changing the slice that List has returned changes neither what is stored nor what others get.",
		check: func(p *probe) {
			s := p.open()
			one, two := p.create(s, first(1, "one")), p.create(s, first(2, "two"))
			records, err := s.List(p.ctx)
			if err != nil {
				p.failf("List: %v", err)
			}
			for i := range records {
				records[i] = lease.Record{Node: 99}
			}
			p.holds(s, one, two)
		},
	}
}
