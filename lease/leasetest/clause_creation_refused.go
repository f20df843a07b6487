package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func creationRefused() clause {
	return clause{
		name: "a creation is refused where there is a record",
		why: "If prev.Version is 0, Swap returns false if the node has a record: whoever owns it, also if " +
			"it was given back, and whenever it ends. A record is replaced by its owner and version, " +
			"never by pretending that there is none.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			past := first(3, "")
			past.Until = past.Until.AddDate(-20, 0, 0)
			for _, r := range []lease.Record{first(1, "one"), first(2, ""), past} {
				p.create(s, r)
				for _, owner := range []string{"one", "two", ""} {
					prev := lease.Record{Node: r.Node, Owner: r.Owner, Until: r.Until, Layout: r.Layout}
					p.refuse(other, prev, first(r.Node, owner), "the node has a record")
				}
			}
		},
	}
}
