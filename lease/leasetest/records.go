package leasetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func first(node int64, owner string) lease.Record {
	until := time.Date(2031, 2, 3, 4, 5, 6, 789_012_345, time.UTC)
	return lease.Record{
		Node: node, Owner: owner, Until: until, Version: 1,
		Layout: lease.Fingerprint(generator.Default()), UpdatedAt: until.Add(-15 * time.Second),
	}
}

// following returns a typical record that may replace prev.
func following(prev lease.Record, owner string) lease.Record {
	next := prev
	next.Owner = owner
	next.Version++
	next.Until = prev.Until.Add(5 * time.Second)
	next.UpdatedAt = prev.UpdatedAt.Add(5 * time.Second)
	return next
}

func byNode(a, b lease.Record) int { return cmp.Compare(a.Node, b.Node) }

// find returns the record of a node. The node must have one.
func find(ctx context.Context, s lease.Store, node int64) (lease.Record, error) {
	records, err := s.List(ctx)
	if err != nil {
		return lease.Record{}, fmt.Errorf("List: %w", err)
	}
	for _, r := range records {
		if r.Node == node {
			return r, nil
		}
	}
	return lease.Record{}, fmt.Errorf("List returned %d records, but none of node %d, which has a record",
		len(records), node)
}

func describe(prev, next lease.Record) string {
	if prev.Version == 0 {
		return fmt.Sprintf("the creation of node %d for %q", next.Node, next.Owner)
	}
	return fmt.Sprintf("the swap of node %d from owner %q, version %d, to %q, %d",
		next.Node, prev.Owner, prev.Version, next.Owner, next.Version)
}

// difference names the fields in which a record differs from the expected one, or returns "".
func difference(got, want lease.Record) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if got.Owner != want.Owner {
		add("Owner is %q, want %q", got.Owner, want.Owner)
	}
	if got.Version != want.Version {
		add("Version is %d, want %d", got.Version, want.Version)
	}
	if got.Layout != want.Layout {
		add("Layout is %q, want %q", got.Layout, want.Layout)
	}
	for _, field := range []struct {
		name      string
		got, want time.Time
	}{{"Until", got.Until, want.Until}, {"UpdatedAt", got.UpdatedAt, want.UpdatedAt}} {
		switch {
		case !field.got.Equal(field.want):
			add("%s is %v, want %v", field.name, field.got, field.want.UTC())
		case field.got != field.want.Round(0).UTC():
			add("%s is %v, the right instant, but not in UTC or with a monotonic reading", field.name, field.got)
		}
	}
	return strings.Join(parts, "; ")
}

// settled returns the error of a swap that must succeed.
func settled(ok bool, err error) error {
	if err == nil && !ok {
		return errors.New("it was refused, although the node has the owner and the version that it goes from")
	}
	return err
}
