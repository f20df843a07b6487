package filling_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// series is a source whose numbers follow each other.
type series struct {
	mu    sync.Mutex
	next  int64
	calls int
	err   error
}

func (s *series) Fill(_ context.Context, ids []int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for i := range ids {
		ids[i] = s.next
		s.next++
	}
	return s.err
}

// texts is a series whose numbers have a text.
type texts struct{ series }

func (*texts) Text(number int64) string { return fmt.Sprintf("SO-%06d", number) }

// bill has numbers of three sources in fields of all kinds.
type bill struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Number string             `gorm:"size:20;uniqueIndex" snowflake:"from:invoice"`
	Serial int32              `gorm:"uniqueIndex" snowflake:"from:serial"`
	Note   string
	Lines  []billLine
}

type billLine struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	BillID snowflakeplugin.ID
	Serial int64 `gorm:"uniqueIndex" snowflake:"from:serial"`
}

// small has a number in every kind of field that is smaller than an ID or holds text.
type small struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	A      int8               `snowflake:"from:serial"`
	B      uint16             `snowflake:"from:serial"`
	C      *int16             `snowflake:"from:serial"`
	D      sql.NullInt32      `snowflake:"from:serial"`
	E      sql.Null[string]   `gorm:"size:20" snowflake:"from:invoice"`
	F      *string            `gorm:"size:20" snowflake:"from:invoice"`
	G      []byte             `snowflake:"from:serial"`
	H      string             `gorm:"size:20" snowflake:"from:serial"`
	Others int64
}

// shown returns the values with blanks between them.
func shown(values ...any) string { return strings.TrimSuffix(fmt.Sprintln(values...), "\n") }

// openBills returns a database whose plugin has the sources.
func openBills(t *testing.T, target dbtest.Target) (db *gorm.DB, invoice *texts, serial *series) {
	t.Helper()
	db = target.Open(t, nil)
	invoice, serial = &texts{series{next: 1}}, &series{next: 1}
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1),
		snowflakeplugin.WithNumbers("invoice", invoice), snowflakeplugin.WithNumbers("serial", serial))
	must(t, db.Use(plugin), "Use")
	must(t, plugin.Prepare(db, &bill{}, &billLine{}, &small{}), "Prepare")
	must(t, db.AutoMigrate(&bill{}, &billLine{}, &small{}), "AutoMigrate")
	return db, invoice, serial
}

func TestNumbersOfNamedSources(t *testing.T) {
	run(t, []behavior{
		{Name: "fields in rows of every shape get the numbers of their source", Run: numbersInShapes},
		{Name: "small fields and texts hold numbers", Run: numbersInKinds},
		{Name: "a statement makes one reservation for each source", Run: oneReservation},
		{Name: "a number that does not fit is an error before anything is written", Run: numberTooLarge},
		{Name: "after a failure no row keeps a number", Run: numbersReset},
		{Name: "what the user has set stays, even if a source has made the same number", Run: sameNumbers},
		{Name: "an upsert that does nothing loads the stored numbers", Run: numbersOfDoNothing},
		{Name: "an upsert of all columns keeps the stored numbers", Run: numbersOfUpdateAll},
		{Name: "a source that fails writes nothing", Run: sourceFails},
	})
}

func numbersInShapes(t *testing.T, target dbtest.Target) {
	db, _, _ := openBills(t, target)
	one := bill{Note: "struct", Lines: []billLine{{}, {}}}
	must(t, db.Create(&one).Error, "create a struct")
	same(t, "the number", one.Number, "SO-000001")
	same(t, "the serial", one.Serial, 1)
	same(t, "the serials of the lines", shown(one.Lines[0].Serial, one.Lines[1].Serial), "2 3")
	slice := []bill{{Note: "a"}, {Note: "b", Number: "GIVEN"}, {Note: "c"}}
	must(t, db.Create(&slice).Error, "create a slice")
	same(t, "the numbers", slice[0].Number+slice[1].Number+slice[2].Number, "SO-000002GIVENSO-000003")
	pointers := []*bill{{}, {Serial: 500}}
	must(t, db.CreateInBatches(&pointers, 1).Error, "create pointers in batches")
	same(t, "the number", pointers[1].Number, "SO-000005")
	same(t, "the serial", pointers[1].Serial, 500)
	row := map[string]any{"note": "map"}
	must(t, db.Model(&bill{}).Create(row).Error, "create a map")
	same[any](t, "the number", row["number"], "SO-000006")
	same[any](t, "the serial", row["serial"], int32(8))
	rows := []map[string]any{{"Note": "x"}, {"Number": "MINE"}}
	must(t, db.Model(&bill{}).Create(&rows).Error, "create maps")
	same[any](t, "the numbers", shown(rows[0]["number"], rows[1]["Number"]), "SO-000007 MINE")
	same(t, "the rows", len(plainRows[string](t, db, "SELECT number FROM bills")), 9)
	for _, number := range []string{one.Number, slice[0].Number, pointers[0].Number, "MINE"} {
		same(t, "rows with "+number, plainOne[int](t, db, "SELECT count(*) FROM bills WHERE number = "+
			"?", number), 1)
	}
}

func numbersInKinds(t *testing.T, target dbtest.Target) {
	db, _, _ := openBills(t, target)
	s := small{Others: 3}
	must(t, db.Create(&s).Error, "create")
	got := shown(s.A, s.B, *s.C, s.D.Int32, s.D.Valid, s.E.V, s.E.Valid, *s.F, s.G, s.H)
	want := "1 2 3 4 true SO-000001 true SO-000002 [0 0 0 0 0 0 0 5] 6"
	same(t, "the fields", got, want)
	var stored small
	must(t, db.First(&stored, s.ID).Error, "read")
	same(t, "the stored fields", shown(stored.A, stored.B, *stored.C, stored.D.Int32, stored.D.Valid,
		stored.E.V, stored.E.Valid, *stored.F, stored.G, stored.H), want)
	row := map[string]any{"a": int8(9)}
	must(t, db.Model(&small{}).Create(row).Error, "create a map")
	same(t, "the map", shown(row["a"], row["b"], row["c"], row["d"], row["e"], row["f"], row["h"]),
		"9 7 8 9 SO-000003 SO-000004 11")
	// What fails is taken back in every kind of field, and what was given is not.
	again := small{ID: s.ID, B: 77}
	if err := db.Create(&again).Error; err == nil {
		t.Fatal("a key was stored twice")
	}
	same(t, "the fields of a row that "+
		"failed", shown(again.A, again.B, again.C == nil, again.D.Valid, again.E.Valid,
		again.F == nil, again.G, again.H), "0 77 true false false true [] ")
	row = map[string]any{"id": s.ID, "b": uint16(12)}
	if err := db.Model(&small{}).Create(row).Error; err == nil {
		t.Fatal("a key was stored twice")
	}
	same(t, "the map that failed", shown(row), shown(map[string]any{"id": s.ID, "b": uint16(12)}))
}

func oneReservation(t *testing.T, target dbtest.Target) {
	db, invoice, serial := openBills(t, target)
	slice := make([]bill, 50)
	must(t, db.Create(&slice).Error, "create 50 rows")
	same(t, "the reservations", shown(invoice.calls, serial.calls), "1 1")
	must(t, db.Create(&small{}).Error, "create a row with many fields")
	same(t, "the reservations", shown(invoice.calls, serial.calls), "2 2")
	must(t, db.Create(&bill{Number: "GIVEN", Serial: 900}).Error, "create a row that has all")
	same(t, "the reservations", shown(invoice.calls, serial.calls), "2 2")
}

func numberTooLarge(t *testing.T, target dbtest.Target) {
	db, invoice, serial := openBills(t, target)
	serial.next = 126
	rows := []small{{B: 1, C: pointerTo(int16(1)), D: sql.NullInt32{Valid: true}, G: []byte{1}, H: "x"}, {}, {}}
	for i := range rows {
		rows[i].Others = int64(i)
	}
	err := db.Create(&rows).Error
	wantErr(t, err, snowflakeplugin.ErrInvalidField, "create")
	says(t, err, "small.A", "128", "8 bits")
	for _, row := range rows {
		same(t, "the fields", shown(row.ID, row.A, row.E.Valid), "0 0 false")
	}
	same(t, "the rows", plainOne[int](t, db, "SELECT count(*) FROM smalls"), 0)
	serial.next, invoice.next = 1, 1_000_000_000_000_000_000
	b := bill{}
	err = db.Create(&b).Error
	wantErr(t, err, snowflakeplugin.ErrInvalidField, "create")
	says(t, err, "bill.Number", "SO-1000000000000000000", "size:20")
	same(t, "the row", shown(b.ID, b.Number, b.Serial), "0  0")
}

func numbersReset(t *testing.T, target dbtest.Target) {
	db, _, _ := openBills(t, target)
	must(t, db.Create(&bill{Number: "TAKEN"}).Error, "create")
	rows := []bill{{Lines: []billLine{{}}}, {Number: "TAKEN", Lines: []billLine{{}}}, {Serial: 77}}
	if err := db.Create(&rows).Error; err == nil {
		t.Fatal("a number was stored twice")
	}
	for i, want := range []string{"0  0", "0 TAKEN 0", "0  77"} {
		same(t, "a row that failed", shown(rows[i].ID, rows[i].Number, rows[i].Serial), want)
	}
	same(t, "a line that failed", rows[0].Lines[0].Serial, 0)
	undone := errors.New("undone")
	later := bill{}
	err := db.Transaction(func(tx *gorm.DB) error {
		must(t, tx.Create(&later).Error, "create in a transaction")
		return undone
	})
	wantErr(t, err, undone, "the transaction")
	same(t, "the rows", plainOne[int](t, db, "SELECT count(*) FROM bills"), 1)
}

func sameNumbers(t *testing.T, target dbtest.Target) {
	db, _, serial := openBills(t, target)
	must(t, db.Create(&bill{Number: "TAKEN", Serial: 900}).Error, "create")
	serial.next = 40
	// 41 is made for another row, and SO-000001 is what the source would say.
	rows := []small{{}, {B: 45, C: pointerTo(int16(41)), E: sql.Null[string]{V: "41", Valid: true}, Others: 41}}
	rows[1].ID = 7
	must(t, db.Create(&small{ID: 7}).Error, "take the key")
	if err := db.Create(&rows).Error; err == nil {
		t.Fatal("a key was stored twice")
	}
	same(t, "what was given", shown(rows[1].ID, rows[1].E.V, rows[1].Others), "7 41 41")
	same(t, "what was made", shown(rows[0].A, rows[0].B, rows[0].C == nil), "0 0 true")
}

func numbersOfDoNothing(t *testing.T, target dbtest.Target) {
	db, _, _ := openBills(t, target)
	first := bill{Serial: 5}
	must(t, db.Create(&first).Error, "create")
	again := []bill{{Serial: 5}, {Serial: 6}}
	must(t, db.Clauses(clause.OnConflict{DoNothing: true}).Create(&again).Error, "upsert")
	same(t, "the number of the stored row", again[0].Number, first.Number)
	same(t, "its ID", again[0].ID, first.ID)
	same(t, "the number of the new row", again[1].Number,
		plainOne[string](t, db, "SELECT number FROM bills WHERE serial = 6"))
}

func numbersOfUpdateAll(t *testing.T, target dbtest.Target) {
	db, _, _ := openBills(t, target)
	first := bill{Note: "old"}
	must(t, db.Create(&first).Error, "create")
	again := bill{ID: first.ID, Note: "new"}
	must(t, db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&again).Error, "upsert")
	same(t, "the number", again.Number, first.Number)
	same(t, "the serial", again.Serial, first.Serial)
	stored := plainOne[string](t, db, "SELECT number FROM bills WHERE note = 'new'")
	same(t, "the stored number", stored, first.Number)
}

func sourceFails(t *testing.T, target dbtest.Target) {
	db, _, serial := openBills(t, target)
	serial.err = errors.New("the printer is on fire")
	row := bill{Lines: []billLine{{}}}
	err := db.Create(&row).Error
	wantErr(t, err, serial.err, "create")
	says(t, err, "bill.Serial", `"serial"`)
	same(t, "the row", shown(row.ID, row.Number, row.Serial, row.Lines[0].ID), "0  0 0")
	same(t, "the rows", plainOne[int](t, db, "SELECT count(*) FROM bills"), 0)
	serial.err, serial.next = nil, -3
	err = db.Create(&row).Error
	wantErr(t, err, snowflakeplugin.ErrSource, "create")
	says(t, err, "-3", `"serial"`)
}

func TestAnUnknownSourceIsRefusedWithTheNamesThatThereAre(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Targets()[0].DSN(t)
	db := dbtest.Targets()[0].OpenDSN(t, dsn, nil)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1), snowflakeplugin.WithNumbers("invoices", &series{}),
		snowflakeplugin.WithNumbers("orders", &series{}))
	must(t, db.Use(plugin), "Use")
	bare := dbtest.Targets()[0].OpenDSN(t, dsn, nil)
	must(t, bare.AutoMigrate(&bill{}, &billLine{}), "AutoMigrate without the plugin")
	for what, err := range map[string]error{
		"AutoMigrate": db.AutoMigrate(&bill{}), "Prepare": plugin.Prepare(db, &bill{}), "Create": db.Create(&bill{}).Error,
		"a create of a map": db.Model(&bill{}).Create(map[string]any{"note": "x"}).Error,
	} {
		wantErr(t, err, snowflakeplugin.ErrInvalidField, what)
		says(t, err, "bill.Number", `"invoices" "orders"`, `WithNumbers("invoice", source)`, "bill.Serial")
	}
	same(t, "the rows", plainOne[int](t, db, "SELECT count(*) FROM bills"), 0)
	none := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	other := dbtest.Targets()[0].Open(t, nil)
	must(t, other.Use(none), "Use")
	says(t, none.Prepare(other, &bill{}), "there is no named source")
}

func TestFaultsOfWithNumbersAreNamed(t *testing.T) {
	t.Parallel()
	db := dbtest.Targets()[0].Open(t, nil)
	other := &series{}
	err := db.Use(snowflakeplugin.New(snowflakeplugin.WithNumbers("", &series{}), snowflakeplugin.WithNumbers("a", nil),
		snowflakeplugin.WithNumbers("b", &series{}), snowflakeplugin.WithNumbers("b", other)))
	wantErr(t, err, snowflakeplugin.ErrOptions, "Use")
	says(t, err, `WithNumbers("")`, `WithNumbers("a", nil)`, `"b"`, "twice")
}

// keyed takes its key from a named source.
type keyed struct {
	ID   int64 `gorm:"primaryKey" snowflake:"from:other"`
	Note string
}

func TestARouterRefusesASourceForKeysThatCannotChooseShards(t *testing.T) {
	t.Parallel()
	open := func(source snowflakeplugin.Source) (*snowflakeplugin.Router, error) {
		db := dbtest.Targets()[0].Open(t, nil)
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1), snowflakeplugin.WithNumbers("other", source))
		must(t, db.Use(plugin), "Use")
		return snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
			Layout: plugin.Layout(), Shards: 4, Databases: []*gorm.DB{db},
		}, &keyed{})
	}
	_, err := open(&series{next: 1})
	wantErr(t, err, snowflakeplugin.ErrSharding, "NewRouter")
	says(t, err, "keyed", `"other"`, "NextLike")

	source, err := generator.New(generator.Default(), generator.FixedNode(9))
	must(t, err, "New")
	router, err := open(source)
	must(t, err, "NewRouter")
	must(t, router.AutoMigrate(t.Context()), "AutoMigrate")
	rows := make([]keyed, 40)
	must(t, router.Create(t.Context(), &rows), "create")
	for shard := range 4 {
		id := rows[0].ID
		for id&3 != int64(shard) {
			id++
		}
		handle, err := router.DB(t.Context(), &keyed{}, snowflakeplugin.ID(id))
		must(t, err, "DB")
		row := keyed{Note: "on a shard"}
		must(t, handle.Create(&row).Error, "create on a shard")
		on, err := router.Shard(snowflakeplugin.ID(row.ID))
		must(t, err, "Shard")
		same(t, "the shard", on, shard)
	}
	found := make([]keyed, 0, len(rows))
	var ids []snowflakeplugin.ID
	for _, row := range rows {
		ids = append(ids, snowflakeplugin.ID(row.ID))
	}
	must(t, router.Find(t.Context(), &found, ids), "find")
	same(t, "the rows", len(found), len(rows))
	if strings.Contains(shown(found), " 0 ") {
		t.Error("a row has no key")
	}
}
