package main

import (
	"context"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// tenure is a period in which one process holds a number, as shown by the table snowflake_nodes.
type tenure struct {
	node        int64
	owner       string
	from, until time.Time // begin and end of its window
	extended    int
	givenBack   bool
	before      *tenure // the previous tenure of the number; nil for the first
}

func (t *tenure) process() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(t.owner, "process "), ",")
	return name
}

// watch derives tenures from the records that it reads over time.
type watch struct {
	tenures []*tenure
	current map[int64]*tenure      // by number
	last    map[int64]lease.Record // by number
}

// look reads the table. Any program may do this, because List of a store changes nothing. It is
// called often enough to observe every tenure.
func (w *watch) look(ctx context.Context, store lease.Store) error {
	records, err := store.List(ctx)
	if err != nil {
		return err
	}
	for _, next := range records {
		prev := w.last[next.Node]
		if next.Version == prev.Version {
			continue
		}
		w.last[next.Node] = next
		current := w.current[next.Node]
		switch {
		case current != nil && next.Owner == current.owner:
			current.until = next.Until
			current.extended++
		case current != nil && next.Owner == "":
			current.until, current.givenBack = next.Until, true
		case next.Owner != "":
			// A window begins at the end of the previous window of the number, or now if that is
			// later.
			from := next.UpdatedAt.Truncate(time.Millisecond)
			if from.Before(prev.Until) {
				from = prev.Until
			}
			t := &tenure{node: next.Node, owner: next.Owner, from: from, until: next.Until, before: current}
			w.current[next.Node], w.tenures = t, append(w.tenures, t)
		}
	}
	return nil
}

// first returns the first tenure of a process, or an empty one.
func (w *watch) first(process string) *tenure {
	for _, t := range w.tenures {
		if t.process() == process {
			return t
		}
	}
	return &tenure{}
}
