package daemon_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// FuzzBodies sends bodies of every kind to every method. Whatever they are, the service answers with IDs or
// with a typed error that blames the client, and says nothing of its own faults because it has none.
func FuzzBodies(f *testing.F) {
	methods := []string{"Next", "Decompose", "Range", "Nothing", "", "../Next", "Next/"}
	kinds := []string{
		"application/json", "application/proto", "application/grpc", "application/grpc-web+proto",
		"application/connect+json", "text/plain", "",
	}
	for i, body := range []string{
		`{}`, ``, `null`, `[]`, `{"count":1}`, `{"count":-1}`, `{"count":9223372036854775808}`, `{"count":"2"}`,
		`{"count":1e3}`, `{"count":1,"count":2}`, `{"unknown":true}`, `{"source":"nobody"}`, `{"id":"1"}`, `{"id":1}`,
		`{"from":"2026-01-01T00:00:00Z","to":"9999-12-31T23:59:59Z"}`,
		`{"id":"-1"}`, `{"from":"yesterday"}`, "{\"source\":\"\x00\"}", "\xff\xfe", strings.Repeat("[", 10_000),
		strings.Repeat("a", 20_000), "\x08\x01", "\x00\x00\x00\x00\x02\x08\x01", "\x00\xff\xff\xff\xff",
	} {
		// In tier one every body goes to one method, and to every other method and as every other kind in turn.
		for method := range methods {
			if nightly.Enabled() || method == 0 || method == i%len(methods) {
				f.Add(uint8(method), uint8(0), body)
			}
		}
		for kind := range kinds {
			if nightly.Enabled() || kind == i%len(kinds) {
				f.Add(uint8(1), uint8(kind), body)
			}
		}
	}
	s := start(f)
	f.Fuzz(func(t *testing.T, method, kind uint8, body string) {
		name, content := methods[int(method)%len(methods)], kinds[int(kind)%len(kinds)]
		status, answer := s.post(t, name, body, "Content-Type", content)
		switch {
		case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
			t.Errorf("%s with %q as %q: %d %s", name, body, content, status, answer)
		case content == "application/json" && status == http.StatusOK && !json.Valid([]byte(answer)):
			t.Errorf("%s with %q: the answer is no JSON: %s", name, body, answer)
		}
		if strings.Contains(s.log.String(), "panic") {
			t.Fatalf("%s with %q as %q: the service has panicked", name, body, content)
		}
		s.log.Reset()
		if code, text := s.get(t, "/readyz"); code != http.StatusOK {
			t.Fatalf("after %s with %q as %q: /readyz: %d %s", name, body, content, code, text)
		}
	})
}
