package generator_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// composeByText packs an ID the slow way that the literature shows: every part becomes a string of
// 0 and 1 of its width, the strings are joined and the whole is read as a number. Nothing in it is
// shared with the code under test.
func composeByText(t testing.TB, l generator.Layout, at time.Time, node []int64, sequence int64) int64 {
	t.Helper()
	digits := bitText(ticksByText(l, at), l.TimeBits)
	for i, f := range l.Node {
		digits += bitText(big.NewInt(node[i]), f.Bits)
	}
	digits += bitText(big.NewInt(sequence), l.SequenceBits)
	id, err := strconv.ParseInt(digits, 2, 64)
	if err != nil {
		t.Fatalf("the oracle cannot compose: %v", err)
	}
	return id
}

// bitText is n in binary, filled up with zeros to the width; wider if it does not fit.
func bitText(n *big.Int, width int) string {
	digits := n.Text(2)
	if n.Sign() == 0 {
		digits = ""
	}
	return strings.Repeat("0", max(width-len(digits), 0)) + digits
}

// ticksByText counts the ticks from the epoch to an instant in numbers without bounds.
func ticksByText(l generator.Layout, at time.Time) *big.Int {
	nanos := func(t time.Time) *big.Int {
		n := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(int64(time.Second)))
		return n.Add(n, big.NewInt(int64(t.Nanosecond())))
	}
	since := new(big.Int).Sub(nanos(at), nanos(l.Epoch))
	return since.Div(since, big.NewInt(int64(l.Tick)))
}

// randomLayout draws a valid layout: any widths that together have at most 63 bits, any epoch and
// ticks of microseconds to hours.
func randomLayout(r *rand.Rand) generator.Layout {
	for {
		l := generator.Layout{
			Name:     "random",
			Epoch:    time.Unix(r.Int64N(7_200_000_000), r.Int64N(1_000_000_000)),
			Tick:     time.Duration(float64(time.Microsecond) * pow10(r.Float64()*10)),
			TimeBits: 1 + r.IntN(62),
		}
		l.SequenceBits = 1 + r.IntN(63-l.TimeBits)
		for left := 63 - l.TimeBits - l.SequenceBits; left > 0 && r.IntN(3) > 0; {
			bits := 1 + r.IntN(left)
			l.Node = append(l.Node, generator.Field{Name: fmt.Sprintf("f%d", len(l.Node)), Bits: bits})
			left -= bits
		}
		if l.Validate() == nil {
			return l
		}
	}
}

// pow10 is 10 to a power from 0 to 10, near enough for spreading ticks over magnitudes.
func pow10(x float64) float64 {
	y := 1 + 9*(x-float64(int(x)))
	for range int(x) {
		y *= 10
	}
	return y
}

// randomParts draws parts that fit the layout, often at the edges.
func randomParts(r *rand.Rand, l generator.Layout) (at time.Time, node []int64, sequence int64) {
	pick := func(greatest int64) int64 {
		switch r.IntN(4) {
		case 0:
			return 0
		case 1:
			return greatest
		}
		return int64(r.Uint64N(uint64(greatest) + 1))
	}
	for _, f := range l.Node {
		node = append(node, pick(int64(1)<<f.Bits-1))
	}
	tick := new(big.Int).Mul(big.NewInt(pick(int64(1)<<l.TimeBits-1)), big.NewInt(int64(l.Tick)))
	within := tick.Add(tick, big.NewInt(pick(int64(l.Tick)-1)))
	seconds, nanos := new(big.Int).DivMod(within, big.NewInt(int64(time.Second)), new(big.Int))
	at = time.Unix(l.Epoch.Unix()+seconds.Int64(), int64(l.Epoch.Nanosecond())+nanos.Int64())
	return at, node, pick(l.MaxSequence())
}

func TestComposeAgreesWithTheBitStringOracle(t *testing.T) {
	r := newRand(t)
	for range scaled(20_000) {
		l := randomLayout(r)
		for range 5 {
			at, fields, sequence := randomParts(r, l)
			want := composeByText(t, l, at, fields, sequence)
			node, err := l.PackNode(fields...)
			if err != nil {
				t.Fatalf("%+v: PackNode(%v): %v", l, fields, err)
			}
			parts := generator.Parts{Time: at, Node: node, Sequence: sequence}
			got, err := l.Compose(parts)
			if err != nil || got != want {
				t.Fatalf("%+v: Compose(%+v) = %d, %v, want %d", l, parts, got, err, want)
			}
			checkComesBack(t, l, parts, got)
		}
	}
}

// checkComesBack takes an ID apart again. Its time is the beginning of the tick that held it.
func checkComesBack(t *testing.T, l generator.Layout, parts generator.Parts, id int64) {
	t.Helper()
	back, err := l.Decompose(id)
	if err != nil {
		t.Fatalf("%+v: Decompose(%d): %v", l, id, err)
	}
	if back.Node != parts.Node || back.Sequence != parts.Sequence {
		t.Fatalf("%+v: %+v came back as %+v", l, parts, back)
	}
	late := parts.Time.Sub(back.Time) // within a tick, so far from the end of a Duration
	if late < 0 || late >= l.Tick || ticksByText(l, back.Time).Cmp(ticksByText(l, parts.Time)) != 0 {
		t.Fatalf("%+v: the tick of %v came back as %v", l, parts.Time, back.Time)
	}
	again, err := l.Compose(back)
	if err != nil || again != id {
		t.Fatalf("%+v: %d decomposed and composed is %d, %v", l, id, again, err)
	}
}

// Layouts of every total width from 2 to 63, with every part at both of its ends.
func TestPartsComeBackAtTheEndsOfEveryWidth(t *testing.T) {
	epoch := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for timeBits := 1; timeBits <= 62; timeBits++ {
		for _, sequenceBits := range []int{1, 2, 12, 31, 32, 33, 62 - timeBits, 63 - timeBits} {
			l := generator.Layout{Epoch: epoch, Tick: time.Microsecond, TimeBits: timeBits, SequenceBits: sequenceBits}
			if node := 63 - timeBits - sequenceBits; node > 0 {
				l.Node = []generator.Field{{Name: "node", Bits: node}}
			}
			if sequenceBits < 1 || timeBits+sequenceBits > 63 || l.Validate() != nil {
				continue // such a layout would live past the year 9999
			}
			for _, at := range []time.Time{l.Epoch, l.End().Add(-1)} {
				for _, node := range []int64{0, l.MaxNode()} {
					for _, sequence := range []int64{0, l.MaxSequence()} {
						parts := generator.Parts{Time: at, Node: node, Sequence: sequence}
						id, err := l.Compose(parts)
						if err != nil {
							t.Fatalf("%+v: Compose(%+v): %v", l, parts, err)
						}
						checkComesBack(t, l, parts, id)
					}
				}
			}
		}
	}
}
