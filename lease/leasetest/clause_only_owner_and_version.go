package leasetest

import "time"

func onlyOwnerAndVersion() clause {
	return clause{
		name: "only the owner and the version are compared",
		why: "The other fields of prev are not compared: they may be missing, or have gone through another " +
			"precision or zone. Owner and version identify a record.",
		check: func(p *probe) {
			s := p.open()
			r := p.create(s, first(7, "one"))
			for _, until := range []time.Time{{}, r.Until.Add(time.Nanosecond), r.Until.AddDate(1, 0, 0)} {
				prev := r
				prev.Until, prev.UpdatedAt, prev.Layout = until, until, "another layout"
				r = p.swap(s, prev, following(r, "one"))
				p.holds(s, r)
			}
		},
	}
}
