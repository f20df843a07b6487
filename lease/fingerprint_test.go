package lease_test

import (
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// These texts are in the tables of users: they may never change.
func TestTheFingerprintsOfThePresets(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]generator.Layout{
		"epoch=2025-01-01T00:00:00Z tick=1ms time=41 node=10 sequence=12":     generator.Default(),
		"epoch=2010-11-04T01:42:54.657Z tick=1ms time=41 node=10 sequence=12": generator.Twitter(),
		"epoch=2016-11-01T00:00:00Z tick=1ms time=41 node=10 sequence=12":     generator.ShardingSphere(),
		"epoch=2016-01-01T00:00:00Z tick=1ms time=39 node=13 sequence=7":      generator.Business(),
		"epoch=2025-01-01T00:00:00Z tick=10ms time=37 node=8 sequence=8":      generator.JavaScript(),
		"epoch=2025-01-01T00:00:00Z tick=100ms time=33 node=20 sequence=10":   generator.Game(),
		"epoch=2025-01-01T00:00:00Z tick=1s time=31 node=20 sequence=12":      generator.GameSecond(),
	} {
		if got := lease.Fingerprint(l); got != want {
			t.Errorf("the fingerprint of %s is %q, want %q", l.Name, got, want)
		}
	}
}

func TestAFingerprintTellsLayoutsApartWhoseIDsCanBeEqual(t *testing.T) {
	t.Parallel()
	fingerprint := func(change func(*generator.Layout)) string {
		l := generator.Default()
		change(&l)
		return lease.Fingerprint(l)
	}
	own := lease.Fingerprint(generator.Default())
	for name, change := range map[string]func(*generator.Layout){
		"its name":     func(l *generator.Layout) { l.Name = "ours" },
		"node's name":  func(l *generator.Layout) { l.Node = []generator.Field{{Name: "worker", Bits: 10}} },
		"node's parts": func(l *generator.Layout) { l.Node = []generator.Field{{Name: "a", Bits: 5}, {Name: "b", Bits: 5}} },
		"its time zone": func(l *generator.Layout) {
			l.Epoch = l.Epoch.In(time.FixedZone("UTC+8", 8*60*60))
		},
	} {
		if got := fingerprint(change); got != own {
			t.Errorf("%s makes the fingerprint %q, though the IDs are the same", name, got)
		}
	}
	for name, change := range map[string]func(*generator.Layout){
		"the epoch":         func(l *generator.Layout) { l.Epoch = l.Epoch.Add(time.Nanosecond) },
		"the tick":          func(l *generator.Layout) { l.Tick += time.Nanosecond },
		"the time bits":     func(l *generator.Layout) { l.TimeBits-- },
		"the node bits":     func(l *generator.Layout) { l.Node = []generator.Field{{Name: "node", Bits: 9}} },
		"the sequence bits": func(l *generator.Layout) { l.SequenceBits-- },
	} {
		if got := fingerprint(change); got == own {
			t.Errorf("another %s leaves the fingerprint %q, though other IDs come out", name, got)
		}
	}
}

func TestWindowsBeginAndEndWithTicks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ms = time.Millisecond
		for name, c := range map[string]struct {
			layout           generator.Layout
			now, from, until time.Duration
		}{
			"at the beginning of a tick": {generator.Default(), 0, 0, span},
			"within a tick":              {generator.Default(), ms / 2, ms, span},
			"a moment before a tick":     {generator.Default(), ms - 1, ms, span},
			"within a longer tick":       {generator.Game(), 150 * ms, 200 * ms, span + 100*ms},
			"within a tick of a second":  {generator.GameSecond(), 1200 * ms, 2 * time.Second, span + time.Second},
		} {
			s, clock := newTable(), new(wallClock)
			s.clock.Set(after(c.now))
			clock.Set(after(c.now))
			k, err := acquireFor(t.Context(), t, s, c.layout, lease.WithClock(clock.Now))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			w := k.Window()
			wantTime(t, name+" the window's beginning", w.From, after(c.from))
			wantTime(t, name+" the window's end", w.Until, after(c.until))
			wantTime(t, name+" the record's end", s.of(t, w.Node).Until, after(c.until))
			mustClose(t, k)
		}
	})
}

// shortLived is a layout whose life ends at an instant.
func shortLived(end time.Time) generator.Layout {
	l := generator.Default()
	l.Name, l.TimeBits = "short-lived", 20
	l.Epoch = end.Add(-l.Tick << l.TimeBits)
	return l
}

func TestAWindowEndsWithTheLifeOfItsLayout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k, err := acquireFor(t.Context(), t, s, shortLived(after(20*time.Second)), j.option())
		if err != nil {
			t.Fatal(err)
		}
		wantWindow(t, k, k.Window().Node, midLife(), after(span))
		time.Sleep(19 * time.Second)
		wantWindow(t, k, k.Window().Node, midLife(), after(20*time.Second))
		swaps := len(s.asked(asksSwap))
		time.Sleep(time.Minute)
		wantWindow(t, k, k.Window().Node, midLife(), after(20*time.Second))
		if more := len(s.asked(asksSwap)) - swaps; more != 0 {
			t.Errorf("%d swaps after the end of the layout's life", more)
		}
		j.want(t, "INFO node taken")
	})
}

func TestNoNumberIsTakenBeforeTheLayoutBegins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		l := shortLived(after(time.Hour))
		l.Epoch = after(time.Millisecond)
		_, err := acquireFor(t.Context(), t, s, l)
		wantError(t, err, generator.ErrBeforeEpoch, "2026-03-04T05:06:07.001Z")
		s.wantAsked(t, asksNow, asksList)
	})
}

func TestNoNumberIsTakenAfterTheLayoutHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		for _, end := range []time.Duration{0, -time.Millisecond, -365 * 24 * time.Hour} {
			_, err := acquireFor(t.Context(), t, s, shortLived(after(end)))
			wantError(t, err, generator.ErrTimeExhausted, "no tick of layout short-lived is left after ")
		}
		if swaps := s.asked(asksSwap); len(swaps) > 0 {
			t.Errorf("%d swaps", len(swaps))
		}
	})
}

func TestTheLastTickOfALayoutCanBeHad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k, err := acquireFor(t.Context(), t, s, shortLived(after(time.Millisecond)))
		if err != nil {
			t.Fatal(err)
		}
		wantWindow(t, k, k.Window().Node, midLife(), after(time.Millisecond))
	})
}
