package daemon_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// dsnOf returns a new, empty database of a target, in the form that the service reads.
func dsnOf(t *testing.T, target dbtest.Target) string {
	t.Helper()
	dsn := target.DSN(t)
	if target.Dialect == "sqlite" {
		path, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
		if plain, err := url.PathUnescape(path); err == nil {
			path = plain
		}
		return "sqlite:" + path
	}
	return dsn
}

// Replicas on one database have node numbers of their own, on every kind of database, and what they count
// in it comes once.
func TestReplicasShareADatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := dsnOf(t, target)
		path := write(t, "sources:\n  orders: {kind: segment, least: 7, most: 70}\n")
		rounds := nightly.Pick(6, 20)
		var mu sync.Mutex
		nodes := map[int64]bool{}
		seen := map[string]map[int64]bool{"snowflake": {}, "orders": {}}
		var replicas []*service
		for range 3 {
			replicas = append(replicas, start(t, "--dsn", dsn, "--config", path))
		}
		var clients sync.WaitGroup
		for _, s := range replicas {
			clients.Go(func() {
				for range rounds {
					for source, known := range seen {
						code, answer := 0, ""
						servers.Eventually(t, func() error { // SQLite has one writer at a time
							code, answer = s.post(t, "Next", `{"count":50,"source":"`+source+`"}`)
							if code == http.StatusServiceUnavailable {
								return errors.New(answer)
							}
							return nil
						})
						if code != http.StatusOK {
							t.Errorf("%s: %d %s", source, code, answer)
							return
						}
						mu.Lock()
						for _, id := range texts(t, answer) {
							if known[id] {
								t.Errorf("%s: %d comes twice", source, id)
							}
							known[id] = true
							if source == "snowflake" {
								parts, err := generator.Default().Decompose(id)
								if err != nil {
									t.Error(err)
								}
								nodes[parts.Node] = true
							}
						}
						mu.Unlock()
					}
				}
			})
		}
		clients.Wait()
		if len(nodes) != 3 || len(seen["snowflake"]) != 150*rounds || len(seen["orders"]) != 150*rounds {
			t.Errorf("%d nodes, %d IDs and %d orders", len(nodes), len(seen["snowflake"]), len(seen["orders"]))
		}
		for _, s := range replicas {
			if err := s.end(); err != nil {
				t.Errorf("the end: %v", err)
			}
		}
	})
}
