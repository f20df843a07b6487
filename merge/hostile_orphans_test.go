package merge_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func TestOrphansAreJudgedByWhatTheTargetWillHold(t *testing.T) {
	t.Parallel()
	mergeHostile(t, orphanPlans())
}

func TestOrphansAreJudgedByWhatTheTargetWillHoldBetweenKinds(t *testing.T) {
	t.Parallel()
	mergeBetweenKinds(t, orphanPlans())
}

// orphanPlans are plans that set references, or have conditions for them, and say what becomes of orphans.
func orphanPlans() map[string]hostile {
	one, two, three, four := id(1, 1), id(1, 2), id(2, 1), id(2, 2)
	const parents = "CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9))"
	firstParents, secondParents := "INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c')", "INSERT INTO p VALUES (1, 'd'), (2, 'e'), (3, 'f')"
	child := func(orphans string, set map[string]string, references ...merge.Reference) *merge.TablePlan {
		return &merge.TablePlan{Policy: merge.Copy, Orphans: orphans, Set: set, References: references}
	}
	counted := func() *merge.TablePlan { return &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Behind} }

	// Both servers have guilds of the same codes, so the plan changes the codes and what refers to them.
	guilds := []string{"CREATE TABLE g (id BIGINT NOT NULL PRIMARY KEY, code VARCHAR(20) UNIQUE, tag VARCHAR(9))",
		"CREATE TABLE m (id BIGINT NOT NULL PRIMARY KEY, g VARCHAR(20), FOREIGN KEY (g) REFERENCES g (code))"}
	codes := map[string]string{"code": "REPLACE(code, 'c', 's{server}-c')"}
	coded := func(where, orphans string) map[string]*merge.TablePlan {
		return map[string]*merge.TablePlan{"g": {Policy: merge.Copy, Set: codes, Where: where},
			"m": child(orphans, map[string]string{"g": "REPLACE(g, 'c', 's{server}-c')"})}
	}
	firstGuilds := []string{"INSERT INTO g VALUES (" + one + ", 'c1', 'a'), (" + two + ", NULL, 'b')", "INSERT INTO m VALUES (" + one + ", 'c1')"}
	secondGuilds := []string{"INSERT INTO g VALUES (" + three + ", 'c1', 'c'), (" + four + ", 'c2', 'd')", "INSERT INTO m VALUES (" + three + ", 'c1')"}
	lost := append(append([]string(nil), secondGuilds...), "INSERT INTO m VALUES ("+four+", 'c9')")
	led := [2]string{"SELECT COUNT(*) FROM m JOIN g ON g.code = m.g", "2"}
	whoLed := [2]string{"SELECT g.tag FROM m JOIN g ON g.code = m.g ORDER BY m.id", "a,c"}

	// A reference of two columns, of which the plan sets one on both sides, and its orphan.
	pairs := []string{"CREATE TABLE g (id BIGINT NOT NULL PRIMARY KEY, realm BIGINT NOT NULL, code BIGINT NOT NULL, UNIQUE (realm, code))",
		"CREATE TABLE m (id BIGINT NOT NULL PRIMARY KEY, realm BIGINT, g BIGINT, FOREIGN KEY (realm, g) REFERENCES g (realm, code))"}

	// A reference that only some rows have.
	owned := []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, k VARCHAR(9), o BIGINT)"}
	firstOwned := []string{"INSERT INTO p VALUES (" + one + ", 'a')", "INSERT INTO c VALUES (" + one + ", 'x', " + one + "), (" + two + ", NULL, 77)"}
	secondOwned := []string{"INSERT INTO p VALUES (" + three + ", 'a')", "INSERT INTO c VALUES (" + three + ", 'x', 77), (" + four + ", 'y', 77)"}
	owner := func(orphans string, set map[string]string) map[string]*merge.TablePlan {
		return map[string]*merge.TablePlan{"p": {Policy: merge.Copy},
			"c": child(orphans, set, merge.Reference{Column: "o", Table: "p", When: "k = 'x'"})}
	}
	without := []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT)"}

	// Texts that hold keys behind a letter.
	texts := []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p VARCHAR(9))"}
	texted := func(orphans string) map[string]*merge.TablePlan {
		return map[string]*merge.TablePlan{"p": counted(),
			"c": child(orphans, map[string]string{"p": "SUBSTR(p, 2)"}, merge.Reference{Column: "p", Table: "p"})}
	}
	firstTexts := []string{firstParents, "INSERT INTO c VALUES (" + one + ", 'x1'), (" + two + ", NULL)"}
	secondTexts := []string{secondParents, "INSERT INTO c VALUES (" + three + ", 'x2'), (" + four + ", 'x9')"}

	// Numbers that the plan sets to the same number in another type.
	numbers := []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p DECIMAL(20,0), tag VARCHAR(9))"}
	firstNumbers := []string{firstParents, "INSERT INTO c VALUES (" + one + ", 2, 'b'), (" + two + ", 9, NULL)"}
	secondNumbers := []string{secondParents, "INSERT INTO c VALUES (" + three + ", 2, 'e'), (" + four + ", NULL, NULL)"}
	typed := func(orphans, expression string) map[string]*merge.TablePlan {
		return map[string]*merge.TablePlan{"p": counted(),
			"c": child(orphans, map[string]string{"p": expression}, merge.Reference{Column: "p", Table: "p"})}
	}
	right := [2]string{"SELECT COUNT(*) FROM c JOIN p ON p.id = c.p AND p.tag = c.tag", "2"}
	return map[string]hostile{
		"a reference and the unique column that it refers to, which the plan sets both": {
			schema: guilds, first: firstGuilds, second: secondGuilds, tables: coded("", ""), asks: [][2]string{led, whoLed}},
		"a reference and its column, both set, and an orphan": {
			schema: guilds, first: firstGuilds, second: lost, tables: coded("", ""), refused: merge.CodeOrphan, says: "s2: m"},
		"a reference and its column, both set, and an orphan that becomes NULL": {
			schema: guilds, first: firstGuilds, second: lost, tables: coded("", "null"), warned: merge.CodeOrphan, says: "1 row",
			asks: [][2]string{led, whoLed, {"SELECT COUNT(*) FROM m WHERE g IS NULL", "1"}}},
		"a reference and its column, both set, and an orphan that is dropped": {
			schema: guilds, first: firstGuilds, second: lost, tables: coded("", "drop"), warned: merge.CodeOrphan, says: "1 row",
			asks: [][2]string{led, whoLed, {"SELECT COUNT(*) FROM m", "2"}}},
		"a reference and its column, both set, and a parent that stays behind": {
			schema: guilds, first: firstGuilds, second: secondGuilds, tables: coded("tag <> 'c'", "drop"), warned: merge.CodeOrphan, says: "1 row",
			asks: [][2]string{{"SELECT g.tag FROM m JOIN g ON g.code = m.g", "a"}, {"SELECT COUNT(*) FROM m", "1"}}},
		"a column that the plan sets, and what refers to it stays as it is": {
			schema: guilds, first: firstGuilds, second: secondGuilds,
			tables:  map[string]*merge.TablePlan{"g": {Policy: merge.Copy, Set: codes}, "m": child("", nil)},
			refused: merge.CodeOrphan, says: "give it by set: of m the value that set: gives g.code"},
		"a reference of two columns, of which the plan sets one on both sides": {
			schema: pairs,
			first:  []string{"INSERT INTO g VALUES (" + one + ", 1, 1), (" + two + ", 1, 2)", "INSERT INTO m VALUES (" + one + ", 1, 1), (" + two + ", 1, 9)"},
			second: []string{"INSERT INTO g VALUES (" + three + ", 2, 3)", "INSERT INTO m VALUES (" + three + ", 2, 3), (" + four + ", NULL, NULL)"},
			tables: map[string]*merge.TablePlan{"g": {Policy: merge.Copy, Set: map[string]string{"realm": "realm * 0 + {target}"}},
				"m": child("drop", map[string]string{"realm": "realm * 0 + {target}"})},
			asks: [][2]string{{"SELECT COUNT(*) FROM m JOIN g ON g.realm = m.realm AND g.code = m.g", "2"}, {"SELECT COUNT(*) FROM m", "3"}}},
		"a condition of a reference that is neither true nor false, and orphans are dropped": {
			schema: owned, first: firstOwned, second: secondOwned, tables: owner("drop", nil), warned: merge.CodeOrphan, says: "s2: c",
			asks: [][2]string{{"SELECT id FROM c ORDER BY id", one + "," + two + "," + four}}},
		"a condition that is neither true nor false, of a reference that the plan sets": {
			schema: owned, first: firstOwned, second: secondOwned, tables: owner("drop", map[string]string{"o": "o + 0"}), warned: merge.CodeOrphan, says: "s2: c",
			asks: [][2]string{{"SELECT id FROM c ORDER BY id", one + "," + two + "," + four}}},
		"a reference with a condition, whose orphans become NULL": {
			schema: owned, first: firstOwned, second: secondOwned, tables: owner("null", nil), warned: merge.CodeOrphan, says: "s2: c",
			asks: [][2]string{{"SELECT COALESCE(o, 0) FROM c ORDER BY id", one + ",0,77,77"}}},
		"a reference with a condition that the plan sets, whose orphans become NULL": {
			schema: owned, first: firstOwned, second: secondOwned, tables: owner("null", map[string]string{"o": "o + 0"}), warned: merge.CodeOrphan, says: "s2: c",
			asks: [][2]string{{"SELECT COALESCE(o, 0) FROM c ORDER BY id", one + ",0,77,77"}}},
		"a reference that the plan sets, to a table that a server lacks": {
			before: without,
			first:  []string{without[0], without[1], "INSERT INTO p VALUES (" + one + ", 'a')", "INSERT INTO c VALUES (" + one + ", " + one + "), (" + two + ", 0)"},
			second: []string{without[1], "INSERT INTO c VALUES (" + three + ", 5), (" + four + ", 0)"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.Copy, Absent: []string{"s2"}},
				"c": child("drop", map[string]string{"p": "NULLIF(p, 0)"}, merge.Reference{Column: "p", Table: "p"})},
			asks: [][2]string{{"SELECT id FROM c ORDER BY id", one + "," + two + "," + four}, {"SELECT COUNT(*) FROM c WHERE p IS NULL", "2"}}},
		"keys in texts that the plan cuts out, and orphans become NULL": {
			schema: texts, first: firstTexts, second: secondTexts, tables: texted("null"), warned: merge.CodeOrphan, says: "s2: c",
			asks: [][2]string{{"SELECT COALESCE(p, '-') FROM c ORDER BY id", "1,5,-,-"}}},
		"keys in texts that the plan cuts out, and orphans are dropped": {
			schema: texts, first: firstTexts, second: secondTexts, tables: texted("drop"), warned: merge.CodeOrphan, says: "s2: c",
			asks: [][2]string{{"SELECT COALESCE(p, '-') FROM c ORDER BY id", "1,5,-"}}},
		"a number that the plan sets to one with a fraction of zero, and orphans become NULL": {
			schema: numbers, first: firstNumbers, second: secondNumbers, tables: typed("null", "p * 1.0"), asks: [][2]string{right, {"SELECT COUNT(*) FROM c WHERE p IS NULL", "2"}}},
		"a number that the plan sets to one with a fraction of zero, and orphans are dropped": {
			schema: numbers, first: firstNumbers, second: secondNumbers, tables: typed("drop", "p * 1.0"), asks: [][2]string{right, {"SELECT COUNT(*) FROM c", "3"}}},
		"a number that the plan sets to a text, and orphans become NULL": {on: "sqlite mysql",
			schema: numbers, first: firstNumbers, second: secondNumbers, tables: typed("null", "CAST(p AS CHAR(9))"), asks: [][2]string{right, {"SELECT COUNT(*) FROM c WHERE p IS NULL", "2"}}},
		"a number that the plan sets to a text, and orphans are dropped": {on: "sqlite mysql",
			schema: numbers, first: firstNumbers, second: secondNumbers, tables: typed("drop", "CAST(p AS CHAR(9))"), asks: [][2]string{right, {"SELECT COUNT(*) FROM c", "3"}}},
		"a number that the plan sets to a text of PostgreSQL, and orphans become NULL": {on: "postgres",
			schema: numbers, first: firstNumbers, second: secondNumbers, tables: typed("null", "CAST(p AS VARCHAR(9))"), asks: [][2]string{right, {"SELECT COUNT(*) FROM c WHERE p IS NULL", "2"}}},
		"a number that the plan sets to a text of PostgreSQL, and orphans are dropped": {on: "postgres",
			schema: numbers, first: firstNumbers, second: secondNumbers, tables: typed("drop", "CAST(p AS VARCHAR(9))"), asks: [][2]string{right, {"SELECT COUNT(*) FROM c", "3"}}},
		"a reference in a column with decimals to keys that change": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY)", "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p DECIMAL(20,2))"},
			first:  []string{"INSERT INTO p VALUES (1), (2)", "INSERT INTO c VALUES (" + one + ", 2)"},
			second: []string{"INSERT INTO p VALUES (1), (2)", "INSERT INTO c VALUES (" + three + ", 2)"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": child("", nil, merge.Reference{Column: "p", Table: "p"})},
			asks:   [][2]string{{"SELECT COUNT(*) FROM c WHERE p = 4", "1"}}},
		"a reference in a text to keys that change": {
			schema: []string{parents, "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p VARCHAR(9), tag VARCHAR(9))"},
			first:  []string{firstParents, "INSERT INTO c VALUES (" + one + ", '2', 'b')"},
			second: []string{secondParents, "INSERT INTO c VALUES (" + three + ", '2', 'e')"},
			tables: map[string]*merge.TablePlan{"p": counted(), "c": child("", nil, merge.Reference{Column: "p", Table: "p"})},
			asks:   [][2]string{{"SELECT p FROM c ORDER BY id", "2,5"}}},
		"a reference to rows of its own table, which the plan sets to none": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, boss BIGINT)"},
			first:  []string{"INSERT INTO p VALUES (" + one + ", 0), (" + two + ", " + one + ")"},
			second: []string{"INSERT INTO p VALUES (" + three + ", 0), (" + four + ", 99)"},
			tables: map[string]*merge.TablePlan{"p": child("drop", map[string]string{"boss": "NULLIF(boss, 0)"}, merge.Reference{Column: "boss", Table: "p"})},
			asks:   [][2]string{{"SELECT id FROM p ORDER BY id", one + "," + three + "," + two}}},
		"a reference with a condition to rows of its own table": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, k VARCHAR(9), boss BIGINT)"},
			first:  []string{"INSERT INTO p VALUES (" + one + ", 'y', 77), (" + two + ", 'x', " + one + ")"},
			second: []string{"INSERT INTO p VALUES (" + three + ", NULL, 77), (" + four + ", 'x', 99)"},
			tables: map[string]*merge.TablePlan{"p": child("drop", nil, merge.Reference{Column: "boss", Table: "p", When: "k = 'x'"})},
			asks:   [][2]string{{"SELECT id FROM p ORDER BY id", one + "," + three + "," + two}}},
	}
}
