package statements_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A ferry has numbers of three counters, each in a unique index of another form.
type ferry struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name   string             `gorm:"size:40;unique"`
	Serial int64              `gorm:"uniqueIndex" snowflake:"from:serial"`
	Harbor int64              `gorm:"uniqueIndex:idx_berth"`
	Berth  int32              `gorm:"uniqueIndex:idx_berth" snowflake:"from:berth"`
	Plate  string             `gorm:"size:20;unique" snowflake:"from:plate"`
	Ticket int64              `snowflake:"from:ticket"`
}

// A fleet has ferries whose counters are kept in memory.
type fleet struct {
	db      *gorm.DB
	stores  map[string]*segmenttest.Memory
	sources map[string]*segment.Source
}

func openFleet(t *testing.T, target dbtest.Target, cfg gorm.Config, settings ...dbtest.Option) *fleet {
	t.Helper()
	f := &fleet{
		db:     target.Open(t, &cfg, settings...),
		stores: map[string]*segmenttest.Memory{}, sources: map[string]*segment.Source{},
	}
	opts := []snowflakeplugin.Option{snowflakeplugin.WithNode(7)}
	for _, name := range []string{"serial", "berth", "plate", "ticket"} {
		f.stores[name] = segmenttest.NewMemory()
		source, err := segment.New(f.stores[name], name+"s", segment.WithBlock(100, 100),
			segment.WithText(func(n int64) string { return fmt.Sprintf("FE-%04d", n) }))
		must(t, err, "a source")
		t.Cleanup(func() { must(t, source.Close(), "close the source") })
		f.sources[name] = source
		opts = append(opts, snowflakeplugin.WithNumbers(name, source))
	}
	plugin := snowflakeplugin.New(opts...)
	must(t, f.db.Use(plugin), "use the plugin")
	t.Cleanup(func() { must(t, plugin.Close(context.Background()), "close the plugin") })
	must(t, f.db.AutoMigrate(&ferry{}), "make the table")
	must(t, f.db.Create(&ferry{Name: "first", Harbor: 1}).Error, "create the first row")
	return f
}

// meets lets somebody else store a row that has the next number of a counter.
func (f *fleet) meets(t *testing.T, name string, next int64) {
	t.Helper()
	row := ferry{Name: "theirs " + name, Harbor: 1, Serial: 900, Berth: 900, Plate: "FE-0900", Ticket: 900}
	switch name {
	case "serial":
		row.Serial = next
	case "berth":
		row.Berth = int32(next)
	case "plate":
		row.Plate = f.sources[name].Text(next)
	}
	must(t, f.db.Create(&row).Error, "create a row of somebody else")
}

func (f *fleet) loses(t *testing.T, name string) {
	t.Helper()
	counters, err := f.stores[name].Counters(t.Context(), name)
	must(t, err, "the counters")
	for _, c := range counters {
		if removed, err := f.stores[name].Remove(t.Context(), c); !removed {
			t.Fatal(err)
		}
	}
}

// claims is how often a source has claimed numbers.
func (f *fleet) claims(name string) int64 { return f.sources[name].Stats().Claims }

var columnsOfFerries = map[string]string{
	"serial": "ferry.Serial", "berth": "ferry.Berth", "plate": "ferry.Plate",
}

// waysToCreate are the ways to create a ferry.
func waysToCreate() map[string]func(db *gorm.DB) error {
	return map[string]func(db *gorm.DB) error{
		"a struct": func(db *gorm.DB) error { return db.Create(&ferry{Name: "ours", Harbor: 1}).Error },
		"a slice": func(db *gorm.DB) error {
			rows := make([]ferry, 40)
			for i := range rows {
				rows[i] = ferry{Name: fmt.Sprint("ours ", i), Harbor: 1}
			}
			return db.Create(&rows).Error
		},
		"a map": func(db *gorm.DB) error {
			return db.Model(&ferry{}).Create(map[string]any{"name": "ours", "harbor": 1}).Error
		},
		"in a transaction of the application": func(db *gorm.DB) error {
			return db.Transaction(func(tx *gorm.DB) error {
				return tx.Create(&ferry{Name: "ours", Harbor: 1}).Error
			})
		},
	}
}

// After a failover to a server that lagged behind, another process has numbers of this one's block.
func TestANumberThatIsRefusedFindsACounterThatWentBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for mode, cfg := range map[string]gorm.Config{
			"plain": {}, "SkipDefaultTransaction": {SkipDefaultTransaction: true},
			"TranslateError": {TranslateError: true}, "PrepareStmt": {PrepareStmt: true},
		} {
			for way, create := range waysToCreate() {
				for _, name := range []string{"serial", "berth", "plate"} {
					if mode != "plain" && (way != "a struct" || name != "serial") {
						continue
					}
					t.Run(way+", "+mode+", "+name, func(t *testing.T) {
						f := openFleet(t, target, cfg, dbtest.MaxOpenConns(1))
						next := int64(2) // each source has given 1
						if way == "a slice" {
							next = 40
						}
						f.meets(t, name, next)
						f.loses(t, name)
						err := create(f.db)
						switch {
						case err == nil || errors.Is(err, segment.ErrWentBack):
							t.Fatalf("the error of the create that is refused is %v", err)
						case mode == "TranslateError" && !errors.Is(err, gorm.ErrDuplicatedKey):
							t.Errorf("the error is not gorm.ErrDuplicatedKey: %v", err)
						}
						number := f.sources[name].Text(next)
						if name != "plate" {
							number = fmt.Sprint(next)
						}
						words := []string{columnsOfFerries[name], `counter "` + name + `s"`, number}
						if way == "a slice" && target.Dialect == "sqlite" {
							words = words[:2] // SQLite does not say which number it was
						}
						for _, word := range words {
							if !strings.Contains(err.Error(), word) {
								t.Errorf("the error does not say %q: %v", word, err)
							}
						}
						if way == "in a transaction of the application" && target.Dialect != "sqlite" {
							f.awaitsDoubt(t, name)
						} else if way == "in a transaction of the application" {
							// SQLite has one writer, so the next create outside of a transaction asks.
							_ = f.db.Create(&ferry{Name: "between", Harbor: 1}).Error
						}
						if err := create(f.db); !errors.Is(err, segment.ErrWentBack) {
							t.Fatalf("the error of the next create is %v", err)
						}
						must(t, segment.Raise(t.Context(), f.stores[name], name+"s", 5000), "raise the counter")
						must(t, create(f.db), "create after the counter was raised")
					})
				}
			}
		}
	})
}

// awaitsDoubt waits until a source has given up its numbers.
func (f *fleet) awaitsDoubt(t *testing.T, name string) {
	t.Helper()
	for range 500 {
		if f.sources[name].Stats().Left == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the source keeps its numbers")
}

// A number may have been set by hand, and then the counter is in order.
func TestNumbersGoOnAfterOneThatIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		f := openFleet(t, target, gorm.Config{})
		f.meets(t, "serial", 2)
		row := ferry{Name: "ours", Harbor: 1}
		if err := f.db.Create(&row).Error; err == nil || row.Serial != 0 {
			t.Fatalf("the row has the number %d, and the error is %v", row.Serial, err)
		}
		must(t, f.db.Create(&row).Error, "create the row once more")
		if row.Serial <= 100 {
			t.Errorf("the next number is %d, of the block that was given up", row.Serial)
		}
		if f.claims("berth") != 1 || f.claims("plate") != 1 || f.claims("serial") != 2 {
			t.Errorf("the claims are %d, %d and %d", f.claims("berth"), f.claims("plate"), f.claims("serial"))
		}
	})
}

// What is no witness: a number that the application gave, a row that another column refuses, and our own row,
// which a proxy or a cluster has sent twice.
func TestWhatIsNoWitnessForACounter(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		f := openFleet(t, target, gorm.Config{})
		refuse := func(what string, row ferry) {
			t.Helper()
			if err := f.db.Create(&row).Error; err == nil || strings.Contains(err.Error(), "counter") {
				t.Errorf("the error of %s is %v", what, err)
			}
		}
		refuse("a number that is given", ferry{Name: "a", Harbor: 1, Serial: 1})
		refuse("a name that is there", ferry{Name: "first", Harbor: 1})
		refuse("a name that is a number", func() ferry {
			must(t, f.db.Create(&ferry{Name: "6", Harbor: 1}).Error, "create a row whose name is a number")
			return ferry{Name: "6", Harbor: 1} // whose serial, which is new, is in the entry as well
		}())
		mixed := []ferry{{Name: "b", Harbor: 1, Serial: 1}, {Name: "c", Harbor: 1}}
		if err := f.db.Create(&mixed).Error; target.Dialect != "sqlite" && strings.Contains(err.Error(), "counter") {
			t.Errorf("the error of a number that is given beside one that is not is %v", err)
		}
		if f.claims("serial") != 1 {
			t.Errorf("the source has claimed %d times", f.claims("serial"))
		}
	})
}

// A skiff has a key that the database makes.
type skiff struct {
	ID     uint
	Name   string `gorm:"size:40"`
	Serial int64  `gorm:"uniqueIndex" snowflake:"from:serial"`
}

// A proxy or a cluster that sends an INSERT twice meets its own row.
func TestAnEqualRowIsNoWitnessForACounter(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		f := openFleet(t, target, gorm.Config{})
		must(t, f.db.AutoMigrate(&skiff{}), "make the table")
		for i, name := range []string{"ours", "theirs"} {
			must(t, f.db.Create(&skiff{Name: name, Serial: int64(2 + i)}).Error, "store a row")
			if f.db.Create(&skiff{Name: "ours"}).Error == nil {
				t.Fatal("a number was stored twice")
			}
			if left := f.sources["serial"].Stats().Left; (left == 0) != (name == "theirs") {
				t.Errorf("beside a row that is %s the source has %d numbers left", name, left)
			}
		}
	})
}

// doubting is a source of an application that wants to know which of its numbers are refused.
type doubting struct {
	next    int64
	refused []int64
}

func (d *doubting) Fill(_ context.Context, ids []int64) error {
	for i := range ids {
		d.next++
		ids[i] = d.next
	}
	return nil
}

func (d *doubting) Refused(number int64) { d.refused = append(d.refused, number) }

// A pontoon has a key that the database makes, and a number of the plugin's own source beside it.
type pontoon struct {
	ID   uint
	Name string `gorm:"size:40"`
	Code int64  `gorm:"uniqueIndex" snowflake:"true"`
}

// A source is told of a number that is no key, whether its row was created alone or together with another.
func TestASourceIsToldOfANumberBesideAKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for way, rows := range map[string]any{
			"a struct": &pontoon{Name: "ours"}, "a slice": &[]pontoon{{Name: "ours"}, {Name: "ours too"}},
		} {
			t.Run(way, func(t *testing.T) {
				codes := &doubting{}
				db := target.Open(t, nil)
				must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithSource(codes))), "use the plugin")
				must(t, db.AutoMigrate(&pontoon{}), "make the table")
				must(t, db.Create(&pontoon{Name: "theirs", Code: 1}).Error, "store a row")
				err := db.Create(rows).Error
				if err == nil || !strings.Contains(err.Error(), "pontoon.Code") {
					t.Errorf("the error does not name the field: %v", err)
				}
				if fmt.Sprint(codes.refused) != "[1]" {
					t.Errorf("the source is told of %v", codes.refused)
				}
			})
		}
	})
}

// A barge may have a note.
type barge struct {
	ID   int64   `gorm:"primaryKey" snowflake:"true"`
	Note *string `gorm:"size:40"`
}

// A NULL that was sent tells rows apart as well, however many rows were sent.
func TestARowThatDiffersByANullIsAWitness(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for way, rows := range map[string]any{"a struct": &barge{}, "a slice": &[]barge{{}, {}}} {
			t.Run(way, func(t *testing.T) {
				keys := &doubting{}
				db := target.Open(t, nil)
				must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithSource(keys))), "use the plugin")
				must(t, db.AutoMigrate(&barge{}), "make the table")
				must(t, db.Create(&barge{ID: 1, Note: pointerTo("theirs")}).Error, "store a row")
				if err := db.Create(rows).Error; !errors.Is(err, snowflakeplugin.ErrContested) {
					t.Errorf("the error is %v", err)
				}
				if len(keys.refused) == 0 {
					t.Error("the source is not told of the key")
				}
			})
		}
	})
}

// A source of the application is told of keys and of numbers.
func TestASourceOfTheApplicationIsToldWhatIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		keys, serials := &doubting{}, &doubting{}
		db := target.Open(t, nil)
		plugin := snowflakeplugin.New(snowflakeplugin.WithSource(keys),
			snowflakeplugin.WithNumbers("serial", serials), snowflakeplugin.WithNumbers("berth", &doubting{}),
			snowflakeplugin.WithNumbers("plate", &doubting{}), snowflakeplugin.WithNumbers("ticket", &doubting{}))
		must(t, db.Use(plugin), "use the plugin")
		must(t, db.AutoMigrate(&ferry{}, &quay{}, &quayBoat{}), "make the tables")
		must(t, db.Create(&ferry{ID: 100, Name: "theirs", Serial: 1}).Error, "store a row")
		must(t, db.Create(&quay{ID: 2, Name: "theirs", Since: time.Now()}).Error, "store a row")
		if err := db.Create(&ferry{Name: "ours", Harbor: 1}).Error; err == nil {
			t.Error("a number was stored twice")
		}
		if err := db.Create(&quay{Name: "ours", Since: time.Now()}).Error; !errors.Is(err, snowflakeplugin.ErrContested) {
			t.Errorf("the error of a key that is there is %v", err)
		}
		if fmt.Sprint(keys.refused, serials.refused) != "[2] [1]" {
			t.Errorf("the sources are told of %v and %v", keys.refused, serials.refused)
		}
	})
}

// A dinghy has a key that comes from a counter.
type dinghy struct {
	ID   int64  `gorm:"primaryKey;autoIncrement:false" snowflake:"from:serial"`
	Name string `gorm:"size:40"`
}

func TestAKeyOfACounterThatIsRefusedFindsACounterThatWentBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		f := openFleet(t, target, gorm.Config{})
		must(t, f.db.AutoMigrate(&dinghy{}), "make the table")
		must(t, f.db.Create(&dinghy{ID: 2, Name: "theirs"}).Error, "store a row")
		f.loses(t, "serial")
		err := f.db.Create(&dinghy{Name: "ours"}).Error
		if !errors.Is(err, snowflakeplugin.ErrContested) || !strings.Contains(err.Error(), `counter "serials"`) {
			t.Errorf("the error of the create that is refused is %v", err)
		}
		if err := f.db.Create(&dinghy{Name: "ours"}).Error; !errors.Is(err, segment.ErrWentBack) {
			t.Errorf("the error of the next create is %v", err)
		}
	})
}
