package routing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestCreates(t *testing.T) { run(t, shardCreateBehaviors()) }

// shardCreateBehaviors test that Create stores everything, or that its error says what is missing.
func shardCreateBehaviors() []behavior {
	return []behavior{
		{Name: "a batch over all shards lands whole, in every shape", Run: batchLandsWhole},
		{Name: "associations are created with their parents, on the same shard", Run: batchWithAssociations},
		{Name: "children that are created later are colocated with their parents", Run: laterChildrenAreColocated},
		{Name: "a child without a parent is refused", Run: childWithoutParent},
		{Name: "a child with a key on another shard than its parent's is refused", Run: childElsewhere},
		{Name: "a duplicate on one shard means that nothing was stored anywhere", Run: duplicateOnOneShard},
		{Name: "a database that is away means that nothing was stored in the others", Run: createWithoutDatabase},
		{Name: "a database that cannot commit is told from those that have", Run: commitFails},
		{Name: "a context that is over stores nothing, whoever made the IDs", Run: createAfterTheEnd},
		{Name: "a hook that panics is an error, and nothing is stored", Run: createHookPanics},
		{Name: "creates that need the same two databases do not wait for each other in a circle", Run: createsMeet},
		{Name: "PostgreSQL stores plain rows of all shards by one statement, and says which shard refuses one",
			Run: createsTogether},
		{Name: "no row is no work", Run: createNothing},
	}
}

func batchLandsWhole(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		rows := func(shape string, n int) []trade {
			made := make([]trade, n)
			for i := range made {
				made[i] = trade{Code: fmt.Sprintf("%s %d", shape, i), Total: 1}
			}
			return made
		}
		values, behind, one := rows("values", 40), rows("pointer to values", 40), trade{Code: "one", Total: 1}
		array := [2]trade{{Code: "a0", Total: 1}, {Code: "a1", Total: 1}}
		var pointers []*trade
		for _, row := range rows("pointers", 40) {
			pointers = append(pointers, &row)
		}
		total := 0
		for name, c := range map[string]struct {
			rows any
			ids  func() []snowflakeplugin.ID
		}{
			"values":            {values, func() []snowflakeplugin.ID { return idsOf(values) }},
			"pointer to values": {&behind, func() []snowflakeplugin.ID { return idsOf(behind) }},
			"an array":          {&array, func() []snowflakeplugin.ID { return idsOf(array[:]) }},
			"one":               {&one, func() []snowflakeplugin.ID { return []snowflakeplugin.ID{one.ID} }},
			"pointers": {pointers, func() (ids []snowflakeplugin.ID) {
				for _, row := range pointers {
					ids = append(ids, row.ID)
				}
				return ids
			}},
		} {
			must(s.T, s.router.Create(s.Context(), c.rows), name)
			ids := c.ids()
			if !slices.IsSorted(ids) || ids[0] == 0 {
				s.Errorf("%s: the IDs are %v", name, ids)
			}
			var found []trade
			must(s.T, s.router.Find(s.Context(), &found, ids), "Find "+name)
			total += len(ids)
			s.hold("trades", total)
		}
		same(s.T, "a row keeps what it had", one.Code, "one")
		for shard := range shards {
			if n := len(s.table(shard, "trades")); n < 30 || n > 32 {
				s.Errorf("shard %d has %d rows of three batches of 40, and three more", shard, n)
			}
		}
	})
}

func batchWithAssociations(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := make([]trade, 10)
		for i := range made {
			made[i] = trade{
				Code:   fmt.Sprint(i),
				Items:  []tradeItem{{Name: "a"}, {Name: "b"}},
				Labels: []tradeLabel{{Name: "new"}},
			}
		}
		must(s.T, s.router.Create(s.Context(), made), "Create")
		s.hold("trades", 10)
		s.hold("trade_items", 20)
		s.hold("trade_labels", 10)
		for _, row := range made {
			for _, item := range row.Items {
				same(s.T, "the shard of an item", s.shard(item.ID), s.shard(row.ID))
				same(s.T, "the trade of an item", item.TradeID, row.ID)
			}
			same(s.T, "the shard of a label", s.shard(row.Labels[0].ID), s.shard(row.ID))
			var got trade
			must(s.T, s.on(&trade{}, row.ID).Preload("Items").Preload("Labels").Take(&got, row.ID).Error, "read")
			if len(got.Items) != 2 || len(got.Labels) != 1 {
				s.Errorf("trade %s has %d items and %d labels", row.Code, len(got.Items), len(got.Labels))
			}
		}
	})
}

func laterChildrenAreColocated(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		var items []tradeItem
		for _, parent := range s.filled(2) {
			for i := range 3 {
				items = append(items, tradeItem{TradeID: parent.ID, Name: fmt.Sprint(i)})
			}
		}
		must(s.T, s.router.Create(s.Context(), items), "Create")
		for i, item := range items {
			same(s.T, "the shard of an item", s.shard(item.ID), s.shard(item.TradeID))
			if i > 0 && item.ID <= items[i-1].ID {
				s.Errorf("item %d has ID %d after %d", i, item.ID, items[i-1].ID)
			}
		}
		s.hold("trade_items", len(items))
	})
}

func childWithoutParent(t *testing.T, target dbtest.Target) {
	s := newTrades(t, target)
	parent := s.filled(1)[0]
	for name, rows := range map[string]any{
		"one":          &tradeItem{Name: "lost"},
		"among others": []tradeItem{{TradeID: parent.ID}, {Name: "lost"}},
		"negative":     &tradeItem{TradeID: -4},
	} {
		err := s.router.Create(t.Context(), rows)
		wantErr(t, err, snowflakeplugin.ErrNoParent, name)
		says(t, err, "tradeItem.TradeID")
	}
	s.hold("trade_items", 0)
	// The handle knows the shard, but that does not replace a parent.
	items := s.on(&tradeItem{}, parent.ID)
	for name, row := range map[string]any{
		"by a handle":          &tradeItem{Name: "lost"},
		"one of two":           []tradeItem{{TradeID: parent.ID}, {Name: "lost"}},
		"a map":                map[string]any{"name": "lost"},
		"a map with a nothing": map[string]any{"name": "lost", "trade_id": 0},
	} {
		wantErr(t, items.Create(row).Error, snowflakeplugin.ErrNoParent, name)
	}
	s.hold("trade_items", 0)
}

func childElsewhere(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(1)
		here, there := made[0].ID, s.id(1)
		for name, err := range map[string]error{
			"Create":            s.router.Create(s.Context(), &tradeItem{ID: there, TradeID: here}),
			"Create of many":    s.router.Create(s.Context(), []tradeItem{{TradeID: here}, {ID: there, TradeID: here}}),
			"DB, another key":   s.on(&tradeItem{}, here).Create(&tradeItem{ID: there, TradeID: here}).Error,
			"DB, other parent":  s.on(&tradeItem{}, here).Create(&tradeItem{TradeID: made[1].ID}).Error,
			"DB, map":           s.on(&tradeItem{}, here).Create(map[string]any{"trade_id": made[1].ID}).Error,
			"with the parent":   s.router.Create(s.Context(), &trade{ID: s.id(0), Code: "x", Items: []tradeItem{{ID: there}}}),
			"label of a parent": s.router.Create(s.Context(), &trade{ID: s.id(0), Code: "x", Labels: []tradeLabel{{ID: there}}}),
		} {
			wantErr(s.T, err, snowflakeplugin.ErrCrossShard, name)
		}
		s.hold("trade_items", 0)
		s.hold("trade_labels", 0)
		s.hold("trades", shards)
	})
}

func duplicateOnOneShard(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := translatedTrades(t, targets...)
		s.filled(1) // codes 0-0 to 3-0
		for shard := range shards {
			batch := make([]trade, 4*shards)
			for i := range batch {
				batch[i] = trade{Code: fmt.Sprintf("new %d", i), Items: []tradeItem{{Name: "x"}}}
			}
			for i := range batch {
				batch[i].ID = s.id(i % shards)
			}
			spoiled := &batch[2*shards+shard]
			spoiled.Code = fmt.Sprintf("%d-0", shard)
			err := s.router.Create(t.Context(), batch)
			wantErr(t, err, gorm.ErrDuplicatedKey, "Create")
			says(t, err, fmt.Sprintf("shard %d", shard), "nothing was stored")
			s.hold("trades", shards)
			s.hold("trade_items", 0)
		}
		// The rows keep their IDs and can be created after the fault is repaired.
		batch := []trade{{Code: "p"}, {Code: "q"}, {Code: "r"}, {Code: "s"}}
		clash := trade{ID: s.id(2), Code: "2-0"}
		wantErr(t, s.router.Create(t.Context(), append([]trade{clash}, batch...)), gorm.ErrDuplicatedKey, "Create")
		all := append([]trade{{ID: clash.ID, Code: "mended"}}, batch...)
		must(t, s.router.Create(t.Context(), all), "Create again")
		s.hold("trades", shards+5)
	})
}

func createWithoutDatabase(t *testing.T, target dbtest.Target) {
	for away := range 2 {
		s := twoKinds(t, target)
		batch := s.trades(2)
		s.closePool(away)
		err := s.router.Create(t.Context(), batch)
		wantErr(t, err, nil, "Create")
		says(t, err, "nothing was stored", "closed")
		for _, shard := range s.shardsOf(1 - away) {
			same(t, "rows on a shard", len(s.table(shard, "trades")), 0)
		}
		var mine []trade
		for _, row := range batch {
			if s.shard(row.ID)%2 != away {
				mine = append(mine, row)
			}
		}
		must(t, s.router.Create(t.Context(), mine), "Create where there is a database")
	}
}

// pledge is a row whose hook does what its note says.
type pledge struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Note string             `gorm:"size:40"`
}

func (p *pledge) AfterCreate(tx *gorm.DB) error {
	switch p.Note {
	case "break the commit":
		return breakCommit(tx)
	case "panic":
		panic("the hook fell over")
	}
	return nil
}

// breakCommit lets the statements of a transaction succeed but makes its COMMIT fail.
func breakCommit(tx *gorm.DB) error {
	if tx.Name() == "mysql" {
		// MariaDB has no deferred constraints, so the connection is closed instead.
		_ = tx.Exec("KILL CONNECTION_ID()").Error
		return nil
	}
	return tx.Exec("INSERT INTO promises (made) VALUES (404)").Error
}

// promise creates a constraint that COMMIT checks.
func promise(t *testing.T, db *gorm.DB) {
	t.Helper()
	if db.Name() == "mysql" {
		return
	}
	must(t, db.Exec("CREATE TABLE promise_books (id bigint PRIMARY KEY)").Error, "make a table")
	must(t, db.Exec("CREATE TABLE promises (made bigint REFERENCES promise_books (id) DEFERRABLE INITIALLY DEFERRED)").
		Error, "make a table")
}

func commitFails(t *testing.T, target dbtest.Target) {
	for broken := range 2 {
		s := newSharded(t, []dbtest.Target{target, another(target)}, nil, &pledge{})
		promise(t, s.dbs[broken])
		var rows []pledge
		for i := range 2 * shards {
			rows = append(rows, pledge{ID: s.id(i % shards), Note: "keep"})
		}
		// This is the last row of its database, because the transaction accepts no row after it.
		last := slices.Max(s.shardsOf(broken))
		rows[shards+last].Note = "break the commit"
		err := s.router.Create(t.Context(), rows)
		e := s.partial(err, "Create", s.shardsOf(broken)...)
		says(t, &e, "commit", fmt.Sprintf("shard %d, %d", broken, broken+2), "2 of 4 shards")
		for shard := range shards {
			want := 2
			if shard%2 == broken {
				want = 0
			}
			same(t, fmt.Sprintf("rows on shard %d", shard), len(s.table(shard, "pledges")), want)
		}
		// Rows that were not stored can be created again.
		var again []pledge
		for i, row := range rows {
			if e.Failed[i%shards] != nil {
				again = append(again, pledge{ID: row.ID, Note: "keep"})
			}
		}
		must(t, s.router.Create(t.Context(), again), "Create again")
		s.hold("pledges", len(rows))
	}
}

func createAfterTheEnd(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		why := errors.New("the server shuts down")
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(why)
		for name, err := range map[string]error{
			"with IDs":    s.router.Create(ctx, s.trades(2)),
			"without IDs": s.router.Create(ctx, []trade{{Code: "a"}, {Code: "b"}, {Code: "c"}}),
			"one":         s.router.Create(ctx, &trade{ID: s.id(1), Code: "d"}),
		} {
			wantErr(s.T, err, context.Canceled, name)
		}
		s.hold("trades", 0)
		for name, err := range map[string]error{
			"Find":   s.router.Find(ctx, &[]trade{}, []snowflakeplugin.ID{s.id(0), s.id(1)}),
			"Latest": s.router.Latest(ctx, &[]trade{}, 1),
			"Each":   s.router.Each(ctx, &trade{}, func(int, *gorm.DB) error { return nil }),
			"Transaction": s.router.Transaction(ctx, s.id(1), func(*snowflakeplugin.ShardTx) error {
				return nil
			}),
		} {
			wantErr(s.T, err, context.Canceled, name)
		}
		_, err := s.router.Count(ctx, &trade{})
		wantErr(s.T, err, context.Canceled, "Count")
		wantErr(s.T, err, why, "Count")
	})
}

func createHookPanics(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newSharded(t, targets, nil, &pledge{})
		for shard := range shards {
			var rows []pledge
			for i := range shards {
				rows = append(rows, pledge{ID: s.id(i)})
			}
			rows[shard].Note = "panic"
			err := s.router.Create(t.Context(), rows)
			wantErr(t, err, nil, "Create")
			says(t, err, "the hook fell over", fmt.Sprintf("shard %d", shard), "nothing was stored")
		}
		s.hold("pledges", 0)
		s.idle()
	})
}

// createsMeet has one connection for each database, so a create that has one keeps every other create out, as
// one that has the lock of a file of SQLite does, or of a value that is unique.
func createsMeet(t *testing.T, target dbtest.Target) {
	const creators, rounds = 4, 25
	s := newSharded(t, []dbtest.Target{target, another(target)}, nil, &pledge{})
	for _, db := range s.dbs {
		pool, err := db.DB()
		must(t, err, "the pool")
		pool.SetMaxOpenConns(1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a circle has no other end
	defer cancel()
	var creates sync.WaitGroup
	for range creators {
		creates.Go(func() {
			for range rounds {
				if err := s.router.Create(ctx, make([]pledge, 2*shards)); err != nil {
					t.Errorf("Create beside others: %v", err)
					return
				}
			}
		})
	}
	creates.Wait()
	s.hold("pledges", creators*rounds*2*shards)
}

func createsTogether(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		var affected []int64
		var texts []string
		for _, db := range s.dbs {
			must(t, db.Callback().Create().After("gorm:create").Register("note", func(tx *gorm.DB) {
				affected, texts = append(affected, tx.RowsAffected), append(texts, tx.Statement.SQL.String())
			}), "Register")
		}
		on := map[int]int{} // statements, by the database
		for shard := range shards {
			of := shard % len(s.dbs)
			if on[of]++; s.dbs[of].Name() == "postgres" {
				on[of] = 1
			}
		}
		want := 0
		for _, n := range on {
			want += n
		}
		rows := make([]trade, 3*shards)
		for i := range rows {
			rows[i] = trade{ID: s.id(i % shards), Code: fmt.Sprint("c", i), Total: int64(i)}
		}
		must(t, s.router.Create(t.Context(), rows), "Create")
		sum := int64(0)
		for _, n := range affected {
			sum += n
		}
		if len(texts) != want || sum != int64(len(rows)) {
			t.Errorf("%d statements for %d rows, want %d for %d: %q", len(texts), sum, want, len(rows), texts)
		}
		var found []trade
		must(t, s.router.Find(t.Context(), &found, idsOf(rows)), "Find")
		for i := range found {
			if found[i].Code != rows[i].Code || found[i].Total != rows[i].Total {
				t.Errorf("row %d is %+v, want %+v", i, found[i], rows[i])
			}
		}
		for shard := range shards {
			more := make([]trade, shards)
			for i := range more {
				more[i] = trade{ID: s.id(i), Code: fmt.Sprint("more", shard, i)}
			}
			more[shard].ID = rows[shard].ID
			err := s.router.Create(t.Context(), more)
			if err == nil {
				t.Fatalf("a row with a key that is there on shard %d was stored", shard)
			}
			says(t, err, fmt.Sprintf("shard %d", shard), "nothing was stored")
			s.hold("trades", len(rows))
		}
		// A child whose key is on another shard than its parent's is refused before any database sees it.
		stray := []tradeItem{{ID: s.id(0), TradeID: s.id(0)}, {ID: s.id(1), TradeID: s.id(2)}}
		wantErr(t, s.router.Create(t.Context(), stray), snowflakeplugin.ErrCrossShard, "Create of a stray child")
		s.hold("trade_items", 0)
	})
}

func createNothing(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		must(s.T, s.router.Create(s.Context(), []trade{}), "Create of an empty slice")
		must(s.T, s.router.Create(s.Context(), &[]*trade{}), "Create of an empty slice behind a pointer")
		found := []trade{{Code: "old"}}
		must(s.T, s.router.Find(s.Context(), &found, nil), "Find of no ID")
		same(s.T, "rows found", len(found), 0)
		must(s.T, s.router.Latest(s.Context(), &found, 5), "Latest of nothing")
		same(s.T, "rows found", len(found), 0)
		n, err := s.router.Count(s.Context(), &trade{})
		must(s.T, err, "Count")
		same(s.T, "Count", n, 0)
		total := int64(5)
		must(s.T, sumOver(s.Context(), s.router, &trade{}, "Total", &total), "a sum")
		same(s.T, "the sum of nothing", total, 5)
	})
}
