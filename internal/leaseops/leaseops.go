// Package leaseops tells what the record of a lease means for its node number, and changes records where no
// keeper does: when a server is merged into another one, and when leases move to another store.
package leaseops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/limits"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// The states of a node number, see [State].
const (
	Retired  = "retired"      // its server was merged into another one, so it is never leased again
	Moved    = "moved"        // the store grants nothing any more, because its leases are in another one
	Reserved = "reserved"     // lease.Reserve keeps it out of the leases
	Distant  = "held too far" // into the future: a clock was wrong, or the record was altered
	Held     = "held"
	Ending   = "ending" // it was given back, and its window has not ended
	Expired  = "expired"
	Free     = "free" // it was given back, and its window has ended
)

const (
	// retiredOwner begins the owner of a number whose server was merged into another one.
	retiredOwner = "merged into "

	// movedLayout begins the layout of every record of a store that was moved away. It is no layout, so no
	// keeper takes a number from such a store. The new authority follows, then the separator, and then the
	// layout that the record had.
	movedLayout     = "moved to "
	layoutSeparator = ": "
)

// State tells what a record means for its number at a time of the store: the first of the states above that
// fits. A number that was retired stays so when its store is moved away.
func State(r lease.Record, now time.Time) string {
	switch runs := r.Until.After(now); {
	case isRetired(r):
		return Retired
	case isMoved(r):
		return Moved
	case lease.Reserved(r, now):
		return Reserved
	case r.Until.After(now.Add(limits.Far)):
		return Distant
	case runs && r.Owner != "":
		return Held
	case runs:
		return Ending
	case r.Owner != "":
		return Expired
	}
	return Free
}

// IsKept tells whether a number is retired or reserved, so that nobody holds it although its window runs. It
// looks through a move of the store, which [State] does not.
func IsKept(r lease.Record, now time.Time) bool { return isRetired(r) || lease.Reserved(r, now) }

// IsMoved tells whether any of the records says that its store was moved away.
func IsMoved(records ...lease.Record) bool { return slices.ContainsFunc(records, isMoved) }

func isRetired(r lease.Record) bool {
	return strings.HasPrefix(r.Owner, retiredOwner) && r.Until.UTC().Year() == 9999
}

func isMoved(r lease.Record) bool { return strings.HasPrefix(r.Layout, movedLayout) }

// Retirement returns the owner and the end that retire a number, whose server is merged into the server of
// this name and number. The end is later than that of any lease.
func Retirement(name string, number int64) (owner string, until time.Time) {
	return fmt.Sprintf(retiredOwner+"%s (%d)", name, number), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
}

// Layout is the one layout of all records of a store, also if they were moved away. It is empty if no ID was
// ever made with any of their numbers.
func Layout(records []lease.Record) (layout string) {
	for _, r := range records {
		one := r.Layout
		if isMoved(r) {
			_, one, _ = strings.Cut(one, layoutSeparator)
		}
		if one != lease.UnboundLayout {
			layout = max(layout, one)
		}
	}
	return layout
}

// Drain makes sure that a store grants no window any more, because its leases move to target. It returns the
// records, whose ends are those of the last windows. A holder cannot extend its window, because the record is
// another one, and nobody takes a number from a store that has a record of another layout.
func Drain(ctx context.Context, s lease.Store, target string) ([]lease.Record, error) {
	for {
		now, records, err := Read(ctx, s)
		if err != nil {
			return nil, err
		}
		changes := make([]change, 0, len(records))
		for _, r := range records {
			if isMoved(r) {
				continue
			}
			next := r
			next.Layout = movedLayout + target + layoutSeparator + r.Layout
			changes = append(changes, change{prev: r, next: given(next, now)})
		}
		if len(records) == 0 {
			// Without any record a process could lease the first.
			changes = append(changes, change{next: lease.Record{
				Until: time.Unix(0, 0).UTC(), Layout: movedLayout + target + layoutSeparator,
			}})
		}
		if len(changes) == 0 {
			return records, nil
		}
		if err := apply(ctx, s, changes); err != nil {
			return nil, err
		}
	}
}

// Raise makes sure that no window of a store begins before the ends of some records of another one. Where
// the store itself was moved away before, it is brought back.
func Raise(ctx context.Context, s lease.Store, ends []lease.Record) error {
	for {
		now, records, err := Read(ctx, s)
		if err != nil {
			return err
		}
		layout := cmp.Or(Layout(ends), Layout(records), lease.UnboundLayout)
		known := make(map[int64]lease.Record, len(records))
		for _, r := range records {
			known[r.Node] = r
		}
		var changes []change
		for _, end := range ends {
			if isMoved(end) && strings.HasSuffix(end.Layout, layoutSeparator) {
				continue // it keeps an empty store from granting its first number
			}
			prev := known[end.Node]
			next := lease.Record{Node: end.Node, Owner: end.Owner, Until: end.Until, Layout: layout}
			if prev.Version != 0 && !prev.Until.Before(end.Until) {
				next.Owner, next.Until = prev.Owner, prev.Until
			}
			held := prev.Owner != "" && prev.Until.After(now) && !IsKept(prev, now)
			if prev.Version == 0 || prev.Until.Before(end.Until) || isMoved(prev) || held {
				changes = append(changes, change{prev: prev, next: given(next, now)})
			}
			delete(known, end.Node)
		}
		for _, prev := range known {
			if isMoved(prev) {
				next := prev
				next.Layout = layout
				changes = append(changes, change{prev: prev, next: next})
			}
		}
		if len(changes) == 0 {
			return nil
		}
		if err := apply(ctx, s, changes); err != nil {
			return err
		}
	}
}

// Read returns the time and the records of a store.
func Read(ctx context.Context, s lease.Store) (now time.Time, records []lease.Record, err error) {
	if now, err = s.Now(ctx); err == nil {
		records, err = s.List(ctx)
	}
	return now, records, err
}

// given takes the owner out of a record, as if the number was given back, unless the number is kept.
func given(r lease.Record, now time.Time) lease.Record {
	if !IsKept(r, now) {
		r.Owner = ""
	}
	return r
}

// change is a swap.
type change struct{ prev, next lease.Record }

// apply tries the swaps. Its callers read the records again, so a swap that was refused is no error.
func apply(ctx context.Context, s lease.Store, changes []change) error {
	for _, c := range changes {
		c.next.Version = c.prev.Version + 1
		c.next.UpdatedAt = time.Now().UTC()
		if _, err := s.Swap(ctx, c.prev, c.next); err != nil {
			return err
		}
	}
	return nil
}
