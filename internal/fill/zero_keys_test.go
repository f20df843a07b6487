package fill_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
)

func TestZeroKeys(t *testing.T) { run(t, zeroKeyBehaviors()) }

func zeroKeyBehaviors() []behavior {
	return []behavior{
		{Name: "a key of type ID is never stored as 0, with the plugin and without it", Run: zeroKeysRefused},
		{Name: "a key that is set is stored without the plugin", Run: setKeysStored},
		{Name: "a refused row names the model, the field and the remedy", Run: zeroKeyRemedies},
		{Name: "a zero key in a condition or an update is a value like any other", Run: zeroConditions},
		{Name: "a zero in a part of a composite key is refused", Run: zeroInCompositeKey},
		{Name: "a slice of pointers to pointers is refused and stores nothing", Run: pointersToPointers},
		{Name: "two models that share a foreign key may be first used at the same time", Run: sharedForeignKey},
	}
}

// sharedForeignKey is for the race detector: GORM writes to a foreign key while it parses the second model.
func sharedForeignKey(t *testing.T, target database) {
	type owner struct {
		ID int64 `snowflake:"true"`
	}
	type pet struct {
		ID      int64 `snowflake:"true"`
		OwnerID int64
		Owner   owner
	}
	type keeper struct {
		ID   int64 `snowflake:"true"`
		Pets []pet `gorm:"foreignKey:OwnerID"`
	}
	for range 10 {
		db, plugin := target.Open(t, nil), snowflakeplugin.New(snowflakeplugin.WithNode(1))
		must(t, db.Use(plugin), "Use")
		var both sync.WaitGroup
		for _, model := range []any{&pet{}, &keeper{}} {
			both.Go(func() {
				if err := plugin.Prepare(db, model); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
}

// untagged forgot its tag.
type untagged struct {
	ID   snowflakeplugin.ID
	Name string
}

// forgotten has its tag, and is used on databases without the plugin.
type forgotten struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string
}

// waysToCreate are creates of six rows that forget their keys.
func waysToCreate[T any](row func(name string) T) map[string]func(db *gorm.DB) error {
	rows := func() []T {
		var rows []T
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			rows = append(rows, row(name))
		}
		return rows
	}
	updateAll := clause.OnConflict{UpdateAll: true}
	return map[string]func(db *gorm.DB) error{
		"create":     func(db *gorm.DB) error { r := row("a"); return db.Create(&r).Error },
		"slice":      func(db *gorm.DB) error { r := rows(); return db.Create(&r).Error },
		"save slice": func(db *gorm.DB) error { return db.Save(rows()).Error },
		"update all": func(db *gorm.DB) error { r := rows(); return db.Clauses(updateAll).Create(&r).Error },
		"do nothing": func(db *gorm.DB) error { r := rows(); return db.Clauses(doNothing()).Create(&r).Error },
		"batches":    func(db *gorm.DB) error { r := rows(); return db.CreateInBatches(&r, 2).Error },
		"one of two": func(db *gorm.DB) error {
			var model T
			return db.Model(&model).Create([]map[string]any{{"id": 5, "name": "a"}, {"id": "0", "name": "b"}}).Error
		},
		"map": func(db *gorm.DB) error {
			var model T
			return db.Model(&model).Create(map[string]any{"id": 0, "name": "a"}).Error
		},
		"map of a small type": func(db *gorm.DB) error {
			var model T
			return db.Model(&model).Create(map[string]any{"id": uint8(0), "name": "a"}).Error
		},
		"maps": func(db *gorm.DB) error {
			var model T
			return db.Model(&model).Create([]map[string]any{
				{"ID": snowflakeplugin.ID(5), "name": "a"}, {"ID": snowflakeplugin.ID(0), "name": "b"},
			}).Error
		},
		"without hooks": func(db *gorm.DB) error {
			r := rows()
			return db.Session(&gorm.Session{SkipHooks: true}).Create(&r).Error
		},
	}
}

func zeroKeysRefused(t *testing.T, target database) {
	refuse := func(t *testing.T, db *gorm.DB, table string, ways map[string]func(*gorm.DB) error) {
		t.Helper()
		for name, create := range ways {
			wantErr(t, create(db), snowflakeplugin.ErrZeroKey, name)
			same(t, "rows after "+name, plainOne[int64](t, db, "SELECT COUNT(*) FROM "+table), 0)
		}
	}
	t.Run("no tag, no plugin", func(t *testing.T) {
		db := target.Open(t, nil)
		must(t, db.AutoMigrate(&untagged{}), "AutoMigrate")
		refuse(t, db, "untaggeds", waysToCreate(func(name string) untagged { return untagged{Name: name} }))
	})
	t.Run("a tag, no plugin", func(t *testing.T) {
		db := target.Open(t, nil)
		must(t, db.AutoMigrate(&forgotten{}), "AutoMigrate")
		refuse(t, db, "forgottens", waysToCreate(func(name string) forgotten { return forgotten{Name: name} }))
	})
	t.Run("no tag, the plugin", func(t *testing.T) {
		db := open(t, target, nil, &untagged{})
		ways := waysToCreate(func(name string) untagged { return untagged{Name: name} })
		refuse(t, db, "untaggeds", ways)
		refuse(t, db.Unscoped().Session(&gorm.Session{}), "untaggeds", ways)
	})
	t.Run("unscoped, no plugin", func(t *testing.T) {
		db := target.Open(t, nil)
		must(t, db.AutoMigrate(&untagged{}, &forgotten{}), "AutoMigrate")
		plain := waysToCreate(func(name string) untagged { return untagged{Name: name} })
		tagged := waysToCreate(func(name string) forgotten { return forgotten{Name: name} })
		for _, ways := range []map[string]func(*gorm.DB) error{plain, tagged} {
			for _, name := range []string{"one of two", "map", "map of a small type", "maps"} {
				delete(ways, name) // nothing looks at a zero that a map names there
			}
		}
		refuse(t, db.Unscoped().Session(&gorm.Session{}), "untaggeds", plain)
		refuse(t, db.Unscoped().Session(&gorm.Session{}), "forgottens", tagged)
	})
}

// zeroConditions uses zero keys where they are values like any other.
func zeroConditions(t *testing.T, target database) {
	db := target.Open(t, nil)
	must(t, db.AutoMigrate(&untagged{}), "AutoMigrate")
	plainExec(t, db, "INSERT INTO untaggeds (id, name) VALUES (0, 'zero'), (5, 'five')")
	for name, db := range map[string]*gorm.DB{"scoped": db, "unscoped": db.Unscoped().Session(&gorm.Session{})} {
		var found []untagged
		must(t, db.Where(&untagged{}, "ID").Find(&found).Error, name+": find by the key")
		same(t, name+": rows with key 0", len(found), 1)
		found = nil
		must(t, db.Where(&untagged{Name: "five"}).Find(&found).Error, name+": find by the name")
		same(t, name+": rows of the name", len(found), 1)
		must(t, db.Where("id = ?", snowflakeplugin.ID(0)).Updates(&untagged{Name: name}).Error, name+": update")
		same(t, name+": the row with key 0", plainOne[string](t, db, "SELECT name FROM untaggeds WHERE id = 0"), name)
		must(t, db.Session(&gorm.Session{AllowGlobalUpdate: true}).Select("ID").
			Where("name = ?", "five").Updates(&untagged{ID: 5}).Error, name+": update to the same key")
		must(t, db.Model(&untagged{}).Where("id = ?", 5).Update("id", snowflakeplugin.ID(6)).Error, name+": change a key")
		must(t, db.Model(&untagged{}).Where("id = ?", 6).Update("id", snowflakeplugin.ID(5)).Error, name+": change it back")
		result := db.Where("id = ?", 0).Where(&untagged{}).Find(&found)
		must(t, result.Error, name+": find with an empty struct")
		same(t, name+": rows with an empty struct", result.RowsAffected, 1)
	}
	must(t, db.Where(&untagged{}, "ID").Delete(&untagged{}).Error, "delete")
	same(t, "rows", plainOne[int64](t, db, "SELECT COUNT(*) FROM untaggeds"), 1)
}

func setKeysStored(t *testing.T, target database) {
	db := target.Open(t, nil)
	must(t, db.AutoMigrate(&untagged{}), "AutoMigrate")
	must(t, db.Create(&untagged{ID: 7, Name: "a"}).Error, "create")
	must(t, db.Create([]untagged{{ID: 8}, {ID: 9}}).Error, "create a slice")
	must(t, db.Save(&untagged{ID: 7, Name: "b"}).Error, "save")
	must(t, db.Model(&untagged{}).Create(map[string]any{"id": 10, "name": "c"}).Error, "create from a map")
	same(t, "rows", plainOne[int64](t, db, "SELECT COUNT(*) FROM untaggeds"), 4)
}

func zeroKeyRemedies(t *testing.T, target database) {
	without := target.Open(t, nil)
	err := without.Session(&gorm.Session{DryRun: true}).Create(&[]untagged{{ID: 5}, {}}).Error
	wantErr(t, err, snowflakeplugin.ErrZeroKey, "no tag, no plugin")
	says(t, err, "untagged.ID of row 1", `snowflake:"true"`, "db.Use")
	err = without.Session(&gorm.Session{DryRun: true}).Create(&forgotten{}).Error
	says(t, err, "forgotten.ID of row 0", "does not use the plugin", "db.Use")
	err = without.Unscoped().Session(&gorm.Session{DryRun: true}).Create(&[]forgotten{{ID: 5}, {}, {}}).Error
	wantErr(t, err, snowflakeplugin.ErrZeroKey, "unscoped, no plugin")
	says(t, err, "forgotten.ID of row 1", "does not use the plugin", "db.Use")
	for _, db := range []*gorm.DB{without, without.Unscoped()} {
		err = db.Session(&gorm.Session{DryRun: true}).Create(&[]forgotten{{}, {}, {}}).Error
		same(t, "the times that a statement is refused", strings.Count(err.Error(), "is 0"), 1)
	}
	with := open(t, target, nil)
	err = with.Session(&gorm.Session{DryRun: true}).Create(&untagged{}).Error
	says(t, err, "untagged.ID of row 0", `tag the field snowflake:"true"`)
	if snowflakeplugin.Retryable(err) {
		t.Error("a key that is not set is retryable")
	}
}

func zeroInCompositeKey(t *testing.T, target database) {
	type seat struct {
		HallID snowflakeplugin.ID `gorm:"primaryKey;autoIncrement:false"`
		Number int64              `gorm:"primaryKey;autoIncrement:false"`
	}
	db := open(t, target, nil, &seat{})
	must(t, db.Create(&seat{HallID: 3, Number: 0}).Error, "a zero in the other part")
	err := db.Create(&seat{Number: 4}).Error
	wantErr(t, err, snowflakeplugin.ErrZeroKey, "a zero in the ID")
	says(t, err, "seat.HallID")
}

func pointersToPointers(t *testing.T, target database) {
	type plain struct {
		ID   int64 `gorm:"primaryKey" snowflake:"true"`
		Name string
	}
	db := open(t, target, nil, &forgotten{}, &plain{})
	f, p := &forgotten{Name: "a"}, &plain{Name: "a"}
	err := db.Create(&[]**forgotten{&f}).Error
	if !errors.Is(err, gorm.ErrInvalidData) {
		t.Errorf("pointers to pointers of an ID: %v", err)
	}
	if err := db.Create([]**plain{&p}).Error; !errors.Is(err, gorm.ErrInvalidData) {
		t.Errorf("pointers to pointers of an int64: %v", err)
	}
	same(t, "rows", plainOne[int64](t, db, "SELECT COUNT(*) FROM forgottens"), 0)
	same(t, "rows", plainOne[int64](t, db, "SELECT COUNT(*) FROM plains"), 0)
}
