package merge_test

import (
	"slices"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestRarePlansAreCarriedOutOrRefused(t *testing.T) {
	t.Parallel()
	mergeHostile(t, rarePlans())
}

// TestRarePlansAreCarriedOutBetweenKinds merges servers of one kind of database into another.
func TestRarePlansAreCarriedOutBetweenKinds(t *testing.T) {
	t.Parallel()
	mergeBetweenKinds(t, rarePlans())
}

// mergeBetweenKinds runs the cases with servers of one kind of database and a target of another one.
func mergeBetweenKinds(t *testing.T, cases map[string]hostile) {
	t.Helper()
	pairs := []kindPair{
		{dbtest.Named("sqlite"), dbtest.Named("postgres")}, {dbtest.Named("postgres"), dbtest.Named("mysql")},
		{dbtest.Named("mysql"), dbtest.Named("sqlite")}, {dbtest.Named("mariadb"), dbtest.Named("postgres")},
	}
	for name, c := range cases {
		if c.on != "" || skipped(name) {
			continue
		}
		for _, pair := range oneOf(name, pairs) {
			t.Run(name+", "+pair.from.Name+" into "+pair.to.Name, func(t *testing.T) {
				t.Parallel()
				servers, _, plan := small(t, pair.from, nil, c.tables,
					slices.Concat(c.schema, c.first), slices.Concat(c.schema, c.second))
				merged := newBase(t, pair.to)
				plan.Target.DSN = merged.dsn
				c.merge(t, servers, merged, plan, "portable")
			})
		}
	}
}

func rarePlans() map[string]hostile {
	copied := func() *merge.TablePlan { return &merge.TablePlan{Policy: merge.Copy} }
	counted := func() *merge.TablePlan { return &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Behind} }
	with := func(references ...merge.Reference) *merge.TablePlan {
		return &merge.TablePlan{Policy: merge.Copy, References: references}
	}
	renamed := func(r merge.RenamePlan) *merge.TablePlan {
		r.Column = "name"
		return &merge.TablePlan{Policy: merge.Rename, Rename: &r}
	}
	const parents = "CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9))"
	const tree = "CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, parent BIGINT, " +
		"name VARCHAR(9), UNIQUE (parent, name), FOREIGN KEY (parent) REFERENCES p (id))"
	const roots = "INSERT INTO p VALUES (1, NULL, 'a'), (2, 1, 'b')"
	firstParents, secondParents := "INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c')", "INSERT INTO p VALUES (1, 'd'), (2, 'e'), (3, 'f')"
	const names = "CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(12) NOT NULL UNIQUE, lvl BIGINT)"
	one, two, three, four := id(1, 1), id(1, 2), id(2, 1), id(2, 2)
	return map[string]hostile{
		"lists with blanks, empty elements, zeros in front and words": {
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, l VARCHAR(60))"},
			first:  []string{firstParents},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + ", ' 1 ,,2, ,3,')", "INSERT INTO c VALUES (" + four + ", NULL)"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "l", Table: "p", List: ","})},
			asks:   [][2]string{{"SELECT l FROM c WHERE l IS NOT NULL", " 4 ,,5, ,6,"}}},
		"a list with a word": {
			schema:  []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, l VARCHAR(60))"},
			first:   []string{firstParents},
			second:  []string{secondParents, "INSERT INTO c VALUES (" + three + ", '1,all,2')"},
			tables:  map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "l", Table: "p", List: ","})},
			refused: merge.CodeOrphan, says: "c"},
		"a list that grows beyond its column": {
			schema:  []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9))", "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, l VARCHAR(5))"},
			first:   []string{"INSERT INTO p VALUES (1, 'a'), (99, 'b')"},
			second:  []string{"INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'b')", "INSERT INTO c VALUES (" + three + ", '1,2,3')"},
			on:      "postgres mysql",
			tables:  map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "l", Table: "p", List: ","})},
			refused: merge.CodeTooLong, says: "s2: c: l: 1 row: with its new keys, longer than the 5 characters"},
		"an array of keys with NULLs and two dimensions": {on: "postgres",
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, l BIGINT[])"},
			first:  []string{firstParents},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + ", '{1,NULL,2}'), (" + four + ", '{}')"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "l", Table: "p", List: "array"})},
			asks:   [][2]string{{"SELECT l::text FROM c ORDER BY id", "{4,NULL,5},{}"}}},
		"keys in JSON of the server's own type": {on: "postgres mysql",
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j JSON)"},
			first:  []string{firstParents},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + `, '{"a": [{"id": 1}, {"id": 2}], "b": "x"}')`, "INSERT INTO c VALUES (" + four + ", NULL)"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "j", Table: "p", Path: "$.a[*].id"})},
			asks:   [][2]string{{"SELECT TRIM(CAST(j AS CHAR(60))) FROM c WHERE j IS NOT NULL", `{"a": [{"id": 4}, {"id": 5}], "b": "x"}`}}},
		"keys in JSONB": {on: "postgres",
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j JSONB)"},
			first:  []string{firstParents},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + `, '{"a": {"id": 1}, "n": 1.50, "big": 123456789012345678901234567890}'), (` + four + ", 'null')"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "j", Table: "p", Path: "$.a.id"})},
			asks:   [][2]string{{"SELECT j::text FROM c ORDER BY id", `{"a": {"id": 4}, "n": 1.50, "big": 123456789012345678901234567890},null`}}},
		"keys in JSON that is none": {
			schema:  []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j VARCHAR(60))"},
			first:   []string{firstParents},
			second:  []string{secondParents, "INSERT INTO c VALUES (" + three + ", '{broken')"},
			tables:  map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "j", Table: "p", Path: "$.a.id"})},
			refused: merge.CodeRefused, says: "c"},
		"a key in JSON with a fraction, and one with an exponent": {
			schema:  []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j VARCHAR(60))"},
			first:   []string{firstParents},
			second:  []string{secondParents, "INSERT INTO c VALUES (" + three + `, '{"id": 2.5}')`},
			tables:  map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "j", Table: "p", Path: "$.id"})},
			refused: merge.CodeOrphan, says: "c"},
		"a key in JSON that leads nowhere": {
			schema:  []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j VARCHAR(60))"},
			first:   []string{firstParents},
			second:  []string{secondParents, "INSERT INTO c VALUES (" + three + `, '{"id": 77}')`},
			tables:  map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "j", Table: "p", Path: "$.id"})},
			refused: merge.CodeOrphan, says: "c"},
		"two paths and a list in one table": {
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j VARCHAR(60), l VARCHAR(20))"},
			first:  []string{firstParents},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + `, '{"a":1,"b":[2,3],"c":1}', '3;1')`},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "j", Table: "p", Path: "$.a"},
				merge.Reference{Column: "j", Table: "p", Path: "$.b[*]"}, merge.Reference{Column: "l", Table: "p", List: ";"})},
			asks: [][2]string{{"SELECT j FROM c", `{"a":4,"b":[5,6],"c":1}`}, {"SELECT l FROM c", "6;4"}}},
		"paths of one column that lead to several tables": {
			schema: []string{parents, "CREATE TABLE q (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9))", "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j VARCHAR(80))"},
			first:  []string{firstParents, "INSERT INTO q VALUES (10, 'x')"},
			second: []string{secondParents, "INSERT INTO q VALUES (3, 'y')", "INSERT INTO c VALUES (" + three + `, '{"p": 1, "q": "3", "a.b": {"p": 2}}')`, "INSERT INTO c VALUES (" + four + ", '')"},
			tables: map[string]*merge.TablePlan{"p": counted(), "q": counted(), "c": with(merge.Reference{Column: "j", Table: "p", Path: "$.p"},
				merge.Reference{Column: "j", Table: "q", Path: "$.q"}, merge.Reference{Column: "j", Table: "p", Path: `$."a.b".p`})},
			asks: [][2]string{{"SELECT j FROM c WHERE j <> ''", `{"p": 4, "q": "13", "a.b": {"p": 5}}`}}},
		"a path that leads to keys that become one": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, login VARCHAR(9) UNIQUE)", "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, j VARCHAR(80), l VARCHAR(20))"},
			first:  []string{"INSERT INTO p VALUES (1, 'a'), (2, 'b')"},
			second: []string{"INSERT INTO p VALUES (1, 'b'), (2, 'c')", "INSERT INTO c VALUES (" + three + `, '[{"p":1},{"p":2}]', '2,1')`},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"login"}, Renumber: merge.Behind}, "c": with(
				merge.Reference{Column: "j", Table: "p", Path: "$[*].p"}, merge.Reference{Column: "l", Table: "p", List: ","})},
			asks: [][2]string{{"SELECT j FROM c", `[{"p":2},{"p":4}]`}, {"SELECT l FROM c", "4,2"}}},
		"references to nothing, for which the plan sets another value": {
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT, FOREIGN KEY (p) REFERENCES p (id))"},
			first:  []string{firstParents, "INSERT INTO c VALUES (" + one + ", 77), (" + two + ", 3)"},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + ", 88), (" + four + ", 2)"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": {Policy: merge.Copy, Set: map[string]string{"p": "CASE WHEN p > 50 THEN NULL ELSE p END"}}},
			asks:   [][2]string{{"SELECT COALESCE(p, 0) FROM c ORDER BY id", "0,0,3,5"}}},
		"references that the plan sets to nothing that exists": {
			schema:  []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT, FOREIGN KEY (p) REFERENCES p (id))"},
			first:   []string{firstParents, "INSERT INTO c VALUES (" + one + ", 2)"},
			tables:  map[string]*merge.TablePlan{"p": counted(), "c": {Policy: merge.Copy, Set: map[string]string{"p": "p + 70"}}},
			refused: merge.CodeOrphan, says: "s1: c: p"},
		"references that the plan sets to nothing that exists, which are dropped": {
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT, FOREIGN KEY (p) REFERENCES p (id))"},
			first:  []string{firstParents, "INSERT INTO c VALUES (" + one + ", 2), (" + two + ", 1)"},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + ", 2), (" + four + ", 1)"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": {Policy: merge.Copy, Orphans: "drop", Set: map[string]string{"p": "p * 2"}}},
			asks:   [][2]string{{"SELECT p FROM c ORDER BY id", "2,5"}}},
		"references that the plan sets to nothing that exists, which become NULL": {
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT, FOREIGN KEY (p) REFERENCES p (id))"},
			first:  []string{firstParents, "INSERT INTO c VALUES (" + one + ", 2), (" + two + ", 1)"},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + ", 2), (" + four + ", 1)"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": {Policy: merge.Copy, Orphans: "null", Set: map[string]string{"p": "p * 2"}}},
			asks:   [][2]string{{"SELECT COALESCE(p, 0) FROM c ORDER BY id", "0,0,2,5"}}},
		"a small column that holds keys that grow": {on: "postgres mysql",
			schema:  []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p SMALLINT)"},
			first:   []string{"INSERT INTO p VALUES (32760, 'a')"},
			second:  []string{"INSERT INTO p VALUES (10, 'd')", "INSERT INTO c VALUES (" + three + ", 10)"},
			tables:  map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "p", Table: "p"})},
			refused: merge.CodeTotal, says: "p"},
		"a short text that holds keys that grow": {on: "postgres mysql",
			schema:  []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p VARCHAR(2))"},
			first:   []string{"INSERT INTO p VALUES (99, 'a')"},
			second:  []string{"INSERT INTO p VALUES (10, 'd')", "INSERT INTO c VALUES (" + three + ", '10')"},
			tables:  map[string]*merge.TablePlan{"p": counted(), "c": with(merge.Reference{Column: "p", Table: "p"})},
			refused: merge.CodeTooLong, says: "s2: c: p: 1 row: with its new keys, longer than the 2 characters"},
		"keys that are references over three tables": {
			schema: []string{parents, "CREATE TABLE q (id BIGINT NOT NULL PRIMARY KEY, FOREIGN KEY (id) REFERENCES p (id))",
				"CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY, FOREIGN KEY (id) REFERENCES q (id))",
				"CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, r BIGINT, tag VARCHAR(9), FOREIGN KEY (r) REFERENCES r (id))"},
			first:  []string{firstParents, "INSERT INTO q VALUES (1), (2)", "INSERT INTO r VALUES (1), (2)", "INSERT INTO c VALUES (" + one + ", 2, 'b')"},
			second: []string{secondParents, "INSERT INTO q VALUES (1), (2)", "INSERT INTO r VALUES (1), (2)", "INSERT INTO c VALUES (" + three + ", 2, 'e'), (" + four + ", NULL, 'e')"},
			tables: map[string]*merge.TablePlan{"p": counted(), "q": copied(), "r": copied(), "c": copied()},
			asks:   [][2]string{{"SELECT COUNT(*) FROM c JOIN p ON p.id = c.r AND p.tag = c.tag", "2"}, {"SELECT COUNT(*) FROM r", "4"}}},
		"rows whose key begins with an account that becomes one, and that collide": {
			schema:  []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, login VARCHAR(9) UNIQUE)", "CREATE TABLE c (p BIGINT NOT NULL, item BIGINT NOT NULL, n BIGINT, PRIMARY KEY (p, item), FOREIGN KEY (p) REFERENCES p (id))"},
			first:   []string{"INSERT INTO p VALUES (1, 'a'), (2, 'b')", "INSERT INTO c VALUES (1, 7, 10), (2, 7, 20)"},
			second:  []string{"INSERT INTO p VALUES (1, 'b'), (2, 'c')", "INSERT INTO c VALUES (1, 7, 3), (2, 7, 4)"},
			tables:  map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"login"}, Renumber: merge.Behind}, "c": copied()},
			refused: merge.CodePrimaryKey, says: "c"},
		"rows whose key begins with an account that becomes one, and that are added": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, login VARCHAR(9) UNIQUE)", "CREATE TABLE c (p BIGINT NOT NULL, item BIGINT NOT NULL, n BIGINT, PRIMARY KEY (p, item), FOREIGN KEY (p) REFERENCES p (id))"},
			first:  []string{"INSERT INTO p VALUES (1, 'a'), (2, 'b')", "INSERT INTO c VALUES (1, 7, 10), (2, 7, 20)"},
			second: []string{"INSERT INTO p VALUES (1, 'b'), (2, 'c')", "INSERT INTO c VALUES (1, 7, 3), (2, 7, 4), (1, 8, 1)"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"login"}, Renumber: merge.Behind}, "c": {Policy: merge.Sum, Key: []string{"p", "item"}, Sum: []string{"n"}}},
			asks:   [][2]string{{"SELECT n FROM c JOIN p ON p.id = c.p WHERE login = 'b' ORDER BY item", "23,1"}, {"SELECT SUM(n) FROM c", "38"}, {"SELECT COUNT(*) FROM c", "4"}}},
		"a unique pair with a reference in it that changes": {
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT NOT NULL, slot BIGINT NOT NULL, UNIQUE (p, slot), FOREIGN KEY (p) REFERENCES p (id))"},
			first:  []string{firstParents, "INSERT INTO c VALUES (" + one + ", 1, 1)"},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + ", 1, 1)"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": copied()},
			asks:   [][2]string{{"SELECT p FROM c ORDER BY p", "1,4"}}},
		"a circle of two tables": {
			schema: []string{"CREATE TABLE g (id BIGINT NOT NULL PRIMARY KEY, leader BIGINT, tag VARCHAR(9))", "CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, guild BIGINT, tag VARCHAR(9), FOREIGN KEY (guild) REFERENCES g (id))"},
			first:  []string{"INSERT INTO g VALUES (1, 2, 'a')", "INSERT INTO p VALUES (1, 1, 'a'), (2, 1, 'a')"},
			second: []string{"INSERT INTO g VALUES (1, 2, 'b')", "INSERT INTO p VALUES (1, 1, 'b'), (2, 1, 'b')"},
			tables: map[string]*merge.TablePlan{"p": counted(), "g": {Policy: merge.Copy, Renumber: merge.Behind, References: []merge.Reference{{Column: "leader", Table: "p"}}}},
			asks:   [][2]string{{"SELECT COUNT(*) FROM g JOIN p ON p.id = g.leader AND p.guild = g.id AND p.tag = g.tag", "2"}, {"SELECT COUNT(*) FROM p JOIN g ON g.id = p.guild AND p.tag = g.tag", "4"}}},
		"rows that are left out, and what refers to them over two tables": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, lvl BIGINT)", "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT NOT NULL, FOREIGN KEY (p) REFERENCES p (id))",
				"CREATE TABLE d (id BIGINT NOT NULL PRIMARY KEY, c BIGINT NOT NULL, FOREIGN KEY (c) REFERENCES c (id))"},
			first:  []string{"INSERT INTO p VALUES (" + one + ", 9), (" + two + ", 1)", "INSERT INTO c VALUES (" + one + ", " + one + "), (" + two + ", " + two + ")", "INSERT INTO d VALUES (" + one + ", " + one + "), (" + two + ", " + two + ")"},
			second: []string{"INSERT INTO p VALUES (" + three + ", 9), (" + four + ", NULL)", "INSERT INTO c VALUES (" + three + ", " + three + "), (" + four + ", " + four + ")", "INSERT INTO d VALUES (" + three + ", " + three + "), (" + four + ", " + four + ")"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.Copy, Where: "lvl > 5"}, "c": {Policy: merge.Copy, Orphans: "drop"}, "d": {Policy: merge.Copy, Orphans: "drop"}},
			asks:   [][2]string{{"SELECT COUNT(*) FROM p", "2"}, {"SELECT COUNT(*) FROM c", "2"}, {"SELECT COUNT(*) FROM d", "2"}}},
		"orphans without a place for NULL": {
			schema:  []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, lvl BIGINT)", "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT NOT NULL, FOREIGN KEY (p) REFERENCES p (id))"},
			first:   []string{"INSERT INTO p VALUES (" + one + ", 9), (" + two + ", 1)", "INSERT INTO c VALUES (" + one + ", " + one + "), (" + two + ", " + two + ")"},
			tables:  map[string]*merge.TablePlan{"p": {Policy: merge.Copy, Where: "lvl > 5"}, "c": {Policy: merge.Copy, Orphans: "null"}},
			refused: merge.CodeOrphan, says: "set orphans: drop"},
		"orphans of several columns, of which one may be NULL": {
			schema: []string{"CREATE TABLE p (realm BIGINT NOT NULL, id BIGINT NOT NULL, lvl BIGINT, PRIMARY KEY (realm, id))", "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, realm BIGINT NOT NULL, p BIGINT, FOREIGN KEY (realm, p) REFERENCES p (realm, id))"},
			first:  []string{"INSERT INTO p VALUES (1, 1, 9), (1, 2, 1)", "INSERT INTO c VALUES (" + one + ", 1, 1), (" + two + ", 1, 2)"},
			second: []string{"INSERT INTO p VALUES (2, 1, 9), (2, 2, 1)", "INSERT INTO c VALUES (" + three + ", 2, 1), (" + four + ", 2, NULL)"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.Copy, Where: "lvl > 5"}, "c": {Policy: merge.Copy, Orphans: "drop"}},
			asks:   [][2]string{{"SELECT COUNT(*) FROM c", "3"}}},
		"a part of the key that the plan sets": {
			schema:  []string{"CREATE TABLE p (realm BIGINT NOT NULL, slot BIGINT NOT NULL, v VARCHAR(9), PRIMARY KEY (realm, slot))"},
			first:   []string{"INSERT INTO p VALUES (1, 1, 'a'), (1, 2, 'b')"},
			second:  []string{"INSERT INTO p VALUES (2, 1, 'c'), (2, 3, 'd')"},
			tables:  map[string]*merge.TablePlan{"p": {Policy: merge.Copy, Set: map[string]string{"realm": "{target}"}}},
			refused: merge.CodePlan, says: "set changes the primary key"},
		"a column that the plan sets to nothing, where something is needed": {
			schema:  []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(9) NOT NULL)"},
			first:   []string{"INSERT INTO p VALUES (" + one + ", 'a')"},
			tables:  map[string]*merge.TablePlan{"p": {Policy: merge.Copy, Set: map[string]string{"v": "NULLIF(v, 'a')"}}},
			refused: merge.CodeNull, says: "v"},
		"a column that the plan sets to more than it holds": {on: "postgres mysql",
			schema:  []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(3) NOT NULL)"},
			first:   []string{"INSERT INTO p VALUES (" + one + ", 'a')"},
			tables:  map[string]*merge.TablePlan{"p": {Policy: merge.Copy, Set: map[string]string{"v": "'far too long'"}}},
			refused: merge.CodeTooLong, says: "s1: p: v"},
		"a reference that the plan sets": {
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT, tag VARCHAR(9), FOREIGN KEY (p) REFERENCES p (id))"},
			first:  []string{firstParents, "INSERT INTO c VALUES (" + one + ", 2, 'c')"},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + ", 2, 'f')"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": {Policy: merge.Copy, Set: map[string]string{"p": "p + 1"}}},
			asks:   [][2]string{{"SELECT COUNT(*) FROM c JOIN p ON p.id = c.p AND p.tag = c.tag", "2"}}},
		"a new name that a row of another server has": {
			schema: []string{names},
			first:  []string{"INSERT INTO p VALUES (" + one + ", 'Ann', 1), (" + two + ", 'Ann.s2', 1)"},
			second: []string{"INSERT INTO p VALUES (" + three + ", 'Ann', 1), (" + four + ", 'Ann.s2-2', 1)"},
			tables: map[string]*merge.TablePlan{"p": renamed(merge.RenamePlan{})},
			asks:   [][2]string{{"SELECT name FROM p ORDER BY id", "Ann,Ann.s2-3,Ann.s2,Ann.s2-2"}}},
		"names that have to be shortened, and are equal then": {
			schema: []string{names},
			first:  []string{"INSERT INTO p VALUES (" + one + ", 'abcdefghij12', 1), (" + two + ", 'abcdefghij34', 1)"},
			second: []string{"INSERT INTO p VALUES (" + three + ", 'abcdefghij12', 1), (" + four + ", 'abcdefghij34', 1)"},
			tables: map[string]*merge.TablePlan{"p": renamed(merge.RenamePlan{Max: 12})},
			asks:   [][2]string{{"SELECT COUNT(DISTINCT name) FROM p WHERE LENGTH(name) <= 12", "4"}, {"SELECT name FROM p WHERE id = " + three, "abcdefghi.s2"}}},
		"names of signs that consist of several": {
			schema: []string{names},
			first:  []string{"INSERT INTO p VALUES (" + one + ", '👨‍👩‍👧👨‍👩‍👧', 1)"},
			second: []string{"INSERT INTO p VALUES (" + three + ", '👨‍👩‍👧👨‍👩‍👧', 1)"},
			tables: map[string]*merge.TablePlan{"p": renamed(merge.RenamePlan{Max: 12})},
			asks:   [][2]string{{"SELECT COUNT(DISTINCT id) FROM p WHERE name LIKE '%.s2'", "1"}}},
		"the greatest keeps its name, with NULLs and equal ones": {
			schema: []string{names},
			first:  []string{"INSERT INTO p VALUES (" + one + ", 'Ann', NULL), (" + two + ", 'Bob', 5)"},
			second: []string{"INSERT INTO p VALUES (" + three + ", 'Ann', 1), (" + four + ", 'Bob', 5)"},
			tables: map[string]*merge.TablePlan{"p": renamed(merge.RenamePlan{Keep: "highest", By: "lvl"})},
			asks:   [][2]string{{"SELECT name FROM p ORDER BY id", "Ann.s1,Ann,Bob,Bob.s2"}}},
		"no row keeps its name": {
			schema: []string{names},
			first:  []string{"INSERT INTO p VALUES (" + one + ", 'Ann', NULL), (" + two + ", 'Bob', 5)"},
			second: []string{"INSERT INTO p VALUES (" + three + ", 'Ann', 1)"},
			tables: map[string]*merge.TablePlan{"p": renamed(merge.RenamePlan{Keep: "none"})},
			asks:   [][2]string{{"SELECT name FROM p ORDER BY id", "Ann.s1,Ann.s2,Bob"}}},
		"a total below zero in a column without a sign": {on: "mysql",
			schema: []string{"CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, gold BIGINT UNSIGNED, debt INT)"},
			first:  []string{"INSERT INTO w VALUES (1, 18446744073709551615, -2147483648)"}, second: []string{"INSERT INTO w VALUES (1, 1, 0)"},
			tables: map[string]*merge.TablePlan{"w": {Policy: merge.Sum, Key: []string{"id"}, Sum: []string{"gold", "debt"}}}, refused: merge.CodeTotal, says: "gold"},
		"a total of a small column": {on: "postgres mysql",
			schema: []string{"CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, gold SMALLINT)"},
			first:  []string{"INSERT INTO w VALUES (1, 30000)"}, second: []string{"INSERT INTO w VALUES (1, 30000)"},
			tables: map[string]*merge.TablePlan{"w": {Policy: merge.Sum, Key: []string{"id"}, Sum: []string{"gold"}}}, refused: merge.CodeTotal, says: "gold"},
		"the newest, where times are missing or equal": {
			schema: []string{"CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, at TIMESTAMPTYPE, v VARCHAR(9))"},
			first:  []string{"INSERT INTO w VALUES (1, NULL, 'a'), (2, '2025-01-01 00:00:00', 'b'), (3, '2025-01-02 00:00:00.5', 'c'), (4, NULL, 'd')"},
			second: []string{"INSERT INTO w VALUES (1, '2025-01-01 00:00:00', 'e'), (2, '2025-01-01 00:00:00', 'f'), (3, '2025-01-02 00:00:00.25', 'g'), (4, NULL, 'h')"},
			tables: map[string]*merge.TablePlan{"w": {Policy: merge.Newest, Key: []string{"id"}, By: "at"}},
			asks:   [][2]string{{"SELECT v FROM w ORDER BY id", "e,b,c,d"}}},
		"the least and the greatest of texts and NULLs": {
			schema: []string{"CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, least BIGINT, most BIGINT, n BIGINT)"},
			first:  []string{"INSERT INTO w VALUES (1, NULL, 5, 1), (2, -9, 10, 1)"},
			second: []string{"INSERT INTO w VALUES (1, 3, NULL, 1), (2, 9, 9, 1)"},
			tables: map[string]*merge.TablePlan{"w": {Policy: merge.Sum, Key: []string{"id"}, Sum: []string{"n"}, Min: []string{"least"}, Max: []string{"most"}}},
			asks:   [][2]string{{"SELECT least FROM w ORDER BY id", "3,-9"}, {"SELECT most FROM w ORDER BY id", "5,10"}}},
		"a reference to itself by accounts that become one": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, login VARCHAR(9) UNIQUE, friend BIGINT, tag VARCHAR(9), FOREIGN KEY (friend) REFERENCES p (id))"},
			first:  []string{"INSERT INTO p VALUES (1, 'a', 2, 'b'), (2, 'b', NULL, '')"},
			second: []string{"INSERT INTO p VALUES (1, 'b', 2, 'c'), (2, 'c', 1, 'b')"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"login"}, Renumber: merge.Behind}},
			asks:   [][2]string{{"SELECT COUNT(*) FROM p JOIN p AS q ON q.id = p.friend WHERE q.login = p.tag", "2"}, {"SELECT COUNT(*) FROM p", "3"}}},
		"a key with a reference to the table itself": {
			schema: []string{tree}, first: []string{roots, "INSERT INTO p VALUES (3, 2, 'c')"}, second: []string{roots},
			tables:  map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"parent", "name"}, Renumber: merge.Behind}},
			refused: merge.CodePlan, says: "p: parent"},
		"a unique key with a reference to the table itself, beside the key of the plan": {
			schema: []string{tree}, first: []string{roots, "INSERT INTO p VALUES (3, 2, 'c')"}, second: []string{roots, "INSERT INTO p VALUES (4, 2, 'd')"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"id"}}},
			asks:   [][2]string{{"SELECT name FROM p ORDER BY id", "a,b,c,d"}}},
		"a key with the part of a reference to the table itself that is equal": {
			schema: []string{"CREATE TABLE p (realm BIGINT NOT NULL, id BIGINT NOT NULL, parent BIGINT, name VARCHAR(9), PRIMARY KEY (realm, id), " +
				"FOREIGN KEY (realm, parent) REFERENCES p (realm, id))"},
			first:  []string{"INSERT INTO p VALUES (1, 1, NULL, 'a'), (1, 2, 1, 'b')"},
			second: []string{"INSERT INTO p VALUES (1, 5, NULL, 'a'), (1, 6, 5, 'b'), (1, 7, 6, 'c'), (2, 5, NULL, 'a')"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"realm", "name"}}},
			asks:   [][2]string{{"SELECT p.name FROM p JOIN p AS q ON q.realm = p.realm AND q.id = p.parent ORDER BY p.id", "b,c"}, {"SELECT COUNT(*) FROM p", "4"}}},
	}
}
