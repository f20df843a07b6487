package gormlease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	relays "github.com/snowflakeplugin/snowflakeplugin/test/servers"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// throughRelay opens a fresh database whose connections a relay can disturb.
func throughRelay(t *testing.T, target dbtest.Target) (*gorm.DB, *relays.Relay) {
	t.Helper()
	relay, dsn := relayed(t, target, target.DSN(t))
	return target.OpenDSN(t, dsn, nil), relay
}

// relayed returns a relay to the server of a DSN, and the DSN of the same database through it.
func relayed(t *testing.T, target dbtest.Target, dsn string) (*relays.Relay, string) {
	t.Helper()
	if target.Dialect == "postgres" {
		c, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal("the DSN of the tests cannot be read") // without the error, which quotes it
		}
		if strings.HasPrefix(c.Host, "/") {
			t.Skip("the server has no port")
		}
		relay := relays.NewRelay(t, net.JoinHostPort(c.Host, fmt.Sprint(c.Port)))
		host, port, err := net.SplitHostPort(relay.Addr())
		must(t, err)
		return relay, withSettings(t, dsn, url.Values{"host": {host}, "port": {port}, "sslmode": {"disable"}})
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal("the DSN of the tests cannot be read")
	}
	if c.Net != "tcp" {
		t.Skip("the server has no port")
	}
	relay := relays.NewRelay(t, c.Addr)
	c.Addr = relay.Addr()
	return relay, c.FormatDSN()
}

// On a slow line it takes longer to connect than a request may take. Then no request would ever get through
// if each of them began anew.
func TestAConnectionThatTakesLongerThanARequestServesALaterOne(t *testing.T) {
	t.Parallel()
	eachWay(t, servers(), func(t *testing.T, target dbtest.Target, way func(*gorm.DB) *gorm.DB) {
		db, relay := throughRelay(t, target)
		store := newStore(t, way(db))
		r := storetest.Create(t, store, storetest.First(1))
		pool, _ := store.Pool()
		pool.SetMaxIdleConns(0) // closes the connection
		pool.SetMaxIdleConns(1)

		relay.LoseAnswers()
		before := relay.Dialed()
		ends(t, func(ctx context.Context) error {
			_, err := store.Swap(ctx, r, storetest.Renew(r))
			return err
		})
		for deadline := time.Now().Add(10 * time.Second); relay.Dialed() < before+2; {
			if time.Now().After(deadline) {
				t.Fatal("no connection is made without the request that has ended")
			}
			time.Sleep(time.Millisecond)
		}
		relay.Refuse()
		relay.Mend()
		// A request that comes too early is refused at once.
		ctx := limited(t)
		for _, err := store.List(ctx); err != nil; _, err = store.List(ctx) {
			if ctx.Err() != nil {
				t.Fatalf("no request gets through: %v", err)
			}
		}
		storetest.Swap(t, store, r, storetest.Renew(r))
	})
}

// A COMMIT without an answer must not hold up a keeper, whose context ends before its window does.
func TestARequestEndsWithItsContextInEveryStep(t *testing.T) {
	t.Parallel()
	for _, target := range dbtest.ServersOf("mysql") {
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			for _, step := range []string{"TRANSACTION", "START TRANSACTION", "UPDATE", "COMMIT", "ROLLBACK"} {
				t.Run(step, func(t *testing.T) {
					t.Parallel()
					db, relay := throughRelay(t, target)
					store := newStore(t, onPoolOf(t, target, db))
					r := storetest.Create(t, store, storetest.First(1))
					next := storetest.Renew(r)
					if step == "ROLLBACK" {
						if target.IsTiDB(t) {
							t.Skip("it checks nothing by default")
						}
						// The server refuses the value, so the transaction is rolled back.
						exec(t, db, "ALTER TABLE snowflake_nodes ADD CONSTRAINT small CHECK (version < 2)")
					}
					relay.LoseAnswersTo(step)
					ends(t, func(ctx context.Context) error {
						_, err := store.Swap(ctx, r, next)
						return err
					})
					relay.Forget()
					if _, err := store.List(limited(t)); err != nil {
						t.Errorf("afterwards the store does not work: %v", err)
					}
				})
			}
			t.Run("the identity", func(t *testing.T) {
				t.Parallel()
				db, relay := throughRelay(t, target)
				store := newStore(t, onPoolOf(t, target, db))
				exec(t, db, mustAuthorityDDL(t, db))
				relay.LoseAnswersTo("COMMIT")
				ends(t, func(ctx context.Context) error {
					_, err := store.Identity(ctx)
					return err
				})
			})
		})
	}
}

// ends expects that a request fails when its context ends.
func ends(t *testing.T, request func(ctx context.Context) error) {
	t.Helper()
	const grace = 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- request(ctx) }()
	<-ctx.Done()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the request ended with %v", err)
		}
	case <-time.After(grace):
		t.Fatal("the context of the request has ended, and the request has not")
	}
}

func mustAuthorityDDL(t *testing.T, db *gorm.DB) string {
	t.Helper()
	ddl, err := gormlease.AuthorityDDL(db)
	must(t, err)
	return ddl
}
