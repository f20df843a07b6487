package leasetest

func layouts() clause {
	return clause{
		name: "layouts are kept as they are given",
		why: "A layout is what lease.Fingerprint returns. Each record has its own, and a swap may change it: " +
			"whether layouts agree is for keepers to judge.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			one, two := first(1, "one"), first(2, "two")
			// No fingerprint is longer.
			two.Layout = "epoch=2010-11-04T01:42:54.657000001Z tick=2562047h47m16.854775807s " +
				"time=63 node=62 sequence=62"
			p.create(s, one)
			p.create(s, two)
			p.holds(other, one, two)
			next := following(one, "one")
			next.Layout = "epoch=2016-11-01T00:00:00Z tick=100ms time=33 node=20 sequence=10"
			p.swap(other, one, next)
			p.holds(s, next, two)
		},
	}
}
