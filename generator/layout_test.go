package generator_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// faultyLayouts has every fault that a layout can have, alone, with what the error has to say.
func faultyLayouts() []struct {
	fault string
	spoil func(l *generator.Layout)
	says  []string
} {
	type L = generator.Layout
	at := func(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
	return []struct {
		fault string
		spoil func(l *L)
		says  []string
	}{
		{"no epoch", func(l *L) { l.Epoch = time.Time{} }, []string{"Epoch is not set"}},
		{"early epoch", func(l *L) { l.Epoch = at(1969) }, []string{"Epoch 1969-01-01", "1970 to 2200"}},
		{"late epoch", func(l *L) { l.Epoch = at(2201) }, []string{"Epoch 2201-01-01", "1970 to 2200"}},
		{"no tick", func(l *L) { l.Tick = 0 }, []string{"Tick 0s is shorter than 1µs"}},
		{"negative tick", func(l *L) { l.Tick = -time.Second }, []string{"Tick -1s"}},
		{"fine tick", func(l *L) { l.Tick = 999 }, []string{"Tick 999ns is shorter than 1µs"}},
		{"no time bits", func(l *L) { l.TimeBits = 0 }, []string{"TimeBits 0 is not between 1 and 63"}},
		{"negative time bits", func(l *L) { l.TimeBits = -1 }, []string{"TimeBits -1"}},
		{"too many time bits", func(l *L) { l.TimeBits = 64 }, []string{"TimeBits 64"}},
		{"no sequence bits", func(l *L) { l.SequenceBits = 0 }, []string{"SequenceBits 0 is not between 1 and 63"}},
		{"negative sequence bits", func(l *L) { l.SequenceBits = math.MinInt }, []string{"SequenceBits -"}},
		{"too many sequence bits", func(l *L) { l.SequenceBits = 64 }, []string{"SequenceBits 64"}},
		{"nameless field", func(l *L) { l.Node[1].Name = "" }, []string{"Node[1] has no Name"}},
		{"two fields of one name", func(l *L) { l.Node[1].Name = "datacenter" },
			[]string{`Node[1] has the Name "datacenter" of Node[0]`}},
		{"field without bits", func(l *L) { l.Node[0].Bits = 0 }, []string{"Node[0] (datacenter) has 0 Bits"}},
		{"field of negative bits", func(l *L) { l.Node[0].Bits = -5 }, []string{"Node[0] (datacenter) has -5 Bits"}},
		{"field of too many bits", func(l *L) { l.Node[1].Bits = math.MaxInt }, []string{"Node[1] (worker)"}},
		{"one bit too many", func(l *L) { l.SequenceBits++ },
			[]string{"41", "10", "13", "64 bits, 1 more than the 63", "69.68 years"}},
		{"a life past the year 9999", func(l *L) { l.TimeBits, l.Node, l.SequenceBits = 50, nil, 5 },
			[]string{"TimeBits 50 of 1ms last 35677.62 years, beyond the year 9999"}},
		{"a life past all numbers", func(l *L) { l.Tick, l.TimeBits, l.Node, l.SequenceBits = math.MaxInt64, 62, nil, 1 },
			[]string{"TimeBits 62", "beyond the year 9999"}},
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	for _, test := range faultyLayouts() {
		t.Run(test.fault, func(t *testing.T) {
			l := generator.Twitter()
			test.spoil(&l)
			err := l.Validate()
			wantError(t, err, generator.ErrInvalidLayout, test.says...)
			var faults *generator.LayoutError
			if !errors.As(err, &faults) {
				t.Fatalf("error is a %T, want a *LayoutError", err)
			}
			if len(faults.Faults) != 1 || faults.Layout != "twitter" {
				t.Errorf("layout %q with faults %q, want twitter with exactly one", faults.Layout, faults.Faults)
			}
		})
	}
}

func TestEveryFunctionRefusesAnInvalidLayout(t *testing.T) {
	for _, test := range faultyLayouts() {
		t.Run(test.fault, func(t *testing.T) {
			l := generator.Twitter()
			test.spoil(&l)
			_, err := l.Compose(generator.Parts{Time: midLife()})
			wantError(t, err, generator.ErrInvalidLayout)
			_, err = l.Decompose(1)
			wantError(t, err, generator.ErrInvalidLayout)
			_, _, err = l.Range(midLife(), midLife())
			wantError(t, err, generator.ErrInvalidLayout)
			_, err = l.PackNode(1, 2)
			wantError(t, err, generator.ErrInvalidLayout)
			_, err = generator.New(l, generator.FixedNode(0))
			wantError(t, err, generator.ErrInvalidLayout)
			if end := l.End(); !end.IsZero() {
				t.Errorf("End is %v, want the zero time", end)
			}
			if text := l.Diagram(1); !strings.Contains(text, "invalid layout") {
				t.Errorf("Diagram says %q", text)
			}
			// The plain accessors have no error to return; they must at least return.
			_, _, _, _ = l.NodeBits(), l.MaxNode(), l.MaxSequence(), l.UnpackNode(-1)
		})
	}
}

func TestValidateTellsAllFaultsAtOnce(t *testing.T) {
	l := generator.Layout{
		Tick: -1, TimeBits: 99, SequenceBits: -2,
		Node: []generator.Field{{"", 0}, {"a", 5}, {"a", 5}, {"a", 70}},
	}
	err := l.Validate()
	wantError(t, err, generator.ErrInvalidLayout, "(unnamed)")
	var faults *generator.LayoutError
	if !errors.As(err, &faults) {
		t.Fatalf("error is a %T, want a *LayoutError", err)
	}
	want := []string{
		"Epoch", "Tick", "TimeBits", "SequenceBits",
		"Node[0] has no Name", "Node[0] () has 0 Bits",
		`Node[2] has the Name "a" of Node[1]`,
		`Node[3] has the Name "a" of Node[1]`, "Node[3] (a) has 70 Bits",
	}
	if len(faults.Faults) != len(want) {
		t.Fatalf("%d faults %q, want %d", len(faults.Faults), faults.Faults, len(want))
	}
	for i, prefix := range want {
		if !strings.HasPrefix(faults.Faults[i], prefix) {
			t.Errorf("fault %d is %q, want it to begin with %q", i, faults.Faults[i], prefix)
		}
		if !strings.Contains(err.Error(), faults.Faults[i]) {
			t.Errorf("the error does not say %q", faults.Faults[i])
		}
	}
}

// What lies just inside the bounds is valid, and what lies just outside is not.
func TestValidateDrawsItsLinesWhereItSays(t *testing.T) {
	type L = generator.Layout
	utc := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	}
	east := time.FixedZone("", 14*3600)
	tests := []struct {
		name  string
		spoil func(l *L)
		valid bool
	}{
		{"63 bits", func(l *L) { l.Node[0].Bits = 5 }, true},
		{"64 bits", func(l *L) { l.Node[0].Bits = 6 }, false},
		{"the first epoch", func(l *L) { l.Epoch = utc(1970, 1, 1) }, true},
		{"a nanosecond before it", func(l *L) { l.Epoch = utc(1970, 1, 1).Add(-1) }, false},
		{"1970 in the east, 1969 in UTC", func(l *L) { l.Epoch = time.Date(1970, 1, 1, 0, 0, 0, 0, east) }, false},
		{"the last epoch", func(l *L) { l.Epoch = utc(2201, 1, 1).Add(-1) }, true},
		{"a nanosecond after it", func(l *L) { l.Epoch = utc(2201, 1, 1) }, false},
		{"a tick of a microsecond", func(l *L) { l.Tick = time.Microsecond }, true},
		{"one bit of each", func(l *L) { l.TimeBits, l.SequenceBits, l.Node = 1, 1, l.Node[:1] }, true},
		{"62 bits of sequence", func(l *L) { l.TimeBits, l.SequenceBits, l.Node = 1, 62, nil }, true},
		// 64 ticks of 125 Julian years each, which end in March.
		{"an end in the year 9999", func(l *L) { l.Epoch, l.Tick, l.TimeBits = utc(1999, 1, 1), 125*8766*time.Hour, 6 }, true},
		{"an end in the year 10000", func(l *L) { l.Epoch, l.Tick, l.TimeBits = utc(2000, 1, 1), 125*8766*time.Hour, 6 }, false},
	}
	for _, test := range tests {
		l := generator.Twitter()
		test.spoil(&l)
		if err := l.Validate(); (err == nil) != test.valid {
			t.Errorf("%s: %v, want that it is valid: %v", test.name, err, test.valid)
		}
	}
}

// Widths that do not fit and a life too long are two faults, both told.
func TestValidateTellsWidthAndLifeTogether(t *testing.T) {
	l := generator.Default()
	l.TimeBits = 60
	var faults *generator.LayoutError
	if !errors.As(l.Validate(), &faults) || len(faults.Faults) != 2 {
		t.Errorf("%v, want two faults", l.Validate())
	}
}

// A layout that game literature proposes, 37 bits of milliseconds, 20 of server and 16 of sequence,
// is ten bits too wide, and would be at its end after four years.
func TestValidateRefusesTheGameProposalWithItsNumbers(t *testing.T) {
	l := generator.Layout{
		Name: "proposal", Epoch: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond,
		TimeBits: 37, Node: []generator.Field{{Name: "server", Bits: 20}}, SequenceBits: 16,
	}
	wantError(t, l.Validate(), generator.ErrInvalidLayout, "proposal",
		"TimeBits 37 + Node 20 + SequenceBits 16 = 73 bits, 10 more than the 63", "37 bits of 1ms last 4.36 years")
}

func TestPackNodeChecksEveryField(t *testing.T) {
	l := generator.Business()
	tests := []struct {
		values []int64
		says   string
	}{
		{nil, "has 3 node fields, but 0 values"},
		{[]int64{1, 2}, "has 3 node fields, but 2 values"},
		{[]int64{1, 2, 3, 4}, "has 3 node fields, but 4 values"},
		{[]int64{16, 0, 0}, "business 16 does not fit its 4 bits, 0 to 15"},
		{[]int64{0, 4, 0}, "idc 4 does not fit its 2 bits, 0 to 3"},
		{[]int64{0, 0, 128}, "machine 128 does not fit its 7 bits, 0 to 127"},
		{[]int64{0, 0, -1}, "machine -1"},
		{[]int64{math.MinInt64, 0, 0}, "business -9223372036854775808"},
	}
	for _, test := range tests {
		node, err := l.PackNode(test.values...)
		wantError(t, err, generator.ErrNodeRange, test.says)
		if node != 0 {
			t.Errorf("PackNode(%v) = %d and an error", test.values, node)
		}
	}
	node, err := l.PackNode(9, 2, 77)
	if want := int64(9<<9 | 2<<7 | 77); err != nil || node != want {
		t.Errorf("PackNode(9, 2, 77) = %d, %v, want %d", node, err, want)
	}
	if got := l.UnpackNode(node | 1<<13 | 1<<40); !slices.Equal(got, []int64{9, 2, 77}) {
		t.Errorf("UnpackNode with bits above the node is %v", got)
	}
}

func TestALayoutWithoutNodeFieldsHasTheNodeZero(t *testing.T) {
	l := vast()
	if node, err := l.PackNode(); node != 0 || err != nil {
		t.Errorf("PackNode() = %d, %v", node, err)
	}
	if l.MaxNode() != 0 || len(l.UnpackNode(5)) != 0 {
		t.Errorf("greatest node %d, fields %v", l.MaxNode(), l.UnpackNode(5))
	}
	mustNew(t, l, generator.FixedNode(0))
	_, err := generator.New(l, generator.FixedNode(1))
	wantError(t, err, generator.ErrNodeRange, "node 1 is not between 0 and 0")
}
