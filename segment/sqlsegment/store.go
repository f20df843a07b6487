package sqlsegment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqltable"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// attempts is how often a claim is tried within one request when the counter changes under it.
const attempts = 3

// notePatience is how long the note of an identity may take.
const notePatience = time.Second

// errBusy means that others created, changed or removed the counter between the statements of a claim.
var errBusy = errors.New("others change the counter at the same time")

// Store is a [segment.Store] in a table. Make one with [New]; it must not be copied. Its methods are
// safe for concurrent use.
type Store struct {
	table *sqltable.Table
	noted atomic.Pointer[segment.Identity] // what Identity has returned
	// untold means that MySQL's answer to a claim had no number in it: a trigger was run.
	untold atomic.Bool
}

var (
	_ segment.TermsStore = (*Store)(nil)
	_ segment.Ledger     = (*Store)(nil)
	_ segment.Prober     = (*Store)(nil)
	_ segment.Identifier = (*Store)(nil)
)

// New returns the store in the database of db and makes its table, if it is not there. It takes as
// long as ctx allows, and no longer than 30 s. (On SQLite it has to wait for the end of a transaction
// that writes, so do not call it from within one.)
//
// It returns an error wrapping [ErrOption]; [ErrDatabase], for a database that it cannot work on;
// [ErrTable], with the statement that makes the table; or [segment.ErrStore], if the database does
// not answer. After an error db is open, even if it is dedicated to the store.
func New(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	opened, err := sqltable.Open(ctx, db, table(d), opts)
	if err != nil {
		return nil, err
	}
	return &Store{table: opened}, nil
}

// DDL returns the statement that makes the table of the store that [New] would return, for those
// who make tables by other means. The errors are those of New about options and databases.
func DDL(d Dialect, opts ...Option) (string, error) { return table(d).DDL(opts) }

// Claim reserves n numbers with a single statement. When it returns, the change is committed.
func (s *Store) Claim(ctx context.Context, name string, n int64) (int64, error) {
	return s.ClaimOn(ctx, name, n, segment.AnyTerms())
}

// ClaimOn reserves n numbers on terms, which the statement itself checks.
func (s *Store) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	if err := segment.CheckTerms(name, n, t); err != nil {
		return 0, err
	}
	what := fmt.Sprintf("claiming %d numbers of counter %q", n, name)
	kind := sqltable.Writes
	claim := func(ctx context.Context, q sqltable.Querier) (int64, error) {
		return s.claim(ctx, q, name, n, t, kind)
	}
	// Each statement is a transaction of its own. Two of them in one would lock a row that is not there yet,
	// and processes that create a counter at the same time would wait for each other.
	for range attempts {
		if s.untold.Load() {
			kind = sqltable.Together
		}
		first, err := sqltable.Request(ctx, s.table, kind, what, claim)
		if err != nil || first != 0 {
			return first, err
		}
		// The counter is not there, or forbids the claim.
		c := segment.Counter{Name: name, Next: 1, Remainder: t.Remainder, Modulus: t.Modulus, Kind: t.Kind}
		rows, err := s.table.Find(ctx, name)
		if err != nil {
			return 0, err
		}
		switch len(rows) {
		case 0:
			if t.Above > 0 { // it was there: has the table been emptied?
				err = s.table.CheckMark(ctx)
			}
		case 1:
			var identity string
			if c, identity, err = s.counter(rows[0]); err == nil {
				err = s.checkIdentity(ctx, name, identity)
			}
		default:
			err = s.table.Twins(name, int64(len(rows)))
		}
		if err == nil {
			err = segment.Refusal(c, n, t)
		}
		if err != nil {
			return 0, s.table.Wrap(what, err)
		}
		if len(rows) > 0 {
			continue
		}
		c.Next = t.Start + n
		created, err := s.table.Swap(ctx, nil, s.rowOf(c), nil)
		if err == nil && created {
			return t.Start, nil
		}
		if err == nil {
			err = s.table.CheckMark(ctx)
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, s.table.Wrap(what, errBusy)
}

// checkIdentity returns an error wrapping [segment.ErrWentBack] if the row of a counter is not one of the
// table that the store knows.
func (s *Store) checkIdentity(ctx context.Context, name, identity string) error {
	if identity == "" || identity == s.table.Identity() {
		return nil
	}
	if err := s.table.CheckMark(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: the row of counter %q is that of another table, which has the identity %s, and "+
		"this one has %s: raise the counter above all numbers in use (snowflake segments raise)",
		segment.ErrWentBack, name, identity, s.table.Identity())
}

// claim runs the one statement, which returns the first number as a row, or as the last ID that was inserted.
// Together with another one, which reads the row, it needs no such answer. It returns 0 if the counter is not
// there, the terms are not met, or MySQL has not told the number.
func (s *Store) claim(
	ctx context.Context, q sqltable.Querier, name string, n int64, t segment.Terms, how sqltable.Kind,
) (first int64, err error) {
	kind := s.table.Kind()
	next := kind.Quote("next")
	// MySQL answers with the value of the last call of its function on the connection.
	greatest, end, returning := "GREATEST(", ")", " RETURNING "+next
	switch kind {
	case dialect.MySQL:
		greatest, end, returning = "LAST_INSERT_ID(GREATEST(", "))", ""
	case dialect.SQLite:
		greatest = "MAX("
	}
	u := dialect.Write(kind, "UPDATE ", s.table.Quoted(), " SET ", next, " = ", greatest, next, ", ")
	u.Bind(t.Start).Add(end, " + ").Bind(n)
	u.Add(", ", kind.Quote("updated_at"), " = ").Bind(sqltable.Stamp(time.Now()))
	u.Add(", ", kind.Quote("identity"), " = ").Bind(s.table.Identity())
	if t.Kind != "" {
		u.Add(", ", kind.Quote("kind"), " = ").Bind(t.Kind)
	}
	s.table.Same(u.Add(" WHERE "), columnName, name)
	s.table.Same(u.Add(" AND "), columnRemainder, t.Remainder)
	s.table.Same(u.Add(" AND "), columnModulus, t.Modulus)
	s.table.Same(u.Add(" AND ("), columnIdentity, s.table.Identity())
	s.table.Same(u.Add(" OR "), columnIdentity, "").Add(")")
	if t.Kind != "" {
		s.table.Same(u.Add(" AND ("), columnKind, t.Kind)
		s.table.Same(u.Add(" OR "), columnKind, "").Add(")")
	}
	u.Add(" AND ", next, " <= ").Bind(t.Last-n+1).Add(" AND ", next, " > ").Bind(t.Above)
	s.table.AddSynced(u)
	u.Add(returning)
	if returning == "" {
		result, err := q.ExecContext(ctx, u.String(), u.Args...)
		if err != nil {
			return 0, err
		}
		changed, err := result.RowsAffected()
		if err != nil || changed == 0 {
			return 0, err
		}
		if changed > 1 {
			return 0, s.table.Twins(name, changed)
		}
		if how != sqltable.Together {
			if first, err = result.LastInsertId(); err == nil && first == 0 {
				s.untold.Store(true)
			}
			return first, err
		}
		u = dialect.Write(kind, "SELECT ", next, " FROM ", s.table.Quoted(), " WHERE ")
		s.table.Same(u, columnName, name)
	}
	_, rows, err := dialect.Query[sqltable.Row](ctx, q, u.String(), u.Args...)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	if len(rows) > 1 {
		return 0, s.table.Twins(name, int64(len(rows)))
	}
	after, ok := sqltable.Whole(rows[0][0])
	if !ok {
		return 0, fmt.Errorf("%w: counter %q has a next that is no number: %s", segment.ErrInvalidCounter,
			name, remedy)
	}
	return after - n, nil
}

// Counters returns the counters whose names begin with prefix, sorted by name.
func (s *Store) Counters(ctx context.Context, prefix string) ([]segment.Counter, error) {
	rows, err := s.table.List(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]segment.Counter, 0, len(rows))
	for _, row := range rows {
		c, _, err := s.counter(row)
		if !strings.HasPrefix(c.Name, prefix) {
			continue // another's fault does not matter here
		}
		if err != nil {
			return nil, s.table.Wrap("reading the counters", err)
		}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b segment.Counter) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Change replaces a counter, or makes it, with a single statement.
func (s *Store) Change(ctx context.Context, prev, next segment.Counter) (bool, error) {
	if err := segment.CheckChange(prev, next); err != nil {
		return false, err
	}
	if prev.Next == 0 {
		return s.table.Swap(ctx, nil, s.rowOf(next), nil)
	}
	return s.table.Swap(ctx, s.rowOf(prev), s.rowOf(next), nil)
}

// Remove removes a counter with a single statement.
func (s *Store) Remove(ctx context.Context, prev segment.Counter) (bool, error) {
	return s.table.Remove(ctx, s.rowOf(prev))
}

// rowOf returns the row of a counter that is written now.
func (s *Store) rowOf(c segment.Counter) sqltable.Row {
	return sqltable.Row{c.Name, c.Next, c.Remainder, c.Modulus, time.Now(), c.Kind, s.table.Identity()}
}

// Identity returns the random identity of the table of counters, which lies in a row of that table. The first
// call notes it in the table snowflake_authority of the same schema, and makes that table, if it can. From
// then on a store opens no table of this name that was emptied or made anew. It returns an error wrapping
// snowflakeplugin.ErrAuthority if another identity is noted.
func (s *Store) Identity(ctx context.Context) (segment.Identity, error) {
	if known := s.noted.Load(); known != nil {
		return *known, nil
	}
	is := segment.Identity{ID: s.table.Identity(), Place: "table " + s.table.Name()}
	note := func(ctx context.Context, q sqltable.Querier) (string, error) {
		d := authority.In(string(s.table.Kind()), q).Placed(s.table.Place())
		noted, err := d.Identity(ctx, authority.Counters, s.table.Name(), is.ID)
		return noted.Place, err
	}
	// Whoever asks may have the lock of the database, or its only connection.
	ctx, cancel := context.WithTimeout(ctx, notePatience)
	defer cancel()
	place, err := sqltable.Request(ctx, s.table, sqltable.Alone, "noting its identity", note)
	switch {
	case errors.Is(err, authority.ErrReplaced):
		return is, err
	case err == nil:
		is.Place = place
		s.noted.Store(&is)
	}
	return is, nil // without a note, which a later call writes, the columns with its numbers have theirs
}

func (s *Store) counter(row sqltable.Row) (c segment.Counter, identity string, err error) {
	err = s.table.Scan(row, &c.Name, &c.Next, &c.Remainder, &c.Modulus, &c.UpdatedAt, &c.Kind, &identity)
	if err == nil && (c.Next < 1 || c.Modulus < 0 || c.Remainder < 0 || c.Remainder >= max(c.Modulus, 1)) {
		err = fmt.Errorf("%w: counter %q has next %d, remainder %d and modulus %d", segment.ErrInvalidCounter,
			c.Name, c.Next, c.Remainder, c.Modulus)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, remedy)
	}
	return c, identity, err
}

const remedy = "somebody changed it by hand; put it right, with a next that is greater than every number " +
	"in use"

// Probe returns nil when the database has answered on a connection on which the store waits for nothing
// else. It returns an error at once on SQLite, and on a shared pool of one connection. See
// [segment.Prober].
func (s *Store) Probe(ctx context.Context) error { return s.table.Probe(ctx) }

// DDL returns the statement that makes the table.
func (s *Store) DDL() string { return s.table.DDL() }

// Now returns the clock of the database's server, or on SQLite of this machine, as the database
// reads it: to the microsecond, and on SQLite to the millisecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.table.Now(ctx) }

// Close closes the pool if it is dedicated to the store, and otherwise leaves it alone. Close the
// sources first: afterwards the store's methods return an error wrapping [segment.ErrClosed]. It may
// be called more than once.
func (s *Store) Close() error { return s.table.Close() }
