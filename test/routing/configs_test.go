package routing_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestConfigs(t *testing.T) { run(t, shardConfigBehaviors()) }

// shardConfigBehaviors test that the router works with every GORM configuration, with models of
// many shapes, and with many goroutines.
func shardConfigBehaviors() []behavior {
	return []behavior{
		{Name: "GORM may be configured in any way", Run: anyConfig},
		{Name: "a model whose key is in an embedded struct", Run: embeddedKeyOnShards},
		{Name: "polymorphic children, keyed like their owners", Run: polymorphicOnShards},
		{Name: "two routers share databases, each with its own models", Run: twoRouters},
		{Name: "one router and one handle for many goroutines", Run: concurrentRouter},
	}
}

func anyConfig(t *testing.T, target dbtest.Target) {
	targets := []dbtest.Target{target, another(target)}
	dsns := []string{targets[0].DSN(t), targets[1].DSN(t)}
	for name, cfg := range map[string]func() *gorm.Config{
		"PrepareStmt":              func() *gorm.Config { return &gorm.Config{PrepareStmt: true} },
		"QueryFields":              func() *gorm.Config { return &gorm.Config{QueryFields: true} },
		"SkipDefaultTransaction":   func() *gorm.Config { return &gorm.Config{SkipDefaultTransaction: true} },
		"CreateBatchSize":          func() *gorm.Config { return &gorm.Config{CreateBatchSize: 1} },
		"DisableNestedTransaction": func() *gorm.Config { return &gorm.Config{DisableNestedTransaction: true} },
		"FullSaveAssociations":     func() *gorm.Config { return &gorm.Config{FullSaveAssociations: true} },
		"AllowGlobalUpdate":        func() *gorm.Config { return &gorm.Config{AllowGlobalUpdate: true} },
		"PropagateUnscoped":        func() *gorm.Config { return &gorm.Config{PropagateUnscoped: true} },
		"DefaultContextTimeout":    func() *gorm.Config { return &gorm.Config{DefaultContextTimeout: time.Minute} },
		"DefaultTransactionTimeout": func() *gorm.Config {
			return &gorm.Config{DefaultTransactionTimeout: time.Minute}
		},
		"PrepareStmtMaxSize": func() *gorm.Config {
			// GORM closes a statement that has to go from its cache even while another goroutine is about to use it
			// (v1.31.1: "sql: statement is closed"). So none has to go in this test.
			return &gorm.Config{PrepareStmt: true, PrepareStmtMaxSize: 10_000, PrepareStmtTTL: time.Hour}
		},
		"IgnoreRelationshipsWhenMigrating": func() *gorm.Config {
			return &gorm.Config{IgnoreRelationshipsWhenMigrating: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sharded{T: t, plugin: snowflakeplugin.New(snowflakeplugin.WithNode(1))}
			for i, target := range targets {
				s.dbs = append(s.dbs, target.OpenDSN(t, dsns[i], cfg()))
				must(t, s.dbs[i].Use(s.plugin), "Use")
			}
			t.Cleanup(s.idle)
			var err error
			s.router, err = snowflakeplugin.NewRouter(
				snowflakeplugin.ShardingConfig{Shards: shards, Databases: s.dbs}, ledgerModels...)
			must(t, err, "NewRouter")
			// The first of these creates the tables, and each leaves them empty.
			must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
			s.noteTables()
			useLedger(s)
			s.empty()
		})
	}
}

// Keyed is embedded in several models and gives each of them the same index.
type Keyed struct {
	ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	CreatedAt time.Time          `gorm:"index:idx_keyed_created"`
	UpdatedAt time.Time
	DeletedAt gorm.DeletedAt `gorm:"index"`
}

type bookcase struct {
	Keyed
	Name  string `gorm:"size:40"`
	Place struct {
		Room string `gorm:"size:40;index:idx_bookcase_room"`
	} `gorm:"embedded;embeddedPrefix:place_"`
	Books []caseBook `gorm:"foreignKey:BookcaseID"`
}

type caseBook struct {
	Key        int64 `gorm:"primaryKey;column:book_key" snowflake:"like:BookcaseID"`
	BookcaseID snowflakeplugin.ID
}

func embeddedKeyOnShards(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newSharded(t, targets, nil, &bookcase{}, &caseBook{})
		must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate again")
		rows := make([]bookcase, 8)
		for i := range rows {
			rows[i].ID = s.id(i % shards)
			rows[i].Place.Room = fmt.Sprint(i)
			rows[i].Books = []caseBook{{}, {}}
		}
		must(t, s.router.Create(t.Context(), rows), "Create")
		var page []bookcase
		must(t, s.router.Latest(t.Context(), &page, 3), "Latest")
		if len(page) != 3 || page[0].ID != rows[7].ID || page[0].Place.Room != "7" || page[0].CreatedAt.IsZero() {
			t.Errorf("the page is %+v", page)
		}
		var books []*caseBook
		must(t, s.router.After(t.Context(), &books, 0, 100), "After")
		same(t, "books", len(books), 16)
		ids := []snowflakeplugin.ID{snowflakeplugin.ID(books[9].Key), snowflakeplugin.ID(books[2].Key)}
		var found []caseBook
		must(t, s.router.Find(t.Context(), &found, ids), "Find by a key of another name")
		if len(found) != 2 || found[0] != *books[9] || found[1] != *books[2] {
			t.Errorf("found %v, want %v and %v", found, *books[9], *books[2])
		}
		db := s.on(&bookcase{}, rows[2].ID)
		must(t, db.Delete(&rows[2]).Error, "Delete")
		must(t, db.Preload("Books").Find(&page).Error, "Preload")
		if len(page) != 1 || len(page[0].Books) != 2 {
			t.Errorf("the shard has %+v", page)
		}
		wantErr(t, s.on(&caseBook{}, rows[2].ID).First(&caseBook{}, rows[1].Books[0].Key).Error,
			snowflakeplugin.ErrCrossShard, "a book on another shard")
	})
}

type (
	gallery struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Likes []fondness         `gorm:"polymorphic:Owner"`
	}
	postcard struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Likes []fondness         `gorm:"polymorphic:Owner"`
	}
	fondness struct {
		ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:OwnerID"`
		OwnerID   snowflakeplugin.ID
		OwnerType string `gorm:"size:40"`
	}
)

func polymorphicOnShards(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newSharded(t, targets, nil, &gallery{}, &postcard{}, &fondness{})
		galleries, postcards := make([]gallery, 8), make([]postcard, 8)
		for i := range galleries {
			galleries[i].Likes, postcards[i].Likes = []fondness{{}}, []fondness{{}, {}}
		}
		must(t, s.router.Create(t.Context(), galleries), "Create")
		must(t, s.router.Create(t.Context(), postcards), "Create")
		var got []gallery
		var ids []snowflakeplugin.ID
		for _, row := range galleries {
			ids = append(ids, row.ID)
			same(t, "the shard of a like", s.shard(row.Likes[0].ID), s.shard(row.ID))
		}
		with := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Preload("Likes") })
		must(t, with.Find(t.Context(), &got, ids), "Find")
		for _, row := range got {
			// The type belongs to the model and not to a shard, so it stays the same after a
			// resharding.
			if len(row.Likes) != 1 || row.Likes[0].OwnerType != "galleries" {
				t.Errorf("gallery %d has the likes %v", row.ID, row.Likes)
			}
		}
		db := s.on(&postcard{}, postcards[3].ID)
		must(t, db.Model(&postcards[3]).Association("Likes").Append(&fondness{}), "Append")
		same(t, "likes", db.Model(&postcards[3]).Association("Likes").Count(), 3)
		n, err := s.router.Count(t.Context(), &fondness{})
		must(t, err, "Count")
		same(t, "likes of all", n, 8+16+1)
	})
}

func twoRouters(t *testing.T, target dbtest.Target) {
	s := newSharded(t, []dbtest.Target{target, another(target)}, nil, &growing{})
	made := []growing{{ID: s.id(0)}, {ID: s.id(1)}}
	must(t, s.router.Create(t.Context(), made), "Create")
	other, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 8, Databases: s.dbs}, &pledge{})
	must(t, err, "NewRouter")
	must(t, other.AutoMigrate(t.Context()), "AutoMigrate")
	must(t, other.Create(t.Context(), make([]pledge, 16)), "Create")
	_, err = s.router.DB(t.Context(), &pledge{}, made[0].ID)
	wantErr(t, err, snowflakeplugin.ErrNotSharded, "a model of the other")
	// A handle of one router does not route the models of another.
	wantErr(t, s.on(&growing{}, made[0].ID).Session(&gorm.Session{NewDB: true}).Find(&[]pledge{}).Error,
		snowflakeplugin.ErrNotRouted, "a model of the other by a handle")
	must(t, s.router.Transaction(t.Context(), made[1].ID, func(tx *snowflakeplugin.ShardTx) error {
		wantErr(t, tx.Gorm().Create(&pledge{}).Error, snowflakeplugin.ErrNotRouted, "a model of the other in a transaction")
		return nil
	}), "Transaction")
	n, err := other.Count(t.Context(), &pledge{})
	must(t, err, "Count")
	same(t, "rows of the other", n, 16)
}

func concurrentRouter(t *testing.T, target dbtest.Target) {
	const workers = 6
	rounds := nightly.Pick(2, 5)
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		if len(targets) == 2 && targets[0] == targets[1] {
			t.Skip("two goroutines that write to two databases of SQLite, each with one writer, wait for each other")
		}
		s := preparedTrades(t, targets...)
		id := s.id(1)
		handle := s.on(&trade{}, id)
		fails := make(chan error, 1000)
		var group sync.WaitGroup
		for worker := range workers {
			group.Go(func() {
				for round := range rounds {
					code := fmt.Sprintf("%d-%d", worker, round)
					batch := make([]trade, 4)
					for i := range batch {
						batch[i] = trade{Code: fmt.Sprintf("%s-%d", code, i), Total: 1, Items: []tradeItem{{}}}
					}
					mine := trade{Code: code, Total: 1}
					var page []trade
					_, err := s.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("total = ?", 1) }).Count(t.Context(), &trade{})
					for _, err := range []error{
						err,
						s.router.Create(t.Context(), batch),
						handle.Create(&mine).Error,
						s.router.Find(t.Context(), &page, idsOf(batch)),
						s.router.Latest(t.Context(), &page, 5),
						handle.Preload("Items").Where("code = ?", code).Take(&trade{}).Error,
						handle.Where("code = ?", code).Update("customer", worker).Error,
						handle.Where("code = ?", code).Updates(trade{Customer: int64(round + 1)}).Error,
						s.router.Each(t.Context(), &trade{}, func(shard int, tx *gorm.DB) error {
							return tx.Where("code = ?", code).Update("total", 1).Error
						}),
						s.router.Transaction(t.Context(), batch[0].ID, func(tx *snowflakeplugin.ShardTx) error {
							return tx.Create(&tradeItem{TradeID: batch[0].ID})
						}),
					} {
						if err != nil {
							fails <- err
						}
					}
				}
			})
		}
		group.Wait()
		close(fails)
		for err := range fails {
			t.Error(err)
		}
		s.hold("trades", workers*rounds*5)
		s.hold("trade_items", workers*rounds*5)
	})
}
