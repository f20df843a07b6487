package leasetest

import (
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func clausesOfRecords() []clause {
	return []clause{
		{
			name: "a new storage has no records",
			why: "A storage without any swap is empty, and that is not an error, because the very first keeper " +
				"begins there. The store itself creates the tables, keys or directories that it needs.",
			check: func(p *probe) {
				for _, s := range p.handles(2) {
					if records := p.list(s); len(records) != 0 {
						p.failf("List returned %d records, want none: %+v", len(records), records)
					}
				}
			},
		},
		{
			name: "any node from 0 up has its own record",
			why: "Node 0 is a number like any other, although some libraries treat a zero key as a missing one. " +
				"Numbers have 64 bits, and numbers that begin with the same digits are different nodes.",
			check: func(p *probe) {
				s, other := p.open(), p.open()
				var stored []lease.Record
				for _, node := range []int64{0, 1, 10, 100, 2, 1023, 1<<20 - 1, 1 << 31, 1<<53 + 1, 1 << 62} {
					stored = append(stored, p.create(s, first(node, "one")))
				}
				p.holds(other, stored...)
				for i, r := range stored {
					stored[i] = p.swap(other, r, following(r, "two"))
				}
				p.holds(s, stored...)
			},
		},
		{
			name: "owners are kept as they are given",
			why: "An owner is printable UTF-8 text of up to 255 bytes that neither begins nor ends with a space. " +
				"It is empty after a release. Quotes, percent signs and backslashes are ordinary characters.",
			check: func(p *probe) {
				s, other := p.open(), p.open()
				texts := []string{
					`O'Brien's "host" pid 17 since 2026-01-02T03:04:05Z #0123456789abcdef`,
					`100% of %s, %[1]d; _ * ? $1 :name @p {{.}} ${x} <a&b>`,
					`C:\new\table\0 \' \\ -- /* no */ comment; # DROP TABLE nodes`,
					"Zürich, Ελλάδα, Москва, 東京, 🦊👩‍🚀, e\u0301 is not é",
					"tab separated? no: two  spaces, and/a:path,list|of=fields",
					`{"json": [1, null]}`, "null", "NULL", "nil", "0", "true", "{}", "[]", `""`,
					strings.Repeat("x", 255),
					strings.Repeat("東", 85),
				}
				var stored []lease.Record
				for i, text := range texts {
					stored = append(stored, p.create(s, first(int64(i), text)))
				}
				p.holds(other, stored...)
				for i, r := range stored { // and a swap finds it by that owner
					stored[i] = p.swap(other, r, following(r, texts[(i+1)%len(texts)]))
				}
				p.holds(s, stored...)
				for i, r := range stored {
					stored[i] = p.swap(s, r, following(r, ""))
				}
				p.holds(other, stored...)
			},
		},
		{
			name: "layouts are kept as they are given",
			why: "A layout is a text that lease.Fingerprint returns. Each record has its own layout, and a " +
				"swap may change it. Only keepers check whether layouts agree.",
			check: func(p *probe) {
				s, other := p.open(), p.open()
				one, two := first(1, "one"), first(2, "two")
				// This is the longest possible fingerprint.
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
		},
		{
			name: "times are kept to the nanosecond",
			why: "Until limits the ticks that a process may use, so it must be kept exactly, without any " +
				"rounding. Any instant of the years 1 to 9999 is kept, whatever its zone is. List returns it in " +
				"UTC and without a monotonic reading, so that == compares records. UpdatedAt may be the zero time.",
			check: func(p *probe) {
				s, other := p.open(), p.open()
				kathmandu := time.FixedZone("", 5*60*60+45*60)
				times := []time.Time{
					time.Date(2026, 3, 4, 5, 6, 7, 123_456_789, time.UTC),
					time.Date(2026, 3, 4, 5, 6, 7, 999_999_999, time.UTC),
					time.Date(2026, 3, 4, 5, 6, 7, 1, time.UTC),
					time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
					time.Date(2026, 3, 29, 2, 30, 0, 500, time.UTC), // an hour that many zones skip
					time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, kathmandu),
					time.Now(), // with a monotonic reading, in the local zone
					time.Unix(0, 0),
					time.Unix(0, -1),
					time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
					time.Date(1582, 10, 10, 12, 0, 0, 5, time.UTC), // a day that the Julian calendar lacks
					time.Date(1900, 2, 28, 0, 0, 0, 0, kathmandu),
					time.Date(2038, 1, 19, 3, 14, 8, 7, time.UTC),
					time.Date(2262, 4, 11, 23, 47, 16, 854_775_808, time.UTC), // beyond 64 bits of nanoseconds
					time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
				}
				var stored []lease.Record
				for i, instant := range times {
					r := first(int64(i), "one")
					r.Until, r.UpdatedAt = instant, times[(i+1)%len(times)]
					stored = append(stored, p.create(s, r))
				}
				p.holds(other, stored...)
				for i, r := range stored {
					next := following(r, "two")
					next.Until, next.UpdatedAt = times[(i+2)%len(times)], time.Time{}
					stored[i] = p.swap(other, r, next)
				}
				p.holds(s, stored...)
			},
		},
		{
			name: "a swap leaves the other nodes alone",
			why: "Each node has its own record. A swap changes only the record of next.Node, even if other " +
				"records have the same owner and version.",
			check: func(p *probe) {
				s := p.open()
				stored := make([]lease.Record, 12)
				for i := range stored {
					stored[i] = p.create(s, first(int64(i), "one"))
				}
				for _, i := range []int{0, 1, 11, 5, 1} {
					stored[i] = p.swap(s, stored[i], following(stored[i], "two"))
					p.holds(s, stored...)
				}
			},
		},
		{
			name: "List returns all of many records",
			why: "List returns every record exactly once, however many pages the system needs. A keeper " +
				"assumes that a node which is not in the list was never used.",
			check: func(p *probe) {
				stores := p.handles(4)
				stored := make([]lease.Record, 300)
				for i := range stored {
					stored[i] = first(int64(i)*3491, "one") // up to 2^20
				}
				p.together(len(stores), func(worker int) error {
					for i := worker; i < len(stored); i += len(stores) {
						if err := settled(stores[worker].Swap(p.ctx, lease.Record{}, stored[i])); err != nil {
							return err
						}
					}
					return nil
				})
				for _, s := range stores {
					p.holds(s, stored...)
				}
			},
		},
		{
			name: "what one handle has stored all others see at once",
			why: "After Swap has returned true, every later List and Swap sees the change in every " +
				"process. Neither may be answered from a cache, from a snapshot that was opened earlier, " +
				"or from a replica that lags behind.",
			check: func(p *probe) {
				stores := p.handles(3)
				r := p.create(stores[0], first(7, "one"))
				for i := range 30 {
					reader := stores[(i+1)%len(stores)]
					if i%2 == 0 {
						p.holds(reader, r)
					}
					r = p.swap(reader, r, following(r, "one"))
				}
				p.holds(stores[0], r)
				p.holds(p.open(), r) // this handle represents a process that starts later
			},
		},
		{
			name: "what List returns belongs to the caller",
			why:  "Changing the slice that List has returned changes neither what is stored nor what others get.",
			check: func(p *probe) {
				s := p.open()
				one, two := p.create(s, first(1, "one")), p.create(s, first(2, "two"))
				records, err := s.List(p.ctx)
				p.must("List", err)
				for i := range records {
					records[i] = lease.Record{Node: 99}
				}
				p.holds(s, one, two)
			},
		},
	}
}
