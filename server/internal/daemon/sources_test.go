package daemon_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// write writes a file of settings.
func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "snowflaked.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheFileNamesSourcesBesideTheGenerator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, fmt.Sprintf(`
dsn: sqlite:%[1]s/home.db
max-count: 500
sources:
  orders: {kind: segment, least: 10, most: 100, start: 1000}
  invoice:
    kind: daily
    digits: 2
    zone: UTC
  legacy:
    kind: tickets
    servers:
      - dsn: sqlite:%[1]s/first.db
      - dsn: sqlite:%[1]s/second.db
`, dir))
	s := start(t, "--dsn", "sqlite:"+dir+"/home.db", "--config", path)
	r := s.redis(t)
	if got := r.do(t, "INCR", "orders"); got != "$1000" {
		t.Errorf("the first order is %s", got)
	}
	_, answer := s.post(t, "Next", `{"count":300,"source":"orders"}`)
	orders := texts(t, answer)
	increasing(t, orders, 300)
	if orders[0] <= 1000 {
		t.Errorf("the next order is %d", orders[0])
	}
	day := time.Now().UTC().Format("20060102")
	if got := r.do(t, "INCR", "invoice"); !strings.HasPrefix(got, "$2") || !strings.HasSuffix(got, "01") {
		t.Errorf("the first invoice of %s is %s", day, got)
	}
	// 99 numbers a day. If midnight comes meanwhile, there are more.
	code, answer := s.post(t, "Next", `{"count":100,"source":"invoice"}`)
	if code != http.StatusTooManyRequests || !strings.Contains(answer, "resource_exhausted") {
		t.Errorf("the 101st invoice: %d %s", code, answer)
	}
	_, answer = s.post(t, "Next", `{"count":400,"source":"legacy"}`)
	legacy := texts(t, answer)
	slices.Sort(legacy)
	increasing(t, legacy, 400)
	if got := r.do(t, "INCR", "nobody"); got != `-ERR there is no source "nobody"; there are invoice, legacy, orders, snowflake` {
		t.Errorf("INCR nobody: %s", got)
	}
	_, text := s.get(t, "/metrics")
	if !strings.Contains(text, `snowflake_source_left{source="orders"} `) ||
		!strings.Contains(text, `snowflake_server_ids_total{client="",source="legacy"} 400`) {
		t.Errorf("the metrics lack the sources: %s", text)
	}
	checkExposition(t, text)
}

// A ticket server that is not there delays neither the start nor the numbers.
func TestOneTicketServerIsEnough(t *testing.T) {
	t.Parallel()
	path := write(t, fmt.Sprintf(`
sources:
  legacy:
    kind: tickets
    servers:
      - dsn: postgres://nobody:secret-password@127.0.0.1:%s/none
      - dsn: sqlite:%s/second.db
`, servers.Reserve(t), t.TempDir()))
	s := start(t, "--config", path)
	code, answer := s.post(t, "Next", `{"count":10,"source":"legacy"}`)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	for _, number := range texts(t, answer) {
		if number%2 != 1 {
			t.Errorf("%d is a number of the server that is not there", number)
		}
	}
	if strings.Contains(s.log.String(), "secret-password") {
		t.Error("the log has the password of a ticket server")
	}
}

// Every layer says that the database failed, and the log says it once.
func TestALineOfTheLogSaysOnceThatADatabaseIsDown(t *testing.T) {
	t.Parallel()
	path := write(t, "sources:\n  orders: {kind: segment}\n  invoice: {kind: daily, digits: 6, zone: UTC}\n")
	dsn := fmt.Sprintf("postgres://nobody:secret-password@127.0.0.1:%s/none", servers.Reserve(t))
	// The head of a request has as long to come, and a busy machine needs some of it.
	s := begin(t, "--config", path, "--dsn", dsn, "--max-time", "1s")
	for _, source := range []string{"orders", "invoice"} {
		servers.Eventually(t, func() error { // a request whose time is over first is not logged
			if code, answer := s.post(t, "Next", `{"source":"`+source+`"}`); code != http.StatusServiceUnavailable {
				return fmt.Errorf("%d %s", code, answer)
			}
			return nil
		})
	}
	for line := range strings.Lines(s.log.String()) {
		if strings.Count(line, "store failed") > 1 {
			t.Errorf("it says a thing twice: %s", line)
		}
	}
	for _, want := range []string{`"counter":"orders"`, `"counter":"invoice`, `no numbers left: counter`} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log does not contain %s", want)
		}
	}
}
