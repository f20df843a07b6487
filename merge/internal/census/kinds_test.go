package census_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A truth tells whether a clan or a hero has done something, and a number what a letter is about. Of the clans there
// are few and dense ones, so hits prove little, and that the values end where the clans of each server do proves much.
func TestATruthOrANumberTellsWhoseKeysTheRowsHold(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		truth := []string{"FALSE", "TRUE"}
		server := func(seed, heroes, clans int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE clans (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE letters (no INTEGER NOT NULL, sort INTEGER, sender INTEGER)",
				"CREATE TABLE deeds (no INTEGER NOT NULL, is_clan BOOLEAN, doer INTEGER, is_new BOOLEAN)"}
			for n := range heroes {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes (id, level) VALUES (%d, %d)", 2*n+1, 1+pick(seed+n, 60)),
					fmt.Sprintf("INSERT INTO letters VALUES (%d, 0, %d)", n, 2*pick(seed+3*n, heroes)+1),
					fmt.Sprintf("INSERT INTO letters VALUES (%d, 3, %d)", n, 1+pick(seed+5*n, clans)),
					fmt.Sprintf("INSERT INTO deeds VALUES (%d, FALSE, %d, %s)", n, 2*pick(seed+7*n, heroes)+1, truth[n%2]))
				if n < clans {
					statements = append(statements, fmt.Sprintf("INSERT INTO clans (level) VALUES (%d)", 1+pick(seed+n, 9)))
				}
				if n%3 == 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO deeds VALUES (%d, TRUE, %d, %s)", n, 1+pick(seed+9*n, clans), truth[n%2]))
				}
			}
			return statements
		}
		yes, no := "TRUE", "FALSE"
		if target.Dialect == "mysql" {
			yes, no = "1", "0"
		}
		expect(t, taken(t, target, server(1, 400, 40), server(7, 300, 25)), map[string]string{
			"letters.sender": "heroes.id when sort = 0, perhaps clans.id when sort = 3",
			"deeds.doer":     "heroes.id when is_clan = " + no + ", perhaps clans.id when is_clan = " + yes})
	})
}

// Places have numbers of their own, which end like the keys of a few weddings. The keys of other tables are called so,
// too, and go on over all such numbers.
func TestOtherKeysAreNotAskedAboutBecauseOneLiesBeyondARoundNumber(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, gap int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
				"CREATE TABLE places (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE weddings (id INTEGER NOT NULL PRIMARY KEY)"}
			for n := range 20 {
				statements = append(statements, fmt.Sprintf("INSERT INTO places VALUES (%d)", 6001+n),
					fmt.Sprintf("INSERT INTO weddings VALUES (%d)", n+1+gap*(n/17)))
			}
			for n := range 400 {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", 20*n+pick(seed+n, 20), 1+pick(seed+n, 60)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 0), server(7, 3)), map[string]string{"places.id": "plain, perhaps weddings.id", "heroes.id": "plain"})
	})
}

// What belongs to a guild has its key as a negative number. Scores are negative, too, and -1 means none. The least number of a
// type is no negative of another one.
func TestKeysThatAreNegativeAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE guilds (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE houses (no INTEGER NOT NULL, owner INTEGER, heir INTEGER, score INTEGER, depth SMALLINT, debt BIGINT)"}
			for n := 1; n <= heroes; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d)", n+n/9))
				if n%4 == 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO guilds VALUES (%d)", n/4+n/30))
				}
			}
			for n := range 2 * heroes {
				hero, guild := 1+pick(seed+n, heroes), 4+4*pick(seed+5*n, heroes/4)
				statements = append(statements, fmt.Sprintf("INSERT INTO houses VALUES (%d, %d, %d, %d, -32768, -9223372036854775808)", n,
					[]int{hero + hero/9, -(guild/4 + guild/30)}[n%2], []int{-1, hero + hero/9}[n%2], pick(seed+n, 200)-100))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 400), server(7, 300)), map[string]string{
			"houses.owner": "heroes.id when owner > 0, perhaps guilds.id", "houses.heir": "heroes.id when heir > 0", "houses.score": "plain",
			"houses.depth": "plain", "houses.debt": "plain"})
	})
}

// Some games know no other numbers than those with fractions, and a column of SQLite needs no type. What they cost and
// where they stand has fractions.
func TestKeysInColumnsWithRoomForFractionsAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		untyped := map[string]string{"postgres": "NUMERIC", "mysql": "DECIMAL(12,1)"}[target.Dialect]
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE swords (no INTEGER NOT NULL, " +
				"owner DOUBLE PRECISION, maker DECIMAL(10,2), giver " + untyped + ", x DOUBLE PRECISION, price DECIMAL(10,2), skill DOUBLE PRECISION)"}
			for n := 1; n <= heroes; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d)", n+n/9))
			}
			for n := range 2 * heroes {
				hero := func(seed int) int { h := 1 + pick(seed+n, heroes); return h + h/9 }
				statements = append(statements, fmt.Sprintf("INSERT INTO swords VALUES (%d, %d, %d, %d, %d.25, %d.%d, %d)", n, hero(seed),
					hero(seed+1), hero(seed+2), hero(seed+3), hero(seed+4), 5*pick(n, 2), 1+pick(seed+n, 90)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 400), server(7, 300)), map[string]string{"swords.owner": "perhaps heroes.id",
			"swords.maker": "perhaps heroes.id", "swords.giver": "perhaps heroes.id", "swords.x": "", "swords.price": "", "swords.skill": ""})
	})
}

// Each server may have kinds of its own. What is said of all servers has one order, so that two drafts are equal.
func TestWhatIsFoundInRowsOfKindsIsSaidInOneOrder(t *testing.T) {
	t.Parallel()
	server := func(seed int, kind string) []string {
		statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
			"CREATE TABLE letters (no INTEGER NOT NULL PRIMARY KEY, kind VARCHAR(20), sender INTEGER)"}
		for n := range 100 {
			statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d, 1)", 1000+7*n),
				fmt.Sprintf("INSERT INTO letters VALUES (%d, '%s', %d)", 500_000+3*n, kind, 1000+7*pick(seed+n, 100)),
				fmt.Sprintf("INSERT INTO letters VALUES (%d, 'npc', %d)", 600_000+3*n, 1+pick(seed+n, 50_000)))
		}
		return statements
	}
	target := dbtest.Named("sqlite")
	servers := []*sqldb.DB{opened(t, target, "s1", server(1, "song")), opened(t, target, "s2", server(2, "note"))}
	for range 12 {
		found, err := census.Take(t.Context(), servers, minGenerated, func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.String() == "letters.sender" && (f.When != "kind IN ('note', 'song')" || !strings.HasPrefix(f.Evidence, "s2: ")) {
				t.Errorf("when %s: %s", f.When, f.Evidence)
			}
		}
	}
}

// The names of a table are tried together, as conditions of a plan have them. One that begins a comment of SQL must
// not hide the names that follow it.
func TestANameWithACommentHidesNoWordOfSQL(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		q := func(name string) string {
			mark := map[bool]string{true: `"`, false: "`"}[target.Dialect == "postgres"]
			return mark + name + mark
		}
		server := func(seed int) []string {
			statements := []string{
				"CREATE TABLE pets (" + countedKey(target) + ", title VARCHAR(20))",
				"CREATE TABLE guilds (" + countedKey(target) + ", title VARCHAR(20))",
				"CREATE TABLE items (" + countedKey(target) + ", a INTEGER, " + q("a -- b") + " INTEGER, " + q("order") +
					" INTEGER, owner INTEGER)",
			}
			for n := range 300 {
				statements = append(statements, fmt.Sprintf("INSERT INTO pets VALUES (%d, 'p')", 1+n),
					fmt.Sprintf("INSERT INTO guilds VALUES (%d, 'g')", 1000+7*n+seed))
				kind, owner := 1+n%2, 1+pick(n+seed, 300)
				if kind == 2 {
					owner = 1000 + 7*pick(n+seed, 300) + seed
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO items VALUES (%d, 5, %d, %d, %d)", 5000+n, n%3, kind, owner))
			}
			return statements
		}
		got := taken(t, target, server(1), server(2))["items.owner"]
		if want := "guilds.id when " + q("order") + " = 2"; !strings.Contains(got, want) {
			t.Errorf("owner: %q, want %q in it", got, want)
		}
	})
}

// The things of a hero lie in many places, and those of a guild in one.
func TestOneOfManyPlacesTellsWhoseTheThingsAre(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE guilds (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE things (" + countedKey(target) + ", owner INTEGER, place INTEGER, weight INTEGER)"}
			for n := 1; n <= heroes; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes (id, level) VALUES (%d, 1)", 7*n+pick(seed+n, 6)))
				if n%6 == 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO guilds (id, level) VALUES (%d, 1)", 7*n+6))
				}
			}
			for n := range 4 * heroes {
				hero, place := 1+pick(seed+3*n, heroes), pick(seed+n, 13)
				owner := 7*hero + pick(seed+hero, 6)
				if place == 3 {
					owner = 7*(hero-hero%6) + 6
					if hero < 6 {
						owner = 48
					}
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO things (owner, place, weight) VALUES (%d, %d, %d)", owner,
					place, 1+pick(seed+5*n, 500)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 400), server(9000, 300)), map[string]string{"things.weight": "plain",
			"things.owner": "heroes.id when place IN (0, 1, 10, 11, 12, 2, 4, 5, 6, 7, 8, 9), guilds.id when place = 3"})
	})
}

// Three tables have the same keys, and each seems to belong to the next one: two are called like the key of another
// one, and of two others the shorter name counts. What refers to them refers to one that belongs to none.
func TestKeysThatSeemToBelongToEachOtherInACircleAreThoseOfOneTable(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		statements := []string{"CREATE TABLE heroes (hero_id BIGINT NOT NULL PRIMARY KEY)",
			"CREATE TABLE guild (character_id BIGINT NOT NULL PRIMARY KEY)",
			"CREATE TABLE profile (char_guid BIGINT NOT NULL PRIMARY KEY)",
			"CREATE TABLE characters (char_guid BIGINT NOT NULL PRIMARY KEY)",
			"CREATE TABLE items (no INTEGER NOT NULL, hero_id BIGINT, kind VARCHAR(20), about BIGINT)"}
		for n, key := 0, 0; n < 60; n++ {
			key += 1 + pick(n, 80)
			for _, table := range []string{"heroes", "guild", "profile", "characters"} {
				statements = append(statements, fmt.Sprintf("INSERT INTO %s VALUES (%d)", table, key))
			}
			statements = append(statements, fmt.Sprintf("INSERT INTO items VALUES (%d, %d, 'Hero', %d)", 2*n, key, key),
				fmt.Sprintf("INSERT INTO items VALUES (%d, %d, 'Thing', %d)", 2*n+1, key, 100_000+77*n))
		}
		expect(t, taken(t, target, statements), map[string]string{"characters.char_guid": "heroes.hero_id", "profile.char_guid": "heroes.hero_id",
			"guild.character_id": "heroes.hero_id", "heroes.hero_id": "plain", "items.hero_id": "heroes.hero_id",
			"items.about": "heroes.hero_id when kind = 'Hero'"})
	})
}

// One server has the keys in a column of numbers, which is empty there, and the other one as texts.
func TestTextsOfAColumnThatHasNumbersOnAnotherServerAreRead(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(declared string, letters int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE letters (no INTEGER NOT NULL PRIMARY KEY, hero_id " + declared + ")",
				"CREATE TABLE swords (no INTEGER NOT NULL PRIMARY KEY, hero_id INTEGER)"}
			for n := range 60 {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes (id, level) VALUES (%d, 1)", 500+7*n+letters),
					fmt.Sprintf("INSERT INTO swords VALUES (%d, %d)", n, 500+7*n+letters))
				if n < letters {
					statements = append(statements, fmt.Sprintf("INSERT INTO letters VALUES (%d, '%d')", n, 500+7*n+letters))
				}
			}
			return statements
		}
		expect(t, taken(t, target, server("INTEGER", 0), server("VARCHAR(9)", 4)), map[string]string{
			"letters.hero_id": "none, perhaps heroes.id"})
	})
}

// Scripts of a game keep what they want to remember of a hero as numbers under numbers of their own. Under one of them
// is whom he has married, and most of the others hold small numbers, as anywhere.
func TestOneOfManyNumbersThatScriptsRememberIsTheKeyOfAHero(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", points INTEGER)",
				"CREATE TABLE remembered (hero INTEGER NOT NULL, topic INTEGER NOT NULL, content INTEGER NOT NULL, PRIMARY KEY (hero, topic))"}
			var keys []int
			for n, key := 0, 0; n < heroes; n++ {
				key += 1 + pick(seed+n, 4)/3
				keys = append(keys, key)
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes (id, points) VALUES (%d, %d)", key, pick(seed+7*n, 9000)))
			}
			for n, key := range keys {
				for k := range 4 {
					statements = append(statements, fmt.Sprintf("INSERT INTO remembered VALUES (%d, %d, %d)", key, 5000+(n*4+k)*7%180,
						[]int{-1, 0, 1, pick(seed+n+k, 500_000)}[pick(seed+3*n+k, 4)]))
				}
				if n%3 == 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO remembered VALUES (%d, 6001, %d)", key, keys[pick(seed+5*n, heroes)]))
				}
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 600), server(9, 450)), map[string]string{
			"remembered.hero": "heroes.id", "remembered.content": "heroes.id when topic = 6001 AND content > 0"})
	})
}

// What is made of others needs 10 of some of these, which is no kind of thing. Their keys lie in a range of their own.
func TestANumberBesideAKeyOfTwoColumnsTellsNothingOfTheColumnsOfThatKey(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, gems int) []string {
			statements := []string{"CREATE TABLE gems (id INTEGER NOT NULL PRIMARY KEY, price INTEGER)",
				"CREATE TABLE recipes (product INTEGER NOT NULL, needs INTEGER NOT NULL, amount INTEGER NOT NULL, PRIMARY KEY (product, needs))"}
			for n := range gems {
				statements = append(statements, fmt.Sprintf("INSERT INTO gems VALUES (%d, %d)", 4_250_000+100*(n/3)+n%3, 10*pick(seed+n, 90)))
			}
			for n := range 400 {
				statements = append(statements,
					fmt.Sprintf("INSERT INTO recipes VALUES (%d, %d, 10)", 900_000+n, 4_250_000+100*(n%gems/3)+n%gems%3),
					fmt.Sprintf("INSERT INTO recipes VALUES (%d, %d, %d)", 900_000+n, 4_003_000+n%16, []int{10, 2 + n%12}[pick(seed+n, 20)/19]),
					fmt.Sprintf("INSERT INTO recipes VALUES (%d, %d, %d)", 900_000+n, 4_009_000+n%90, 20+n/7%30))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 28), server(9, 27)), map[string]string{"recipes.needs": "perhaps gems.id when needs >= 4250000"})
	})
}

// Of many topics some are about as many numbers as there are things of some sort, which says nothing of them.
func TestNoTopicOfManyIsAskedAboutByChance(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, heroes, things int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", points INTEGER)",
				"CREATE TABLE things (" + countedKey(target) + ", points INTEGER)",
				"CREATE TABLE remembered (hero INTEGER NOT NULL, topic INTEGER NOT NULL, content INTEGER NOT NULL, PRIMARY KEY (hero, topic))"}
			for n := range things {
				statements = append(statements, fmt.Sprintf("INSERT INTO things (points) VALUES (%d)", pick(seed+n, 9000)))
			}
			for n := range heroes {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes (id, points) VALUES (%d, %d)", 2*n+1, pick(seed+n, 9000)))
				var rows []string
				for k := range 9 {
					topic := k*9 + n%9
					rows = append(rows, fmt.Sprintf("(%d, %d, %d)", 2*n+1, 5000+topic,
						[]int{pick(seed+n+k, []int{500_000, 500}[k%2]), pick(seed+n+k, things) + 1}[topic/80]))
				}
				statements = append(statements, "INSERT INTO remembered VALUES "+strings.Join(rows, ", "))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 500, 30), server(9, 400, 40)), map[string]string{"remembered.content": "plain"})
	})
}

// Two rare kinds of a log have numbers that are no keys, and all others have keys only. Most kinds would have no such
// number by chance as well, but the two would have keys.
func TestRareKindsWithoutAnyKeyLeaveTheOthersACondition(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		const kinds, each = 40, 22
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE items (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE logs (kind INTEGER, what INTEGER)"}
			var items []int
			for n := range 600 {
				items = append(items, 1000+140*n+pick(seed+n, 140))
				statements = append(statements, fmt.Sprintf("INSERT INTO items VALUES (%d)", items[n]))
			}
			var rows []string
			for n := range kinds * each {
				rows = append(rows, fmt.Sprintf("(%d, %d)", n%kinds, items[pick(seed+3*n, len(items))]))
			}
			for n := range 4 {
				rows = append(rows, fmt.Sprintf("(41, %d), (42, %d)", items[100*n]+1, items[100*n+60]+1))
			}
			return append(statements, "INSERT INTO logs VALUES "+strings.Join(rows, ", "))
		}
		found := taken(t, target, server(1), server(9000))
		if is := found["logs.what"]; !strings.HasPrefix(is, "items.id when kind ") {
			t.Errorf("logs.what is %s, and not a reference to items.id under a condition", is)
		}
	})
}

// Logs go on to name accounts that were deleted. Hours without such a line are none that tell what a line refers to.
func TestKindsOfRowsOfWhichNoneLeadsToWhatWasDeletedAreNoCondition(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, first int) []string {
			statements := []string{"CREATE TABLE accounts (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE logs (account INTEGER, hour INTEGER)"}
			var accounts []int
			for n := range 60 {
				if pick(seed+n, 5) > 1 {
					accounts = append(accounts, first+n)
					statements = append(statements, fmt.Sprintf("INSERT INTO accounts VALUES (%d)", first+n))
				}
			}
			for n := range 90 {
				account := accounts[pick(seed+3*n, len(accounts))]
				if n%18 == 0 {
					account = first + pick(seed+n, 60)
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO logs VALUES (%d, %d)", account, pick(seed+7*n, 24)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 100001), server(9000, 1003)), map[string]string{
			"logs.account": "perhaps accounts.id"})
	})
}
