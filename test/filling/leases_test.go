package filling_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
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
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestLeases(t *testing.T) { run(t, leaseBehaviors()) }

// leaseBehaviors test where a plugin without a number gets one, and when it gives it back.
func leaseBehaviors() []behavior {
	return []behavior{
		{
			Name: "without options a node is leased from the database, and given back by Close",
			Run:  leasedByDefault,
		},
		{
			Name: "the plugin's own tables appear at db.Use, and nothing adds one later",
			Run:  tablesAppearAtUse,
		},
		{
			Name: "two plugins on one database have two nodes",
			Run:  twoPluginsTwoNodes,
		},
		{
			Name: "one plugin on two databases has one lease, in the first",
			Run:  oneLeaseForTwoDatabases,
		},
		{
			Name: "a node given by hand may be leased, and is refused to a second process",
			Run:  numberLeased,
		},
		{
			Name: "a node given by hand and leased goes to the next process when it is given back",
			Run:  numberHandedOn,
		},
		{
			Name: "the table of leases has one name, whatever the naming of the application is",
			Run:  leaseTableIsNamed,
		},
		{
			Name: "a lease outlives a transaction that holds the only connection",
			Run:  leaseInLongTransaction,
		},
		{
			Name: "a rollback of the application does not touch the lease",
			Run:  leaseSurvivesRollback,
		},
		{
			Name: "a node that was lost is replaced, and IDs still increase",
			Run:  lostNodeIsReplaced,
		},
		{
			Name: "a database that stays away ends the IDs with a reason, and they resume by themselves",
			Run:  storeAway,
		},
		{
			Name: "every number taken is an error that lists the holders, and nothing is written",
			Run:  everyNumberTaken,
		},
		{
			Name: "the application's logger learns of the lease once",
			Run:  leaseIsLogged,
		},
	}
}

// nodeRow is a record of the lease as an operator sees it.
type nodeRow struct {
	Node, Version int64
	Owner, Until  string
	Layout        string
}

func nodeRows(t *testing.T, db *gorm.DB) (rows []nodeRow) {
	t.Helper()
	must(t, db.Table("snowflake_nodes").Where("node < ?", int64(math.MaxInt64)).Order("node").Find(&rows).Error,
		"read the leases")
	return rows
}

// nodeOf returns the node of an ID of the default layout.
func nodeOf(t *testing.T, id snowflakeplugin.ID) int64 {
	t.Helper()
	parts, err := generator.Default().Decompose(id.Int64())
	must(t, err, "Decompose")
	return parts.Node
}

// A program learns at its start that it may not make the tables, or that its IDs come from somewhere else.
func tablesAppearAtUse(t *testing.T, target dbtest.Target) {
	const nodes, authority = "snowflake_nodes", "snowflake_authority"
	tables := func(db *gorm.DB) (own string) {
		all, err := db.Migrator().GetTables()
		must(t, err, "the tables")
		all = slices.DeleteFunc(all, func(table string) bool { return !strings.HasPrefix(table, "snowflake_") })
		return strings.Join(slices.Sorted(slices.Values(all)), " ")
	}
	elsewhere := target.Open(t, nil)
	store, err := gormlease.New(elsewhere)
	must(t, err, "a store elsewhere")
	t.Cleanup(func() { _ = store.Close() })
	for _, c := range []struct {
		option snowflakeplugin.Option
		want   string
	}{
		{silent(), authority + " " + nodes},
		{snowflakeplugin.WithNode(1), authority},
		{snowflakeplugin.WithLease(store), authority},
		{snowflakeplugin.WithSource(newLedger(t)), ""},
	} {
		db := target.Open(t, nil)
		plugin := leased(t, db, c.option)
		same(t, "the tables after db.Use", tables(db), c.want)
		must(t, plugin.Prepare(db, &account{}), "Prepare")
		must(t, db.AutoMigrate(&account{}), "AutoMigrate")
		must(t, db.Create(&account{Email: "a"}).Error, "create")
		same(t, "the tables after a create", tables(db), c.want)
	}
	same(t, "the tables of the store elsewhere", tables(elsewhere), authority+" "+nodes)
}

func leasedByDefault(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	plugin := leased(t, db)
	must(t, db.AutoMigrate(&account{}), "AutoMigrate")
	a := account{Email: "ann@example.com"}
	must(t, db.Create(&a).Error, "create")
	accountStored(t, db, a)

	rows := nodeRows(t, db)
	if len(rows) != 1 {
		t.Fatalf("%d nodes are leased, want 1: %v", len(rows), rows)
	}
	same(t, "the node of the ID", nodeOf(t, a.ID), rows[0].Node)
	same(t, "the layout", rows[0].Layout, lease.Fingerprint(generator.Default()))
	stats := plugin.Stats()
	same(t, "Stats.Node", stats.Node, rows[0].Node)
	until, err := time.Parse(time.RFC3339Nano, rows[0].Until)
	must(t, err, "the end of the window")
	if !until.Equal(stats.WindowEnd) || time.Until(until) < 5*time.Second {
		t.Errorf("the window ends at %v, by Stats at %v", until, stats.WindowEnd)
	}
	if rows[0].Owner == "" || stats.Issued != 1 {
		t.Errorf("owner %q, %d IDs", rows[0].Owner, stats.Issued)
	}

	must(t, plugin.Close(t.Context()), "Close")
	must(t, plugin.Close(t.Context()), "Close again")
	rows = nodeRows(t, db)
	same(t, "the owner after Close", rows[0].Owner, "")
	until, err = time.Parse(time.RFC3339Nano, rows[0].Until)
	must(t, err, "the end after Close")
	parts, err := generator.Default().Decompose(a.ID.Int64())
	must(t, err, "Decompose")
	if want := parts.Time.Add(time.Millisecond); !until.Equal(want) {
		t.Errorf("after Close the record ends at %v, want the end of the last tick, %v", until, want)
	}
	wantErr(t, db.Create(&account{Email: "bob@example.com"}).Error, snowflakeplugin.ErrClosed, "create after Close")
	must(t, target.Open(t, nil).Use(plugin), "Use of the closed plugin elsewhere, where creates fail, too")
	again := snowflakeplugin.New()
	must(t, again.Close(t.Context()), "Close of a plugin that was never used")
	wantErr(t, target.Open(t, nil).Use(again), snowflakeplugin.ErrClosed, "Use after Close")
}

func twoPluginsTwoNodes(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	seen := map[int64]bool{}
	for range 5 {
		plugin := leased(t, target.OpenDSN(t, dsn, nil))
		id, err := plugin.NextID(t.Context())
		must(t, err, "NextID")
		seen[nodeOf(t, id)] = true
	}
	same(t, "how many nodes", len(seen), 5)
}

func oneLeaseForTwoDatabases(t *testing.T, target dbtest.Target) {
	first, second := target.Open(t, nil), target.Open(t, nil)
	plugin := leased(t, first)
	must(t, second.Use(plugin), "Use on the second")
	for _, db := range []*gorm.DB{first, second} {
		must(t, db.AutoMigrate(&account{}), "AutoMigrate")
		a := account{Email: "ann@example.com"}
		must(t, db.Create(&a).Error, "create")
		same(t, "the node", nodeOf(t, a.ID), plugin.Stats().Node)
	}
	same(t, "leases in the first", len(nodeRows(t, first)), 1)
	if second.Migrator().HasTable("snowflake_nodes") {
		t.Error("the second database has leases, too")
	}
}

func numberLeased(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	seven := []snowflakeplugin.Option{
		silent(), snowflakeplugin.WithLeasedNode(7),
		snowflakeplugin.WithLease(nil, lease.WithSpan(2*time.Second), lease.WithOwner("the first")),
	}
	plugin := leased(t, target.OpenDSN(t, dsn, nil), seven...)
	same(t, "the node", plugin.Stats().Node, 7)
	err := target.OpenDSN(t, dsn, nil).Use(snowflakeplugin.New(seven...))
	wantErr(t, err, snowflakeplugin.ErrNoNode, "Use with a number that is held")
	wantErr(t, err, lease.ErrNodeHeld, "Use with a number that is held")
	says(t, err, "node 7", "the first #")
	eight := leased(t, target.OpenDSN(t, dsn, nil), snowflakeplugin.WithLeasedNode(8))
	same(t, "another number", eight.Stats().Node, 8)
	wantErr(t, target.Open(t, nil).Use(snowflakeplugin.New(snowflakeplugin.WithLeasedNode(1024))),
		snowflakeplugin.ErrOptions, "Use with a number out of range")
}

func numberHandedOn(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	var last snowflakeplugin.ID
	for range 3 {
		plugin := leased(t, target.OpenDSN(t, dsn, nil), snowflakeplugin.WithLeasedNode(7))
		for range 100 {
			id, err := plugin.NextID(t.Context())
			must(t, err, "NextID")
			if id <= last {
				t.Fatalf("%d follows %d", id, last)
			}
			last = id
		}
		must(t, plugin.Close(t.Context()), "Close")
	}
}

func leaseTableIsNamed(t *testing.T, target dbtest.Target) {
	naming := schema.NamingStrategy{TablePrefix: "shop_", SingularTable: true}
	db := target.Open(t, &gorm.Config{NamingStrategy: naming})
	leased(t, db)
	if !db.Migrator().HasTable("snowflake_nodes") || db.Migrator().HasTable("shop_snowflake_nodes") {
		t.Error("the name of the table depends on the naming strategy")
	}
}

func leaseInLongTransaction(t *testing.T, target dbtest.Target) {
	if target.Dialect == "sqlite" {
		longTransactionOnSQLite(t, target)
		return
	}
	db := target.Open(t, nil, dbtest.MaxOpenConns(1))
	plugin := leased(t, db, snowflakeplugin.WithLease(nil, lease.WithSpan(time.Second)))
	must(t, db.AutoMigrate(&account{}), "AutoMigrate")
	must(t, db.Transaction(func(tx *gorm.DB) error {
		deadline := time.Now().Add(time.Minute)
		for plugin.Stats().Extensions < 5 && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		return tx.Create(&account{Email: "ann@example.com"}).Error
	}), "the transaction")
	if got := plugin.Stats().Extensions; got < 5 {
		t.Errorf("the window was extended %d times during the transaction", got)
	}
}

// On SQLite nobody else can write while the transaction lasts, so the window must be long enough: a minute at
// the start, and then as long as the process has lived.
func longTransactionOnSQLite(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil, dbtest.MaxOpenConns(1))
	plugin := leased(t, db)
	if left := time.Until(plugin.Stats().WindowEnd); left < 50*time.Second {
		t.Errorf("the window ends in %v", left)
	}
	must(t, db.AutoMigrate(&account{}), "AutoMigrate")
	must(t, db.Transaction(func(tx *gorm.DB) error {
		return tx.Create(&account{Email: "ann@example.com"}).Error
	}), "the transaction")
}

func leaseSurvivesRollback(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	must(t, db.AutoMigrate(&account{}), "AutoMigrate")
	undone := errors.New("undone")
	var plugin *snowflakeplugin.Plugin
	if target.Dialect == "sqlite" {
		t.Skip("one writer at a time: a lease cannot be taken while a transaction of another connection writes")
	}
	err := db.Transaction(func(tx *gorm.DB) error {
		must(t, tx.Create(&account{ID: 1, Email: "x@example.com"}).Error, "create with a key")
		store, err := gormlease.New(tx)
		must(t, err, "gormlease.New")
		t.Cleanup(func() { must(t, store.Close(), "Close") })
		plugin = leased(t, db, snowflakeplugin.WithLease(store))
		return undone
	})
	wantErr(t, err, undone, "the transaction")
	rows := nodeRows(t, db)
	if len(rows) != 1 || rows[0].Node != plugin.Stats().Node || rows[0].Owner == "" {
		t.Errorf("after the rollback the leases are %v, the plugin has node %d", rows, plugin.Stats().Node)
	}
	holds(t, db, &account{}, 0)
}

func lostNodeIsReplaced(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	plugin := leased(t, db, snowflakeplugin.WithLease(nil, lease.WithSpan(time.Second)))
	before, err := plugin.NextID(t.Context())
	must(t, err, "NextID")
	must(t, db.Exec("UPDATE snowflake_nodes SET owner = 'thief', version = version + 1 WHERE node = ?",
		nodeOf(t, before)).Error, "steal the record")
	deadline := time.Now().Add(time.Minute)
	for nodeOf(t, before) == plugin.Stats().Node && time.Now().Before(deadline) {
		after, err := plugin.NextID(t.Context())
		must(t, err, "NextID after the theft")
		if after <= before {
			t.Fatalf("%d follows %d", after, before)
		}
		time.Sleep(time.Millisecond)
	}
	after, err := plugin.NextID(t.Context())
	must(t, err, "NextID with the new node")
	if after <= before || nodeOf(t, after) == nodeOf(t, before) {
		t.Errorf("%d of node %d follows %d of node %d", after, nodeOf(t, after), before, nodeOf(t, before))
	}
}

// brokenStore is a store that can be made unavailable.
type brokenStore struct {
	lease.Store
	mu   sync.Mutex
	away error // guarded by mu
}

func (s *brokenStore) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = err
}

func (s *brokenStore) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

func (s *brokenStore) Now(ctx context.Context) (time.Time, error) {
	if err := s.err(); err != nil {
		return time.Time{}, err
	}
	return s.Store.Now(ctx)
}

func (s *brokenStore) List(ctx context.Context) ([]lease.Record, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.List(ctx)
}

func (s *brokenStore) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	if err := s.err(); err != nil {
		return false, err
	}
	return s.Store.Swap(ctx, prev, next)
}

var errAway = errors.New("the line was cut")

// unreachable returns a plugin that cannot get a node.
func unreachable() *snowflakeplugin.Plugin {
	return snowflakeplugin.New(silent(), snowflakeplugin.WithLease(&brokenStore{away: errAway}))
}

func everyNumberTaken(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	three := snowflakeplugin.WithLease(nil, lease.WithNodes(5, 7), lease.WithOwner("web"))
	for range 3 {
		leased(t, target.OpenDSN(t, dsn, nil), three)
	}
	db := target.OpenDSN(t, dsn, nil)
	must(t, db.AutoMigrate(&account{}), "AutoMigrate")
	plugin := snowflakeplugin.New(silent(), three)
	err := db.Use(plugin)
	wantErr(t, err, lease.ErrNoFreeNode, "Use")
	says(t, err, "5 to 7", "web #", "falls free at")
	wantErr(t, db.Create(&account{Email: "x"}).Error, snowflakeplugin.ErrNotInUse, "create")
	holds(t, db, &account{}, 0)
}

func leaseIsLogged(t *testing.T, target dbtest.Target) {
	var text strings.Builder
	plugin := snowflakeplugin.New(snowflakeplugin.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
	must(t, target.Open(t, nil).Use(plugin), "Use")
	must(t, plugin.Close(t.Context()), "Close")
	if got := text.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "node taken") ||
		!strings.Contains(got, "node given back") {
		t.Errorf("the log is:\n%s", got)
	}
}

func storeAway(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	must(t, db.AutoMigrate(&account{}), "AutoMigrate")
	records, err := gormlease.New(db)
	must(t, err, "gormlease.New")
	t.Cleanup(func() { _ = records.Close() })
	store := &brokenStore{Store: records}
	plugin := leased(t, db, snowflakeplugin.WithLease(store, lease.WithSpan(time.Second)))
	must(t, db.Create(&account{Email: "before@example.com"}).Error, "create before")

	store.set(errAway)
	deadline := time.Now().Add(time.Minute)
	made := int64(1)
	for ; time.Now().Before(deadline); made++ {
		a := account{Email: fmt.Sprint("meanwhile", made)}
		if err = db.Create(&a).Error; err != nil {
			same(t, "the ID that was not made", a.ID, 0)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, want := range []error{generator.ErrOutsideWindow, lease.ErrStore, errAway} {
		wantErr(t, err, want, "create when the window has ended")
	}
	says(t, err, "no extension since", fmt.Sprint("node ", plugin.Stats().Node))
	holds(t, db, &account{}, made)

	store.set(nil)
	for time.Now().Before(deadline) {
		if err = db.Create(&account{Email: "after@example.com"}).Error; err == nil {
			break
		}
	}
	must(t, err, "create when the store is back")
}
