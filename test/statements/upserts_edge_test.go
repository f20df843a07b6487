package statements_test

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// onConstraint returns the clauses that name a constraint of PostgreSQL.
func onConstraint(name, updates string) map[string]clause.OnConflict {
	return map[string]clause.OnConflict{
		"UpdateAll": {OnConstraint: name, UpdateAll: true},
		"DoUpdates": {OnConstraint: name, DoUpdates: clause.AssignmentColumns([]string{updates})},
		"DoNothing": {OnConstraint: name, DoNothing: true},
	}
}

func upsertsOnAConstraint(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	plainExec(t, db, "ALTER TABLE member_by_ids ADD CONSTRAINT one_email UNIQUE (email)",
		"INSERT INTO member_by_ids (id, email) VALUES (77, 'alice')")
	for name, c := range onConstraint("one_email", "name") {
		t.Run(name, func(t *testing.T) {
			one := memberByID{Email: "alice"}
			succeed(t, db.Clauses(c).Create(&one))
			wantInt(t, "the ID of the struct", one.ID, 77)
			all := []memberByID{{Email: "alice"}, {Email: name}}
			succeed(t, db.Clauses(c).Create(&all))
			wantInt(t, "the ID in the slice", all[0].ID, 77)
			wantStored(t, db, all[1].ID, "SELECT id FROM member_by_ids WHERE email = ?", name)
		})
	}
}

func upsertsOnAnUnknownConstraint(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &badge{})
	plainExec(t, db, "ALTER TABLE badges ADD CONSTRAINT badges_number UNIQUE (number)",
		"INSERT INTO badges (id, public_id, number) VALUES (77, 770, 'one')")
	for name, c := range onConstraint("badges_number", "name") {
		t.Run(name, func(t *testing.T) {
			checkUnknownKey(t, db.Clauses(c), name)
		})
	}
}

func upsertsOnAnUnknownKey(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &badge{})
	plainExec(t, db, "CREATE UNIQUE INDEX badges_number ON badges (number)",
		"INSERT INTO badges (id, public_id, number) VALUES (77, 770, 'one')")
	number := onColumn("number")
	for name, c := range map[string]clause.OnConflict{
		"DoNothing":      doNothing(),
		"DoNothing on":   {Columns: number, DoNothing: true},
		"DoUpdates on":   {Columns: number, DoUpdates: clause.AssignmentColumns([]string{"name"})},
		"UpdateAll on":   {Columns: number, UpdateAll: true},
		"DoUpdates expr": {Columns: number, DoUpdates: clause.Assignments(map[string]any{"name": "x"})},
	} {
		t.Run(name, func(t *testing.T) { checkUnknownKey(t, db.Clauses(c), name) })
	}
}

// upsertsOnASharedTarget names a target that is not a key. MySQL accepts this, because it has no
// targets.
func upsertsOnASharedTarget(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &badge{})
	plainExec(t, db, "CREATE UNIQUE INDEX badges_number ON badges (number)",
		"INSERT INTO badges (id, public_id, number, name) VALUES (77, 770, 'one', 'x'), (78, 780, 'two', 'x')")
	met := badge{Number: "two", Name: "x"}
	succeed(t, db.Clauses(clause.OnConflict{Columns: onColumn("name"), DoNothing: true}).Create(&met))
	if met.ID != 0 || met.PublicID != 0 {
		t.Errorf("%+v, want no ID: which row it met cannot be told", met)
	}
}

func upsertsOnAnExpression(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &badge{})
	plainExec(t, db, "CREATE UNIQUE INDEX badges_lower ON badges (lower(number))",
		"INSERT INTO badges (id, public_id, number) VALUES (77, 770, 'ONE')")
	lower := []clause.Column{{Name: "lower(number)", Raw: true}}
	for name, c := range map[string]clause.OnConflict{
		"nothing": {Columns: lower, DoNothing: true},
		"updates": {Columns: lower, DoUpdates: clause.AssignmentColumns([]string{"name"})},
		"all":     {Columns: lower, UpdateAll: true},
	} {
		t.Run(name, func(t *testing.T) { checkUnknownKey(t, db.Clauses(c), name) })
	}
}

// checkUnknownKey upserts one badge that conflicts with row 77 and one new badge.
func checkUnknownKey(t *testing.T, tx *gorm.DB, fresh string) {
	t.Helper()
	all := []badge{{Number: "one", Name: "new"}, {Number: fresh, Name: "new"}}
	succeed(t, tx.Create(&all))
	if id := all[0].ID; id != 0 && id != 77 {
		t.Errorf("the struct holds %d, which is no row's", id)
	}
	if id := all[0].PublicID; id != 0 && id != 770 {
		t.Errorf("the struct holds the public ID %d, which is no row's", id)
	}
	wantStored(t, tx, all[1].ID, "SELECT id FROM badges WHERE number = ?", fresh)
	wantStored(t, tx, all[1].PublicID, "SELECT public_id FROM badges WHERE number = ?", fresh)
	wantInt(t, "the public ID of the old row",
		plainOne[int64](t, tx, "SELECT public_id FROM badges WHERE id = 77"), 770)
}

func upsertsOnAPartialIndex(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &tenancy{})
	plainExec(t, db, "INSERT INTO tenancies (id, name, deleted_at) VALUES "+
		"(70, 'both', '2020-01-01 00:00:00'), (71, 'dead', '2020-01-01 00:00:00'), (77, 'both', NULL)")
	live := clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "deleted_at IS NULL"}}}
	for name, c := range map[string]clause.OnConflict{
		"DoNothing": {Columns: onColumn("name"), TargetWhere: live, DoNothing: true},
		"UpdateAll": {Columns: onColumn("name"), TargetWhere: live, UpdateAll: true},
		"DoUpdates": {Columns: onColumn("name"), TargetWhere: live,
			DoUpdates: clause.AssignmentColumns([]string{"plan"})},
	} {
		t.Run(name, func(t *testing.T) {
			plainExec(t, db, "DELETE FROM tenancies WHERE id > 77")
			all := []tenancy{{Name: "both", Plan: name}, {Name: "dead", Plan: name}, {Name: "new"}}
			succeed(t, db.Clauses(c).Create(&all))
			wantInt(t, "the ID where a dead and a live row have the name", all[0].ID, 77)
			for _, tenancy := range all {
				wantStored(t, db, tenancy.ID,
					"SELECT id FROM tenancies WHERE name = ? AND deleted_at IS NULL", tenancy.Name)
			}
			again := tenancy{Name: "dead"}
			succeed(t, db.Clauses(c).Create(&again))
			wantInt(t, "the ID of the row that is live by now", again.ID, all[1].ID)
			wantInt(t, "the number of rows",
				plainOne[int64](t, db, "SELECT count(*) FROM tenancies"), 5)
		})
	}
}

func upsertsOnAnUnnamedPartialIndex(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &tenancy{})
	plainExec(t, db, "INSERT INTO tenancies (id, name, deleted_at) VALUES "+
		"(70, 'both', '2020-01-01 00:00:00'), (71, 'dead', '2020-01-01 00:00:00'), (77, 'both', NULL)")
	all := []tenancy{{Name: "both"}, {Name: "dead"}}
	succeed(t, db.Clauses(doNothing()).Create(&all))
	if id := all[0].ID; id != 0 && id != 77 {
		t.Errorf("the struct holds %d; want 77, the live row, or zero", id)
	}
	wantStored(t, db, all[1].ID,
		"SELECT id FROM tenancies WHERE name = 'dead' AND deleted_at IS NULL")
}

// folded is stored in upper-case letters.
type folded string

func (f folded) Value() (driver.Value, error) { return strings.ToUpper(string(f)), nil }

func (f *folded) Scan(value any) error {
	switch value := value.(type) {
	case string:
		*f = folded(value)
	case []byte:
		*f = folded(value)
	}
	return nil
}

// place is embedded with a prefix.
type place struct {
	Shelf string `gorm:"size:50;uniqueIndex:article_place"`
	Level int    `gorm:"uniqueIndex:article_place"`
}

// article has one unique key of every other kind, a table and a column whose names must be quoted,
// and a key of two columns.
type article struct {
	Shop   int64              `gorm:"primaryKey;autoIncrement:false"`
	ID     snowflakeplugin.ID `gorm:"primaryKey;autoIncrement:false" snowflake:"true"`
	Group  *string            `gorm:"column:group;size:50;unique"`
	At     *time.Time         `gorm:"column:dateBought;uniqueIndex"`
	Digest []byte             `gorm:"size:16;uniqueIndex"`
	Code   folded             `gorm:"size:50;uniqueIndex"`
	Labels []string           `gorm:"size:100;serializer:json;uniqueIndex"`
	Place  place              `gorm:"embedded;embeddedPrefix:in_"`
}

func (article) TableName() string { return "order" }

func upsertsOnOddKeys(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &article{})
	at := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	elsewhere := 0
	// filled returns an article whose keys conflict with no other row, except for the key that set
	// changes.
	filled := func(set func(*article)) article {
		elsewhere++
		own := fmt.Sprint("own", elsewhere)
		a := article{Shop: 3, Group: &own, Digest: []byte(own), Code: folded(own),
			At: pointerTo(at.AddDate(elsewhere, 0, 0)), Labels: []string{own},
			Place: place{Shelf: own, Level: elsewhere}}
		set(&a)
		return a
	}
	keys := map[string]func(*article){
		"a quoted column":  func(a *article) { a.Group = pointerTo("books") },
		"a time":           func(a *article) { a.At = &at },
		"bytes":            func(a *article) { a.Digest = []byte{0, 1, 255, '\''} },
		"a Valuer":         func(a *article) { a.Code = "mixedCase" },
		"a serialized one": func(a *article) { a.Labels = []string{"it's", "two"} },
		"embedded columns": func(a *article) { a.Place = place{Shelf: "top", Level: 0} },
	}
	existing := map[string]snowflakeplugin.ID{}
	for name, set := range keys {
		a := filled(set)
		succeed(t, db.Create(&a))
		existing[name] = a.ID
	}
	stored := plainRows[int64](t, db, quoted(db, "SELECT id FROM ~order~"))
	for name, set := range keys {
		t.Run(name, func(t *testing.T) {
			before := existing[name]
			if !slices.Contains(stored, int64(before)) {
				t.Fatalf("%d is not in the table", before)
			}
			all := []article{filled(set), filled(func(*article) {})}
			succeed(t, db.Clauses(doNothing()).Create(&all))
			wantInt(t, "the ID of the row that was met", all[0].ID, before)
			wantStored(t, db, all[1].ID,
				quoted(db, "SELECT id FROM ~order~ WHERE ~group~ = ?"), *all[1].Group)
		})
	}
	wantInt(t, "the number of rows", len(plainRows[int64](t, db,
		quoted(db, "SELECT id FROM ~order~"))), 2*len(keys))
}

// quoted replaces ~ with the quotes of the dialect.
func quoted(db *gorm.DB, query string) string {
	mark := `"`
	if db.Name() == "mysql" {
		mark = "`"
	}
	return strings.ReplaceAll(query, "~", mark)
}

type (
	// customer and guest have a primary key that the database generates, and an additional ID.
	customer struct {
		ID       uint               `gorm:"primaryKey"`
		PublicID snowflakeplugin.ID `gorm:"uniqueIndex" snowflake:"true"`
		Email    string             `gorm:"size:100;uniqueIndex"`
		Name     string             `gorm:"size:100"`
	}
	guest struct {
		ID       uint               `gorm:"primaryKey"`
		PublicID snowflakeplugin.ID `snowflake:"true"`
		Email    string             `gorm:"size:100;uniqueIndex"`
		Name     string             `gorm:"size:100"`
	}
)

// upsertsBesideADatabaseKey must not use values that GORM reads back. After DoNothing, and without
// RETURNING, GORM gives structs the primary keys of other rows.
func upsertsBesideADatabaseKey(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &customer{}, &guest{})
	for _, c := range upsertClauses {
		for _, emails := range [][]string{
			{"alice", "bob", "carol"}, {"bob", "carol", "alice"}, {"alice"}, {"bob"}, {"carol", "alice"},
		} {
			t.Run(c.name+" of "+strings.Join(emails, " "), func(t *testing.T) {
				for _, table := range []string{"customers", "guests"} {
					plainExec(t, db, "DELETE FROM "+table, "INSERT INTO "+table+
						" (public_id, email, name) VALUES (500, 'alice', 'old'), (600, 'carol', 'old')")
				}
				var customers []customer
				var guests []guest
				for _, email := range emails {
					customers = append(customers, customer{Email: email, Name: "new"})
					guests = append(guests, guest{Email: email, Name: "new"})
				}
				succeed(t, db.Clauses(c.clause).Create(&customers))
				for _, m := range customers {
					wantStored(t, db, m.PublicID, "SELECT public_id FROM customers WHERE email = ?", m.Email)
				}
				succeed(t, db.Clauses(c.clause).Create(&guests))
				for _, m := range guests {
					// Without an index on the column, the plugin does not search by it.
					if m.PublicID != 0 {
						wantStored(t, db, m.PublicID, "SELECT public_id FROM guests WHERE email = ?", m.Email)
					}
				}
			})
		}
	}
}
