package daemon_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// tally counts what the clients of a service that ends have seen.
type tally struct {
	answered, lost atomic.Int64
	said           sync.Map // of the losses
}

func (c *tally) lose(who string, err error) {
	c.lost.Add(1)
	c.said.Store(fmt.Sprint(who, ": ", err), true)
}

// overHTTP asks on one connection after the other, as long as the service takes connections. It leaves a
// connection when it is told to. A request on a connection that was accepted has to be answered. A listener
// that is closed resets a connection that the kernel makes at the same moment, before any answer on it.
func (c *tally) overHTTP(t *testing.T, s *service) {
	for {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.HTTPAddr())
		if err != nil {
			return
		}
		in := bufio.NewReader(conn)
		for told, first := false, true; !told; first = false {
			_, err := io.WriteString(conn, "POST "+procedure+" HTTP/1.1\r\nHost: localhost\r\n"+
				"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
			var response *http.Response
			if err == nil {
				response, err = http.ReadResponse(in, nil)
			}
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
			if err == nil && response.StatusCode != http.StatusOK {
				err = errors.New(response.Status)
			}
			if err != nil {
				if ready, _ := s.Ready(); ready || !first || !isReset(err) {
					c.lose("HTTP/1", err)
				}
				conn.Close()
				return
			}
			c.answered.Add(1)
			told = response.Close
		}
		conn.Close()
	}
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// overRESP sends a few commands at once, until the service closes the connection between the answers to them.
func (c *tally) overRESP(s *service, r *redis) {
	defer r.Close()
	const together = 5
	for {
		_, err := io.WriteString(r, strings.Repeat("INCR snowflake\r\n", together))
		for i := 0; err == nil && i < together; i++ {
			var answer string
			if answer, err = r.read(); errors.Is(err, io.EOF) && i == 0 {
				if ready, _ := s.Ready(); !ready {
					return
				}
			}
			if err == nil && !strings.HasPrefix(answer, "$") {
				err = errors.New(answer)
			}
			c.answered.Add(1)
		}
		if err != nil {
			c.lose("Redis", err)
			return
		}
	}
}

// overGRPC asks until nobody listens any more. The client repeats what GOAWAY says was not worked on.
func (c *tally) overGRPC(t *testing.T, conn *grpc.ClientConn) {
	for {
		err := conn.Invoke(t.Context(), procedure, &snowflakev1.NextRequest{}, &snowflakev1.NextResponse{})
		if err == nil {
			c.answered.Add(1)
			continue
		}
		// Nothing was sent yet: the port is closed, or was while the client waited to be accepted.
		if !strings.Contains(err.Error(), "Error while dialing") {
			c.lose("gRPC", err)
		}
		return
	}
}

// Clients of all protocols ask without a pause when the service is told to end. All that is sent on a
// connection is answered, and the node number is free at once.
func TestTheEndLosesNoRequest(t *testing.T) {
	t.Parallel()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "leases.db")
	// The part of drain for which a connection has to be idle is so long that no machine is too slow for it.
	s := start(t, "--dsn", dsn, "--nodes", "5", "--drain", "3m")
	var c tally
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() { c.overHTTP(t, s) })
		r := s.redis(t)
		clients.Go(func() { c.overRESP(s, r) })
	}
	conn, err := grpc.NewClient(s.HTTPAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 4 {
		clients.Go(func() { c.overGRPC(t, conn) })
	}
	servers.Eventually(t, func() error {
		if n := c.answered.Load(); n < 500 {
			return fmt.Errorf("%d requests are answered", n)
		}
		return nil
	})
	s.stop()
	clients.Wait()
	if err := s.end(); err != nil {
		t.Errorf("the end: %v", err)
	}
	if c.lost.Load() != 0 {
		c.said.Range(func(what, _ any) bool {
			t.Error(what)
			return true
		})
		t.Errorf("%d requests were lost, and %d answered", c.lost.Load(), c.answered.Load())
	}
	if !strings.Contains(s.log.String(), "node given back") {
		t.Error("the number was not given back")
	}
	// The same single number is leased again at once. A number that is held would have to be waited for.
	start(t, "--dsn", dsn, "--nodes", "5")
}

// A connection that is idle when the end begins is not closed under the next request: it gets its answer, and is
// told to leave.
func TestAnIdleConnectionMayStillAskAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"in the delay": {"--drain", "10m", "--drain-delay", "1h"}, "after it": {"--drain", "10m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, args...)
			dial := func(address string) *redis {
				t.Helper()
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				return newRedis(t, conn)
			}
			ask := func(conn *redis) (*http.Response, error) {
				_, err := io.WriteString(conn, "POST "+procedure+" HTTP/1.1\r\nHost: localhost\r\n"+
					"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
				if err != nil {
					return nil, err
				}
				response, err := http.ReadResponse(conn.in, nil)
				if err == nil {
					_, err = io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
				return response, err
			}
			used, fresh, over := dial(s.HTTPAddr()), dial(s.HTTPAddr()), s.redis(t)
			if response, err := ask(used); err != nil || response.StatusCode != http.StatusOK || response.Close {
				t.Fatalf("before the end: %v, %v", response, err)
			}
			over.do(t, "PING")
			s.stop()
			servers.Eventually(t, func() error {
				if ready, _ := s.Ready(); ready || name == "after it" && !strings.Contains(s.log.String(), "ending when all") {
					return errors.New("the end has not begun")
				}
				return nil
			})
			for which, conn := range map[string]*redis{"used": used, "fresh": fresh} {
				response, err := ask(conn)
				if err != nil || response.StatusCode != http.StatusOK || !response.Close {
					t.Errorf("a connection that is %s: %v, %v", which, response, err)
					continue
				}
				if _, err := conn.in.ReadByte(); !errors.Is(err, io.EOF) {
					t.Errorf("a connection that is %s is not closed after its answer: %v", which, err)
				}
			}
			s.Hurry()
			for got, err := "$", error(nil); !errors.Is(err, io.EOF); got, err = over.read() {
				if err != nil || !strings.HasPrefix(got, "$") {
					t.Fatalf("on a connection that is used at the end: %s, %v", got, err)
				}
				over.send(t, "INCR", "snowflake")
			}
			over.Close() // it leaves
			if err := s.end(); err != nil {
				t.Errorf("the end: %v", err)
			}
		})
	}
}

// A client that stays although it sees the end of the connection holds the end of the service up only for a part
// of drain. That is no failure, because all its commands were answered.
func TestAClientThatStaysDoesNotKeepTheServiceFromItsEnd(t *testing.T) {
	t.Parallel()
	s := start(t, "--drain", "200ms")
	r := s.redis(t)
	r.do(t, "PING")
	s.stop()
	for {
		_, err := io.WriteString(r, "INCR snowflake\r\n")
		if err == nil {
			_, err = r.read()
		}
		if err != nil {
			break // from now on it is silent
		}
	}
	if err := s.end(); err != nil {
		t.Errorf("the end: %v", err)
	}
}
