package authority

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqltable"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// The authorities that have no identity. An identity never has a blank, so it equals none of them.
const (
	idByHand   = "by hand"
	idExternal = "external, not identified"
)

// Origin says where node numbers come from.
type Origin struct {
	// ID is the identity of the leases, or one of the words above.
	ID string `json:"authority"`
	// Layout is the fingerprint of the layout if the numbers are given by hand, otherwise empty.
	Layout string `json:"layout,omitempty"`
	// Place says where the leases are, in words and without secrets.
	Place string `json:"place,omitempty"`
	// Table is the name of the leases where they are a table, as the program names it. It is never noted.
	Table string `json:"-"`
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
	id := cmp.Or(o.ID, "with no identity yet")
	if o.Place == "" {
		return "the leases " + id
	}
	return fmt.Sprintf("the leases %s (%s)", id, o.Place)
}

// Note is what a database says of itself.
type Note struct {
	Origin

	By string `json:"noted_by"` // who wrote it; for people, as is the time
	At string `json:"noted_at"`
}

func newNote(o Origin) Note {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown host"
	}
	return Note{Origin: o, By: fmt.Sprintf("%s pid %d", host, os.Getpid()), At: sqltable.Stamp(time.Now())}
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

// refusal is the error when the rows of a database, or of a schema of it, have another authority.
func refusal(scope string, noted Note, want Origin) error {
	var remedy string
	switch has := noted.Origin; {
	case has.IsByHand() && want.IsByHand():
		return fmt.Errorf("%w: the IDs of %s have the layout %s (%s), and this plugin has the layout "+
			"%s. IDs of two layouts can be equal: use the first layout with WithLayout, or move the database; %s",
			errs.ErrAuthority, scope, has.Layout, noted.since(), want.Layout, moving)
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
		return fmt.Errorf("%w: the IDs of %s come from %s (%s), and the store of this plugin, which "+
			"is called the same, has the identity %s: it is another one, or it was emptied and has forgotten "+
			"who holds which number. Use the first store, or restore it, or stop all processes until their "+
			"windows have ended and move the database; %s",
			errs.ErrAuthority, scope, has, noted.since(), want.ID, moving)
	default:
		remedy = "Two stores lease the same numbers: lease from the first (in every process, call db.Use of " +
			"the database with those leases first, or pass its store to WithLease)"
	}
	return fmt.Errorf("%w: the IDs of %s come from %s (%s), and this plugin has %s. %s, or move "+
		"the database; %s", errs.ErrAuthority, scope, noted.Origin, noted.since(), want, remedy, moving)
}

const moving = "see \"snowflake help nodes authority\""

// copied is the error for a copy of the database that has the leases.
func copied(want Origin) error {
	return fmt.Errorf("%w: this database has a copy of %s: its table of leases has the same identity and "+
		"other records. Processes that call db.Use of it first would lease the same numbers: drop the table of "+
		"leases of the copy and its row in %s, or move the database; %s", errs.ErrAuthority, want, Table, moving)
}
