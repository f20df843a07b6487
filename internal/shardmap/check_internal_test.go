package shardmap

import (
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

func TestTheConstraintOfAShardInEachDialect(t *testing.T) {
	t.Parallel()
	const pg, my, lite = dialect.PostgreSQL, dialect.MySQL, dialect.SQLite
	long := strings.Repeat("long", 20)
	for _, c := range []struct {
		kind          dialect.Kind
		table, column string
		refers        bool
		shards, shard int
		want          string
	}{
		{
			pg, "orders_07", "id", false, 16, 7,
			`CONSTRAINT "orders_07_id_shard_7_of_16" CHECK ("id" > 0 AND "id" % 16 = 7)`,
		},
		{
			my, "orders_03", "id", false, 12, 3,
			"CONSTRAINT `orders_03_id_shard_3_of_12` CHECK (`id` > 0 AND MOD((`id` & 4095), 12) = 3)",
		},
		{
			lite, "items_00", "order_id", true, 1, 0,
			"CONSTRAINT `items_00_order_id_shard_0_of_1` CHECK (`order_id` > 0 AND `order_id` % 1 = 0 OR `order_id` = 0)",
		},
		{
			pg, `sales.my orders_00`, "id", false, 2, 0,
			`CONSTRAINT "my_orders_00_id_027834eb_shard_0_of_2" CHECK ("id" > 0 AND "id" % 2 = 0)`,
		},
		{
			pg, long, "id", false, 256, 255,
			`CONSTRAINT "longlonglonglonglonglonglonglongl_1b987703_shard_255_of_256" CHECK ("id" > 0 AND "id" % 256 = 255)`,
		},
	} {
		check := newShardCheck(c.kind, c.table, c.column, c.refers, generator.Default(), Class{c.shard, c.shards})
		if got := check.Definition(); got != c.want {
			t.Errorf("the constraint of %s.%s is\n%s, want\n%s", c.table, c.column, got, c.want)
		}
		if len(check.Name) > dialect.MaxName {
			t.Errorf("the name %s has %d bytes", check.Name, len(check.Name))
		}
		begin, class, ok := ReadCheckName(check.Name)
		if !ok || begin != check.Begin || class != (Class{c.shard, c.shards}) {
			t.Errorf("the name %s tells %s, shard %s, %v", check.Name, begin, class, ok)
		}
	}
}
