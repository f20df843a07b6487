package dialect

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// State returns the code of an error: the SQLSTATE of PostgreSQL, the number of MySQL, such as "1213", or
// the name of SQLite, such as "SQLITE_BUSY". It is empty if the error has none, or one of SQLite that
// nothing here asks for. Drivers of PostgreSQL tell the code by a method. That of MySQL begins its text
// with it. Each driver of SQLite has a type of its own, so it is the text of the database that tells.
func State(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	if err == nil {
		return ""
	}
	said := err.Error()
	if number := numberIn(said); number != "" {
		return number
	}
	for _, known := range [...]struct{ text, name string }{
		{"database is locked", "SQLITE_BUSY"}, {"SQLITE_BUSY", "SQLITE_BUSY"},
		{"table is locked", "SQLITE_LOCKED"}, {"schema is locked", "SQLITE_LOCKED"},
		{"readonly database", "SQLITE_READONLY"}, {"disk is full", "SQLITE_FULL"},
		{"no such column", "no such column"}, {"duplicate column name", "duplicate column"},
		{"already exists", "already exists"},                                         // a table or an index
		{"no such table", "no such table"}, {"unknown database", "unknown database"}, // both are SQLITE_ERROR
	} {
		if strings.Contains(said, known.text) {
			return known.name
		}
	}
	return ""
}

// numberIn finds the number in "Error 1213 (40001): Deadlock found", perhaps behind what somebody has said
// before, and in the form without a SQLSTATE.
func numberIn(said string) string {
	for {
		_, rest, found := strings.Cut(said, "Error ")
		if !found {
			return ""
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		after := rest[digits:]
		if digits > 0 && (strings.HasPrefix(after, ": ") || strings.HasPrefix(after, " (")) {
			return rest[:digits]
		}
		said = rest
	}
}

// among reports whether the code of an error is one of several.
func among(err error, codes ...string) bool { return slices.Contains(codes, State(err)) }

// Busy reports whether the database has changed nothing because others are at work, so that the transaction
// may succeed if it is done again from its beginning. Roll it back first: if [Locked] reports true as well,
// MySQL has undone the statement alone, and the transaction goes on.
func Busy(err error) bool {
	return Locked(err) || among(err,
		"40001", // PostgreSQL: the transaction cannot be put in an order with others
		"40P01", // PostgreSQL: a deadlock
		"1213",  // MySQL: a deadlock; the server has rolled the whole transaction back
		"1020",  // MariaDB: a row has changed since the snapshot; the whole transaction is rolled back as well
		"9007",  // TiDB: another transaction has written the row meanwhile
		"8022",  // TiDB: the commit failed, and can be tried again
		"8028",  // TiDB: the definition of the table has changed meanwhile
	)
}

// Locked reports whether somebody else holds a lock, and the database has waited for it as long as it is set
// to: lock_timeout of PostgreSQL, or innodb_lock_wait_timeout of MySQL.
func Locked(err error) bool { return among(err, "55P03", "1205", "SQLITE_BUSY", "SQLITE_LOCKED") }

// Absent is the error about a table of PostgreSQL that was looked for in the catalog. A statement that does
// not find it would stand in the log of the server.
type Absent string

// Error names the table.
func (a Absent) Error() string { return "there is no table " + string(a) }

// SQLState is the code that the server has for it.
func (Absent) SQLState() string { return "42P01" }

// Missing reports whether there is no such table.
func Missing(err error) bool { return among(err, "42P01", "1146", "no such table") }

// Lacking reports whether the table lacks a column.
func Lacking(err error) bool { return among(err, "42703", "1054", "no such column") }

// Doubled reports whether the table has a column already that was to be added.
func Doubled(err error) bool { return among(err, "42701", "1060", "duplicate column") }

// Added reports whether somebody else has added the column, the index or the constraint meanwhile that was to
// be added to a table.
func Added(err error) bool {
	return Doubled(err) || Raced(err) || among(err, "42P07", "42710", "1061", "1826", "3822", "already exists")
}

// Raced reports whether a transaction of PostgreSQL was to add to a catalog what another one was just adding.
func Raced(err error) bool {
	return among(err, "23505") && slices.ContainsFunc([]string{
		"pg_class_relname_nsp_index", "pg_type_typname_nsp_index", "pg_attribute_relid_attnam_index",
		"pg_constraint_conrelid_contypid_conname_index",
	}, func(index string) bool { return strings.Contains(err.Error(), index) })
}

// ReadOnly reports whether nothing can be written to the whole database.
func ReadOnly(err error) bool {
	return among(err, "25006", "SQLITE_READONLY",
		"1290", // MySQL: the server is running with --read-only
		"1792", // MySQL: the transaction is read-only
		"1836", // MySQL: the server is in read-only mode
		"3989", // MySQL: the schema is in read-only mode
	)
}

// Forbidden reports whether the login may not use a table, or there is no such schema.
func Forbidden(err error) bool {
	return among(err, "42501", "3F000", "1044", "1049", "1142", "unknown database")
}

// Interrupted reports whether a server has not answered a statement: its connection was lost, which has no
// code, or somebody has ended the connection, the statement or the server, or the server is a node of Galera
// (1047) that is cut off from the others. It is not for SQLite.
func Interrupted(err error) bool {
	return err != nil && among(err, "", "57014", "57P01", "57P02", "57P03", "57P05", "1047", "1053", "1317",
		"1927", "1969", "3024")
}

// Full reports whether the disk is full, or the database has its greatest size.
func Full(err error) bool {
	// MariaDB and MySQL have codes for a file or a table that cannot be made or written, for whatever reason.
	return among(err, "53100", "SQLITE_FULL", "1021", "1114", "3675") ||
		among(err, "1", "3", "1005", "1026", "1030") && noRoom.MatchString(err.Error())
}

// noRoom is why: there is no space, or none that the storage engine could take.
var noRoom = regexp.MustCompile(`(?i)(errcode|errno|error):? (28|135)\b`)

// Unprepared reports whether a server does not know a statement that the driver has prepared, or knows one
// that the driver has not.
func Unprepared(err error) bool { return among(err, "42P05", "26000") }

// Undivided reports whether a pooler takes single statements only, as PgBouncer does in statement mode.
func Undivided(err error) bool {
	return State(err) == "08P01" && strings.Contains(err.Error(), "statement pooling mode")
}

// Unselected reports whether the connection has selected no database, and the statement needs one.
func Unselected(err error) bool { return State(err) == "1046" }
