package statements_test

import (
	"fmt"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestUpserts(t *testing.T) { run(t, upsertBehaviors()) }

// upsertBehaviors test ON CONFLICT: afterwards a struct holds the ID of the stored row, or zero.
func upsertBehaviors() []behavior {
	behaviors := []behavior{
		{Name: "every clause, shape and kind of key ends with the ID of the row", Everywhere: true,
			Run: upsertsEndWithTheStoredID},
		{Name: "the same holds with prepared statements", Run: upsertsHoldWhenPrepared},
		{Name: "the same holds without a default transaction", Run: upsertsHoldWithoutTransaction},
		{Name: "the same holds in a transaction of the user", Run: upsertsHoldInATransaction},
		{Name: "the same holds on a single connection", Run: upsertsHoldOnOneConnection},
		{Name: "clientFoundRows changes no result", Only: []string{"mysql"},
			Run: upsertsHoldWithClientFoundRows},
		{Name: "a row that is not there at all leaves every generated field zero",
			Run: upsertsWithoutARowEndInZero},
		{Name: "an upsert of more rows than one query looks for ends with the stored IDs",
			Run: upsertsOfManyRows},
		{Name: "a failed upsert takes its IDs back", Run: upsertsThatFailAreReset},
		{Name: "a dry run of an upsert asks the database nothing", Run: upsertsRunDry},
		{Name: "a hook after the insert sees the ID that is stored", Run: upsertsBeforeHooks},
		{Name: "Save of a slice of new rows ends with the stored IDs", Run: upsertsBySave},
		{Name: "a user's own Returning ends with the stored IDs", Everywhere: true, Run: upsertsReturningAll},
		{Name: "a user's Returning of some columns ends with the stored IDs", Everywhere: true,
			Run: upsertsReturningSome},
	}
	behaviors = append(behaviors, keyUpsertBehaviors()...)
	behaviors = append(behaviors, wayBehaviors()...)
	behaviors = append(behaviors, nestedUpsertBehaviors()...)
	behaviors = append(behaviors, storedColumnBehaviors()...)
	return append(behaviors, contendedUpsertBehaviors()...)
}

func upsertsEndWithTheStoredID(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{}, &memberByInt{})
	t.Run("ID", func(t *testing.T) { checkUpserts(t, db, byID) })
	t.Run("int64", func(t *testing.T) { checkUpserts(t, db, byInt) })
	t.Run("int64 without Prepare", func(t *testing.T) {
		checkUpserts(t, openAs(t, target, opening{unprepared: true}, &memberByInt{}), byInt)
	})
}

func upsertsHoldWhenPrepared(t *testing.T, target dbtest.Target) {
	how := opening{cfg: &gorm.Config{PrepareStmt: true}}
	db := openAs(t, target, how, &memberByID{}, &memberByInt{})
	checkUpserts(t, db, byID)
	checkUpserts(t, db, byInt)
}

func upsertsHoldWithoutTransaction(t *testing.T, target dbtest.Target) {
	how := opening{cfg: &gorm.Config{SkipDefaultTransaction: true}}
	checkUpserts(t, openAs(t, target, how, &memberByID{}), byID)
	db := openAs(t, target, opening{}, &memberByInt{})
	checkUpserts(t, db.Session(&gorm.Session{SkipDefaultTransaction: true}), byInt)
}

func upsertsHoldInATransaction(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	err := db.Transaction(func(tx *gorm.DB) error {
		checkUpserts(t, tx, byID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func upsertsHoldOnOneConnection(t *testing.T, target dbtest.Target) {
	for _, skip := range []bool{false, true} {
		how := opening{options: []dbtest.Option{dbtest.MaxOpenConns(1)},
			cfg: &gorm.Config{SkipDefaultTransaction: skip}}
		checkUpserts(t, openAs(t, target, how, &memberByInt{}), byInt)
	}
}

func upsertsHoldWithClientFoundRows(t *testing.T, target dbtest.Target) {
	how := opening{options: []dbtest.Option{dbtest.DSNParam("clientFoundRows", "true")}}
	db := openAs(t, target, how, &memberByID{}, &memberByInt{})
	checkUpserts(t, db, byID)
	checkUpserts(t, db, byInt)
}

// checkUpserts runs every clause of upsertClauses with every shape. Alice already has row 77 and
// Carol row 78, and Bob is new.
func checkUpserts[T any](t *testing.T, db *gorm.DB, kind upsertKind[T]) {
	t.Helper()
	alice := func() T { return kind.make("alice", "new") }
	bob := func() T { return kind.make("bob", "new") }
	carol := func() T { return kind.make("carol", "new") }
	shapes := []struct {
		name   string
		create func(tx *gorm.DB) ([]T, error) // returns the elements after the create
	}{
		{"a struct that meets a row", func(tx *gorm.DB) ([]T, error) {
			one := alice()
			err := tx.Create(&one).Error
			return []T{one}, err
		}},
		{"a struct that meets none", func(tx *gorm.DB) ([]T, error) {
			one := bob()
			err := tx.Create(&one).Error
			return []T{one}, err
		}},
		{"a slice", func(tx *gorm.DB) ([]T, error) {
			all := []T{alice(), bob(), carol()}
			err := tx.Create(&all).Error
			return all, err
		}},
		{"a slice whose new row is first", func(tx *gorm.DB) ([]T, error) {
			all := []T{bob(), carol(), alice()}
			err := tx.Create(all).Error
			return all, err
		}},
		{"a slice that meets only rows", func(tx *gorm.DB) ([]T, error) {
			all := []T{carol(), alice()}
			err := tx.Create(&all).Error
			return all, err
		}},
		{"a slice of pointers", func(tx *gorm.DB) ([]T, error) {
			all := []*T{pointerTo(alice()), pointerTo(bob()), pointerTo(carol())}
			err := tx.Create(all).Error
			return []T{*all[0], *all[1], *all[2]}, err
		}},
		{"an array", func(tx *gorm.DB) ([]T, error) {
			all := [3]T{alice(), bob(), carol()}
			err := tx.Create(&all).Error
			return all[:], err
		}},
		{"batches", func(tx *gorm.DB) ([]T, error) {
			all := []T{alice(), bob(), carol()}
			err := tx.CreateInBatches(&all, 2).Error
			return all, err
		}},
	}
	for _, c := range upsertClauses {
		for _, shape := range shapes {
			t.Run(c.name+" of "+shape.name, func(t *testing.T) {
				plainExec(t, db, "DELETE FROM "+kind.table, "INSERT INTO "+kind.table+
					" (id, email, name) VALUES (77, 'alice', 'old'), (78, 'carol', 'old')")
				elements, err := shape.create(db.Clauses(c.clause))
				if err != nil {
					t.Fatal(err)
				}
				checkMembers(t, db, kind, elements, c.updates)
			})
		}
	}
}

// checkMembers checks the keys of the elements and every row of the table.
func checkMembers[T any](
	t *testing.T, db *gorm.DB, kind upsertKind[T], elements []T, updates bool,
) {
	t.Helper()
	names := map[string]string{"alice": "old", "carol": "old"}
	for _, element := range elements {
		email := kind.email(element)
		wantStored(t, db, kind.key(element), "SELECT id FROM "+kind.table+" WHERE email = ?", email)
		if names[email] == "" || updates {
			names[email] = "new"
		}
	}
	wantInt(t, "the number of rows",
		plainOne[int64](t, db, "SELECT count(*) FROM "+kind.table), len(names))
	for email, want := range names {
		got := plainOne[string](t, db, "SELECT name FROM "+kind.table+" WHERE email = ?", email)
		if got != want {
			t.Errorf("%s has the name %q, want %q", email, got, want)
		}
	}
	for email, want := range map[string]int64{"alice": 77, "carol": 78} {
		wantInt(t, "the key of "+email,
			plainOne[int64](t, db, "SELECT id FROM "+kind.table+" WHERE email = ?", email), want)
	}
}

// upsertsWithoutARowEndInZero inserts rows that the database omits: the number exists already in a
// key that the model does not know.
func upsertsWithoutARowEndInZero(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &badge{})
	plainExec(t, db, "CREATE UNIQUE INDEX badges_number ON badges (number)",
		"INSERT INTO badges (id, public_id, number, name) VALUES (77, 770, 'one', 'old')")
	one := badge{Number: "one"}
	succeed(t, db.Clauses(doNothing()).Create(&one))
	all := []badge{{Number: "one"}, {Number: "two"}, {Number: "one"}}
	succeed(t, db.Clauses(doNothing()).Create(&all))
	for _, b := range []badge{one, all[0], all[2]} {
		if b.ID != 0 || b.PublicID != 0 {
			t.Errorf("%+v, want no ID: its row is not there", b)
		}
	}
	wantStored(t, db, all[1].ID, "SELECT id FROM badges WHERE number = 'two'")
	wantStored(t, db, all[1].PublicID, "SELECT public_id FROM badges WHERE number = 'two'")
	wantInt(t, "the number of badges", plainOne[int64](t, db, "SELECT count(*) FROM badges"), 2)
}

func upsertsOfManyRows(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	const count = 450
	all := make([]memberByID, count)
	for i := range all {
		all[i] = memberByID{Email: fmt.Sprint("mail", i), Name: "old"}
	}
	stored := make([]memberByID, 0, count/2)
	for i := 0; i < count; i += 2 {
		stored = append(stored, memberByID{Email: all[i].Email, Name: "old"})
	}
	succeed(t, db.Create(&stored))
	succeed(t, db.Clauses(doNothing()).Create(&all))
	byEmail := map[string]snowflakeplugin.ID{}
	for _, id := range plainRows[int64](t, db, "SELECT id FROM member_by_ids") {
		email := plainOne[string](t, db, "SELECT email FROM member_by_ids WHERE id = ?", id)
		byEmail[email] = snowflakeplugin.ID(id)
	}
	wantInt(t, "the number of rows", len(byEmail), count)
	for _, m := range all {
		if m.ID == 0 || m.ID != byEmail[m.Email] {
			t.Errorf("%s: the struct holds %d, the database %d", m.Email, m.ID, byEmail[m.Email])
		}
	}
	for _, m := range stored {
		if m.ID != byEmail[m.Email] {
			t.Errorf("%s: the row changed its key from %d to %d", m.Email, m.ID, byEmail[m.Email])
		}
	}
}

func upsertsThatFailAreReset(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &document{})
	plainExec(t, db, "INSERT INTO documents (id, public_id, slug) VALUES (77, 500, 'taken')")
	failing := clause.OnConflict{Columns: onColumn("slug"),
		DoUpdates: clause.Assignments(map[string]any{"title": gorm.Expr("no_such_column")})}
	all := []document{{Slug: "taken"}, {Slug: "free", PublicID: 9}}
	if err := db.Clauses(failing).Create(&all).Error; err == nil {
		t.Fatal("the upsert succeeded")
	}
	for i, want := range []snowflakeplugin.ID{0, 9} {
		wantInt(t, "the ID", all[i].ID, 0)
		wantInt(t, "the public ID", all[i].PublicID, want)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM documents"), 1)
}

func upsertsRunDry(t *testing.T, target dbtest.Target) {
	recorder := dbtest.NewRecorder()
	db := openAs(t, target, opening{cfg: &gorm.Config{Logger: recorder}}, &memberByID{})
	recorder.Reset()
	m := memberByID{Email: "alice"}
	succeed(t, db.Session(&gorm.Session{DryRun: true}).Clauses(onEmail()).Create(&m))
	if m.ID == 0 {
		t.Error("the dry run set no ID")
	}
	if statements := recorder.Statements(); len(statements) != 1 || len(recorder.Inserts()) != 1 {
		t.Errorf("statements are %q, want the INSERT", statements)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 0)
	succeed(t, db.Clauses(onEmail()).Create(&m)) // with the ID that it has now
	wantStored(t, db, m.ID, "SELECT id FROM member_by_ids WHERE email = 'alice'")
}

// listener records what its hooks see.
type listener struct {
	ID    snowflakeplugin.ID   `gorm:"primaryKey" snowflake:"true"`
	Email string               `gorm:"size:100;uniqueIndex"`
	After []snowflakeplugin.ID `gorm:"-"`
}

func (l *listener) AfterSave(*gorm.DB) error {
	l.After = append(l.After, l.ID)
	return nil
}

func (l *listener) AfterCreate(*gorm.DB) error {
	l.After = append(l.After, l.ID)
	return nil
}

func upsertsBeforeHooks(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &listener{})
	plainExec(t, db, "INSERT INTO listeners (id, email) VALUES (77, 'alice')")
	all := []*listener{{Email: "alice"}, {Email: "bob"}}
	succeed(t, db.Clauses(doNothing()).Create(&all))
	wantInt(t, "the ID of alice", all[0].ID, 77)
	wantStored(t, db, all[1].ID, "SELECT id FROM listeners WHERE email = 'bob'")
	for _, l := range all {
		if len(l.After) != 2 || l.After[0] != l.ID || l.After[1] != l.ID {
			t.Errorf("%s: the hooks saw %d, want %d", l.Email, l.After, l.ID)
		}
	}
}

func upsertsBySave(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	plainExec(t, db, "INSERT INTO member_by_ids (id, email, name) VALUES (77, 'alice', 'old')")
	fresh := []memberByID{{Email: "bob"}, {ID: 77, Email: "alice", Name: "new"}, {Email: "carol"}}
	succeed(t, db.Save(&fresh))
	wantInt(t, "the ID of alice", fresh[1].ID, 77)
	for _, m := range fresh {
		wantStored(t, db, m.ID, "SELECT id FROM member_by_ids WHERE email = ?", m.Email)
	}
	if name := plainOne[string](t, db, "SELECT name FROM member_by_ids WHERE id = 77"); name != "new" {
		t.Errorf("the name of alice is %q, want what was saved", name)
	}
	// Save names its new key as the target, so the existing address is an error. MySQL is the
	// exception, because it has no targets.
	again := []memberByID{{Email: "alice", Name: "newer"}, {Email: "dave"}}
	err := db.Save(&again).Error
	if target.Dialect == "mysql" {
		if err != nil {
			t.Fatal(err)
		}
		wantInt(t, "the ID of alice", again[0].ID, 77)
		wantStored(t, db, again[1].ID, "SELECT id FROM member_by_ids WHERE email = 'dave'")
		return
	}
	if err == nil || again[0].ID != 0 || again[1].ID != 0 {
		t.Errorf("%+v, %v; want an error and no IDs", again, err)
	}
}
