package authority

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqltable"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Subject is what a row is about, before the name of a table.
type Subject string

// The subjects of tables that have an identity.
const (
	Leases   Subject = "leases "
	Counters Subject = "counters "
)

// subjectRows is the whole subject of the row about the rows of the database.
const subjectRows = "rows"

// maxText is how many bytes fit a column.
const maxText = 255

// setUpTimeout bounds what one function here does, beside its context.
const setUpTimeout = 30 * time.Second

// Pool is a pool, a connection or a transaction of database/sql.
type Pool = sqltable.Querier

// Database is a database that may have the table.
type Database struct {
	dialect.Dialect
	Pool Pool

	table string // as it is named, with its schema if it has one
	// place is where the default table of leases lies, and the table beside it, once that is found out.
	place   sqltable.Place
	located bool
	// foreign means that the schema is one that rows lie in, and not that of the connections.
	foreign bool
	// beneath means that a transaction of the caller may keep the lock of the database.
	beneath bool
}

// In returns the database with the table in the default schema of its connections.
func In(name string, pool Pool) Database {
	d, _ := dialect.Of(name)
	return Database{Dialect: d, Pool: pool, table: Table}
}

// Beside returns the database with the table in the schema of a table of leases, and the name of that
// table without the schema.
func (d Database) Beside(leases string) (Database, string) {
	place, named := sqltable.Named(d.Dialect, leases)
	if named {
		d = d.Placed(place)
		d.table = place.Schema + "." + Table
	}
	return d, place.Table
}

// Placed returns the database with the table where a store has found that it is.
func (d Database) Placed(place sqltable.Place) Database {
	d.place, d.located = place, true
	return d
}

// OfSchema returns the database with the table in a schema in which rows lie, wherever the connections would
// make it.
func (d Database) OfSchema(schema string) Database {
	prefix := d.Quote(schema) + "."
	d = d.Placed(sqltable.Place{
		Schema: schema, Table: DefaultLeases, BesideSchema: schema, In: prefix, Beside: prefix,
	})
	d.table, d.foreign = schema+"."+Table, true
	return d
}

// IsLocated reports whether it is known where the table lies.
func (d Database) IsLocated() bool { return d.located }

// Schemas returns the schemas whose rows the table tells of: its own and, if the leases lie here, theirs.
func (d Database) Schemas(hasLeases bool) []string {
	schemas := []string{d.place.BesideSchema}
	if hasLeases {
		schemas = append(schemas, d.place.Schema)
	}
	return schemas
}

// scope says in words of which rows the table tells.
func (d Database) scope() string {
	if d.foreign {
		return "the schema " + d.place.Schema
	}
	return "this database"
}

// Locate returns the database with the table where its connections find it now, or would make it. From then
// on every statement names the schema.
func (d Database) Locate(ctx context.Context) (Database, error) {
	if d.located || !d.IsSupported() || d.Pool == nil {
		return d, nil
	}
	place, err := sqltable.PlaceOf(ctx, d.Pool, d.Dialect, DefaultLeases, Table)
	if err != nil {
		return d, d.failed(ctx, err)
	}
	return d.Placed(place), nil
}

// quoted is the name of the table in SQL.
func (d Database) quoted() string { return d.place.Beside + d.Quote(Table) }

// leases is the name of a table of leases in SQL, which the table may have with its schema or without.
func (d Database) leases(table string) string {
	if place, named := sqltable.Named(d.Dialect, table); named {
		return place.In + d.Quote(place.Table)
	}
	return d.place.In + d.Quote(table)
}

// IsSupported reports whether authorities are noted on databases of this dialect.
func (d Database) IsSupported() bool { return d.Kind != "" }

// DDL returns the statement that makes the table.
func (d Database) DDL() string {
	types := []string{d.Text, d.Text, d.Text, d.Text, d.Text, d.Time}
	return d.CreateTable(d.quoted(), d.QuoteEach(columns()), types)
}

// Claimed is what a database says of an origin that is noted there.
type Claimed struct {
	// Leases is the name of the table of leases of the origin, or of a copy of it, if it lies in this database.
	Leases string
	// Place is where the leases were when it was noted.
	Place string
}

// Claim notes that the rows of the database come from want, unless something is noted already. It returns
// an error wrapping errs.ErrAuthority if that is another origin.
//
// Nothing is noted in a database in memory, whose rows no other process sees. Nothing can be noted in a
// database that is read-only, and the error wraps ErrReadOnly.
func (d Database) Claim(ctx context.Context, want Origin) (is Claimed, err error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	d, notes, err := d.enter(ctx)
	if !notes {
		return is, err
	}
	rows, err := d.ensure(ctx, subjectRows, func(rows map[string]Note) (Note, error) {
		return newNote(want), d.unclaimed(ctx, rows, want)
	})
	if errors.Is(err, ErrReadOnly) {
		return is, fmt.Errorf("%w: no row gets an ID from %s until this can be noted in the database", err, want)
	}
	if err != nil {
		return is, err
	}
	noted, ok := rows[subjectRows]
	if ok && !noted.sameAs(want) {
		return is, refusal(d.scope(), noted, want)
	}
	is.Place = noted.Place
	for subject, row := range rows {
		if table, ok := strings.CutPrefix(subject, string(Leases)); ok && row.ID == want.ID {
			is.Leases = table
		}
	}
	if is.Leases == "" {
		is.Leases, err = d.inSchema(ctx, want)
	}
	return is, err
}

// enter returns the database with the table where its connections find it, and whether anything is noted in
// it: nothing is in one of another dialect or in memory.
func (d Database) enter(ctx context.Context) (located Database, notes bool, err error) {
	if !d.IsSupported() || d.Pool == nil {
		return d, false, nil
	}
	if inMemory, err := d.inMemory(ctx); err != nil || inMemory {
		return d, false, err
	}
	located, err = d.Locate(ctx)
	return located, err == nil, err
}

// unclaimed returns an error if nothing is noted, but processes have leased from the default table of
// this database, perhaps processes of an earlier version, which noted nothing.
func (d Database) unclaimed(ctx context.Context, rows map[string]Note, want Origin) error {
	home := rows[string(Leases)+DefaultLeases]
	if home.ID != "" && home.ID == want.ID {
		return nil
	}
	last, err := d.lastWindow(ctx, DefaultLeases)
	if err != nil {
		return d.failed(ctx, err)
	}
	// A number that is given by hand can be leased at any later time. Another lease is dangerous only as
	// long as a window runs here.
	if last == "" || !want.IsByHand() && last < sqltable.Stamp(time.Now().Add(-lease.MaxSkew)) {
		return nil
	}
	if home.Place == "" {
		home.Place = "the table " + DefaultLeases + " of " + d.scope()
	}
	return refusal(d.scope(), home, want)
}

// CheckOwn returns an error wrapping errs.ErrAuthority if the rows of the database come from somewhere else
// than its own default table of leases. Call it before that table is made.
func (d Database) CheckOwn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	d, notes, err := d.enter(ctx)
	if !notes {
		return err
	}
	rows, err := d.rows(ctx)
	if err != nil {
		return d.failed(ctx, err)
	}
	noted, ok := rows[subjectRows]
	home := rows[string(Leases)+DefaultLeases]
	if !ok || home.ID == noted.ID {
		return nil
	}
	home.Place = "the table " + DefaultLeases + " of this database"
	return refusal(d.scope(), noted, home.Origin)
}

// CheckCopy returns an error wrapping errs.ErrAuthority if a table of leases in this database, which has the
// identity of want, does not have a record as it was written there last, or later: then it is a copy. The
// owner alone does not tell, because a copy that was made under a running process has its name, too.
//
// A replica has the record later than its primary. It is known by its answer to a note, and the error wraps
// ErrReadOnly. That is asked first: a replica that is promoted between both answers is compared as what it
// is.
func (d Database) CheckCopy(ctx context.Context, leases string, want Origin, written lease.Record) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	d, err := d.Locate(ctx)
	if err != nil {
		return err
	}
	if err := d.probeWrite(ctx, want); dialect.ReadOnly(err) {
		return fmt.Errorf("%w, so it may be a replica that lags behind %s: %w", ErrReadOnly, want, err)
	}
	var found [][]string
	err = d.transact(ctx, d.Autocommits, func(q Pool) (err error) {
		found, err = dialect.Texts(ctx, q, fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s",
			d.QuoteAll([]string{"owner", "version"}), d.leases(leases), d.Quoted("node"), d.Bind(1)), written.Node)
		return err
	})
	switch {
	case err != nil && dialect.Missing(err):
		return nil // nobody can lease from a table that is not there
	case err != nil:
		return d.failed(ctx, err)
	case len(found) == 1 && found[0][0] == written.Owner:
		// The record may have been extended since it was read.
		if version, err := strconv.ParseInt(found[0][1], 10, 64); err == nil && version >= written.Version {
			return nil
		}
	}
	return copied(want)
}

// probeWrite writes the note of the rows, which is there already, once more. Only the answer that nothing can
// be written tells something: a login may lack the right, and somebody else may have the lock of SQLite. If
// that is the caller, who is about to write, it is not asked for.
func (d Database) probeWrite(ctx context.Context, want Origin) error {
	if d.beneath {
		return nil
	}
	if d.Embedded() {
		limited, cancel := context.WithTimeout(ctx, lockPatience)
		defer cancel()
		ctx = limited
	}
	return d.insert(ctx, subjectRows, newNote(want), false)
}

// ErrReplaced means that a table of counters has another identity than the one that is noted for it.
var ErrReplaced = errs.Kind("snowflakeplugin: another table", errs.ErrAuthority)

// Identity notes the identity that a table has, unless it is noted already, and returns it with the place of
// the table. It returns an error wrapping errs.ErrAuthority if another identity is noted.
func (d Database) Identity(ctx context.Context, kind Subject, table, id string) (lease.Identity, error) {
	d, bare := d.Beside(table)
	subject := string(kind) + bare
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	place := d.whereabouts(ctx, table)
	rows, err := d.ensure(ctx, subject, func(map[string]Note) (Note, error) {
		return newNote(Origin{ID: id, Place: place}), nil
	})
	home := rows[subject]
	switch {
	case err != nil || home.ID == id:
	case kind == Counters:
		err = fmt.Errorf("%w: the table %s has the identity %s, and the table %s beside it notes that it has "+
			"%s: one of the two was replaced", ErrReplaced, table, id, d.table, home.ID)
	default:
		mark := fmt.Sprintf("UPDATE %s SET %s = '%s' WHERE %s = %d;", d.leases(bare), d.Quote("owner"),
			leaseops.Mark(home.ID).Owner, d.Quote("node"), leaseops.MarkNode)
		note := fmt.Sprintf("UPDATE %s SET %s = '%s' WHERE %s = '%s';", d.quoted(), d.Quote("authority"), id,
			d.Quote("subject"), subject)
		err = leaseops.CheckNote("the rows of the table "+table, "the table "+d.table+" beside it", home.ID, id,
			leaseops.Remedies{Mark: mark, Note: note})
	}
	// The place that is noted is that of the original, if this is a copy.
	return lease.Identity{ID: home.ID, Place: place}, err
}

// Noted returns the identity that is noted for a table, which is named without its schema. It is empty if
// there is no note, or none that the login may read.
func (d Database) Noted(ctx context.Context, kind Subject, table string) (string, error) {
	rows, err := d.readable(ctx)
	return rows[string(kind)+table].ID, err
}

// ErrReadOnly means that nothing can be written to the database, so that a row is missing. Every error that
// wraps it wraps errs.ErrAuthority, too.
var ErrReadOnly = fmt.Errorf("%w: the database is read-only", errs.ErrAuthority)

// errGone is why a table cannot be used whose rows somebody hides or removes.
var errGone = errors.New("a row that was written is not there")

// ensure returns the rows when there is one of the subject, which it makes if it is missing.
func (d Database) ensure(
	ctx context.Context, subject string, draft func(map[string]Note) (Note, error),
) (map[string]Note, error) {
	// A failure may be the other's success: two processes that make the table at once can meet an error
	// about the other's entry in the catalog.
	const attempts = 4
	var unwritable error
	for range attempts {
		rows, err := d.rows(ctx)
		if err != nil {
			return nil, d.failed(ctx, err)
		}
		if _, ok := rows[subject]; ok {
			return rows, nil
		}
		n, err := draft(rows)
		if err != nil {
			return nil, err
		}
		unwritable = d.insert(ctx, subject, n, rows == nil)
		switch {
		case unwritable == nil: // usually the row is there now, whoever made it
			d.place.IsBeside = true
			unwritable = errGone
		case dialect.ReadOnly(unwritable):
			return nil, fmt.Errorf("%w: the table %s: %w", ErrReadOnly, d.table, unwritable)
		case ctx.Err() != nil: // another attempt would only say so
			return nil, d.failed(ctx, unwritable)
		}
	}
	return nil, d.failed(ctx, unwritable)
}

// lastWindow returns the end of the last window that was granted by a table of leases, as text, or an empty
// text if there is none. Numbers that are retired for good or reserved are not counted, nor are those of a
// table that was moved away.
func (d Database) lastWindow(ctx context.Context, leases string) (string, error) {
	var all [][]string
	statement := "SELECT " + d.QuoteAll([]string{"owner", "layout", "until"}) + " FROM " + d.leases(leases)
	seen := d.place.IsThere && leases == d.place.Table
	err := d.transact(ctx, d.Autocommits, func(q Pool) (err error) {
		if err = sqltable.Check(ctx, q, d.Dialect, seen, d.leases(leases)); err == nil {
			_, all, err = dialect.Query[[]string](ctx, q, statement) // a NULL is refused: it ends no window
		}
		return err
	})
	if err != nil {
		// MySQL calls a table forbidden that is not there, unless the login has rights on all of its database.
		if dialect.Missing(err) || d.foreign && dialect.Forbidden(err) {
			return "", nil
		}
		return "", fmt.Errorf("the table %s: %w", leases, err)
	}
	last := ""
	for _, row := range all {
		r := lease.Record{Owner: row[0], Layout: row[1]}
		// An end that nobody can read keeps no number out of use.
		r.Until, _ = time.Parse(time.RFC3339Nano, row[2])
		if !leaseops.IsKept(r, time.Now()) && !leaseops.IsMoved(r) {
			last = max(last, row[2])
		}
	}
	return last, nil
}

// whereabouts says in words where a table of leases is, as far as the database tells.
func (d Database) whereabouts(ctx context.Context, leases string) string {
	if d.place.Where == "" {
		statement, args := d.Here("main")
		answer, err := dialect.Texts(ctx, d.Pool, statement, args...)
		if err != nil || len(answer) != 1 || answer[0][0] == "" {
			return "table " + leases
		}
		d.place.Where = answer[0][0]
	}
	return "table " + leases + " of the database " + d.place.Where
}

// inMemory reports whether the database is one of SQLite in memory.
func (d Database) inMemory(ctx context.Context) (is bool, err error) {
	if !d.Embedded() {
		return false, nil
	}
	err = sqltable.Persist(ctx, func() (err error) {
		is, err = d.hasNoFile(ctx)
		return err
	})
	if err != nil {
		return false, d.failed(ctx, err)
	}
	return is, nil
}

func (d Database) hasNoFile(ctx context.Context) (bool, error) {
	pool, ok := d.Pool.(*sql.DB)
	if !ok {
		file, _, err := d.fileAndTables(ctx, d.Pool)
		return file == "", err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool, or is closed already
	file, tables, err := d.fileAndTables(ctx, conn)
	if err == nil && !d.foreign && file == "" && tables == "0" && pool.Stats().OpenConnections > 1 {
		// A second connection to a private database in memory is another, empty database. It must not
		// stay in the pool for the application to find.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return file == "", err
}

func (d Database) fileAndTables(ctx context.Context, q Pool) (file, tables string, err error) {
	statement, args := d.Here(cmp.Or(d.place.Schema, "main"))
	statement = "SELECT *, (SELECT count(*) FROM sqlite_master) FROM (" + statement + ")"
	answer, err := dialect.Texts(ctx, q, statement, args...)
	if err != nil {
		return "", "", err
	}
	if len(answer) != 1 {
		return "", "", fmt.Errorf("no database is attached as %s to this connection: attach it to every "+
			"connection of the pool", d.place.Schema)
	}
	return answer[0][0], answer[0][1], nil
}

// inSchema returns the table of leases of an origin if it was named with a schema, and that table or a copy
// of it lies in such a schema of this database.
func (d Database) inSchema(ctx context.Context, want Origin) (table string, err error) {
	if !want.IsIdentified() || !strings.Contains(want.Table, ".") {
		return "", nil
	}
	beside, bare := d.Beside(want.Table)
	rows, err := beside.readable(ctx) // what this login cannot read, no program leases from under this login
	if err != nil || rows[string(Leases)+bare].ID != want.ID {
		return "", err
	}
	return want.Table, nil
}

// Elsewhere lists the tables of leases with an identity that lie in other schemas of the server than those
// of the database's connections, as far as the login may read them. On MySQL a schema is a database.
func (d Database) Elsewhere(ctx context.Context, id string) (tables []string, err error) {
	here := map[dialect.Kind]string{
		dialect.PostgreSQL: "ANY (current_schemas(false))", dialect.MySQL: "DATABASE()",
	}[d.Kind]
	if here == "" {
		return nil, nil
	}
	schemas, err := dialect.Texts(ctx, d.Pool, fmt.Sprintf("SELECT table_schema FROM "+
		"information_schema.tables WHERE table_name = '%s' AND NOT (table_schema = %s)", Table, here))
	if err != nil {
		return nil, d.failed(ctx, err)
	}
	for _, schema := range schemas {
		if strings.Contains(schema[0], ".") {
			continue // no name of a table can say this
		}
		beside, _ := d.Beside(schema[0] + "." + DefaultLeases)
		rows, err := beside.readable(ctx)
		if err != nil {
			return nil, d.failed(ctx, err)
		}
		for subject, row := range rows {
			if table, ok := strings.CutPrefix(subject, string(Leases)); ok && row.ID == id {
				tables = append(tables, schema[0]+"."+table)
			}
		}
	}
	slices.Sort(tables)
	return tables, nil
}

// The errors of a database that notes nothing are of documented kinds and have texts of their own, because
// nobody has another authority there, and perhaps nobody leases anything.
var (
	errUnnoted = errs.Kind("snowflakeplugin: the database cannot note where its IDs come from",
		errs.ErrAuthority)
	errUnread = errs.Kind("snowflakeplugin: the database does not say where its IDs come from",
		lease.ErrStore)
)

// unusable is the error when the table can neither be read nor made.
func (d Database) unusable(cause error) error {
	other := ""
	if d.foreign {
		other = "\n\nIf no other leases ever fill tables of " + d.scope() + ", name it with WithOwnSchemas in " +
			"its place."
	}
	return fmt.Errorf("%w: the table %s could not be read, made or written to: %w\nRun this as a user who "+
		"may, and grant the application SELECT and INSERT on the table:\n\n%s;%s",
		errUnnoted, d.table, cause, d.DDL(), other)
}

// noteFirst is the remedy if the caller itself keeps a note out.
const noteFirst = "create a row there outside of a transaction first, which notes it for good, and then " +
	"repeat this transaction"

// keptOut is the error when SQLite lets no note in. Its file has one writer, and its lock may be that of the
// caller, who waits for the note.
func (d Database) keptOut(ctx context.Context, cause error) error {
	// No lock keeps this answer out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), setUpTimeout)
	defer cancel()
	file := "a file of SQLite"
	statement, args := d.Here(cmp.Or(d.place.Schema, "main"))
	answer, err := dialect.Texts(ctx, d.Pool, statement, args...)
	if err == nil && len(answer) == 1 {
		file = answer[0][0]
	}
	return fmt.Errorf("%w: the lock of %s keeps the table %s from being written: %w. The note takes a "+
		"connection of its own, so a transaction that has read or written there waits for itself: %s. If the "+
		"lock is that of another program, repeating is enough", errUnnoted, file, d.table, cause, noteFirst)
}

// ErrDatabase is sqllease.ErrDatabase, whose package imports this one.
var ErrDatabase = errs.Lasting("sqllease: database cannot be used")

// failed tells a database that does not answer from one whose table cannot be used.
func (d Database) failed(ctx context.Context, cause error) error {
	if dialect.Unselected(cause) {
		return fmt.Errorf("%w: its connections have selected no database, so there is no place for the table "+
			"%s: %w. Open the handle with the name of a database in its DSN; CREATE DATABASE goes through another "+
			"handle, which does not use the plugin", errUnnoted, d.table, cause)
	}
	if d.beneath && isBusy(cause) {
		return d.keptOut(ctx, cause)
	}
	cause = sqltable.Translate(cause)
	switch {
	case errors.Is(cause, sqltable.ErrPooler):
		return fmt.Errorf("%w: reading %s: %w", ErrDatabase, d.table, cause)
	case errors.Is(cause, sqltable.ErrFull):
		return fmt.Errorf("%w: writing %s: %w", lease.ErrStore, d.table, cause)
	}
	unanswered := isBusy(cause) || !d.Embedded() && dialect.Interrupted(cause) && !errors.Is(cause, errGone)
	if _, err := dialect.Texts(ctx, d.Pool, "SELECT 1"); err != nil || unanswered {
		if ended := ctx.Err(); ended != nil && !errors.Is(cause, ended) {
			cause = fmt.Errorf("%w: %w", ended, cause)
		}
		return fmt.Errorf("%w: reading or writing its table %s: %w. Try again when the database answers; a mock "+
			"of database/sql has no such table and needs WithSource, under which none is read",
			errUnread, d.table, cause)
	}
	return d.unusable(cause)
}

func columns() []string {
	return []string{"subject", "authority", "layout", "place", "noted_by", "noted_at"}
}

// lockPatience bounds how long a note waits for the lock of SQLite that the caller may have.
const lockPatience = 250 * time.Millisecond

// Beneath calls claim for the database while the caller has a connection of its pool, perhaps in a
// transaction. A claim takes a connection of its own, and the caller waits for it. If it waited for what the
// caller has, it would wait for nothing, so that is an error at once.
func (d Database) Beneath(
	ctx context.Context, pool *sql.DB, claim func(context.Context, Database) error,
) error {
	if pool.Stats().MaxOpenConnections == 1 {
		return fmt.Errorf("%w: the statement has the only connection of its pool, and the table %s is read and "+
			"written by another one: %s", errUnnoted, d.table, noteFirst)
	}
	if !d.Embedded() {
		return claim(ctx, d)
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return d.failed(ctx, err)
	}
	// It does not go back to the pool, where others expect it to wait for locks.
	defer func() { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }()
	if _, err := conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return d.failed(ctx, err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	d.Pool, d.beneath = conn, true
	return claim(ctx, d)
}

// rows reads the rows of some subjects, or the whole table. It returns nil if the table is not there.
func (d Database) rows(ctx context.Context, subjects ...any) (map[string]Note, error) {
	var all [][]string
	s := dialect.Write(d.Kind, "SELECT ", d.QuoteAll(columns()), " FROM ", d.quoted())
	if len(subjects) > 0 {
		s.Add(" WHERE ", d.Quote("subject"), " IN (").BindAll(subjects...).Add(")")
	}
	err := d.transact(ctx, d.Autocommits, func(q Pool) (err error) {
		if err = sqltable.Check(ctx, q, d.Dialect, d.place.IsBeside, d.quoted()); err == nil {
			_, all, err = dialect.Query[[]string](ctx, q, s.String(), s.Args...) // a NULL is refused, too
		}
		return err
	})
	if err != nil {
		if dialect.Missing(err) {
			return nil, nil
		}
		return nil, err
	}
	found := make(map[string]Note, len(all))
	for _, row := range all {
		found[row[0]] = Note{
			Origin: Origin{ID: row[1], Layout: row[2], Place: row[3]}, By: row[4], At: row[5],
		}
	}
	return found, nil
}

// readable reads the whole table, and no rows where it is not there or the login may not read it.
func (d Database) readable(ctx context.Context) (map[string]Note, error) {
	rows, err := d.rows(ctx)
	if err != nil && dialect.Forbidden(err) {
		return nil, nil
	}
	return rows, err
}

// insert writes the row of a subject unless there is one. It makes the table if that is missing.
func (d Database) insert(ctx context.Context, subject string, n Note, tableIsMissing bool) error {
	into, unless := d.InsertUnlessThere(d.quoted(), d.QuoteEach(columns()))
	s := dialect.Write(d.Kind, into, "VALUES (").
		BindAll(subject, n.ID, n.Layout, fit(n.Place), fit(n.By), n.At).Add(")", unless)
	return d.transact(ctx, true, func(q Pool) error {
		if tableIsMissing {
			if _, err := q.ExecContext(ctx, d.DDL()); err != nil {
				return err
			}
		}
		_, err := q.ExecContext(ctx, s.String(), s.Args...)
		return err
	})
}

// transact does something in a transaction of its own, where that is needed: a session of MySQL may have
// been set to commit nothing by itself, and what is written in a transaction that somebody has left open
// might be rolled back with it. A transaction, which cannot begin another, does it as it is. While somebody
// else writes, it is tried again.
func (d Database) transact(ctx context.Context, needed bool, do func(Pool) error) error {
	return sqltable.Persist(ctx, func() (err error) {
		if !needed {
			return do(d.Pool)
		}
		conn, isConn := d.Pool.(*sql.Conn)
		if pool, isPool := d.Pool.(*sql.DB); isPool && d.Autocommits {
			if conn, err = pool.Conn(ctx); err != nil {
				return err
			}
			defer func() { _ = conn.Close() }() // it goes back to the pool, or is closed already
			isConn = true
		}
		if isConn && d.Autocommits { // whatever the session is set to
			return sqltable.Transact(ctx, conn, func(_ context.Context, q Pool) error { return do(q) })
		}
		beginner, ok := d.Pool.(dialect.Beginner)
		if !ok {
			return do(d.Pool)
		}
		var opts *sql.TxOptions
		if d.Autocommits { // the session may read what is never committed
			opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead}
		}
		return dialect.Transact(ctx, beginner, opts, func(tx *sql.Tx) error { return do(tx) })
	})
}

// fit shortens a text that is for people to what the columns hold.
func fit(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "?")
	for len(text) > maxText {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// isBusy reports whether an error says that somebody else was writing, so that a retry helps.
func isBusy(err error) bool { return dialect.Busy(err) || errors.Is(err, sqltable.ErrInTransaction) }
