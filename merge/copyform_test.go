package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// formed is two tables that differ in one column, of a type that goes to PostgreSQL as text only. So one of
// them is sent in binary form, the other one as text.
func formed(target dbtest.Target) []string {
	columns := "id BIGINT NOT NULL PRIMARY KEY, " + map[string]string{
		"sqlite": "big BIGINT, small INT, tiny SMALLINT, yes BOOLEAN, ratio DOUBLE, word VARCHAR(40), letters CHAR(4), " +
			"raw BLOB, at DATETIME, exact DATETIME, second DATETIME, day DATE, props JSON, doc JSON, ref UUID",
		"mysql": "big BIGINT, small INT, tiny SMALLINT, yes TINYINT(1), ratio DOUBLE, word VARCHAR(40), letters CHAR(4), " +
			"raw LONGBLOB, at DATETIME(6), exact DATETIME(6), second DATETIME(6), day DATE, props JSON, doc JSON, ref CHAR(36)",
		"postgres": "big BIGINT, small INTEGER, tiny SMALLINT, yes BOOLEAN, ratio DOUBLE PRECISION, word VARCHAR(40), " +
			"letters CHAR(4), raw BYTEA, at TIMESTAMPTZ, exact TIMESTAMP, second TIMESTAMP(0), day DATE, props JSONB, " +
			"doc JSON, ref UUID",
	}[target.Dialect]
	return []string{
		"CREATE TABLE formed (" + columns + ")",
		"CREATE TABLE formed_as_text (" + columns + ", price DECIMAL(12,4))",
	}
}

// formedRows are rows from end to end of what the types hold.
func formedRows(target dbtest.Target) []string {
	blob, yes, no, backslash := "X'00ff5c0a09'", "1", "0", `\\`
	switch target.Dialect {
	case "postgres":
		blob, yes, no, backslash = `'\x00ff5c0a09'`, "TRUE", "FALSE", `\`
	case "sqlite":
		backslash = `\`
	}
	text := "'tab\t" + backslash + "N line\n龍😀'"
	const ref = "'6BA7b810-9dad-11d1-80b4-00c04fd430c8'"
	rows := []string{
		"9223372036854775807, 2147483647, 32767, " + yes + ", 0.1, " + text + ", 'ab', " + blob +
			", '2025-06-07 08:09:10.123456', '1969-12-31 23:59:59.999999', '2024-02-29 12:00:00', '2024-02-29', " +
			`'{"b":1,"a":[1.50,"x"]}', '{"b":1,  "a":2}', ` + ref,
		"-9223372036854775808, -2147483648, -32768, " + no + ", -1e300, '', '', " + blob +
			", '2000-01-01 00:00:00', '1999-12-31 23:59:59.5', '9999-12-31 23:59:59', '9999-12-31', '[]', '\"\"', " + ref,
		"0, 0, 0, NULL, 0, ' ', 'abcd', " + blob +
			", '1970-01-01 00:00:00.000001', '1001-01-01 00:00:00', '1900-02-28 00:00:01', '1001-03-01', 'null', '1', NULL",
		strings.Repeat("NULL, ", 14) + "NULL",
	}
	var statements []string
	for _, table := range []string{"formed", "formed_as_text"} {
		for n, row := range rows {
			values := id(1, n) + ", " + row
			if table != "formed" {
				values += ", 1"
			}
			statements = append(statements, "INSERT INTO "+table+" VALUES ("+values+")")
		}
	}
	return statements
}

func TestValuesAreTheSameInBothFormsOfCopy(t *testing.T) {
	t.Parallel()
	to := dbtest.Targets()[1]
	others := slices.DeleteFunc(dbtest.Servers(), func(from dbtest.Target) bool { return from.Name == to.Name })
	for _, from := range append(oneOf(t.Name(), others), to) {
		t.Run(from.Name, func(t *testing.T) {
			t.Parallel()
			source, into := newBase(t, from), newBase(t, to)
			source.exec(t, append(formed(from), formedRows(from)...)...)
			into.exec(t, formed(to)...)
			plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
				Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}},
				Target:  merge.Target{Name: "s1", Number: 1, DSN: into.dsn},
				Tables:  map[string]*merge.TablePlan{"formed": {Policy: merge.Copy}, "formed_as_text": {Policy: merge.Copy}}}
			run(t, open(t, plan, merge.WithPortableCopy()))
			if rows := len(formedRows(from)) / 2; into.number(t, "SELECT COUNT(*) FROM formed") != int64(rows) {
				t.Errorf("there are not %d rows", rows)
			}
			for _, column := range strings.Split(
				"big small tiny yes ratio word letters raw at exact second day props doc ref", " ") {
				query := "SELECT COALESCE(" + column + "::text, 'none') FROM %s ORDER BY id"
				same(t, column, into.texts(t, fmt.Sprintf(query, "formed")),
					into.texts(t, fmt.Sprintf(query, "formed_as_text")))
				if from.Name == to.Name {
					same(t, column, into.texts(t, fmt.Sprintf(query, "formed")), source.texts(t, fmt.Sprintf(query, "formed")))
				}
			}
		})
	}
}

func TestARowThatCopyRefusesIsFoundInBothForms(t *testing.T) {
	t.Parallel()
	source, into := newBase(t, dbtest.Targets()[0]), newBase(t, dbtest.Targets()[1])
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
		Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}},
		Target:  merge.Target{Name: "s1", Number: 1, DSN: into.dsn}, Tables: map[string]*merge.TablePlan{}}
	for i, c := range []struct{ column, bad string }{
		{"INTEGER", "2147483648"}, {"SMALLINT", "40000"}, {"VARCHAR(3)", "'four'"}, {"BOOLEAN", "7"},
		{"UUID", "'6ba7b810-9dad-11d1-80b4'"}, {"JSON", "'{'"}, {"NUMERIC(3,1)", "1000"},
	} {
		name := fmt.Sprintf("things%d", i)
		schema := "CREATE TABLE " + name + " (id BIGINT NOT NULL PRIMARY KEY, v " + c.column + ")"
		source.exec(t, schema, fmt.Sprintf("INSERT INTO %s VALUES (%s, NULL), (%s, %s), (%s, NULL)", name, id(1, 1), id(1, 2), c.bad,
			id(1, 3)))
		into.exec(t, schema)
		plan.Tables[name] = &merge.TablePlan{Policy: merge.Copy, BadRows: "quarantine"}
	}
	report, err := open(t, plan).Run(t.Context())
	if err != nil {
		for _, p := range report.Check.Problems {
			t.Log(p)
		}
		t.Fatal(err)
	}
	for name := range plan.Tables {
		rows, aside := into.number(t, "SELECT COUNT(*) FROM "+name), into.number(t, "SELECT COUNT(*) FROM merge_quarantine WHERE tbl = '"+name+"'")
		if rows != 2 || aside != 1 {
			t.Errorf("%s: %d rows, %d aside", name, rows, aside)
		}
	}
}

func TestARowThatIsRefusedEarlyInALargeChunkIsPutAside(t *testing.T) {
	t.Parallel()
	target := dbtest.Targets()[1]
	source, into := newBase(t, target), newBase(t, target)
	const schema = "CREATE TABLE things (id BIGINT NOT NULL PRIMARY KEY, v INTEGER NOT NULL, w TEXT NOT NULL"
	source.exec(t, schema+")", "INSERT INTO things SELECT n, n, repeat('x', 1000) FROM generate_series(1, 4000) AS n")
	into.exec(t, schema+", CHECK (v <> 3))")
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
		Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}},
		Target:  merge.Target{Name: "s1", Number: 1, DSN: into.dsn},
		Tables:  map[string]*merge.TablePlan{"things": {Policy: merge.Copy, BadRows: "quarantine"}}}
	report, err := open(t, plan).Run(t.Context())
	if err != nil {
		for _, p := range report.Check.Problems {
			t.Log(p)
		}
		t.Fatal(err)
	}
	if rows := into.number(t, "SELECT COUNT(*) FROM things"); rows != 3999 || report.Quarantined != 1 {
		t.Errorf("%d rows, %d aside", rows, report.Quarantined)
	}
}
