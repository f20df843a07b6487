package merge_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A game may have a table with a name that a merge needs.
func TestATableOfTheGameIsNotTakenForOneOfTheMerge(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		logs := "CREATE TABLE logs (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9) NOT NULL UNIQUE)"
		rows := func(server int) []string {
			return []string{"INSERT INTO logs VALUES (" + id(server, 1) + ", 'x')"}
		}
		tables := func(name string, p merge.Policy) map[string]*merge.TablePlan {
			return map[string]*merge.TablePlan{name: {Policy: p},
				"logs": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "tag"}}}
		}
		for _, name := range []string{"merge_run", "merge_servers", "merge_quarantine", "merge_stage_1", "merge_groups_1",
			"merge_trial_1", "tmp_merge_renames", "Merge_Drops"} {
			t.Run(name, func(t *testing.T) {
				if name != "merge_servers" && name != "merge_stage_1" {
					onServersAtNight(t, target)
				}
				if name == "Merge_Drops" && target.Dialect == "postgres" {
					t.Skip("it is another name there")
				}
				quoted := map[string]string{"mysql": "`" + name + "`"}[target.Dialect]
				if quoted == "" {
					quoted = `"` + name + `"`
				}
				schema := []string{logs, "CREATE TABLE " + quoted + " (id BIGINT NOT NULL PRIMARY KEY, gold INTEGER)"}
				row := func(server int) []string {
					return append(rows(server), "INSERT INTO "+quoted+" VALUES ("+id(server, 2)+", 5)")
				}
				_, into, plan := small(t, target, schema, tables(name, merge.Copy), row(1), row(2))
				refused(t, into, plan, merge.CodePlan, name)
			})
		}
		t.Run("on a server", func(t *testing.T) {
			mine := "CREATE TABLE merge_servers (id BIGINT NOT NULL PRIMARY KEY, gold INTEGER)"
			_, into, plan := small(t, target, []string{logs}, tables("merge_servers", merge.Copy),
				append(rows(1), mine, "INSERT INTO merge_servers VALUES (1, 5)"), rows(2))
			plan.Tables["merge_servers"].Absent = []string{"s2"}
			refused(t, into, plan, merge.CodeMissingTable, "merge_servers")
			delete(plan.Tables, "merge_servers")
			refused(t, into, plan, merge.CodeUnknownTable, "merge_servers")
			plan.Tables["merge_servers"] = &merge.TablePlan{Policy: merge.Skip}
			run(t, open(t, plan))
		})
		t.Run("of a merge before", func(t *testing.T) {
			_, into, plan := small(t, target, []string{logs}, map[string]*merge.TablePlan{"logs": {Policy: merge.Copy}},
				[]string{"INSERT INTO logs VALUES (" + id(1, 1) + ", 'a')"}, nil)
			run(t, open(t, plan))
			into.exec(t, "ALTER TABLE merge_journal ADD position VARCHAR(9)") // which 0.9.0 has
			next := newBase(t, target)
			next.exec(t, logs)
			plan.Servers, plan.Target.DSN = []merge.Server{{Name: "s1", Number: 1, Also: []int64{2}, DSN: into.dsn}}, next.dsn
			if draft := draftOf(t, plan); len(draft.Tables) != 1 {
				t.Errorf("the draft has %v", slices.Collect(maps.Keys(draft.Tables)))
			}
			run(t, open(t, plan))
			if got := next.texts(t, "SELECT tag FROM logs"); fmt.Sprint(got) != "[a]" {
				t.Errorf("the logs are %v", got)
			}
		})
	})
}
