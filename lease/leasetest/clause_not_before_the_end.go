package leasetest

import (
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func notBeforeTheEnd() clause {
	return clause{
		name: "the node of a holder that is gone is taken when its window has ended",
		why: "Nobody tells the store that a process has died. Its node falls free when the store's clock has " +
			"reached the end of the record, not earlier, and the window of the next holder begins there or later.",
		check: func(p *probe) {
			s := p.open()
			gone := first(5, "gone")
			gone.Until = p.now(s).Add(short).Truncate(time.Millisecond)
			p.create(s, gone)
			k := p.keeper(p.open(), lease.Nodes(5, 5), lease.Span(long))
			if now := p.now(s); now.Before(gone.Until) {
				p.failf("the node was taken, but the store's clock shows %v, and the window ends at %v",
					now, gone.Until)
			}
			w := k.Window()
			if w.From.Before(gone.Until) {
				p.failf("the window of the next holder begins at %v, that of the last ends at %v", w.From, gone.Until)
			}
			_, parts := p.next(p.generator(k))
			if parts.Node != 5 || parts.Time.Before(gone.Until) {
				p.failf("an ID has node %d and the time %v, want node 5 and %v or later",
					parts.Node, parts.Time, gone.Until)
			}
			if r := p.find(s, 5); r.Version < 2 || r.Owner == "gone" {
				p.failf("the record has not changed hands: %+v", r)
			}
		},
	}
}
