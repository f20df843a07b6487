package web_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/netbatch"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/web"
)

// noting notes the latest deadline that the connections get. A connection that joins writes sets that of its
// listener, which is longer here than all others.
type noting struct {
	net.Listener

	mu     sync.Mutex
	latest time.Time
}

func (n *noting) Accept() (net.Conn, error) {
	inner, err := n.Listener.Accept()
	return &noted{inner, n}, err
}

func (n *noting) last() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.latest
}

type noted struct {
	net.Conn

	by *noting
}

func (n *noted) SetWriteDeadline(at time.Time) error {
	n.by.mu.Lock()
	defer n.by.mu.Unlock()
	if at.After(n.by.latest) {
		n.by.latest = at
	}
	return n.Conn.SetWriteDeadline(at)
}

// TestAnswersOfHTTP2AreJoined has a listener whose limit for a write is a day.
func TestAnswersOfHTTP2AreJoined(t *testing.T) {
	t.Parallel()
	const limit = 24 * time.Hour
	set := metrics.New()
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	noting := &noting{Listener: socket}
	listener := netbatch.Listen(noting, limit)
	log := slog.New(slog.DiscardHandler)
	desk := issue.New(map[string]issue.Source{issue.DefaultSource: &counter{}}, 5000, time.Minute, set, log)
	server := web.New(web.Options{
		Desk: desk, Layout: generator.Default(), Metrics: set, Log: log,
		Ready: func() (bool, string) { return true, "ready" }, Stopping: make(chan struct{}),
		MaxBody: maxBody, MaxRequests: 100, Idle: time.Minute, Slow: time.Minute,
	})
	serving := make(chan error)
	go func() { serving <- server.Serve(listener) }()
	for _, two := range []bool{false, true} {
		var protocols http.Protocols
		protocols.SetHTTP1(!two)
		protocols.SetUnencryptedHTTP2(two)
		transport := &http.Transport{Protocols: &protocols}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+socket.Addr().String()+next,
			strings.NewReader(`{"count":3}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", asJSON)
		answer, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.HasPrefix(string(text), `{"ids":["`) {
			t.Errorf("%s: %d %s, %v", answer.Proto, answer.StatusCode, text, err)
		}
		if joined := time.Until(noting.last()) > limit/2; joined != two {
			t.Errorf("%s: joined is %v", answer.Proto, joined)
		}
		transport.CloseIdleConnections()
	}
	if err := server.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-serving; err != http.ErrServerClosed { //nolint:errorlint // net/http returns just this one
		t.Error(err)
	}
	listener.Wait()
}
