package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// Letters of Chinese take two columns, and accents of their own none, so that what stands behind lines up.
func TestColumnsLineUpBehindWideLetters(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := &grid{words: 2}
	table.add("TABLE", "SERVER", "ROWS")
	table.add("roles", "中央", "1")
	table.add("龍龍龍", "Avalon", "22")
	table.add("Ra\u0301ven", "서버", "3")
	table.print(&out)
	want := "TABLE   SERVER  ROWS\n" +
		"roles   中央       1\n" +
		"龍龍龍  Avalon    22\n" +
		"Ra\u0301ven   서버       3\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	said := wrap(strings.Repeat("龍龍 ", 40), "  - ")
	for line := range strings.Lines(said) {
		if columnsOf(strings.TrimSuffix(line, "\n")) > lineWidth {
			t.Errorf("%d columns: %s", columnsOf(line), line)
		}
	}
	m := &meter{columns: 70, last: merge.Progress{Phase: "copy", Table: "龍龍龍龍龍龍龍龍龍龍", Done: 1, Total: 200,
		RowsPerSecond: 10, Left: time.Minute}}
	if bar := m.bar(); columnsOf(bar) > 69 || columnsOf(bar) < 68 {
		t.Errorf("%d columns: %s", columnsOf(bar), bar)
	}
}

// A remedy that is the same for the problems above it is said once, and numbers have commas.
func TestARemedyIsSaidOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	printProblems(&out, []merge.Problem{
		{Code: merge.CodeOrphan, Server: "a", Table: "items", Count: 1600, Message: "lost", Remedy: "find them"},
		{Code: merge.CodeOrphan, Server: "b", Table: "items", Count: 1600, Message: "lost", Remedy: "find them"},
		{Code: merge.CodeOrphan, Server: "b", Table: "mail", Count: 1, Message: "lost", Remedy: "find them"},
		{Code: merge.CodePlan, Table: "pets", Message: "wrong"},
		{Code: merge.CodeOrphan, Table: "pets", Message: "lost", Remedy: "find them"},
	}, mostLines)
	want := `  - a, b: items: 1,600 rows: lost [orphan]
  - b: mail: 1 row: lost [orphan]
    > find them
  - pets: wrong [plan]
  - pets: lost [orphan]
    > find them
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

// A terminal shows 20 lines of each kind of problem and of the conflicts of each key. The rest is there with --all.
func TestALongListIsCut(t *testing.T) {
	t.Parallel()
	var problems []merge.Problem
	report := &merge.CheckReport{Tables: []merge.TableReport{{Name: "roles", Conflicts: 30}}}
	for i := range 30 {
		table := fmt.Sprintf("t%02d", i)
		problems = append(problems, merge.Problem{Code: merge.CodeUnknownTable, Table: table, Message: "unknown",
			Remedy: "decide"})
		report.Conflicts = append(report.Conflicts, merge.Conflict{Table: "roles", Key: "name", Value: table,
			Keeper: merge.RowRef{Server: "a", Key: "1"}, Other: merge.RowRef{Server: "b", Key: "2"}, Resolution: "dropped"})
	}
	problems = append(problems, merge.Problem{Code: merge.CodePlan, Table: "last", Message: "wrong"})
	for most, want := range map[int]struct{ lines, conflicts, more int }{mostLines: {18 + 1 + 1, 20, 2}, 0: {31, 30, 0}} {
		var out bytes.Buffer
		printProblems(&out, problems, most)
		text := out.String()
		if n := strings.Count(text, "unknown_table]") + strings.Count(text, "> decide"); n != want.lines {
			t.Errorf("with at most %d lines, there are %d:\n%s", most, n, text)
		}
		if !strings.Contains(text, "  - last: wrong [plan]\n") {
			t.Errorf("another problem is missing:\n%s", text)
		}
		printConflicts(&out, report, most)
		if n := strings.Count(out.String(), "one with what stays"); n != want.conflicts {
			t.Errorf("with at most %d lines, there are %d conflicts", most, n)
		}
		if n := strings.Count(out.String(), "--all"); n != want.more {
			t.Errorf("with at most %d lines, --all is named %d times:\n%s", most, n, out.String())
		}
	}
	// A remedy of many lines counts, and one problem is always shown whole.
	var out bytes.Buffer
	long := strings.Repeat("a remedy of many words ", 120)
	for i := range problems {
		problems[i].Remedy = fmt.Sprint(i, long)
	}
	printProblems(&out, problems[:3], mostLines)
	if n := strings.Count(out.String(), "[unknown_table]"); n != 2 || !strings.Contains(out.String(), "2 more [unknown_table]") {
		t.Errorf("%d problems are shown:\n%s", n, out.String())
	}
}

// How many rows are equal is not how many are listed.
func TestAListThatWasCutSaysSo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := func(table string) merge.Conflict {
		return merge.Conflict{Table: table, Key: "the primary key", Value: "1", Resolution: "dropped",
			Keeper: merge.RowRef{Server: "a", Key: "1"}, Other: merge.RowRef{Server: "b", Key: "1"}}
	}
	printConflicts(&out, &merge.CheckReport{
		Tables:    []merge.TableReport{{Name: "roles", Conflicts: 1200}, {Name: "world", Conflicts: 1}},
		Conflicts: []merge.Conflict{c("roles"), c("world")},
	}, mostLines)
	want := `
roles: rows equal in the primary key
  VALUE  STAYS  OTHER  BECOMES
  1      a 1    b 1    one with what stays
  and 1,199 more that are not listed

world: 1 row equal in the primary key
  VALUE  STAYS  OTHER  BECOMES
  1      a 1    b 1    one with what stays
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

// Who goes on with a run sees what was left to copy, and not that tables are missing.
func TestARunThatWentOnSaysWhatWasLeft(t *testing.T) {
	t.Parallel()
	m := &merging{plan: &merge.Plan{}, path: "plan.yaml"}
	for _, c := range []struct {
		report     merge.RunReport
		says, hush string
	}{
		{merge.RunReport{Resumed: true, Rows: 5, RowsPerSecond: 2, Tables: []merge.CopyReport{{Table: "mail", Rows: 9, Way: "rows"}}},
			"What was left:\n\nTABLE  BY    SERVERS  ROWS\n", " 0 rows/s"},
		{merge.RunReport{Resumed: true, Tables: []merge.CopyReport{{Table: "mail", Rows: 9}}},
			"All rows were there", "rows/s"},
		{merge.RunReport{Already: true, Tables: []merge.CopyReport{{Table: "mail", Rows: 9}}},
			"TABLE  SERVERS  ROWS\nmail         1     9\n", "What was left"},
		{merge.RunReport{Rows: 9, RowsPerSecond: 3, Took: 9 * time.Second, Tables: []merge.CopyReport{{Table: "mail",
			Rows: 9, Way: "rows"}}}, "Merged: 9 rows in 9s with the check; copied at 3 rows/s.\n", "What was left"},
	} {
		var out bytes.Buffer
		printRun(&out, m, &c.report, nil)
		if !strings.Contains(out.String(), c.says) || strings.Contains(out.String(), c.hush) {
			t.Errorf("%q is missing or %q is there:\n%s", c.says, c.hush, out.String())
		}
	}
}

// A column that nobody has declared is not hidden among many others: each is named, and first those that somebody took for
// plain, and those of which most rows were keys. What may be chance stands before them.
func TestEachColumnThatLeadsNowhereIsNamed(t *testing.T) {
	t.Parallel()
	r := &merge.VerifyReport{OK: true, Seal: "x"}
	for n := range 40 {
		r.Checks = append(r.Checks, merge.Comparison{What: "apart", Table: fmt.Sprintf("t%02d", n), Want: "7", Got: "7", OK: true,
			Detail: "rows whose n held keys of roles and leads to no row now", Column: "n", Parent: "roles", Rows: int64(10 + n)})
	}
	r.Checks = append(r.Checks, merge.Comparison{What: "apart", Table: "bans", Want: "1600", Got: "1600", OK: true, Column: "by",
		Detail: "rows whose by held keys", Except: "kind = 1", Parent: "users", Rows: 1600},
		merge.Comparison{What: "chance", Table: "bids", Column: "price", Detail: "90 of 98 values are keys of roles", OK: true})
	var out bytes.Buffer
	printVerify(&out, &merge.Plan{Plain: []string{"t30.n"}}, r)
	said := strings.Join(strings.Fields(out.String()), " ")
	for _, part := range []string{"fresh target. - bids.price (90 of 98 values are keys of roles) Numbers that were keys",
		"fresh target. - t30.n, under plain: of the plan: keys of roles (7 of 40 rows) - bans.by: keys of users (1,600 of 1,600 rows in " +
			"which no when: applies) - t00.n: keys of roles (7 of 10 rows) - t01.n: keys of roles (7 of 11 rows) - ",
		"- t17.n: keys of roles (7 of 27 rows) - and less often: t18.n, t19.n, ", "t38.n, t39.n All is as it should be",
		"do not let players in, add it under identities: of the plan"} {
		if !strings.Contains(said, part) {
			t.Errorf("it does not say %q:\n%s", part, out.String())
		}
	}
}
