package authority_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// named is a store with an identity.
type named struct {
	*leasetest.Memory
	id string
}

func (n named) Identity(context.Context) (lease.Identity, error) {
	return lease.Identity{ID: n.id}, nil
}

// Each store says by its own clock whether a number is held there.
func TestAMoveReadsTheClockOfEachStore(t *testing.T) {
	t.Parallel()
	const layout = "epoch=2025-01-01T00:00:00Z tick=1ms time=41 node=10 sequence=12"
	for name, c := range map[string]struct {
		ahead time.Duration // the clock of the old store, of that of the new one
		left  time.Duration // of the window of a number in the new store
		want  error
	}{
		"a number that is held is held while the old clock is ahead": {
			time.Hour, 10 * time.Second, authority.ErrRefused,
		},
		"a number that is free is free while the old clock is behind": {-time.Hour, -10 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, err := dbtest.Named("sqlite").Open(t, nil).DB()
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now().UTC()
			from := named{leasetest.NewMemory(func() time.Time { return now.Add(c.ahead) }), "FROM"}
			to := named{leasetest.NewMemory(func() time.Time { return now }), "TO"}
			held := lease.Record{
				Node: 7, Owner: "x", Until: now.Add(c.left), Version: 1, Layout: layout, UpdatedAt: now,
			}
			if ok, err := to.Swap(t.Context(), lease.Record{}, held); !ok || err != nil {
				t.Fatal(ok, err)
			}
			d := authority.In("sqlite", pool)
			if _, err := d.Claim(t.Context(), authority.Origin{ID: "FROM"}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := d.Move(t.Context(), authority.Move{From: from, To: to}); !errors.Is(err, c.want) {
				t.Errorf("the move returned %v, want %v", err, c.want)
			}
		})
	}
}

// A program may have begun a transaction with a statement of its own, which database/sql does not know. What
// is noted there would be gone after a rollback.
func TestNothingIsNotedInATransactionThatSomebodyHasLeftOpen(t *testing.T) {
	t.Parallel()
	pool, err := dbtest.Named("sqlite").Open(t, nil, dbtest.MaxOpenConns(1)).DB()
	if err != nil {
		t.Fatal(err)
	}
	run := func(statement string) {
		t.Helper()
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	d, want := authority.In("sqlite", pool), authority.Origin{ID: "FROM"}
	run("BEGIN")
	if _, err := d.Claim(t.Context(), want); !errors.Is(err, errs.ErrAuthority) {
		t.Errorf("the claim in a transaction returned %v", err)
	}
	run("ROLLBACK")
	if _, err := d.Claim(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if noted, _, err := d.Show(t.Context()); err != nil || noted == nil || noted.ID != want.ID {
		t.Errorf("noted is %v, %v", noted, err)
	}
}
