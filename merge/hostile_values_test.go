package merge_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func TestWhatADatabaseCanStoreItCanMerge(t *testing.T) {
	t.Parallel()
	mergeHostile(t, map[string]hostile{
		"odd times of PostgreSQL": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a TIMESTAMP, b TIMESTAMPTZ, c DATE, d TIMETZ, e INTERVAL, f TIME)"},
			first: []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'infinity', '-infinity', 'infinity', '10:00:00.123456+05:30', '1 year -3 days', '24:00:00')",
				"INSERT INTO odd VALUES (" + id(1, 2) + ", '0044-03-15 12:00:00 BC', '0044-03-15 12:00:00+00 BC', '10000-01-01', '23:59:59-12', '-00:00:00.5', '00:00:00.5')"},
			second: []string{"INSERT INTO odd VALUES (" + id(2, 2) + ", '12024-03-15 12:00:00.5', '12024-03-15 12:00:00+00', '0001-01-01 BC', '00:00:00.120+15:59', NULL, NULL)"},
			tables: copies("odd"), same: []string{"odd"}},
		"odd times of MySQL": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a DATETIME, b DATE, c TIME, d YEAR, e DATETIME(3))"},
			first: []string{"SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
				"INSERT INTO odd VALUES (" + id(1, 1) + ", '0000-00-00 00:00:00', '2024-00-00', '838:59:59', 0, '2024-02-31 10:00:00.500')",
				"INSERT INTO odd VALUES (" + id(1, 2) + ", '2024-02-31 00:00:00', '0000-00-00', '-838:59:59', 2155, '0000-00-00 00:00:00')"},
			tables: copies("odd"), same: []string{"odd"}},
		"numbers at their ends": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a NUMERIC, b FLOAT8, c REAL, d NUMERIC(38,10))"},
			first: []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'NaN', 'NaN', 'Infinity', 1234567890123456789012345678.0123456789)",
				"INSERT INTO odd VALUES (" + id(1, 2) + ", 1e100, '-Infinity', '-Infinity', -0.0000000001)",
				"INSERT INTO odd VALUES (" + id(1, 3) + ", 1.500, 5e-324, 3.4028235e38, 0)"},
			tables: copies("odd"), same: []string{"odd"}},
		"types that only PostgreSQL has": {on: "postgres",
			schema: []string{"CREATE DOMAIN level AS INT CHECK (VALUE > 0)", "CREATE TYPE pos AS (x INT, y INT)",
				"CREATE TABLE odd (id BIGINT PRIMARY KEY, a INT[], b level, c pos, d INT4RANGE, e BIT(5), f VARBIT, g TSVECTOR, h INET, i JSON, j MONEY, k \"char\", l TEXT[])"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + `, '{1,NULL,3}', 5, '(1,2)', '[1,5)', B'10101', B'1', 'a fat cat', '10.0.0.0/8', '{"b":1, "a":1.50,"a":2}', 12.5, 'x', '{"a,b","c\"d",NULL,"NULL"}')`},
			tables: copies("odd"), same: []string{"odd"}},
		"types that only MySQL has": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a BIT(10), b ENUM('x','y',''), c SET('p','q'), d BINARY(4), e FLOAT, f DOUBLE, " +
				"g BIGINT UNSIGNED, h DECIMAL(65,30), i CHAR(5), j TINYBLOB, k VARCHAR(20) CHARACTER SET latin1, l BIT(64), m TINYINT UNSIGNED)"},
			first: []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 1023, 'y', 'p,q', X'00ff', 0.1, 1.7976931348623157e308, 18446744073709551615, " +
				"12345678901234567890123456789012345.123456789012345678901234567890, 'a ', X'00', 'é', 18446744073709551615, 255)"},
			tables: copies("odd"), same: []string{"odd"}},
		"what a column of SQLite should not hold": {on: "sqlite",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a INTEGER, b TEXT, c BLOB, d DATETIME, e DECIMAL(10,2), f BOOLEAN, g)"},
			first: []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'text', X'00ff', 5, 1700000000000, 'x', 'maybe', 1.5)",
				"INSERT INTO odd VALUES (" + id(1, 2) + ", X'31', CAST(X'ff41' AS TEXT), 'text', 2460000.5, 1e300, 2, 'a' || CHAR(0) || 'b')"},
			tables: copies("odd"), same: []string{"odd"}},
		"names that are hard to quote": {
			schema: []string{`CREATE TABLE QUOTEselectQUOTE (QUOTEfromQUOTE BIGINT NOT NULL PRIMARY KEY, QUOTEa b;--QUOTE INT, QUOTEo'brienQUOTE INT, ` +
				`QUOTEGoldQUOTE INT, QUOTEcQUOTE VARCHAR(9) UNIQUE, QUOTEгруппаQUOTE INT)`},
			first:  []string{"INSERT INTO QUOTEselectQUOTE VALUES (" + id(1, 1) + ", 1, 2, 3, 'x', 5)"},
			second: []string{"INSERT INTO QUOTEselectQUOTE VALUES (" + id(2, 1) + ", 1, 2, 3, 'x', 5)"},
			tables: map[string]*merge.TablePlan{"select": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "c"}}},
			asks:   [][2]string{{"SELECT QUOTEcQUOTE FROM QUOTEselectQUOTE ORDER BY QUOTEfromQUOTE", "x,x.s2"}}},
		"a table that keeps its history": {on: "mysql", flavor: "mariadb",
			schema: []string{"CREATE TABLE versions (id BIGINT PRIMARY KEY, gold INT) WITH SYSTEM VERSIONING"},
			first:  []string{"INSERT INTO versions VALUES (" + id(1, 1) + ", 5)", "UPDATE versions SET gold = 6"},
			second: []string{"INSERT INTO versions VALUES (" + id(2, 1) + ", 7)"},
			tables: copies("versions"), same: []string{"versions"}},
		"a table that inherits": {on: "postgres",
			schema: []string{"CREATE TABLE items (id BIGINT PRIMARY KEY, gold INT)", "CREATE TABLE swords (PRIMARY KEY (id), edge INT) INHERITS (items)"},
			first:  []string{"INSERT INTO items VALUES (" + id(1, 1) + ", 5)", "INSERT INTO swords VALUES (" + id(1, 2) + ", 5, 6)"},
			second: []string{"INSERT INTO swords VALUES (" + id(2, 2) + ", 5, 6)"},
			tables: copies("items", "swords"), same: []string{"items", "swords"}, asks: [][2]string{{"SELECT COUNT(*) FROM items", "3"}}},
		"a table in partitions": {on: "postgres",
			schema: []string{"CREATE TABLE logs (id BIGINT, day DATE, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
				"CREATE TABLE logs_old PARTITION OF logs FOR VALUES FROM ('2000-01-01') TO ('2024-01-01')",
				"CREATE TABLE logs_new PARTITION OF logs DEFAULT"},
			first:  []string{"INSERT INTO logs VALUES (" + id(1, 1) + ", '2001-01-01'), (" + id(1, 2) + ", '2025-01-01')"},
			tables: copies("logs"), asks: [][2]string{{"SELECT COUNT(*) FROM logs", "2"}, {"SELECT COUNT(*) FROM logs_old", "1"}}},
	})
}

func TestNothingOfADatabaseIsLeftOutWithoutBeingNamed(t *testing.T) {
	t.Parallel()
	const roles = "CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY)"
	mergeHostile(t, map[string]hostile{
		"a table of another schema": {on: "postgres", schema: []string{roles},
			first:  []string{"CREATE SCHEMA audit", "CREATE TABLE audit.log (id BIGINT)"},
			tables: copies("roles"), refused: merge.CodeLeftOut, says: "audit.log"},
		"a foreign table": {on: "postgres", schema: []string{roles},
			first: []string{"CREATE EXTENSION IF NOT EXISTS file_fdw", "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
				"CREATE FOREIGN TABLE far (id BIGINT) SERVER files OPTIONS (filename '/dev/null')"},
			tables: copies("roles"), refused: merge.CodeLeftOut, says: "far"},
		"a view, once it is named": {schema: []string{roles}, first: []string{"CREATE VIEW strong AS SELECT id FROM roles"},
			tables: copies("roles"), leftOut: []merge.LeftOut{{Kind: "view", Name: "strong"}}, same: []string{"roles"}},
		"a view": {schema: []string{roles}, first: []string{"CREATE VIEW strong AS SELECT id FROM roles"},
			tables: copies("roles"), same: []string{"roles"}, warned: merge.CodeLeftOut, says: "strong"},
		"a sequence of no column": {on: "postgres", schema: []string{roles}, first: []string{"CREATE SEQUENCE tickets"},
			tables: copies("roles"), same: []string{"roles"}, warned: merge.CodeLeftOut, says: "tickets"},
		"a trigger of a source": {on: "sqlite", schema: []string{roles},
			first:  []string{"CREATE TRIGGER shout AFTER INSERT ON roles BEGIN SELECT 1; END"},
			tables: copies("roles"), same: []string{"roles"}, warned: merge.CodeLeftOut, says: "shout"},
		"a virtual table": {on: "sqlite", schema: []string{roles}, first: []string{"CREATE VIRTUAL TABLE box USING rtree(id, a, b)"},
			tables: copies("roles"), refused: merge.CodeLeftOut, says: "box"},
	})
}
