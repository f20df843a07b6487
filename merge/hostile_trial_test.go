package merge_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// TestTheRowsOfServersAreTriedApart has columns that are read back. The servers share the temporary table in
// which their rows are tried, and a row of one must not be taken for that of another.
func TestTheRowsOfServersAreTriedApart(t *testing.T) {
	t.Parallel()
	create := func(name string) []string {
		return []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, " + name + ", n INTEGER)"}
	}
	rows := func(server int, text string) []string {
		return many(1, 20, func(n int) string {
			return "INSERT INTO p VALUES (" + id(server, n) + ", '" + text + "', 7)"
		})
	}
	ends := func(server int, text string) []string {
		return append(rows(server, text), "INSERT INTO p VALUES ("+id(server, 21)+", '"+text+"', 8)")
	}
	mergeHostile(t, map[string]hostile{
		"all are taken": {
			schema: create("v VARCHAR(30)"), before: create("v VARCHAR(20)"), first: ends(1, "one"), second: rows(2, "two"),
			tables: copies("p"),
			asks:   [][2]string{{"SELECT COUNT(*) FROM p WHERE v = 'one'", "21"}, {"SELECT COUNT(*) FROM p WHERE v = 'two'", "20"}},
		},
		"the second one has a row that is refused": {
			schema: create("v VARCHAR(30)"), before: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(20), n INTEGER CHECK (n < 8))"},
			first: rows(1, "one"), second: ends(2, "two"), tables: copies("p"), refused: merge.CodeRefused, says: "s2: p: ",
		},
	})
}
