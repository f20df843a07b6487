package fill_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

func TestShapes(t *testing.T) { run(t, shapeBehaviors()) }

// shapeBehaviors test the arguments of a create. Every argument that GORM accepts is filled, and
// every other argument ends with GORM's own error.
func shapeBehaviors() []behavior {
	own := []behavior{
		{
			Name: "structs, slices, arrays and pointers of all depths are filled",
			Run:  inEveryMode(models(&account{}, &ticket{}), everyShapeIsFilled),
		},
		{
			Name: "structs and arrays passed by value are filled in the row",
			Run:  inEveryMode(models(&account{}, &ticket{}), valuesAreFilled),
		},
		{
			Name: "a nil among pointers is GORM's error, and the others get no ID",
			Run:  inEveryMode(models(&account{}), nilElement),
		},
		{
			Name: "the same pointer twice is the same key twice, which the database refuses",
			Run:  inEveryMode(models(&account{}), samePointerTwice),
		},
		{
			Name: "what GORM refuses ends as without the plugin",
			Run:  refusedAsWithoutPlugin,
		},
		{
			Name: "a struct that is not of the model's type is not filled, and not stored with key 0",
			Run:  foreignStruct,
		},
		{
			Name: "an ID that is set is never overwritten",
			Run:  setIDsStay,
		},
	}
	return append(own, mapBehaviors()...)
}

// shape is an argument of a create and its rows, which are read after the create.
type shape[T any] struct {
	dest any
	rows func() []T
}

// shapesOf puts the rows of newRow into every shape that GORM accepts.
func shapesOf[T any](newRow func(name string) T) map[string]shape[T] {
	pair := func(name string) [2]T { return [2]T{newRow(name + " 1"), newRow(name + " 2")} }
	pointers := func(name string) (p [2]*T) {
		for i, row := range pair(name) {
			p[i] = &row
		}
		return p
	}
	valuesOf := func(list []*T) (rows []T) {
		for _, row := range list {
			rows = append(rows, *row)
		}
		return rows
	}
	one, behind, nothing := newRow("&T"), newRow("**T"), (*T)(nil)
	behindPointer := &behind
	list, listed := pair("[]T"), pair("&[]T")
	slice, sliced := list[:], listed[:]
	refs, refsListed := pointers("[]*T"), pointers("&[]*T")
	refSlice := refsListed[:]
	array, refArray, refArrayValue := pair("&[2]T"), pointers("&[2]*T"), pointers("[2]*T")
	return map[string]shape[T]{
		"&T":          {&one, func() []T { return []T{one} }},
		"**T":         {&behindPointer, func() []T { return []T{behind} }},
		"**T to nil":  {&nothing, func() []T { return []T{*nothing} }},
		"[]T":         {slice, func() []T { return slice }},
		"&[]T":        {&sliced, func() []T { return sliced }},
		"[]*T":        {refs[:], func() []T { return valuesOf(refs[:]) }},
		"&[]*T":       {&refSlice, func() []T { return valuesOf(refSlice) }},
		"&[2]T":       {&array, func() []T { return array[:] }},
		"&[2]*T":      {&refArray, func() []T { return valuesOf(refArray[:]) }},
		"[2]*T value": {refArrayValue, func() []T { return valuesOf(refArrayValue[:]) }},
	}
}

func everyShapeIsFilled(t *testing.T, db *gorm.DB) {
	ids := map[snowflakeplugin.ID]bool{}
	rows := 0
	for name, s := range shapesOf(newAccount) {
		must(t, db.Create(s.dest).Error, "create accounts as "+name)
		for _, a := range s.rows() {
			accountStored(t, db, a)
			ids[a.ID] = true
			rows++
		}
	}
	same(t, "different IDs", len(ids), rows)
	holds(t, db, &account{}, int64(rows))

	clear(ids)
	rows = 0
	for name, s := range shapesOf(newTicket) {
		must(t, db.Create(s.dest).Error, "create tickets as "+name)
		for _, v := range s.rows() {
			ticketStored(t, db, v)
			ids[snowflakeplugin.ID(v.ID)], ids[v.PublicID] = true, true
			rows++
		}
	}
	same(t, "different IDs of tickets", len(ids), 2*rows)
	holds(t, db, &ticket{}, int64(rows))
}

func valuesAreFilled(t *testing.T, db *gorm.DB) {
	a, pair := newAccount("T"), [2]account{newAccount("[2]T 1"), newAccount("[2]T 2")}
	must(t, db.Create(a).Error, "create an account by value")
	must(t, db.Create(pair).Error, "create two accounts by value")
	same(t, "the caller's own struct", a, newAccount("T"))
	same(t, "the caller's own array", pair, [2]account{newAccount("[2]T 1"), newAccount("[2]T 2")})
	emails := []string{"T", "[2]T 1", "[2]T 2"}
	ids := map[snowflakeplugin.ID]bool{0: true}
	for _, row := range allStored[account](t, db) {
		want := newAccount(row.Email)
		want.ID = row.ID
		same(t, "a stored row", row, want)
		if ids[row.ID] || !slices.Contains(emails, row.Email) {
			t.Errorf("a row is %+v, with an ID that is 0 or another row's", row)
		}
		ids[row.ID] = true
	}
	same(t, "rows", len(ids)-1, len(emails))

	must(t, db.Create(newTicket("T")).Error, "create a ticket by value")
	must(t, db.Create([2]ticket{newTicket("[2]T 1"), newTicket("[2]T 2")}).Error, "create two by value")
	tickets := allStored[ticket](t, db)
	same(t, "rows of tickets", len(tickets), 3)
	for _, v := range tickets {
		ticketStored(t, db, v)
	}
}

func nilElement(t *testing.T, db *gorm.DB) {
	a, given := newAccount("a"), account{ID: 5, Email: "b"}
	for name, dest := range map[string]any{
		"a slice":               []*account{&a, nil, &given},
		"a pointer to a slice":  &[]*account{nil, &a, &given},
		"a pointer to an array": &[3]*account{&given, &a, nil},
	} {
		err := db.Create(dest).Error
		wantErr(t, err, gorm.ErrInvalidData, "create "+name)
		same(t, "the ID of the one without", a.ID, 0)
		same(t, "the ID of the one with", given.ID, 5)
	}
	holds(t, db, &account{}, 0)
}

func samePointerTwice(t *testing.T, db *gorm.DB) {
	db = db.Session(&gorm.Session{})
	db.TranslateError = true // for this session only
	a, b := newAccount("a"), newAccount("b")
	wantErr(t, db.Create([]*account{&a, &b, &a}).Error, gorm.ErrDuplicatedKey, "create")
	same(t, "the ID of the one that is there twice", a.ID, 0)
	same(t, "the ID of the other", b.ID, 0)
	holds(t, db, &account{}, 0)

	must(t, db.Clauses(doNothing()).Create([]*account{&a, &b, &a}).Error, "create, duplicates ignored")
	accountStored(t, db, a)
	accountStored(t, db, b)
	holds(t, db, &account{}, 2)
}

type namedMap map[string]any

// refused are arguments that GORM itself refuses, some of them with a panic.
var refused = map[string]func(db *gorm.DB) error{
	"nil":                  func(db *gorm.DB) error { return db.Create(nil).Error },
	"a nil struct pointer": func(db *gorm.DB) error { return db.Create((*account)(nil)).Error },
	"a nil slice pointer":  func(db *gorm.DB) error { return db.Create((*[]account)(nil)).Error },
	"a nil slice":          func(db *gorm.DB) error { return db.Create([]account(nil)).Error },
	"an empty slice":       func(db *gorm.DB) error { return db.Create([]account{}).Error },
	"an empty array":       func(db *gorm.DB) error { return db.Create(&[0]account{}).Error },
	"only nil":             func(db *gorm.DB) error { return db.Create([]*account{nil}).Error },
	"a number":             func(db *gorm.DB) error { return db.Create(5).Error },
	"a number and a model": func(db *gorm.DB) error { return db.Model(&account{}).Create(5).Error },
	"a pointer to any of a struct": func(db *gorm.DB) error {
		var dest any = newAccount("x")
		return db.Model(&account{}).Create(&dest).Error
	},
	"a pointer to any of a pointer": func(db *gorm.DB) error {
		var dest any = &account{Email: "x"}
		return db.Model(&account{}).Create(&dest).Error
	},
	"a slice of any": func(db *gorm.DB) error {
		return db.Model(&account{}).Create([]any{&account{Email: "x"}}).Error
	},
	"a named map": func(db *gorm.DB) error {
		return db.Model(&account{}).Create(namedMap{"email": "x"}).Error
	},
	"a slice of named maps": func(db *gorm.DB) error {
		return db.Model(&account{}).Create([]namedMap{{"email": "x"}}).Error
	},
	"a map of strings": func(db *gorm.DB) error {
		return db.Model(&account{}).Create(map[string]string{"email": "x"}).Error
	},
	"a slice of map pointers": func(db *gorm.DB) error {
		return db.Model(&account{}).Create([]*map[string]any{{"email": "x"}}).Error
	},
	"a nil map pointer": func(db *gorm.DB) error {
		return db.Model(&account{}).Create((*map[string]any)(nil)).Error
	},
	"an empty slice of maps": func(db *gorm.DB) error {
		return db.Model(&account{}).Create([]map[string]any{}).Error
	},
	"a slice of slices": func(db *gorm.DB) error { return db.Create([][]account{{{Email: "x"}}}).Error },
}

func refusedAsWithoutPlugin(t *testing.T, target database) {
	// GORM leaves its transaction open after a panic, so default transactions are disabled here.
	none := func() *gorm.Config { return &gorm.Config{SkipDefaultTransaction: true} }
	plain := target.Open(t, none())
	must(t, plain.AutoMigrate(&account{}), "AutoMigrate")
	db := open(t, target, none(), &account{})
	for name, create := range refused {
		want := outcome(func() error { return create(plain) })
		got := outcome(func() error { return create(db) })
		same(t, name+": how it ends", got, want)
	}
	before := allStored[account](t, plain)
	after := allStored[account](t, db)
	if !reflect.DeepEqual(before, after) {
		t.Errorf("the rows are %+v, without the plugin %+v", after, before)
	}
}

// accountForm and mixedForm have the fields of an account but are other types.
type (
	accountForm struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Email string
		Name  string
	}
	mixedForm struct {
		Name  int
		Email string
		ID    string
	}
)

func foreignStruct(t *testing.T, target database) {
	plain := target.Open(t, nil)
	must(t, plain.AutoMigrate(&account{}), "AutoMigrate")
	db, numbers := openCounted(t, target, &account{})
	for name, fresh := range map[string]func() any{
		"of the same fields":  func() any { return &accountForm{Email: "a", Name: "b"} },
		"of the same, listed": func() any { return []accountForm{{Email: "c", Name: "d"}} },
		"of other fields":     func() any { return &mixedForm{Name: 7, Email: "e", ID: "f"} },
	} {
		wantDest, dest := fresh(), fresh()
		want := outcome(func() error { return plain.Model(&account{}).Create(wantDest).Error })
		got := outcome(func() error { return db.Model(&account{}).Create(dest).Error })
		same(t, name+": how it ends", got, want)
		same(t, name+": the struct", fmt.Sprintf("%+v", dest), fmt.Sprintf("%+v", wantDest))
		same(t, name+": the rows", fmt.Sprintf("%+v", allStored[account](t, db)),
			fmt.Sprintf("%+v", allStored[account](t, plain)))
	}
	same(t, "numbers taken", len(numbers.take()), 0)
	for name, db := range map[string]*gorm.DB{"plugin": db, "none": plain} {
		same(t, "rows with key 0, "+name,
			plainOne[int64](t, db, "SELECT COUNT(*) FROM accounts WHERE id = 0"), 0)
	}
}

func setIDsStay(t *testing.T, target database) {
	db, numbers := openCounted(t, target, &account{}, &ticket{}, &manyKinds{})
	list := []account{{ID: 5, Email: "a"}, {Email: "b"}, {ID: 1, Email: "c"}, {ID: math.MaxInt64, Email: "d"}}
	must(t, db.Create(&list).Error, "create a slice")
	same(t, "the reservations for one empty cell", fmt.Sprint(numbers.take()), "[1]")
	for i, want := range []snowflakeplugin.ID{5, list[1].ID, 1, math.MaxInt64} {
		same(t, "the ID", list[i].ID, want)
		accountStored(t, db, list[i])
	}

	tickets := []*ticket{{ID: -5, Title: "a"}, {PublicID: 6, Title: "b"}, {ID: 7, PublicID: 8, Title: "c"}}
	must(t, db.Create(tickets).Error, "create tickets")
	same(t, "the reservations for two empty cells", fmt.Sprint(numbers.take()), "[2]")
	same(t, "the first ID", tickets[0].ID, -5)
	same(t, "the second public ID", tickets[1].PublicID, 6)
	same(t, "the third ticket", *tickets[2], ticket{ID: 7, PublicID: 8, Title: "c"})
	for _, v := range tickets {
		ticketStored(t, db, *v)
	}

	// A pointer to 0 is a value, but a nil pointer is not.
	k := manyKinds{Optional: pointerTo(snowflakeplugin.ID(0)), Email: "a"}
	must(t, db.Create(&k).Error, "create a pointer to 0")
	same(t, "the value behind the pointer", *k.Optional, 0)
	if row := stored[manyKinds](t, db, k.ID); !reflect.DeepEqual(row, k) {
		t.Errorf("the stored row is %+v, want %+v", row, k)
	}
}

// outcome returns how fn ended, as text that can be compared.
func outcome(fn func() error) (how string) {
	defer func() {
		if caught := recover(); caught != nil {
			how = fmt.Sprintf("panic: %v", caught)
		}
	}()
	return fmt.Sprintf("error: %v", fn())
}
