package routing_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// shards is the number of shards if the number does not matter. With two databases, each has two
// shards.
const shards = 4

// trade is an order. Its items and labels are colocated with it, and its refunds are on any shard.
type trade struct {
	ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Code      string             `gorm:"size:40;uniqueIndex:idx_trade_code"`
	Customer  int64              `gorm:"index:idx_trade_customer"`
	Total     int64
	Items     []tradeItem  `gorm:"foreignKey:TradeID"`
	Labels    []tradeLabel `gorm:"many2many:trade_label_links"`
	DeletedAt gorm.DeletedAt
}

type tradeItem struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:TradeID"`
	TradeID snowflakeplugin.ID `gorm:"index"`
	Name    string             `gorm:"size:40"`
	Trade   *trade             `gorm:"foreignKey:TradeID"`
}

type tradeLabel struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string             `gorm:"size:40"`
}

// refund has an independent key, so its trade may be on another shard.
type refund struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	TradeID snowflakeplugin.ID
	Amount  float64
	Trade   *trade `gorm:"foreignKey:TradeID"`
}

// account does not belong to a router.
type account struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Email string             `gorm:"size:100;uniqueIndex"`
}

var tradeModels = []any{&trade{}, &tradeItem{}, &tradeLabel{}, &refund{}}

// sharded is a router over new databases, with what a test needs to inspect them.
type sharded struct {
	*testing.T
	router *snowflakeplugin.Router
	plugin *snowflakeplugin.Plugin
	dbs    []*gorm.DB
	closed bool       // a database was made unavailable
	tables [][]string // of each database, if the router is from the pool
}

// another returns a target that can be combined with the given target. It is of another kind, except that
// SQLite is combined with a second SQLite in tier one, where the server has a sub-test of its own.
func another(target dbtest.Target) dbtest.Target {
	if target.Dialect == "sqlite" && nightly.Enabled() {
		return dbtest.Named("mariadb") // its databases are created quickly
	}
	return dbtest.Named("sqlite")
}

// eachSpread runs fn with one database and with two databases. In tier one it leaves out one database of a
// server, because the second database of the router does not change what it asks the first one.
func eachSpread(t *testing.T, target dbtest.Target, fn func(t *testing.T, targets []dbtest.Target)) {
	t.Helper()
	if target.Dialect == "sqlite" || nightly.Enabled() {
		t.Run("one database", func(t *testing.T) { fn(t, []dbtest.Target{target}) })
	}
	other := another(target)
	t.Run("with "+other.Name, func(t *testing.T) { fn(t, []dbtest.Target{target, other}) })
}

// eachTrades is eachSpread with a router for the trades.
func eachTrades(t *testing.T, target dbtest.Target, fn func(s *sharded)) {
	t.Helper()
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		fn(newTrades(t, targets...))
	})
}

// newTrades returns a router for the trades.
func newTrades(t *testing.T, targets ...dbtest.Target) *sharded {
	t.Helper()
	return pooled(t, "trades", targets, nil, tradeModels...)
}

// translatedTrades is newTrades with translated errors.
func translatedTrades(t *testing.T, targets ...dbtest.Target) *sharded {
	t.Helper()
	translated := func() *gorm.Config { return &gorm.Config{TranslateError: true} }
	return pooled(t, "translated trades", targets, translated, tradeModels...)
}

// preparedTrades is newTrades with prepared statements.
func preparedTrades(t *testing.T, targets ...dbtest.Target) *sharded {
	t.Helper()
	prepared := func() *gorm.Config { return &gorm.Config{PrepareStmt: true} }
	return pooled(t, "prepared trades", targets, prepared, tradeModels...)
}

// twoKinds returns a router for the trades over two databases. The first one belongs to the target.
func twoKinds(t *testing.T, target dbtest.Target) *sharded {
	t.Helper()
	return newTrades(t, target, another(target))
}

// newSharded opens the databases and creates the router and its tables.
func newSharded(
	t *testing.T, targets []dbtest.Target, cfg func() *gorm.Config, models ...any,
) *sharded {
	t.Helper()
	s := newShardedOf(t, targets, cfg, shards, models...)
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	return s
}

// newShardedOf is newSharded for another number of shards. It does not create the tables.
func newShardedOf(
	t *testing.T, targets []dbtest.Target, cfg func() *gorm.Config, n int, models ...any,
) *sharded {
	t.Helper()
	s := newShardedBy(t, t, targets, cfg, n, models...)
	// This check runs after the test, before the databases are closed.
	t.Cleanup(s.idle)
	return &s
}

// newShardedBy is newShardedOf for databases that are closed with tb.
//
//nolint:thelper // the databases may live longer than the test
func newShardedBy(
	tb testing.TB, t *testing.T, targets []dbtest.Target, cfg func() *gorm.Config, n int, models ...any,
) sharded {
	t.Helper()
	s := sharded{T: t, plugin: snowflakeplugin.New(snowflakeplugin.WithNode(1))}
	for _, target := range targets {
		var own *gorm.Config
		if cfg != nil {
			own = cfg()
		}
		db := target.Open(tb, own)
		must(t, db.Use(s.plugin), "Use")
		s.dbs = append(s.dbs, db)
	}
	var err error
	s.router, err = snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: n, Databases: s.dbs}, models...)
	must(t, err, "NewRouter")
	return s
}

// idle fails the test if a connection was not returned to its pool. After a refused key in a transaction, the
// plugin looks for the row of somebody else on a connection of its own, for a second at most.
func (s *sharded) idle() {
	s.Helper()
	for i, db := range s.dbs {
		pool, err := db.DB()
		if err != nil {
			s.Errorf("the pool of database %d: %v", i, err)
			continue
		}
		for until := time.Now().Add(5 * time.Second); pool.Stats().InUse != 0 && time.Now().Before(until); {
			time.Sleep(10 * time.Millisecond)
		}
		if n := pool.Stats().InUse; n != 0 {
			s.Errorf("%d connections of database %d are still in use", n, i)
		}
	}
}

// id returns an ID on a shard.
func (s *sharded) id(shard int) snowflakeplugin.ID {
	s.Helper()
	for range 10_000 {
		id, err := s.plugin.NextID(s.Context())
		must(s.T, err, "NextID")
		if s.shard(id) == shard {
			return id
		}
	}
	s.Fatalf("no ID on shard %d", shard)
	return 0
}

func (s *sharded) shard(id snowflakeplugin.ID) int {
	s.Helper()
	shard, err := s.router.Shard(id)
	must(s.T, err, "Shard")
	return shard
}

// on returns the handle for a model on the shard of an ID.
func (s *sharded) on(model any, id snowflakeplugin.ID) *gorm.DB {
	s.Helper()
	db, err := s.router.DB(s.Context(), model, id)
	must(s.T, err, "DB")
	return db
}

// trades returns trades with unique codes that are not stored yet, n on every shard.
func (s *sharded) trades(n int) []trade {
	s.Helper()
	var made []trade
	for i := range n {
		for shard := range s.router.Shards() {
			made = append(made, trade{
				ID: s.id(shard), Code: fmt.Sprintf("%d-%d", shard, i), Customer: int64(i % 3), Total: int64(10*i + shard),
			})
		}
	}
	return made
}

// filled stores n trades on every shard.
func (s *sharded) filled(n int) []trade {
	s.Helper()
	made := s.trades(n)
	must(s.T, s.router.Create(s.Context(), made), "Create")
	return made
}

// table reads a table by its name without the router. It returns the IDs in ascending order.
func (s *sharded) table(shard int, name string) []snowflakeplugin.ID {
	s.Helper()
	var ids []snowflakeplugin.ID
	err := s.dbs[shard%len(s.dbs)].Table(fmt.Sprintf("%s_%02d", name, shard)).Order("id").Pluck("id", &ids).Error
	must(s.T, err, "read the table "+name)
	return ids
}

// hold fails the test unless the tables of all shards have the given number of rows in total.
func (s *sharded) hold(name string, want int) {
	s.Helper()
	got := 0
	for shard := range s.router.Shards() {
		got += len(s.table(shard, name))
	}
	if got != want {
		s.Errorf("the tables of %s have %d rows, want %d", name, got, want)
	}
}

// partial returns the error as a PartialError. It fails the test unless the error names the failed
// shards.
func (s *sharded) partial(err error, doing string, failed ...int) snowflakeplugin.PartialError {
	s.Helper()
	wantErr(s.T, err, nil, doing)
	var e *snowflakeplugin.PartialError
	if !errors.As(err, &e) {
		s.Fatalf("%s: %T, want a *PartialError", doing, err)
	}
	var ok []int
	for shard := range s.router.Shards() {
		if !slices.Contains(failed, shard) {
			ok = append(ok, shard)
		}
		if (e.Failed[shard] != nil) != slices.Contains(failed, shard) {
			s.Errorf("%s: of shard %d the error is %v", doing, shard, e.Failed[shard])
		}
	}
	if !slices.Equal(e.OK, ok) {
		s.Errorf("%s: shards %v are said to have succeeded, want %v", doing, e.OK, ok)
	}
	return *e
}

// closePool makes a database unavailable.
func (s *sharded) closePool(i int) {
	s.Helper()
	s.closed = true
	pool, err := s.dbs[i].DB()
	must(s.T, err, "the pool")
	must(s.T, pool.Close(), "close the pool")
}

// shardsOf lists the shards of a database.
func (s *sharded) shardsOf(database int) (list []int) {
	for shard := database; shard < s.router.Shards(); shard += len(s.dbs) {
		list = append(list, shard)
	}
	return list
}

// idsOf returns the IDs of trades in the same order.
func idsOf(trades []trade) []snowflakeplugin.ID {
	ids := make([]snowflakeplugin.ID, len(trades))
	for i := range trades {
		ids[i] = trades[i].ID
	}
	return ids
}
