package segmenttest

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// anyBut returns the terms of any claim, changed.
func anyBut(change func(t *segment.Terms)) segment.Terms {
	t := segment.AnyTerms()
	change(&t)
	return t
}

func clausesOfTerms() []clause {
	return []clause{
		{
			name: "a start raises the counter and never lowers it",
			why: "No number is below Start. A counter that is below it skips to it, and one that is above it " +
				"goes on where it is, because the numbers below are in use.",
			check: func(p *probe) {
				s := p.terms()
				startingWith := func(start int64) segment.Terms {
					return anyBut(func(t *segment.Terms) { t.Start = start })
				}
				p.claimOn(s, "new", 10, startingWith(1000), 1000)
				p.claim(s, "new", 10, 1010)
				p.claimOn(s, "new", 10, startingWith(5000), 5000)
				p.claimOn(s, "new", 10, startingWith(7), 5010)
			},
		},
		{
			name: "a claim beyond the last number is refused and changes nothing",
			why: "If the n numbers do not fit up to Last, the claim is an error wrapping ErrFull, and a smaller " +
				"one still gets the numbers that are left. Otherwise a series without gaps has one at its end.",
			check: func(p *probe) {
				s := p.terms()
				nine := anyBut(func(t *segment.Terms) { t.Last = 9 })
				p.claimOn(s, "day", 7, nine, 1)
				p.noClaimOn(s, "day", 3, nine, segment.ErrFull)
				p.claimOn(s, "day", 2, nine, 8)
				p.noClaimOn(s, "day", 1, nine, segment.ErrFull)
				p.noClaimOn(s, "other", 10, nine, segment.ErrFull)
				p.claimOn(s, "other", 9, nine, 1)
			},
		},
		{
			name: "the residue of a counter is noted and another one is refused",
			why: "The first claim notes remainder and modulus. Two ticket servers with step 2 and a third with " +
				"step 3 collide, so a claim with another residue is an error wrapping ErrResidue and changes " +
				"nothing.",
			check: func(p *probe) {
				s := p.terms()
				odd := anyBut(func(t *segment.Terms) { t.Remainder, t.Modulus = 1, 2 })
				p.claimOn(s, "orders", 10, odd, 1)
				for _, other := range []segment.Terms{
					segment.AnyTerms(),
					anyBut(func(t *segment.Terms) { t.Remainder, t.Modulus = 0, 2 }),
					anyBut(func(t *segment.Terms) { t.Remainder, t.Modulus = 1, 3 }),
				} {
					p.noClaimOn(p.terms(), "orders", 10, other, segment.ErrResidue)
				}
				_, err := s.Claim(p.ctx, "orders", 10)
				p.refuse(err, segment.ErrResidue)
				p.claimOn(s, "orders", 10, odd, 11)
				p.claim(s, "plain", 10, 1)
				p.noClaimOn(s, "plain", 10, odd, segment.ErrResidue)
			},
		},
		{
			name: "a counter that went back refuses whoever knows a greater number, and does not move",
			why: "A counter that is not above Above has lost numbers, or was lowered, so the claim is an error " +
				"wrapping ErrWentBack. If it moved the counter, later claims would come to numbers that others " +
				"have got, and nobody would notice.",
			check: func(p *probe) {
				s, l := p.terms(), p.ledger()
				knowing := func(number int64) segment.Terms {
					return anyBut(func(t *segment.Terms) { t.Above = number })
				}
				p.claimOn(s, "orders", 10, knowing(0), 1)
				p.claimOn(s, "orders", 10, knowing(10), 11)
				p.claimOn(s, "orders", 10, knowing(7), 21)
				p.noClaimOn(s, "orders", 1, knowing(31), segment.ErrWentBack)
				p.claimOn(s, "orders", 1, knowing(30), 31)
				for _, lost := range []func(){
					func() { p.remove(l, p.counter(l, "orders"), true) },
					func() { p.claim(s, "orders", 2, 1) },
				} {
					lost()
					for _, t := range []segment.Terms{
						knowing(31), knowing(math.MaxInt64 - 1),
						anyBut(func(t *segment.Terms) { t.Above, t.Start = 31, 100 }),
						anyBut(func(t *segment.Terms) { t.Above, t.Last = 31, 20 }),
					} {
						p.noClaimOn(p.terms(), "orders", 3, t, segment.ErrWentBack)
					}
				}
				p.claimOn(s, "orders", 3, knowing(2), 3)
				read := p.counter(l, "orders")
				raised := read
				raised.Next = 32
				p.change(l, read, raised, true)
				p.claimOn(s, "orders", 3, knowing(31), 32)
			},
		},
		{
			name: "a counter has one kind",
			why: "A claim with a kind notes it, also for a counter that has none yet, and another one is refused " +
				"with ErrKind and changes nothing. Otherwise daily numbers and others of one name get the same " +
				"numbers, or the daily ones remove the counter of the others. A claim without a kind is compared " +
				"with none. Change and Remove compare the kind, and Change writes it.",
			check: func(p *probe) {
				s, l := p.terms(), p.ledger()
				ofKind := func(kind string) segment.Terms { return anyBut(func(t *segment.Terms) { t.Kind = kind }) }
				p.claimOn(s, "orders", 10, ofKind("segment"), 1)
				p.claim(s, "older", 10, 1)
				p.claimOn(s, "older", 10, ofKind("daily"), 11)
				for name, other := range map[string]string{"orders": "daily", "older": "segment"} {
					p.noClaimOn(p.terms(), name, 10, ofKind(other), segment.ErrKind)
				}
				p.claim(s, "orders", 10, 11)
				p.claimOn(s, "orders", 10, ofKind("segment"), 21)
				p.claimOn(s, "older", 10, ofKind("daily"), 21)
				for name, kind := range map[string]string{"orders": "segment", "older": "daily"} {
					if c := p.counter(l, name); c.Kind != kind || c.Next != 31 {
						p.failf("the counter is %+v, want the kind %q", c, kind)
					}
				}
				read := p.counter(l, "orders")
				other, changed := read, read
				other.Kind, changed.Kind = "daily", "other: than, before"
				p.change(l, other, changed, false)
				p.change(l, read, changed, true)
				p.remove(l, read, false)
				if c := p.counter(l, "orders"); c.Kind != changed.Kind {
					p.failf("after a change of the kind the counter is %+v", c)
				}
			},
		},
		{
			name: "a counter and daily numbers of one name do not meet",
			why: "Daily numbers remove their counters after a week and note that under a name that no claim can " +
				"have. Change accepts it, and Counters lists it as it is. Under a name of somebody else the note " +
				"would freeze his counter for good.",
			check: func(p *probe) {
				s, l := p.terms(), p.ledger()
				orders := p.source(s)
				p.numbers(orders, 1, 5)
				for _, old := range []segment.Counter{
					{Name: "orders/20000101", Next: 5, Modulus: 1, Kind: "daily"},
					{Name: "orders/20000102", Next: 5, Modulus: 1, Kind: "segment"}, // which only looks like one
				} {
					p.change(l, segment.Counter{}, old, true)
				}
				var names []string
				p.daily(s, time.Now, nil, func() bool {
					names = p.names(l, "orders")
					return !slices.Contains(names, "orders/20000101")
				})
				if len(names) != 3 || names[0] != "orders" || names[1] != "orders/20000102" {
					p.failf("after a week the counters are %q", names)
				}
				longAgo := func() time.Time { return time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC) }
				p.daily(s, longAgo, segment.ErrDayFull, func() bool { return true })
				p.numbers(orders, 6, 9)
			},
		},
		{
			name: "a source whose counter went back has no numbers until somebody raises the counter",
			why: "A source passes the greatest number that it has claimed as Above. However often it asks, the " +
				"numbers between those that were lost and its own are never given out by it: they are others'. It " +
				"freezes the counter by a change, so that sources which begin later get none of them either.",
			check: func(p *probe) {
				s, l := p.terms(), p.ledger()
				one, other := p.source(s), p.source(p.terms())
				p.numbers(one, 1, 5)
				p.numbers(other, 6, 20)
				p.remove(l, p.counter(l, "orders"), true)
				for range 40 {
					n, err := one.Next(p.ctx)
					if err == nil {
						p.failf("the source gave out %d once more", n)
					}
					p.refuse(err, segment.ErrWentBack)
				}
				later := p.source(p.terms())
				_, err := later.Next(p.ctx)
				p.refuse(err, segment.ErrWentBack)
				_, err = s.Claim(p.ctx, "orders", 1)
				p.refuse(err, segment.ErrWentBack)
				claimed, is := p.counter(l, "orders").WentBack()
				if !is || claimed != 5 {
					p.failf("the counter that went back is known to have given numbers up to %d, %t", claimed, is)
				}
				p.refuse(segment.Raise(p.ctx, l, "orders", claimed), segment.ErrWentBack)
				p.refuse(segment.SetResidues(p.ctx, "orders", l), segment.ErrWentBack)
				p.must(segment.Raise(p.ctx, l, "orders", 21))
				p.numbers(one, 21, 22)
				p.numbers(later, 23, 24)
				if c := p.counter(l, "orders"); c.Kind != "segment" || c.Modulus != 1 || c.Remainder != 0 {
					p.failf("after it was raised the counter is %+v", c)
				}
			},
		},
		{
			name: "terms that cannot be are an error",
			why: "ClaimOn begins with CheckTerms. A remainder that is not below the modulus would be " +
				"noted for good.",
			check: func(p *probe) {
				s := p.terms()
				for _, t := range []segment.Terms{
					{},
					anyBut(func(t *segment.Terms) { t.Modulus = 0 }),
					anyBut(func(t *segment.Terms) { t.Remainder = 1 }),
					anyBut(func(t *segment.Terms) { t.Start = 0 }),
					anyBut(func(t *segment.Terms) { t.Last = math.MaxInt64 }),
					anyBut(func(t *segment.Terms) { t.Remainder, t.Modulus = -1, 2 }),
					anyBut(func(t *segment.Terms) { t.Above = -1 }),
					anyBut(func(t *segment.Terms) { t.Kind = "Two kinds" }),
				} {
					p.noClaimOn(s, "orders", 1, t, segment.ErrInvalidOption)
				}
				p.claim(s, "orders", 1, 1)
			},
		},
	}
}

func clausesOfLedgers() []clause {
	return []clause{
		{
			name: "counters are listed by prefix in the order of their names",
			why: "Counters returns exactly the counters whose names begin with the prefix, byte by byte. A " +
				"pattern in which % or _ has a meaning would show the counters of others, and daily counters are " +
				"removed by it.",
			check: func(p *probe) {
				s := p.ledger()
				if found := p.counters(s, ""); len(found) != 0 {
					p.failf("a new store lists %v", found)
				}
				for i, name := range []string{"b_/2", "b_/1", "bx/1", "B_/1", "a", "b_", "b%/1", "[b]*", "ab_/3"} {
					p.claim(s, name, int64(i+1), 1)
				}
				names := p.names(p.ledger(), "b_/")
				if !slices.Equal(names, []string{"b_/1", "b_/2"}) {
					p.failf("with the prefix %q are listed %q", "b_/", names)
				}
				all := p.names(s, "")
				if len(all) != 9 || !slices.IsSorted(all) {
					p.failf("all counters are %v", all)
				}
				c := p.counter(s, "a")
				if c.Next != 6 || c.Modulus != 1 || c.Remainder != 0 || time.Since(c.UpdatedAt).Abs() > time.Hour {
					p.failf("counter a has the values %+v", c)
				}
			},
		},
		{
			name: "a change replaces exactly the counter that was read",
			why: "Change compares next, remainder and modulus in one atomic step with its write. A claim in " +
				"between has taken numbers that the change does not know of.",
			check: func(p *probe) {
				s := p.ledger()
				p.claim(s, "orders", 10, 1)
				read := p.counter(s, "orders")
				raised := read
				raised.Next = 1000
				p.claim(s, "orders", 1, 11)
				p.change(s, read, raised, false)
				read = p.counter(s, "orders")
				read.UpdatedAt, raised.UpdatedAt = time.Time{}, time.Unix(1, 0).UTC() // neither is looked at
				p.change(s, read, raised, true)
				if changed := p.counter(s, "orders").UpdatedAt; time.Since(changed).Abs() > time.Hour {
					p.failf("after a change the counter was last changed at %v", changed)
				}
				p.change(s, read, raised, false)
				p.claim(s, "orders", 5, 1000)
				lower := p.counter(s, "orders")
				lower.Next--
				_, err := s.Change(p.ctx, p.counter(s, "orders"), lower)
				p.refuse(err, segment.ErrInvalidOption)
				p.claim(s, "orders", 1, 1005)
			},
		},
		{
			name: "a change creates a counter only if there is none",
			why:  "With no previous counter, Change makes one. If there is one already its numbers are in use.",
			check: func(p *probe) {
				s := p.ledger()
				fresh := segment.Counter{Name: "orders", Next: 500, Modulus: 1}
				p.change(s, segment.Counter{}, fresh, true)
				p.change(p.ledger(), segment.Counter{}, fresh, false)
				p.claim(s, "orders", 1, 500)
			},
		},
		{
			name: "changes beside claims repeat no number",
			why: "Change compares and writes in one atomic step. If it compares first and writes later, " +
				"it undoes the claims in between, and their numbers are given out again.",
			check: func(p *probe) {
				claimed := p.beside(func(s segment.Ledger) error {
					prev, err := p.find(s, "orders")
					if err != nil {
						return err
					}
					next := prev
					next.Name, next.Next, next.Modulus = "orders", max(prev.Next, 1)+5, 1
					_, err = s.Change(p.ctx, prev, next)
					return err
				})
				p.disjoint("orders", claimed)
			},
		},
		{
			name: "removals beside claims lose no claim",
			why: "Remove compares and removes in one atomic step. If it compares first and removes later, " +
				"it removes a counter from which somebody has claimed in between.",
			check: func(p *probe) {
				var removed atomic.Int64
				claimed := p.beside(func(s segment.Ledger) error {
					prev, err := p.find(s, "orders")
					for ; err == nil && prev.Next == 0; prev, err = p.find(s, "orders") {
						time.Sleep(pause) // the next claim makes one
					}
					if err != nil {
						return err
					}
					ok, err := s.Remove(p.ctx, prev)
					if ok {
						removed.Add(prev.Next - 1)
					}
					return err
				})
				total := int64(0)
				for _, c := range claimed {
					total += c.n
				}
				left, err := p.find(p.ledger(), "orders")
				p.must(err)
				if counted := removed.Load() + max(left.Next-1, 0); counted < total {
					p.failf("%d numbers were claimed, and the counters that were removed and the one that is left "+
						"had come to %d", total, counted)
				}
			},
		},
		{
			name: "a frozen counter refuses every claim until its residue is set",
			why: "While the residue of ticket servers is changed, no number may be claimed with the old one. A " +
				"claim of a frozen counter is an error wrapping ErrFrozen.",
			check: func(p *probe) {
				s, ts := p.ledger(), p.terms()
				odd := anyBut(func(t *segment.Terms) { t.Remainder, t.Modulus = 1, 2 })
				p.claimOn(ts, "orders", 10, odd, 1)
				read := p.counter(s, "orders")
				frozen := read
				frozen.Modulus, frozen.Remainder = 0, 0
				p.change(s, read, frozen, true)
				p.change(s, read, frozen, false) // its residue is not the one that was read any more
				p.noClaimOn(ts, "orders", 10, odd, segment.ErrFrozen)
				_, err := ts.Claim(p.ctx, "orders", 10)
				p.refuse(err, segment.ErrFrozen)
				thirds := frozen
				thirds.Next, thirds.Remainder, thirds.Modulus = 100, 2, 3
				p.change(s, p.counter(s, "orders"), thirds, true)
				p.noClaimOn(ts, "orders", 10, odd, segment.ErrResidue)
				p.claimOn(ts, "orders", 10, anyBut(func(t *segment.Terms) { t.Remainder, t.Modulus = 2, 3 }), 100)
			},
		},
		{
			name: "a removal removes exactly the counter that was read",
			why: "Remove compares the counter in one atomic step. A counter that somebody has used in between " +
				"stays, and so do all others.",
			check: func(p *probe) {
				s := p.ledger()
				p.claim(s, "orders", 10, 1)
				p.claim(s, "Orders", 10, 1)
				read := p.counter(s, "orders")
				p.claim(s, "orders", 1, 11)
				p.remove(s, read, false)
				p.claim(s, "orders", 1, 12)
				read = p.counter(s, "orders")
				odd := read
				odd.Remainder, odd.Modulus = 1, 2
				p.remove(s, odd, false)
				read.UpdatedAt = time.Time{} // which is not looked at
				p.remove(s, read, true)
				p.remove(s, read, false)
				if left := p.counters(s, ""); len(left) != 1 || left[0].Name != "Orders" {
					p.failf("after a removal there are %v", left)
				}
				p.claim(p.open(), "orders", 1, 1)
			},
		},
		{
			name: "the store has one clock",
			why: "Now is a clock that all processes share, so that a wrong local clock closes no days. " +
				"It goes forward.",
			check: func(p *probe) {
				s := p.ledger()
				first, err := s.Now(p.ctx)
				p.must(err)
				second, err := s.Now(p.ctx)
				p.must(err)
				if second.Before(first) || first.Year() < 2020 || first.Location() != time.UTC {
					p.failf("the clock said %v and then %v", first, second)
				}
			},
		},
	}
}

// pause is between claims and between changes beside them, so that a counter is sometimes still what was
// read of it.
const pause = 100 * time.Microsecond
