package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func TestRowsAreReadOnceWhateverTheirKeyIs(t *testing.T) {
	t.Parallel()
	words := []string{"zebra", "ape", "mole", "bee", "yak", "cat"}
	mergeHostile(t, map[string]hostile{
		"ENUM in a key": {on: "mysql",
			schema: []string{"CREATE TABLE gear (player BIGINT NOT NULL, slot ENUM('zebra','ape','mole','bee','yak','cat') " +
				"NOT NULL, gold INT, PRIMARY KEY (player, slot))"},
			first: many(0, 59, func(n int) string {
				return fmt.Sprintf("INSERT INTO gear VALUES (%s, '%s', %d)", id(1, n/6), words[n%6], n)
			}),
			second: many(0, 59, func(n int) string {
				return fmt.Sprintf("INSERT INTO gear VALUES (%s, '%s', %d)", id(2, n/6), words[n%6], n)
			}),
			tables: copies("gear"), same: []string{"gear"}},
		"SET as a key": {on: "mysql",
			schema: []string{"CREATE TABLE traits (t SET('zebra','ape','mole','bee','yak') NOT NULL PRIMARY KEY, gold INT)"},
			first:  many(0, 31, func(n int) string { return fmt.Sprintf("INSERT INTO traits VALUES (%d, %d)", n, n) }),
			tables: copies("traits"), same: []string{"traits"}},
		"BIT as a key": {on: "mysql",
			schema: []string{"CREATE TABLE bits (b BIT(64) NOT NULL PRIMARY KEY, gold INT)"},
			first: append(many(0, 30, func(n int) string {
				return fmt.Sprintf("INSERT INTO bits VALUES (%d, %d)", n*7919, n)
			}), "INSERT INTO bits VALUES (18446744073709551615, 1), (18446744073709551614, 1), (9223372036854775808, 1)"),
			tables: map[string]*merge.TablePlan{"bits": {Policy: merge.Copy, ForeignIDs: true}}, same: []string{"bits"}},
		"DECIMAL with many digits as a key": {on: "mysql postgres",
			schema: []string{"CREATE TABLE coins (c DECIMAL(38,10) NOT NULL PRIMARY KEY, gold INT)"},
			first: many(0, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO coins VALUES (1234567890123456789012345678.%010d, %d)", n, n)
			}),
			tables: copies("coins"), same: []string{"coins"}},
		"FLOAT as a key": {
			schema: []string{"CREATE TABLE ratios (f FLOAT NOT NULL PRIMARY KEY, gold INT)"},
			first: many(0, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO ratios VALUES (%d.1234567, %d)", n, n)
			}),
			tables: copies("ratios"), same: []string{"ratios"}},
		"BOOLEAN in a key": {
			schema: []string{"CREATE TABLE flags (player BIGINT NOT NULL, b BOOLEAN NOT NULL, gold INT, PRIMARY KEY (b, player))"},
			first: many(0, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO flags VALUES (%s, %s, %d)", id(1, n), []string{"FALSE", "TRUE"}[n%2], n)
			}),
			second: many(0, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO flags VALUES (%s, %s, %d)", id(2, n), []string{"FALSE", "TRUE"}[n%2], n)
			}),
			tables: copies("flags"), same: []string{"flags"}},
		"bytes that look like numbers": {
			schema: []string{"CREATE TABLE tokens (k BLOBTYPE NOT NULL PRIMARY KEY, gold INT)"},
			first: many(0, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO tokens VALUES (BLOB'%x', %d)", fmt.Sprint(n), n)
			}),
			second: []string{"INSERT INTO tokens VALUES (BLOB'3939', 1)", "INSERT INTO tokens VALUES (BLOB'3031', 1)",
				"INSERT INTO tokens VALUES (BLOB'00', 1)", "INSERT INTO tokens VALUES (BLOB'ff00', 1)", "INSERT INTO tokens VALUES (BLOB'', 1)"},
			tables: copies("tokens"), same: []string{"tokens"}},
		"bytes in a column of another type": {on: "sqlite",
			schema: []string{"CREATE TABLE loot (k UUID NOT NULL PRIMARY KEY, gold INT)"},
			first: many(0, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO loot VALUES (X'%032x', %d)", n*1000003, n)
			}),
			second: many(0, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO loot VALUES (%s, %d)",
					[]string{fmt.Sprintf("'t%d'", n), fmt.Sprint(n), fmt.Sprintf("%d.5", n), fmt.Sprintf("X'%02xffff'", n)}[n%4], n)
			}),
			tables: copies("loot"), same: []string{"loot"}},
		"NULL in a key": {on: "sqlite",
			schema: []string{"CREATE TABLE nulls (k TEXT PRIMARY KEY, gold INT)"},
			first: many(0, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO nulls VALUES (%s, %d)", []string{"NULL", fmt.Sprintf("'%d'", n)}[n%2], n)
			}),
			tables: copies("nulls"), same: []string{"nulls"}},
		"a text of thousands of characters as a key": {on: "sqlite postgres",
			schema: []string{"CREATE TABLE essays (k TEXT NOT NULL PRIMARY KEY, gold INT)"},
			first: many(0, 20, func(n int) string {
				return fmt.Sprintf("INSERT INTO essays VALUES ('%s%04d', %d)", strings.Repeat("long", 630), n, n)
			}),
			second: many(0, 20, func(n int) string {
				return fmt.Sprintf("INSERT INTO essays VALUES ('%s%04d', %d)", strings.Repeat("long", 630), n+500, n)
			}),
			tables: copies("essays"), same: []string{"essays"}},
		"a key of times": {
			schema: []string{"CREATE TABLE beats (at TIMESTAMPTYPE NOT NULL PRIMARY KEY, gold INT)"},
			first: many(0, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO beats VALUES ('2024-01-01 00:00:%02d.%06d', %d)", n, n*13, n)
			}),
			tables: copies("beats"), same: []string{"beats"}},
		"a key of intervals, arrays, addresses and an enum": {on: "postgres",
			schema: []string{"CREATE TYPE mood AS ENUM ('zebra', 'ape', 'mole')",
				"CREATE TABLE odd (i INTERVAL, a INT[], n INET, m mood, t TIMETZ, c CHAR(5), gold INT, PRIMARY KEY (m, i, a, n, t, c))"},
			first: many(0, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO odd VALUES ('%d months %d days', '{%d,2}', '10.0.0.%d', '%s', '10:00:%02d.5+0%d', '%d', %d)",
					n%3, n, n, n, words[n%3], n, n%9, n, n)
			}),
			tables: copies("odd"), same: []string{"odd"}},
	})
}
