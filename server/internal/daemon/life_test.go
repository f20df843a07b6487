package daemon_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

func tokenFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("# clients\nshop "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDuringTheDelayTheServiceAnswersButIsNotReady(t *testing.T) {
	t.Parallel()
	s := start(t, "--drain-delay", "1h")
	s.stop()
	servers.Eventually(t, func() error {
		if code, text := s.get(t, "/readyz"); code != http.StatusServiceUnavailable {
			return fmt.Errorf("/readyz: %d %s", code, text)
		}
		return nil
	})
	if code, _ := s.get(t, "/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
	if code, answer := s.post(t, "Next", `{}`); code != http.StatusOK {
		t.Errorf("Next: %d %s", code, answer)
	}
	s.Hurry()
}

// A process that was stopped while it held the write lock lets a new replica wait, which is safe. The log has to
// say for what.
func TestAServiceThatWaitsForAnSQLiteFileNamesIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leases.db")
	holder, err := sql.Open("sqlite3", "file:"+file+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	lock, err := holder.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, "--dsn", "sqlite:"+file)
	servers.Eventually(t, func() error {
		if log := s.log.String(); !strings.Contains(log, "has not answered yet") || !strings.Contains(log, file) {
			return errors.New("the log does not say that the service waits for the file")
		}
		return nil
	})
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	servers.Eventually(t, func() error {
		if ready, why := s.Ready(); !ready {
			return errors.New(why)
		}
		return nil
	})
}

// A start that precedes the database is no failure: the service waits for it, and says so.
func TestTheServiceWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	port := servers.Reserve(t) // nobody listens
	s := begin(t, "--dsn", "postgres://nobody:secret-password@127.0.0.1:"+port+"/none?sslmode=disable")
	servers.Eventually(t, func() error {
		if !strings.Contains(s.log.String(), "trying again") {
			return errors.New("the log says nothing yet")
		}
		return nil
	})
	if code, text := s.get(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "no node number") {
		t.Errorf("/readyz: %d %s", code, text)
	}
	if code, _ := s.get(t, "/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
	if code, answer := s.post(t, "Next", `{}`); code != http.StatusServiceUnavailable ||
		!strings.Contains(answer, `"unavailable"`) || strings.Contains(answer, port) {
		t.Errorf("Next: %d %s", code, answer)
	}
	if got := s.redis(t).do(t, "INCR", "snowflake"); !strings.HasPrefix(got, "-TRYAGAIN ") {
		t.Errorf("INCR: %s", got)
	}
	if err := s.end(); err != nil {
		t.Errorf("the end: %v", err)
	}
	if strings.Contains(s.log.String(), "secret-password") {
		t.Error("the log has the password of the DSN")
	}
}

// A table that cannot hold leases does not heal by itself, so an operator has to see that the service ends.
func TestATableThatHoldsNoLeasesEndsTheService(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases.db")
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "CREATE TABLE snowflake_nodes (something text)")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s := begin(t, "--dsn", "sqlite:"+path)
	select {
	case <-s.done:
	case <-time.After(servers.Patience):
		t.Fatal("the service goes on")
	}
	if !errors.Is(s.err, sqllease.ErrTable) {
		t.Errorf("the service ended with %v", s.err)
	}
}

// An emptied table has forgotten which numbers the other replicas hold.
func TestATableThatWasEmptiedEndsTheServiceThatStarts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases.db")
	start(t, "--dsn", "sqlite:"+path)
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "DELETE FROM snowflake_nodes")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s := begin(t, "--dsn", "sqlite:"+path)
	select {
	case <-s.done:
	case <-time.After(servers.Patience):
		t.Fatal("the service goes on")
	}
	if s.err == nil || !strings.Contains(s.err.Error(), "was dropped or emptied") {
		t.Errorf("the service ended with %v", s.err)
	}
}

// The database is cut off: the service says that it is not ready when its lease has ended, makes no ID then, and
// heals by itself.
func TestAnOutageOfTheDatabaseHealsByItself(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(dbtest.Named("postgres").DSN(t))
	if err != nil || u.Host == "" {
		t.Skip("the DSN of PostgreSQL is no URL with a host")
	}
	relay := servers.NewRelay(t, u.Host)
	u.Host = relay.Addr()
	s := start(t, "--dsn", u.String(), "--span", "300ms")
	relay.Split()
	servers.Eventually(t, func() error {
		if code, text := s.get(t, "/readyz"); code != http.StatusServiceUnavailable {
			return fmt.Errorf("/readyz: %d %s", code, text)
		}
		return nil
	})
	if code, answer := s.post(t, "Next", `{}`); code != http.StatusServiceUnavailable || !strings.Contains(answer, `"unavailable"`) {
		t.Errorf("without a lease: %d %s", code, answer)
	}
	relay.Mend()
	relay.Cut()
	servers.Eventually(t, func() error {
		if code, answer := s.post(t, "Next", `{}`); code != http.StatusOK {
			return fmt.Errorf("the service does not heal: %d %s", code, answer)
		}
		return nil
	})
}

// Idle connections cannot keep clients out, and a command that does not end ends its connection.
func TestIdleAndSlowConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	s := start(t, "--max-connections", "20", "--max-time", "300ms")
	for range 60 {
		var dialer net.Dialer
		for _, address := range []string{s.HTTPAddr(), s.RESPAddr()} {
			conn, err := dialer.DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
		}
	}
	// While the listeners still accept that many, even a new connection may give way, and on a slow machine
	// a request may take longer than it is allowed to.
	servers.Eventually(t, func() error {
		r := s.redis(t)
		if _, err := io.WriteString(r, "PING\r\n"); err != nil {
			return err
		}
		got, err := r.read()
		if err == nil && got != "+PONG" {
			err = errors.New(got)
		}
		return err
	})
	servers.Eventually(t, func() error {
		address := "http://" + s.HTTPAddr() + "/snowflake.v1.IDService/Next"
		defer http.DefaultClient.CloseIdleConnections()
		answer, err := http.Post(address, "application/json", strings.NewReader(`{}`)) //nolint:noctx // it is local
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
	slow := s.redis(t)
	if _, err := io.WriteString(slow, "*2\r\n$4\r\nIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a command that does not end: %v, want the end of the connection", err)
	}
	var dialer net.Dialer
	half, err := dialer.DialContext(t.Context(), "tcp", s.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	_, err = io.WriteString(half, "POST /snowflake.v1.IDService/Next HTTP/1.1\r\nHost: 127.0.0.1\r\n"+
		"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	if err != nil {
		t.Fatal(err)
	}
	if err := half.SetReadDeadline(time.Now().Add(servers.Patience)); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(half); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a body that does not end keeps its connection: %q", answer)
	}
}

// Many clients on both protocols, and a second service on the same leases: no ID comes twice.
func TestNoIDComesTwice(t *testing.T) {
	t.Parallel()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "leases.db")
	replicas := []*service{start(t, "--dsn", dsn), start(t, "--dsn", dsn)}
	var mu sync.Mutex
	seen := map[int64]bool{}
	var twice atomic.Int64
	rounds := nightly.Pick(15, 50)
	note := func(ids ...int64) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			if seen[id] {
				twice.Add(1)
			}
			seen[id] = true
		}
	}
	var clients sync.WaitGroup
	for i := range 8 {
		s := replicas[i%2]
		r := s.redis(t)
		clients.Go(func() {
			for range rounds {
				var id int64
				if _, err := fmt.Sscanf(r.do(t, "INCR", "snowflake"), "$%d", &id); err != nil {
					t.Error(err)
				}
				_, answer := s.post(t, "Next", `{"count":100}`)
				note(append(texts(t, answer), id)...)
			}
		})
	}
	clients.Wait()
	if len(seen) != 8*rounds*101 || twice.Load() != 0 {
		t.Errorf("%d different IDs, want %d; %d came twice", len(seen), 8*rounds*101, twice.Load())
	}
}

func TestTokensAreReplacedWithoutARestart(t *testing.T) {
	t.Parallel()
	path := tokenFile(t)
	s := start(t, "--token-file", path)
	const newer = "another-token-of-24-chars"
	ask := func(token string) int {
		code, _ := s.post(t, "Next", `{}`, "Authorization", "Bearer "+token)
		return code
	}
	if err := os.WriteFile(path, []byte("shop "+newer+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ask(newer) != http.StatusUnauthorized {
		t.Error("the new token is valid before the file was read again")
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if ask(newer) != http.StatusOK || ask(token) != http.StatusUnauthorized {
		t.Error("the new token is not valid, or the old one still is")
	}
	if err := os.WriteFile(path, []byte("a line that is wrong "+newer+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil || strings.Contains(err.Error(), newer) {
		t.Errorf("a wrong file: %v", err)
	}
	if ask(newer) != http.StatusOK {
		t.Error("a wrong file has taken away the tokens that were valid")
	}
}
