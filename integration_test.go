package snowflakeplugin_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Player is a model whose key the plugin fills.
type Player struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name  string             `gorm:"size:40;uniqueIndex"`
	Gold  int64
	Items []PlayerItem
}

// PlayerItem gets a key on the shard of the player that it belongs to.
type PlayerItem struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:PlayerID"`
	PlayerID snowflakeplugin.ID `gorm:"index"`
	Name     string             `gorm:"size:40"`
}

// TestIntegration is the story of the plugin from its first use to the merge of two servers, told
// once on every database. What happens off the straight path is tested in the packages of test/.
func TestIntegration(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		const shards = 4
		ctx := t.Context()
		quiet := snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler))

		// Use the plugin. It leases a node number from the database when the first ID is needed.
		db := target.Open(t, nil)
		plugin := snowflakeplugin.New(quiet, snowflakeplugin.WithShards(shards))
		ok(t, db.Use(plugin))
		ok(t, db.AutoMigrate(&Player{}, &PlayerItem{}))

		// A struct has its ID after Create.
		ann := Player{Name: "ann", Gold: 10}
		ok(t, db.Create(&ann).Error)
		isTrue(t, "the struct has an ID", ann.ID > 0)

		// So has each element of a slice, in ascending order.
		pair := []Player{{Name: "bob"}, {Name: "cid"}}
		ok(t, db.Create(&pair).Error)
		isTrue(t, "IDs ascend", ann.ID < pair[0].ID && pair[0].ID < pair[1].ID)

		// A map gets its ID under the name of the column.
		dan := map[string]any{"Name": "dan"}
		ok(t, db.Model(&Player{}).Create(dan).Error)
		danID, is := dan["id"].(snowflakeplugin.ID)
		isTrue(t, "the map has an ID", is && danID > pair[1].ID)

		// Associations are filled with their parents, and refer to them.
		eve := Player{Name: "eve", Items: []PlayerItem{{Name: "sword"}, {Name: "shield"}}}
		ok(t, db.Create(&eve).Error)
		var found Player
		ok(t, db.Preload("Items").First(&found, eve.ID).Error)
		isTrue(t, "both items are stored with the player", len(found.Items) == 2)
		for _, item := range found.Items {
			isTrue(t, "the item is on the shard of its player", item.ID%shards == eve.ID%shards)
		}

		// An upsert that meets a stored row ends with the ID of that row.
		again := Player{Name: "ann", Gold: 25}
		ok(t, db.Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "name"}},
			DoUpdates: clause.AssignmentColumns([]string{"gold"}),
		}).Create(&again).Error)
		isTrue(t, "the upsert gives the stored ID", again.ID == ann.ID)
		var gold int64
		ok(t, db.Model(&Player{}).Where("id = ?", ann.ID).Pluck("gold", &gold).Error)
		isTrue(t, "the upsert writes the gold", gold == 25)

		// In JSON an ID is a string, so that no reader rounds it.
		text, err := json.Marshal(map[string]any{"id": ann.ID})
		ok(t, err)
		isTrue(t, "the JSON is a string of digits", string(text) == `{"id":"`+ann.ID.String()+`"}`)
		var read struct{ ID snowflakeplugin.ID }
		ok(t, json.Unmarshal(text, &read))
		isTrue(t, "the JSON is read back exactly", read.ID == ann.ID)

		// A router stores each row on the shard that its ID names, and finds it there.
		router, err := snowflakeplugin.NewRouter(
			snowflakeplugin.ShardingConfig{Shards: shards, Databases: []*gorm.DB{db}}, &Player{}, &PlayerItem{})
		ok(t, err)
		ok(t, router.AutoMigrate(ctx))
		crowd := make([]Player, 40)
		for i := range crowd {
			crowd[i] = Player{Name: fmt.Sprint("player ", i), Gold: 1, Items: []PlayerItem{{Name: "torch"}}}
		}
		ok(t, router.Create(ctx, crowd))
		one := crowd[17]
		shard, err := router.DB(ctx, &Player{}, one.ID)
		ok(t, err)
		var routed Player
		ok(t, shard.Preload("Items").First(&routed, one.ID).Error)
		isTrue(t, "the player is on its shard", routed.Name == one.Name)
		isTrue(t, "the item lies beside its player", len(routed.Items) == 1 && routed.Items[0].ID == one.Items[0].ID)
		var total int64
		some, err := router.Aggregate(ctx, &Player{}, "sum", "Gold", &total)
		ok(t, err)
		isTrue(t, "the sum is that of all shards", some && total == 40)
		var newest []Player
		ok(t, router.Latest(ctx, &newest, 1))
		isTrue(t, "the newest player is found on any shard", len(newest) == 1 && newest[0].ID == crowd[39].ID)

		ok(t, plugin.Close(ctx)) // gives the node number back

		mergeTwoServers(t, target)
	})
}

// mergeTwoServers ends the story: two game servers become one. Each has a database of its own, and
// its server number is part of every ID, so their keys never collide. A name that both servers have
// is a conflict, and the plan says how to resolve it.
func mergeTwoServers(t *testing.T, target dbtest.Target) {
	t.Helper()
	ctx := t.Context()
	var (
		dsns [3]string // of the target, of server 1 and of server 2
		dbs  [3]*gorm.DB
	)
	for number := range dbs {
		dsns[number] = target.DSN(t)
		dbs[number] = target.OpenDSN(t, dsns[number], nil)
		plugin := snowflakeplugin.New(
			snowflakeplugin.WithLayout(generator.Game()), snowflakeplugin.WithNode(int64(number)))
		ok(t, dbs[number].Use(plugin))
		ok(t, dbs[number].AutoMigrate(&Player{}, &PlayerItem{}))
	}
	arthurs := [3]Player{
		1: {Name: "Arthur", Gold: 100, Items: []PlayerItem{{Name: "sword"}}},
		2: {Name: "Arthur", Gold: 200, Items: []PlayerItem{{Name: "grail"}}},
	}
	ok(t, dbs[1].Create(&arthurs[1]).Error)
	ok(t, dbs[2].Create(&arthurs[2]).Error)

	opener := merge.WithOpener(func(_ context.Context, dsn string) (*sql.DB, error) {
		drivers := map[string]string{"sqlite": "sqlite3", "postgres": "pgx", "mysql": "mysql"}
		return sql.Open(drivers[target.Dialect], dsn)
	})
	plan, _, err := merge.Draft(ctx, &merge.Plan{
		Version: 1,
		Layout:  merge.Layout{Preset: "game"},
		Servers: []merge.Server{
			{Name: "Avalon", Number: 1, DSN: dsns[1]}, {Name: "Camelot", Number: 2, DSN: dsns[2]},
		},
		Target: merge.Target{Name: "Avalon", Number: 1, DSN: dsns[0]},
	}, opener)
	ok(t, err)
	plan.Tables["snowflake_authority"].Policy = merge.Skip // each database has notes of its own
	plan.GivesUp = map[string]merge.GivenUp{"snowflake_authority": {Skipped: 2}}
	plan.Tables["players"] = &merge.TablePlan{ // the richer player keeps the name
		Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name", Keep: "highest", By: "gold"},
	}
	m, err := merge.Open(ctx, plan, opener)
	ok(t, err)
	defer func() { ok(t, m.Close()) }()
	check, err := m.Check(ctx)
	ok(t, err)
	isTrue(t, "the check finds the name that both servers have", len(check.Conflicts) == 1)
	run, err := m.Run(ctx)
	ok(t, err)
	isTrue(t, "two players and two items are copied", run.Rows == 4)
	verified, err := m.Verify(ctx)
	ok(t, err)
	isTrue(t, "the target agrees with both servers", verified.OK)

	// Every row has kept its key, and every item its player.
	for number, name := range map[int]string{1: "Arthur.s1", 2: "Arthur"} {
		var merged Player
		ok(t, dbs[0].Preload("Items").First(&merged, arthurs[number].ID).Error)
		isTrue(t, "the player is called "+name, merged.Name == name)
		isTrue(t, "the item came along with its player",
			len(merged.Items) == 1 && merged.Items[0] == arthurs[number].Items[0])
	}
}

// ok ends the test on an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// isTrue fails the test unless what was said holds.
func isTrue(t *testing.T, said string, holds bool) {
	t.Helper()
	if !holds {
		t.Errorf("this does not hold: %s", said)
	}
}
