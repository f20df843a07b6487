package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// named makes two servers with a table of roles that have these names, in this order, and a column that asks for
// another one.
func named(t testing.TB, target dbtest.Target, column string, first, second []string, r merge.RenamePlan) (base, *merge.Plan) {
	t.Helper()
	prepare, folds := folding(target, 16)
	schema := append(slices.Clone(prepare), "CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name "+strings.Replace(column, "FOLDS", folds, 1)+
		", flags INTEGER NOT NULL)")
	var rows [2][]string
	for s, names := range [][]string{first, second} {
		for n, name := range names {
			rows[s] = append(rows[s], fmt.Sprintf("INSERT INTO roles VALUES (%s, '%s', 4)", id(s+1, n), name))
		}
	}
	r.Column = "name"
	_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &r}},
		rows[0], rows[1])
	return into, plan
}

func TestManyNamesThatBeginAlikeAreNumberedByTheirRank(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		// Cut for ".s2", all of the second server begin alike, for the target also where the case differs.
		var same []string
		for n := range 130 {
			same = append(same, []string{"dragonrider0%04d", "DRAGONRIDER0%04d"}[n%2])
			same[n] = fmt.Sprintf(same[n], n)
		}
		taken := []string{"dragonrider.s2-2", "dragonride.s2-17", "dragonrid.s2-101", "dragonride.s2-10"}
		for _, keep := range []string{"first", "none"} {
			into, plan := named(t, target, "FOLDS NOT NULL UNIQUE", slices.Concat(same, taken), same, merge.RenamePlan{Keep: keep})
			run(t, open(t, plan))
			names := into.texts(t, "SELECT name FROM roles")
			folded := map[string]bool{}
			for _, name := range names {
				folded[strings.ToLower(name)] = true
				if utf8.RuneCountInString(name) > 16 {
					t.Errorf("%q is too long", name)
				}
			}
			renamed := into.number(t, "SELECT COUNT(*) FROM merge_renames")
			want := map[string]int64{"first": 130, "none": 260}[keep]
			if len(names) != 264 || len(folded) != 264 || renamed != want {
				t.Errorf("%s: of %d roles %d have names of their own, and %d other ones", keep, len(names), len(folded), renamed)
			}
			for _, name := range taken {
				if !has(names, name) {
					t.Errorf("%s: %q was taken from its role", keep, name)
				}
			}
		}
	})
}

func TestNamesThatOnlyTheGameKeepsApartAreRenamed(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		columns := "VARCHAR(16) NOT NULL"
		into, plan := named(t, target, columns, []string{"Heron", "", "Eagle", "", "Owl"},
			[]string{"Eagle", "", "Heron", "Kite"}, merge.RenamePlan{})
		tables := plan.Tables
		plan.Tables = nil
		drafted, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		p := drafted.Tables["roles"]
		if p.Policy != merge.Rename || p.Rename.Column != "name" || p.Rename.When != "name <> ''" {
			t.Fatalf("it drafts %+v", p)
		}
		drafted.Tables["roles"].Set = map[string]string{"flags": "flags | {renamed}"}
		m := open(t, drafted)
		run(t, m)
		got := into.texts(t, "SELECT CONCAT(name, ' ', flags) FROM roles ORDER BY name, id")
		if fmt.Sprint(got) != "[ 4  4  4 Eagle 4 Eagle.s1 5 Heron 4 Heron.s2 5 Kite 4 Owl 4]" {
			t.Errorf("the roles are %q", got)
		}
		for name, harm := range map[string]string{
			"duplicates": "UPDATE roles SET name = 'Heron' WHERE name = 'Owl'",
			"names":      "INSERT INTO merge_renames SELECT tbl, server, '" + id(2, 1) + "', col, '', '.s2', '" + id(2, 1) + "' FROM merge_renames WHERE old_name = 'Heron'",
			"checksum":   "UPDATE roles SET flags = 4 WHERE name = 'Heron.s2'",
		} {
			into.exec(t, harm)
			if failed := failures(t, m); !slices.Contains(failed, name) {
				t.Errorf("%s: verify finds %v", harm, failed)
			}
		}
		tables["roles"].Set = map[string]string{"name": "{renamed}"}
		fresh, _ := named(t, target, columns, nil, nil, merge.RenamePlan{})
		plan.Tables, plan.Target.DSN = tables, fresh.dsn
		if _, found := problems(t, open(t, plan)); len(found[merge.CodePlan]) == 0 {
			t.Error("a name that depends on whether it is another one is not refused")
		}
	})
}

// TestTheListOfRenamesHasTheKeysOfBefore and of afterwards, whatever the keys are.
func TestTheListOfRenamesHasTheKeysOfBothSides(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		for name, c := range map[string]struct{ servers, into, first, second, want string }{
			"counted": {"COUNTED, name VARCHAR(20)", "COUNTED, name VARCHAR(20)", "(7, 'Owl')", "(3, 'Owl')", "[3>10]"},
			"text": {"id VARCHAR(9) NOT NULL PRIMARY KEY, name VARCHAR(20)", "id VARCHAR(9) NOT NULL PRIMARY KEY, name VARCHAR(20)",
				"('a', 'Owl')", "('b', 'Owl')", `[["b"]>["b"]]`},
			"the name itself": {"id INTEGER NOT NULL, name VARCHAR(20), PRIMARY KEY (id, name)", "id INTEGER NOT NULL, name VARCHAR(20), PRIMARY KEY (id, name)",
				"(1, 'Owl')", "(1, 'Owl')", `[["1","Owl"]>["1","Owl.s2"]]`},
			"composite on the servers only": {"id INTEGER NOT NULL, name VARCHAR(20), realm INTEGER NOT NULL, PRIMARY KEY (realm, id)",
				"id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20), realm INTEGER NOT NULL", "(1, 'Owl', 5)", "(2, 'Owl', 5)", `[["5","2"]>2]`},
		} {
			if target.Dialect != "sqlite" && !nightly.Enabled() && turn(name+target.Name, 2) == 0 {
				continue
			}
			p := &merge.TablePlan{Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}, ForeignIDs: true}
			if name == "counted" {
				p.Renumber = merge.Behind
			}
			table := func(columns string) string { return "CREATE TABLE roles (" + columns + ")" }
			_, into, plan := small(t, target, nil, map[string]*merge.TablePlan{"roles": p},
				[]string{table(c.servers), "INSERT INTO roles VALUES " + c.first}, []string{table(c.servers), "INSERT INTO roles VALUES " + c.second})
			into.exec(t, table(c.into))
			m := open(t, plan)
			run(t, m)
			var got []string
			if err := m.Renames(t.Context(), func(r merge.Renamed) error {
				got = append(got, r.Key+">"+r.NewKey)
				return nil
			}); err != nil || fmt.Sprint(got) != c.want {
				t.Errorf("%s: it lists %v, want %s, %v", name, got, c.want, err)
			}
			into.exec(t, "UPDATE merge_renames SET new_key = '77'")
			if failed := failures(t, m); !slices.Contains(failed, "names") {
				t.Errorf("%s: with another new key verify finds %v", name, failed)
			}
		}
	})
}
