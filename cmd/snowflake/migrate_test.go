package main

import (
	"encoding/json"
	"os"
	"path/filepath"
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
		if want := strings.Join(plan.Back, ";\n") + ";\n"; stdout != want {
			t.Errorf("the way back is\n%s\nwant\n%s", stdout, want)
		}
		if code, _, stderr := call(t, dsn, "migrate", "absent"); code != exitFailure || !strings.Contains(stderr, `"absent"`) {
			t.Errorf("a table that is not there: exit code %d: %s", code, stderr)
		}
	})
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
