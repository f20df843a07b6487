package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestThreeServersAreMergedFromPlanToVerify(t *testing.T) {
	t.Parallel()
	mergeTargets(t, func(t *testing.T, target dbtest.Target) {
		r := newRealms(t, target)
		r.reviewed(t)

		stdout, _ := r.does(t, exitResolved, "check")
		has(t, stdout, "realm1 (1), realm2 (2), realm3 (3) into realm1 (1)", "roles", "rename",
			"one with what stays", "Not copied: rankings (rebuild)", "Resolved: ")
		t.Log("\n" + stdout)
		suffixes := map[string]bool{} // which server's row is the oldest is up to the generators
		for _, renamed := range regexp.MustCompile(`\.s([123])\b`).FindAllStringSubmatch(stdout, -1) {
			suffixes[renamed[1]] = true
		}
		if len(suffixes) < 2 {
			t.Errorf("renamed are those of servers %v only", suffixes)
		}
		if n := r.number(t, "SELECT COUNT(*) FROM roles"); n != 0 {
			t.Errorf("the check has copied %d roles", n)
		}

		renames, servers := filepath.Join(t.TempDir(), "renames.csv"), filepath.Join(t.TempDir(), "servers.csv")
		lists := []string{"--renames", renames, "--servers", servers}
		stdout, stderr := r.does(t, exitOK, "run", lists...)
		has(t, stdout, "Merged: ", "another name", renames, servers, "snowflake merge verify "+r.path)
		has(t, stderr, "copy: 100%", "rows/s")
		t.Log("\n" + stdout + stderr)
		if n := r.number(t, "SELECT COUNT(*) FROM roles"); n != r.rows["roles"] {
			t.Errorf("%d roles, want %d", n, r.rows["roles"])
		}
		if n := r.number(t, "SELECT SUM(gold) FROM roles"); n != r.gold {
			t.Errorf("%d gold, want %d", n, r.gold)
		}
		renamed := r.number(t, "SELECT COUNT(*) FROM merge_renames")
		if n := int64(strings.Count(contents(t, renames), "\n")); renamed == 0 || n != renamed+1 {
			t.Errorf("%d lines of renames, %d rows", n, renamed)
		}
		if got, want := contents(t, servers), "number,name,merged_into,target\n"+
			"1,realm1,1,realm1\n2,realm2,1,realm1\n3,realm3,1,realm1\n"; got != want {
			t.Errorf("the map of servers is\n%s", got)
		}

		stdout, _ = r.does(t, exitOK, "verify")
		if regexp.MustCompile(`(?m)^merge_\w+ +\d`).MatchString(stdout) {
			t.Errorf("a number of rows is told of tables whose rows nobody has counted:\n%s", stdout)
		}
		has(t, stdout, "roles gold", comma(r.gold), "equal", "none", "All is as it should be", "Seal ")
		t.Log("\n" + stdout)

		stdout, _ = r.does(t, exitOK, "run", lists...)
		has(t, stdout, "merged before")
		if n := r.number(t, "SELECT COUNT(*) FROM roles"); n != r.rows["roles"] {
			t.Errorf("a second run has made %d roles of %d", n, r.rows["roles"])
		}
	})
}

// Whoever has removed plan.lock and runs the plan without another check gets a new one, for verify reads there which
// columns held keys.
func TestARunWritesThePlanLockThatIsMissing(t *testing.T) {
	t.Parallel()
	r := newRealms(t, dbtest.Named("sqlite"))
	r.reviewed(t)
	if err := os.Remove(lockPath(r.path)); err != nil {
		t.Fatal(err)
	}
	r.does(t, exitOK, "run", "--quiet")
	written, err := merge.LoadLock(lockPath(r.path))
	if err != nil || os.Remove(lockPath(r.path)) != nil {
		t.Fatal(err)
	}
	// So does a run that goes on where another one was killed before it could write.
	r.does(t, exitOK, "run", "--quiet")
	if again, err := merge.LoadLock(lockPath(r.path)); err != nil || !reflect.DeepEqual(again, written) {
		t.Errorf("another run writes another plan.lock, %v", err)
	}
}
