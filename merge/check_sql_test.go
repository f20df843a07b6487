package merge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// When verify finds a slip in the plan, all is copied and the plan cannot be changed any more.
func TestTheSQLOfAPlanIsTriedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(16) NOT NULL, gold BIGINT)"}
	rows := func(server int) []string {
		return []string{"INSERT INTO roles VALUES (" + id(server, 1) + ", 'x', 5)"}
	}
	for name, c := range map[string]struct {
		where string
		sum   merge.ConservedSum
		says  []string
	}{
		"a condition on a column that is not there": {where: "golds > 1", says: []string{"where", "golds", "s1", "s2"}},
		"a condition that is none":                  {where: "gold >", says: []string{"where", "s1", "s2"}},
		"a sum of a column that is not there": {sum: merge.ConservedSum{Name: "all gold", Table: "roles", Expression: "SUM(golds)"},
			says: []string{`"all gold" cannot be computed`, "golds", "s1", "s2", "the target"}},
		"a sum that is no number": {sum: merge.ConservedSum{Name: "who", Table: "roles", Expression: "MAX(name)"},
			says: []string{`"who" cannot be computed`, "not a number", "s1", "s2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			someDatabases(t, func(t *testing.T, target dbtest.Target) {
				tables := map[string]*merge.TablePlan{"roles": {Policy: merge.Copy, Where: c.where}}
				_, into, plan := small(t, target, schema, tables, rows(1), rows(2))
				plan.Target.Name = "the target"
				if c.sum.Name != "" {
					plan.Conserve = []merge.ConservedSum{c.sum}
				}
				before := into.dump(t)
				report, found := problems(t, open(t, plan))
				text := fmt.Sprint(found[merge.CodePlan])
				for _, word := range c.says {
					if !strings.Contains(text, word) {
						t.Errorf("%q is missing in %v", word, report.Problems)
					}
				}
				if len(found) != 1 || report.Verdict != merge.Undecided {
					t.Errorf("%v: %v", report.Verdict, report.Problems)
				}
				same(t, "the target", into.dump(t), before)
			})
		})
	}
}

func TestNullMeansTheWordWhereAPlanSaysWhatBecomesOfOrphans(t *testing.T) {
	t.Parallel()
	const text = `version: 1
layout: {preset: game}
servers:
  - {name: a, number: 1, dsn: a.db}
target: {name: a, number: 1, dsn: b.db}
tables:
  items: {policy: copy, orphans: %s}
`
	for written, want := range map[string]string{
		"null": "null", "Null": "null", `"null"`: "null", "drop": "drop", "": "", "~": "", "refuse": "refuse",
	} {
		plan, err := merge.Parse(fmt.Appendf(nil, text, written))
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if got := plan.Tables["items"].Orphans; got != want {
			t.Errorf("orphans: %s is %q, want %q", written, got, want)
		}
	}
}

func TestASumNamesItsColumnInBracesAndAHookMayKeepTheRunOpen(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE purses (id BIGINT NOT NULL PRIMARY KEY, QUOTEGoldQUOTE BIGINT)"}
		purse := func(server, gold int) []string {
			return []string{fmt.Sprintf("INSERT INTO purses VALUES (%s, %d)", id(server, 1), gold)}
		}
		_, into, plan := small(t, target, schema, copies("purses"), purse(1, 5), purse(2, 7))
		plan.Conserve = []merge.ConservedSum{{Name: "gold", Table: "purses", Expression: "SUM({Gold})"}}
		why := errors.New("the game is not ready")
		early := open(t, plan, merge.WithHooks(merge.Hooks{AfterMerge: func(context.Context) error { return why }}))
		if _, err := early.Run(t.Context()); !errors.Is(err, why) {
			t.Fatalf("a run whose hook fails: %v", err)
		}
		if _, err := early.Verify(t.Context()); !errors.Is(err, merge.ErrNotRun) {
			t.Errorf("verify of a run whose hook failed: %v", err)
		}
		m := open(t, plan)
		report, err := m.Run(t.Context())
		if err != nil || !report.Resumed || report.Already {
			t.Fatalf("the second run: %+v, %v", report, err)
		}
		v, err := m.Verify(t.Context())
		if err != nil || !v.OK || !slices.ContainsFunc(v.Checks, func(c merge.Comparison) bool { return c.What == "sum" && c.Got == "12" }) {
			t.Errorf("verify: %+v, %v", v, err)
		}
		into.exec(t, "UPDATE purses SET QUOTEGoldQUOTE = 6 WHERE id = "+id(1, 1))
		if v, err = m.Verify(t.Context()); err != nil || !slices.ContainsFunc(v.Failed, func(c merge.Comparison) bool { return c.What == "sum" }) {
			t.Errorf("verify after a change: %+v, %v", v, err)
		}
	})
}
