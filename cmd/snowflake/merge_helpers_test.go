package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// realms are servers to be merged, their target, and a plan in a file.
type realms struct {
	sources []merge.Server
	dsn     string // of the target
	target  *gorm.DB
	path    string
	rows    map[string]int64 // of all sources
	gold    int64
}

// newRealms makes three servers with names that are equal, and a target of the same kind.
func newRealms(t *testing.T, target dbtest.Target) *realms {
	t.Helper()
	r := &realms{path: filepath.Join(t.TempDir(), "plan.yaml"), rows: map[string]int64{}}
	kind := gameworld.Kind(target.Dialect)
	for n := int64(1); n <= 3; n++ {
		dsn := target.DSN(t)
		pool, err := target.OpenDSN(t, dsn, nil).DB()
		if err != nil {
			t.Fatal(err)
		}
		made, err := gameworld.Create(t.Context(), pool, kind, gameworld.Config{
			Server: n, Seed: uint64(n), Roles: 100, Clash: 0.1,
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, rows := range made.Rows {
			r.rows[name] += rows
		}
		r.gold += made.Gold
		r.sources = append(r.sources, merge.Server{Name: fmt.Sprintf("realm%d", n), Number: n, DSN: dsn})
	}
	r.dsn = target.DSN(t)
	r.target = target.OpenDSN(t, r.dsn, nil)
	statements, err := gameworld.Config{Roles: 100}.Schema(kind)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if err := r.target.Exec(s).Error; err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// planArgs are the arguments that draft the plan.
func (r *realms) planArgs() []string {
	args := []string{"merge", "plan", r.path, "--layout", "Game", "--target", "realm1:1=" + r.dsn}
	for _, s := range r.sources {
		args = append(args, "--server", fmt.Sprintf("%s:%d=%s", s.Name, s.Number, s.DSN))
	}
	return args
}

// reviewed is the plan as those who know the game have made it of the draft.
func (r *realms) reviewed(t *testing.T) {
	t.Helper()
	if code, _, stderr := call(t, "", r.planArgs()...); code != exitOK {
		t.Fatalf("the draft: exit code %d: %s", code, stderr)
	}
	r.change(t, review)
	r.givesUp(t)
}

// givesUp puts the numbers of rows that are lost into the plan, as the check counts them.
func (r *realms) givesUp(t *testing.T) {
	t.Helper()
	stdout, _ := r.does(t, exitRefused, "check", "--json", "--quiet")
	report := decode[struct {
		GivesUp map[string]merge.GivenUp `json:"gives_up"`
	}](t, stdout)
	r.change(t, func(plan *merge.Plan) { plan.GivesUp = report.GivesUp })
}

// review decides what the draft leaves open.
func review(plan *merge.Plan) {
	plan.Tables["counters"] = &merge.TablePlan{Policy: merge.Sum, Key: []string{"name"}, Sum: []string{"amount"}}
	plan.Tables["world"] = &merge.TablePlan{Policy: merge.Newest, Key: []string{"id"}, By: "opened_at"}
	plan.Tables["rankings"] = &merge.TablePlan{Policy: merge.Rebuild}
	plan.Tables["settings"] = &merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"name"}}
}

func (r *realms) save(t *testing.T, plan *merge.Plan) {
	t.Helper()
	text, err := plan.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *realms) number(t *testing.T, query string) (n int64) {
	t.Helper()
	if err := r.target.Raw(query).Scan(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

// does calls a merge command with the plan and demands an exit code.
func (r *realms) does(t *testing.T, want int, command string, flags ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := call(t, "", append([]string{"merge", command, r.path}, flags...)...)
	if code != want {
		t.Fatalf("merge %s: exit code %d, want %d\n%s%s", command, code, want, stdout, stderr)
	}
	return stdout, stderr
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return v
}

// mergeFiles runs fn on SQLite, and at night on every kind of database: what a command prints and how it ends does
// not depend on the kind. TestThreeServersAreMergedFromPlanToVerify calls all of them on a server as well.
func mergeFiles(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	if nightly.Enabled() {
		mergeTargets(t, fn)
		return
	}
	dbtest.Run(t, dbtest.ServersOf("sqlite"), fn)
}

// mergeTargets runs fn on SQLite and on a server, and at night on every kind of database.
func mergeTargets(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "mysql" && target.IsTiDB(t) {
			t.Skip("a session of TiDB cannot be made one that only reads, as a merge demands of its sources")
		}
		fn(t, target)
	})
}

// has demands that a text has all the words.
func has(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is missing in\n%s", word, text)
		}
	}
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// change edits the plan.
func (r *realms) change(t *testing.T, fn func(plan *merge.Plan)) {
	t.Helper()
	plan, err := merge.Load(r.path)
	if err != nil {
		t.Fatal(err)
	}
	fn(plan)
	r.save(t, plan)
}

// writer calls a function for what is written.
type writer func(text string)

func (w writer) Write(text []byte) (int, error) {
	w(string(text))
	return len(text), nil
}

// silentEnv is a world without variables.
func silentEnv(out, err io.Writer) *env {
	return &env{out: out, err: err, getenv: func(string) string { return "" }}
}

func first(stdout, _ string) string { return stdout }

// verdictless takes out the verdicts, which are written as words and not read.
func verdictless(text string) string {
	return regexp.MustCompile(`"verdict": "\w+",`).ReplaceAllString(text, "")
}
