package generator

import (
	"fmt"
	"math/bits"
	"time"
)

// The conversions between instants and ticks count nanoseconds in 128 bits, because a time.Duration
// ends after 292 years and a layout may last longer.

const nanosPerSecond = uint64(time.Second)

// tickOf returns the tick that contains t, and whether t is exactly its beginning. The caller
// guarantees a valid layout. Before the epoch and from [Layout.End] on, tickOf returns an error.
func (l Layout) tickOf(t time.Time) (tick int64, exact bool, err error) {
	// Round removes a monotonic reading, which would otherwise be used for the comparison.
	if t.Round(0).Before(l.Epoch) {
		return 0, false, fmt.Errorf("%w: %s is before %s, the epoch of layout %s", ErrBeforeEpoch,
			stamp(t), stamp(l.Epoch), l.label())
	}
	// Unsigned subtraction is exact even if the signed difference would overflow.
	seconds := uint64(t.Unix()) - uint64(l.Epoch.Unix())
	nanos := t.Nanosecond() - l.Epoch.Nanosecond()
	if nanos < 0 {
		seconds--
		nanos += int(nanosPerSecond)
	}
	hi, lo := bits.Mul64(seconds, nanosPerSecond)
	lo, carry := bits.Add64(lo, uint64(nanos), 0)
	hi += carry
	if hi < uint64(l.Tick) {
		quotient, rest := bits.Div64(hi, lo, uint64(l.Tick))
		if quotient <= uint64(l.maxTick()) {
			return int64(quotient), rest == 0, nil
		}
	}
	return 0, false, l.exhausted(t)
}

// timeOf returns the instant, in UTC, at which tick begins. It returns false if the instant is too
// far away for a time.Time.
func (l Layout) timeOf(tick uint64) (t time.Time, ok bool) {
	hi, lo := bits.Mul64(tick, uint64(l.Tick))
	if hi >= nanosPerSecond {
		return time.Time{}, false
	}
	seconds, nanos := bits.Div64(hi, lo, nanosPerSecond)
	const farthest = 1 << 50 // in seconds; 35 million years, far beyond maxEndYear
	if seconds > farthest {
		return time.Time{}, false
	}
	return time.Unix(l.Epoch.Unix()+int64(seconds), int64(l.Epoch.Nanosecond())+int64(nanos)).UTC(), true
}

// end is [Layout.End] without the validation.
func (l Layout) end() (time.Time, bool) { return l.timeOf(uint64(1) << clampBits(l.TimeBits)) }

// exhausted returns the error for an instant after the end of the time bits.
func (l Layout) exhausted(t time.Time) error {
	return fmt.Errorf("%w: %s is not before %s, when the %d time bits of layout %s run out: "+
		"new rows need a layout with more time bits or a longer tick", ErrTimeExhausted,
		stamp(t), stamp(l.End()), l.TimeBits, l.label())
}

// stamp formats an instant for messages.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
