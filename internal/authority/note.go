package authority

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// The subjects of the rows.
const (
	subjectRows   = "rows"
	subjectLeases = "leases " // followed by the name of the table of leases
)

// setUpTimeout bounds what one function here does, beside its context.
const setUpTimeout = 30 * time.Second

// Note is what a database says of itself.
type Note struct {
	Origin

	By, At string // who wrote it and when; for people
}

func newNote(o Origin) Note {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown host"
	}
	return Note{Origin: o, By: fmt.Sprintf("%s pid %d", host, os.Getpid()), At: stamp(time.Now())}
}

func (n Note) since() string {
	if n.At == "" {
		return "not noted yet"
	}
	return "noted at " + n.At + " by " + n.By
}

// sameAs reports whether the rows may come from an origin. Only numbers that are given by hand have a
// layout here: the records of a lease guard their own.
func (n Note) sameAs(o Origin) bool { return n.ID == o.ID && n.Layout == o.Layout }

// Claim notes that the rows of the database come from want, unless something is noted already. It returns
// an error wrapping errs.ErrAuthority if that is another origin. If the table of leases of want, or a copy
// of it, lies in this database, copyOf is the name of that table.
//
// Nothing is noted in a database in memory, whose rows no other process sees. Nothing can be noted in a
// database that is read-only, and the error wraps ErrReadOnly.
func (d Database) Claim(ctx context.Context, want Origin) (copyOf string, err error) {
	if !d.IsSupported() || d.Pool == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	if inMemory, err := d.inMemory(ctx); err != nil || inMemory {
		return "", err
	}
	rows, err := d.ensure(ctx, subjectRows, func(rows map[string]Note) (Note, error) {
		return newNote(want), d.unclaimed(ctx, rows, want)
	})
	if errors.Is(err, ErrReadOnly) {
		return "", fmt.Errorf("%w: no row gets an ID from %s until this can be noted in the database", err, want)
	}
	if err != nil {
		return "", err
	}
	if noted, ok := rows[subjectRows]; ok && !noted.sameAs(want) {
		return "", refusal(noted, want)
	}
	for subject, row := range rows {
		if table, ok := strings.CutPrefix(subject, subjectLeases); ok && row.ID == want.ID {
			copyOf = table
		}
	}
	if copyOf == "" {
		return d.inSchema(ctx, want)
	}
	return copyOf, nil
}

// unclaimed returns an error if nothing is noted, but processes have leased from the default table of
// this database, perhaps processes of an earlier version, which noted nothing.
func (d Database) unclaimed(ctx context.Context, rows map[string]Note, want Origin) error {
	home := rows[subjectLeases+DefaultLeases]
	if home.ID != "" && home.ID == want.ID {
		return nil
	}
	last, err := d.lastWindow(ctx, DefaultLeases)
	if err != nil {
		return d.failed(ctx, err)
	}
	// A number that is given by hand can be leased at any later time. Another lease is dangerous only as
	// long as a window runs here.
	if last == "" || !want.IsByHand() && last < stamp(time.Now().Add(-lease.MaxSkew)) {
		return nil
	}
	if home.Place == "" {
		home.Place = "the table " + DefaultLeases + " of this database"
	}
	return refusal(home, want)
}

const (
	// reservedOwner begins the owner of a number that lease.Reserve keeps out of the leases.
	reservedOwner = "reserved for "
	// farAhead is longer than any window.
	farAhead = 50 * time.Hour
)

// lastWindow returns the end of the last window that was granted by a table of leases, as text, or an empty
// text if there is none. Numbers that are retired for good or reserved are not counted, nor are those of a
// table that was moved away.
func (d Database) lastWindow(ctx context.Context, leases string) (string, error) {
	var all [][]string
	statement := fmt.Sprintf("SELECT COALESCE(MAX(%s), '') FROM %s WHERE %s < '9999' AND %s NOT LIKE '%s%%' "+
		"AND NOT (%s LIKE '%s%%' AND %s > '%s')",
		d.quote("until"), d.quote(leases), d.quote("until"), d.quote("layout"), MovedLayout,
		d.quote("owner"), reservedOwner, d.quote("until"), stamp(time.Now().Add(farAhead)))
	err := d.transact(ctx, d.Dialect == dialectMySQL, func(q Pool) (err error) {
		all, err = query(ctx, q, statement)
		return err
	})
	if err != nil {
		if IsMissing(err) {
			return "", nil
		}
		return "", fmt.Errorf("the table %s: %w", leases, err)
	}
	return all[0][0], nil
}

// CheckOwn returns an error wrapping errs.ErrAuthority if the rows of the database come from somewhere else
// than its own default table of leases. Call it before that table is made.
func (d Database) CheckOwn(ctx context.Context) error {
	if !d.IsSupported() || d.Pool == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	if inMemory, err := d.inMemory(ctx); err != nil || inMemory {
		return err
	}
	rows, err := d.rows(ctx)
	if err != nil {
		if IsMissing(err) {
			return nil
		}
		return d.failed(ctx, err)
	}
	noted, ok := rows[subjectRows]
	home := rows[subjectLeases+DefaultLeases]
	if !ok || home.ID == noted.ID {
		return nil
	}
	home.Place = "the table " + DefaultLeases + " of this database"
	return refusal(noted, home.Origin)
}

// CheckCopy returns an error wrapping errs.ErrAuthority if a table of leases in this database, which has the
// identity of want, does not have a record that was written there a moment ago: then it is a copy.
func (d Database) CheckCopy(ctx context.Context, leases string, want Origin, written lease.Record) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	var owners [][]string
	err := d.transact(ctx, d.Dialect == dialectMySQL, func(q Pool) (err error) {
		owners, err = query(ctx, q, fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s", d.quote("owner"),
			d.quote(leases), d.quote("node"), d.placeholders(1)[0]), written.Node)
		return err
	})
	switch {
	case err != nil && IsMissing(err):
		return nil // nobody can lease from a table that is not there
	case err != nil:
		return d.failed(ctx, err)
	case len(owners) == 1 && owners[0][0] == written.Owner:
		return nil
	}
	return copied(want)
}

// Identity returns the identity of a table of leases, and makes it if there is none yet.
func (d Database) Identity(ctx context.Context, leases string) (lease.Identity, error) {
	d, bare := d.Beside(leases)
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	rows, err := d.ensure(ctx, subjectLeases+bare, func(map[string]Note) (Note, error) {
		return newNote(Origin{ID: rand.Text(), Place: d.place(ctx, leases)}), nil
	})
	home := rows[subjectLeases+bare]
	return lease.Identity{ID: home.ID, Place: home.Place}, err
}

// ErrReadOnly means that nothing can be written to the database, so that a row is missing. Every error that
// wraps it wraps errs.ErrAuthority, too.
var ErrReadOnly = fmt.Errorf("%w: the database is read-only", errs.ErrAuthority)

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
		missing := err != nil && IsMissing(err)
		if err != nil && !missing {
			return nil, d.failed(ctx, err)
		}
		if _, ok := rows[subject]; ok {
			return rows, nil
		}
		n, err := draft(rows)
		if err != nil {
			return nil, err
		}
		unwritable = d.insert(ctx, subject, n, missing)
		switch {
		case unwritable == nil: // usually the row is there now, whoever made it
			unwritable = errors.New("a row that was written is not there")
		case isReadOnly(unwritable):
			return nil, fmt.Errorf("%w: the table %s: %w", ErrReadOnly, d.table, unwritable)
		}
	}
	return nil, d.failed(ctx, unwritable)
}

// place says in words where a table of leases is. It is empty if the database does not tell.
func (d Database) place(ctx context.Context, leases string) string {
	statement := map[string]string{
		dialectPostgres: "SELECT current_database() || COALESCE(' at ' || host(inet_server_addr()) || ':' || " +
			"inet_server_port(), '')",
		dialectMySQL:  "SELECT CONCAT(COALESCE(DATABASE(), ''), ' at ', @@hostname, ':', @@port)",
		dialectSQLite: fileOf,
	}[d.Dialect]
	answer, err := query(ctx, d.Pool, statement)
	if err != nil || len(answer) != 1 || answer[0][0] == "" {
		return "table " + leases
	}
	return "table " + leases + " of the database " + answer[0][0]
}

// fileOf asks SQLite for the file of the database. It is empty for a database in memory.
const fileOf = "SELECT COALESCE(file, '') FROM pragma_database_list WHERE name = 'main'"

// inMemory reports whether the database is one of SQLite in memory.
func (d Database) inMemory(ctx context.Context) (in bool, err error) {
	if d.Dialect != dialectSQLite {
		return false, nil
	}
	err = persist(ctx, func() (err error) {
		in, err = d.hasNoFile(ctx)
		return err
	})
	if err != nil {
		return false, d.failed(ctx, err)
	}
	return in, nil
}

func (d Database) hasNoFile(ctx context.Context) (bool, error) {
	pool, ok := d.Pool.(*sql.DB)
	if !ok {
		file, _, err := fileAndTables(ctx, d.Pool)
		return file == "", err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool, or is closed already
	file, tables, err := fileAndTables(ctx, conn)
	if err == nil && file == "" && tables == "0" && pool.Stats().OpenConnections > 1 {
		// A second connection to a private database in memory is another, empty database. It must not
		// stay in the pool for the application to find.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return file == "", err
}

func fileAndTables(ctx context.Context, q Pool) (file, tables string, err error) {
	answer, err := query(ctx, q, "SELECT ("+fileOf+"), count(*) FROM sqlite_master")
	if err != nil || len(answer) != 1 {
		return "", "", err
	}
	return answer[0][0], answer[0][1], nil
}
