package sqlconn

import (
	"strconv"
	"strings"
)

// The names of the dialects, which are those that GORM uses.
const (
	PostgreSQL = "postgres"
	MySQL      = "mysql" // MariaDB too
	SQLite     = "sqlite"
)

// ownTransaction is what MySQL's transactions of a store need, whatever the session of the application is set
// to. A session may read rows that are never committed, or write nothing. Statements that change rows cannot
// be logged as statements in a level that is weaker than this one.
const ownTransaction = "TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE"

// Dialect is what the databases do differently.
type Dialect struct {
	Name string
	// Clock is the database's clock in microseconds since 1970. A number depends on no time zone,
	// and on nothing that a driver makes of times.
	Clock string
	// Quote surrounds names. On SQLite it is not the quotation mark, with which a column that is
	// missing would be taken for a text.
	Quote string
	// Numbered placeholders are $1, $2 and so on; otherwise each is a question mark.
	Numbered bool
	// SameText compares the column with a placeholder byte by byte, whatever collation the
	// database has or somebody has given to the column.
	SameText string
	// Insert and UnlessThere surround an INSERT that does nothing if the key has a row. Where the
	// column can be named it is: without a unique index on it the statement is an error.
	Insert, UnlessThere string
	// From is what a SELECT without a table but with a WHERE needs.
	From string
	// Integer, Text and Time are the types of columns for int64, for up to 255 bytes of text that no
	// collation changes, and for 30 ASCII characters. Suffix follows the list of columns.
	Integer, Text, Time, Suffix string
	// Durable follows ALTER TABLE to make a table keep its rows. It is empty where every table does.
	Durable string
	// Embedded means that the database lives in this process, with no server to grant rights and
	// connect to, and with one writer at a time.
	Embedded bool
	// Trial is what the trials of the statements do.
	Trial Kind
	// Autocommits means that a setting of the session decides whether a statement alone is
	// committed.
	Autocommits bool
	// Prepare are the statements that a connection of the store's own begins with.
	Prepare []string
	// Title gives such a connection its name, where a statement can do that.
	Title string
}

// DialectOf returns what is special about a dialect, and false for one that no store can work with.
func DialectOf(name string) (Dialect, bool) {
	switch name {
	case PostgreSQL:
		return Dialect{
			Name:        PostgreSQL,
			Clock:       "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
			Quote:       `"`,
			Numbered:    true,
			SameText:    "%s = %s",
			Insert:      "INSERT INTO",
			UnlessThere: " ON CONFLICT (%s) DO NOTHING",
			Integer:     "bigint", Text: "varchar(255)", Time: "varchar(30)",
			Durable: "SET LOGGED",
			Trial:   Writes,
			Title:   "SET application_name = '%s'",
		}, true
	case MySQL:
		return Dialect{
			Name:     MySQL,
			Clock:    "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))",
			Quote:    "`",
			SameText: "%s = CAST(%s AS BINARY)",
			Insert:   "INSERT IGNORE INTO",
			From:     " FROM DUAL",
			Integer:  "bigint", Text: "varbinary(255)", Time: "varchar(30) CHARACTER SET ascii COLLATE ascii_bin",
			Suffix:      " ENGINE=InnoDB",
			Durable:     "ENGINE=InnoDB",
			Trial:       Writes,
			Autocommits: true,
			Prepare:     []string{"SET autocommit = 1", "SET SESSION " + ownTransaction},
		}, true
	case SQLite:
		return Dialect{
			Name: SQLite,
			// SQLite reads its clock once for each statement, so the two parts fit.
			Clock: "(CAST(strftime('%s', 'now') AS INTEGER) * 1000" +
				" + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER)) * 1000",
			Quote:       "`",
			SameText:    "%s = %s COLLATE BINARY",
			Insert:      "INSERT INTO",
			UnlessThere: " ON CONFLICT (%s) DO NOTHING",
			Integer:     "bigint", Text: "varchar(255)", Time: "varchar(30)",
			Embedded: true,
			// A request that has to wait tries again by itself, and ends with its context.
			Prepare: []string{"PRAGMA busy_timeout = 250"},
		}, true
	}
	return Dialect{}, false
}

// Placeholders are those of n arguments, the first of which has that number, counted from 1.
func (d Dialect) Placeholders(first, n int) []string {
	p := make([]string, n)
	for i := range p {
		p[i] = "?"
		if d.Numbered {
			p[i] = "$" + strconv.Itoa(first+i)
		}
	}
	return p
}

// Quoted writes a name, whose parts are separated by dots, the way the database wants it.
func (d Dialect) Quoted(name string) string {
	parts := strings.Split(name, ".")
	for i, part := range parts {
		parts[i] = d.Quote + strings.ReplaceAll(part, d.Quote, d.Quote+d.Quote) + d.Quote
	}
	return strings.Join(parts, ".")
}

// CreateTable returns the statement that makes a table, if it is not there, whose names are quoted. The
// first column is the primary key.
func (d Dialect) CreateTable(table string, columns, types []string) string {
	var b strings.Builder
	b.WriteString("CREATE TABLE IF NOT EXISTS " + table + " (\n")
	for i, name := range columns {
		b.WriteString("    " + name + " " + types[i] + " NOT NULL,\n")
	}
	b.WriteString("    PRIMARY KEY (" + columns[0] + ")\n)" + d.Suffix)
	return b.String()
}

// Forgets returns a query, with its arguments, that has a row with a word for how a table is stored if the
// table may lose what was committed. Durable must not be empty.
func (d Dialect) Forgets(name string) (query string, args []any) {
	if d.Name == PostgreSQL {
		return "SELECT CASE relpersistence WHEN 'u' THEN 'UNLOGGED' ELSE 'TEMPORARY' END FROM pg_class " +
			"WHERE relpersistence <> 'p' AND oid = to_regclass($1)", []any{d.Quoted(name)}
	}
	dot := strings.LastIndexByte(name, '.')
	return "SELECT CONCAT('ENGINE=', t.engine) FROM information_schema.tables t " +
		"JOIN information_schema.engines e ON e.engine = t.engine " +
		"WHERE e.transactions = 'NO' AND t.table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND " +
		"t.table_name = ?", []any{name[:max(dot, 0)], name[dot+1:]}
}
