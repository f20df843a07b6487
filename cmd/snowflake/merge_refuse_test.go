package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestEveryWrongCallOfMergeIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad, none := filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "none.yaml")
	if err := os.WriteFile(bad, []byte("version: 1\nserver: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		code   int
		stderr string
	}{
		"merge":                                 {2, `missing, one of: plan, check, run, verify`},
		"merge plan":                            {2, `exactly one plan is needed`},
		"merge plan a.db b.db":                  {2, `exactly one plan is needed, a file such as plan.yaml; there are 2`},
		"merge plan " + none:                    {2, `the servers are missing`},
		"merge plan " + bad:                     {3, `the file .*bad.yaml exists`},
		"merge plan " + none + " --server 1=a":  {2, `the target is missing`},
		"merge plan " + none + " --server a.db": {2, `the target is missing`},
		"merge plan " + none + " --server a.db --target 1=b --layout Game":               {2, `server 1 is not written as`},
		"merge plan " + none + " --server x=a.db --target 1=b --layout Game":             {2, `server 1 is not written as`},
		"merge plan " + none + " --server 1=a.db --target b --layout Game":               {2, `the target is not written as`},
		"merge plan " + none + " --server 1=a.db --target 1=b":                           {2, `give --layout`},
		"merge plan " + none + " --server 1=a.db --target 1=b --layout x":                {2, `no layout "x"`},
		"merge plan " + none + " --server 1=a --server s:1=b --target 1=c --layout game": {2, `both have the number 1`},
		"merge plan " + none + " --server 1=a --target 1=c --layout game":                {1, `s1: .*there is no file`},
		"merge plan " + none + " --from " + bad + " --layout game":                       {2, `--from excludes`},
		"merge plan " + none + " --from " + none:                                         {2, `there is no file`},
		"merge plan " + none + " --from " + bad:                                          {1, `invalid plan`},
		"merge check":                                                                    {2, `exactly one plan is needed`},
		"merge check --nosuch x":                                                         {2, `nosuch`},
		"merge check " + none:                                                            {2, `there is no file`},
		"merge check " + bad:                                                             {1, `bad.yaml: (.|\n)*field server is not known here`},
		"merge run":                                                                      {2, `exactly one plan is needed`},
		"merge run " + none:                                                              {2, `there is no file`},
		"merge run x --renames " + bad:                                                   {3, `is not such a list`},
		"merge run x --servers " + dir:                                                   {3, `is a directory`},
		"merge run x --servers /no/dir/x":                                                {2, `no directory /no/dir`},
		"merge verify":                                                                   {2, `exactly one plan is needed`},
		"merge verify " + bad:                                                            {1, `invalid plan`},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t, "", strings.Fields(args)...)
			if code != want.code || stdout != "" || !regexp.MustCompile(want.stderr).MatchString(stderr) {
				t.Errorf("exit code %d, want %d\n%s\nstderr, want %s:\n%s", code, want.code, stdout, want.stderr,
					stderr)
			}
		})
	}
}

func TestWhatIsUndecidedIsRefused(t *testing.T) {
	t.Parallel()
	mergeFiles(t, func(t *testing.T, target dbtest.Target) {
		r := newRealms(t, target)
		r.reviewed(t)
		r.change(t, func(plan *merge.Plan) {
			plan.Tables["roles"] = &merge.TablePlan{Policy: merge.Copy}
			delete(plan.Tables, "friends")
		})
		stdout, _ := r.does(t, exitRefused, "check")
		has(t, stdout, "Rows were not looked at", "To be decided:", "[unknown_table]",
			"realm1, realm2, realm3, the target: friends", "    > ", "Undecided: ")
		r.change(t, func(plan *merge.Plan) { plan.Tables["friends"] = &merge.TablePlan{Policy: merge.Copy} })
		stdout, _ = r.does(t, exitRefused, "check")
		has(t, stdout, "[unique_key]", "  undecided\n", "Undecided: 1 problem to solve")
		stdout, stderr := r.does(t, exitRefused, "run")
		has(t, stdout, "To be decided:", "Undecided: ")
		has(t, stderr, "refused", "undecided")
		if r.number(t, "SELECT COUNT(*) FROM accounts") != 0 {
			t.Error("rows were copied")
		}
		report := decode[merge.RunReport](t, verdictless(first(r.does(t, exitRefused, "run", "--json"))))
		if report.Check == nil || len(report.Check.Problems) != 1 {
			t.Errorf("as JSON: %+v", report)
		}
		_, stderr = r.does(t, exitFailure, "verify")
		has(t, stderr, "nothing has been merged")
	})
}

func TestTheLinesForRowsThatAreLostCanBePasted(t *testing.T) {
	t.Parallel()
	mergeFiles(t, func(t *testing.T, target dbtest.Target) {
		r := newRealms(t, target)
		r.reviewed(t)
		r.change(t, func(plan *merge.Plan) { plan.GivesUp = nil })
		stdout, _ := r.does(t, exitRefused, "check")
		has(t, stdout, "[gives_up]", "The lines for the plan:")
		_, lines, _ := strings.Cut(stdout, "\ngives_up:\n")
		lines, _, _ = strings.Cut(lines, "\n\n")
		if err := os.WriteFile(r.path, []byte(contents(t, r.path)+"gives_up:\n"+lines+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, _ = r.does(t, exitResolved, "check")
		if strings.Contains(stdout, "gives_up") {
			t.Errorf("the lines are still asked for:\n%s", stdout)
		}
	})
}

func TestASecondRunAtOnceIsRefused(t *testing.T) {
	t.Parallel()
	mergeFiles(t, func(t *testing.T, target dbtest.Target) {
		r := newRealms(t, target)
		r.reviewed(t)
		tried := false
		progress := writer(func(text string) {
			if !tried && strings.HasPrefix(text, "copy:") {
				tried = true
				_, stderr := r.does(t, exitRefused, "run")
				has(t, stderr, "another run works on this target")
			}
		})
		var out bytes.Buffer
		if code := execute(t.Context(), []string{"merge", "run", r.path}, silentEnv(&out, progress)); code != exitOK {
			t.Fatalf("exit code %d: %s", code, out.String())
		}
		if !tried {
			t.Error("there was no second run")
		}
		r.does(t, exitOK, "verify")
	})
}

func TestAnInterruptedRunGoesOn(t *testing.T) {
	t.Parallel()
	mergeFiles(t, func(t *testing.T, target dbtest.Target) {
		r := newRealms(t, target)
		r.reviewed(t)
		ctx, interrupt := context.WithCancel(t.Context())
		var out, said bytes.Buffer
		progress := writer(func(text string) {
			said.WriteString(text)
			if strings.HasPrefix(text, "copy:") {
				interrupt()
			}
		})
		list := filepath.Join(t.TempDir(), "renames.csv")
		args := []string{"merge", "run", r.path, "--renames", list}
		if code := execute(ctx, args, silentEnv(&out, progress)); code != exitFailure {
			t.Fatalf("exit code %d:\n%s%s", code, out.String(), said.String())
		}
		has(t, said.String(), "snowflake: interrupted: the copied rows are kept", "snowflake merge run "+r.path)
		if strings.Contains(said.String(), "context canceled") {
			t.Errorf("nobody needs to read\n%s", said.String())
		}
		if _, err := os.Stat(list); err == nil {
			t.Error("there is a list of what is not merged")
		}
		_, stderr := r.does(t, exitFailure, "verify")
		has(t, stderr, "run again, it goes on")
		stdout, _ := r.does(t, exitOK, "run", "--renames", list)
		has(t, stdout, "from where an earlier run had ended", list)
		r.does(t, exitOK, "verify")
		if n := r.number(t, "SELECT COUNT(*) FROM roles"); n != r.rows["roles"] {
			t.Errorf("%d roles, want %d", n, r.rows["roles"])
		}
	})
}

func TestAChangedPlanIsRefusedAndADifferenceIsFound(t *testing.T) {
	t.Parallel()
	mergeFiles(t, func(t *testing.T, target dbtest.Target) {
		r := newRealms(t, target)
		r.reviewed(t)
		r.does(t, exitOK, "run", "--quiet")
		if err := r.target.Exec("UPDATE roles SET gold = gold + 1 WHERE gold = (SELECT m FROM " +
			"(SELECT MAX(gold) AS m FROM roles) AS richest)").Error; err != nil {
			t.Fatal(err)
		}
		stdout, stderr := r.does(t, exitFailure, "verify")
		has(t, stdout, "DIFFER", "What differs:", "checksum: roles of realm", "sum: roles, roles gold")
		has(t, stderr, "do not let players in")
		report := decode[merge.VerifyReport](t, first(r.does(t, exitFailure, "verify", "--json")))
		// Rows that refer to the changed role differ too, because they are compared with what they refer to.
		if what := failedIn(report, "roles"); report.OK || !slices.Equal(what, []string{"checksum", "sum"}) {
			t.Errorf("as JSON: %+v", report.Failed)
		}
		r.change(t, func(plan *merge.Plan) { plan.Tables["mail"].Where = "gold > 0" })
		_, stderr = r.does(t, exitRefused, "run")
		has(t, stderr, "with another plan")
	})
}

// failedIn lists the comparisons of a table that failed.
func failedIn(report merge.VerifyReport, table string) (what []string) {
	for _, comparison := range report.Failed {
		if comparison.Table == table {
			what = append(what, comparison.What)
		}
	}
	return what
}

func TestAPlanIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	r := newRealms(t, dbtest.Targets()[0])
	r.reviewed(t)
	before := contents(t, r.path)
	code, _, stderr := call(t, "", r.planArgs()...)
	if code != exitRefused || contents(t, r.path) != before {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	info, err := os.Stat(r.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the plan is %v, %v", info.Mode(), err)
	}
	// What was decided stays in the next draft.
	next := filepath.Join(t.TempDir(), "next.yaml")
	if code, _, stderr := call(t, "", "merge", "plan", next, "--from", r.path); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	plan, err := merge.Load(next)
	if err != nil || plan.Tables["counters"].Policy != merge.Sum || plan.Servers[2].Name != "realm3" {
		t.Errorf("%v: %+v", err, plan)
	}
}

func TestAListReplacesAnOlderOneOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := csvFile{flag: "--servers", path: filepath.Join(dir, "x.csv"), heading: "a,b\n"}
	for text, want := range map[string]bool{"": true, "a,b\n": true, "a,b\n1,2\n": true, "a,b": false, "other": false} {
		if err := os.WriteFile(l.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.replaceable(); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	l.path = filepath.Join(dir, "no", "x.csv")
	if err := l.write(func(io.Writer) error { return nil }); err == nil {
		t.Error("a list was written where no directory is")
	}
}
