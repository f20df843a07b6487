package daemon_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/settings"
)

// ask sends a GET request to any address, under a name of the host.
func ask(t *testing.T, address, path, host string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	if host != "" {
		request.Host = host
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(all)
}

func TestTheAddressForOperatorsHasProfilesAndNoIDs(t *testing.T) {
	t.Parallel()
	s := start(t, "--token-file", tokenFile(t), "--admin", "127.0.0.1:0")
	for _, c := range []struct {
		path, host string
		want       int
	}{
		{"/livez", "", 200},
		{"/readyz", "", 200},
		{"/metrics", "", 200},
		{"/debug/pprof/", "", 200},
		{"/debug/pprof/heap", "", 200},
		{"/debug/pprof/trace?seconds=0.01", "", 200},
		{"/debug/pprof/cmdline", "", 404}, // it may hold a password
		{"/snowflake.v1.IDService/Next", "", 404},
		{"/readyz", "evil.example", 200},
		{"/metrics", "evil.example", 403}, // the page of a stranger whose name leads here
		{"/debug/pprof/heap", "evil.example", 403},
	} {
		if status, text := ask(t, s.AdminAddr(), c.path, c.host); status != c.want {
			t.Errorf("%s as %q: %d, want %d: %.200s", c.path, c.host, status, c.want, text)
		}
	}
	if status, _ := ask(t, s.HTTPAddr(), "/debug/pprof/heap", ""); status != http.StatusNotFound {
		t.Errorf("the address of the clients has profiles: %d", status)
	}
}

func TestOnlyThisMachineReachesTheAddressForOperators(t *testing.T) {
	t.Parallel()
	_, err := settings.Load([]string{"--admin", "0.0.0.0:9090"}, nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "admin is") || !strings.Contains(err.Error(), "insecure") {
		t.Errorf("the error is %v", err)
	}
	if _, err := settings.Load([]string{"--admin", "0.0.0.0:9090", "--insecure"}, nil, io.Discard); err != nil {
		t.Error(err)
	}
}

// A panel or an alert that reads a name which the service does not have shows nothing for ever.
func TestTheServiceHasTheMetricsOfTheDashboardAndTheAlerts(t *testing.T) {
	t.Parallel()
	s := start(t, "--config", write(t, "sources:\n  orders: {kind: segment, least: 10, most: 1000}\n"))
	s.post(t, "Next", `{"count":2,"source":"orders"}`)
	_, text := s.get(t, "/metrics")
	checkExposition(t, text)
	for _, file := range []string{"grafana.json", "alerts.yml"} {
		queries, err := os.ReadFile(filepath.Join("..", "..", "..", "observe", "dashboards", file))
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bsnowflake_[a-z_]+`).FindAllString(string(queries), -1)
		if len(names) == 0 {
			t.Errorf("%s has no names", file)
		}
		for _, name := range names {
			// These are absent while all is well, or while the rate is not known.
			if strings.Contains(name, "failing_since") || name == "snowflake_source_lasts_seconds" {
				continue
			}
			if !strings.Contains(text, "\n"+name+" ") && !strings.Contains(text, "\n"+name+"{") {
				t.Errorf("%s reads %s, which the service does not have", file, name)
			}
		}
	}
}
