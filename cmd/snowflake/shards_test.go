package main

import (
	"encoding/json"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// parcel is a sharded model of these tests.
type parcel struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string
}

// sharded is a router on two databases, and their DSNs.
type sharded struct {
	*testing.T
	dbs    []*gorm.DB
	dsns   []string
	router *snowflakeplugin.Router
}

func newSharded(t *testing.T, target dbtest.Target) *sharded {
	t.Helper()
	s := &sharded{T: t}
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(3))
	for range 2 {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		if err := db.Use(plugin); err != nil {
			t.Fatal(err)
		}
		s.dsns, s.dbs = append(s.dsns, "--dsn", dsn), append(s.dbs, db)
	}
	var err error
	s.router, err = snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 2, Databases: s.dbs}, &parcel{})
	s.must(err)
	s.must(s.router.AutoMigrate(t.Context()))
	s.must(s.router.Create(t.Context(), make([]parcel, 64)))
	return s
}

func (s *sharded) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// run runs a command of the group, and returns what it wrote.
func (s *sharded) run(words ...string) string {
	s.Helper()
	code, stdout, stderr := call(s.T, "", append(append([]string{"shards"}, words...), s.dsns...)...)
	if code != exitOK {
		s.Fatalf("%v ended with exit code %d, want %d:\n%s%s", words, code, exitOK, stdout, stderr)
	}
	return stdout
}

func TestTheShardsOfARouterAreShownWithoutItsProgram(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		s := newSharded(t, target.Privileged())
		has(t, s.run("status"), "parcels: 2 shards, 2 at the first start", "parcels_01", "1 of 2", "MB",
			"No shard is being changed")
		if target.IsTiDB(t) {
			return // it has no triggers, so no shard is changed there
		}
		_, err := resharding.Split(t.Context(), s.router, resharding.Class{Residue: 1, Modulus: 2}, 2, 0, 1)
		s.must(err)
		has(t, s.run("status"), "parcels: 3 shards, 2 at the first start", "parcels_03_g1", "3 of 4",
			"parcels, 1 of 2 -> 1 of 4 and 3 of 4: cut over")
		var status shardmap.Status
		s.must(json.Unmarshal([]byte(s.run("status", "--json")), &status))
		rows := int64(0)
		for _, table := range status.Models[0].Tables {
			rows += table.Rows
			if target.Dialect != "sqlite" && table.Bytes == 0 {
				t.Errorf("%s has no size", table.Table)
			}
		}
		if rows != 64 || len(status.Reshardings) != 1 || !status.Reshardings[0].Over {
			t.Errorf("the status is %+v", status)
		}
		s.must(resharding.Clean(t.Context(), s.router))
		has(t, s.run("status"), "No shard is being changed")
	})
}
