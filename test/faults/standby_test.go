//go:build unix

package faults_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// A commit of PostgreSQL that was given up while it waited for a standby is there to be read, and a failover
// loses it. A keeper without an answer to its swap reads its record, and would take the window for granted.
func TestWhatNoStandbyHasIsNotBelieved(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "a server of its own waits for a standby; TestWhatIsAcknowledgedIsOnTheDiskOfPostgreSQL waits for a disk")
	s := newServer(t, privateServer("postgres"))
	// This is how sessions are set that do not wait for the standbys.
	s.admin("ALTER DATABASE faults SET synchronous_commit = local")
	for name, opts := range map[string][]sqllease.Option{
		"dedicated": {sqllease.WithDedicatedPool(), sqllease.WithTable("dedicated")},
		"shared":    {sqllease.WithTable("shared")},
	} {
		t.Run(name, func(t *testing.T) {
			pool, err := sql.Open(s.driver, s.patientDSN(s.port))
			check(t, err)
			defer pool.Close()
			store, err := sqllease.New(t.Context(), pool, sqllease.PostgreSQL, opts...)
			check(t, err)
			defer store.Close()
			r := storetest.Create(t, store, storetest.First(7))

			s.waitFor(t, "absent")
			next := storetest.Renew(r)
			if ok, err := briefly(func(ctx context.Context) (bool, error) { return store.Swap(ctx, r, next) }); err == nil {
				t.Errorf("a swap that no standby has was answered with %t", ok)
			}
			eventually(t, "the swap that was given up is not there", func() bool {
				var version int64
				check(t, s.inFaults(t.Context(), "SELECT version FROM "+name+" WHERE node = 7", &version))
				return version == next.Version
			}, s)
			if records, err := briefly(store.List); err == nil {
				t.Errorf("what no standby has was read: %+v", records)
			}
			// What is refused is refused all the same.
			other := storetest.Follow(r, "other")
			if ok, err := briefly(func(ctx context.Context) (bool, error) { return store.Swap(ctx, r, other) }); ok || err != nil {
				t.Errorf("a swap of an old version returned %t, %v", ok, err)
			}
			s.waitFor(t, "")
			check(t, storetest.Holds(t, store, next))
		})
	}
}

// briefly asks for as long as a server needs that has not to wait.
func briefly[T any](ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return ask(ctx)
}

// waitFor makes commits wait for a standby of that name, or for none.
func (s *server) waitFor(t *testing.T, standby string) {
	t.Helper()
	s.admin("ALTER SYSTEM SET synchronous_standby_names = '" + standby + "'")
	s.admin("SELECT pg_reload_conf()")
	eventually(t, "the server does not learn for whom it has to wait", func() bool {
		var names string
		return s.row("SHOW synchronous_standby_names", &names) == nil && names == standby
	}, s)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inFaults asks for one row of the database of the tests.
func (s *server) inFaults(ctx context.Context, query string, into ...any) error {
	pool, err := sql.Open(s.driver, s.dsn(s.port))
	if err != nil {
		return err
	}
	defer pool.Close()
	return pool.QueryRowContext(ctx, query).Scan(into...)
}
