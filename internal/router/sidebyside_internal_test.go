package router

import (
	"context"
	"errors"
	"fmt"
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
		top := &topology{dbs: []*gorm.DB{postgres, postgres}}
		const n = 2 * maxSideBySide
		var working atomic.Int32
		goOn := make(chan struct{})
		var told []int
		ended := make(chan error)
		go func() {
			ended <- top.eachInTurn(t.Context(), n, func(i int) []int { return []int{1, i % 2, 1} },
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
	top := &topology{dbs: []*gorm.DB{postgres}}
	broken := errors.New("broken")
	err := top.eachInTurn(t.Context(), 3, func(int) []int { return []int{0} },
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

// While nobody writes, copies without a row are found by counting. As many rows without a copy must not hide
// them.
func TestEveryDifferenceIsFoundWhileNobodyWrites(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		for shard := range 2 {
			check(t, db.Exec(fmt.Sprintf("CREATE TABLE lots_%02d (id BIGINT PRIMARY KEY, name VARCHAR(20))", shard)).Error)
		}
		records := []mapRecord{{shardRecord{Name: "lots", Mask: 4095, KeyColumn: "id"}, 0}}
		bare := func(shards int) *topology {
			top, err := bareTopology([]*gorm.DB{db}, shards, map[int]int{}, []string{"lots"}, records)
			check(t, err)
			return top
		}
		d := &Resharding{from: bare(1), to: bare(2), onProgress: func(ReshardProgress) {}, chunk: defaultChunk}
		d.moves = d.allMoves()
		check(t, d.readColumns(t.Context()))
		insert := func(table string, ids ...int) {
			for _, id := range ids {
				check(t, db.Exec("INSERT INTO "+table+" VALUES (?, 'a')", id).Error)
			}
		}
		insert("lots_00", 1, 2, 3, 5, 9)
		insert("lots_01", 1, 3, 7, 9)
		check(t, db.Exec("UPDATE lots_01 SET name = 'A' WHERE id = 3").Error)
		for _, d.still = range []bool{false, true} {
			found, err := d.moves[0].differences(t.Context(), nil)
			check(t, err)
			slices.SortFunc(found, func(a, b difference) int { return int(a.id - b.id) })
			want := []difference{{3, isChanged}, {5, isMissing}, {7, isSuperfluous}}
			if !slices.Equal(found, want) {
				t.Errorf("still %v: %v, want %v", d.still, found, want)
			}
		}
	})
}
