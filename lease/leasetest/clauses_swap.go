package leasetest

import (
	"errors"
	"math"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func clausesOfSwaps() []clause {
	return []clause{
		{
			name: "a record is created where there is none",
			why: "If prev.Version is 0, Swap stores next as the first record of next.Node and returns " +
				"true. The other fields of prev are then ignored, and prev may be the zero Record.",
			check: func(p *probe) {
				s := p.open()
				one, two := first(7, "one"), first(8, "two")
				p.swap(s, lease.Record{}, one)
				p.holds(s, one)
				p.swap(s, lease.Record{Node: 8, Owner: "somebody else", Layout: "another"}, two)
				p.holds(s, one, two)
			},
		},
		{
			name: "a creation is refused where there is a record",
			why: "If prev.Version is 0, Swap returns false if the node has a record. The owner of the " +
				"record, its end, and whether it was given back do not matter. A record is replaced only " +
				"by its owner and version, never by a creation.",
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
		},
		{
			name: "a swap replaces the record",
			why: "If the stored record has the owner and the version of prev, Swap replaces it with all " +
				"fields of next and returns true. The old record is gone.",
			check: func(p *probe) {
				s := p.open()
				r := p.create(s, first(7, "one"))
				for _, owner := range []string{"one", "one", "two", "one", "three"} {
					r = p.swap(s, r, following(r, owner))
					p.holds(s, r)
				}
			},
		},
		{
			name: "another owner is refused",
			why: "Swap compares the owner and the version. If a record was removed and created again, its " +
				"versions start at 1 again. The comparison of the owner then prevents the old holder from " +
				"extending the record of another owner.",
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
		},
		{
			name: "owners are equal only byte by byte",
			why: "Case, accents and the composition of a letter make a difference, as does every byte up " +
				"to the 255th. There are no wildcards. In a database this requires a binary collation.",
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
		},
		{
			name: "another version is refused",
			why: "Swap compares the owner and the version, and both must be equal. An owner extends its window " +
				"many times, and each swap must replace exactly the record that it was derived from.",
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
		},
		{
			name: "a record that is not there is not replaced",
			why: "If prev.Version is not 0 and the node has no record, Swap returns false and creates no " +
				"record. An upsert would restore a record that an operator has removed.",
			check: func(p *probe) {
				s := p.open()
				there := p.create(s, first(8, "one"))
				for _, owner := range []string{"one", ""} {
					prev := first(7, owner)
					p.refuse(s, prev, following(prev, "one"), "the node has no record")
					prev.Version = 5
					p.refuse(s, prev, following(prev, "one"), "the node has no record")
				}
				p.holds(s, there)
			},
		},
		{
			name: "only the owner and the version are compared",
			why: "The other fields of prev are not compared. They may be missing, or may have been changed " +
				"to another precision or zone. Owner and version identify a record.",
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
		},
		{
			name: "a refused swap changes nothing",
			why: "If Swap returns false, no part of next is stored now or later. A keeper that was refused " +
				"tries the next number and forgets this one.",
			check: func(p *probe) {
				s, other := p.open(), p.open()
				one := p.create(s, first(1, "one"))
				two := p.swap(s, one, following(one, "two"))
				beside := p.create(s, first(2, "two"))
				unchanged := func(prev, next lease.Record) {
					p.t.Helper()
					if ok, err := s.Swap(p.ctx, prev, next); ok || err != nil {
						p.failf("%s returned %t, %v; want false and no error", describe(prev, next), ok, err)
					}
					p.holds(s, two, beside)
					p.holds(other, two, beside)
				}
				stranger := two
				stranger.Owner = "stranger"
				unchanged(lease.Record{Node: 1}, first(1, "three"))
				unchanged(stranger, following(two, "three"))
				unchanged(one, following(one, "three"))
				unchanged(following(two, "two"), following(following(two, "two"), "three"))
				unchanged(first(3, "one"), following(first(3, "one"), "three"))
			},
		},
		{
			name: "an invalid swap is an error and changes nothing",
			why: "Swap and SwapWithin first call lease.CheckSwap and return its error, which wraps " +
				"lease.ErrInvalidRecord. Otherwise they could store a record that no keeper can read.",
			check: func(p *probe) {
				s := p.open()
				r := p.create(s, first(5, "one"))
				for fault, spoil := range faults() {
					prev, next := r, following(r, "two")
					spoil(&prev, &next)
					for method, s := range swappers(s) {
						ok, err := s.Swap(p.ctx, prev, next)
						if ok || !errors.Is(err, lease.ErrInvalidRecord) {
							p.failf("%s with %s returned %t, %v; want false, ErrInvalidRecord", method, fault, ok, err)
						}
					}
				}
				p.holds(s, r)
			},
		},
		{
			name: "a node that was given back is taken again",
			why: "A record with an empty owner is an ordinary record. Swap compares the empty owner, List " +
				"returns the record, and its version continues to grow. The record holds the end of the " +
				"last window, so it must neither be removed nor expire.",
			check: func(p *probe) {
				s, other := p.open(), p.open()
				r := p.create(s, first(7, "one"))
				for _, owner := range []string{"", "two", "", "", "three"} {
					r = p.swap(s, r, following(r, owner))
					p.holds(other, r)
				}
			},
		},
		{
			name: "the end may be moved to an earlier time",
			why: "A store does not check the times that it keeps. Keepers write an earlier Until when they give " +
				"back a node, and may write an Until that is in the past or far in the future. A record " +
				"never expires.",
			check: func(p *probe) {
				s := p.open()
				r := p.create(s, first(7, "one"))
				for _, until := range []time.Time{
					r.Until.Add(-time.Nanosecond), time.Date(2025, 1, 1, 0, 0, 0, 1_000_000, time.UTC),
					time.Date(1970, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC),
				} {
					next := following(r, "one")
					next.Until = until
					r = p.swap(s, r, next)
					p.holds(s, r)
				}
			},
		},
		{
			name: "a swap that comes late is refused",
			why: "A swap that is in progress while others change the record must not undo their changes, even if " +
				"the same owner holds the record again. Versions only grow, so an old record never returns.",
			check: func(p *probe) {
				s, slow := p.open(), p.open()
				one := p.create(s, first(7, "one"))
				seen := p.find(slow, 7)
				two := p.swap(s, one, following(one, "two"))
				three := p.swap(s, two, following(two, "one")) // the owner that the slow swap has seen
				p.refuse(slow, seen, following(seen, "one"), "the record has changed twice since it was read")
				p.refuse(slow, two, following(two, "three"), "the record has changed since it was read")
				p.holds(s, three)
				p.swap(slow, three, following(three, "three"))
			},
		},
	}
}

func faults() map[string]func(prev, next *lease.Record) {
	type record = *lease.Record
	return map[string]func(prev, next record){
		"a negative node":           func(prev, next record) { prev.Node, next.Node = -1, -1 },
		"no layout":                 func(_, next record) { next.Layout = "" },
		"no end":                    func(_, next record) { next.Until = time.Time{} },
		"the same version":          func(_, next record) { next.Version = 1 },
		"a version left out":        func(_, next record) { next.Version = 3 },
		"no version":                func(_, next record) { next.Version = 0 },
		"a negative version before": func(prev, next record) { prev.Version, next.Version = -1, 0 },
		"a version beyond the last": func(prev, next record) {
			prev.Version, next.Version = math.MaxInt64, math.MinInt64
		},
		"another node":                   func(_, next record) { next.Node = 6 },
		"nothing in place of the record": func(_, next record) { *next = lease.Record{} },
		"a creation with the version 2":  func(prev, next record) { *prev, next.Node = lease.Record{}, 6 },
		"a creation without an end": func(prev, next record) {
			*prev, *next = lease.Record{}, first(6, "two")
			next.Until = time.Time{}
		},
	}
}
