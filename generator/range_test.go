package generator_test

import (
	"math"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// On layouts so small that every ID can be looked at, the range holds an ID exactly if its time
// lies in [from, to), wherever from and to lie: before the epoch, inside ticks, after the end.
func TestRangeAgreesWithLookingAtEveryID(t *testing.T) {
	epoch := time.Date(2025, 6, 1, 12, 0, 0, 5, time.UTC)
	for _, l := range []generator.Layout{
		{Epoch: epoch, Tick: time.Millisecond, TimeBits: 3, Node: []generator.Field{{"n", 1}}, SequenceBits: 1},
		{Epoch: epoch, Tick: 100 * time.Millisecond, TimeBits: 2, SequenceBits: 3},
		{Epoch: epoch, Tick: 7 * time.Microsecond, TimeBits: 1, Node: []generator.Field{{"a", 1}, {"b", 1}}, SequenceBits: 2},
		{Epoch: epoch, Tick: time.Hour, TimeBits: 4, SequenceBits: 1},
	} {
		count := int64(1) << (l.TimeBits + l.NodeBits() + l.SequenceBits)
		times := make([]time.Time, count)
		for id := range count {
			times[id] = mustDecompose(t, l, id).Time
		}
		for _, from := range edges(l) {
			for _, to := range edges(l) {
				lo, hi, err := l.Range(from, to)
				if to.Before(from) {
					if err == nil {
						t.Fatalf("%+v: a range from %v to %v is no error", l, from, to)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%+v: Range(%v, %v): %v", l, from, to, err)
				}
				for id, at := range times {
					within := !at.Before(from) && at.Before(to)
					if got := int64(id) >= lo && int64(id) < hi; got != within {
						t.Fatalf("%+v: %v in [%v, %v) is %v, but %d in [%d, %d) is %v",
							l, at, from, to, within, id, lo, hi, got)
					}
				}
			}
		}
	}
}

// edges are the beginnings of all ticks of a small layout, the instants a nanosecond to either
// side, the middles of the ticks, and instants far outside the layout's life.
func edges(l generator.Layout) []time.Time {
	all := []time.Time{{}, time.Unix(0, 0), l.Epoch.AddDate(-300, 0, 0), l.Epoch.AddDate(300, 0, 0),
		l.Epoch.Add(-l.Tick), time.Unix(1<<55, 0)}
	for tick := range 1<<l.TimeBits + 2 {
		begin := l.Epoch.Add(time.Duration(tick) * l.Tick)
		all = append(all, begin.Add(-1), begin, begin.Add(1), begin.Add(l.Tick/2))
	}
	return all
}

// In a layout of all 63 bits the range of the last tick would end at 2^63, which no int64 holds.
func TestRangeEndsAtTheGreatestInt64(t *testing.T) {
	full := generator.Default()
	narrow := generator.JavaScript()
	lastTick := full.End().Add(-full.Tick)
	lastID, err := full.Compose(generator.Parts{Time: lastTick})
	if err != nil {
		t.Fatal(err)
	}
	middle := composeByText(t, full, midLife(), []int64{0}, 0)
	tests := []struct {
		name     string
		layout   generator.Layout
		from, to time.Time
		lo, hi   int64
	}{
		{"the last tick of 63 bits", full, lastTick, full.End(), lastID, math.MaxInt64},
		{"past the end of 63 bits", full, lastTick, full.End().AddDate(500, 0, 0), lastID, math.MaxInt64},
		{"inside the last tick of 63 bits", full, lastTick.Add(1), full.End(), math.MaxInt64, math.MaxInt64},
		{"wholly past the end of 63 bits", full, full.End(), full.End().Add(1), math.MaxInt64, math.MaxInt64},
		{"all of 63 bits", full, time.Time{}, full.End().AddDate(1, 0, 0), 0, math.MaxInt64},
		{"all of 53 bits", narrow, time.Time{}, narrow.End(), 0, 1 << 53},
		{"past the end of 53 bits", narrow, narrow.End(), narrow.End().AddDate(9, 0, 0), 1 << 53, 1 << 53},
		{"nothing", full, midLife(), midLife(), middle, middle},
		{"before the epoch", full, time.Time{}, full.Epoch, 0, 0},
		{"up to the epoch and a nanosecond", full, full.Epoch, full.Epoch.Add(1), 0, 1 << 22},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lo, hi, err := test.layout.Range(test.from, test.to)
			if err != nil || lo != test.lo || hi != test.hi {
				t.Errorf("Range = [%d, %d), %v, want [%d, %d)", lo, hi, err, test.lo, test.hi)
			}
		})
	}
}

func TestRangeRefusesAnEndBeforeItsBeginning(t *testing.T) {
	_, _, err := generator.Default().Range(midLife(), midLife().Add(-1))
	if err == nil {
		t.Fatal("no error")
	}
	wantError(t, err, err, "from 2026-03-04T05:06:07Z", "to 2026-03-04T05:06:06.999999999Z", "ends before it begins")
}

// Two adjoining ranges hold every ID of both once and none twice.
func TestRangesThatAdjoinShareNothing(t *testing.T) {
	r := newRand(t)
	for range scaled(5000) {
		l := randomLayout(r)
		a, _, _ := randomParts(r, l)
		b, _, _ := randomParts(r, l)
		c, _, _ := randomParts(r, l)
		if b.Before(a) {
			a, b = b, a
		}
		if c.Before(b) {
			b, c = c, b
		}
		if b.Before(a) {
			a, b = b, a
		}
		lo1, hi1, err1 := l.Range(a, b)
		lo2, hi2, err2 := l.Range(b, c)
		lo, hi, err := l.Range(a, c)
		if err1 != nil || err2 != nil || err != nil {
			t.Fatal(err1, err2, err)
		}
		if lo1 != lo || hi1 != lo2 || hi2 != hi {
			t.Fatalf("%+v: [%d, %d) and [%d, %d) do not make [%d, %d)", l, lo1, hi1, lo2, hi2, lo, hi)
		}
	}
}
