package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// stores has a database of every kind that a test of the service needs, by name.
func stores(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "leases.db"), "postgres": postgres(t),
	}
}

// An ordinary client asks for one ID. It repeats a request as its protocol says, and has not heard of us.
type ordinary func(ctx context.Context) (int64, error)

// overFetch repeats a request at the other replica if it cannot be sent, or is answered with status 503.
func overFetch(replicas []*replica) ordinary {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	ask := func(ctx context.Context, r *replica) (id int64, again bool, err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost,
			"http://"+r.http+"/snowflake.v1.IDService/Next", strings.NewReader("{}"))
		if err != nil {
			return 0, false, err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			return 0, true, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return 0, true, err
		}
		if response.StatusCode != http.StatusOK {
			return 0, response.StatusCode == http.StatusServiceUnavailable, fmt.Errorf("%s: %s", response.Status, text)
		}
		var answer struct{ IDs []string }
		if err := json.Unmarshal(text, &answer); err != nil || len(answer.IDs) != 1 {
			return 0, false, fmt.Errorf("%s: %w", text, err)
		}
		id, err = strconv.ParseInt(answer.IDs[0], 10, 64)
		return id, false, err
	}
	var turn atomic.Int64
	return func(ctx context.Context) (id int64, err error) {
		place := int(turn.Add(1))
		for try := range 4 {
			var again bool
			if id, again, err = ask(ctx, replicas[(place+try)%len(replicas)]); !again {
				return id, err
			}
			time.Sleep(10 * time.Millisecond << try)
		}
		return 0, err
	}
}

// overStub is grpc-go with the configuration of the page on other languages. A connection that was lost is made
// again after a pause that grows, so for a moment there may be none to either replica: waitForReady waits for it,
// and without it requests fail.
func overStub(t *testing.T, replicas []*replica) ordinary {
	t.Helper()
	both := manual.NewBuilderWithScheme("replicas")
	var state resolver.State
	for _, r := range replicas {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: r.http})
	}
	both.InitialState(state)
	conn, err := grpc.NewClient("replicas:///", grpc.WithResolvers(both),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithDefaultServiceConfig(blocksOf(t, "json")[0][3]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func(ctx context.Context) (int64, error) {
		var answer snowflakev1.NextResponse
		err := conn.Invoke(ctx, "/snowflake.v1.IDService/Next", &snowflakev1.NextRequest{}, &answer)
		if err != nil || len(answer.GetIds()) != 1 {
			return 0, fmt.Errorf("%v: %w", answer.GetIds(), err)
		}
		return answer.GetIds()[0], nil
	}
}

// overRedis is go-redis as it comes.
func overRedis(t *testing.T, replicas []*replica) ordinary {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: balance(t, replicas)})
	t.Cleanup(func() { client.Close() })
	return func(ctx context.Context) (int64, error) { return client.Incr(ctx, "snowflake").Result() }
}

// Both replicas are replaced again and again, one at a time, while clients that nobody has made for us ask
// without a pause.
func TestOrdinaryClientsLoseNoRequestWhenReplicasAreReplaced(t *testing.T) {
	t.Parallel()
	length(t)
	const restarts, callers = 20, 4
	for name, dsn := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replicas := []*replica{newReplica(t, dsn), newReplica(t, dsn)}
			clients := map[string]ordinary{
				"HTTP": overFetch(replicas), "gRPC": overStub(t, replicas), "RESP": overRedis(t, replicas),
			}
			books := map[string]*ledger{}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var working sync.WaitGroup
			for protocol, next := range clients {
				l := &ledger{seen: make(map[int64]bool)}
				books[protocol] = l
				for range callers {
					working.Go(func() {
						for ctx.Err() == nil {
							began := time.Now()
							limit, end := context.WithTimeout(context.Background(), servers.Patience)
							id, err := next(limit) //nolint:contextcheck // a request under way may end
							end()
							l.note([]int64{id}, time.Since(began), err)
							time.Sleep(time.Millisecond)
						}
					})
				}
			}
			for range restarts {
				for _, r := range replicas {
					for _, l := range books {
						l.progress(t)
					}
					if err := r.terminate(); err != nil {
						t.Errorf("a replica ended with %v", err)
					}
					r.start()
					r.awaitReady()
				}
			}
			cancel()
			working.Wait()
			all := map[int64]bool{}
			for protocol, l := range books {
				t.Logf("%d rolling restarts, %s: %d IDs, %d failed requests, longest wait %v", restarts, protocol,
					len(l.seen), l.failed, l.longest.Round(time.Millisecond))
				for id := range l.seen {
					if all[id] {
						l.twice++
					}
					all[id] = true
				}
				if l.failed != 0 || l.twice != 0 {
					t.Errorf("%s: %d requests failed, %d IDs came twice: %v", protocol, l.failed, l.twice, l.first)
				}
			}
		})
	}
}
