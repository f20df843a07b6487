package census_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// minGenerated is the least number that a generator may have made.
const minGenerated = 1 << 32

// pick returns a number below n that looks random, and is the same in every run.
func pick(seed, n int) int {
	x := uint64(seed)*0x9e3779b97f4a7c15 + 0x1234567
	x ^= x >> 31
	x *= 0xbf58476d1ce4e5b9
	return int((x ^ x>>29) % uint64(n))
}

// realm returns what fills a server of a game that counts its keys from 1 and has deleted a tenth of them.
// Levels, weights, prices, days and kinds are no keys, though many of their values are.
func realm(server int) []string {
	statements := []string{
		"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER, gold INTEGER, made INTEGER, party INTEGER)",
		"CREATE TABLE hero_sheets (id INTEGER NOT NULL PRIMARY KEY, strength INTEGER)",
		"CREATE TABLE swords (id INTEGER NOT NULL PRIMARY KEY, holder INTEGER, maker INTEGER, sort INTEGER, twin_sword INTEGER)",
		"CREATE TABLE letters (id INTEGER NOT NULL PRIMARY KEY, kind VARCHAR(255), channel INTEGER, sender INTEGER, reader INTEGER)",
		"CREATE TABLE seats (hall INTEGER NOT NULL, place INTEGER NOT NULL, ticket INTEGER NOT NULL UNIQUE, PRIMARY KEY (hall, place))",
		"CREATE TABLE visits (id INTEGER NOT NULL PRIMARY KEY, ticket INTEGER, swords_left INTEGER, wide BIGINT, lost_hero INTEGER, guide INTEGER)",
		"CREATE TABLE empties (id INTEGER NOT NULL PRIMARY KEY, hero_id INTEGER)",
	}
	rows := map[string][]string{}
	add := func(table string, values ...any) {
		rows[table] = append(rows[table], "("+strings.TrimSuffix(strings.Repeat("%v, ", len(values)), ", ")+")")
		last := len(rows[table]) - 1
		rows[table][last] = fmt.Sprintf(rows[table][last], values...)
	}
	keys := func(seed, n int) (all []int) {
		for i := 1; i <= n; i++ {
			if pick(seed*100_000+i, 10) > 0 {
				all = append(all, i)
			}
		}
		return all
	}
	seed := 7 * server
	heroes, swords, letters, tickets := keys(seed, 400+40*server), keys(seed+1, 900), keys(seed+2, 700), keys(seed+3, 300)
	of := func(all []int, n int) int { return all[pick(seed*1_000_003+n, len(all))] }
	for i, h := range heroes {
		add("heroes", h, 1+pick(i, 60), pick(i+seed, 90_000), 1_700_000_000+pick(i, 90_000), pick(i, 3))
		add("hero_sheets", h, 10+pick(i+1, 40))
	}
	for i, s := range swords {
		maker := of(heroes, i+5)
		if i%3 == 0 {
			maker = 0
		}
		twin := "NULL"
		if i%2 == 0 {
			twin = fmt.Sprint(of(swords, i+9))
		}
		add("swords", s, of(heroes, i+1), maker, 20+pick(i, 3000), twin)
	}
	for i, l := range letters {
		kind, sender := "'hero'", of(heroes, i+3)
		if i%3 == 0 {
			kind, sender = "'npc'", 1+pick(i, 5000)
		}
		add("letters", l, kind, i%4, sender, of(heroes, i+4))
	}
	for i, ticket := range tickets {
		add("seats", i/20+1, i%20+1, ticket)
		wide, lost := of(heroes, i+6), of(heroes, i+7)
		if i%2 == 0 {
			wide = 1<<40 + pick(i, 9_000_000)
		}
		if i%11 == 0 {
			lost = 2000 + i // this hero was deleted
		}
		guide := of(heroes, i+2)
		if i%4 == 0 {
			guide = -1 - i%8/4 // the town, and nobody
		}
		add("visits", i+1, of(tickets, i+8), pick(i, 5), wide, lost, guide)
	}
	for table, all := range rows {
		statements = append(statements, "INSERT INTO "+table+" VALUES "+strings.Join(all, ", "))
	}
	return statements
}

func opened(t *testing.T, target dbtest.Target, name string, statements []string) *sqldb.DB {
	t.Helper()
	text := target.DSN(t)
	db := target.OpenDSN(t, text, nil)
	for _, s := range statements {
		if err := db.Exec(s).Error; err != nil {
			t.Fatalf("%.80s: %v", s, err)
		}
	}
	driver := map[string]string{"sqlite": "sqlite3", "postgres": "pgx", "mysql": "mysql"}[target.Dialect]
	d, err := sqldb.Open(t.Context(), func(_ context.Context, dsn string) (*sql.DB, error) {
		return sql.Open(driver, dsn)
	}, name, text, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// expect compares findings with those that are wanted, by column.
func expect(t *testing.T, found, want map[string]string) {
	t.Helper()
	for column, text := range want {
		if found[column] != text {
			t.Errorf("%s: %q, want %q", column, found[column], text)
		}
	}
}

// countedKey is a column of keys that the database counts.
func countedKey(target dbtest.Target) string {
	return map[string]string{"sqlite": "id INTEGER PRIMARY KEY AUTOINCREMENT", "postgres": "id SERIAL PRIMARY KEY",
		"mysql": "id INTEGER PRIMARY KEY AUTO_INCREMENT"}[target.Dialect]
}

// taken returns the findings of two servers: for each column the verdict, and for references where they lead.
func taken(t *testing.T, target dbtest.Target, servers ...[]string) map[string]string {
	t.Helper()
	var all []*sqldb.DB
	for i, statements := range servers {
		all = append(all, opened(t, target, fmt.Sprintf("s%d", i+1), statements))
	}
	findings, err := census.Take(t.Context(), all, minGenerated, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range findings {
		words := map[census.Verdict]string{census.None: "none", census.Plain: "plain",
			census.Possible: "perhaps " + f.Parent.String(), census.Reference: f.Parent.String()}
		text := words[f.Verdict]
		if strings.HasPrefix(f.As, "list ") || strings.HasPrefix(f.As, "bits 32-") {
			text += " as " + f.As
		}
		if f.When != "" {
			text += " when " + f.When
		}
		if before := found[f.String()]; before != "" {
			text = before + ", " + text
		}
		found[f.String()] = text
		t.Log(f.Column, text, f.Evidence)
	}
	return found
}

func TestReferencesAreFoundInTheDataAndOrdinaryNumbersAreNot(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		found := taken(t, target, realm(1), realm(2))
		expect(t, found, map[string]string{
			"hero_sheets.id": "heroes.id", "swords.holder": "heroes.id", "swords.maker": "heroes.id when maker <> 0",
			"swords.twin_sword": "swords.id", "letters.reader": "heroes.id",
			"letters.sender": "heroes.id when kind = 'hero'", "visits.ticket": "seats.ticket",
			"visits.wide": "heroes.id when wide < 4294967296", "visits.lost_hero": "perhaps heroes.id",
			"visits.guide":    "heroes.id when guide > 0",
			"empties.hero_id": "none",
			"heroes.id":       "plain", "swords.id": "plain", "letters.id": "plain", "seats.ticket": "plain", "visits.id": "plain",
			"heroes.level": "plain", "heroes.gold": "plain", "heroes.made": "plain", "heroes.party": "plain",
			"hero_sheets.strength": "plain", "swords.sort": "plain", "letters.channel": "plain",
			"seats.hall": "plain", "seats.place": "plain", "visits.swords_left": "plain",
		})
	})
}

// Frameworks write the names of their classes beside the keys, and young servers have few and dense keys, which
// prove nothing by themselves.
func TestAKindThatNamesATableSelectsItsKeys(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{
				"CREATE TABLE issues (id INTEGER NOT NULL PRIMARY KEY, title VARCHAR(20))",
				"CREATE TABLE wiki_pages (id INTEGER NOT NULL PRIMARY KEY, title VARCHAR(20))",
				"CREATE TABLE projects (id INTEGER NOT NULL PRIMARY KEY, title VARCHAR(20))",
				"CREATE TABLE attachments (id INTEGER NOT NULL PRIMARY KEY, container_type VARCHAR(255), container_id INTEGER, " +
					"owner_id INTEGER, owner_kind VARCHAR(20))",
			}
			tables := []string{"issues", "wiki_pages", "projects"}
			for n, size := range []int{90 + seed, 12 + seed, 4} {
				for id := 1; id <= size; id++ {
					statements = append(statements, fmt.Sprintf("INSERT INTO %s VALUES (%d, 't%d')", tables[n], id, id))
				}
			}
			for n := range 200 {
				kind := []string{"Issue", "WikiPage", "Project", "Message"}[n%4]
				statements = append(statements, fmt.Sprintf("INSERT INTO attachments VALUES (%d, '%s', %d, %d, '%s')",
					400+7*n+seed, kind, 1+pick(n+seed, []int{90, 12, 4, 5000}[n%4]), 1+pick(n, []int{90, 4}[n%2]),
					[]string{"issue", "app.Project"}[n%2]))
			}
			return statements
		}
		found := taken(t, target, server(1), server(2))
		want := "issues.id when container_type = 'Issue', projects.id when container_type = 'Project', " +
			"wiki_pages.id when container_type = 'WikiPage'"
		if got := found["attachments.container_id"]; got != want {
			t.Errorf("container_id: %q, want %q", got, want)
		}
		want = "projects.id when owner_kind = 'app.Project', perhaps issues.id when owner_kind = 'issue'"
		if got := found["attachments.owner_id"]; got != want {
			t.Errorf("owner_id: %q, want %q", got, want)
		}
	})
}

func TestATableThatIsCountedIsNoPartOfALongerOne(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		counted := countedKey(target)
		server := []string{"CREATE TABLE guilds (" + counted + ", name VARCHAR(20))",
			"CREATE TABLE guild_ranks (" + counted + ", guild_id INTEGER NOT NULL)",
			"CREATE TABLE guild_wars (" + counted + ", guild2 INTEGER NOT NULL)",
			"CREATE TABLE duels (" + counted + ", day INTEGER)", "CREATE TABLE visit_days (" + counted + ", day INTEGER)", "CREATE TABLE visits (" + counted + ", day INTEGER)"}
		for odd := 1; odd < 400; odd += 2 { // as a cluster of two servers counts
			server = append(server, fmt.Sprintf("INSERT INTO visits VALUES (%d, 0)", odd))
			if odd < 100 {
				server = append(server, fmt.Sprintf("INSERT INTO duels VALUES (%d, 0)", odd),
					fmt.Sprintf("INSERT INTO visit_days VALUES (%d, 0)", odd))
			}
		}
		for guild := 1; guild <= 25; guild++ {
			server = append(server, fmt.Sprintf("INSERT INTO guilds (name) VALUES ('g%d')", guild),
				fmt.Sprintf("INSERT INTO guild_ranks (guild_id) VALUES (%[1]d), (%[1]d), (%[1]d)", guild),
				fmt.Sprintf("INSERT INTO guild_wars (guild2) VALUES (%d)", 26-guild))
		}
		found := taken(t, target, server, server)
		expect(t, found, map[string]string{"guilds.id": "plain", "guild_wars.id": "plain", "duels.id": "plain",
			"visit_days.id":        "plain",
			"guild_ranks.guild_id": "perhaps guilds.id", "guild_wars.guild2": "perhaps guilds.id"})
	})
}

// Rows are deleted here and there, and both tables end at about the same number, on each server at another one.
func TestCountedKeysThatEndWhereOthersDoAreNoReferences(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, rows int) []string {
			var statements []string
			for i, table := range []string{"mod_arrests", "mod_proofs", "mails"} {
				statements = append(statements, "CREATE TABLE "+table+" ("+countedKey(target)+", rate INTEGER)")
				for n := 1; n <= rows; n++ {
					if pick(seed+100*i+n, 10) > 0 || n == rows {
						statements = append(statements, fmt.Sprintf("INSERT INTO %s VALUES (%d, 0)", table, n))
					}
				}
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 300), server(7, 200)), map[string]string{
			"mod_arrests.id": "plain", "mod_proofs.id": "plain", "mails.id": "plain"})
	})
}

// Of a young server no row is deleted, so nearly every small number is a key.
func TestReferencesToDenseKeysAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players int) []string {
			statements := []string{"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY, level INTEGER, health INTEGER)",
				"CREATE TABLE mail (id INTEGER NOT NULL PRIMARY KEY, whose INTEGER, lost INTEGER, item INTEGER, day INTEGER, " +
					"price INTEGER)"}
			for n := 1; n <= players; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d, %d, %d)", n, 1+pick(seed+n, 60),
					1+pick(seed+3*n, 1000)))
			}
			for n := range 600 {
				lost := 1 + pick(seed+5*n, players)
				if n%20 == 0 {
					lost = players + 1 + pick(seed+n, 500)
				}
				price := 1 + pick(seed+7*n, 30+n*n/20)
				statements = append(statements, fmt.Sprintf("INSERT INTO mail VALUES (%d, %d, %d, %d, %d, %d)", n+1,
					1+pick(seed+2*n, players), lost, 1+pick(n, 40), 1+pick(n, 365), price))
			}
			return statements
		}
		found := taken(t, target, server(1, 300), server(7, 200))
		expect(t, found, map[string]string{"mail.whose": "perhaps players.id", "mail.lost": "perhaps players.id",
			"mail.item": "plain", "mail.day": "plain", "mail.price": "plain", "players.level": "plain",
			"players.health": "plain"})
	})
}

// Two young servers may have as many codes, and then nothing but the name speaks for a reference.
func TestAColumnMayBeCalledByTheEndOfTheNameOfATable(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE nxcode (id INTEGER NOT NULL PRIMARY KEY, rate INTEGER)", "CREATE TABLE " +
				"nxcode_items (id INTEGER NOT NULL PRIMARY KEY, codeid INTEGER, kind INTEGER, deid INTEGER)"}
			for n := 1; n <= 40; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO nxcode VALUES (%d, %d)", n, pick(seed+n, 9)),
					fmt.Sprintf("INSERT INTO nxcode_items VALUES (%d, %d, %d, %d)", 100+n, 41-n, 1+n%30, 1+n%30))
			}
			return statements
		}
		expect(t, taken(t, target, server(1), server(900)), map[string]string{
			"nxcode_items.codeid": "perhaps nxcode.id",
			"nxcode_items.kind":   "plain", "nxcode_items.deid": "plain"})
	})
}

// The tables of a mod begin with its name, beside others that do not, and their columns leave it out. Each table is
// longer than the numbers in the columns, so these are keys of all of them.
func TestAColumnMayBeCalledByTheLastWordsOfATable(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, court_case_id INTEGER, " +
				"linked_mdt_case_id INTEGER, fromreportid INTEGER, phase_id INTEGER, linked INTEGER)",
				"CREATE TABLE mdt_logs (id INTEGER NOT NULL PRIMARY KEY, phase INTEGER, note INTEGER)"}
			for i, table := range []string{"mdt_cases", "mdt_court_cases", "mdt_case_notes", "mdt_reports", "mdt_phases", "mails"} {
				statements = append(statements, "CREATE TABLE "+table+" ("+countedKey(target)+", rate INTEGER)")
				for n := 1; n <= 300+i; n++ {
					statements = append(statements, fmt.Sprintf("INSERT INTO %s VALUES (%d, %d)", table, n, pick(seed+n, 9)))
				}
			}
			for n := 1; n <= 40; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO orders VALUES (%d, %[2]d, %[2]d, %[2]d, %[2]d, %[2]d)",
					5000+n, 1+pick(seed+n, 40)), fmt.Sprintf("INSERT INTO mdt_logs VALUES (%d, %[2]d, %[2]d)", 6000+n, 1+pick(seed+2*n, 40)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1), server(900)), map[string]string{
			"orders.court_case_id": "perhaps mdt_court_cases.id", "orders.linked_mdt_case_id": "perhaps mdt_cases.id",
			"orders.fromreportid": "perhaps mdt_reports.id", "orders.phase_id": "perhaps mdt_phases.id",
			"orders.linked": "plain", "mdt_logs.phase": "perhaps mdt_phases.id", "mdt_logs.note": "plain"})
	})
}

// Few players are moderators, so the values say nothing. The name has a word of the table, and ends like its key.
func TestAColumnWithAWordOfATableAndTheEndOfItsKeyIsAskedAboutHoweverFewItsValues(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players int) []string {
			statements := []string{"CREATE TABLE players (" + countedKey(target) + ", level INTEGER)",
				"CREATE TABLE bans (" + countedKey(target) + ", player_staff_id INTEGER, player_level INTEGER)"}
			for n := 1; n <= players; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d, %d)", n, pick(seed+n, 60)))
			}
			for n := range 40 {
				statements = append(statements, fmt.Sprintf("INSERT INTO bans VALUES (%d, %d, %d)", n+1, 1+n%4, 1+n%3))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 300), server(7, 200)), map[string]string{
			"bans.player_staff_id": "perhaps players.id", "bans.player_level": "plain"})
	})
}

// Each player has a row of settings, which is counted as well, so both tables have the same keys. The shorter name
// is that of the table that the others belong to.
func TestOfEqualKeysThoseOfTheTableWithTheShorterNameAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		counted := countedKey(target)
		server := func(seed, players int) []string {
			statements := []string{"CREATE TABLE players (" + counted + ", level INTEGER)",
				"CREATE TABLE players_settings (" + counted + ", player_id INTEGER)",
				"CREATE TABLE mail (id INTEGER NOT NULL PRIMARY KEY, player_id INTEGER)",
				"CREATE TABLE rooms (id INTEGER NOT NULL PRIMARY KEY, whose INTEGER)"}
			for n := 1; n <= players; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d, %d)", n, pick(n, 60)),
					fmt.Sprintf("INSERT INTO players_settings VALUES (%d, %d)", n, 1+pick(n+4, players)),
					fmt.Sprintf("INSERT INTO mail VALUES (%d, %d)", 9000+n, 1+pick(seed+2*n, players)),
					fmt.Sprintf("INSERT INTO rooms VALUES (%d, %d)", 5000+n, 1+pick(seed+n, players)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 300), server(7, 200)), map[string]string{
			"rooms.whose": "perhaps players.id", "mail.player_id": "perhaps players.id"})
	})
}

// New keys keep away from texts of which most are keys, also if one text of the column is a list.
func TestTextsOfWhichMostAreKeysAreKnownBesideAList(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(players int) []string {
			statements := []string{"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE logs (id INTEGER NOT NULL PRIMARY KEY, who VARCHAR(99))", "INSERT INTO logs VALUES (1, '7001,7003')"}
			for n := 1; n <= players; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d)", 2*n),
					fmt.Sprintf("INSERT INTO logs VALUES (%d, '%d')", 9000+n, 2*n+n%3/2))
			}
			return statements
		}
		all := []*sqldb.DB{opened(t, target, "s1", server(200)), opened(t, target, "s2", server(150))}
		findings, err := census.Take(t.Context(), all, minGenerated, func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		who, players := census.Column{Table: "logs", Name: "who"}, census.Column{Table: "players", Name: "id"}
		if !slices.ContainsFunc(findings, func(f census.Finding) bool {
			return f.Column == who && (f.Hits[players] != "" || f.Parent == players)
		}) {
			t.Errorf("nothing is known of the texts: %+v", findings)
		}
	})
}

// A text lists the heroes of a team, and that of one hero is a number. What is installed with the game has nearly
// every small number as a key. The few documents of a column stand among texts of every kind, and long ones are cut off.
func TestWhatIsInstalledHidesNoListAndFreeTextHidesNoDocument(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, many int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
				"CREATE TABLE models (id INTEGER NOT NULL PRIMARY KEY, width INTEGER)",
				"CREATE TABLE teams (id INTEGER NOT NULL PRIMARY KEY, hero_ids VARCHAR(99))",
				"CREATE TABLE things (id INTEGER NOT NULL PRIMARY KEY, extra VARCHAR(99))",
				"CREATE TABLE chests (id INTEGER NOT NULL PRIMARY KEY, extra TEXT)"}
			for n := 1; n <= many; n++ {
				statements = append(statements, fmt.Sprintf(`INSERT INTO chests VALUES (%d, '{"of": [%d], "note": %q}')`, 9000+n,
					1+pick(seed+5*n, many), strings.Repeat("gold and silver ", 300)),
					fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", n, 1+pick(seed+n, 60)))
				ids := fmt.Sprint(1 + pick(seed+n, many))
				for more := range n % 4 {
					ids += fmt.Sprintf(",%d", 1+pick(seed+n+7*more, many))
				}
				extra := fmt.Sprintf(`{"w": "photo", "s": %d}`, 1+pick(seed+3*n, many))
				if n%5 > 0 {
					extra = fmt.Sprintf("%c %d, by %c", 'a'+rune(n%26), n%30, 'a'+rune(n%7))
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO teams VALUES (%d, '%s')", 9000+n, ids),
					fmt.Sprintf("INSERT INTO things VALUES (%d, '%s')", 9000+n, extra))
			}
			for n := 1; n <= 900; n++ {
				if n <= 450 || n%5 == 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO models VALUES (%d, %d)", n, n%3))
				}
			}
			return statements
		}
		found := taken(t, target, server(1, 400), server(5000, 300))
		expect(t, found, map[string]string{"teams.hero_ids": "perhaps heroes.id as list ,",
			"things.extra": "perhaps heroes.id", "chests.extra": "perhaps heroes.id"})
	})
}

// The stashes of a game belong to whatever their text names: the trunk of a car by its plate, or a house by its key.
// The words of a letter are no such text.
func TestAKeyAfterAWordIsAskedAboutBesideTextsOfEveryKind(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, many int) []string {
			statements := []string{"CREATE TABLE houses (id INTEGER NOT NULL PRIMARY KEY, price INTEGER)",
				"CREATE TABLE stashes (id INTEGER NOT NULL PRIMARY KEY, place VARCHAR(60))",
				"CREATE TABLE letters (id INTEGER NOT NULL PRIMARY KEY, words VARCHAR(60))"}
			for n := 1; n <= many; n++ {
				plate := fmt.Sprintf("trunk-%c%c%d%c", 'A'+rune(pick(seed+n, 26)), 'A'+rune(pick(n, 26)), pick(7*n, 900), 'A'+rune(n%26))
				house := 1 + pick(seed+n, many)
				words := fmt.Sprintf("%c asks for %d, house %d", 'a'+rune(n%26), n, house)
				statements = append(statements, fmt.Sprintf("INSERT INTO houses VALUES (%d, %d)", n, 1000*n),
					fmt.Sprintf("INSERT INTO stashes VALUES (%d, '%s'), (%d, 'house_%d')", 3*n, plate, 3*n+1, house),
					fmt.Sprintf("INSERT INTO letters VALUES (%d, '%s')", n, words))
			}
			return statements
		}
		found := taken(t, target, server(1, 300), server(5000, 200))
		expect(t, found, map[string]string{"stashes.place": "perhaps houses.id", "letters.words": ""})
	})
}

// A log has a row for nearly every number, so it has the keys of all heroes, too, also of those that are deleted.
func TestALongTableHidesNoReference(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
				"CREATE TABLE steps (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE boxes (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE fights (id INTEGER NOT NULL PRIMARY KEY, victim INTEGER, sort INTEGER, holder INTEGER, day INTEGER)"}
			var heroes, boxes []int
			for n := 1; n <= 1500; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO steps VALUES (%d)", n))
				if n < 1000 && pick(seed+n, 3) > 0 {
					heroes = append(heroes, n)
					statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", n, 1+pick(n, 90)))
				}
				if n < 700 && pick(seed+3*n, 2) > 0 {
					boxes = append(boxes, n)
					statements = append(statements, fmt.Sprintf("INSERT INTO boxes VALUES (%d)", n))
				}
			}
			for n := range 400 {
				victim, holder := heroes[pick(seed+5*n, len(heroes))], heroes[pick(seed+7*n, len(heroes))]
				if n%12 == 0 {
					victim = 1 + pick(seed+n, 990) // some of these heroes were deleted
				}
				if n%2 == 0 {
					holder = boxes[pick(seed+9*n, len(boxes))]
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO fights VALUES (%d, %d, %d, %d, %d)", 2000+n, victim,
					n%2, holder, 1+pick(n, 365)))
			}
			return statements
		}
		found := taken(t, target, server(1), server(5000))
		expect(t, found, map[string]string{"fights.victim": "perhaps heroes.id", "fights.day": "plain",
			"fights.holder": "boxes.id when sort = 0, heroes.id when sort = 1", "heroes.level": "plain"})
	})
}

// The owner of a thing is a hero in most of the places where it may lie, of which there are too many for kinds.
// That those which are worn belong to heroes is no condition, since other things do as well.
func TestAConditionThatLeavesOutMostRowsIsNone(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, last int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE things (id INTEGER NOT NULL PRIMARY KEY, owner INTEGER, place INTEGER, worn INTEGER, day INTEGER)"}
			var heroes []int
			for n := 1; n <= last; n++ {
				if pick(seed+n, 12) == 0 {
					heroes = append(heroes, n)
					statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d)", n))
				}
			}
			for n := range 3 * len(heroes) {
				owner, place, worn := heroes[n%len(heroes)], n%96, 0
				switch n % 12 {
				case 3, 7:
					owner = 1 + pick(seed+n, last) // an account
				case 0:
					worn = 1
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO things VALUES (%d, %d, %d, %d, %d)", last+n, owner,
					place, worn, 1+pick(n, 365)))
			}
			return statements
		}
		found := taken(t, target, server(1, 3000), server(9000, 2200))
		if found["things.owner"] != "perhaps heroes.id" {
			t.Errorf("owner: %q", found["things.owner"])
		}
		d := opened(t, target, "s3", server(1, 3000))
		key := []census.Column{{Table: "heroes", Name: "id"}}
		for _, c := range []struct {
			column, when string
			proved       bool
		}{{"owner", "worn = 1", true}, {"owner", "place % 12 NOT IN (3, 7)", false}, {"day", "worn = 1", false}} {
			beside, err := census.Outside(t.Context(), d, census.Column{Table: "things", Name: c.column}, key, c.when)
			if err != nil || len(beside) != 1 || (beside[0].Proof != "") != c.proved {
				t.Errorf("%s beside %s: %+v, %v", c.column, c.when, beside, err)
			}
		}
	})
}

// A generator makes keys that are equal on no two servers, and the merge leaves them as they are.
func TestKeysOfAGeneratorAreNotLookedFor(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		var servers [][]string
		for server := range 2 {
			var parents, children []string
			for i := range 60 {
				key := int64(1)<<40 + int64(server)<<20 + int64(i*i)
				parents = append(parents, fmt.Sprintf("(%d)", key))
				children = append(children, fmt.Sprintf("(%d, %d)", i+1, key))
			}
			servers = append(servers, []string{"CREATE TABLE clans (id BIGINT NOT NULL PRIMARY KEY)",
				"CREATE TABLE members (id BIGINT NOT NULL PRIMARY KEY, clan_id BIGINT)",
				"INSERT INTO clans VALUES " + strings.Join(parents, ", "),
				"INSERT INTO members VALUES " + strings.Join(children, ", ")})
		}
		if found := taken(t, target, servers...); found["members.clan_id"] != "plain" {
			t.Errorf("clan_id: %q", found["members.clan_id"])
		}
	})
}

// A game may give things numbers that no hero reaches, and name both in one column, beside a number that means
// the game itself. Nothing but the range of a number tells which of them it is.
func TestOneColumnForKeysOfTwoRangesIsAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		const things = 1 << 24
		taker, bank := "INTEGER", "2147483647"
		if target.Dialect == "mysql" { // which has numbers that are too large for a key
			taker, bank = "BIGINT UNSIGNED", "18446744073709551615"
		}
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE things (id INTEGER NOT NULL PRIMARY KEY, uses INTEGER, worth INTEGER)",
				"CREATE TABLE deals (giver INTEGER NOT NULL, taker " + taker + " NOT NULL, lost INTEGER NOT NULL, pay INTEGER)"}
			for n := 1; n <= heroes; n++ { // no hero was ever deleted
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d)", n))
			}
			for n := range 300 {
				statements = append(statements, fmt.Sprintf("INSERT INTO things VALUES (%d, %d, %d)", things+n,
					1+pick(n, 40), 1+pick(seed+n, 50_000)))
			}
			for n := range 900 {
				giver, taker := 1+pick(seed+3*n, heroes), fmt.Sprint(1+pick(seed+5*n, heroes))
				lost := giver
				switch n % 6 {
				case 0:
					giver = things + pick(seed+7*n, 300)
				case 1:
					taker = bank
				case 2:
					lost = things + pick(seed+9*n, 600) // half of these are no more
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO deals VALUES (%d, %s, %d, %d)", giver, taker, lost,
					1+pick(seed+11*n, 3000)))
			}
			return statements
		}
		found := taken(t, target, server(1, 300), server(7, 200))
		expect(t, found, map[string]string{
			"deals.giver": "perhaps heroes.id when giver < 16777216, perhaps things.id when giver >= 16777216",
			"deals.taker": "perhaps heroes.id when taker < 16777216",
			"deals.lost":  "perhaps heroes.id when lost < 16777216",
			"deals.pay":   "plain", "things.uses": "plain", "things.worth": "plain",
		})
	})
}

// The word with which the names of all tables begin says nothing, and that after it names the table.
func TestAPrefixOfAllTablesHidesNoName(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("sqlite"), func(t *testing.T, target dbtest.Target) {
		server := []string{"CREATE TABLE sim_hoods (id INTEGER NOT NULL PRIMARY KEY, sims INTEGER)",
			"CREATE TABLE sim_marks (id INTEGER NOT NULL PRIMARY KEY, hood INTEGER)",
			"CREATE TABLE sim_days (id INTEGER NOT NULL PRIMARY KEY)"}
		for n := 1; n <= 12; n++ {
			server = append(server, fmt.Sprintf("INSERT INTO sim_hoods VALUES (%d, %d)", n, 13-n),
				fmt.Sprintf("INSERT INTO sim_marks VALUES (%d, %d), (%d, %d)", 100+n, n, 200+n, 13-n))
		}
		found := taken(t, target, server, server)
		expect(t, found, map[string]string{"sim_marks.hood": "perhaps sim_hoods.id", "sim_hoods.sims": "plain"})
	})
}

// A map of numbers to names may have each number twice, as the key that the database counts and as the one that is
// used.
func TestACopyOfTheOwnKeyIsAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("sqlite"), func(t *testing.T, target dbtest.Target) {
		server := []string{"CREATE TABLE sorts (rowid_ INTEGER NOT NULL PRIMARY KEY, id INTEGER, rank INTEGER)"}
		for n := 1; n <= 12; n++ {
			server = append(server, fmt.Sprintf("INSERT INTO sorts VALUES (%d, %d, %d)", n, n, 1+n%3))
		}
		found := taken(t, target, server, server)
		expect(t, found, map[string]string{"sorts.id": "perhaps sorts.rowid_", "sorts.rank": "plain"})
	})
}

// Of two short lists without gaps, one is longer, and so has all the numbers of the other one.
func TestAColumnForTwoShortListsIsAskedAboutByKind(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, blocks, beasts int) []string {
			statements := []string{"CREATE TABLE blocks (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE beasts (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE acts (what INTEGER NOT NULL, act INTEGER NOT NULL, hard INTEGER)"}
			for table, n := range map[string]int{"blocks": blocks, "beasts": beasts} {
				for id := 1; id <= n; id++ {
					statements = append(statements, fmt.Sprintf("INSERT INTO %s VALUES (%d)", table, id))
				}
			}
			for n := range 900 {
				what := 1 + pick(seed+n, blocks)
				if n%4 == 3 {
					what = 1 + pick(seed+n, beasts)
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO acts VALUES (%d, %d, %d)", what, n%4, 1+pick(n, 30)))
			}
			return statements
		}
		found := taken(t, target, server(1, 200, 45), server(7, 150, 31))
		expect(t, found, map[string]string{"acts.hard": "plain",
			"acts.what": "perhaps blocks.id when act IN (0, 1, 2), perhaps beasts.id when act = 3"})
	})
}

// Each of three empires has a king, and so few numbers prove nothing but together with the name of their column.
func TestAFewKeysAreKeysOfTheTableOfOthersThatAreCalledAlike(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("sqlite"), func(t *testing.T, target dbtest.Target) {
		server := func(seed, last int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE members (pid INTEGER NOT NULL UNIQUE, rank INTEGER)",
				"CREATE TABLE kings (pid INTEGER NOT NULL UNIQUE, empire INTEGER)",
				"CREATE TABLE crowns (empire INTEGER NOT NULL, pid INTEGER)"}
			for n := 1; n <= last; n++ {
				if pick(seed+n, 9) == 0 {
					continue
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d)", n))
				if n%2 == 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO members VALUES (%d, %d)", n, n%9))
				}
				if n%(last/3) == 1 {
					statements = append(statements, fmt.Sprintf("INSERT INTO kings VALUES (%d, %d)", n, n*3/last+1),
						fmt.Sprintf("INSERT INTO crowns VALUES (%d, %d)", n*3/last+1, n))
				}
			}
			return statements
		}
		found := taken(t, target, server(1, 900), server(7000, 600))
		expect(t, found, map[string]string{"members.pid": "heroes.id", "kings.pid": "perhaps heroes.id",
			"crowns.pid": "perhaps heroes.id"})
	})
}

// The ranks of guilds are so few that one byte holds their keys, and heroes of other guilds have none.
func TestAColumnOfOneByteIsAskedAboutIfItIsCalledLikeAKey(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "postgres" {
			t.Skip("it has no numbers of one byte")
		}
		server := func(seed, ranks int) []string {
			statements := []string{"CREATE TABLE guild_ranks (rankID INTEGER NOT NULL PRIMARY KEY, guild INTEGER)",
				"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, guild_rank_id TINYINT, level TINYINT, grade TINYINT)"}
			for n := 1; n <= ranks; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO guild_ranks VALUES (%d, %d)", n, 1+n/3))
			}
			for n := range 300 {
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d, %d, %d)", 1000+7*n,
					pick(seed+n, ranks+1), 1+pick(n, 60), 1+pick(seed+3*n, ranks)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 90), server(7, 70)), map[string]string{
			"heroes.guild_rank_id": "perhaps guild_ranks.rankID when guild_rank_id <> 0", "heroes.level": "", "heroes.grade": ""})
	})
}

// A game in PHP serializes what it does not look for: the queue of what is made, with the place in each of its rows,
// and who has fought. Long documents are cut off.
func TestKeysInDocumentsOfPHPAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, many int) []string {
			statements := []string{"CREATE TABLE places (id INTEGER NOT NULL PRIMARY KEY, price INTEGER)",
				"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, queue TEXT, rights TEXT)",
				"CREATE TABLE reports (id INTEGER NOT NULL PRIMARY KEY, fight TEXT)"}
			for n := 1; n <= many; n++ {
				place, hero := fmt.Sprint(3*(1+pick(seed+n, many))), fmt.Sprint(1+pick(seed+5*n, many))
				queue := fmt.Sprintf(`a:1:{i:0;a:4:{i:0;i:%d;i:1;d:%d.5;i:2;N;i:3;s:%d:%q;}}`, 100+n%20, n, len(place), place)
				fight := fmt.Sprintf(`a:2:{s:4:"note";s:3:"né";s:4:"side";a:1:{i:0;a:2:{s:6:"heroID";s:%d:%q;s:4:"text";s:4200:%q;}}}`,
					len(hero), hero, strings.Repeat("sword ", 700))
				statements = append(statements, fmt.Sprintf("INSERT INTO places VALUES (%d, %d)", 3*n, 1000*n),
					fmt.Sprintf(`INSERT INTO heroes VALUES (%d, '%s', 'a:1:{s:4:"shop";i:%d;}')`, n, queue, n%2),
					fmt.Sprintf("INSERT INTO reports VALUES (%d, '%s')", 9000+n, fight))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 400), server(5000, 300)), map[string]string{
			"heroes.queue": "perhaps places.id", "heroes.rights": "", "reports.fight": "perhaps heroes.id"})
	})
}

// The words of players stand in channels: one of all, and two for each player, at numbers that no key reaches, and one
// for each guild, at a small number. A few values tell if all lie at the same large number, or are called like others.
// The costs of what they buy are large numbers, too. What mines yield goes on behind each thousand, and those of one
// thousand end where keys do.
func TestKeysBeyondARoundNumberAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players int) []string {
			statements := []string{"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE words (id INTEGER NOT NULL PRIMARY KEY, channel INTEGER, cost INTEGER, day INTEGER)",
				"CREATE TABLE guilds (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE calls (id INTEGER NOT NULL PRIMARY KEY, " +
					"talk INTEGER, power INTEGER, health INTEGER)", "CREATE TABLE hearers (talk INTEGER, room INTEGER)",
				"CREATE TABLE ports (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE mines (id INTEGER NOT NULL PRIMARY KEY, yield INTEGER)"}
			for n := range 200 + 2*players {
				statements = append(statements, fmt.Sprintf("INSERT INTO ports VALUES (%d)", n+1))
			}
			for n := range 125 - players/600*90 {
				statements = append(statements, fmt.Sprintf("INSERT INTO mines VALUES (%d, %d)", 9000+n, 100+n*103%4900))
			}
			for n := 1; n <= players/10; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO guilds VALUES (%d)", n))
			}
			for n := range 12 { // too few to tell
				statements = append(statements, fmt.Sprintf("INSERT INTO hearers VALUES (%d, %d)", 100+1+pick(seed+n, players/10),
					40_000_000+1+pick(seed+n, players)))
			}
			for n := range players {
				statements = append(statements, fmt.Sprintf("INSERT INTO calls VALUES (%d, %d, %d, %d)", 9000+n,
					n%2*(100+1+pick(seed+n, players/10)), 100+pick(n, 40), 100+pick(seed+n, 90)))
			}
			for n := 1; n <= players; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d)", n))
			}
			for n := range 3 * players {
				channel := []int{0, 500_000_000, 1_000_000_000}[n%3]
				if channel > 0 {
					channel += 1 + pick(seed+n, players)
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO words VALUES (%d, %d, %d, %d)", 9000+n, channel,
					1+pick(seed+7*n, 900_000), 1_700_000_000+pick(n, 90_000)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 600), server(7, 400)), map[string]string{
			"words.channel": "plain, perhaps players.id", "words.cost": "plain", "words.day": "plain",
			"calls.talk": "plain, perhaps guilds.id", "calls.power": "plain", "calls.health": "plain",
			"hearers.talk": "plain, perhaps guilds.id", "hearers.room": "plain, perhaps players.id",
			"mines.yield": "plain"})
	})
}

// Most weights, prices and scores are small numbers, as most keys are, and some are greater than any key. They do not
// end where the keys do, and references do, of which some lead to players that were deleted.
func TestNumbersThatGoOnBehindTheKeysAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players int) []string {
			statements := []string{"CREATE TABLE players (" + countedKey(target) + ", weight INTEGER, score INTEGER)",
				"CREATE TABLE sights (id INTEGER NOT NULL PRIMARY KEY, price INTEGER, seen INTEGER)"}
			small := func(n int) int { // halves with each fifth of the players
				x := 1 + pick(n, 150)
				for m := n; pick(m, 2) > 0; m += 5003 {
					x += 150
				}
				return x
			}
			for n := 1; n <= players; n++ {
				if n%9 != 4 {
					statements = append(statements, fmt.Sprintf("INSERT INTO players VALUES (%d, %d, %d)", n, small(seed+n), 8*small(n)/7))
				}
			}
			for n := range 900 {
				statements = append(statements, fmt.Sprintf("INSERT INTO sights VALUES (%d, %d, %d)", 7000+n, small(seed+3*n),
					1+pick(seed+n, players+5)))
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 900), server(7, 650)), map[string]string{"players.weight": "plain",
			"players.score": "plain", "sights.price": "plain", "sights.seen": "perhaps players.id"})
	})
}

// A guild was deleted, of which a war still tells. All numbers of guilds are those of some rank as well, but the
// column is called like the guilds.
func TestAColumnThatIsCalledLikeATableIsAskedAboutThoughAnotherTableHasAllOfItsValues(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, guilds int) []string {
			statements := []string{"CREATE TABLE guilds (" + countedKey(target) + ")",
				"CREATE TABLE guild_ranks (" + countedKey(target) + ")",
				"CREATE TABLE wars (id INTEGER NOT NULL PRIMARY KEY, guild1 INTEGER, guild2 INTEGER)"}
			for n := 1; n <= 3*guilds; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO guild_ranks VALUES (%d)", n))
				if n <= guilds && n != 7 {
					statements = append(statements, fmt.Sprintf("INSERT INTO guilds VALUES (%d)", n))
				}
			}
			for n := range guilds {
				statements = append(statements, fmt.Sprintf("INSERT INTO wars VALUES (%d, %d, %d)", 900+n, 1+n*2%guilds,
					1+pick(seed+n, guilds)))
			}
			return append(statements, "INSERT INTO wars VALUES (800, 7, 7)")
		}
		expect(t, taken(t, target, server(1, 40), server(7, 30)), map[string]string{
			"wars.guild1": "perhaps guilds.id", "wars.guild2": "perhaps guilds.id"})
	})
}

// Few values prove nothing, and neither does what was mostly deleted, but the names of these columns say what they
// hold: keys of players or of what other columns of the name refer to. What every world has is none, whatever its name.
func TestAFewKeysAreAskedAboutIfTheNameOfTheColumnSpeaksForThem(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, players int) []string {
			statements := []string{"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY, ref_id INTEGER, level INTEGER, class_id INTEGER)",
				"CREATE TABLE houses (house INTEGER NOT NULL PRIMARY KEY, owner INTEGER, new_owner INTEGER, paid INTEGER, is_user INTEGER)",
				"CREATE TABLE notes (" + countedKey(target) + ", admin INTEGER, text_id INTEGER)",
				"CREATE TABLE trips (" + strings.Replace(countedKey(target), "id ", "trip_id ", 1) + ", player_group INTEGER)",
				"CREATE TABLE trips_log (number INTEGER NOT NULL PRIMARY KEY, trip_id INTEGER, player_group VARCHAR(15), days INTEGER)",
				"CREATE TABLE groups_of (id INTEGER NOT NULL PRIMARY KEY, realm_id INTEGER)"}
			add := func(format string, values ...any) {
				statements = append(statements, fmt.Sprintf("INSERT INTO "+format, values...))
			}
			of := func(n int) int { return 1 + pick(seed+n, players) }
			for n := 1; n <= players; n++ {
				ref := 0
				if n%70 == 9 {
					ref = of(n % 3)
				}
				add("players VALUES (%d, %d, %d, %d)", n, ref, 1+pick(n, 60), 1+n%5)
			}
			for n := range 300 {
				newOwner := -1
				if n%80 == 7 {
					newOwner = of(n)
				}
				add("houses VALUES (%d, %d, %d, %d, %d)", 20_000+n, of(2*n), newOwner, pick(n, 40_000), n%2)
				add("notes (admin, text_id) VALUES (%d, %d)", 1+n%2, 1+n%7)
				add("trips_log VALUES (%d, %d, '%d', %d)", 70_000+n, 8000+n+seed, n%4/3*(900+(n/4+seed)%60*3), n%9)
			}
			for n := range 9 {
				add("trips (trip_id, player_group) VALUES (%d, %d)", 8290+n+seed, 900+(n+50+seed)%60*3)
			}
			for n := range 10 {
				add("groups_of VALUES (%d, %d)", 900+(n+50+seed)%60*3, seed)
			}
			return statements
		}
		expect(t, taken(t, target, server(1, 600), server(7, 400)), map[string]string{
			"players.ref_id": "plain, perhaps players.id when ref_id <> 0", "players.level": "plain", "players.class_id": "plain",
			"houses.new_owner": "plain, perhaps players.id when new_owner > 0", "houses.paid": "plain", "houses.is_user": "plain",
			"notes.admin": "plain, perhaps players.id", "notes.text_id": "plain",
			"trips_log.trip_id": "plain, perhaps trips.trip_id", "trips_log.days": "plain",
			"groups_of.realm_id":     "plain",
			"trips_log.player_group": "perhaps groups_of.id when player_group <> '0'"})
	})
}

// One counter numbers the heroes and the clans of a server. The first server has few clans, and the other one shows
// that their things are theirs.
func TestFewOwnersOfAnotherTableAreFoundAmongMany(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, rows, clans int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE clans (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE things (id INTEGER NOT NULL PRIMARY KEY, kind INTEGER, owner INTEGER)"}
			all := map[string][]string{}
			for n := range rows {
				kind, table := 1, "heroes"
				if n%(rows/clans) == 5 {
					kind, table = 2, "clans"
				}
				id := 5000 + 7*n + pick(seed+n, 7)
				all[table] = append(all[table], fmt.Sprintf("(%d)", id))
				all["things"] = append(all["things"], fmt.Sprintf("(%d, %d, %d)", 90_000+n, kind, id))
			}
			for table, values := range all {
				statements = append(statements, "INSERT INTO "+table+" VALUES "+strings.Join(values, ", "))
			}
			return statements
		}
		for name, rows := range map[string]int{"of few rows": 600, "of many rows": 2400} {
			t.Run(name, func(t *testing.T) {
				expect(t, taken(t, target, server(1, rows, 12), server(9000, 500, 60)), map[string]string{
					"things.owner": "heroes.id when kind = 1, clans.id when kind = 2"})
			})
		}
	})
}

// Seasons are counted in every world, and two columns with such a name need not say the same.
func TestTheNameOfAKeyAloneIsNoProof(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seasons int) []string {
			statements := []string{"CREATE TABLE prizes (season INTEGER NOT NULL PRIMARY KEY, gold INTEGER)",
				"CREATE TABLE heroes (hero_id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE matches (id INTEGER NOT NULL PRIMARY KEY, season INTEGER, hero_id INTEGER)"}
			for n := 1; n <= seasons; n++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO prizes VALUES (%d, %d)", n, 100_000+n*n),
					fmt.Sprintf("INSERT INTO heroes VALUES (%d)", n+seasons),
					fmt.Sprintf("INSERT INTO matches VALUES (%d, %d, %d)", 900_000+n, n, n+seasons))
			}
			return statements
		}
		expect(t, taken(t, target, server(40), server(30)), map[string]string{
			"matches.season": "perhaps prizes.season", "matches.hero_id": "heroes.hero_id"})
	})
}

// All forums of a game lie in three others.
func TestAParentIsAskedAboutHoweverFewItsValues(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		for _, column := range []string{"forum_parent", "parent", "parent_id"} {
			server := func(forums int) []string {
				statements := []string{"CREATE TABLE forums (forum_id INTEGER NOT NULL PRIMARY KEY, " + column + " INTEGER)",
					"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)"}
				for n := 1; n <= forums; n++ {
					statements = append(statements, fmt.Sprintf("INSERT INTO forums VALUES (%d, %d)", n, min(n/5, 3)),
						fmt.Sprintf("INSERT INTO heroes VALUES (%d)", n+forums))
				}
				return statements
			}
			t.Run(column, func(t *testing.T) {
				expect(t, taken(t, target, server(40), server(30)), map[string]string{
					"forums." + column: "plain, perhaps forums.forum_id when " + column + " <> 0"})
			})
		}
	})
}

// A document may be cut off anywhere, and say of its parts whatever it wants.
func FuzzValues(f *testing.F) {
	for _, text := range []string{`{"a": [1, {"b": "2"}]}`, `a:1:{i:0;a:2:{s:2:"id";i:7;i:1;N;}}`, `O:4:"Hero":1:{s:2:"id";i:7;}`,
		`a:1:{s:9223372036854775807:"x";i:1;}`, `a:1:{s:-1:"x"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > census.MaxChars {
			t.Skip("the census reads so many characters of a text")
		}
		for _, v := range census.Values(text, "column") {
			if !strings.HasPrefix(strings.TrimPrefix(v.Path, "names of "), "$") {
				t.Errorf("%q has the path %q", text, v.Path)
			}
		}
	})
}

// Each field of a map has a row, so every number is a key, and hits prove nothing. Some fields are towns, and have
// more rows, whose keys no database counts: they are taken from somewhere.
func TestKeysThatNobodyCountsAreAskedAboutAmongDenseOnes(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE fields (" + countedKey(target) + ", soil INTEGER)",
				"CREATE TABLE towns (place INTEGER NOT NULL PRIMARY KEY, folk INTEGER)",
				"CREATE TABLE farms (place INTEGER NOT NULL PRIMARY KEY, folk INTEGER)",
				"CREATE TABLE grades (step INTEGER NOT NULL PRIMARY KEY, points INTEGER)",
				"CREATE TABLE walls (" + countedKey(target) + ", town INTEGER)",
				"CREATE TABLE marches (" + countedKey(target) + ", kind INTEGER, goal INTEGER)"}
			var towns []int
			for field := 1; field <= 400; field++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO fields (soil) VALUES (%d)", pick(seed+field, 9)))
				switch pick(seed+3*field, 4) {
				case 0:
					towns = append(towns, field)
					statements = append(statements, fmt.Sprintf("INSERT INTO towns VALUES (%d, %d)", field, pick(field, 900)))
				case 1:
					statements = append(statements, fmt.Sprintf("INSERT INTO farms VALUES (%d, %d)", field, pick(field, 900)))
				}
			}
			for n := range 150 {
				goal := towns[pick(seed+2*n, len(towns))]
				if n%5 == 0 { // whoever founds a town goes where there is none
					goal = 1 + pick(seed+n, 400)
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO walls (town) VALUES (%d)", towns[pick(seed+n, len(towns))]),
					fmt.Sprintf("INSERT INTO marches (kind, goal) VALUES (%d, %d)", n%5, goal))
			}
			for step := 1; step <= 60; step++ {
				statements = append(statements, fmt.Sprintf("INSERT INTO grades VALUES (%d, %d)", step, 10*step+pick(seed+step, 9)))
			}
			return statements
		}
		found := taken(t, target, server(1), server(9))
		expect(t, found, map[string]string{"towns.place": "perhaps fields.id", "farms.place": "perhaps fields.id",
			"walls.town": "towns.place", "grades.step": "plain", "fields.id": "plain", "walls.id": "plain",
			"fields.soil": "plain", "towns.folk": "plain", "marches.goal": "perhaps fields.id"})
	})
}

// A link has the key of a hero behind a mark, whatever it is called there, and a line behind a word.
func TestAKeyInALinkIsAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
				"CREATE TABLE bags (" + countedKey(target) + ", whose INTEGER, link VARCHAR(60), page VARCHAR(60), seen VARCHAR(60))"}
			var alive []int
			for n := 1; n <= 600; n++ {
				if pick(seed+n, 3) > 0 {
					alive = append(alive, n)
					statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", n, pick(n, 60)))
				}
			}
			for n := range 200 {
				hero := alive[pick(seed+3*n, len(alive))]
				statements = append(statements, fmt.Sprintf("INSERT INTO bags (whose, link, page, seen) VALUES "+
					"(%d, 'list.php?whose=%d&tab=%d', 'log.php?page=%d', 'whose %d')",
					alive[pick(seed+n, len(alive))], hero, n%7, hero, hero))
			}
			return statements
		}
		expect(t, taken(t, target, server(1), server(9000)), map[string]string{"bags.whose": "heroes.id",
			"bags.link": "perhaps heroes.id", "bags.page": "perhaps heroes.id", "bags.seen": "perhaps heroes.id"})
	})
}

// The last of several columns that are called alike have a few values only, which prove nothing by themselves.
func TestAColumnIsAskedAboutIfThoseWithOtherNumbersInTheirNamesRefer(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE letters (" + countedKey(target) + ", day INTEGER)",
				"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, ally1 INTEGER, ally2 INTEGER, ally3 INTEGER, ally4 INTEGER, " +
					"skill1 INTEGER, skill2 INTEGER, skill3 INTEGER, guard1 INTEGER, guard2 INTEGER, guard3 INTEGER)"}
			var alive []int
			for n := 1; n <= 500; n++ {
				if pick(seed+n, 4) > 0 {
					alive = append(alive, n)
				}
			}
			for i, n := range alive {
				of := func(more int) int { return alive[pick(seed+7*n+more, len(alive))] }
				third, guards := 0, [3]int{}
				for k, rare := range []int{12, 130, 170} {
					if i%rare == 1 {
						guards[k] = of(4 + k)
					}
				}
				switch {
				case i%60 == 0:
					third = 1 + pick(seed+i, 500) // some were deleted
				case i%20 == 0:
					third = of(3)
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d, %d, %d, 0, %d, %d, %d, %d, %d, %d)", n,
					of(1), of(2), third, pick(n, 60), pick(n+1, 60), pick(n+2, 9), guards[0], guards[1], guards[2]))
			}
			for n := range 600 {
				statements = append(statements, fmt.Sprintf("INSERT INTO letters (day) VALUES (%d)", pick(n, 300)))
			}
			return statements
		}
		found := taken(t, target, server(1), server(9))
		expect(t, found, map[string]string{"heroes.ally1": "heroes.id", "heroes.ally2": "heroes.id",
			"heroes.ally3": "perhaps heroes.id when ally3 <> 0", "heroes.ally4": "none",
			"heroes.skill1": "plain", "heroes.skill2": "plain", "heroes.skill3": "plain",
			"heroes.guard1": "perhaps heroes.id when guard1 <> 0", "heroes.guard2": "perhaps heroes.id when guard2 <> 0",
			"heroes.guard3": "perhaps heroes.id when guard3 <> 0"})
	})
}

// The founders of guilds are old heroes, whose keys are as small as levels. But levels are equal in many rows, and
// each guild has another founder.
func TestSmallKeysThatDifferInEachRowAreAskedAbout(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, heroes int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
				"CREATE TABLE guilds (" + countedKey(target) + ", founder INTEGER, best INTEGER, place INTEGER, level INTEGER)"}
			guilds := 0
			for n := 6; n <= heroes; n++ {
				if pick(seed+n, 14) == 0 {
					continue
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", n, 1+pick(n, 60)))
				if guilds < 45 && pick(seed+3*n, 2) == 0 {
					guilds++
					statements = append(statements, fmt.Sprintf("INSERT INTO guilds (founder, best, place, level) VALUES (%d, %d, %d, %d)",
						n, 5000+97*n, 46-guilds, 6+pick(seed+n, 40)))
				}
			}
			return statements
		}
		found := taken(t, target, server(1, 900), server(9, 700))
		expect(t, found, map[string]string{"guilds.founder": "perhaps heroes.id", "guilds.best": "plain",
			"guilds.place": "plain", "guilds.level": "plain"})
	})
}

// A log names heroes of whom one in five was deleted, and most of its numbers are those of finds, too.
func TestTheNameOfOtherReferencesSpeaksAgainstARangeOfKeys(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, last int) []string {
			statements := []string{"CREATE TABLE hero_data (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE finds (id INTEGER NOT NULL PRIMARY KEY)", "CREATE TABLE caps (hero_id INTEGER)",
				"CREATE TABLE logs (hero_id INTEGER, sort INTEGER)"}
			for n := 1; n <= last; n++ {
				if pick(seed+n, 9) > 1 {
					statements = append(statements, fmt.Sprintf("INSERT INTO hero_data VALUES (%d)", n),
						fmt.Sprintf("INSERT INTO caps VALUES (%d)", n))
				}
				if n < last-9 && pick(seed+7*n, 14) > 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO finds VALUES (%d)", n))
				}
				statements = append(statements, fmt.Sprintf("INSERT INTO logs VALUES (%d, %d)", n, n%3))
			}
			return statements
		}
		found := taken(t, target, server(1, 930), server(5000, 600))
		expect(t, found, map[string]string{"caps.hero_id": "hero_data.id", "logs.hero_id": "perhaps hero_data.id"})
	})
}

// A log has the keys of loot, of sales and of trades, of which there are fewest, in the rows of one kind each.
func TestAShortTableIsFoundInTheRowsOfItsKind(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, many int) []string {
			statements := []string{"CREATE TABLE logs (id INTEGER NOT NULL PRIMARY KEY, kind INTEGER, about INTEGER)"}
			row := 100_000
			for kind, table := range []string{"loot", "sales", "trades"} {
				statements = append(statements, "CREATE TABLE "+table+" (id INTEGER NOT NULL PRIMARY KEY)")
				for n := 1; n <= many/(1+kind); n++ {
					if pick(seed*(kind+2)+n, 10) > 0 {
						row++
						statements = append(statements, fmt.Sprintf("INSERT INTO %s VALUES (%d)", table, n),
							fmt.Sprintf("INSERT INTO logs VALUES (%d, %d, %d)", row, 14+kind, n))
					}
				}
			}
			return statements
		}
		found := taken(t, target, server(100, 900), server(5000, 600))
		expect(t, found, map[string]string{
			"logs.about": "loot.id when kind = 14, sales.id when kind = 15, trades.id when kind = 16"})
	})
}

// Old flags of heroes have the key before their name, and a motto has any number.
func TestAKeyBeforeAWordIsAskedAboutIfItCannotBeChance(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(seed, many int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE flags (name VARCHAR(60), motto VARCHAR(60))"}
			for n := 1; n <= many; n++ {
				if pick(seed+n, 4) > 0 {
					statements = append(statements, fmt.Sprintf("INSERT INTO heroes VALUES (%d)", n),
						fmt.Sprintf("INSERT INTO flags VALUES ('%d-%s', '%d-all')", n, []string{"epic", "saved"}[n%2], 1+pick(n, many)),
						"INSERT INTO flags VALUES ('season', '')")
				}
			}
			return statements
		}
		found := taken(t, target, server(1, 300), server(5000, 200))
		expect(t, found, map[string]string{"flags.name": "perhaps heroes.id", "flags.motto": ""})
	})
}

// The members of a raid have its key beside their own, and are no table from which the raids take theirs.
func TestAKeyIsNotTakenFromATableThatHasItInAColumn(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		server := func(raids int) []string {
			statements := []string{"CREATE TABLE raid_details (raidid INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE raid_members (" + countedKey(target) + ", raidid INTEGER)"}
			for n := 1; n <= raids; n++ {
				raid := n + n/4
				statements = append(statements, fmt.Sprintf("INSERT INTO raid_details VALUES (%d)", raid))
				for range 12 {
					statements = append(statements, fmt.Sprintf("INSERT INTO raid_members (raidid) VALUES (%d)", raid))
				}
			}
			return statements
		}
		found := taken(t, target, server(7), server(5))
		expect(t, found, map[string]string{"raid_members.raidid": "raid_details.raidid", "raid_details.raidid": "plain"})
	})
}
