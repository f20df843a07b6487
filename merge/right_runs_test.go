package merge_test

import (
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// TestVerifyFindsNothingAfterRunsThatWereRight has rows of which only their database knows the order.
func TestVerifyFindsNothingAfterRunsThatWereRight(t *testing.T) {
	t.Parallel()
	newest := func() map[string]*merge.TablePlan {
		return map[string]*merge.TablePlan{"plays": {Policy: merge.Newest, Key: []string{"name"}, By: "at"}}
	}
	plays := func(s int, a, b string) []string {
		return []string{"INSERT INTO plays VALUES (" + id(s, 1) + ", 'a', '" + a + "'), (" + id(s, 2) + ", 'b', '" + b + "')"}
	}
	of := func(kind string) []string {
		return []string{"CREATE TABLE plays (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9) UNIQUE, at " + kind + ")"}
	}
	converts := func() map[string]*merge.TablePlan {
		return map[string]*merge.TablePlan{"plays": {Policy: merge.Copy, Convert: []string{"at"}}}
	}
	loose := func(kind string) []string { return []string{strings.Replace(of(kind)[0], " UNIQUE", "", 1)} }
	mine := [][2]string{{"SELECT id FROM plays ORDER BY id", id(2, 1) + "," + id(1, 2)}}
	mergeHostile(t, map[string]hostile{
		"the greater one of two members of an enum": {
			on: "mysql", schema: of("ENUM('zinc', 'iron', 'gold')"), first: plays(1, "iron", "gold"), second: plays(2, "gold", "zinc"),
			tables: newest(), asks: mine,
		},
		"the later one of two dates before Christ": {
			on: "postgres", schema: of("DATE"), first: plays(1, "0044-03-15 BC", "0030-01-01 BC"), second: plays(2, "0030-01-01 BC", "0044-03-15 BC"),
			tables: newest(), asks: mine,
		},
		"the later one of two times, of which one is infinity": {
			on: "postgres", schema: of("TIMESTAMP"), first: plays(1, "-infinity", "infinity"), second: plays(2, "2024-05-06", "2024-05-06"),
			tables: newest(), asks: mine,
		},
		"the greater one of two arrays": {
			on: "postgres", schema: of("INTEGER[]"), first: plays(1, "{9}", "{10}"), second: plays(2, "{10}", "{9}"),
			tables: newest(), asks: mine,
		},
		"the greater one of two members of an enum of PostgreSQL": {
			on: "postgres", schema: append([]string{"CREATE TYPE metal AS ENUM ('zinc', 'iron', 'gold')"}, of("metal")...),
			first: plays(1, "iron", "gold"), second: plays(2, "gold", "zinc"),
			tables: newest(), asks: mine,
		},
		"texts that become spans of time": {
			on: "postgres", schema: loose("VARCHAR(30)"), before: loose("INTERVAL"), first: plays(1, "1 day", "90 minutes"), second: plays(2, "P1Y", "3 mons 25:00"),
			tables: converts(), asks: [][2]string{{"SELECT at::text FROM plays ORDER BY at", "01:30:00,1 day,1 year,3 mons 25:00:00"}},
		},
		"texts that become arrays": {
			on: "postgres", schema: loose("VARCHAR(30)"), before: loose("INTEGER[]"), first: plays(1, "{1, 2}", "{ 3 }"), second: plays(2, "{}", "{4,NULL}"),
			tables: converts(), asks: [][2]string{{"SELECT at::text FROM plays ORDER BY at", "{1,2},{3},{4,NULL},{}"}},
		},
		"a table that inherits has counted keys": {
			on: "postgres", schema: []string{"CREATE TABLE items (id BIGSERIAL PRIMARY KEY, gold INT)", "CREATE TABLE swords (PRIMARY KEY (id), edge INT) INHERITS (items)",
				"CREATE TABLE bags (COUNTED, item BIGINT NOT NULL)"},
			first:  []string{"INSERT INTO items (gold) VALUES (5), (6)", "INSERT INTO swords (gold, edge) VALUES (7, 1)", "INSERT INTO bags (item) VALUES (1), (3)"},
			second: []string{"INSERT INTO items (gold) VALUES (8)", "INSERT INTO swords (gold, edge) VALUES (9, 1), (10, 2)", "INSERT INTO bags (item) VALUES (2)"},
			tables: map[string]*merge.TablePlan{"items": {Policy: merge.Copy, Renumber: merge.Apart}, "swords": {Policy: merge.Copy, Renumber: merge.Apart},
				"bags": {Policy: merge.Copy, Renumber: merge.Apart}},
			asks: [][2]string{{"SELECT gold FROM items ORDER BY gold", "5,6,7,8,9,10"}},
		},
		"a table that a module keeps in others": {
			on: "sqlite", schema: []string{"CREATE TABLE pets (COUNTED, name VARCHAR(9))", "CREATE VIRTUAL TABLE notes USING fts4(body)"},
			first:  []string{"INSERT INTO pets (name) VALUES ('a')", "INSERT INTO notes (body) VALUES ('the hero')"},
			second: []string{"INSERT INTO pets (name) VALUES ('b')"},
			tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Apart}}, leftOut: []merge.LeftOut{{Kind: "virtual table", Name: "notes"}},
			asks: [][2]string{{"SELECT name FROM pets ORDER BY name", "a,b"}},
		},
	})
}
