package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
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

func TestTheStoryIsTold(t *testing.T) {
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
