package statements_test

import (
	"errors"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestStatements(t *testing.T) { run(t, statementBehaviors()) }

// statementBehaviors test the statements that are sent, and handles that are used again, in
// transactions and by many goroutines.
func statementBehaviors() []behavior {
	return append([]behavior{
		{Name: "a tree costs no more statements than one with given keys", Run: statementsOfATree},
		{Name: "every kind of create sends so many statements", Everywhere: true, Run: statementsOfCreates},
		{Name: "an untagged model sends what it did before", Run: statementsOfUntagged},
		{Name: "prepared statements fill and read back", Run: statementsPrepared},
		{Name: "TranslateError names a duplicate key", Run: statementsTranslateErrors},
		{Name: "a row that a savepoint took back is created again with its ID",
			Run: statementsInNestedTransactions},
		{Name: "savepoints by hand do the same", Run: statementsBetweenSavepoints},
		{Name: "a handle used again leaves the rows of its last use alone", Run: statementsReused},
		{Name: "a handle used again after an error of its own fills nothing", Run: statementsReusedAfterError},
		{Name: "a session used again fills after an error", Run: statementsInASession},
		{Name: "Save of a struct writes a zero that is not the key", Run: statementsOfSave},
		{Name: "Save of unchanged zeros leaves struct and row alike", Run: statementsOfUnchangedSave},
	}, concurrencyBehaviors()...)
}

type (
	// clerk has every kind of relation.
	clerk struct {
		ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		FirmID snowflakeplugin.ID
		Firm   firm
		Desk   desk
		Tasks  []task
		Skills []skill `gorm:"many2many:clerk_skills"`
	}
	firm struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name string             `gorm:"size:50;uniqueIndex"`
	}
	desk struct {
		ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		ClerkID snowflakeplugin.ID
		Room    string `gorm:"size:50"`
	}
	task struct {
		ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		ClerkID snowflakeplugin.ID
		Steps   []step
	}
	step struct {
		ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		TaskID snowflakeplugin.ID
	}
	skill struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name string             `gorm:"size:50;uniqueIndex"`
	}
	// tariff does not use the plugin.
	tariff struct {
		ID   int64
		Name string `gorm:"size:50;uniqueIndex"`
	}
)

// tree returns a clerk with all relations. The function id returns the next ID, or 0 to leave it to
// the plugin.
func tree(name string, id func() snowflakeplugin.ID) clerk {
	return clerk{
		ID: id(), Firm: firm{ID: id(), Name: name}, Desk: desk{ID: id(), Room: name},
		Tasks: []task{
			{ID: id(), Steps: []step{{ID: id()}, {ID: id()}}}, {ID: id(), Steps: []step{{ID: id()}}},
		},
		Skills: []skill{{ID: id(), Name: name + " 1"}, {ID: id(), Name: name + " 2"}},
	}
}

// These are the statements of a tree: the firm, the clerk, the desk, the tasks, the steps, the
// skills and the join rows. Without a conflict target, MySQL and MariaDB cannot report what
// happened to a row. There the rows are looked up that have a key beside the primary key, the firms and the
// skills. The others have new keys, so they are inserted or refused.
const (
	statementsOfTree = 7
	lookupsOfTree    = 2
)

func statementsOfATree(t *testing.T, target dbtest.Target) {
	recorder, bare := dbtest.NewRecorder(), dbtest.NewRecorder()
	models := []any{&firm{}, &skill{}, &clerk{}, &desk{}, &task{}, &step{}}
	db := openAs(t, target, opening{cfg: &gorm.Config{Logger: recorder}}, models...)
	without := target.Open(t, &gorm.Config{Logger: bare})
	if err := without.AutoMigrate(models...); err != nil {
		t.Fatal(err)
	}
	next := snowflakeplugin.ID(0)
	given := []clerk{
		tree("a", func() snowflakeplugin.ID { next++; return next }),
		tree("b", func() snowflakeplugin.ID { next++; return next }),
	}
	zero := func() snowflakeplugin.ID { return 0 }
	filled := []clerk{tree("a", zero), tree("b", zero)}

	bare.Reset()
	succeed(t, without.Create(&given))
	wantInt(t, "the number of statements with given keys", len(bare.Statements()), statementsOfTree)
	recorder.Reset()
	succeed(t, db.Create(&filled))
	want := statementsOfTree
	if target.Dialect == "mysql" {
		want += lookupsOfTree
	}
	if sent := recorder.Statements(); len(sent) != want {
		t.Errorf("%d statements, want %d: %q", len(sent), want, sent)
	}
	wantInt(t, "the number of inserts", len(recorder.Inserts()), statementsOfTree)

	for _, c := range filled {
		wantStored(t, db, c.Firm.ID, "SELECT firm_id FROM clerks WHERE id = ?", c.ID)
		wantStored(t, db, c.Firm.ID, "SELECT id FROM firms WHERE name = ?", c.Firm.Name)
		wantStored(t, db, c.ID, "SELECT clerk_id FROM desks WHERE id = ?", c.Desk.ID)
		for _, task := range c.Tasks {
			wantStored(t, db, c.ID, "SELECT clerk_id FROM tasks WHERE id = ?", task.ID)
			for _, step := range task.Steps {
				wantStored(t, db, task.ID, "SELECT task_id FROM steps WHERE id = ?", step.ID)
			}
		}
		for _, skill := range c.Skills {
			wantStored(t, db, skill.ID, "SELECT skill_id FROM clerk_skills j JOIN skills s "+
				"ON s.id = j.skill_id WHERE j.clerk_id = ? AND s.name = ?", c.ID, skill.Name)
		}
	}
}

func statementsOfCreates(t *testing.T, target dbtest.Target) {
	recorder := dbtest.NewRecorder()
	db := openAs(t, target, opening{cfg: &gorm.Config{Logger: recorder}}, &memberByID{}, &badge{})
	plainExec(t, db, "CREATE UNIQUE INDEX badges_number ON badges (number)",
		"INSERT INTO badges (id, public_id, number) VALUES (77, 770, 'one')",
		"INSERT INTO member_by_ids (id, email) VALUES (77, 'alice')")
	none, byEmail := db, db.Clauses(onEmail()).Session(&gorm.Session{})
	nothing := db.Clauses(doNothing()).Session(&gorm.Session{})
	all := db.Clauses(clause.OnConflict{UpdateAll: true}).Session(&gorm.Session{})
	for _, c := range []struct {
		name  string
		do    func() *gorm.DB
		want  int // statements on SQLite and PostgreSQL
		mysql int // on MySQL and MariaDB
	}{
		{"Create", func() *gorm.DB { return none.Create(&memberByID{Email: "a"}) }, 1, 1},
		{"Create of a slice", func() *gorm.DB {
			return none.Create(&[]memberByID{{Email: "b"}, {Email: "c"}})
		}, 1, 1},
		{"CreateInBatches", func() *gorm.DB {
			return none.CreateInBatches([]memberByID{{Email: "d"}, {Email: "e"}, {Email: "f"}}, 2)
		}, 2, 2},
		{"Save of a new struct", func() *gorm.DB { return none.Save(&memberByID{Email: "g"}) }, 1, 1},
		{"Save of a new slice", func() *gorm.DB { return none.Save(&[]memberByID{{Email: "h"}}) }, 1, 2},
		{"Save of an unknown key", func() *gorm.DB {
			return none.Save(&memberByID{ID: 5, Email: "i"})
		}, 2, 2},
		{"UpdateAll by the key", func() *gorm.DB { return all.Create(&memberByID{Email: "j"}) }, 1, 2},
		{"DoNothing that inserts all", func() *gorm.DB {
			return nothing.Create(&[]memberByID{{Email: "k"}, {Email: "l"}})
		}, 1, 2},
		{"DoNothing that meets a row", func() *gorm.DB {
			return nothing.Create(&[]memberByID{{Email: "alice"}, {Email: "m"}})
		}, 3, 3},
		{"DoNothing that meets a row which is not found", func() *gorm.DB {
			return nothing.Create(&badge{Number: "one"})
		}, 2, 2},
		{"DoUpdates that inserts", func() *gorm.DB { return byEmail.Create(&memberByID{Email: "n"}) }, 2, 2},
		{"DoUpdates that meets a row", func() *gorm.DB {
			return byEmail.Create(&memberByID{Email: "alice"})
		}, 3, 3},
		{"Save of a new slice without another key", func() *gorm.DB {
			return none.Save(&[]badge{{Number: "2"}})
		}, 1, 1},
		{"UpdateAll by the key without another key", func() *gorm.DB {
			return all.Create(&badge{Number: "3"})
		}, 1, 1},
		{"DoNothing with a new key and one that is there", func() *gorm.DB {
			return nothing.Create(&[]memberByID{{ID: 77, Email: "alice"}, {Email: "o"}})
		}, 2, 2},
		{"upsert of given keys", func() *gorm.DB {
			return byEmail.Create(&memberByID{ID: 6, Email: "alice"})
		}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorder.Reset()
			succeed(t, c.do())
			want := c.want
			if target.Dialect == "mysql" {
				want = c.mysql
			}
			if sent := recorder.Statements(); len(sent) != want {
				t.Errorf("%d statements, want %d: %q", len(sent), want, sent)
			}
		})
	}
}

func statementsOfUntagged(t *testing.T, target dbtest.Target) {
	with, without := dbtest.NewRecorder(), dbtest.NewRecorder()
	db := openAs(t, target, opening{cfg: &gorm.Config{Logger: with}}, &tariff{})
	bare := target.Open(t, &gorm.Config{Logger: without})
	if err := bare.AutoMigrate(&tariff{}); err != nil {
		t.Fatal(err)
	}
	with.Reset()
	without.Reset()
	for _, db := range []*gorm.DB{db, bare} {
		succeed(t, db.Create(&tariff{Name: "a"}))
		succeed(t, db.Create(&[]tariff{{Name: "b"}, {Name: "c"}}))
		succeed(t, db.Model(&tariff{}).Create(map[string]any{"name": "d"}))
		succeed(t, db.Clauses(doNothing()).Create(&tariff{Name: "a"}))
		succeed(t, db.Clauses(clause.OnConflict{
			Columns: onColumn("name"), UpdateAll: true}).Create(&[]tariff{{Name: "a"}, {Name: "e"}}))
		succeed(t, db.Save(&tariff{ID: 90, Name: "f"}))
	}
	sent, want := with.Statements(), without.Statements()
	if len(sent) != len(want) || len(sent) == 0 {
		t.Fatalf("sent %q, want %q", sent, want)
	}
	for i := range sent {
		if sent[i] != want[i] {
			t.Errorf("sent %s, want %s", sent[i], want[i])
		}
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM tariffs"), 6)
}

// TestUntaggedModelsAllocateNothingMore measures the cost of the plugin for models that do not use
// it. It is not part of the table, because allocations can only be counted while nothing else runs.
func TestUntaggedModelsAllocateNothingMore(t *testing.T) {
	target := dbtest.Targets()[0]
	allocations := func(use bool) float64 {
		db := target.Open(t, &gorm.Config{SkipDefaultTransaction: true, DryRun: true})
		if use {
			if err := db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))); err != nil {
				t.Fatal(err)
			}
		}
		row := tariff{ID: 1, Name: "a"}
		return testing.AllocsPerRun(200, func() {
			if err := db.Create(&row).Error; err != nil {
				t.Fatal(err)
			}
		})
	}
	without, with := allocations(false), allocations(true)
	if with > without || without == 0 {
		t.Errorf("%v allocations with the plugin, %v without", with, without)
	}
}

func statementsPrepared(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{cfg: &gorm.Config{PrepareStmt: true}}, &memberByID{})
	for _, email := range []string{"a", "b", "c"} { // the statement is built once and used again
		one := memberByID{Email: email}
		succeed(t, db.Create(&one))
		wantStored(t, db, one.ID, "SELECT id FROM member_by_ids WHERE email = ?", email)
		var found memberByID
		succeed(t, db.First(&found, one.ID))
		wantInt(t, "the ID that is found", found.ID, one.ID)
	}
	session := db.Session(&gorm.Session{PrepareStmt: true, SkipDefaultTransaction: true})
	all := []memberByID{{Email: "d"}, {Email: "a"}}
	succeed(t, session.Clauses(doNothing()).Create(&all))
	for _, m := range all {
		wantStored(t, db, m.ID, "SELECT id FROM member_by_ids WHERE email = ?", m.Email)
	}
}

func statementsTranslateErrors(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{cfg: &gorm.Config{TranslateError: true}}, &memberByID{})
	one := memberByID{Email: "a"}
	succeed(t, db.Create(&one))
	for _, twice := range []memberByID{{ID: one.ID, Email: "b"}, {Email: "a"}} {
		given := twice.ID
		if err := db.Create(&twice).Error; !errors.Is(err, gorm.ErrDuplicatedKey) {
			t.Errorf("error is %v, want gorm.ErrDuplicatedKey", err)
		}
		wantInt(t, "the ID afterwards", twice.ID, given)
	}
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 1)
}
