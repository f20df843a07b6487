package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func TestOddNamesAndCountersAreMerged(t *testing.T) {
	t.Parallel()
	one, two, three, four := id(1, 1), id(1, 2), id(2, 1), id(2, 2)
	counted := func() *merge.TablePlan { return &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Behind} }
	renamed := func(column string) *merge.TablePlan {
		return &merge.TablePlan{Policy: merge.Rename, Rename: &merge.RenamePlan{Column: column}}
	}
	wide := make([]string, 700)
	values := make([]string, len(wide))
	for i := range wide {
		wide[i], values[i] = fmt.Sprintf("c%d INT", i), "7"
	}
	mergeHostile(t, map[string]hostile{
		"columns that are named like those of the merge": {
			schema: []string{"CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY, merge_n BIGINT, merge_server BIGINT, merge_key VARCHAR(9), merge_tries BIGINT, s VARCHAR(9), pn BIGINT, name VARCHAR(20) NOT NULL UNIQUE)"},
			first:  []string{"INSERT INTO odd VALUES (" + one + ", 1, 2, 'k', 3, 's', 4, 'Ann')"},
			second: []string{"INSERT INTO odd VALUES (" + three + ", 1, 2, 'k', 3, 's', 4, 'Ann')"},
			tables: map[string]*merge.TablePlan{"odd": renamed("name")},
			asks:   [][2]string{{"SELECT name FROM odd ORDER BY id", "Ann,Ann.s2"}, {"SELECT SUM(merge_n + merge_server + merge_tries + pn) FROM odd", "20"}}},
		"a name that is the column of the merge": {
			schema:  []string{"CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY, merge_key VARCHAR(20) NOT NULL UNIQUE)"},
			first:   []string{"INSERT INTO odd VALUES (" + one + ", 'Ann')"},
			second:  []string{"INSERT INTO odd VALUES (" + three + ", 'Ann')"},
			tables:  map[string]*merge.TablePlan{"odd": renamed("merge_key")},
			refused: merge.CodePlan, says: "odd: merge_key"},
		"words of SQL, in tables that refer to each other": {
			schema: []string{"CREATE TABLE QUOTEselectQUOTE (QUOTEorderQUOTE BIGINT NOT NULL PRIMARY KEY, QUOTEfromQUOTE VARCHAR(9) UNIQUE)",
				"CREATE TABLE QUOTEgroup byQUOTE (QUOTEwhere QUOTE VARCHAR(3), id BIGINT NOT NULL PRIMARY KEY, QUOTEjoinQUOTE BIGINT, FOREIGN KEY (QUOTEjoinQUOTE) REFERENCES QUOTEselectQUOTE (QUOTEorderQUOTE))"},
			on:     "sqlite postgres",
			first:  []string{"INSERT INTO QUOTEselectQUOTE VALUES (1, 'a')", "INSERT INTO QUOTEgroup byQUOTE VALUES ('x', " + one + ", 1)"},
			second: []string{"INSERT INTO QUOTEselectQUOTE VALUES (1, 'a')", "INSERT INTO QUOTEgroup byQUOTE VALUES ('y', " + three + ", 1)"},
			tables: map[string]*merge.TablePlan{"select": {Policy: merge.Rename, Renumber: merge.Behind, Rename: &merge.RenamePlan{Column: "from"}}, "group by": {Policy: merge.Copy}},
			asks:   [][2]string{{"SELECT QUOTEfromQUOTE FROM QUOTEgroup byQUOTE JOIN QUOTEselectQUOTE ON QUOTEorderQUOTE = QUOTEjoinQUOTE ORDER BY id", "a,a.s2"}}},
		"quotation marks, dots and letters of other scripts": {on: "sqlite postgres",
			schema: []string{`CREATE TABLE "a.b""c'd" (id BIGINT NOT NULL PRIMARY KEY, "имя ""x""" VARCHAR(20) UNIQUE, "$1" BIGINT, "?" BIGINT, "%s" BIGINT)`},
			first:  []string{`INSERT INTO "a.b""c'd" VALUES (` + one + `, 'Ann', 1, 2, 3)`},
			second: []string{`INSERT INTO "a.b""c'd" VALUES (` + three + `, 'Ann', 1, 2, 3)`},
			tables: map[string]*merge.TablePlan{`a.b"c'd`: renamed(`имя "x"`)},
			asks:   [][2]string{{`SELECT "имя ""x""" FROM "a.b""c'd" ORDER BY id`, "Ann,Ann.s2"}, {`SELECT SUM("$1" + "?" + "%s") FROM "a.b""c'd"`, "12"}}},
		"backticks and quotation marks": {on: "mysql",
			schema: []string{"CREATE TABLE `a.b``c'd\"` (id BIGINT NOT NULL PRIMARY KEY, `имя ``x``` VARCHAR(20) UNIQUE, `?` BIGINT, `%s` BIGINT)"},
			first:  []string{"INSERT INTO `a.b``c'd\"` VALUES (" + one + ", 'Ann', 2, 3)"},
			second: []string{"INSERT INTO `a.b``c'd\"` VALUES (" + three + ", 'Ann', 2, 3)"},
			tables: map[string]*merge.TablePlan{"a.b`c'd\"": renamed("имя `x`")},
			asks:   [][2]string{{"SELECT `имя ``x``` FROM `a.b``c'd\"` ORDER BY id", "Ann,Ann.s2"}, {"SELECT SUM(`?` + `%s`) FROM `a.b``c'd\"`", "10"}}},
		"names of 60 letters": {
			schema: []string{"CREATE TABLE " + strings.Repeat("t", 60) + " (id BIGINT NOT NULL PRIMARY KEY, " + strings.Repeat("n", 60) + " VARCHAR(20) UNIQUE)"},
			first:  []string{"INSERT INTO " + strings.Repeat("t", 60) + " VALUES (1, 'Ann')"},
			second: []string{"INSERT INTO " + strings.Repeat("t", 60) + " VALUES (1, 'Ann')"},
			tables: map[string]*merge.TablePlan{strings.Repeat("t", 60): {Policy: merge.Rename, Renumber: merge.Behind, Rename: &merge.RenamePlan{Column: strings.Repeat("n", 60)}}},
			asks:   [][2]string{{"SELECT " + strings.Repeat("n", 60) + " FROM " + strings.Repeat("t", 60) + " ORDER BY id", "Ann,Ann.s2"}}},
		"a table of 700 columns": {
			schema: []string{"CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY, " + strings.Join(wide, ", ") + ")"},
			first:  []string{"INSERT INTO odd VALUES (" + one + ", " + strings.Join(values, ", ") + ")", "INSERT INTO odd VALUES (" + two + ", " + strings.Join(values, ", ") + ")"},
			second: []string{"INSERT INTO odd VALUES (" + three + ", " + strings.Join(values, ", ") + ")"},
			tables: copies("odd"), asks: [][2]string{{"SELECT SUM(c0 + c699) FROM odd", "42"}}},
		"a server with nothing in it": {
			schema: []string{"CREATE TABLE odd (COUNTED, name VARCHAR(20) NOT NULL UNIQUE)"},
			second: []string{"INSERT INTO odd (name) VALUES ('Ann')"},
			tables: map[string]*merge.TablePlan{"odd": {Policy: merge.Rename, Renumber: merge.Behind, Rename: &merge.RenamePlan{Column: "name"}}},
			asks:   [][2]string{{"SELECT name FROM odd", "Ann"}}, after: "INSERT INTO odd (name) VALUES ('Bob')", then: [][2]string{{"SELECT COUNT(DISTINCT id) FROM odd", "2"}}},
		"a sequence in steps of ten": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START 5 INCREMENT 10) PRIMARY KEY, v BIGINT)"},
			first:  many(1, 3, func(n int) string { return fmt.Sprintf("INSERT INTO odd (v) VALUES (%d)", n) }),
			second: many(1, 5, func(n int) string { return fmt.Sprintf("INSERT INTO odd (v) VALUES (%d)", n) }),
			tables: map[string]*merge.TablePlan{"odd": counted()},
			asks:   [][2]string{{"SELECT COUNT(*) FROM odd", "8"}},
			after:  "INSERT INTO odd (v) VALUES (9), (9), (9)", then: [][2]string{{"SELECT COUNT(DISTINCT id) FROM odd", "11"}}},
		"a sequence that counts down": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START 1000 MINVALUE 1 MAXVALUE 1000 INCREMENT -1) PRIMARY KEY, v BIGINT)"},
			first:  many(1, 3, func(n int) string { return fmt.Sprintf("INSERT INTO odd (v) VALUES (%d)", n) }),
			second: []string{"INSERT INTO odd VALUES (500, 1)"},
			tables: copies("odd"), asks: [][2]string{{"SELECT COUNT(*) FROM odd", "4"}},
			after: "INSERT INTO odd (v) VALUES (9)", then: [][2]string{{"SELECT COUNT(DISTINCT id) FROM odd", "5"}}},
		"a sequence that counts down from -1": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT GENERATED BY DEFAULT AS IDENTITY (INCREMENT -1) PRIMARY KEY, v BIGINT)"},
			first:  many(1, 3, func(n int) string { return fmt.Sprintf("INSERT INTO odd (v) VALUES (%d)", n) }),
			second: []string{"INSERT INTO odd VALUES (-500, 1)"},
			tables: copies("odd"), asks: [][2]string{{"SELECT id FROM odd ORDER BY id", "-500,-3,-2,-1"}},
			after: "INSERT INTO odd (v) VALUES (9)", then: [][2]string{{"SELECT MIN(id) FROM odd", "-501"}}},
		"a sequence that two tables share": {on: "postgres",
			schema: []string{"CREATE SEQUENCE shared", "CREATE TABLE odd (id BIGINT DEFAULT nextval('shared') PRIMARY KEY)", "CREATE TABLE even (id BIGINT DEFAULT nextval('shared') PRIMARY KEY)"},
			first:  []string{"INSERT INTO odd DEFAULT VALUES", "INSERT INTO even DEFAULT VALUES", "INSERT INTO even DEFAULT VALUES"},
			second: []string{"INSERT INTO odd DEFAULT VALUES", "INSERT INTO even DEFAULT VALUES"},
			tables: map[string]*merge.TablePlan{"odd": counted(), "even": counted()},
			asks:   [][2]string{{"SELECT COUNT(*) FROM odd", "2"}, {"SELECT COUNT(*) FROM even", "3"}}},
		"a unique key for a part of the rows, with a rename": {on: "postgres sqlite",
			schema: []string{"CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20), gone BIGINT NOT NULL)", "CREATE UNIQUE INDEX odd_name ON odd (name) WHERE gone = 0"},
			first:  []string{"INSERT INTO odd VALUES (" + one + ", 'Ann', 1), (" + two + ", 'Bob', 0)"},
			second: []string{"INSERT INTO odd VALUES (" + three + ", 'Ann', 0), (" + four + ", 'Bob', 0)"},
			tables: map[string]*merge.TablePlan{"odd": renamed("name")},
			asks:   [][2]string{{"SELECT name FROM odd ORDER BY id", "Ann,Ann,Bob,Bob.s2"}}},
		"a name that is unique in a realm": {
			schema: []string{"CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY, realm BIGINT NOT NULL, name VARCHAR(20) NOT NULL, UNIQUE (realm, name))"},
			first:  []string{"INSERT INTO odd VALUES (" + one + ", 1, 'Ann'), (" + two + ", 2, 'Ann')"},
			second: []string{"INSERT INTO odd VALUES (" + three + ", 1, 'Ann'), (" + four + ", 3, 'Ann')"},
			tables: map[string]*merge.TablePlan{"odd": renamed("name")},
			asks:   [][2]string{{"SELECT name FROM odd ORDER BY id", "Ann,Ann.s2,Ann,Ann"}}},
		"names that are missing or empty": {
			schema: []string{"CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) UNIQUE)"},
			first:  []string{"INSERT INTO odd VALUES (" + one + ", NULL), (" + two + ", '')"},
			second: []string{"INSERT INTO odd VALUES (" + three + ", NULL), (" + four + ", ' ')"},
			tables: map[string]*merge.TablePlan{"odd": renamed("name")}, on: "sqlite postgres",
			asks: [][2]string{{"SELECT COUNT(*) FROM odd WHERE name IS NULL", "2"}, {"SELECT COUNT(DISTINCT name) FROM odd", "2"}}},
		"a condition with a question about another table": {
			schema: []string{"CREATE TABLE bans (player BIGINT NOT NULL PRIMARY KEY)", "CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(9))"},
			first:  []string{"INSERT INTO odd VALUES (" + one + ", 'a'), (" + two + ", 'b')", "INSERT INTO bans VALUES (" + one + ")"},
			second: []string{"INSERT INTO odd VALUES (" + three + ", 'c'), (" + four + ", 'd')", "INSERT INTO bans VALUES (" + four + ")"},
			tables: map[string]*merge.TablePlan{"odd": {Policy: merge.Copy, Where: "id NOT IN (SELECT player FROM bans)"}, "bans": {Policy: merge.Skip}},
			asks:   [][2]string{{"SELECT v FROM odd ORDER BY v", "b,c"}}},
		"keys that differ in trailing blanks": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL PRIMARY KEY, v BIGINT)"},
			first:  []string{"INSERT INTO odd VALUES ('a', 1)"},
			second: []string{"INSERT INTO odd VALUES ('A ', 2)"},
			tables: copies("odd"), refused: merge.CodePrimaryKey, says: "odd"},
		"rows of one server that are equal in the key of the plan": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, login VARCHAR(9), v BIGINT)", "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT, FOREIGN KEY (p) REFERENCES p (id))"},
			first:  []string{"INSERT INTO p VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3)", "INSERT INTO c VALUES (" + one + ", 2)"},
			second: []string{"INSERT INTO p VALUES (1, 'b', 4), (2, 'b', 5), (3, 'c', 6)", "INSERT INTO c VALUES (" + three + ", 2), (" + four + ", 3)"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"login"}, Renumber: merge.Behind}, "c": {Policy: merge.Copy}},
			asks: [][2]string{{"SELECT login FROM p ORDER BY login", "a,b,c"}, {"SELECT v FROM p ORDER BY login", "1,3,6"},
				{"SELECT login FROM c JOIN p ON p.id = c.p ORDER BY c.id", "a,b,c"}}},
	})
}
