package filling_test

import (
	"reflect"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// embeddingBehaviors test which fields of embedded structs are filled.
func embeddingBehaviors() []behavior {
	return []behavior{
		{
			Name: "embedded keys are filled, by value and by pointer, one level down and two",
			Run:  embeddedKeys,
		},
		{
			Name: "embedded structs with prefixes are filled each on its own",
			Run:  prefixedStructs,
		},
		{
			Name: "an embedded nil pointer without a key stays nil",
			Run:  embeddedNil,
		},
		{
			Name: "composite keys are filled where they carry the tag",
			Run:  compositeKeys,
		},
		{
			Name: "shadowed, excluded and unexported fields are left alone",
			Run:  hiddenFields,
		},
		{
			Name: "the package's own Model works as gorm.Model does",
			Run:  ownModel,
		},
	}
}

// These structs are embedded below: a key, a key with another tagged field, and a key one level
// deeper.
type (
	KeyBase struct {
		ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	}
	TwoKeyBase struct {
		ID       int64              `gorm:"primaryKey" snowflake:"true"`
		PublicID snowflakeplugin.ID `gorm:"index" snowflake:"true"`
	}
	DeepBase struct {
		*KeyBase
		Note string `gorm:"size:50"`
	}
	DeepTwoBase struct {
		*TwoKeyBase
		Deep snowflakeplugin.ID `gorm:"index" snowflake:"true"`
	}

	embedsValue struct {
		KeyBase
		Name string `gorm:"size:50"`
	}
	embedsPointer struct {
		*KeyBase
		Name string `gorm:"size:50"`
	}
	embedsTwo struct {
		Name string `gorm:"size:50"`
		*TwoKeyBase
	}
	embedsTwoNil struct {
		*DeepTwoBase
		Name string `gorm:"size:50"`
	}
	embedsDeep struct {
		Name string `gorm:"size:50"`
		*DeepBase
	}
	embedsNamed struct {
		Name string  `gorm:"size:50"`
		Base KeyBase `gorm:"embedded"`
	}
)

// filledAndStored creates a struct and slices of it. It fails the test unless all IDs that ids
// lists are set and the rows equal the structs.
func filledAndStored[T any](t *testing.T, db *gorm.DB, newRow func() T, ids func(T) []int64) {
	t.Helper()
	one, list := newRow(), []T{newRow(), newRow()}
	refs := []*T{new(T), new(T)}
	*refs[0], *refs[1] = newRow(), newRow()
	must(t, db.Create(&one).Error, "create a struct")
	must(t, db.Create(&list).Error, "create a slice")
	must(t, db.Create(refs).Error, "create pointers")
	seen := map[int64]bool{0: true}
	for _, row := range append(list, one, *refs[0], *refs[1]) {
		for _, id := range ids(row) {
			if seen[id] {
				t.Errorf("%T: ID %d is 0 or there twice", row, id)
			}
			seen[id] = true
		}
		if got := stored[T](t, db, ids(row)[0]); !reflect.DeepEqual(got, row) {
			t.Errorf("the stored row is %+v, want %+v", got, row)
		}
	}
	holds(t, db, new(T), 5)
}

func embeddedKeys(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &embedsValue{}, &embedsPointer{}, &embedsTwo{}, &embedsDeep{}, &embedsNamed{},
		&embedsTwoNil{})
	filledAndStored(t, db, func() embedsValue { return embedsValue{Name: "value"} },
		func(v embedsValue) []int64 { return []int64{v.ID.Int64()} })
	filledAndStored(t, db, func() embedsPointer { return embedsPointer{Name: "nil pointer"} },
		func(v embedsPointer) []int64 { return []int64{v.ID.Int64()} })
	filledAndStored(t, db, func() embedsTwo { return embedsTwo{Name: "pointer", TwoKeyBase: &TwoKeyBase{}} },
		func(v embedsTwo) []int64 { return []int64{v.ID, v.PublicID.Int64()} })
	filledAndStored(t, db, func() embedsTwoNil { return embedsTwoNil{Name: "nil pointers"} },
		func(v embedsTwoNil) []int64 { return []int64{v.ID, v.PublicID.Int64(), v.Deep.Int64()} })
	filledAndStored(t, db, func() embedsDeep { return embedsDeep{Name: "nil pointers"} },
		func(v embedsDeep) []int64 { return []int64{v.ID.Int64()} })
	filledAndStored(t, db, func() embedsNamed { return embedsNamed{Name: "named"} },
		func(v embedsNamed) []int64 { return []int64{v.Base.ID.Int64()} })

	given := embedsPointer{KeyBase: &KeyBase{ID: 5}, Name: "given"}
	must(t, db.Create(&given).Error, "create with an ID of one's own")
	same(t, "the ID", given.ID, 5)
	same(t, "the stored name", stored[embedsPointer](t, db, 5).Name, "given")
}

// stamp is embedded twice with different prefixes.
type (
	stamp struct {
		Number snowflakeplugin.ID `snowflake:"true"`
		Text   string             `gorm:"size:50"`
	}
	letter struct {
		KeyBase `gorm:"embeddedPrefix:letter_"`
		From    stamp  `gorm:"embedded;embeddedPrefix:from_"`
		To      *stamp `gorm:"embedded;embeddedPrefix:to_"`
	}
)

func prefixedStructs(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &letter{})
	list := []letter{
		{From: stamp{Text: "from"}, To: &stamp{Text: "to"}}, {From: stamp{Number: 7}, To: &stamp{Number: 8}},
	}
	must(t, db.Create(&list).Error, "create")
	first, second := list[0], list[1]
	ids := map[snowflakeplugin.ID]bool{
		0: true, first.ID: true, first.From.Number: true, first.To.Number: true, second.ID: true,
	}
	same(t, "different IDs", len(ids)-1, 4)
	same(t, "a number that was given", second.From.Number, 7)
	same(t, "another", second.To.Number, 8)
	for _, l := range list {
		var row letter
		must(t, db.Where("letter_id = ?", l.ID).Take(&row).Error, "read")
		if !reflect.DeepEqual(row, l) {
			t.Errorf("the stored row is %+v, want %+v", row, l)
		}
	}
}

func embeddedNil(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &letter{})
	l := letter{From: stamp{Text: "from"}}
	must(t, db.Create(&l).Error, "create")
	if l.To != nil {
		t.Errorf("the embedded struct is %+v, want nil", l.To)
	}
	if l.ID == 0 || l.From.Number == 0 {
		t.Errorf("the IDs are %v and %v", l.ID, l.From.Number)
	}
	null := plainOne[int](t, db,
		"SELECT count(*) FROM letters WHERE letter_id = ? AND to_number IS NULL AND to_text IS NULL", l.ID)
	same(t, "rows with NULL for the embedded struct", null, 1)
}

type (
	// seat has a given part of its key and a filled one.
	seat struct {
		HallID snowflakeplugin.ID `gorm:"primaryKey"`
		ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name   string             `gorm:"size:50"`
	}
	// edge has two filled parts, of different types.
	edge struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Side int64              `gorm:"primaryKey" snowflake:"true"`
		Name string             `gorm:"size:50"`
	}
)

func compositeKeys(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &seat{}, &edge{})
	filledAndStored(t, db, func() seat { return seat{HallID: 7, Name: "a"} },
		func(s seat) []int64 { return []int64{s.ID.Int64()} })
	hall := stored[seat](t, db, plainOne[int64](t, db, "SELECT max(id) FROM seats"))
	same(t, "the part that was given", hall.HallID, 7)

	filledAndStored(t, db, func() edge { return edge{Name: "a"} },
		func(e edge) []int64 { return []int64{e.ID.Int64(), e.Side} })

	taken := allStored[seat](t, db)[0]
	again := seat{HallID: 7, ID: taken.ID}
	wantErr(t, db.Create(&again).Error, nil, "create the same key")
	same(t, "the key that was given", again, seat{HallID: 7, ID: taken.ID})
	must(t, db.Create(&seat{HallID: 8, ID: taken.ID}).Error, "create the same ID in another hall")
}

type (
	hiddenBase struct {
		ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	}
	// outer hides the ID of the embedded struct.
	outer struct {
		KeyBase
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Excluded snowflakeplugin.ID `gorm:"-" snowflake:"true"`
		Unmoved  snowflakeplugin.ID `gorm:"-:all" snowflake:"true"`
		private  snowflakeplugin.ID `snowflake:"true"`
		Untagged snowflakeplugin.ID
		Off      snowflakeplugin.ID `snowflake:"false"`
		Name     string             `gorm:"size:50"`
	}
	// closed embeds a struct whose fields GORM does not see.
	closed struct {
		hiddenBase
		Name string `gorm:"size:50;primaryKey"`
	}
)

func hiddenFields(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &outer{}, &closed{})
	o := outer{Name: "a"}
	must(t, db.Create(&o).Error, "create")
	same(t, "numbers taken", numbers.take()[0], 1)
	if o.ID == 0 {
		t.Fatal("the outer field was not filled")
	}
	same(t, "the struct", o, outer{ID: o.ID, Name: "a"})
	same(t, "the private field", o.private, 0)
	same(t, "the stored row", stored[outer](t, db, o.ID), o)

	c := closed{Name: "b"}
	must(t, db.Create(&c).Error, "create with an unexported base")
	same(t, "the struct with an unexported base", c, closed{Name: "b"})
	same(t, "numbers taken for it", len(numbers.take()), 0)
	holds(t, db, &closed{}, 1)
}

// essay embeds the package's Model.
type essay struct {
	snowflakeplugin.Model
	Title string `gorm:"size:50"`
}

func ownModel(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &essay{})
	list := []essay{{Title: "a"}, {Title: "b"}}
	must(t, db.Create(&list).Error, "create")
	for _, e := range list {
		row := stored[essay](t, db, e.ID)
		same(t, "the title", row.Title, e.Title)
		if row.CreatedAt.IsZero() || row.UpdatedAt.IsZero() || row.DeletedAt.Valid {
			t.Errorf("the times of the row are %+v", row.Model)
		}
	}
	must(t, db.Delete(&list[0]).Error, "delete")
	var left []essay
	must(t, db.Find(&left).Error, "find what is left")
	same(t, "rows left", len(left), 1)
	same(t, "the row left", left[0].ID, list[1].ID)
	holds(t, db, &essay{}, 2) // this includes the deleted row
}
