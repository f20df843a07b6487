package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func renewed() clause {
	return clause{
		name: "a keeper extends its window before it ends",
		why: "Three times in a span a keeper swaps its record for one that ends later. Each is a new version " +
			"of the same owner, and what the store holds never ends before the window that the generator sees.",
		check: func(p *probe) {
			s := p.open()
			k := p.keeper(p.open(), lease.Nodes(5, 9), lease.Span(short))
			begin := k.Window()
			taken := p.find(s, begin.Node)
			p.eventually("the window was not extended twice", func() bool {
				w := k.Window()
				if w.Node != begin.Node {
					p.failf("the keeper moved from node %d to %d", begin.Node, w.Node)
				}
				if r := p.find(s, begin.Node); r.Until.Before(w.Until) {
					p.failf("the window ends at %v, but its record at %v", w.Until, r.Until)
				}
				return k.Extensions() >= 2
			})
			r := p.find(s, begin.Node)
			if r.Owner != taken.Owner || r.Version < taken.Version+2 || !r.Until.After(begin.Until) {
				p.failf("two extensions made %+v from %+v", r, taken)
			}
		},
	}
}
