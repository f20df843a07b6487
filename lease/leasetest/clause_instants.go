package leasetest

import (
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func instants() clause {
	return clause{
		name: "times are kept to the nanosecond",
		why: "Until bounds the ticks that a process may stamp, so it must not move, not even by rounding. " +
			"Any instant of the years 1 to 9999 is kept, whichever zone it is given in. List returns it in UTC " +
			"and without a monotonic reading, so that == compares records. UpdatedAt may be the zero time.",
		check: func(p *probe) {
			s, other := p.open(), p.open()
			kathmandu := time.FixedZone("", 5*60*60+45*60)
			times := []time.Time{
				time.Date(2026, 3, 4, 5, 6, 7, 123_456_789, time.UTC),
				time.Date(2026, 3, 4, 5, 6, 7, 999_999_999, time.UTC),
				time.Date(2026, 3, 4, 5, 6, 7, 1, time.UTC),
				time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
				time.Date(2026, 3, 29, 2, 30, 0, 500, time.UTC), // an hour that many zones leave out
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
			for i, at := range times {
				r := first(int64(i), "one")
				r.Until, r.UpdatedAt = at, times[(i+1)%len(times)]
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
	}
}
