package leasetest

import "github.com/snowflakeplugin/snowflakeplugin/lease"

func givenBack() clause {
	return clause{
		name: "a node that was given back is free from the last tick on",
		why: "Close ends the generator and moves the end of the record back to the end of the last tick that " +
			"was stamped. The next holder need not wait for the window, and stamps nothing earlier than that.",
		check: func(p *probe) {
			s := p.open()
			k := p.keeper(s, lease.Nodes(5, 5), lease.Span(long))
			g := p.generator(k)
			ids := make([]int64, 20_000) // a few ticks
			if err := g.Fill(p.ctx, ids); err != nil {
				p.failf("no IDs: %v", err)
			}
			last, err := layout().Decompose(ids[len(ids)-1])
			if err != nil {
				p.failf("%v", err)
			}
			if err := k.Close(p.ctx); err != nil {
				p.failf("Close: %v", err)
			}
			r := p.find(s, 5)
			if want := last.Time.Add(layout().Tick); r.Owner != "" || !r.Until.Equal(want) {
				p.failf("after Close the record has the owner %q and ends at %v, want none and %v",
					r.Owner, r.Until, want)
			}
			successor := p.keeper(p.open(), lease.Nodes(5, 5), lease.Span(long))
			if from := successor.Window().From; from.Before(r.Until) {
				p.failf("the next window begins at %v, before the end %v that Close has written", from, r.Until)
			}
			if id, _ := p.next(p.generator(successor)); id <= ids[len(ids)-1] {
				p.failf("the next holder's ID %d is not after the last one, %d", id, ids[len(ids)-1])
			}
		},
	}
}
