package sqllease

import (
	"fmt"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// Dialect is the SQL that a database speaks. The values are the names that GORM uses.
type Dialect string

// The dialects that a store can work with.
const (
	PostgreSQL Dialect = dialect.PostgreSQL
	MySQL      Dialect = dialect.MySQL // MariaDB too
	SQLite     Dialect = dialect.SQLite
)

// The columns of the table. Their order is that of arguments and results.
const (
	columnNode = iota
	columnOwner
	columnUntil
	columnVersion
	columnLayout
	columnUpdatedAt
	columnCount
)

// maxText is how many bytes fit the columns owner and layout.
const maxText = 255

// names of the columns.
func names() [columnCount]string {
	return [columnCount]string{"node", "owner", "until", "version", "layout", "updated_at"}
}

// typesOf returns the types of the columns.
func typesOf(d dialect.Dialect) [columnCount]string {
	return [columnCount]string{d.Integer, d.Text, d.Time, d.Integer, d.Text, d.Time}
}

// properties returns what is special about a dialect.
func (d Dialect) properties() (dialect.Dialect, error) {
	properties, known := dialect.Of(string(d))
	if !known {
		return properties, fmt.Errorf("%w: dialect %q: records can be kept in sqlite, postgres and mysql, "+
			"which is MariaDB too; lease from another store (WithLease), or give each process a number by "+
			"hand (WithNode)", ErrDatabase, d)
	}
	return properties, nil
}
