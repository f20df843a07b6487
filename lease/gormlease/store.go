package gormlease

import (
	"database/sql"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/gormpool"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
)

// These are the errors of the same names in package sqllease. None of them is temporary: a retry does not
// help until somebody has changed the program or the database. A database that does not answer, or takes no
// writes, is [lease.ErrStore] instead, and a store that was closed returns [lease.ErrClosed].
var (
	// ErrTable is returned by [New] when the table cannot be made or used. The message has the statement that
	// creates it or changes it.
	ErrTable = sqllease.ErrTable

	// ErrDatabase is returned by [New] and [DDL] also for a handle without a pool of database/sql behind it.
	ErrDatabase = sqllease.ErrDatabase

	// ErrOption is returned by [New] and [DDL] for an option that is invalid.
	ErrOption = sqllease.ErrOption
)

// Option changes one property of a [Store].
type Option = gormpool.Option

// WithTable names the table, which is snowflake_nodes by default. It is [sqllease.WithTable]: no naming
// strategy of GORM changes the name, and stores on different tables hand out the same numbers.
func WithTable(name string) Option { return gormpool.WithTable(name) }

// records is the store of package sqllease under a name that is not exported.
type records = sqllease.Store

// Store is a [lease.Store] in a table. Make one with [New]; it must not be copied. Its methods are those of
// [sqllease.Store], and safe for concurrent use. Close closes the connection that the store has opened, if it
// has, and leaves the application's pool alone.
type Store struct {
	*records

	pool *sql.DB // the one that records works on
	own  bool    // New has opened it
}

var _ lease.Store = (*Store)(nil)

// New returns the store in the database of db and makes its table, if it is not there. db may be
// any handle on that database, a transaction too: the store does not become part of it. (On SQLite
// New has to wait for the end of one that writes, so do not call it from within.) New waits as long
// as the context of db allows, and no longer than 30 s.
//
// It returns an error wrapping [ErrOption]; [ErrDatabase], for a database that it cannot work on;
// [ErrTable], with the statement that makes the table; or [lease.ErrStore], if the database does
// not answer.
func New(db *gorm.DB, opts ...Option) (*Store, error) {
	table, pool, own, err := gormpool.Open(db, gormpool.Config{
		Package: "gormlease", Option: "WithLease", Purpose: "lease", ErrDatabase: ErrDatabase,
	}, opts, sqllease.New)
	if err != nil {
		return nil, err
	}
	return &Store{table, pool, own}, nil
}

// DDL returns the statement that makes the table of the store that [New] would return, for those
// who make tables by other means. It asks nothing of the database. The errors are those of New
// about options and databases.
func DDL(db *gorm.DB, opts ...Option) (string, error) {
	return gormpool.DDL(db, ErrDatabase, opts, sqllease.DDL)
}

// AuthorityDDL returns the statement that makes the table snowflake_authority beside the table of the
// store that [New] would return, for those who make tables by other means. It asks nothing of the
// database. The errors are those of New about options and databases.
func AuthorityDDL(db *gorm.DB, opts ...Option) (string, error) {
	return gormpool.DDL(db, ErrDatabase, opts, sqllease.AuthorityDDL)
}
