// Package sqldb reads and writes databases of every kind that can be merged: SQLite, MySQL or MariaDB, and
// PostgreSQL. It holds their kinds and connections, their catalogs, the conversion of values, and
// writers with their bulk copies.
//
// It works on database/sql and imports no driver. It knows nothing of plans and policies: those are the
// subject of package merge.
package sqldb

import "github.com/snowflakeplugin/snowflakeplugin/internal/dialect"

// Kind is a kind of database.
type Kind = dialect.Kind

// Statement is SQL under construction.
type Statement = dialect.SQL

// The kinds of databases. MySQL stands for MariaDB too.
const (
	SQLite     Kind = dialect.SQLite
	MySQL      Kind = dialect.MySQL
	PostgreSQL Kind = dialect.PostgreSQL
)

// NewStatement returns a statement that begins with the given text.
func NewStatement(k Kind, text ...string) *Statement { return dialect.Write(k, text...) }

// maxParams returns how many values one statement may bind.
func maxParams(k Kind) int {
	if k == SQLite {
		return 32_000
	}
	return 65_000
}
