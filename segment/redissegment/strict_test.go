package redissegment_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore/redistest"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/redissegment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

func TestTheStoreKeepsTheContractStrictly(t *testing.T) {
	t.Parallel()
	_, master := redistest.Private(t, redistest.Durable()...)
	redistest.Replica(t, master.Options().Addr, redistest.Durable()...)
	segmenttest.Run(t, func(t *testing.T) func() segment.Store {
		prefix := "snowflaketest:" + t.Name() + ":"
		return func() segment.Store {
			return open(t, redistest.Connect(t, &redis.Options{Addr: master.Options().Addr}), prefix,
				redissegment.WithStrict(1, redistest.Ample))
		}
	})
}

// This is the fault that the documentation warns of. A server that does not write to its disk gives numbers
// twice after a crash, to a process that begins then. One that was running before notices it.
func TestAServerThatForgetsRepeatsNumbersAfterACrash(t *testing.T) {
	t.Parallel()
	server, client := redistest.Private(t)
	store := open(t, client, "p:")
	running, err := segment.New(store, "orders", segment.WithBlock(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	var before int64
	for range 5 {
		if before, err = running.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	server.Restart()
	redistest.Answers(t, client)
	if again, err := store.Claim(t.Context(), "orders", 1); !errors.Is(err, segment.ErrWentBack) {
		t.Errorf("after the crash a process that knows the counters claims %d, %v", again, err)
	}
	again, err := open(t, client, "p:").Claim(t.Context(), "orders", 1)
	if err != nil || again > before {
		t.Fatalf("after the crash a claim gave %d, %v, above %d: the server did not forget", again, err, before)
	}
	servers.Eventually(t, func() error { // a number that was claimed before the crash may be left
		number, err := running.Next(t.Context())
		switch {
		case errors.Is(err, segment.ErrWentBack):
			return nil
		case err == nil && number <= before:
			t.Fatalf("the process gave %d after %d", number, before)
		case err == nil:
			err = errors.New("the process has numbers left")
		}
		return err
	})
	_, err = redissegment.New(t.Context(), client, "p:", redissegment.WithStrict(0, redistest.Ample))
	if err == nil || !strings.Contains(err.Error(), "appendonly") {
		t.Errorf("WithStrict took the server that forgets: %v", err)
	}
}

// TestStrictlyACrashRepeatsNothing kills the server while claims go on.
func TestStrictlyACrashRepeatsNothing(t *testing.T) {
	t.Parallel()
	server, client := redistest.Private(t, redistest.Durable()...)
	store := open(t, client, "p:", redissegment.WithStrict(0, redistest.Ample))
	const claimers, enough = 4, 20
	last := int64(0) // the greatest number that was claimed before the crash
	for round := range nightly.Pick(1, 4) {
		var (
			mu       sync.Mutex
			claimed  = map[int64]bool{}
			reached  = make(chan struct{})
			claiming sync.WaitGroup
		)
		for range claimers {
			claiming.Go(func() {
				for {
					first, err := store.Claim(t.Context(), "orders", 1)
					mu.Lock()
					if err != nil {
						if len(claimed) < enough {
							t.Errorf("round %d: a claim before the crash: %v", round, err)
						}
						mu.Unlock()
						return
					}
					if first <= last || claimed[first] {
						t.Errorf("round %d: %d was claimed twice", round, first)
					}
					claimed[first] = true
					if len(claimed) == enough {
						close(reached)
					}
					mu.Unlock()
				}
			})
		}
		ended := make(chan struct{})
		go func() {
			claiming.Wait()
			close(ended)
		}()
		select {
		case <-reached:
		case <-ended: // all have failed
		}
		server.Kill()
		<-ended
		for number := range claimed {
			last = max(last, number)
		}
		server.Restart()
		redistest.Answers(t, client)
	}
	if first, err := store.Claim(t.Context(), "orders", 1); err != nil || first <= last {
		t.Errorf("after the last crash %d was claimed, %v, and %d before it", first, err, last)
	}
}

// TestStrictlyAFailoverRepeatsNothing: and without WithStrict it does, by the same steps.
func TestStrictlyAFailoverRepeatsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts    []redissegment.Option
		repeats bool
	}{
		"strict":     {[]redissegment.Option{redissegment.WithStrict(1, 200*time.Millisecond)}, false},
		"not strict": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, master := redistest.Private(t, redistest.Durable()...)
			relay := servers.NewRelay(t, master.Options().Addr)
			_, heir := redistest.Replica(t, relay.Addr(), redistest.Durable()...)
			store := open(t, master, "p:", c.opts...)
			acknowledged := map[int64]bool{}
			claim := func() {
				if first, err := store.Claim(t.Context(), "orders", 1); err == nil {
					acknowledged[first] = true
				}
			}
			servers.Eventually(t, func() error { // the first confirmation of a replica may be late
				claim()
				if len(acknowledged) == 0 {
					return errors.New("nothing was claimed")
				}
				return nil
			})
			servers.Eventually(t, func() error {
				there, err := heir.HGet(t.Context(), "p:counters", "next:orders").Result()
				here, err2 := master.HGet(t.Context(), "p:counters", "next:orders").Result()
				if err == nil && err2 == nil && there != here {
					err = errors.New("the replica lags behind")
				}
				return errors.Join(err, err2)
			})
			relay.Split()
			claim()
			old.Kill()
			relay.Cut()
			if err := heir.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			first, err := open(t, heir, "p:").Claim(t.Context(), "orders", 1)
			if err != nil {
				t.Fatal(err)
			}
			if acknowledged[first] != c.repeats {
				t.Errorf("%v were acknowledged, and the new master gave %d", acknowledged, first)
			}
		})
	}
}

func TestStrictLooksAtTheServerWithEveryClaim(t *testing.T) {
	t.Parallel()
	_, master := redistest.Private(t, redistest.Durable()...)
	store := open(t, master, "p:", redissegment.WithStrict(0, redistest.Ample))
	if first, err := store.Claim(t.Context(), "orders", 1); first != 1 || err != nil {
		t.Fatalf("a claim returned %d, %v", first, err)
	}
	if err := master.ConfigSet(t.Context(), "appendfsync", "everysec").Err(); err != nil {
		t.Fatal(err)
	}
	first, err := store.Claim(t.Context(), "orders", 1)
	if !errors.Is(err, segment.ErrStore) || !strings.Contains(err.Error(), "appendfsync") {
		t.Errorf("a claim on a server that forgets returned %d, %v", first, err)
	}
	if found, err := store.Counters(t.Context(), ""); err == nil {
		t.Errorf("the counters of a server that forgets are %v; want an error", found)
	}
}
