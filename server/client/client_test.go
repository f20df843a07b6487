package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/snowflakeplugin/snowflakeplugin/server/client"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/daemon"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/settings"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1/snowflakev1connect"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// replica starts a service and returns its address, and what ends it.
func replica(t *testing.T, dsn string, args ...string) (address string, end func()) {
	t.Helper()
	all := append([]string{"--listen", "127.0.0.1:0", "--resp", "off", "--max-time", "1m", "--dsn", dsn}, args...)
	loaded, err := settings.Load(all, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(loaded, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := d.Run(ctx); err != nil {
			t.Errorf("the replica ended with %v", err)
		}
	}()
	end = func() {
		stop()
		<-done
	}
	t.Cleanup(end)
	servers.Eventually(t, func() error {
		if ready, why := d.Ready(); !ready {
			return errors.New(why)
		}
		return nil
	})
	return "http://" + d.HTTPAddr(), end
}

func leases(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "leases.db")
}

// newClient returns a client that is closed at the end of the test. It waits longer than by default, so
// that no slow machine decides a test.
func newClient(t *testing.T, addresses []string, opts ...client.Option) *client.Client {
	t.Helper()
	patient := []client.Option{client.WithAttempt(servers.Patience / 6), client.WithMaxWait(servers.Patience)}
	c, err := client.New(addresses, append(patient, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// scripted is a replica that answers as a test wants it to.
type scripted struct {
	snowflakev1connect.UnimplementedIDServiceHandler

	calls atomic.Int64
	next  func(context.Context, *snowflakev1.NextRequest) ([]int64, error)
}

func (s *scripted) Next(
	ctx context.Context, r *connect.Request[snowflakev1.NextRequest],
) (*connect.Response[snowflakev1.NextResponse], error) {
	s.calls.Add(1)
	ids, err := s.next(ctx, r.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&snowflakev1.NextResponse{Ids: ids}), nil
}

// counting returns a replica that counts, and its address.
func counting(t *testing.T) (*scripted, string) {
	t.Helper()
	var last atomic.Int64
	s := &scripted{next: func(_ context.Context, r *snowflakev1.NextRequest) ([]int64, error) {
		ids := make([]int64, r.GetCount())
		end := last.Add(int64(len(ids)))
		for i := range ids {
			ids[i] = end - int64(len(ids)) + int64(i) + 1
		}
		return ids, nil
	}}
	return s, serve(t, s)
}

// inProcess answers without a network.
func inProcess(next func(context.Context, *snowflakev1.NextRequest) ([]int64, error)) http.RoundTripper {
	mux := http.NewServeMux()
	mux.Handle(snowflakev1connect.NewIDServiceHandler(&scripted{next: next}))
	return roundTripper{mux}
}

type roundTripper struct{ http.Handler }

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	r.ServeHTTP(recorder, request)
	return recorder.Result(), nil
}

func serve(t *testing.T, s *scripted) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(snowflakev1connect.NewIDServiceHandler(s))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestCallsOfAllSizesGetDifferentIDs(t *testing.T) {
	t.Parallel()
	address, _ := replica(t, leases(t))
	c := newClient(t, []string{address}, client.WithBlock(10, 1000))
	var mu sync.Mutex
	seen := map[int64]bool{}
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for size := range nightly.Pick(8, 20) {
				ids := make([]int64, 1+(size*size*7*(i+1))%2500)
				if err := c.Fill(t.Context(), ids); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, id := range ids {
					if seen[id] || id <= 0 {
						t.Errorf("%d comes twice", id)
					}
					seen[id] = true
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	if stats := c.Stats(); stats.Issued != uint64(len(seen)) || stats.Fetches == 0 {
		t.Errorf("%d IDs, and the client says %+v", len(seen), stats)
	}
}

// One of two replicas ends at a time, and comes back. No call fails, and no ID comes twice.
func TestNoCallFailsWhileReplicasAreReplaced(t *testing.T) {
	t.Parallel()
	dsn := leases(t)
	port := func() string { return "127.0.0.1:" + servers.Reserve(t) }
	listen := []string{port(), port()}
	begin := func(i int) func() {
		_, end := replica(t, dsn, "--listen", listen[i])
		return end
	}
	ends := []func(){begin(0), begin(1)}
	c := newClient(t, []string{"http://" + listen[0], "http://" + listen[1]},
		client.WithBlock(1, 50), client.WithMaxWait(servers.Patience))
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	seen := map[int64]bool{}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				id, err := c.Next(t.Context()) //nolint:contextcheck // a call under way may end
				mu.Lock()
				if err != nil || seen[id] {
					t.Errorf("%d: %v, or it comes twice", id, err)
				}
				seen[id] = true
				mu.Unlock()
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	for round := range nightly.Pick(2, 4) {
		ends[round%2]()
		before := c.Stats().Issued
		servers.Eventually(t, func() error {
			if c.Stats().Issued < before+200 {
				return errors.New("the other replica gives nothing")
			}
			return nil
		})
		ends[round%2] = begin(round % 2)
	}
	stop()
	callers.Wait()
	if len(seen) < 400 {
		t.Errorf("only %d IDs", len(seen))
	}
}

func TestWhatIsRefusedForGoodIsNotTriedElsewhere(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]connect.Code{
		"a wrong token": connect.CodeUnauthenticated, "a source that is not there": connect.CodeNotFound,
		"a day that is full": connect.CodeResourceExhausted, "a count": connect.CodeInvalidArgument,
	} {
		refusing := &scripted{next: func(context.Context, *snowflakev1.NextRequest) ([]int64, error) {
			return nil, connect.NewError(code, errors.New("no"))
		}}
		c := newClient(t, []string{serve(t, refusing)}, client.WithMaxWait(servers.Patience))
		_, err := c.Next(t.Context())
		if !errors.Is(err, client.ErrRefused) || refusing.calls.Load() != 1 {
			t.Errorf("%s: %v after %d calls", name, err, refusing.calls.Load())
		}
	}
}

func TestAReplicaThatAnswersWrongIsPassedOver(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(context.Context, *snowflakev1.NextRequest) ([]int64, error){
		"too few IDs": func(_ context.Context, r *snowflakev1.NextRequest) ([]int64, error) {
			return make([]int64, r.GetCount()-1), nil
		},
		"zeros": func(_ context.Context, r *snowflakev1.NextRequest) ([]int64, error) {
			return make([]int64, r.GetCount()), nil
		},
		"an error": func(context.Context, *snowflakev1.NextRequest) ([]int64, error) {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("ending"))
		},
		"no answer": func(ctx context.Context, _ *snowflakev1.NextRequest) ([]int64, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, right := counting(t)
			wrong := serve(t, &scripted{next: next})
			for range 5 { // the one that is asked first is chosen at random
				c := newClient(t, []string{wrong, right}, client.WithAttempt(time.Second),
					client.WithMaxWait(servers.Patience))
				if id, err := c.Next(t.Context()); err != nil || id <= 0 {
					t.Errorf("Next returned %d and %v", id, err)
				}
			}
		})
	}
}

func TestWithoutAReplicaTheCallFailsAndSaysWhatEachAnswered(t *testing.T) {
	t.Parallel()
	// In a bubble no time passes while a replica is asked, so both of them are.
	synctest.Test(t, func(t *testing.T) {
		ending := inProcess(func(context.Context, *snowflakev1.NextRequest) ([]int64, error) {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("this one is ending"))
		})
		c := newClient(t, []string{"http://ending", "http://gone"}, client.WithMaxWait(time.Second), client.WithHTTPClient(&http.Client{
			Transport: byHost{"ending": ending, "gone": unreachable{}},
		}))
		ids := []int64{7, 8}
		began := time.Now()
		err := c.Fill(t.Context(), ids)
		if !errors.Is(err, client.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "http://ending: unavailable: this one is ending") ||
			!strings.Contains(err.Error(), "http://gone: unavailable: nobody listens") {
			t.Errorf("Fill returned %v", err)
		}
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("Fill waited for %v", waited)
		}
		if ids[0] != 7 || ids[1] != 8 {
			t.Errorf("Fill failed, but it set %v", ids)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Next(ctx); !errors.Is(err, client.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended Next returned %v", err)
		}
	})
}

// byHost sends each request to the replica that it names.
type byHost map[string]http.RoundTripper

func (b byHost) RoundTrip(request *http.Request) (*http.Response, error) {
	return b[request.URL.Host].RoundTrip(request)
}

// unreachable is a replica that is not there.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("nobody listens")
}

func TestOldIDsAreDropped(t *testing.T) {
	t.Parallel()
	// The clock of a bubble stands still until all wait, so no instant decides the test.
	synctest.Test(t, func(t *testing.T) {
		var last int64
		fetched := 0
		c, err := client.New([]string{"http://replica"}, client.WithBlock(100, 100),
			client.WithMaxAge(time.Minute), client.WithHTTPClient(&http.Client{Transport: inProcess(
				func(_ context.Context, r *snowflakev1.NextRequest) ([]int64, error) {
					fetched++
					ids := make([]int64, r.GetCount())
					for i := range ids {
						last++
						ids[i] = last
					}
					return ids, nil
				})}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i, step := range []struct {
			later   time.Duration
			want    int64
			dropped uint64
		}{
			{0, 1, 0}, {59 * time.Second, 2, 0}, {2 * time.Second, 101, 98}, {time.Hour, 201, 197},
		} {
			time.Sleep(step.later)
			id, err := c.Next(t.Context())
			if stats := c.Stats(); err != nil || id != step.want || stats.Dropped != step.dropped {
				t.Errorf("step %d: %d and %v, want %d; %+v", i, id, err, step.want, stats)
			}
		}
	})
}

func TestACloseEndsCallsThatWait(t *testing.T) {
	t.Parallel()
	silent := &scripted{next: func(ctx context.Context, _ *snowflakev1.NextRequest) ([]int64, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	for _, size := range []int{1, 5000} {
		c := newClient(t, []string{serve(t, silent)}, client.WithAttempt(servers.Patience),
			client.WithMaxWait(servers.Patience))
		failed := make(chan error)
		calls := silent.calls.Load()
		go func() { failed <- c.Fill(context.Background(), make([]int64, size)) }()
		servers.Eventually(t, func() error {
			if silent.calls.Load() == calls {
				return errors.New("no call yet")
			}
			return nil
		})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-failed; !errors.Is(err, client.ErrClosed) {
			t.Errorf("the call returned %v", err)
		}
		if _, err := c.Next(t.Context()); !errors.Is(err, client.ErrClosed) {
			t.Errorf("after Close Next returned %v", err)
		}
	}
}

func TestWrongOptionsAreNamedTogether(t *testing.T) {
	t.Parallel()
	_, err := client.New([]string{"ftp://a", "http://user:pw@b", "http://ids.example"},
		client.WithToken("a-secret-token"), client.WithBlock(0, 1), client.WithMaxAge(0), nil)
	for _, part := range []string{"http://host:port", "of b has more", "WithBlock(0, 1)", "WithMaxAge(0s)",
		"option 3 is nil", "ids.example in plain text"} {
		if err == nil || !errors.Is(err, client.ErrOption) || !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error has the token: %v", err)
	}
	if _, err := client.New(nil); !errors.Is(err, client.ErrOption) {
		t.Errorf("without endpoints: %v", err)
	}
}

// The token goes to the service, by TLS or where WithInsecure allows it, and to nobody whom the service names.
func TestTheTokenAndTheSourceGoToTheServiceAlone(t *testing.T) {
	t.Parallel()
	var tokens, sources sync.Map
	var asked atomic.Int64
	service := &scripted{next: func(_ context.Context, r *snowflakev1.NextRequest) ([]int64, error) {
		sources.Store(r.GetSource(), true)
		return []int64{1}, nil
	}}
	_, handler := snowflakev1connect.NewIDServiceHandler(service)
	start := func(handler http.HandlerFunc) *httptest.Server {
		server := httptest.NewTLSServer(handler)
		t.Cleanup(server.Close)
		return server
	}
	own := start(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		tokens.Store(r.Header.Get("Authorization"), true)
		handler.ServeHTTP(w, r)
	})
	away := start(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, own.URL+r.URL.Path, http.StatusSeeOther)
	})
	known, ok := own.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("the test server has another transport")
	}
	options := []client.Option{client.WithToken("a-secret-token"), client.WithSource("orders"), client.WithBlock(1, 1),
		client.WithTLS(known.TLSClientConfig)}
	c := newClient(t, []string{away.URL}, append(options, client.WithMaxWait(100*time.Millisecond))...)
	if id, err := c.Next(t.Context()); !errors.Is(err, client.ErrUnavailable) || asked.Load() > 0 {
		t.Errorf("a redirection was followed: %d, %v", id, err)
	}
	if id, err := newClient(t, []string{own.URL}, options...).Next(t.Context()); err != nil || id != 1 {
		t.Errorf("the service gives %d, %v", id, err)
	}
	for what, seen := range map[string]*sync.Map{"Bearer a-secret-token": &tokens, "orders": &sources} {
		if _, found := seen.Load(what); !found {
			t.Errorf("the service has not seen %q", what)
		}
	}
	plain, err := client.New([]string{"http://ids.example"}, client.WithToken("a-secret-token"), client.WithInsecure())
	if err != nil {
		t.Fatalf("WithInsecure: %v", err)
	}
	if err := plain.Fill(t.Context(), nil); err != nil {
		t.Errorf("no numbers: %v", err)
	}
	plain.Close()
}
