// Package leaseops tells what the record of a lease means for its node number, and changes records where no
// keeper does: when a server is merged into another one, and when leases move to another store.
package leaseops

import (
	"fmt"
	"slices"
	"strings"
	"time"

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
	// farAhead is longer than any window that a keeper asks for: a span and the lead of a generator are at
	// most one day each.
	farAhead = 49 * time.Hour

	// retiredOwner begins the owner of a number whose server was merged into another one.
	retiredOwner = "merged into "

	// movedLayout begins the layout of every record of a store that was moved away. It is no layout, so no
	// keeper takes a number from such a store. The new authority follows, then the separator, and then the
	// layout that the record had.
	movedLayout     = "moved to "
	layoutSeparator = ": "
)

// State tells what a record means for its number. now is the time of the store. It is one of [Retired],
// [Moved], [Reserved], [Distant], [Held], [Ending], [Expired] and [Free]. The first that fits counts: a number
// that was retired stays so when its store is moved away.
func State(r lease.Record, now time.Time) string {
	switch runs := r.Until.After(now); {
	case isRetired(r):
		return Retired
	case isMoved(r):
		return Moved
	case lease.Reserved(r, now):
		return Reserved
	case r.Until.Sub(now) > farAhead:
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
