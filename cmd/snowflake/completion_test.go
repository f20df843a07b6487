package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWordsAreCompleted(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"in":                        "inspect",
		"no":                        "nodes",
		"nodes ":                    "list release authority reserve",
		"segments ":                 "list show raise residues",
		"segments raise orders --d": "--dry-run --dsn",
		"shards ":                   "status",
		"shards status --":          "--dsn --json --table",
		"seal --k":                  "--key-file --keyed --kind",
		"help merge v":              "verify",
		"help lay":                  "layout",
		"inspect --layout g":        "",
		"inspect --layout Game1":    "Game16 Game16Fast",
		"inspect --json --l":        "--layout",
		"new --dsn ":                "", // a file
		"nodes release 3 --until ":  "now",
		"new -":                     "--dsn --json --layout -n --node --table",
		"layout T":                  "Twitter",
		"layout --json T":           "Twitter",
		"completion ":               "bash zsh fish",
		"merge run ":                "", // a file
		"nosuch ":                   "",
		"help inspect ":             "",
		"merge check plan.yaml --a": "--all",
	} {
		var got []string
		for _, c := range candidates(strings.Split(typed, " ")) {
			got = append(got, c.word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q is completed with %q, want %q", typed, got, want)
		}
	}
	if candidates(nil) != nil {
		t.Error("nothing is completed with something")
	}
}

// The scripts run in the shells that this machine has.
func TestScriptsCompleteInTheirShells(t *testing.T) {
	t.Parallel()
	program := build(t)
	for shell, text := range map[string]string{
		"bash": `source <("$0" completion bash); COMP_WORDS=("$0" inspect --layout Tw); COMP_CWORD=3
			_snowflake; echo "${COMPREPLY[@]}"`,
		"zsh": `compdef() { registered=$1 }; source <("$0" completion zsh); _files() { }
			_describe() { print -l -- $candidates }; words=("$0" inspect --layout Tw); CURRENT=4
			$registered`,
		"fish": `$argv[1] completion fish | source; complete -C 'snowflake inspect --layout Tw'`,
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			cmd := exec.CommandContext(t.Context(), path, "-c", text, program)
			cmd.Env = append(cmd.Environ(), "PATH="+filepath.Dir(program)+":/usr/bin:/bin", "HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil || !slices.Contains(strings.FieldsFunc(string(out), func(r rune) bool {
				return r == ' ' || r == '\n' || r == ':'
			}), "Twitter") {
				t.Errorf("%v: it offers %q", err, out)
			}
		})
	}
}
