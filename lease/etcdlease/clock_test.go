package etcdlease_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease/etcdlease"
)

// closeTo fails the test if got is not now, as far as a clock of whole seconds can tell.
func closeTo(t *testing.T, got time.Time, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Since(got); off < -time.Second || off > 4*time.Second {
		t.Errorf("the clock is %v behind", off)
	}
	if got.Location() != time.UTC {
		t.Errorf("the clock is in %v, not in UTC", got.Location())
	}
}

func TestTheClockIsTheServers(t *testing.T) {
	t.Parallel()
	client, prefix := shared(t)
	now, err := open(t, client, prefix).Now(t.Context())
	closeTo(t, now, err)
}

// dated answers like a member whose clock shows a certain time.
func dated(date string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", date)
		if r.URL.Path != "/version" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
}

const (
	shown = "Fri, 01 May 2026 10:00:15 GMT"
	meant = "2026-05-01T10:00:15.5Z"
)

func expectShown(t *testing.T, store *etcdlease.Store) {
	t.Helper()
	now, err := store.Now(t.Context())
	if err != nil || now.Format(time.RFC3339Nano) != meant {
		t.Errorf("the clock shows %v (%v), want %s, the middle of the second", now, err, meant)
	}
}

func TestEveryFormOfAnEndpointIsAskedForTheTime(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(dated(shown))
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(dated(shown))
	t.Cleanup(secure.Close)
	socket := filepath.Join(t.TempDir(), "s")
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	local := &httptest.Server{Listener: listener, Config: &http.Server{Handler: dated(shown), ReadHeaderTimeout: time.Minute}}
	local.Start()
	t.Cleanup(local.Close)

	host := plain.Listener.Addr().String()
	for _, endpoint := range []string{host, "http://" + host, "unix:" + socket, "unix://" + socket} {
		t.Run(endpoint, func(t *testing.T) { //nolint:paralleltest // the servers are closed with the parent
			expectShown(t, open(t, connect(t, endpoint), "p/"))
		})
	}
	host = secure.Listener.Addr().String()
	for _, endpoint := range []string{host, "https://" + host} {
		expectShown(t, open(t, connect(t, endpoint), "p/", etcdlease.WithHTTPClient(secure.Client())))
		if now, err := open(t, connect(t, "https://"+host), "p/").Now(t.Context()); err == nil {
			t.Errorf("a certificate that the system does not know was believed: %v", now)
		}
	}
	// Whatever the status says, the date counts.
	expectShown(t, open(t, connect(t, "127.0.0.1:1"), "p/", etcdlease.WithClockURLs(plain.URL+"/elsewhere")))
}

func TestTheNextEndpointIsAskedWhenOneDoesNotAnswer(t *testing.T) {
	t.Parallel()
	dateless := httptest.NewServer(dated(""))
	t.Cleanup(dateless.Close)
	good := httptest.NewServer(dated(shown))
	t.Cleanup(good.Close)
	expectShown(t, open(t, connect(t, "127.0.0.1:1", dateless.URL, good.URL), "p/"))
	expectShown(t, open(t, connect(t, "127.0.0.1:1"), "p/", etcdlease.WithClockURLs("http://127.0.0.1:1", good.URL)))
}

func TestWithoutHTTPTheErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dateless := httptest.NewServer(dated(""))
	t.Cleanup(dateless.Close)
	client := connect(t, "127.0.0.1:1", dateless.URL)
	_, err := open(t, client, "p/").Now(t.Context())
	if err == nil {
		t.Fatal("there is a time")
	}
	for _, want := range []string{"127.0.0.1:1", dateless.URL, "Date", "WithHTTPClient", "WithClockURLs", "WithLocalClock"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	now, err := open(t, client, "p/", etcdlease.WithLocalClock()).Now(t.Context())
	closeTo(t, now, err)
	client.SetEndpoints()
	if _, err := open(t, client, "p/").Now(t.Context()); err == nil {
		t.Error("a client without endpoints has a time")
	}
}

func TestTheQuestionForTheTimeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	never := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	t.Cleanup(never.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	store := open(t, connect(t, "127.0.0.1:1"), "p/", etcdlease.WithClockURLs(never.URL, "http://127.0.0.1:1"))
	if _, err := store.Now(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("error %v, context %v; want both", err, ctx.Err())
	}
}
