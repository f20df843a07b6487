package merge_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
)

// Guilds have a leader and roles a guild: that is one circle, and is said once.
func TestACircleIsReportedOnce(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := games(t, []dbtest.Target{target}, target, gameworld.Config{Roles: 20})
		report, _ := problems(t, open(t, plan))
		var said []string
		for _, p := range report.Warnings {
			if p.Code == merge.CodeCircle {
				said = append(said, p.String())
			}
		}
		if len(said) != 1 || !strings.Contains(said[0], "roles.guild_id refers to guilds") ||
			!strings.Contains(said[0], "guilds.leader_id refers to roles") {
			t.Errorf("said: %q", said)
		}
		want := "verify looks at foreign keys"
		if target.Dialect == "postgres" {
			want = "roles.guild_id refers to guilds and is filled in"
		}
		if !strings.Contains(strings.Join(said, ""), want) {
			t.Errorf("it does not say %q: %q", want, said)
		}
	})
}

// A slip in the name of a table is one slip, on however many servers it is not found.
func TestATableThatNobodyHasIsReportedOnce(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		for _, policy := range []merge.Policy{merge.Copy, merge.Skip} {
			schema := []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY)"}
			_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
				"roles": {Policy: merge.Copy}, "rolls": {Policy: policy}}, nil, nil)
			report, _ := problems(t, open(t, plan))
			if len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Message, "no database") {
				t.Errorf("%s: %v", policy, report.Problems)
			}
		}
	})
}

// A remedy is typed as it stands.
func TestTheRemedyForOrphansCanBeWrittenAsItStands(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, boss_id BIGINT REFERENCES roles (id))"}
	_, _, plan := small(t, dbtest.Targets()[0], schema, map[string]*merge.TablePlan{"roles": {Policy: merge.Copy}},
		[]string{"INSERT INTO roles VALUES (" + id(1, 1) + ", " + id(1, 9) + ")"})
	report, _ := problems(t, open(t, plan))
	for _, says := range []string{"set orphans: null on the table", "set orphans: drop on the table"} {
		if len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Remedy, says) {
			t.Errorf("%v", report.Problems)
		}
	}
	text, err := plan.YAML()
	if err != nil {
		t.Fatal(err)
	}
	plan, err = merge.Parse(bytes.Replace(text, []byte("policy: copy"), []byte("policy: copy, orphans: null"), 1))
	if err != nil {
		t.Fatal(err)
	}
	if report, _ := problems(t, open(t, plan)); report.Verdict != merge.Resolved {
		t.Errorf("%v", report.Problems)
	}
}

// A row that no policy can help is reported once, with what can.
func TestARemedyDoesNotAdviseWhatThePlanHasAlready(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(5) NOT NULL UNIQUE)"}
		role := func(key string) string { return "INSERT INTO roles VALUES (" + key + ", 'Zoe')" }
		rename := map[string]*merge.TablePlan{"roles": {Policy: merge.Rename,
			Rename: &merge.RenamePlan{Column: "name", Format: "{name}-from{server}"}}}
		_, _, plan := small(t, target, schema, rename, []string{role(id(1, 1))}, []string{role(id(2, 1))})
		report, found := problems(t, open(t, plan))
		if len(report.Problems) != 1 || len(found[merge.CodeRename]) != 1 || report.Problems[0].Count != 1 {
			t.Errorf("a name that is too long: %v", report.Problems)
		}
		rename["roles"].Rename.Format = "{name}{server}"
		_, _, plan = small(t, target, schema, rename, []string{role("7")}, []string{role("7")})
		report, found = problems(t, open(t, plan))
		if p := found[merge.CodePrimaryKey]; len(p) != 1 || strings.Contains(p[0].Remedy, "rename") ||
			!strings.Contains(p[0].Remedy, "renumber: apart") {
			t.Errorf("keys that were counted: %v", report.Problems)
		}
		rename["roles"].Rename.When = "name <> 'Zoe'"
		_, _, plan = small(t, target, schema, rename, []string{role(id(1, 1))}, []string{role(id(2, 1))})
		report, found = problems(t, open(t, plan))
		if p := found[merge.CodeUniqueKey]; len(p) != 1 || !strings.Contains(p[0].String(), "when: of the rename") ||
			strings.Contains(p[0].String(), "another column") {
			t.Errorf("names that the rename leaves out: %v", report.Problems)
		}
	})
}

func TestAColumnThatHoldsKeysThatChangeIsMentioned(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE parties (id BIGINT NOT NULL PRIMARY KEY)",
			"CREATE TABLE guests (id BIGINT NOT NULL PRIMARY KEY, party_id BIGINT, guild_id BIGINT)",
		}
		tables := map[string]*merge.TablePlan{
			"parties": {Policy: merge.Copy, Renumber: merge.Behind}, "guests": {Policy: merge.Copy}}
		var rows []string
		for n := range 60 {
			party := 1 + n/6*7 + n%6 // every seventh is gone
			rows = append(rows, fmt.Sprintf("INSERT INTO parties VALUES (%d)", party),
				fmt.Sprintf("INSERT INTO guests VALUES (%d, %d, %d)", n+1, party, 500+n*11))
		}
		mentioned := func() []merge.Problem {
			_, _, plan := small(t, target, schema, tables, rows, nil)
			report, _ := problems(t, open(t, plan))
			return slices.DeleteFunc(report.Problems, func(p merge.Problem) bool { return p.Code != merge.CodeUndeclared })
		}
		if got := mentioned(); len(got) != 1 || got[0].Table != "guests" || got[0].Column != "party_id" {
			t.Errorf("mentioned is %v", got)
		}
		tables["guests"].References = []merge.Reference{{Column: "party_id", Table: "parties"}}
		if got := mentioned(); len(got) != 0 {
			t.Errorf("mentioned is %v, though the plan says so", got)
		}
		tables["guests"].References, tables["parties"].Renumber = nil, ""
		if got := mentioned(); len(got) != 0 {
			t.Errorf("mentioned is %v, though no key changes", got)
		}
	})
}

// A table that is skipped is no table of the report, even if a key of another one refers to it.
func TestAReportListsTheTablesThatAreCopied(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE kinds (id BIGINT NOT NULL PRIMARY KEY)",
			"CREATE TABLE items (kind_id BIGINT NOT NULL REFERENCES kinds (id), n BIGINT NOT NULL, PRIMARY KEY (kind_id, n))"}
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"kinds": {Policy: merge.Skip}, "items": {Policy: merge.Copy}}, nil, nil)
		report, _ := problems(t, open(t, plan))
		if len(report.Tables) != 1 || report.Tables[0].Name != "items" {
			t.Errorf("%+v", report.Tables)
		}
	})
}
