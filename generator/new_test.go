package generator_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

func TestNewRefusesANodeThatDoesNotFit(t *testing.T) {
	for _, node := range []int64{-1, 1024, math.MinInt64, math.MaxInt64} {
		g, err := generator.New(generator.Default(), generator.FixedNode(node))
		wantError(t, err, generator.ErrNodeRange, "not between 0 and 1023", "10 node bits of layout default")
		if g != nil {
			t.Error("a generator came with the error")
		}
	}
	for _, node := range []int64{0, 1023} {
		mustNew(t, generator.Default(), generator.FixedNode(node))
	}
}

func TestNewRefusesANilTenure(t *testing.T) {
	_, err := generator.New(generator.Default(), nil)
	wantError(t, err, generator.ErrInvalidOption, "tenure is nil", "generator.FixedNode")
}

func TestNewTellsAllOptionFaultsAtOnce(t *testing.T) {
	_, err := generator.New(generator.Default(), generator.FixedNode(1),
		generator.WithShards(0),
		nil,
		generator.WithMaxAhead(-time.Nanosecond),
		generator.WithMaxWait(-time.Second),
		generator.WithClock(nil),
	)
	wantError(t, err, generator.ErrInvalidOption,
		"WithShards(0) is not between 1 and 65536", "option 1 is nil",
		"WithMaxAhead(-1ns) is not between 0 and 24h0m0s", "WithMaxWait(-1s) is negative", "WithClock(nil)")
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 5 {
		t.Errorf("%d lines, want one for each of 5 faults:\n%v", lines, err)
	}
}

func TestNewChecksEveryOption(t *testing.T) {
	l := generator.Default()
	refused := map[string]generator.Option{
		"WithShards(-1)":                       generator.WithShards(-1),
		"WithShards(65537)":                    generator.WithShards(65537),
		"needs more than the 12 sequence bits": generator.WithShards(4097),
		"WithMaxAhead(24h0m0.000000001s)":      generator.WithMaxAhead(24*time.Hour + 1),
		"WithMaxWait(-1ns)":                    generator.WithMaxWait(-1),
	}
	for says, option := range refused {
		_, err := generator.New(l, generator.FixedNode(1), option)
		wantError(t, err, generator.ErrInvalidOption, says)
	}
	for _, option := range []generator.Option{
		generator.WithShards(1), generator.WithShards(4096),
		generator.WithMaxAhead(0), generator.WithMaxAhead(24 * time.Hour),
		generator.WithMaxWait(0), generator.WithMaxWait(math.MaxInt64),
		generator.WithClock(time.Now),
	} {
		mustNew(t, l, generator.FixedNode(1), option)
	}
	// Of an option given twice the later one counts.
	mustNew(t, l, generator.FixedNode(1), generator.WithShards(5000), generator.WithShards(16))
	// The greatest number of shards there is needs 16 bits of sequence.
	l.Node, l.SequenceBits = nil, 16
	mustNew(t, l, generator.FixedNode(0), generator.WithShards(65536))
}

func TestNewRefusesAClockOutsideTheLifeOfTheLayout(t *testing.T) {
	l := generator.Twitter()
	start := func(at time.Time) error {
		_, err := generator.New(l, generator.FixedNode(1), generator.WithClock(newTestClock(at).Now))
		return err
	}
	wantError(t, start(l.Epoch.Add(-1)), generator.ErrBeforeEpoch,
		"the clock shows 2010-11-04T01:42:54.656999999Z", "2010-11-04T01:42:54.657Z", "twitter", "correct the clock")
	wantError(t, start(time.Unix(0, 0)), generator.ErrBeforeEpoch, "1970-01-01")
	wantError(t, start(l.End()), generator.ErrTimeExhausted, "2080-07-10T17:30:30.209Z", "twitter")
	wantError(t, start(l.End().AddDate(100, 0, 0)), generator.ErrTimeExhausted)
	for _, at := range []time.Time{l.Epoch, l.End().Add(-1)} {
		if err := start(at); err != nil {
			t.Errorf("a clock at %v: %v", at, err)
		}
	}
}

// window is the tenure of one window that never changes.
type window generator.Window

func (w window) Window() generator.Window { return generator.Window(w) }

func (w window) Extend(context.Context) error { return errNoMore }

func TestNewChecksTheWindowOfTheTenure(t *testing.T) {
	l := generator.Default()
	_, err := generator.New(l, window{Node: 2000, Until: l.End()})
	wantError(t, err, generator.ErrNodeRange, "node 2000")
	_, err = generator.New(l, window{Node: 5, From: l.End(), Until: l.End().AddDate(1, 0, 0)})
	wantError(t, err, generator.ErrTimeExhausted, "window of node 5 begins at 2094-09-07T15:47:35.552Z")
}

// The zero value of an option is not its default: with no option at all, the defaults hold.
func TestDefaultsFollowTheLayout(t *testing.T) {
	tests := []struct {
		layout   generator.Layout
		maxAhead time.Duration
		maxWait  time.Duration
	}{
		{generator.Default(), 10 * time.Millisecond, time.Second},
		{generator.Game16Fast(), 100 * time.Millisecond, time.Second},
		{generator.Game(), time.Second, time.Second},
		{generator.GameSecond(), 10 * time.Second, 2 * time.Second},
	}
	for _, test := range tests {
		// A clock that went far back and stands there shows both limits in the error.
		clock := newTestClock(midLife())
		g := mustNew(t, test.layout, always(1), generator.WithClock(clock.Now))
		mustNext(t, g)
		clock.Move(-time.Hour)
		_, err := g.Next(t.Context())
		behind := asClockError(t, err)
		if behind.MaxAhead != test.maxAhead || behind.MaxWait != test.maxWait {
			t.Errorf("%s: MaxAhead %v and MaxWait %v, want %v and %v", test.layout.Name,
				behind.MaxAhead, behind.MaxWait, test.maxAhead, test.maxWait)
		}
	}
}
