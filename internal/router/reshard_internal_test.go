package router

import (
	"fmt"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// While nobody writes, copies without a row are found by counting. As many rows without a copy must not hide
// them.
func TestEveryDifferenceIsFoundWhileNobodyWrites(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		for shard := range 2 {
			must(t, db.Exec(fmt.Sprintf("CREATE TABLE lots_%02d (id BIGINT PRIMARY KEY, name VARCHAR(20))", shard)).Error)
		}
		records := []shardmap.MapRecord{{Record: shardmap.Record{Name: "lots", Mask: 4095, KeyColumn: "id"}, Database: 0}}
		bare := func(shards int) *shardmap.Topology {
			top, err := shardmap.BareTopology([]*gorm.DB{db}, shards, map[int]int{}, []string{"lots"}, records)
			must(t, err)
			return top
		}
		d := &Resharding{from: bare(1), to: bare(2), onProgress: func(ReshardProgress) {}, chunk: defaultChunk}
		d.moves = d.allMoves()
		must(t, d.readColumns(t.Context()))
		insert := func(table string, ids ...int) {
			for _, id := range ids {
				must(t, db.Exec("INSERT INTO "+table+" VALUES (?, 'a')", id).Error)
			}
		}
		insert("lots_00", 1, 2, 3, 5, 9)
		insert("lots_01", 1, 3, 7, 9)
		must(t, db.Exec("UPDATE lots_01 SET name = 'A' WHERE id = 3").Error)
		for _, d.still = range []bool{false, true} {
			found, err := d.moves[0].differences(t.Context(), nil)
			must(t, err)
			slices.SortFunc(found, func(a, b difference) int { return int(a.id - b.id) })
			want := []difference{{3, isChanged}, {5, isMissing}, {7, isSuperfluous}}
			if !slices.Equal(found, want) {
				t.Errorf("still %v: %v, want %v", d.still, found, want)
			}
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
