package load_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/client"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

func (r *replica) pause(on bool) {
	r.t.Helper()
	signal := syscall.SIGCONT
	if on {
		signal = syscall.SIGSTOP
	}
	if err := r.command.Process.Signal(signal); err != nil {
		r.t.Fatal(err)
	}
}

// The database is cut off: IDs go on for as long as the window lasts, then the readiness turns, and
// everything heals by itself.
func TestAnOutageOfTheDatabaseHealsByItself(t *testing.T) {
	t.Parallel()
	_, long := length(t)
	span, outage := "3s", time.Duration(0)
	if long {
		span, outage = "15s", 30*time.Second
	}
	dsn, relay := relayed(t, postgres(t))
	r := newReplica(t, dsn, "--span", span)
	c, err := client.New([]string{"http://" + r.http}, client.WithBlock(1, 1), client.WithMaxWait(servers.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	relay.Split()
	began := time.Now()
	// On a slow machine the window may be over before this. Then it says nothing.
	if _, err := c.Next(t.Context()); err != nil {
		if code, text := r.ready(); code == http.StatusOK {
			t.Errorf("right after the database is gone: %v, and /readyz says %s", err, text)
		}
	}
	var turned time.Duration
	servers.Eventually(t, func() error {
		code, text := r.ready()
		if code != http.StatusServiceUnavailable {
			return fmt.Errorf("/readyz: %d %s", code, text)
		}
		turned = time.Since(began)
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Next(ctx); err == nil {
		t.Error("IDs go on without a window")
	}
	time.Sleep(max(outage-time.Since(began), 0))
	relay.Mend()
	relay.Cut()
	healing := time.Now()
	if _, err := c.Next(t.Context()); err != nil {
		t.Errorf("the service does not heal: %v", err)
	}
	r.awaitReady()
	t.Logf("database gone for %v with a span of %s: not ready after %v, IDs again %v after its return",
		outage, span, turned.Round(time.Millisecond), time.Since(healing).Round(time.Millisecond))
	if err := r.terminate(); err != nil {
		log, _ := os.ReadFile(r.log)
		t.Errorf("the end: %v\n%s", err, log)
	}
}

// relayed returns the DSN of the same database by way of a relay.
func relayed(t *testing.T, dsn string) (string, *servers.Relay) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		t.Skip("the DSN of PostgreSQL is no URL with a host")
	}
	relay := servers.NewRelay(t, u.Host)
	u.Host = relay.Addr()
	return u.String(), relay
}
