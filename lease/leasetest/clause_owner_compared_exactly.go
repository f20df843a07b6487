package leasetest

func ownerComparedExactly() clause {
	return clause{
		name: "owners are equal only byte by byte",
		why: "Case, accents and the way a letter is composed make a difference, as does every byte up to the " +
			"255th, and no character stands for others. In a database that takes a binary collation.",
		check: func(p *probe) {
			s := p.open()
			const tail = "host-0123456789-host-0123456789-host-0123456789-host-0123456789-host-0123456789-" +
				"host-0123456789-host-0123456789-host-0123456789-host-0123456789-host-0123456789-" +
				"host-0123456789-host-0123456789-host-0123456789-host-0123456789-host-0123456789-host-0123456789"
			long := tail[:254]
			for i, pair := range [][2]string{
				{"host", "Host"}, {"host", "hóst"}, {"straße", "strasse"}, {"\u00e9", "e\u0301"},
				{"ﬁ", "fi"}, {"１", "1"}, {"host", "h%"}, {"host", "h_st"}, {"host", "h*"}, {"host", "hos"},
				{"17", "017"}, {"1e1", "10"}, {"0x1", "1"}, {"東京", "大阪"}, {"🦊", "🐻"}, {long + "1", long + "2"},
			} {
				r := p.create(s, first(int64(i), pair[0]))
				prev := r
				prev.Owner = pair[1]
				p.refuse(s, prev, following(r, "two"), "the stored record has the owner \""+pair[0]+"\"")
			}
		},
	}
}
