package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
)

func TestMergeSpeaksJSON(t *testing.T) {
	t.Parallel()
	mergeFiles(t, func(t *testing.T, target dbtest.Target) {
		r := newRealms(t, target)
		code, stdout, stderr := call(t, "", append(r.planArgs(), "--json")...)
		if code != exitOK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		draft := decode[draftInfo](t, stdout)
		if draft.File != r.path || len(draft.Tables) != len(gameworld.Tables()) || len(draft.Servers) != 3 {
			t.Errorf("the draft is %+v", draft)
		}
		r.change(t, review)
		r.givesUp(t)
		stdout, stderr = r.does(t, exitResolved, "check", "--json")
		has(t, stdout, `"verdict": "resolved"`)
		check := decode[merge.CheckReport](t, verdictless(stdout))
		if len(check.Conflicts) == 0 || check.Rows == 0 {
			t.Errorf("the check is\n%s", stdout)
		}
		for line := range strings.Lines(stderr) {
			if p := decode[merge.Progress](t, line); p.Phase != "check" {
				t.Errorf("the progress is %s", line)
			}
		}
		stdout, stderr = r.does(t, exitOK, "run", "--json", "--quiet")
		report := decode[merge.RunReport](t, verdictless(stdout))
		if report.Rows == 0 || report.Renamed == 0 || len(report.Servers) != 3 || stderr != "" {
			t.Errorf("the run is\n%s%s", stdout, stderr)
		}
		verify := decode[merge.VerifyReport](t, first(r.does(t, exitOK, "verify", "--json")))
		if !verify.OK || verify.Seal == "" {
			t.Errorf("it is verified as %+v", verify)
		}
	})
}

// A DSN that cannot be used is the likeliest way for a password to come out.
func TestNoPasswordComesOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, dsn := range []string{
		"postgres://nobody:Gandalf%2f7@127.0.0.1:1/no",
		"postgres://nobody:Gandalf/7@127.0.0.1:1/no?sslmode=wrong",
		"host=127.0.0.1 port=1 user=nobody password='Gandalf/7' dbname=no",
		"host=127.0.0.1 port=x password=Gandalf/7",
		"mysql://nobody:Gandalf%2f7@127.0.0.1:1/no",
		"nobody:Gandalf/7@tcp(127.0.0.1:1)/no",
		"nobody:Gandalf/7@tcp(127.0.0.1:1)/no?timeout=wrong",
		"mysql://nobody:Gandalf/7",
		"Gandalf/7",
	} {
		path := filepath.Join(dir, fmt.Sprint(i, ".yaml"))
		code, stdout, stderr := call(t, "", "merge", "plan", path, "--layout", "game",
			"--server", "1="+dsn, "--target", "1="+dsn)
		if code != exitFailure || strings.Contains(stdout+stderr, "Gandalf") {
			t.Errorf("%d: exit code %d: %s%s", i, code, stdout, stderr)
		}
		// The flags in the wrong places.
		for _, args := range [][]string{
			{"merge", "plan", path, dsn}, {"merge", "run", dsn, dsn}, {"merge", "plan", path, "--server", dsn},
			{"merge", "plan", path, "--server", dsn, "--target", dsn, "--layout", "game"},
		} {
			if code, stdout, stderr := call(t, "", args...); code != exitUsage ||
				strings.Contains(stdout+stderr, "Gandalf") {
				t.Errorf("%d: exit code %d: %s%s", i, code, stdout, stderr)
			}
		}
		plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
			Servers: []merge.Server{{Name: "a", Number: 1, DSN: dsn}},
			Target:  merge.Target{Name: "a", Number: 1, DSN: dsn}}
		if err := plan.Save(path); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"check", "run", "verify"} {
			code, stdout, stderr := call(t, "", "merge", command, path)
			if code != exitFailure || strings.Contains(stdout+stderr, "Gandalf") {
				t.Errorf("%s %d: exit code %d: %s%s", command, i, code, stdout, stderr)
			}
		}
	}
}

func TestPasswordsAreTakenOutOfErrors(t *testing.T) {
	t.Parallel()
	s := secretsOf(&merge.Plan{
		Servers: []merge.Server{{DSN: "postgres://u:p%40ss@h/d?application_name=a@b"}, {DSN: "plain.db"},
			{DSN: "host=h password='two words' user=u"}},
		Target: merge.Target{DSN: "u:sla/sh@tcp(h)/d"},
	})
	const text = "p%40ss p@ss two words sla/sh u:sla/sh@tcp(h)/d plain.db"
	if got := s.Clean(text); got != "xxx xxx xxx xxx xxx plain.db" {
		t.Errorf("%q", got)
	}
	cause := errors.New("the driver says p@ss")
	m := &merging{secrets: s}
	if err := m.explain(t.Context(), "merge run", cause); err.Error() != "the driver says xxx" || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}

// The plan keeps the names of the variables. A variable concerns the whole process, so this test is alone.
func TestAPlanNamesVariablesInsteadOfPasswords(t *testing.T) {
	r := newRealms(t, dbtest.Targets()[0])
	args := []string{"merge", "plan", r.path, "--layout", "Game", "--target", "1=$MERGE_TEST_TARGET"}
	t.Setenv("MERGE_TEST_TARGET", r.dsn)
	for i, s := range r.sources {
		name := fmt.Sprintf("MERGE_TEST_%d", i+1)
		t.Setenv(name, s.DSN)
		args = append(args, "--server", fmt.Sprintf("%d=${%s}", s.Number, name))
	}
	if code, stdout, stderr := call(t, "", args...); code != exitOK || stderr != "" ||
		strings.Contains(stdout+contents(t, r.path), r.dsn) {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	has(t, contents(t, r.path), "$MERGE_TEST_TARGET", "${MERGE_TEST_2}")
	r.change(t, review)
	r.givesUp(t)
	r.does(t, exitResolved, "check")
	t.Setenv("MERGE_TEST_2", "")
	_, stderr := r.does(t, exitFailure, "check")
	has(t, stderr, "s2: the environment variable MERGE_TEST_2 is not set")
}

func TestTheExamplesOfTheMergeHelpWork(t *testing.T) {
	r := newRealms(t, dbtest.Targets()[0])
	dir := t.TempDir()
	t.Chdir(dir)
	for variable, dsn := range map[string]string{"AVALON_DSN": r.sources[0].DSN, "CAMELOT_DSN": r.sources[1].DSN,
		"TARGET_DSN": r.dsn} {
		t.Setenv(variable, dsn)
	}
	for file, dsn := range map[string]string{"s1.db": r.sources[0].DSN, "s2.db": r.sources[1].DSN,
		"new.db": r.dsn} {
		path, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file://"), "?")
		if err := os.Symlink(path, file); err != nil {
			t.Fatal(err)
		}
	}
	tried := 0
	for _, c := range commands() {
		for line := range strings.Lines(strings.ReplaceAll(c.help, "\\\n", " ")) {
			example, found := strings.CutPrefix(strings.TrimSpace(line), "snowflake merge ")
			if !found {
				continue
			}
			example, _, _ = strings.Cut(example, "#")
			example, _, _ = strings.Cut(strings.ReplaceAll(example, "'", ""), ">")
			tried++
			code, stdout, stderr := call(t, "", strings.Fields("merge "+example)...)
			if code != exitOK && (c.name != "merge check" || code != exitResolved) {
				t.Errorf("snowflake merge %s: exit code %d: %s%s", example, code, stdout, stderr)
			}
			if r.path = filepath.Join(dir, "plan.yaml"); tried == 1 {
				r.change(t, review)
				r.givesUp(t)
			}
		}
	}
	if tried != 11 {
		t.Errorf("%d examples were found", tried)
	}
}

func TestTheBarFits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := &meter{w: &out, mode: meterBar, columns: 84, now: time.Now}
	p := merge.Progress{Phase: "copy", Table: "a_table_with_a_rather_long_name", Server: "Brocéliande",
		Done: 123_456_789, Total: 300_000_000, RowsPerSecond: 214_002.4, Left: 825 * time.Second}
	m.show(p)
	text := strings.TrimSuffix(strings.TrimPrefix(out.String(), "\r"), "\x1b[K")
	if n := utf8.RuneCountInString(text); n != 83 {
		t.Errorf("%d columns: %s", n, text)
	}
	has(t, text, "copy    41% [########............] 123,456,789 rows  214,002 rows/s  14m left  a_t")
	out.Reset()
	p.Done, p.Left = p.Total, 0
	m.show(p)
	m.end()
	m.end()
	if got := out.String(); !strings.HasSuffix(got, " rows/s\x1b[K\n") || !strings.Contains(got, "100% [####################]") {
		t.Errorf("the last bar: %q", got)
	}
}

func TestLinesComeNowAndThen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(0, 0)
	m := &meter{w: &out, mode: meterLines, now: func() time.Time { return now }}
	for done := range int64(120) {
		m.show(merge.Progress{Phase: "check", Table: "roles", Done: done, Total: 1000, RowsPerSecond: 10})
		now = now.Add(100 * time.Millisecond)
	}
	m.show(merge.Progress{Phase: "copy", Table: "roles", Server: "a\x1b[2J", Done: 1500, Total: 3000,
		RowsPerSecond: 1000, Left: 1500 * time.Millisecond})
	m.show(merge.Progress{Phase: "fill"})
	m.done()
	want := `check: 0%, 0 of 1,000 rows, 10 rows/s, at roles
check: 5%, 50 of 1,000 rows, 10 rows/s, at roles
check: 10%, 100 of 1,000 rows, 10 rows/s, at roles
check: 100%, 119 of 119 rows, 10 rows/s
copy: 50%, 1,500 of 3,000 rows, 1,000 rows/s, 2s left, at roles of a?[2J
copy: 100%, 1,500 of 1,500 rows, 1,000 rows/s
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	out.Reset()
	m = newMeter(silentEnv(nil, &out), &options{json: true})
	m.show(merge.Progress{Phase: "copy", Done: 1, Total: 2})
	if !json.Valid(out.Bytes()) {
		t.Errorf("as JSON: %s", out.String())
	}
	if m = newMeter(silentEnv(nil, &out), &options{merge: mergeOptions{quiet: true}}); m.mode != meterNone {
		t.Error("quiet is not quiet")
	}
}

func TestAServerIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1=a.db":                  "{s1 1 [] a.db}",
		"Avalon:12=$A":            "{Avalon 12 [] $A}",
		"EU: Camelot:2,7,9=h=x":   "{EU: Camelot 2 [7 9] h=x}",
		"a.db":                    "",
		"1=":                      "",
		"-1=a":                    "",
		"a:=b":                    "",
		"1,=b":                    "",
		"postgres://u:p@h/d?a=b":  "",
		"host=h password=1 dbn=x": "",
	} {
		s, ok := parseServer(text)
		if got := fmt.Sprint(s); ok != (want != "") || ok && got != want {
			t.Errorf("%s is %v %s", text, ok, got)
		}
	}
}
