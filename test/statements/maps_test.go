package statements_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestUpsertsOfMaps(t *testing.T) { run(t, mapUpsertBehaviors()) }

// mapUpsertBehaviors test upserts of maps. Like a struct, a map ends with the ID of the stored row
// that has its key, or it is unchanged.
func mapUpsertBehaviors() []behavior {
	return append([]behavior{
		{Name: "every clause and shape of map ends with the ID of the row", Everywhere: true,
			Run: mapsEndWithTheStoredID},
		{Name: "a map keeps its own spelling of the key", Run: mapsKeepTheirSpelling},
		{Name: "a row that is not found leaves the map as it was", Run: mapsWithoutARow},
		{Name: "a failed create leaves the map as it was", Run: mapsThatFail},
		{Name: "UpdateAll keeps a stored public ID", Run: mapsKeepStoredColumns},
		{Name: "DoUpdates that names the public ID writes the fresh one", Run: mapsWriteNamedColumns},
		{Name: "a public ID given in a map is written", Run: mapsWriteGivenColumns},
		{Name: "batches of maps end with the stored IDs", Run: mapsInBatches},
		{Name: "maps of different keys in one slice end with the stored IDs", Run: mapsOfDifferentKeys},
		{Name: "IDs that are set in maps are neither moved nor copied", Run: mapsWithSetIDs},
	}, mapEdgeBehaviors()...)
}

// mapShapes are the arguments that GORM accepts for maps.
var mapShapes = []struct {
	name   string
	single bool
	of     func(maps []map[string]any) any
}{
	{"map", true, func(maps []map[string]any) any { return maps[0] }},
	{"&map", true, func(maps []map[string]any) any { return &maps[0] }},
	{"[]map", false, func(maps []map[string]any) any { return maps }},
	{"&[]map", false, func(maps []map[string]any) any { return &maps }},
}

func mapsEndWithTheStoredID(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{}, &memberByInt{})
	t.Run("ID", func(t *testing.T) {
		checkMapUpserts[snowflakeplugin.ID](t, db.Model(&memberByID{}), byID.table)
	})
	t.Run("int64", func(t *testing.T) {
		checkMapUpserts[int64](t, db.Model(&memberByInt{}), byInt.table)
	})
	t.Run("int64 without Prepare", func(t *testing.T) {
		db := openAs(t, target, opening{unprepared: true}, &memberByInt{})
		checkMapUpserts[int64](t, db.Model(&memberByInt{}), byInt.table)
	})
}

// checkMapUpserts runs every clause with every shape of map. As with structs, Alice already has row
// 77 and Carol row 78, and Bob is new. The map holds its key as a K.
func checkMapUpserts[K ~int64](t *testing.T, model *gorm.DB, table string) {
	t.Helper()
	model = model.Session(&gorm.Session{})
	db := model.Session(&gorm.Session{NewDB: true})
	for _, c := range upsertClauses {
		for _, shape := range mapShapes {
			for _, first := range []string{"alice", "bob"} {
				t.Run(fmt.Sprintf("%s of %s, %s first", c.name, shape.name, first), func(t *testing.T) {
					plainExec(t, db, "DELETE FROM "+table, "INSERT INTO "+table+
						" (id, email, name) VALUES (77, 'alice', 'old'), (78, 'carol', 'old')")
					maps := []map[string]any{{"email": first, "name": "new"}}
					if !shape.single {
						second := map[string]string{"alice": "bob", "bob": "alice"}[first]
						maps = append(maps, map[string]any{"email": second, "name": "new"},
							map[string]any{"email": "carol", "name": "new"})
					}
					dest := shape.of(maps)
					succeed(t, model.Clauses(c.clause).Create(dest))
					if all, ok := dest.(*[]map[string]any); ok {
						wantInt(t, "the number of maps", len(*all), len(maps))
					}
					for _, m := range maps {
						checkMap[K](t, db, m, "id", "SELECT id FROM "+table+" WHERE email = ?", m["email"])
						wantInt(t, "the number of keys", len(m), 3)
						want := "new"
						if m["email"] != "bob" && !c.updates {
							want = "old"
						}
						got := plainOne[string](t, db, "SELECT name FROM "+table+" WHERE email = ?", m["email"])
						if got != want {
							t.Errorf("%s has the name %q, want %q", m["email"], got, want)
						}
					}
					wantInt(t, "the row of alice",
						plainOne[int64](t, db, "SELECT id FROM "+table+" WHERE email = 'alice'"), 77)
				})
			}
		}
	}
}

// checkMap checks that the map holds the ID that a query finds, under key and as a K, and under no
// other spelling of the key.
func checkMap[K ~int64](t *testing.T, db *gorm.DB, m map[string]any, key, query string, args ...any) {
	t.Helper()
	id, ok := m[key].(K)
	if !ok {
		t.Errorf("the map holds %#v as %s, want a %v", m[key], key, reflect.TypeFor[K]())
		return
	}
	wantStored(t, db, id, query, args...)
	for other := range m {
		if other != key && strings.EqualFold(strings.ReplaceAll(other, "_", ""),
			strings.ReplaceAll(key, "_", "")) {
			t.Errorf("the map has both %s and %s: %v", key, other, m)
		}
	}
}

func mapsKeepTheirSpelling(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &document{})
	plainExec(t, db, "INSERT INTO documents (id, public_id, slug) VALUES (77, 500, 'taken')")
	for _, key := range []struct {
		id, public string
		unset      any
	}{
		{"id", "public_id", nil},
		{"ID", "PublicID", 0},
		{"ID", "public_id", snowflakeplugin.ID(0)},
		{"id", "PublicID", ""},
		{"id", "public_id", (*snowflakeplugin.ID)(nil)},
		{"ID", "PublicID", uint64(0)},
	} {
		t.Run(fmt.Sprintf("%s %s %#v", key.id, key.public, key.unset), func(t *testing.T) {
			plainExec(t, db, "DELETE FROM documents WHERE id <> 77")
			maps := []map[string]any{
				{"Slug": "taken", key.id: key.unset, key.public: key.unset},
				{"Slug": "fresh", key.id: key.unset, key.public: key.unset},
			}
			succeed(t, db.Model(&document{}).Clauses(doNothing()).Create(maps))
			for _, m := range maps {
				checkMap[snowflakeplugin.ID](t, db, m, key.id,
					"SELECT id FROM documents WHERE slug = ?", m["Slug"])
				checkMap[snowflakeplugin.ID](t, db, m, key.public,
					"SELECT public_id FROM documents WHERE slug = ?", m["Slug"])
				wantInt(t, "the number of keys", len(m), 3)
			}
			if maps[0][key.id] != snowflakeplugin.ID(77) {
				t.Errorf("the map holds %v, want 77", maps[0][key.id])
			}
		})
	}
}

func mapsWithoutARow(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &badge{})
	plainExec(t, db, "CREATE UNIQUE INDEX badges_number ON badges (number)",
		"INSERT INTO badges (id, public_id, number) VALUES (77, 770, 'one')")
	for _, shape := range mapShapes {
		for _, was := range []map[string]any{
			{"number": "one"},
			{"number": "one", "ID": nil, "public_id": snowflakeplugin.ID(0)},
			{"number": "one", "id": 0, "PublicID": int64(0)},
		} {
			t.Run(fmt.Sprint(shape.name, " ", was), func(t *testing.T) {
				plainExec(t, db, "DELETE FROM badges WHERE id <> 77")
				met, fresh := map[string]any{}, map[string]any{"number": "two"}
				for key, value := range was {
					met[key] = value
				}
				succeed(t, db.Model(&badge{}).Clauses(doNothing()).
					Create(shape.of([]map[string]any{met, fresh})))
				if !reflect.DeepEqual(met, was) {
					t.Errorf("the map is %v, want %v as before", met, was)
				}
				if !shape.single {
					checkMap[snowflakeplugin.ID](t, db, fresh, "id", "SELECT id FROM badges WHERE number = 'two'")
					checkMap[snowflakeplugin.ID](t, db, fresh, "public_id",
						"SELECT public_id FROM badges WHERE number = 'two'")
				}
			})
		}
	}
}

func mapsThatFail(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &document{})
	plainExec(t, db, "INSERT INTO documents (id, public_id, slug) VALUES (77, 500, 'taken')")
	bare := map[string]any{"slug": "taken"}
	empty := map[string]any{"slug": "free", "ID": nil, "public_id": snowflakeplugin.ID(0)}
	given := map[string]any{"slug": "given", "id": snowflakeplugin.ID(5), "PublicID": int64(6)}
	if err := db.Model(&document{}).Create([]map[string]any{empty, given, bare}).Error; err == nil {
		t.Fatal("a taken slug was created")
	}
	for _, check := range []struct{ got, want map[string]any }{
		{bare, map[string]any{"slug": "taken"}},
		{empty, map[string]any{"slug": "free", "ID": nil, "public_id": snowflakeplugin.ID(0)}},
		{given, map[string]any{"slug": "given", "id": snowflakeplugin.ID(5), "PublicID": int64(6)}},
	} {
		if !reflect.DeepEqual(check.got, check.want) {
			t.Errorf("the map is %v, want %v as before", check.got, check.want)
		}
	}
	if err := db.Model(&document{}).Create(bare).Error; err == nil || len(bare) != 1 {
		t.Errorf("the map is %v after %v, want it as before", bare, err)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM documents"), 1)
	succeed(t, db.Model(&document{}).Create([]map[string]any{empty, given})) // the retry
	checkMap[snowflakeplugin.ID](t, db, empty, "ID", "SELECT id FROM documents WHERE slug = 'free'")
	checkMap[int64](t, db, given, "PublicID", "SELECT public_id FROM documents WHERE id = 5")
}

func mapsKeepStoredColumns(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &document{})
	for _, shape := range mapShapes {
		t.Run(shape.name, func(t *testing.T) {
			plainExec(t, db, "DELETE FROM documents",
				"INSERT INTO documents (id, public_id, slug, title) VALUES (77, 500, 'taken', 'old')")
			maps := []map[string]any{{"slug": "taken", "title": "new"}, {"slug": "fresh", "title": "x"}}
			succeed(t, db.Model(&document{}).Clauses(onSlug()).Create(shape.of(maps)))
			if shape.single {
				maps = maps[:1]
			}
			for _, m := range maps {
				checkMap[snowflakeplugin.ID](t, db, m, "id", "SELECT id FROM documents WHERE slug = ?", m["slug"])
				checkMap[snowflakeplugin.ID](t, db, m, "public_id",
					"SELECT public_id FROM documents WHERE slug = ?", m["slug"])
			}
			wantInt(t, "the public ID in the row",
				plainOne[int64](t, db, "SELECT public_id FROM documents WHERE id = 77"), 500)
			if title := plainOne[string](t, db, "SELECT title FROM documents WHERE id = 77"); title != "new" {
				t.Errorf("the title is %q, want the new one", title)
			}
		})
	}
}

func mapsWriteNamedColumns(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &document{})
	plainExec(t, db, "INSERT INTO documents (id, public_id, slug) VALUES (77, 500, 'taken')")
	conflict := clause.OnConflict{
		Columns: onColumn("slug"), DoUpdates: clause.AssignmentColumns([]string{"public_id"}),
	}
	maps := []map[string]any{{"slug": "taken"}, {"slug": "fresh"}}
	succeed(t, db.Model(&document{}).Clauses(conflict).Create(maps))
	for _, m := range maps {
		checkMap[snowflakeplugin.ID](t, db, m, "id", "SELECT id FROM documents WHERE slug = ?", m["slug"])
		checkMap[snowflakeplugin.ID](t, db, m, "public_id",
			"SELECT public_id FROM documents WHERE slug = ?", m["slug"])
	}
	if maps[0]["public_id"] == snowflakeplugin.ID(500) {
		t.Error("the public ID is still 500: what the user wrote did not happen")
	}
}

func mapsWriteGivenColumns(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &document{})
	plainExec(t, db, "INSERT INTO documents (id, public_id, slug) VALUES (77, 500, 'taken')")
	m := map[string]any{"slug": "taken", "public_id": int64(900)}
	succeed(t, db.Model(&document{}).Clauses(onSlug()).Create(m))
	checkMap[snowflakeplugin.ID](t, db, m, "id", "SELECT id FROM documents WHERE slug = 'taken'")
	checkMap[int64](t, db, m, "public_id", "SELECT public_id FROM documents WHERE slug = 'taken'")
	wantInt(t, "the public ID in the row", plainOne[int64](t, db, "SELECT public_id FROM documents"), 900)
}
