package redissegment_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
	"github.com/snowflakeplugin/snowflakeplugin/segment/redissegment"
)

// logged collects what a store logs.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) option() redissegment.Option {
	return redissegment.WithLogger(slog.New(slog.NewTextHandler(l, nil)))
}

// want fails unless the log has as many lines of a level, and the phrases.
func (l *logged) want(t *testing.T, level string, lines int, phrases ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.buf.String()
	if n := strings.Count(text, "\n"); n != lines || strings.Count(text, "level="+level) != lines {
		t.Errorf("logged: %q, want %d lines of level %s", text, lines, level)
	}
	for _, phrase := range phrases {
		if !strings.Contains(text, phrase) {
			t.Errorf("the log does not say %q: %s", phrase, text)
		}
	}
}

// claimTwice claims from counters of the store.
func claimTwice(t *testing.T, store *redissegment.Store) {
	t.Helper()
	for range 2 {
		if _, err := store.Claim(t.Context(), "orders", 1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAServerThatForgetsIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	_, client := private(t, "--maxmemory-policy", "allkeys-lru")
	var log logged
	store := open(t, client, "p:", log.option())
	phrases := []string{
		"may forget what it has acknowledged", `appendonly is \"no\"`, `appendfsync is \"everysec\"`, "allkeys-lru",
		"noeviction", "numbers are given twice", "WithStrict", "key=p:counters",
	}
	log.want(t, "WARN", 1, phrases...)
	claimTwice(t, store)
	log.want(t, "WARN", 1)
}

func TestAServerThatComesLaterIsWarnedOfByTheFirstClaim(t *testing.T) {
	t.Parallel()
	server, client := private(t)
	server.Kill()
	var log logged
	store := open(t, client, "p:", log.option())
	log.want(t, "WARN", 0)
	server.Restart()
	servers.Eventually(t, func() error { return client.Ping(t.Context()).Err() })
	claimTwice(t, store)
	log.want(t, "WARN", 1, "may forget")
}

func TestAServerThatForgetsNothingIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	_, client := private(t, durable()...)
	var log logged
	claimTwice(t, open(t, client, "p:", log.option()))
	claimTwice(t, open(t, client, "p:", log.option(), redissegment.WithStrict(0, ample)))
	log.want(t, "WARN", 0)
}

func TestAServerThatMayNotBeLookedAtIsSaidToBeUnknown(t *testing.T) {
	t.Parallel()
	_, master := private(t)
	if err := master.ACLSetUser(t.Context(), "app", "on", "nopass", "~*", "+@all", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	client := connect(t, &redis.Options{Addr: master.Options().Addr, Username: "app", Password: "any"})
	var log logged
	claimTwice(t, open(t, client, "p:", log.option()))
	log.want(t, "INFO", 1, "could not be checked", "CONFIG GET")
}
