package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// call runs the program with arguments, and an environment that holds a DSN if that is not empty.
func call(t *testing.T, dsn string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = execute(t.Context(), args, &env{out: &out, err: &err, getenv: func(name string) string {
		if name == dsnVariable {
			return dsn
		}
		return ""
	}})
	return code, out.String(), err.String()
}

func TestEveryCallEndsAsItShould(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		code           int
		stdout, stderr string // patterns
	}{
		"":                                      {2, `^$`, `inspect(.|\n)*no command was given`},
		"help":                                  {0, `nodes release(.|\n)*Exit codes`, `^$`},
		"--help":                                {0, `nodes release`, `^$`},
		"help inspect":                          {0, `--base62(.|\n)*--layout NAME`, `^$`},
		"inspect --help":                        {0, `snowflake inspect \[flags\] ID`, `^$`},
		"help nodes list":                       {0, `SNOWFLAKE_DSN`, `^$`},
		"nodes":                                 {2, `^$`, `did you mean "nodes list" or "nodes release"`},
		"nodes drop":                            {2, `^$`, `no command "nodes drop"`},
		"frobnicate":                            {2, `^$`, `no command "frobnicate"`},
		"inspec 1":                              {2, `^$`, `did you mean "inspect"`},
		"inspect":                               {2, `^$`, `which ID`},
		"inspect x":                             {2, `^$`, `"x"`},
		"inspect -5":                            {2, `^$`, `-5`},
		"inspect 9223372036854775808":           {2, `^$`, `9223372036854775808`},
		"inspect --layout JavaScript " + anID:   {1, `^$`, `not an ID of this layout`},
		"inspect --layout nosuch " + anID:       {2, `^$`, `no layout "nosuch"; there are Default`},
		"inspect --nosuch " + anID:              {2, `^$`, `nosuch(.|\n)*snowflake help inspect`},
		"inspect " + anID:                       {0, `2026-11-19T13:46:18.344Z, (.|\n)*node +744\n(.|\n)*001000000000 `, `^$`},
		"inspect " + anID + " --layout twitter": {0, `layout twitter`, `^$`},
		"inspect --base62 0IPC1akZNCq":          {0, anID, `^$`},
		"inspect --base62 " + anID:              {2, `^$`, anID},
		"layout":                                {0, `Game16Fast +37`, `^$`},
		"layout GAME":                           {0, `fingerprint +epoch=2025-01-01T00:00:00Z tick=100ms`, `^$`},
		"layout a b":                            {2, `^$`, `one name`},
		"range 2026-01-01 2026-01-02":           {0, `id >= (\d+) AND id < (\d+)`, `^$`},
		"range -24h now":                        {0, `id >= \d+\n`, `^$`},
		"range now -24h":                        {2, `^$`, `earlier time comes first`},
		"range 2026-01-01":                      {2, `^$`, `two times`},
		"range 1999-01-01 now":                  {0, `id >= 0\n`, `^$`},
		"range now 2999-01-01":                  {0, `id < 9223372036854775807\n`, `^$`},
		"range now tomorrow":                    {2, `^$`, `"tomorrow" is no time`},
		"new":                                   {2, `^$`, `--dsn or --node`},
		"new --node 7":                          {0, `^\d+\n$`, `^$`},
		"new -n 3 --node 7":                     {0, `^(\d+\n){3}$`, `^$`},
		"new --node 1024":                       {1, `^$`, `1023`},
		"new -n 0 --node 7":                     {2, `^$`, `-n 0`},
		"new --node 7 --dsn x.db":               {2, `^$`, `exclude`},
		"new 7":                                 {2, `^$`, `"7"`},
		"nodes list":                            {2, `^$`, `SNOWFLAKE_DSN`},
		"nodes list --dsn /no/such/file.db":     {2, `^$`, `no file of that name`},
		"nodes list x":                          {2, `^$`, `"x"`},
		"nodes release":                         {2, `^$`, `one node number`},
		"nodes release x":                       {2, `^$`, `"x" is no node number`},
		"nodes release -3":                      {2, `^$`, `"-3" is no node number`},
		"nodes release 3 --until now":           {2, `^$`, `needs --force`},
		"nodes release 3 --force --until 2030":  {2, `^$`, `takes "now" only`},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t, "", strings.Fields(args)...)
			if code != want.code || !regexp.MustCompile(want.stdout).MatchString(stdout) ||
				!regexp.MustCompile(want.stderr).MatchString(stderr) {
				t.Errorf("exit code %d, want %d\nstdout, want %s:\n%s\nstderr, want %s:\n%s", code, want.code,
					want.stdout, stdout, want.stderr, stderr)
			}
		})
	}
}

// anID is of node 744 in the default layout.
const anID = "249168410316800512"

func TestJSONIsOneDocument(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"new --node 7 -n 3 --json", "inspect --json " + anID, "range --json 2026-01-01 2026-01-02",
		"layout --json", "layout game --json",
	} {
		code, stdout, _ := call(t, "", strings.Fields(args)...)
		if !json.Valid([]byte(stdout)) || code != exitOK {
			t.Errorf("%s: exit code %d:\n%s", args, code, stdout)
		}
	}
	_, stdout, _ := call(t, "", "inspect", "--json", anID)
	if !strings.Contains(stdout, `"id": "`+anID+`"`) || !strings.Contains(stdout, `"node": 744`) {
		t.Errorf("the document of an ID is\n%s", stdout)
	}
}

// Every example of the help that needs no database works as it stands there. Those of merge have a test of
// their own.
func TestExamplesOfTheHelpWork(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, c := range commands() {
		for line := range strings.Lines(c.help) {
			example, found := strings.CutPrefix(strings.TrimSpace(line), "snowflake ")
			if !found || strings.Contains(example, "--dsn") || strings.HasPrefix(example, "merge ") {
				continue
			}
			example, _, _ = strings.Cut(example, "#")
			tried++
			if code, _, stderr := call(t, "", strings.Fields(example)...); code != exitOK {
				t.Errorf("snowflake %s: exit code %d: %s", example, code, stderr)
			}
		}
	}
	if tried < 10 {
		t.Errorf("only %d examples were found", tried)
	}
}

// The program itself passes the exit code on.
func TestTheProgramExits(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "snowflake")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for args, want := range map[string]int{"layout": exitOK, "inspect --layout JavaScript " + anID: exitFailure, "x": exitUsage} {
		cmd := exec.CommandContext(context.Background(), program, strings.Fields(args)...)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("snowflake %s: exit code %d, want %d", args, got, want)
		}
	}
}
