package leaseops

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Drain makes sure that a store grants no window any more, because its leases move to target. It returns the
// records, whose ends are those of the last windows. A holder cannot extend its window, because the record is
// another one, and nobody takes a number from a store that has a record of another layout.
func Drain(ctx context.Context, s lease.Store, target string) ([]lease.Record, error) {
	for {
		now, records, err := read(ctx, s)
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
		now, records, err := read(ctx, s)
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
			if isPlaceholder(end) {
				continue
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

// read returns the time and the records of a store.
func read(ctx context.Context, s lease.Store) (now time.Time, records []lease.Record, err error) {
	if now, err = s.Now(ctx); err == nil {
		records, err = s.List(ctx)
	}
	return now, records, err
}

// given takes the owner out of a record, as if it had given its number back. A number that is kept keeps it.
func given(r lease.Record, now time.Time) lease.Record {
	if !IsKept(r, now) {
		r.Owner = ""
	}
	return r
}

// isPlaceholder recognizes the record that keeps an empty store from granting its first number.
func isPlaceholder(r lease.Record) bool {
	return isMoved(r) && strings.HasSuffix(r.Layout, layoutSeparator)
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
