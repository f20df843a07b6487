// Package filling_test tests what the plugin promises for a create: which fields it fills in which
// shapes and associations, what it refuses, and how it behaves from Use to Close.
package filling_test

import (
	"database/sql"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

type behavior = suite.Behavior

var (
	run       = suite.Run
	open      = suite.Open
	must      = suite.Must
	wantErr   = suite.WantErr
	says      = suite.Says
	silent    = suite.Silent
	leased    = suite.Leased
	plainExec = suite.PlainExec
	use       = suite.Use
	models    = suite.Models
	holds     = suite.Holds
	watch     = suite.Watch

	accountStored = suite.AccountStored
	ticketStored  = suite.TicketStored
)

type (
	account   = suite.Account
	ticket    = suite.Ticket
	plainNote = suite.PlainNote
)

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	suite.Same(t, what, got, want)
}

func plainOne[V any](t *testing.T, db *gorm.DB, query string, args ...any) V {
	t.Helper()
	return suite.PlainOne[V](t, db, query, args...)
}

func stored[T any](t *testing.T, db *gorm.DB, id any) T {
	t.Helper()
	return suite.Stored[T](t, db, id)
}

func allStored[T any](t *testing.T, db *gorm.DB) []T {
	t.Helper()
	return suite.AllStored[T](t, db)
}

func plainRows[V any](t *testing.T, db *gorm.DB, query string, args ...any) []V {
	t.Helper()
	return suite.PlainRows[V](t, db, query, args...)
}

// plainNull is plainOne for a number that may be NULL.
func plainNull(t *testing.T, db *gorm.DB, query string, args ...any) sql.NullInt64 {
	t.Helper()
	return plainOne[sql.NullInt64](t, db, query, args...)
}

// doNothing keeps an existing row, whichever key conflicts.
func doNothing() clause.OnConflict { return clause.OnConflict{DoNothing: true} }

// pointerTo returns a pointer to a copy of v.
func pointerTo[V any](v V) *V { return &v }
