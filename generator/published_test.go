package generator_test

import (
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// discord is the layout of Discord's IDs, whose time has 42 bits there and 41 here: an int64 has
// no more, and they last until 2084.
func discord() generator.Layout {
	return generator.Layout{
		Name: "discord", Epoch: time.UnixMilli(1420070400000), Tick: time.Millisecond,
		TimeBits: 41, Node: []generator.Field{{Name: "worker", Bits: 5}, {Name: "process", Bits: 5}},
		SequenceBits: 12,
	}
}

// IDs that others made and took apart, with what they published about them.
func TestPublishedIDsSayWhatWasPublished(t *testing.T) {
	tests := []struct {
		source   string
		layout   generator.Layout
		id       int64
		time     string
		node     []int64
		sequence int64
	}{
		{"Wikipedia, Snowflake ID: a post of June 2022, machine 378", generator.Twitter(),
			1541815603606036480, "2022-06-28T16:07:40.105Z", []int64{11, 26}, 0},
		{"Discord, API reference, Snowflakes", discord(),
			175928847299117063, "2016-04-30T11:18:25.796Z", []int64{1, 0}, 7},
		{"README of the npm package discord-snowflake", discord(),
			90339695967350784, "2015-09-07T06:57:41.949Z", []int64{0, 3}, 0},
		{"README of the npm package @pcordjs/snowflake", discord(),
			937847820382261308, "2022-01-31T23:12:24.749Z", []int64{1, 5}, 60},
	}
	for _, test := range tests {
		checkVector(t, test.layout, vector{
			Preset: test.source, ID: test.id, Time: instant(t, test.time), Node: test.node, Sequence: test.sequence,
		})
	}
	if node, err := generator.Twitter().PackNode(11, 26); err != nil || node != 378 {
		t.Errorf("datacenter 11, worker 26 is machine %d, %v, want 378", node, err)
	}
}

// Posts whose second of creation Twitter's own documentation tells beside their ID, and one that
// the documentation of a Discord client tells to the millisecond.
func TestPublishedIDsTellTheirTime(t *testing.T) {
	tests := []struct {
		layout  generator.Layout
		id      int64
		created string
		exact   time.Duration
	}{
		{generator.Twitter(), 210462857140252672, "2012-06-06T20:07:10Z", time.Second},
		{generator.Twitter(), 850006245121695744, "2017-04-06T15:24:15Z", time.Second},
		{generator.Twitter(), 1050118621198921728, "2018-10-10T20:19:24Z", time.Second},
		{generator.Twitter(), 1307025659294674945, "2020-09-18T18:36:15Z", time.Second},
		{discord(), 105484726235607040, "2015-10-19T01:58:38.546Z", time.Millisecond},
	}
	for _, test := range tests {
		got := mustDecompose(t, test.layout, test.id).Time
		if want := instant(t, test.created); !got.Truncate(test.exact).Equal(want) {
			t.Errorf("%d was made at %v, want %v", test.id, got, want)
		}
		lo, hi, err := test.layout.Range(got, got.Add(time.Millisecond))
		if err != nil || test.id < lo || test.id >= hi {
			t.Errorf("%d is not in the range of its own millisecond, [%d, %d), %v", test.id, lo, hi, err)
		}
	}
}

// instant parses a time that a test wrote down.
func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
