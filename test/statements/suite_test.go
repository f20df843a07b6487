// Package statements_test tests what the plugin promises for the statements that GORM sends: an
// upsert ends with the stored ID, a create takes a known number of statements, and all supported
// kinds of columns and schemas work. The id_ files test how an ID is bound, read and migrated as a
// column by GORM, by database/sql and by pgx.
package statements_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

type behavior = suite.Behavior

var (
	run       = suite.Run
	open      = suite.Open
	must      = suite.Must
	plainExec = suite.PlainExec
)

func plainOne[V any](t *testing.T, db *gorm.DB, query string, args ...any) V {
	t.Helper()
	return suite.PlainOne[V](t, db, query, args...)
}

func plainRows[V any](t *testing.T, db *gorm.DB, query string, args ...any) []V {
	t.Helper()
	return suite.PlainRows[V](t, db, query, args...)
}

// maxID is the largest ID.
const maxID = snowflakeplugin.ID(math.MaxInt64)

// wantInvalid checks that an error wraps the sentinel and contains the reason.
func wantInvalid(t *testing.T, err error, why string) {
	t.Helper()
	if !errors.Is(err, snowflakeplugin.ErrInvalidID) {
		t.Errorf("error %v does not wrap ErrInvalidID", err)
		return
	}
	if !strings.Contains(err.Error(), why) {
		t.Errorf("error %q does not say %q", err, why)
	}
}
