package tidb_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

type sale struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Total int64
	Lines []entry
}

type entry struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:SaleID"`
	SaleID snowflakeplugin.ID `gorm:"index"`
	Price  int64
}

// TestShardsBecomeOneTable moves the rows of a router with four shards in two databases of MariaDB into one
// table of TiDB for each model, as docs/tidb.md says.
func TestShardsBecomeOneTable(t *testing.T) {
	ctx := t.Context()
	const shards = 4
	tidb, maria := dbtest.TiDB(t), dbtest.Named("mariadb")
	old, stored := sharded(t, maria, shards)

	// Each shard becomes a database of its own, in which the tables have the names of the models.
	servers := make([]merge.Server, shards)
	for shard := range servers {
		dsn := maria.DSN(t)
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal("the DSN of the tests cannot be read") // without the error, which quotes it
		}
		db := old[shard%len(old)]
		for _, table := range []string{"sales", "entries"} {
			suite.Must(t, db.Exec(fmt.Sprintf("RENAME TABLE %s_%02d TO %s.%s",
				table, shard, cfg.DBName, table)).Error, "RENAME TABLE")
		}
		servers[shard] = merge.Server{Name: fmt.Sprintf("shard%d", shard), Number: int64(shard + 1), DSN: dsn}
	}

	dsn := tidb.DSN(t)
	db := tidb.OpenDSN(t, dsn, &gorm.Config{DisableForeignKeyConstraintWhenMigrating: true})
	options := db.Set("gorm:table_options", " PARTITION BY HASH (id) PARTITIONS 16")
	suite.Must(t, options.AutoMigrate(&sale{}, &entry{}), "AutoMigrate")

	plan := &merge.Plan{
		Version: 1, Layout: merge.Layout{Preset: "default"}, Servers: servers,
		Target: merge.Target{Name: "shard0", Number: 1, DSN: dsn},
		Tables: map[string]*merge.TablePlan{
			"sales": {Policy: merge.Copy, ForeignIDs: true}, "entries": {Policy: merge.Copy, ForeignIDs: true},
		},
		Conserve: []merge.ConservedSum{{Name: "money", Table: "entries", Expression: "SUM(price)"}},
	}
	open := func(_ context.Context, dsn string) (*sql.DB, error) { return sql.Open("mysql", dsn) }
	m, err := merge.Open(ctx, plan, merge.WithOpener(open))
	suite.Must(t, err, "Open")
	t.Cleanup(func() { suite.Must(t, m.Close(), "Close") })
	found, err := m.Check(ctx)
	suite.Must(t, err, "Check")
	for _, problem := range found.Problems {
		t.Errorf("the check found %+v", problem)
	}
	_, err = m.Run(ctx)
	suite.Must(t, err, "Run")
	verified, err := m.Verify(ctx)
	suite.Must(t, err, "Verify")
	if !verified.OK {
		t.Errorf("the verification failed: %+v", verified.Failed)
	}

	var now []sale
	suite.Must(t, db.Preload("Lines", func(db *gorm.DB) *gorm.DB { return db.Order("id") }).Order("id").
		Find(&now).Error, "Find")
	if len(now) != len(stored) {
		t.Fatalf("there are %d rows, want %d", len(now), len(stored))
	}
	for i, s := range stored {
		if got, want := fmt.Sprint(now[i]), fmt.Sprint(s); got != want {
			t.Fatalf("row %d is %s, want %s", i, got, want)
		}
	}
	// New rows have greater IDs than the old ones.
	plugin, _ := use(t, db)
	fresh := sale{Total: 1}
	suite.Must(t, db.Create(&fresh).Error, "Create")
	if fresh.ID <= now[len(now)-1].ID {
		t.Errorf("a new row has the ID %d, an old one %d", fresh.ID, now[len(now)-1].ID)
	}
	suite.Must(t, plugin.Close(ctx), "Close")
}

func TestTiDBIsNoSourceOfAMerge(t *testing.T) {
	tidb := dbtest.TiDB(t)
	plan := &merge.Plan{
		Version: 1, Layout: merge.Layout{Preset: "default"},
		Servers: []merge.Server{{Name: "old", Number: 1, DSN: tidb.DSN(t)}},
		Target:  merge.Target{Name: "new", Number: 1, DSN: tidb.DSN(t)},
	}
	open := func(_ context.Context, dsn string) (*sql.DB, error) { return sql.Open("mysql", dsn) }
	_, err := merge.Open(t.Context(), plan, merge.WithOpener(open))
	suite.WantErr(t, err, merge.ErrOpen, "a source on TiDB")
	suite.Says(t, err, "old", "TiDB", "target only")
}

// sharded fills a router with that many shards in two databases. It returns the databases, and the rows in
// the order of their IDs.
func sharded(t *testing.T, target dbtest.Target, shards int) ([]*gorm.DB, []sale) {
	t.Helper()
	ctx := t.Context()
	dbs := []*gorm.DB{target.Open(t, nil), target.Open(t, nil)}
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(3), suite.Silent())
	for _, db := range dbs {
		suite.Must(t, db.Use(plugin), "Use")
	}
	router, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: shards, Databases: dbs},
		&sale{}, &entry{})
	suite.Must(t, err, "NewRouter")
	suite.Must(t, router.AutoMigrate(ctx), "AutoMigrate")
	rows := make([]sale, 300)
	for i := range rows {
		rows[i] = sale{Total: int64(i), Lines: []entry{{Price: int64(i)}, {Price: 1}}}
	}
	suite.Must(t, router.Create(ctx, rows), "Create")
	suite.Must(t, plugin.Close(ctx), "Close")
	return dbs, rows
}
