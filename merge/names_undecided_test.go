package merge_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A game that counts its characters by itself gives the key no default, so a person has to decide about the table.
// Names that would be doubled, and copies of names that would be left behind, must not be lost by that.
func TestNamesOfTablesThatAPersonDecidesAboutAreFound(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE chars (charid BIGINT NOT NULL, charname VARCHAR(15) NOT NULL, PRIMARY KEY (charid))",
			"CREATE TABLE mails (charid BIGINT NOT NULL, slot INTEGER NOT NULL, receiver VARCHAR(15) NOT NULL, " +
				"PRIMARY KEY (charid, slot))",
		}
		server := func(first string) (all []string) {
			for n := range 60 {
				name := fmt.Sprintf("%s%d", []string{"Hero", first}[n%2], n)
				all = append(all, fmt.Sprintf("INSERT INTO chars VALUES (%d, '%s')", n+1, name),
					fmt.Sprintf("INSERT INTO mails VALUES (%d, %d, '%s')", n+1, n%3, name))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server("A"), server("B"))
		draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		_, found := problems(t, opened(t, draft, merge.WithLock(lock)))
		if got := fmt.Sprint(found[merge.CodeUndecided]); !strings.Contains(got, "rename, with column: charname") {
			t.Errorf("nobody hears that the names are equal: %s", got)
		}
		draft.Tables["chars"] = &merge.TablePlan{Policy: merge.Rename, Renumber: merge.Apart,
			Rename: &merge.RenamePlan{Column: "charname"}}
		draft.Tables["mails"] = &merge.TablePlan{Policy: merge.Copy,
			References: []merge.Reference{{Column: "charid", Table: "chars", Target: []string{"charid"}}}}
		draft.Identities, draft.Apart = nil, "all"
		report, found := problems(t, opened(t, draft, merge.WithLock(lock)))
		if len(found) > 0 {
			t.Errorf("problems: %v", found)
		}
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "table: mails, column: receiver, ref: charid") {
			t.Errorf("nobody hears that old names stay in mails: %s", got)
		}
	})
}

// A letter has its sender in a document. Once he has another name, the old one is that of somebody else.
func TestNamesInDocumentsAreAskedAbout(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		document := map[string]string{"postgres": "JSONB", "mysql": "JSON", "sqlite": "TEXT"}[target.Dialect]
		schema := []string{"CREATE TABLE heroes (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE)",
			"CREATE TABLE letters (id BIGINT NOT NULL PRIMARY KEY, extra " + document + ")",
			"CREATE TABLE looks (id BIGINT NOT NULL PRIMARY KEY, extra VARCHAR(200))"}
		server := func(number int, own string) (all []string) {
			for n := range 60 {
				name := fmt.Sprintf("%s%d", []string{"Hero", own}[n%2], n)
				all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%s, '%s')", id(number, n+1), name),
					fmt.Sprintf(`INSERT INTO letters VALUES (%s, '{"gold": %d, "people": [{"from": %q}]}')`, id(number, n+1), n, name),
					fmt.Sprintf(`INSERT INTO looks VALUES (%s, '{"hat": "Hat%d", "from": %q}')`, id(number, n+1), n%50, own))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server(1, "A"), server(2, "B"))
		draft := draftOf(t, plan)
		if p := draft.Tables["heroes"]; p.Policy != merge.Rename {
			t.Fatalf("the heroes: %+v", p)
		}
		if open := draft.Tables["looks"].Undecided; len(open) > 0 {
			t.Errorf("the looks: %+v", open)
		}
		open := draft.Tables["letters"].Undecided
		if len(open) != 1 || open[0].Candidate != "heroes.name" || open[0].As != "path $.people[*].from" {
			t.Fatalf("the letters: %+v", open)
		}
		_, found := problems(t, opened(t, draft))
		if got := fmt.Sprint(found[merge.CodeUndecided]); !strings.Contains(got, "merge_renames") {
			t.Errorf("nobody hears what to do: %s", got)
		}
		draft.Tables["letters"].Undecided = nil
		report, _ := problems(t, opened(t, draft))
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "letters") {
			t.Errorf("check does not warn: %s", got)
		}
		draft.Plain = append(draft.Plain, "letters.extra")
		report, found = problems(t, opened(t, draft))
		if got := fmt.Sprint(report.Warnings, found); strings.Contains(got, "letters") {
			t.Errorf("it was decided: %s", got)
		}
	})
}

// A house has one owner, so its name is unique there, too. It would keep its name or not by the rows of the owners,
// whatever the house does, and an owner would get the house of another one. So it is where each has one coat by the
// text that is the key of a player.
func TestTextsThatAreNamesOfAnotherTableAreNoNames(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE players (citizen VARCHAR(20) PRIMARY KEY, level INTEGER)",
			"CREATE TABLE coats (COUNTED, citizen VARCHAR(20))", "CREATE TABLE houses (COUNTED, name VARCHAR(20))",
			"CREATE TABLE house_owners (COUNTED, house VARCHAR(20), level INTEGER)",
			"CREATE TABLE heroes (id INTEGER PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE)",
			"CREATE TABLE arrivals (COUNTED, name VARCHAR(20))"}
		server := func(own string, owned int) (all []string) {
			for n := range 60 {
				n = (n + owned) % 60
				citizen := fmt.Sprintf("%s%d", []string{"QBX", own}[n%2], n)
				hero := []string{"Hero", own}[n%2] + string(rune('a'+n/8)) + string(rune('a'+n%8))
				all = append(all, fmt.Sprintf("INSERT INTO houses (name) VALUES ('Street %d')", n),
					fmt.Sprintf("INSERT INTO players VALUES ('%s', 1)", citizen),
					fmt.Sprintf("INSERT INTO coats (citizen) VALUES ('%s')", citizen),
					fmt.Sprintf("INSERT INTO heroes VALUES (%d, '%s')", n+1, hero),
					fmt.Sprintf("INSERT INTO arrivals (name) VALUES ('%s')", hero))
				if n >= owned && n < owned+35 {
					all = append(all, fmt.Sprintf("INSERT INTO house_owners (house) VALUES ('Street %d')", n))
				}
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server("A", 0), server("B", 15))
		draft := draftOf(t, plan)
		if p := draft.Tables["houses"]; p.Policy != merge.Rename || p.Rename.Column != "name" {
			t.Errorf("the houses: %+v", p)
		}
		if p := draft.Tables["coats"]; p.Policy != merge.Copy {
			t.Errorf("the coats: %+v", p)
		}
		// Who decides to rename the heroes hears of their copies.
		if p := draft.Tables["arrivals"]; p.Policy != merge.Copy || !strings.Contains(p.Note, "heroes.name") {
			t.Errorf("the arrivals: %+v", p)
		}
		p := draft.Tables["house_owners"]
		if p.Policy != merge.Copy || len(p.Undecided) != 1 || p.Undecided[0].Candidate != "houses.name" {
			t.Errorf("the owners: %+v", p)
		}
	})
}

// A member of a guild is there by the name of his account, and no index says that the names of either are unique, nor
// does the word "username" say that they are names. The account to which others refer has the name.
func TestNamesOfMembersAreThoseOfRowsToWhichOthersRefer(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE accounts (COUNTED, username VARCHAR(12), level INTEGER)",
			"CREATE TABLE bags (COUNTED, account_id INTEGER, weight INTEGER)",
			"CREATE TABLE members (COUNTED, username VARCHAR(12), grade INTEGER)"}
		server := func(own string, since int) (all []string) {
			for n := since; n < since+300; n++ {
				name := fmt.Sprintf("%s%d", []string{"Same", own}[n%2], n)
				all = append(all, fmt.Sprintf("INSERT INTO accounts (username, level) VALUES ('%s', %d)", name, n%40),
					fmt.Sprintf("INSERT INTO bags (account_id, weight) VALUES (%d, %d)", n*7%300+1, n%9*since%5))
				if n%3 > 0 {
					all = append(all, fmt.Sprintf("INSERT INTO members (username, grade) VALUES ('%s', %d)", name, n%4))
				}
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server("A", 1), server("B", 42))
		draft := draftOf(t, plan)
		if p := draft.Tables["accounts"]; p.Policy != merge.Rename || p.Rename.Column != "username" {
			t.Errorf("the accounts: %+v", p)
		}
		if p := draft.Tables["members"]; p.Policy != merge.Copy || !strings.Contains(p.Note, "accounts.username") ||
			!slices.ContainsFunc(p.Undecided, func(o merge.OpenColumn) bool { return o.Candidate == "accounts.username" }) {
			t.Errorf("the members: %+v", p)
		}
	})
}

// Games that key their players by texts made at random give one text to two people sooner or later. It is the name of
// the row, so it can be given up like any other one.
func TestATextThatIsThePrimaryKeyMayBeRenamed(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE players (citizen VARCHAR(20) PRIMARY KEY, tag VARCHAR(20))",
			"CREATE TABLE cars (id BIGINT PRIMARY KEY, owner VARCHAR(20), tag VARCHAR(20))",
			"CREATE TABLE logs (id BIGINT PRIMARY KEY, kind VARCHAR(20), what VARCHAR(20), place VARCHAR(20))"}
		server := func(number int) (all []string) {
			for n := range 120 { // Each fourth row is about a player, the others about reports.
				what, kind := fmt.Sprint(1000+n), "report"
				if n%4 == 0 {
					what, kind = fmt.Sprintf("QB%d%d", n/4, number*min(n, 1)), "player"
				}
				all = append(all, fmt.Sprintf("INSERT INTO logs VALUES (%s, '%s', '%s', 'Street %d')", id(number, 1000+n), kind, what, n))
			}
			for n := range 30 {
				citizen := fmt.Sprintf("QB%d%d", n, number*min(n, 1))
				all = append(all, fmt.Sprintf("INSERT INTO players VALUES ('%s', '%d')", citizen, number),
					fmt.Sprintf("INSERT INTO cars VALUES (%s, '%s', '%d')", id(number, n+1), citizen, number))
			}
			return all
		}
		tables := map[string]*merge.TablePlan{"cars": {Policy: merge.Copy}, "players": {Policy: merge.Copy}, "logs": {Policy: merge.Copy}}
		servers, into, plan := small(t, target, schema, tables, server(1), server(2))
		drafted := *plan
		drafted.Tables = nil
		draft, lock, err := merge.Draft(t.Context(), &drafted, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		_, found := problems(t, opened(t, draft, merge.WithLock(lock)))
		if got := fmt.Sprint(found[merge.CodeUndecided]); !strings.Contains(got, "rename, with column: citizen") {
			t.Errorf("the draft names no way to keep both players: %s", got)
		}
		refused(t, into, plan, merge.CodePrimaryKey, "choose rename")
		tables["players"] = &merge.TablePlan{Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "citizen"}}
		tables["cars"].References = []merge.Reference{{Column: "owner", Table: "players"}}
		report, found := problems(t, open(t, plan))
		if len(found) > 0 || strings.Contains(fmt.Sprint(report.Warnings), "cars: owner") {
			t.Errorf("the reference is declared: %s", report.Warnings)
		}
		tables["cars"].References = nil
		tables["players"].Rename.Copies = []merge.NameCopy{{Table: "cars", Column: "owner"}}
		report, _ = problems(t, open(t, plan))
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "logs: what") || strings.Contains(got, "logs: place") {
			t.Errorf("check warns of %s", got)
		}
		if strings.Contains(fmt.Sprint(report.Warnings), "on other servers only") {
			t.Errorf("each owner is a player: %s", report.Warnings)
		}
		servers[0].exec(t, "DELETE FROM players WHERE citizen = 'QB00'") // whose car leads to the player of the other server
		report, _ = problems(t, open(t, plan))
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "cars: owner: 1 row: texts are names of players on other servers") {
			t.Errorf("nobody hears that a car gets a stranger for its owner: %s", got)
		}
		servers[0].exec(t, "INSERT INTO players VALUES ('QB00', '1')")
		copies := &tables["players"].Rename.Copies
		*copies = append(*copies, merge.NameCopy{Table: "logs", Column: "what"})
		servers[1].exec(t, "UPDATE logs SET what = 'QB00 [1:22:7]' WHERE what = 'QB00'")
		report, _ = problems(t, open(t, plan))
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "logs: what: 1 row: texts begin with names of players") {
			t.Errorf("nobody hears that a text goes on with an old name: %s", got)
		}
		servers[1].exec(t, "UPDATE logs SET what = 'QB00' WHERE what LIKE 'QB00 %'")
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM cars JOIN players ON citizen = owner AND players.tag = cars.tag"); n != 60 {
			t.Errorf("%d of 60 cars have their owner", n)
		}
	})
}

// PostgreSQL compares a label only with labels.
func TestNamesAreNotLookedForAmongLabels(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TYPE mood AS ENUM ('glad', 'sad')",
			"CREATE TABLE chars (id BIGINT PRIMARY KEY, name VARCHAR(15) NOT NULL, mood mood)"}
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"chars": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}},
			[]string{"INSERT INTO chars VALUES (" + id(1, 1) + ", 'Ann', 'glad')"},
			[]string{"INSERT INTO chars VALUES (" + id(2, 1) + ", 'Ann', 'sad')"})
		if _, found := problems(t, open(t, plan)); len(found) > 0 {
			t.Errorf("problems: %v", found)
		}
	})
}

// Three kings and a few game masters: too few texts for a server to prove anything, but each king has the name of
// the row that he leads to, and all servers together have enough masters.
func TestAFewNamesAreEnoughBesideAKeyOrOnAllServersTogether(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (COUNTED, name VARCHAR(20) NOT NULL UNIQUE)",
			"CREATE TABLE kings (empire INTEGER NOT NULL, hero INTEGER NOT NULL, name VARCHAR(20) NOT NULL)",
			"CREATE TABLE masters (hero VARCHAR(20) NOT NULL, power VARCHAR(20) NOT NULL)",
			"CREATE TABLE houses (COUNTED, hero INTEGER NOT NULL, bidder VARCHAR(20) NOT NULL)"}
		server := func(number int) (all []string) {
			for n := 1; n <= 60; n++ {
				name := fmt.Sprintf("%s%d", []string{"Hero", fmt.Sprint("Own", number, "x")}[n%2], n)
				all = append(all, fmt.Sprintf("INSERT INTO heroes (id, name) VALUES (%d, '%s')", n, name))
				if n <= 3 {
					all = append(all, fmt.Sprintf("INSERT INTO kings VALUES (%d, %d, '%s')", n, n, name))
				}
				if n%4 == 0 {
					all = append(all, fmt.Sprintf("INSERT INTO masters VALUES ('%s', 'power%d')", name, n),
						fmt.Sprintf("INSERT INTO houses (hero, bidder) VALUES (%d, '%s')", max(0, n-48), name)) // few have an owner
				}
			}
			return all
		}
		tables := map[string]*merge.TablePlan{
			"heroes": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}, Renumber: merge.Apart},
			"houses": {Policy: merge.Copy, Renumber: merge.Apart,
				References: []merge.Reference{{Column: "hero", Table: "heroes", When: "hero <> 0"}}},
			"kings":   {Policy: merge.Copy, References: []merge.Reference{{Column: "hero", Table: "heroes"}}},
			"masters": {Policy: merge.Copy},
		}
		_, _, plan := small(t, target, schema, tables, server(1), server(2))
		report, _ := problems(t, opened(t, plan))
		got := fmt.Sprint(report.Warnings)
		for _, want := range []string{"{table: kings, column: name, ref: hero} under copies:",
			"{table: masters, column: hero} under copies:", "{table: houses, column: bidder} under copies:"} {
			if !strings.Contains(got, want) {
				t.Errorf("no warning has %s: %s", want, got)
			}
		}
		if strings.Contains(got, "power") {
			t.Errorf("powers are no names: %s", got)
		}
	})
}

// Many games write only the name of who has sent a letter: the key beside it is that of the receiver.
func TestCopiesOfNamesWithoutAKeyBesideThemFollow(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		prepare, folded := folding(target, 20)
		schema := append(slices.Clone(prepare),
			"CREATE TABLE heroes (id BIGINT PRIMARY KEY, name "+folded+" NOT NULL, gone INTEGER NOT NULL)",
			"CREATE TABLE letters (id BIGINT PRIMARY KEY, receiver BIGINT NOT NULL REFERENCES heroes (id), "+
				"sender VARCHAR(30) NOT NULL)")
		server := func(number int) (all []string) {
			for n := 1; n <= 60; n++ {
				name, gone := fmt.Sprintf("%s%d", []string{"Hero", fmt.Sprint("Own", number, "x")}[n%2], n), 0
				if n > 55 {
					name, gone = "", 1
				}
				all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%s, '%s', %d)", id(number, n), name, gone))
			}
			for n := 1; n <= 50; n++ {
				all = append(all, fmt.Sprintf("INSERT INTO letters SELECT %s, %s, name FROM heroes WHERE id = %s",
					id(number, n), id(number, n%7+1), id(number, n)))
			}
			return append(all, "INSERT INTO letters VALUES ("+id(number, 51)+", "+id(number, 1)+", '[GM] Hero2')",
				"INSERT INTO letters VALUES ("+id(number, 52)+", "+id(number, 1)+", '')",
				"INSERT INTO letters VALUES ("+id(number, 53)+", "+id(number, 1)+", 'HERO4')")
		}
		tables := map[string]*merge.TablePlan{
			"heroes":  {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name", When: "gone = 0"}},
			"letters": {Policy: merge.Copy, References: []merge.Reference{{Column: "receiver", Table: "heroes"}}},
		}
		sources, into, plan := small(t, target, schema, tables, server(1), server(2))
		report, _ := problems(t, opened(t, plan))
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "{table: letters, column: sender} under copies:") {
			t.Errorf("the remedy leads to the wrong rows: %s", got)
		}
		tables["heroes"].Rename.Copies = []merge.NameCopy{{Table: "letters", Column: "sender"}}
		// Which of two rows a text means, nobody knows.
		sources[1].exec(t, "UPDATE heroes SET name = 'Hero6' WHERE id = "+id(2, 8))
		report, found := problems(t, opened(t, plan))
		if len(found[merge.CodeNameCopy]) != 1 {
			t.Errorf("nobody hears that two heroes have one name: %v", found)
		}
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "1 row: texts are names of heroes but for case") {
			t.Errorf("nobody hears that a text is the name of no hero by its case only: %s", got)
		}
		sources[1].exec(t, "UPDATE heroes SET name = 'Hero8' WHERE id = "+id(2, 8))
		run(t, opened(t, plan))
		bytes := func(column string) string {
			if target.Dialect == "mysql" {
				return "CAST(" + column + " AS BINARY)"
			}
			return column
		}
		for _, c := range []struct {
			name, sql string
			want      int64
		}{
			{"letters whose sender is not the hero of the same number",
				"SELECT COUNT(*) FROM letters l JOIN heroes h ON h.id = l.id WHERE " + bytes("l.sender") + " <> " + bytes("h.name") + " AND h.gone = 0 " +
					"AND l.sender NOT LIKE '[GM]%' AND l.id NOT IN (" + id(1, 53) + ", " + id(2, 53) + ") AND l.sender <> ''", 0},
			{"senders with a new name", "SELECT COUNT(*) FROM letters WHERE sender LIKE 'Hero%.s2'", 25},
			{"other texts", "SELECT COUNT(*) FROM letters WHERE sender IN ('[GM] Hero2', '')", 4},
		} {
			if got := into.number(t, c.sql); got != c.want {
				t.Errorf("%s: %d, want %d", c.name, got, c.want)
			}
		}
		into.exec(t, "UPDATE letters SET sender = 'Hero2' WHERE id = "+id(2, 2))
		if got := failures(t, opened(t, plan)); len(got) == 0 {
			t.Error("verify does not see that a letter has the name of another hero")
		}
	})
}

// A check goes on to the end, whatever the target lacks.
func TestNamesOfATableThatTheTargetLacksAreLookedFor(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (id BIGINT PRIMARY KEY, name VARCHAR(30) NOT NULL)",
			"CREATE TABLE letters (id BIGINT PRIMARY KEY, sender VARCHAR(30) NOT NULL)"}
		var rows []string
		for n := 1; n <= 30; n++ {
			rows = append(rows, fmt.Sprintf("INSERT INTO heroes VALUES (%s, 'Hero%d')", id(1, n), n),
				fmt.Sprintf("INSERT INTO letters VALUES (%s, 'Hero%d')", id(1, n), n))
		}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}, "letters": {Policy: merge.Copy},
		}, rows, nil)
		into.exec(t, "DROP TABLE heroes")
		if _, found := problems(t, opened(t, plan)); len(found[merge.CodeMissingTable]) != 1 {
			t.Errorf("nobody hears that the target lacks the table: %v", found)
		}
	})
}

// Money that stands beside the key of its owner, as a text, is that of the owner, and not of who had the same key on
// another server. The tables whose rows become one, or may not be equal, are called before and behind the owners.
func TestRowsAreComparedByTheNewNamesThatTheyRepeat(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE players (citizen VARCHAR(20) PRIMARY KEY, tag VARCHAR(20))"}
		tables := map[string]*merge.TablePlan{"players": {Policy: merge.Rename,
			Rename: &merge.RenamePlan{Column: "citizen"}}}
		for _, name := range []string{"accounts", "savings", "badges", "stats"} {
			schema = append(schema, "CREATE TABLE "+name+" (owner VARCHAR(20) PRIMARY KEY, money BIGINT, tag VARCHAR(20))")
			tables[name] = &merge.TablePlan{Policy: merge.Sum, Key: []string{"owner"}, Sum: []string{"money"}}
			if strings.HasSuffix(name, "s") && len(name) < 7 {
				tables[name] = &merge.TablePlan{Policy: merge.Copy}
			}
			r := tables["players"].Rename
			r.Copies = append(r.Copies, merge.NameCopy{Table: name, Column: "owner"})
		}
		server := func(number int) (all []string) {
			for n := range 30 {
				citizen := fmt.Sprintf("QB%d", n)
				all = append(all, fmt.Sprintf("INSERT INTO players VALUES ('%s', '%d')", citizen, number))
				for _, name := range []string{"accounts", "savings", "badges", "stats"} {
					all = append(all, fmt.Sprintf("INSERT INTO %s VALUES ('%s', %d, '%d')", name, citizen, n*number, number))
				}
			}
			return all
		}
		_, into, plan := small(t, target, schema, tables, server(1), server(2))
		if _, found := problems(t, opened(t, plan)); len(found) > 0 {
			t.Errorf("problems: %v", found)
		}
		run(t, open(t, plan))
		for _, name := range []string{"accounts", "savings", "badges", "stats"} {
			if n := into.number(t, "SELECT COUNT(*) FROM "+name+
				" m JOIN players p ON p.citizen = m.owner AND p.tag = m.tag"); n != 60 {
				t.Errorf("%s: %d of 60 rows have their owner", name, n)
			}
		}
	})
}

// Where the names of two tables stand in each other, one table has to come first, and that is possible unless rows of
// both are compared by them.
func TestNamesInACircleAreComparedByTheNewOnes(t *testing.T) {
	t.Parallel()
	schema := func(unique string) []string {
		return []string{"CREATE TABLE clans (name VARCHAR(20) PRIMARY KEY, leader VARCHAR(20) UNIQUE, tag VARCHAR(20))",
			"CREATE TABLE heroes (name VARCHAR(20) PRIMARY KEY, clan VARCHAR(20)" + unique + ", tag VARCHAR(20))"}
	}
	server := func(number int) (all []string) {
		for n := range 20 {
			all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES ('Hero%d', 'Clan%d', '%d')", n, n, number),
				fmt.Sprintf("INSERT INTO clans VALUES ('Clan%d', 'Hero%d', '%d')", n, n, number))
		}
		return all
	}
	tables := map[string]*merge.TablePlan{
		"clans": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name",
			Copies: []merge.NameCopy{{Table: "heroes", Column: "clan"}}}},
		"heroes": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name",
			Copies: []merge.NameCopy{{Table: "clans", Column: "leader"}}}},
	}
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, schema(" UNIQUE"), tables, server(1), server(2))
		refused(t, into, plan, merge.CodePlan, "before the new names of heroes in it are known")
		_, into, plan = small(t, target, schema(""), tables, server(1), server(2))
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM clans c JOIN heroes h ON h.name = c.leader AND h.clan = c.name "+
			"AND h.tag = c.tag"); n != 40 {
			t.Errorf("%d of 40 clans have their leader", n)
		}
	})
}

// A house of the map has the name of its owner, a player belongs to an account, and an account bids for a house. No
// constraint says in which order they come, so the names come before the houses, which are compared.
func TestRowsInACircleThatNothingOrdersAreComparedByTheNewNames(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE accounts (id BIGINT PRIMARY KEY, house BIGINT)",
		"CREATE TABLE houses (id BIGINT PRIMARY KEY, owner BIGINT, owner_name VARCHAR(20))",
		"CREATE TABLE players (id BIGINT PRIMARY KEY, account BIGINT, name VARCHAR(20) UNIQUE)"}
	server := func(number int) (all []string) {
		for n := 1; n <= 5; n++ {
			all = append(all, fmt.Sprintf("INSERT INTO accounts VALUES (%s, %d)", id(number, n), n+3*number),
				fmt.Sprintf("INSERT INTO players VALUES (%s, %s, 'P%d')", id(number, n+5), id(number, n), n),
				fmt.Sprintf("INSERT INTO houses VALUES (%d, %s, 'P%d')", n+3*number, id(number, n+5), n))
		}
		return all
	}
	refers := func(column, table string) []merge.Reference { return []merge.Reference{{Column: column, Table: table}} }
	tables := map[string]*merge.TablePlan{
		"accounts": {Policy: merge.Copy, References: refers("house", "houses")},
		"houses":   {Policy: merge.KeepFirst, Key: []string{"id"}, References: refers("owner", "players")},
		"players": {Policy: merge.Rename, References: refers("account", "accounts"), Rename: &merge.RenamePlan{Column: "name",
			Copies: []merge.NameCopy{{Table: "houses", Column: "owner_name", Ref: "owner"}}}},
	}
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, schema, tables, server(1), server(2))
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM houses h JOIN players p ON p.id = h.owner AND p.name = h.owner_name"); n != 8 {
			t.Errorf("%d of 8 houses have the name of their owner", n)
		}
	})
}

// The plate of a car is longer than that of the trunk which belongs to it, and becomes longer by its new name. The
// trunk is found by its plate, so it is compared, and a plate without a key is only written.
func TestCopiesThatAreTooShortForANewNameAreNamed(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE cars (plate VARCHAR(12) PRIMARY KEY)",
			"CREATE TABLE trunks (plate VARCHAR(8) PRIMARY KEY)",
			"CREATE TABLE visits (id BIGINT PRIMARY KEY, plate VARCHAR(8))"}
		server := func(number int) (all []string) {
			for n := range 5 {
				all = append(all, fmt.Sprintf("INSERT INTO cars VALUES ('ABC 12%d')", n),
					fmt.Sprintf("INSERT INTO trunks VALUES ('ABC 12%d')", n),
					fmt.Sprintf("INSERT INTO visits VALUES (%s, 'ABC 12%d')", id(number, n+1), n))
			}
			return all
		}
		car := &merge.RenamePlan{Column: "plate", Copies: []merge.NameCopy{{Table: "visits", Column: "plate"}}}
		tables := map[string]*merge.TablePlan{"cars": {Policy: merge.Rename, Rename: car},
			"trunks": {Policy: merge.Skip}, "visits": {Policy: merge.Copy}}
		_, into, plan := small(t, target, schema, tables, server(1), server(2))
		says := "plate: 5 rows: longer than the 8 characters"
		refused(t, into, plan, merge.CodeTooLong, "s2: visits: "+says)
		tables["trunks"].Policy, car.Copies = merge.Copy, append(car.Copies, merge.NameCopy{Table: "trunks", Column: "plate"})
		refused(t, into, plan, merge.CodeTooLong, "s2: trunks: "+says)
		refused(t, into, plan, merge.CodeTooLong, "the new names of cars shorter")
		car.Max, car.Format = 8, "{name}{server}"
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM trunks WHERE plate LIKE '%2'"); n != 6 {
			t.Errorf("%d trunks have a new plate, or that with 2", n)
		}
	})
}

// All of the texts that are compared with names go to the server in one statement, which takes no more than a packet.
// That of MariaDB has 16 MB, and the others take more.
func TestLongTextsAreComparedWithNamesByTheirBeginning(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, []dbtest.Target{dbtest.Named("mariadb")}, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE players (name VARCHAR(20) NOT NULL PRIMARY KEY)",
			"CREATE TABLE chests (id BIGINT PRIMARY KEY, content LONGTEXT)"}
		server := func(number int, own string) []string {
			statements := []string{fmt.Sprintf("INSERT INTO players VALUES ('Ann'), ('%s')", own)}
			for i := range 200 {
				statements = append(statements, fmt.Sprintf("INSERT INTO chests VALUES (%s, CONCAT('%d ', REPEAT('sword ', 20000)))",
					id(number, i+1), i))
			}
			return statements
		}
		tables := map[string]*merge.TablePlan{"chests": {Policy: merge.Copy}, "players": {Policy: merge.Rename,
			Rename: &merge.RenamePlan{Column: "name"}}}
		_, _, plan := small(t, target, schema, tables, server(1, "Eve"), server(2, "Bob"))
		if _, found := problems(t, open(t, plan)); len(found) > 0 {
			t.Errorf("check found %v", found)
		}
	})
}

// Names may be in a character set that lacks the letters of a text that is none of them.
func TestATextInOtherLettersIsNoNameOfAnotherServer(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE players (citizen VARCHAR(20) CHARACTER SET latin1 NOT NULL PRIMARY KEY)",
			"CREATE TABLE cars (id BIGINT PRIMARY KEY, owner VARCHAR(20) CHARACTER SET utf8mb4)"}
		server := func(number int, own string) []string {
			return []string{fmt.Sprintf("INSERT INTO players VALUES ('Ann'), ('%s')", own),
				fmt.Sprintf("INSERT INTO cars VALUES (%s, 'Жan'), (%s, 'Bob')", id(number, 1), id(number, 2))}
		}
		tables := map[string]*merge.TablePlan{"cars": {Policy: merge.Copy}, "players": {Policy: merge.Rename,
			Rename: &merge.RenamePlan{Column: "citizen", Copies: []merge.NameCopy{{Table: "cars", Column: "owner"}}}}}
		_, _, plan := small(t, target, schema, tables, server(1, "Eve"), server(2, "Bob"))
		report, found := problems(t, open(t, plan))
		if len(found) > 0 || !strings.Contains(fmt.Sprint(report.Warnings), "s1: cars: owner: 1 row: texts are names") {
			t.Errorf("check found %v and warns of %s", found, report.Warnings)
		}
	})
}

// A car has its plate once more within what the game knows of it, where no copy of a name follows.
func TestNamesInsideOfDocumentsAreNotLeftBehindInSilence(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE cars (plate VARCHAR(12) PRIMARY KEY, props TEXT)",
			"CREATE TABLE papers (id BIGINT PRIMARY KEY, signed TEXT)"}
		server := func(number int) (all []string) {
			for n := range 30 {
				all = append(all, fmt.Sprintf(`INSERT INTO cars VALUES ('ABC %d', '{"model":%d,"paint":{"name":"red %d"},"plate":"ABC %d"}')`,
					n, n, n, n), fmt.Sprintf(`INSERT INTO papers VALUES (%s, '[{"car":"ABC %d","no":"%d"},{"car":"ABC 0"}]')`,
					id(number, n+1), n, n))
			}
			return all
		}
		tables := map[string]*merge.TablePlan{"papers": {Policy: merge.Copy},
			"cars": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "plate"}}}
		_, _, plan := small(t, target, schema, tables, server(1), server(2))
		report, found := problems(t, open(t, plan))
		if len(found) > 0 {
			t.Errorf("problems: %v", found)
		}
		got := fmt.Sprint(report.Warnings)
		for _, says := range []string{"cars: props: texts at $.plate of its documents may be names of cars",
			"papers: signed: texts at $[*].car of its documents may be names of cars", "s2: 30 of 30 texts are names"} {
			if !strings.Contains(got, says) {
				t.Errorf("nobody hears that %q: %s", says, got)
			}
		}
		if strings.Contains(got, "paint") || strings.Contains(got, ".no") {
			t.Errorf("what is no name is taken for one: %s", got)
		}
		plan.Plain = []string{"cars.props", "papers.signed"}
		if report, _ = problems(t, open(t, plan)); strings.Contains(fmt.Sprint(report.Warnings), "documents") {
			t.Errorf("it is said again: %v", report.Warnings)
		}
	})
}

// A list of deaths has the names of heroes beside those of beasts, and another column says which a row has. Once a
// hero has another name, the old one is that of somebody else.
func TestNamesInTheRowsOfOneKindAreAskedAbout(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE)",
			"CREATE TABLE deaths (id BIGINT NOT NULL PRIMARY KEY, hero BIGINT NOT NULL REFERENCES heroes(id), " +
				"killer VARCHAR(50) NOT NULL, by_hero SMALLINT NOT NULL, weapon VARCHAR(20) NOT NULL)",
			"CREATE TABLE spells (id BIGINT NOT NULL PRIMARY KEY, spell VARCHAR(20) NOT NULL, learned SMALLINT NOT NULL)"}
		server := func(number int, own string) (all []string) {
			hero := func(n int) string { return fmt.Sprintf("%s%d", []string{"Hero", own}[n%2], n) }
			for n := range 180 {
				killer, by := hero(n*7%90), 1
				if n%3 > 0 {
					killer, by = fmt.Sprintf("a beast %d", n%30), 0
				}
				spell := fmt.Sprintf("Spell%d", n/2)
				if n < 24 { // some are called like heroes
					spell = hero(n)
				}
				if n < 90 {
					all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%s, '%s')", id(number, n+1), hero(n)))
				}
				all = append(all, fmt.Sprintf("INSERT INTO deaths VALUES (%s, %s, '%s', %d, 'Axe %d')", id(number, n+1), id(number, n%90+1), killer, by, n%9),
					fmt.Sprintf("INSERT INTO spells VALUES (%s, '%s', %d)", id(number, n+1), spell, n%4/2))
			}
			return all
		}
		_, into, plan := small(t, target, schema, nil, server(1, "A"), server(2, "B"))
		draft := draftOf(t, plan)
		open := draft.Tables["deaths"].Undecided
		if len(open) != 1 || open[0].Column != "killer" || open[0].As != "names" || open[0].With != "" ||
			!strings.Contains(open[0].Evidence, `where by_hero is "1", s1: 30 of 30 texts are names`) {
			t.Errorf("the deaths: %+v", open)
		}
		if open := draft.Tables["spells"].Undecided; len(open) > 0 {
			t.Errorf("the spells: %+v", open)
		}
		draft.Tables["deaths"].Undecided = nil
		report, _ := problems(t, opened(t, draft))
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "deaths: killer: its texts may be names of heroes") {
			t.Errorf("nobody hears that old names stay in deaths: %s", got)
		}
		draft.Tables["heroes"].Rename.Copies = []merge.NameCopy{{Table: "deaths", Column: "killer"}}
		m := opened(t, draft)
		run(t, m)
		verified(t, m)
		if n := into.number(t, "SELECT COUNT(*) FROM deaths JOIN heroes ON name = killer WHERE by_hero = 1"); n != 120 {
			t.Errorf("%d of 120 killers are known", n)
		}
	})
}

// A store of settings has the key of a hero within the text that is the key of its row. A way that check names has to
// be one that it does not refuse then.
func TestKeysWithinTextsThatAreKeysThemselvesHaveAWay(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (COUNTED, level BIGINT NOT NULL)",
			"CREATE TABLE store (name VARCHAR(60) NOT NULL PRIMARY KEY, val BIGINT NOT NULL)"}
		server := func(number int) (all []string) {
			for n := 1; n <= 60; n++ {
				all = append(all, fmt.Sprintf("INSERT INTO heroes (level) VALUES (%d)", n%9*number),
					fmt.Sprintf("INSERT INTO store VALUES ('hero.%d.points', %d)", n, n*number))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server(1), server(2))
		_, found := problems(t, opened(t, draftOf(t, plan)))
		got := fmt.Sprint(found[merge.CodeUndecided])
		if !strings.Contains(got, "begin the values with the name of their server") || strings.Contains(got, "set:") {
			t.Errorf("what check says of the store: %s", got)
		}
	})
}

// A log has the names of players who were deleted, too.
func TestTextsOfWhichHalfAreNamesAreAskedAbout(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE)",
			"CREATE TABLE deeds (id BIGINT NOT NULL PRIMARY KEY, doer VARCHAR(20) NOT NULL, town VARCHAR(20) NOT NULL)"}
		server := func(number int, own string) (all []string) {
			for n := range 60 {
				name := fmt.Sprintf("%s%d", []string{"Hero", own}[n%2], n)
				all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%s, '%s')", id(number, n+1), name))
				doer, town := name, name
				if n >= 36 {
					doer = "Gone" + name
				}
				if n >= 24 {
					town = "Town" + name
				}
				all = append(all, fmt.Sprintf("INSERT INTO deeds VALUES (%s, '%s', '%s')", id(number, n+1), doer, town))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server(1, "A"), server(2, "B"))
		var asked []string
		for _, o := range draftOf(t, plan).Tables["deeds"].Undecided {
			asked = append(asked, o.Column)
		}
		if got := strings.Join(asked, " "); got != "doer" {
			t.Errorf("asked about %q, want the doer of whom 36 of 60 are names, and not the town with 24", got)
		}
	})
}

// The guests of a house stand in a list, and a log has sentences about heroes. After a rename they let in and speak of
// somebody else. A few texts that are nothing but names are copies of them; titles with words of names are none.
func TestNamesWithinTextsAreNotLeftBehindInSilence(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE)",
			"CREATE TABLE houses (id BIGINT NOT NULL PRIMARY KEY, guests VARCHAR(400), rooms VARCHAR(400))",
			"CREATE TABLE sales (id BIGINT NOT NULL PRIMARY KEY, text VARCHAR(400), motto VARCHAR(400))",
			"CREATE TABLE bans (id BIGINT NOT NULL PRIMARY KEY, who VARCHAR(40), why VARCHAR(40))",
			"CREATE TABLE crowns (id BIGINT NOT NULL PRIMARY KEY, smith VARCHAR(40))"}
		server := func(number int) (all []string) {
			name := func(n int) string {
				return fmt.Sprintf("%s %s", []string{"Aldor", "Of" + fmt.Sprint(number)}[n%2], strings.Repeat(string(rune('a'+n%26)), 3+n/26))
			}
			for n := range 60 {
				all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%s, '%s')", id(number, n+1), name(n)),
					fmt.Sprintf("INSERT INTO houses VALUES (%s, '%s\n@%s\n%s', 'hall, room %d')", id(number, n+1), name(n), name((n+7)%60),
						name((n+13)%60), n),
					fmt.Sprintf("INSERT INTO sales VALUES (%s, 'Gift no. %d of %s for this day', 'Aldor and day %d')", id(number, n+1), n,
						[]string{name(n), "the shop"}[n%3/2], n))
				if n%4 == 0 { // some smiths were deleted
					all = append(all, fmt.Sprintf("INSERT INTO crowns VALUES (%s, '%s%s')", id(number, n+1), name(n), []string{"", "", "", "", "x"}[n/4%5]))
				}
				if n%15 == 0 {
					all = append(all, fmt.Sprintf("INSERT INTO bans VALUES (%s, '%s', 'bot %d')", id(number, n+1), name(n), n))
				}
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server(1), server(2))
		draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "plan.yaml")
		if err := draft.Save(path); err != nil {
			t.Fatal(err)
		}
		if draft, err = merge.Load(path); err != nil {
			t.Fatal(err)
		}
		for table, want := range map[string]string{"houses": "[guests: names in lists of heroes.name]", "sales": "[]",
			"bans": "[who: names of heroes.name]", "crowns": "[smith: names of heroes.name]"} {
			var got []string
			for _, o := range draft.Tables[table].Undecided {
				got = append(got, fmt.Sprintf("%s: %s of %s", o.Column, o.As, o.Candidate))
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%s: %v is undecided, want %s", table, got, want)
			}
			draft.Tables[table].Undecided = nil
		}
		report, found := problems(t, opened(t, draft, merge.WithLock(lock)))
		if len(found) > 0 {
			t.Errorf("problems: %v", found)
		}
		got := fmt.Sprint(report.Warnings)
		for _, want := range []string{"words in lists may be names of heroes,", "words in sentences may be names of heroes,",
			"its texts may be names of heroes,"} {
			if !strings.Contains(got, want) {
				t.Errorf("nobody hears that %s: %s", want, got)
			}
		}
		for _, column := range []string{"rooms", "motto", "why"} {
			if strings.Contains(got, column) {
				t.Errorf("%s holds no names: %s", column, got)
			}
		}
	})
}

// The subjects of a few letters differ by chance, and two servers have one in common. Whoever renames them changes what
// people have written. Callsigns that only the game keeps apart are equal on both servers more often.
func TestTextsThatMayDifferByChanceAreNotTakenForNames(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE letters (id BIGINT NOT NULL PRIMARY KEY, subject VARCHAR(40))",
			"CREATE TABLE pilots (id BIGINT NOT NULL PRIMARY KEY, callsign VARCHAR(40))",
			"CREATE TABLE heroes (id BIGINT NOT NULL PRIMARY KEY, hero_name VARCHAR(40))",
			"CREATE TABLE parcels (id BIGINT NOT NULL PRIMARY KEY, subject VARCHAR(40), code VARCHAR(40))"}
		server := func(n int) (all []string) {
			for i := range 30 {
				subject, callsign := fmt.Sprintf("About %d of %d", i, n), fmt.Sprintf("owl%d.%d", n, i)
				if i < 2 {
					subject = fmt.Sprintf("Hello %d", i)
				}
				if i%3 == 0 {
					callsign = fmt.Sprintf("owl%d", i)
				}
				all = append(all, fmt.Sprintf("INSERT INTO letters VALUES (%s, '%s')", id(n, i), subject),
					fmt.Sprintf("INSERT INTO pilots VALUES (%s, '%s')", id(n, i), callsign),
					fmt.Sprintf("INSERT INTO heroes VALUES (%s, '%s the Bold')", id(n, i), subject),
					fmt.Sprintf("INSERT INTO parcels VALUES (%s, '%s', '%s')", id(n, i), subject, callsign))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server(1), server(2))
		draft, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		if p := draft.Tables["letters"]; p.Policy != merge.NotDecided {
			t.Errorf("letters are drafted as %+v", p)
		}
		if p := draft.Tables["pilots"]; p.Policy != merge.Rename || p.Rename.Column != "callsign" {
			t.Errorf("pilots are drafted as %+v", p)
		}
		if p := draft.Tables["heroes"]; p.Policy != merge.Rename || p.Rename.Column != "hero_name" {
			t.Errorf("heroes are drafted as %+v", p)
		}
		if p := draft.Tables["parcels"]; p.Policy != merge.Rename || p.Rename.Column != "code" || !strings.Contains(p.Note, "in subject") {
			t.Errorf("parcels are drafted as %+v", p)
		}
		_, found := problems(t, opened(t, draft))
		if p := found[merge.CodeUndecided]; len(p) != 1 || !strings.Contains(p[0].Remedy, "give it a policy: copy, if several rows may have "+
			"the same text there, such as a subject; or rename, with column: subject, if it is a name that no two rows may have") {
			t.Errorf("check found %v", found)
		}
	})
}
