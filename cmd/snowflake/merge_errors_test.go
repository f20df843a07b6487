package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Every error of a merge says what to do next.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	m := &merging{plan: &merge.Plan{}, path: "plan.yaml"}
	lost := fmt.Errorf("%w: the target: gone away", merge.ErrDatabase)
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"merge run", fmt.Errorf("%w: 1 problems, the first is: x", merge.ErrUndecided),
			"refused: something is undecided, so nothing was copied: decide it in plan.yaml, and then use " +
				`"snowflake merge check plan.yaml"`},
		{"merge run", merge.ErrLocked, "refused: merge: another run works on this target: wait until it ends; if " +
			"no such process exists, end its connection on the database server"},
		{"merge run", fmt.Errorf("a: table items: %w: row 5: %w", merge.ErrRow, lost),
			"a: table items: merge: a row was refused: row 5: merge: statement failed: the target: gone away: remove " +
				"the constraint or trigger of the target that refuses it, and run again; or set bad_rows: " +
				"quarantine for the table, and start again with a fresh target"},
		{"merge run", lost, `merge: statement failed: the target: gone away: correct the cause; then "snowflake merge run ` +
			`plan.yaml" continues where it was`},
		{"merge check", lost, "merge: statement failed: the target: gone away"},
		{"merge verify", fmt.Errorf("%w: nothing has been merged", merge.ErrNotRun),
			`merge: there is no complete run: nothing has been merged: "snowflake merge run plan.yaml" comes first`},
		{"merge verify", fmt.Errorf("%w: the state is decided: run again", merge.ErrNotRun),
			`merge: there is no complete run: the state is decided: run again`},
		{"merge run", fmt.Errorf("a: %w: it had 4 rows to copy and now has 5", merge.ErrSourceChanged),
			"refused: a: merge: a source was written to: it had 4 rows to copy and now has 5: stop the process " +
				"that writes there, drop the target, and start again"},
		// After a connection is lost, everything else fails too, and only the first error is printed.
		{"merge check", errors.Join(fmt.Errorf("items: %w", lost), lost,
			fmt.Errorf("%w: the target: driver: bad connection", merge.ErrDatabase),
			errors.New("the target: cannot rollback - no transaction is active")),
			"items: merge: statement failed: the target: gone away"},
	} {
		err := m.explain(context.Background(), c.name, c.err)
		if !errors.Is(err, c.err) {
			t.Errorf("%v is lost", c.err)
		}
		if err.Error() != c.want {
			t.Errorf("got  %s\nwant %s", err, c.want)
		}
	}
}

// A DSN must not be printed even if its password is masked.
func TestNoDSNComesOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, dsn := range []string{
		"postgres://nobody:Gan dalf@mordor.example:5432/no",
		"postgres://nobody:Gan%zzdalf@mordor.example:5432/no",
		"postgres://nobody@mordor.example:x/no",
		"host=mordor.example user=nobody password=Gandalf dbname=no sslmode=wrong",
		"host=mordor.example user=nobody dbname=no sslmode=wrong",
	} {
		path := filepath.Join(dir, fmt.Sprint(i, ".yaml"))
		_, stdout, stderr := call(t, "", "merge", "plan", path, "--layout", "game", "--server", "1="+dsn,
			"--target", "1="+dsn)
		if strings.Contains(stdout+stderr, "mordor") || !strings.Contains(stderr, "s1: ") {
			t.Errorf("%d: %s%s", i, stdout, stderr)
		}
	}
}

func TestTwoListsNeedTwoFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, _, stderr := call(t, "", "merge", "run", "plan.yaml", "--renames", filepath.Join(dir, "a.csv"),
		"--servers", dir+"/./a.csv")
	if code != exitUsage || !strings.Contains(stderr, "--renames and --servers") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	_, _, stderr = call(t, "", "merge", "run", "plan.yaml", "--renames", dir)
	has(t, stderr, " is a directory: choose")
}

func TestAFaultyPlanIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 1\nserver: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, stderr := call(t, "", "merge", "plan", filepath.Join(dir, "new.yaml"), "--from", bad)
	has(t, stderr, bad+": ")
	_, _, stderr = call(t, "", "merge", "plan", filepath.Join(dir, "new.yaml"), "--server", "1=a", "--server",
		"1=b", "--target", "1=c", "--layout", "game")
	if strings.Contains(stderr, "merge: invalid") {
		t.Errorf("twice: %s", stderr)
	}
}

func TestSumsHaveCommas(t *testing.T) {
	t.Parallel()
	r := newRealms(t, dbtest.Targets()[0])
	r.reviewed(t)
	r.does(t, exitOK, "run")
	stdout, _ := r.does(t, exitOK, "verify")
	has(t, stdout, "  "+comma(r.gold)+"  "+comma(r.gold)+"\n")
}
