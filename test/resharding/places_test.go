package resharding_test

import (
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// lot is the model of these tests. Databases are added and removed.
type lot struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string
}

// lots holds databases that programs with different configurations use one after the other.
type lots struct {
	*testing.T
	target dbtest.Target
	dsns   []string
}

func newLots(t *testing.T, target dbtest.Target, databases int) *lots {
	t.Helper()
	l := &lots{T: t, target: target}
	for range databases {
		l.dsns = append(l.dsns, target.DSN(t))
	}
	return l
}

// open connects to the databases with the given numbers, like a program that starts.
func (l *lots) open(numbers ...int) []*gorm.DB {
	l.Helper()
	plugin := snowflakeplugin.New(silent(), snowflakeplugin.WithNode(7))
	var dbs []*gorm.DB
	for _, number := range numbers {
		db := l.target.OpenDSN(l.T, l.dsns[number], nil)
		must(l.T, db.Use(plugin), "Use")
		dbs = append(dbs, db)
	}
	return dbs
}

func (l *lots) router(shards int, place func(int) int, dbs []*gorm.DB) (*snowflakeplugin.Router, error) {
	return snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: shards, Databases: dbs, Place: place}, &lot{})
}

// fill creates the tables, and one row on each shard.
func (l *lots) fill(shards int, dbs []*gorm.DB) *snowflakeplugin.Router {
	l.Helper()
	r, err := l.router(shards, nil, dbs)
	must(l.T, err, "NewRouter")
	must(l.T, r.AutoMigrate(l.Context()), "AutoMigrate")
	shortLease(l.T, dbs...)
	must(l.T, r.Create(l.Context(), make([]lot, shards)), "Create")
	return r
}

func (l *lots) refused(what string, place func(int) int, dbs []*gorm.DB, words ...string) {
	l.Helper()
	_, err := l.router(4, place, dbs)
	wantErr(l.T, err, snowflakeplugin.ErrSharding, what)
	says(l.T, err, words...)
}

func (l *lots) has(rows int64, shards int, place func(int) int, dbs []*gorm.DB) *snowflakeplugin.Router {
	l.Helper()
	r, err := l.router(shards, place, dbs)
	must(l.T, err, "NewRouter")
	count, err := r.Count(l.Context(), &lot{})
	must(l.T, err, "Count")
	same(l.T, "rows", count, rows)
	return r
}

// Otherwise reads would search for rows in the wrong place and report nothing.
func TestShardsThatAreElsewhereThanConfiguredAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		l := newLots(t, target, 3)
		l.fill(4, l.open(0, 1))

		l.refused("two that changed places", nil, l.open(1, 0),
			"database 0 has shards 1,3 of lots", "would have shards 0,2", "order", "held = '0,2'")
		l.refused("a third one", nil, l.open(0, 1, 2), "database 0 has shards 0,2 of lots", "would have shards 0,3")
		l.refused("one less", nil, l.open(0), "database 0 has shards 0,2 of lots", "would have shards 0-3")
		l.refused("another one", nil, l.open(0, 2), "database 1 has no record of lots", "database 0")
		l.refused("another place", func(shard int) int { return shard / 2 }, l.open(0, 1),
			"database 0 has shards 0,2 of lots", "would have shards 0-1", "Place")
		l.refused("one for all", func(int) int { return 0 }, l.open(0, 1), "would have shards 0-3")

		before := func(shard int) int { return shard % 2 }
		r := l.has(4, 4, before, l.open(0, 1, 2))
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")

		// This moves a table as the documentation describes.
		dbs := l.open(0, 1, 2)
		after := func(shard int) int { return []int{0, 1, 2, 1}[shard] }
		l.refused("a table that is not there yet", after, dbs, "database 0 has shards 0,2 of lots", "held = '0'")
		var rows []lot
		must(t, dbs[0].Table("lots_02").Find(&rows).Error, "reading")
		must(t, dbs[2].Table("lots_02").AutoMigrate(&lot{}), "making the table")
		must(t, dbs[2].Table("lots_02").Create(&rows).Error, "writing")
		must(t, dbs[0].Exec("UPDATE snowflake_shards SET held = '0' WHERE name = 'lots'").Error, "noting")
		l.refused("half of it", after, dbs, "database 2 has no shard of lots", "held = '2'")
		must(t, dbs[2].Exec("UPDATE snowflake_shards SET held = '2' WHERE name = 'lots'").Error, "noting")
		must(t, dbs[0].Migrator().DropTable("lots_02"), "DropTable")
		l.has(4, 4, after, dbs)
	})
}

func TestAnAutoMigrateThatBrokeOffCanBeRepeated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		l := newLots(t, target, 2)
		dbs := l.open(0, 1)
		l.fill(4, dbs)
		// A process that ended between the databases leaves this state.
		must(t, dbs[0].Exec("UPDATE snowflake_shards SET complete = ?", false).Error, "breaking off")
		must(t, dbs[1].Migrator().DropTable("snowflake_shards"), "breaking off")
		r := l.has(4, 4, nil, l.open(0, 1))
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, dbs[1].Migrator().DropTable("snowflake_shards"), "losing it")
		l.refused("a database that lost its note", nil, l.open(0, 1), "database 1 has no record of lots")
	})
}

func TestADatabaseThatIsGivenTwiceIsRefused(t *testing.T) {
	t.Parallel()
	l := newLots(t, named("sqlite"), 1)
	db := l.open(0)[0]
	l.refused("twice", nil, []*gorm.DB{db, db}, "database 1 is the same as database 0")
	l.refused("two sessions", nil, []*gorm.DB{db, db.Session(&gorm.Session{})}, "database 1 is the same as database 0")
}

func TestAReshardingSaysWhereItsShardsAreAfterwards(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		l := newLots(t, target, 2)
		dbs := l.open(0, 1)
		r := l.fill(2, dbs[:1])
		_, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{Databases: dbs})
		wantErr(t, err, snowflakeplugin.ErrSharding, "resharding without a place")
		says(t, err, "shard 1 stays in database 0", "set Place")

		behind := func(shard int) int { return shard / 2 }
		d, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{Databases: dbs, Place: behind})
		must(t, err, "Reshard")
		_, err = d.Cutover(t.Context())
		must(t, err, "Cutover")
		must(t, d.Clean(t.Context()), "Clean")
		l.refused("the default place", nil, l.open(0, 1), "database 0 has shards 0-1 of lots", "would have shards 0,2")
		l.has(2, 4, behind, l.open(0, 1))
	})
}

func TestShardsCanBeDoubledAgainWhenTheyAreClean(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		l := newLots(t, target, 1)
		r := l.fill(2, l.open(0))
		d, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		must(t, err, "Reshard")
		switched, err := d.Cutover(t.Context())
		must(t, err, "Cutover")
		_, err = switched.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		wantErr(t, err, snowflakeplugin.ErrSharding, "resharding what is not clean")
		says(t, err, "call Clean first")
		other := l.has(2, 4, nil, l.open(0)) // a process that starts now
		must(t, d.Clean(t.Context()), "Clean")

		again, err := switched.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		must(t, err, "Reshard in the process that cleaned")
		_, err = other.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		must(t, err, "Reshard in another process")
		_, err = r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		must(t, err, "Reshard by the router of before, which has followed")
		_, err = again.Cutover(t.Context())
		must(t, err, "Switch again")
		must(t, again.Clean(t.Context()), "Clean again")
		l.has(2, 8, nil, l.open(0))
	})
}
