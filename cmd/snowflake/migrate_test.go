package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/migrate"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestMigratePrintsSQLAndChangesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		type Parcel struct {
			ID   uint
			Name string
		}
		if err := db.AutoMigrate(&Parcel{}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			code, stdout, stderr := call(t, dsn, "migrate")
			if code != exitOK || stderr != "" || !strings.Contains(stdout, "-- counts: ") ||
				!strings.Contains(stdout, "parcels") || !strings.HasSuffix(stdout, ";\n") {
				t.Fatalf("exit code %d: %s\n%s", code, stderr, stdout)
			}
		}
		var plan migrate.Plan
		code, stdout, _ := call(t, dsn, "migrate", "parcels", "--json")
		if err := json.Unmarshal([]byte(stdout), &plan); code != exitOK || err != nil || len(plan.Forward) == 0 {
			t.Errorf("exit code %d, %v: %s", code, err, stdout)
		}
		_, stdout, _ = call(t, dsn, "migrate", "--back")
		want := strings.Join(plan.Back, ";\n") + ";\n"
		if target.Dialect == "sqlite" {
			want = ".bail on\n" + want
		}
		if stdout != want {
			t.Errorf("the way back is\n%s\nwant\n%s", stdout, want)
		}
		if code, _, stderr := call(t, dsn, "migrate", "absent"); code != exitFailure || !strings.Contains(stderr, `"absent"`) {
			t.Errorf("a table that is not there: exit code %d: %s", code, stderr)
		}
	})
}

// The shell of SQLite goes on after an error, unless it is told not to: it would drop a table that it could not
// copy, and commit that.
func TestTheShellOfSQLiteLosesNoTableThatItCannotCopy(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("needs the shell of SQLite: ", err)
	}
	file := filepath.Join(t.TempDir(), "full.db")
	run := func(text string, args ...string) string {
		command := exec.CommandContext(t.Context(), shell, append(args, file)...)
		command.Stdin = strings.NewReader(text)
		out, _ := command.CombinedOutput() // it says what it has refused
		return string(out)
	}
	const rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000) SELECT i FROM n"
	run("CREATE TABLE parcels (id integer PRIMARY KEY AUTOINCREMENT, name text);" +
		"INSERT INTO parcels (name) " + rows + ";")
	run("CREATE INDEX named ON parcels (name) -- as clients do that send no semicolon")
	pages, err := strconv.Atoi(strings.TrimSpace(run("PRAGMA page_count")))
	if err != nil {
		t.Fatal(err)
	}
	code, forward, stderr := call(t, file, "migrate")
	if code != exitOK {
		t.Fatal(code, stderr)
	}
	full := run(forward, "-cmd", fmt.Sprintf("PRAGMA max_page_count = %d", pages+10))
	if left := run("SELECT count(*) FROM parcels"); !strings.Contains(full, "full") || left != "9000\n" {
		t.Errorf("of 9000 rows %s are left: %s", left, full)
	}
	if told := run(forward + "SELECT count(*), max(id) FROM parcels"); !strings.HasSuffix(told, "9000|9000\n") {
		t.Errorf("with enough room: %s", told)
	}
}

func TestMigrateFilesWritesNoFileTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, stdout, stderr := call(t, "postgres://u@h/d", "migrate-files", "goose", "--dir", dir)
	if code != exitOK || strings.Count(stdout, "\n") != 3 {
		t.Fatalf("exit code %d: %s\n%s", code, stderr, stdout)
	}
	for _, path := range strings.Fields(stdout) {
		text, err := os.ReadFile(path)
		if err != nil || filepath.Dir(path) != dir || !strings.HasPrefix(string(text), "-- +goose Up\nCREATE TABLE") {
			t.Errorf("%s: %v\n%s", path, err, text)
		}
	}
	for tool, want := range map[string]string{"flyway": "flyway", "": "exactly one tool"} {
		args := []string{"migrate-files", "--dir", dir}
		if tool != "" {
			args = append(args, tool)
		}
		if code, _, stderr := call(t, "postgres://u@h/d", args...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d: %s", tool, code, stderr)
		}
	}
}
