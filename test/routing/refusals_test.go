package routing_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestRefusals(t *testing.T) { run(t, shardRefusalBehaviors()) }

// shardRefusalBehaviors test what the router refuses before it uses a database.
func shardRefusalBehaviors() []behavior {
	return []behavior{
		{Name: "an ID that cannot be one is on no shard", Run: noIDNoShard},
		{Name: "a model that is not of the router is refused", Run: unknownModel},
		{Name: "a configuration that cannot be is refused with all its reasons", Run: badShardingConfig},
	}
}

func noIDNoShard(t *testing.T, target dbtest.Target) {
	s := newTrades(t, target)
	layout := generator.Default()
	future, _, err := layout.Range(time.Now().AddDate(2, 0, 0), time.Now().AddDate(2, 0, 1))
	must(t, err, "Range")
	before := func(name string, id snowflakeplugin.ID, err error) {
		wantErr(t, err, snowflakeplugin.ErrInvalidID, fmt.Sprintf("%s of %d", name, int64(id)))
		says(t, err, fmt.Sprint(int64(id)))
	}
	nothing := func(*snowflakeplugin.ShardTx) error { return errors.New("the function was called") }
	ctx := t.Context()
	for _, id := range []snowflakeplugin.ID{0, -1, -7234567890, 1<<63 - 1, snowflakeplugin.ID(future), -1 << 63} {
		_, err := s.router.Shard(id)
		before("Shard", id, err)
		_, err = s.router.Table(&trade{}, id)
		before("Table", id, err)
		_, err = s.router.DB(ctx, &trade{}, id)
		before("DB", id, err)
		_, err = s.router.Explain(id)
		before("Explain", id, err)
		before("Find", id, s.router.Find(ctx, &[]trade{}, []snowflakeplugin.ID{id}))
		before("Transaction", id, s.router.Transaction(ctx, id, nothing))
		if id != 0 { // zero stands for a row that needs an ID
			before("Create", id, s.router.Create(ctx, []trade{{Code: "a"}, {ID: id, Code: "b"}}))
			before("Create of one", id, s.router.Create(ctx, &trade{ID: id}))
		}
		must(t, s.router.Transaction(ctx, s.id(0), func(tx *snowflakeplugin.ShardTx) error {
			_, err := tx.DB(&trade{}, id)
			before("DB in a transaction", id, err)
			return nil
		}), "Transaction")
	}
	s.hold("trades", 0)
	before("Before", 0, s.router.Before(ctx, &[]trade{}, 0, 1))
	before("Before", -1, s.router.Before(ctx, &[]trade{}, -1, 1))
	before("After", -1, s.router.After(ctx, &[]trade{}, -1, 1))
}

func unknownModel(t *testing.T, target dbtest.Target) {
	s := newTrades(t, target)
	id, ctx := s.id(1), t.Context()
	_, tableErr := s.router.Table(&account{}, id)
	_, dbErr := s.router.DB(ctx, &account{}, id)
	_, countErr := s.router.Count(ctx, &account{})
	_, nilErr := s.router.Count(ctx, nil)
	var sum int64
	var txErr, txCreateErr error
	must(t, s.router.Transaction(ctx, id, func(tx *snowflakeplugin.ShardTx) error {
		_, txErr = tx.DB(&account{}, id)
		txCreateErr = tx.Create(&account{})
		return nil
	}), "Transaction")
	_, distErr := s.router.Distribution(ctx, "accounts")
	for name, err := range map[string]error{
		"Table": tableErr, "DB": dbErr, "Count": countErr, "Count of nil": nilErr, "Distribution": distErr,
		"DB in a transaction": txErr, "Create in a transaction": txCreateErr,
		"Sum":     sumOver(ctx, s.router, &account{}, "id", &sum),
		"Create":  s.router.Create(ctx, &account{}),
		"a map":   s.router.Create(ctx, map[string]any{"total": 1}),
		"nil":     s.router.Create(ctx, nil),
		"Find":    s.router.Find(ctx, &[]account{}, []snowflakeplugin.ID{id}),
		"Latest":  s.router.Latest(ctx, &[]account{}, 1),
		"Before":  s.router.Before(ctx, &[]account{}, id, 1),
		"After":   s.router.After(ctx, &[]account{}, id, 1),
		"Between": s.router.Between(ctx, &[]account{}, time.Now().Add(-time.Hour), time.Now()),
		"Each":    s.router.Each(ctx, &account{}, func(int, *gorm.DB) error { return errors.New("called") }),
	} {
		wantErr(t, err, snowflakeplugin.ErrNotSharded, name)
		says(t, err, "trade", "refund")
	}
	for name, err := range map[string]error{
		"a struct":          s.router.Latest(ctx, trade{}, 1),
		"a slice":           s.router.Latest(ctx, []trade{}, 1),
		"a struct for rows": s.router.Find(ctx, &trade{}, []snowflakeplugin.ID{id}),
		"a limit of 0":      s.router.Latest(ctx, &[]trade{}, 0),
		"a limit below 0":   s.router.After(ctx, &[]trade{}, 0, -1),
		"a value to create": s.router.Create(ctx, trade{Code: "x"}),
		"a sum in an int":   sumOver(ctx, s.router, &trade{}, "total", new(int)),
	} {
		wantErr(t, err, gorm.ErrInvalidValue, name)
	}
	wantErr(t, s.router.Create(ctx, []*trade{{Code: "y"}, nil}), gorm.ErrInvalidData, "a nil row")
	wantErr(t, sumOver(ctx, s.router, &trade{}, "nothing", &sum), gorm.ErrInvalidField, "a sum of no column")
	s.hold("trades", 0)
}

// club has a join table of the application.
type club struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Guests []account          `gorm:"many2many:visits"`
}

type visit struct {
	ClubID    snowflakeplugin.ID `gorm:"primaryKey"`
	AccountID snowflakeplugin.ID `gorm:"primaryKey"`
	DeletedAt gorm.DeletedAt
}

func badShardingConfig(t *testing.T, target dbtest.Target) {
	s := newShardedOf(t, []dbtest.Target{target}, nil, shards, tradeModels...)
	must(t, s.dbs[0].SetupJoinTable(&club{}, "Guests", &visit{}), "SetupJoinTable")
	stranger := target.Open(t, nil)
	type untagged struct {
		ID   int64
		Name string
	}
	type twoKeys struct {
		A snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		B int64              `gorm:"primaryKey"`
	}
	type named struct {
		ID string `gorm:"primaryKey;size:30" snowflake:"true"`
	}
	with := func(change func(*snowflakeplugin.ShardingConfig)) snowflakeplugin.ShardingConfig {
		cfg := snowflakeplugin.ShardingConfig{Shards: shards, Databases: s.dbs}
		change(&cfg)
		return cfg
	}
	type cfg = snowflakeplugin.ShardingConfig
	for name, c := range map[string]struct {
		cfg    cfg
		models []any
		words  []string
	}{
		"no database":        {with(func(c *cfg) { c.Databases = nil }), nil, []string{"no database"}},
		"a nil database":     {with(func(c *cfg) { c.Databases = []*gorm.DB{nil} }), nil, []string{"database 0 is nil"}},
		"without the plugin": {with(func(c *cfg) { c.Databases = append(c.Databases, stranger) }), nil, []string{"database 1", "db.Use"}},
		"no shard":           {with(func(c *cfg) { c.Shards = 0 }), nil, []string{"0 shards"}},
		"fewer than none":    {with(func(c *cfg) { c.Shards = -4 }), nil, []string{"-4 shards"}},
		"too many shards":    {with(func(c *cfg) { c.Shards = 1 << 20 }), nil, []string{"1048576 shards"}},
		"an odd number":      {with(func(c *cfg) { c.Shards = 3 }), nil, []string{"3 shards", "WithShards(3)"}},
		"another layout":     {with(func(c *cfg) { c.Layout = generator.Twitter() }), nil, []string{"layout"}},
		"a place that is not there": {with(func(c *cfg) { c.Place = func(s int) int { return s } }), nil,
			[]string{"Place(1) returned 1", "1 databases"}},
		"no model":     {with(func(*cfg) {}), []any{}, []string{"no model"}},
		"a nil model":  {with(func(*cfg) {}), []any{nil}, []string{"model 0"}},
		"twice":        {with(func(*cfg) {}), []any{&account{}, account{}}, []string{"model 1, account", "twice"}},
		"many reasons": {with(func(*cfg) {}), []any{&untagged{}, &twoKeys{}, &named{}}, []string{"untagged", "twoKeys", "named"}},
		"a join table of its own": {with(func(*cfg) {}), []any{&club{}, &account{}},
			[]string{"club.Guests", "visit", "SetupJoinTable"}},
		"of another router": {with(func(*cfg) {}), []any{&trade{}}, []string{"trade belongs to another router"}},
	} {
		models := c.models
		if models == nil {
			models = []any{&account{}}
		}
		r, err := snowflakeplugin.NewRouter(c.cfg, models...)
		wantErr(t, err, snowflakeplugin.ErrSharding, name)
		says(t, err, c.words...)
		if r != nil {
			t.Errorf("%s: there is a router", name)
		}
	}
	_, err := snowflakeplugin.NewRouter(with(func(*cfg) {}), &account{})
	must(t, err, "a second router for other models")
}
