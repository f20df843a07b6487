package merge_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// TestAValueArrivesInAnotherKindOfDatabaseAsItIsOrIsRefused merges one value for each pair of types. A value that
// the target would lose a part of is refused by the check, with a remedy, and not met in the run or later.
func TestAValueArrivesInAnotherKindOfDatabaseAsItIsOrIsRefused(t *testing.T) {
	t.Parallel()
	pairs := map[string][]pairedValue{}
	for _, c := range pairedValues() {
		pairs[c.from+" to "+c.to] = append(pairs[c.from+" to "+c.to], c)
	}
	for name, values := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mergeValues(t, values)
		})
	}
}

// pairedValue is a value of a type of one kind of database, and what becomes of it in a type of another.
type pairedValue struct{ from, source, value, to, target, ask, want string }

func (v pairedValue) String() string { return v.source + " " + v.value + " to " + v.target }

func pairedValues() []pairedValue {
	return []pairedValue{
		{"mysql", "BIGINT UNSIGNED", "18446744073709551615", "postgres", "BIGINT", "a", "refused"},
		{"mysql", "BIGINT UNSIGNED", "18446744073709551615", "postgres", "NUMERIC(20)", "a", "18446744073709551615"},
		{"mysql", "BIGINT UNSIGNED", "18446744073709551615", "sqlite", "INTEGER", "a", "refused"},
		{"mysql", "TINYINT(1)", "7", "postgres", "BOOLEAN", "a", "refused"},
		{"mysql", "BIT(1)", "b'1'", "postgres", "BOOLEAN", "a", "true"},
		{"mysql", "BIT(8)", "b'10000001'", "postgres", "BIT(8)", "a", "refused"},
		{"mysql", "BIT(8)", "b'10000001'", "postgres", "BIGINT", "a", "129"},
		{"mysql", "TIME", "'838:59:59'", "postgres", "TIME", "a", "refused"},
		{"mysql", "TIME", "'-10:00:00'", "postgres", "TIME", "a", "refused"},
		{"mysql", "TIME", "'38:59:59'", "postgres", "INTERVAL", "a", "refused"},
		{"mysql", "YEAR", "2155", "postgres", "INT", "a", "2155"},
		{"mysql", "DATE", "'9999-12-31'", "postgres", "DATE", "a", "9999-12-31"},
		{"mysql", "DATETIME(6)", "'2024-02-29 01:02:03.000001'", "postgres", "TIMESTAMP", "a", "2024-02-29 01:02:03.000001"},
		{"mysql", "DATETIME(6)", "'2024-02-29 01:02:03.000001'", "sqlite", "TEXT", "a", "refused"},
		{"mysql", "ENUM('x','y')", "'y'", "postgres", "TEXT", "a", "y"},
		{"mysql", "SET('x','y')", "'x,y'", "postgres", "TEXT", "a", "x,y"},
		{"mysql", "CHAR(4)", "'a'", "postgres", "CHAR(4)", "a || '|'", "a|"},
		{"mysql", "BINARY(4)", "X'61'", "postgres", "BYTEA", "encode(a,'hex')", "61000000"},
		{"mysql", "BINARY(16)", "X'6ba7b8109dad11d180b400c04fd430c8'", "postgres", "UUID", "a", "refused"},
		{"mysql", "VARBINARY(9)", "X'ff'", "postgres", "TEXT", "a", "refused"},
		{"mysql", "VARCHAR(9)", "CONCAT('a', CHAR(0), 'b')", "postgres", "TEXT", "a", "refused"},
		{"mysql", "FLOAT", "0.1", "postgres", "REAL", "a", "0.1"},
		{"mysql", "FLOAT", "0.1", "postgres", "DOUBLE PRECISION", "a::real", "0.1"},
		{"mysql", "DECIMAL(65,30)", "12345678901234567890123456789012345.123456789012345678901234567890", "postgres", "NUMERIC", "a", "12345678901234567890123456789012345.123456789012345678901234567890"},
		{"mysql", "DECIMAL(10,4)", "1.2345", "postgres", "NUMERIC(10,2)", "a", "refused"},
		{"mysql", "JSON", "'{\"x\": 12345678901234567890}'", "postgres", "JSONB", "a->>'x'", "12345678901234567890"},
		{"mysql", "JSON", "'{\"a\": \"\\\\u0000\"}'", "postgres", "JSONB", "a", "refused"},
		{"mysql", "VARCHAR(9)", "''", "postgres", "INT", "a", "refused"},
		{"mysql", "VARCHAR(9)", "'12'", "postgres", "INT", "a", "refused"},
		{"mysql", "DATE", "'2024-00-00'", "postgres", "DATE", "a", "refused"},
		{"postgres", "NUMERIC", "'NaN'", "mysql", "DOUBLE", "a", "refused"},
		{"postgres", "FLOAT8", "'Infinity'", "mysql", "DOUBLE", "a", "refused"},
		{"postgres", "FLOAT8", "'NaN'", "sqlite", "REAL", "a", "refused"},
		{"postgres", "FLOAT8", "'Infinity'", "sqlite", "REAL", "a", "Inf"},
		{"postgres", "NUMERIC", "1234567890.12345678901234567890", "sqlite", "DECIMAL(40,20)", "a", "refused"},
		{"postgres", "NUMERIC", "1234567890.12345678901234567890", "mysql", "DECIMAL(40,20)", "a", "1234567890.12345678901234567890"},
		{"postgres", "TIMESTAMPTZ", "'2024-06-01 12:00:00+05'", "mysql", "DATETIME(6)", "a", "2024-06-01 07:00:00.000000"},
		{"postgres", "TIMESTAMPTZ", "'2024-06-01 12:00:00.123456+05'", "mysql", "DATETIME", "a", "refused"},
		{"postgres", "TIMESTAMPTZ", "'2039-06-01 12:00:00+05'", "mysql", "TIMESTAMP", "a", "refused"},
		{"postgres", "TIMESTAMP", "'0044-03-15 12:00:00 BC'", "mysql", "DATETIME", "a", "refused"},
		{"postgres", "DATE", "'infinity'", "sqlite", "DATE", "a", "refused"},
		{"postgres", "INT[]", "'{1,2}'", "mysql", "JSON", "a", "refused"},
		{"postgres", "TEXT", "'x'", "mysql", "VARCHAR(9) CHARACTER SET latin1", "a", "x"},
		{"postgres", "TEXT", "'Ж'", "mysql", "VARCHAR(9) CHARACTER SET latin1", "a", "refused"},
		{"postgres", "TEXT", "'😀'", "mysql", "VARCHAR(9) CHARACTER SET utf8mb3", "a", "refused"},
		{"postgres", "TEXT", "'1234567890'", "mysql", "VARCHAR(9)", "a", "refused"},
		{"postgres", "TEXT", "'a '", "mysql", "CHAR(9)", "CONCAT(a,'|')", "refused"},
		{"postgres", "BYTEA", "'\\x0001'", "mysql", "BINARY(4)", "HEX(a)", "refused"},
		{"postgres", "UUID", "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", "mysql", "BINARY(16)", "HEX(a)", "refused"},
		{"postgres", "UUID", "'6BA7B810-9dad-11d1-80b4-00c04fd430c8'", "mysql", "CHAR(36)", "a", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
		{"postgres", "BOOLEAN", "true", "mysql", "ENUM('t','f')", "a", "refused"},
		{"postgres", "INTERVAL", "'38:59:59'", "mysql", "TIME", "a", "refused"},
		{"postgres", "TIMETZ", "'10:00:00+02'", "mysql", "TIME", "a", "refused"},
		{"postgres", "JSONB", "'{\"a\": 1e400}'", "mysql", "JSON", "a", "refused"},
		{"postgres", "JSONB", "'{\"a\": 1.10}'", "mysql", "JSON", "a", "{\"a\": 1.1}"},
		{"postgres", "JSON", "'{\"a\": 1, \"a\": 2}'", "mysql", "JSON", "a", "refused"},
		{"postgres", "INT4RANGE", "'[1,5)'", "mysql", "VARCHAR(20)", "a", "refused"},
		{"sqlite", "INTEGER", "1700000000000", "postgres", "TIMESTAMPTZ", "a AT TIME ZONE 'UTC'", "refused"},
		{"sqlite", "DATETIME", "1700000000", "postgres", "TIMESTAMPTZ", "a AT TIME ZONE 'UTC'", "2023-11-14 22:13:20"},
		{"sqlite", "DATETIME", "'2024-06-01 12:00:00+05:00'", "postgres", "TIMESTAMPTZ", "a AT TIME ZONE 'UTC'", "2024-06-01 07:00:00"},
		{"sqlite", "DATETIME", "'2024-06-01 12:00:00+05:00'", "mysql", "DATETIME", "a", "2024-06-01 07:00:00"},
		{"sqlite", "DATETIME", "'2024-06-01T12:00:00Z'", "mysql", "DATETIME", "a", "2024-06-01 12:00:00"},
		{"sqlite", "DATETIME", "'yesterday'", "mysql", "DATETIME", "a", "refused"},
		{"sqlite", "INTEGER", "'abc'", "postgres", "BIGINT", "a", "refused"},
		{"sqlite", "INTEGER", "1.5", "postgres", "BIGINT", "a", "refused"},
		{"sqlite", "INTEGER", "1.5", "mysql", "BIGINT", "a", "refused"},
		{"sqlite", "REAL", "9e999", "postgres", "DOUBLE PRECISION", "a", "Infinity"},
		{"sqlite", "BOOLEAN", "'true'", "postgres", "BOOLEAN", "a", "true"},
		{"sqlite", "BOOLEAN", "2", "postgres", "BOOLEAN", "a", "refused"},
		{"sqlite", "TEXT", "X'ff'", "postgres", "TEXT", "a", "refused"},
		{"sqlite", "TEXT", "CAST(X'ff' AS TEXT)", "postgres", "TEXT", "a", "refused"},
		{"sqlite", "TEXT", "CAST(X'ff' AS TEXT)", "mysql", "TEXT", "a", "refused"},
		{"sqlite", "TEXT", "'a' || char(0) || 'b'", "postgres", "TEXT", "a", "refused"},
		{"sqlite", "TEXT", "'a' || char(0) || 'b'", "mysql", "TEXT", "HEX(a)", "610062"},
		{"sqlite", "BLOB", "'text'", "postgres", "BYTEA", "encode(a,'escape')", "text"},
		{"sqlite", "DECIMAL(10,2)", "0.1", "postgres", "NUMERIC(10,2)", "a", "0.10"},
		{"sqlite", "DECIMAL(10,2)", "1.005", "postgres", "NUMERIC(10,2)", "a", "refused"},
		{"sqlite", "TEXT", "'{\"a\":1}'", "postgres", "JSONB", "a", "{\"a\": 1}"},
		{"sqlite", "TEXT", "'not json'", "postgres", "JSONB", "a", "refused"},
		{"sqlite", "UUID", "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", "postgres", "UUID", "a", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
		{"mariadb", "JSON", "'{\"a\": 1.50, \"b\":1}'", "mysql", "JSON", "a", "{\"a\": 1.5, \"b\": 1}"},
		{"mariadb", "UUID", "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", "postgres", "UUID", "a", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
		{"mariadb", "VARCHAR(9) COLLATE utf8mb4_bin", "'a '", "mysql", "VARCHAR(9)", "CONCAT(a,'|')", "a |"},
		{"mysql", "TIMESTAMP", "'2024-06-01 12:00:00'", "mariadb", "TIMESTAMP NULL", "a", "2024-06-01 12:00:00"},
		{"mysql", "POINT", "ST_GeomFromText('POINT(1 2)')", "mariadb", "POINT", "ST_AsText(a)", "POINT(1 2)"},
		{"mysql", "POINT", "ST_GeomFromText('POINT(1 2)')", "postgres", "TEXT", "a", "refused"},
	}
}

// mergeValues merges one row with all the values. The check refuses some of them, first those whose types are at
// fault, so it is asked again when the columns that it names are gone, until all that is left arrives.
func mergeValues(t *testing.T, values []pairedValue) {
	t.Helper()
	source, into := newBase(t, dbtest.Named(values[0].from)), newBase(t, dbtest.Named(values[0].to))
	const table = "CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY"
	create, become, insert := table, table, "INSERT INTO odd VALUES ("+id(1, 1)
	columns := map[string]pairedValue{}
	for i, v := range values {
		column := fmt.Sprintf("a%d", i)
		columns[column] = v
		create += ", " + column + " " + v.source
		become += ", " + column + " " + v.target
		insert += ", " + v.value
	}
	lenient := "SELECT 1"
	if source.target.Dialect == "mysql" { // for a day that no month has
		lenient = "SET SESSION sql_mode=''"
	}
	source.unchecked(t, lenient, create+")", insert+")")
	into.exec(t, become+")")
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}, Tables: copies("odd"),
		Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}},
		Target:  merge.Target{Name: "s1", Number: 1, DSN: into.dsn}}
	for {
		report, _ := problems(t, open(t, plan))
		refused := map[string]bool{}
		for _, p := range report.Problems {
			column := p.Column
			if column == "" { // the row is refused: it can only be said why if one reason is left
				column = onlyRefused(columns)
			}
			if columns[column].want != "refused" || p.Remedy == "" {
				t.Fatalf("%v: %v is reported, with the remedy %q", columns[column], p, p.Remedy)
			}
			refused[column] = true
		}
		if len(refused) == 0 {
			break
		}
		for column := range refused {
			source.unchecked(t, lenient, "ALTER TABLE odd DROP COLUMN "+column)
			into.exec(t, "ALTER TABLE odd DROP COLUMN "+column)
			delete(columns, column)
		}
	}
	run(t, open(t, plan))
	for column, v := range columns {
		if v.want == "refused" {
			t.Errorf("%v: the check finds nothing wrong", v)
			continue
		}
		cast := "CAST(" + regexp.MustCompile(`\ba\b`).ReplaceAllString(v.ask, column) + " AS " +
			map[bool]string{true: "CHAR)", false: "TEXT)"}[into.target.Dialect == "mysql"]
		if got := strings.Join(into.texts(t, "SELECT "+cast+" FROM odd"), ","); got != v.want {
			t.Errorf("%v: %s is %q, want %q", v, v.ask, got, v.want)
		}
	}
}

// onlyRefused returns the column whose value is to be refused, if there is one and no other.
func onlyRefused(columns map[string]pairedValue) (only string) {
	for column, v := range columns {
		if v.want == "refused" {
			if only != "" {
				return ""
			}
			only = column
		}
	}
	return only
}
