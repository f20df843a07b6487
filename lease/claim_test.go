package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func TestAKeeperServesOneGenerator(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := acquire(t, newTable(), lease.WithNodes(7, 7))
		g := newGenerator(t, k)
		_, err := generator.New(generator.Default(), k)
		wantError(t, err, lease.ErrTenureTaken,
			"generator: tenure already serves a generator: node 7: acquire a lease for each generator, or share the generator")
		wantError(t, err, generator.ErrTenureTaken)
		mustNext(t, g)
		mustClose(t, k)
		_, err = generator.New(generator.Default(), k)
		wantError(t, err, lease.ErrClosed)
	})
}

// One that could not be made does not count.
func TestAGeneratorThatFailsLeavesItsKeeperFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := acquire(t, newTable())
		_, err := generator.New(generator.Default(), k, generator.WithMaxWait(-1))
		wantError(t, err, generator.ErrInvalidOption)
		_, err = generator.New(generator.Twitter(), k)
		wantError(t, err, lease.ErrLayoutMismatch, `the node was leased for "epoch=2025-01-01T00:00:00Z tick=1ms`,
			`the generator has "epoch=2010-11-04T01:42:54.657Z tick=1ms`)
		mustNext(t, newGenerator(t, k))
	})
}

func TestAKeeperServesALayoutOfAnotherNameAndTheSameIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := generator.Default()
		l.Name = "ours"
		l.Node = []generator.Field{{Name: "datacenter", Bits: 5}, {Name: "worker", Bits: 5}}
		k := acquire(t, newTable())
		g, err := generator.New(l, k)
		if err != nil {
			t.Fatal(err)
		}
		mustNext(t, g)
	})
}

func TestAClosedKeeperServesNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		k := acquire(t, s, lease.WithNodes(7, 7))
		mustClose(t, k)
		wantFree(t, s.of(t, 7), 2, midLife())
		_, err := generator.New(generator.Default(), k)
		wantError(t, err, lease.ErrClosed, "lease: closed: the lease of a node cannot serve a generator any more")
	})
}

// A layout is the caller's own: what becomes of it later is nothing to the keeper.
func TestAKeeperDoesNotShareTheLayoutOfItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := generator.Default()
		s := newTable()
		k, err := acquireFor(t.Context(), t, s, l, lease.WithNodes(1000, 1000))
		if err != nil {
			t.Fatal(err)
		}
		l.Node[0].Bits = 2
		s.spoilWith(unanswered) // so that it reads the records, too
		eventually(t, "an extension", span/3, func() bool { return k.Extensions() == 1 })
		wantTime(t, "the end", k.Window().Until, aSpanLater(s.of(t, 1000)))
	})
}

func TestStatsTellOfTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := acquire(t, newTable(), lease.WithNodes(7, 7))
		g := newGenerator(t, k)
		mustNext(t, g)
		time.Sleep(span / 3)
		s := g.Stats()
		if s.Node != 7 || s.Extensions != 1 || !s.WindowEnd.Equal(k.Window().Until) {
			t.Errorf("the stats are %+v, the window is %+v", s, k.Window())
		}
		mustClose(t, k)
		if s := g.Stats(); s.Node != 7 || s.Extensions != 1 || !s.WindowEnd.IsZero() || s.Issued != 1 {
			t.Errorf("the stats after Close are %+v", s)
		}
	})
}

func TestAClosedKeeperIsClosedForTheWholeModule(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := acquire(t, newTable())
		mustClose(t, k)
		err := k.Extend(t.Context())
		wantError(t, err, lease.ErrClosed, "lease: closed: ")
		wantError(t, err, errs.ErrClosed)
		_, err = generator.New(generator.Default(), k)
		wantError(t, err, errs.ErrClosed)
		if errors.Is(err, generator.ErrSealed) || errors.Is(errs.ErrClosed, lease.ErrClosed) {
			t.Error("the errors that say closed cannot be told apart")
		}
	})
}
