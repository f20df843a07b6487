package resharding_test

import (
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// The steps work on several tables at a time, with no more connections than there are.
func TestAReshardingEndsWithPoolsOfAnySize(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		for _, connections := range nightly.Pick([]int{1}, []int{1, 2, 3}) {
			limit := dbtest.MaxOpenConns(connections)
			d := newDoubled(t, 40, target.Open(t, nil, limit), target.Open(t, nil, limit))
			config := snowflakeplugin.ReshardConfig{
				Databases: d.dbs, Place: func(shard int) int { return shard / doubledFrom * (shard % 2) },
			}
			_, err := d.reshard(config).Cutover(t.Context())
			must(t, err, "Cutover")
			d.check(d.router, fmt.Sprint("with connections: ", connections))
			want := d.rows()
			pending, err := d.router.PendingCleanup()
			must(t, err, "PendingCleanup")
			must(t, pending.Undo(t.Context()), "Undo")
			d.check(d.router, fmt.Sprint("after Undo with connections: ", connections))
			same(t, "the rows", d.rows(), want)
		}
	})
}
