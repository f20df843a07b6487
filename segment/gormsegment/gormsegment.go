// Package gormsegment keeps counters in a table of the application's own database.
//
//	db, err := gorm.Open(postgres.Open(dsn), &gorm.Config{})
//	if err != nil { ... }
//	store, err := gormsegment.New(db) // makes the table snowflake_segments if it is not there
//	if err != nil { ... }
//	defer store.Close()
//	orders, err := segment.New(store, "orders")
//
// It works on PostgreSQL, MySQL, MariaDB and SQLite, through gorm.io/driver or a driver that goes by the same
// name. Package sqlsegment, which describes the table, is the same store for programs that do not use GORM;
// this package finds a connection for it.
//
// # Beside GORM
//
// No transaction of the application ever delays the claims of the store or rolls them back, even if New was
// given one. Package gormlease describes the connections. On SQLite a claim waits for a transaction that
// writes until its context ends: a number that is needed inside such a transaction has to be there before it
// begins, or both wait for each other until the claim gives up.
package gormsegment

import (
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/gormpool"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/sqlsegment"
)

// These are the errors of the same names in package sqlsegment. None of them is temporary: a retry does not
// help until somebody has changed the program or the database. A database that does not answer, or takes no
// writes, is [segment.ErrStore] instead, and a store that was closed returns [segment.ErrClosed].
var (
	// ErrTable is returned by [New] when the table cannot be made or used. The message has the statement that
	// creates it or changes it.
	ErrTable = sqlsegment.ErrTable

	// ErrDatabase is returned by [New] and [DDL] also for a handle without a pool of database/sql behind it.
	ErrDatabase = sqlsegment.ErrDatabase

	// ErrOption is returned by [New] and [DDL] for an option that is invalid.
	ErrOption = sqlsegment.ErrOption
)

// Option changes one property of a [Store].
type Option = gormpool.Option

// WithTable names the table, which is snowflake_segments by default. It is [sqlsegment.WithTable]: no naming
// strategy of GORM changes the name, and counters in different tables do not know of each other.
func WithTable(name string) Option { return gormpool.WithTable(name) }

// counters is the store of package sqlsegment under a name that is not exported.
type counters = sqlsegment.Store

// Store is a [segment.Store] in a table. Make one with [New]; it must not be copied. Its methods are those of
// [sqlsegment.Store], and safe for concurrent use. Close closes the connection that the store has opened, if
// it has, and leaves the application's pool alone.
type Store struct{ *counters }

var _ segment.Store = (*Store)(nil)

// New returns the store in the database of db and makes its table, if it is not there. db may be
// any handle on that database, a transaction too: the store does not become part of it. (On SQLite
// New has to wait for the end of one that writes, so do not call it from within.) New waits as long
// as the context of db allows, and no longer than 30 s.
//
// It returns an error wrapping [ErrOption]; [ErrDatabase], for a database that it cannot work on;
// [ErrTable], with the statement that makes the table; or [segment.ErrStore], if the database does
// not answer.
func New(db *gorm.DB, opts ...Option) (*Store, error) {
	table, _, _, err := gormpool.Open(db, gormpool.Config{
		Package: "gormsegment", Option: "segment.New", Purpose: "segment", ErrDatabase: ErrDatabase,
	}, opts, sqlsegment.New)
	if err != nil {
		return nil, err
	}
	return &Store{table}, nil
}

// DDL returns the statement that makes the table of the store that [New] would return, for those
// who make tables by other means. It asks nothing of the database. The errors are those of New
// about options and databases.
func DDL(db *gorm.DB, opts ...Option) (string, error) {
	return gormpool.DDL(db, ErrDatabase, opts, sqlsegment.DDL)
}
