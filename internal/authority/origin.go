package authority

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqlconn"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// The authorities that have no identity. An identity never has a blank, so it equals none of them.
const (
	idByHand   = "by hand"
	idExternal = "external, not identified"
)

// Origin says where node numbers come from.
type Origin struct {
	ID     string // the identity of the leases, or one of the words above
	Place  string // where the leases are, in words and without secrets
	Layout string // the fingerprint of the layout if the numbers are given by hand, otherwise empty
	Table  string // the name of the leases where they are a table, as the program names it; never noted
}

// ByHand is the origin of numbers that a person gives to each process. Nothing else guards their layout,
// so the fingerprint of the layout is a part of the origin.
func ByHand(layout string) Origin { return Origin{ID: idByHand, Layout: layout} }

// Leased is the origin of numbers that are leased from a store. The error is that of the store.
func Leased(ctx context.Context, store lease.Store) (Origin, error) {
	identifier, ok := store.(lease.Identifier)
	if !ok {
		return Origin{ID: idExternal, Place: fmt.Sprintf("a store of type %T", store)}, nil
	}
	identity, err := identifier.Identity(ctx)
	if err != nil {
		return Origin{}, err
	}
	o := Origin{ID: identity.ID, Place: identity.Place}
	if named, ok := store.(interface{ Table() string }); ok {
		o.Table = named.Table()
	}
	return o, nil
}

// IsByHand reports whether the numbers are given by hand.
func (o Origin) IsByHand() bool { return o.ID == idByHand }

// IsIdentified reports whether the origin is leases that have an identity.
func (o Origin) IsIdentified() bool { return o.ID != "" && !strings.Contains(o.ID, " ") }

// String describes the origin in a sentence.
func (o Origin) String() string {
	if o.IsByHand() {
		return "numbers given by hand (layout " + o.Layout + ")"
	}
	id := o.ID
	if id == "" {
		id = "with no identity yet"
	}
	if o.Place == "" {
		return "the leases " + id
	}
	return fmt.Sprintf("the leases %s (%s)", id, o.Place)
}

// refusal is the error when a database has another authority.
func refusal(noted Note, want Origin) error {
	var remedy string
	switch has := noted.Origin; {
	case has.IsByHand() && want.IsByHand():
		return fmt.Errorf("%w: the IDs of this database have the layout %s (%s), and this plugin has the layout "+
			"%s. IDs of two layouts can be equal: use the first layout with WithLayout, or move the database; %s",
			errs.ErrAuthority, has.Layout, noted.since(), want.Layout, moving)
	case want.IsByHand():
		remedy = "A number that is given by hand may be leased by another process at the same time: use " +
			"WithLeasedNode in place of WithNode, from the same leases"
	case has.IsByHand():
		remedy = "A number that is leased may be in use by hand in another process: give every process its " +
			"number with WithNode"
	case has.ID == "":
		remedy = "Processes hold numbers there, perhaps of an earlier version: lease from there (call db.Use " +
			"of this database first, or pass its store to WithLease), or stop those processes"
	case has.Place == want.Place && has.Place != "":
		return fmt.Errorf("%w: the IDs of this database come from %s (%s), and the store of this plugin, which "+
			"is called the same, has the identity %s: it is another one, or it was emptied and has forgotten "+
			"who holds which number. Use the first store, or restore it, or stop all processes until their "+
			"windows have ended and move the database; %s", errs.ErrAuthority, has, noted.since(), want.ID, moving)
	default:
		remedy = "Two stores lease the same numbers: lease from the first (in every process, call db.Use of " +
			"the database with those leases first, or pass its store to WithLease)"
	}
	return fmt.Errorf("%w: the IDs of this database come from %s (%s), and this plugin has %s. %s, or move "+
		"the database; %s", errs.ErrAuthority, noted.Origin, noted.since(), want, remedy, moving)
}

const moving = "see \"snowflake help nodes authority\""

// copied is the error for a copy of the database that has the leases.
func copied(want Origin) error {
	return fmt.Errorf("%w: this database has a copy of %s: its table of leases has the same identity and "+
		"other records. Processes that call db.Use of it first would lease the same numbers: drop the table of "+
		"leases of the copy and its row in %s, or move the database; %s", errs.ErrAuthority, want, Table, moving)
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
	return fmt.Errorf("%w: the table %s could not be read, made or written to: %w\nRun this as a user who "+
		"may, and grant the application SELECT and INSERT on the table:\n\n%s;",
		errUnnoted, d.table, cause, d.DDL())
}

// ErrDatabase is sqllease.ErrDatabase, whose package imports this one.
var ErrDatabase = errors.New("sqllease: database cannot be used")

// failed tells a database that does not answer from one whose table cannot be used.
func (d Database) failed(ctx context.Context, cause error) error {
	if isUnselected(cause) {
		return fmt.Errorf("%w: its connections have selected no database, so there is no place for the table "+
			"%s: %w. Open the handle with the name of a database in its DSN; CREATE DATABASE goes through another "+
			"handle, which does not use the plugin", errUnnoted, d.table, cause)
	}
	cause = sqlconn.Translate(cause)
	switch {
	case errors.Is(cause, sqlconn.ErrPooler):
		return fmt.Errorf("%w: reading %s: %w", ErrDatabase, d.table, cause)
	case errors.Is(cause, sqlconn.ErrFull):
		return fmt.Errorf("%w: writing %s: %w", lease.ErrStore, d.table, cause)
	}
	if _, err := query(ctx, d.Pool, "SELECT 1"); err != nil || isBusy(cause) {
		if ended := ctx.Err(); ended != nil && !errors.Is(cause, ended) {
			cause = fmt.Errorf("%w: %w", ended, cause)
		}
		return fmt.Errorf("%w: reading or writing its table %s: %w. Try again when the database answers; a mock "+
			"of database/sql has no such table and needs WithSource, under which none is read",
			errUnread, d.table, cause)
	}
	return d.unusable(cause)
}
