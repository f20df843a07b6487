// Package storetest holds what the tests of several lease stores need in addition to the contract
// in package leasetest: records, swaps that must succeed, and tests of a failing server or network.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// JSON returns a record and the only JSON text that represents it in a store.
func JSON() (record lease.Record, text string) {
	record = lease.Record{
		Node: 7, Owner: "web-1", Version: 1, Layout: "l",
		Until:     time.Date(2026, 5, 1, 10, 0, 15, 0, time.UTC),
		UpdatedAt: time.Date(2026, 5, 1, 10, 0, 0, 123456789, time.UTC),
	}
	return record, `{"node":7,"owner":"web-1","until":"2026-05-01T10:00:15Z","version":1,"layout":"l",` +
		`"updated_at":"2026-05-01T10:00:00.123456789Z"}`
}

// First returns the first record of a node. The record ends in one minute.
func First(node int64) lease.Record {
	now := time.Now().UTC().Round(0)
	return lease.Record{
		Node: node, Owner: "first", Until: now.Add(time.Minute), Version: 1, Layout: "layout", UpdatedAt: now,
	}
}

// Follow returns a record of the owner that replaces prev.
func Follow(prev lease.Record, owner string) lease.Record {
	next := prev
	next.Owner = owner
	next.Version++
	next.Until = prev.Until.Add(time.Second)
	return next
}

// Renew returns a record of the same owner that replaces prev.
func Renew(prev lease.Record) lease.Record { return Follow(prev, prev.Owner) }

// Create stores the first record of a node. It fails the test if the store refuses.
func Create(tb testing.TB, store lease.Store, first lease.Record) lease.Record {
	tb.Helper()
	return Swap(tb, store, lease.Record{Node: first.Node}, first)
}

// Swap replaces prev with next and returns next. It fails the test if the store refuses.
func Swap(tb testing.TB, store lease.Store, prev, next lease.Record) lease.Record {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), servers.Patience)
	defer cancel()
	if ok, err := store.Swap(ctx, prev, next); err != nil || !ok {
		tb.Fatalf("the swap of node %d from version %d to %d returned %t, %v; want true",
			next.Node, prev.Version, next.Version, ok, err)
	}
	return next
}

// Holds returns an error unless the store has exactly the records want.
func Holds(tb testing.TB, store lease.Store, want ...lease.Record) error {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), holdsTimeout)
	defer cancel()
	records, err := store.List(ctx)
	if err != nil {
		return err
	}
	missing := func(r lease.Record) bool { return !slices.Contains(records, r) }
	if len(records) != len(want) || slices.ContainsFunc(want, missing) {
		return fmt.Errorf("the records are %+v, want %+v", records, want)
	}
	return nil
}

// holdsTimeout leaves time for a second request if the first one meets a broken connection.
const holdsTimeout = 15 * time.Second
