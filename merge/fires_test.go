package merge_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A trigger changes what a merge writes, or writes rows that no server has.
func TestWhatActsWhileAMergeWritesIsRefusedUnlessThePlanListsIt(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		target = target.Privileged() // it makes triggers
		roles := "CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, level INTEGER NOT NULL)"
		_, into, plan := small(t, target, []string{roles}, copies("roles"),
			[]string{"INSERT INTO roles VALUES (" + id(1, 1) + ", 1)"})
		into.exec(t, refusing(target)...)
		refused(t, into, plan, merge.CodeTrigger, "positive")
		plan.Fires = []string{"positive", "negative"}
		refused(t, into, plan, merge.CodePlan, "negative")
		plan.Fires = []string{"positive"}
		report, _ := problems(t, open(t, plan))
		if len(report.Problems) > 0 || !slices.ContainsFunc(report.Warnings, func(p merge.Problem) bool {
			return p.Code == merge.CodeTrigger && strings.Contains(p.Message, "positive")
		}) {
			t.Errorf("with the trigger in the plan, check finds %v and %v", report.Problems, report.Warnings)
		}
		plan.Fires = nil
		switch target.Dialect {
		case "postgres":
			into.exec(t, "ALTER TABLE roles DISABLE TRIGGER positive")
		case "mysql":
			into.exec(t, "DROP TRIGGER positive", "CREATE EVENT nightly ON SCHEDULE EVERY 9 YEAR STARTS '2037-01-01' DO DELETE FROM roles")
			if into.texts(t, "SELECT @@event_scheduler")[0] == "ON" {
				refused(t, into, plan, merge.CodeTrigger, "nightly")
				plan.Fires = []string{"nightly"}
				if report, _ := problems(t, open(t, plan)); len(report.Problems) > 0 {
					t.Errorf("with the event in the plan, check finds %v", report.Problems)
				}
				plan.Fires = nil
				into.exec(t, "ALTER EVENT nightly DISABLE")
			}
		default:
			into.exec(t, "DROP TRIGGER positive")
		}
		run(t, open(t, plan))
	})
}

// What is written to a partition is written by way of its table.
func TestATriggerOfAPartitionActsOnRowsOfItsTable(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, level INTEGER) " +
			"PARTITION BY RANGE (id)", "CREATE TABLE roles_all PARTITION OF roles DEFAULT"}, copies("roles"),
			[]string{"INSERT INTO roles VALUES (" + id(1, 1) + ", 1)"})
		into.exec(t, strings.ReplaceAll(strings.Join(refusing(target), ";"), "ON roles", "ON roles_all"))
		refused(t, into, plan, merge.CodeTrigger, "positive")
	})
}
