package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// TestVerifyRaisesNoFalseAlarm has targets in which all is as it should be, though that is not easy to see.
func TestVerifyRaisesNoFalseAlarm(t *testing.T) {
	t.Parallel()
	role := func(s, n int, name, deleted string) string {
		return fmt.Sprintf("INSERT INTO roles VALUES (%s, '%s', %s)", id(s, n), name, deleted)
	}
	columns := "CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL, deleted INTEGER"
	renames := map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}}
	mergeHostile(t, map[string]hostile{
		// The row that keeps the name differs in case, and a deleted one is equal.
		"a deleted name that differs in case": {
			on:     "sqlite postgres",
			schema: []string{columns + ")", "CREATE UNIQUE INDEX living ON roles (LOWER(name)) WHERE deleted IS NULL"},
			first:  []string{role(1, 1, "OWL", "NULL")},
			second: []string{role(2, 2, "owl", "NULL"), role(2, 3, "owl", "1")},
			tables: renames,
			asks:   [][2]string{{"SELECT name FROM roles ORDER BY id", "OWL,owl.s2,owl"}},
		},
		"a deleted name that differs in case, by a computed column": {
			on: "mysql",
			schema: []string{columns + ", living VARCHAR(20) AS (CASE WHEN deleted IS NULL THEN LOWER(name) END) STORED, UNIQUE (living)" +
				") COLLATE utf8mb4_bin"},
			first:  []string{strings.Replace(role(1, 1, "OWL", "NULL"), "VALUES", "(id, name, deleted) VALUES", 1)},
			second: []string{strings.Replace(role(2, 2, "owl", "NULL"), "VALUES", "(id, name, deleted) VALUES", 1), strings.Replace(role(2, 3, "owl", "1"), "VALUES", "(id, name, deleted) VALUES", 1)},
			tables: renames,
			asks:   [][2]string{{"SELECT name FROM roles ORDER BY id", "OWL,owl.s2,owl"}},
		},
		// A column of SQLite without a type keeps a number as a number, and a text as a text.
		"references in a column without a type": {
			on: "sqlite", schema: []string{"CREATE TABLE pets (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE toys (id BIGINT NOT NULL PRIMARY KEY, pet)"},
			first:  []string{"INSERT INTO pets VALUES (1), (2)", "INSERT INTO toys VALUES (" + id(1, 1) + ", 1), (" + id(1, 2) + ", '2')"},
			second: []string{"INSERT INTO pets VALUES (1), (3)", "INSERT INTO toys VALUES (" + id(2, 1) + ", 3), (" + id(2, 2) + ", '1')"},
			tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Behind},
				"toys": {Policy: merge.Copy, References: []merge.Reference{{Column: "pet", Table: "pets"}}}},
			asks: [][2]string{{"SELECT typeof(pet) || pet FROM toys ORDER BY id", "integer1,integer5,text2,text3"}},
		},
		// Rows that only differ in case come in any order, and then a page may have one twice and lack another.
		"a table without a key that compares without case": {
			on:     "sqlite mysql",
			schema: []string{"CREATE TABLE words (w FOLDS, n INTEGER)"},
			first:  many(1, 40, func(n int) string { return fmt.Sprintf("INSERT INTO words VALUES ('%s', 1)", spelled(n)) }),
			second: many(41, 60, func(n int) string { return fmt.Sprintf("INSERT INTO words VALUES ('%s', 1)", spelled(n)) }),
			tables: copies("words"), chunk: 3, same: []string{"words"},
		},
		"a table without a key that compares without case, by ICU": {
			on: "postgres",
			schema: []string{"CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
				"CREATE TABLE words (w FOLDS, n INTEGER)"},
			first:  many(1, 40, func(n int) string { return fmt.Sprintf("INSERT INTO words VALUES ('%s', 1)", spelled(n)) }),
			second: many(41, 60, func(n int) string { return fmt.Sprintf("INSERT INTO words VALUES ('%s', 1)", spelled(n)) }),
			tables: copies("words"), chunk: 3, same: []string{"words"},
		},
		// Children are compared with what is in their parents, but for what the database computes.
		"a parent with a unique column that is computed": {
			schema: []string{"CREATE TABLE houses (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20), " +
				"low VARCHAR(20) GENERATED ALWAYS AS (LOWER(name)) STORED, UNIQUE (low))",
				"CREATE TABLE rooms (id BIGINT NOT NULL PRIMARY KEY, house_id BIGINT NOT NULL, FOREIGN KEY (house_id) REFERENCES houses (id))"},
			first:  []string{"INSERT INTO houses (id, name) VALUES (" + id(1, 1) + ", 'Inn')", "INSERT INTO rooms VALUES (" + id(1, 2) + ", " + id(1, 1) + ")"},
			second: []string{"INSERT INTO houses (id, name) VALUES (" + id(2, 1) + ", 'Mill')", "INSERT INTO rooms VALUES (" + id(2, 2) + ", " + id(2, 1) + ")"},
			tables: copies("houses", "rooms"), same: []string{"rooms"},
		},
		// The greater one of two values is not always the one whose text comes last.
		"the greater one of two intervals": {
			on: "postgres", schema: []string{"CREATE TABLE plays (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9) UNIQUE, spent INTERVAL)"},
			first:  []string{"INSERT INTO plays VALUES (" + id(1, 1) + ", 'a', '99 hours'), (" + id(1, 2) + ", 'b', '100 hours')"},
			second: []string{"INSERT INTO plays VALUES (" + id(2, 1) + ", 'a', '100 hours'), (" + id(2, 2) + ", 'b', '99 hours')"},
			tables: map[string]*merge.TablePlan{"plays": {Policy: merge.Newest, Key: []string{"name"}, By: "spent"}},
			asks:   [][2]string{{"SELECT id FROM plays ORDER BY id", id(2, 1) + "," + id(1, 2)}},
		},
		"the greater one of two texts that compare without case": {
			on: "mysql", schema: []string{"CREATE TABLE plays (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9) UNIQUE, title FOLDS)"},
			first:  []string{"INSERT INTO plays VALUES (" + id(1, 1) + ", 'a', 'a'), (" + id(1, 2) + ", 'b', 'B')"},
			second: []string{"INSERT INTO plays VALUES (" + id(2, 1) + ", 'a', 'B'), (" + id(2, 2) + ", 'b', 'a')"},
			tables: map[string]*merge.TablePlan{"plays": {Policy: merge.Newest, Key: []string{"name"}, By: "title"}},
			asks:   [][2]string{{"SELECT id FROM plays ORDER BY id", id(2, 1) + "," + id(1, 2)}},
		},
		"an index that is unique in every element of an array": {
			on: "mysql", flavor: "mysql",
			schema:  []string{"CREATE TABLE bags (id BIGINT NOT NULL PRIMARY KEY, ids JSON, UNIQUE INDEX each_id ((CAST(ids AS UNSIGNED ARRAY))))"},
			first:   []string{"INSERT INTO bags VALUES (" + id(1, 1) + ", '[1, 2]')"},
			second:  []string{"INSERT INTO bags VALUES (" + id(2, 1) + ", '[2, 3]')"},
			tables:  copies("bags"),
			refused: merge.CodeUncheckable, says: "each_id",
		},
	})
}

// spelled is a word of six letters, each large or small by a bit of a number.
func spelled(n int) string {
	word := []byte("dragon")
	for i := range word {
		if n>>i&1 == 1 {
			word[i] -= 'a' - 'A'
		}
	}
	return string(word)
}

func TestADatabaseMayShowDatesInAFormOfItsOwn(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE days (id BIGINT NOT NULL PRIMARY KEY, day DATE NOT NULL DEFAULT '2024-03-04', at TIMESTAMPTZ, text VARCHAR(40), " +
			"CHECK (day > '2001-02-03'))", "CREATE VIEW late AS SELECT id FROM days WHERE at > '2024-05-06 07:08:09+00'"}
		rows := func(s int) string {
			return "INSERT INTO days VALUES (" + id(s, 1) + ", '2024-07-08', '2024-07-08 09:10:11+02', 'x')"
		}
		servers, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"days": {Policy: merge.Copy,
			Where: "day > '2001-02-03'", Set: map[string]string{"text": "day"}}}, []string{rows(1)}, []string{rows(2)})
		plan.LeftOut = []merge.LeftOut{{Kind: "view", Name: "late"}}
		for i, b := range []base{servers[0], servers[1], into} {
			style := "DateStyle = ''" + []string{"German, DMY", "SQL, MDY", "Postgres, DMY"}[i] + "''"
			for _, set := range []string{style, "TimeZone = ''Asia/Tokyo''"} {
				b.exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET "+set+"', current_database()); END $$")
			}
		}
		run(t, open(t, plan))
	})
}

// TestACounterThatWasSetBackIsNamed though it is still ahead of where it was before the merge.
func TestACounterThatWasSetBackIsNamed(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE logs (COUNTED, what VARCHAR(9))"}
		last := "INSERT INTO logs (id, what) VALUES (90, 'x')" // which is deleted again
		if target.Dialect == "postgres" {
			last = "SELECT setval('logs_id_seq', 90)"
		}
		rows := []string{"INSERT INTO logs (what) VALUES ('x'), ('y')", last, "DELETE FROM logs WHERE id = 90"}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"logs": {Policy: merge.Copy, Renumber: merge.Behind}}, rows, rows)
		m := open(t, plan)
		run(t, m)
		into.exec(t, map[string]string{"sqlite": "UPDATE sqlite_sequence SET seq = 120 WHERE name = 'logs'",
			"mysql": "ALTER TABLE logs AUTO_INCREMENT = 120", "postgres": "SELECT setval('logs_id_seq', 120)"}[target.Dialect])
		if failed := failures(t, m); !slices.Equal(failed, []string{"catalog"}) {
			t.Errorf("verify finds %v", failed)
		}
	})
}

// TestARowOfAServerThatLacksTheTableIsFound although no row of another server is missing or differs.
func TestARowOfAServerThatLacksTheTableIsFound(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		badges := "CREATE TABLE badges (id BIGINT NOT NULL PRIMARY KEY, n INTEGER)"
		_, into, plan := small(t, target, []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, n INTEGER)"},
			map[string]*merge.TablePlan{"roles": {Policy: merge.Copy}, "badges": {Policy: merge.Copy, Absent: []string{"s2"}}},
			[]string{"INSERT INTO roles VALUES (" + id(1, 1) + ", 1)", badges,
				"INSERT INTO badges VALUES (" + id(1, 2) + ", 2)"}, []string{"INSERT INTO roles VALUES (" + id(2, 1) + ", 1)"})
		into.exec(t, badges)
		m := open(t, plan)
		run(t, m)
		into.exec(t, "INSERT INTO badges VALUES ("+id(2, 3)+", 3)")
		if failed := failures(t, m); !slices.Contains(failed, "rows") {
			t.Errorf("verify finds %v", failed)
		}
	})
}

// TestTwoFunctionsMayHaveLongListsOfArguments that begin alike for hundreds of characters.
func TestTwoFunctionsMayHaveLongListsOfArguments(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		function := func(last string) string {
			return "CREATE FUNCTION f(" + strings.Repeat("double precision, ", 30) + last + ") RETURNS integer LANGUAGE sql AS 'SELECT 1'"
		}
		schema := []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY)", function("text"), function("date")}
		_, into, plan := small(t, target, schema, copies("roles"), nil, nil)
		m := open(t, plan)
		run(t, m)
		into.exec(t, "DROP FUNCTION f("+strings.Repeat("double precision, ", 30)+"date)")
		if failed := failures(t, m); !slices.Equal(failed, []string{"catalog"}) {
			t.Errorf("verify finds %v", failed)
		}
	})
}
