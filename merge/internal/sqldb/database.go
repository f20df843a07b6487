package sqldb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// The errors of databases. Package merge exports and documents them.
var (
	ErrOpen     = errors.New("merge: database cannot be opened")
	ErrLocked   = errors.New("merge: another run works on this target")
	ErrDatabase = errors.New("merge: statement failed")
)

// DB is one database, and the one connection to it that everything goes through. Session settings, temporary
// tables and transactions belong to that connection. A DB is not safe for concurrent use.
type DB struct {
	Name   string // what errors call the database; never its DSN
	Kind   Kind
	TiDB   bool // it is TiDB, which is of the kind MySQL
	pool   *sql.DB
	conn   *sql.Conn
	Tables map[string]*Table // the catalog, as it was when the database was opened
	// Objects are what the database has besides these tables.
	Objects []Object
	// Catalog is where another database of the same kind finds this one: the database name on MySQL, the file
	// on SQLite, the schema on PostgreSQL.
	Catalog string
	// definitions are what [DB.Definition] compares, once they were read.
	definitions map[string]string
}

// Close closes the connection and the pool that the opener returned.
func (d *DB) Close() error {
	err := d.conn.Close()
	if errors.Is(err, sql.ErrConnDone) { // it was lost, or its context has ended
		err = nil
	}
	return errors.Join(err, d.pool.Close())
}

// Uses reports whether a pool is that of the database: an opener may return the same one twice.
func (d *DB) Uses(pool *sql.DB) bool { return d.pool == pool }

// failed adds the name of the database to the error of a statement.
func (d *DB) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrDatabase, d.Name, err)
}

// IsDataError reports whether PostgreSQL has refused a value that is in a statement: class 22 of its codes,
// such as a text that is no UUID. Other databases answer such a comparison.
func IsDataError(err error) bool {
	state := dialect.State(err)
	return len(state) == 5 && strings.HasPrefix(state, "22")
}

// Exec runs SQL text.
func (d *DB) Exec(ctx context.Context, text string, args ...any) error {
	_, err := d.conn.ExecContext(ctx, text, args...)
	return d.failed(err)
}

// Run runs a statement and returns how many rows it affected.
func (d *DB) Run(ctx context.Context, s *Statement) (int64, error) {
	result, err := d.conn.ExecContext(ctx, s.String(), s.Args...)
	if err != nil {
		return 0, d.failed(err)
	}
	n, err := result.RowsAffected()
	return n, d.failed(err)
}

// Row reads the first row of a result. Without a row, the error is [sql.ErrNoRows].
func (d *DB) Row(ctx context.Context, s *Statement, into ...any) error {
	err := d.conn.QueryRowContext(ctx, s.String(), s.Args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return d.failed(err)
}

// Each calls fn for every row of a result. See [DB.Fetch].
func (d *DB) Each(ctx context.Context, s *Statement, fn func(values []any) error) error {
	return d.Fetch(ctx, s, Fetch{}, fn)
}

// EachSteady is Each for a statement that is steady.
func (d *DB) EachSteady(ctx context.Context, s *Statement, fn func(values []any) error) error {
	return d.Fetch(ctx, s, Fetch{Steady: true}, fn)
}

// Strings reads a whole result as text. NULL becomes "".
func (d *DB) Strings(ctx context.Context, s *Statement) ([][]string, error) {
	var all [][]string
	err := d.Each(ctx, s, func(values []any) error {
		texts := make([]string, len(values))
		for i, v := range values {
			if v != nil {
				texts[i] = Text(v)
			}
		}
		all = append(all, texts)
		return nil
	})
	return all, err
}

// Number reads the one integer that a result consists of.
func (d *DB) Number(ctx context.Context, s *Statement) (int64, error) {
	var n int64
	err := d.Row(ctx, s, &n)
	return n, err
}

// Holds reports whether there is a table with rows.
func (d *DB) Holds(ctx context.Context, table string) (bool, error) {
	if d.Tables[table] == nil {
		return false, nil
	}
	rows, err := d.Strings(ctx, NewStatement(d.Kind, "SELECT 1 FROM ", d.Kind.Quote(table), " LIMIT 1"))
	return len(rows) > 0, err
}

// Transaction runs fn between BEGIN and COMMIT, and rolls back if either fails.
func (d *DB) Transaction(ctx context.Context, fn func() error) error {
	return d.transaction(ctx, func() (string, error) { return "COMMIT", fn() })
}

// Unflushed is Transaction for a part of the work that can be done once more. Unless fn returns that it was
// the last part, PostgreSQL does not wait for the disk then. If that server crashes, the last of these
// transactions may be gone, each as a whole and only together with all that came after it. The next
// transaction that waits for the disk makes all of them last.
//
// See https://www.postgresql.org/docs/current/wal-async-commit.html. The other kinds cannot do this for one
// session.
func (d *DB) Unflushed(ctx context.Context, fn func() (last bool, err error)) error {
	return d.transaction(ctx, func() (string, error) {
		last, err := fn()
		if last || d.Kind != PostgreSQL {
			return "COMMIT", err
		}
		return "SET LOCAL synchronous_commit = off; COMMIT", err
	})
}

// transaction runs fn, which returns how to commit.
func (d *DB) transaction(ctx context.Context, fn func() (commit string, err error)) error {
	begin := "BEGIN"
	if d.Kind == SQLite {
		begin = "BEGIN IMMEDIATE" // a transaction that starts with a read cannot wait for the write lock
	}
	if err := d.Exec(ctx, begin); err != nil {
		return err
	}
	commit, err := fn()
	if err == nil {
		if err = d.Exec(ctx, commit); err == nil {
			return nil
		}
	}
	// The context may have ended, but the transaction must end in any case.
	return errors.Join(err, d.Exec(context.WithoutCancel(ctx), "ROLLBACK"))
}

// HasTable reports whether the database has a table now, even if the catalog was read before it was made.
func (d *DB) HasTable(ctx context.Context, name string) (bool, error) {
	q := NewStatement(d.Kind)
	switch d.Kind {
	case SQLite:
		q.Add("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ").Bind(name)
	case MySQL:
		q.Add("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name " +
			"= ").Bind(name)
	case PostgreSQL:
		q.Add("SELECT COUNT(*) FROM pg_class WHERE relnamespace = " + currentNamespace + " AND relname = ").
			Bind(name)
	}
	n, err := d.Number(ctx, q)
	return n > 0, err
}

// SameInstance reports whether two connections lead to the same MySQL server. One takes a named lock, and the
// other looks which connection holds it.
func (d *DB) SameInstance(ctx context.Context, other *DB) (bool, error) {
	name, err := randomName()
	if err != nil {
		return false, err
	}
	if _, err := other.Number(ctx, NewStatement(MySQL, "SELECT GET_LOCK(").Bind(name).
		Add(", 0)")); err != nil {
		return false, err
	}
	own, err := other.Number(ctx, NewStatement(MySQL, "SELECT CONNECTION_ID()"))
	if err != nil {
		return false, err
	}
	holder, err := d.Number(ctx, NewStatement(MySQL, "SELECT COALESCE(IS_USED_LOCK(").Bind(name).Add("), -1)"))
	_, releasing := other.Number(ctx, NewStatement(MySQL, "SELECT RELEASE_LOCK(").Bind(name).Add(")"))
	return holder == own, errors.Join(err, releasing)
}

func randomName() (string, error) {
	var b [12]byte
	_, err := rand.Read(b[:])
	return fmt.Sprintf("merge_%x", b), err
}

// A Fetch says what the rows of a result are like.
type Fetch struct {
	Texts []bool // of each column: bytes are a text
	More  int    // each slice of values has room for so many further ones at its end
	// Steady says that the database returns row after row without long pauses, so that it is enough to look at
	// the context between the rows. The usual driver of SQLite starts a goroutine for every row of a statement
	// whose context can end.
	Steady bool
}

// Fetch calls fn for every row of a result. The values are as the driver returns them, and fn may keep them.
func (d *DB) Fetch(ctx context.Context, s *Statement, f Fetch, fn func(values []any) error) (err error) {
	asked := ctx
	if f.Steady && d.Kind == SQLite {
		asked = context.WithoutCancel(ctx)
	}
	rows, err := d.conn.QueryContext(asked, s.String(), s.Args...)
	if err != nil {
		return d.failed(err)
	}
	defer func() { err = errors.Join(err, d.failed(rows.Close())) }()
	columns, err := rows.Columns()
	if err != nil {
		return d.failed(err)
	}
	cells, into := make([]cell, len(columns)), make([]any, len(columns))
	for i := range cells {
		cells[i].text, into[i] = i < len(f.Texts) && f.Texts[i], &cells[i]
	}
	var memory slab
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		values := memory.take(len(columns) + f.More)
		for i := range cells {
			cells[i].into = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return d.failed(err)
		}
		if err := fn(values); err != nil {
			return err
		}
	}
	return d.failed(rows.Err())
}

// Definition returns the definition of a table as text. Two databases with an equal definition take the same
// values. It returns "" where that cannot be said: a CHECK that was added or switched off later does not hold
// for the rows that were there, and a MySQL that was not strict has stored what is no member of an ENUM.
func (d *DB) Definition(ctx context.Context, t *Table) (string, error) {
	if d.definitions == nil {
		all, err := d.readDefinitions(ctx)
		if err != nil {
			return "", err
		}
		d.definitions = all
	}
	if d.Kind != MySQL {
		return d.definitions[t.Name], nil
	}
	var name, text string
	err := d.Row(ctx, NewStatement(MySQL, "SHOW CREATE TABLE ", MySQL.Quote(t.Name)), &name, &text)
	if err != nil {
		return "", err
	}
	text = autoIncrement.ReplaceAllString(text, "")
	checks := jsonCheck.ReplaceAllString(text, "")
	if strings.Contains(checks, " CHECK (") || strings.Contains(checks, " enum(") ||
		strings.Contains(checks, "PARTITION BY") {
		return "", nil
	}
	return d.definitions[""] + "\n" + text, nil
}

var (
	autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)
	// The columns of type JSON of MariaDB have this check from the beginning.
	jsonCheck = regexp.MustCompile(" CHECK \\(json_valid\\(`[^`]+`\\)\\)")
)

// readDefinitions reads the definitions of all tables, by their names. MySQL can only be asked for one at a
// time, so for it this is its version, under no name.
func (d *DB) readDefinitions(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	switch d.Kind {
	case MySQL:
		var version string
		err := d.Row(ctx, NewStatement(MySQL, "SELECT VERSION()"), &version)
		all[""] = version
		return all, err
	case SQLite:
		rows, err := d.Strings(ctx, NewStatement(SQLite, "SELECT tbl_name, sql FROM sqlite_master "+
			"WHERE type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type, name"))
		for _, row := range rows {
			all[row[0]] += row[1] + "\n"
		}
		for name, text := range all {
			if mentions(text, "check") {
				all[name] = ""
			}
		}
		return all, err
	}
	rows, err := d.Strings(ctx, NewStatement(PostgreSQL, postgresDefinition))
	for _, row := range rows {
		if row[0] == "1" {
			all[row[2]] = row[1]
		}
	}
	return all, err
}

// Plain reports whether a table takes a row whenever each column has the type for its value: there are no
// other conditions, and nothing is computed from a value.
func (d *DB) Plain(ctx context.Context, t *Table) (bool, error) {
	if slices.ContainsFunc(t.Columns, func(c *Column) bool { return c.Generated }) || len(t.Exclusions) > 0 {
		return false, nil
	}
	text, err := d.Definition(ctx, t)
	if d.Kind == SQLite {
		rows, failed := d.Strings(ctx, NewStatement(SQLite, "SELECT sql FROM sqlite_master WHERE tbl_name = ").
			Bind(t.Name).Add(" AND type = 'index' AND (sql LIKE '%(%(%' OR sql LIKE '% WHERE %')"))
		return text != "" && len(rows) == 0, errors.Join(err, failed)
	}
	computed := map[Kind]*regexp.Regexp{
		MySQL:      regexp.MustCompile(`(?i) KEY [^\n]*\(\(| GENERATED ALWAYS AS `),
		PostgreSQL: regexp.MustCompile(` USING \w+ \([^\n]*\(| USING [^\n]* WHERE `),
	}[d.Kind]
	return text != "" && !computed.MatchString(text), err
}

// postgresDefinition asks whether a definition can be compared, and for its text.
const postgresDefinition = `SELECT (c.relkind = 'r' AND NOT EXISTS (
	SELECT 1 FROM pg_constraint o WHERE o.conrelid = c.oid AND o.contype = 'c') AND NOT EXISTS (
	SELECT 1 FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0
	AND NOT a.attisdropped AND t.typtype <> 'e' AND t.typnamespace <> 'pg_catalog'::regnamespace))::int::text,
	current_setting('server_version') || ' ' || current_setting('server_encoding') || ' ' || (
	SELECT string_agg(concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), a.attnotnull,
		a.attgenerated, pg_get_expr(e.adbin, e.adrelid), (SELECT string_agg(quote_literal(l.enumlabel), ','
		ORDER BY l.enumsortorder) FROM pg_enum l WHERE l.enumtypid = a.atttypid)), E'\n' ORDER BY a.attname)
	FROM pg_attribute a LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
		AND a.attgenerated <> '' WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) || (
	SELECT COALESCE(string_agg(substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*'), E'\n'
		ORDER BY substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*')), '') FROM pg_index i
	WHERE i.indrelid = c.oid), c.relname
	FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = ` + currentNamespace

// Counter returns the greatest number that a database has given out for a column that it counts, whether or
// not the row is still there; 0 if it does not count the column.
func (d *DB) Counter(ctx context.Context, t *Table, column string) (int64, error) {
	q := NewStatement(d.Kind)
	switch d.Kind {
	case SQLite:
		if exists, err := d.HasTable(ctx, "sqlite_sequence"); err != nil || !exists {
			return 0, err
		}
		q.Add("SELECT COALESCE(MAX(seq), 0) FROM main.sqlite_sequence WHERE name = ").Bind(t.Name)
	case MySQL:
		c := t.Column(column)
		if c != nil && c.sequence != "" && !d.TiDB {
			// The numbers up to this one were taken out of the sequence, whether a row got them or not.
			return d.Number(ctx, NewStatement(MySQL, "SELECT GREATEST(next_not_cached_value - increment, 0) FROM ",
				c.sequence, " WHERE increment > 0 UNION ALL SELECT 0 LIMIT 1"))
		}
		if c == nil || !c.counted {
			return 0, nil
		}
		// MySQL shows a number that may be a day old unless it is told otherwise; MariaDB has no such setting.
		_, _ = d.conn.ExecContext(ctx, "SET SESSION information_schema_stats_expiry = 0")
		// The catalog of MariaDB opens every table of a schema for a question that a join makes less than plain.
		q.Add("SELECT auto_increment FROM information_schema.tables WHERE table_schema = DATABASE() " +
			"AND table_name = ").Bind(t.Name)
	case PostgreSQL:
		postgresSequence(q.Add("SELECT COALESCE(pg_sequence_last_value("), t, column).Add("), 0)")
	}
	rows, err := d.Strings(ctx, q)
	if err != nil || len(rows) == 0 || rows[0][0] == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(rows[0][0], 10, 64)
	if errors.Is(err, strconv.ErrRange) || n < 0 {
		return 0, nil // a counter that is used up, or below zero as one that counts down from -1, says nothing
	}
	if d.Kind == MySQL && n > 0 { // it is the next number
		n--
	}
	return n, err
}

// postgresSequence appends the sequence that a column of PostgreSQL takes its default from, as a regclass:
// the one that the default depends on, or names in a text, or else the one that belongs to the column.
func postgresSequence(q *Statement, t *Table, column string) *Statement {
	table := PostgreSQL.Quote(t.Name)
	of := func(what string) {
		q.Add("(SELECT " + what + " FROM pg_attrdef e JOIN pg_attribute a ON a.attrelid = e.adrelid " +
			"AND a.attnum = e.adnum LEFT JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = " +
			"e.oid AND d.refclassid = 'pg_class'::regclass AND EXISTS (SELECT 1 FROM pg_sequence s " +
			"WHERE s.seqrelid = d.refobjid) WHERE e.adrelid = ").Bind(table).
			Add("::text::regclass AND a.attname = ").Bind(column).Add("::text ORDER BY d.refobjid LIMIT 1)")
	}
	q.Add("COALESCE(")
	of("d.refobjid::regclass")
	q.Add(", ")
	of("to_regclass(substring(pg_get_expr(e.adbin, e.adrelid) from 'nextval\\(+''([^'']+)''::text'))")
	return q.Add(", pg_get_serial_sequence(").Bind(table).Add("::text, ").Bind(column).Add("::text)::regclass)")
}

// SetCounter has the database count on behind a number, and behind every number that the column holds. A
// sequence that counts down goes on below every number that the column holds and below its own last one. The
// given number is the greatest that was given out and says nothing about the least, so it is not used there.
func (d *DB) SetCounter(ctx context.Context, t *Table, column string, counter int64) error {
	name := d.Kind.Quote(t.Name)
	switch d.Kind {
	case SQLite:
		exists, err := d.HasTable(ctx, "sqlite_sequence")
		if err != nil || !exists || counter <= 0 || len(t.Primary) != 1 || t.Primary[0] != column {
			return err
		}
		var statement string
		if err := d.Row(ctx, NewStatement(SQLite, "SELECT COALESCE(sql, '') FROM sqlite_master "+
			"WHERE type = 'table' AND name = ").Bind(t.Name), &statement); err != nil {
			return err
		}
		if !strings.Contains(strings.ToUpper(statement), "AUTOINCREMENT") {
			return nil // it counts from the greatest key, and nothing can change that
		}
		for _, q := range []*Statement{
			NewStatement(SQLite, "INSERT INTO main.sqlite_sequence (name, seq) SELECT ").Bind(t.Name).
				Add(", 0 WHERE NOT EXISTS (SELECT 1 FROM main.sqlite_sequence WHERE name = ").Bind(t.Name).Add(")"),
			NewStatement(SQLite, "UPDATE main.sqlite_sequence SET seq = ").Bind(counter).
				Add(" WHERE name = ").Bind(t.Name).Add(" AND seq < ").Bind(counter),
		} {
			if _, err := d.Run(ctx, q); err != nil {
				return err
			}
		}
		return nil
	case MySQL:
		if c := t.Column(column); c != nil && c.sequence != "" {
			return d.setSequence(ctx, t, c, counter)
		}
		now, err := d.Counter(ctx, t, column)
		if err != nil || now >= counter {
			return err
		}
		return d.Exec(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", name, counter+1))
	}
	key := d.Kind.Quote(column)
	q := NewStatement(PostgreSQL, "SELECT setval(seqrelid, greatest(seqmin, least(seqmax, "+
		"CASE WHEN seqincrement > 0 THEN greatest((SELECT MAX(", key, ") FROM ", name, "), ",
		strconv.FormatInt(counter, 10), ", pg_sequence_last_value(seqrelid), 1) "+
			"ELSE least((SELECT MIN(", key, ") FROM ", name,
		"), pg_sequence_last_value(seqrelid), seqstart) END))) "+
			"FROM pg_sequence WHERE seqrelid = ")
	_, err := d.Run(ctx, postgresSequence(q, t, column))
	return err
}

// setSequence is SetCounter for a column of MariaDB or TiDB whose default comes from a sequence. A sequence
// does not go back, so that several columns may share it.
func (d *DB) setSequence(ctx context.Context, t *Table, c *Column, counter int64) error {
	increment := int64(1)
	if !d.TiDB { // which does not show it there
		n, err := d.Number(ctx, NewStatement(MySQL, "SELECT increment FROM ", c.sequence))
		if err != nil {
			return err
		}
		increment = n
	}
	end := "MAX"
	if increment < 0 {
		end = "MIN"
	}
	rows, err := d.Strings(ctx, NewStatement(MySQL, "SELECT ", end, "(", MySQL.Quote(c.Name), ") FROM ",
		MySQL.Quote(t.Name)))
	if err != nil {
		return err
	}
	last := counter
	if rows[0][0] != "" {
		n, err := strconv.ParseInt(rows[0][0], 10, 64)
		if err != nil {
			return err
		}
		if last = max(n, counter); increment < 0 {
			last = n
		}
	}
	if last == 0 || increment < 0 && rows[0][0] == "" {
		return nil // no number was given out
	}
	_, err = d.Strings(ctx, NewStatement(MySQL, fmt.Sprintf("SELECT SETVAL(%s, %d)", c.sequence, last)))
	return err
}

// givesDefaults reports whether a column of a table takes its default from a sequence of the database.
func (d *DB) givesDefaults(sequence string) bool {
	for _, t := range d.Tables {
		for _, c := range t.Columns {
			if c.sequence != "" && strings.HasSuffix(c.sequence, "."+MySQL.Quote(sequence)) {
				return true
			}
		}
	}
	return false
}
