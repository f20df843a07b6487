package statements_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// mapEdgeBehaviors test unusual maps and refused maps.
func mapEdgeBehaviors() []behavior {
	return []behavior{
		{Name: "a map that spells a column twice is refused", Run: mapsSpelledTwice},
		{Name: "a nil map in an upsert is refused", Run: mapsThatAreNil},
		{Name: "maps are filled in every kind of field", Run: mapsOfEveryKind},
		{Name: "maps are loaded with IDs of every kind", Run: mapsLoadEveryKind},
		{Name: "a key that only the database can work out leaves the stored ID or nothing",
			Run: mapsWithExpressions},
		{Name: "a NULL key, a second key and a dead row are met as by structs", Run: mapsOnOddKeys},
		{Name: "maps beside a key that the database gives", Run: mapsBesideADatabaseKey},
		{Name: "a user's own Returning into a map ends with the stored ID", Run: mapsReturning},
		{Name: "a dry run gives a map its ID and writes nothing", Run: mapsRunDry},
	}
}

func mapsInBatches(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByInt{})
	plainExec(t, db, "INSERT INTO member_by_ints (id, email) VALUES (77, 'mail 1'), (78, 'mail 4')")
	for name, create := range map[string]func(tx *gorm.DB, maps *[]map[string]any) *gorm.DB{
		"CreateInBatches": func(tx *gorm.DB, maps *[]map[string]any) *gorm.DB {
			return tx.CreateInBatches(maps, 2)
		},
		"CreateInBatches by value": func(tx *gorm.DB, maps *[]map[string]any) *gorm.DB {
			return tx.CreateInBatches(*maps, 2)
		},
		"CreateBatchSize": func(tx *gorm.DB, maps *[]map[string]any) *gorm.DB {
			return tx.Session(&gorm.Session{CreateBatchSize: 2}).Create(maps)
		},
	} {
		t.Run(name, func(t *testing.T) {
			plainExec(t, db, "DELETE FROM member_by_ints WHERE id > 78")
			var maps []map[string]any
			for i := range 5 {
				maps = append(maps, map[string]any{"email": fmt.Sprint("mail ", i)})
			}
			succeed(t, create(db.Model(&memberByInt{}).Clauses(doNothing()), &maps))
			wantInt(t, "the number of maps", len(maps), 5)
			for _, m := range maps {
				checkMap[int64](t, db, m, "id", "SELECT id FROM member_by_ints WHERE email = ?", m["email"])
			}
			wantInt(t, "the number of rows",
				plainOne[int64](t, db, "SELECT count(*) FROM member_by_ints"), 5)
		})
	}
}

func mapsOfDifferentKeys(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	plainExec(t, db, "INSERT INTO member_by_ids (id, email) VALUES (77, 'alice')")
	maps := []map[string]any{
		{"email": "alice", "name": "new"},
		{"Email": "bob", "id": snowflakeplugin.ID(5)},
		{"email": "carol", "ID": 0, "Name": "new"},
		{"email": "dave", "ID": snowflakeplugin.ID(6)},
	}
	succeed(t, db.Model(&memberByID{}).Clauses(doNothing()).Create(&maps))
	for i, key := range []string{"id", "id", "ID", "ID"} {
		email := maps[i]["email"]
		if i == 1 {
			email = "bob"
		}
		checkMap[snowflakeplugin.ID](t, db, maps[i], key,
			"SELECT id FROM member_by_ids WHERE email = ?", email)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 4)
}

// mapsWithSetIDs sets IDs that are not consecutive. Values that a database derives from the first
// or the last ID must not get into the maps.
func mapsWithSetIDs(t *testing.T, target dbtest.Target) {
	for name, unprepared := range map[string]bool{"prepared": false, "without Prepare": true} {
		for _, shape := range mapShapes {
			t.Run(name+" "+shape.name, func(t *testing.T) {
				db := openAs(t, target, opening{unprepared: unprepared}, &memberByInt{})
				maps := []map[string]any{
					{"ID": int64(10), "email": "a"}, {"id": int64(500), "email": "b"},
					{"ID": int64(30), "email": "c"}, {"email": "d"},
				}
				dest := shape.of(maps)
				succeed(t, db.Model(&memberByInt{}).Create(dest))
				if all, ok := dest.(*[]map[string]any); ok {
					wantInt(t, "the number of maps", len(*all), 4)
				}
				if shape.single {
					maps = maps[:1]
				}
				for i, key := range []string{"ID", "id", "ID", "id"}[:len(maps)] {
					checkMap[int64](t, db, maps[i], key,
						"SELECT id FROM member_by_ints WHERE email = ?", maps[i]["email"])
				}
				wantInt(t, "the first ID", plainOne[int64](t, db,
					"SELECT id FROM member_by_ints WHERE email = 'a'"), 10)
				wantInt(t, "the number of rows",
					plainOne[int64](t, db, "SELECT count(*) FROM member_by_ints"), len(maps))
			})
		}
	}
}

func mapsSpelledTwice(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &document{})
	for _, twice := range []map[string]any{
		{"id": snowflakeplugin.ID(1), "ID": snowflakeplugin.ID(2), "slug": "a"},
		{"id": nil, "ID": snowflakeplugin.ID(2), "slug": "a"},
		{"public_id": nil, "PublicID": nil, "slug": "a"},
	} {
		before := fmt.Sprint(twice)
		for _, shape := range mapShapes {
			for _, tx := range []*gorm.DB{db.Model(&document{}), db.Model(&document{}).Clauses(doNothing())} {
				dest := []map[string]any{twice, {"slug": "b"}}
				err := tx.Create(shape.of(dest)).Error
				if !errors.Is(err, gorm.ErrInvalidData) {
					t.Fatalf("%s %v: error is %v, want gorm.ErrInvalidData", shape.name, twice, err)
				}
				column := "id"
				if _, ok := twice["public_id"]; ok {
					column = "public_id"
				}
				if !strings.Contains(err.Error(), "document") || !strings.Contains(err.Error(), column) {
					t.Errorf("%q names no model and column", err)
				}
				if fmt.Sprint(twice) != before || len(dest[1]) != 1 {
					t.Errorf("the maps are %v, want them as before", dest)
				}
			}
		}
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM documents"), 0)
}

func mapsThatAreNil(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	for _, maps := range [][]map[string]any{{nil}, {nil, {"email": "a"}}} {
		for _, shape := range mapShapes {
			err := db.Model(&memberByID{}).Clauses(doNothing()).Create(shape.of(maps)).Error
			if !errors.Is(err, gorm.ErrInvalidData) {
				t.Errorf("%s: error is %v, want gorm.ErrInvalidData", shape.name, err)
			}
		}
		if len(maps) > 1 && len(maps[1]) != 1 {
			t.Errorf("the map beside the nil one is %v", maps[1])
		}
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 0)
}

// kindFromMap returns the struct that corresponds to a map of everyKind, and checks the types of
// the values.
func kindFromMap(t *testing.T, m map[string]any) (k everyKind) {
	t.Helper()
	k.Slug = m["slug"].(string)
	k.ID = m["id"].(snowflakeplugin.ID)
	k.Whole, _ = m["whole"].(int64)
	k.Counted, _ = m["counted"].(uint64)
	k.Serial, _ = m["serial"].(serial)
	k.Words, _ = m["words"].(string)
	k.Octets, _ = m["octets"].([]byte)
	k.Defaulted, _ = m["defaulted"].(int64)
	if id, ok := m["ptr"].(snowflakeplugin.ID); ok {
		k.Ptr = &id
	}
	if id, ok := m["ptr_whole"].(int64); ok {
		k.PtrWhole = &id
	}
	if text, ok := m["ptr_words"].(string); ok {
		k.PtrWords = &text
	}
	k.Maybe.V, k.Maybe.Valid = m["maybe"].(snowflakeplugin.ID)
	// For a wrapper of another type, only its number is guaranteed.
	k.MaybeWhole.Int64 = digits(text(m["maybe_whole"]))
	k.MaybeWords.String = text(m["maybe_words"])
	return k
}

// text formats a value of a map, and nil as empty text.
func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func mapsOfEveryKind(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &everyKind{})
	maps := []map[string]any{{"slug": "one"}, {"slug": "two"}}
	succeed(t, db.Model(&everyKind{}).Create(maps))
	seen := map[int64]bool{}
	for _, m := range maps {
		k := kindFromMap(t, m)
		checkKinds(t, db, k)
		for i, id := range append(kindIDs(k), int64(k.ID)) {
			if id <= 0 || seen[id] {
				t.Errorf("column %d of %s has the ID %d: %v", i, k.Slug, id, m)
			}
			seen[id] = true
		}
		wantInt(t, "the number of keys", len(m), 2+len(kindColumns))
	}
}

func mapsLoadEveryKind(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &everyKind{})
	old := everyKind{Slug: "full"}
	succeed(t, db.Create(&old))
	plainExec(t, db, "INSERT INTO every_kinds (id, slug, defaulted) VALUES (77, 'empty', 0)")
	for _, c := range []clause.OnConflict{doNothing(), onSlug()} {
		maps := []map[string]any{{"slug": "empty"}, {"slug": "fresh"}, {"slug": "full"}}
		succeed(t, db.Model(&everyKind{}).Clauses(c).Create(maps))
		for _, m := range maps {
			checkKinds(t, db, kindFromMap(t, m))
		}
		if full := kindFromMap(t, maps[2]); full.ID != old.ID || !reflect.DeepEqual(kindIDs(full), kindIDs(old)) {
			t.Errorf("the map holds %v, want the IDs of %+v", maps[2], old)
		}
		for i, id := range kindIDs(kindFromMap(t, maps[0])) {
			wantInt(t, kindColumns[i]+" of the row that has none", id, 0)
		}
		plainExec(t, db, "DELETE FROM every_kinds WHERE slug = 'fresh'")
	}
}

func mapsWithExpressions(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	plainExec(t, db, "INSERT INTO member_by_ids (id, email) VALUES (77, 'alice')")
	met := map[string]any{"email": gorm.Expr("lower(?)", "ALICE")}
	succeed(t, db.Model(&memberByID{}).Clauses(doNothing()).Create(met))
	if id := met["id"]; id != nil && id != snowflakeplugin.ID(77) {
		t.Errorf("the map holds %v, which is no row's", id)
	}
	fresh := []map[string]any{{"email": gorm.Expr("lower(?)", "BOB")}, {"email": "alice"}}
	succeed(t, db.Model(&memberByID{}).Clauses(doNothing()).Create(fresh))
	checkMap[snowflakeplugin.ID](t, db, fresh[0], "id", "SELECT id FROM member_by_ids WHERE email = 'bob'")
	checkMap[snowflakeplugin.ID](t, db, fresh[1], "id", "SELECT id FROM member_by_ids WHERE email = 'alice'")

	own := map[string]any{"id": gorm.Expr("5 + 1"), "email": "carol"}
	succeed(t, db.Model(&memberByID{}).Clauses(doNothing()).Create(own))
	wantInt(t, "an ID that the user lets the database work out", plainOne[int64](t, db,
		"SELECT id FROM member_by_ids WHERE email = 'carol'"), 6)
}

func mapsOnOddKeys(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &contact{}, &mailbox{})
	plainExec(t, db, "INSERT INTO contacts (id, email, phone) VALUES (71, 'alice', '1'), (72, 'bob', NULL)",
		"INSERT INTO mailboxes (id, address, deleted_at) VALUES (77, 'dead', '2020-01-01 00:00:00')")
	maps := []map[string]any{
		{"email": "moved", "phone": "1"}, {"email": "carol", "phone": nil},
		{"Email": "bob", "Phone": (*string)(nil)},
	}
	succeed(t, db.Model(&contact{}).Clauses(doNothing()).Create(maps))
	checkMap[snowflakeplugin.ID](t, db, maps[0], "id", "SELECT id FROM contacts WHERE phone = '1'")
	checkMap[snowflakeplugin.ID](t, db, maps[1], "id", "SELECT id FROM contacts WHERE email = 'carol'")
	checkMap[snowflakeplugin.ID](t, db, maps[2], "id", "SELECT id FROM contacts WHERE email = 'bob'")
	dead := map[string]any{"address": "dead"}
	succeed(t, db.Model(&mailbox{}).Clauses(doNothing()).Create(dead))
	checkMap[snowflakeplugin.ID](t, db, dead, "id", "SELECT id FROM mailboxes WHERE address = 'dead'")
}

func mapsBesideADatabaseKey(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &customer{})
	for _, c := range upsertClauses {
		plainExec(t, db, "DELETE FROM customers",
			"INSERT INTO customers (public_id, email) VALUES (500, 'alice')")
		for _, email := range []string{"alice", "bob"} {
			m := map[string]any{"email": email}
			succeed(t, db.Model(&customer{}).Clauses(c.clause).Create(m))
			checkMap[snowflakeplugin.ID](t, db, m, "public_id",
				"SELECT public_id FROM customers WHERE email = ?", email)
		}
	}
}

func mapsReturning(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	plainExec(t, db, "INSERT INTO member_by_ids (id, email, name) VALUES (77, 'alice', 'old')")
	check := func(m map[string]any) {
		t.Helper()
		id := reflect.ValueOf(m["id"])
		if !id.IsValid() || !id.CanInt() {
			t.Errorf("the map %v has no ID", m)
			return
		}
		wantStored(t, db, id.Int(), "SELECT id FROM member_by_ids WHERE email = ?", m["email"])
	}
	for _, c := range upsertClauses {
		tx := db.Model(&memberByID{}).Clauses(clause.Returning{}, c.clause).Session(&gorm.Session{})
		for _, email := range []string{"alice", c.name} {
			m := map[string]any{"email": email, "name": "new"}
			succeed(t, tx.Create(m))
			check(m)
		}
		// GORM appends the returned rows to a slice, or fails on it.
		maps := []map[string]any{{"email": "alice", "name": "new"}, {"email": "fresh " + c.name}}
		given := maps[:2:2]
		if err := tx.Create(&maps).Error; err != nil {
			for _, m := range given {
				if id, ok := m["id"]; ok && id != snowflakeplugin.ID(77) {
					t.Errorf("the map holds %v after %v", id, err)
				}
			}
			continue
		}
		for _, m := range append(given, maps...) {
			check(m)
		}
	}
}

func mapsRunDry(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	m := map[string]any{"email": "alice"}
	succeed(t, db.Session(&gorm.Session{DryRun: true}).Model(&memberByID{}).Clauses(onEmail()).Create(m))
	if id, ok := m["id"].(snowflakeplugin.ID); !ok || id == 0 {
		t.Errorf("the map is %v, want an ID in it", m)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 0)
}
