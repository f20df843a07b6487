package sqlsegment

import (
	"context"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqltable"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// defaultTable is the same for every program, so that programs which use one counter find each other.
const defaultTable = "snowflake_segments"

// Dialect is the SQL that a database speaks. The values are the names that GORM uses.
type Dialect string

// The dialects that a store can work with.
const (
	PostgreSQL Dialect = dialect.PostgreSQL
	MySQL      Dialect = dialect.MySQL // MariaDB too
	SQLite     Dialect = dialect.SQLite
)

// None of these errors is temporary: a retry does not help until somebody has changed the program or
// the database. A database that does not answer, or takes no writes, is [segment.ErrStore] instead, and a
// store that was closed returns [segment.ErrClosed].
var (
	// ErrTable is returned by [New] when the table does not exist and cannot be created, cannot be used,
	// or is stored in a way that may lose rows, such as an UNLOGGED table of PostgreSQL or one of the
	// engine MEMORY. The message has the statement that creates it or changes it. The database's own error
	// is wrapped too.
	ErrTable = errs.Lasting("sqlsegment: table cannot be used")

	// ErrDatabase is returned by [New] and [DDL] for a database that no store can work on: its dialect
	// is not supported, or a pooler in between does not fit the driver's settings.
	ErrDatabase = errs.Lasting("sqlsegment: database cannot be used")

	// ErrOption is returned by [New] and [DDL] for an option that is invalid.
	ErrOption = errs.Lasting("sqlsegment: invalid option")
)

// Option changes one property of a [Store]. The options of this package are the only ones.
type Option = sqltable.Option

// WithTable names the table. The name is used as it is: no prefix is added and nothing is made plural.
// A dot separates the schema, or on MySQL the database, from the table. The default is
// snowflake_segments in the default schema of the connection.
//
// Counters in different tables do not know of each other, whatever their names are.
func WithTable(name string) Option { return sqltable.WithTable(name) }

// WithDedicatedPool tells the store that nobody else uses its *sql.DB, now or later. The store then
// keeps one connection, prepares it for its requests, and closes the pool when it is closed itself.
// A claim is one statement, and no transaction of the application delays it. Do not use it for a
// database of SQLite in memory, whose only connection the application needs too.
func WithDedicatedPool() Option { return sqltable.WithDedicatedPool() }

// table is what the table is like without options.
func table(d Dialect) sqltable.Spec {
	return sqltable.Spec{
		Dialect: dialect.Dialect{Kind: dialect.Kind(d)}, Table: defaultTable,
		Columns: []sqltable.Column{
			columnName: {Name: "name", Type: sqltable.Text}, columnNext: {Name: "next"},
			columnRemainder: {Name: "remainder"}, columnModulus: {Name: "modulus"},
			columnUpdatedAt: {Name: "updated_at", Type: sqltable.Time},
			columnKind:      {Name: "kind", Type: sqltable.Text, Late: true},
			columnIdentity:  {Name: "identity", Type: sqltable.Text, Late: true},
		},
		// Versions that do not know this row see a counter that is frozen, and whose name none of them can claim.
		Mark: sqltable.Mark{
			Row:    sqltable.Row{"", int64(1), int64(0), int64(0), time.Unix(0, 0), "", ""},
			Column: columnIdentity, Always: true, ErrEmptied: segment.ErrWentBack,
			Noted: func(ctx context.Context, q sqltable.Querier, p sqltable.Place) (string, error) {
				return authority.In(string(d), q).Placed(p).Noted(ctx, authority.Counters, p.Table)
			},
			First: "stop all programs that take numbers from it, make ready to raise each counter above all " +
				"numbers in use before they start again (snowflake segments raise NAME NEXT --create)",
			Again: "Raise each counter above all numbers in use (snowflake segments raise), and then start all " +
				"programs",
		},
		Compare: []int{columnNext, columnRemainder, columnModulus, columnKind}, Newest: columnNext,
		Package: "sqlsegment", Holds: "counters", Purpose: "segment",
		Rights:    "SELECT, INSERT and UPDATE, and DELETE for daily counters,",
		ErrOption: ErrOption, ErrTable: ErrTable, ErrDatabase: ErrDatabase,
		ErrStore: segment.ErrStore, ErrClosed: segment.ErrClosed, ErrRow: segment.ErrInvalidCounter,
	}
}

// The columns of the table.
const (
	columnName = iota
	columnNext
	columnRemainder
	columnModulus
	columnUpdatedAt
	columnKind     // what a counter is for; empty in a row that an earlier version has made
	columnIdentity // of the table; empty in a row that an earlier version has made
)
