package filling_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

func TestOptionsReportAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts []snowflakeplugin.Option
		says []string
	}{
		"node and shards": {
			[]snowflakeplugin.Option{snowflakeplugin.WithNode(5000), snowflakeplugin.WithShards(1 << 20)},
			[]string{"5000", "1048576"},
		},
		"leased node and shards": {
			[]snowflakeplugin.Option{snowflakeplugin.WithLeasedNode(-1), snowflakeplugin.WithShards(0)},
			[]string{"-1", "WithShards(0)"},
		},
		"layout and shards": {
			[]snowflakeplugin.Option{
				snowflakeplugin.WithLayout(generator.Layout{Name: "mine"}), snowflakeplugin.WithShards(-3),
			},
			[]string{"mine", "WithShards(-3)"},
		},
		"a number by hand and leased": {
			[]snowflakeplugin.Option{snowflakeplugin.WithNode(1), snowflakeplugin.WithLeasedNode(2), nil},
			[]string{"WithNode excludes WithLeasedNode", "option 2 is nil"},
		},
		"a number by hand and a lease": {
			[]snowflakeplugin.Option{
				snowflakeplugin.WithNode(1), snowflakeplugin.WithLease(nil), snowflakeplugin.WithLogger(nil),
			},
			[]string{"WithNode excludes WithLease", "WithLeasedNode", "WithLogger(nil)"},
		},
		"a source and a leased node": {
			[]snowflakeplugin.Option{
				snowflakeplugin.WithSource(counter{}), snowflakeplugin.WithLeasedNode(2), snowflakeplugin.WithShards(-2),
			},
			[]string{"WithSource excludes", "WithShards(-2)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := snowflakeplugin.New(c.opts...).NextID(t.Context())
			if !errors.Is(err, snowflakeplugin.ErrOptions) {
				t.Fatalf("NextID: %v, want ErrOptions", err)
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

func TestIDsInBulkAscendAfterTheOnesBefore(t *testing.T) {
	t.Parallel()
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(3))
	first, err := plugin.NextID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]snowflakeplugin.ID, 5000)
	if err := plugin.NextIDs(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	if ids[0] <= first || !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Error("the IDs are not strictly ascending")
	}
	if err := plugin.NextIDs(t.Context(), nil); err != nil {
		t.Errorf("no IDs at all: %v", err)
	}
}

func TestAFailedBulkLeavesTheIDsAlone(t *testing.T) {
	t.Parallel()
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(3))
	if err := plugin.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids := []snowflakeplugin.ID{7, 8}
	err := plugin.NextIDs(t.Context(), ids)
	if !errors.Is(err, snowflakeplugin.ErrClosed) || ids[0] != 7 || ids[1] != 8 {
		t.Errorf("NextIDs after Close: %v, %v", ids, err)
	}
}

func TestNextLikeStaysOnTheShardForEveryDivisor(t *testing.T) {
	t.Parallel()
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(3), snowflakeplugin.WithShards(64))
	for range 200 {
		key, err := plugin.NextID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		like, err := plugin.NextLike(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if like <= key || like%64 != key%64 {
			t.Fatalf("%d is like %d", like, key)
		}
	}
	for _, key := range []snowflakeplugin.ID{0, -5} {
		if _, err := plugin.NextLike(t.Context(), key); !errors.Is(err, snowflakeplugin.ErrInvalidID) {
			t.Errorf("NextLike(%d): %v, want ErrInvalidID", key.Int64(), err)
		}
	}
}

func TestARangeHoldsTheIDsOfItsTime(t *testing.T) {
	t.Parallel()
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(3), snowflakeplugin.WithLayout(generator.Game16Fast()))
	id, err := plugin.NextID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made, err := id.Time(plugin.Layout())
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(made).Abs(); d > 10*time.Second {
		t.Errorf("the ID was made at %v, %v from now", made, d)
	}
	lo, hi, err := plugin.Range(made, made.Add(plugin.Layout().Tick))
	if err != nil || id < lo || id >= hi {
		t.Errorf("Range is [%d, %d), %v; the ID is %d", lo, hi, err, id)
	}
	if lo, hi, err = plugin.Range(made.Add(-time.Hour), made); err != nil || lo >= hi || id < hi {
		t.Errorf("Range of the hour before is [%d, %d), %v; the ID is %d", lo, hi, err, id)
	}
	if _, _, err := plugin.Range(made, made.Add(-1)); err == nil {
		t.Error("a range that ends before it begins is no error")
	}
	if _, err := snowflakeplugin.ID(-1).Time(plugin.Layout()); !errors.Is(err, generator.ErrInvalidID) {
		t.Errorf("the time of -1: %v, want generator.ErrInvalidID", err)
	}
}

func TestASourceHasNoLayout(t *testing.T) {
	t.Parallel()
	plugin := snowflakeplugin.New(snowflakeplugin.WithSource(counter{}))
	_, _, err := plugin.Range(time.Now(), time.Now())
	if !errors.Is(err, generator.ErrInvalidLayout) || !strings.Contains(err.Error(), "WithSource") ||
		strings.Contains(err.Error(), "Epoch") {
		t.Errorf("Range: %v, want generator.ErrInvalidLayout and what to do, not faults of a layout that nobody wrote", err)
	}
	if _, err := plugin.NextLike(t.Context(), 5); !errors.Is(err, snowflakeplugin.ErrSource) {
		t.Errorf("NextLike: %v, want ErrSource", err)
	}
	ids := make([]snowflakeplugin.ID, 3)
	if err := plugin.NextIDs(t.Context(), ids); err != nil || !slices.Equal(ids, []snowflakeplugin.ID{1, 2, 3}) {
		t.Errorf("NextIDs: %v, %v", ids, err)
	}
}

func TestALeasedNodeIsExactlyThatNumber(t *testing.T) {
	t.Parallel()
	store := leasetest.NewMemory(time.Now)
	plugin := snowflakeplugin.New(snowflakeplugin.WithLeasedNode(17), snowflakeplugin.WithLease(store))
	id, err := plugin.NextID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parts, err := plugin.Layout().Decompose(id.Int64())
	if err != nil || parts.Node != 17 {
		t.Errorf("node %d, %v; want 17", parts.Node, err)
	}
	other := snowflakeplugin.New(snowflakeplugin.WithLeasedNode(17), snowflakeplugin.WithLease(store))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := plugin.Close(ctx); err != nil {
		t.Fatal(err)
	}
	next, err := other.NextID(ctx)
	if err != nil || next <= id {
		t.Errorf("after Close the number serves %d, %v; want more than %d", next, err, id)
	}
	if err := other.Close(ctx); err != nil {
		t.Error(err)
	}
	if records, err := store.List(ctx); err != nil || len(records) != 1 || records[0].Node != 17 {
		t.Errorf("the store has %v, %v; want the record of 17", records, err)
	}

}

// counter is a source that counts from 1 in every call.
type counter struct{}

func (counter) Fill(_ context.Context, ids []int64) error {
	for i := range ids {
		ids[i] = int64(i + 1)
	}
	return nil
}
