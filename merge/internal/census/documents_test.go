package census_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A game keeps how long heroes have been friends in a document that has their keys as the names of its members, and
// what they think of each other in one of PHP. Colors are few, and have numbers of their own.
func TestKeysThatAreNamesInDocumentsAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		document := map[string]string{"postgres": "JSONB", "mysql": "JSON", "sqlite": "TEXT"}[target.Dialect]
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
				"CREATE TABLE looks (id INTEGER NOT NULL PRIMARY KEY, friends " + document + ", colors " + document + ", thoughts TEXT)"}
			for n := 1; n <= heroes; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", n, 1+pick(n, 60)))
				members, thoughts := []string{}, []string{}
				for i := range 1 + pick(n, 3) {
					hero := 1 + pick(seed*1000+3*n+i, heroes)
					members = append(members, fmt.Sprintf(`"%d": {"since": %d}`, hero, 1_700_000_000+n))
					thoughts = append(thoughts, fmt.Sprintf(`i:%d;s:4:"nice";`, hero))
				}
				statements = append(statements, fmt.Sprintf(`INSERT INTO looks VALUES (%d, '{"v": 2, "friends": {%s}}', '{"%d": 7}', 'a:%d:{%s}')`,
					7000+n, strings.Join(members, ", "), 1+n%9, len(thoughts), strings.Join(thoughts, "")))
			}
			return statements
		}
		found := taken(t, target, server(1, 300), server(2, 200))
		if found["looks.friends"] != "perhaps heroes.id" || found["looks.thoughts"] != "perhaps heroes.id" || found["looks.colors"] != "" {
			t.Errorf("%q", found)
		}
	})
}

// PHP writes modules with a backslash, which MySQL reads twice in a text.
func TestAKindWithBackslashesIsWrittenAsTheServersReadIt(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		kind := map[bool]string{false: `App\Models\`, true: `App\\Models\\`}[target.Dialect == "mysql"]
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE guilds (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE words (no INTEGER NOT NULL, about_type VARCHAR(99), about_id INTEGER)"}
			for n := range heroes {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes (level) VALUES (%d)", 1+pick(seed+n, 60)),
					fmt.Sprintf("INSERT INTO words VALUES (%d, '%s', %d)", 90_000+n, kind+"Hero", 1+pick(seed+n, heroes)))
				if n < heroes/10 {
					statements = append(statements, fmt.Sprintf("INSERT INTO guilds (level) VALUES (%d)", 1+pick(seed+n, 9)),
						fmt.Sprintf("INSERT INTO words VALUES (%d, '%s', %d)", 80_000+n, kind+"Guild", 1+pick(seed+n, heroes/10)))
				}
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 300), server(7, 200)), map[string]string{"words.about_id": "guilds.id when about_type = '" +
			kind + "Guild', heroes.id when about_type = '" + kind + "Hero'"})
	})
}

// A game writes lists and documents into columns of bytes. What it packs into others are no texts.
func TestTextsThatAreKeptAsBytesAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		kind, bytes := "BLOB", "x'%x'"
		if target.Dialect == "postgres" {
			kind, bytes = "BYTEA", `'\x%x'`
		}
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
				strings.ReplaceAll("CREATE TABLE blocks (crew BLOB, extra BLOB, packed BLOB, story BLOB)", "BLOB", kind)}
			for n := 1; n <= heroes; n++ {
				first, second := 103+3*pick(seed+n, heroes), 103+3*pick(seed*1000+7*n, heroes)
				crew, extra := fmt.Sprintf("%d,%d", first, second), fmt.Sprintf(`{"by":%d}`, second)
				if n == 7 {
					crew, extra = "\xff\xfe", "{\"name\":\"\xe4\"}"
				}
				// Only the beginning of a story is looked at, which ends within a letter.
				story := fmt.Sprintf(`{"by":%d,"told":%q}`, first, strings.Repeat("x", n%2)+strings.Repeat("ä", 3000))
				statements = append(statements,
					fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", 100+3*n, 1+pick(n, 60)),
					fmt.Sprintf("INSERT INTO blocks VALUES ("+strings.Join([]string{bytes, bytes, bytes, bytes}, ", ")+")",
						crew, extra, fmt.Sprintf("\x00%d\x00", first), story))
			}
			return statements
		}
		found := taken(t, target, server(1, 300), server(2, 200))
		expect(t, found, map[string]string{"blocks.crew": "perhaps heroes.id as list ,",
			"blocks.extra": "perhaps heroes.id",
			"blocks.story": "perhaps heroes.id", "blocks.packed": ""})
	})
}

// Mails name the things that they bring, of which some were thrown away. A log has several lines for each thing, and
// shops are called by numbers, but each has its own.
func TestKeysInTextsAreAskedAboutThoughSomeRowsWereDeleted(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, things int) []string {
			statements, state := []string(nil), "VARCHAR(9)"
			if target.Dialect == "postgres" {
				statements, state = []string{"CREATE TYPE state AS ENUM ('new', 'old')"}, "state"
			}
			statements = append(statements, "CREATE TABLE things (id INTEGER NOT NULL PRIMARY KEY, state "+state+")",
				"CREATE TABLE letters (told VARCHAR(40), line VARCHAR(40))", "CREATE TABLE shops (title VARCHAR(40))")
			var keys, values []string
			thing := func(n int) int { return 3*n + pick(seed+n, 3) }
			for n := 1; n <= things; n++ {
				keys = append(keys, fmt.Sprintf("(%d)", thing(n)))
				values = append(values, fmt.Sprintf("('Shop #%d')", n))
			}
			statements = append(statements, "INSERT INTO things (id) VALUES "+strings.Join(keys, ", "),
				"INSERT INTO shops VALUES "+strings.Join(values, ", "))
			values = nil
			for n := range 2 * things {
				first, second := thing(things-n%things), thing(1+pick(7*n+seed, things/3))
				if pick(seed+11*n, 7) == 0 {
					first = 3*(1+pick(n, things)) + (pick(seed+pick(n, things)+1, 3)+1)%3
				}
				values = append(values, fmt.Sprintf(`('{"of":%d}', 'Brought #%d')`, first, second))
			}
			for n := range 30 {
				values = append(values, fmt.Sprintf(`('{}', 'Brought #%d')`, thing(things-n)))
			}
			return append(statements, "INSERT INTO letters VALUES "+strings.Join(values, ", "))
		}
		expect(t, taken(t, target, server(1, 300), server(2, 200)), map[string]string{"letters.told": "perhaps things.id",
			"letters.line": "perhaps things.id", "shops.title": ""})
	})
}

// A version of a game that keeps more in its documents came when there were many rows.
func TestKeysThatOnlyTheLastRowsHaveAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			var keys, rows []string
			for n := range 200 {
				keys = append(keys, fmt.Sprintf("(%d)", 3*n+pick(seed+n, 3)))
			}
			for n := range 4600 {
				bag := "{}"
				if n >= 4200 {
					pet := pick(seed+n, 200)
					bag = fmt.Sprintf(`{"pet":%d}`, 3*pet+pick(seed+pet, 3))
				}
				rows = append(rows, fmt.Sprintf("(%d, '%s')", 70000+n, bag))
			}
			return []string{"CREATE TABLE pets (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE bags (no INTEGER NOT NULL PRIMARY KEY, bag VARCHAR(40))",
				"INSERT INTO pets VALUES " + strings.Join(keys, ", "), "INSERT INTO bags VALUES " + strings.Join(rows, ", ")}
		}
		expect(t, taken(t, target, server(1), server(9)), map[string]string{"bags.bag": "perhaps pets.id"})
	})
}

// A mail brings things and how many of each, and a party is a list of pairs of heroes.
func TestAKeyAtOnePlaceOfListsInAListIsAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE things (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE mails (brings VARCHAR(90), pairs VARCHAR(90), prices VARCHAR(90))"}
			thing := func(n int) int { return 3*n + pick(seed+n, 3) }
			for n := range 200 {
				first, second := thing(pick(seed+3*n, 200)), thing(pick(seed+5*n, 200))
				statements = append(statements, fmt.Sprintf("INSERT INTO things VALUES (%d)", thing(n)),
					fmt.Sprintf("INSERT INTO mails VALUES ('[[%d,%d],[%d,%d]]', '[[%[1]d,%[3]d]]', '[[%[2]d,%[4]d]]')",
						first, pick(n, 2000), second, pick(7*n, 2000)))
			}
			return statements
		}
		found := taken(t, target, server(1), server(9))
		expect(t, found, map[string]string{"mails.brings": "perhaps things.id", "mails.pairs": "perhaps things.id", "mails.prices": ""})
	})
}
