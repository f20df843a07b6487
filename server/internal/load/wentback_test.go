package load_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// order asks a replica for the next number of the counter.
func (r *replica) order() (code int, answer string) {
	r.t.Helper()
	response, err := http.Post("http://"+r.http+"/snowflake.v1.IDService/Next", "application/json", //nolint:noctx // local
		strings.NewReader(`{"source": "orders"}`))
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var got struct{ IDs []string }
	if err := json.Unmarshal(text, &got); err == nil && len(got.IDs) == 1 {
		return response.StatusCode, got.IDs[0]
	}
	return response.StatusCode, string(text)
}

// Somebody puts an older backup of the counters back while the service runs. Nobody gets a number that has been
// given, not even from a replica that starts later, until an operator has raised the counter. Then all replicas go
// on by themselves.
func TestACounterThatWentBackIsRaisedWhileTheServiceRuns(t *testing.T) {
	t.Parallel()
	length(t)
	command := filepath.Join(t.TempDir(), "snowflake")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", command, "./cmd/snowflake")
	build.Dir = "../../.."
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	config := filepath.Join(t.TempDir(), "snowflaked.yaml")
	const sources = "sources:\n  orders: {kind: segment, least: 1, most: 1}\n"
	if err := os.WriteFile(config, []byte(sources), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dsn := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := newReplica(t, dsn, "--config", config)
			for n := range 7 {
				if code, got := first.order(); code != http.StatusOK || got != fmt.Sprint(n+1) {
					t.Fatalf("the next order is %d %s", code, got)
				}
			}
			driver, location := "pgx", dsn
			if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
				driver, location = "sqlite3", path+"?_busy_timeout=60000"
			}
			db, err := sql.Open(driver, location)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, statement := range []string{
				"CREATE TABLE sales (serial bigint)", "INSERT INTO sales VALUES (7), (19)",
				"UPDATE snowflake_segments SET next = 3 WHERE name = 'orders'",
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			refused := func(r *replica) {
				t.Helper()
				code, answer := r.order()
				if code != http.StatusBadRequest || !strings.Contains(answer, "failed_precondition") ||
					!strings.Contains(answer, "until an operator raises it") {
					t.Errorf("an order is %d %s", code, answer)
				}
				if code, text := r.ready(); code != http.StatusOK {
					t.Errorf("for the other sources /readyz is %d %s", code, text)
				}
			}
			refused(first)
			second := newReplica(t, dsn, "--config", config) // which knows of no number
			refused(second)
			refused(first)
			log, err := os.ReadFile(first.log)
			if err != nil || !strings.Contains(string(log), "snowflake help segments raise") {
				t.Errorf("the log does not say what to do: %s, %v", log, err)
			}
			raise := exec.CommandContext(t.Context(), command, "segments", "raise", "orders", "--above", "sales.serial",
				"--dsn", dsn)
			if output, err := raise.CombinedOutput(); err != nil {
				t.Fatalf("raise: %v: %s", err, output)
			}
			for i, r := range []*replica{first, second, first} {
				servers.Eventually(t, func() error {
					if code, got := r.order(); code != http.StatusOK || got != fmt.Sprint(20+i) {
						return fmt.Errorf("after the raise the next order is %d %s", code, got)
					}
					return nil
				})
			}
		})
	}
}
