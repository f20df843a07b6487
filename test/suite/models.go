package suite

import (
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Account is the plain model. It has a key that the plugin fills, and a unique column for conflicts.
type Account struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Email string             `gorm:"size:100;uniqueIndex"`
	Name  string             `gorm:"size:100"`
}

// Ticket has a plain integer key and another tagged column.
type Ticket struct {
	ID       int64              `gorm:"primaryKey" snowflake:"true"`
	PublicID snowflakeplugin.ID `gorm:"uniqueIndex" snowflake:"true"`
	Title    string             `gorm:"size:100;uniqueIndex"`
}

// PlainNote is not tagged. The database generates its key.
type PlainNote struct {
	ID   uint   `gorm:"primaryKey"`
	Text string `gorm:"size:100"`
}

// Use makes db use the plugin and migrates the models.
func Use(t *testing.T, db *gorm.DB, plugin *snowflakeplugin.Plugin, models ...any) {
	t.Helper()
	Must(t, db.Use(plugin), "Use")
	Must(t, plugin.Prepare(db, models...), "Prepare")
	Must(t, db.AutoMigrate(models...), "AutoMigrate")
}

// Models returns its arguments as a list of models.
func Models(list ...any) []any { return list }

// Stored reads the row with that key in a session without earlier clauses.
func Stored[T any](t *testing.T, db *gorm.DB, id any) T {
	t.Helper()
	var row T
	err := db.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Where("id = ?", id).Take(&row).Error
	if err != nil {
		t.Fatalf("read the %T with ID %v: %v", row, id, err)
	}
	return row
}

// AllStored reads all rows of the model, by key.
func AllStored[T any](t *testing.T, db *gorm.DB) []T {
	t.Helper()
	var rows []T
	err := db.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Order("id").Find(&rows).Error
	if err != nil {
		t.Fatalf("read all %T: %v", rows, err)
	}
	return rows
}

// Holds fails the test unless the table of the model has the wanted number of rows.
func Holds(t *testing.T, db *gorm.DB, model any, want int64) {
	t.Helper()
	var got int64
	err := db.Session(&gorm.Session{NewDB: true}).Model(model).Unscoped().Count(&got).Error
	Must(t, err, "count")
	if got != want {
		t.Errorf("the table of %T has %d rows, want %d", model, got, want)
	}
}

// AccountStored fails the test unless the account has an ID and its row is equal to it.
func AccountStored(t *testing.T, db *gorm.DB, a Account) {
	t.Helper()
	if a.ID == 0 {
		t.Fatalf("account %q has no ID", a.Email)
	}
	Same(t, "the stored row", Stored[Account](t, db, a.ID), a)
}

// TicketStored fails the test unless the ticket has both IDs and its row is equal to it.
func TicketStored(t *testing.T, db *gorm.DB, v Ticket) {
	t.Helper()
	if v.ID == 0 || v.PublicID == 0 || v.ID == int64(v.PublicID) {
		t.Fatalf("ticket %q has the IDs %d and %d, want two different ones", v.Title, v.ID, v.PublicID)
	}
	Same(t, "the stored row", Stored[Ticket](t, db, v.ID), v)
}

// Watch sets a recorder on the handle and returns both.
func Watch(db *gorm.DB) (*gorm.DB, *dbtest.Recorder) {
	recorder := dbtest.NewRecorder()
	return db.Session(&gorm.Session{Logger: recorder}), recorder
}
