package daemon_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/daemon"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/settings"
)

// The secrets of the clients of these tests, none of which may come out again.
const (
	shopToken    = "the-token-of-the-shop"
	billingToken = "the-token-of-billing"
)

// guarded starts a service with a counter, and a token that opens nothing else.
func guarded(t *testing.T) *service {
	t.Helper()
	dir := t.TempDir()
	config := write(t, "sources:\n  invoice: {kind: segment, least: 1, most: 10}\n")
	tokens := filepath.Join(dir, "tokens")
	text := "shop " + shopToken + "\nbilling " + billingToken + " invoice\n"
	if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, "--config", config, "--token-file", tokens)
}

func TestATokenOpensTheSourcesOfItsLine(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	for _, c := range []struct {
		token, source string
		want          int
	}{
		{shopToken, "snowflake", http.StatusOK},
		{shopToken, "invoice", http.StatusOK},
		{billingToken, "invoice", http.StatusOK},
		{billingToken, "snowflake", http.StatusForbidden},
		{billingToken, "", http.StatusForbidden}, // the generator
	} {
		code, answer := s.post(t, "Next", `{"source":"`+c.source+`"}`, "Authorization", "Bearer "+c.token)
		if code != c.want {
			t.Errorf("%s asks for %q: %d %s, want %d", c.token, c.source, code, answer, c.want)
		}
	}
	r := s.redis(t)
	if got := r.do(t, "AUTH", billingToken); got != "+OK" {
		t.Fatalf("AUTH: %s", got)
	}
	if got := r.do(t, "INCR", "snowflake"); !strings.HasPrefix(got, "-NOPERM ") ||
		!strings.Contains(got, "billing") || !strings.Contains(got, "snowflake") {
		t.Errorf("INCR snowflake: %s", got)
	}
	if got := r.do(t, "INCR", "invoice"); !strings.HasPrefix(got, "$") {
		t.Errorf("INCR invoice: %s", got)
	}
	// A connection that shows another token has the rights of that one.
	if got := r.do(t, "AUTH", shopToken) + r.do(t, "INCR", "snowflake"); !strings.HasPrefix(got, "+OK$") {
		t.Errorf("after another AUTH: %s", got)
	}
}

func TestTheMetricsAndTheLogNameTheClientAndNeverItsToken(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	s.post(t, "Next", `{"count":7}`, "Authorization", "Bearer "+shopToken)
	s.post(t, "Next", `{"source":"invoice"}`, "Authorization", "Bearer "+billingToken)
	s.post(t, "Next", `{"count":2}`, "Authorization", "Bearer "+billingToken)
	_, metrics := s.get(t, "/metrics", "Authorization", "Bearer "+shopToken)
	for _, want := range []string{
		`snowflake_server_ids_total{client="shop",source="snowflake"} 7`,
		`snowflake_server_ids_total{client="billing",source="invoice"} 1`,
		`code="permission_denied"`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s:\n%s", want, metrics)
		}
	}
	if log := s.log.String(); !strings.Contains(log, `"client":"billing"`) ||
		!strings.Contains(log, `"kind":"permission_denied billing"`) {
		t.Errorf("the log does not name the client that was refused:\n%s", log)
	}
	for _, secret := range []string{shopToken, billingToken} {
		if strings.Contains(metrics+s.log.String(), secret) {
			t.Errorf("the metrics or the log contain the token %s", secret)
		}
	}
}

// A source that is written wrong would lock its client out.
func TestATokenOfAnUnknownSourceIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("# clients\nshop "+shopToken+" snowflake,invioce\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := write(t, "sources:\n  invoice: {kind: segment}\n")
	loaded, err := settings.Load([]string{"--dsn", "sqlite::memory:", "--config", config, "--token-file", tokens,
		"--listen", "127.0.0.1:0", "--resp", "off"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = daemon.Check(loaded, nil)
	if err == nil || strings.Contains(err.Error(), shopToken) {
		t.Fatalf("the check says %v", err)
	}
	for _, want := range []string{tokens + ":2:", "shop", `"invioce"`, "snowflake, invoice"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}
