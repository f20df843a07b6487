package shardmap

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestTablesAreWorkedOnSideBySide(t *testing.T) {
	t.Parallel()
	postgres := dbtest.Named("postgres").Shared(t).Open(t, nil)
	synctest.Test(t, func(t *testing.T) {
		top := &Topology{Databases: []*gorm.DB{postgres, postgres}}
		const n = 2 * maxSideBySide
		var working atomic.Int32
		goOn := make(chan struct{})
		var told []int
		ended := make(chan error)
		go func() {
			ended <- top.EachInTurn(t.Context(), n, func(i int) []int { return []int{1, i % 2, 1} },
				func(context.Context, int) error {
					working.Add(1)
					<-goOn
					return nil
				}, func(i int) { told = append(told, i) })
		}()
		synctest.Wait() // until nobody can go on
		if working.Load() != maxSideBySide {
			t.Errorf("%d at a time, want %d", working.Load(), maxSideBySide)
		}
		close(goOn)
		check(t, <-ended)
		if len(told) != n || !slices.IsSorted(told) {
			t.Errorf("told of %v", told)
		}
	})
}

func TestTheFirstErrorEndsTheOthers(t *testing.T) {
	t.Parallel()
	postgres := dbtest.Named("postgres").Shared(t).Open(t, nil)
	top := &Topology{Databases: []*gorm.DB{postgres}}
	broken := errors.New("broken")
	err := top.EachInTurn(t.Context(), 3, func(int) []int { return []int{0} },
		func(ctx context.Context, i int) error {
			if i == 0 {
				return broken
			}
			<-ctx.Done()
			return ctx.Err()
		}, func(i int) { t.Errorf("told of %d", i) })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// A step may not take all connections of a pool, and never more than it has.
func TestAStepTakesNoMoreConnectionsThanThePoolHas(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		for connections, want := range map[int]int{1: 1, 2: 1, 3: 2, 100: maxSideBySide} {
			if target.Name == "sqlite" {
				want = 1
			}
			if got := sideBySide(target.Open(t, nil, dbtest.MaxOpenConns(connections))); got != want {
				t.Errorf("%d of %d connections, want %d", got, connections, want)
			}
		}
	})
}
