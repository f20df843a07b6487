package main

import (
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/router"
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
	s.router = s.open(2)
	s.must(s.router.AutoMigrate(t.Context()))
	for _, db := range s.dbs {
		s.must(db.Exec("UPDATE snowflake_shards SET lease_millis = 300").Error)
	}
	s.must(s.router.Create(t.Context(), make([]parcel, 64)))
	return s
}

func (s *sharded) open(shards int) *snowflakeplugin.Router {
	s.Helper()
	r, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: shards, Databases: s.dbs}, &parcel{})
	s.must(err)
	return r
}

func (s *sharded) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// run runs a command of the group, and returns what it wrote.
func (s *sharded) run(want int, words ...string) string {
	s.Helper()
	code, stdout, stderr := call(s.T, "", append(append([]string{"shards"}, words...), s.dsns...)...)
	if code != want {
		s.Fatalf("%v ended with exit code %d, want %d:\n%s%s", words, code, want, stdout, stderr)
	}
	if want != exitOK {
		return stderr
	}
	return stdout
}

// whole fails unless the router has all rows on some number of shards.
func (s *sharded) whole(shards int, rows int64) {
	s.Helper()
	n, err := s.router.Count(s.Context(), &parcel{})
	s.must(err)
	if n != rows || s.router.Shards() != shards {
		s.Errorf("there are %d rows on %d shards, want %d on %d", n, s.router.Shards(), rows, shards)
	}
}

// A program begins a resharding and ends. The command brings it to its end, and back, without the models.
func TestAReshardingIsResumedAndUndoneWithoutItsProgram(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		s := newSharded(t, target)
		has(t, s.run(exitOK, "status"), "parcels: 2 shards, version 0", "parcels_01", "No resharding is under way")
		for _, step := range []string{"resume", "undo", "clean"} {
			has(t, s.run(exitFailure, step), "no resharding is under way")
		}
		_, err := s.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		s.must(err)
		has(t, s.run(exitOK, "status"), "from 2 to 4 shards: copying", "[....", "0%", "undo drops the new tables")
		has(t, s.run(exitRefused, "clean"), "before the cutover")

		has(t, s.run(exitOK, "resume"), "The cutover to 4 shards is over")
		s.whole(4, 64)
		s.must(s.router.Create(t.Context(), make([]parcel, 8)))
		has(t, s.run(exitOK, "status"), "4 shards, version 1", "cut over", "100%", "clean ends")
		has(t, s.run(exitOK, "resume"), "is over") // which has nothing to do
		has(t, s.run(exitOK, "undo"), "The resharding to 4 shards is undone")
		s.whole(2, 72)
		has(t, s.run(exitOK, "status"), "2 shards, version 2", "No resharding")

		_, err = s.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		s.must(err)
		after := decode[router.Status](t, s.run(exitOK, "resume", "--json"))
		if r := after.Resharding; r == nil || r.To != 4 || r.State != "cut over" || len(after.Models[0].Tables) != 4 {
			t.Errorf("as JSON: %+v", after)
		}
		s.whole(4, 72)
		has(t, s.run(exitOK, "clean"), "The resharding to 4 shards has ended")
		s.whole(4, 72)
		has(t, s.run(exitFailure, "undo"), "no resharding is under way")
	})
}

// The states that a killed process leaves while the map is closed.
func TestACutoverThatWasKilledIsResumedAndUndoneByTheCommand(t *testing.T) {
	t.Parallel()
	onFiles(t, func(t *testing.T, target dbtest.Target) {
		s := newSharded(t, target)
		d, err := s.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		s.must(err)
		s.must(d.Copy(t.Context()))
		for _, db := range s.dbs {
			s.must(db.Exec("UPDATE snowflake_shards SET next_shards = 4, closing = 7").Error)
		}
		has(t, s.run(exitOK, "status"), "the shard map is closed", "closed: nothing is routed")
		has(t, s.run(exitOK, "resume"), "is over")
		s.whole(4, 64)

		// All databases have recorded the new map, and the moved rows are still in the old tables, too.
		for i, db := range s.dbs {
			s.must(db.Exec(fmt.Sprintf("INSERT INTO parcels_%02d SELECT * FROM parcels_%02d", i, i+2)).Error)
			s.must(db.Exec("UPDATE snowflake_shards SET next_shards = 4").Error)
		}
		has(t, s.run(exitOK, "status"), "all databases have recorded the new map")
		has(t, s.run(exitOK, "resume"), "is over")
		s.whole(4, 64)

		// An undo has closed the map.
		for _, db := range s.dbs {
			s.must(db.Exec("UPDATE snowflake_shards SET next_shards = 2, closing = 9").Error)
		}
		has(t, s.run(exitOK, "status"), "undo interrupted", "undo copies the rows back")
		has(t, s.run(exitRefused, "resume"), "being undone")
		has(t, s.run(exitRefused, "clean"), "being undone")
		has(t, s.run(exitOK, "undo"), "is undone")
		s.whole(2, 64)

		// An undo has copied the rows back, and has recorded the old map in one of two databases.
		d, err = s.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		s.must(err)
		_, err = d.Cutover(t.Context())
		s.must(err)
		for i, db := range s.dbs {
			s.must(db.Exec(fmt.Sprintf("INSERT INTO parcels_%02d SELECT * FROM parcels_%02d", i, i+2)).Error)
			s.must(db.Exec("UPDATE snowflake_shards SET next_shards = 2, closing = 9").Error)
		}
		s.must(s.dbs[0].Exec("UPDATE snowflake_shards SET shards = 2, held = '0', version = version + 1, " +
			"stale_shards = 4").Error)
		has(t, s.run(exitOK, "status"), "some databases have recorded the old map")
		has(t, s.run(exitRefused, "resume"), "being undone")
		other := &sharded{T: t, dbs: []*gorm.DB{
			target.OpenDSN(t, s.dsns[1], nil), target.OpenDSN(t, s.dsns[3], nil),
		}}
		for _, db := range other.dbs {
			s.must(db.Use(s.dbs[0].Plugins["snowflake"]))
		}
		_, err = snowflakeplugin.NewRouter(
			snowflakeplugin.ShardingConfig{Shards: 2, Databases: other.dbs}, &parcel{})
		if err == nil || !strings.Contains(err.Error(), "snowflake shards undo") {
			t.Errorf("a router with the old number: %v", err)
		}
		pending, err := other.open(4).PendingCleanup()
		s.must(err)
		s.must(pending.Undo(t.Context()))
		s.whole(2, 64)

		// Records and journals of a program that does not say what the command needs.
		_, err = s.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		s.must(err)
		s.must(s.dbs[0].Exec("UPDATE snowflake_shards SET mask = 0").Error)
		s.must(s.dbs[1].Exec("UPDATE snowflake_shards SET mask = 0").Error)
		has(t, s.run(exitRefused, "resume"), "call AutoMigrate in the program once")
		s.must(s.router.AutoMigrate(t.Context()))
		has(t, s.run(exitOK, "undo"), "is undone")
		s.dsns = s.dsns[:2]
		_, err = s.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		s.must(err)
		if got := s.run(exitRefused, "resume"); !strings.Contains(got, "give all databases of the router") {
			t.Errorf("with one of two databases: %s", got)
		}
	})
}
