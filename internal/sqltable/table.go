package sqltable

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

const (
	// setUpTimeout bounds what Open does, beside its context.
	setUpTimeout = 30 * time.Second
	// connectionLifetime makes sure that a store comes to the right server after one of them has
	// become another's replica or got another address.
	connectionLifetime = 5 * time.Minute
	// attempts to find or make the table: processes that make it at the same time can meet an error
	// about the other's entry in the catalog, as PostgreSQL's IF NOT EXISTS does not exclude that.
	attempts = 3
)

// Type is the type of a column.
type Type int

// The types of columns.
const (
	Integer Type = iota // int64
	Text                // string, of up to 255 bytes that no collation changes
	Time                // time.Time, in UTC and exact to the nanosecond
)

// Column is a column of a table.
type Column struct {
	Name string
	Type Type
	// Late is a text that earlier versions do not write: its default is empty. It is added to a table that an
	// earlier version has made.
	Late bool
}

// Spec is what a table is like, and for whom it is.
type Spec struct {
	Table   string   // its name, as the user gave it
	Beside  string   // the name of a second table, which lies in the same schema; empty if there is none
	Columns []Column // the first is the primary key
	// Compare are the columns, beside the key, in which a row must be what it was for a change to be made.
	Compare []int
	// Newest is the column that tells the newest of several rows which have the same key.
	Newest int
	Mark   Mark

	Dialect dialect.Dialect // of which a package of a store gives the kind
	// Dedicated means that nobody else uses the pool.
	Dedicated bool

	Package string // of the store, for messages
	Holds   string // what the table holds: records
	Instead string // what a program does whose database no store can work on; empty, or ; and what
	Purpose string // one word for the name of the connection
	Rights  string // what an application needs on the table: SELECT, INSERT and UPDATE

	// The sentinels of the store's package. ErrRow is that of a row which is not as it should be.
	ErrOption, ErrTable, ErrDatabase, ErrStore, ErrClosed, ErrRow error
}

// Mark is a row that says which table this is. It is made with the table. While it is missing, or is that of
// another table, Swap inserts no row, and List fails: somebody has dropped or emptied the table, and nothing
// tells what was in there.
type Mark struct {
	// Row is the row. The identity of the table follows the text in a column.
	Row    Row
	Column int
	// Noted returns the identity that is noted elsewhere for a table of this name, or an empty text. Then a
	// table without rows was emptied, and only a person gives it its mark again.
	Noted func(ctx context.Context, q Querier, p Place) (string, error)
	// Always means that every table whose identity is noted had its mark then.
	Always bool
	// First says what to do before an emptied table gets its mark again, and Again before programs use a table
	// that has replaced another one.
	First, Again string
	ErrEmptied   error
}

func (m Mark) rowOf(identity string) Row {
	row := slices.Clone(m.Row)
	row[m.Column] = fmt.Sprint(row[m.Column], identity)
	return row
}

// identityIn returns the identity that a row from the database tells, if it is the mark.
func (m Mark) identityIn(row Row) (identity string, isMark bool) {
	if _, isText := m.Row[0].(string); isText {
		if key, ok := textOf(row[0]); !ok || key != m.Row[0] {
			return "", false
		}
	} else if key, ok := Whole(row[0]); !ok || key != m.Row[0] {
		return "", false
	}
	text, _ := textOf(row[m.Column])
	identity, _ = strings.CutPrefix(text, fmt.Sprint(m.Row[m.Column]))
	return identity, true
}

// Option changes one property of a table.
type Option func(*Spec) error

// With completes what a package of a store says of its table: it looks up the dialect, and applies the
// options. It reports all faults at once.
func (s Spec) With(options []Option) (_ Spec, fault error) {
	known, ok := dialect.Of(string(s.Dialect.Kind))
	if !ok {
		fault = fmt.Errorf("%w: dialect %q: %s can be kept in sqlite, postgres and mysql, which is MariaDB too%s",
			s.ErrDatabase, s.Dialect.Kind, s.Holds, s.Instead)
	}
	s.Dialect = known
	fault = errors.Join(fault, errs.Options(&s, options, s.ErrOption))
	return s, fault
}

// WithTable names the table.
func WithTable(name string) Option {
	return func(s *Spec) error {
		if slices.Contains(strings.Split(name, "."), "") {
			return fmt.Errorf("%w: WithTable(%q): there is an empty name in it; leave the option out for the "+
				"default", s.ErrOption, name)
		}
		s.Table = name
		return nil
	}
}

// WithDedicatedPool says that nobody else uses the pool.
func WithDedicatedPool() Option {
	return errs.Set(func(s *Spec) { s.Dedicated = true })
}

// DDL returns the statement that makes the table.
func (s Spec) DDL(options []Option) (string, error) {
	s, err := s.With(options)
	if err != nil {
		return "", err
	}
	return s.making(s.Dialect.Quoted(s.Table)), nil
}

// making is the statement that makes a table, whose name is quoted.
func (s Spec) making(name string) string {
	types := make([]string, len(s.Columns))
	for i, column := range s.Columns {
		types[i] = s.typeOf(column)
	}
	return s.Dialect.CreateTable(name, s.quoted(), types)
}

func (s Spec) typeOf(c Column) string {
	definition := []string{s.Dialect.Integer, s.Dialect.Text, s.Dialect.Time}[c.Type]
	if c.Late {
		definition += " DEFAULT ''"
	}
	return definition
}

// adding are the statements that add the late columns to a table, whose name is quoted.
func (s Spec) adding(name string) (statements []string) {
	for i, column := range s.Columns {
		if column.Late {
			statements = append(statements,
				"ALTER TABLE "+name+" ADD COLUMN "+s.quoted()[i]+" "+s.typeOf(column)+" NOT NULL")
		}
	}
	return statements
}

// quoted are the names of the columns in SQL.
func (s Spec) quoted() []string {
	quoted := make([]string, len(s.Columns))
	for i, column := range s.Columns {
		quoted[i] = s.Dialect.Quote(column.Name)
	}
	return quoted
}

// Table is a table that a store works on. Make one with [Open]; it must not be copied. Its methods are safe
// for concurrent use.
type Table struct {
	pool     *sql.DB
	spec     Spec
	place    Place
	identity string // that of the mark
	// name and columns are quoted.
	name    string
	columns []string
	closed  atomic.Bool
	// turn is held by a request on a dedicated pool, unless that is a probe.
	turn chan struct{}
	// aside hands over a connection that was made for a later attempt to one that waits for its own.
	aside      chan *sql.Conn
	connecting atomic.Bool // such a connection is being made
	lifetime   context.Context
	end        context.CancelFunc // ends lifetime
	// prepared is the last physical connection of a dedicated pool that was prepared.
	prepared atomic.Pointer[any]
	// scattered means that each connection may be a database of its own: SQLite in memory.
	scattered bool
	oneWriter bool
}

// Open returns the table in the database of db and makes it, if it is not there. It takes as long as ctx
// allows, and no longer than 30 s. It returns an error wrapping ErrOption, ErrTable, ErrDatabase or ErrStore
// of s.
func Open(ctx context.Context, db *sql.DB, s Spec, options []Option) (*Table, error) {
	s, err := s.With(options)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, fmt.Errorf("%w: the *sql.DB is nil", s.ErrDatabase)
	}
	t := &Table{
		pool: db, spec: s, columns: s.quoted(), aside: make(chan *sql.Conn),
	}
	t.lifetime, t.end = context.WithCancel(context.WithoutCancel(ctx))
	if s.Dedicated {
		// Requests are short and few, so one connection is enough. It is kept, because it is needed
		// when there are no more to be had. The second is for a probe, while there is no answer on the
		// first, and the third for connectAside. SQLite has no server to run out of connections, and an
		// open file would be in the way of an application that moves or removes it.
		t.turn = make(chan struct{}, 1)
		db.SetMaxOpenConns(3)
		db.SetMaxIdleConns(1)
		if s.Dialect.Embedded() {
			db.SetMaxIdleConns(0)
		}
		db.SetConnMaxLifetime(connectionLifetime)
	}
	t.oneWriter = s.Dialect.Embedded() || !s.Dedicated && db.Stats().MaxOpenConnections == 1
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	if err := t.setUp(ctx); err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

// Row is the values of the columns: int64, string and time.Time, as their types are. In a row that was read
// they are what the driver makes of them. See [Table.Scan].
type Row []any

// Bounds are when a change may happen, by the clock of the database. Both are included.
type Bounds struct{ Earliest, Latest time.Time }

// List returns all rows but the mark.
func (t *Table) List(ctx context.Context) ([]Row, error) {
	const what = "reading the rows"
	statement := t.selects()
	if d := t.spec.Dialect; d.SyncedRead != "" {
		// A keeper that had no answer to a change believes what it reads afterwards. A change that was given up
		// while it waited for a standby can be read, although a failover loses it.
		statement += " WHERE " + d.SyncedRead
	}
	statement += " LIMIT 9223372036854775807" // a session of MySQL may be set to a few, without an error
	rows, err := t.query(ctx, what, statement)
	if err != nil {
		return nil, err
	}
	found := ""
	rows = slices.DeleteFunc(rows, func(row Row) bool {
		identity, isMark := t.spec.Mark.identityIn(row)
		if isMark {
			found = identity
		}
		return isMark
	})
	if found != t.identity {
		return nil, t.Wrap(what, t.emptied(t.identity, found, ""))
	}
	return rows, nil
}

// emptied is the error about a table that has lost the mark of an identity, and perhaps has another's. The
// statement makes the table, if it is not there.
func (t *Table) emptied(identity, found, making string) error {
	m := t.spec.Mark
	if found != "" {
		return fmt.Errorf("%w: the table %s had the identity %s, and was replaced by one that has %s. Nothing "+
			"is granted from it to those who knew the first. %s",
			m.ErrEmptied, t.spec.Table, identity, found, m.Again)
	}
	var literals []string
	values, _ := t.values(m.rowOf(identity)) // it was stored, so it can be
	for _, value := range values {
		if text, ok := value.(string); ok {
			value = "'" + text + "'"
		}
		literals = append(literals, fmt.Sprint(value))
	}
	into := "INSERT INTO " + t.name + " (" + strings.Join(t.columns, ", ") + ") VALUES (" +
		strings.Join(literals, ", ")
	return fmt.Errorf("%w: the table %s had the identity %s, and was dropped or emptied. Nothing tells which "+
		"%s were in there, so nothing is granted from it. Restore the table, or %s, and run this as a user who "+
		"may:\n\n%s%s);", m.ErrEmptied, t.spec.Table, identity, t.spec.Holds, m.First, making, into)
}

// Identity returns the identity that the mark tells.
func (t *Table) Identity() string { return t.identity }

// CheckMark returns an error wrapping ErrEmptied of the mark if the table does not have it any more.
func (t *Table) CheckMark(ctx context.Context) error {
	rows, err := t.Find(ctx, t.spec.Mark.Row[0])
	found := ""
	for _, row := range rows {
		found, _ = t.spec.Mark.identityIn(row)
	}
	if err == nil && found != t.identity {
		err = t.Wrap("reading its mark", t.emptied(t.identity, found, ""))
	}
	return err
}

// Find returns the rows that have a key. There are several only if the table lacks its primary key.
func (t *Table) Find(ctx context.Context, key any) ([]Row, error) {
	s := t.Same(dialect.Write(t.Kind(), t.selects(), " WHERE "), 0, key)
	return t.query(ctx, "reading the row of "+t.key(key), s.String(), s.Args...)
}

// query asks for rows of any tables.
func (t *Table) query(ctx context.Context, what, statement string, args ...any) ([]Row, error) {
	return Request(ctx, t, Reads, what, func(ctx context.Context, q Querier) ([]Row, error) {
		_, rows, err := dialect.Query[Row](ctx, q, statement, args...)
		return rows, err
	})
}

// number asks for a single number, which needs no table.
func (t *Table) number(ctx context.Context, k Kind, what, statement string) (int64, error) {
	return Request(ctx, t, k, what, func(ctx context.Context, q Querier) (int64, error) {
		return number(ctx, q, statement)
	})
}

func (t *Table) selects() string {
	return "SELECT " + strings.Join(t.columns, ", ") + " FROM " + t.name
}

// Swap replaces prev by next, which have the same key, with a single statement. It does so only if the row
// has the key and the compared columns of prev. Without prev it inserts next, unless its key has a row or the
// mark is missing. If there are bounds, the statement compares the clock too. When Swap returns true the
// change is committed.
func (t *Table) Swap(ctx context.Context, prev, next Row, within *Bounds) (bool, error) {
	values, err := t.values(next)
	if err != nil {
		return false, t.Wrap("writing a row", err)
	}
	s := dialect.Write(t.Kind())
	into, unless := t.spec.Dialect.InsertUnlessThere(t.name, t.columns)
	if prev == nil {
		t.whereMarked(s.Add(into, "SELECT ").BindAll(values...).Add(t.spec.Dialect.From, " WHERE "))
	} else {
		s.Add("UPDATE ", t.name, " SET ")
		for i, value := range values[1:] {
			if i > 0 {
				s.Add(", ")
			}
			s.Add(t.columns[i+1], " = ").Bind(value)
		}
		t.where(s, prev)
	}
	if within != nil {
		s.Add(" AND ", t.spec.Dialect.Clock, " BETWEEN ").Bind(ceilMicros(within.Earliest)).
			Add(" AND ").Bind(floorMicros(within.Latest))
	}
	if prev == nil {
		s.Add(unless)
	}
	return t.change(ctx, "writing", next[0], s)
}

// whereMarked appends that the table has its mark. A transaction that empties the table may be open, and is
// waited for. MySQL does so by itself, and SQLite has one writer.
func (t *Table) whereMarked(s *dialect.SQL) {
	row, column := t.spec.Mark.rowOf(t.identity), t.spec.Mark.Column
	t.Same(s.Add("EXISTS (SELECT 1 FROM ", t.name, " WHERE "), 0, row[0])
	t.Same(s.Add(" AND "), column, row[column])
	if t.Kind() == dialect.PostgreSQL {
		s.Add(" FOR KEY SHARE")
	}
	t.AddSynced(s.Add(")"))
}

// AddSynced appends to a condition that the change must not be lost once it is acknowledged, where a
// statement can say that.
func (t *Table) AddSynced(s *dialect.SQL) {
	if t.spec.Dialect.Synced != "" {
		s.Add(" AND ", t.spec.Dialect.Synced)
	}
}

// Remove removes a row with a single statement, if it has the key and the compared columns of prev.
func (t *Table) Remove(ctx context.Context, prev Row) (bool, error) {
	s := dialect.Write(t.Kind(), "DELETE FROM ", t.name)
	t.where(s, prev)
	return t.change(ctx, "removing", prev[0], s)
}

// where appends that a row has the key and the compared columns of prev.
func (t *Table) where(s *dialect.SQL, prev Row) {
	t.Same(s.Add(" WHERE "), 0, prev[0])
	for _, i := range t.spec.Compare {
		t.Same(s.Add(" AND "), i, prev[i])
	}
	t.AddSynced(s)
}

// Same appends that a column has a value. Texts are compared byte by byte.
func (t *Table) Same(s *dialect.SQL, column int, value any) *dialect.SQL {
	same := [2]string{" = "}
	if t.spec.Columns[column].Type == Text {
		same = t.spec.Dialect.SameText
	}
	return s.Add(t.columns[column], same[0]).Bind(value).Add(same[1])
}

// change runs a statement that changes one row or none, and tells whether it did.
func (t *Table) change(ctx context.Context, what string, key any, s *dialect.SQL) (bool, error) {
	what += " the row of " + t.key(key)
	return Request(ctx, t, Writes, what, func(ctx context.Context, q Querier) (bool, error) {
		result, err := q.ExecContext(ctx, s.String(), s.Args...)
		if err != nil {
			return false, err
		}
		n, err := result.RowsAffected()
		if err == nil && n > 1 {
			err = t.Twins(key, n)
		}
		return n == 1, err
	})
}

// values are what is stored of a row, or an error if that would not come back as it is.
func (t *Table) values(row Row) ([]any, error) {
	const maxText = 255 // bytes
	values := make([]any, len(row))
	for i, value := range row {
		values[i] = value
		switch value := value.(type) {
		case string:
			if len(value) > maxText || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
				return nil, fmt.Errorf("%w: %s: the %s %.40q is not up to %d bytes of UTF-8", t.spec.ErrRow,
					t.key(row[0]), t.spec.Columns[i].Name, value, maxText)
			}
		case time.Time:
			value = value.UTC()
			if value.Year() < 0 || value.Year() > 9999 {
				return nil, fmt.Errorf("%w: %s: %s is in the year %d", t.spec.ErrRow, t.key(row[0]),
					t.spec.Columns[i].Name, value.Year())
			}
			values[i] = Stamp(value)
		}
	}
	return values, nil
}

// Scan reads a row that comes from the database into pointers of type *int64, *string and *time.Time, one for
// each column. The error says which value is none of its kind.
func (t *Table) Scan(row Row, dest ...any) error {
	for i, target := range dest {
		var ok bool
		var wanted string
		switch target := target.(type) {
		case *int64:
			*target, ok = Whole(row[i])
			wanted = "number"
		case *string:
			*target, ok = textOf(row[i])
			wanted = "text"
		case *time.Time:
			*target, ok = instantOf(row[i])
			wanted = "time like " + timeForm
		}
		if !ok {
			return fmt.Errorf("%w: %s in column %s: %s is no %s", t.spec.ErrRow, t.key(row[0]),
				t.spec.Columns[i].Name, shown(row[i]), wanted)
		}
	}
	return nil
}

// Twins is the error when several rows have one key.
func (t *Table) Twins(key any, rows int64) error {
	return fmt.Errorf("%w: %s has %d rows: the table lacks its primary key; delete all but the row with the "+
		"greatest %s, and add the key", t.spec.ErrRow, t.key(key), rows, t.spec.Columns[t.spec.Newest].Name)
}

// key names a row in a message.
func (t *Table) key(value any) string {
	if n, ok := Whole(value); ok {
		value = n
	}
	return t.spec.Columns[0].Name + " " + shown(value)
}

// Wrap says in an error which table it is about, and what was done.
func (t *Table) Wrap(what string, err error) error {
	return fmt.Errorf("%s: table %s: %s: %w", t.spec.Package, t.spec.Table, what, err)
}

// OneWriter tells whether one transaction of the application can keep the store from writing: on SQLite,
// and on a shared pool that was limited to one connection when Open was called.
func (t *Table) OneWriter() bool { return t.oneWriter }

// Name returns the name of the table as the user gave it.
func (t *Table) Name() string { return t.spec.Table }

// Place returns where the table lies.
func (t *Table) Place() Place { return t.place }

// Quoted returns the name of the table in SQL, with its schema.
func (t *Table) Quoted() string { return t.name }

// Kind returns the kind of the database.
func (t *Table) Kind() dialect.Kind { return t.spec.Dialect.Kind }

// DDL returns the statement that makes the table.
func (t *Table) DDL() string { return t.spec.making(t.spec.Dialect.Quoted(t.spec.Table)) }

// Now returns the clock of the database's server, or on SQLite of this machine, as the database
// reads it: to the microsecond, and on SQLite to the millisecond.
func (t *Table) Now(ctx context.Context) (time.Time, error) {
	micros, err := t.number(ctx, Aside, "reading the clock", "SELECT "+t.spec.Dialect.Clock)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(micros).UTC(), nil
}

// Probe returns nil when the database has answered on a connection on which the store waits for nothing
// else. It returns an error at once on SQLite, because there is no server that could have lost a request,
// and on a shared pool of one connection.
func (t *Table) Probe(ctx context.Context) error {
	if t.oneWriter {
		return fmt.Errorf("%s: %w: there is no other connection to a server",
			t.spec.Package, errors.ErrUnsupported)
	}
	_, err := t.number(ctx, probes, "probing the server", "SELECT 1")
	return err
}

// Close closes the pool if it is dedicated to the store, and otherwise leaves it alone. Requests fail with
// ErrClosed from then on. It may be called more than once.
func (t *Table) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	t.end()
	if !t.spec.Dedicated {
		return nil
	}
	if err := t.pool.Close(); err != nil {
		return fmt.Errorf("%s: closing the connection for table %s: %w", t.spec.Package, t.spec.Table, err)
	}
	return nil
}

// setUp makes sure that there is a table to work on.
func (t *Table) setUp(ctx context.Context) (err error) {
	asked, err := t.locate(ctx)
	if err != nil {
		return err
	}
	if err := t.findTable(ctx); err != nil {
		return err
	}
	if !asked {
		// Until now there was no statement that a driver of PostgreSQL prepares.
		if _, err := t.Now(ctx); err != nil {
			return t.notAnswered(err)
		}
	}
	if t.spec.Dialect.Embedded() {
		// If the database lies in no file, another connection may lead to another one.
		files, err := t.number(ctx, Aside, "asking for the file of the database",
			"SELECT count(*) FROM pragma_database_list WHERE name = 'main' AND file <> ''")
		if err != nil {
			return t.notAnswered(err) // A request that was given up may still read the field.
		}
		t.scattered = files == 0
	}
	return t.refuseForgetful(ctx)
}

// locate finds out where the table lies, or would be made. It tells whether it has asked the database.
func (t *Table) locate(ctx context.Context) (asked bool, err error) {
	s := &t.spec
	place, named := Named(s.Dialect, s.Table)
	asked = !named && !s.Dialect.Embedded()
	if asked {
		kind := Aside
		if s.Dialect.Kind == dialect.PostgreSQL {
			kind = Reads // the catalog, of which a transaction may see an old state
		}
		ask := func(ctx context.Context, q Querier) (Place, error) {
			return PlaceOf(ctx, q, s.Dialect, s.Table, cmp.Or(s.Beside, s.Table))
		}
		if place, err = Request(ctx, t, kind, "asking for its schema", ask); err != nil {
			return true, t.notAnswered(err)
		}
		if err := t.agree(ctx, place, ask); err != nil {
			return true, err
		}
	}
	t.place, t.name = place, place.In+s.Dialect.Quote(place.Table)
	return asked, nil
}

// agree returns an error if the application's connections lead to another schema than the store's own.
func (t *Table) agree(
	ctx context.Context, own Place, ask func(context.Context, Querier) (Place, error),
) error {
	application, ok := ctx.Value(applicationKey{}).(*sql.DB)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, applicationTimeout)
	defer cancel()
	theirs, err := ask(ctx, application)
	if err != nil || theirs.In == own.In && theirs.Beside == own.Beside {
		return nil //nolint:nilerr // nothing says otherwise, and the application will hear of it
	}
	return fmt.Errorf("%w: the connections of the application are in the schema %q, and one that was opened "+
		"with their DSN is in %q, so nothing tells where the table %s belongs. Name the schema in the DSN "+
		"(search_path on PostgreSQL, the database on MySQL) in place of SET search_path or USE, or name the "+
		"table with its schema (WithTable)", t.spec.ErrDatabase, theirs.Schema, own.Schema, t.spec.Table)
}

// refuseForgetful returns an error if the table may lose what was committed. Leases would be granted once
// more then, and numbers given out twice.
func (t *Table) refuseForgetful(ctx context.Context) error {
	d := t.spec.Dialect
	if d.Durable == "" {
		return nil
	}
	query, args := d.Forgets(t.name, t.place.Schema, t.place.Table)
	words, err := t.query(ctx, "asking how it is stored", query, args...)
	if err != nil {
		return t.notAnswered(err)
	}
	if len(words) == 0 {
		return nil
	}
	word, _ := textOf(words[0][0])
	return fmt.Errorf("%w: %s: it is stored in a way that may lose rows which were committed (%s). Run this "+
		"as a user who may, while no program uses the table:\n\nALTER TABLE %s %s;", t.spec.ErrTable,
		t.spec.Table, word, t.name, d.Durable)
}

// notAnswered is the error about a request that any database answers.
func (t *Table) notAnswered(err error) error {
	if errors.Is(err, t.spec.ErrDatabase) {
		return err
	}
	return fmt.Errorf("%w: %w", t.spec.ErrStore, err)
}

// findTable finds the table, or makes it.
func (t *Table) findTable(ctx context.Context) error {
	var unreadable, unmakable error
	for range attempts {
		// Most of the time it is there; and to find it, no right to make it is needed.
		if unreadable = t.look(ctx); unreadable == nil {
			if err := t.tryOut(ctx); err != nil || t.identity != "" {
				return err
			}
			return t.adopt(ctx)
		}
		if dialect.Lacking(unreadable) { // perhaps until another process has added them
			unmakable = t.addColumns(ctx)
			continue
		}
		// Another process may have made it, and its note, since it was looked for.
		unmakable = t.create(ctx)
		if errors.Is(unmakable, t.spec.Mark.ErrEmptied) && dialect.Missing(t.look(ctx)) {
			return unmakable
		}
	}
	if dialect.Lacking(unreadable) && unmakable != nil && !dialect.Lacking(unmakable) {
		return t.unusable(ctx, lacksColumns, unmakable)
	}
	if unmakable == nil && dialect.Missing(unreadable) {
		return t.notAnswered(fmt.Errorf("the table %s was made, and reads do not find it: does a proxy send "+
			"them to a replica that does not have it yet? Try again when it has: %w", t.spec.Table, unreadable))
	}
	if unmakable == nil || !dialect.Missing(unreadable) && !dialect.Forbidden(unreadable) {
		return t.unusable(ctx, "it is there, but lacks columns, or may not be read", unreadable)
	}
	return t.unusable(ctx, "it is not there or may not be read, and could not be made",
		errors.Join(unreadable, unmakable))
}

// look reads the mark, if there is one, which finds out whether there is a table.
func (t *Table) look(ctx context.Context) error {
	m := t.spec.Mark
	s := t.Same(dialect.Write(t.Kind(), t.selects(), " WHERE "), 0, m.Row[0])
	read := func(ctx context.Context, q Querier) (rows []Row, err error) {
		if err = Check(ctx, q, t.spec.Dialect, t.place.IsThere, t.name); err == nil {
			_, rows, err = dialect.Query[Row](ctx, q, s.String(), s.Args...)
		}
		return rows, err
	}
	rows, err := Request(ctx, t, Reads, "reading it", read)
	for _, row := range rows {
		t.identity, _ = m.identityIn(row)
	}
	t.place.IsThere = t.place.IsThere || err == nil
	return err
}

// addColumns adds the late columns to a table that an earlier version has made.
func (t *Table) addColumns(ctx context.Context) (err error) {
	var early []string
	for i, column := range t.spec.Columns {
		if !column.Late {
			early = append(early, t.columns[i])
		}
	}
	look := "SELECT " + strings.Join(early, ", ") + " FROM " + t.name + " WHERE 1 = 0"
	if err := t.run(ctx, Reads, "reading it", look); err != nil {
		return err // it is another table
	}
	for _, statement := range t.spec.adding(t.name) {
		if failed := t.run(ctx, Alone, "adding a column", statement); failed != nil && !dialect.Doubled(failed) {
			err = failed
		}
	}
	return err
}

// create makes the table, with its mark, unless it is noted that there was one: then somebody has dropped it.
func (t *Table) create(ctx context.Context) error {
	identity, err := t.noted(ctx)
	if err != nil {
		return err
	}
	if identity != "" {
		return t.emptied(identity, "", t.spec.making(t.name)+";\n")
	}
	return t.do(ctx, Writes, "making it", func(ctx context.Context, q Querier) error {
		making := func(q Querier) error {
			_, err := q.ExecContext(ctx, t.spec.making(t.name))
			if err == nil {
				err = t.insertMark(ctx, q, rand.Text(), "")
			}
			return err
		}
		conn, ok := q.(*sql.Conn)
		if !ok || t.Kind() != dialect.PostgreSQL {
			return making(q) // SQLite is in a transaction, and MySQL makes no table in one
		}
		return dialect.Transact(ctx, conn, nil, func(tx *sql.Tx) error { return making(tx) })
	})
}

// adopt gives a table its mark that was made without one: by hand, or by an earlier version, which only noted
// the identity. An empty table whose identity is noted was emptied.
func (t *Table) adopt(ctx context.Context) error {
	identity, err := t.noted(ctx)
	if err != nil {
		return err
	}
	unless := ""
	if identity != "" && t.spec.Mark.Always {
		// Whoever has made the table may have given it its mark, and noted that, since it was looked for.
		if err := t.look(ctx); err != nil || t.identity != "" {
			return err
		}
		return t.emptied(identity, "", "")
	}
	if identity != "" {
		unless = t.spec.Dialect.From + " WHERE EXISTS (SELECT 1 FROM " + t.name + ")"
	}
	err = t.do(ctx, Writes, "marking it", func(ctx context.Context, q Querier) error {
		return t.insertMark(ctx, q, cmp.Or(identity, rand.Text()), unless)
	})
	if err == nil {
		err = t.look(ctx)
	}
	switch {
	case err != nil:
		return t.unusable(ctx, "it cannot be marked", err)
	case t.identity == "":
		return t.emptied(identity, "", "")
	}
	return nil
}

// insertMark inserts the mark, unless there is one, and under a condition if there is one.
func (t *Table) insertMark(ctx context.Context, q Querier, identity, condition string) error {
	values, err := t.values(t.spec.Mark.rowOf(identity))
	if err != nil {
		return err
	}
	into, unless := t.spec.Dialect.InsertUnlessThere(t.name, t.columns)
	s := dialect.Write(t.Kind(), into)
	if condition == "" {
		s.Add("VALUES (").BindAll(values...).Add(")")
	} else {
		s.Add("SELECT ").BindAll(values...).Add(condition)
	}
	s.Add(unless)
	_, err = q.ExecContext(ctx, s.String(), s.Args...)
	return err
}

// noted returns the identity that is noted elsewhere for the table.
func (t *Table) noted(ctx context.Context) (string, error) {
	return Request(ctx, t, Alone, "reading its note", func(ctx context.Context, q Querier) (string, error) {
		return t.spec.Mark.Noted(ctx, q, t.place)
	})
}

// tryOut finds out whether records can be written, without writing one.
func (t *Table) tryOut(ctx context.Context) error {
	into, unless := t.spec.Dialect.InsertUnlessThere(t.name, t.columns)
	nothing := into + t.selects() + " WHERE 1 = 0" + unless
	kind, trials := Writes, []string{
		nothing, fmt.Sprintf("UPDATE %s SET %s = %[2]s WHERE 1 = 0", t.name, t.columns[1]),
	}
	if t.spec.Dialect.Embedded() {
		// There are no rights to try, and a trial would wait for whoever writes.
		kind, trials = Aside, []string{"EXPLAIN " + nothing}
	}
	for _, trial := range trials {
		if err := t.run(ctx, kind, "trying to write", trial); err != nil {
			return t.unusable(ctx, "it cannot be written to, or has no primary key", err)
		}
	}
	if unless != "" {
		return nil
	}
	keyed, err := Request(ctx, t, Reads, "reading its indexes", t.keyed)
	if err != nil {
		return t.unusable(ctx, "its indexes cannot be read", err)
	}
	if !keyed {
		return t.unusable(ctx, "the column "+t.spec.Columns[0].Name+" is not its primary key", nil)
	}
	return nil
}

// lacksColumns is why a table cannot be used that an earlier version has made.
const lacksColumns = "it lacks columns of this version, which could not be added"

// unusable is the error about the table, with what it should be, unless the database is to blame.
func (t *Table) unusable(ctx context.Context, why string, cause error) error {
	if _, err := t.Now(ctx); err != nil {
		return t.notAnswered(errors.Join(cause, err))
	}
	switch {
	case errors.Is(cause, t.spec.ErrDatabase):
		return cause
	case errs.IsAny(cause, ErrFull, ErrReadOnly),
		!t.spec.Dialect.Embedded() && dialect.Interrupted(cause):
		return t.notAnswered(cause)
	}
	statement := t.spec.making(t.name)
	if why == lacksColumns {
		statement = strings.Join(t.spec.adding(t.name), ";\n")
	}
	fault := errors.New(why + ".")
	if cause != nil {
		fault = fmt.Errorf("%s.\nThe database says: %w", why, cause)
	}
	//nolint:staticcheck // the statement stands on lines of its own, to be copied
	return fmt.Errorf("%w: %s: %w\nRun this as a user who may, and grant the application %s on the table:"+
		"\n\n%s;\n", t.spec.ErrTable, t.spec.Table, fault, t.spec.Rights, statement)
}

func (t *Table) run(ctx context.Context, k Kind, what, statement string) error {
	return t.do(ctx, k, what, func(ctx context.Context, q Querier) error {
		_, err := q.ExecContext(ctx, statement)
		return err
	})
}

// do is a request without an answer.
func (t *Table) do(ctx context.Context, k Kind, what string, do func(context.Context, Querier) error) error {
	_, err := Request(ctx, t, k, what, func(ctx context.Context, q Querier) (struct{}, error) {
		return struct{}{}, do(ctx, q)
	})
	return err
}

// keyed looks for a unique index on the key alone. MySQL does without one where the other
// databases refuse a statement.
func (t *Table) keyed(ctx context.Context, q Querier) (bool, error) {
	name := t.place.Table
	if t.place.Schema != "" {
		name = t.place.Schema + "." + name
	}
	rows, err := t.Kind().Ask(ctx, q, name, "SELECT MIN(COLUMN_NAME) FROM information_schema.STATISTICS "+
		"WHERE TABLE_NAME = ? AND TABLE_SCHEMA"+dialect.InSchema+" AND NON_UNIQUE = 0 GROUP BY INDEX_NAME "+
		"HAVING COUNT(*) = 1")
	return slices.ContainsFunc(rows, func(row []string) bool {
		return strings.EqualFold(row[0], t.spec.Columns[0].Name)
	}), err
}
