package census_test

import (
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Of the heroes that a log names most were deleted, and the items that come with the game are so many that most
// numbers are some. Here no name has a word apart, and one server is new.
func TestWhatIsInstalledHidesNoColumnThatIsCalledLikeAKey(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE items (itemid INTEGER NOT NULL PRIMARY KEY, price INTEGER)",
				"CREATE TABLE bags (" + countedKey(target) + ", heroid INTEGER)",
				"CREATE TABLE reports (" + countedKey(target) + ", reporterid INTEGER, placeid INTEGER, paid INTEGER, raid INTEGER, debt INTEGER)",
				"CREATE TABLE goods (" + countedKey(target) + ", bagid INTEGER)"}
			add := func(format string, values ...any) {
				statements = append(statements, fmt.Sprintf("INSERT INTO "+format, values...))
			}
			for n := 1; n <= 1200; n++ {
				if n%40 > 0 {
					add("items VALUES (%d, %d)", n, 100*n)
					add("items VALUES (%d, %d)", 18_000+n, 100*n)
				}
			}
			var alive []int
			for n := 1; n <= heroes; n++ {
				if pick(seed+n, 3) > 0 {
					alive = append(alive, n)
					add("heroes (id, level) VALUES (%d, %d)", n, 1+pick(n, 60))
				}
			}
			for n := range 300 {
				add("bags (heroid) VALUES (%d)", alive[pick(seed+n, len(alive))])
			}
			for n := range min(60, heroes/6) { // most are in no bag
				bag := -1
				if n%12 == 1 {
					bag = 1 + pick(seed+n, 300)
				}
				add("goods (bagid) VALUES (%d)", bag)
			}
			add("reports (reporterid) VALUES (%d)", heroes+1) // the newest one was deleted
			for n := range min(30, heroes/6) {
				add("reports (reporterid, placeid, paid, raid, debt) VALUES (%d, %d, %d, %d, %d)", 1+pick(seed+7*n, heroes), n%7+1, n%2,
					n%5, 1+pick(seed+9*n, heroes))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 900), server(7, 600), server(3, 12)), map[string]string{"bags.heroid": "heroes.id",
			"reports.reporterid": "perhaps items.itemid, perhaps heroes.id", "reports.placeid": "plain",
			"reports.paid": "plain", "reports.raid": "plain", "goods.bagid": "bags.id when bagid > 0"})
	})
}

// Levels are a few small numbers, and so most are keys of any table that begins at 1.
func TestAFewNumbersAreNoKeysBecauseTheyAreCalledAfterTheirTable(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE skills (" + countedKey(target) + ", skilllevel INTEGER)",
				"CREATE TABLE lessons (" + countedKey(target) + ", skillid INTEGER, skill_before INTEGER)"}
			for n := 1; n <= 600; n++ {
				if pick(seed+n, 4) > 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO skills (id, skilllevel) VALUES (%d, %d)", n, 1+n%20))
				}
				if n%100 == 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO lessons (id, skillid, skill_before) VALUES "+
						"(%d, %d, %d)", 5000+n, 1+pick(seed+n, 590), 1+pick(seed+2*n, 590)))
				}
			}
			return statements
		}
		expect(t, taken(t, target, server(1), server(9000)), map[string]string{"skills.skilllevel": "plain",
			"lessons.skillid": "perhaps skills.id", "lessons.skill_before": "perhaps skills.id"})
	})
}

// Some languages put what a number is before whose it is, and some names of tables are no plurals.
func TestAColumnMayBeCalledLikeAKeyFromItsEnd(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE game_skills (" + countedKey(target) + ", power INTEGER)",
				"CREATE TABLE houses (" + countedKey(target) + ", power INTEGER)",
				"CREATE TABLE site_news (" + countedKey(target) + ", power INTEGER)", "CREATE TABLE lessons (" + countedKey(target) +
					", id_skill INTEGER, idHouse INTEGER, news_id INTEGER, identity INTEGER, id_color INTEGER)"}
			for n := 1; n <= 600; n++ {
				if pick(seed+n, 4) > 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO game_skills (id, power) VALUES (%d, %d)", n, 1+n%20),
						fmt.Sprintf("INSERT INTO houses (id, power) VALUES (%d, %d)", n, 1+n%20),
						fmt.Sprintf("INSERT INTO site_news (id, power) VALUES (%d, %d)", n, 1+n%20))
				}
				if n%100 == 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO lessons (id, id_skill, idHouse, news_id, identity, id_color) VALUES "+
						"(%d, %d, %d, %d, %d, %d)", 5000+n, 1+pick(seed+n, 590), 1+pick(seed+2*n, 590), 1+pick(seed+3*n, 590), 1+n%5, n%300/100))
				}
			}
			return statements
		}
		house := map[bool]string{false: "lessons.idHouse", true: "lessons.idhouse"}[target.Dialect == "postgres"]
		expect(t, taken(t, target, server(1), server(9000)), map[string]string{"lessons.id_skill": "perhaps game_skills.id",
			house: "perhaps houses.id", "lessons.news_id": "perhaps site_news.id", "lessons.identity": "plain", "lessons.id_color": "plain"})
	})
}

// The sorts of tickets are three, and each server has made its own. Other bytes are settings.
func TestAFewKeysInOneByteAreFoundIfNothingElseIsCalledSo(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "postgres" {
			t.Skip("it has no numbers of one byte")
		}
		server := func(seed, sorts int) []string {
			statements := []string{"CREATE TABLE ticket_sorts (sortID INTEGER NOT NULL PRIMARY KEY, name VARCHAR(9))",
				"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE tickets (id INTEGER NOT NULL PRIMARY KEY, sortID TINYINT, state TINYINT, sort TINYINT, from_id TINYINT)"}
			for n := 1; n <= sorts; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO ticket_sorts VALUES (%d, 'n%d')", n, seed+n))
			}
			for n := range 60 {
				statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d)", n+1),
					fmt.Sprintf("INSERT INTO tickets VALUES (%d, %d, %d, %d, %d)", 1000+7*n, 1+n%3, n%3, 1+n%2, 1+n%4))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 3), server(7, 4)), map[string]string{
			"tickets.sortID": "ticket_sorts.sortID", "tickets.state": "", "tickets.sort": "plain", "tickets.from_id": ""})
	})
}

// Two young servers have nearly the same keys, so what refers to them has the same values as well. It holds no key of
// the smaller server that only the larger one has, and that can hardly be chance. What a spell is called is the same
// on both.
func TestAFewKeysThatServersHaveInCommonAreAskedAboutIfTheyEndWhereTheKeysDo(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE bids (no INTEGER NOT NULL PRIMARY KEY, bidder_id INTEGER, raid_id INTEGER, spell_id INTEGER, acct INTEGER)"}
			for n := range heroes {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes (id, level) VALUES (%d, %d)", 100+n, 1+pick(seed+n, 60)), fmt.Sprintf("INSERT INTO bids VALUES (%d, %d, %d, %d, %d)", n,
					100+pick(seed+n, heroes), 100+pick(seed+7*n, heroes), 100+pick(seed+9*n, 15), 100+pick(seed+n, heroes)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 60), server(200, 30)), map[string]string{
			"bids.bidder_id": "perhaps heroes.id", "bids.raid_id": "perhaps heroes.id", "bids.spell_id": "plain",
			"heroes.id": "plain"})
		expect(t, taken(t, target, server(1, 40), server(200, 40)), map[string]string{
			"bids.bidder_id": "perhaps heroes.id", "bids.raid_id": "perhaps heroes.id", "bids.spell_id": "plain",
			"bids.acct": "perhaps heroes.id"})
	})
}

// Servers of one age have nearly as many heroes, and each number is a key. A log that ends exactly where the keys do,
// on each server, holds keys, whatever it is called. Prizes end near the keys of one of them.
func TestValuesThatEndExactlyWhereTheKeysOfEachServerDoAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, heroes, first int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE chats (no INTEGER NOT NULL, who INTEGER, prize INTEGER)"}
			for n := range 3 * heroes {
				if n < heroes {
					statements = append(statements, fmt.Sprintf("INSERT INTO heroes (id, level) VALUES (%d, %d)", first+n, 1+pick(seed+n, 60)))
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO chats VALUES (%d, %d, %d)", 90_000+n,
					first+pick(seed+n, heroes), first+pick(seed+7*n, 343)))
			}
			return statements
		}
		for _, first := range []int{1, 100} {
			expect(t, taken(t, target, server(1, 350, first), server(20000, 344, first), server(50000, 376, first)), map[string]string{
				"chats.who": "perhaps heroes.id", "chats.prize": "plain"})
		}
	})
}

// Many games write char for characters. Of the tables whose keys end where the values do, it is the one that the
// column is called like. What means something in every world ends elsewhere.
func TestAColumnThatIsCalledByTheBeginningOfOneTableIsAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE characters (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE commands (" + countedKey(target) + ", level INTEGER)", "CREATE TABLE communities (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE bids (no INTEGER NOT NULL PRIMARY KEY, char_id INTEGER, comm_id INTEGER, raid_id INTEGER)"}
			for n := range 40 {
				for _, table := range []string{"characters", "commands", "communities"} {
					statements = append(statements, fmt.Sprintf("INSERT INTO %s (level) VALUES (%d)", table, 1+pick(seed+n, 60)))
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO bids VALUES (%d, %d, %d, %d)", 9000+n, 1+pick(seed+n, 40), 1+pick(seed+7*n, 40),
					1+pick(n, 25)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1), server(200)), map[string]string{"bids.char_id": "perhaps characters.id",
			"bids.comm_id": "perhaps commands.id", "bids.raid_id": "plain"})
	})
}

// Whoever answers a letter answers one that is there already, so each value is less than the key of its own row. What
// a letter weighs may be any number, and most are less, too.
func TestValuesThatAllLeadToRowsBeforeTheirOwnAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE letters (" + countedKey(target) + ", answers INTEGER, weight INTEGER, page INTEGER)",
				"CREATE TABLE stamps (" + countedKey(target) + ", weight INTEGER)"}
			for n := range 200 {
				before, weight := "NULL", 1+pick(seed+3*n, 150)
				if n%9 == 8 {
					before = fmt.Sprint(1 + pick(seed+n, n-1))
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO letters (answers, weight, page) VALUES (%s, %d, %d)", before, weight, n%7),
					fmt.Sprintf("INSERT INTO stamps (weight) VALUES (%d)", weight))
			}
			return statements
		}
		expect(t, taken(t, target, server(1), server(900)), map[string]string{"letters.answers": "perhaps letters.id",
			"letters.weight": "plain", "letters.page": "plain", "stamps.weight": "plain"})
	})
}

// Each item of a player has a key, and so has each item of a shop. What the former is called is no proof that it is
// the latter, as it is where the key of a sheet of a hero is called like heroes.
func TestAKeyThatIsCalledLikeItsOwnTableIsNotThatOfAnotherOne(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, items int) []string {
			statements := []string{"CREATE TABLE item_instances (item_id INTEGER NOT NULL PRIMARY KEY, price INTEGER)",
				"CREATE TABLE shop_items (id INTEGER NOT NULL PRIMARY KEY, price INTEGER)", "CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE hero_sheets (hero_id INTEGER NOT NULL PRIMARY KEY)"}
			for n := 1; n <= 300; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO shop_items VALUES (%d, %d)", n, 1+pick(seed+n, 900)))
				if n <= items {
					statements = append(statements, fmt.Sprintf("INSERT INTO item_instances VALUES (%d, %d)", n, 1+pick(seed+n, 900)),
						fmt.Sprintf("INSERT INTO heroes VALUES (%d)", 3*n), fmt.Sprintf("INSERT INTO hero_sheets VALUES (%d)", 3*n))
				}
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 90), server(20000, 120)), map[string]string{"item_instances.item_id": "perhaps shop_items.id",
			"hero_sheets.hero_id": "heroes.id"})
	})
}

// Each skill of a hero has a key, and says which of the few skills of the game it is; each friend of a hero has a key,
// and says who it is. Their numbers are keys of the own table by chance, because that is a long one.
func TestWhatIsCalledLikeItsOwnTableIsNoKeyOfItByItsName(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE skills (" + countedKey(target) + ", heroid INTEGER, skillid INTEGER)",
				"CREATE TABLE friends (" + countedKey(target) + ", heroid INTEGER, friendid INTEGER)",
				"CREATE TABLE notes (" + countedKey(target) + ", heroid INTEGER, note_id INTEGER)"}
			var alive []int
			for n := 1; n <= heroes; n++ {
				if pick(seed+n, 6) > 0 {
					alive = append(alive, n)
					statements = append(statements, fmt.Sprintf("INSERT INTO heroes (id, level) VALUES (%d, %d)", n, 1+pick(n, 60)))
				}
			}
			for n := range 3 * heroes {
				hero := alive[pick(seed+n, len(alive))]
				statements = append(statements, fmt.Sprintf("INSERT INTO skills (heroid, skillid) VALUES (%d, %d)", hero, 8+9*pick(n, 14)),
					fmt.Sprintf("INSERT INTO notes (heroid, note_id) VALUES (%d, %d)", hero, 1+pick(seed+3*n, n+1)))
				if n%2 == 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO friends (heroid, friendid) VALUES (%d, %d)", hero,
						1+pick(seed+11*n, heroes)))
				}
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 300), server(5000, 200)), map[string]string{"skills.heroid": "heroes.id",
			"skills.skillid": "plain, perhaps skills.id", "friends.friendid": "perhaps heroes.id",
			"notes.note_id": "plain, perhaps notes.id"})
	})
}

// A member may name the member who has invited it, and another table may have the same keys. The question has to be
// about the own table.
func TestWhatIsCalledLikeItsOwnTableIsAskedAboutAsItsKey(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, members int) []string {
			statements := []string{"CREATE TABLE members (" + countedKey(target) + ", member_id INTEGER)",
				"CREATE TABLE posts (" + countedKey(target) + ", level INTEGER)"}
			for n := 1; n <= members; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO members (member_id) VALUES (%d)",
					1+pick(seed+n, members)), fmt.Sprintf("INSERT INTO posts (level) VALUES (%d)", 1+pick(n, 60)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 300), server(5000, 200)), map[string]string{
			"members.member_id": "perhaps members.id"})
	})
}

// Who is banned, by whom, and from how many rooms at most, which nobody has ever changed.
func TestAColumnIsAskedAboutForTheTableThatItNamesWholly(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE users (" + countedKey(target) + ", age INTEGER)",
				"CREATE TABLE rooms (" + countedKey(target) + ", size INTEGER)",
				"CREATE TABLE user_badges (" + countedKey(target) + ", user_id INTEGER)",
				"CREATE TABLE bans (user_id INTEGER, user_staff_id INTEGER, mod_id INTEGER, max_rooms INTEGER, damage_mod INTEGER, max_staff_id INTEGER)"}
			add := func(format string, values ...any) {
				statements = append(statements, fmt.Sprintf("INSERT INTO "+format, values...))
			}
			for n := 1; n <= 90+seed; n++ {
				if n < 9 || n%7 > 0 {
					add("users (id, age) VALUES (%d, %d)", n, 20+n%9)
					add("bans VALUES (%d, %d, %d, 60, %d, 20)", n, 1+n%5, 1+n%4, 1+n%6)
				}
				add("rooms (id, size) VALUES (%d, %d)", n, 200+n%9)
				add("user_badges (id, user_id) VALUES (%d, %d)", n, 1+n%6)
			}
			return statements
		}
		expect(t, taken(t, target, server(1), server(8)), map[string]string{
			"bans.user_id": "users.id", "bans.user_staff_id": "perhaps users.id",
			"bans.mod_id": "plain, perhaps users.id", "bans.max_rooms": "plain",
			"bans.damage_mod": "plain", "bans.max_staff_id": "plain"})
	})
}

// Badges and pictures have slots, and nobody counts these.
func TestAFewNumbersAreNoKeysForCertainBecauseAKeyThatNobodyCountsIsCalledSo(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := []string{"CREATE TABLE pictures (slot_id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(9))",
			"CREATE TABLE badges (" + countedKey(target) + ", slot_id INTEGER)"}
		for n := range 40 {
			if n < 4 {
				server = append(server, fmt.Sprintf("INSERT INTO pictures VALUES (%d, 'n%d')", n+1, n))
			}
			server = append(server, fmt.Sprintf("INSERT INTO badges (id, slot_id) VALUES (%d, %d)", 500+n, n%3))
		}
		expect(t, taken(t, target, server, server), map[string]string{
			"badges.slot_id": "perhaps pictures.slot_id when slot_id <> 0"})
	})
}

// A game counts its heroes itself, and none was deleted. What has their number is theirs.
func TestManyDenseNumbersAreKeysForCertainIfOnlyOneKeyIsCalledSo(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(heroes int) []string {
			all := []string{"CREATE TABLE heroes (guid INTEGER NOT NULL PRIMARY KEY, name VARCHAR(9))",
				"CREATE TABLE bags (" + countedKey(target) + ", guid INTEGER)"}
			for n := range 4 * heroes {
				if n < heroes {
					all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%d, 'n%d')", n+1, n))
				}
				all = append(all, fmt.Sprintf("INSERT INTO bags (id, guid) VALUES (%d, %d)", 500+n, 1+n%heroes))
			}
			return all
		}
		expect(t, taken(t, target, server(14), server(20)), map[string]string{"bags.guid": "heroes.guid"})
	})
}
