package merge_test

import (
	"maps"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// insideSchema has two tables whose keys change by different numbers, 3 and 50, and a table with keys of both
// inside of its columns.
var insideSchema = []string{
	"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9))",
	"CREATE TABLE q (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9))",
	"CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, kind VARCHAR(9), v VARCHAR(60))",
}

func insideTables(references ...merge.Reference) map[string]*merge.TablePlan {
	return map[string]*merge.TablePlan{"p": {Policy: merge.Copy, Renumber: merge.Behind}, "q": {Policy: merge.Copy, Renumber: merge.Behind},
		"c": {Policy: merge.Copy, References: references}}
}

func TestEveryKeyInsideOfAColumnChangesOnce(t *testing.T) {
	t.Parallel()
	to := func(table, path, list, when string) merge.Reference {
		return merge.Reference{Column: "v", Table: table, Path: path, List: list, When: when}
	}
	first := []string{"INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c')", "INSERT INTO q VALUES (1, 'a'), (50, 'b')"}
	second := func(rows ...string) []string {
		all := []string{"INSERT INTO p VALUES (1, 'd'), (2, 'e'), (4, 'f')", "INSERT INTO q VALUES (1, 'd'), (2, 'e'), (4, 'f')"}
		for i, row := range rows {
			all = append(all, "INSERT INTO c VALUES ("+id(2, i+1)+", "+row+")")
		}
		return all
	}
	const shown = "SELECT v FROM c ORDER BY id"
	mergeHostile(t, map[string]hostile{
		"two references from one path to one table, one with a condition": {schema: insideSchema, first: first,
			second: second(`'x', '{"id":1}'`, `'y', '{"id":2}'`),
			tables: insideTables(to("p", "$.id", "", ""), to("p", "$.id", "", "kind = 'x'")),
			asks:   [][2]string{{shown, `{"id":4},{"id":5}`}}},
		"two references from one path to one table, both with conditions": {schema: insideSchema, first: first,
			second: second(`'x', '{"id":1}'`, `'y', '{"id":2}'`, `'n', '{"id":2}'`),
			tables: insideTables(to("p", "$.id", "", "kind <> 'n'"), to("p", "$.id", "", "kind = 'x'")),
			asks:   [][2]string{{shown, `{"id":4},{"id":5},{"id":2}`}}},
		"a document that is one key": {schema: insideSchema, first: first,
			second: second(`'x', '1'`, `'x', ' "2"'`, `'x', '[1]'`, `'x', 'null'`), tables: insideTables(to("p", "$", "", "")),
			asks: [][2]string{{shown, `4, "5",[1],null`}}},
		"one path that is written in two ways": {schema: insideSchema, first: first, second: second(`'x', '{"id":1}'`),
			tables: insideTables(to("p", "$.id", "", ""), to("p", `$."id"`, "", "")),
			asks:   [][2]string{{shown, `{"id":4}`}}},
		"one list to one table, with a condition and without": {schema: insideSchema, first: first, second: second(`'x', '1,4'`),
			tables: insideTables(to("p", "", ",", ""), to("p", "", ",", "kind = 'x'")),
			asks:   [][2]string{{shown, `4,7`}}},
		"one path to two tables, written in two ways": {schema: insideSchema, first: first, second: second(`'x', '{"id":1}'`),
			tables:  insideTables(to("p", "$.id", "", ""), to("q", `$."id"`, "", "")),
			refused: merge.CodePlan, says: "both p and q"},
		"lists of two separators to two tables": {schema: insideSchema, first: first, second: second(`'x', '1'`),
			tables:  insideTables(to("p", "", ",", ""), to("q", "", ";", "")),
			refused: merge.CodePlan, says: "both p and q"},
		"lists of two separators to one table": {schema: insideSchema, first: first, second: second(`'x', '1'`),
			tables:  insideTables(to("p", "", ",", ""), to("p", "", ";", "")),
			refused: merge.CodePlan, says: "c"},
		"a list and a path": {schema: insideSchema, first: first, second: second(`'x', '1'`),
			tables:  insideTables(to("p", "", ",", ""), to("p", "$", "", "")),
			refused: merge.CodePlan, says: "c"},
		"a path and the whole column": {schema: insideSchema, first: first, second: second(`'x', '1'`),
			tables:  insideTables(to("p", "", "", ""), to("q", "$", "", "")),
			refused: merge.CodePlan, says: "both p and q"},
		"two conditions that exclude each other, for a path and a list": {schema: insideSchema, first: first,
			second: second(`'p', '{"id":1}'`, `'q', '{"id":"2"}'`, `'list', '1,4'`, `'none', '1,4'`, `'semi', '1;2'`),
			tables: insideTables(to("p", "$.id", "", "kind = 'p'"), to("q", "$.id", "", "kind = 'q'"),
				to("q", "", ",", "kind = 'list'"), to("p", "", ";", "kind = 'semi'")),
			asks: [][2]string{{shown, `{"id":4},{"id":"52"},51,54,1,4,4;5`}}},
		"two conditions that hold for one row, for a path": {schema: insideSchema, first: first,
			second:  second(`'p', '{"id":1}'`, `'q', '{"id":2}'`),
			tables:  insideTables(to("p", "$.id", "", "kind = 'p'"), to("q", "$.id", "", "kind IN ('p', 'q')")),
			refused: merge.CodePlan, says: "s2: c: v: 1 row"},
		"two conditions that hold for one row, for lists": {schema: insideSchema, first: first,
			second:  second(`'p', '1'`, `'q', '2'`),
			tables:  insideTables(to("p", "", ",", "kind = 'p'"), to("q", "", ";", "kind IN ('p', 'q')")),
			refused: merge.CodePlan, says: "s2: c: v: 1 row"},
		"two conditions that hold for one row, for the whole column": {schema: insideSchema, first: first,
			second:  second(`'p', '1'`, `'q', '2'`),
			tables:  insideTables(to("p", "", "", "kind = 'p'"), to("q", "", "", "kind IN ('p', 'q')")),
			refused: merge.CodePlan, says: "s2: c: v: 1 row"},
		"a condition beside a reference without one": {schema: insideSchema, first: first,
			second:  second(`'p', '{"id":1}'`, `'q', '{"id":2}'`),
			tables:  insideTables(to("p", "$.id", "", ""), to("q", "$.id", "", "kind = 'q'")),
			refused: merge.CodePlan, says: "s2: c: v: 1 row"},
		"two conditions that hold for rows that are empty or left out": {schema: insideSchema, first: first,
			second: second(`'p', NULL`, `'out', '{"id":2}'`, `'q', '{"id":2}'`),
			tables: func() map[string]*merge.TablePlan {
				tables := insideTables(to("p", "$.id", "", "kind IN ('p', 'out')"), to("q", "$.id", "", "1 = 1"))
				tables["c"].Where = "kind <> 'out'"
				return tables
			}(),
			asks: [][2]string{{"SELECT v FROM c WHERE v IS NOT NULL", `{"id":52}`}}},
	})
}

// The friend of a hero may be deleted. His key moves with the others, where no row is and none will be: not with the
// keys of another server, and not below those of his own, where another server may end.
func TestAKeyOfADeletedRowInsideOfAColumnLeadsToNoRow(t *testing.T) {
	t.Parallel()
	apart := insideTables(merge.Reference{Column: "v", Table: "p", List: ","})
	apart["p"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Apart}
	behind := insideTables(merge.Reference{Column: "v", Table: "p", List: ","})
	first := []string{"INSERT INTO p VALUES (1, 'a'), (3, 'c')", "INSERT INTO c VALUES (" + id(1, 1) + ", 'x', '3,2,1')"}
	second := func(list string) []string {
		return []string{"INSERT INTO p VALUES (2, 'd'), (3, 'e'), (6, 'f')", "INSERT INTO c VALUES (" + id(2, 1) + ", 'x', '" + list + "')"}
	}
	// Without a row that keeps a key of its server, nothing in the target shows by how much they have moved.
	none, joined := maps.Clone(behind), maps.Clone(behind)
	none["p"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Behind, Where: "tag < 'd'"}
	joined["p"] = &merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"tag"}, Renumber: merge.Behind}
	absent, far := maps.Clone(behind), maps.Clone(apart)
	absent["p"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Behind, Absent: []string{"s2"}}
	far["p"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Apart, Absent: []string{"s2"}}
	alone := []string{"DROP TABLE p", "INSERT INTO c VALUES (" + id(2, 1) + ", 'x', '0,3')"}
	const shown = "SELECT v FROM c ORDER BY id"
	mergeHostile(t, map[string]hostile{
		"behind the keys of another server": {schema: insideSchema, first: first, second: second("6, 4,1,3"), tables: behind,
			asks: [][2]string{{shown, `3,2,1,9, 7,4,6`}, {"SELECT COUNT(*) FROM p WHERE id IN (2, 4, 7)", "0"}}},
		"apart": {schema: insideSchema, first: first, second: second("6,4,5"), tables: apart,
			asks: [][2]string{{shown, `9,8,7,14,12,13`}, {"SELECT COUNT(*) FROM p WHERE id IN (8, 12, 13)", "0"}}},
		"apart, below the keys of its server": {schema: insideSchema, first: first, second: second("6,1"), tables: apart,
			refused: merge.CodeOrphan, says: "such as 1 in row"},
		"beyond the keys of its server": {schema: insideSchema, first: first, second: second("6,7"), tables: behind,
			refused: merge.CodeOrphan, says: "such as 7 in row"},
		"of a server of which no row is copied": {schema: insideSchema, first: first, second: second("4"), tables: none,
			refused: merge.CodeOrphan, says: "such as 4 in row"},
		"of a server without the table": {schema: insideSchema, first: first, second: alone, tables: absent,
			refused: merge.CodeOrphan, says: "such as 3 in row"},
		"of a server without the table, apart": {schema: insideSchema, first: first, second: alone, tables: far,
			warned: merge.CodeOrphan, asks: [][2]string{{shown, `6,5,4,0,3`}}},
		"of a table in which equal rows become one": {schema: insideSchema, first: first, second: second("6,4"), tables: joined,
			refused: merge.CodeOrphan, says: "such as 4 in row"},
	})
}

// TestVerifyFindsKeysThatChangedTwice changes a key of the target once more, by as much as a second reference
// from the same place would change it.
func TestVerifyFindsKeysThatChangedTwice(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		path := merge.Reference{Column: "v", Table: "p", Path: "$.id"}
		again := path
		again.When = "kind = 'x'"
		_, into, plan := small(t, target, insideSchema, insideTables(path, again),
			[]string{"INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c')"},
			[]string{"INSERT INTO p VALUES (1, 'd'), (2, 'e'), (4, 'f')", "INSERT INTO c VALUES (" + id(2, 1) + `, 'x', '{"id":1}')`})
		m := open(t, plan)
		run(t, m)
		into.exec(t, `UPDATE c SET v = '{"id":7}'`)
		if v, err := m.Verify(t.Context()); err == nil && v.OK {
			t.Error("verify passes although the key leads to another row")
		}
	})
}

// A game on SQLite that reads bytes finds no keys in a text.
func TestVerifyFindsDocumentsThatWereBytesAndAreTexts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect != "sqlite" {
			return // it has types of columns
		}
		schema := []string{insideSchema[0], "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, v BLOB)"}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"p": {Policy: merge.Copy, Renumber: merge.Behind},
			"c": {Policy: merge.Copy, References: []merge.Reference{{Column: "v", Table: "p", Path: "$.id"}}}},
			[]string{"INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c')"},
			[]string{"INSERT INTO p VALUES (1, 'd')", "INSERT INTO c VALUES (" + id(2, 1) + `, CAST('{"id":1}' AS BLOB))`})
		m := open(t, plan)
		run(t, m)
		if v, err := m.Verify(t.Context()); err != nil || !v.OK {
			t.Fatalf("verify does not pass after a right merge: %v", err)
		}
		into.exec(t, `UPDATE c SET v = CAST(v AS TEXT)`)
		if v, err := m.Verify(t.Context()); err == nil && v.OK {
			t.Error("verify passes although the bytes have become a text")
		}
	})
}

func TestTextsAsKeysStayTheTextsThatTheyAre(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE p (id VARCHAR(9) NOT NULL PRIMARY KEY, login VARCHAR(9) UNIQUE)",
		"CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p VARCHAR(9), n BIGINT, j VARCHAR(60), l VARCHAR(60))"}
	references := func(columns ...merge.Reference) map[string]*merge.TablePlan {
		for i := range columns {
			columns[i].Table = "p"
		}
		return map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"login"}},
			"c": {Policy: merge.Copy, References: columns}}
	}
	child := func(n int, values string) string { return "INSERT INTO c VALUES (" + id(2, n) + ", " + values + ")" }
	mergeHostile(t, map[string]hostile{
		"zeros in front, and words that some databases take for a truth": {schema: schema,
			first: []string{"INSERT INTO p VALUES ('05', 'a'), ('f', 'b')"},
			second: []string{"INSERT INTO p VALUES ('abc', 'a'), ('xyz', 'b'), ('007', 'c'), ('t', 'd')",
				child(1, "'007', NULL, NULL, '007,t,abc,xyz'"), child(2, "'t', NULL, NULL, NULL"),
				child(3, "'abc', NULL, NULL, NULL"), child(4, "'xyz', NULL, NULL, NULL")},
			tables: references(merge.Reference{Column: "p"}, merge.Reference{Column: "l", List: ","}),
			asks:   [][2]string{{"SELECT p FROM c ORDER BY id", "007,t,05,f"}, {"SELECT l FROM c WHERE l IS NOT NULL", "007,t,05,f"}}},
		"texts that look like numbers, in a list, a document and a column of numbers": {schema: schema,
			first: []string{"INSERT INTO p VALUES ('100', 'a')"},
			second: []string{"INSERT INTO p VALUES ('200', 'a'), ('300', 'b')", child(1, `NULL, 200, '{"p": 200, "q": 200}', '200, 300,200'`),
				child(2, `NULL, 300, '{"p": "200"}', '300'`)},
			tables: references(merge.Reference{Column: "n"}, merge.Reference{Column: "l", List: ","}, merge.Reference{Column: "j", Path: "$.p"}),
			asks: [][2]string{{"SELECT n FROM c ORDER BY id", "100,300"}, {"SELECT l FROM c ORDER BY id", "100, 300,100,300"},
				{"SELECT j FROM c ORDER BY id", `{"p": 100, "q": 200},{"p": "100"}`}}},
		"numbers as keys in a column of texts": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, login VARCHAR(9) UNIQUE)", schema[1]},
			first:  []string{"INSERT INTO p VALUES (7, 'a')"},
			second: []string{"INSERT INTO p VALUES (2, 'a'), (3, 'b')", child(1, "'2', 2, NULL, '2,3'"), child(2, "'3', 3, NULL, '3'")},
			tables: references(merge.Reference{Column: "p"}, merge.Reference{Column: "n"}, merge.Reference{Column: "l", List: ","}),
			asks:   [][2]string{{"SELECT p FROM c ORDER BY id", "7,3"}, {"SELECT n FROM c ORDER BY id", "7,3"}, {"SELECT l FROM c ORDER BY id", "7,3,3"}}},
		"a list and a document in columns of bytes": {on: "mysql sqlite",
			schema: []string{schema[0], "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j BLOB, l BLOB)"},
			first:  []string{"INSERT INTO p VALUES ('17', 'a')"},
			second: []string{"INSERT INTO p VALUES ('5', 'a'), ('6', 'b')",
				child(1, "x'7B2270223A2236227D', x'352C36'")},
			tables: references(merge.Reference{Column: "j", Path: "$.p"}, merge.Reference{Column: "l", List: ","}),
			asks: [][2]string{{"SELECT HEX(j) FROM c", "7B2270223A2236227D"},
				{"SELECT HEX(l) FROM c", "31372C36"}}},
		"a list and a document in columns of bytea": {on: "postgres",
			schema: []string{schema[0], "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j BYTEA, l BYTEA)"},
			first:  []string{"INSERT INTO p VALUES ('17', 'a')"},
			second: []string{"INSERT INTO p VALUES ('5', 'a'), ('6', 'b')", child(1, `'\x7B2270223A2236227D', '\x352C36'`)},
			tables: references(merge.Reference{Column: "j", Path: "$.p"}, merge.Reference{Column: "l", List: ","}),
			asks:   [][2]string{{"SELECT encode(j, 'escape') FROM c", `{"p":"6"}`}, {"SELECT encode(l, 'escape') FROM c", "17,6"}}},
		"a document in a column of bytes with a letter that is no UTF-8": {on: "mysql sqlite",
			schema: []string{schema[0], "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j BLOB)"},
			first:  []string{"INSERT INTO p VALUES ('17', 'a')"},
			second: []string{"INSERT INTO p VALUES ('5', 'a')", child(1, "x'7B2270223A2235222C226E223A22E4227D'")},
			tables: references(merge.Reference{Column: "j", Path: "$.p"}),
			asks:   [][2]string{{"SELECT HEX(j) FROM c", "7B2270223A223137222C226E223A22E4227D"}}},
		"numbers in a document that become texts": {schema: schema,
			first: []string{"INSERT INTO p VALUES ('abc', 'a'), ('05', 'b'), ('true', 'c'), ('9', 'd'), ('1e2', 'e'), ('a\"b', 'f')"},
			second: []string{"INSERT INTO p VALUES ('1', 'a'), ('2', 'b'), ('3', 'c'), ('4', 'd'), ('5', 'e'), ('6', 'f')",
				child(1, `NULL, NULL, '{"p": [1, 2,3 ,4, 5, 6, "1"]}', NULL`)},
			tables: references(merge.Reference{Column: "j", Path: "$.p[*]"}),
			asks:   [][2]string{{"SELECT j FROM c", `{"p": ["abc", "05","true" ,9, "1e2", "a\"b", "abc"]}`}}},
		"numbers in a document that become texts, in a column of JSON": {on: "postgres mysql",
			schema: []string{schema[0], "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j JSON)"},
			first:  []string{"INSERT INTO p VALUES ('abc', 'a')"}, second: []string{"INSERT INTO p VALUES ('5', 'a')", child(1, `'{"p": 5}'`)},
			tables: references(merge.Reference{Column: "j", Path: "$.p"}),
			asks:   [][2]string{{"SELECT TRIM(CAST(j AS CHAR(60))) FROM c", `{"p": "abc"}`}}},
		"fractions in a document that stay numbers": {on: "postgres mysql",
			schema: []string{"CREATE TABLE p (id DECIMAL(9,2) NOT NULL PRIMARY KEY, login VARCHAR(9) UNIQUE)", schema[1]},
			first:  []string{"INSERT INTO p VALUES (7.5, 'a')"}, second: []string{"INSERT INTO p VALUES (2.5, 'a'), (3, 'b')", child(1, `NULL, NULL, '{"p": [2.5,3,"2.5"]}', NULL`)},
			tables: references(merge.Reference{Column: "j", Path: "$.p[*]"}),
			asks:   [][2]string{{"SELECT j FROM c", `{"p": [7.5,3,"7.5"]}`}}},
	})
}
