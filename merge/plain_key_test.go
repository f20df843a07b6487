package merge_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A database has declared the reference, so it would lead to strangers: no plan can say that it is none.
func TestAColumnWithAForeignKeyCannotBePlain(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE pets (COUNTED, name VARCHAR(9))",
			"CREATE TABLE toys (COUNTED, pet BIGINT NOT NULL, CONSTRAINT toys_pet FOREIGN KEY (pet) REFERENCES pets (id))"}
		rows := []string{"INSERT INTO pets (name) VALUES ('a'), ('b')", "INSERT INTO toys (pet) VALUES (2)"}
		_, into, plan := small(t, target, nil, map[string]*merge.TablePlan{
			"pets": {Policy: merge.Copy, Renumber: merge.Apart}, "toys": {Policy: merge.Copy, Renumber: merge.Apart}},
			slices.Concat(schema, rows), slices.Concat(schema, rows))
		into.exec(t, schema[0], "CREATE TABLE toys (COUNTED, pet BIGINT NOT NULL)")
		plan.Plain = []string{"toys.pet"}
		report, found := problems(t, open(t, plan))
		if len(found[merge.CodeUndeclared]) != 1 || !strings.Contains(found[merge.CodeUndeclared][0].Remedy, "take it from plain:; ") {
			t.Fatalf("check has %v", report.Problems)
		}
		plan.Plain = nil // as the remedy says
		plan.Tables["toys"].References = []merge.Reference{{Column: "pet", Table: "pets"}}
		run(t, open(t, plan))
	})
}
