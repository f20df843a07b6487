package routing_test

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestPages(t *testing.T) { run(t, shardPageBehaviors()) }

// shardPageBehaviors test that pages over all shards equal the pages of one big table.
func shardPageBehaviors() []behavior {
	return []behavior{
		{Name: "pages are those of one big table, while rows are inserted", Run: pagesAreThoseOfOneTable},
		{Name: "pages of every size and from every cursor are those of one big table", Run: pagesOfEverySize},
		{Name: "pages go through scopes, soft delete, Select and Omit", Run: pagesThroughScopes},
		{Name: "a scope with a single Or does not widen the range of a page", Run: pagesWithASingleOr},
		{Name: "scopes that join lead to the tables of each shard", Run: scopesThatJoin},
		{Name: "scopes with a subquery", Run: scopesWithSubquery},
		{Name: "a page fills pointers, and its rows went through AfterFind", Run: pagesOfPointers},
		{Name: "Between takes the first instant in, and the last out", Run: betweenIsHalfOpen},
		{Name: "a page asks each database once", Run: pageAsksOnce},
		{Name: "pages of shards that have most of the rows, or none", Run: pagesOfUnevenShards},
	}
}

// whole is a table with all rows for comparison.
type whole struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey"`
	Code     string             `gorm:"size:40"`
	Customer int64
	Total    int64
}

// createBoth stores trades in the shards and in the big table.
func (s *sharded) createBoth(rows []trade) {
	s.Helper()
	must(s.T, s.router.Create(s.Context(), rows), "Create")
	var all []whole
	for _, row := range rows {
		all = append(all, whole{ID: row.ID, Code: row.Code, Customer: row.Customer, Total: row.Total})
	}
	must(s.T, s.dbs[0].Create(&all).Error, "create in one table")
}

// eachWhole is eachTrades with the big table and n rows on uneven shards.
func eachWhole(t *testing.T, target dbtest.Target, n int, fn func(s *sharded)) {
	t.Helper()
	eachTrades(t, target, func(s *sharded) {
		must(s.T, s.dbs[0].AutoMigrate(&whole{}), "AutoMigrate")
		var rows []trade
		for i := range n {
			// Shard 3 has half of the rows. Shard 0 has a few rows, and all of them are old.
			shard := []int{3, 1, 3, 2}[i%4]
			if i < 3 {
				shard = 0
			}
			rows = append(rows, trade{ID: s.id(shard), Code: fmt.Sprint(i), Customer: int64(i % 3), Total: int64(i)})
		}
		if n > 0 {
			s.createBoth(rows)
		}
		fn(s)
	})
}

// samePage fails the test unless the trades equal the rows of the big table.
func (s *sharded) samePage(what string, got []trade, want *gorm.DB) []whole {
	s.Helper()
	var rows []whole
	must(s.T, want.Find(&rows).Error, what)
	var mine []whole
	for _, row := range got {
		mine = append(mine, whole{ID: row.ID, Code: row.Code, Customer: row.Customer, Total: row.Total})
	}
	if len(mine) != len(rows) || len(rows) > 0 && !reflect.DeepEqual(mine, rows) {
		s.Errorf("%s is %v, want %v", what, mine, rows)
	}
	return rows
}

func pagesAreThoseOfOneTable(t *testing.T, target dbtest.Target) {
	const size = 7
	eachWhole(t, target, 60, func(s *sharded) {
		one, ctx, added := s.dbs[0], s.Context(), 0
		insert := func() {
			row := trade{ID: s.id(added % shards), Code: fmt.Sprintf("new %d", added)}
			added++
			s.createBoth([]trade{row})
		}
		var page []trade
		must(s.T, s.router.Latest(ctx, &page, size), "Latest")
		s.samePage("the newest page", page, one.Order("id DESC").Limit(size))
		seen := idsOf(page)
		for len(page) > 0 {
			insert()
			cursor := page[len(page)-1].ID
			must(s.T, s.router.Before(ctx, &page, cursor, size), "Before")
			s.samePage("a page", page, one.Where("id < ?", cursor).Order("id DESC").Limit(size))
			seen = append(seen, idsOf(page)...)
		}
		same(s.T, "rows on the way back", len(seen), 60)
		if !slices.IsSortedFunc(seen, func(a, b snowflakeplugin.ID) int { return int(b - a) }) {
			s.Errorf("the pages are not in order: %v", seen)
		}
		// With ascending pages, rows that are inserted in the meantime come at the end.
		var cursor snowflakeplugin.ID
		seen = nil
		for len(seen) < 60+added {
			must(s.T, s.router.After(ctx, &page, cursor, size), "After")
			s.samePage("a page", page, one.Where("id > ?", cursor).Order("id").Limit(size))
			if len(page) == 0 {
				s.Fatalf("the last page came after %d rows of %d", len(seen), 60+added)
			}
			cursor = page[len(page)-1].ID
			seen = append(seen, idsOf(page)...)
			if added < 15 {
				insert()
			}
		}
		must(s.T, s.router.After(ctx, &page, cursor, size), "After the last")
		same(s.T, "rows after the last", len(page), 0)
		if !slices.IsSorted(seen) || len(seen) != 60+added {
			s.Errorf("forward there were %d rows: %v", len(seen), seen)
		}
	})
}

func pagesOfEverySize(t *testing.T, target dbtest.Target) {
	eachWhole(t, target, 20, func(s *sharded) {
		one, ctx := s.dbs[0], s.Context()
		var all []trade
		must(s.T, s.router.After(ctx, &all, 0, 1000), "After")
		s.samePage("all", all, one.Order("id"))
		for _, size := range []int{1, 2, 3, 19, 20, 21, 1 << 30} {
			var page []trade
			must(s.T, s.router.Latest(ctx, &page, size), "Latest")
			s.samePage(fmt.Sprintf("the newest %d", size), page, one.Order("id DESC").Limit(size))
			for i := 0; i < len(all); i += 6 {
				for _, cursor := range []snowflakeplugin.ID{all[i].ID - 1, all[i].ID, all[i].ID + 1} {
					must(s.T, s.router.Before(ctx, &page, cursor, size), "Before")
					s.samePage(fmt.Sprintf("%d before %d", size, cursor), page,
						one.Where("id < ?", cursor).Order("id DESC").Limit(size))
					must(s.T, s.router.After(ctx, &page, cursor, size), "After")
					s.samePage(fmt.Sprintf("%d after %d", size, cursor), page,
						one.Where("id > ?", cursor).Order("id").Limit(size))
				}
			}
		}
		var page []trade
		must(s.T, s.router.Before(ctx, &page, 1, 3), "Before the first")
		same(s.T, "rows before the first", len(page), 0)
		must(s.T, s.router.After(ctx, &page, 1<<63-1, 3), "After the largest number")
		same(s.T, "rows after the largest number", len(page), 0)
		must(s.T, s.router.Before(ctx, &page, 1<<63-1, 3), "Before the largest number")
		s.samePage("before the largest number", page, one.Order("id DESC").Limit(3))
	})
}

func pagesThroughScopes(t *testing.T, target dbtest.Target) {
	eachWhole(t, target, 30, func(s *sharded) {
		one, ctx := s.dbs[0], s.Context()
		either := func(db *gorm.DB) *gorm.DB { return db.Where("customer = ? OR total > ?", 1, 25) }
		some := s.router.Scopes(either)
		var page []trade
		must(s.T, some.Latest(ctx, &page, 8), "Latest")
		rows := s.samePage("a page with OR", page, one.Scopes(either).Order("id DESC").Limit(8))
		cursor := rows[7].ID
		must(s.T, some.Before(ctx, &page, cursor, 8), "Before")
		s.samePage("the next", page, one.Scopes(either).Where("id < ?", cursor).Order("id DESC").Limit(8))
		or := func(db *gorm.DB) *gorm.DB { return db.Where("customer = 0").Or("customer = 1") }
		must(s.T, s.router.Scopes(or).Before(ctx, &page, cursor, 8), "Before")
		s.samePage("a page with Or", page, one.Where(one.Where("customer = 0").Or("customer = 1")).
			Where("id < ?", cursor).Order("id DESC").Limit(8))

		gone := page[2]
		must(s.T, s.on(&trade{}, gone.ID).Delete(&gone).Error, "Delete")
		must(s.T, s.router.Latest(ctx, &page, 50), "Latest")
		s.samePage("a page without the deleted", page, one.Where("id <> ?", gone.ID).Order("id DESC"))
		must(s.T, s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Unscoped() }).Latest(ctx, &page, 50), "Unscoped")
		s.samePage("a page with the deleted", page, one.Order("id DESC"))

		brief := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Select("id", "code") })
		must(s.T, brief.Latest(ctx, &page, 3), "Select")
		if page[0].Code != "29" || page[0].Total != 0 {
			s.Errorf("with Select the row is %+v", page[0])
		}
		omit := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Omit("code") })
		must(s.T, omit.Latest(ctx, &page, 3), "Omit")
		if page[0].Code != "" || page[0].Total != 29 {
			s.Errorf("with Omit the row is %+v", page[0])
		}
	})
}

// seenNote is a row that records that it was read.
type seenNote struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Seen bool               `gorm:"-"`
}

func (n *seenNote) AfterFind(*gorm.DB) error {
	n.Seen = true
	return nil
}

// The model has no soft delete, which would make a group of the conditions by itself.
func pagesWithASingleOr(t *testing.T, target dbtest.Target) {
	s := newSharded(t, []dbtest.Target{target}, nil, &vow{})
	made := make([]vow, 40)
	for i := range made {
		made[i].Note = fmt.Sprint(i % 2)
	}
	must(t, s.router.Create(t.Context(), made), "Create")
	odd := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Or("note = ?", "1") })
	var page []vow
	must(t, odd.Before(t.Context(), &page, made[10].ID, 10), "Before")
	same(t, "the rows before", len(page), 5)
	must(t, odd.After(t.Context(), &page, made[30].ID, 10), "After")
	same(t, "the rows after", len(page), 5)
	for _, row := range page {
		if row.ID <= made[30].ID || row.Note != "1" {
			t.Errorf("a page of odd rows after %d has %+v", made[30].ID, row)
		}
	}
}

func pagesOfPointers(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newSharded(t, targets, nil, &seenNote{})
		rows := make([]seenNote, 12)
		must(t, s.router.Create(t.Context(), rows), "Create")
		for name, read := range map[string]func(dest *[]*seenNote) error{
			"Latest": func(dest *[]*seenNote) error { return s.router.Latest(t.Context(), dest, 6) },
			"Find": func(dest *[]*seenNote) error {
				var ids []snowflakeplugin.ID
				for _, row := range slices.Backward(rows) {
					ids = append(ids, row.ID)
				}
				return s.router.Find(t.Context(), dest, ids[:6])
			},
		} {
			var page []*seenNote
			must(t, read(&page), name)
			same(t, name+": rows", len(page), 6)
			for i, row := range page {
				if row.ID != rows[11-i].ID || !row.Seen {
					t.Errorf("%s: row %d is %+v, want ID %d, seen", name, i, *row, rows[11-i].ID)
				}
			}
		}
	})
}

func betweenIsHalfOpen(t *testing.T, target dbtest.Target) {
	eachWhole(t, target, 0, func(s *sharded) {
		layout, ctx := generator.Default(), s.Context()
		start := time.Now().Truncate(time.Hour).Add(-24 * time.Hour)
		// These rows are in ten milliseconds: the first and the last ID of each, and one ID in
		// between per shard.
		var rows []trade
		for i := range 10 {
			lo, hi, err := layout.Range(start.Add(time.Duration(i)*time.Millisecond), start.Add(time.Duration(i+1)*time.Millisecond))
			must(s.T, err, "Range")
			for j, id := range []int64{lo, lo + int64(i), hi - 1} {
				if j == 1 && i == 0 {
					continue
				}
				rows = append(rows, trade{ID: snowflakeplugin.ID(id), Code: fmt.Sprintf("%d %d", i, j)})
			}
		}
		s.createBoth(rows)
		for from := range 10 {
			for to := from + 1; to <= 10; to += 3 {
				var got []trade
				a, b := start.Add(time.Duration(from)*time.Millisecond), start.Add(time.Duration(to)*time.Millisecond)
				must(s.T, s.router.Between(ctx, &got, a, b), "Between")
				lo, hi, err := layout.Range(a, b)
				must(s.T, err, "Range")
				n := s.samePage(fmt.Sprintf("from %d to %d", from, to), got,
					s.dbs[0].Where("id >= ? AND id < ?", lo, hi).Order("id"))
				want := 3 * (to - from)
				if from == 0 {
					want--
				}
				same(s.T, fmt.Sprintf("rows from %d to %d", from, to), len(n), want)
			}
		}
		got := []trade{{Code: "old"}}
		must(s.T, s.router.Between(ctx, &got, start.Add(time.Hour), start.Add(2*time.Hour)), "Between")
		same(s.T, "rows of an hour without any", len(got), 0)
		wantErr(s.T, s.router.Between(ctx, &got, start, start.Add(-time.Hour)), nil, "an hour that ends before it begins")
		must(s.T, s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("code LIKE ?", "% 2") }).
			Between(ctx, &got, start, start.Add(time.Second)), "Between with a scope")
		same(s.T, "the last rows", len(got), 10)
	})
}

func pageAsksOnce(t *testing.T, target dbtest.Target) {
	var recorders []*dbtest.Recorder
	s := newSharded(t, []dbtest.Target{target, another(target)}, func() *gorm.Config {
		recorders = append(recorders, dbtest.NewRecorder())
		return &gorm.Config{Logger: recorders[len(recorders)-1]}
	}, tradeModels...)
	made := s.filled(3)
	ctx := t.Context()
	var page []trade
	var total int64
	for name, read := range map[string]func() error{
		"Latest":  func() error { return s.router.Latest(ctx, &page, 3) },
		"Between": func() error { return s.router.Between(ctx, &page, time.Now().Add(-time.Hour), time.Now()) },
		"Find":    func() error { return s.router.Find(ctx, &page, idsOf(made)) },
		"Count":   func() error { _, err := s.router.Count(ctx, &trade{}); return err },
		"Sum":     func() error { return sumOver(ctx, s.router, &trade{}, "Total", &total) },
	} {
		for _, r := range recorders {
			r.Reset()
		}
		must(t, read(), name)
		for i, r := range recorders {
			if sent := r.Statements(); len(sent) != 1 {
				t.Errorf("%s sent database %d %q, want one statement", name, i, sent)
			}
		}
	}
}

// Runs of children of one parent are on one shard. Nothing about a page may depend on how even the shards are.
func pagesOfUnevenShards(t *testing.T, target dbtest.Target) {
	for _, n := range []int{4, 16} {
		if n != 4 && target.Dialect != "sqlite" && !nightly.Enabled() {
			continue
		}
		sent := dbtest.NewRecorder()
		recorded := func() *gorm.Config { return &gorm.Config{Logger: sent} }
		s := newShardedOf(t, []dbtest.Target{target}, recorded, n, &vow{})
		must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
		var rows []vow
		var ids []snowflakeplugin.ID
		for i := range 120 {
			shard := 1
			if i%40 >= 30 {
				shard = i % n
			}
			rows = append(rows, vow{ID: s.id(shard)})
			ids = append(ids, rows[i].ID)
		}
		must(t, s.router.Create(t.Context(), rows), "Create")
		newest := slices.Clone(ids)
		slices.Reverse(newest)
		check := func(what string, err error, got []vow, want []snowflakeplugin.ID) {
			t.Helper()
			must(t, err, what)
			var found []snowflakeplugin.ID
			for _, row := range got {
				found = append(found, row.ID)
			}
			if !slices.Equal(found, want) {
				t.Errorf("%d shards, %s: %v, want %v", n, what, found, want)
			}
		}
		for _, size := range []int{1, 5, 9, 30, 60, 119, 120, 121, math.MaxInt} {
			var page []vow
			check(fmt.Sprintf("the newest %d", size), s.router.Latest(t.Context(), &page, size), page,
				newest[:min(size, len(newest))])
			for at := 3; at < len(ids); at += 13 {
				rest := newest[at+1:]
				check(fmt.Sprintf("%d before the %dth", size, at), s.router.Before(t.Context(), &page, newest[at], size),
					page, rest[:min(size, len(rest))])
				rest = ids[at+1:]
				check(fmt.Sprintf("%d after the %dth", size, at), s.router.After(t.Context(), &page, ids[at], size),
					page, rest[:min(size, len(rest))])
			}
		}
		sent.Reset()
		var page []vow
		must(t, s.router.Before(t.Context(), &page, newest[9], 28), "Before")
		asked := slices.DeleteFunc(sent.Statements(), func(text string) bool { return !strings.Contains(text, "vows") })
		if n == 4 && len(asked) != 2 {
			t.Errorf("a page of one shard took %q, want one more statement for that shard", asked)
		}
	}
}

func scopesThatJoin(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.trades(3)
		for i := range made {
			made[i].Items = []tradeItem{{Name: "a"}, {Name: "b"}}
		}
		must(s.T, s.router.Create(s.Context(), made), "Create")
		for name, joined := range map[string]*snowflakeplugin.Router{
			"Joins": s.router.Scopes(func(db *gorm.DB) *gorm.DB {
				return db.Joins("Trade").Where(clause.Gte{Column: clause.Column{Table: "Trade", Name: "total"}, Value: 10})
			}),
			"InnerJoins": s.router.Scopes(func(db *gorm.DB) *gorm.DB {
				return db.InnerJoins("Trade", s.dbs[0].Where("total >= ?", 10))
			}),
		} {
			n, err := joined.Count(s.Context(), &tradeItem{})
			must(s.T, err, name)
			same(s.T, name+": Count", n, 2*2*shards)
			var sum big.Rat
			must(s.T, sumOver(s.Context(), joined, &tradeItem{}, "TradeID", &sum), name)
			var page []tradeItem
			must(s.T, joined.Latest(s.Context(), &page, 100), name)
			same(s.T, name+": rows of a page", len(page), 2*2*shards)
			for _, item := range page {
				if item.Trade == nil || item.Trade.ID != item.TradeID || item.Trade.Total < 10 {
					s.Errorf("%s: item %d has the trade %+v", name, item.ID, item.Trade)
				}
			}
			var found []tradeItem
			must(s.T, joined.Find(s.Context(), &found, []snowflakeplugin.ID{page[0].ID, page[5].ID}), name)
			same(s.T, name+": the trade of a row by its ID", found[1].Trade.ID, found[1].TradeID)
		}
	})
}

func scopesWithSubquery(t *testing.T, target dbtest.Target) {
	eachTrades(t, target, func(s *sharded) {
		made := s.filled(3)
		var items []tradeItem
		for _, row := range made[:5] { // all rows of the first round and one of the second
			items = append(items, tradeItem{TradeID: row.ID, Name: row.Code})
		}
		must(s.T, s.router.Create(s.Context(), items), "Create")
		for _, db := range s.dbs {
			must(s.T, db.AutoMigrate(&account{}), "AutoMigrate")
			must(s.T, db.Create([]account{{Email: "0-0"}, {Email: "1-0"}, {Email: "2-2"}, {Email: "3-9"}}).Error, "Create")
		}
		fresh := func(db *gorm.DB) *gorm.DB { return db.Session(&gorm.Session{NewDB: true}) }
		for name, c := range map[string]struct {
			scope func(db *gorm.DB) *gorm.DB
			want  []snowflakeplugin.ID
		}{
			"on another model of the shard": {func(db *gorm.DB) *gorm.DB {
				return db.Where("total < ?", 25).Where("id IN (?)", fresh(db).Model(&tradeItem{}).Select("trade_id").Where("name <> ?", "1-0"))
			}, []snowflakeplugin.ID{made[0].ID, made[2].ID, made[3].ID, made[4].ID}},
			"on the same model": {func(db *gorm.DB) *gorm.DB {
				return db.Where("id = (?)", fresh(db).Model(&trade{}).Select("max(id)").Where("total < ?", 15)).Where("total > ?", 11)
			}, []snowflakeplugin.ID{made[6].ID, made[7].ID}},
			"on a table that is not sharded": {func(db *gorm.DB) *gorm.DB {
				return db.Where("customer >= ?", 0).Where("code IN (?)", fresh(db).Model(&account{}).Select("email").Where("email <> ?", "1-0")).
					Where("total < ?", 100)
			}, []snowflakeplugin.ID{made[0].ID, made[10].ID}},
			"in a handle of the application": {func(db *gorm.DB) *gorm.DB {
				return db.Where("customer >= ?", 0).Where("code IN (?)", s.dbs[0].Model(&account{}).Select("email").Where("email <> ?", "1-0")).
					Where("total < ?", 100)
			}, []snowflakeplugin.ID{made[0].ID, made[10].ID}},
		} {
			if len(s.dbs) > 1 && name == "in a handle of the application" {
				continue // its SQL works on one database only
			}
			r := s.router.Scopes(c.scope)
			var page []trade
			must(s.T, r.After(s.Context(), &page, 0, 50), name)
			if got := idsOf(page); !slices.Equal(got, c.want) {
				s.Errorf("%s: the page is %v, want %v", name, got, c.want)
			}
			n, err := r.Count(s.Context(), &trade{})
			must(s.T, err, name)
			same(s.T, name+": Count", n, int64(len(c.want)))
		}
	})
}
