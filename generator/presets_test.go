package generator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// preset is what a preset has to be, written down a second time.
type preset struct {
	layout       generator.Layout
	name, epoch  string
	tick         time.Duration
	timeBits     int
	node         []generator.Field
	sequenceBits int
	years, end   string
}

func presets() []preset {
	type f = generator.Field
	const (
		ms, s   = time.Millisecond, time.Second
		own     = "2025-01-01T00:00:00Z"
		twepoch = "2010-11-04T01:42:54.657Z"
		sphere  = "2016-11-01T00:00:00Z"
		at2016  = "2016-01-01T00:00:00Z"
	)
	return []preset{
		{generator.Default(), "default", own, ms, 41, []f{{"node", 10}}, 12,
			"69.7", "2094-09-07T15:47:35.552Z"},
		{generator.Twitter(), "twitter", twepoch, ms, 41, []f{{"datacenter", 5}, {"worker", 5}}, 12,
			"69.7", "2080-07-10T17:30:30.209Z"},
		{generator.ShardingSphere(), "shardingsphere", sphere, ms, 41, []f{{"worker", 10}}, 12,
			"69.7", "2086-07-08T15:47:35.552Z"},
		{generator.Business(), "business", at2016, ms, 39,
			[]f{{"business", 4}, {"idc", 2}, {"machine", 7}}, 7, "17.4", "2033-06-02T21:56:53.888Z"},
		{generator.JavaScript(), "javascript", own, 10 * ms, 37, []f{{"node", 8}}, 8,
			"43.6", "2068-07-21T06:52:14.72Z"},
		{generator.Game(), "game", own, 100 * ms, 33, []f{{"server", 20}}, 10,
			"27.2", "2052-03-22T01:17:39.2Z"},
		{generator.GameLong(), "gamelong", own, 100 * ms, 34, []f{{"server", 20}}, 9,
			"54.4", "2079-06-11T02:35:18.4Z"},
		{generator.GameSecond(), "gamesecond", own, s, 31, []f{{"server", 20}}, 12,
			"68.0", "2093-01-19T03:14:08Z"},
		{generator.Game16(), "game16", own, 100 * ms, 35, []f{{"server", 16}}, 12,
			"108.9", "2133-11-19T05:10:36.8Z"},
		{generator.Game16Fast(), "game16fast", own, 10 * ms, 37, []f{{"server", 16}}, 10,
			"43.6", "2068-07-21T06:52:14.72Z"},
	}
}

func TestPresetsAreWhatTheirTableSays(t *testing.T) {
	for _, want := range presets() {
		l := want.layout
		if err := l.Validate(); err != nil {
			t.Errorf("%s: %v", want.name, err)
			continue
		}
		life := l.End().Sub(l.Epoch).Hours() / (365.25 * 24)
		got := preset{
			name: l.Name, epoch: l.Epoch.Format(time.RFC3339Nano), tick: l.Tick, timeBits: l.TimeBits,
			node: l.Node, sequenceBits: l.SequenceBits,
			years: fmt.Sprintf("%.1f", life), end: l.End().Format(time.RFC3339Nano),
		}
		want.layout = generator.Layout{}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("preset is\n%+v, want\n%+v", got, want)
		}
		if loc := l.End().Location(); loc != time.UTC {
			t.Errorf("%s: End is in %v, want UTC", want.name, loc)
		}
	}
}

func TestJavaScriptIDsAreExactAsFloats(t *testing.T) {
	l := generator.JavaScript()
	last := l.End().Add(-l.Tick)
	id, err := l.Compose(generator.Parts{Time: last, Node: l.MaxNode(), Sequence: l.MaxSequence()})
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(1)<<53 - 1; id != want {
		t.Errorf("greatest id is %d, want Number.MAX_SAFE_INTEGER, %d", id, want)
	}
	for _, id := range []int64{id, id - 1, id - 2} {
		if back := int64(float64(id)); back != id {
			t.Errorf("%d came back from a float64 as %d", id, back)
		}
	}
}

// The layout of this name had ticks of 1 ms and 16 nodes in early versions. A program that goes on with the new
// one makes IDs that are greater than all that it has made, also in the last ticks that it had borrowed.
func TestNewIDsOfJavaScriptAreGreaterThanOldOnesOfTheSameTime(t *testing.T) {
	old, l := generator.JavaScript(), generator.JavaScript()
	old.Tick, old.TimeBits, old.Node = time.Millisecond, 41, []generator.Field{{Name: "node", Bits: 4}}
	for _, at := range []time.Time{
		old.Epoch.Add(time.Second), midLife(), midLife().Add(9*time.Millisecond + 999*time.Microsecond),
		midLife().AddDate(30, 0, 0), l.End().Add(-time.Second),
	} {
		last, err := old.Compose(generator.Parts{
			Time: at.Add(10 * old.Tick), Node: old.MaxNode(), Sequence: old.MaxSequence(),
		})
		if err != nil {
			t.Fatal(err)
		}
		first, err := l.Compose(generator.Parts{Time: at})
		if err != nil {
			t.Fatal(err)
		}
		if first <= last {
			t.Errorf("at %v the least new ID is %d, and the greatest old one %d", at, first, last)
		}
	}
}

func TestPresetsShareNothing(t *testing.T) {
	// A preset is a function so that nobody can change it for others.
	l := generator.Twitter()
	l.Node[0].Name = "changed"
	if name := generator.Twitter().Node[0].Name; name != "datacenter" {
		t.Errorf("another caller of Twitter sees the field %q", name)
	}
	g := mustNew(t, l, always(1))
	l.Node[0].Bits = 1
	g.Layout().Node[1].Bits = 1
	if bits := g.Layout().NodeBits(); bits != 10 {
		t.Errorf("the layout of a running generator was changed from outside: %d node bits", bits)
	}
}

// Every node of every preset survives the way into an ID and back. A peer shifts its worker in 16
// bits, where workers 0, 16, 32 and 48 of a wide sequence are one and the same.
func TestEveryNodeOfEveryPresetComesBack(t *testing.T) {
	for _, p := range presets() {
		l := p.layout
		step := int64(1)
		if raceEnabled || testing.Short() {
			step = 1 + l.MaxNode()/4096
		}
		seen := int64(0)
		for node := int64(0); node <= l.MaxNode(); node += step {
			id, err := l.Compose(generator.Parts{Time: midLife(), Node: node, Sequence: l.MaxSequence()})
			if err != nil {
				t.Fatalf("%s: node %d: %v", p.name, node, err)
			}
			if got := mustDecompose(t, l, id).Node; got != node {
				t.Fatalf("%s: node %d came back as %d", p.name, node, got)
			}
			packed, err := l.PackNode(l.UnpackNode(node)...)
			if err != nil || packed != node {
				t.Fatalf("%s: node %d unpacked and packed is %d, %v", p.name, node, packed, err)
			}
			seen++
		}
		if seen == 0 {
			t.Errorf("%s: no node was looked at", p.name)
		}
	}
}
