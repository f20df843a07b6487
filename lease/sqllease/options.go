package sqllease

import (
	"context"

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqltable"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Dialect is the SQL that a database speaks. The values are the names that GORM uses.
type Dialect string

// The dialects that a store can work with.
const (
	PostgreSQL Dialect = dialect.PostgreSQL
	MySQL      Dialect = dialect.MySQL // MariaDB too
	SQLite     Dialect = dialect.SQLite
)

// None of these errors is temporary: a retry does not help until somebody has changed the program or
// the database. A database that does not answer, or takes no writes, is [lease.ErrStore] instead, and a
// store that was closed returns [lease.ErrClosed].
var (
	// ErrTable is returned by [New] when the table does not exist and cannot be created, cannot be used,
	// or is stored in a way that may lose rows, such as an UNLOGGED table of PostgreSQL or one of the
	// engine MEMORY. The message has the statement that creates it or changes it. The database's own error
	// is wrapped too.
	ErrTable = errs.Lasting("sqllease: table cannot be used")

	// ErrDatabase is returned by [New] and [DDL] for a database that no store can work on: its dialect
	// is not supported, or a pooler in between does not fit the driver's settings.
	ErrDatabase = authority.ErrDatabase

	// ErrOption is returned by [New] and [DDL] for an option that is invalid.
	ErrOption = errs.Lasting("sqllease: invalid option")
)

// Option changes one property of a [Store]. The options of this package are the only ones.
type Option = sqltable.Option

// WithTable names the table. The name is used as it is: no prefix is added and nothing is made plural.
// A dot separates the schema, or on MySQL the database, from the table. The default is
// snowflake_nodes in the default schema of the connection.
//
// Stores on different tables do not know of each other and hand out the same numbers. All programs
// that insert into the same tables need the same table of leases.
func WithTable(name string) Option { return sqltable.WithTable(name) }

// WithDedicatedPool tells the store that nobody else uses its *sql.DB, now or later. The store then
// keeps one connection, prepares it for its requests, and closes the pool when it is closed itself.
// A renewal is one statement, and no transaction of the application delays it. Do not use it for a
// database of SQLite in memory, whose only connection the application needs too.
func WithDedicatedPool() Option { return sqltable.WithDedicatedPool() }

// table is what the table is like without options.
func table(d Dialect) sqltable.Spec {
	return sqltable.Spec{
		Dialect: dialect.Dialect{Kind: dialect.Kind(d)}, Table: authority.DefaultLeases, Beside: authority.Table,
		Columns: []sqltable.Column{
			{Name: "node"}, {Name: "owner", Type: sqltable.Text}, {Name: "until", Type: sqltable.Time},
			{Name: "version"}, {Name: "layout", Type: sqltable.Text}, {Name: "updated_at", Type: sqltable.Time},
		},
		Compare: []int{1, 3}, Newest: 2,
		Mark: sqltable.Mark{
			Row: rowOf(leaseops.Mark("")), Column: 1, ErrEmptied: errs.ErrAuthority,
			First: "stop all programs that use it, wait until their windows have ended (15 s, up to ten minutes " +
				"on SQLite, or the span that you have set), so that no process holds a number of the lost records " +
				"any more",
			Again: "Stop all programs that use it, wait until their windows have ended, and start them again",
			Noted: func(ctx context.Context, q sqltable.Querier, p sqltable.Place) (string, error) {
				return authority.In(string(d), q).Placed(p).Noted(ctx, authority.Leases, p.Table)
			},
		},
		Package: "sqllease", Holds: "records", Purpose: purpose, Rights: "SELECT, INSERT and UPDATE",
		Instead:   "; lease from another store (WithLease), or give each process a number by hand (WithNode)",
		ErrOption: ErrOption, ErrTable: ErrTable, ErrDatabase: ErrDatabase,
		ErrStore: lease.ErrStore, ErrClosed: lease.ErrClosed, ErrRow: lease.ErrInvalidRecord,
	}
}
