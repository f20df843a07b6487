package redislease_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
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

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

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

// acquireTwice leases a number two times with one store, as a program does that starts plugins.
func acquireTwice(t *testing.T, store *redislease.Store) {
	t.Helper()
	for range 2 {
		k, err := lease.Acquire(t.Context(), store, generator.Default(),
			lease.WithLogger(slog.New(slog.DiscardHandler)), lease.WithSpan(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAServerThatForgetsIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	_, client := private(t, "--maxmemory-policy", "allkeys-lru")
	var log logged
	acquireTwice(t, open(t, client, "p:", redislease.WithLogger(log.logger())))
	log.want(t, "WARN", 1, "may forget what it has acknowledged", `appendonly is \"no\"`,
		`appendfsync is \"everysec\"`, "allkeys-lru", "noeviction", "WithStrict", "key=p:nodes")
}

func TestAServerThatOnlyMayEvictIsWarnedOf(t *testing.T) {
	t.Parallel()
	_, client := private(t, append(durable(), "--maxmemory-policy", "allkeys-random")...)
	var log logged
	acquireTwice(t, open(t, client, "p:", redislease.WithLogger(log.logger())))
	log.want(t, "WARN", 1, "allkeys-random")
}

func TestAServerThatForgetsNothingIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	_, client := private(t, durable()...)
	var log logged
	acquireTwice(t, open(t, client, "p:", redislease.WithLogger(log.logger())))
	acquireTwice(t, open(t, client, "p:", redislease.WithLogger(log.logger()), redislease.WithStrict(0, ample)))
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
	acquireTwice(t, open(t, client, "p:", redislease.WithLogger(log.logger())))
	log.want(t, "INFO", 1, "could not be checked", "CONFIG GET")
}

func TestALoggerThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	client := connect(t, &redis.Options{})
	if _, err := redislease.New(client, "p:", redislease.WithLogger(nil)); !errors.Is(err, lease.ErrInvalidOption) {
		t.Errorf("New with a nil logger: %v", err)
	}
}
