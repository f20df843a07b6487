//go:build unix

package faults_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// addressOf returns the host and the port of a DSN, and a function that puts others in their place.
func addressOf(t *testing.T, dsn string) (address string, replaced func(by string) string) {
	t.Helper()
	host := regexp.MustCompile(`[^@/()]+:\d+([/)])`)
	found := host.FindString(dsn)
	if found == "" {
		t.Fatal("the DSN has no host and port")
	}
	return found[:len(found)-1], func(by string) string { return host.ReplaceAllString(dsn, by+"$1") }
}

// withParameters adds parameters to a DSN.
func withParameters(dsn, parameters string) string {
	if strings.Contains(dsn, "?") {
		return dsn + "&" + parameters
	}
	return dsn + "?" + parameters
}

// viaRelay returns a DSN that leads through a relay.
func viaRelay(t *testing.T, dsn string) (*servers.Relay, string) {
	t.Helper()
	address, replaced := addressOf(t, dsn)
	relay := servers.NewRelay(t, address)
	return relay, replaced(relay.Addr())
}

// The network drops everything for a while, and the connections of that time are never answered. How soon
// numbers come back is for the night, because a busy machine may be late itself; that they come back is for
// both tiers.
func TestCountersComeBackSoonAfterASilentNetwork(t *testing.T) {
	const wanted = 500 * time.Millisecond
	rounds := nightly.Pick(1, 6)
	if !nightly.Enabled() {
		t.Parallel() // at night times are measured
	}
	for _, target := range dbtest.Chosen(t.Name(), dbtest.Servers()) {
		if target.Dialect == "sqlite" {
			continue // there is no network
		}
		t.Run(target.Name, func(t *testing.T) {
			relay, dsn := viaRelay(t, target.DSN(t))
			db := target.OpenDSN(t, dsn, nil)
			var store *gormsegment.Store
			var source *segment.Source
			patiently(t, func() (err error) {
				if store, err = gormsegment.New(db); err != nil {
					return err
				}
				if source, err = segment.New(store, "orders", segment.WithBlock(1, 1)); err != nil {
					return errors.Join(err, store.Close())
				}
				return nil
			})
			defer store.Close()
			defer source.Close()
			outage := func(lasts time.Duration) time.Duration {
				for range 20 { // the time of the slowest claim, which limits the next ones, is forgotten
					if _, err := source.Next(t.Context()); err != nil && !errors.Is(err, segment.ErrExhausted) {
						t.Fatal(err)
					}
				}
				relay.Split()
				back := make(chan time.Time, 1)
				time.AfterFunc(lasts, func() {
					back <- time.Now()
					relay.Forget()
				})
				for failed := true; failed; {
					_, err := source.Next(t.Context())
					if failed = err != nil; failed && !errors.Is(err, segment.ErrExhausted) {
						t.Fatal(err)
					}
				}
				return time.Since(<-back)
			}
			longest := nightly.Pick(1100*time.Millisecond, 1800*time.Millisecond) // beyond the limits of one claim
			for lasts := 1100 * time.Millisecond; lasts <= longest; lasts += 350 * time.Millisecond {
				took := outage(lasts)
				for range rounds - 1 {
					if took > wanted {
						took = min(took, outage(lasts))
					}
				}
				t.Logf("%v after a silence of %v", took.Round(time.Millisecond), lasts)
				if took > wanted && nightly.Enabled() {
					t.Errorf("after a silence of %v the next number came %v later, in each of %d tries", lasts, took, rounds)
				}
			}
		})
	}
}
