package statements_test

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestKinds(t *testing.T) { run(t, kindBehaviors()) }

// kindBehaviors test the types that can hold an ID, and queries by such IDs.
func kindBehaviors() []behavior {
	return append([]behavior{
		{Name: "every kind of field is filled and read back", Everywhere: true, Run: kindsReadBack},
		{Name: "every kind of field keeps what the user set", Run: kindsKeepWhatIsSet},
		{Name: "a pointer to zero and a valid zero count as set", Run: kindsWithSetZeros},
		{Name: "a field that cannot hold an ID is refused by model and name", Run: kindsRefused},
		{Name: "all refused fields of a model are named at once", Run: kindsRefusedTogether},
		{Name: "a model below another is refused with the whole tree", Run: kindsRefusedBelow},
		{Name: "a tag that says no leaves the field alone", Run: kindsNotTagged},
	}, queryBehaviors()...)
}

// serial is an integer type defined by the application.
type serial int64

// everyKind has every kind of field that can hold an ID.
type everyKind struct {
	ID         snowflakeplugin.ID           `gorm:"primaryKey" snowflake:"true"`
	Slug       string                       `gorm:"size:100;uniqueIndex"`
	Whole      int64                        `snowflake:"true"`
	Counted    uint64                       `snowflake:"true"`
	Serial     serial                       `snowflake:"true"`
	Words      string                       `gorm:"size:20" snowflake:"true"`
	Octets     []byte                       `gorm:"size:8" snowflake:"true"`
	Ptr        *snowflakeplugin.ID          `snowflake:"true"`
	PtrWhole   *int64                       `snowflake:"true"`
	PtrWords   *string                      `gorm:"size:20" snowflake:"true"`
	Maybe      sql.Null[snowflakeplugin.ID] `snowflake:"true"`
	MaybeWhole sql.NullInt64                `snowflake:"true"`
	MaybeWords sql.NullString               `gorm:"size:20" snowflake:"true"`
	Defaulted  int64                        `gorm:"default:0" snowflake:"true"`
}

// kindColumns are the columns other than the key, in the order of kindIDs.
var kindColumns = []string{"whole", "counted", "serial", "words", "octets", "ptr", "ptr_whole",
	"ptr_words", "maybe", "maybe_whole", "maybe_words", "defaulted"}

// kindIDs returns the IDs other than the key, or 0 for a missing ID.
func kindIDs(k everyKind) []int64 {
	ids := []int64{k.Whole, int64(k.Counted), int64(k.Serial), digits(k.Words), octets(k.Octets),
		0, 0, 0, int64(k.Maybe.V), k.MaybeWhole.Int64, digits(k.MaybeWords.String), k.Defaulted}
	if k.Ptr != nil {
		ids[5] = int64(*k.Ptr)
	}
	if k.PtrWhole != nil {
		ids[6] = *k.PtrWhole
	}
	if k.PtrWords != nil {
		ids[7] = digits(*k.PtrWords)
	}
	return ids
}

// digits parses an ID in decimal. It returns -1 for other text.
func digits(text string) int64 {
	if text == "" {
		return 0
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != text {
		return -1
	}
	return id
}

// octets parses an ID of eight bytes. It returns -1 for other values.
func octets(raw []byte) int64 {
	switch len(raw) {
	case 0:
		return 0
	case 8:
		return int64(binary.BigEndian.Uint64(raw))
	}
	return -1
}

// checkKinds compares the struct with its row column by column.
func checkKinds(t *testing.T, db *gorm.DB, k everyKind) {
	t.Helper()
	wantStored(t, db, k.ID, "SELECT id FROM every_kinds WHERE slug = ?", k.Slug)
	for i, id := range kindIDs(k) {
		query := "SELECT " + kindColumns[i] + " FROM every_kinds WHERE slug = ?"
		var stored int64
		switch kindColumns[i] {
		case "words", "ptr_words", "maybe_words":
			stored = digits(plainOne[sql.NullString](t, db, query, k.Slug).String)
		case "octets":
			stored = octets(plainOne[[]byte](t, db, query, k.Slug))
		default:
			stored = plainNull(t, db, query, k.Slug).Int64
		}
		wantInt(t, kindColumns[i]+" of "+k.Slug, id, stored)
	}
}

func kindsReadBack(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &everyKind{})
	all := []everyKind{{Slug: "one"}, {Slug: "two"}}
	succeed(t, db.Create(&all))
	var ids []int64
	for _, k := range all {
		checkKinds(t, db, k)
		ids = append(append(ids, int64(k.ID)), kindIDs(k)...)
		var read everyKind
		succeed(t, db.First(&read, "slug = ?", k.Slug))
		wantInt(t, "the ID that GORM reads", read.ID, k.ID)
		if !slices.Equal(kindIDs(read), kindIDs(k)) {
			t.Errorf("GORM reads %d, want %d", kindIDs(read), kindIDs(k))
		}
	}
	slices.Sort(ids)
	if ids[0] <= 0 || len(slices.Compact(ids)) != 2*(1+len(kindColumns)) {
		t.Errorf("IDs are %d, want %d different ones", ids, 2*(1+len(kindColumns)))
	}
}

func kindsKeepWhatIsSet(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &everyKind{})
	k := everyKind{ID: 1, Slug: "set", Whole: 2, Counted: 3, Serial: 4, Words: "5",
		Octets: []byte{0, 0, 0, 0, 0, 0, 0, 6}, Ptr: pointerTo(snowflakeplugin.ID(7)),
		PtrWhole: pointerTo[int64](8), PtrWords: pointerTo("9"),
		Maybe:      sql.Null[snowflakeplugin.ID]{V: 10, Valid: true},
		MaybeWhole: sql.NullInt64{Int64: 11, Valid: true},
		MaybeWords: sql.NullString{String: "12", Valid: true}, Defaulted: 13}
	succeed(t, db.Create(&k))
	wantInt(t, "the key", k.ID, 1)
	for i, id := range kindIDs(k) {
		wantInt(t, kindColumns[i], id, i+2)
	}
	checkKinds(t, db, k)
}

func kindsWithSetZeros(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &everyKind{})
	k := everyKind{Slug: "zeros", Ptr: new(snowflakeplugin.ID), PtrWhole: new(int64), PtrWords: new(string),
		Maybe:      sql.Null[snowflakeplugin.ID]{Valid: true},
		MaybeWhole: sql.NullInt64{Valid: true}, MaybeWords: sql.NullString{Valid: true}}
	succeed(t, db.Create(&k))
	for _, column := range []string{"ptr", "ptr_whole", "maybe", "maybe_whole"} {
		stored := plainNull(t, db, "SELECT "+column+" FROM every_kinds")
		if !stored.Valid || stored.Int64 != 0 {
			t.Errorf("%s is stored as %v, want the zero that was set", column, stored)
		}
	}
	for _, column := range []string{"ptr_words", "maybe_words"} {
		stored := plainOne[sql.NullString](t, db, "SELECT "+column+" FROM every_kinds")
		if !stored.Valid || stored.String != "" {
			t.Errorf("%s is stored as %v, want the empty text that was set", column, stored)
		}
	}
	checkKinds(t, db, k)
}

type (
	// coded has a code of the type C.
	coded[C any] struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Code C                  `snowflake:"true"`
	}
	codedShortText struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Code string             `gorm:"size:10" snowflake:"true"`
	}
	codedShortBytes struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Code []byte             `gorm:"size:4" snowflake:"true"`
	}
	codedShortInt struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Code int64              `gorm:"size:32" snowflake:"true"`
	}
	codedSerialized struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Code int64              `gorm:"serializer:json" snowflake:"true"`
	}
	codedYes struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Code int64              `snowflake:"yes"`
	}
	codedEmpty struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Code int64              `snowflake:""`
	}
	codedKey struct {
		Code int32 `gorm:"primaryKey;autoIncrement:false" snowflake:"true"`
	}
)

var refusedModels = map[string]any{
	"int8":              &coded[int8]{},
	"int16":             &coded[int16]{},
	"int32":             &coded[int32]{},
	"*int32":            &coded[*int32]{},
	"uint8":             &coded[uint8]{},
	"uint32":            &coded[uint32]{},
	"float32":           &coded[float32]{},
	"float64":           &coded[float64]{},
	"*float64":          &coded[*float64]{},
	"bool":              &coded[bool]{},
	"time.Time":         &coded[time.Time]{},
	"sql.NullFloat64":   &coded[sql.NullFloat64]{},
	"sql.Null[float64]": &coded[sql.Null[float64]]{},
	"sql.NullInt16":     &coded[sql.NullInt16]{},
	"sql.NullInt32":     &coded[sql.NullInt32]{},
	"sql.Null[int32]":   &coded[sql.Null[int32]]{},
	"sql.NullBool":      &coded[sql.NullBool]{},
	"sql.NullTime":      &coded[sql.NullTime]{},
	"a short text":      &codedShortText{},
	"short bytes":       &codedShortBytes{},
	"a short int64":     &codedShortInt{},
	"a serializer":      &codedSerialized{},
	"a tag of yes":      &codedYes{},
	"an empty tag":      &codedEmpty{},
	"a key of int32":    &codedKey{},
}

// openCodes creates a table for coded models, because these models are not migrated.
func openCodes(t *testing.T, target dbtest.Target) (*gorm.DB, *snowflakeplugin.Plugin) {
	t.Helper()
	db, plugin := open(t, target, nil)
	plainExec(t, db, "CREATE TABLE codes (id BIGINT, code VARCHAR(100))",
		"CREATE TABLE coded_parents (id BIGINT PRIMARY KEY)")
	return db, plugin
}

func kindsRefused(t *testing.T, target dbtest.Target) {
	db, plugin := openCodes(t, target)
	for name, model := range refusedModels {
		t.Run(name, func(t *testing.T) {
			codes := db.Table("codes")
			for what, err := range map[string]error{
				"Prepare":           plugin.Prepare(db, model),
				"Create":            codes.Session(&gorm.Session{}).Create(model).Error,
				"another Create":    codes.Session(&gorm.Session{}).Create(model).Error,
				"Create of a map":   codes.Session(&gorm.Session{}).Model(model).Create(map[string]any{"code": "1"}).Error,
				"Create of a batch": codes.Session(&gorm.Session{}).Model(model).Create(&[]map[string]any{{}, {}}).Error,
			} {
				if !errors.Is(err, snowflakeplugin.ErrInvalidField) {
					t.Errorf("%s: error is %v, want ErrInvalidField", what, err)
				} else if text := err.Error(); !strings.Contains(text, "coded") || !strings.Contains(text, ".Code") {
					t.Errorf("%s: %q names no model and field", what, text)
				}
			}
		})
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM codes"), 0)
}

// codedTwice has two faulty fields with a valid field between them.
type codedTwice struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Code  int32              `snowflake:"true"`
	Right int64              `snowflake:"true"`
	Other int64              `snowflake:"si"`
}

func kindsRefusedTogether(t *testing.T, target dbtest.Target) {
	db, plugin := openCodes(t, target)
	for what, err := range map[string]error{
		"Prepare": plugin.Prepare(db, &codedTwice{}, &codedYes{}),
		"Create":  db.Table("codes").Create(&codedTwice{}).Error,
	} {
		if err == nil {
			t.Fatalf("%s succeeded", what)
		}
		text := err.Error()
		for _, want := range []string{"codedTwice.Code", "int32", "codedTwice.Other", `"si"`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q does not name %s", what, text, want)
			}
		}
		if strings.Contains(text, "Right") {
			t.Errorf("%s: %q names a field that is in order", what, text)
		}
		if what == "Prepare" && !strings.Contains(text, "codedYes.Code") {
			t.Errorf("%s: %q does not name the fault of the second model", what, text)
		}
	}
}

type (
	codedParent struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Children []codedChild       `gorm:"foreignKey:ParentID"`
	}
	codedChild struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		ParentID snowflakeplugin.ID
		Code     float64 `snowflake:"true"`
	}
)

func (codedChild) TableName() string { return "codes" }

func kindsRefusedBelow(t *testing.T, target dbtest.Target) {
	db, _ := openCodes(t, target)
	parent := codedParent{Children: []codedChild{{}}}
	err := db.Create(&parent).Error
	if !errors.Is(err, snowflakeplugin.ErrInvalidField) || !strings.Contains(err.Error(), "codedChild.Code") {
		t.Errorf("error is %v, want ErrInvalidField of codedChild.Code", err)
	}
	if parent.ID != 0 || parent.Children[0].ID != 0 {
		t.Errorf("%+v kept an ID", parent)
	}
	wantInt(t, "the number of parents", plainOne[int64](t, db, "SELECT count(*) FROM coded_parents"), 0)
	wantInt(t, "the number of children", plainOne[int64](t, db, "SELECT count(*) FROM codes"), 0)
}

// untaggedKinds writes false in every way that a boolean can be written.
type untaggedKinds struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"1"`
	Small  int32              `snowflake:"false"`
	Real   float64            `snowflake:"0"`
	Absent int64
	Other  snowflakeplugin.ID `snowflake:"F"`
}

func kindsNotTagged(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &untaggedKinds{})
	u := untaggedKinds{}
	succeed(t, db.Create(&u))
	wantStored(t, db, u.ID, "SELECT id FROM untagged_kinds")
	if u != (untaggedKinds{ID: u.ID}) {
		t.Errorf("%+v, want nothing but the key", u)
	}
	wantInt(t, "the row with zeros", plainOne[int64](t, db, "SELECT count(*) FROM untagged_kinds "+
		"WHERE small = 0 AND absent = 0 AND other = 0"), 1)
}
