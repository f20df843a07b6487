package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A row may refer to a row of another server, which will be beside it in the target.
func TestAReferenceToARowOfAnotherServerIsNoOrphan(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9))",
			"CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, role_id BIGINT, " +
				"FOREIGN KEY (role_id) REFERENCES roles (id))",
			"CREATE TABLE gems (id BIGINT NOT NULL PRIMARY KEY, item_id BIGINT, FOREIGN KEY (item_id) REFERENCES items (id))",
		}
		role := func(server, n int) string { return fmt.Sprintf("INSERT INTO roles VALUES (%s, 'x')", id(server, n)) }
		row := func(table string, server, n int, parent string) string {
			return fmt.Sprintf("INSERT INTO %s VALUES (%s, %s)", table, id(server, n), parent)
		}
		far := []string{role(2, 2), row("items", 2, 1, id(1, 1)), row("items", 2, 2, id(2, 2)), row("gems", 2, 1, id(2, 1)),
			row("gems", 2, 2, id(1, 1))}
		lost := append(slices.Clone(far), row("items", 2, 3, id(2, 77)), row("gems", 2, 3, id(2, 3)))
		near := []string{role(1, 1), row("items", 1, 1, id(2, 2))}
		for _, orphans := range []string{"", "drop", "null"} {
			t.Run("orphans: "+orphans, func(t *testing.T) {
				if orphans != "drop" {
					onServersAtNight(t, target)
				}
				rows := lost
				if orphans == "" {
					rows = far
				}
				_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"roles": {Policy: merge.Copy},
					"items": {Policy: merge.Copy, Orphans: orphans}, "gems": {Policy: merge.Copy, Orphans: orphans}}, near, rows)
				m := open(t, plan)
				if report, _ := problems(t, m); len(report.Problems) > 0 {
					t.Fatal(report.Problems)
				}
				// The second part of the run finds out anew what is no orphan.
				stopAfter(t, plan, "roles")
				run(t, open(t, plan))
				got := strings.Join(append(into.texts(t, "SELECT COALESCE(role_id, 0) FROM items ORDER BY id"),
					into.texts(t, "SELECT item_id FROM gems ORDER BY id")...), " ")
				want := strings.Join([]string{id(2, 2), id(1, 1), id(2, 2), id(2, 1), id(1, 1)}, " ")
				if orphans == "null" { // the third item has lost its role only
					want = strings.Join([]string{id(2, 2), id(1, 1), id(2, 2), "0", id(2, 1), id(1, 1), id(2, 3)}, " ")
				}
				if got != want {
					t.Errorf("items and gems lead to %s, want %s", got, want)
				}
			})
		}
		t.Run("behind a condition", func(t *testing.T) {
			onServersAtNight(t, target)
			_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
				"roles": {Policy: merge.Copy, Where: "tag <> 'x'"}, "items": {Policy: merge.Copy}, "gems": {Policy: merge.Copy}},
				near, nil)
			refused(t, into, plan, merge.CodeOrphan, "s1: items: role_id: 1 row: ")
		})
		t.Run("where the server has no such table", func(t *testing.T) {
			onServersAtNight(t, target)
			_, into, plan := small(t, target, nil, map[string]*merge.TablePlan{"roles": {Policy: merge.Copy, Absent: []string{"s2"}},
				"items": {Policy: merge.Copy, References: []merge.Reference{{Column: "role_id", Table: "roles"}}}},
				[]string{schema[0], "CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, role_id BIGINT)", role(1, 1)},
				[]string{"CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, role_id BIGINT)", row("items", 2, 1, id(1, 1))})
			into.exec(t, schema[0], "CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, role_id BIGINT)")
			run(t, open(t, plan))
		})
		t.Run("of a key that is renumbered", func(t *testing.T) {
			_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"roles": {Policy: merge.Copy, Renumber: merge.Behind},
				"items": {Policy: merge.Copy}, "gems": {Policy: merge.Copy}},
				[]string{"INSERT INTO roles VALUES (1, 'x'), (2, 'x')"},
				[]string{"INSERT INTO roles VALUES (1, 'x')", row("items", 2, 1, "2")})
			refused(t, into, plan, merge.CodeOrphan, "s2: items: role_id: 1 row: ")
		})
	})
}

// A table that the plan skips has the rows that the target had before.
func TestAReferenceToASkippedTableNeedsItsRowInTheTarget(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE kinds (id BIGINT NOT NULL PRIMARY KEY)", "CREATE TABLE items (id BIGINT NOT NULL " +
			"PRIMARY KEY, kind_id BIGINT, FOREIGN KEY (kind_id) REFERENCES kinds (id))"}
		rows := func(server int) []string {
			return []string{"INSERT INTO kinds VALUES (1), (2)", fmt.Sprintf("INSERT INTO items VALUES (%s, 1), (%s, 2)",
				id(server, 1), id(server, 2))}
		}
		for _, orphans := range []string{"", "drop", "null"} {
			t.Run("orphans: "+orphans, func(t *testing.T) {
				_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"kinds": {Policy: merge.Skip},
					"items": {Policy: merge.Copy, Orphans: orphans}}, rows(1), rows(2))
				into.exec(t, "INSERT INTO kinds VALUES (1)")
				if orphans == "" {
					refused(t, into, plan, merge.CodeOrphan, "s1: items: kind_id: 1 row: ")
					into.exec(t, "INSERT INTO kinds VALUES (2)")
				}
				run(t, open(t, plan))
				want := map[string]int64{"": 4, "drop": 2, "null": 4}[orphans]
				if n := into.number(t, "SELECT COUNT(*) FROM items"); n != want {
					t.Errorf("there are %d items, want %d", n, want)
				}
				if n := into.number(t, "SELECT COUNT(*) FROM items WHERE kind_id NOT IN (SELECT id FROM kinds)"); n != 0 {
					t.Errorf("%d items are of no kind", n)
				}
			})
		}
	})
}
