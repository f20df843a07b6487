package census_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Of a server that deletes little, any number is a key nearly as often as one that refers. What tells them apart is
// that references end where the keys do, on each server, also if some of them lead to what was deleted.
func TestReferencesToDenseKeysAreAskedAboutIfSomeLeadToWhatWasDeleted(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players int) []string {
			statements := []string{"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE steps (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE reports (id INTEGER NOT NULL PRIMARY KEY, " +
					"victim INTEGER, of_players INTEGER, day INTEGER, price INTEGER, score INTEGER)"}
			for n := 1; n <= 2*players; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO steps VALUES (%d)", n))
				if n <= players && n%17 != 5 {
					statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d)", n))
				}
			}
			for n := range 200 {
				statements = append(statements, fmt.Sprintf("INSERT INTO reports VALUES (%d, %d, %d, %d, %d, %d)", 5000+n,
					1+pick(seed+2*n, players), 1+pick(seed+5*n, players), 1+pick(n, 365), 1+pick(seed+3*n, 350),
					1+pick(seed+7*n, players*2/3)))
			}
			return statements
		}
		found := taken(t, target, server(1, 600), server(7, 400))
		expect(t, found, map[string]string{"reports.victim": "perhaps players.id",
			"reports.of_players": "perhaps players.id", "reports.day": "plain", "reports.price": "plain",
			"reports.score": "plain"})
	})
}

// A server that has just three of them does not hide a column that ends where the keys do on all others.
func TestReferencesToDenseKeysAreAskedAboutThoughAServerHasFew(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players, rows int) []string {
			statements := []string{"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE steps (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE reports (id INTEGER NOT NULL PRIMARY KEY, " +
					"about INTEGER, day INTEGER)"}
			for n := 1; n <= 2*players; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO steps VALUES (%d)", n))
				if n <= players {
					statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d)", n))
				}
			}
			for n := range rows {
				statements = append(statements, fmt.Sprintf("INSERT INTO reports VALUES (%d, %d, %d)", 5000+n,
					1+pick(seed+2*n, players), 1+pick(n, 365)))
			}
			return statements
		}
		found := taken(t, target, server(1, 600, 100), server(5, 400, 3), server(7, 500, 30))
		expect(t, found, map[string]string{"reports.about": "perhaps players.id", "reports.day": "plain"})
	})
}

// Where servers have as many rows, the keys of all of them end at about the same number. References end there as well,
// and more of them are keys than any number of the range.
func TestReferencesOfServersOfOneSizeAreAskedAboutIfSomeLeadToWhatWasDeleted(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players int) []string {
			var alive []int
			statements := []string{"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE reports (id INTEGER NOT NULL PRIMARY KEY, about INTEGER, points INTEGER)"}
			for n := 1; n <= players; n++ {
				if pick(seed+n, 8) > 0 {
					alive = append(alive, n)
					statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d)", n))
				}
			}
			for n := range 110 {
				about := alive[pick(seed+2*n, len(alive))]
				if n%20 == 0 {
					about = 1 + pick(seed+n, players) // he may be deleted
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO reports VALUES (%d, %d, %d)", 5000+n, about,
					1+pick(seed+7*n, players)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 500), server(9000, 490)), map[string]string{
			"reports.about": "perhaps players.id", "reports.points": "plain"})
	})
}

// Most of what these columns lead to was deleted, and other tables have as many of their values. Their names say it.
func TestAColumnIsAskedAboutByTheNameOfItsTableThoughMostRowsWereDeleted(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, guilds int) []string {
			statements := []string{"CREATE TABLE guilds (number INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE steps (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE logs (id INTEGER NOT NULL PRIMARY KEY, old_guild_id INTEGER, last_guild INTEGER, guild_points INTEGER)"}
			for n := 1; n <= 2*guilds; n++ {
				if statements = append(statements, fmt.Sprintf("INSERT INTO steps VALUES (%d)", n)); n <= guilds {
					statements = append(statements, fmt.Sprintf("INSERT INTO guilds VALUES (%d)", n))
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO logs VALUES (%d, %d, %d, %d)", 9000+n,
					1+pick(seed+n, guilds*3/2), 1+pick(seed+3*n, guilds*3/2), 1+pick(seed+5*n, guilds*3/2)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 200), server(9000, 120)), map[string]string{
			"logs.old_guild_id": "perhaps guilds.number", "logs.last_guild": "perhaps guilds.number", "logs.guild_points": "plain"})
	})
}

// The last players were deleted, and reports and lists still name them. They go a little beyond the keys.
func TestReferencesToDenseKeysAreAskedAboutIfTheNewestRowsWereDeleted(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players int) []string {
			statements := []string{"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE steps (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE reports (id INTEGER NOT NULL PRIMARY KEY, " +
					"victim INTEGER, attackers VARCHAR(99), price INTEGER)"}
			for n := 1; n <= 2*players; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO steps VALUES (%d)", n))
				if n < players-3 && n%8 != 5 {
					statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d)", n))
				}
			}
			for n := range 400 {
				attackers := fmt.Sprint(1 + pick(seed+3*n, players))
				for more := range n % 3 {
					attackers += fmt.Sprintf(",%d", 1+pick(seed+n+900*more, players))
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO reports VALUES (%d, %d, '%s', %d)", 9000+n,
					1+pick(seed+2*n, players), attackers, 1+pick(seed+5*n, 200)))
			}
			return append(statements, fmt.Sprintf("INSERT INTO reports VALUES (8000, %d, '%[1]d', 1)", players))
		}
		found := taken(t, target, server(1, 600), server(7, 400))
		expect(t, found, map[string]string{"reports.victim": "perhaps players.id",
			"reports.attackers": "perhaps players.id as list ,", "reports.price": "plain"})
	})
}

// Heroes who were deleted have left letters behind, beside those of houses and of beasts.
func TestRowsOfAKindAreAskedAboutIfSomeLeadToWhatWasDeleted(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, last int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE letters (id INTEGER NOT NULL PRIMARY KEY, kind INTEGER, sender INTEGER, price INTEGER)"}
			var heroes []int
			for n := 1; n <= last; n++ {
				if pick(seed+n, 5) > 0 {
					heroes = append(heroes, n)
				}
			}
			rows := func(table string, n int, row func(n int) string) {
				var all []string
				for i := range n {
					all = append(all, row(i))
				}
				statements = append(statements, "INSERT INTO "+table+" VALUES "+strings.Join(all, ", "))
			}
			rows("heroes", len(heroes), func(n int) string { return fmt.Sprintf("(%d)", heroes[n]) })
			rows("letters", 2*last, func(n int) string {
				kind, sender := 0, heroes[pick(seed+n, len(heroes))]
				switch {
				case n%5 == 3:
					kind, sender = 2, []int{2, 6, 7}[pick(n, 3)]
				case n%5 == 4:
					kind, sender = 3, 1+pick(seed+n, 39_000) // a beast
				case n%17 == 0:
					sender = 1 + pick(seed+n, last) // he may be deleted
				}
				return fmt.Sprintf("(%d, %d, %d, %d)", 100_000+7*n, kind, sender, 1+pick(seed+2*n, last))
			})
			return statements
		}
		found := taken(t, target, server(1, 2400), server(9000, 1700))
		expect(t, found, map[string]string{"letters.sender": "perhaps heroes.id when kind = 0", "letters.price": "plain"})
	})
}

// A thing belongs to a hero or to an account by where it lies. Some lie with what was deleted, but others of the
// same table show that all kinds do not belong to heroes.
func TestKindsOfWhichSomeLeadToWhatWasDeletedAreAskedAboutBesideOthers(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, accounts, heroes int) []string {
			rows := map[string][]string{}
			add := func(table, format string, values ...any) {
				rows[table] = append(rows[table], "("+fmt.Sprintf(format, values...)+")")
			}
			alive := func(seed, last int) (all []int) {
				for n := 1; n <= last; n++ {
					if pick(seed+n, 8) > 0 {
						all = append(all, n)
					}
				}
				return all
			}
			owners := [][]int{alive(seed, accounts), alive(seed+50_000, heroes)}
			for i, table := range []string{"accounts", "heroes"} {
				for _, id := range owners[i] {
					add(table, "%d", id)
				}
			}
			for n := range 9000 {
				kind := 2 + n%2 // most accounts have no chest
				if n%15 < 2 {
					kind = n % 15
				}
				all := owners[kind/2]
				owner := all[pick(seed+7*n, len(all))]
				if n%900 < 2 { // of the chest and of the bag
					kind, owner = 2*(n%900), []int{accounts, heroes}[n%900]+1+n/9
				}
				add("visits", "%d", n) // all owners are some
				add("visits", "%d", 9001+seed+n)
				add("things", "%d, '%s'", owner, []string{"chest", "mail", "bag", "body"}[kind])
				item, kind := 1<<24+3*n, n%3/2
				if n%9 == 0 {
					item++ // it was used up
				}
				if add("stock", "%d", 1<<24+3*n); kind == 1 {
					item = 1 + pick(seed+n, 900_000)
				}
				add("events", "%d, '%s'", item, []string{"got", "level"}[kind])
			}
			statements := []string{"CREATE TABLE accounts (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE stock (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE visits (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE things (owner INTEGER, place VARCHAR(9))",
				"CREATE TABLE events (what INTEGER, kind VARCHAR(9))"}
			for table, all := range rows {
				statements = append(statements, "INSERT INTO "+table+" VALUES "+strings.Join(all, ", "))
			}
			return statements
		}
		found := taken(t, target, server(1, 1700, 2600), server(9000, 1300, 2100))
		expect(t, found, map[string]string{
			"things.owner": "heroes.id when place = 'body', perhaps heroes.id when place = 'bag', " +
				"accounts.id when place = 'mail', perhaps accounts.id when place = 'chest'",
			"events.what": "perhaps stock.id when kind = 'got'",
		})
	})
}

// Whether a letter was read says nothing about who has sent it.
func TestWhatSelectsRowsAsTheOthersIsNoCondition(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players int) []string {
			var alive []int
			var rows []string
			statements := []string{"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE letters (id INTEGER NOT NULL PRIMARY KEY, sender INTEGER, was_read INTEGER)"}
			for n := 1; n <= players; n++ {
				if pick(seed+n, 9) > 0 {
					alive = append(alive, n)
					statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d)", n))
				}
			}
			for n := range players {
				sender := alive[pick(seed+2*n, len(alive))]
				if n%24 == 0 {
					sender = 1 + pick(seed+n, players) // he may be deleted
				}
				rows = append(rows, fmt.Sprintf("(%d, %d, %d)", 9000+n, sender, min(pick(seed+3*n, 4), 1)))
			}
			return append(statements, "INSERT INTO letters VALUES "+strings.Join(rows, ", "))
		}
		expect(t, taken(t, target, server(1, 300), server(9000, 500)), map[string]string{
			"letters.sender": "perhaps players.id", "letters.was_read": "plain"})
	})
}

// Only from one land were towns deleted, and so all visits of the other ones lead to some.
func TestRowsOfOneKindThatLeadToWhatWasDeletedMakeNoConditionOfTheOthers(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, towns, kept int) []string {
			statements := []string{"CREATE TABLE towns (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE visits (id INTEGER NOT NULL PRIMARY KEY, land INTEGER, place INTEGER)"}
			var alive, gone []int
			for n := 1; n <= towns; n++ {
				if pick(seed+n, kept+1) > 0 || n == towns {
					alive = append(alive, n)
					statements = append(statements, fmt.Sprintf("INSERT INTO towns VALUES (%d)", n))
				} else {
					gone = append(gone, n)
				}
			}
			var rows []string
			for n := range 3 * towns {
				place := alive[pick(seed+2*n, len(alive))]
				if n%8 == 0 {
					place = gone[pick(seed+3*n, len(gone))]
				}
				rows = append(rows, fmt.Sprintf("(%d, %d, %d)", 90_000+n, 1+n%4, place))
			}
			return append(statements, "INSERT INTO visits VALUES "+strings.Join(rows, ", "))
		}
		for _, kept := range []int{7, 3} { // for each town that was deleted
			expect(t, taken(t, target, server(1, 700, kept), server(9000, 450, kept)), map[string]string{
				"visits.place": "perhaps towns.id", "visits.land": "plain"})
		}
	})
}

// The list of points has a row for each player and for each guild. There are few guilds, and players of their numbers.
func TestEachKeyOfAShortTableInTheRowsOfAKindIsAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players, guilds int) []string {
			statements := []string{"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE guilds (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE steps (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE points (owner INTEGER, kind INTEGER, place INTEGER)"}
			for n := 1; n <= 2*players; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO steps VALUES (%d)", n))
			}
			for kind, last := range []int{players, guilds} {
				for n := 1; n <= last; n++ {
					if pick(seed*(kind+2)+n, 5) > 0 || n == last {
						statements = append(statements,
							fmt.Sprintf("INSERT INTO %s VALUES (%d)", []string{"players", "guilds"}[kind], n),
							fmt.Sprintf("INSERT INTO points VALUES (%d, %d, %d)", n, kind+1, 1+pick(n, last)))
					}
				}
			}
			return statements
		}
		expect(t, taken(t, target, server(100, 800, 50), server(5000, 500, 36)), map[string]string{
			"points.owner": "players.id when kind = 1, perhaps guilds.id when kind = 2", "points.place": "plain"})
	})
}

// A new server has a few couples only. They go as far there as so few of its animals would, and no farther.
func TestAFewValuesOnANewServerGoAsFarAsSoFewWould(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, animals, couples int) []string {
			statements := []string{"CREATE TABLE animals (" + countedKey(target) + ", couple INTEGER, price INTEGER, strength INTEGER)"}
			for n := 1; n <= animals; n++ {
				couple, price := -1, -1
				if n%(animals/couples) == 0 {
					couple, price = 1+pick(seed+n, animals), 1+pick(seed+3*n, 1200)
				}
				if pick(seed+5*n, 12) > 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO animals (id, couple, price, strength) VALUES (%d, %d, %d, %d)",
						n, couple, price, pick(n, 1200)))
				}
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 1200, 120), server(90, 175, 17)), map[string]string{
			"animals.couple": "perhaps animals.id when couple > 0", "animals.price": "plain", "animals.strength": "plain"})
	})
}

// A game gives heroes keys from 100000 on, of which half were deleted, and a log tells of those as well. No other
// number lies in just that range.
func TestValuesInARangeOfTheirOwnAreAskedAboutThoughManyRowsWereDeleted(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE chats (no INTEGER NOT NULL, who INTEGER, price INTEGER, score INTEGER)"}
			var alive []int
			for n := range 240 {
				if pick(seed+n, 2) > 0 {
					alive = append(alive, 100_000+n)
					statements = append(statements, fmt.Sprintf("INSERT INTO heroes (id, level) VALUES (%d, %d)", 100_000+n, 1+pick(seed+n, 60)))
				}
			}
			for n := range 300 {
				who := alive[pick(seed+n, len(alive))]
				if n%2 == 0 {
					who = 100_000 + pick(seed+n, 240)
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO chats VALUES (%d, %d, %d, %d)", n, who, 1+pick(seed+n, 200_000),
					100_000+pick(seed+7*n, 480)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1), server(20000)), map[string]string{"chats.who": "perhaps heroes.id", "chats.price": "plain",
			"chats.score": "plain"})
	})
}
