package merge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

const identitiesOfHeroes = `version: 1
layout: game
servers: [{name: s1, number: 1, dsn: one}, {name: s2, number: 2, dsn: two}]
target: {name: s1, number: 1, dsn: three}
identities:
  heroes: {key: id, in: ["*s.hero", "swords.maker when maker <> 0", "letters.sender when kind = 1", graves.lost_hero]}
tables:
  heroes: {policy: copy, renumber: true}
  hero_sheets: {policy: copy}
  bags: {policy: copy}
  swords: {policy: copy, renumber: true}
  letters: {policy: copy, renumber: true}
  graves: {policy: copy, renumber: true, orphans: drop}
`

func TestIdentitiesAreReferences(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		_, into, made := small(t, target, nobodySaid, nil, nobodySaidRows(1, 200), nobodySaidRows(2, 230))
		plan := mustParse(t, identitiesOfHeroes)
		plan.Servers, plan.Target = made.Servers, made.Target
		for text, column := range map[string]string{"*_pages.hero": "", "bags.owner": "owner"} {
			wrong := mustParse(t, strings.Replace(identitiesOfHeroes, "graves.lost_hero", `"`+text+`"`, 1))
			wrong.Servers, wrong.Target = made.Servers, made.Target
			_, found := problems(t, opened(t, wrong))
			if p := found[merge.CodePlan]; len(p) != 1 || p[0].Column != "id" && p[0].Column != column {
				t.Errorf("%s: check found %v", text, found)
			}
		}
		run(t, open(t, plan))
		for table, column := range map[string]string{
			"hero_sheets": "hero", "bags": "hero", "swords": "maker", "letters": "sender", "graves": "lost_hero"} {
			if n := strangers(t, into, table, column); n > 0 {
				t.Errorf("%d rows of %s refer to a stranger", n, table)
			}
		}
		if len(plan.Tables["bags"].References) > 0 {
			t.Error("the plan itself was changed")
		}
	})
}

func TestAnIdentityThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	read := mustParse(t, identitiesOfHeroes)
	text, err := read.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := merge.Parse(text); err != nil || again.Hash() != read.Hash() {
		t.Errorf("it was not written as it was read (%v):\n%s", err, text)
	}
	for _, in := range []string{"hero", "bags.", ".hero", "bags.hero when ", "[.hero", "pages.hero"} {
		wrong := strings.Replace(identitiesOfHeroes, "graves.lost_hero", `"`+in+`"`, 1)
		if _, err := merge.Parse([]byte(wrong)); !errors.Is(err, merge.ErrPlan) {
			t.Errorf("%q is read: %v", in, err)
		}
	}
	for _, part := range []string{"plain: [bags]\n", "plain: [bags.]\n", "plain: [pages.hero]\n"} {
		if _, err := merge.Parse([]byte(identitiesOfHeroes + part)); !errors.Is(err, merge.ErrPlan) {
			t.Errorf("%q is read: %v", part, err)
		}
	}
	if read.Identities["heroes"].In = nil; read.Hash() == mustParse(t, identitiesOfHeroes).Hash() {
		t.Error("the hash of the plan does not cover its identities")
	}
}

// manySheets is a game in which many tables refer to heroes by a column of one name.
func manySheets() (schema []string, rows func(server, heroes int) []string) {
	schema = slices.Clone(nobodySaid)
	tables := []string{"hero_spells", "hero_skills", "hero_gifts", "pet_owners"}
	for n, table := range tables {
		whole := []string{"INTEGER", "DECIMAL(11,0)"}[n%2] // both hold keys
		schema = append(schema, "CREATE TABLE "+table+" (hero "+whole+" NOT NULL, slot INTEGER NOT NULL, tag VARCHAR(20), PRIMARY KEY (hero, slot))")
	}
	return schema, func(server, heroes int) []string {
		all := nobodySaidRows(server, heroes)
		for n, table := range tables {
			all = append(all, fmt.Sprintf("INSERT INTO %s SELECT id, %d, tag FROM heroes WHERE id > %d", table, n, n))
		}
		return all
	}
}

// A pattern is about tables that nobody has seen as well, so the lock has to refuse those.
func TestADraftIsShortAndItsPatternsAreAboutNothingElse(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema, rows := manySheets()
		for _, c := range []struct{ schema, insert, in string }{
			{in: "*.hero"},
			{schema: "CREATE TABLE stones (hero INTEGER NOT NULL PRIMARY KEY)", insert: "INSERT INTO stones VALUES (100000), (100001)",
				in: "bags.hero hero_*.hero pet_owners.hero"},
			{schema: "CREATE TABLE hero_stones (hero INTEGER NOT NULL PRIMARY KEY)", insert: "INSERT INTO hero_stones VALUES (100000), (100001)",
				in: "bags.hero hero_gifts.hero hero_sheets.hero hero_skills.hero hero_spells.hero pet_owners.hero"},
		} {
			mine, one, two := slices.Clone(schema), rows(1, 200), rows(2, 230)
			if c.schema != "" {
				mine, one, two = append(mine, c.schema), append(one, c.insert), append(two, c.insert)
			}
			servers, into, plan := small(t, target, mine, nil, one, two)
			draft, lock := locked(t, plan)
			text, err := draft.YAML()
			if err != nil {
				t.Fatal(err)
			}
			read := mustParse(t, string(text))
			want := append(strings.Fields(c.in), "letters.sender when kind = 1", "swords.maker when maker <> 0", "graves.lost_hero")
			if in := read.Identities["heroes"].In; !slices.Equal(slices.Sorted(slices.Values(in)), slices.Sorted(slices.Values(want))) ||
				read.Hash() != draft.Hash() {
				t.Errorf("heroes are in %q, want %q", in, want)
			}
			if n := strings.Count(string(text), "\n"); n > 30 {
				t.Errorf("the plan has %d lines:\n%s", n, text)
			}
			unsure := mustParse(t, string(text))
			for _, table := range unsure.Tables { // then a pattern is about none of them yet
				table.Policy, table.Renumber = merge.NotDecided, ""
			}
			if _, found := problems(t, opened(t, unsure, merge.WithLock(lock))); len(found[merge.CodePlan]) > 0 {
				t.Errorf("check found %v", found[merge.CodePlan])
			}
			for _, stones := range []string{"stones", "hero_stones"} {
				if read.Tables[stones] != nil {
					read.Tables[stones].Policy, read.Tables[stones].Renumber = merge.Skip, ""
				}
			}
			if c.schema != "" {
				giveUp(t, read)
				run(t, opened(t, read, merge.WithLock(lock)))
				for _, table := range []string{"hero_spells", "hero_gifts", "pet_owners", "bags"} {
					if n := strangers(t, into, table, "hero"); n > 0 {
						t.Errorf("%d rows of %s refer to a stranger", n, table)
					}
				}
				continue
			}
			for _, b := range append(servers, into) {
				b.exec(t, "CREATE TABLE hero_pages (hero INTEGER NOT NULL PRIMARY KEY)", "ALTER TABLE graves ADD COLUMN hero INTEGER")
			}
			read.Tables["hero_pages"] = &merge.TablePlan{Policy: merge.Copy}
			_, found := problems(t, opened(t, read, merge.WithLock(lock)))
			refused := func(table string) bool {
				return slices.ContainsFunc(found[merge.CodeLock], func(p merge.Problem) bool { return p.Table == table && p.Column == "hero" })
			}
			if !refused("hero_pages") || !refused("graves") {
				t.Errorf("check found %v", found)
			}
			if _, err := opened(t, read, merge.WithLock(lock)).Run(t.Context()); !errors.Is(err, merge.ErrUndecided) {
				t.Errorf("the run ended with %v", err)
			}
		}
	})
}

// The list of an identity says all that a reference of one key can.
func TestAnIdentityListsKeysInDocumentsListsAndHalves(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := append(slices.Clone(packed),
			"CREATE TABLE more_cards (id BIGINT NOT NULL PRIMARY KEY, card0 INTEGER NOT NULL, card1 INTEGER NOT NULL, card2 INTEGER NOT NULL, "+
				"tag VARCHAR(20) NOT NULL)",
			"CREATE TABLE scrolls (id BIGINT NOT NULL PRIMARY KEY, props TEXT NOT NULL, members VARCHAR(200) NOT NULL)")
		server := func(server, least, rows int) []string {
			all := append(packedRows(server, least, rows), "INSERT INTO more_cards SELECT * FROM cards")
			for n := range 20 {
				all = append(all, fmt.Sprintf(`INSERT INTO scrolls VALUES (%s, '{"owner": [%d, %d]}', '%d,%d')`, id(server, n),
					least+n, least+2*n, least+n, least+n+1))
			}
			return all
		}
		tables := packedPlan()
		tables["more_cards"], tables["scrolls"] = &merge.TablePlan{Policy: merge.Copy}, &merge.TablePlan{Policy: merge.Copy}
		_, into, plan := small(t, target, schema, tables, server(1, 100_000, 300), server(2, 99_900, 250))
		plan.Identities = packedIdentities()
		players := plan.Identities["players"]
		players.In = append(players.In[:2], "*.card1+card2 bits 0-15 when card0 = 254", "scrolls.props path $.owner[*]", "scrolls.members list ,")
		text, err := plan.YAML()
		if err != nil {
			t.Fatal(err)
		}
		run(t, open(t, mustParse(t, string(text))))
		for _, table := range []string{"cards", "more_cards"} {
			if n := into.number(t, "SELECT COUNT(*) FROM "+table+" c WHERE card0 = 254 AND NOT EXISTS (SELECT 1 FROM players p WHERE "+
				"p.id = c.card1 + 65536 * c.card2 AND p.tag = c.tag)"); n != 0 {
				t.Errorf("%d halves in %s lead to a stranger", n, table)
			}
		}
		first := into.texts(t, "SELECT id FROM players WHERE tag = 's2-p99903'")[0]
		if got := into.texts(t, "SELECT CONCAT(props, ' ', members) FROM scrolls WHERE id = "+id(2, 3)); len(got) != 1 ||
			!strings.HasPrefix(got[0], `{"owner": [`+first+", ") || !strings.Contains(got[0], "} "+first+",") {
			t.Errorf("the scroll of player %s is %q", first, got)
		}
	})
}

func mustParse(t *testing.T, text string) *merge.Plan {
	t.Helper()
	plan, err := merge.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// A table may have its counted key beside a primary key of several columns, as guilds do that are known by their
// leader, too.
func TestAUniqueColumnBesideThePrimaryKeyIsAnIdentity(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE guilds (id INTEGER NOT NULL, leader BIGINT NOT NULL, name VARCHAR(20) NOT NULL, PRIMARY KEY (id, leader), UNIQUE (id))",
			"CREATE TABLE ranks (guild INTEGER NOT NULL, pos INTEGER NOT NULL, guild_name VARCHAR(20) NOT NULL, tag VARCHAR(20) NOT NULL, " +
				"PRIMARY KEY (guild, pos))",
		}
		rows := func(server int) (all []string) {
			for n := 3; n < 30; n++ {
				all = append(all, fmt.Sprintf("INSERT INTO guilds VALUES (%d, %s, 'Guild%d')", n, id(server, n), n),
					fmt.Sprintf("INSERT INTO ranks VALUES (%d, %d, 'Guild%d', '%s')", n, n%4, n, id(server, n)))
			}
			return all
		}
		for _, renumber := range []merge.Renumbering{merge.Apart, merge.Behind} {
			_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
				"guilds": {Policy: merge.Rename, Renumber: renumber, Rename: &merge.RenamePlan{Column: "name",
					Copies: []merge.NameCopy{{Table: "ranks", Column: "guild_name", Ref: "guild"}}}},
				"ranks": {Policy: merge.Copy}}, rows(1), rows(2))
			plan.Identities = map[string]*merge.Identity{"guilds": {Key: "id", In: []string{"ranks.guild"}}}
			run(t, open(t, plan))
			const right = "SELECT COUNT(*) FROM ranks r JOIN guilds g ON g.id = r.guild AND g.name = r.guild_name WHERE r.tag = "
			text := map[string]string{"postgres": "g.leader::text", "sqlite": "CAST(g.leader AS TEXT)", "mysql": "CAST(g.leader AS CHAR)"}
			if n := into.number(t, right+text[target.Dialect]); n != 54 {
				t.Errorf("renumber %s: %d of 54 ranks are right", renumber, n)
			}
			if n := into.number(t, "SELECT COUNT(DISTINCT name) FROM guilds"); n != 54 {
				t.Errorf("renumber %s: %d names of 54 guilds", renumber, n)
			}
		}
	})
}

// So it may beside a text that all servers know their rows by, and rows are led to by both. Of two with one text,
// one gives it up.
func TestAUniqueColumnBesideATextIsAnIdentity(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE players (code VARCHAR(20) NOT NULL, id INTEGER NOT NULL, mark VARCHAR(20) NOT NULL, PRIMARY KEY (code), UNIQUE (id))",
			"CREATE TABLE pets (COUNTED, owner INTEGER NOT NULL, mark VARCHAR(20) NOT NULL)",
			"CREATE TABLE homes (code VARCHAR(20) NOT NULL, mark VARCHAR(20) NOT NULL, PRIMARY KEY (code))",
		}
		rows := func(server int) (all []string) {
			for n := 3; n < 35; n++ {
				code, mark, number := fmt.Sprintf("CIT%c%c", 'A'+n%26, 'A'+n/26), id(server, n), n*3+(server*n)%3
				all = append(all, fmt.Sprintf("INSERT INTO players VALUES ('%s', %d, '%s')", code, number, mark),
					fmt.Sprintf("INSERT INTO pets (owner, mark) VALUES (%d, '%s')", number, mark),
					fmt.Sprintf("INSERT INTO homes VALUES ('%s', '%s')", code, mark))
			}
			return all
		}
		_, into, plan := small(t, target, schema, nil, rows(1), rows(2))
		plan, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		if in := plan.Identities["players"]; in == nil || in.Key != "id" || !slices.Contains(in.In, "pets.owner") {
			t.Fatalf("the draft has the identities %v", plan.Identities)
		}
		plan.Tables["players"] = &merge.TablePlan{Policy: merge.Rename, Rename: &merge.RenamePlan{
			Column: "code", Copies: []merge.NameCopy{{Table: "homes", Column: "code"}}}}
		plan.Tables["homes"].Policy = merge.Copy
		_, found := problems(t, opened(t, plan))
		if got := fmt.Sprint(found[merge.CodeUniqueKey]); !strings.Contains(got, "by renumber: apart") ||
			strings.Contains(got, "by set:") { // to which no reference would lead
			t.Errorf("of equal numbers check says %s", got)
		}
		plan.Tables["players"].Renumber = merge.Apart
		run(t, open(t, plan))
		for _, child := range []string{"pets c ON c.owner = p.id", "homes c ON c.code = p.code"} {
			if n := into.number(t, "SELECT COUNT(*) FROM players p JOIN "+child+" AND c.mark = p.mark"); n != 64 {
				t.Errorf("%d of 64 lead to their player: %s", n, child)
			}
		}
	})
}

// A key with decimals is none that a database counts, such as the number of an account elsewhere. Other tables
// then know a row by the whole number beside it.
func TestAUniqueColumnBesideADecimalIsAnIdentity(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE players (account DECIMAL(20,0) NOT NULL, id INTEGER NOT NULL, mark VARCHAR(20) NOT NULL, PRIMARY KEY (account), UNIQUE (id))",
			"CREATE TABLE pets (COUNTED, owner INTEGER NOT NULL, mark VARCHAR(20) NOT NULL)",
		}
		rows := func(server int) (all []string) {
			for n := 3; n < 9; n++ {
				all = append(all, fmt.Sprintf("INSERT INTO players VALUES (7656119%d%04d, %d, '%d %[2]d')", server, n, n, server),
					fmt.Sprintf("INSERT INTO pets (owner, mark) VALUES (%d, '%d %[1]d')", n, server))
			}
			return all
		}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"players": {Policy: merge.Copy, Renumber: merge.Apart}, "pets": {Policy: merge.Copy, Renumber: merge.Apart},
		}, rows(1), rows(2))
		plan.Identities = map[string]*merge.Identity{"players": {Key: "id", In: []string{"pets.owner"}}}
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM players p JOIN pets c ON c.owner = p.id AND c.mark = p.mark"); n != 12 {
			t.Errorf("%d of 12 lead to their player", n)
		}
	})
}

// What leads to the number of a player does not lead to the name that is the key, so a copy of that would stay.
func TestANumberBesideAKeyDoesNotSayWhoseNameIsCopied(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE players (name VARCHAR(20) NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (name), UNIQUE (id))",
			"CREATE TABLE pets (COUNTED, owner INTEGER NOT NULL, owner_name VARCHAR(20) NOT NULL, FOREIGN KEY (owner) REFERENCES players (id))",
		}
		rows := []string{"INSERT INTO players VALUES ('Bob', 3)", "INSERT INTO pets (owner, owner_name) VALUES (3, 'Bob')"}
		copied := merge.NameCopy{Table: "pets", Column: "owner_name", Ref: "owner"}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"players": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name", Copies: []merge.NameCopy{copied}},
				Renumber: merge.Apart},
			"pets": {Policy: merge.Copy, Renumber: merge.Apart},
		}, rows, rows)
		if _, found := problems(t, opened(t, plan)); len(found[merge.CodeNameCopy]) != 1 {
			t.Fatalf("check says %v", found)
		}
		plan.Tables["players"].Rename.Copies[0].Ref = ""
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM players p JOIN pets c ON c.owner = p.id AND c.owner_name = p.name"); n != 2 {
			t.Errorf("%d of 2 pets have the name of their owner", n)
		}
	})
}

// Where other tables lead to the text, even one of digits, nothing changes.
func TestAKeyOfDigitsStaysBesideANumberThatChanges(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE players (code VARCHAR(20) NOT NULL, id INTEGER NOT NULL, mark VARCHAR(20) NOT NULL, PRIMARY KEY (code), UNIQUE (id))",
			"CREATE TABLE homes (COUNTED, code VARCHAR(20) NOT NULL, owner INTEGER NOT NULL, mark VARCHAR(20) NOT NULL, " +
				"FOREIGN KEY (code) REFERENCES players (code), FOREIGN KEY (owner) REFERENCES players (id))",
		}
		rows := func(server int) (all []string) {
			for n := 3; n < 9; n++ {
				all = append(all, fmt.Sprintf("INSERT INTO players VALUES ('%d0%d', %[2]d, '%[1]d %[2]d')", server, n),
					fmt.Sprintf("INSERT INTO homes (code, owner, mark) VALUES ('%d0%d', %[2]d, '%[1]d %[2]d')", server, n))
			}
			return all
		}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"players": {Policy: merge.Copy, Renumber: merge.Apart}, "homes": {Policy: merge.Copy, Renumber: merge.Apart},
		}, rows(1), rows(2))
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM players p JOIN homes c ON c.owner = p.id AND c.mark = p.mark AND c.code = p.code"); n != 12 {
			t.Errorf("%d of 12 lead to their player", n)
		}
	})
}
