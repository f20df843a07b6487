package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/daemon"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/settings"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// exact fails unless the texts are three different IDs of the layout, digit for digit.
func exact(t *testing.T, who string, texts []string) {
	t.Helper()
	if len(texts) != 3 || len(slices.Compact(slices.Sorted(slices.Values(texts)))) != 3 {
		t.Errorf("%s got %q, want three different IDs", who, texts)
	}
	for _, text := range texts {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || strconv.FormatInt(id, 10) != text || id < 1<<53 {
			t.Errorf("%s got %q: %v", who, text, err)
		}
		if _, err := generator.Default().Decompose(id); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// local starts a service in this process. It has everything of a replica but a process to kill.
func local(t *testing.T, args ...string) *replica {
	t.Helper()
	all := append([]string{
		"--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--max-time", "1m",
		"--dsn", "sqlite:" + filepath.Join(t.TempDir(), "leases.db"),
	}, args...)
	loaded, err := settings.Load(all, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(loaded, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the service ended with %v", err)
		}
	})
	servers.Eventually(t, func() error {
		if ready, why := d.Ready(); !ready {
			return errors.New(why)
		}
		return nil
	})
	return &replica{http: d.HTTPAddr(), resp: d.RESPAddr()}
}

func TestClientsInOtherLanguagesGetExactIDs(t *testing.T) {
	t.Parallel()
	r := local(t)
	for _, p := range foreignClients() {
		ids, err := p.ask(t.Context(), r)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			t.Logf("%s is not installed", p.name)
		case err != nil:
			t.Errorf("%s: %v", p.name, err)
		default:
			exact(t, p.name, ids)
		}
	}
}

// The page is read and not run: what it sends to the service, a browser would send, and the service answers it
// as a browser demands. TestAPageGetsExactIDs runs it in a browser.
func TestThePageMayAskFromItsOriginOnly(t *testing.T) {
	t.Parallel()
	page, err := scripts.ReadFile("page.html")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	path := regexp.MustCompile(`fetch\(\x60\$\{service\}([^\x60]+)\x60`).FindStringSubmatch(text)
	kind := regexp.MustCompile(`"Content-Type": "([^"]+)"`).FindStringSubmatch(text)
	count := regexp.MustCompile(`JSON\.stringify\(\{ count: (\d+) \}\)`).FindStringSubmatch(text)
	if path == nil || kind == nil || count == nil || !strings.Contains(text, `method: "POST"`) ||
		!strings.Contains(text, "BigInt(id)") {
		t.Fatalf("the page asks in another way: %q, %q, %q", path, kind, count)
	}
	const origin = "http://127.0.0.1:8080"
	ask := func(r *replica, method string, header map[string]string) *http.Response {
		t.Helper()
		body := `{"count":` + count[1] + `}`
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.http+path[1], strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Close = true // so that no idle connection holds up the end
		request.Header.Set("Origin", origin)
		for name, value := range header {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	preflight := map[string]string{
		"Access-Control-Request-Method": http.MethodPost, "Access-Control-Request-Headers": "content-type",
	}
	listed, other := local(t, "--origins", origin), local(t)
	// A browser asks first, because the content is neither a form nor plain text.
	asked := ask(listed, http.MethodOptions, preflight)
	if asked.StatusCode != http.StatusNoContent || asked.Header.Get("Access-Control-Allow-Origin") != origin ||
		!strings.Contains(asked.Header.Get("Access-Control-Allow-Methods"), http.MethodPost) ||
		!strings.Contains(asked.Header.Get("Access-Control-Allow-Headers"), "Content-Type") {
		t.Errorf("a browser that asks first is told %d %q", asked.StatusCode, asked.Header)
	}
	answered := ask(listed, http.MethodPost, map[string]string{"Content-Type": kind[1]})
	var answer struct{ IDs []string }
	if err := json.NewDecoder(answered.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	exact(t, "the page", answer.IDs)
	if got := answered.Header.Get("Access-Control-Allow-Origin"); got != origin {
		t.Errorf("a browser would not show the answer to the page: it is for %q", got)
	}
	refused := ask(other, http.MethodOptions, preflight)
	if got := refused.Header.Get("Access-Control-Allow-Origin"); got != "" || refused.StatusCode < 400 {
		t.Errorf("a service that does not list the origin says %d, and allows %q", refused.StatusCode, got)
	}
}

func TestTheStoryIsTold(t *testing.T) {
	nightly.Only(t, "it builds the command and starts processes; the parts of the story are tested in one process")
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.Contains(text, "Go got 20000 different IDs") {
		t.Errorf("the client in Go did not get its IDs:\n%s", text)
	}
	for _, p := range foreignClients() {
		match := regexp.MustCompile(`(?m)^` + p.name + ` (got|is not installed)(.*)$`).FindStringSubmatch(text)
		if match == nil {
			t.Errorf("%s is not part of the story:\n%s", p.name, text)
		} else if match[1] == "got" {
			exact(t, p.name, strings.Fields(match[2]))
		}
	}
}

// The page comes from another origin than the IDs, as in life.
func TestAPageGetsExactIDs(t *testing.T) {
	nightly.Only(t, "a browser takes seconds; TestThePageMayAskFromItsOriginOnly reads the same page")
	var browser string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		if os.Getenv("CI") != "" && os.Getenv("SNOWFLAKE_NO_INSTALL") == "" {
			t.Fatal("Chromium is missing; scripts/services.sh installs it")
		}
		t.Skip("Chromium is not installed")
	}
	page := httptest.NewServer(http.FileServerFS(scripts))
	defer page.Close()
	dir := t.TempDir()
	r, err := startReplica(t.Context(), dir, "--origins", page.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer r.kill()
	show := func(address string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu",
			"--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), "--virtual-time-budget=60000", "--dump-dom",
			page.URL+"/page.html?service=http://"+address)
		text, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text := show(r.http)
	var ids []string
	for _, match := range regexp.MustCompile(`<li>(\d+)</li>`).FindAllStringSubmatch(text, -1) {
		ids = append(ids, match[1])
	}
	if !strings.Contains(text, ">done<") {
		t.Errorf("the page is\n%s", text)
	}
	exact(t, "the page", ids)

	// A service that does not list the origin is not for this page.
	other, err := startReplica(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.kill()
	if text := show(other.http); !strings.Contains(text, ">failed: ") {
		t.Errorf("without its origin the page is\n%s", text)
	}
}
