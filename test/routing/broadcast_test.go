package routing_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestBroadcasts(t *testing.T) { run(t, shardBroadcastBehaviors()) }

// shardBroadcastBehaviors test that a broadcast model has the same rows in every database.
func shardBroadcastBehaviors() []behavior {
	return []behavior{
		{Name: "what is created is in every database, with the same IDs", Run: broadcastEverywhere},
		{Name: "what cannot be created everywhere is created nowhere", Run: broadcastNowhere},
		{Name: "a write to one database alone is refused", Run: broadcastRefusesOne},
		{Name: "rows of every shard can be joined with it, and it preloaded", Run: broadcastJoined},
		{Name: "Each changes it everywhere", Run: broadcastEach},
		{Name: "the methods that read go to one database", Run: broadcastReads},
		{Name: "a model with a key of another kind", Run: broadcastOtherKeys},
	}
}

// country is a broadcast model. Shipments refer to it.
type country struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string             `gorm:"size:40;uniqueIndex:idx_country_name"`
	Tax  int64
}

type shipment struct {
	ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	CountryID snowflakeplugin.ID
	Country   *country
	Code      string   `gorm:"size:10"`
	Currency  currency `gorm:"foreignKey:Code;references:Code"`
}

// currency has a key that the application chooses.
type currency struct {
	Code string `gorm:"primaryKey;size:10"`
	Name string `gorm:"size:40"`
}

// rate has a key of two columns.
type rate struct {
	Code  string `gorm:"primaryKey;size:10"`
	Day   int64  `gorm:"primaryKey;autoIncrement:false"`
	Value int64
}

// eachShipments is eachSpread with a router for shipments.
func eachShipments(t *testing.T, target dbtest.Target, fn func(s *sharded)) {
	t.Helper()
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		translated := func() *gorm.Config { return &gorm.Config{TranslateError: true} }
		fn(pooled(t, "shipments", targets, translated, &shipment{}, snowflakeplugin.Broadcast(&country{}),
			snowflakeplugin.Broadcast(&currency{}), snowflakeplugin.Broadcast(&rate{})))
	})
}

// countries reads the table of one database without the router.
func (s *sharded) countries(database int) (rows []country) {
	s.Helper()
	must(s.T, s.dbs[database].Table("countries").Order("id").Find(&rows).Error, "read the countries")
	return rows
}

func (s *sharded) storedCountries() []country {
	s.Helper()
	rows := []country{{Name: "Aland", Tax: 24}, {Name: "Belgium", Tax: 21}, {Name: "Cyprus", Tax: 19}}
	must(s.T, s.router.Create(s.Context(), rows), "Create")
	return rows
}

func broadcastEverywhere(t *testing.T, target dbtest.Target) {
	eachShipments(t, target, func(s *sharded) {
		rows := s.storedCountries()
		one := &country{Name: "Denmark"}
		must(s.T, s.router.Create(s.Context(), one), "Create of one")
		rows = append(rows, *one)
		for i := range s.dbs {
			if got := s.countries(i); !slices.Equal(got, rows) {
				s.Errorf("database %d has %v, want %v", i, got, rows)
			}
		}
		name, err := s.router.Table(&country{}, one.ID)
		must(s.T, err, "Table")
		same(s.T, "the table", name, "countries")
		_, err = s.router.Distribution(s.Context(), &country{})
		wantErr(s.T, err, snowflakeplugin.ErrNotSharded, "Distribution")
	})
}

func broadcastNowhere(t *testing.T, target dbtest.Target) {
	eachShipments(t, target, func(s *sharded) {
		rows := s.storedCountries()
		// The last database has a row that the others do not have.
		last := len(s.dbs) - 1
		must(s.T, s.dbs[last].Table("countries").Create(map[string]any{"id": 1, "name": "Elbonia", "tax": 0}).Error, "plant a row")
		err := s.router.Create(s.Context(), []country{{Name: "Finland"}, {Name: "Elbonia"}})
		wantErr(s.T, err, gorm.ErrDuplicatedKey, "Create")
		says(s.T, err, "nothing was stored")
		for i := range s.dbs[:last] {
			same(s.T, "countries", len(s.countries(i)), len(rows))
		}
		same(s.T, "countries in the last", len(s.countries(last)), len(rows)+1)
		if last > 0 {
			s.closePool(last)
			wantErr(s.T, s.router.Create(s.Context(), &country{Name: "Greece"}), nil, "Create without a database")
			same(s.T, "countries", len(s.countries(0)), len(rows))
		}
	})
}

func broadcastRefusesOne(t *testing.T, target dbtest.Target) {
	eachShipments(t, target, func(s *sharded) {
		rows := s.storedCountries()
		db := s.dbs[0]
		bound := s.on(&country{}, rows[0].ID)
		shipments := s.on(&shipment{}, s.id(1))
		for name, err := range map[string]error{
			"Create":             db.Create(&country{Name: "x"}).Error,
			"Save":               db.Save(&rows[0]).Error,
			"Update":             db.Model(&rows[0]).Update("tax", 1).Error,
			"Delete":             db.Delete(&rows[0]).Error,
			"a handle":           bound.Create(&country{Name: "x"}).Error,
			"Update by a handle": bound.Where("1 = 1").Update("tax", 1).Error,
			"Delete by a handle": bound.Where("1 = 1").Delete(&country{}).Error,
			"FirstOrCreate":      db.FirstOrCreate(&country{}, country{Name: "x"}).Error,
			"with a shipment":    shipments.Create(&shipment{Country: &country{Name: "x"}}).Error,
			"by the router":      s.router.Create(s.Context(), &shipment{Country: &country{Name: "x"}}),
			"in a transaction": s.router.Transaction(s.Context(), s.id(1), func(tx *snowflakeplugin.ShardTx) error {
				return tx.Create(&country{Name: "x"})
			}),
		} {
			wantErr(s.T, err, snowflakeplugin.ErrNotRouted, name)
			says(s.T, err, "country", "every database")
		}
		for i := range s.dbs {
			if got := s.countries(i); !slices.Equal(got, rows) {
				s.Errorf("database %d has %v, want %v", i, got, rows)
			}
		}
		s.hold("shipments", 0)
		// Reads go to any database.
		var got country
		must(s.T, db.Where("name = ?", "Cyprus").Take(&got).Error, "a read")
		same(s.T, "what was read", got, rows[2])
		var belgium country
		must(s.T, bound.Where("name = ?", "Belgium").Take(&belgium).Error, "a read by a handle")
		same(s.T, "what was read", belgium, rows[1])
	})
}

func broadcastJoined(t *testing.T, target dbtest.Target) {
	eachShipments(t, target, func(s *sharded) {
		countries := s.storedCountries()
		must(s.T, s.router.Create(s.Context(), []currency{{Code: "EUR", Name: "euro"}}), "Create")
		var shipments []shipment
		for i := range 3 * shards {
			shipments = append(shipments, shipment{ID: s.id(i % shards), CountryID: countries[i/shards].ID, Code: "EUR"})
		}
		must(s.T, s.router.Create(s.Context(), shipments), "Create")
		byKey := clause.OrderByColumn{Column: clause.PrimaryColumn}
		for shard := range shards {
			db := s.on(&shipment{}, shipments[shard].ID)
			var got []shipment
			must(s.T, db.Joins("Country").Joins("Currency").Order(byKey).Find(&got).Error, "Joins")
			same(s.T, "rows", len(got), 3)
			for i, row := range got {
				if row.Country == nil || *row.Country != countries[i] || row.Currency.Name != "euro" {
					s.Errorf("row %d is %+v", i, row)
				}
			}
			must(s.T, db.Preload("Country").Preload("Currency").Order("id").Find(&got).Error, "Preload")
			for i, row := range got {
				if row.Country == nil || *row.Country != countries[i] || row.Currency.Name != "euro" {
					s.Errorf("row %d is %+v", i, row)
				}
			}
			var n int64
			must(s.T, db.Joins("JOIN countries c ON c.id = country_id").Where("c.tax > 20").Count(&n).Error, "a join of one's own")
			same(s.T, "rows with a high tax", n, 2)
		}
		taxed := s.router.Scopes(func(db *gorm.DB) *gorm.DB {
			return db.InnerJoins("Country", db.Session(&gorm.Session{NewDB: true}).Where("tax < ?", 20))
		})
		n, err := taxed.Count(s.Context(), &shipment{})
		must(s.T, err, "Count with a join")
		same(s.T, "rows with a low tax", n, shards)
	})
}

func broadcastEach(t *testing.T, target dbtest.Target) {
	eachShipments(t, target, func(s *sharded) {
		rows := s.storedCountries()
		var called atomic.Int64
		must(s.T, s.router.Each(s.Context(), &country{}, func(database int, tx *gorm.DB) error {
			called.Add(1 << (8 * database))
			if err := tx.Where("name = ?", "Cyprus").Update("tax", 5).Error; err != nil {
				return err
			}
			return tx.Delete(&country{}, rows[0].ID).Error
		}), "Each")
		want := int64(1)
		if len(s.dbs) == 2 {
			want = 1<<8 + 1
		}
		same(s.T, "calls", called.Load(), want)
		rows[2].Tax = 5
		for i := range s.dbs {
			if got := s.countries(i); !slices.Equal(got, rows[1:]) {
				s.Errorf("database %d has %v, want %v", i, got, rows[1:])
			}
		}
	})
}

func broadcastReads(t *testing.T, target dbtest.Target) {
	eachShipments(t, target, func(s *sharded) {
		rows, ctx := s.storedCountries(), s.Context()
		n, err := s.router.Count(ctx, &country{})
		must(s.T, err, "Count")
		same(s.T, "Count", n, 3)
		var tax int64
		must(s.T, sumOver(ctx, s.router, &country{}, "Tax", &tax), "Sum")
		same(s.T, "Sum", tax, 24+21+19)
		for name, read := range map[string]func(dest *[]country) error{
			"Find": func(dest *[]country) error {
				return s.router.Find(ctx, dest, []snowflakeplugin.ID{rows[0].ID, rows[1].ID, rows[2].ID})
			},
			"After": func(dest *[]country) error { return s.router.After(ctx, dest, 0, 5) },
			"Between": func(dest *[]country) error {
				return s.router.Between(ctx, dest, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
			},
		} {
			var got []country
			must(s.T, read(&got), name)
			if !slices.Equal(got, rows) {
				s.Errorf("%s: %v, want %v", name, got, rows)
			}
		}
		var got []country
		must(s.T, s.router.Before(ctx, &got, rows[2].ID, 1), "Before")
		if !slices.Equal(got, rows[1:2]) {
			s.Errorf("Before: %v", got)
		}
	})
}

func broadcastOtherKeys(t *testing.T, target dbtest.Target) {
	eachShipments(t, target, func(s *sharded) {
		ctx := s.Context()
		must(s.T, s.router.Create(ctx, []currency{{Code: "EUR"}, {Code: "DKK"}}), "Create")
		must(s.T, s.router.Create(ctx, []rate{{"EUR", 1, 100}, {"EUR", 2, 101}}), "Create with a key of two columns")
		n, err := s.router.Count(ctx, &rate{})
		must(s.T, err, "Count")
		same(s.T, "rates", n, 2)
		for i, db := range s.dbs {
			same(s.T, fmt.Sprintf("currencies in database %d", i), countTable(s.T, db, "currencies"), 2)
			same(s.T, fmt.Sprintf("rates in database %d", i), countTable(s.T, db, "rates"), 2)
		}
		// There is no ID to find or sort the rows by.
		ids := []snowflakeplugin.ID{s.id(0)}
		for name, err := range map[string]error{
			"Find":              s.router.Find(ctx, &[]currency{}, ids),
			"Find, two columns": s.router.Find(ctx, &[]rate{}, ids),
			"Latest":            s.router.Latest(ctx, &[]currency{}, 1),
			"Between":           s.router.Between(ctx, &[]rate{}, time.Now().Add(-time.Hour), time.Now()),
		} {
			wantErr(s.T, err, snowflakeplugin.ErrNotSharded, name)
		}
	})
}
