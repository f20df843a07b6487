package statements_test

import (
	"database/sql"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// These are the models of the upserts. Each has a unique key in addition to the primary key, so a
// conflict need not be on the ID.
type (
	memberByID struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Email string             `gorm:"size:100;uniqueIndex"`
		Name  string             `gorm:"size:100"`
	}
	// memberByInt has a key that GORM treats as an auto-increment key.
	memberByInt struct {
		ID    int64  `gorm:"primaryKey" snowflake:"true"`
		Email string `gorm:"size:100;uniqueIndex"`
		Name  string `gorm:"size:100"`
	}
	// document has a second, public ID, and times in every unit that GORM supports.
	document struct {
		ID           snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		PublicID     snowflakeplugin.ID `gorm:"index" snowflake:"true"`
		Slug         string             `gorm:"size:100;uniqueIndex"`
		Title        string             `gorm:"size:100"`
		FolderID     *snowflakeplugin.ID
		CreatedAt    time.Time
		UpdatedAt    time.Time
		UpdatedSec   int64 `gorm:"autoUpdateTime"`
		UpdatedMilli int64 `gorm:"autoUpdateTime:milli"`
		UpdatedNano  int64 `gorm:"autoUpdateTime:nano"`
		Revision     int64 `gorm:"default:1"`
	}
	folder struct {
		ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name      string             `gorm:"size:100"`
		Documents []document
	}
	// contact has two unique keys, and the second may be NULL.
	contact struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Email string             `gorm:"size:100;uniqueIndex"`
		Phone *string            `gorm:"size:100;uniqueIndex"`
		Name  string             `gorm:"size:100"`
	}
	// badge has a unique key that only the database knows, badges_number.
	badge struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		PublicID snowflakeplugin.ID `snowflake:"true"`
		Number   string             `gorm:"size:100"`
		Name     string             `gorm:"size:100"`
	}
	// mailbox is deleted softly. Its deleted rows still occupy their addresses.
	mailbox struct {
		ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Address   string             `gorm:"size:100;uniqueIndex"`
		DeletedAt gorm.DeletedAt
	}
	// tenancy is deleted softly. Its deleted rows free their names.
	tenancy struct {
		ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name      string             `gorm:"size:100;uniqueIndex:,where:deleted_at IS NULL"`
		Plan      string             `gorm:"size:100"`
		DeletedAt gorm.DeletedAt
	}
)

// upsertKind describes how to create and inspect a model of the plain case.
type upsertKind[T any] struct {
	table string
	make  func(email, name string) T
	key   func(T) int64
	email func(T) string
}

var (
	byID = upsertKind[memberByID]{
		table: "member_by_ids",
		make:  func(email, name string) memberByID { return memberByID{Email: email, Name: name} },
		key:   func(m memberByID) int64 { return int64(m.ID) },
		email: func(m memberByID) string { return m.Email },
	}
	byInt = upsertKind[memberByInt]{
		table: "member_by_ints",
		make:  func(email, name string) memberByInt { return memberByInt{Email: email, Name: name} },
		key:   func(m memberByInt) int64 { return m.ID },
		email: func(m memberByInt) string { return m.Email },
	}
)

// upsertClauses are the clauses of the plain case. With updates, an existing row gets the name of
// the element that conflicts with it.
var upsertClauses = []struct {
	name    string
	clause  clause.OnConflict
	updates bool
}{
	{"DoNothing", clause.OnConflict{DoNothing: true}, false},
	{"DoNothing on the email", clause.OnConflict{Columns: onColumn("email"), DoNothing: true}, false},
	{"DoUpdates", onEmail(), true},
	{"UpdateAll", clause.OnConflict{Columns: onColumn("email"), UpdateAll: true}, true},
}

// onColumn returns a conflict target.
func onColumn(name string) []clause.Column { return []clause.Column{{Name: name}} }

// onEmail updates the name if the email exists.
func onEmail() clause.OnConflict {
	return clause.OnConflict{
		Columns: onColumn("email"), DoUpdates: clause.AssignmentColumns([]string{"name"}),
	}
}

// doNothing keeps an existing row, whichever key conflicts.
func doNothing() clause.OnConflict { return clause.OnConflict{DoNothing: true} }

// opening describes how to open a database if open is too simple.
type opening struct {
	cfg        *gorm.Config
	options    []dbtest.Option
	unprepared bool // migrate before the plugin is in use: integer keys are auto-increment columns
}

// openAs returns a new database that uses the plugin. The models are migrated.
func openAs(t *testing.T, target dbtest.Target, how opening, models ...any) *gorm.DB {
	t.Helper()
	db := target.Open(t, how.cfg, how.options...)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	if how.unprepared {
		must(t, db.AutoMigrate(models...), "AutoMigrate without the plugin")
		must(t, db.Use(plugin), "Use")
		return db
	}
	must(t, db.Use(plugin), "Use")
	must(t, db.AutoMigrate(models...), "AutoMigrate")
	return db
}

// plainNull is plainOne for a number that may be NULL.
func plainNull(t *testing.T, db *gorm.DB, query string, args ...any) sql.NullInt64 {
	t.Helper()
	return plainOne[sql.NullInt64](t, db, query, args...)
}

// succeed ends the test if a statement has failed.
func succeed(t *testing.T, result *gorm.DB) {
	t.Helper()
	if result.Error != nil {
		t.Fatal(result.Error)
	}
}

// wantInt compares two numbers. The argument what names them.
func wantInt[N, M ~int64 | ~int](t *testing.T, what string, got N, want M) {
	t.Helper()
	if int64(got) != int64(want) {
		t.Errorf("%s is %d, want %d", what, got, want)
	}
}

// wantStored checks that an ID in a struct is the key of the row that a query finds, and that the
// row exists.
func wantStored[N ~int64](t *testing.T, db *gorm.DB, got N, query string, args ...any) {
	t.Helper()
	stored := plainOne[int64](t, db, query, args...)
	if stored == 0 || int64(got) != stored {
		t.Errorf("the struct holds %d, the database %d (%s %v)", got, stored, query, args)
	}
}

// pointerTo returns a pointer to a copy of v.
func pointerTo[V any](v V) *V { return &v }
