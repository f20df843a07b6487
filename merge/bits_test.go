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

// packed is a game that keeps keys in some bits of numbers. Each row that refers repeats the tag of the row it
// refers to, so that plain SQL can tell a stranger.
var packed = []string{
	"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
	"CREATE TABLE pets (id INTEGER NOT NULL PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
	"CREATE TABLE auras (id BIGINT NOT NULL PRIMARY KEY, kind INTEGER NOT NULL, caster BIGINT, tag VARCHAR(20) NOT NULL)",
	"CREATE TABLE stamps (id BIGINT NOT NULL PRIMARY KEY, mark BIGINT NOT NULL, tag VARCHAR(20) NOT NULL)",
	"CREATE TABLE cards (id BIGINT NOT NULL PRIMARY KEY, card0 INTEGER NOT NULL, card1 INTEGER NOT NULL, card2 INTEGER NOT NULL, " +
		"tag VARCHAR(20) NOT NULL)",
}

// packedRows fills a server. Its keys need more than 16 bits, and the numbers of pets have their sign bit set.
func packedRows(server, least, rows int) []string {
	const pet = -((1<<16 - 61760) << 48)
	values := map[string][]string{}
	add := func(table, format string, args ...any) {
		values[table] = append(values[table], fmt.Sprintf("("+format+")", args...))
	}
	for n := range rows {
		key, other := least+n, least+n*7%rows
		tag := func(kind string, key int) string { return fmt.Sprintf("'s%d-%s%d'", server, kind, key) }
		add("players", "%d, %s", key, tag("p", key))
		add("pets", "%d, %s", key+5, tag("q", key+5))
		add("auras", "%s, 0, %d, %s", id(server, 4*n), other, tag("p", other))
		add("auras", "%s, 1, %d, %s", id(server, 4*n+1), pet+(other+5)<<24+n%1000, tag("q", other+5))
		add("auras", "%s, 2, %d, ''", id(server, 4*n+2), n*n%100_000_007)
		add("auras", "%s, 2, NULL, ''", id(server, 4*n+3))
		add("stamps", "%s, %d, %s", id(server, n), other<<32+n, tag("p", other))
		if n%3 == 0 {
			add("cards", "%s, 254, %d, %d, %s", id(server, n), other%65536, other/65536, tag("p", other))
		} else {
			add("cards", "%s, %d, %d, 0, ''", id(server, n), 4000+n%90, 4000+n%50)
		}
	}
	var all []string
	for table, rows := range values {
		all = append(all, "INSERT INTO "+table+" VALUES "+strings.Join(rows, ", "))
	}
	return all
}

func packedPlan() map[string]*merge.TablePlan {
	return map[string]*merge.TablePlan{
		"players": {Policy: merge.Copy, Renumber: merge.Apart}, "pets": {Policy: merge.Copy, Renumber: merge.Apart},
		"auras": {Policy: merge.Copy}, "stamps": {Policy: merge.Copy}, "cards": {Policy: merge.Copy},
	}
}

func packedIdentities() map[string]*merge.Identity {
	return map[string]*merge.Identity{
		"players": {In: []string{"auras.caster bits 0-31 when kind = 0", "stamps.mark bits 32-62",
			"cards.card1+card2 bits 0-15 when card0 = 254"}},
		"pets": {In: []string{"auras.caster bits 24-47 when kind = 1"}},
	}
}

func TestAKeyInSomeBitsOfNumbersFollowsItsRow(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		for _, renumber := range []merge.Renumbering{merge.Apart, merge.Behind} {
			tables := packedPlan()
			tables["players"].Renumber, tables["pets"].Renumber = renumber, renumber
			servers, into, plan := small(t, target, packed, tables, packedRows(1, 100_000, 300), packedRows(2, 99_900, 250))
			plan.Identities = packedIdentities()
			copied := run(t, open(t, plan))
			for _, c := range copied.Tables {
				if c.Way == "rows" && c.Table != "cards" {
					t.Errorf("renumber %s: %s went row by row", renumber, c.Table)
				}
			}
			for _, q := range []string{
				"SELECT COUNT(*) FROM auras a JOIN players p ON p.id = a.caster AND p.tag = a.tag WHERE a.kind = 0",
				"SELECT COUNT(*) FROM auras a JOIN pets p ON p.id = (a.caster >> 24) & 16777215 AND p.tag = a.tag WHERE a.kind = 1",
				"SELECT COUNT(*) FROM stamps s JOIN players p ON p.id = (s.mark >> 32) AND p.tag = s.tag",
				"SELECT COUNT(*) FROM cards c JOIN players p ON p.id = c.card1 + 65536 * c.card2 AND p.tag = c.tag WHERE c.card0 = 254",
				"SELECT SUM(caster) FROM auras WHERE kind = 2", "SELECT SUM(caster & 16777215) FROM auras WHERE kind = 1",
				"SELECT SUM((caster >> 48) & 65535) FROM auras WHERE kind = 1", "SELECT SUM(mark & 4294967295) FROM stamps",
				"SELECT SUM(card1) FROM cards WHERE card0 <> 254",
			} {
				if got, want := into.number(t, q), servers[0].number(t, q)+servers[1].number(t, q); got != want {
					t.Errorf("renumber %s: %d, want %d: %s", renumber, got, want, q)
				}
			}
			into.exec(t, "UPDATE cards SET card2 = card2 + 1 WHERE id = "+id(1, 3))
			verify, err := open(t, plan).Verify(t.Context())
			if err != nil || !slices.ContainsFunc(verify.Failed, func(c merge.Comparison) bool { return c.Table == "cards" }) {
				t.Errorf("a wrong half of a key is not seen: %v, %v", verify, err)
			}
		}
	})
}

// The databases change the keys of pets by themselves, for nothing else in the column follows: their numbers
// have the sign bit set, and those that do not refer have any bits.
func TestAKeyInSomeBitsOfANegativeNumberFollowsItsRow(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		for _, renumber := range []merge.Renumbering{merge.Apart, merge.Behind} {
			tables := packedPlan()
			tables["players"].Renumber, tables["pets"].Renumber = "", renumber
			tables["players"].Policy = merge.Skip
			servers, into, plan := small(t, target, packed, tables, packedRows(1, 100_000, 300), packedRows(2, 99_900, 250))
			plan.Identities = map[string]*merge.Identity{"pets": packedIdentities()["pets"]}
			for _, c := range run(t, open(t, plan)).Tables {
				if c.Way == "rows" {
					t.Errorf("renumber %s: %s went row by row", renumber, c.Table)
				}
			}
			for _, q := range []string{
				"SELECT COUNT(*) FROM auras a JOIN pets p ON p.id = (a.caster >> 24) & 16777215 AND p.tag = a.tag WHERE a.kind = 1",
				"SELECT SUM(caster) FROM auras WHERE kind <> 1", "SELECT SUM(caster & 16777215) FROM auras WHERE kind = 1",
				"SELECT SUM((caster >> 48) & 65535) FROM auras WHERE kind = 1",
			} {
				if got, want := into.number(t, q), servers[0].number(t, q)+servers[1].number(t, q); got != want {
					t.Errorf("renumber %s: %d, want %d: %s", renumber, got, want, q)
				}
			}
		}
	})
}

func TestBitsThatCannotBeFollowedAreRefused(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		second := packedRows(2, 99_900, 250)
		for name, c := range map[string]struct {
			players []string // the entries of the identity
			behind  bool
			second  string
			code    merge.Code
			says    string
		}{
			"a text":                     {players: []string{"auras.tag bits 0-31"}, code: merge.CodePlan, says: "columns of whole numbers"},
			"a column that is not there": {players: []string{"cards.card1+card9 bits 0-15"}, code: merge.CodePlan, says: "lacks a column"},
			"too few bits":               {behind: true, players: []string{"stamps.mark bits 32-48"}, code: merge.CodeTotal, says: "players would go up to"},
			"a key that leads nowhere": {second: "UPDATE stamps SET mark = mark + 500 * 4294967296 WHERE id = " + id(2, 4),
				players: packedIdentities()["players"].In, code: merge.CodeOrphan, says: "mark bits 32-62"},
			"two references to the same bits": {players: []string{"stamps.mark bits 32-62", "auras.caster bits 0-31 when kind < 2",
				"cards.card1+card2 bits 0-15 when card0 = 254"}, code: merge.CodePlan, says: "same keys would have to follow"},
		} {
			tables, rows := packedPlan(), second
			if c.second != "" {
				rows = append(slices.Clone(rows), c.second)
			}
			if c.behind {
				tables["players"].Renumber = merge.Behind
			}
			_, into, plan := small(t, target, packed, tables, packedRows(1, 100_000, 300), rows)
			plan.Identities = packedIdentities()
			plan.Identities["players"].In = c.players
			if name == "two references to the same bits" {
				plan.Identities["pets"].In = []string{"auras.caster bits 24-47 when kind >= 1"}
			}
			_ = into
			_, found := problems(t, opened(t, plan))
			if !slices.ContainsFunc(found[c.code], func(p merge.Problem) bool { return strings.Contains(p.String(), c.says) }) {
				t.Errorf("%s: check found %v", name, found)
			}
		}
	})
}

// Beside each reference in a part of a column is a false friend: a number, a document, a list and a text that
// look alike and refer to nothing.
func TestADraftAsksAboutKeysInPartsOfColumns(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := append(slices.Clone(packed),
			"CREATE TABLE scrolls (id BIGINT NOT NULL PRIMARY KEY, props TEXT NOT NULL, decoy TEXT NOT NULL, holder JSON)",
			"CREATE TABLE circles (id BIGINT NOT NULL PRIMARY KEY, members VARCHAR(200) NOT NULL, decoy VARCHAR(200) NOT NULL)",
			"CREATE TABLE heroes (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL)",
			"CREATE TABLE letters (id BIGINT NOT NULL PRIMARY KEY, hero BIGINT NOT NULL, author VARCHAR(20) NOT NULL, decoy VARCHAR(200) NOT NULL)",
			"CREATE TABLE decoys (id BIGINT NOT NULL PRIMARY KEY, wild BIGINT NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL)")
		server := func(server, least, rows int) []string {
			all := packedRows(server, least, rows)
			values := map[string][]string{}
			add := func(table, format string, args ...any) {
				values[table] = append(values[table], fmt.Sprintf("("+format+")", args...))
			}
			for n := range rows {
				key, mixed := least+n*7%rows, n*48271%65521
				add("scrolls", `%s, '{"owner": %d, "bag": [{"n": %d}]}', '{"price": %d, "bag": [{"n": %d}]}', '%d'`, id(server, n), key,
					n%9, mixed*30, n%7, key)
				add("circles", "%s, '%d,%d', '%d,%d'", id(server, n), key, least+(n+3)%rows, mixed*30, mixed*7)
				add("heroes", "%s, 'Heron%d'", id(server, n), n)
				add("letters", "%s, %s, 'Heron%d', 'Dear %d, greetings of %d friends'", id(server, n), id(server, n%80), n%80, key, n)
				add("decoys", "%s, %d, %d, %d", id(server, n), mixed*9_000_000, mixed%30_000, n%9)
			}
			for table, rows := range values {
				all = append(all, "INSERT INTO "+table+" VALUES "+strings.Join(rows, ", "))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server(1, 100_000, 300), server(2, 99_900, 250))
		draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		// What a sample says is part of the lock, as what all values say.
		hash, mark := lock.Hash(), lock.Tables["stamps"].Columns["mark"]
		if mark.Verdict != "plain" || len(mark.Of) != 1 || mark.Of[0].As != "bits 32-62" || mark.Of[0].Evidence == "" {
			t.Errorf("the lock says of mark %+v", mark)
		}
		mark.Of = nil
		if lock.Tables["stamps"].Columns["mark"] = mark; lock.Hash() == hash {
			t.Error("the hash of the lock does not cover keys in a part of a column")
		}
		var found []string
		for table, p := range draft.Tables {
			for _, o := range p.Undecided {
				found = append(found, strings.TrimSpace(fmt.Sprintf("%s.%s %s: %s %s", table, o.Column, o.As, o.Candidate, o.With)))
			}
		}
		slices.Sort(found)
		holder := "scrolls.holder path $: players.id"
		if target.Name == "mariadb" { // where JSON is another name of a type for texts
			holder = "scrolls.holder : players.id"
		}
		want := []string{"auras.caster : players.id", "auras.caster bits 24-47: pets.id", "cards.card1 bits 0-15: players.id card2", "circles.members list ,: players.id",
			"letters.author names: heroes.name", holder, "scrolls.props path $.owner: players.id", "stamps.mark bits 32-62: players.id"}
		if !slices.Equal(found, want) {
			t.Errorf("undecided are %q, want %q", found, want)
		}
		_, problems := problems(t, open(t, draft))
		for _, says := range []string{`"stamps.mark bits 32-62" under identities: players`, `"scrolls.props path $.owner" under`, `"circles.members list ,"`,
			`"cards.card1+card2 bits 0-15 when card0 = 254"`, "column: author} under copies:"} {
			if !slices.ContainsFunc(problems[merge.CodeUndecided], func(p merge.Problem) bool { return strings.Contains(p.Remedy, says) }) {
				t.Errorf("no remedy says %s: %v", says, problems[merge.CodeUndecided])
			}
		}
	})
}

// SQLite takes a text in a column of numbers, and MySQL a number that no program reads as one with a sign.
func TestADraftAsksAboutHalvesOfKeysBesideAnOddKind(t *testing.T) {
	t.Parallel()
	targets := append(dbtest.ServersOf("sqlite"), dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql"))...)
	dbtest.Run(t, targets, func(t *testing.T, target dbtest.Target) {
		schema, kind := slices.Clone(packed), "'x'"
		if target.Dialect == "mysql" {
			kind = "18446744073709551615"
			schema[4] = strings.Replace(schema[4], "card0 INTEGER", "card0 BIGINT UNSIGNED", 1)
		}
		odd := "UPDATE cards SET card0 = " + kind + " WHERE card0 = 4001"
		_, _, plan := small(t, target, schema, nil, append(packedRows(1, 100_000, 300), odd), append(packedRows(2, 99_900, 250), odd))
		open := draftOf(t, plan).Tables["cards"].Undecided
		if len(open) != 1 || open[0].With != "card2" || open[0].When != "card0 = 254" {
			t.Errorf("the draft asks %+v", open)
		}
	})
}

// A text that is one number is the key itself: what a draft asks about it, and what check says, can be declared.
func TestANumberInATextIsAKeyAsAWhole(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := append(slices.Clone(packed), "CREATE TABLE scrolls (id BIGINT NOT NULL PRIMARY KEY, whose VARCHAR(20), tag VARCHAR(20))")
		server := func(server, least, rows int) []string {
			all := packedRows(server, least, rows)
			for n := range rows {
				key := least + n*7%rows
				all = append(all, fmt.Sprintf("INSERT INTO scrolls VALUES (%s, '%d', 's%d-p%d')", id(server, n), key, server, key))
			}
			return all
		}
		_, into, plan := small(t, target, schema, packedPlan(), server(1, 100_000, 300), server(2, 99_900, 250))
		draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		open := draft.Tables["scrolls"].Undecided
		if len(open) != 1 || open[0].Column != "whose" || open[0].As != "" || open[0].Candidate != "players.id" {
			t.Fatalf("the draft asks about %+v", open)
		}
		if of := lock.Tables["scrolls"].Columns["whose"]; of.Verdict != "possible" || len(of.Of) != 1 {
			t.Errorf("the lock says %+v", of)
		}
		text, err := draft.YAML()
		if err != nil || !strings.Contains(string(text), "players.id: [scrolls.whose]") {
			t.Errorf("the draft is (%v)\n%s", err, text)
		}
		_, found := problems(t, opened(t, mustParse(t, string(text))))
		const declared = `"scrolls.whose" under identities: players: {key: id, in: [...]}`
		if !slices.ContainsFunc(found[merge.CodeUndecided], func(p merge.Problem) bool { return strings.Contains(p.Remedy, declared) }) {
			t.Errorf("no remedy says %s: %v", declared, found[merge.CodeUndecided])
		}
		plan.Tables["scrolls"] = &merge.TablePlan{Policy: merge.Copy}
		plan.Identities = packedIdentities()
		plan.Identities["players"].In = append(plan.Identities["players"].In, "scrolls.whose")
		run(t, opened(t, plan))
		players := map[string]string{"postgres": "p.id::text", "sqlite": "CAST(p.id AS TEXT)", "mysql": "CAST(p.id AS CHAR)"}[target.Dialect]
		if n := into.number(t, "SELECT COUNT(*) FROM scrolls s JOIN players p ON "+players+" = s.whose AND p.tag = s.tag"); n != 550 {
			t.Errorf("%d of 550 scrolls have their player", n)
		}
	})
}

// Keys that come into parts of a column behind the back of the lock stop a run, as those that fill it do.
func TestKeysInPartsOfColumnsAreAPartOfTheVerdict(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		scrolls := "CREATE TABLE scrolls (id BIGINT NOT NULL PRIMARY KEY, props TEXT NOT NULL)"
		servers, _, plan := small(t, target, append(slices.Clone(packed), scrolls), packedPlan(), packedRows(1, 100_000, 300),
			packedRows(2, 99_900, 250))
		plan.Identities, plan.Tables["scrolls"] = packedIdentities(), &merge.TablePlan{Policy: merge.Copy}
		for _, b := range servers {
			b.exec(t, "UPDATE stamps SET mark = id % 1000 * 5000000000", "UPDATE cards SET card0 = 5, card1 = 5")
		}
		plan.Identities["players"].In = plan.Identities["players"].In[:1]
		plan.Plain = []string{"stamps.mark"} // somebody has looked at it then
		_, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		giveUp(t, plan)
		if report, _ := problems(t, opened(t, plan, merge.WithLock(lock))); len(report.Problems) > 0 {
			t.Fatalf("nothing has changed, and check found %v", report.Problems)
		}
		for i, b := range servers {
			for n := range 200 {
				key := []int{100_000, 99_900}[i] + n
				b.exec(t, fmt.Sprintf("INSERT INTO stamps VALUES (%s, %d, '')", id(i+1, 9000+n), key<<32+n),
					fmt.Sprintf("INSERT INTO cards VALUES (%s, 254, %d, %d, '')", id(i+1, 9000+n), key%65536, key/65536),
					fmt.Sprintf(`INSERT INTO scrolls VALUES (%s, '{"owner": %d}')`, id(i+1, 9000+n), key))
			}
			b.exec(t, "DELETE FROM stamps WHERE tag <> ''")
		}
		_, found := problems(t, opened(t, plan, merge.WithLock(lock)))
		for column, says := range map[string]string{"mark": "bits 32-62", "card1": "bits 0-15", "props": "path $.owner"} {
			if !slices.ContainsFunc(found[merge.CodeLock], func(p merge.Problem) bool {
				return p.Column == column && strings.Contains(p.Message, "was plain") && strings.Contains(p.Message, says) ||
					p.Column == column && strings.Contains(p.Message, "was none") && strings.Contains(p.Message, says)
			}) {
				t.Errorf("%s: check found %v", column, found)
			}
		}
		if _, err := opened(t, plan, merge.WithLock(lock)).Run(t.Context()); !errors.Is(err, merge.ErrUndecided) {
			t.Errorf("the run ended with %v", err)
		}
	})
}
