package merge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
)

// draftOf drafts a plan without tables.
func draftOf(t *testing.T, plan *merge.Plan) *merge.Plan {
	t.Helper()
	drafted, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
	if err != nil {
		t.Fatal(err)
	}
	return drafted
}

// TestADraftLeavesNoRowsBehind that lie in another schema. What migrations make anew is listed as left out.
func TestADraftLeavesNoRowsBehind(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE VIEW now AS SELECT 1 AS n", "CREATE SCHEMA config", "CREATE TABLE config.maps (id BIGINT)"}
	_, into, plan := small(t, dbtest.Named("postgres"), schema, nil, nil, nil)
	draft := draftOf(t, plan)
	if len(draft.LeftOut) != 1 || draft.LeftOut[0].Name != "now" {
		t.Errorf("the draft leaves out %+v", draft.LeftOut)
	}
	refused(t, into, draft, merge.CodeLeftOut, "config.maps")
}

// A unique key can be made the primary key, which the policies for rows that become one need.
func TestADraftSaysWhatATableWithoutAPrimaryKeyNeeds(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		rows := []string{"INSERT INTO settings VALUES ('motd', 1), ('rate', 2)"}
		_, into, plan := small(t, target, []string{"CREATE TABLE settings (name VARCHAR(9) NOT NULL UNIQUE, n INTEGER)"}, nil, rows, rows)
		refused(t, into, draftOf(t, plan), merge.CodeUndecided, "keep_first, or newest with by:, once (name) is the primary key")
	})
}

func TestADraftHasAPolicyForEveryTable(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := games(t, []dbtest.Target{target, target}, target, gameworld.Config{Roles: 40, Clash: 0.3,
			Faults: gameworld.Faults{MissingTable: "friends"}})
		plan.Tables, plan.Conserve = map[string]*merge.TablePlan{"mail": {Policy: merge.Rebuild}}, nil
		draft := draftOf(t, plan)
		for name, want := range map[string]merge.Policy{
			"roles": merge.Rename, "guilds": merge.Rename, "accounts": merge.Copy, "items": merge.Copy,
			"friends": merge.Copy, "gold_ledger": merge.Copy, "login_log": merge.Copy, "mail": merge.Rebuild,
			// On both servers these have rows with equal keys, and no key says what that means.
			"rankings": merge.NotDecided, "settings": merge.NotDecided, "counters": merge.NotDecided,
			"world": merge.NotDecided,
		} {
			if p := draft.Tables[name]; p == nil || p.Policy != want || p.Note == "" && name != "mail" {
				t.Errorf("%s: %+v, want %s", name, p, want)
			}
		}
		if draft.Tables["login_log"].Renumber != merge.Apart || draft.Tables["items"].Renumber != "" {
			t.Error("the wrong keys are taken for counted ones")
		}
		if p := draft.Tables["roles"].Rename; p.Column != "nickname" {
			t.Errorf("roles are renamed by %+v", p)
		}
		if len(draft.Conserve) == 0 || draft.Conserve[0].Expression != "SUM(gold)" {
			t.Errorf("to conserve is %+v", draft.Conserve)
		}
		if len(plan.Tables) != 1 {
			t.Error("the plan itself was changed")
		}
		for name, p := range map[string]*merge.TablePlan{"rankings": {Policy: merge.Rebuild},
			"settings": {Policy: merge.KeepFirst, Key: []string{"name"}}, "world": {Policy: merge.KeepFirst, Key: []string{"id"}},
			"counters": {Policy: merge.Sum, Key: []string{"name"}, Sum: []string{"amount"}}} {
			draft.Tables[name] = p
		}
		run(t, open(t, draft))
	})
}

// What a table is called says nothing. A row is dropped, or becomes one with another, by somebody's word only.
func TestADraftDropsNoRow(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		item := func(table, values string) string { return "INSERT INTO " + table + " VALUES (" + values + ")" }
		schema := []string{
			"CREATE TABLE player_settings (id BIGINT NOT NULL PRIMARY KEY, volume INTEGER)",
			"CREATE TABLE arena_rank (id BIGINT NOT NULL PRIMARY KEY, place INTEGER)",
			"CREATE TABLE schema_migrations (version VARCHAR(20) NOT NULL PRIMARY KEY)",
			"CREATE TABLE codes (id BIGINT NOT NULL PRIMARY KEY, code VARCHAR(20) NOT NULL UNIQUE)",
			"CREATE TABLE accounts (COUNTED, login VARCHAR(20) NOT NULL UNIQUE, paid INTEGER)",
			"CREATE TABLE heroes (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE)",
			"CREATE TABLE hero_stats (hero_id BIGINT NOT NULL PRIMARY KEY, bank_balance INTEGER, " +
				"FOREIGN KEY (hero_id) REFERENCES heroes (id))",
			"CREATE TABLE bags (hero_id BIGINT NOT NULL, slot INTEGER NOT NULL, PRIMARY KEY (hero_id, slot))",
			"CREATE TABLE days (day BIGINT NOT NULL PRIMARY KEY, logins INTEGER)",
			"CREATE TABLE realm_days (realm INTEGER NOT NULL, day INTEGER NOT NULL, PRIMARY KEY (realm, day))",
			"CREATE TABLE visits (COUNTED, day INTEGER)",
			"CREATE TABLE texts (name VARCHAR(20) NOT NULL PRIMARY KEY)",
		}
		rows := func(server int) (all []string) {
			key := id(server, 1)
			return []string{
				item("player_settings", key+", 1"), item("arena_rank", key+", 1"), item("schema_migrations", "'1'"),
				item("codes", key+", 'x'"), item("heroes", key+", 'Ann'"), item("hero_stats", key+", 5"),
				item("bags", key+", 1"), item("days", "1, 5"), item("realm_days", fmt.Sprint(server, ", 1")),
				"INSERT INTO visits (id, day) VALUES (1, 1), (2, 1)",
				"INSERT INTO accounts (id, login, paid) VALUES (1, 'Ann', 5), (2, 'Bob', 5)",
			}
		}
		servers, into, plan := small(t, target, schema, nil, append(rows(1), "INSERT INTO texts VALUES ('a')"),
			append(rows(2), "CREATE TABLE pets (id BIGINT NOT NULL PRIMARY KEY)", "INSERT INTO pets VALUES (1)"))
		into.exec(t, "INSERT INTO schema_migrations VALUES ('1')")
		for _, b := range append(servers, into) {
			if _, err := gormlease.New(b.DB, gormlease.WithTable("holders")); err != nil {
				t.Fatal(err)
			}
		}
		draft := draftOf(t, plan)
		for name, want := range map[string]merge.Policy{
			"player_settings": merge.Copy, "arena_rank": merge.Copy, "heroes": merge.Rename,
			"hero_stats": merge.Copy, "bags": merge.Copy, "realm_days": merge.Copy, "visits": merge.Copy,
			"texts":             merge.Copy, // only one server has a row
			"schema_migrations": merge.NotDecided, "codes": merge.NotDecided, "accounts": merge.NotDecided, "days": merge.NotDecided,
			"pets": merge.NotDecided, "holders": merge.NotDecided,
		} {
			if p := draft.Tables[name]; p == nil || p.Policy != want || p.Note == "" {
				t.Errorf("%s: %+v, want %s", name, p, want)
			}
		}
		if draft.Tables["visits"].Renumber != merge.Apart || draft.Tables["hero_stats"].Renumber != "" {
			t.Error("the wrong keys are renumbered")
		}
		if want := (merge.ConservedSum{Name: "hero_stats bank_balance", Table: "hero_stats",
			Expression: "SUM(bank_balance)"}); !slices.Equal(draft.Conserve, []merge.ConservedSum{want}) {
			t.Errorf("to conserve is %+v, want %+v", draft.Conserve, want)
		}

		// Nothing of such a plan runs, and check says what there is to choose from.
		m := open(t, draft)
		_, found := problems(t, m)
		for name, says := range map[string]string{
			"schema_migrations": "skip, if", "codes": "rename, with column: code, if", "days": "keep_first",
			"pets": "the migrations of the game", "holders": "skip, ", "accounts": "added up (either with renumber: true",
		} {
			if !slices.ContainsFunc(found[merge.CodeUndecided], func(p merge.Problem) bool {
				return p.Table == name && strings.Contains(p.Remedy, says)
			}) {
				t.Errorf("%s: check found %v, want a remedy that says %q", name, found[merge.CodeUndecided], says)
			}
		}
		if n := len(found[merge.CodeUndecided]); n != 6 {
			t.Errorf("%d tables are undecided, want 6: %v", n, found)
		}
		if _, err := m.Run(t.Context()); !errors.Is(err, merge.ErrUndecided) {
			t.Errorf("the run ended with %v", err)
		}
		if n := into.number(t, "SELECT COUNT(*) FROM heroes"); n != 0 {
			t.Errorf("%d rows were copied", n)
		}
		for _, name := range into.tables(t) {
			if strings.HasPrefix(name, "merge_") {
				t.Errorf("the target has a table %s", name)
			}
		}
		for _, name := range []string{"schema_migrations", "pets", "holders"} {
			draft.Tables[name].Policy = merge.Skip
		}
		draft.Tables["codes"] = &merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"code"}}
		draft.Tables["days"] = &merge.TablePlan{Policy: merge.Sum, Key: []string{"day"}, Sum: []string{"logins"}}
		draft.Tables["accounts"] = &merge.TablePlan{Policy: merge.Sum, Key: []string{"login"}, Sum: []string{"paid"}, Renumber: merge.Behind}
		run(t, open(t, draft))
	})
}

// A name that is a key only together with an owner can be what the program looks for. A text that is the primary key
// cannot be renumbered, and nothing tells equal rows apart where there is no key.
func TestADraftAdvisesOnlyWhatCanBe(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE stores (COUNTED, name VARCHAR(20) NOT NULL, owner VARCHAR(20) NOT NULL, UNIQUE (name, owner))",
			"CREATE TABLE items (kind VARCHAR(20) PRIMARY KEY, label VARCHAR(20))",
			"CREATE TABLE users (id BIGINT PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE, phone VARCHAR(20))", "CREATE TABLE gangs (tag VARCHAR(20))"}
		rows := func(first int) (all []string) {
			all = append(all, fmt.Sprintf("INSERT INTO gangs VALUES ('of %d')", first)) // Only most of them are the same.
			for n := range 30 {
				all = append(all, fmt.Sprintf("INSERT INTO stores (id, name, owner) VALUES (%d, 'safe', 'Ann%d')", first+n, n),
					fmt.Sprintf("INSERT INTO items VALUES ('item%d', 'Item %d')", n, n), fmt.Sprintf("INSERT INTO gangs VALUES ('gang%d')", n),
					fmt.Sprintf("INSERT INTO users VALUES (%s, 'Ann%d-%d', '555-%d')", id(first, n+1), first, n, n))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, rows(1), rows(8))
		draft := draftOf(t, plan)
		if p := draft.Tables["stores"]; p.Policy != merge.NotDecided {
			t.Errorf("the stores: %+v", p)
		}
		if p := draft.Tables["gangs"]; p.Policy != merge.Copy || !strings.Contains(p.Note, "REVIEW: without a key") {
			t.Errorf("the gangs: %+v", p)
		}
		if p := draft.Tables["users"]; p.Policy != merge.Rename || !strings.Contains(p.Note, "REVIEW: names in phone are equal") {
			t.Errorf("the users: %+v", p)
		}
		_, found := problems(t, open(t, draft))
		for _, p := range found[merge.CodeUndecided] {
			if p.Table == "items" && strings.Contains(p.Remedy, "renumber: apart") {
				t.Errorf("the items: %s", p.Remedy)
			}
		}
	})
}

// A key for sessions is made at random, and the name beside it is what two people have chosen.
func TestADraftTellsTheUniqueKeyInWhichRowsAreEqual(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE people (COUNTED, token VARCHAR(30) UNIQUE, username VARCHAR(20) NOT NULL UNIQUE, born INTEGER)"}
		server := func(own string, since int) (all []string) {
			for n := since; n < since+60; n++ {
				all = append(all, fmt.Sprintf("INSERT INTO people (token, username, born) VALUES ('%s-%x', '%s%d', %d)", own, n*n*n,
					[]string{"Same", own}[n%2], n, n*since%70))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server("A", 1), server("B", 42))
		draft := draftOf(t, plan)
		_, found := problems(t, open(t, draft))
		if got := fmt.Sprint(found[merge.CodeUndecided]); !strings.Contains(got, "unique key (username)") ||
			!strings.Contains(got, "rename, with column: username") {
			t.Errorf("the people: %s", got)
		}
	})
}

// tables returns the names of the tables of a database.
func (b base) tables(t testing.TB) []string {
	t.Helper()
	names, err := b.Migrator().GetTables()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Only the game knows that there is one planet at a place. Both servers have a universe of the same size.
func TestPlacesThatOnlyTheGameKeepsApartAreNoted(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		var rows [2][]string
		for i := range rows {
			for n := 1; n <= 200; n++ {
				rows[i] = append(rows[i], fmt.Sprintf("INSERT INTO planets VALUES (%d, %d, %d, %d, %d)", n+1000*i, 1+n*(3+i)%7,
					n*(3+2*i)%211, n%5, 100*n+i))
			}
		}
		_, _, plan := small(t, target, []string{"CREATE TABLE planets (id INTEGER NOT NULL PRIMARY KEY, galaxy INTEGER NOT NULL, " +
			"place INTEGER NOT NULL, kind INTEGER, moved INTEGER)", "CREATE INDEX planets_place ON planets (galaxy, place)",
			"CREATE INDEX planets_kind ON planets (galaxy, kind)", "CREATE INDEX planets_moved ON planets (kind, moved)"},
			map[string]*merge.TablePlan{}, rows[0], rows[1])
		plan.Tables = nil
		note := draftOf(t, plan).Tables["planets"].Note
		if !strings.Contains(note, "equal in galaxy, place, and rows of different servers are") || strings.Count(note, "no server has two") != 1 {
			t.Errorf("the note is %q", note)
		}
	})
}

// A unique number beside a key that is a text is no key of its own, unless the database counts it: it may be that of
// a leader, of whom a few guilds tell nothing.
func TestADraftRenumbersBesideTheKeyOnlyWhatTheDatabaseCounts(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE guilds (id VARCHAR(36) NOT NULL, leader INTEGER DEFAULT 0 NOT NULL, PRIMARY KEY (id), UNIQUE (leader))"}
		rows := func(first int) (all []string) {
			for n := first; n < 40; n += 7 {
				all = append(all, fmt.Sprintf("INSERT INTO guilds VALUES ('%08x-1111-4222-8333-123456789abc', %d)", first<<8+n, n))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, rows(3), rows(5))
		plan, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		if p := plan.Tables["guilds"]; p.Renumber != "" {
			t.Errorf("the draft gives leaders other numbers: %+v", p)
		}
	})
}

// Rows that become one by a text keep the number beside it of the row that stays, which nothing renumbers.
func TestNobodyIsToldToRenumberRowsThatBecomeOneByAText(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE players (code VARCHAR(20) PRIMARY KEY, id INTEGER GENERATED BY DEFAULT AS IDENTITY UNIQUE)"}
		_, _, plan := small(t, target, schema, nil, []string{"INSERT INTO players VALUES ('a', 1), ('b', 2), ('c', 4)"},
			[]string{"INSERT INTO players VALUES ('b', 1), ('c', 3)"})
		plan, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		_, found := problems(t, opened(t, plan))
		if got := fmt.Sprint(found[merge.CodeUndecided]); strings.Contains(got, "renumber: true") || !strings.Contains(got, "keep_first") {
			t.Errorf("check says %s", got)
		}
	})
}
