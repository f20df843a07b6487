package leasetest

func ownerCompared() clause {
	return clause{
		name: "another owner is refused",
		why: "Swap compares the owner as well as the version. It is what keeps a tenure whose record was " +
			"removed and made anew, with versions from 1 again, from extending somebody else's.",
		check: func(p *probe) {
			s := p.open()
			r := p.create(s, first(7, "one"))
			for _, owner := range []string{"two", ""} {
				prev := r
				prev.Owner = owner
				p.refuse(s, prev, following(r, "two"), `the stored record has the owner "one"`)
			}
			r = p.swap(s, r, following(r, ""))
			prev := r
			prev.Owner = "one"
			p.refuse(s, prev, following(r, "one"), "the stored record has no owner")
		},
	}
}
