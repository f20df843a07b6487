package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestNamesThatTheTargetTakesForEqualAreMadeDifferent(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		prepare, name := folding(target, 16)
		schema := slices.Concat(prepare, []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name " + name + " NOT NULL UNIQUE)",
			"CREATE TABLE mail (id BIGINT NOT NULL PRIMARY KEY, from_id BIGINT NOT NULL, from_name VARCHAR(20) NOT NULL)"})
		tables := map[string]*merge.TablePlan{
			"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name",
				Copies: []merge.NameCopy{{Table: "mail", Column: "from_name", Ref: "from_id"}}}},
			"mail": {Policy: merge.Copy},
		}
		role := func(server, n int, name string) string {
			return fmt.Sprintf("INSERT INTO roles VALUES (%s, '%s')", id(server, n), name)
		}
		_, into, plan := small(t, target, schema, tables,
			[]string{
				role(1, 1, "Eagle"), role(1, 2, "Zoe"), role(1, 3, "龍龍龍龍龍龍龍龍龍龍龍龍龍龍龍a"), role(1, 4, "Only"),
				role(1, 5, "EAGLE.s2"), // what the second one would be called
				"INSERT INTO mail VALUES (" + id(1, 9) + ", " + id(1, 1) + ", 'Eagle')",
			},
			[]string{
				role(2, 11, "eagle"), role(2, 12, "Zoé"), role(2, 13, "龍龍龍龍龍龍龍龍龍龍龍龍龍龍龍a"),
				"INSERT INTO mail VALUES (" + id(2, 19) + ", " + id(2, 11) + ", 'eagle')",
			},
			[]string{
				role(3, 21, "EAGLE"), role(3, 22, "zoe  "), role(3, 23, "龍龍龍龍龍龍龍龍龍龍龍龍龍龍龍A"), role(3, 24, "Other"),
			})
		m := open(t, plan)
		report, found := problems(t, m)
		if len(found) > 0 || report.Verdict != merge.Resolved {
			t.Fatalf("%v: %v", report.Verdict, report.Problems)
		}
		run(t, m)
		names := into.texts(t, "SELECT name FROM roles ORDER BY id")
		for _, want := range []string{"Eagle", "EAGLE.s2", "eagle.s2-2", "EAGLE.s3", "Only", "Other",
			"龍龍龍龍龍龍龍龍龍龍龍龍龍.s2", "龍龍龍龍龍龍龍龍龍龍龍龍龍.s3", "Zoe"} {
			if !has(names, want) {
				t.Errorf("nobody is called %q: %q", want, names)
			}
		}
		for _, name := range names {
			if utf8.RuneCountInString(name) > 16 {
				t.Errorf("%q is too long", name)
			}
		}
		folds := map[string]bool{"mysql": true, "postgres": true}[target.Dialect]
		if got := has(names, "Zoé.s2"); got != folds {
			t.Errorf("Zoé was renamed: %t: %q", got, names)
		}
		for _, c := range report.Conflicts {
			if !has(names, c.NewName) {
				t.Errorf("the check announced %q, which nobody has", c.NewName)
			}
		}
		if got := into.texts(t, "SELECT from_name FROM mail ORDER BY id"); fmt.Sprint(got) != "[Eagle eagle.s2-2]" {
			t.Errorf("mail is from %v", got)
		}
		var list strings.Builder
		if err := m.WriteRenames(t.Context(), &list); err != nil || !strings.Contains(list.String(),
			"roles,name,2,"+id(2, 11)+",eagle,eagle.s2-2") {
			t.Errorf("the list of renames is %q, %v", list.String(), err)
		}
	})
}

func TestWhoKeepsANameIsForThePlanToSay(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE, level INTEGER)",
		}
		_, _, plan := small(t, target, schema, nil,
			[]string{"INSERT INTO roles VALUES (" + id(1, 50) + ", 'first', NULL)"},
			[]string{"INSERT INTO roles VALUES (" + id(2, 1) + ", 'first', 7)"})
		for want, p := range map[string]merge.RenamePlan{
			"[first.s1 first]":            {Keep: "older"}, // the role of the second server was made before
			"[first first.s2]":            {Keep: "first"},
			"[first.s1 first ]":           {Keep: "highest", By: "level"},
			"[first.s1 first.s2]":         {Keep: "none"},
			"[s1.first first]":            {Format: "s{server}.{name}"},
			"[fi~s1 first]":               {Format: "{name}~s{server}", Max: 5},
			"[first-of-1-of-1-1 first  ]": {Format: "{name}-of-{server}-of-{server}-{server}"},
		} {
			t.Run(want, func(t *testing.T) {
				if p.Keep != "highest" && p.Max == 0 {
					onServersAtNight(t, target)
				}
				p.Column = "name"
				into := newBase(t, target)
				into.exec(t, schema...)
				plan.Target.DSN = into.dsn
				plan.Tables = map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &p}}
				run(t, open(t, plan))
				byServer := "SELECT name FROM roles ORDER BY (id >> 10) & 1048575"
				if got := fmt.Sprint(into.texts(t, byServer)); got != strings.ReplaceAll(want, " ]", "]") &&
					got != strings.ReplaceAll(want, "  ]", "]") {
					t.Errorf("%+v: %s, want %s", p, got, want)
				}
			})
		}
	})
}

func TestNewNamesFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format, old string
		attempt     int64
		limit       int
		want        string
		ok          bool
	}{
		{"", "Bob", 1, 16, "Bob.s7", true},
		{"", "Bob", 2, 16, "Bob.s7-2", true},
		{"", "Bob  ", 1, 0, "Bob.s7", true},
		{"", "0123456789abcdef", 1, 16, "0123456789abc.s7", true},
		{"", "0123456789abcdef", 12, 16, "0123456789.s7-12", true},
		{"s{server}.{name}", "龍龍龍龍", 1, 5, "s7.龍龍", true},
		{"", "12 45678", 1, 6, "12.s7", true},         // no blank before the point
		{"", "12e\u0301456", 1, 6, "12.s7", true},     // no e that has lost its accent
		{"", "👩\u200d👩\u200d👧!!", 1, 5, "👩.s7", true}, // no joiner that joins nothing
		{"", "Bob", 1, 3, "", false},
		{"{server}: {name}", "{server}", 1, 0, "7: {server}", true},
	} {
		got, ok := merge.NewName(c.format, c.old, 7, c.attempt, c.limit)
		if got != c.want || ok != c.ok {
			t.Errorf("%+v: %q, %t", c, got, ok)
		}
	}
}

// A column that is computed from the name beside it follows, or players would be found by a name that they lost.
func TestWhatIsComputedFromANameFollowsIt(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (COUNTED, name VARCHAR(20) NOT NULL, folded VARCHAR(20) NOT NULL, " +
			"shown VARCHAR(20), UNIQUE (name))"}
		server := func(own string) (all []string) {
			for n := range 30 {
				name := fmt.Sprintf("%s Falk%d", []string{"Éva", own}[n%2], n*len(own)%31)
				all = append(all, fmt.Sprintf("INSERT INTO heroes (name, folded, shown) VALUES ('%s', '%s', '%[1]s')", name,
					strings.ToLower(name)))
			}
			return all
		}
		_, into, plan := small(t, target, schema, nil, server("Ai"), server("Bob"))
		plan, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		want := []merge.DerivedName{{Column: "folded", As: "lower"}, {Column: "shown", As: "same"}}
		if r := plan.Tables["heroes"].Rename; r == nil || !slices.Equal(r.Derived, want) {
			t.Fatalf("the rename is %+v", r)
		}
		plan.Tables["heroes"].Rename.Derived = want[1:]
		report, _ := problems(t, opened(t, plan))
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "{column: folded, as: lower} under derived: of the rename") {
			t.Errorf("check does not say how the column is computed: %s", got)
		}
		plan.Tables["heroes"].Rename.Derived = want
		run(t, open(t, plan))
		for _, text := range into.texts(t, "SELECT CONCAT(name, '/', folded, '/', shown) FROM heroes") {
			part := strings.Split(text, "/")
			if folded := strings.ToLower(part[0]); part[0] != part[2] || part[1] != folded {
				t.Errorf("a hero has the names %s", text)
			}
		}
	})
}

// A column that leads elsewhere is not computed from a name, nor is one that players may change by themselves.
func TestWhatOnlyBeginsLikeANameIsNotComputedFromIt(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		const all = 501
		schema := []string{"CREATE TABLE logins (login VARCHAR(20) NOT NULL, PRIMARY KEY (login))",
			"CREATE TABLE heroes (COUNTED, name VARCHAR(20) NOT NULL, login VARCHAR(20), shown VARCHAR(20), " +
				"same VARCHAR(20), UNIQUE (name), FOREIGN KEY (login) REFERENCES logins (login))"}
		server := func(own int) []string {
			var logins, heroes []string
			for n := range all {
				name := fmt.Sprintf("Falk%d", n*(own+1))
				logins, heroes = append(logins, "('"+name+"')"), append(heroes,
					fmt.Sprintf("('%s', '%[1]s', '%s', '%[1]s')", name, name+strings.Repeat("!", n/(all-1))))
			}
			return []string{"INSERT INTO logins VALUES " + strings.Join(logins, ", "),
				"INSERT INTO heroes (name, login, shown, same) VALUES " + strings.Join(heroes, ", ")}
		}
		_, _, plan := small(t, target, schema, nil, server(1), server(2))
		plan, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		r := plan.Tables["heroes"].Rename
		if want := []merge.DerivedName{{Column: "same", As: "same"}}; r == nil || !slices.Equal(r.Derived, want) {
			t.Fatalf("the rename is %+v", r)
		}
	})
}

// A new name fits into the columns that are computed from it, too.
func TestNewNamesFitWhereTheyAreRepeated(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (COUNTED, name VARCHAR(20) NOT NULL, shown VARCHAR(8), UNIQUE (name))"}
		rows := []string{"INSERT INTO heroes (name, shown) VALUES ('Falk1234', 'Falk1234')"}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"heroes": {Policy: merge.Rename, Renumber: merge.Apart,
			Rename: &merge.RenamePlan{Column: "name", Derived: []merge.DerivedName{{Column: "shown", As: "same"}}}}}, rows, rows)
		run(t, open(t, plan))
		if got := into.texts(t, "SELECT shown FROM heroes WHERE shown = name ORDER BY shown DESC"); fmt.Sprint(got) != "[Falk1234 Falk1.s2]" &&
			fmt.Sprint(got) != "[Falk1.s2 Falk1234]" {
			t.Errorf("the heroes are called %v", got)
		}
	})
}
