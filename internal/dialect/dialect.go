// Package dialect says what the databases do differently, in one place for the whole module: how they quote a
// name and number a placeholder, their types and clocks, and what their errors mean. It imports no driver.
// Package merge/internal/verify shares no code with what it proves, so it has its own.
package dialect

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The names of the dialects, which are those that GORM uses.
const (
	PostgreSQL = "postgres"
	MySQL      = "mysql" // MariaDB and TiDB too
	SQLite     = "sqlite"
)

// Kind is the name of a dialect.
type Kind string

// Quote writes one name the way the database wants it. On SQLite it does not use the quotation mark, with
// which a column that is missing would be taken for a text.
func (k Kind) Quote(name string) string {
	mark := "`"
	if k == PostgreSQL {
		mark = `"`
	}
	return mark + strings.ReplaceAll(name, mark, mark+mark) + mark
}

// QuoteEach returns the quoted names.
func (k Kind) QuoteEach(names []string) []string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = k.Quote(name)
	}
	return quoted
}

// QuoteAll returns the quoted names with commas between them.
func (k Kind) QuoteAll(names []string) string { return strings.Join(k.QuoteEach(names), ", ") }

// Quoted writes a name whose parts, such as a schema and a table, are separated by dots.
func (k Kind) Quoted(name string) string { return k.QuoteParts(strings.Split(name, ".")) }

// QuoteParts writes a name of several parts, such as a schema and a table.
func (k Kind) QuoteParts(parts []string) string { return strings.Join(k.QuoteEach(parts), ".") }

// Split separates the schema of a table, if the name has one, from its name.
func Split(table string) (schema, name string) {
	dot := strings.LastIndexByte(table, '.')
	return table[:max(dot, 0)], table[dot+1:]
}

// MaxName is the longest name that every database takes.
const MaxName = 63

// Fits reports whether a name is short enough for the database to keep it whole.
func (k Kind) Fits(name string) bool {
	switch k {
	case PostgreSQL:
		return len(name) <= MaxName
	case MySQL:
		return utf8.RuneCountInString(name) <= MaxName+1
	}
	return true
}

// Abridged returns a name that stands for the whole one. If it differs from that, or is too long, it ends
// with a digest of the whole.
func Abridged(name, whole string, longest int) string {
	if name == whole && len(name) <= longest {
		return name
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(whole))
	end := fmt.Sprintf("_%08x", sum.Sum32())
	return name[:min(len(name), longest-len(end))] + end
}

// Parts returns the parts of the name with which an SQL text begins, such as a schema and a table, without
// their quotes. What follows the name, such as an alias, does not matter. It returns none if the text begins
// with something else.
func (k Kind) Parts(text string) (parts []string) {
	for {
		part, rest := k.Identifier(strings.TrimLeft(text, " "))
		if part == "" {
			return nil
		}
		parts = append(parts, part)
		if rest = strings.TrimLeft(rest, " "); !strings.HasPrefix(rest, ".") {
			return parts
		}
		text = rest[1:]
	}
}

// Identifier cuts the first identifier off a text, without its quotes. It is empty if there is none.
func (k Kind) Identifier(text string) (name, rest string) {
	if text == "" {
		return "", ""
	}
	if end := map[byte]string{'"': `"`, '`': "`", '[': "]"}[text[0]]; end != "" {
		var b strings.Builder
		for rest = text[1:]; ; {
			inside, after, closed := strings.Cut(rest, end)
			if !closed {
				return "", ""
			}
			b.WriteString(inside)
			if rest = after; !strings.HasPrefix(rest, end) {
				return b.String(), rest
			}
			b.WriteString(end)
			rest = rest[1:]
		}
	}
	length := strings.IndexFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '$'
	})
	if length < 0 {
		length = len(text)
	}
	if name = text[:length]; k == PostgreSQL {
		name = strings.ToLower(name)
	}
	return name, text[length:]
}

// Bind returns the placeholder of the value with that number, counted from 1.
func (k Kind) Bind(n int) string {
	if k == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// Embedded reports whether the database lives in this process, with no server to grant rights and connect to,
// and with one writer at a time.
func (k Kind) Embedded() bool { return k == SQLite }

// Untyped reports whether a column may have values of any type, whatever its own type is.
func (k Kind) Untyped() bool { return k == SQLite }

// HasTarget reports whether the clause of an INSERT for rows that are there already names the unique index
// that it is about, and can have a condition.
func (k Kind) HasTarget() bool { return k != MySQL }

// ChecksAtOnce reports whether each statement has to keep the foreign keys. The other databases let a session
// switch the check off.
func (k Kind) ChecksAtOnce() bool { return k == PostgreSQL }

// AsText returns an expression so that its value comes as the text that the database makes of it, where a
// driver would make something else of it, or an operator refuse its type.
func (k Kind) AsText(expression string) string {
	if k == PostgreSQL {
		return "(" + expression + ")::text"
	}
	return expression
}

// Remainder returns the expression for a remainder. MariaDB has no operator for it in the mode ORACLE, and
// SQLite no function for whole numbers.
func (k Kind) Remainder(number string, divisor int) string {
	if k == MySQL {
		return fmt.Sprintf("MOD(%s, %d)", number, divisor)
	}
	return fmt.Sprintf("%s %% %d", number, divisor)
}

// Fold returns a name as it is compared with others: PostgreSQL alone tells names apart by the case of their
// letters in any case.
func (k Kind) Fold(name string) string {
	if k == PostgreSQL {
		return name
	}
	return strings.ToLower(name)
}

// Batch returns how many texts a condition by [SQL.In] can well have.
func (k Kind) Batch() int {
	if k == PostgreSQL {
		return 10_000 // one value
	}
	return 1000
}

// EqualOrNull is the comparison for which two NULLs are equal.
func (k Kind) EqualOrNull() string {
	switch k {
	case MySQL:
		return " <=> "
	case SQLite:
		return " IS "
	}
	return " IS NOT DISTINCT FROM "
}

// Dialect is what the databases of a kind do differently.
type Dialect struct {
	Kind
	// Clock is the database's clock in microseconds since 1970. A number depends on no time zone,
	// and on nothing that a driver makes of times.
	Clock string
	// SameText stands between a column and a placeholder, and behind that. They are then compared byte by
	// byte, whatever collation the database has or somebody has given to the column.
	SameText [2]string
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
	// Synced is a condition that is always true. The change of its statement is not acknowledged before it is
	// on the disk and on the standbys that a commit can wait for, whatever the session is set to. It is empty
	// where a statement cannot ask for that. SyncedRead is the same for what a statement has read.
	Synced, SyncedRead string
	// Title gives a connection its name, where a statement can do that.
	Title string
	// Autocommits means that a setting of the session decides whether a statement alone is
	// committed.
	Autocommits bool
}

// synced changes a setting of the transaction alone, so a session that a pooler shares stays as it was.
const synced = "(SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') " +
	"WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)) IS NOT NULL"

// Synchronous is the statement that does for a transaction of PostgreSQL what [Dialect.Synced] does, also for
// one that was set to wait until the standbys show the change. A SELECT could keep that setting, but it would
// choose what a REPEATABLE READ sees before the transaction has its locks. It is empty for other databases.
func (k Kind) Synchronous() string {
	if k == PostgreSQL {
		return "SET LOCAL synchronous_commit = on"
	}
	return ""
}

// MapLock are the two numbers of the advisory lock of [Kind.Exclusive]: an S, an n, an o and a w, so that the
// locks of an application are others, and a 1.
const MapLock = "1399746423, 1"

// Exclusive returns the statements that take the lock of the database of a table, and give it back. On MySQL
// the first one waits for 1 s, and returns 0 if somebody else has it still. Elsewhere there is none that
// gives it back, because it is the lock of a transaction, and on SQLite that of a transaction that writes: to
// the table if it is there, or else by making a table that is gone with the next statement.
func (k Kind) Exclusive(table string, there bool) (take []string, release string) {
	switch k {
	case PostgreSQL:
		return []string{"SELECT 1 FROM pg_advisory_xact_lock(" + MapLock + ")"}, ""
	case MySQL:
		database := "DATABASE()"
		if schema, _ := Split(table); schema != "" {
			database = fmt.Sprintf("CAST(X'%x' AS CHAR)", schema)
		}
		lock := "(CONCAT('snowflake_shards_', CRC32(LOWER(" + database + ")))"
		return []string{"SELECT COALESCE(GET_LOCK" + lock + ", 1), 0)"}, "DO RELEASE_LOCK" + lock + ")"
	}
	if there {
		return []string{"DELETE FROM " + k.Quoted(table) + " WHERE 1 = 0"}, ""
	}
	lock := k.Quoted(table + "_lock")
	return []string{"CREATE TABLE " + lock + " (n INTEGER)", "DROP TABLE " + lock}, ""
}

// Of returns what is special about a dialect, and false for one that is not known.
func Of(name string) (Dialect, bool) {
	switch name {
	case PostgreSQL:
		return Dialect{
			Kind:        PostgreSQL,
			Clock:       "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
			SameText:    [2]string{" = "},
			Insert:      "INSERT INTO",
			UnlessThere: " ON CONFLICT (%s) DO NOTHING",
			Integer:     "bigint", Text: "varchar(255)", Time: "varchar(30)",
			Durable: "SET LOGGED",
			Synced:  synced,
			// A transaction that has written nothing would wait for nothing. A standby can write nothing.
			SyncedRead: synced + " AND (SELECT CASE WHEN pg_is_in_recovery() OR " +
				"current_setting('synchronous_standby_names') = '' THEN '' " +
				"ELSE pg_logical_emit_message(true, 'snowflakeplugin', '')::text END) IS NOT NULL",
			Title: "SET application_name = '%s'",
		}, true
	case MySQL:
		return Dialect{
			Kind:     MySQL,
			Clock:    "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))",
			SameText: [2]string{" = CAST(", " AS BINARY)"},
			Insert:   "INSERT IGNORE INTO",
			From:     " FROM DUAL",
			// Bytes have no character set, and no comparison ignores case or blanks.
			Integer: "bigint", Text: "varbinary(255)", Time: "varchar(30) CHARACTER SET ascii COLLATE ascii_bin",
			Suffix:      " ENGINE=InnoDB",
			Durable:     "ENGINE=InnoDB",
			Autocommits: true,
		}, true
	case SQLite:
		return Dialect{
			Kind: SQLite,
			// SQLite reads its clock once for each statement, so the two parts fit.
			Clock: "(CAST(strftime('%s', 'now') AS INTEGER) * 1000" +
				" + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER)) * 1000",
			SameText:    [2]string{" = ", " COLLATE BINARY"},
			Insert:      "INSERT INTO",
			UnlessThere: " ON CONFLICT (%s) DO NOTHING",
			Integer:     "bigint", Text: "varchar(255)", Time: "varchar(30)",
		}, true
	}
	return Dialect{}, false
}

// InsertUnlessThere returns how an INSERT begins and how it ends that does nothing if the key has a row. The
// names are quoted, and the first of the columns is the key.
func (d Dialect) InsertUnlessThere(table string, columns []string) (into, unless string) {
	if d.UnlessThere != "" {
		unless = strings.ReplaceAll(d.UnlessThere, "%s", columns[0])
	}
	return d.Insert + " " + table + " (" + strings.Join(columns, ", ") + ") ", unless
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

// Schemas returns a query, with its arguments, for the schemas of two tables that lie beside each other, and
// for words that say in which database of which server they are. Each schema is where a statement without one
// finds the table, or else the other one, or else would make it. On PostgreSQL two numbers follow, which are
// 1 for a table that is there. The query is empty for SQLite, where a name without a schema means one thing
// on all connections.
func (d Dialect) Schemas(table, other string) (query string, args []any) {
	switch d.Kind {
	case PostgreSQL:
		const found = "(SELECT nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace " +
			"WHERE c.oid = to_regclass("
		return "SELECT COALESCE(one, two, current_schema()), COALESCE(two, one, current_schema()), " +
				d.here() + ", (one IS NOT NULL)::int, (two IS NOT NULL)::int FROM (SELECT " +
				found + "$1)) AS one, " + found + "$2)) AS two) AS found",
			[]any{d.Quote(table), d.Quote(other)}
	case MySQL:
		return "SELECT DATABASE(), DATABASE(), " + d.here(), nil
	}
	return "", nil
}

// Here returns a query, with its arguments, for words that say in which database of which server a connection
// is. On SQLite they are the name of the file, and there is no row if it has no such database.
func (d Dialect) Here(schema string) (query string, args []any) {
	if d.Embedded() {
		return "SELECT " + d.here() + " FROM pragma_database_list WHERE name = ? COLLATE NOCASE", []any{schema}
	}
	return "SELECT " + d.here(), nil
}

func (d Dialect) here() string {
	switch d.Kind {
	case PostgreSQL:
		return "current_database() || COALESCE(' at ' || host(inet_server_addr()) || ':' || " +
			"inet_server_port(), '')"
	case MySQL:
		return "CONCAT(COALESCE(DATABASE(), ''), ' at ', @@hostname, ':', @@port)"
	}
	return "COALESCE(file, '')"
}

// SchemaOf returns a query, with its arguments, for the schema in which a statement finds a table, and for a
// t if the table is temporary. It has no row if the table is not there. The query is empty where the name of
// the table tells the schema. The name is quoted, so that no name makes the query fail, which would end a
// transaction of PostgreSQL.
func (d Dialect) SchemaOf(quoted string) (query string, args []any) {
	if d.Kind != PostgreSQL {
		return "", nil
	}
	return "SELECT nspname::text, relpersistence::text FROM pg_class c JOIN pg_namespace n " +
		"ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)", []any{quoted}
}

// withoutRowid is how the statement ends that makes a table of SQLite without a rowid.
var withoutRowid = regexp.MustCompile(`(?i)\bWITHOUT\s+ROWID\b[^)]*$`)

// Rowid says how SQLite counts a column that is the whole primary key, by the type of the column and the
// statement that made the table. It is empty if SQLite does not.
func Rowid(kind, ddl string) string {
	switch {
	case !strings.EqualFold(kind, "INTEGER") || withoutRowid.MatchString(ddl):
		return ""
	case strings.Contains(strings.ToUpper(ddl), "AUTOINCREMENT"):
		return "AUTOINCREMENT"
	}
	return "its rowid"
}

// InSchema is the condition of MySQL and MariaDB for the schema of a name.
const InSchema = " = COALESCE(NULLIF(?, ''), DATABASE())"

// about returns a query of [Kind.Ask] with its arguments.
func (k Kind) about(table, query string) (string, []any) {
	schema, name := Split(table)
	switch {
	case k == PostgreSQL:
		return query, []any{k.Quoted(table)}
	case k == MySQL:
		return query, []any{name, schema}
	case schema != "":
		query = strings.ReplaceAll(query, "main", schema)
	}
	return query, []any{name}
}

// Bytes returns a query, with its arguments, for the bytes of a table and its indexes, as the catalog
// estimates them. SQLite keeps no sizes of tables, so there they are those of the file.
func (k Kind) Bytes(table string) (query string, args []any) {
	switch k {
	case PostgreSQL:
		return k.about(table, "SELECT pg_total_relation_size(to_regclass($1))")
	case MySQL:
		return k.about(table, "SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES "+
			"WHERE TABLE_NAME = ? AND TABLE_SCHEMA"+InSchema)
	}
	return "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", nil
}

// Forgets returns a query, with its arguments, that has a row with a word for how a table is stored if the
// table may lose what was committed. Durable must not be empty. On PostgreSQL the quoted name counts, on
// MySQL the schema, which may be empty, and the table.
func (d Dialect) Forgets(quoted, schema, table string) (query string, args []any) {
	if d.Kind == PostgreSQL {
		return "SELECT CASE relpersistence WHEN 'u' THEN 'UNLOGGED' ELSE 'TEMPORARY' END FROM pg_class " +
			"WHERE relpersistence <> 'p' AND oid = to_regclass($1)", []any{quoted}
	}
	return "SELECT CONCAT('ENGINE=', t.engine) FROM information_schema.tables t " +
		"JOIN information_schema.engines e ON e.engine = t.engine " +
		"WHERE e.transactions = 'NO' AND t.table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND " +
		"t.table_name = ?", []any{schema, table}
}
