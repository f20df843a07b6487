package merge_test

import (
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// pairing asks how many children lead to a parent of another meaning than on their server: both repeat the
// same tag.
func pairing(join string) [2]string {
	return [2]string{"SELECT COUNT(*) FROM children AS c LEFT JOIN parents AS p ON " + join +
		" WHERE p.tag IS NULL OR p.tag <> c.tag", "0"}
}

func TestReferencesLeadToTheRowsThatTheyLedToOnTheirServer(t *testing.T) {
	t.Parallel()
	const counted = "CREATE TABLE parents (id BIGINT NOT NULL PRIMARY KEY, code BIGINT NOT NULL UNIQUE, " +
		"realm BIGINT NOT NULL, login VARCHAR(20) NOT NULL, tag VARCHAR(20) NOT NULL, UNIQUE (realm, id)"
	renumber := func(children ...string) map[string]*merge.TablePlan {
		tables := copies(children...)
		tables["parents"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Behind}
		return tables
	}
	parent := func(server int) []string {
		return many(1, 10, func(n int) string {
			return fmt.Sprintf("INSERT INTO parents VALUES (%d, %d, %d, 'login%d', 's%d-%d')", n, server*1000+n*3, server, n, server, n)
		})
	}
	child := func(server int, format string) []string {
		return append(parent(server), many(1, 10, func(n int) string {
			return fmt.Sprintf("INSERT INTO children VALUES (%[1]s, "+format+", 's%[2]d-%[3]d')", id(server, n), server, n)
		})...)
	}
	mergeHostile(t, map[string]hostile{
		"unsigned keys": {on: "mysql",
			schema: []string{"CREATE TABLE parents (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
				"CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, parent BIGINT UNSIGNED, tag VARCHAR(20), FOREIGN KEY (parent) REFERENCES parents (id))"},
			first:  []string{"INSERT INTO parents VALUES (1, 'a'), (2, 'b')", "INSERT INTO children VALUES (" + id(1, 1) + ", 2, 'b')"},
			second: []string{"INSERT INTO parents VALUES (1, 'c'), (2, 'd')", "INSERT INTO children VALUES (" + id(2, 1) + ", 2, 'd')"},
			tables: renumber("children"), asks: [][2]string{pairing("p.id = c.parent"), {"SELECT COUNT(*) FROM parents", "4"}}},
		"a signed key and an unsigned reference that only the plan knows": {on: "mysql",
			schema: []string{"CREATE TABLE parents (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
				"CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, parent BIGINT UNSIGNED, tag VARCHAR(20))"},
			first:  []string{"INSERT INTO parents VALUES (1, 'a'), (2, 'b')", "INSERT INTO children VALUES (" + id(1, 1) + ", 2, 'b')"},
			second: []string{"INSERT INTO parents VALUES (1, 'c'), (2, 'd')", "INSERT INTO children VALUES (" + id(2, 1) + ", 2, 'd')"},
			tables: map[string]*merge.TablePlan{"parents": {Policy: merge.Copy, Renumber: merge.Behind},
				"children": {Policy: merge.Copy, References: []merge.Reference{{Column: "parent", Table: "parents"}}}},
			asks: [][2]string{pairing("p.id = c.parent")}},
		"a unique column that is not the key": {
			schema: []string{counted + ")", "CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, parent BIGINT NOT NULL, tag VARCHAR(20), " +
				"FOREIGN KEY (parent) REFERENCES parents (code))"},
			first: child(1, "%[2]d*1000+%[3]d*3"), second: child(2, "%[2]d*1000+%[3]d*3"),
			tables: renumber("children"), asks: [][2]string{pairing("p.code = c.parent")}},
		"a reference of several columns with the key in it": {
			schema: []string{counted + ")", "CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, realm BIGINT, parent BIGINT, tag VARCHAR(20), " +
				"FOREIGN KEY (realm, parent) REFERENCES parents (realm, id))"},
			first: child(1, "%[2]d, %[3]d"), second: child(2, "%[2]d, %[3]d"),
			tables: renumber("children"), asks: [][2]string{pairing("p.id = c.parent AND p.realm = c.realm")}},
		"a key that is a reference itself, and what refers to it": {
			schema: []string{counted + ")", "CREATE TABLE profiles (id BIGINT NOT NULL PRIMARY KEY REFERENCES parents (id), " +
				"FOREIGN KEY (id) REFERENCES parents (id))",
				"CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, profile BIGINT, tag VARCHAR(20), FOREIGN KEY (profile) REFERENCES profiles (id))"},
			first:  append(child(1, "%[3]d"), "INSERT INTO profiles SELECT id FROM parents"),
			second: append(child(2, "%[3]d"), "INSERT INTO profiles SELECT id FROM parents"),
			tables: renumber("children", "profiles"), asks: [][2]string{pairing("p.id = c.profile"),
				{"SELECT COUNT(*) FROM profiles", "20"}}},
		"a reference in a column of another type": {
			schema: []string{counted + ")", "CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, parent DECIMAL(20,0), tag VARCHAR(20))"},
			first:  child(1, "%[3]d"), second: child(2, "%[3]d"),
			tables: map[string]*merge.TablePlan{"parents": {Policy: merge.Copy, Renumber: merge.Behind},
				"children": {Policy: merge.Copy, References: []merge.Reference{{Column: "parent", Table: "parents"}}}},
			asks: [][2]string{pairing("p.id = c.parent")}},
		"accounts that become one and are renumbered": {
			schema: []string{counted + ")", "CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, parent BIGINT, tag VARCHAR(20), " +
				"FOREIGN KEY (parent) REFERENCES parents (id))"},
			first: child(1, "%[3]d"), second: append(child(2, "%[3]d"), "UPDATE parents SET login = 'other' WHERE id = 3",
				"UPDATE parents SET login = 'login3' WHERE id = 9"),
			tables: map[string]*merge.TablePlan{"children": {Policy: merge.Copy},
				"parents": {Policy: merge.KeepFirst, Key: []string{"login"}, Renumber: merge.Behind}},
			asks: [][2]string{
				{"SELECT COUNT(*) FROM parents", "11"},
				{"SELECT COUNT(*) FROM children c LEFT JOIN parents p ON p.id = c.parent WHERE p.id IS NULL", "0"},
				{"SELECT p.tag FROM children c JOIN parents p ON p.id = c.parent WHERE c.tag = 's2-3'", "s2-3"},
				{"SELECT p.tag FROM children c JOIN parents p ON p.id = c.parent WHERE c.tag = 's2-9'", "s1-3"},
				{"SELECT p.tag FROM children c JOIN parents p ON p.id = c.parent WHERE c.tag = 's2-7'", "s1-7"},
			}},
		"accounts that become one, each with the same key everywhere, and are renumbered": {
			schema: []string{counted + ")", "CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, parent BIGINT, tag VARCHAR(20), " +
				"FOREIGN KEY (parent) REFERENCES parents (id))"},
			first: child(1, "%[3]d"), second: child(2, "%[3]d"),
			tables: map[string]*merge.TablePlan{"children": {Policy: merge.Copy},
				"parents": {Policy: merge.KeepFirst, Key: []string{"login"}, Renumber: merge.Behind}},
			asks: [][2]string{
				{"SELECT COUNT(*) FROM parents", "10"},
				{"SELECT COUNT(*) FROM children c LEFT JOIN parents p ON p.id = c.parent WHERE p.id IS NULL", "0"},
				{"SELECT p.tag FROM children c JOIN parents p ON p.id = c.parent WHERE c.tag = 's2-7'", "s1-7"},
			}},
		"rows of several key columns that become one": {
			schema: []string{"CREATE TABLE parents (realm BIGINT NOT NULL, login VARCHAR(20) NOT NULL, code VARCHAR(20) NOT NULL UNIQUE, " +
				"tag VARCHAR(20) NOT NULL, PRIMARY KEY (realm, login))",
				"CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, realm BIGINT, login VARCHAR(20), tag VARCHAR(20), " +
					"FOREIGN KEY (realm, login) REFERENCES parents (realm, login))"},
			first: []string{"INSERT INTO parents VALUES (1, 'ann', 'A', 'ann')", "INSERT INTO parents VALUES (1, 'bob', 'B', 'bob')",
				"INSERT INTO children VALUES (" + id(1, 1) + ", 1, 'bob', 'bob')"},
			second: []string{"INSERT INTO parents VALUES (2, 'annette', 'A', 'ann')", "INSERT INTO parents VALUES (2, 'cas', 'C', 'cas')",
				"INSERT INTO children VALUES (" + id(2, 1) + ", 2, 'annette', 'ann')", "INSERT INTO children VALUES (" + id(2, 2) + ", 2, 'cas', 'cas')"},
			tables: map[string]*merge.TablePlan{"children": {Policy: merge.Copy}, "parents": {Policy: merge.KeepFirst, Key: []string{"code"}}},
			asks:   [][2]string{pairing("p.realm = c.realm AND p.login = c.login"), {"SELECT COUNT(*) FROM parents", "3"}}},
		"references to a name that changes": {
			schema: []string{"CREATE TABLE parents (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(30) NOT NULL UNIQUE, tag VARCHAR(20) NOT NULL)",
				"CREATE TABLE bans (id BIGINT NOT NULL PRIMARY KEY, player VARCHAR(30), tag VARCHAR(20), FOREIGN KEY (player) REFERENCES parents (name))"},
			first: []string{"INSERT INTO parents VALUES (" + id(1, 1) + ", 'Heron', 's1')", "INSERT INTO bans VALUES (" + id(1, 1) + ", 'Heron', 's1')"},
			second: []string{"INSERT INTO parents VALUES (" + id(2, 1) + ", 'Heron', 's2')", "INSERT INTO bans VALUES (" + id(2, 1) + ", 'Heron', 's2')",
				"INSERT INTO bans VALUES (" + id(2, 2) + ", NULL, 's2')"},
			tables: map[string]*merge.TablePlan{"parents": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}, "bans": {Policy: merge.Copy}},
			asks: [][2]string{{"SELECT COUNT(*) FROM bans c LEFT JOIN parents p ON p.name = c.player WHERE c.player IS NOT NULL AND (p.tag IS NULL OR p.tag <> c.tag)", "0"},
				{"SELECT player FROM bans WHERE tag = 's2' AND player IS NOT NULL", "Heron.s2"}}},
		"a name that is the key, and a column that follows it": {
			schema: []string{"CREATE TABLE parents (name VARCHAR(30) NOT NULL PRIMARY KEY, folded VARCHAR(30) NOT NULL UNIQUE, tag VARCHAR(20) NOT NULL, " +
				"shouted VARCHAR(30), shown VARCHAR(30))",
				"CREATE TABLE bans (id BIGINT NOT NULL PRIMARY KEY, player VARCHAR(30), tag VARCHAR(20), FOREIGN KEY (player) REFERENCES parents (name))"},
			first: []string{"INSERT INTO parents VALUES ('Heron', 'heron', 's1', 'HERON', 'Heron')", "INSERT INTO bans VALUES (" + id(1, 1) + ", 'Heron', 's1')"},
			second: []string{"INSERT INTO parents VALUES ('HERON', 'heron', 's2', 'HERON', 'HERON')",
				"INSERT INTO bans VALUES (" + id(2, 1) + ", 'HERON', 's2')"},
			tables: map[string]*merge.TablePlan{"parents": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name",
				Derived: []merge.DerivedName{{Column: "folded", As: "lower"}, {Column: "shouted", As: "upper"}, {Column: "shown", As: "same"}}}},
				"bans": {Policy: merge.Copy}},
			asks: [][2]string{{"SELECT COUNT(*) FROM bans c LEFT JOIN parents p ON p.name = c.player WHERE p.tag IS NULL OR p.tag <> c.tag", "0"},
				{"SELECT name FROM parents WHERE tag = 's2'", "HERON.s2"}, {"SELECT folded FROM parents WHERE tag = 's2'", "heron.s2"},
				{"SELECT shouted FROM parents WHERE tag = 's2'", "HERON.S2"}, {"SELECT shown FROM parents WHERE tag = 's2'", "HERON.s2"},
				{"SELECT shouted FROM parents WHERE tag = 's1'", "HERON"}}},
		"a key of several columns that leads to a row that stays, whose own key follows": {
			schema: []string{counted + ")",
				"CREATE TABLE titles (owner BIGINT NOT NULL, n INTEGER NOT NULL, word VARCHAR(9) NOT NULL UNIQUE, won INTEGER NOT NULL, " +
					"PRIMARY KEY (owner, n), FOREIGN KEY (owner) REFERENCES parents (id))",
				"CREATE TABLE badges (id BIGINT NOT NULL PRIMARY KEY, owner BIGINT, n INTEGER, word VARCHAR(9), " +
					"FOREIGN KEY (owner, n) REFERENCES titles (owner, n))"},
			first: append(parent(1), "INSERT INTO titles VALUES (4, 1, 'Lord', 7), (4, 2, 'King', 9)",
				"INSERT INTO badges VALUES ("+id(1, 1)+", 4, 1, 'Lord'), ("+id(1, 2)+", 4, 2, 'King')"),
			second: append(parent(2), "INSERT INTO titles VALUES (4, 3, 'Lord', 8), (5, 1, 'King', 3)",
				"INSERT INTO badges VALUES ("+id(2, 1)+", 4, 3, 'Lord'), ("+id(2, 2)+", 5, 1, 'King'), ("+id(2, 3)+", NULL, 1, NULL)"),
			tables: map[string]*merge.TablePlan{"parents": {Policy: merge.Copy, Renumber: merge.Behind},
				"titles": {Policy: merge.Newest, Key: []string{"word"}, By: "won"}, "badges": {Policy: merge.Copy}},
			asks: [][2]string{{"SELECT COUNT(*) FROM badges b JOIN titles t ON t.owner = b.owner AND t.n = b.n AND t.word = b.word", "4"},
				{"SELECT p.tag FROM titles t JOIN parents p ON p.id = t.owner ORDER BY t.word", "s1-4,s2-4"}}},
		"references that exist in some rows only": {
			schema: []string{counted + ")", "CREATE TABLE others (id BIGINT NOT NULL PRIMARY KEY)",
				"CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, kind VARCHAR(9), owner BIGINT, tag VARCHAR(20))"},
			first: append(parent(1), "INSERT INTO others VALUES (4)", "INSERT INTO children VALUES ("+id(1, 1)+", 'pet', 4, 's1-4')"),
			second: append(parent(2), "INSERT INTO others VALUES (4)", "INSERT INTO others VALUES (5)", "INSERT INTO children VALUES ("+id(2, 1)+", 'pet', 4, 's2-4')",
				"INSERT INTO children VALUES ("+id(2, 2)+", 'other', 4, 'o')", "INSERT INTO children VALUES ("+id(2, 3)+", 'none', 4, 'n')"),
			tables: map[string]*merge.TablePlan{"parents": {Policy: merge.Copy, Renumber: merge.Behind}, "others": {Policy: merge.Copy, Renumber: merge.Behind},
				"children": {Policy: merge.Copy, References: []merge.Reference{{Column: "owner", Table: "parents", When: "kind = 'pet'"},
					{Column: "owner", Table: "others", When: "kind = 'other'"}}}},
			asks: [][2]string{{"SELECT COUNT(*) FROM children c LEFT JOIN parents p ON p.id = c.owner WHERE c.kind = 'pet' AND (p.tag IS NULL OR p.tag <> c.tag)", "0"},
				{"SELECT owner FROM children WHERE kind = 'other'", "8"}, {"SELECT owner FROM children WHERE kind = 'none'", "4"}}},
		"a foreign key to a table of another schema with the name of an own one": {on: "postgres",
			schema: []string{"CREATE SCHEMA shared", "CREATE TABLE shared.parents (id INT NOT NULL PRIMARY KEY)",
				"INSERT INTO shared.parents SELECT generate_series(1, 40)", "CREATE TABLE parents (id INT NOT NULL PRIMARY KEY)",
				"CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, parent INT NOT NULL REFERENCES shared.parents (id))"},
			first:  []string{"INSERT INTO parents VALUES (1), (2)", "INSERT INTO children VALUES (" + id(1, 1) + ", 1)"},
			second: []string{"INSERT INTO parents VALUES (1), (2)", "INSERT INTO children VALUES (" + id(2, 2) + ", 2)"},
			tables: renumber("children"), leftOut: []merge.LeftOut{{Kind: "schema", Name: "shared"}}, warned: merge.CodeUncheckable,
			says: "refers to shared.parents", asks: [][2]string{{"SELECT parent FROM children ORDER BY id", "1,2"}, {"SELECT MAX(id) FROM parents", "4"}}},
		"keys inside of JSON and lists": {
			schema: []string{counted + ")", "CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, data TEXT, ids VARCHAR(40))"},
			first:  parent(1),
			second: append(parent(2), "INSERT INTO children VALUES ("+id(2, 1)+
				`, '{"pet": {"id": 4, "age": 4},  "bag":[{"id":"5"},{"id":6},{}], "n": null}', '1,2, 3')`, "INSERT INTO children VALUES ("+id(2, 2)+", '{}', '')"),
			tables: map[string]*merge.TablePlan{"parents": {Policy: merge.Copy, Renumber: merge.Behind},
				"children": {Policy: merge.Copy, References: []merge.Reference{{Column: "data", Table: "parents", Path: "$.pet.id"},
					{Column: "ids", Table: "parents", List: ","}}}},
			asks: [][2]string{{"SELECT data FROM children WHERE ids <> ''", `{"pet": {"id": 14, "age": 4},  "bag":[{"id":"5"},{"id":6},{}], "n": null}`},
				{"SELECT ids FROM children WHERE ids <> ''", "11,12, 13"}}},
		"a column that the plan sets": {
			schema: []string{"CREATE TABLE parents (id BIGINT NOT NULL PRIMARY KEY, realm BIGINT NOT NULL, was VARCHAR(20))"},
			first:  []string{"INSERT INTO parents VALUES (" + id(1, 1) + ", 1, 'x')"}, second: []string{"INSERT INTO parents VALUES (" + id(2, 1) + ", 2, 'x')"},
			tables: map[string]*merge.TablePlan{"parents": {Policy: merge.Copy, Set: map[string]string{"realm": "{target}", "was": "'from {server}'"}}},
			asks:   [][2]string{{"SELECT COUNT(*) FROM parents WHERE realm = 1", "2"}, {"SELECT was FROM parents ORDER BY id", "from 1,from 2"}}},
		"keys that were given out and deleted": {
			schema: []string{"CREATE TABLE parents (COUNTED, tag VARCHAR(20) NOT NULL)"},
			first:  append(many(1, 9, func(n int) string { return fmt.Sprintf("INSERT INTO parents (tag) VALUES ('s1-%d')", n) }), "DELETE FROM parents WHERE id > 5"),
			second: append(many(1, 9, func(n int) string { return fmt.Sprintf("INSERT INTO parents (tag) VALUES ('s2-%d')", n) }), "DELETE FROM parents WHERE id > 3"),
			tables: renumber(), asks: [][2]string{{"SELECT MIN(id) FROM parents WHERE tag LIKE 's2%'", "10"}, {"SELECT MAX(id) FROM parents", "12"}},
			after: "INSERT INTO parents (tag) VALUES ('new')", then: [][2]string{{"SELECT id FROM parents WHERE tag = 'new'", "19"}}},
	})
}
