package generator_test

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// fuzzLayout makes a layout of whatever the fuzzer thought of.
func fuzzLayout(epoch, tick int64, timeBits, high, low, sequenceBits int) generator.Layout {
	l := generator.Layout{
		Name: "fuzzed", Epoch: time.Unix(epoch/1_000_000_000, epoch%1_000_000_000), Tick: time.Duration(tick),
		TimeBits: timeBits, SequenceBits: sequenceBits,
	}
	if high != 0 {
		l.Node = append(l.Node, generator.Field{Name: "high", Bits: high})
	}
	if low != 0 {
		l.Node = append(l.Node, generator.Field{Name: "low", Bits: low})
	}
	return l
}

// ownError says whether an error is one that the package documents.
func ownError(err error) bool {
	for _, target := range []error{
		generator.ErrInvalidLayout, generator.ErrNodeRange, generator.ErrSequenceRange,
		generator.ErrBeforeEpoch, generator.ErrTimeExhausted, generator.ErrInvalidID,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// Any layout either is refused by every function or packs as the bit strings of the oracle do.
func FuzzComposeDecompose(f *testing.F) {
	epoch := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	ms := int64(time.Millisecond)
	f.Add(epoch, ms, 41, 5, 5, 12, int64(36_000_000_000), int64(0), int64(11<<5|26), int64(0))
	f.Add(epoch, 100*ms, 33, 20, 0, 10, int64(-1), int64(0), int64(1<<20-1), int64(1023))
	f.Add(epoch, 1000*ms, 31, 20, 0, 12, int64(math.MaxInt64), int64(1<<40), int64(1<<20), int64(4096))
	f.Add(epoch, ms, 37, 20, 0, 16, int64(0), int64(0), int64(0), int64(0))
	f.Add(int64(0), int64(1), 0, -1, 64, 1<<30, int64(0), int64(0), int64(-1), int64(-1))
	f.Add(epoch, int64(math.MaxInt64), 1, 0, 0, 62, int64(0), int64(math.MaxInt64), int64(0), int64(math.MaxInt64))
	f.Add(int64(math.MinInt64), int64(math.MinInt64), math.MinInt, math.MaxInt, math.MaxInt, math.MinInt,
		int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64))
	f.Add(epoch+1, int64(3_600_000_000_007), 20, 1, 1, 41, int64(5), int64(77), int64(2), int64(1)<<40)
	f.Fuzz(func(t *testing.T, epoch, tick int64, timeBits, high, low, sequenceBits int,
		nanos, seconds, node, sequence int64,
	) {
		l := fuzzLayout(epoch, tick, timeBits, high, low, sequenceBits)
		at := l.Epoch.Add(time.Duration(nanos)).Add(time.Duration(seconds%(1<<33)) * time.Second)
		parts := generator.Parts{Time: at, Node: node, Sequence: sequence}
		fields := l.UnpackNode(node)
		id, err := l.Compose(parts)
		if invalid := l.Validate(); invalid != nil {
			for _, err := range everyError(l, parts) {
				if !errors.Is(err, generator.ErrInvalidLayout) || err.Error() != invalid.Error() {
					t.Fatalf("%+v is invalid, but an error says %v", l, err)
				}
			}
			return
		}
		fits := ticksByText(l, at).Sign() >= 0 && ticksByText(l, at).BitLen() <= l.TimeBits &&
			node>>l.NodeBits() == 0 && sequence>>l.SequenceBits == 0
		if fits != (err == nil) || err != nil && !ownError(err) {
			t.Fatalf("%+v: Compose(%+v): %v, that they fit is %v", l, parts, err, fits)
		}
		if err == nil {
			if want := composeByText(t, l, at, fields, sequence); id != want {
				t.Fatalf("%+v: Compose(%+v) = %d, want %d", l, parts, id, want)
			}
			checkComesBack(t, l, parts, id)
		}
		// Any number at all: taken apart and put together it is the same, or it is refused.
		for _, id := range []int64{sequence, node, nanos} {
			back, err := l.Decompose(id)
			if refuse := id < 0 || big.NewInt(id).BitLen() > l.TimeBits+l.NodeBits()+l.SequenceBits; refuse != (err != nil) {
				t.Fatalf("%+v: Decompose(%d): %v", l, id, err)
			}
			if err != nil {
				continue
			}
			if again, err := l.Compose(back); err != nil || again != id {
				t.Fatalf("%+v: %d is %+v is %d, %v", l, id, back, again, err)
			}
			if text := l.Diagram(id); strings.Count(text, "\n") != 4+len(l.Node) {
				t.Fatalf("%+v: Diagram(%d) is\n%s", l, id, text)
			}
		}
	})
}

// everyError calls every function that has to refuse an invalid layout.
func everyError(l generator.Layout, parts generator.Parts) []error {
	_, compose := l.Compose(parts)
	_, decompose := l.Decompose(parts.Node)
	_, _, ranges := l.Range(parts.Time, parts.Time)
	_, pack := l.PackNode(l.UnpackNode(parts.Node)...)
	_, start := generator.New(l, generator.FixedNode(parts.Node))
	_, _, _, _, _ = l.NodeBits(), l.MaxNode(), l.MaxSequence(), l.End(), l.Diagram(parts.Sequence)
	return []error{compose, decompose, ranges, pack, start}
}

// An ID is in the range exactly if its time is.
func FuzzRange(f *testing.F) {
	epoch := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	ms := int64(time.Millisecond)
	f.Add(epoch, ms, 41, 10, 12, int64(0), int64(time.Minute), int64(1<<22))
	f.Add(epoch, 100*ms, 33, 20, 10, int64(-5), int64(1), int64(0))
	f.Add(epoch, ms, 41, 10, 12, int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(epoch, ms, 1, 1, 1, 3*ms/2, -ms, int64(5))
	f.Add(epoch, int64(math.MaxInt64), 2, 0, 60, int64(math.MinInt64), int64(math.MaxInt64), int64(1<<60))
	f.Fuzz(func(t *testing.T, epoch, tick int64, timeBits, nodeBits, sequenceBits int, from, span, id int64) {
		l := fuzzLayout(epoch, tick, timeBits, nodeBits, 0, sequenceBits)
		begin := l.Epoch.Add(time.Duration(from))
		end := begin.Add(time.Duration(span))
		lo, hi, err := l.Range(begin, end)
		if invalid := l.Validate() != nil; invalid || span < 0 {
			if err == nil || lo != 0 || hi != 0 || invalid != errors.Is(err, generator.ErrInvalidLayout) {
				t.Fatalf("%+v: Range(%v, %v) = [%d, %d), %v", l, begin, end, lo, hi, err)
			}
			return
		}
		if err != nil || lo < 0 || hi < lo {
			t.Fatalf("%+v: Range(%v, %v) = [%d, %d), %v", l, begin, end, lo, hi, err)
		}
		for _, id := range []int64{id, lo, lo - 1, hi, hi - 1} {
			parts, err := l.Decompose(id)
			if err != nil || id == math.MaxInt64 {
				continue // no ID of this layout, or the one that no range holds
			}
			within := !parts.Time.Before(begin) && parts.Time.Before(end)
			if got := id >= lo && id < hi; got != within {
				t.Fatalf("%+v: %v in [%v, %v) is %v, but %d in [%d, %d) is %v",
					l, parts.Time, begin, end, within, id, lo, hi, got)
			}
		}
	})
}
