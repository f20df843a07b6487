package merge_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

const goodPlan = `
version: 1
layout: game
servers:
  - {name: s1, number: 1, dsn: $S1}
  - {name: s2, number: 2, also: [7], dsn: $S2}
target: {name: s1, number: 1, dsn: $T}
tables:
  roles:
    policy: rename
    rename: {column: name, keep: highest, by: level, copies: [{table: mail, column: from_name, ref: from_id}]}
  mail: {policy: copy, where: "gold > 0", note: why}
`

func TestAPlanComesBackFromItsFile(t *testing.T) {
	t.Parallel()
	plan, err := merge.Parse([]byte(goodPlan))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := plan.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := merge.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Hash() != again.Hash() || again.Servers[1].DSN != "$S2" || again.Tables["mail"].Note != "why" {
		t.Errorf("it came back as %+v", again)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read the file: %v, %v", info.Mode(), err)
	}
	if err := plan.Save(path); err == nil {
		t.Error("the file was overwritten")
	}
	again.Tables["mail"].Note, again.Servers[0].DSN = "other words", "elsewhere"
	if plan.Hash() != again.Hash() {
		t.Error("a note or a DSN makes it another plan")
	}
	again.Tables["mail"].Where = ""
	if plan.Hash() == again.Hash() {
		t.Error("a condition does not make it another plan")
	}
}

// ownLayout is one that no preset has: the server is the upper part of the node number.
const ownLayout = `layout:
  epoch: 2025-01-01T00:00:00Z
  tick: 100ms
  time_bits: 34
  node: [{name: server, bits: 16}, {name: process, bits: 4}]
  sequence_bits: 9
  server: server
`

func TestALayoutOfOnesOwnSaysWhichServerMadeAnID(t *testing.T) {
	t.Parallel()
	plan, err := merge.Parse([]byte(strings.Replace(goodPlan, "layout: game\n", ownLayout, 1)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := plan.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := merge.Parse(text); err != nil || again.Hash() != plan.Hash() {
		t.Errorf("it came back as another plan: %v: %s", err, text)
	}
	layout, err := plan.Layout.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	made := func(server, process int64) string {
		number, err := layout.Compose(generator.Parts{Time: layout.Epoch.AddDate(1, 0, 0), Node: server<<4 | process, Sequence: 5})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint("INSERT INTO roles VALUES (", number, ")")
	}
	for _, own := range []string{"server", "process"} {
		schema := []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY)"}
		_, _, small := small(t, dbtest.ServersOf("sqlite")[0], schema, copies("roles"), []string{made(1, 2), made(1, 1)}, []string{made(2, 2)})
		small.Layout = plan.Layout
		small.Layout.Server = own
		report, found := problems(t, open(t, small))
		if len(report.Problems) > 0 == (own == "server") {
			t.Errorf("the field %s is the server, and check finds %v", own, report.Problems)
		}
		if own == "process" && (len(found[merge.CodeServerNumber]) == 0 || !strings.Contains(fmt.Sprint(found), "number 2")) {
			t.Errorf("check finds %v", report.Problems)
		}
	}
}

// A condition has commas of its own, and is quoted for them.
func TestALongLineOfAPlanIsBrokenOutsideOfQuotedTexts(t *testing.T) {
	t.Parallel()
	plan, err := merge.Parse([]byte(goodPlan))
	if err != nil {
		t.Fatal(err)
	}
	var in []string
	for n := range 40 {
		in = append(in, "mail.sender when kind IN (1, 2, 3, "+strings.Repeat("4, ", n)+"5)")
	}
	plan.Identities = map[string]*merge.Identity{"roles": {In: in}}
	text, err := plan.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Count(line, "'")%2 != 0 {
			t.Errorf("it has the line %q", line)
		}
	}
	if again, err := merge.Parse(text); err != nil || again.Hash() != plan.Hash() {
		t.Errorf("it came back as another plan: %v", err)
	}
}

func TestAPlanThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, says string }{
		"a slip of the pen":         {"policy: copy", "polizy: copy", "polizy"},
		"no policy":                 {"policy: copy, ", "", "policy"},
		"an empty entry":            {"\ntables:\n", "\ntables:\n  empty:\n", "table empty has no policy"},
		"an unknown policy":         {"policy: copy", "policy: move", "move"},
		"an unknown renumbering":    {"policy: copy, ", "policy: copy, renumber: aprt, ", "not true or apart"},
		"another version":           {"version: 1", "version: 2", "version 1"},
		"no layout":                 {"layout: game", "layout: gaem", "gaem"},
		"one number twice":          {"number: 2", "number: 1", "s1 and s2 both have the number 1"},
		"one number twice, merged":  {"also: [7]", "also: [1]", "number 1"},
		"a number that is too big":  {"also: [7]", "also: [1048576]", "1048575"},
		"one name twice":            {"name: s2", "name: s1", "two are called s1"},
		"rename without a column":   {"column: name,", "", "column"},
		"rename without an entry":   {"policy: rename\n    rename:", "policy: rename\n    x:", "x"},
		"keep without by":           {"by: level, ", "", "by"},
		"a copy in a table unknown": {"table: mail", "table: post", "post"},
		"a copy of two names": {`mail: {policy: copy,`, "mail: {policy: rename, rename: {column: title, copies: " +
			"[{table: mail, column: from_name}]},", "repeats names of two tables"},
		"a copy that is renamed":    {"table: mail, column: from_name", "table: roles, column: name", "a rename of its own"},
		"a layout that is empty":    {"layout: game", "layout: {server: server}", "give the name of a preset"},
		"a preset with other bits":  {"layout: game", "layout: {preset: game, time_bits: 34}", "has both the preset"},
		"a layout without its bits": {"layout: game\n", strings.Replace(ownLayout, "bits: 16", "bits: 0", 1), "0 Bits"},
		"a server in no field":      {"layout: game\n", strings.Replace(ownLayout, "server: server", "server: realm", 1), `no field "realm"`},
		"an identity that is empty": {"\ntables:\n", "\nidentities: {roles: }\ntables:\n", "identities: roles is empty"},
		"a word in place of a boolean": {"policy: copy", "foreign_ids: perhaps, policy: copy",
			"the value `perhaps` stands in place of true or false"},
		"no servers":                  {goodPlan[strings.Index(goodPlan, "servers:"):strings.Index(goodPlan, "target:")], "", "there is none"},
		"a list in place of a policy": {"policy: copy", "policy: [copy]", "a list cannot stand here"},
		"a mapping in place of a list": {"policy: copy", "references: {a: b}, policy: copy",
			"a mapping stands in place of a list"},
		"a word in place of a number": {"number: 2", "number: two", "the value `two` stands in place of a whole number"},
		"a field unknown":             {"policy: copy", "polizy: copy", "field polizy is not known here"},
		"nothing":                     {goodPlan, "", "the file is empty"},
		"more than a plan":            {"note: why}", "note: why}\n---\nversion: 1", "goes on after"},
	} {
		if !strings.Contains(goodPlan, c.old) {
			t.Fatalf("%s: the plan has no %q", name, c.old)
		}
		_, err := merge.Parse([]byte(strings.Replace(goodPlan, c.old, c.new, 1)))
		if !errors.Is(err, merge.ErrPlan) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatCannotBeOpenedIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://user:geheim@127.0.0.1:1/db", "user:geheim@tcp(127.0.0.1:1)/db", "$MERGE_TEST_NOT_SET", "",
		"file:/nowhere/geheim.db",
	} {
		plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
			Target:  merge.Target{Name: "t", DSN: "file:of-no-interest?mode=memory"},
			Servers: []merge.Server{{Name: "the first", Number: 1, DSN: dsn}}}
		_, err := merge.Open(t.Context(), plan, merge.WithOpener(opener))
		if !errors.Is(err, merge.ErrOpen) || !strings.Contains(err.Error(), "the first") || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%v", err)
		}
	}
}

// Whatever names and conditions hold, a plan is read as it was written, and no line is long for want of a break.
func TestAPlanOfOddWordsComesBack(t *testing.T) {
	t.Parallel()
	words := []string{"a, b", "it's", `say "x"`, "[x]", "{y}: z", "# no", "- item", "~", "null", "true", "3", "*all", "&x", "!x", "%x", "@x",
		"`q`", "龍龍", "tab\tx", `back\slash, and 'more'`, " lead", "trail ", "x: y", "a #b", "''", "long " + strings.Repeat("word, ", 40)}
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string { return words[random.IntN(len(words))] }
	tried := 0
	for range 100 {
		plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}, Servers: []merge.Server{{Name: word(), Number: 1, DSN: word()}},
			Target: merge.Target{Name: "t", Number: 1}, Tables: map[string]*merge.TablePlan{}, Identities: map[string]*merge.Identity{}}
		for n := range 40 {
			name := fmt.Sprint(word(), n)
			plan.Tables[name] = &merge.TablePlan{Policy: merge.Copy, Where: word(), Set: map[string]string{word(): "x" + word()}}
			if n%3 > 0 {
				plan.Tables[name] = &merge.TablePlan{Policy: merge.Copy}
			}
			plan.Tables[name].Undecided = []merge.OpenColumn{{Column: word(), Candidate: "a" + word(), As: "path $." + word(), When: word()}}
			plan.Identities[name] = &merge.Identity{In: []string{name + ".x when " + word() + "y"}}
		}
		text, err := plan.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Validate(); err != nil {
			continue // such as an entry that cannot be read
		}
		tried++
		read, err := merge.Parse(text)
		if err != nil || read.Hash() != plan.Hash() {
			t.Fatalf("it came back otherwise: %v\n%s", err, text)
		}
	}
	if tried < 30 {
		t.Errorf("only %d plans were read", tried)
	}
}
