package census_test

import (
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Years, levels and prices lie far from the keys of ships, which begin high, and from those of guilds, of which
// each server has another number.
func TestFewKeysInPartsOfColumnsAreAskedAboutIfNoOtherNumbersLieThere(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, ships, guilds int) []string {
			statements := []string{"CREATE TABLE ships (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE guilds (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE logs (extra VARCHAR(60), packed BIGINT, flag INTEGER, made VARCHAR(60), price INTEGER)"}
			for n := range ships {
				statements = append(statements, fmt.Sprintf("INSERT INTO ships VALUES (%d)", 100_000+2*n+seed))
			}
			for n := range guilds {
				guild := n + 1 + n/3
				statements = append(statements, fmt.Sprintf("INSERT INTO guilds VALUES (%d)", guild),
					fmt.Sprintf(`INSERT INTO logs VALUES ('{"at":%d}', %d, %d, '{"year":%d}', %d)`, 100_000+2*(n%ships)+seed,
						(100_000+2*(n%ships)+seed)*256+pick(n, 200), guild*256+pick(n, 200), 2020+n%5, 1+pick(n+seed, 900)*20))
			}
			return statements
		}
		found := taken(t, target, server(0, 4, 30), server(1, 5, 45))
		expect(t, found, map[string]string{"logs.extra": "perhaps ships.id", "logs.packed": "plain, perhaps ships.id",
			"logs.flag": "plain, perhaps guilds.id", "logs.made": "", "logs.price": "plain"})
	})
}

// The few guilds of a game begin at 100,000, where no level lies.
func TestAKindOfRowsIsAskedAboutIfItHasFewKeysThatBeginHigh(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(guilds int) []string {
			statements := []string{"CREATE TABLE guilds (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE logs (kind INTEGER, target INTEGER)"}
			for n := range guilds {
				statements = append(statements, fmt.Sprintf("INSERT INTO guilds VALUES (%d)", 100_000+n+n/3))
			}
			for n := range 60 {
				statements = append(statements, fmt.Sprintf("INSERT INTO logs VALUES (1, %d), (0, %d), (2, 0)",
					100_000+n%guilds+n%guilds/3, 1+n%4))
			}
			return statements
		}
		found := taken(t, target, server(5), server(7))
		expect(t, found, map[string]string{"logs.target": "perhaps guilds.id when kind = 1 AND target <> 0", "guilds.id": "plain"})
	})
}

// The parties of a game have all numbers from 1, and so has the place in a party that shares a number with its key.
// A text has the name of the table before the key, and each server has a few clans only.
func TestFewOrDenseKeysAreAskedAboutIfTheNumberOrTheTextSaysThatThereIsOne(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, parties, clans int) []string {
			statements := []string{"CREATE TABLE parties (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE clans (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE logs (packed BIGINT, wide BIGINT, about VARCHAR(60))"}
			for n := range parties {
				place, clan := 1+pick(seed+n, 80), 1+n%clans
				statements = append(statements, fmt.Sprintf("INSERT INTO parties VALUES (%d)", 1+n),
					fmt.Sprintf("INSERT INTO logs VALUES (%d, %d, 'clan:%d')", (1+n)<<32|place, 7<<40+n<<32, clan+clan/2))
				if n < clans {
					statements = append(statements, fmt.Sprintf("INSERT INTO clans VALUES (%d)", clan+clan/2))
				}
			}
			return statements
		}
		found := taken(t, target, server(1, 240, 7), server(9, 160, 5))
		expect(t, found, map[string]string{"logs.packed": "plain, perhaps parties.id as bits 32-62",
			"logs.about": "perhaps clans.id", "logs.wide": "plain"})
	})
}

// A hero and his clan share a number, and where there is no hero, a number below these stands alone.
func TestKeysInBitsAreAskedAboutAmongNumbersThatAreTooSmallForThem(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE flags (packed BIGINT)"}
			for n := range 200 {
				hero := 5_000 + 7*n + seed
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d)", hero), fmt.Sprintf(
					"INSERT INTO flags VALUES (%d), (%d)", hero*256+pick(n, 200), 1000+pick(n+seed, 60_000)))
			}
			return statements
		}
		expect(t, taken(t, target, server(0), server(3)), map[string]string{"flags.packed": "plain, perhaps heroes.id"})
	})
}

// The tables of a real game have the two clans of a war as texts.
func TestAFewKeysInTextsAreAskedAboutIfTheyCannotBeChance(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE clans (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20))",
				"CREATE TABLE wars (clan1 VARCHAR(20) NOT NULL, since VARCHAR(20), PRIMARY KEY (clan1))"}
			for n := range 40 {
				clan := 268_435_457 + 300*n + pick(seed+n, 299)
				statements = append(statements, fmt.Sprintf("INSERT INTO clans VALUES (%d, 'c%d')", clan, n))
				if n%5 == 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO wars VALUES ('%d', '%d')", clan, 1+pick(n, 40)))
				}
			}
			return statements
		}
		found := taken(t, target, server(1), server(2))
		if found["wars.clan1"] != "perhaps clans.id" || found["wars.since"] != "" {
			t.Errorf("%q", found)
		}
	})
}

// A server has a handful of worlds, and another number of them than others. Logs name them by a short word.
func TestAColumnIsAskedAboutIfItHasAllOfTheFewKeysOfEachServer(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, worlds int) []string {
			statements := []string{"CREATE TABLE worlds (nr INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20))",
				"CREATE TABLE folk (nr INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20))",
				"CREATE TABLE deeds (wd INTEGER, act INTEGER, grade INTEGER)"}
			for n := range worlds {
				statements = append(statements, fmt.Sprintf("INSERT INTO worlds VALUES (%d, 'w%d')", n+1, n))
			}
			for n := range 70 + 9*seed {
				statements = append(statements, fmt.Sprintf("INSERT INTO folk VALUES (%d, 'f%d')", n+1, n),
					fmt.Sprintf("INSERT INTO deeds VALUES (%d, %d, %d)", 1+pick(seed+n, worlds), 1+n%4,
						1+pick(n, 9+seed)))
			}
			return statements
		}
		young := []string{"CREATE TABLE worlds (nr INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20))",
			"CREATE TABLE deeds (wd INTEGER)", "INSERT INTO worlds VALUES (1, 'w'), (2, 'v')",
			"INSERT INTO deeds VALUES (2)"}
		expect(t, taken(t, target, server(1, 4), server(2, 6), young), map[string]string{
			"deeds.wd": "perhaps worlds.nr", "deeds.act": "plain", "deeds.grade": "plain"})
	})
}

// A server has nine homes and the other twelve, and all that is done in the last hours of a day says no more than
// three of their numbers.
func TestTheLastKeysOfATableAreNotEachOfThem(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(homes int) []string {
			statements := []string{"CREATE TABLE homes (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE deeds (hour INTEGER)"}
			for n := range homes {
				statements = append(statements, fmt.Sprintf("INSERT INTO homes VALUES (%d)", n+1))
			}
			for n := range 90 {
				statements = append(statements, fmt.Sprintf("INSERT INTO deeds VALUES (%d)", homes-pick(n, homes/3)))
			}
			return statements
		}
		expect(t, taken(t, target, server(9), server(12)), map[string]string{"deeds.hour": "plain"})
	})
}
