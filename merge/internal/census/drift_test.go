package census_test

import (
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Servers of different kinds, or of different versions of a game, declare a column in different ways: one byte here
// and two there, a number that is a truth or a text on the other server.
func TestColumnsThatServersDeclareDifferentlyAreLookedAt(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		small := map[bool]string{false: "TINYINT", true: "SMALLINT"}[target.Dialect == "postgres"]
		server := func(heroes int, place, open, note, old string) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
				"CREATE TABLE towns (id " + old + " NOT NULL PRIMARY KEY, level INTEGER)",
				"CREATE TABLE ranks (no " + place + " NOT NULL PRIMARY KEY)",
				"CREATE TABLE visits (no INTEGER NOT NULL, place " + place + ", open " + open + ", note " + note +
					", town_id INTEGER, hero_id INTEGER, PRIMARY KEY (no))"}
			truth := map[bool]string{false: "%d", true: "%d = 1"}[open == "BOOLEAN"]
			for n := 1; n <= heroes; n++ {
				if n < 99 {
					statements = append(statements, fmt.Sprintf("INSERT INTO ranks VALUES (%d)", n))
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", n, 1+pick(n, 60)),
					fmt.Sprintf("INSERT INTO towns VALUES ('%d', 1)", 50_000+3*n),
					fmt.Sprintf("INSERT INTO visits VALUES (%d, %d, "+truth+", '%d', %d, %d)", 90_000+n, 1+pick(n, 120), n%2,
						1+pick(n, 100), 50_003+3*pick(n, heroes), 1+pick(7*n, heroes)))
			}
			return statements
		}
		found := taken(t, target, server(300, small, "INTEGER", "INTEGER", "INTEGER"),
			server(250, "SMALLINT", "BOOLEAN", "VARCHAR(9)", "VARCHAR(9)"))
		expect(t, found, map[string]string{"visits.hero_id": "heroes.id", "visits.town_id": "perhaps towns.id"})
	})
}

// Where a row has the key 0, a reference of 0 may lead to that row, and it may mean none. Only people know.
func TestAReferenceOfZeroToARowWithThisKeyIsAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(heroes, least int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
				"CREATE TABLE clans (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
				"CREATE TABLE swords (no INTEGER NOT NULL PRIMARY KEY, hero_id INTEGER, clan_id INTEGER, heir_id INTEGER)"}
			for n := range heroes {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", least+n, 1+pick(n, 60)),
					fmt.Sprintf("INSERT INTO clans VALUES (%d, %d)", 5000+n, 1+pick(n, 60)),
					fmt.Sprintf("INSERT INTO swords VALUES (%d, %d, %d, %d)", 90_000+n, pick(3*n, heroes),
						[]int{0, 5000 + pick(7*n, heroes)}[min(n%5, 1)], []int{-1, 0, pick(5*n, heroes)}[min(n%7, 2)]))
			}
			return statements
		}
		found := taken(t, target, server(300, 0), server(250, 1))
		expect(t, found, map[string]string{"swords.hero_id": "perhaps heroes.id", "swords.clan_id": "clans.id when clan_id <> 0",
			"swords.heir_id": "perhaps heroes.id when heir_id >= 0"})
	})
}
