package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// TestManyRowsGetTheNamesThatEachWouldGetAlone renames rows whose new names the target makes, rows whose names
// have to be cut or end with a blank, and rows whose new names are taken, all of them in one table. Each new name
// is what merge.NewName says.
func TestManyRowsGetTheNamesThatEachWouldGetAlone(t *testing.T) {
	t.Parallel()
	ways := map[string]string{"sqlite": "attach", "mysql": "insert-select", "postgres": "rows"}
	databases(t, func(t *testing.T, target dbtest.Target) {
		const limit, format = 12, "<{name}>{server}"
		names := []string{"Al", "12345678", "123456789", "1234567890", "龍龍龍龍", "龍龍龍龍龍龍龍龍龍", "blank ", "o'Neil", `a\b`,
			"e\u0301e\u0301e\u0301e\u0301e\u0301", "per%cent", "Zoe", "Taken", "Twice"}
		servers, into, plan := small(t, target,
			[]string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(12) NOT NULL UNIQUE)"},
			map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name", Format: format}}},
			nil, nil, nil)
		for i, s := range servers {
			own := slices.Clone(names)
			switch i {
			case 0: // has what others would be called
				own = append(own, "<Taken>2", "<Twice>2", "<Twice>2-2", "<Twice>3")
			case 2: // is one of several that would be called so
				own = append(own, "only here")
			}
			for n, name := range own {
				s.exec(t, fmt.Sprintf("INSERT INTO roles VALUES (%s, '%s')", id(i+1, n+1), inQuotes(target, name)))
			}
		}
		m := open(t, plan)
		report, err := m.Run(t.Context())
		if err != nil || report.Renamed != int64(2*len(names)) {
			t.Fatalf("%+v, %v", report, err)
		}
		for _, c := range report.Tables {
			if want := ways[target.Dialect]; c.Way != want && c.Server != "s1" {
				t.Errorf("the rows of %s went as %s, not as %s", c.Server, c.Way, want)
			}
		}
		if n := report.Check.Tables[0].Conflicts; n != int64(2*len(names)) || len(report.Check.Conflicts) != int(n) {
			t.Errorf("there were %d conflicts, and %d are listed", n, len(report.Check.Conflicts))
		}
		attempts := map[string]int64{"Taken2": 2, "Twice2": 3, "Twice3": 2}
		for i := 2; i <= 3; i++ {
			for n, name := range names {
				attempt := max(1, attempts[fmt.Sprint(name, i)])
				want, _ := merge.NewName(format, name, int64(i), attempt, limit)
				if name == "123456789" || name == "1234567890" { // these are equal when they are cut
					want = ""
				}
				of := " FROM merge_renames WHERE row_key = '" + id(i, n+1) + "'"
				got, noted := into.texts(t, "SELECT name FROM roles WHERE id = "+id(i, n+1)), into.texts(t, "SELECT new_name"+of)
				if len(got) != 1 || !slices.Equal(got, noted) || want != "" && got[0] != want {
					t.Errorf("%q of %d is called %q, in the list %q, and should be %q", name, i, got, noted, want)
				}
				if old := into.texts(t, "SELECT old_name"+of); fmt.Sprintf("%q", old) != fmt.Sprintf("%q", []string{name}) {
					t.Errorf("%q of %d had the name %q in the list", name, i, old)
				}
				at := slices.IndexFunc(report.Check.Conflicts, func(c merge.Conflict) bool { return c.Other.Key == id(i, n+1) })
				if at < 0 {
					t.Errorf("%q of %d is no conflict of the report", name, i)
				} else if c := report.Check.Conflicts[at]; c.Keeper.Key != id(1, n+1) || c.NewName != got[0] || c.Value != name {
					t.Errorf("%q of %d is the conflict %+v", name, i, c)
				}
			}
		}
		if v, err := m.Verify(t.Context()); err != nil || !v.OK {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// inQuotes returns a text as it stands between quotes in SQL.
func inQuotes(target dbtest.Target, text string) string {
	text = strings.ReplaceAll(text, "'", "''")
	if target.Dialect == "mysql" {
		text = strings.ReplaceAll(text, `\`, `\\`)
	}
	return text
}

// TestANewNameThatATableRefusesIsFoundByTheCheck has tables that take a name by more than its type.
func TestANewNameThatATableRefusesIsFoundByTheCheck(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		for what, schema := range map[string][]string{
			"a check": {"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE, " +
				"CHECK (name NOT LIKE '%.s2'))"},
		} {
			_, _, plan := small(t, target, schema,
				map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}},
				[]string{"INSERT INTO roles VALUES (" + id(1, 1) + ", 'Eagle')"},
				[]string{"INSERT INTO roles VALUES (" + id(2, 1) + ", 'Eagle')"})
			report, err := open(t, plan).Check(t.Context())
			if err != nil || !slices.ContainsFunc(report.Problems, func(p merge.Problem) bool { return p.Code == merge.CodeRefused }) {
				t.Errorf("%s: %v, %v", what, report.Problems, err)
			}
		}
	})
}

// TestKeysOfSQLiteThatAreNoNumbersAreRenamedToo has a column of numbers with a text in it.
func TestKeysOfSQLiteThatAreNoNumbersAreRenamedToo(t *testing.T) {
	t.Parallel()
	targets := dbtest.Servers()
	target := targets[slices.IndexFunc(targets, func(t dbtest.Target) bool { return t.Dialect == "sqlite" })]
	_, into, plan := small(t, target, []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE)"},
		map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, ForeignIDs: true, Rename: &merge.RenamePlan{Column: "name"}}},
		[]string{"INSERT INTO roles VALUES (" + id(1, 1) + ", 'Eagle')"},
		[]string{"INSERT INTO roles VALUES ('two', 'Eagle')"})
	report, err := open(t, plan).Run(t.Context())
	got := fmt.Sprint(into.texts(t, "SELECT name FROM roles ORDER BY name"))
	if err != nil || got != "[Eagle Eagle.s2]" || report.Tables[1].Way != "rows" {
		t.Error(got, report, err)
	}
}
