package fill_test

import (
	"fmt"
	"reflect"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// mapBehaviors test how maps are filled.
func mapBehaviors() []behavior {
	return []behavior{
		{
			Name: "a map is filled under the key that it has for the column, else under its name",
			Run:  inEveryMode(models(&account{}), mapKeysOfAllSpellings),
		},
		{
			Name: "a map is filled in every tagged column, with values of the fields' types",
			Run:  inEveryMode(models(&ticket{}), mapOfTwoColumns),
		},
		{
			Name: "slices of maps are filled with one reservation",
			Run:  slicesOfMaps,
		},
		{
			Name: "IDs that are set in maps stay",
			Run:  setIDsInMapsStay,
		},
		{
			Name: "a map that spells a tagged column twice is refused",
			Run:  twoSpellings,
		},
		{
			Name: "a nil map is refused, alone and among others",
			Run:  nilMaps,
		},
		{
			Name: "a map for a table without a model is not filled",
			Run:  mapWithoutModel,
		},
	}
}

func mapKeysOfAllSpellings(t *testing.T, db *gorm.DB) {
	unset := map[string]any{
		"nil": nil, "0": 0, "int64(0)": int64(0), "ID(0)": snowflakeplugin.ID(0),
		"a nil pointer": (*snowflakeplugin.ID)(nil),
	}
	rows := 0
	create := func(name, key string, m map[string]any, dest any) {
		t.Helper()
		rows++
		email := fmt.Sprint(rows, " ", name) // MariaDB treats ID and id as the same email
		m["email"] = email
		keys := len(m)
		if _, has := m[key]; !has {
			keys++
		}
		must(t, db.Model(&account{}).Create(dest).Error, "create "+name)
		id, is := m[key].(snowflakeplugin.ID)
		if !is || id == 0 || len(m) != keys {
			t.Fatalf("%s: the map is %v, want %d keys and an ID under %q", name, m, keys, key)
		}
		same(t, "the stored row", stored[account](t, db, id), account{ID: id, Email: email})
	}
	m := map[string]any{}
	create("no key", "id", m, m)
	m = map[string]any{}
	create("no key, by pointer", "id", m, &m)
	for _, key := range []string{"id", "ID", "Id"} {
		for value, zero := range unset {
			m := map[string]any{key: zero}
			create(key+" "+value, key, m, m)
			m = map[string]any{key: zero}
			create(key+" "+value+" by pointer", key, m, &m)
		}
	}
	holds(t, db, &account{}, int64(2+3*2*len(unset)))
}

func mapOfTwoColumns(t *testing.T, db *gorm.DB) {
	for title, m := range map[string]map[string]any{
		"no keys":     {},
		"field names": {"ID": 0, "PublicID": nil},
		"mixed":       {"id": nil, "PublicID": snowflakeplugin.ID(0)},
	} {
		m["Title"] = title
		must(t, db.Model(&ticket{}).Create(m).Error, "create "+title)
		same(t, title+": keys", len(m), 3)
		var got ticket
		for key, value := range m {
			switch key {
			case "id", "ID":
				got.ID, _ = value.(int64)
			case "public_id", "PublicID":
				got.PublicID, _ = value.(snowflakeplugin.ID)
			case "Title":
				got.Title = title
			}
		}
		ticketStored(t, db, got)
	}
	holds(t, db, &ticket{}, 3)
}

func slicesOfMaps(t *testing.T, target database) {
	db, numbers := openCounted(t, target, &account{}, &ticket{})
	maps := []map[string]any{
		{"email": "a"}, {"email": "b", "ID": 0}, {"Email": "c", "Id": nil}, {"email": "d", "id": 7},
	}
	must(t, db.Model(&account{}).Create(maps).Error, "create by value")
	same(t, "the reservations", fmt.Sprint(numbers.take()), "[3]")
	more := []map[string]any{{"email": "e"}, {"email": "f"}}
	must(t, db.Model(&account{}).Create(&more).Error, "create by pointer")
	same(t, "the reservations by pointer", fmt.Sprint(numbers.take()), "[2]")
	same(t, "maps by pointer afterwards", len(more), 2)

	for i, key := range []string{"id", "ID", "Id", "id", "id", "id"} {
		m := append(maps, more...)[i]
		id, _ := m[key].(snowflakeplugin.ID)
		if i == 3 {
			id = 7
		}
		email := string(rune('a' + i))
		same(t, "keys of map "+email, len(m), 2)
		same(t, "the row of map "+email, stored[account](t, db, id), account{ID: id, Email: email})
	}
	holds(t, db, &account{}, 6)

	// GORM would read an integer key back into the maps, with wrong values.
	tickets := []map[string]any{{"title": "a"}, {"title": "b", "id": 500}, {"title": "c", "public_id": 30}}
	must(t, db.Model(&ticket{}).Create(&tickets).Error, "create tickets")
	same(t, "maps of tickets afterwards", len(tickets), 3)
	for i, m := range tickets {
		same(t, "keys of a ticket", len(m), 3)
		v := ticket{Title: m["title"].(string)}
		v.ID, _ = m["id"].(int64)
		v.PublicID, _ = m["public_id"].(snowflakeplugin.ID)
		switch i {
		case 1:
			v.ID = 500
		case 2:
			v.PublicID = 30
		}
		ticketStored(t, db, v)
	}
}

func setIDsInMapsStay(t *testing.T, target database) {
	db, numbers := openCounted(t, target, &account{})
	for i, value := range []any{
		11, int64(12), uint64(13), snowflakeplugin.ID(14), pointerTo(snowflakeplugin.ID(15)), int8(16), "17",
		gorm.Expr("10 + 8"),
	} {
		want := snowflakeplugin.ID(11 + i)
		m := map[string]any{"ID": value, "email": fmt.Sprint(want)}
		must(t, db.Model(&account{}).Create(m).Error, fmt.Sprintf("create %T", value))
		if want := (map[string]any{"ID": value, "email": fmt.Sprint(want)}); !reflect.DeepEqual(m, want) {
			t.Errorf("the map is %v, want %v", m, want)
		}
		same(t, "the row", stored[account](t, db, want), account{ID: want, Email: fmt.Sprint(want)})
	}
	same(t, "numbers taken", len(numbers.take()), 0)
}

// openMaps returns a database for maps that must not lead to an INSERT.
func openMaps(t *testing.T, target database) (*gorm.DB, *dbtest.Recorder) {
	t.Helper()
	db := open(t, target, nil, &account{})
	return watch(db)
}

// nothingInserted fails the test if there is a row or if an INSERT was sent.
func nothingInserted(t *testing.T, db *gorm.DB, recorder *dbtest.Recorder) {
	t.Helper()
	if sent := recorder.Inserts(); len(sent) > 0 {
		t.Errorf("INSERTs were sent: %q", sent)
	}
	holds(t, db, &account{}, 0)
}

func twoSpellings(t *testing.T, target database) {
	db, recorder := openMaps(t, target)
	newMaps := func() []map[string]any {
		return []map[string]any{{"email": "a"}, {"id": 5, "ID": 6, "email": "b"}}
	}
	maps := newMaps()
	for name, dest := range map[string]any{"one": maps[1], "a slice": maps, "a pointer": &maps} {
		err := db.Model(&account{}).Create(dest).Error
		wantErr(t, err, gorm.ErrInvalidData, "create "+name)
		says(t, err, "Account", "id")
	}
	if want := newMaps(); !reflect.DeepEqual(maps, want) {
		t.Errorf("the maps are %v, want %v", maps, want)
	}
	nothingInserted(t, db, recorder)
}

func nilMaps(t *testing.T, target database) {
	db, recorder := openMaps(t, target)
	var none map[string]any
	maps := []map[string]any{{"email": "a"}, nil, {"email": "c", "id": 5}}
	for name, dest := range map[string]any{
		"nil": none, "a pointer to nil": &none, "nil among others": maps, "the same by pointer": &maps,
	} {
		err := db.Model(&account{}).Create(dest).Error
		wantErr(t, err, gorm.ErrInvalidData, "create "+name)
		says(t, err, "Account", "nil")
	}
	wantErr(t, db.Model(&account{}).CreateInBatches(maps, 2).Error, gorm.ErrInvalidData, "create in batches")
	want := []map[string]any{{"email": "a"}, nil, {"email": "c", "id": 5}}
	if !reflect.DeepEqual(maps, want) {
		t.Errorf("the maps are %v, want %v", maps, want)
	}
	nothingInserted(t, db, recorder)
}

func mapWithoutModel(t *testing.T, target database) {
	db, numbers := openCounted(t, target, &account{})
	// There is no struct, so nothing says which column needs an ID.
	m := map[string]any{"id": 5, "email": "a"}
	must(t, db.Table("accounts").Create(m).Error, "create with an ID")
	same(t, "the row", stored[account](t, db, 5), account{ID: 5, Email: "a"})
	bare := map[string]any{"email": "b"}
	_ = db.Table("accounts").Create(bare) // the database decides whether this fails
	if bare["id"] != nil || bare["ID"] != nil {
		t.Errorf("the map is %v", bare)
	}
	same(t, "numbers taken", len(numbers.take()), 0)
}
