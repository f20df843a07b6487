package gormlease

import (
	"fmt"

	"gorm.io/gorm"
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

// longestText is how many bytes fit the columns owner and layout.
const longestText = 255

// names of the columns.
func names() [columnCount]string {
	return [columnCount]string{"node", "owner", "until", "version", "layout", "updated_at"}
}

// dialect is what the databases do differently.
type dialect struct {
	// clock is the database's clock in microseconds since 1970. A number depends on no time zone,
	// and on nothing that a driver makes of times.
	clock string
	// numbered placeholders are $1, $2 and so on; otherwise each is a question mark.
	numbered bool
	// sameOwner compares the column with a placeholder byte by byte, whatever collation the
	// database has or somebody has given to the column.
	sameOwner string
	// insert and unlessThere surround an INSERT that does nothing if the node has a row. Where the
	// column can be named it is: without a unique index on it the statement is an error.
	insert, unlessThere string
	// from is what a SELECT without a table but with a WHERE needs.
	from string
	// types of the columns, and what follows the list of them.
	types  [columnCount]string
	suffix string

	// embedded means that the database lives in this process, with no server to grant rights and
	// connect to, and with one writer at a time.
	embedded bool
	// autocommits means that a setting of the session decides whether a statement alone is
	// committed.
	autocommits bool
}

// dialectOf knows the dialects by the names that GORM's drivers give them.
func dialectOf(db *gorm.DB) (dialect, error) {
	plain := [columnCount]string{
		"bigint", "varchar(255)", "varchar(30)", "bigint", "varchar(255)", "varchar(30)",
	}
	switch db.Name() {
	case "postgres":
		return dialect{
			clock:       "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
			numbered:    true,
			sameOwner:   "%s = %s",
			insert:      "INSERT INTO",
			unlessThere: " ON CONFLICT (%s) DO NOTHING",
			types:       plain,
		}, nil
	case "mysql":
		const ascii = "varchar(30) CHARACTER SET ascii COLLATE ascii_bin"
		return dialect{
			clock:     "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))",
			sameOwner: "%s = CAST(%s AS BINARY)",
			insert:    "INSERT IGNORE INTO",
			from:      " FROM DUAL",
			types: [columnCount]string{
				"bigint", "varbinary(255)", ascii, "bigint", "varbinary(255)", ascii,
			},
			suffix:      " ENGINE=InnoDB",
			autocommits: true,
		}, nil
	case "sqlite":
		return dialect{
			// SQLite reads its clock once for each statement, so the two parts fit.
			clock: "(CAST(strftime('%s', 'now') AS INTEGER) * 1000" +
				" + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER)) * 1000",
			sameOwner:   "%s = %s COLLATE BINARY",
			insert:      "INSERT INTO",
			unlessThere: " ON CONFLICT (%s) DO NOTHING",
			types:       plain,
			embedded:    true,
		}, nil
	}
	return dialect{}, fmt.Errorf("%w: dialect %q: records can be kept in sqlite, postgres and mysql, "+
		"which is MariaDB too; lease from another store (WithLease), or give each process a number by "+
		"hand (WithNode)", ErrDatabase, db.Name())
}
