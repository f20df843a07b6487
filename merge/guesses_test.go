package merge_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A game in which the first guess is wrong. Heroes and pets were deleted, others have their names from heroes,
// and each world has the same castles and drops.
var guessed = []string{
	"CREATE TABLE heroes (COUNTED, name VARCHAR(20) NOT NULL UNIQUE)",
	"CREATE TABLE members (guild INTEGER NOT NULL, hero INTEGER NOT NULL, name VARCHAR(20) NOT NULL, PRIMARY KEY (guild, hero))",
	"CREATE TABLE finds (COUNTED, kind INTEGER NOT NULL, hero INTEGER NOT NULL)",
	"CREATE TABLE sales (COUNTED, buyer_id INTEGER NOT NULL, buyer_name VARCHAR(20) NOT NULL)",
	"CREATE TABLE pets (COUNTED, level INTEGER)",
	"CREATE TABLE eggs (COUNTED, card0 INTEGER NOT NULL, card1 INTEGER NOT NULL, card2 INTEGER NOT NULL)",
	"CREATE TABLE castles (id INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, tax INTEGER)",
	"CREATE TABLE forts (id INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, tax INTEGER)",
	"CREATE TABLE towns (COUNTED, name VARCHAR(20) NOT NULL UNIQUE)",
	"CREATE TABLE ports (COUNTED, name VARCHAR(20) NOT NULL UNIQUE)",
	"CREATE TABLE drops (COUNTED, monster INTEGER NOT NULL, item INTEGER NOT NULL)",
	"CREATE TABLE homes (COUNTED, name VARCHAR(20) NOT NULL, owner INTEGER)",
	"CREATE TABLE wars (COUNTED, loser VARCHAR(20) NOT NULL)",
}

func guessedRows(server int) (statements []string) {
	rows := map[string][]string{}
	add := func(table, format string, values ...any) {
		rows[table] = append(rows[table], "("+fmt.Sprintf(format, values...)+")")
	}
	for n := range 400 + 40*server {
		hero := 5001 + n
		name := []string{"Hero", fmt.Sprintf("Of%d", server)}[n%2] + strings.Map(func(r rune) rune { return r + 'a' - '0' }, fmt.Sprint(n))
		alive := (n*7+server)%3 != 0
		if alive {
			add("heroes (id, name)", "%d, '%s'", hero, name)
			add("finds (kind, hero)", "%d, %d", n%4, hero)
		} else if n%12 < 3 {
			add("finds (kind, hero)", "%d, %d", 1+n%3, hero)
		}
		if alive && n%4 == 0 {
			add("members (guild, hero, name)", "%d, %d, '%s'", n%9, hero, name)
		}
		if alive && n%30 < 2 || n == 102-server {
			add("sales (buyer_id, buyer_name)", "%d, '%s'", hero, name)
		}
		if n <= 150+20*server && (n*7+server)%3 != 1 {
			add("pets (id, level)", "%d, %d", n+1, n%2)
			add("eggs (card0, card1, card2)", "9, %d, 0", n+1)
		}
		add("eggs (card0, card1, card2)", "7, %d, %d", 4000+n*37%3000, n%3)
		if alive && n%8 == 2*server && (server == 1 || n < 200) {
			add("wars (loser)", "'%s'", name)
		}
	}
	for n := range 20 + server {
		add("castles (id, tax)", "%d, %d", n, server)
	}
	for n := range 9 {
		add("forts (id, tax)", "%d, %d", n+1, server)
		add("towns (name)", "'Town of %c'", 'A'+n)
		if n < 4 {
			add("ports (name)", "'Port of %c'", 'A'+n)
		}
		add("drops (monster, item)", "%d, %d", 100100+n/3, 4000000+n)
		add("homes (name, owner)", "'Home of %c', %d", 'A'+n, server)
	}
	for table, all := range rows {
		statements = append(statements, "INSERT INTO "+table+" VALUES "+strings.Join(all, ", "))
	}
	return statements
}

func TestADraftAsksWhereAGuessWouldBeWrong(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, guessed, nil, guessedRows(1), guessedRows(2))
		draft := draftOf(t, plan)
		for name, identity := range draft.Identities {
			if !slices.Equal(identity.In, []string{"members.hero"}) {
				t.Errorf("%s are in %q", name, identity.In)
			}
		}
		for table, want := range map[string][]merge.OpenColumn{
			// No kind of finds tells those of heroes: in all of them most numbers are heroes.
			"finds": {{Column: "hero", Candidate: "heroes.id"}},
			// One server has enough of them to tell.
			"wars":    {{Column: "loser", Candidate: "heroes.name", As: "names"}},
			"members": {{Column: "name", Candidate: "heroes.name", As: "names", With: "hero"}},
			"sales": {{Column: "buyer_id", Candidate: "heroes.id"},
				{Column: "buyer_name", Candidate: "heroes.name", As: "names", With: "buyer_id"}},
			// With so few pets the lower half of a key is all of it.
			"eggs": {{Column: "card1", Candidate: "pets.id", When: "card0 = 9"},
				{Column: "card1", Candidate: "pets.id", When: "card0 = 9", As: "bits 0-15", With: "card2"}},
		} {
			got := slices.Clone(draft.Tables[table].Undecided)
			for i := range got {
				got[i].Evidence = ""
			}
			if p := draft.Tables[table]; p.Policy != merge.Copy || !slices.Equal(got, want) {
				t.Errorf("%s: policy %s, undecided %+v", table, p.Policy, got)
			}
		}
		worlds := []string{"towns", "homes", "ports", "drops"}
		if target.Dialect != "sqlite" { // which counts every such key
			worlds = append(worlds, "castles", "forts")
		}
		for _, table := range worlds {
			if p := draft.Tables[table]; p.Policy != merge.NotDecided {
				t.Errorf("%s: policy %s, renumber %q: %s", table, p.Policy, p.Renumber, p.Note)
			}
		}
	})
}

// The key of a blocked address is the address as a number, and that of a word its hash: nobody has counted them, and
// with other keys they would be those of something else. What was counted has few rows left, too, or a game counts it
// from a large number on.
func TestADraftGivesNoOtherKeysToNumbersThatNobodyCounts(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE blocks (address INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, hours INTEGER)",
		"CREATE TABLE visits (COUNTED, hours INTEGER)",
		"CREATE TABLE heroes (id INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, hours INTEGER)",
		"CREATE TABLE mounts (id INTEGER NOT NULL PRIMARY KEY, hours INTEGER)"}
	server := func(number int) (all []string) {
		for n := 1; n <= 20; n++ {
			all = append(all, fmt.Sprintf("INSERT INTO blocks VALUES (%d, %d)", (n*1_234_567_891+number*7919)%2_100_000_000, n%5),
				fmt.Sprintf("INSERT INTO visits (id, hours) VALUES (%d, %d)", 20_000_000+7*n, n*number%5),
				fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", 268_435_456+3*n+number, n*number%5),
				fmt.Sprintf("INSERT INTO mounts VALUES (%d, %d)", 268_500_000+5*n+number*5, n*number%7))
		}
		return all
	}
	plans(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, schema, nil, server(1), server(2))
		draft := draftOf(t, plan)
		for _, table := range []string{"visits", "heroes"} {
			if p := draft.Tables[table]; p.Renumber != merge.Apart {
				t.Errorf("%s: policy %s, renumber %q: %s", table, p.Policy, p.Renumber, p.Note)
			}
		}
		_, found := problems(t, open(t, draft))
		if !slices.ContainsFunc(found[merge.CodeUndecided], func(p merge.Problem) bool {
			return p.Table == "blocks" && !strings.Contains(p.Remedy, "counted its own rows")
		}) {
			t.Errorf("blocks: policy %s, %v", draft.Tables["blocks"].Policy, found[merge.CodeUndecided])
		}
		if slices.ContainsFunc(found[merge.CodeUndecided], func(p merge.Problem) bool {
			return p.Table == "mounts" && p.Column == "" && !strings.Contains(p.Remedy, "counted its own rows")
		}) {
			t.Errorf("mounts: policy %s, %v", draft.Tables["mounts"].Policy, found[merge.CodeUndecided])
		}
	})
}

// A database of accounts may serve all servers. None of them has it, and who gave an account another number would
// give its heroes to somebody else. Whoever copies the rows of each server all the same would copy names twice.
func TestADraftAsksAboutKeysThatAreCalledAfterNoTable(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")), func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE account_settings (account_id INTEGER NOT NULL DEFAULT 0 PRIMARY KEY, nick_name VARCHAR(20))",
			"CREATE TABLE heroes (hero_guid INTEGER NOT NULL DEFAULT 0 PRIMARY KEY, account INTEGER NOT NULL)",
			"CREATE TABLE hero_pets (petid INTEGER NOT NULL DEFAULT 0 PRIMARY KEY, name VARCHAR(9))",
			"CREATE TABLE cities (city_id INTEGER NOT NULL DEFAULT 0 PRIMARY KEY, tax INTEGER)",
		}
		server := func(seed, accounts int) []string {
			return many(1, accounts, func(n int) string {
				account := 3*n + seed%2
				return fmt.Sprintf("INSERT INTO account_settings VALUES (%d, 'Nick%d'); INSERT INTO heroes VALUES (%d, %d);"+
					"INSERT INTO hero_pets VALUES (%d, 'p%d'); INSERT INTO cities VALUES (%d, %d)", account, n, n+seed, account,
					n+2*seed, n%4, n+3*seed, n*seed%11)
			})
		}
		split := func(all []string) []string { return strings.Split(strings.Join(all, ";"), ";") }
		_, _, plan := small(t, target, schema, nil, split(server(1, 300)), split(server(2, 200)))
		draft := draftOf(t, plan)
		for table, p := range draft.Tables {
			if asked := p.Policy == merge.NotDecided; asked != (table == "account_settings") {
				t.Errorf("%s: policy %s, %s", table, p.Policy, p.Note)
			}
		}
		_, found := problems(t, opened(t, draft))
		if !slices.ContainsFunc(found[merge.CodeUndecided], func(p merge.Problem) bool {
			return strings.Contains(p.Remedy, "rename, with column: nick_name and renumber")
		}) {
			t.Errorf("check found %v", found[merge.CodeUndecided])
		}
		// What all servers share keeps its keys, and then nobody has to say what refers to them.
		draft.Tables["account_settings"] = &merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"account_id"}}
		delete(draft.Identities, "account_settings")
		if _, found := problems(t, opened(t, draft)); len(found[merge.CodeUndeclared]) > 0 {
			t.Errorf("check found %v", found[merge.CodeUndeclared])
		}
	})
}

// A list of bans has the account as a text. A draft that renamed such a key would make of it one that leads nowhere.
func TestATextThatMayBeAKeyIsAskedAboutAndNotRenamed(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE accounts (COUNTED, level INTEGER)", "CREATE TABLE bans (COUNTED, aid VARCHAR(40))"}
		server := func(accounts int) []string {
			return many(1, accounts, func(n int) string {
				if n%5 > 0 {
					return fmt.Sprintf("INSERT INTO accounts (id, level) VALUES (%d, %d)", n+2000, n%9)
				}
				return fmt.Sprintf("INSERT INTO bans (aid) VALUES ('%d')", n-1+2000)
			})
		}
		_, _, plan := small(t, target, schema, nil, server(400), server(300))
		bans := draftOf(t, plan).Tables["bans"]
		if bans.Policy != merge.Copy || len(bans.Undecided) != 1 || bans.Undecided[0].Candidate != "accounts.id" {
			t.Errorf("policy %s, undecided %+v", bans.Policy, bans.Undecided)
		}
	})
}

// A copy of a name by the wrong column would give rows the new names of others, and verify would expect that.
func TestACopyOfTheNameOfAnotherRowIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE chars (COUNTED, name VARCHAR(20) NOT NULL UNIQUE)",
			"CREATE TABLE mail (COUNTED, from_id BIGINT NOT NULL, to_id BIGINT NOT NULL, from_name CHAR(20) NOT NULL)"}
		server := func(own string) []string {
			return many(1, 40, func(n int) string {
				return fmt.Sprintf("INSERT INTO chars (id, name) VALUES (%d, '%s%d')", n, []string{"Hero", own}[n%2], n)
			})
		}
		mails := many(1, 40, func(n int) string {
			return fmt.Sprintf("INSERT INTO mail (from_id, to_id, from_name) SELECT %d, %d, name FROM chars WHERE id = %d", n, 41-n, n)
		})
		rename := &merge.RenamePlan{Column: "name", Copies: []merge.NameCopy{{Table: "mail", Column: "from_name", Ref: "to_id"}}}
		sources, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"chars": {Policy: merge.Rename, Renumber: merge.Apart, Rename: rename},
			"mail":  {Policy: merge.Copy, Renumber: merge.Apart}},
			append(server("A"), mails...), append(server("B"), mails...))
		plan.Identities = map[string]*merge.Identity{"chars": {Key: "id", In: []string{"mail.from_id", "mail.to_id"}}}
		refused(t, into, plan, merge.CodeNameCopy, "to_id")
		for _, s := range sources { // a few texts may be the names that the rows had before
			s.exec(t, "DELETE FROM mail WHERE id > 3")
		}
		report, _ := problems(t, open(t, plan))
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "of 3 texts 0 are names of the rows of chars that to_id leads to") {
			t.Errorf("nobody hears that no text is the name of the row: %s", got)
		}
		rename.Copies[0].Ref = "from_id"
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM mail JOIN chars ON chars.id = from_id AND name = from_name"); n != 6 {
			t.Errorf("%d of 6 mails have the name of their sender", n)
		}
	})
}

// What lies in the chest of an account has no hero, and yet the name of the hero who made it. A copy that follows the
// hero leaves these names behind.
func TestACopyOfANameWhoseRowLeadsNowhereIsNamed(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (COUNTED, name VARCHAR(20) NOT NULL UNIQUE)",
			"CREATE TABLE things (COUNTED, hero_id BIGINT, made_by CHAR(20) NOT NULL)"}
		server := func(own string) []string {
			return many(1, 60, func(n int) string {
				hero := fmt.Sprintf("INSERT INTO heroes (id, name) VALUES (%d, '%s%d')", n, []string{"Hero", own}[n%2], n)
				if n > 48 {
					return hero
				}
				who := "id"
				if n%6 == 0 {
					who = "NULL"
				}
				return hero + fmt.Sprintf("; INSERT INTO things (hero_id, made_by) SELECT %s, name FROM heroes WHERE id = %d", who, n)
			})
		}
		split := func(all []string) (statements []string) {
			for _, s := range all {
				statements = append(statements, strings.Split(s, "; ")...)
			}
			return statements
		}
		rename := &merge.RenamePlan{Column: "name"}
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{"heroes": {Policy: merge.Rename,
			Renumber: merge.Apart, Rename: rename}}, split(server("A")), split(server("B")))
		draft := draftOf(t, plan)
		open := slices.DeleteFunc(draft.Tables["things"].Undecided, func(o merge.OpenColumn) bool {
			return o.Column != "made_by"
		})
		if len(open) != 1 || open[0].With != "" {
			t.Errorf("the draft asks %+v", open)
		}
		draft.Tables["things"].Undecided = nil
		rename.Copies = []merge.NameCopy{{Table: "things", Column: "made_by", Ref: "hero_id"}}
		report, found := problems(t, opened(t, draft))
		if got := fmt.Sprint(report.Warnings, found); !strings.Contains(got, "8 texts are names of rows of heroes where hero_id leads to none") {
			t.Errorf("nobody hears of the names that stay behind: %s", got)
		}
	})
}

// Beside a key stands nothing, or the name of who had the thing before: these texts are no copies.
func TestATextThatIsNotTheNameStaysAsItIs(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE chars (COUNTED, name VARCHAR(20) NOT NULL UNIQUE)",
			"CREATE TABLE sales (COUNTED, holder BIGINT NOT NULL, seller VARCHAR(20) NOT NULL)"}
		server := append(many(1, 20, func(n int) string {
			return fmt.Sprintf("INSERT INTO chars (id, name) VALUES (%d, 'Hero%d')", n, n)
		}), "INSERT INTO sales (holder, seller) SELECT id, name FROM chars WHERE id > 3",
			"INSERT INTO sales (holder, seller) VALUES (1, ''), (2, 'Nobody'), (3, 'hERO3 ')")
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"chars": {Policy: merge.Rename, Renumber: merge.Apart, Rename: &merge.RenamePlan{Column: "name",
				Copies: []merge.NameCopy{{Table: "sales", Column: "seller", Ref: "holder"}}}},
			"sales": {Policy: merge.Copy, Renumber: merge.Apart}}, server, server)
		plan.Identities = map[string]*merge.Identity{"chars": {Key: "id", In: []string{"sales.holder"}}}
		run(t, open(t, plan))
		for text, want := range map[string]int64{"seller = ''": 2, "seller = 'Nobody'": 2, "seller LIKE '%.s2'": 18} {
			if n := into.number(t, "SELECT COUNT(*) FROM sales WHERE "+text); n != want {
				t.Errorf("%d rows with %s, want %d", n, text, want)
			}
		}
	})
}

// Each path of a document leads to rows of its own, and so do arrays of PostgreSQL. 0 in them means none.
func TestADraftAsksAboutEveryPathAndArray(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		ids := map[string]string{"postgres": "INTEGER[]"}[target.Dialect]
		schema := []string{"CREATE TABLE heroes (COUNTED, tag VARCHAR(20))", "CREATE TABLE pets (COUNTED, tag VARCHAR(20))",
			"CREATE TABLE notes (COUNTED, data VARCHAR(90) NOT NULL, ids " + cmp.Or(ids, "VARCHAR(40)") + " NOT NULL)"}
		server := func(s int) (all []string) {
			for n := 1; n <= 120; n++ {
				list := fmt.Sprintf("0,%d,%d", 5000+n, 5000+n%60+1)
				if ids != "" {
					list = "{" + list + "}"
				}
				all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%d, 's%d-%d')", 5000+n, s, n),
					fmt.Sprintf("INSERT INTO pets VALUES (%d, 's%d-%d')", 900+n, s, n),
					fmt.Sprintf(`INSERT INTO notes (data, ids) VALUES ('{"by":%d,"of":%d,"pet":%d,"more":0}', '%s')`,
						5000+n, 5000+n*7%120+1, (900+n)*min(n%9, 1), list))
			}
			return all
		}
		_, into, plan := small(t, target, schema, nil, server(1), server(2))
		draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range draft.Tables["notes"].Undecided {
			entry := "notes." + o.Column + " " + o.As
			got = append(got, o.Candidate+" "+entry)
			parent := strings.TrimSuffix(o.Candidate, ".id")
			if draft.Identities[parent] == nil {
				draft.Identities[parent] = &merge.Identity{Key: "id"}
			}
			draft.Identities[parent].In = append(draft.Identities[parent].In, entry)
		}
		list := "list " + map[bool]string{true: "array", false: ","}[ids != ""]
		want := []string{"heroes.id notes.data path $.by", "heroes.id notes.data path $.of", "heroes.id notes.ids " + list,
			"pets.id notes.data path $.pet"}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("it asks about %q", got)
		}
		draft.Tables["notes"].Undecided = nil
		run(t, opened(t, draft, merge.WithLock(lock)))
		hero, pet := into.number(t, "SELECT MIN(id) FROM heroes"), into.number(t, "SELECT MIN(id) FROM pets")
		first := fmt.Sprintf(`{"by":%d,"of":%d,"pet":%d,"more":0}`, hero, hero+7, pet)
		if n := into.number(t, "SELECT COUNT(*) FROM notes WHERE data = '"+first+"'"); n != 1 {
			t.Errorf("%d notes are %s", n, first)
		}
	})
}

// Rows that belong to those that become one cannot become one by that key, so nobody is told to let them.
func TestRemediesDoNotLeadInACircle(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (COUNTED, name VARCHAR(9) NOT NULL)",
			"CREATE TABLE scores (hero INTEGER NOT NULL PRIMARY KEY, n INTEGER)"}
		rows := []string{"INSERT INTO heroes VALUES (1, 'a')", "INSERT INTO scores VALUES (1, 5)"}
		scores := &merge.TablePlan{Policy: merge.Copy}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes": {Policy: merge.KeepFirst, Key: []string{"name"}, Renumber: merge.Behind}, "scores": scores}, rows, rows)
		plan.Identities = map[string]*merge.Identity{"heroes": {Key: "id", In: []string{"scores.hero"}}}
		refused(t, into, plan, merge.CodePrimaryKey, "scores")
		_, found := problems(t, open(t, plan))
		for _, p := range found[merge.CodePrimaryKey] {
			if strings.Contains(p.Remedy, "keep_first") || strings.Contains(p.Remedy, "renumber") {
				t.Errorf("it advises what it refuses: %s", p.Remedy)
			}
		}
		scores.Policy, scores.Key = merge.KeepFirst, []string{"hero"}
		refused(t, into, plan, merge.CodePlan, "by themselves")
		scores.Policy, scores.Key = merge.Rebuild, nil
		run(t, open(t, plan))
	})
}

// Small numbers are keys of every table that counts from 1, and one line says so of a column.
func TestVerifySaysOnceThatAColumnLeadsNowhere(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (COUNTED, level INTEGER)", "CREATE TABLE pets (COUNTED, level INTEGER)"}
		rows := many(1, 60, func(n int) string {
			return fmt.Sprintf("INSERT INTO %s (level) VALUES (%d)", []string{"heroes", "pets"}[n%2], n%20+1)
		})
		more := slices.Concat(rows, []string{"INSERT INTO heroes (level) VALUES (9)", "INSERT INTO pets (level) VALUES (9)"})
		_, _, plan := small(t, target, schema, nil, rows, more)
		draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		m := opened(t, draft, merge.WithLock(lock))
		run(t, m)
		report, err := m.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		said := map[string]int{}
		for _, c := range report.Checks {
			if c.What == "apart" && strings.Contains(c.Detail, "leads to no row now") {
				said[c.Table]++
			}
		}
		if len(said) != 2 || said["heroes"] != 1 || said["pets"] != 1 {
			t.Errorf("it says of %v that they lead nowhere", said)
		}
	})
}

// Accounts of one login become one, so their other keys are those of nobody. A few bans are no proof that they name
// accounts, and yet those of the second server would ban others.
func TestVerifySaysOfNumbersThatMayNameAccountsThatHaveBecomeOne(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE accounts (COUNTED, login VARCHAR(20) NOT NULL UNIQUE, coins INTEGER NOT NULL)",
			"CREATE TABLE bans (id BIGINT NOT NULL PRIMARY KEY, c1 INTEGER)"}
		server := func(number int) []string {
			var rows []string
			for n := range 60 {
				rows = append(rows, fmt.Sprintf("INSERT INTO accounts (login, coins) VALUES ('user%d', 5)", n+40*number))
			}
			for n := range 8 {
				rows = append(rows, fmt.Sprintf("INSERT INTO bans VALUES (%s, %d)", id(number, n), 3+7*n-number))
			}
			return rows
		}
		tables := map[string]*merge.TablePlan{"bans": {Policy: merge.Copy},
			"accounts": {Policy: merge.Sum, Key: []string{"login"}, Sum: []string{"coins"}, Renumber: merge.Behind}}
		_, _, plan := small(t, target, schema, tables, server(1), server(2))
		plan.GivesUp = map[string]merge.GivenUp{"accounts": {Collapsed: 20}}
		_, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		m := opened(t, plan, merge.WithLock(lock))
		run(t, m)
		report, err := m.Verify(t.Context())
		if err != nil || !report.OK {
			t.Fatal(report, err)
		}
		if !slices.ContainsFunc(report.Checks, func(c merge.Comparison) bool {
			return c.What == "apart" && c.Table == "bans" && strings.Contains(c.Detail, "c1 held keys of accounts") && c.Got == "8"
		}) {
			t.Errorf("nothing says what became of the bans: %v", report.Checks)
		}
	})
}

// Both servers have begun with the accounts of one website, so an account has one key on both, and what refers to it is
// right after the merge, too, though no plan says so.
func TestVerifyBlamesNoReferenceToAccountsThatHaveOneKeyOnAllServers(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE accounts (COUNTED, login VARCHAR(20) NOT NULL UNIQUE, coins INTEGER NOT NULL)",
			"CREATE TABLE bans (id BIGINT NOT NULL PRIMARY KEY, account INTEGER)"}
		server := func(number int) []string {
			rows := []string{"INSERT INTO accounts (login, coins) VALUES ('user0', 5)"}
			for n := 1; n < 60; n++ {
				rows = append(rows, fmt.Sprintf("INSERT INTO accounts (login, coins) VALUES ('user%d', 5)", n),
					fmt.Sprintf("INSERT INTO bans VALUES (%s, %d)", id(number, n), 1+7*n%60))
			}
			return rows
		}
		tables := map[string]*merge.TablePlan{"bans": {Policy: merge.Copy},
			"accounts": {Policy: merge.Sum, Key: []string{"login"}, Sum: []string{"coins"}, Renumber: merge.Behind}}
		_, _, plan := small(t, target, schema, tables, server(1), server(2))
		plan.GivesUp = map[string]merge.GivenUp{"accounts": {Collapsed: 60}}
		_, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		m := opened(t, plan, merge.WithLock(lock))
		run(t, m)
		if report, err := m.Verify(t.Context()); err != nil || !report.OK {
			t.Errorf("verify blames it: %v, %v", report.Failed, err)
		}
	})
}

// Most prices are keys of heroes, because most numbers are. Whoever takes them for keys is warned, also if a
// condition leaves out those that are none, and not of the columns that do refer: to all heroes, or, as the
// patrons that few have, to the newest ones as well.
func TestAReferenceWhoseValuesAreKeysByChanceIsNamed(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER NOT NULL)",
			"CREATE TABLE bids (COUNTED, bidder INTEGER NOT NULL, price INTEGER NOT NULL, patron INTEGER NOT NULL)"}
		server := func(number int) []string {
			var heroes, bids, keys []string
			for n := range 300 + 100*number {
				if n%10 != number {
					keys = append(keys, fmt.Sprint(n))
					heroes = append(heroes, fmt.Sprintf("(%d, 1)", n))
				}
			}
			for n := range 200 {
				patron := "0"
				if n%10 == 0 {
					patron = keys[len(keys)-1-n*len(keys)/200]
				}
				bids = append(bids, fmt.Sprintf("(%d, %s, %d, %s)", n+1, keys[n*97%len(keys)], n*7%250+1, patron))
			}
			return []string{"INSERT INTO heroes VALUES " + strings.Join(heroes, ", "), "INSERT INTO bids VALUES " + strings.Join(bids, ", ")}
		}
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes": {Policy: merge.Copy, Renumber: merge.Apart}, "bids": {Policy: merge.Copy, Renumber: merge.Apart}},
			server(1), server(2))
		plan.Identities = map[string]*merge.Identity{"heroes": {Key: "id",
			In: []string{"bids.bidder", "bids.patron when patron <> 0", "bids.price when (price > 0) AND price in ( SELECT id FROM heroes WHERE level > 0)"}}}
		report, found := problems(t, open(t, plan))
		if len(found) > 0 {
			t.Fatal(found)
		}
		var named []string
		for _, p := range report.Warnings {
			if p.Code == merge.CodePlan {
				named = append(named, p.Table+"."+p.Column)
			}
		}
		m := open(t, plan, merge.WithLock(report.Lock))
		run(t, m)
		verify, err := m.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range verify.Checks {
			if c.What == "chance" {
				named = append(named, "verify "+c.Table+"."+c.Column)
			}
		}
		if want := []string{"bids.price", "verify bids.price"}; !slices.Equal(named, want) {
			t.Errorf("by chance: %v, want %v", named, want)
		}
	})
}

// A log tells of heroes that were deleted, too. Every number is as often a key as these, and yet the name says whose
// they are.
func TestAColumnThatIsCalledLikeWhatItRefersToIsNoKeyByChance(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
			"CREATE TABLE logs (no BIGINT NOT NULL PRIMARY KEY, hero_id INTEGER NOT NULL, worth INTEGER NOT NULL)"}
		server := func(number int) (all []string) {
			for n := 1; n <= 300; n++ {
				if n%5 != number || n == 300 {
					all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%d)", n))
				}
				all = append(all, fmt.Sprintf("INSERT INTO logs VALUES (%s, %d, %d)", id(number, n), 1+n*89%300, 1+n*7%300))
			}
			return all
		}
		_, _, plan := small(t, target, schema, copies("logs"), server(1), server(2))
		plan.Tables["heroes"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Apart}
		there := " IN (SELECT id FROM heroes)"
		plan.Identities = map[string]*merge.Identity{"heroes": {Key: "id",
			In: []string{"logs.hero_id when hero_id" + there, "logs.worth when worth" + there}}}
		report, _ := problems(t, open(t, plan))
		var named []string
		for _, p := range report.Warnings {
			if p.Code == merge.CodePlan {
				named = append(named, p.Column)
			}
		}
		if !slices.Equal(named, []string{"worth"}) {
			t.Errorf("by chance: %v, want worth", named)
		}
	})
}

// A look for chance is a warning. It ends neither a check of a condition that no server understands, of which there is a
// problem to report, nor anything because of a bracket in a text, or of a number that is greater than any key.
func TestALookForChanceStandsInNoWay(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		column := map[string]string{"mysql": "BIGINT UNSIGNED", "postgres": "NUMERIC(20,0)", "sqlite": "BIGINT"}[target.Dialect]
		none := map[bool]string{true: "'none'", false: "18446744073709551615"}[target.Dialect == "sqlite"]
		schema := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, nick VARCHAR(9) NOT NULL)",
			"CREATE TABLE bids (id BIGINT NOT NULL PRIMARY KEY, bidder " + column + ")"}
		server := func(number int) []string {
			return append(many(1, 9, func(n int) string {
				return fmt.Sprintf("INSERT INTO heroes VALUES (%d, 'x')", n)
			}), "INSERT INTO bids VALUES ("+id(number, 1)+", 4), ("+id(number, 2)+", 7), ("+id(number, 3)+", "+none+")")
		}
		_, _, plan := small(t, target, schema, copies("bids"), server(1), server(2))
		plan.Tables["heroes"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Apart}
		ref := merge.Reference{Column: "bidder", Table: "heroes", When: "rank = 1"}
		plan.Tables["bids"].References = []merge.Reference{ref}
		if _, found := problems(t, open(t, plan)); len(found) == 0 {
			t.Error("check does not say that no server understands the condition")
		}
		ref.When = "bidder IN (SELECT id FROM heroes WHERE nick <> ')')"
		plan.Tables["bids"].References = []merge.Reference{ref}
		report, found := problems(t, open(t, plan))
		if len(found) > 0 {
			t.Fatal(found)
		}
		run(t, open(t, plan, merge.WithLock(report.Lock)))
	})
}

// A reference to what no unique key keeps apart may lead to rows of two servers, and nobody can say to which.
func TestCheckWarnsOfReferencesToKeysThatMayMeet(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (COUNTED, name VARCHAR(9))",
			"CREATE TABLE chairs (hero BIGINT NOT NULL, object INTEGER NOT NULL, PRIMARY KEY (hero, object))",
			"CREATE TABLE waits (COUNTED, chair INTEGER NOT NULL, owner BIGINT NOT NULL)"}
		server := []string{"INSERT INTO heroes (id, name) VALUES (7, 'a'), (8, 'b')", "INSERT INTO chairs VALUES (7, 21), (8, 22)",
			"INSERT INTO waits (chair, owner) VALUES (21, 7), (22, 8)"}
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes": {Policy: merge.Copy, Renumber: merge.Apart}, "chairs": {Policy: merge.Copy},
			"waits": {Policy: merge.Copy, Renumber: merge.Apart, References: []merge.Reference{
				{Columns: []string{"chair"}, Target: []string{"object"}, Table: "chairs"}}},
		}, server, server)
		plan.Identities = map[string]*merge.Identity{"heroes": {Key: "id", In: []string{"chairs.hero", "waits.owner"}}}
		report, _ := problems(t, open(t, plan))
		warned := slices.ContainsFunc(report.Warnings, func(p merge.Problem) bool {
			return p.Code == merge.CodeUncheckable && p.Table == "waits" && p.Column == "chair" &&
				!strings.Contains(p.Remedy, "set:") // which may not change a primary key
		})
		if !warned || len(report.Warnings) > 1 && strings.Contains(fmt.Sprint(report.Warnings), "owner") {
			t.Errorf("problems %v, warnings %v", report.Problems, report.Warnings)
		}
	})
}

// A game whose goods are in the same database, as its installer has put them there: so many that most numbers
// are one. Few accounts are banned, and those with a pass are all on one server.
var stocked = []string{
	"CREATE TABLE accounts (COUNTED, login VARCHAR(20) NOT NULL)",
	"CREATE TABLE roles (COUNTED, accid INTEGER NOT NULL, level INTEGER NOT NULL)",
	"CREATE TABLE bans (accid INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, hours INTEGER)",
	"CREATE TABLE passes (accid INTEGER DEFAULT 0 NOT NULL PRIMARY KEY)",
	"CREATE TABLE looks (id INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, hair INTEGER)",
	"CREATE TABLE worlds (id INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, region INTEGER)",
	"CREATE TABLE goods (id INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, price INTEGER NOT NULL)",
	"CREATE TABLE offers (shop INTEGER NOT NULL, good INTEGER NOT NULL, PRIMARY KEY (shop, good))",
	"CREATE TABLE firsts (good INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, found INTEGER NOT NULL)",
	"CREATE TABLE recipes (COUNTED, cost INTEGER NOT NULL)",
	"CREATE TABLE odds (rate INTEGER NOT NULL, chance INTEGER NOT NULL)",
	"CREATE TABLE stands (COUNTED, accid INTEGER NOT NULL, rent INTEGER NOT NULL)",
}

func stockedRows(server int) (statements []string) {
	rows := map[string][]string{}
	add := func(table, format string, values ...any) {
		rows[table] = append(rows[table], "("+fmt.Sprintf(format, values...)+")")
	}
	for n := 1; n <= 400+50*server; n++ {
		if n%3 == server%3 {
			continue
		}
		add("accounts", "%d, 'u%d.%d'", n, server, n)
		add("roles", "%d, %d, %d", len(rows["roles"])+1, n, n%90+1)
		add("looks", "%d, %d", n, n*server%7)
		if n%70 == 1 {
			add("bans", "%d, %d", n, n%9)
		}
		if n%60 < 2 && server == 2 {
			add("passes", "%d", n)
		}
	}
	for n := range 17 {
		add("worlds", "%d, %d", 3*n+1, n%3)
	}
	for n := 1; n <= 900; n++ {
		good := func(n int) int { return n + 6*max(0, n-600) }
		add("goods", "%d, %d", good(n), n*37%500)
		add("offers", "%d, %d", n%7, good(n*11%900+1))
		if n > 600 && n%4 != server {
			add("firsts", "%d, %d", good(n), n*server%365)
		}
		if n <= 30 {
			add("recipes", "%d, %d", n, n%4)
			add("odds", "%d, %d", n, n%9)
			add("stands", "%d, %d, %d", n, 3*(1+n%3), n*37%500) // of a tester, perhaps
		}
	}
	for table, all := range rows {
		statements = append(statements, "INSERT INTO "+table+" VALUES "+strings.Join(all, ", "))
	}
	return statements
}

func TestADraftAsksNothingAboutWhatIsInstalled(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, stocked, nil, stockedRows(1), stockedRows(2))
		draft := draftOf(t, plan)
		for name, identity := range draft.Identities {
			if name != "accounts" || !slices.Equal(identity.In, []string{"looks.id", "roles.accid"}) {
				t.Errorf("%s are in %q", name, identity.In)
			}
		}
		for table, p := range draft.Tables {
			var asked []string
			for _, o := range p.Undecided {
				asked = append(asked, o.Column+" "+o.Candidate)
			}
			var want []string
			if slices.Contains([]string{"bans", "passes", "stands"}, table) {
				want = []string{"accid accounts.id"}
			}
			if !slices.Equal(asked, want) {
				t.Errorf("of %s it asks %q", table, asked)
			}
		}
		// A copy of them would have each row twice, and one with other keys would say who found other goods first.
		for _, table := range []string{"goods", "offers", "recipes", "odds", "firsts", "worlds", "stands"} {
			if p := draft.Tables[table]; p.Policy != merge.NotDecided {
				t.Errorf("%s: policy %s, %s", table, p.Policy, p.Note)
			}
			draft.Tables[table] = &merge.TablePlan{Policy: merge.Skip}
		}

		// Somebody wants the goods once for each server: then the lock still knows who refers to them.
		draft.Tables["goods"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Apart}
		draft.Tables["offers"] = &merge.TablePlan{Policy: merge.Copy}
		_, found := problems(t, open(t, draft))
		if !slices.ContainsFunc(found[merge.CodeUndeclared], func(p merge.Problem) bool {
			return p.Table == "offers" && p.Column == "good"
		}) {
			t.Errorf("check found %v", found[merge.CodeUndeclared])
		}

		// Of equal rows one stays, and it has the key that all of them have.
		if target.Dialect == "sqlite" { // which counts such a key
			return
		}
		draft.Tables["goods"] = &merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"id"}}
		report, found := problems(t, open(t, draft))
		for _, p := range slices.Concat(report.Warnings, found[merge.CodeUndeclared]) {
			if p.Code == merge.CodeUndeclared {
				t.Errorf("check says %s.%s: %s", p.Table, p.Column, p.Message)
			}
		}
	})
}

// The first things of the first heroes are alike on new servers, and lie at the same places: with the same keys, and with
// those of heroes that only look alike. They are not the same things.
func TestADraftKeepsTheRowsOfWhoeverEachServerHasCounted(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE heroes (COUNTED, nick VARCHAR(20), level INTEGER)", "CREATE TABLE chests (COUNTED, " +
		"hero_id BIGINT NOT NULL, x INTEGER, y INTEGER, FOREIGN KEY (hero_id) REFERENCES heroes (id))"}
	server := func(number int) (all []string) {
		for n := 1; n <= 120; n++ {
			if n <= 40 {
				all = append(all, fmt.Sprintf("INSERT INTO heroes (nick, level) VALUES ('h%d_%d', %d)", number, n*7, n*number%9))
			}
			all = append(all, fmt.Sprintf("INSERT INTO chests (hero_id, x, y) VALUES (%d, %d, %d)", (n+2)/3, n%10*16, n/10*16))
		}
		return all
	}
	plans(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, schema, nil, server(1), server(2))
		draft := draftOf(t, plan)
		if p := draft.Tables["chests"]; p.Policy != merge.Copy || p.Renumber != merge.Apart {
			t.Errorf("chests: policy %s, renumber %q: %s", p.Policy, p.Renumber, p.Note)
		}
		draft.Tables["chests"] = &merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"id"}}
		if _, found := problems(t, open(t, draft)); len(found[merge.CodePlan]) == 0 {
			t.Errorf("chests become one by a counted key: %v", found)
		}
	})
}

// What is installed with a game stays what it is if one server has changed some of it: monsters drop the same things,
// and merchants sell them. A copy with new keys would have each offer as often as there are servers.
func TestADraftAsksAboutContentOfWhichOneServerHasChangedSome(t *testing.T) {
	t.Parallel()
	schema := []string{
		"CREATE TABLE heroes (COUNTED, nick VARCHAR(20), level INTEGER)",
		"CREATE TABLE bags (COUNTED, hero_id INTEGER NOT NULL, item INTEGER NOT NULL, amount INTEGER NOT NULL)",
		"CREATE TABLE merchants (COUNTED, npc INTEGER NOT NULL)",
		"CREATE TABLE bonuses (COUNTED, item INTEGER NOT NULL, remark VARCHAR(40) NOT NULL)",
		"CREATE TABLE squads (COUNTED, size INTEGER NOT NULL)",
		"CREATE TABLE wares (COUNTED, merchant_id INTEGER NOT NULL, item INTEGER NOT NULL, price INTEGER NOT NULL)",
		"CREATE TABLE drops (COUNTED, monster INTEGER NOT NULL, item INTEGER NOT NULL, killer INTEGER NOT NULL, " +
			"chance INTEGER NOT NULL)",
	}
	server := func(number int) (all []string) {
		add := func(table, format string, values ...any) {
			all = append(all, fmt.Sprintf("INSERT INTO "+table+" VALUES ("+format+")", values...))
		}
		add("merchants (npc)", "%d", 80000+100*number)
		for n := range 4 { // few rows, which say much, or little
			add("bonuses (item, remark)", "%d, 'chest of %d coins'", 5000+n*70, n*300)
			add("squads (size)", "%d", n+3)
		}
		for n := range 300 {
			if n < 80-20*number {
				add("heroes (nick, level)", "'h%d_%d', %d", number, n, n*number%60)
			}
			add("bags (hero_id, item, amount)", "%d, %d, %d", 1+n*number*7%(80-20*number), 5000+n*number*31%900, 1+n*number%90)
			if n < 60 {
				add("merchants (npc)", "%d", 90000+37*n)
			}
			price := 100 + n*53%4000
			if number == 2 && n%40 == 7 {
				price = 1
			}
			add("wares (merchant_id, item, price)", "%d, %d, %d", 2+n/5, 5000+n*17%900, price)
			add("drops (monster, item, killer, chance)", "%d, %d, %d, %d", 7000+n/4, 5000+n*29%900, 1+n*n%3, price)
		}
		return all
	}
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := slices.Clone(schema)
		if target.Dialect == "sqlite" { // which takes a circle as it is
			schema = append(schema, "CREATE TABLE camps (COUNTED, fire_id BIGINT REFERENCES fires (id))",
				"CREATE TABLE fires (COUNTED, camp_id BIGINT REFERENCES camps (id))")
		}
		_, _, plan := small(t, target, schema, nil, server(1), server(2))
		draft := draftOf(t, plan)
		for table, want := range map[string]merge.Policy{"heroes": merge.Copy, "bags": merge.Copy,
			"squads": merge.Copy, "bonuses": merge.NotDecided,
			"merchants": merge.NotDecided, "wares": merge.NotDecided, "drops": merge.NotDecided} {
			if p := draft.Tables[table]; p.Policy != want && (table != "heroes" || p.Policy != merge.Rename) {
				t.Errorf("%s: policy %s, want %s: %s %+v", table, p.Policy, want, p.Note, p.Undecided)
			}
		}
	})
}

// Whoever has given each server merchants of its own gets the wares with them.
func TestADraftTakesItsWordForRowsThatAreNotTheSame(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE merchants (COUNTED, npc INTEGER NOT NULL)",
		"CREATE TABLE wares (merchant_id BIGINT NOT NULL REFERENCES merchants (id), item INTEGER NOT NULL, " +
			"PRIMARY KEY (merchant_id, item))"}
	server := func(number int) []string {
		return append(many(1, 60+number, func(n int) string {
			return fmt.Sprintf("INSERT INTO merchants (npc) VALUES (%d)", 90_000+37*n)
		}), many(1, 60, func(n int) string { return fmt.Sprintf("INSERT INTO wares VALUES (%d, %d)", n, 5000+n%9) })...)
	}
	plans(t, func(t *testing.T, target dbtest.Target) {
		for want, tables := range map[merge.Policy]map[string]*merge.TablePlan{merge.NotDecided: nil,
			merge.Copy: {"merchants": {Policy: merge.Copy, Renumber: merge.Apart}}} {
			_, _, plan := small(t, target, schema, tables, server(1), server(2))
			if p := draftOf(t, plan).Tables["wares"]; p.Policy != want {
				t.Errorf("%d tables are decided, and the wares: policy %s, want %s: %s", len(tables), p.Policy, want, p.Note)
			}
		}
	})
}

// Whoever says that rows of all servers are one may say that they lead to rows of one server, too: signs that stand at the
// same places, before the houses of heroes, of which those of the first server stay.
func TestCheckTakesItsWordForRowsThatAreTheSame(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE heroes (COUNTED, level INTEGER)", "CREATE TABLE signs (COUNTED, hero INTEGER NOT NULL)"}
	server := func(number int) []string {
		return append(many(1, 60, func(n int) string {
			return fmt.Sprintf("INSERT INTO heroes (level) VALUES (%d)", n*number%50)
		}), many(1, 20, func(n int) string { return fmt.Sprintf("INSERT INTO signs (hero) VALUES (%d)", n*7%60+1) })...)
	}
	plans(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes": {Policy: merge.Copy, Renumber: merge.Apart},
			"signs":  {Policy: merge.KeepFirst, Key: []string{"id"}}}, server(1), server(2))
		plan.Identities = map[string]*merge.Identity{"heroes": {Key: "id", In: []string{"signs.hero"}}}
		if _, found := problems(t, open(t, plan)); len(found) > 0 {
			t.Errorf("check found %v", found)
		}
	})
}

// The owners of a few things were deleted, so not all of the numbers are keys, and a draft only asks. Whoever takes the
// question away, or answers that these are no keys, is told by verify of the things of one server that belong to heroes
// of another one now.
func TestVerifyTellsOfRowsThatLeadToAnotherServer(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (COUNTED, level INTEGER)", "CREATE TABLE things (COUNTED, held INTEGER)"}
		rows := func(server int) (all []string) {
			for n := range 60 + server {
				if n%9 != 4 {
					all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%d, %d)", 5000+37*n, n%8))
				}
				if n%9 != 4 || n > 40 {
					all = append(all, fmt.Sprintf("INSERT INTO things (held) VALUES (%d)", 5000+37*n))
				}
			}
			return all
		}
		for _, plain := range [][]string{nil, {"things.held"}} {
			_, _, plan := small(t, target, schema, nil, rows(1), rows(2))
			draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
			if err != nil {
				t.Fatal(err)
			}
			things := draft.Tables["things"]
			if len(things.Undecided) != 1 || things.Undecided[0].Column != "held" {
				t.Fatalf("it asks about %+v, want held", things.Undecided)
			}
			draft.Apart, draft.Plain, things.Undecided = "others", plain, nil
			m := opened(t, draft, merge.WithLock(lock))
			run(t, m)
			report, err := m.Verify(t.Context())
			if err != nil || !report.OK {
				t.Fatalf("verify returned %+v and %v", report, err)
			}
			told := func(c merge.Comparison) bool {
				return c.Table == "things" && c.Column == "held" && c.Parent == "heroes" && c.Got == "55" && c.Rows == 113
			}
			if !slices.ContainsFunc(report.Checks, told) {
				t.Errorf("it says nothing of things that belong to heroes of another server, with %q: %+v", plain, report.Checks)
			}
		}
	})
}
