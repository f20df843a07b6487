package merge_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// lossy makes two servers and a plan that loses rows for every reason but a refusal of the target. It returns the
// numbers, which were counted by hand.
func lossy(t testing.TB, target dbtest.Target) ([]base, base, *merge.Plan, map[string]merge.GivenUp) {
	t.Helper()
	schema := []string{
		"CREATE TABLE players (id BIGINT NOT NULL PRIMARY KEY, level INTEGER NOT NULL)",
		"CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, owner_id BIGINT NOT NULL, worth INTEGER NOT NULL)",
		"CREATE TABLE settings (name VARCHAR(20) NOT NULL PRIMARY KEY, value VARCHAR(20))",
		"CREATE TABLE auction_log (n INTEGER NOT NULL)",
		"CREATE TABLE rankings (place INTEGER NOT NULL)",
		"CREATE TABLE mail (id BIGINT NOT NULL PRIMARY KEY)",
	}
	server := func(s, players int) (rows []string) {
		for n := 1; n <= players; n++ { // one of level 0, with an item
			rows = append(rows, fmt.Sprintf("INSERT INTO players VALUES (%s, %d)", id(s, n), n-1),
				fmt.Sprintf("INSERT INTO items VALUES (%s, %s, %d)", id(s, n+20), id(s, n), n))
		}
		return append(rows,
			"INSERT INTO items VALUES ("+id(s, 50)+", "+id(s, 60)+", 5)", // an owner whom nobody knows
			"INSERT INTO items VALUES ("+id(s, 51)+", "+id(s, 60)+", 0)", // this one does not meet the condition either
			"INSERT INTO settings VALUES ('rate', 'of "+fmt.Sprint(s)+"'), ('only "+fmt.Sprint(s)+"', '1')",
			"INSERT INTO auction_log VALUES (1), (1), (2)", "INSERT INTO rankings VALUES (1)",
			"INSERT INTO mail VALUES ("+id(s, 1)+")")
	}
	bases, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
		"players": {Policy: merge.Copy, Where: "level > 0"},
		"items": {Policy: merge.Copy, Where: "worth > 0", Orphans: "drop",
			References: []merge.Reference{{Column: "owner_id", Table: "players"}}},
		"settings":    {Policy: merge.KeepFirst, Key: []string{"name"}},
		"auction_log": {Policy: merge.Skip}, "rankings": {Policy: merge.Rebuild}, "mail": {Policy: merge.Copy},
	}, append(server(1, 3), "INSERT INTO rankings VALUES (2)"), server(2, 4))
	return bases, into, plan, map[string]merge.GivenUp{
		"players": {Filtered: 2}, "items": {Orphans: 4, Filtered: 2}, "settings": {Collapsed: 1, Differing: 1},
		"auction_log": {Skipped: 6}, "rankings": {Rebuilt: 3},
	}
}

func TestEveryRowThatIsLostNeedsItsNumberInThePlan(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		servers, into, plan, lost := lossy(t, target)
		report, found := problems(t, opened(t, plan))
		if len(found[merge.CodeGivesUp]) != len(lost) || len(report.Problems) != len(lost) || !maps.Equal(report.GivesUp, lost) {
			t.Fatalf("check wants %v, found %v", report.GivesUp, report.Problems)
		}
		if p := found[merge.CodeGivesUp][1]; p.Table != "items" || p.Count != 6 || !strings.Contains(p.Message, "s1 3, s2 3") ||
			!strings.Contains(p.Remedy, "items: {orphans: 4, filtered: 2}") {
			t.Errorf("it says %v", p)
		}
		if _, err := opened(t, plan).Run(t.Context()); !errors.Is(err, merge.ErrUndecided) {
			t.Errorf("run goes on: %v", err)
		}
		plan.GivesUp = report.GivesUp
		run(t, open(t, plan))
		for name := range plan.Tables {
			rows := -into.number(t, "SELECT COUNT(*) FROM "+name)
			for _, s := range servers {
				rows += s.number(t, "SELECT COUNT(*) FROM "+name)
			}
			g := lost[name]
			if sum := g.Collapsed + g.Orphans + g.Filtered + g.Skipped + g.Rebuilt + g.Quarantined; rows != sum {
				t.Errorf("%s lost %d rows, and %d were given up", name, rows, sum)
			}
		}
	})
}

// The migrations of a game fill its items in the target. A merge that skips them loses something only where a server has
// changed one.
func TestOnlyContentThatDiffersFromThatOfTheTargetIsGivenUp(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE items (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20), price DECIMAL(8, 2), " +
		"since DATE, worn FLOAT)", "CREATE TABLE players (id BIGINT NOT NULL PRIMARY KEY)"}
	content := []string{"INSERT INTO items VALUES (1, 'sword', 2.5, '2026-11-30', 0.1), (2, NULL, NULL, NULL, NULL), (3, '', 0, NULL, 0)"}
	for change, changed := range map[string][2]string{ // on a server, and in the target
		"":             {},
		"a value":      {"UPDATE items SET price = 2.6 WHERE id = 1"},
		"a hair":       {"UPDATE items SET worn = 0.1000001 WHERE id = 1"},
		"a NULL":       {"UPDATE items SET name = '' WHERE id = 2"},
		"a row":        {"INSERT INTO items VALUES (4, 'shield', 1, NULL, 0)"},
		"another row":  {"UPDATE items SET id = 4 WHERE id = 3"},
		"a column":     {"ALTER TABLE items ADD COLUMN tint INTEGER"},
		"the target":   {"", "DELETE FROM items WHERE id = 3"},
		"a new column": {"", "ALTER TABLE items ADD COLUMN tint INTEGER"},
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			plans(t, func(t *testing.T, target dbtest.Target) {
				servers, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"items": {Policy: merge.Skip},
					"players": {Policy: merge.Copy}}, append(content, "INSERT INTO players VALUES ("+id(1, 1)+")"),
					append(content, "INSERT INTO players VALUES ("+id(2, 1)+")"))
				into.exec(t, content...)
				for i, b := range []base{servers[1], into} {
					if changed[i] != "" {
						b.exec(t, changed[i])
					}
				}
				given := merge.GivenUp{Skipped: 6}
				if change == "a row" {
					given.Skipped = 7
				}
				if change == "" || change == "a new column" {
					given = merge.GivenUp{}
				}
				report, _ := problems(t, opened(t, plan))
				if report.GivesUp["items"] != given || len(report.Problems) != len(report.GivesUp) {
					t.Fatalf("check wants %v, found %v", report.GivesUp, report.Problems)
				}
				plan.GivesUp = map[string]merge.GivenUp{"items": cmp.Or(given, merge.GivenUp{Skipped: 6})} // as older plans have it
				if report, _ = problems(t, opened(t, plan)); len(report.Problems) > 0 {
					t.Errorf("a plan with a number is refused: %v", report.Problems)
				}
				plan.GivesUp["items"] = given
				m := open(t, plan)
				run(t, m)
				if change == "" {
					into.exec(t, "UPDATE items SET worn = 0.2 WHERE id = 1")
					if v, err := m.Verify(t.Context()); err != nil || v.OK {
						t.Errorf("verify takes other items for those of the servers: %v", err)
					}
				}
			})
		})
	}
}

func TestANumberThatDoesNotFitStopsTheMerge(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan, lost := lossy(t, target)
		for name, wrong := range map[string]merge.GivenUp{
			"players": {Filtered: 1}, "items": {Orphans: 2, Filtered: 4}, "settings": {Collapsed: 2},
			"auction_log": {Rebuilt: 6}, "rankings": {}, "mail": {Skipped: 1},
		} {
			plan.GivesUp = maps.Clone(lost)
			plan.GivesUp[name] = wrong
			report, found := problems(t, opened(t, plan))
			if len(report.Problems) != 1 || len(found[merge.CodeGivesUp]) != 1 || report.Problems[0].Table != name ||
				!maps.Equal(report.GivesUp, lost) {
				t.Errorf("%s: check found %v", name, report.Problems)
			}
		}
	})
}

func TestRowsInTheQuarantineNeedTheirNumberBeforeARunEnds(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		target = target.Privileged() // it makes triggers
		for given, fits := range map[int64]bool{0: false, 1: true, 2: false} {
			plain := "CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, level INTEGER NOT NULL)"
			_, into, plan := small(t, target, nil, map[string]*merge.TablePlan{"roles": {Policy: merge.Copy, BadRows: "quarantine"}},
				[]string{plain, "INSERT INTO roles VALUES (" + id(1, 1) + ", 1), (" + id(1, 2) + ", -3)"})
			into.exec(t, append([]string{plain}, refusing(target)...)...) // the check does not try triggers
			plan.GivesUp = map[string]merge.GivenUp{"roles": {Quarantined: given}}
			plan.Fires = []string{"positive"}
			m := open(t, plan)
			_, err := m.Run(t.Context())
			if fits {
				if err != nil {
					t.Errorf("the number fits: %v", err)
				}
				verified(t, m)
				continue
			}
			if !errors.Is(err, merge.ErrBalance) || !strings.Contains(err.Error(), "roles: {quarantined: 1}") {
				t.Errorf("with %d: %v", given, err)
			}
			if _, err := m.Run(t.Context()); !errors.Is(err, merge.ErrBalance) { // nor does another run end
				t.Errorf("with %d, again: %v", given, err)
			}
			if _, err := m.Verify(t.Context()); !errors.Is(err, merge.ErrNotRun) {
				t.Errorf("verify: %v", err)
			}
		}
	})
}

func TestARowThatTheCopyingLosesWithoutAWordStopsTheRun(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		for _, table := range []string{"mail", "settings", "items"} {
			_, _, plan, lost := lossy(t, target)
			plan.GivesUp = lost
			dropped := false
			_, err := open(t, plan, merge.WithPortableCopy(), merge.WithDistortion(
				func(of string, _ []string, rows [][]any) [][]any {
					if of != table || dropped || len(rows) == 0 {
						return rows
					}
					dropped = true
					return rows[1:]
				})).Run(t.Context())
			if !errors.Is(err, merge.ErrBalance) || !strings.Contains(err.Error(), "table "+table) {
				t.Errorf("%s: %v", table, err)
			}
		}
	})
}

func TestVerifyCountsTheRowsThatAreMissing(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		servers, into, plan, lost := lossy(t, target)
		plan.GivesUp = lost
		m := open(t, plan)
		run(t, m)
		into.exec(t, "DELETE FROM settings WHERE name = 'only 2'", "DELETE FROM mail WHERE id = "+id(1, 1))
		servers[1].exec(t, "INSERT INTO auction_log VALUES (9)", "DELETE FROM rankings")
		report, err := m.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var differ []string
		for _, c := range report.Failed {
			if c.What == "balance" {
				differ = append(differ, c.Table+" "+c.Want+" "+c.Got)
			}
		}
		slices.Sort(differ)
		want := []string{"auction_log {skipped: 6} {skipped: 7}", "mail {} {collapsed: 1}",
			"rankings {rebuilt: 3} {rebuilt: 2}", "settings {collapsed: 1, differing: 1} {collapsed: 2, differing: 1}"}
		if !slices.Equal(differ, want) {
			t.Errorf("it finds %q, want %q", differ, want)
		}
	})
}
