package routing_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestReads(t *testing.T) { run(t, shardReadBehaviors()) }

// shardReadBehaviors test that a read over several shards is complete or returns an error.
func shardReadBehaviors() []behavior {
	return []behavior{
		{Name: "10,000 IDs are found in their order", Run: findManyInOrder},
		{Name: "IDs without a row are named, each once, and the rest is found", Run: findNamesTheMissing},
		{Name: "Find goes through scopes, with preloads", Run: findThroughScopes},
		{Name: "GORM keeps no prepared statement of Find over several shards", Run: findIsNotPrepared},
		{Name: "Count and sums go over all shards, and through scopes", Run: figuresOverShards},
		{Name: "a sum is exact", Run: sumsAreExact},
		{Name: "a database that is away fails the whole read, by the names of its shards", Run: readsWithoutDatabase},
		{Name: "Each tells which shards failed, and goes on with the others", Run: eachTellsWhoFailed},
		{Name: "Each survives a panic and the end of its context", Run: eachSurvives},
		{Name: "the distribution counts every row", Run: distributionCounts},
	}
}

func findManyInOrder(t *testing.T, target dbtest.Target) {
	// One statement names at most 5,000 IDs, so only those of one shard need several.
	for name, c := range map[string]struct {
		most int
		open func(t *testing.T) *sharded
	}{
		"two databases": {nightly.Pick(1000, 10_000), func(t *testing.T) *sharded { return twoKinds(t, target) }},
		"one shard": {10_000, func(t *testing.T) *sharded {
			s := newShardedOf(t, []dbtest.Target{target}, nil, 1, &tradeLabel{})
			must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
			return s
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, most := c.open(t), c.most
			made := make([]tradeLabel, most)
			for i := range made {
				made[i].Name = fmt.Sprint(i)
			}
			for chunk := range slices.Chunk(made, 2000) {
				must(t, s.router.Create(t.Context(), chunk), "Create")
			}
			ids := make([]snowflakeplugin.ID, 0, most+1)
			names := map[snowflakeplugin.ID]string{}
			for _, row := range made {
				ids = append(ids, row.ID)
				names[row.ID] = row.Name
			}
			rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			ids = append(ids, ids[0])
			var values []tradeLabel
			must(t, s.router.Find(t.Context(), &values, ids), "Find")
			var pointers []*tradeLabel
			must(t, s.router.Find(t.Context(), &pointers, ids), "Find pointers")
			if len(values) != len(ids) || len(pointers) != len(ids) {
				t.Fatalf("%d values and %d pointers for %d IDs", len(values), len(pointers), len(ids))
			}
			for i, id := range ids {
				if values[i].ID != id || pointers[i].ID != id || values[i].Name != names[id] {
					t.Fatalf("row %d is %v, and %v, want the one with ID %d", i, values[i], *pointers[i], id)
				}
			}
		})
	}
}

func findNamesTheMissing(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(2)
		deleted := made[5].ID
		must(s.T, s.on(&trade{}, deleted).Delete(&trade{}, deleted).Error, "Delete")
		never := s.id(2)
		found := []trade{{Code: "old"}}
		ids := []snowflakeplugin.ID{made[7].ID, never, made[0].ID, deleted, never, made[7].ID}
		err := s.router.Find(s.Context(), &found, ids)
		wantErr(s.T, err, gorm.ErrRecordNotFound, "Find")
		var missing *snowflakeplugin.MissingError
		if !errors.As(err, &missing) || !slices.Equal(missing.IDs, []snowflakeplugin.ID{never, deleted}) {
			s.Fatalf("the error is %#v, want one that names %d and %d", err, never, deleted)
		}
		same(s.T, "the model", missing.Model, "trade")
		says(s.T, err, "trade", never.String(), deleted.String())
		if want := []snowflakeplugin.ID{made[7].ID, made[0].ID, made[7].ID}; !slices.Equal(idsOf(found), want) {
			s.Errorf("found %v, want %v", idsOf(found), want)
		}
		var many []snowflakeplugin.ID
		for range 25 {
			many = append(many, s.id(1))
		}
		says(s.T, s.router.Find(s.Context(), &found, many), "and 15 more")
		same(s.T, "rows found", len(found), 0)
	})
}

func findThroughScopes(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(2)
		var items []tradeItem
		for _, row := range made {
			items = append(items, tradeItem{TradeID: row.ID, Name: row.Code})
		}
		must(s.T, s.router.Create(s.Context(), items), "Create")
		with := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Preload("Items") })
		var found []trade
		must(s.T, with.Find(s.Context(), &found, idsOf(made)), "Find")
		for i, row := range found {
			if len(row.Items) != 1 || row.Items[0].Name != made[i].Code {
				s.Errorf("row %d has the items %v", i, row.Items)
			}
		}
		err := with.Latest(s.Context(), &found, 3)
		wantErr(s.T, err, nil, "a page with a preload")
		says(s.T, err, "preload")
		// With a further condition, IDs that do not satisfy it are missing.
		first := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("customer = ?", 0) },
			func(db *gorm.DB) *gorm.DB { return db.Where("total >= ?", 2) })
		wantErr(s.T, first.Find(s.Context(), &found, idsOf(made)), gorm.ErrRecordNotFound, "Find")
		same(s.T, "rows that meet both", len(found), 2)
	})
}

// Their text differs with the number of IDs on each shard, so they would be kept without end. PostgreSQL asks
// most shards of a database in one of five forms, for up to 1, 2, 4, 8 or 16 IDs of each, and keeps those.
func findIsNotPrepared(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := preparedTrades(t, targets...)
		ids := idsOf(s.filled(3))
		kept := func() (n int) {
			for _, db := range s.dbs {
				pool, ok := db.ConnPool.(*gorm.PreparedStmtDB)
				if !ok {
					t.Fatalf("the pool is a %T", db.ConnPool)
				}
				n += len(pool.Stmts.Keys())
			}
			return n
		}
		before := kept()
		for n := 5; n <= len(ids); n++ {
			var found []trade
			must(t, s.router.Find(t.Context(), &found, ids[:n]), "Find")
			same(t, "rows", len(found), n)
		}
		forms := 0
		if target.Dialect == "postgres" {
			forms = 5
		}
		if more := kept() - before; more > forms {
			t.Errorf("%d statements more are kept, want %d at most", more, forms)
		}
	})
}

func figuresOverShards(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(6)
		want := func(r *snowflakeplugin.Router, name string, count, sum int64) {
			s.Helper()
			n, err := r.Count(s.Context(), &trade{})
			must(s.T, err, name)
			same(s.T, name+": Count", n, count)
			total := int64(-1)
			some, err := r.Aggregate(s.Context(), trade{}, "sum", "total", &total)
			must(s.T, err, name)
			same(s.T, name+": there is a sum", some, count > 0)
			if !some {
				sum = -1
			}
			same(s.T, name+": the sum", total, sum)
		}
		of := func(fns ...func(*gorm.DB) *gorm.DB) *snowflakeplugin.Router { return s.router.Scopes(fns...) }
		var all, second int64
		for _, row := range made {
			all += row.Total
			if row.Customer == 1 {
				second += row.Total
			}
		}
		customer := func(db *gorm.DB) *gorm.DB { return db.Where("customer = ?", 1) }
		rich := func(db *gorm.DB) *gorm.DB { return db.Where("total > ? OR total < ?", 1000, -1) }
		want(s.router, "all", 24, all)
		want(of(customer), "a customer", 8, second)
		want(of(rich), "none", 0, 0)
		want(of(customer, rich), "none of two", 0, 0)
		want(of(customer).Scopes(rich), "none of two, one by one", 0, 0)
		want(of(func(db *gorm.DB) *gorm.DB { return db.Where("customer = 0").Or("customer = 1") }), "OR", 16,
			all-sumOf(made, 2))
		gone := made[4]
		must(s.T, s.on(&trade{}, gone.ID).Delete(&gone).Error, "Delete")
		want(s.router, "without a deleted one", 23, all-gone.Total)
		want(of(func(db *gorm.DB) *gorm.DB { return db.Unscoped() }), "with it", 24, all)
		want(s.router, "the scopes of others do not stick", 23, all-gone.Total)
		n, err := s.router.Count(s.Context(), &tradeItem{})
		must(s.T, err, "Count of another model")
		same(s.T, "Count of another model", n, 0)
	})
}

// sumOver adds up a column of all shards.
func sumOver(ctx context.Context, r *snowflakeplugin.Router, model any, column string, dest any) error {
	_, err := r.Aggregate(ctx, model, "sum", column, dest)
	return err
}

func sumOf(trades []trade, customer int64) (sum int64) {
	for _, row := range trades {
		if row.Customer == customer {
			sum += row.Total
		}
	}
	return sum
}

func sumsAreExact(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		rows := []trade{
			{ID: s.id(0), Code: "a", Total: 1<<53 + 1}, {ID: s.id(1), Code: "b", Total: 1},
			{ID: s.id(2), Code: "c", Total: -2}, {ID: s.id(0), Code: "d", Total: 1 << 61},
		}
		must(s.T, s.router.Create(s.Context(), rows), "Create")
		var n int64
		must(s.T, sumOver(s.Context(), s.router, &trade{}, "Total", &n), "Sum")
		same(s.T, "an int64", n, int64(1<<61+1<<53))
		var rat big.Rat
		must(s.T, sumOver(s.Context(), s.router, &trade{}, "total", &rat), "Sum")
		same(s.T, "a Rat", rat.RatString(), fmt.Sprint(int64(1<<61+1<<53)))
		refunds := []refund{{ID: s.id(1), Amount: 0.25}, {ID: s.id(2), Amount: 1.5}, {ID: s.id(3), Amount: -0.5}}
		must(s.T, s.router.Create(s.Context(), refunds), "Create")
		var f float64
		must(s.T, sumOver(s.Context(), s.router, &refund{}, "Amount", &f), "Sum")
		same(s.T, "a float64", f, 1.25)
		wantErr(s.T, sumOver(s.Context(), s.router, &refund{}, "Amount", &n), gorm.ErrInvalidValue, "1.25 in an int64")
		more := []trade{{ID: s.id(3), Code: "e", Total: math.MaxInt64}}
		must(s.T, s.router.Create(s.Context(), more), "Create")
		wantErr(s.T, sumOver(s.Context(), s.router, &trade{}, "Total", &n), gorm.ErrInvalidValue, "more than an int64 holds")
	})
}

func readsWithoutDatabase(t *testing.T, target dbtest.Target) {
	for away := range 2 {
		s := twoKinds(t, target)
		made := s.filled(2)
		s.closePool(away)
		gone, ctx := s.shardsOf(away), t.Context()
		for name, read := range map[string]func(dest *[]trade) error{
			"Find":   func(dest *[]trade) error { return s.router.Find(ctx, dest, idsOf(made)) },
			"Latest": func(dest *[]trade) error { return s.router.Latest(ctx, dest, 3) },
			"Before": func(dest *[]trade) error { return s.router.Before(ctx, dest, made[7].ID, 3) },
			"After":  func(dest *[]trade) error { return s.router.After(ctx, dest, 0, 3) },
		} {
			found := []trade{{Code: "old"}}
			e := s.partial(read(&found), name, gone...)
			same(t, name+": rows in a read that failed", len(found), 0)
			says(t, &e, "closed", fmt.Sprintf("shard %d, %d", gone[0], gone[1]), "2 of 4 shards")
		}
		n, err := s.router.Count(ctx, &trade{})
		s.partial(err, "Count", gone...)
		same(t, "the number with the error", n, 0)
		total := int64(42)
		for _, function := range []string{"sum", "max"} {
			some, err := s.router.Aggregate(ctx, &trade{}, function, "Total", &total)
			s.partial(err, function, gone...)
			same(t, "what is found with the error", some, false)
		}
		same(t, "the sum with the error", total, 42)
		// AutoMigrate reads the shard map of every database before it makes anything.
		if err = s.router.AutoMigrate(ctx); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("AutoMigrate without a database: %v", err)
		}
		var found []trade
		must(t, s.router.Find(ctx, &found, []snowflakeplugin.ID{made[1-away].ID}), "Find of a row that can be had")
		same(t, "its rows", len(found), 1)
	}
}

func eachTellsWhoFailed(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		s.filled(2)
		odd := errors.New("an odd shard")
		var calls, rows atomic.Int64
		err := s.router.Each(s.Context(), &trade{}, func(shard int, tx *gorm.DB) error {
			calls.Add(1)
			var n int64
			if err := tx.Count(&n).Error; err != nil {
				return err
			}
			rows.Add(n)
			if shard%2 == 1 {
				return fmt.Errorf("%w, %s", odd, tx.Name())
			}
			return nil
		})
		e := s.partial(err, "Each", 1, 3)
		wantErr(s.T, err, odd, "Each")
		same(s.T, "calls", calls.Load(), shards)
		same(s.T, "rows", rows.Load(), 2*shards)
		name := s.dbs[1%len(s.dbs)].Name()
		same(s.T, "the text", e.Error(),
			"snowflakeplugin: 2 of 4 shards failed; shard 1, 3: an odd shard, "+name)
		err = s.router.Each(s.Context(), &trade{}, func(shard int, _ *gorm.DB) error {
			return fmt.Errorf("reason %d", shard/3)
		})
		e = s.partial(err, "Each", 0, 1, 2, 3)
		says(s.T, &e, "4 of 4", "shard 0, 1, 2: reason 0", "shard 3: reason 1")
		must(s.T, s.router.Each(s.Context(), &trade{}, func(shard int, tx *gorm.DB) error {
			return tx.Where("total >= 0").Update("total", shard).Error
		}), "an update of every shard")
		var total int64
		must(s.T, sumOver(s.Context(), s.router, &trade{}, "Total", &total), "Sum")
		same(s.T, "the sum after it", total, 2*(0+1+2+3))
	})
}

func eachSurvives(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		s.filled(1)
		err := s.router.Each(s.Context(), &trade{}, func(shard int, tx *gorm.DB) error {
			if shard == 2 {
				return tx.Transaction(func(tx *gorm.DB) error {
					must(s.T, tx.Create(&trade{Code: "undone"}).Error, "Create")
					panic("it fell over")
				})
			}
			return nil
		})
		s.partial(err, "a panic", 2)
		says(s.T, err, "it fell over")
		s.hold("trades", shards)

		ctx, cancel := context.WithCancel(s.Context())
		var begun atomic.Int64
		err = s.router.Each(ctx, &trade{}, func(_ int, tx *gorm.DB) error {
			if begun.Add(1) == 1 {
				cancel()
			}
			<-ctx.Done()
			return tx.First(&trade{}).Error
		})
		s.partial(err, "the end of the context", 0, 1, 2, 3)
		wantErr(s.T, err, context.Canceled, "the end of the context")
		s.idle()
	})
}

func distributionCounts(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		s.filled(5)
		must(s.T, s.router.Create(s.Context(), &trade{ID: s.id(2), Code: "more"}), "Create")
		rows, err := s.router.Distribution(s.Context(), &trade{})
		must(s.T, err, "Distribution")
		if !slices.Equal(rows, []int64{5, 5, 6, 5}) {
			s.Errorf("the distribution is %v", rows)
		}
	})
}
