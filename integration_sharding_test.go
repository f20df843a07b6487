package snowflakeplugin_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

// shardingBehaviors say what the router promises: that rows go where their ID says, that a statement
// sees all rows or is refused, and that a handle of the router is an ordinary one.
func shardingBehaviors() []behavior {
	return slices.Concat(
		shardRouteBehaviors(),
		shardRefusalBehaviors(),
		shardCreateBehaviors(),
		shardReadBehaviors(),
		shardPageBehaviors(),
		shardTxBehaviors(),
		shardGormBehaviors(),
		shardRelationBehaviors(),
		shardWriteBehaviors(),
		shardNameBehaviors(),
		shardBroadcastBehaviors(),
		shardSpreadBehaviors(),
		shardConfigBehaviors(),
	)
}

// shards is how many the tests have where the number does not matter: with two databases each has
// two.
const shards = 4

// trade is an order; its items and labels lie beside it, its refunds anywhere.
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

// refund has a key of its own, so the trade that it refers to may be on another shard.
type refund struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	TradeID snowflakeplugin.ID
	Amount  float64
	Trade   *trade `gorm:"foreignKey:TradeID"`
}

var tradeModels = []any{&trade{}, &tradeItem{}, &tradeLabel{}, &refund{}}

// sharded is a router over fresh databases, with what a test needs to look behind it.
type sharded struct {
	*testing.T
	router *snowflakeplugin.Router
	plugin *snowflakeplugin.Plugin
	dbs    []*gorm.DB
}

// another is a target of another kind, to be mixed with the first.
func another(target dbtest.Target) dbtest.Target {
	want := "sqlite"
	if target.Dialect == want {
		want = "mariadb" // whose databases are made quickly
	}
	for _, other := range dbtest.Targets() {
		if other.Name == want {
			return other
		}
	}
	return target
}

// eachSpread runs fn with one database, and with two of different kinds.
func eachSpread(t *testing.T, target dbtest.Target, fn func(t *testing.T, targets []dbtest.Target)) {
	t.Helper()
	t.Run("one database", func(t *testing.T) { fn(t, []dbtest.Target{target}) })
	other := another(target)
	t.Run("with "+other.Name, func(t *testing.T) { fn(t, []dbtest.Target{target, other}) })
}

// eachTrades is eachSpread with a router for the trades.
func eachTrades(t *testing.T, target dbtest.Target, fn func(s *sharded)) {
	t.Helper()
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		fn(newSharded(t, targets, nil, tradeModels...))
	})
}

// twoKinds is a router for the trades over two databases, the first of them of the target.
func twoKinds(t *testing.T, target dbtest.Target) *sharded {
	t.Helper()
	return newSharded(t, []dbtest.Target{target, another(target)}, nil, tradeModels...)
}

// newSharded opens the databases, and makes the router and its tables.
func newSharded(
	t *testing.T, targets []dbtest.Target, cfg func() *gorm.Config, models ...any,
) *sharded {
	t.Helper()
	s := newShardedOf(t, targets, cfg, shards, models...)
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	return s
}

// newShardedOf is newSharded for another number of shards, and without the tables.
func newShardedOf(
	t *testing.T, targets []dbtest.Target, cfg func() *gorm.Config, n int, models ...any,
) *sharded {
	t.Helper()
	s := &sharded{T: t, plugin: snowflakeplugin.New(snowflakeplugin.WithNode(1))}
	for _, target := range targets {
		var own *gorm.Config
		if cfg != nil {
			own = cfg()
		}
		db := target.Open(t, own)
		must(t, db.Use(s.plugin), "Use")
		s.dbs = append(s.dbs, db)
	}
	// Looked at when the test is over, before the databases are closed.
	t.Cleanup(s.idle)
	var err error
	s.router, err = snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: n, Databases: s.dbs}, models...)
	must(t, err, "NewRouter")
	return s
}

// idle fails the test if a connection was not given back.
func (s *sharded) idle() {
	s.Helper()
	for i, db := range s.dbs {
		pool, err := db.DB()
		if err != nil {
			s.Errorf("the pool of database %d: %v", i, err)
			continue
		}
		if n := pool.Stats().InUse; n != 0 {
			s.Errorf("%d connections of database %d are still in use", n, i)
		}
	}
}

// id makes an ID on a shard.
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

// trades makes trades with codes of their own that are not stored yet: n on every shard.
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

// table reads a table by its name, past the router: the IDs in it in ascending order.
func (s *sharded) table(shard int, name string) []snowflakeplugin.ID {
	s.Helper()
	var ids []snowflakeplugin.ID
	err := s.dbs[shard%len(s.dbs)].Table(fmt.Sprintf("%s_%02d", name, shard)).Order("id").Pluck("id", &ids).Error
	must(s.T, err, "read the table "+name)
	return ids
}

// hold fails the test unless the tables of all shards have so many rows together.
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

// partial returns the error as one that names shards, and fails the test unless it names these.
func (s *sharded) partial(err error, doing string, failed ...int) snowflakeplugin.PartialError {
	s.Helper()
	wantErr(s.T, err, snowflakeplugin.ErrPartial, doing)
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

// closePool takes a database away.
func (s *sharded) closePool(i int) {
	s.Helper()
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

// idsOf are the IDs of trades, in their order.
func idsOf(trades []trade) []snowflakeplugin.ID {
	ids := make([]snowflakeplugin.ID, len(trades))
	for i := range trades {
		ids[i] = trades[i].ID
	}
	return ids
}
