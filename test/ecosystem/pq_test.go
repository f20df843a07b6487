package ecosystem_test

import (
	"bytes"
	"testing"

	_ "github.com/lib/pq"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

type sealed struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Seal []byte
}

// Between two databases the driver reads and writes the rows, and lib/pq does so in other forms than pgx.
func TestBytesAreMovedByLibPQAsTheyAre(t *testing.T) {
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
		var dbs []*gorm.DB
		for range 2 {
			db, err := gorm.Open(postgres.New(postgres.Config{DriverName: "postgres", DSN: target.DSN(t)}))
			must(t, err, "Open")
			pool, err := db.DB()
			must(t, err, "the pool")
			t.Cleanup(func() { _ = pool.Close() })
			must(t, db.Use(plugin), "Use")
			dbs = append(dbs, db)
		}
		router, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 2, Databases: dbs}, &sealed{})
		must(t, err, "NewRouter")
		must(t, router.AutoMigrate(t.Context()), "AutoMigrate")
		row := sealed{Seal: []byte("\x00\xff\\x41'")}
		must(t, router.Create(t.Context(), &row), "Create")
		shard, err := router.Shard(row.ID)
		must(t, err, "Shard")
		_, err = resharding.Move(t.Context(), router, resharding.Class{Residue: shard, Modulus: 2}, 1-shard)
		must(t, err, "Move")
		var found []sealed
		must(t, router.Find(t.Context(), &found, []snowflakeplugin.ID{row.ID}), "Find")
		if !bytes.Equal(found[0].Seal, row.Seal) {
			t.Errorf("the bytes are %q, and were %q", found[0].Seal, row.Seal)
		}
	})
}
