package routing_test

import (
	"fmt"
	"slices"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestNames(t *testing.T) { run(t, shardNameBehaviors()) }

// shardNameBehaviors test the names of tables and indexes for all names that an application can
// choose.
func shardNameBehaviors() []behavior {
	return []behavior{
		{Name: "a model with TableName", Run: modelWithTableName},
		{Name: "a prefix, and singular names", Run: tablesWithPrefix},
		{Name: "every shard has the indexes of the model, under names of its own", Run: indexesOfShards},
		{Name: "a check with a name", Run: checksOfShards},
		{Name: "tables in a schema of PostgreSQL", Only: []string{"postgres"}, Run: tablesInSchema},
		{Name: "AutoMigrate may be called at every start, and adds what is new", Run: migrateAgain},
		{Name: "more than a hundred shards have three digits where they need them", Run: manyShards},
		{Name: "another number of shards than that of the tables is refused", Run: otherNumberOfShards},
		{Name: "Place puts shards where it says", Run: placedShards},
	}
}

// ledgerLine and its children have a table whose name differs from that of the model.
type ledgerLine struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Text  string             `gorm:"size:40;index:,unique"`
	Parts []ledgerPart       `gorm:"foreignKey:LineID"`
	Marks []ledgerMark       `gorm:"many2many:ledger_line_marks"`
}

func (ledgerLine) TableName() string { return "general_ledger" }

type ledgerPart struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:LineID"`
	LineID snowflakeplugin.ID
	Amount int64
}

type ledgerMark struct {
	ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
}

func (*ledgerMark) TableName() string { return "MarksOfLines" }

// useLedger runs every kind of statement on the lines.
func useLedger(s *sharded) {
	s.Helper()
	lines := make([]ledgerLine, 8)
	for i := range lines {
		lines[i] = ledgerLine{ID: s.id(i % shards), Text: fmt.Sprint(i), Parts: []ledgerPart{{Amount: 1}}, Marks: []ledgerMark{{}}}
	}
	must(s.T, s.router.Create(s.Context(), lines), "Create")
	var got []ledgerLine
	must(s.T, s.router.Latest(s.Context(), &got, 3), "Latest")
	same(s.T, "rows of a page", len(got), 3)
	same(s.T, "the newest", got[0].ID, lines[7].ID)
	var total int64
	must(s.T, sumOver(s.Context(), s.router, &ledgerPart{}, "Amount", &total), "Sum")
	same(s.T, "the sum", total, 8)
	db := s.on(&ledgerLine{}, lines[5].ID)
	must(s.T, db.Preload("Parts").Preload("Marks").Order("id").Find(&got).Error, "Preload")
	if len(got) != 2 || len(got[0].Parts) != 1 || len(got[1].Marks) != 1 {
		s.Errorf("the rows are %+v", got)
	}
	must(s.T, db.Where("text = ?", "5").Update("text", "five").Error, "Update")
	must(s.T, db.Model(&lines[5]).Association("Marks").Append(&ledgerMark{}), "Append")
	var parts []ledgerPart
	must(s.T, s.on(&ledgerPart{}, lines[5].ID).Find(&parts).Error, "Find")
	same(s.T, "parts", len(parts), 2)
	must(s.T, db.Delete(&lines[5]).Error, "Delete")
	n, err := s.router.Count(s.Context(), &ledgerLine{})
	must(s.T, err, "Count")
	same(s.T, "rows left", n, 7)
	wantErr(s.T, s.dbs[0].Create(&ledgerLine{}).Error, snowflakeplugin.ErrNotRouted, "unrouted")
	wantErr(s.T, s.dbs[0].Find(&got).Error, snowflakeplugin.ErrNotRouted, "unrouted")
}

var ledgerModels = []any{&ledgerLine{}, &ledgerPart{}, &ledgerMark{}}

func modelWithTableName(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newSharded(t, targets, nil, ledgerModels...)
		must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate again")
		name, err := s.router.Table(&ledgerLine{}, s.id(2))
		must(t, err, "Table")
		same(t, "the table", name, "general_ledger_02")
		useLedger(s)
		same(t, "rows in it", len(s.table(2, "general_ledger")), 2)
	})
}

func tablesWithPrefix(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		naming := func() *gorm.Config {
			return &gorm.Config{NamingStrategy: schema.NamingStrategy{TablePrefix: "shop_", SingularTable: true}}
		}
		s := newSharded(t, targets, naming, ledgerModels...)
		useLedger(s)
		for _, table := range []string{"shop_ledger_part_01", "shop_ledger_line_marks_01", "shop_snowflake_shards"} {
			if db := s.dbs[1%len(s.dbs)]; !db.Migrator().HasTable(table) {
				t.Errorf("there is no table %s", table)
			}
		}
	})
}

// indexed has indexes of every kind, with and without names.
type indexed struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Email string             `gorm:"size:40;uniqueIndex:idx_indexed_email"`
	Phone string             `gorm:"size:40;uniqueIndex"`
	Plain string             `gorm:"size:40;index:idx_indexed_plain,sort:desc;index"`
	A     int64              `gorm:"uniqueIndex:idx_indexed_pair,priority:2;comment:the first; and more"`
	B     int64              `gorm:"uniqueIndex:idx_indexed_pair,priority:1;index:,composite:both"`
	C     int64              `gorm:"index:,composite:both;unique"`
	Note  string             `gorm:"size:40;default:'x\\;y';index:  idx_indexed_note  "`
}

func indexesOfShards(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newSharded(t, targets, func() *gorm.Config { return &gorm.Config{TranslateError: true} }, &indexed{})
		for shard := range shards {
			db := s.dbs[shard%len(s.dbs)]
			table := fmt.Sprintf("indexeds_%02d", shard)
			indexes, err := db.Migrator().GetIndexes(table)
			must(t, err, "GetIndexes")
			var names []string
			for _, index := range indexes {
				names = append(names, index.Name())
			}
			for _, want := range []string{"idx_indexed_email", "idx_indexed_plain", "idx_indexed_pair", "idx_indexed_note"} {
				if want = fmt.Sprintf("%s_%02d", want, shard); !slices.Contains(names, want) {
					t.Errorf("table %s has the indexes %v, not %s", table, names, want)
				}
			}
			one := func(n int64) *indexed {
				return &indexed{ID: s.id(shard), Email: fmt.Sprint(n), Phone: fmt.Sprint(n), A: n, B: n, C: n}
			}
			must(t, s.router.Create(t.Context(), one(1)), "Create")
			for name, change := range map[string]func(row *indexed){
				"a unique index with a name":  func(row *indexed) { row.Email = "1" },
				"one without":                 func(row *indexed) { row.Phone = "1" },
				"one over two columns":        func(row *indexed) { row.A, row.B = 1, 1 },
				"a constraint on one column ": func(row *indexed) { row.C = 1 },
			} {
				row := one(2)
				change(row)
				wantErr(t, s.router.Create(t.Context(), row), gorm.ErrDuplicatedKey, name)
			}
			row := one(3)
			row.A = 1
			must(t, s.router.Create(t.Context(), row), "Create of one that differs in half of the key")
			var got indexed
			must(t, s.on(&indexed{}, row.ID).Take(&got, row.ID).Error, "read")
			same(t, "the default", got.Note, "x;y")
		}
		s.hold("indexeds", 2*shards)
	})
}

// checked has constraints with and without a name. A comma does not tell them apart.
type checked struct {
	ID  snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Age int64              `gorm:"check:chk_checked_age,age >= 0"`
	Max int64              `gorm:"check:max < 100"`
	One int64              `gorm:"check:one IN (0, 1)"`
	Two int64              `gorm:"check:,two < 2"`
	Six int64              `gorm:"check:,six < 6"`
}

func checksOfShards(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newSharded(t, targets, nil, &checked{})
		for shard := range shards {
			must(t, s.router.Create(t.Context(), &checked{ID: s.id(shard)}), "Create")
			for _, bad := range []checked{{Age: -1}, {Max: 100}, {One: 2}, {Two: 2}, {Six: 6}} {
				bad.ID = s.id(shard)
				wantErr(t, s.router.Create(t.Context(), &bad), nil, "Create against the check")
			}
		}
		must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate again")
		s.hold("checkeds", shards)
	})
}

// spaced is in one schema and its children are in another.
type spaced struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name     string             `gorm:"size:40;uniqueIndex:idx_spaced_name"`
	Children []spacedChild      `gorm:"foreignKey:SpacedID"`
}

func (spaced) TableName() string { return "shop.spaced" }

type spacedChild struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:SpacedID"`
	SpacedID snowflakeplugin.ID
	Spaced   *spaced
}

func (spacedChild) TableName() string { return "BackOffice.children" }

func tablesInSchema(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	must(t, db.Exec(`CREATE SCHEMA shop`).Error, "make a schema")
	must(t, db.Exec(`CREATE SCHEMA "BackOffice"`).Error, "make a schema")
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	must(t, db.Use(plugin), "Use")
	cfg := snowflakeplugin.ShardingConfig{Shards: shards, Databases: []*gorm.DB{db}}
	r, err := snowflakeplugin.NewRouter(cfg, &spaced{}, &spacedChild{})
	must(t, err, "NewRouter")
	s := &sharded{T: t, router: r, plugin: plugin, dbs: []*gorm.DB{db}}
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate again")
	must(t, r.Check(t.Context()), "Check")
	must(t, db.Exec(`DROP INDEX "shop".idx_spaced_name_02`).Error, "an index")
	says(t, r.Check(t.Context()), "shop.spaced_02", "index idx_spaced_name_02 is missing")
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate of the index")
	rows := make([]spaced, 8)
	for i := range rows {
		rows[i] = spaced{ID: s.id(i % shards), Name: fmt.Sprint(i), Children: []spacedChild{{}, {}}}
	}
	must(t, r.Create(t.Context(), rows), "Create")
	name, err := r.Table(&spaced{}, rows[1].ID)
	must(t, err, "Table")
	same(t, "the table", name, "shop.spaced_01")
	same(t, "rows in it", countTable(t, db, name), 2)
	var got []spaced
	must(t, r.Latest(t.Context(), &got, 5), "Latest")
	same(t, "the newest", got[0].ID, rows[7].ID)
	must(t, r.Find(t.Context(), &got, []snowflakeplugin.ID{rows[6].ID, rows[2].ID}), "Find")
	handle := s.on(&spaced{}, rows[2].ID)
	must(t, handle.Preload("Children.Spaced").Order("id").Find(&got).Error, "Preload")
	if len(got) != 2 || len(got[0].Children) != 2 || got[0].Children[0].Spaced.Name != "2" {
		t.Errorf("the rows are %+v", got)
	}
	var children []spacedChild
	must(t, s.on(&spacedChild{}, rows[2].ID).Joins("Spaced").Find(&children).Error, "Joins")
	same(t, "children", len(children), 4)
	must(t, handle.Where("name = ?", "2").Update("name", "two").Error, "Update")
	must(t, handle.Model(&rows[6]).Update("name", "six").Error, "Update of one")
	must(t, handle.Where("name = ?", "six").Delete(&spaced{}).Error, "Delete")
	n, err := r.Count(t.Context(), &spaced{})
	must(t, err, "Count")
	same(t, "rows left", n, 7)
	wantErr(t, r.Create(t.Context(), &spaced{ID: s.id(1), Name: "1"}), nil, "a duplicate")
	wantErr(t, db.Create(&spaced{Name: "x"}).Error, snowflakeplugin.ErrNotRouted, "unrouted")
	wantErr(t, db.Table("shop.spaced").Create(&spaced{Name: "x"}).Error, snowflakeplugin.ErrNotRouted, "the base table")
	must(t, r.Transaction(t.Context(), rows[3].ID, func(tx *snowflakeplugin.ShardTx) error {
		return tx.Create(&spaced{Name: "in a transaction"})
	}), "Transaction")
	same(t, "rows on its shard", countTable(t, db, "shop.spaced_03"), 3)
}

// These are two versions of one table, from two releases of a program.
type (
	growing struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name string             `gorm:"size:40"`
	}
	grown struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name  string             `gorm:"size:40;index:idx_grown_name"`
		Added string             `gorm:"size:40;default:'new'"`
	}
)

func (growing) TableName() string { return "growth" }
func (grown) TableName() string   { return "growth" }

func migrateAgain(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newSharded(t, targets, nil, &growing{})
		must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate again")
		rows := make([]growing, 8)
		must(t, s.router.Create(t.Context(), rows), "Create")
		r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: shards, Databases: s.dbs}, &grown{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate of the next release")
		must(t, r.Create(t.Context(), &grown{Name: "x"}), "Create")
		var got []grown
		must(t, r.After(t.Context(), &got, 0, 100), "After")
		same(t, "rows", len(got), 9)
		for _, row := range got {
			same(t, "the new column", row.Added, "new")
		}
		must(t, s.router.Create(t.Context(), &growing{Name: "old"}), "Create by the last release")
	})
}

func manyShards(t *testing.T, target dbtest.Target) {
	if target.Dialect != "sqlite" {
		t.Skip("256 tables behave the same on every database, but only SQLite creates them quickly")
	}
	s := newShardedOf(t, []dbtest.Target{target}, nil, 256, &pledge{})
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	rows := make([]pledge, 1024)
	must(t, s.router.Create(t.Context(), rows), "Create")
	for _, row := range rows[:8] {
		name, err := s.router.Table(&pledge{}, row.ID)
		must(t, err, "Table")
		same(t, "the table", name, fmt.Sprintf("pledges_%02d", s.shard(row.ID)))
	}
	for shard := range 256 {
		same(t, fmt.Sprintf("rows on shard %d", shard), len(s.table(shard, "pledges")), 4)
	}
	// One statement cannot read so many tables, but paging must still work.
	var page []pledge
	must(t, s.router.Latest(t.Context(), &page, 300), "Latest")
	for i := range page {
		if want := rows[1023-i].ID; page[i].ID != want {
			t.Fatalf("row %d of the page is %d, want %d", i, page[i].ID, want)
		}
	}
	same(t, "rows of the page", len(page), 300)
	n, err := s.router.Count(t.Context(), &pledge{})
	must(t, err, "Count")
	same(t, "rows", n, 1024)
}

func otherNumberOfShards(t *testing.T, target dbtest.Target) {
	s := newSharded(t, []dbtest.Target{target}, nil, &growing{})
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	_, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 2 * shards, Databases: s.dbs}, &grown{})
	wantErr(t, err, snowflakeplugin.ErrSharding, "NewRouter")
	says(t, err, "growth had 4 shards", "snowflake_shards")
	// Two releases of one model with different numbers cannot share a database, but other models
	// can.
	r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 2 * shards, Databases: s.dbs}, &pledge{})
	must(t, err, "NewRouter for another model")
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
	must(t, r.Create(t.Context(), make([]pledge, 16)), "Create")
	same(t, "rows on the last shard", len(s.table(7, "pledges")), 2)
}

func placedShards(t *testing.T, target dbtest.Target) {
	s := newSharded(t, []dbtest.Target{target, another(target)}, nil, &growing{})
	asked := map[int]int{}
	r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
		Shards: 8, Databases: s.dbs, Place: func(shard int) int {
			asked[shard]++
			return min(shard/6, 1)
		},
	}, &pledge{})
	must(t, err, "NewRouter")
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
	must(t, r.Create(t.Context(), make([]pledge, 16)), "Create")
	for shard := range 8 {
		same(t, "how often Place was asked", asked[shard], 1)
		name := fmt.Sprintf("pledges_%02d", shard)
		same(t, "rows in "+name, countTable(t, s.dbs[shard/6], name), 2)
		same(t, "the other database has "+name, s.dbs[1-shard/6].Migrator().HasTable(name), false)
	}
}
