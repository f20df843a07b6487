package merge_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func TestUniqueKeysOfAllSortsAreComparedBeforeTheRowsAreWritten(t *testing.T) {
	t.Parallel()
	rename := map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}}
	names := [][2]string{{"SELECT name FROM roles ORDER BY id", "Ann,Bob,ann.s2"}}
	row := func(server, n int, name string) string {
		return "INSERT INTO roles (id, name) VALUES (" + id(server, n) + ", " + name + ")"
	}
	first, second := []string{row(1, 1, "'Ann'"), row(1, 2, "'Bob'")}, []string{row(2, 3, "'ann'")}
	const binary = "name VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
	mergeHostile(t, map[string]hostile{
		"NULLs that are equal": {on: "postgres",
			schema: []string{"CREATE TABLE roles (id BIGINT PRIMARY KEY, name VARCHAR(40), UNIQUE NULLS NOT DISTINCT (name))"},
			first:  []string{row(1, 1, "NULL")}, second: []string{row(2, 1, "NULL")},
			tables: copies("roles"), refused: merge.CodeUniqueKey, says: "1 row"},
		"NULLs that are not equal": {on: "postgres",
			schema: []string{"CREATE TABLE roles (id BIGINT PRIMARY KEY, name VARCHAR(40) UNIQUE)"},
			first:  []string{row(1, 1, "NULL")}, second: []string{row(2, 1, "NULL")},
			tables: copies("roles"), same: []string{"roles"}},
		"an expression of MySQL": {on: "mysql", flavor: "mysql",
			schema: []string{"CREATE TABLE roles (id BIGINT PRIMARY KEY, " + binary + ", UNIQUE INDEX folded ((CONCAT(LOWER(name), '!'))))"},
			first:  first, second: second, tables: rename, asks: names},
		"an expression of MySQL, undecided": {on: "mysql", flavor: "mysql",
			schema: []string{"CREATE TABLE roles (id BIGINT PRIMARY KEY, " + binary + ", UNIQUE INDEX folded ((CONCAT(LOWER(name), '!'))))"},
			first:  first, second: second, tables: copies("roles"), refused: merge.CodeUniqueKey, says: "folded"},
		"an expression of PostgreSQL": {on: "postgres",
			schema: []string{"CREATE TABLE roles (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)", "CREATE UNIQUE INDEX folded ON roles (lower(name))"},
			first:  first, second: second, tables: rename, asks: names},
		"an expression that is a constant": {on: "postgres", // at most one row may be the king
			schema: []string{"CREATE TABLE roles (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL, king BOOLEAN NOT NULL DEFAULT false)",
				"CREATE UNIQUE INDEX throne ON roles ((true)) WHERE king"},
			first: append(first, "UPDATE roles SET king = true WHERE name = 'Ann'"), second: append(second, "UPDATE roles SET king = true"),
			tables: copies("roles"), refused: merge.CodeUniqueKey, says: "throne"},
		"an expression that is a constant, without a conflict": {on: "postgres",
			schema: []string{"CREATE TABLE roles (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL, king BOOLEAN NOT NULL DEFAULT false)",
				"CREATE UNIQUE INDEX throne ON roles ((1)) WHERE king"},
			first: append(first, "UPDATE roles SET king = true WHERE name = 'Ann'"), second: second,
			tables: copies("roles"), same: []string{"roles"}},
		"a generated column of MySQL": {on: "mysql",
			schema: []string{"CREATE TABLE roles (id BIGINT PRIMARY KEY, " + binary +
				", folded VARCHAR(41) GENERATED ALWAYS AS (CONCAT(LOWER(name), '!')) STORED UNIQUE)"},
			first: first, second: second, tables: rename, asks: names},
		"a generated column of SQLite": {on: "sqlite", // its expression is not in the catalog
			schema: []string{"CREATE TABLE roles (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL, " +
				"folded TEXT GENERATED ALWAYS AS (lower(name)) VIRTUAL UNIQUE)"},
			first: first, second: []string{row(2, 3, "'Cid'")}, tables: rename, warned: merge.CodeUncheckable, says: "computed",
			asks: [][2]string{{"SELECT name FROM roles ORDER BY id", "Ann,Bob,Cid"}}},
		"a generated column of PostgreSQL": {on: "postgres",
			schema: []string{"CREATE TABLE roles (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL, " +
				"folded VARCHAR(41) GENERATED ALWAYS AS (lower(name) || '!') STORED UNIQUE)"},
			first: first, second: second, tables: rename, asks: names},
	})
}
