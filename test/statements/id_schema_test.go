package statements_test

import (
	"database/sql"
	"reflect"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// The models below use an ID in every role that a column can have.
type (
	idColumns struct {
		ID      snowflakeplugin.ID  `gorm:"primaryKey"`
		Pointer *snowflakeplugin.ID `gorm:"index"`
		Null    sql.Null[snowflakeplugin.ID]
		Unique  snowflakeplugin.ID `gorm:"not null;uniqueIndex"`
		Default snowflakeplugin.ID `gorm:"not null;default:0;comment:set later"`
		OwnerID snowflakeplugin.ID
		Owner   idOwner
		PeerID  *snowflakeplugin.ID
		Peer    *idOwner
		Owners  []idOwner `gorm:"many2many:id_columns_owners"`
	}
	idOwner struct {
		ID snowflakeplugin.ID `gorm:"primaryKey"`
	}
	idTyped struct {
		ID snowflakeplugin.ID `gorm:"primaryKey;type:int"`
	}
	idPointerKey struct {
		ID *snowflakeplugin.ID `gorm:"primaryKey"`
	}
	idNullKey struct {
		ID sql.Null[snowflakeplugin.ID] `gorm:"primaryKey"`
	}
	idModel struct {
		snowflakeplugin.Model
		Name string
	}
)

var idModels = []any{
	&idOwner{}, &idColumns{}, &idTyped{}, &idPointerKey{}, &idNullKey{}, &idModel{},
}

func TestGormDoesNotMakeAnIDAutoIncrement(t *testing.T) {
	for _, model := range idModels {
		parsed, err := schema.Parse(model, &sync.Map{}, schema.NamingStrategy{})
		if err != nil {
			t.Fatal(err)
		}
		key := parsed.PrioritizedPrimaryField
		if key == nil || key.AutoIncrement || key.HasDefaultValue ||
			len(parsed.FieldsWithDefaultDBValue) != 0 {
			t.Errorf("%s: the key is %+v", parsed.Name, key)
		}
	}
}

func TestColumnsOfAnIDAreBigints(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		if err := db.AutoMigrate(idModels...); err != nil {
			t.Fatal(err)
		}
		bigint := map[string]string{"sqlite": "bigint", "postgres": "int8", "mysql": "bigint"}
		rowid := map[string]string{"sqlite": "integer", "postgres": "int8", "mysql": "bigint"}
		check := func(table string, want map[string]string, columns ...string) {
			t.Helper()
			found, err := db.Migrator().ColumnTypes(table)
			if err != nil {
				t.Fatal(err)
			}
			types := make(map[string]gorm.ColumnType, len(found))
			for _, c := range found {
				types[c.Name()] = c
			}
			for _, name := range columns {
				c := types[name]
				if c == nil {
					t.Errorf("%s has no column %s", table, name)
					continue
				}
				if got := strings.ToLower(c.DatabaseTypeName()); got != want[target.Dialect] {
					t.Errorf("%s.%s is a %s", table, name, got)
				}
				if auto, ok := c.AutoIncrement(); ok && auto {
					t.Errorf("%s.%s is auto-increment", table, name)
				}
			}
		}
		check("id_columns", bigint,
			"id", "pointer", "null", "unique", "default", "owner_id", "peer_id")
		check("id_columns_owners", bigint, "id_columns_id", "id_owner_id")
		check("id_owners", bigint, "id")
		check("id_pointer_keys", bigint, "id")
		check("id_null_keys", bigint, "id")
		check("id_models", bigint, "id")
		// With type:int, the key of SQLite is the row number itself.
		check("id_typeds", rowid, "id")
	})
}

func TestMigratingAgainAltersNothing(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		recorder := dbtest.NewRecorder()
		db := target.Open(t, &gorm.Config{Logger: recorder})
		changes := func() (changes []string) {
			for _, statement := range recorder.Statements() {
				switch verb, _, _ := strings.Cut(strings.TrimSpace(statement), " "); strings.ToUpper(verb) {
				case "ALTER", "CREATE", "DROP", "INSERT", "UPDATE", "COMMENT":
					changes = append(changes, statement)
				}
			}
			return changes
		}
		if err := db.AutoMigrate(idModels...); err != nil {
			t.Fatal(err)
		}
		if len(changes()) < len(idModels) {
			t.Fatalf("the first run is not recorded: %q", changes())
		}
		for run := 2; run <= 3; run++ {
			recorder.Reset()
			if err := db.AutoMigrate(idModels...); err != nil {
				t.Fatal(err)
			}
			if again := changes(); len(again) != 0 {
				t.Errorf("run %d changed the schema: %q", run, again)
			}
		}
	})
}

func TestGormSendsTheKeyAndAsksForNone(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		recorder := dbtest.NewRecorder()
		db := target.Open(t, &gorm.Config{Logger: recorder})
		if err := db.AutoMigrate(&idModel{}, &idPointerKey{}, &idNullKey{}); err != nil {
			t.Fatal(err)
		}
		recorder.Reset()
		id := nodeLeft
		for _, row := range []any{
			&idModel{Model: snowflakeplugin.Model{ID: id}},
			&[]idModel{{Model: snowflakeplugin.Model{ID: nodeRight}}},
			&idPointerKey{ID: &id},
			&idNullKey{ID: sql.Null[snowflakeplugin.ID]{V: id, Valid: true}},
		} {
			if err := db.Create(row).Error; err != nil {
				t.Fatal(err)
			}
		}
		inserts := recorder.Inserts()
		if len(inserts) != 4 {
			t.Fatalf("recorded %q", inserts)
		}
		for _, insert := range inserts {
			if !strings.Contains(insert, "154181560360603648") ||
				strings.Contains(strings.ToUpper(insert), "RETURNING") {
				t.Errorf("sent %s", insert)
			}
		}
	})
}

func TestModelKeepsTimesAndDeletesSoftly(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		if err := db.AutoMigrate(&idModel{}); err != nil {
			t.Fatal(err)
		}
		row := idModel{Model: snowflakeplugin.Model{ID: nodeLeft}, Name: "kept"}
		if err := db.Create(&row).Error; err != nil {
			t.Fatal(err)
		}
		var got idModel
		if err := db.First(&got, nodeLeft).Error; err != nil || got.Name != "kept" ||
			got.CreatedAt.IsZero() || got.UpdatedAt.IsZero() || got.DeletedAt.Valid {
			t.Errorf("read back %+v, %v", got, err)
		}
		if err := db.Delete(&row).Error; err != nil {
			t.Fatal(err)
		}
		var live, all int64
		if err := db.Model(&idModel{}).Count(&live).Error; err != nil {
			t.Fatal(err)
		}
		if err := db.Unscoped().Model(&idModel{}).Count(&all).Error; err != nil {
			t.Fatal(err)
		}
		if live != 0 || all != 1 {
			t.Errorf("after Delete: %d rows seen, %d in the table", live, all)
		}
	})
}

// A model can replace gorm.Model with this Model without other changes.
func TestModelHasTheFieldsOfGormsModel(t *testing.T) {
	ours, theirs := reflect.TypeFor[snowflakeplugin.Model](), reflect.TypeFor[gorm.Model]()
	if ours.NumField() != theirs.NumField() {
		t.Fatalf("%d fields, gorm.Model has %d", ours.NumField(), theirs.NumField())
	}
	for i := range ours.NumField() {
		a, b := ours.Field(i), theirs.Field(i)
		if a.Name != b.Name || (a.Name != "ID" && a.Type != b.Type) ||
			!strings.EqualFold(a.Tag.Get("gorm"), b.Tag.Get("gorm")) {
			t.Errorf("%s %s %q, gorm.Model has %s %s %q", a.Name, a.Type, a.Tag, b.Name, b.Type, b.Tag)
		}
	}
	if id, _ := ours.FieldByName("ID"); id.Tag.Get("snowflake") != "true" {
		t.Errorf("the key is tagged %q", id.Tag)
	}
}
