package daemon_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// dialFrom opens a connection whose own address is this one. Linux has all of 127.0.0.0/8 on loopback.
func dialFrom(t *testing.T, own, address string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(own)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Skipf("a connection from %s: %v", own, err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// pings says whether a connection of the protocol of Redis is served.
func pings(t *testing.T, conn net.Conn) bool {
	t.Helper()
	r := newRedis(t, conn)
	if _, err := io.WriteString(r, "PING\r\n"); err != nil {
		return false
	}
	answer, err := r.read()
	return err == nil && answer == "+PONG"
}

// An address has its share of the connections on both ports together, and no header makes it another one.
func TestAnAddressCannotTakeAllConnections(t *testing.T) {
	t.Parallel()
	s := start(t, "--max-connections-per-address", "3")
	var conns []net.Conn
	for i := range 3 {
		address := []string{s.RESPAddr(), s.HTTPAddr(), s.RESPAddr()}[i]
		conns = append(conns, dialFrom(t, "127.0.0.2", address))
	}
	// A connection counts when its listener has taken it, and the two listeners take theirs apart from each other.
	_, _ = io.WriteString(conns[1], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := io.ReadFull(conns[1], make([]byte, 1)); err != nil {
		t.Fatalf("the share is not served through HTTP: %v", err)
	}
	if !pings(t, conns[0]) || !pings(t, conns[2]) {
		t.Fatal("the share is not served")
	}
	if pings(t, dialFrom(t, "127.0.0.2", s.RESPAddr())) {
		t.Error("a fourth connection of one address is served")
	}
	forged := dialFrom(t, "127.0.0.2", s.HTTPAddr())
	_, _ = io.WriteString(forged, "GET /livez HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\nConnection: close\r\n\r\n")
	if answer, err := io.ReadAll(forged); err == nil && len(answer) > 0 {
		t.Errorf("a header has made another address: %s", answer)
	}
	if !pings(t, dialFrom(t, "127.0.0.3", s.RESPAddr())) {
		t.Error("another address is not served")
	}
	conns[0].Close()
	servers.Eventually(t, func() error {
		if !pings(t, dialFrom(t, "127.0.0.2", s.RESPAddr())) {
			return fmt.Errorf("the place of a connection that has ended is not free")
		}
		return nil
	})
	_, text := s.get(t, "/metrics")
	if !strings.Contains(text, "\nsnowflaked_addresses 3\n") || // 127.0.0.1 asks for them
		strings.Contains(text, `snowflaked_address_refused_total{what="connection"} 0`) {
		t.Errorf("the metrics do not tell:\n%s", text)
	}
	checkExposition(t, text)
}

// What counts are IDs: a request for many is as dear as many requests. At ten IDs a second, no machine is so slow
// that another request for hundreds would be allowed.
func TestARateCountsIDsInAllProtocols(t *testing.T) {
	t.Parallel()
	const ask, rate = 10_000, "10"
	protocols := map[string]func(*service, string) bool{
		"Redis": func(s *service, own string) bool {
			return strings.HasPrefix(newRedis(t, dialFrom(t, own, s.RESPAddr())).do(t, "SNOWFLAKE.NEXT", fmt.Sprint(ask)), "*")
		},
		"HTTP": func(s *service, own string) bool {
			conn := newRedis(t, dialFrom(t, own, s.HTTPAddr()))
			body := fmt.Sprintf(`{"count":%d}`, ask)
			_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
				"Connection: close\r\nContent-Length: %d\r\n\r\n%s", procedure, len(body), body)
			response, err := http.ReadResponse(conn.in, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, response.Body)
			return response.StatusCode == http.StatusOK
		},
	}
	for first := range protocols {
		for then := range protocols {
			s := start(t, "--max-rate-per-address", rate)
			if !protocols[first](s, "127.0.0.2") {
				t.Errorf("%s: the first request is refused", first)
			}
			var crowd sync.WaitGroup
			for range 5 {
				crowd.Go(func() {
					if protocols[then](s, "127.0.0.2") {
						t.Errorf("%s after %s: an address has got %d IDs more", then, first, ask)
					}
				})
			}
			crowd.Wait()
			if !protocols[then](s, "127.0.0.3") {
				t.Errorf("%s: another address is refused", then)
			}
		}
	}
}

// An address has its rate in all protocols together. At one request a second, no machine is so slow that
// hundreds of them would be allowed.
func TestAnAddressCannotAskForEver(t *testing.T) {
	t.Parallel()
	s := start(t, "--max-rate-per-address", "1", "--hosts", "service")
	const sent = 300
	r := newRedis(t, dialFrom(t, "127.0.0.2", s.RESPAddr()))
	if _, err := io.WriteString(r, strings.Repeat("INCR snowflake\r\n", sent)); err != nil {
		t.Fatal(err)
	}
	var ids, refused int
	for range sent {
		answer, err := r.read()
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.HasPrefix(answer, "$"):
			ids++
		case strings.HasPrefix(answer, "-TRYAGAIN your address takes too many IDs"):
			refused++
		default:
			t.Fatal(answer)
		}
	}
	if ids == 0 || refused == 0 {
		t.Errorf("%d requests were answered, and %d refused", ids, refused)
	}
	dial := func(own string) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			return dialFrom(t, own, s.HTTPAddr()), nil //nolint:contextcheck // it has that of the test
		}
	}
	byJSON := func(own string) int {
		client := &http.Client{Transport: &http.Transport{DialContext: dial(own)}}
		defer client.CloseIdleConnections()
		response, err := client.Post("http://service"+procedure, "application/json", strings.NewReader("{}")) //nolint:noctx // local
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	byGRPC := func(own string) codes.Code {
		conn, err := grpc.NewClient("passthrough:///service", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(own)(ctx, "", "") }))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var answer snowflakev1.NextResponse
		return status.Code(conn.Invoke(t.Context(), procedure, &snowflakev1.NextRequest{}, &answer))
	}
	// The requests of one address are used up in one protocol, and missing in the others.
	servers.Eventually(t, func() error {
		r.send(t, "PING")
		if _, err := r.read(); err != nil {
			t.Fatal(err)
		}
		if code := byJSON("127.0.0.2"); code != http.StatusServiceUnavailable {
			return fmt.Errorf("HTTP: %d", code)
		}
		return nil
	})
	servers.Eventually(t, func() error {
		byJSON("127.0.0.2")
		if code := byGRPC("127.0.0.2"); code != codes.Unavailable {
			return fmt.Errorf("gRPC: %v", code)
		}
		return nil
	})
	if code := byJSON("127.0.0.3"); code != http.StatusOK {
		t.Errorf("another address over HTTP: %d", code)
	}
	if code := byGRPC("127.0.0.4"); code != codes.OK {
		t.Errorf("another address over gRPC: %v", code)
	}
	if code, _ := s.get(t, "/readyz"); code != http.StatusOK {
		t.Errorf("a probe: %d", code)
	}
	if _, text := s.get(t, "/metrics"); strings.Contains(text, `snowflaked_address_refused_total{what="request"} 0`) {
		t.Errorf("the metrics do not tell:\n%s", text)
	}
}
