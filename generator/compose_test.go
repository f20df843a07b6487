package generator_test

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

func TestComposeRefusesWhatDoesNotFit(t *testing.T) {
	l := generator.Twitter()
	good := generator.Parts{Time: midLife(), Node: 1, Sequence: 2}
	with := func(change func(p *generator.Parts)) generator.Parts {
		p := good
		change(&p)
		return p
	}
	type P = generator.Parts
	tests := []struct {
		parts  generator.Parts
		target error
		says   []string
	}{
		{with(func(p *P) { p.Time = l.Epoch.Add(-1) }), generator.ErrBeforeEpoch,
			[]string{"2010-11-04T01:42:54.656999999Z", "2010-11-04T01:42:54.657Z", "twitter"}},
		{with(func(p *P) { p.Time = time.Time{} }), generator.ErrBeforeEpoch, []string{"0001-01-01"}},
		{with(func(p *P) { p.Time = l.End() }), generator.ErrTimeExhausted,
			[]string{"2080-07-10T17:30:30.209Z", "41 time bits", "twitter", "longer tick"}},
		{with(func(p *P) { p.Time = time.Unix(1<<60, 0) }), generator.ErrTimeExhausted, nil},
		{with(func(p *P) { p.Node = -1 }), generator.ErrNodeRange, []string{"node -1", "0 and 1023", "10 node bits"}},
		{with(func(p *P) { p.Node = 1024 }), generator.ErrNodeRange, []string{"node 1024"}},
		{with(func(p *P) { p.Sequence = -1 }), generator.ErrSequenceRange, []string{"sequence -1", "0 and 4095"}},
		{with(func(p *P) { p.Sequence = 4096 }), generator.ErrSequenceRange, []string{"12 sequence bits", "twitter"}},
	}
	if _, err := l.Compose(good); err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		id, err := l.Compose(test.parts)
		wantError(t, err, test.target, test.says...)
		if id != 0 {
			t.Errorf("Compose(%+v) = %d and an error", test.parts, id)
		}
	}
}

func TestDecomposeRefusesWhatIsNoID(t *testing.T) {
	tests := []struct {
		layout generator.Layout
		id     int64
	}{
		{generator.Default(), -1},
		{generator.Default(), math.MinInt64},
		{generator.JavaScript(), 1 << 53},
		{generator.JavaScript(), math.MaxInt64},
		{generator.Business(), 1 << 59},
	}
	for _, test := range tests {
		parts, err := test.layout.Decompose(test.id)
		wantError(t, err, generator.ErrInvalidID, test.layout.Name, "bits of layout")
		if parts != (generator.Parts{}) {
			t.Errorf("Decompose(%d) = %+v and an error", test.id, parts)
		}
		text := test.layout.Diagram(test.id)
		if !strings.Contains(text, "not an ID of this layout") || !strings.HasSuffix(text, "\n") {
			t.Errorf("Diagram(%d) says %q", test.id, text)
		}
	}
	// Any other number decomposes.
	if _, err := generator.Default().Decompose(math.MaxInt64); err != nil {
		t.Error(err)
	}
}

// A layout may live longer than a time.Duration can count, which is 292 years.
func TestALayoutMayLiveLongerThanADuration(t *testing.T) {
	l := generator.Layout{
		Name: "long", Epoch: time.Date(1970, 1, 1, 0, 0, 0, 1, time.UTC), Tick: time.Millisecond,
		TimeBits: 47, Node: []generator.Field{{Name: "node", Bits: 4}}, SequenceBits: 12,
	}
	wantEnd := time.UnixMilli(1 << 47).UTC().Add(1)
	if end := l.End(); !end.Equal(wantEnd) || end.Year() != 6429 {
		t.Errorf("End is %v, want %v", end, wantEnd)
	}
	for _, text := range []string{"2262-04-11T23:47:16.854Z", "2262-04-11T23:47:16.855Z", "2270-01-01T00:00:00Z",
		"2554-07-21T23:34:33.709Z", "2554-07-21T23:34:33.71Z", // around 2^64 nanoseconds
		"3000-02-28T23:59:59.999Z", "6429-10-16T23:59:59.999Z"} {
		at := instant(t, text)
		parts := generator.Parts{Time: at, Node: 9, Sequence: 8}
		id, err := l.Compose(parts)
		if want := composeByText(t, l, at, []int64{9}, 8); err != nil || id != want {
			t.Errorf("%v: Compose = %d, %v, want %d", at, id, err, want)
			continue
		}
		// The epoch lies a nanosecond past the millisecond, so the tick began just before.
		if got, want := mustDecompose(t, l, id).Time, at.Add(1-time.Millisecond); !got.Equal(want) {
			t.Errorf("%v came back as %v, want %v", at, got, want)
		}
		lo, hi, err := l.Range(at, at.Add(time.Hour))
		if span := big.NewInt(3_600_000 << 16); err != nil || hi-lo != span.Int64() || lo <= id {
			t.Errorf("range of an hour from %v is [%d, %d), %v", at, lo, hi, err)
		}
	}
	_, err := l.Compose(generator.Parts{Time: wantEnd})
	wantError(t, err, generator.ErrTimeExhausted)
}

func TestDiagramDrawsEveryPart(t *testing.T) {
	l := generator.Business()
	node, err := l.PackNode(9, 2, 77)
	if err != nil {
		t.Fatal(err)
	}
	id, err := l.Compose(generator.Parts{Time: midLife(), Node: node, Sequence: 100})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(l.Diagram(id), "\n"), "\n")
	want := [][]string{
		{"business", "59", "bits"},
		{"bit", "part", "bits", "value"},
		{"58", "time", "320994367000", "2026-03-04T05:06:07Z"},
		{"19", "business", "1001", "9"},
		{"15", "idc", "10", "2"},
		{"13", "machine", "1001101", "77"},
		{"6", "sequence", "1100100", "100"},
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), l.Diagram(id))
	}
	var digits strings.Builder
	for i, words := range want {
		for _, word := range words {
			if !strings.Contains(lines[i], word) {
				t.Errorf("line %q does not have %q", lines[i], word)
			}
		}
		if i >= 2 {
			digits.WriteString(strings.Fields(lines[i])[2])
		}
	}
	// The drawn bits, read from top to bottom, are the ID.
	if drawn, ok := new(big.Int).SetString(digits.String(), 2); !ok || drawn.Int64() != id {
		t.Errorf("the drawing reads %v, the id is %d", drawn, id)
	}
}
