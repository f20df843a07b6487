package leasetest

func versionCompared() clause {
	return clause{
		name: "another version is refused",
		why: "Swap compares the version as well as the owner, for equality: an owner extends its window many " +
			"times, and each swap must replace the very record that it was made from.",
		check: func(p *probe) {
			s := p.open()
			one := p.create(s, first(7, "one"))
			two := p.swap(s, one, following(one, "one"))
			three := p.swap(s, two, following(two, "one"))
			for _, version := range []int64{1, 2, 4, 5, 1 << 40} {
				prev := three
				prev.Version = version
				p.refuse(s, prev, following(prev, "one"), "the stored record has the version 3")
			}
		},
	}
}
