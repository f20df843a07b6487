package filling_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestAuthority(t *testing.T) { run(t, authorityBehaviors()) }

func TestAuthorityThatIsNotedLate(t *testing.T) { run(t, lateBehaviors()) }

// authorityBehaviors say that the IDs of a database come from one place.
func authorityBehaviors() []behavior {
	return []behavior{
		{
			Name: "every database of a plugin notes the leases that its IDs come from",
			Run:  authorityIsNoted,
		},
		{
			Name: "two databases that two plugins use in different order are refused to the second",
			Run:  otherOrderIsRefused,
		},
		{
			Name: "two table prefixes over one database have one authority",
			Run:  prefixesShareAuthority,
		},
		{
			Name: "a number given by hand is refused beside leases",
			Run:  byHandBesideLeases,
		},
		{
			Name: "a number given by hand is refused beside leases of an earlier version, which noted nothing",
			Run:  byHandBesideEarlierLeases,
		},
		{
			Name: "leases are refused beside numbers given by hand, and no table of leases is made",
			Run:  leasesBesideByHand,
		},
		{
			Name: "numbers given by hand share a database and may not change their layout",
			Run:  byHandKeepsItsLayout,
		},
		{
			Name: "other leases are refused while processes of an earlier version hold numbers in the database",
			Run:  earlierHoldersAreFound,
		},
		{
			Name: "of many authorities that note themselves at the same moment one is accepted",
			Run:  firstNotesRace,
		},
		{
			Name: "many plugins that start together on a new database agree on one identity",
			Run:  firstStartsAgree,
		},
		{
			Name: "a copy of the database with the leases is refused beside the original, and goes on alone",
			Run:  copyIsFound,
		},
		{
			Name: "a copy of the database is refused to a plugin that held its number before the copy was made",
			Run:  olderCopyIsFound,
		},
		{
			Name: "a replica that lags behind is no copy, until it can be written to",
			Run:  laggingReplicaIsNoCopy,
		},
		{
			Name: "a store without an identity is noted by that word",
			Run:  externalIsNoted,
		},
		{
			Name: "nothing is noted under WithSource or in a dry run",
			Run:  nothingIsNoted,
		},
		{
			Name: "a table that is something else is an error with the statement that makes the right one",
			Run:  otherTableOfThatName,
		},
	}
}

type authorityRow struct{ Subject, Authority, Layout, Place string }

// noted returns the rows of the table by subject.
func noted(t *testing.T, db *gorm.DB) map[string]authorityRow {
	t.Helper()
	var all []authorityRow
	must(t, db.Table("snowflake_authority").Find(&all).Error, "read the authority")
	rows := make(map[string]authorityRow)
	for _, row := range all {
		rows[row.Subject] = row
	}
	return rows
}

func authorityIsNoted(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	first, second := target.OpenDSN(t, dsn, nil), target.Open(t, nil)
	plugin := leased(t, first)
	must(t, second.Use(plugin), "Use on the second")
	home := noted(t, first)["leases snowflake_nodes"]
	if len(home.Authority) < 20 || !strings.Contains(home.Place, "snowflake_nodes") {
		t.Errorf("the leases have the identity %+v", home)
	}
	same(t, "the authority of the first", noted(t, first)["rows"].Authority, home.Authority)
	same(t, "the authority of the second", noted(t, second)["rows"].Authority, home.Authority)
	same(t, "what the second says of the place", noted(t, second)["rows"].Place, home.Place)
	same(t, "rows in the second", len(noted(t, second)), 1)

	// Another handle and the next process find the same authority.
	must(t, target.OpenDSN(t, dsn, nil).Use(plugin), "Use on another handle")
	must(t, plugin.Close(t.Context()), "Close")
	leased(t, target.OpenDSN(t, dsn, nil))
	same(t, "the authority afterwards", noted(t, first)["leases snowflake_nodes"], home)
}

func otherOrderIsRefused(t *testing.T, target dbtest.Target) {
	a, b := target.DSN(t), target.DSN(t)
	one := leased(t, target.OpenDSN(t, a, nil), snowflakeplugin.WithLeasedNode(7))
	must(t, target.OpenDSN(t, b, nil).Use(one), "Use of b after a")

	other := snowflakeplugin.New(silent(), snowflakeplugin.WithLeasedNode(7))
	db := target.OpenDSN(t, b, nil)
	must(t, db.AutoMigrate(&account{}), "AutoMigrate")
	err := db.Use(other)
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use of b first")
	home := noted(t, target.OpenDSN(t, a, nil))["rows"]
	says(t, err, home.Authority, home.Place, "snowflake_nodes of this database", "nodes authority", "db.Use")
	wantErr(t, db.Create(&account{Email: "x"}).Error, snowflakeplugin.ErrNotInUse, "create there")
	if db.Migrator().HasTable("snowflake_nodes") {
		t.Error("a second table of leases was made")
	}
	if snowflakeplugin.Retryable(err) {
		t.Error("it can be retried")
	}
	// The order that the error asks for works with the same plugin.
	other = leased(t, target.OpenDSN(t, a, nil))
	must(t, db.Use(other), "Use of b after a")
	must(t, db.Create(&account{Email: "x"}).Error, "create")

	// Both databases have leases of their own before they meet.
	c := target.OpenDSN(t, target.DSN(t), nil)
	leased(t, c)
	wantErr(t, c.Session(&gorm.Session{}).Use(one), gorm.ErrRegistered, "GORM guards one handle")
	err = target.OpenDSN(t, a, nil).Use(snowflakeplugin.New(silent(),
		snowflakeplugin.WithLease(newStore(t, c))))
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use of a with the leases of c")
	says(t, err, home.Authority, noted(t, c)["rows"].Authority)
}

func newStore(t *testing.T, db *gorm.DB) *gormlease.Store {
	t.Helper()
	store, err := gormlease.New(db)
	must(t, err, "New")
	t.Cleanup(func() { must(t, store.Close(), "Close of the store") })
	return store
}

// closedAfter closes a plugin with the test.
func closedAfter(t *testing.T, plugin *snowflakeplugin.Plugin) *snowflakeplugin.Plugin {
	t.Helper()
	t.Cleanup(func() { must(t, plugin.Close(context.Background()), "Close") })
	return plugin
}

func prefixesShareAuthority(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	seen := map[int64]bool{}
	for _, prefix := range []string{"", "shop_", "app_"} {
		db := target.OpenDSN(t, dsn, &gorm.Config{NamingStrategy: schema.NamingStrategy{TablePrefix: prefix}})
		seen[leased(t, db).Stats().Node] = true
		same(t, "the tables of authorities", len(noted(t, db)), 2)
	}
	same(t, "the nodes", len(seen), 3)
}

func byHandBesideLeases(t *testing.T, target dbtest.Target) {
	dsn, elsewhere := target.DSN(t), target.DSN(t)
	plugin := leased(t, target.OpenDSN(t, dsn, nil))
	must(t, target.OpenDSN(t, elsewhere, nil).Use(plugin), "Use elsewhere")
	for _, dsn := range []string{dsn, elsewhere} {
		err := target.OpenDSN(t, dsn, nil).Use(snowflakeplugin.New(snowflakeplugin.WithNode(plugin.Stats().Node)))
		wantErr(t, err, snowflakeplugin.ErrAuthority, "Use with the same number by hand")
		says(t, err, "given by hand", "WithLeasedNode", noted(t, target.OpenDSN(t, dsn, nil))["rows"].Authority)
	}
}

// earlier makes a database as an earlier version left it, with a record of a number.
func earlier(t *testing.T, target dbtest.Target, owner string, until time.Time) (dsn string) {
	t.Helper()
	dsn = target.DSN(t)
	store := newStore(t, target.OpenDSN(t, dsn, nil))
	ok, err := store.Swap(t.Context(), lease.Record{}, lease.Record{
		Node: 7, Owner: owner, Until: until.UTC(), Version: 1, Layout: lease.Fingerprint(generator.Default()),
		UpdatedAt: time.Now().UTC(),
	})
	if !ok || err != nil {
		t.Fatalf("the record was not written: %v", err)
	}
	return dsn
}

func byHandBesideEarlierLeases(t *testing.T, target dbtest.Target) {
	dsn := earlier(t, target, "", time.Now().Add(-time.Hour))
	err := target.OpenDSN(t, dsn, nil).Use(snowflakeplugin.New(snowflakeplugin.WithNode(7)))
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use with a number by hand")
	says(t, err, "WithLeasedNode", "snowflake_nodes")
	leased(t, target.OpenDSN(t, dsn, nil)) // the leases go on, and get their identity

	// A number that is retired for good was never leased by a process.
	dsn = earlier(t, target, "merged into shop (3)", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	must(t, target.OpenDSN(t, dsn, nil).Use(snowflakeplugin.New(snowflakeplugin.WithNode(3))), "Use after a merge")
}

func leasesBesideByHand(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	must(t, target.OpenDSN(t, dsn, nil).Use(snowflakeplugin.New(snowflakeplugin.WithNode(7))), "Use by hand")
	db, other := target.OpenDSN(t, dsn, nil), target.Open(t, nil)
	err := db.Use(snowflakeplugin.New(silent()))
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use that leases")
	says(t, err, "given by hand", "time=41 node=10", "WithNode")
	if db.Migrator().HasTable("snowflake_nodes") {
		t.Error("a table of leases was made")
	}
	err = db.Use(leased(t, other))
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use that leases elsewhere")
	says(t, err, noted(t, other)["rows"].Authority)
}

func byHandKeepsItsLayout(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	game := snowflakeplugin.WithLayout(generator.Game())
	for number := range int64(3) {
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(number), game)
		must(t, target.OpenDSN(t, dsn, nil).Use(plugin), "Use by hand")
		must(t, target.Open(t, nil).Use(plugin), "Use elsewhere")
	}
	err := target.OpenDSN(t, dsn, nil).Use(snowflakeplugin.New(snowflakeplugin.WithNode(5)))
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use with another layout")
	says(t, err, lease.Fingerprint(generator.Game()), lease.Fingerprint(generator.Default()), "WithLayout")
	same(t, "the rows", len(noted(t, target.OpenDSN(t, dsn, nil))), 1)
}

func earlierHoldersAreFound(t *testing.T, target dbtest.Target) {
	held := earlier(t, target, "web-1 #1", time.Now().Add(time.Hour))
	ended := earlier(t, target, "web-1 #1", time.Now().Add(-time.Hour))
	plugin := leased(t, target.Open(t, nil))
	err := target.OpenDSN(t, held, nil).Use(plugin)
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use where an earlier version has leases")
	says(t, err, "snowflake_nodes", "earlier version", "db.Use of this database first")
	must(t, target.OpenDSN(t, ended, nil).Use(plugin), "Use where no window runs")
}

func firstNotesRace(t *testing.T, target dbtest.Target) {
	for range nightly.Pick(1, 3) {
		t.Run("round", func(t *testing.T) {
			// Few at a time: each needs connections, and other tests need some too.
			const each = 2
			var plugins []*snowflakeplugin.Plugin
			for range 2 {
				home := target.DSN(t)
				for range each {
					plugins = append(plugins, leased(t, target.OpenDSN(t, home, nil, dbtest.MaxOpenConns(1))))
				}
			}
			for number := range int64(each) {
				plugins = append(plugins, snowflakeplugin.New(snowflakeplugin.WithNode(number)))
			}
			accepted := useTogether(t, target, target.DSN(t), plugins)
			if len(accepted) != each {
				t.Errorf("%d of %d plugins were accepted, want %d of one authority", len(accepted), len(plugins), each)
			}
			for _, i := range accepted {
				same(t, "the authority of a plugin that was accepted", i/each, accepted[0]/each)
			}
		})
	}
}

// useTogether calls Use at the same moment and returns which plugins were accepted. Another error than
// ErrAuthority fails the test.
func useTogether(
	t *testing.T, target dbtest.Target, dsn string, plugins []*snowflakeplugin.Plugin,
) (accepted []int) {
	t.Helper()
	var (
		all   sync.WaitGroup
		start = make(chan struct{})
		errs  = make([]error, len(plugins))
	)
	for i, plugin := range plugins {
		db := target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(1))
		all.Go(func() {
			<-start
			errs[i] = db.Use(plugin)
		})
	}
	close(start)
	all.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			accepted = append(accepted, i)
		case !errors.Is(err, snowflakeplugin.ErrAuthority):
			t.Errorf("plugin %d: %v", i, err)
		}
	}
	return accepted
}

func firstStartsAgree(t *testing.T, target dbtest.Target) {
	const n = 6
	dsn := target.DSN(t)
	var plugins []*snowflakeplugin.Plugin
	for range n {
		plugins = append(plugins, snowflakeplugin.New(silent()))
	}
	same(t, "how many were accepted", len(useTogether(t, target, dsn, plugins)), n)
	db := target.OpenDSN(t, dsn, nil)
	same(t, "the rows", len(noted(t, db)), 2)
	same(t, "the authority", noted(t, db)["rows"].Authority, noted(t, db)["leases snowflake_nodes"].Authority)
	nodes := map[int64]bool{}
	for _, plugin := range plugins {
		nodes[plugin.Stats().Node] = true
		must(t, plugin.Close(t.Context()), "Close")
	}
	same(t, "the nodes", len(nodes), n)
}

func externalIsNoted(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	for range 2 {
		store := leasetest.NewMemory(time.Now)
		leased(t, target.OpenDSN(t, dsn, nil), snowflakeplugin.WithLease(store))
	}
	row := noted(t, target.OpenDSN(t, dsn, nil))["rows"]
	same(t, "the authority", row.Authority, "external, not identified")
	err := target.OpenDSN(t, dsn, nil).Use(snowflakeplugin.New(silent()))
	wantErr(t, err, snowflakeplugin.ErrAuthority, "Use that leases from the database")
	says(t, err, "external, not identified")
}

func nothingIsNoted(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	source, err := generator.New(generator.Default(), generator.FixedNode(1))
	must(t, err, "a source")
	must(t, target.OpenDSN(t, dsn, nil).Use(snowflakeplugin.New(snowflakeplugin.WithSource(source))), "Use")
	dry := target.OpenDSN(t, dsn, &gorm.Config{DryRun: true})
	must(t, dry.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use in a dry run")
	if target.OpenDSN(t, dsn, nil).Migrator().HasTable("snowflake_authority") {
		t.Error("an authority was noted")
	}
}

func otherTableOfThatName(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	for _, statements := range [][]string{
		{"CREATE TABLE snowflake_authority (something int)"},
		{ // without the column authority, which is not to be taken for a text of that name
			"CREATE TABLE snowflake_authority (subject varchar(255) PRIMARY KEY, layout varchar(255), " +
				"place varchar(255), noted_by varchar(255), noted_at varchar(30))",
			"INSERT INTO snowflake_authority VALUES ('rows', '', '', '', '')",
		},
	} {
		for _, statement := range statements {
			must(t, db.Exec(statement).Error, statement)
		}
		for _, plugin := range []*snowflakeplugin.Plugin{
			snowflakeplugin.New(silent()), snowflakeplugin.New(snowflakeplugin.WithNode(1)),
		} {
			err := db.Use(plugin)
			wantErr(t, err, snowflakeplugin.ErrAuthority, "Use")
			says(t, err, "CREATE TABLE", "snowflake_authority", "subject", "PRIMARY KEY")
		}
		must(t, db.Exec("DROP TABLE snowflake_authority").Error, "drop the table")
	}
}
