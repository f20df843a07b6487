//go:build unix

package faults_test

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

// viaRelay returns a DSN that leads through a relay.
func viaRelay(t *testing.T, dsn string) (*servers.Relay, string) {
	t.Helper()
	host := regexp.MustCompile(`[^@/()]+:\d+([/)])`)
	found := host.FindString(dsn)
	if found == "" {
		t.Fatal("the DSN has no host and port")
	}
	relay := servers.NewRelay(t, found[:len(found)-1])
	return relay, host.ReplaceAllString(dsn, relay.Addr()+"$1")
}

// The network drops everything for a while, and the connections of that time are never answered.
func TestCountersComeBackSoonAfterASilentNetwork(t *testing.T) {
	// Not in parallel: what is measured are times.
	const (
		wanted = 500 * time.Millisecond
		rounds = 6 // a busy machine may be late itself
	)
	for _, target := range dbtest.Servers() {
		if target.Dialect == "sqlite" {
			continue // there is no network
		}
		t.Run(target.Name, func(t *testing.T) {
			relay, dsn := viaRelay(t, target.DSN(t))
			store, err := gormsegment.New(target.OpenDSN(t, dsn, nil))
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			source, err := segment.New(store, "orders", segment.WithBlock(1, 1))
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			outage := func(lasts time.Duration) time.Duration {
				for range 20 { // the time of the slowest claim, which limits the next ones, is forgotten
					if _, err := source.Next(t.Context()); err != nil {
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
			for lasts := 1100 * time.Millisecond; lasts < 2*time.Second; lasts += 350 * time.Millisecond {
				took := outage(lasts)
				for range rounds - 1 {
					if took > wanted {
						took = min(took, outage(lasts))
					}
				}
				t.Logf("%v after a silence of %v", took.Round(time.Millisecond), lasts)
				if took > wanted {
					t.Errorf("after a silence of %v the next number came %v later, in each of %d tries", lasts, took, rounds)
				}
			}
		})
	}
}
