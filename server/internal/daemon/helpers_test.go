package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/daemon"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/settings"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// service is a running daemon.
type service struct {
	*daemon.Daemon

	log  *lockedBuffer
	stop context.CancelFunc // begins the end
	done chan struct{}
	err  error // of Run, when done is closed
}

// lockedBuffer collects a log.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Reset forgets what was logged.
func (b *lockedBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

// start starts a service on free ports, with leases in an SQLite file of its own unless the arguments say
// otherwise, and waits until it is ready.
func start(t testing.TB, args ...string) *service {
	t.Helper()
	s := begin(t, args...)
	servers.Eventually(t, func() error {
		if ready, why := s.Ready(); !ready {
			return errors.New(why)
		}
		return nil
	})
	return s
}

// begin is start without the wait.
func begin(t testing.TB, args ...string) *service {
	t.Helper()
	all := []string{"--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--log-level", "debug",
		"--max-time", "1m", "--drain", "1m"} // so that no slow machine decides a test
	if !strings.Contains(strings.Join(args, " "), "--dsn") {
		all = append(all, "--dsn", "sqlite:"+filepath.Join(t.TempDir(), "leases.db"))
	}
	loaded, err := settings.Load(append(all, args...), nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{log: &lockedBuffer{}, done: make(chan struct{})}
	log := slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if s.Daemon, err = daemon.Start(loaded, log); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go func() {
		defer close(s.done)
		s.err = s.Run(ctx)
	}()
	t.Cleanup(func() {
		_ = s.end()
		if t.Failed() {
			t.Logf("the log:\n%s", s.log)
		}
	})
	return s
}

// end ends the service and returns the error of Run.
func (s *service) end() error {
	s.stop()
	<-s.done
	return s.err
}

// post sends JSON to a method of the service.
func (s *service) post(t testing.TB, method, body string, header ...string) (status int, answer string) {
	t.Helper()
	return s.request(t, http.MethodPost, "/snowflake.v1.IDService/"+method, body, header...)
}

func (s *service) get(t testing.TB, path string, header ...string) (status int, answer string) {
	t.Helper()
	return s.request(t, http.MethodGet, path, "", header...)
}

func (s *service) request(t testing.TB, method, path, body string, header ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// redis is a connection that speaks the protocol of Redis. It shares no code with the service.
type redis struct {
	net.Conn

	in *bufio.Reader
}

func (s *service) redis(t *testing.T) *redis {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", s.RESPAddr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return newRedis(t, conn)
}

func newRedis(t *testing.T, conn net.Conn) *redis {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(servers.Patience)); err != nil {
		t.Fatal(err)
	}
	return &redis{conn, bufio.NewReader(conn)}
}

// do sends a command of words and returns the answer in a compact form.
func (r *redis) do(t *testing.T, words ...string) string {
	t.Helper()
	r.send(t, words...)
	answer, err := r.read()
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return answer
}

func (r *redis) send(t *testing.T, words ...string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(r, b.String()); err != nil {
		t.Fatal(err)
	}
}

// read returns an answer: a text with its mark, or the elements of an array with blanks between them.
func (r *redis) read() (string, error) {
	line, err := r.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	switch line[0] {
	case '+', '-', ':', '_':
		return line, nil
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil {
			return "", err
		}
		if n < 0 {
			return "$nil", nil
		}
		text := make([]byte, n+2)
		_, err = io.ReadFull(r.in, text)
		return "$" + string(text[:n]), err
	case '*', '%':
		n, err := strconv.Atoi(line[1:])
		if err != nil {
			return "", err
		}
		if n < 0 {
			return "*nil", nil
		}
		if line[0] == '%' {
			n *= 2
		}
		var all []string
		for range n {
			one, err := r.read()
			if err != nil {
				return "", err
			}
			all = append(all, one)
		}
		return line[:1] + strings.Join(all, " "), nil
	}
	return "", fmt.Errorf("%q is no answer", line)
}
