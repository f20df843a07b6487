package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// strange is a value that a source can store and a target cannot, or would change.
type strange struct {
	from, to   string // names of servers, with blanks between them
	column     string // the type of v in the source
	good, bad  string
	target     string // the type of v in the target
	code       merge.Code
	says       string
	set        string // an expression that mends the value
	constraint string // one more line of the target's table
	whole      bool   // it is about the row, not about one column
}

func strangeValues() map[string]strange {
	const all, mysqls, others = "sqlite postgres mariadb mysql", "mariadb mysql", "postgres mariadb mysql"
	return map[string]strange{
		"an unsigned number": {from: mysqls, to: others, column: "BIGINT UNSIGNED", good: "1", bad: "18446744073709551615",
			target: "BIGINT", code: merge.CodeRefused, says: "18446744073709551615", set: "LEAST(v, 9)"},
		"an unsigned number of the same width": {from: mysqls, to: others, column: "INT UNSIGNED", good: "1", bad: "4294967295",
			target: "INT", code: merge.CodeRefused, says: "4294967295", set: "LEAST(v, 9)"},
		"a negative number": {from: others, to: mysqls, column: "INT", good: "1", bad: "-1", target: "INT UNSIGNED",
			code: merge.CodeRefused, says: "-1", set: "ABS(v)"},
		"fewer digits": {from: others, to: others, column: "DECIMAL(12,4)", good: "1.5", bad: "1.2345", target: "DECIMAL(12,2)",
			code: merge.CodeChanged, says: `"1.2345" to "1.23"`, set: "ROUND(v, 2)"},
		"fewer digits before the point": {from: others, to: others, column: "DECIMAL(12,2)", good: "1.5", bad: "1234567.25",
			target: "DECIMAL(6,2)", code: merge.CodeRefused, says: "1234567.25", set: "LEAST(v, 9.5)"},
		"fewer digits of a float": {from: mysqls, to: mysqls, column: "DOUBLE", good: "0.5", bad: "0.1", target: "FLOAT",
			code: merge.CodeChanged, says: "0.1 to 0.1000000014901", set: "0.5"},
		"no member of an ENUM": {from: all, to: mysqls, column: "VARCHAR(10)", good: "'a'", bad: "'c'", target: "ENUM('a','b')",
			code: merge.CodeRefused, says: `"c"`, set: "'a'"},
		"no member of a SET": {from: all, to: mysqls, column: "VARCHAR(10)", good: "'a,b'", bad: "'a,c'", target: "SET('a','b')",
			code: merge.CodeRefused, says: `"a,c"`, set: "'a'"},
		"a letter that the character set lacks": {from: all, to: mysqls, column: "VARCHAR(20)", good: "'Zoé'", bad: "'龍'",
			target: "VARCHAR(20) CHARACTER SET latin1", code: merge.CodeRefused, says: "龍", set: "'x'"},
		"a letter of four bytes": {from: all, to: mysqls, column: "VARCHAR(20)", good: "'龍'", bad: "'😀'",
			target: "VARCHAR(20) CHARACTER SET utf8mb3", code: merge.CodeRefused, says: "😀", set: "'x'"},
		"too many bytes": {from: mysqls, to: mysqls, column: "VARBINARY(20)", good: "X'01'", bad: "X'0102030405'",
			target: "VARBINARY(4)", code: merge.CodeRefused, says: "0102030405", set: "LEFT(v, 4)"},
		"bytes that are filled up": {from: mysqls, to: mysqls, column: "VARBINARY(20)", good: "X'01020304'", bad: "X'0102'",
			target: "BINARY(4)", code: merge.CodeChanged, says: "0102", set: "X'01020304'"},
		"blanks that are cut": {from: "postgres", to: mysqls, column: "VARCHAR(20)", good: "'a'", bad: "'a  '", target: "CHAR(20)",
			code: merge.CodeChanged, says: `"a  " to "a"`, set: "RTRIM(v)"},
		"a NUL in a text": {from: "sqlite mariadb mysql", to: "postgres", column: "VARCHAR(20)", good: "'a'",
			bad: "CONCAT('a', CHAR(0), 'b')", target: "VARCHAR(20)", code: merge.CodeRefused, says: `\x00`, set: "'x'"},
		"bytes that are no text": {from: "sqlite", to: others, column: "TEXT", good: "'a'", bad: "CAST(X'ff41' AS TEXT)",
			target: "VARCHAR(20)", code: merge.CodeRefused, says: `\xff`, set: "'x'"},
		"more hours than a day has": {from: mysqls, to: "postgres", column: "TIME", good: "'10:00:00'", bad: "'838:59:59'",
			target: "TIME", code: merge.CodeRefused, says: "838:59:59", set: "'10:00:00'"},
		"a day that is none": {from: mysqls, to: "postgres", column: "DATE", good: "'2024-02-29'", bad: "'0000-00-00'",
			target: "DATE", code: merge.CodeRefused, says: "0000-00-00", set: "NULL"},
		"a time before all times": {from: "postgres", to: mysqls, column: "TIMESTAMP", good: "'2024-01-01 00:00:00'", bad: "'infinity'",
			target: "DATETIME(6)", code: merge.CodeColumnType, says: "infinity", set: "NULL"},
		"a year that a TIMESTAMP lacks": {from: mysqls, to: mysqls, column: "DATETIME", good: "'2024-01-01 00:00:00'",
			bad: "'1960-01-01 00:00:00'", target: "TIMESTAMP NULL", code: merge.CodeRefused, says: "1960", set: "NULL"},
		"what is no JSON": {from: "sqlite", to: "postgres mysql", column: "JSON", good: "'{}'", bad: "'{'", target: "JSON",
			code: merge.CodeRefused, says: "{", set: "'{}'"},
		"what is no JSON of MariaDB": {from: "sqlite", to: "mariadb", column: "JSON", good: "'{}'", bad: "'{'", target: "JSON",
			code: merge.CodeRefused, says: id(1, 2), set: "'{}'", whole: true},
		"what is no UUID": {from: mysqls, to: "postgres", column: "CHAR(36)", good: "NULL", bad: "'none'", target: "UUID",
			code: merge.CodeRefused, says: "none", set: "NULL"},
		"what a CHECK refuses": {from: all, to: all, column: "INT", good: "1", bad: "-5", target: "INT",
			constraint: "CHECK (v > 0)", code: merge.CodeRefused, says: id(1, 2), set: "1", whole: true},
		"what a CHECK over two columns refuses": {from: all, to: all, column: "INT", good: "1", bad: "5", target: "INT",
			constraint: "CHECK (v < w)", code: merge.CodeRefused, says: id(1, 2), set: "1", whole: true},
		"what a domain refuses": {from: others, to: "postgres", column: "INT", good: "1", bad: "-5", target: "level",
			code: merge.CodeRefused, says: "-5", set: "1"},
		"a label that an ENUM of PostgreSQL lacks": {from: all, to: "postgres", column: "VARCHAR(9)", good: "'a'", bad: "'c'",
			target: "mood", code: merge.CodeRefused, says: `"c"`, set: "'a'"},
		"a text that is too long for an index": {from: "mariadb", to: "postgres", column: "TEXT", good: "'a'",
			bad: "(SELECT GROUP_CONCAT(MD5(seq) SEPARATOR '') FROM seq_1_to_300)", target: "TEXT", constraint: "UNIQUE (v, id)",
			code: merge.CodeRefused, says: "index row", set: "'a'", whole: true},
		"a type that a strict table refuses": {from: "sqlite", to: "sqlite", column: "INT", good: "1", bad: "'text'", target: "INT",
			constraint: "STRICT", code: merge.CodeRefused, says: "TEXT value", set: "1"},
	}
}

func TestWhatTheTargetWouldRefuseOrChangeIsFoundByTheCheck(t *testing.T) {
	t.Parallel()
	values := map[string]map[string]strange{} // by the names of the kinds
	for name, c := range strangeValues() {
		for _, pair := range c.pairs() {
			if values[pair] == nil {
				values[pair] = map[string]strange{}
			}
			values[pair][name] = c
		}
	}
	for pair, values := range values {
		t.Run(pair, func(t *testing.T) {
			t.Parallel()
			from, to, _ := strings.Cut(pair, " to ")
			tryStrange(t, dbtest.Named(from), dbtest.Named(to), values)
		})
	}
}

// pairs are the kinds of databases between which a value is tried. In tier one it is the first of a few pairs in
// which all values can be met, and every kind is a source and a target.
func (c strange) pairs() (all []string) {
	for _, from := range strings.Fields(c.from) {
		for _, to := range strings.Fields(c.to) {
			all = append(all, from+" to "+to)
		}
	}
	if nightly.Enabled() {
		return all
	}
	for _, pair := range []string{
		"mariadb to postgres", "postgres to mysql", "mysql to mariadb", "sqlite to postgres", "sqlite to mariadb",
	} {
		if slices.Contains(all, pair) {
			return []string{pair}
		}
	}
	return all[:1]
}

// tryStrange merges one server that has a table for every one of the values.
func tryStrange(t *testing.T, from, to dbtest.Target, values map[string]strange) {
	t.Helper()
	source, into := newBase(t, from), newBase(t, to)
	if to.Dialect == "postgres" {
		into.exec(t, "CREATE DOMAIN level AS INT CHECK (VALUE > 0)", "CREATE TYPE mood AS ENUM ('a', 'b')")
	}
	tables, cases := map[string]*merge.TablePlan{}, map[string]strange{}
	for name, c := range values {
		table := strings.ToLower(strings.ReplaceAll(name, " ", "_"))
		cases[table], tables[table] = c, &merge.TablePlan{Policy: merge.Copy}
		if c.target == "level" {
			tables[table].Convert = []string{"v"}
		}
		c.fill(t, table, source, into)
	}
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}, Tables: tables,
		Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}},
		Target:  merge.Target{Name: "s1", Number: 1, DSN: into.dsn}}
	report, _ := problems(t, open(t, plan))
	for table, c := range cases {
		var found []merge.Problem
		for _, p := range report.Problems {
			if p.Table == table {
				found = append(found, p)
			}
		}
		if len(found) != 1 || found[0].Code != c.code || found[0].Count != 1 || found[0].Remedy == "" ||
			!strings.Contains(found[0].Message, c.says) ||
			!c.whole && (found[0].Column != "v" || !strings.Contains(found[0].Message, id(1, 2))) {
			t.Errorf("%s: the check found %v, want one problem %s that says %q", table, found, c.code, c.says)
		}
		tables[table].Set = map[string]string{"v": c.set}
	}
	if !t.Failed() {
		run(t, open(t, plan)) // the remedies lead to a merge
	}
}

// fill makes the table of a server and of the target, and the rows.
func (c strange) fill(t *testing.T, table string, source, into base) {
	t.Helper()
	bad, lenient := c.bad, "SELECT 1"
	if source.target.Dialect == "sqlite" && strings.HasPrefix(bad, "CONCAT") {
		bad = "'a' || CHAR(0) || 'b'"
	}
	if source.target.Dialect == "mysql" {
		lenient = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"
	}
	source.unchecked(t, lenient, "CREATE TABLE "+table+" (id BIGINT NOT NULL PRIMARY KEY, v "+c.column+", w INT)",
		fmt.Sprintf("INSERT INTO %s VALUES (%s, %s, 3)", table, id(1, 1), c.good),
		fmt.Sprintf("INSERT INTO %s VALUES (%s, %s, 3)", table, id(1, 2), bad),
		fmt.Sprintf("INSERT INTO %s VALUES (%s, %s, 3)", table, id(1, 3), c.good))
	text := "CREATE TABLE " + table + " (id BIGINT NOT NULL PRIMARY KEY, v " + c.target + ", w INT)"
	switch c.constraint {
	case "":
	case "STRICT":
		text = strings.Replace(text, "BIGINT", "INT", 1) + " STRICT"
	default:
		text = strings.TrimSuffix(text, ")") + ", " + c.constraint + ")"
	}
	into.exec(t, text)
}

// Some databases take a text with blanks around it for a number, and others do not.
func TestKeysAmongBlanksAreRefusedBeforeAnyRowIsCopied(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE pets (id INTEGER NOT NULL PRIMARY KEY)",
			"CREATE TABLE toys (id BIGINT NOT NULL PRIMARY KEY, pet VARCHAR(9), fixed CHAR(9), note VARCHAR(9))"}
		server := func(n int, pet string) []string {
			return []string{"INSERT INTO pets VALUES (1), (2)", fmt.Sprintf("INSERT INTO toys VALUES (%s, '%s', '2', ' 1')", id(n, 1), pet)}
		}
		for pet, refused := range map[string]bool{"1": false, " 1": true, "1 ": true} {
			_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Apart},
				"toys": {Policy: merge.Copy, References: []merge.Reference{{Column: "pet", Table: "pets"}, {Column: "fixed", Table: "pets"}}},
			}, server(1, "2"), server(2, pet))
			plan.Plain = []string{"toys.note"}
			_, found := problems(t, opened(t, plan))
			if p := found[merge.CodeChanged]; refused != (len(p) == 1 && p[0].Column == "pet" && strings.Contains(p[0].Message, "blanks")) {
				t.Errorf("%q: check found %v", pet, found)
			}
			if !refused {
				run(t, opened(t, plan))
			}
		}
	})
}

// Of the keys among blanks only those count that are copied and lead to a row, and blanks behind a fixed text are
// none.
func TestKeysAmongBlanksThatAreNotCopiedAreNotRefused(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE pets (id INTEGER NOT NULL PRIMARY KEY)",
			"CREATE TABLE toys (id BIGINT NOT NULL PRIMARY KEY, pet VARCHAR(9), fixed CHAR(9))"}
		server := func(n int, pet, fixed string) []string {
			return []string{"INSERT INTO pets VALUES (1), (2)", fmt.Sprintf("INSERT INTO toys VALUES (%s, '%s', '%s')", id(n, 1), pet, fixed)}
		}
		for name, c := range map[string]struct {
			pet, fixed string
			toys       merge.TablePlan
			gone       merge.GivenUp
			refused    bool
		}{
			"where:":                {pet: " 1", fixed: "1", toys: merge.TablePlan{Where: "pet NOT LIKE ' %'"}, gone: merge.GivenUp{Filtered: 1}},
			"orphans: null":         {pet: " 9", fixed: "1", toys: merge.TablePlan{Orphans: "null"}, gone: merge.GivenUp{}},
			"orphans: drop":         {pet: " 9", fixed: "1", toys: merge.TablePlan{Orphans: "drop"}, gone: merge.GivenUp{Orphans: 1}},
			"blanks before a fixed": {pet: "1", fixed: " 1", refused: true},
		} {
			p := c.toys
			p.Policy, p.References = merge.Copy, []merge.Reference{{Column: "pet", Table: "pets"}, {Column: "fixed", Table: "pets"}}
			_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Apart},
				"toys": &p}, server(1, "2", "1"), server(2, c.pet, c.fixed))
			if c.gone != (merge.GivenUp{}) {
				plan.GivesUp = map[string]merge.GivenUp{"toys": c.gone}
			}
			report, found := problems(t, opened(t, plan))
			if refused := report.Verdict == merge.Undecided; refused != c.refused {
				t.Errorf("%s: check found %v", name, found)
			} else if !refused {
				run(t, opened(t, plan))
			}
		}
	})
}
