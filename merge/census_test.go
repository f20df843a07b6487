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

// nobodySaid is a game without foreign keys. Each row that refers to a hero repeats the tag of the hero, so that
// plain SQL can tell a stranger.
var nobodySaid = []string{
	"CREATE TABLE heroes (COUNTED, tag VARCHAR(20) NOT NULL, level INTEGER)",
	"CREATE TABLE hero_sheets (hero INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
	"CREATE TABLE bags (hero INTEGER NOT NULL, slot INTEGER NOT NULL, tag VARCHAR(20) NOT NULL, PRIMARY KEY (hero, slot))",
	"CREATE TABLE swords (COUNTED, maker DECIMAL(11,0), weight INTEGER, tag VARCHAR(20))",
	"CREATE TABLE letters (COUNTED, kind INTEGER, sender INTEGER, tag VARCHAR(20))",
	"CREATE TABLE graves (COUNTED, lost_hero INTEGER, tag VARCHAR(20))",
}

// nobodySaidRows fills a server: the heroes have the keys from 1 on, without every fifth one.
func nobodySaidRows(server, heroes int) []string {
	tag := func(hero int) string { return fmt.Sprintf("'s%d-%d'", server, hero) }
	alive := func(n int) int {
		hero := n%heroes + 1
		if (hero+server)%5 == 0 {
			hero--
		}
		return max(hero, 1)
	}
	rows := map[string][]string{}
	add := func(table, format string, values ...any) {
		rows[table] = append(rows[table], "("+fmt.Sprintf(format, values...)+")")
	}
	for n := range heroes {
		hero := n + 1
		if hero > 1 && (hero+server)%5 == 0 {
			continue
		}
		add("heroes (id, tag, level)", "%d, %s, %d", hero, tag(hero), n/7%40+1)
		add("hero_sheets (hero, tag)", "%d, %s", hero, tag(hero))
		for slot := range n % 3 {
			add("bags (hero, slot, tag)", "%d, %d, %s", hero, slot, tag(hero))
		}
	}
	for n := range 2 * heroes {
		if maker := alive(n * 7); n%4 == 0 {
			add("swords (id, maker, weight, tag)", "%d, 0, %d, NULL", n+1, n%90)
		} else {
			add("swords (id, maker, weight, tag)", "%d, %d, %d, %s", n+1, maker, n%90, tag(maker))
		}
		if sender := alive(n * 11); n%3 == 0 {
			add("letters (id, kind, sender, tag)", "%d, 2, %d, NULL", n+1, n*37%4000+1)
		} else {
			add("letters (id, kind, sender, tag)", "%d, 1, %d, %s", n+1, sender, tag(sender))
		}
	}
	for n := range heroes {
		if hero := alive(n * 13); n%19 == 0 {
			add("graves (id, lost_hero, tag)", "%d, %d, NULL", n+1, 3*heroes+n)
		} else {
			add("graves (id, lost_hero, tag)", "%d, %d, %s", n+1, hero, tag(hero))
		}
	}
	var statements []string
	for table, all := range rows {
		statements = append(statements, "INSERT INTO "+table+" VALUES "+strings.Join(all, ", "))
	}
	return statements
}

// strangers counts the rows that refer to another hero than the one whose tag they have.
func strangers(t *testing.T, b base, table, column string) int64 {
	t.Helper()
	return b.number(t, "SELECT COUNT(*) FROM "+table+" c WHERE c.tag IS NOT NULL AND NOT EXISTS (SELECT 1 FROM heroes h "+
		"WHERE h.id = c."+column+" AND h.tag = c.tag)")
}

func TestADraftFindsTheReferencesThatNobodyDeclared(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, nobodySaid, nil, nobodySaidRows(1, 200), nobodySaidRows(2, 230))
		draft := draftOf(t, plan)
		for table, p := range draft.Tables {
			if p.Policy != merge.Copy || (p.Renumber == merge.Apart) != (table != "hero_sheets" && table != "bags") {
				t.Errorf("%s: policy %s, renumber %q", table, p.Policy, p.Renumber)
			}
			if len(p.References) > 0 {
				t.Errorf("%s has references of its own: %+v", table, p.References)
			}
		}
		want := []string{"bags.hero", "hero_sheets.hero", "letters.sender when kind = 1", "swords.maker when maker <> 0"}
		heroes := draft.Identities["heroes"]
		if len(draft.Identities) != 1 || heroes == nil || heroes.Key != "id" || !slices.Equal(heroes.In, want) {
			t.Fatalf("the identities are %+v, want heroes in %q", draft.Identities, want)
		}
		text, err := draft.YAML()
		if err != nil || !strings.Contains(string(text), "\n  # columns: 4, with 1231 different values, which are keys on each server\n  "+
			"heroes: {key: id, in: [bags.hero, hero_sheets.hero, letters.sender when kind = 1,\n") {
			t.Errorf("the plan does not say what speaks for the columns (%v):\n%s", err, text)
		}

		// Some heroes were deleted whose graves are still there, so a person has to say.
		open1 := draft.Tables["graves"].Undecided
		if len(open1) != 1 || open1[0].Column != "lost_hero" || open1[0].Candidate != "heroes.id" {
			t.Fatalf("undecided is %+v", open1)
		}
		m := open(t, draft)
		_, found := problems(t, m)
		if p := found[merge.CodeUndecided]; len(p) != 1 || p[0].Table != "graves" || p[0].Column != "lost_hero" ||
			!strings.Contains(p[0].Remedy, `"graves.lost_hero" under identities: heroes: {key: id, `) {
			t.Errorf("check found %v", found)
		}
		if _, err := m.Run(t.Context()); !errors.Is(err, merge.ErrUndecided) {
			t.Errorf("the run ended with %v", err)
		}
		draft.Tables["graves"].Undecided = nil
		heroes.In = append(heroes.In, "graves.lost_hero")
		draft.Tables["graves"].Orphans = "drop"
		run(t, open(t, draft))
		for table, column := range map[string]string{
			"hero_sheets": "hero", "bags": "hero", "swords": "maker", "letters": "sender", "graves": "lost_hero"} {
			if n := strangers(t, into, table, column); n > 0 {
				t.Errorf("%d rows of %s refer to a stranger", n, table)
			}
		}
	})
}

func TestAPlanKeepsWhatIsUndecidedAboutColumns(t *testing.T) {
	t.Parallel()
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
		Servers: []merge.Server{{Name: "s1", Number: 1}}, Target: merge.Target{Name: "s1", Number: 1},
		Tables: map[string]*merge.TablePlan{"a": {Policy: merge.Copy,
			References: []merge.Reference{{Column: "b", Table: "a", Note: "seen"}},
			Undecided: []merge.OpenColumn{{Column: "c", Candidate: "a.id"}, {Column: "c", Candidate: "a.id", As: "bits 0-15", With: "d"},
				{Column: "n", Candidate: "a.name", As: "names", With: "b"}, {Column: "n", Candidate: "a.name", As: "path $.x", When: "d = 1"},
				{Column: "a when b", Candidate: "b", Evidence: "5 of 6"}}}}}
	text, err := plan.YAML()
	if err != nil {
		t.Fatal(err)
	}
	read, err := merge.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Tables["a"].Undecided
	if p := read.Tables["a"]; !slices.Equal(p.Undecided, slices.Concat(want[4:], want[:4])) || p.References[0].Note != "seen" {
		t.Errorf("read was %+v of\n%s", p, text)
	}
	for wrong, says := range map[string]string{"undecided: {roles.id: [pages.role]}": "no table", "undecided: {roles.id: [mail]}": "table.column",
		"groups: [{tables: [pages, mail], policy: copy}]": "two policies", "groups: [{tables: [pages], polizy: copy}]": "polizy"} {
		if _, err := merge.Parse([]byte(goodPlan + wrong)); !errors.Is(err, merge.ErrPlan) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s is read: %v", wrong, err)
		}
	}
	for _, text := range []string{"[{tables: [pages, notes], policy: copy, orphans: null}]",
		`[{"tables": ["pages", "notes"], "orphans":null,"policy": "copy"}]`,
		"\n- tables: [pages, notes]\n  orphans: Null # none\n  policy: copy",
		"\n- orphans: null\n  tables: [pages, notes]\n  policy: copy"} {
		grouped, err := merge.Parse([]byte(goodPlan + "groups: " + text))
		if err != nil || grouped.Tables["pages"].Orphans != "null" || grouped.Tables["notes"].Policy != merge.Copy {
			t.Errorf("the tables of a group are %+v, %v", grouped, err)
		}
	}
}

// forgotten is the plan of a person for the game that nobody declared, with a mistake in it.
func forgotten(mistake func(tables map[string]*merge.TablePlan)) map[string]*merge.TablePlan {
	tables := map[string]*merge.TablePlan{
		"heroes":      {Policy: merge.Copy, Renumber: merge.Behind},
		"hero_sheets": {Policy: merge.Copy, References: []merge.Reference{{Column: "hero", Table: "heroes"}}},
		"bags":        {Policy: merge.Copy, References: []merge.Reference{{Column: "hero", Table: "heroes"}}},
		"swords": {Policy: merge.Copy, Renumber: merge.Behind,
			References: []merge.Reference{{Column: "maker", Table: "heroes", When: "maker <> 0"}}},
		"letters": {Policy: merge.Copy, Renumber: merge.Behind,
			References: []merge.Reference{{Column: "sender", Table: "heroes", When: "kind = 1"}}},
		"graves": {Policy: merge.Copy, Renumber: merge.Behind, Orphans: "drop",
			References: []merge.Reference{{Column: "lost_hero", Table: "heroes"}}},
	}
	mistake(tables)
	return tables
}

func TestADeclaredReferenceThatTheDataContradictsIsAProblem(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		for name, c := range map[string]struct {
			mistake func(tables map[string]*merge.TablePlan)
			second  string // what is done to the second server
			code    merge.Code
			column  string // "" if there is none
		}{
			"no mistake": {mistake: func(map[string]*merge.TablePlan) {}},
			"a condition that too few rows meet": {
				mistake: func(tables map[string]*merge.TablePlan) {
					tables["swords"].References[0].When = "maker > 0 AND weight < 45"
				}, code: merge.CodeUndeclared, column: "maker"},
			"a condition that no row meets": {
				mistake: func(tables map[string]*merge.TablePlan) { tables["swords"].References[0].When = "weight = 1000" },
				code:    merge.CodeUndeclared, column: "maker"},
			"two conditions that all rows meet": {
				mistake: func(tables map[string]*merge.TablePlan) {
					tables["swords"].References = []merge.Reference{
						{Column: "maker", Table: "heroes", When: "maker > 0 AND weight < 45"},
						{Column: "maker", Table: "heroes", When: "maker > 0 AND weight >= 45"}}
				}},
			"a server where no value is a key": {mistake: func(map[string]*merge.TablePlan) {},
				second: "UPDATE graves SET lost_hero = lost_hero + 9000", code: merge.CodeOrphan, column: "lost_hero"},
			"such a server, whose rows the plan leaves out": {
				mistake: func(tables map[string]*merge.TablePlan) { tables["graves"].Where = "lost_hero < 9000" },
				second:  "UPDATE graves SET lost_hero = lost_hero + 9000"},
		} {
			second := nobodySaidRows(2, 230)
			if c.second != "" {
				second = append(second, c.second)
			}
			_, _, plan := small(t, target, nobodySaid, forgotten(c.mistake), nobodySaidRows(1, 200), second)
			report, _ := problems(t, open(t, plan))
			right := len(report.Problems) > 0 == (c.column != "")
			for _, p := range report.Problems {
				right = right && p.Code == c.code && p.Column == c.column
			}
			if !right {
				t.Errorf("%s: check found %v", name, report.Problems)
			}
		}
	})
}

// Who says that the rows which meet no condition of a reference lead nowhere, as the remedy of an orphan has it, has
// said of the whole column what it is.
func TestCheckWarnsOfNoColumnOfWhichThePlanSaysWhereAllOfItLeads(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		names := []string{"boats", "cars", "carts", "heroes", "pets", "mail"}
		var schema []string
		for _, name := range names {
			schema = append(schema, "CREATE TABLE "+name+" (COUNTED, target INTEGER)")
		}
		server := func(seed int) []string {
			var all []string
			for n := 1; n <= 400; n++ {
				for gap, name := range names[:len(names)-1] {
					if n%(13+gap) != seed {
						all = append(all, fmt.Sprintf("INSERT INTO %s (id) VALUES (%d)", name, n))
					}
				}
				all = append(all, fmt.Sprintf("INSERT INTO mail (target) VALUES (%d)", n))
			}
			return all
		}
		tables := map[string]*merge.TablePlan{}
		for _, name := range names {
			tables[name] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Apart}
		}
		warned := func(when string) (all string) {
			tables["mail"].References = []merge.Reference{{Column: "target", Table: "heroes", When: when}}
			_, _, plan := small(t, target, schema, tables, server(1), server(2))
			report, _ := problems(t, open(t, plan))
			for _, p := range report.Warnings {
				if p.Code == merge.CodeUndeclared && p.Table == "mail" && p.Column == "target" {
					all += p.Message + "\n"
				}
			}
			return all
		}
		if warned("target IN (SELECT id FROM heroes)") != "" {
			t.Error("check warns of a column of which the plan says where each row leads")
		}
		if got := warned("target < 200"); !strings.Contains(got, "may be keys of heroes, ") {
			t.Errorf("of rows of which the plan says nothing, check says %q", got)
		}
	})
}

// A few words say nothing, and a condition that is written for another database selects no row of this one.
func TestAConditionThatNoRowOfAnyServerMeetsIsAWarning(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (COUNTED, tag VARCHAR(20))",
			"CREATE TABLE words (no BIGINT NOT NULL PRIMARY KEY, kind VARCHAR(20), hero INTEGER)"}
		server := func(number int) []string {
			return []string{"INSERT INTO heroes (tag) VALUES ('a'), ('b'), ('c')",
				fmt.Sprintf("INSERT INTO words VALUES (%s, 'Hero', 2), (%s, 'Pet', 77), (%s, 'Pet', 78)", id(number, 1), id(number, 2), id(number, 3))}
		}
		for when, warned := range map[string]bool{`kind = 'App:Hero'`: true, "kind = 'Hero'": false} {
			_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{"heroes": {Policy: merge.Copy, Renumber: merge.Behind},
				"words": {Policy: merge.Copy, References: []merge.Reference{{Column: "hero", Table: "heroes", When: when}}}}, server(1), server(2))
			report, _ := problems(t, open(t, plan))
			says := func(p merge.Problem) bool {
				return p.Code == merge.CodePlan && p.Table == "words" && p.Column == "hero" && strings.Contains(p.Message, when)
			}
			if slices.ContainsFunc(report.Warnings, says) != warned || len(report.Problems) > 0 {
				t.Errorf("%s: %v, %v", when, report.Problems, report.Warnings)
			}
		}
	})
}
