package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func TestEveryFaultOfTheOptionsIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := lease.Acquire(t.Context(), nil, generator.Default(), lease.WithNodes(0, 1024), lease.WithNodes(5, 4),
		nil, lease.WithSpan(0), lease.WithOwner(" "), lease.WithLogger(nil), lease.WithClock(nil))
	wantError(t, err, lease.ErrInvalidOption, "the store is nil",
		"Nodes(0, 1024): the greatest node of layout default is 1023",
		"Nodes(5, 4): from 0 up, the lesser number first",
		"option 2 is nil",
		"Span(0s) is not between 10ms and 24h0m0s",
		`Owner(""): from 1 to 160 bytes of printable text`,
		"WithLogger(nil): to silence the keeper use slog.New(slog.DiscardHandler)",
		"WithClock(nil): a clock is needed")
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 8 {
		t.Errorf("%d faults, want 8:\n%v", lines, err)
	}
}

func TestALayoutThatIsInvalidIsRefused(t *testing.T) {
	t.Parallel()
	l := generator.Default()
	l.Tick = 0
	s := newTable()
	_, err := lease.Acquire(t.Context(), s, l)
	wantError(t, err, generator.ErrInvalidLayout, "Tick 0s")
	s.wantAsked(t)
}

func TestTheLimitsOfTheOptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			layout generator.Layout
			opt    lease.Option
			want   string // empty: it is accepted
		}{
			"all numbers":          {generator.Default(), lease.WithNodes(0, 1023), ""},
			"the last number":      {generator.Default(), lease.WithNodes(1023, 1023), ""},
			"one number too many":  {generator.Default(), lease.WithNodes(1024, 1024), "greatest node"},
			"a negative number":    {generator.Default(), lease.WithNodes(-1, 3), "Nodes(-1, 3)"},
			"the shortest span":    {generator.Default(), lease.WithSpan(10 * time.Millisecond), ""},
			"a span too short":     {generator.Default(), lease.WithSpan(10*time.Millisecond - 1), "Span(9.999999ms)"},
			"the longest span":     {generator.Default(), lease.WithSpan(24 * time.Hour), ""},
			"a span too long":      {generator.Default(), lease.WithSpan(24*time.Hour + 1), "Span(24h0m0.000000001s)"},
			"a span of two ticks":  {generator.GameSecond(), lease.WithSpan(2999 * time.Millisecond), "shorter than 3 ticks"},
			"a span of three":      {generator.GameSecond(), lease.WithSpan(3 * time.Second), ""},
			"a name of 160 bytes":  {generator.Default(), lease.WithOwner(strings.Repeat("é", 80)), ""},
			"a name of 161 bytes":  {generator.Default(), lease.WithOwner(strings.Repeat("n", 161)), "Owner("},
			"a name of two lines":  {generator.Default(), lease.WithOwner("a\nb"), `Owner("a\nb")`},
			"a name not in UTF-8":  {generator.Default(), lease.WithOwner("a\xffb"), `Owner("a\xffb")`},
			"a name with spaces":   {generator.Default(), lease.WithOwner(" payments 3 "), ""},
			"a name of no letters": {generator.Default(), lease.WithOwner("a\u200bb"), "printable"},
		} {
			k, err := acquireFor(t.Context(), t, newTable(), c.layout, c.opt)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.want == "":
				mustClose(t, k)
			default:
				wantError(t, err, lease.ErrInvalidOption, c.want)
			}
		}
	})
}

func TestTheLastOfTwoEqualOptionsCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := acquire(t, newTable(), lease.WithNodes(3, 3), lease.WithNodes(5, 5), lease.WithSpan(time.Minute), lease.WithSpan(time.Second))
		wantWindow(t, k, 5, midLife(), after(time.Second))
	})
}

func TestTheDefaultSpan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ticking := func(tick time.Duration, timeBits int) generator.Layout {
			l := generator.Default()
			l.Epoch, l.Tick, l.TimeBits = time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC), tick, timeBits
			return l
		}
		const year = 8766 * time.Hour
		for name, c := range map[string]struct {
			store  func(*table) lease.Store
			layout generator.Layout
			nodes  [2]int64
			until  time.Time
		}{
			"of any layout": {layout: generator.Default(), until: after(span)},
			"of a layout of 2 s a tick is fifteen of them": {
				layout: ticking(2*time.Second, 30),
				until:  after(30 * time.Second).Truncate(2 * time.Second),
			},
			"of a layout whose ticks are lifetimes does not overflow": {
				layout: ticking(20*year, 2),
				until:  time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC).Add(60 * year),
			},
			"of a store that asks for more": {store: hinting(time.Minute), layout: generator.Default(), until: after(time.Minute)},
			"of a store that asks for less": {store: hinting(time.Second), layout: generator.Default(), until: after(span)},
			"of a store that asks for years is a minute at first": {
				store: hinting(year), layout: generator.Default(), until: after(time.Minute),
			},
			"of 17 numbers, too": {
				store: hinting(year), layout: generator.Default(), nodes: [2]int64{100, 116}, until: after(time.Minute),
			},
			"of 16 numbers, whatever the store asks for": {
				store: hinting(year), layout: generator.Default(), nodes: [2]int64{100, 115}, until: after(span),
			},
			"of a single number, whatever the store asks for": {
				store: hinting(time.Minute), layout: generator.Default(), nodes: [2]int64{4, 4}, until: after(span),
			},
		} {
			s := newTable()
			store := lease.Store(s)
			if c.store != nil {
				store = c.store(s)
			}
			if c.nodes[1] == 0 {
				c.nodes[1] = c.layout.MaxNode()
			}
			k, err := acquireFor(t.Context(), t, store, c.layout, lease.WithNodes(c.nodes[0], c.nodes[1]))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			wantTime(t, "the end of the window "+name, k.Window().Until, c.until)
			mustClose(t, k)
		}
	})
}

func hinting(hint time.Duration) func(*table) lease.Store {
	return func(s *table) lease.Store { return slow{s, hint} }
}

func TestEveryTenureHasAnOwnerOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		owners := map[string]bool{}
		named := regexp.MustCompile(`^payments 3 #[0-9a-f]{16}$`)
		for range 10 {
			k := acquire(t, s, lease.WithOwner(" payments 3\t"))
			owner := s.of(t, k.Window().Node).Owner
			if !named.MatchString(owner) || owners[owner] {
				t.Errorf("the owner %q is not new or not named as it was told", owner)
			}
			owners[owner] = true
		}
	})
}

func TestTheDefaultOwnerSaysWhichProcessItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, s)
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s pid %d since 2026-03-04T05:06:07Z #", host, os.Getpid())
		if owner := s.of(t, k.Window().Node).Owner; !strings.HasPrefix(owner, want) {
			t.Errorf("the owner is %q, want one that begins with %q", owner, want)
		}
	})
}

// It changes slog's default logger, so it cannot run beside other tests.
func TestByDefaultTheKeeperLogsToTheDefaultLogger(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var j journal
	slog.SetDefault(slog.New(&j))
	k, err := lease.Acquire(t.Context(), newTable(), generator.Default())
	if err != nil {
		t.Fatal(err)
	}
	slog.SetDefault(before)
	if err := k.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	j.want(t, "INFO node taken", "INFO node given back")
}
