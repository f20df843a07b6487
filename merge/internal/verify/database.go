package verify

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kind is a kind of database. MySQL stands for MariaDB too.
type kind int

const (
	sqlite kind = iota
	mysql
	postgres
)

func (k kind) quote(name string) string {
	mark := `"`
	if k == mysql {
		mark = "`"
	}
	return mark + strings.ReplaceAll(name, mark, mark+mark) + mark
}

// placeholder returns the mark of the n-th value of a statement, from 1.
func (k kind) placeholder(n int) string {
	if k == postgres {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// database is a connection that only reads, and the catalog of its database. The error of a statement goes to
// fail, which ends all statements. These return nothing then.
type database struct {
	Server
	kind   kind
	tidb   bool // of the kind mysql
	conn   *sql.Conn
	tables map[string]*relation
	fail   func(error)
	// prepared is what looked up rows last.
	prepared     *sql.Stmt
	preparedText string
	held         map[string]*parents // by table and key
	// sequences are those that give columns their defaults, by table and column. MySQL has none.
	sequences map[[2]string]string
}

// open takes a connection to a database, prepares its session and reads its catalog. No error holds a DSN.
func open(ctx context.Context, s Server, fail func(error)) *database {
	d := &database{Server: s, fail: func(err error) { fail(fmt.Errorf("%s: %w", s.Name, err)) }}
	var err error
	if d.conn, err = s.Pool.Conn(ctx); err != nil {
		d.fail(errors.New("it cannot be reached any more"))
		return d
	}
	var version string
	if d.conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version) != nil {
		version = d.text(ctx, "SELECT version()")
		if d.kind = mysql; strings.HasPrefix(version, "PostgreSQL") {
			d.kind = postgres
		}
	}
	d.tidb = strings.Contains(version, "TiDB")
	for _, setting := range d.session() {
		if _, err := d.conn.ExecContext(ctx, setting); err != nil {
			d.fail(err)
		}
	}
	d.tables = d.catalog(ctx)
	return d
}

// session returns the settings by which values are read as they are, and nothing can be written.
func (d *database) session() []string {
	switch d.kind {
	case mysql:
		// MariaDB would take one answer of a subquery for another text that the subquery tells apart.
		all := []string{"SET NAMES utf8mb4", "SET SESSION time_zone = '+00:00'",
			"SET SESSION sql_select_limit = 18446744073709551615, sql_auto_is_null = 0",
			"SET SESSION sql_mode = '' /*M! , optimizer_switch = 'subquery_cache=off' */",
			"SET SESSION wait_timeout = 604800, net_write_timeout = 3600 /*M! , max_statement_time = 0 */" +
				" /*!50708 , max_execution_time = 0 */"}
		if d.tidb { // which has no sessions that only read. It can be the target only, and nothing here writes.
			return all
		}
		return append(all, "SET SESSION TRANSACTION READ ONLY")
	case postgres:
		return []string{
			"SET TimeZone = 'UTC'", "SET DateStyle = 'ISO, YMD'", "SET IntervalStyle = 'postgres'",
			"SET extra_float_digits = 3", "SET bytea_output = 'hex'", "SET standard_conforming_strings = on",
			"SET row_security = off", "SET lc_monetary = 'C'", "SET default_transaction_read_only = on",
			// The database that waits for the other one must not lose its session.
			// Some timeouts are those of the server, which no session may change.
			"SELECT set_config(name, '0', false) FROM pg_settings WHERE context = 'user' AND " +
				"(name LIKE 'idle%timeout' OR name IN ('statement_timeout', 'transaction_timeout'))",
		}
	}
	return []string{"PRAGMA busy_timeout = 10000", "PRAGMA query_only = 1"}
}

// close closes the connection itself, whose settings must not get into the pool.
func (d *database) close() error {
	if d.conn == nil {
		return nil
	}
	err := d.conn.Raw(func(any) error { return driver.ErrBadConn })
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		err = nil
	}
	if closed := d.conn.Close(); !errors.Is(closed, sql.ErrConnDone) {
		err = errors.Join(err, closed)
	}
	return err
}

// each calls fn for every row of a result. The values belong to the driver, and are valid during the call
// only.
func (d *database) each(ctx context.Context, text string, args []any, fn func(values []any)) {
	d.read(ctx, ctx, text, args, fn)
}

// steadily is each for a statement that returns row after row without long pauses, so that it is enough to
// look at the context between them. The usual driver of SQLite starts a goroutine for every row of a
// statement whose context can end, which would take as long as reading the row.
func (d *database) steadily(ctx context.Context, text string, fn func(values []any)) {
	asked := ctx
	if d.kind == sqlite {
		asked = context.WithoutCancel(ctx)
	}
	d.read(ctx, asked, text, nil, fn)
}

// read is each for a statement with a context of its own.
func (d *database) read(ctx, asked context.Context, text string, args []any, fn func(values []any)) {
	if err := d.scan(ctx, asked, text, args, fn); err != nil {
		d.fail(err)
	}
}

func (d *database) scan(ctx, asked context.Context, text string, args []any,
	fn func(values []any)) (err error) {
	if ctx.Err() != nil { // the driver may have closed the connection, and complains of that
		return ctx.Err()
	}
	rows, err := d.query(asked, text, args)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	cells, into, values := make([]cell, len(names)), make([]any, len(names)), make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := errors.Join(ctx.Err(), rows.Scan(into...)); err != nil {
			return err
		}
		for i := range cells {
			values[i] = cells[i].value
		}
		fn(values)
	}
	return rows.Err()
}

// query sends a statement, which may be the one that was prepared.
func (d *database) query(ctx context.Context, text string, args []any) (*sql.Rows, error) {
	if d.prepared != nil && text == d.preparedText {
		return d.prepared.QueryContext(ctx, args...)
	}
	return d.conn.QueryContext(ctx, text, args...)
}

// prepare prepares a statement that is the same again and again but for its values, in place of the last one.
// The driver of MySQL would prepare it each time.
func (d *database) prepare(ctx context.Context, text string) {
	if d.prepared != nil && text == d.preparedText {
		return
	}
	var err error
	if last := d.prepared; last != nil {
		err = last.Close()
	}
	d.preparedText, d.prepared = text, nil
	if err == nil {
		d.prepared, err = d.conn.PrepareContext(ctx, text)
	}
	if err != nil {
		d.fail(err)
	}
}

// texts reads a whole result as text; it is for catalogs. NULL becomes "".
func (d *database) texts(ctx context.Context, text string, args ...any) (all [][]string) {
	d.each(ctx, text, args, func(values []any) { all = append(all, textsOf(values)) })
	return all
}

func textsOf(values []any) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = textOf(v)
	}
	return texts
}

// text reads one value as text; "" if there is none.
func (d *database) text(ctx context.Context, text string, args ...any) string {
	rows := d.texts(ctx, text, args...)
	if len(rows) == 0 {
		return ""
	}
	return rows[0][0]
}

func (d *database) number(ctx context.Context, text string) int64 {
	return d.parse(d.text(ctx, text))
}

// parse reads a whole number that the database has returned.
func (d *database) parse(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		d.fail(err)
	}
	return n
}

// where returns a condition as the part of a statement; "" if there is none.
func where(condition string) string {
	if condition == "" {
		return ""
	}
	return " WHERE " + condition
}

// lookup is one statement that looks up several rows of a database.
type lookup struct {
	d     *database
	parts []string
	args  []any
}

// lookupBatch is how many rows are looked up with one statement.
const lookupBatch = 40

// equal returns the condition that a column, which a key may compare in its own way, has a value, as the
// database compares it. A value that the database cannot have would be an error.
func (l *lookup) equal(side string, c *column, value any) string {
	text, k := textOf(value), l.d.kind
	_, binary := value.([]byte)
	declared, _, _ := strings.Cut(c.declared, "(")
	whole := c.class == classNumber && strings.Contains(declared, "int")
	n, noNumber := strconv.ParseInt(plainNumber(text), 10, 64)
	_, decimal := new(big.Rat).SetString(plainNumber(text))
	digits, noDigits := hex.DecodeString(strings.NewReplacer("-", "", "{", "", "}", "").Replace(text))
	switch {
	case value == nil, c.class == classUUID && k != sqlite && (noDigits != nil || len(digits) != 16),
		k == postgres && c.class == classNumber && noNumber != nil && (whole || !decimal),
		k == postgres && c.class == classText && strings.Contains(text, "\x00"):
		return "1 = 0"
	case c.class == classNumber && noNumber == nil && declared == "boolean" && k == postgres:
		value = n != 0
	case c.class == classNumber && noNumber == nil:
		value = n
	case c.class == classBytes:
		value = []byte(text)
	case binary, c.class == classText && k == postgres:
		value = text
	}
	l.args = append(l.args, value)
	mark := k.placeholder(len(l.args))
	if k != postgres {
		return side + " = " + mark
	}
	cast := c.declared
	switch { // a cast to a type with a length would cut the value
	case whole:
		cast = "bigint"
	case declared == "character":
		cast = "bpchar"
	case declared == "character varying":
		cast = "text"
	case c.class == classText && declared != "text" && declared != "citext": // it may refuse what is no label
		side, cast = side+"::text", "text"
	}
	return side + " = CAST(" + mark + " AS " + cast + ")"
}

// add looks up what the n-th row has in a list of expressions. The table has the alias k.
func (l *lookup) add(n int, list, table string, conditions []string) {
	l.parts = append(l.parts, fmt.Sprintf("SELECT %d, %s FROM %s AS k WHERE %s", n, list, l.d.kind.quote(table),
		strings.Join(conditions, " AND ")))
}

// each calls fn for all that was found.
func (l *lookup) each(ctx context.Context, fn func(n int, values []any)) {
	if len(l.parts) == 0 {
		return
	}
	text := strings.Join(l.parts, " UNION ALL ")
	l.d.prepare(ctx, text)
	l.d.each(ctx, text, l.args, func(values []any) {
		fn(int(l.d.parse(textOf(values[0]))), values[1:])
	})
}

// union asks many questions for numbers by few statements.
type union struct {
	d     *database
	parts []question
}

// question is one of them: what it is called, what it asks for, and its FROM and what follows.
type question struct {
	n    int
	list []string
	from string
}

func (u *union) add(n int, from string, list ...string) {
	u.parts = append(u.parts, question{n, list, from})
}

// united is how many numbers one statement asks for. PostgreSQL takes minutes to plan some hundreds.
const united = 40

// each calls fn with each answer.
func (u *union) each(ctx context.Context, fn func(n int, numbers []int64)) {
	most := 1
	for _, q := range u.parts {
		most = max(most, len(q.list))
	}
	for some := range slices.Chunk(u.parts, max(united/most, 1)) {
		var texts []string
		for _, q := range some {
			texts = append(texts, fmt.Sprintf("SELECT %d, %s%s%s", q.n, strings.Join(q.list, ", "),
				strings.Repeat(", 0", most-len(q.list)), q.from))
		}
		u.d.each(ctx, strings.Join(texts, " UNION ALL "), nil, func(values []any) {
			numbers := make([]int64, len(values))
			for i, v := range values {
				numbers[i] = u.d.parse(textOf(v))
			}
			fn(int(numbers[0]), numbers[1:])
		})
	}
}

// cell takes a value from the driver without copying it.
type cell struct{ value any }

// Scan implements sql.Scanner.
func (c *cell) Scan(v any) error {
	if b, ok := v.([]byte); ok && b == nil { // no bytes, which some drivers return so, and not NULL
		v = []byte{}
	}
	c.value = v
	return nil
}

// spelled returns an expression of columns that is the same text for the same bytes and for nothing else.
func (d *database) spelled(from *relation, columns []string, alias string) string {
	var parts []string
	for _, name := range columns {
		parts = append(parts, d.digits(from.column(name), alias+"."+d.kind.quote(name)))
	}
	if d.kind == mysql {
		return "CONCAT(" + strings.Join(parts, ", ',', ") + ")"
	}
	return strings.Join(parts, " || ',' || ")
}

// digits is spelled for what a column holds.
func (d *database) digits(c *column, name string) string {
	switch {
	case c.class == classNumber && d.kind == postgres:
		return name + "::text"
	case c.class == classNumber:
		return "CAST(" + name + " AS CHAR)"
	case c.class == classBytes && d.kind == postgres:
		return "encode(" + name + ", 'hex')"
	case d.kind == postgres:
		return "encode(convert_to(" + name + "::text, 'UTF8'), 'hex')"
	case c.class == classBytes || d.kind == sqlite:
		return "HEX(" + name + ")"
	}
	return "HEX(CAST(" + name + " AS CHAR CHARACTER SET utf8mb4))"
}

// total reads a sum, which is 0 if there are no rows.
func (d *database) total(ctx context.Context, s Sum, kept string) *big.Rat {
	// A name in braces is a column, quoted as this database wants it.
	expression := "(" + regexp.MustCompile("\\{([^{}'\"`]+)\\}").ReplaceAllStringFunc(s.Expression,
		func(name string) string { return d.kind.quote(name[1 : len(name)-1]) }) + ")"
	if d.kind == postgres {
		expression += "::text"
	}
	value := d.text(ctx, "SELECT "+expression+" FROM "+d.kind.quote(s.Table)+" AS s"+where(kept))
	n, ok := new(big.Rat).SetString(cmp.Or(value, "0"))
	if !ok {
		d.fail(fmt.Errorf("%s is %q, which is not a number", s.Expression, value))
		return new(big.Rat)
	}
	return n
}

// ofRenamed stands in an expression for 1 in rows that got a new name.
const ofRenamed = "{renamed}"

// expression returns what to select so that neither the database nor a driver changes the value.
func (d *database) expression(alias string, c *column) string {
	name := alias + "." + d.kind.quote(c.name)
	switch d.kind {
	case sqlite:
		return "+" + name // without a declared type, drivers leave the value alone
	case mysql:
		switch {
		case strings.HasPrefix(c.declared, "float"):
			return name + " + 0e0" // it would be shown with six digits
		case strings.HasPrefix(c.declared, "bit"):
			return name + " + 0"
		case c.class == classInstant, c.class == classDate, c.class == classClock, c.class == classUUID,
			strings.HasPrefix(c.declared, "inet"):
			return "CAST(" + name + " AS CHAR)"
		}
		return name
	}
	switch {
	case c.class == classBytes, c.class == classNumber && strings.Contains(c.declared, "int"):
		return name
	case c.declared == "boolean":
		return name + "::int"
	case c.class == classFloat:
		return name + "::float8"
	case c.declared == "inet": // a cast adds the length of the mask, even if there is none
		return "CASE WHEN " + name + " IS NOT NULL THEN format('%s', " + name + ") END"
	}
	return name + "::text"
}

// guess is a word in a declared type, and the class that it speaks for.
type guess struct {
	word  string
	class class
}

// textual finds types of servers that are texts, whatever other words are in them.
var textual = regexp.MustCompile(`^(enum\(|char|text)|(char|text|\[\])$|range`)

// classOf derives the class from the declared type. The first guess counts, and those of SQLite are in the
// order of its rules of affinity.
func classOf(k kind, declared string) class {
	guesses := []guess{
		{"bool", classNumber}, {"interval", classText}, {"point", classText}, {"int", classNumber},
		{"bit(", classNumber}, {"year", classNumber}, {"serial", classNumber}, {"numeric", classNumber},
		{"decimal", classNumber}, {"real", classFloat}, {"double", classFloat}, {"float", classFloat},
		{"bytea", classBytes}, {"blob", classBytes}, {"binary", classBytes}, {"json", classJSON},
		{"uuid", classUUID}, {"datetime", classInstant}, {"timestamp", classInstant}, {"date", classDate},
		{"time", classClock},
	}
	switch {
	case k == sqlite:
		guesses = []guess{
			{"bool", classNumber}, {"int", classNumber}, {"uuid", classUUID}, {"json", classJSON},
			{"char", classText}, {"clob", classText}, {"text", classText}, {"blob", classBytes},
			{"binary", classBytes}, {"real", classFloat}, {"floa", classFloat}, {"double", classFloat},
			{"datetime", classInstant}, {"timestamp", classInstant}, {"date", classDate}, {"time", classClock},
			{"num", classNumber}, {"dec", classNumber},
		}
	case strings.HasPrefix(declared, "set("):
		return classSet
	case textual.MatchString(declared), k == postgres && strings.HasPrefix(declared, "bit"):
		return classText
	}
	for _, g := range guesses {
		if strings.Contains(declared, g.word) {
			return g.class
		}
	}
	return classText
}

// integer returns SQL for the whole number that a text is.
func (k kind) integer(text string) string {
	switch k {
	case sqlite:
		return "CAST(" + text + " AS INTEGER)"
	case postgres:
		return "CASE WHEN " + text + "::text ~ '^[0-9]{1,18}$' THEN " + text + "::text::bigint END"
	}
	return "CAST(" + text + " AS SIGNED)"
}

// leading returns SQL for the whole number with which a text begins, as a list of numbers does.
func (k kind) leading(text string) string {
	if k == postgres {
		return "CASE WHEN " + text + "::text ~ '^{?-?[0-9]{1,18}([^0-9]|$)' THEN substring(" + text +
			"::text from '-?[0-9]+')::bigint END"
	}
	return k.integer(text)
}

// relation is a table.
type relation struct {
	columns []column
	primary []string
	unique  []uniqueKey // without the primary key
	links   []link
	opaque  []string // unique indexes with expressions or conditions, in the words of the database
}

// column is a column of a table. After [verifier.relate] there are none that the target computes, and only
// those of the sources are computed whose values the target stores.
type column struct {
	name     string
	computed bool   // the database computes it
	declared string // the type in the words of the database, in lower case
	class    class
	nullable bool
	digits   int    // of the fraction of a second, -1 without a limit
	rule     string // how texts are compared, in the words of the database; SQLite does not say it
}

func (r *relation) column(name string) *column {
	for i := range r.columns {
		if r.columns[i].name == name {
			return &r.columns[i]
		}
	}
	return nil
}

// mentions reports whether a unique index with an expression or a condition may depend on a column.
func (r *relation) mentions(column string) bool {
	return slices.ContainsFunc(r.opaque, func(text string) bool {
		return text == "*" || strings.Contains(strings.ToLower(text), strings.ToLower(column))
	})
}

// whole reports whether there is such a column and it has whole numbers only.
func (c *column) whole() bool {
	within := func(word string) bool { return strings.Contains(c.declared, word) }
	return c != nil && c.class == classNumber && c.declared != "bit(1)" &&
		!slices.ContainsFunc([]string{"bool", "num", "dec"}, within)
}

// holdsKeys reports whether a column is of a type that keys have.
func (c *column) holdsKeys() bool {
	return c.class == classNumber && strings.Contains(c.declared, "int") ||
		c.class == classText || c.class == classBytes || c.class == classUUID
}

// uniqueKey is a unique index of plain columns. An index with expressions or a condition has none.
type uniqueKey struct {
	name       string
	columns    []string
	collations []string // those of the index, which only SQLite has
}

// term returns the i-th column of a key as the index compares it.
func (u uniqueKey) term(k kind, i int, alias string) string {
	text := alias + k.quote(u.columns[i])
	if i < len(u.collations) && u.collations[i] != "" {
		text += " COLLATE " + u.collations[i]
	}
	return text
}

// link is a reference from columns of a table to columns of a parent.
type link struct {
	columns []string
	parent  string
	targets []string
}

func (l link) String() string { return strings.Join(l.columns, ", ") + " to " + l.parent }

// identifies reports whether no two rows have the same values in the columns.
func (r *relation) identifies(columns []string) bool {
	covers := func(key []string) bool {
		return len(key) > 0 &&
			!slices.ContainsFunc(key, func(name string) bool { return !slices.Contains(columns, name) })
	}
	return covers(r.primary) ||
		slices.ContainsFunc(r.unique, func(k uniqueKey) bool { return covers(k.columns) })
}

// catalogQueries read a catalog: each has the table in the first column, and the rows of one thing follow
// each other.
type catalogQueries struct {
	columns string // table, column, type, nullable, digits, computed, rule
	keys    string // table, index or "" for the primary key, column, collation of the index
	opaque  string // table, text
	links   string // table, constraint, column, parent, parent's column or "" for its primary key
}

// catalog reads the tables of the database.
func (d *database) catalog(ctx context.Context) map[string]*relation {
	q := map[kind]func() catalogQueries{sqlite: sqliteCatalog, mysql: mysqlCatalog,
		postgres: postgresCatalog}[d.kind]()
	tables := map[string]*relation{}
	for _, row := range d.texts(ctx, q.columns) {
		t := tables[row[0]]
		if t == nil {
			t = &relation{}
			tables[row[0]] = t
		}
		c := column{name: row[1], declared: strings.ToLower(row[2]), nullable: row[3] == "1", digits: -1,
			computed: row[5] == "1", rule: row[6]}
		if n, err := strconv.Atoi(row[4]); err == nil {
			c.digits = n
		}
		c.class = classOf(d.kind, c.declared)
		t.columns = append(t.columns, c)
	}
	each := func(query string, add func(t *relation, row []string)) {
		for _, row := range d.texts(ctx, query) {
			if t := tables[row[0]]; t != nil {
				add(t, row)
			}
		}
	}
	each(q.keys, func(t *relation, row []string) {
		if row[1] == "" {
			t.primary = append(t.primary, row[2])
			return
		}
		if n := len(t.unique); n == 0 || t.unique[n-1].name != row[1] {
			t.unique = append(t.unique, uniqueKey{name: row[1]})
		}
		k := &t.unique[len(t.unique)-1]
		k.columns, k.collations = append(k.columns, row[2]), append(k.collations, row[3])
		if c := t.column(row[2]); c == nil || c.computed {
			t.opaque = append(t.opaque, "*") // out of any column
		}
	})
	each(q.opaque, func(t *relation, row []string) { t.opaque = append(t.opaque, row[1]) })
	last := ""
	each(q.links, func(t *relation, row []string) {
		if name := row[0] + "\x00" + row[1]; name != last {
			t.links, last = append(t.links, link{parent: row[3]}), name
		}
		l := &t.links[len(t.links)-1]
		if l.columns = append(l.columns, row[2]); row[4] != "" {
			l.targets = append(l.targets, row[4])
		}
	})
	for _, t := range tables {
		for i := range t.links {
			l := &t.links[i]
			if parent := tables[l.parent]; len(l.targets) == 0 && parent != nil {
				l.targets = parent.primary
			}
		}
		t.links = slices.DeleteFunc(t.links, func(l link) bool { return len(l.columns) != len(l.targets) })
	}
	return tables
}

// sqliteTables is where the names of tables are. Tables of modules have columns that only the modules know,
// and keep their rows in others.
const sqliteTables = ` FROM (SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND
	name NOT LIKE 'sqlite\_%' ESCAPE '\') AS m JOIN `

// sqliteUnique goes on with the unique indexes. One is plain if it has columns only and no condition.
const (
	sqliteUnique = sqliteTables + `pragma_index_list(m.name) AS l ON l."unique" = 1 AND l.origin <> 'pk' `
	sqlitePlain  = `(l.partial = 0 AND NOT EXISTS (SELECT 1 FROM pragma_index_xinfo(l.name) AS p WHERE p.key = 1
		AND p.name IS NULL))`
)

func sqliteCatalog() catalogQueries {
	return catalogQueries{
		// 1 is a hidden column of a virtual table, 2 and 3 are computed.
		columns: `SELECT m.name, x.name, x.type, x."notnull" = 0 AND x.pk = 0, '', x.hidden <> 0, ''` +
			sqliteTables + `pragma_table_xinfo(m.name) AS x WHERE x.hidden <> 1 ORDER BY m.name, x.cid`,
		keys: `SELECT m.name, '', x.name, '', x.pk` + sqliteTables + `pragma_table_xinfo(m.name) AS x
			WHERE x.pk > 0 UNION ALL SELECT m.name, l.name, x.name, x.coll, x.seqno` + sqliteUnique +
			`JOIN pragma_index_xinfo(l.name) AS x WHERE x.key = 1 AND ` + sqlitePlain + ` ORDER BY 1, 2, 5`,
		opaque: `SELECT m.name, i.sql` + sqliteUnique +
			`JOIN sqlite_master AS i ON i.type = 'index' AND i.name = l.name WHERE NOT ` + sqlitePlain,
		// The name of the parent may be in other letters.
		links: `SELECT m.name, f.id, f."from", COALESCE(p.name, f."table"), f."to"` + sqliteTables +
			`pragma_foreign_key_list(m.name) AS f LEFT JOIN sqlite_master AS p ON p.type = 'table'
			AND p.name = f."table" COLLATE NOCASE ORDER BY m.name, f.id, f.seq`,
	}
}

func mysqlCatalog() catalogQueries {
	return catalogQueries{
		// DEFAULT_GENERATED marks a default that is an expression: such a column is not computed. MariaDB opens
		// the tables again for each column if two schemas are compared with each other.
		columns: `SELECT c.table_name, c.column_name, c.column_type, c.is_nullable = 'YES', c.datetime_precision,
			c.extra LIKE '%VIRTUAL%' OR c.extra LIKE '%STORED GENERATED%' OR c.extra LIKE '%PERSISTENT%'
			OR COALESCE(c.generation_expression, '') <> '', c.collation_name
			FROM information_schema.columns c JOIN information_schema.tables t
			ON t.table_name = c.table_name
			WHERE c.table_schema = DATABASE() AND t.table_schema = DATABASE()
			AND t.table_type NOT IN ('VIEW', 'SEQUENCE')
			ORDER BY c.table_name, c.ordinal_position`,
		keys: `SELECT s.table_name, NULLIF(s.index_name, 'PRIMARY'), s.column_name, ''
			FROM information_schema.statistics s WHERE s.table_schema = DATABASE() AND s.non_unique = 0
			AND (s.index_name = 'PRIMARY' OR NOT EXISTS (SELECT 1 FROM information_schema.statistics x
				WHERE x.table_schema = s.table_schema AND x.table_name = s.table_name AND x.index_name = s.index_name
				AND (x.column_name IS NULL OR x.sub_part IS NOT NULL)))
			ORDER BY s.table_name, s.index_name, s.seq_in_index`,
		// An expression may be over any column.
		opaque: `SELECT table_name, COALESCE(column_name, '*') FROM information_schema.statistics
			WHERE table_schema = DATABASE() AND non_unique = 0 AND (column_name IS NULL OR sub_part IS NOT NULL)`,
		links: `SELECT table_name, constraint_name, column_name, referenced_table_name, referenced_column_name
			FROM information_schema.key_column_usage
			WHERE table_schema = DATABASE() AND referenced_table_schema = DATABASE()
			ORDER BY table_name, constraint_name, ordinal_position`,
	}
}

const postgresSequences = `SELECT c.relname, a.attname, COALESCE((SELECT min(s.seqrelid)::regclass::text
		FROM pg_attrdef e JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid
			AND d.refclassid = 'pg_class'::regclass
		JOIN pg_sequence s ON s.seqrelid = d.refobjid WHERE e.adrelid = c.oid AND e.adnum = a.attnum),
		pg_get_serial_sequence(quote_ident(c.relname), a.attname))
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	WHERE c.relkind IN ('r', 'p') AND` + postgresHere

const postgresHere = " n.nspname = current_schema() "

func postgresCatalog() catalogQueries {
	return catalogQueries{
		columns: `SELECT c.relname, a.attname, format_type(t.oid, GREATEST(a.atttypmod, d.typtypmod)),
			NOT a.attnotnull, CASE WHEN t.typname LIKE 'time%'
				THEN COALESCE(NULLIF(GREATEST(a.atttypmod, d.typtypmod), -1), 6) END, a.attgenerated <> '',
			t.typname || CASE WHEN l.collisdeterministic
				THEN '' ELSE COALESCE((to_jsonb(l) - 'oid' - 'collnamespace' - 'collowner')::text, '') END
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
			JOIN pg_type d ON d.oid = a.atttypid JOIN pg_type t ON t.oid = CASE d.typtype WHEN 'd'
				THEN d.typbasetype ELSE d.oid END LEFT JOIN pg_collation l ON l.oid = a.attcollation
			WHERE ` + postgresHere + ` AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			ORDER BY c.relname, a.attnum`,
		keys: `SELECT c.relname, CASE WHEN NOT i.indisprimary THEN x.relname END, a.attname, ''
			FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
			JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, at)
			JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
			WHERE i.indisunique AND i.indexprs IS NULL AND i.indpred IS NULL
			AND k.at <= i.indnkeyatts AND` + postgresHere + `ORDER BY c.relname, x.relname, k.at`,
		opaque: `SELECT c.relname, pg_get_indexdef(i.indexrelid) || ' ' || COALESCE((SELECT string_agg(
				pg_get_expr(x.adbin, x.adrelid), ' ') FROM pg_attrdef x WHERE x.adrelid = c.oid), '')
			FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
			JOIN pg_namespace n ON n.oid = c.relnamespace WHERE i.indisunique AND (i.indexprs IS NOT NULL
			OR i.indpred IS NOT NULL OR EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid
				AND a.attnum = ANY (i.indkey) AND a.attgenerated <> '')) AND` + postgresHere,
		links: `SELECT c.relname, f.conname, a.attname, p.relname, b.attname FROM pg_constraint f
			JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			JOIN pg_class p ON p.oid = f.confrelid AND p.relnamespace = n.oid
			CROSS JOIN LATERAL unnest(f.conkey, f.confkey) WITH ORDINALITY AS k (child, parent, at)
			JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.child
			JOIN pg_attribute b ON b.attrelid = p.oid AND b.attnum = k.parent
			WHERE f.contype = 'f' AND` + postgresHere + `ORDER BY c.relname, f.conname, k.at`,
	}
}

// sequence returns the sequence that gives a column of PostgreSQL or MariaDB its default, or "".
func (d *database) sequence(ctx context.Context, table, column string) string {
	if d.sequences == nil {
		d.sequences = map[[2]string]string{}
		query := "SELECT table_name, column_name, column_default FROM " +
			"information_schema.columns WHERE table_schema = DATABASE() AND column_default LIKE '%nextval(%'"
		if d.kind == postgres {
			query = postgresSequences
		}
		for _, row := range d.texts(ctx, query) {
			name, ok := strings.CutPrefix(strings.Trim(row[2], "()"), "nextval(")
			if ok || d.kind == postgres {
				d.sequences[[2]string{row[0], row[1]}] = name
			}
		}
	}
	return d.sequences[[2]string{table, column}]
}

// Things reads what a database has besides rows. The name is that of its kind: sqlite, mysql or postgres. A
// run stores the answer before it copies the first row, and that about the counters again after the last row.
// Only what was read in the same way can be compared, so Verify reads it by the same code.
func Things(ctx context.Context, conn *sql.Conn, name string) (_ map[Thing]string, err error) {
	d := &database{conn: conn, kind: map[string]kind{"mysql": mysql, "postgres": postgres}[name],
		fail: func(failed error) { err = cmp.Or(err, failed) }}
	all := d.things(ctx)
	return all, err
}

// things is [Things].
func (d *database) things(ctx context.Context) map[Thing]string {
	queries := map[kind]string{sqlite: sqliteThings, mysql: mysqlThings, postgres: postgresThings()}[d.kind]
	if d.kind == sqlite {
		if d.text(ctx, "SELECT COUNT(*) FROM sqlite_master WHERE name = 'sqlite_sequence'") == "1" {
			queries += "; SELECT 'counter', name, '', seq FROM main.sqlite_sequence"
		}
	}
	all := map[Thing]string{}
	for q := range strings.SplitSeq(queries, ";") {
		for _, row := range d.texts(ctx, q) {
			t, text := Thing{strings.ToLower(row[0]), row[1], row[2]}, row[3]
			if text == madeBy {
				for _, shown := range d.texts(ctx, "SHOW CREATE "+t.Kind+" "+d.kind.quote(t.Table)) {
					text = shown[1]
				}
			}
			all[t] = text
		}
	}
	takeCounters(all)
	return all
}
