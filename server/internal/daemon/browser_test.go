package daemon_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
)

// A page can let a browser send nearly any text to any port. On the port of Redis, no line of it becomes a
// command.
func TestABrowserCannotSpeakToThePortOfRedis(t *testing.T) {
	t.Parallel()
	s := start(t)
	const order = "INCR snowflake\r\nSNOWFLAKE.NEXT 10000\r\n*2\r\n$4\r\nINCR\r\n$9\r\nsnowflake\r\n"
	request := func(first string) string {
		return first + "\r\nHost: 127.0.0.1:7071\r\nOrigin: https://hostile-page.example\r\nContent-Type: text/plain\r\n" +
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(order), order)
	}
	strayed := 0
	for name, c := range map[string]struct {
		text    string
		strayed bool // else it is no command at all
	}{
		"a form":                     {request("POST / HTTP/1.1"), true},
		"a picture":                  {request("GET /?a=INCR HTTP/1.1"), true},
		"a question before":          {request("OPTIONS / HTTP/1.1"), true},
		"a request of another tool":  {request("PUT / HTTP/1.1"), true},
		"small letters":              {request("post / http/1.1"), true},
		"blanks before":              {request("  POST / HTTP/1.1"), true},
		"empty lines before":         {request("\r\n\r\nPOST / HTTP/1.1"), true},
		"a header first":             {"Host: 127.0.0.1\r\n" + order, true},
		"any header first":           {"X-Anything: 127.0.0.1\r\n" + order, true},
		"the form of commands":       {"*2\r\n$4\r\nPOST\r\n$1\r\n/\r\n" + order, true},
		"GET as a command":           {"*2\r\n$3\r\nGET\r\n$1\r\na\r\n" + order, true},
		"HTTP/2":                     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + order, true},
		"TLS with a ticket of lines": {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n" + order, false},
	} {
		r := s.redis(t)
		if _, err := io.WriteString(r, c.text); err != nil {
			t.Fatal(err)
		}
		// There is an error at most, and then the end. If the service has not read all, that is a reset.
		answer, err := r.in.ReadString('\n')
		if err == nil && answer[0] == '-' {
			var more string
			more, err = r.in.ReadString('\n')
			answer += more
		}
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the answer is %.200q, and then %v", name, answer, err)
		}
		if c.strayed {
			strayed++
		}
	}
	_, text := s.get(t, "/metrics")
	if strings.Contains(text, "snowflake_server_ids_total{") {
		t.Errorf("IDs were made: %s", text)
	}
	if !strings.Contains(text, fmt.Sprintf("_count{code=\"strayed\",protocol=\"resp\"} %d\n", strayed)) {
		t.Errorf("the metrics do not count %d connections:\n%s", strayed, text)
	}
	checkExposition(t, text)
	log := s.log.String()
	if !strings.Contains(log, "spoke HTTP") || !strings.Contains(log, `"client":"127.0.0.1:`) || strings.Contains(log, "hostile-page") {
		t.Errorf("the log is\n%s", log)
	}
	if got := s.redis(t).do(t, "PING"); got != "+PONG" {
		t.Errorf("afterwards: %s", got)
	}
}

// The page of a stranger can let its name lead to this machine. Whoever asks for that name gets nothing.
func TestWithoutAuthenticationOnlyKnownNamesAreAnswered(t *testing.T) {
	t.Parallel()
	plain := start(t)
	listed := start(t, "--hosts", "ids.example, 10.1.2.3,[2001:db8::1]")
	every := start(t, "--hosts", "*")
	known := start(t, "--token-file", tokenFile(t))
	ask := func(s *service, method, path, host string, header ...string) int {
		t.Helper()
		body := ""
		if method == http.MethodPost {
			body = "{}"
		}
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.HTTPAddr()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		request.Close = true // so that no idle connection holds up the end
		request.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	const no, yes = http.StatusForbidden, http.StatusOK
	for host, want := range map[string]struct{ plain, listed int }{
		"localhost": {yes, yes}, "LocalHost:7070": {yes, yes}, "localhost.": {yes, yes}, "127.0.0.1": {yes, yes},
		"127.8.8.8:1": {yes, yes}, "[::1]:7070": {yes, yes}, "[::1]": {yes, yes}, "[::ffff:127.0.0.1]": {yes, yes},
		"evil.example": {no, no}, "evil.example:7070": {no, no}, "localhost.evil.example": {no, no},
		"127.0.0.1.evil.example": {no, no}, "evil.example:127.0.0.1": {no, no}, "0.0.0.0": {no, no}, "10.0.0.1": {no, no},
		"ids.example": {no, yes}, "IDS.example:80": {no, yes}, "a.ids.example": {no, no}, "10.1.2.3:7070": {no, yes},
		"[2001:db8::1]:7070": {no, yes}, "127.1": {no, no}, "2130706433": {no, no}, "xlocalhost": {no, no},
	} {
		for _, path := range []string{"POST " + procedure, "GET /metrics"} {
			method, path, _ := strings.Cut(path, " ")
			if got := ask(plain, method, path, host); got != want.plain {
				t.Errorf("%s of %s: %d, want %d", path, host, got, want.plain)
			}
			if got := ask(listed, method, path, host); got != want.listed {
				t.Errorf("%s of %s, with hosts: %d, want %d", path, host, got, want.listed)
			}
		}
	}
	const evil = "evil.example"
	if got := ask(plain, http.MethodPost, procedure, evil, "X-Forwarded-Host", "localhost", "Forwarded", "host=localhost"); got != no {
		t.Errorf("a header has made another host: %d", got)
	}
	for _, path := range []string{"/livez", "/readyz"} { // load balancers ask by addresses
		if got := ask(plain, http.MethodGet, path, evil); got != yes {
			t.Errorf("%s: %d", path, got)
		}
	}
	if got := ask(every, http.MethodPost, procedure, evil); got != yes {
		t.Errorf("with all hosts: %d", got)
	}
	if got := ask(known, http.MethodPost, procedure, evil, "Authorization", "Bearer "+token); got != yes {
		t.Errorf("with a token: %d", got)
	}
	if got := ask(known, http.MethodPost, procedure, evil); got != http.StatusUnauthorized {
		t.Errorf("without its token: %d", got)
	}
	conn, err := grpc.NewClient(plain.HTTPAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(evil))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = conn.Invoke(t.Context(), procedure, &snowflakev1.NextRequest{}, &snowflakev1.NextResponse{})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("gRPC: %v", err)
	}
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("the health over gRPC: %v", err)
	}
	if _, text := plain.get(t, "/metrics"); !strings.Contains(text, `{code="permission_denied",protocol="http"`) {
		t.Errorf("the metrics do not tell:\n%s", text)
	}
}
