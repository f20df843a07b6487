package load_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// bound is how much memory the service may have used at most after an attack, in MiB.
const bound = 512

// attacker is a client of HTTP/2 that keeps to no rule.
type attacker struct {
	net.Conn

	framer *http2.Framer
	block  []byte // of the headers of a request for IDs over gRPC
}

func newAttacker(t *testing.T, address string, settings ...http2.Setting) *attacker {
	t.Helper()
	conn, err := dial(t, address)
	if err != nil {
		t.Fatal(err)
	}
	a := &attacker{Conn: conn, framer: http2.NewFramer(conn, bufio.NewReader(conn))}
	if err := conn.SetDeadline(time.Now().Add(servers.Patience)); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err = errors.Join(err, a.framer.WriteSettings(settings...)); err != nil {
		t.Fatal(err)
	}
	a.block = headers(t, ":method", "POST", ":scheme", "http", ":path", "/snowflake.v1.IDService/Next", ":authority", "127.0.0.1",
		"content-type", "application/grpc", "te", "trailers")
	return a
}

// headers are written so that they can be sent any number of times.
func headers(t *testing.T, pairs ...string) []byte {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(pairs); i += 2 {
		field := hpack.HeaderField{Name: pairs[i], Value: pairs[i+1], Sensitive: true} // which is not indexed
		if err := encoder.WriteField(field); err != nil {
			t.Fatal(err)
		}
	}
	return block.Bytes()
}

// drain reads frames until the connection ends or one of a kind comes.
func (a *attacker) drain(kind http2.FrameType) error {
	for {
		frame, err := a.framer.ReadFrame()
		if err != nil || frame.Header().Type == kind {
			return err
		}
	}
}

// serves waits until the service gives IDs to somebody else, and checks what it has used and logged.
func (r *replica) serves(attack string) {
	r.t.Helper()
	servers.Eventually(r.t, func() error {
		one, err := overJSON(r.t, r.http)()
		if err != nil {
			return err
		}
		ids, err := one(nil, 1)
		if err == nil && len(ids) != 1 {
			err = fmt.Errorf("%d IDs", len(ids))
		}
		return err
	})
	used := memory(r.command.Process.Pid)
	r.t.Logf("%s: memory at most %d MiB", attack, used)
	if used > bound {
		r.t.Errorf("%s: the service has used %d MiB, want at most %d", attack, used, bound)
	}
	log, err := os.ReadFile(r.log)
	if err != nil || strings.Contains(string(log), "panic") {
		r.t.Errorf("%s: the log has a panic: %v\n%s", attack, err, log)
	}
}

// connections returns how many connections the service has, without the one that asks.
func (r *replica) connections() (int, error) {
	response, err := http.Get("http://" + r.http + "/metrics") //nolint:noctx // it is local
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	all := -1
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "snowflake_server_connections{"); ok {
			_, number, _ := strings.Cut(strings.TrimSpace(rest), " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				return 0, err
			}
			all += n
		}
	}
	if all < 0 {
		return 0, errors.New("the metrics do not say how many connections there are")
	}
	return all, nil
}

// Requests that are taken back at once fill nothing.
func TestRapidResetsNeitherStopNorFillTheService(t *testing.T) {
	t.Parallel()
	_, long := length(t)
	streams := 2_000
	if long {
		streams = 200_000
	}
	r := newReplica(t, postgres(t))
	var attacks sync.WaitGroup
	var mu sync.Mutex
	sent := 0
	for i := range 4 {
		attacks.Go(func() {
			a := newAttacker(t, r.http)
			go func() { _ = a.drain(http2.FrameGoAway) }()
			out := bufio.NewWriterSize(a, 16<<10)
			framer := http2.NewFramer(out, nil)
			n := 0
			for ; n < streams; n++ {
				stream := uint32(2*n + 1)
				// Half of them are whole requests, and half have a body that never comes.
				err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: a.block, EndHeaders: true})
				if i%2 == 0 {
					err = errors.Join(err, framer.WriteData(stream, true, []byte{0, 0, 0, 0, 2, 8, 1}))
				}
				if err = errors.Join(err, framer.WriteRSTStream(stream, http2.ErrCodeCancel)); err != nil {
					break
				}
			}
			_ = out.Flush()
			mu.Lock()
			defer mu.Unlock()
			sent += n
		})
	}
	r.serves("during rapid resets")
	attacks.Wait()
	if sent == 0 {
		t.Error("no request was sent")
	}
	r.serves(fmt.Sprintf("%d requests, each reset at once", sent))
}

// Headers that are too large or do not end get an answer or the end of their connection.
func TestHugeHeadersAreRefused(t *testing.T) {
	t.Parallel()
	length(t)
	r := newReplica(t, postgres(t))
	long := strings.Repeat("x", 1<<20)
	for name, text := range map[string]string{
		"a header of 1 MiB":  "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + long + "\r\n\r\n",
		"a path of 1 MiB":    "GET /" + long + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"65,536 headers":     "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n" + strings.Repeat("X: y\r\n", 1<<16) + "\r\n",
		"a line without end": long,
	} {
		conn, err := dial(t, r.http)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(servers.Patience)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text) // the service may have ended the connection before
		answer, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(string(answer), " 200 ") {
			t.Errorf("%s: %v, %.60q", name, err, answer)
		}
	}
	large := newAttacker(t, r.http)
	block := headers(t, ":method", "GET", ":scheme", "http", ":path", "/livez", ":authority", "127.0.0.1", "x", long[:48<<10])
	err := large.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:8<<10]})
	for rest := block[8<<10:]; len(rest) > 0; {
		n := min(len(rest), 8<<10)
		err = errors.Join(err, large.framer.WriteContinuation(1, n == len(rest), rest[:n]))
		rest = rest[n:]
	}
	if err != nil {
		t.Fatal(err)
	}
	var status string
	large.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for status == "" {
		frame, err := large.framer.ReadFrame()
		if err != nil {
			break // the end of the connection will do as well
		}
		if f, ok := frame.(*http2.MetaHeadersFrame); ok {
			status = f.PseudoValue("status")
		}
	}
	if status != "" && status != "431" {
		t.Errorf("headers of 48 KiB over HTTP/2: %s", status)
	}
	// CONTINUATION frames without end.
	endless := newAttacker(t, r.http)
	ended := make(chan error, 1)
	go func() { ended <- endless.drain(http2.FrameGoAway) }()
	err = endless.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: endless.block})
	part := headers(t, "x", long[:8<<10])
	n := 0
	for ; err == nil && n < 1<<14; n++ {
		err = endless.framer.WriteContinuation(1, false, part)
	}
	if err := <-ended; errors.Is(err, os.ErrDeadlineExceeded) || n == 1<<14 {
		t.Errorf("after %d CONTINUATION frames: %v", n, err)
	}
	r.serves(fmt.Sprintf("huge headers, and %d CONTINUATION frames", n))
}

// Whoever sends slowly or does not take the answer loses the connection, or the request.
func TestSlowClientsKeepNothing(t *testing.T) {
	t.Parallel()
	length(t)
	r := newReplica(t, postgres(t), "--max-time", "300ms")
	post := func(length int, body string) string {
		return fmt.Sprintf("POST /snowflake.v1.IDService/Next HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", length, body)
	}
	many := `{"count":10000}`
	for _, text := range []string{
		"POST /snowf", "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", post(100, `{"count":`), post(100, ""),
		strings.Repeat(post(len(many), many), 200), // their answers are not read
	} {
		conn, err := dial(t, r.http)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text)
	}
	unread, err := dial(t, r.resp)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(unread, strings.Repeat("SNOWFLAKE.NEXT 10000\r\n", 2000)) }()
	// HTTP/2: a body that does not end, and an answer for which there is no room.
	slow := newAttacker(t, r.http)
	if err := slow.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: slow.block, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if err := slow.framer.WriteData(1, false, []byte{0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if err := slow.drain(http2.FrameRSTStream); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a body that does not end keeps its request")
	}
	full := newAttacker(t, r.http, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	if err := full.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: full.block, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if err := full.framer.WriteData(1, true, []byte{0, 0, 0, 0, 3, 8, 0x90, 0x4e}); err != nil {
		t.Fatal(err)
	}
	if err := full.drain(http2.FrameRSTStream); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("an answer that is not taken keeps its request")
	}
	slow.Close()
	full.Close()
	servers.Eventually(t, func() error {
		n, err := r.connections()
		if err == nil && n > 0 {
			err = fmt.Errorf("there are %d connections", n)
		}
		return err
	})
	r.serves("slow clients")
}

// Ten thousand clients that have asked once and may stay: the memory of each is printed.
func TestIdleConnectionsTakeLittle(t *testing.T) {
	t.Parallel()
	_, long := length(t)
	idle := 200
	if long {
		idle = 10_000
	}
	r := newReplica(t, postgres(t), "--max-connections", strconv.Itoa(idle+50))
	before := memory(r.command.Process.Pid)
	overHTTP, overRESP := overJSON(t, r.http), overRESP(t, r.resp, "INCR snowflake", "")
	for i := range idle {
		one, err := []maker{overHTTP, overRESP}[i%2]()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := one(nil, 1); err != nil {
			t.Fatal(err)
		}
	}
	n, err := r.connections()
	if err != nil || n != idle {
		t.Errorf("%d of %d connections are there: %v", n, idle, err)
	}
	after := memory(r.command.Process.Pid)
	t.Logf("%d idle connections that have asked once: memory at most %d MiB, %d MiB before, %d KiB each", idle, after,
		before, (after-before)<<10/idle)
	r.serves("idle connections")
}
