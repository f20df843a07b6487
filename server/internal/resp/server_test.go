package resp_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/resp"
)

// counter is a source that counts.
type counter struct{ last atomic.Int64 }

func (c *counter) Fill(_ context.Context, ids []int64) error {
	for i := range ids {
		ids[i] = c.last.Add(1)
	}
	return nil
}

// one is a listener of a single connection.
type one struct {
	net.Listener

	conns chan net.Conn
}

func (o one) Accept() (net.Conn, error) {
	if conn, ok := <-o.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

// told is a connection that tells when it is closed. It has no deadlines, because setting one tells on a pipe that
// the other end is closed, which no socket does.
type told struct {
	net.Conn

	closed chan struct{}
	once   sync.Once
}

func (c *told) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *told) SetReadDeadline(time.Time) error  { return nil }
func (c *told) SetWriteDeadline(time.Time) error { return nil }

// A client sends many commands and goes. On a pipe, every write fails from then on, so not even the second
// command is worked on, though hundreds of them have been read.
func TestASessionEndsWhenItsClientHasGone(t *testing.T) {
	t.Parallel()
	const count = 10_000
	source := &counter{}
	log := slog.New(slog.DiscardHandler)
	desk := issue.New(map[string]issue.Source{issue.DefaultSource: source}, count, time.Minute, metrics.New(), log)
	server := resp.New(resp.Options{
		Desk: desk, Metrics: metrics.New(), Log: log, Idle: time.Minute, Greeting: time.Minute, Slow: time.Minute,
	})
	inner, client := net.Pipe()
	conns := make(chan net.Conn, 1)
	ended := &told{Conn: inner, closed: make(chan struct{})}
	conns <- ended
	close(conns)
	go func() { // one read of the service takes 4 KiB of it
		_, _ = io.WriteString(client, strings.Repeat("SNOWFLAKE.NEXT 10000\r\n", 180))
		_ = client.Close()
	}()
	if err := server.Serve(one{conns: conns}); err != nil {
		t.Fatal(err)
	}
	<-ended.closed
	if err := server.Shutdown(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if made := source.last.Load(); made != count {
		t.Errorf("%d IDs were made for a client that has gone, want those of the one command that was being answered", made)
	}
}
