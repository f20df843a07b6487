package merge_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// locked drafts the plan of the game that nobody declared, and decides what is open in it.
func locked(t *testing.T, plan *merge.Plan) (*merge.Plan, *merge.Lock) {
	t.Helper()
	draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
	if err != nil {
		t.Fatal(err)
	}
	draft.Tables["graves"].Undecided, draft.Tables["graves"].Orphans = nil, "drop"
	draft.Identities["heroes"].In = append(draft.Identities["heroes"].In, "graves.lost_hero")
	return draft, lock
}

func TestALockSaysWhatIsInEachColumn(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, nobodySaid, nil, nobodySaidRows(1, 200), nobodySaidRows(2, 230))
		_, lock := locked(t, plan)
		path := filepath.Join(t.TempDir(), "plan.lock")
		if _, err := merge.LoadLock(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is no lock yet, and the error is %v", err)
		}
		if err := lock.Save(path); err != nil {
			t.Fatal(err)
		}
		read, err := merge.LoadLock(path)
		if err != nil {
			t.Fatal(err)
		}
		for column, want := range map[string]string{
			"heroes.id": "plain", "heroes.tag": "none", "heroes.level": "plain", "hero_sheets.hero": "reference",
			"bags.slot": "plain", "swords.maker": "reference", "letters.sender": "reference", "letters.kind": "plain",
			"graves.lost_hero": "possible",
		} {
			table, name, _ := strings.Cut(column, ".")
			if c := read.Tables[table].Columns[name]; c.Verdict != want || c.Type == "" {
				t.Errorf("%s is %+v, want %s", column, c, want)
			}
		}
		maker := read.Tables["swords"].Columns["maker"]
		if of := []merge.LockedKey{{Table: "heroes", Column: "id", When: "maker <> 0"}}; !slices.Equal(maker.Of, of) ||
			!strings.HasPrefix(maker.Hits["heroes.id"], "s1 ") {
			t.Errorf("the maker of a sword is %+v", maker)
		}
		if rows := read.Tables["heroes"].Rows; len(rows) != 2 || !strings.Contains(rows["s2"], "rows, first key 1, last key ") {
			t.Errorf("the heroes are %v", rows)
		}

		// Counts are evidence, and verdicts are what holds.
		hash := read.Hash()
		read.Tables["heroes"].Rows["s1"] = "7 rows"
		if hash != lock.Hash() || read.Hash() != hash {
			t.Error("the hash depends on more than tables, columns, types and verdicts")
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), "verdict: possible", "verdict: plain", 1)
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := merge.LoadLock(path); !errors.Is(err, merge.ErrPlan) || changed == string(text) {
			t.Errorf("a lock that somebody has changed is read: %v", err)
		}
	})
}

func TestWhatALockDoesNotSayIsRefusedByName(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		for name, c := range map[string]struct {
			since  []string // what happens on the second server between the draft and the check
			column string   // which is refused; "" if none is
			run    bool     // rows came or went, which is all that a run looks at
		}{
			"nothing": {},
			"more of the same": {since: []string{"INSERT INTO heroes (id, tag, level) VALUES (240, 'new', 9)",
				"INSERT INTO swords (id, maker, weight, tag) VALUES (500, 240, 5, 'new')"}},
			"a column that is new": {since: []string{"ALTER TABLE swords ADD COLUMN smith INTEGER"}, column: "smith", run: true},
			"a column that now refers": {since: []string{"UPDATE swords SET weight = maker WHERE maker > 0",
				"DELETE FROM swords WHERE maker = 0"}, column: "weight", run: true},
			"values that lead nowhere": {since: []string{"UPDATE swords SET maker = maker + 100000 WHERE maker > 0"}, column: "maker"},
		} {
			servers, into, plan := small(t, target, nobodySaid, nil, nobodySaidRows(1, 200), nobodySaidRows(2, 230))
			if c.column == "weight" {
				servers[0].exec(t, "DELETE FROM swords WHERE maker = 0") // so that only the second server changes later
			}
			draft, lock := locked(t, plan)
			servers[1].exec(t, c.since...)
			if c.column == "weight" {
				servers[0].exec(t, "UPDATE swords SET weight = maker")
			}
			if c.column == "smith" {
				into.exec(t, c.since...)
				servers[0].exec(t, c.since...)
			}
			giveUp(t, draft)
			m := opened(t, draft, merge.WithLock(lock))
			report, found := problems(t, m)
			if c.column == "" {
				if len(report.Problems) > 0 || report.Lock == nil || report.Lock.Hash() != lock.Hash() {
					t.Errorf("%s: check found %v", name, report.Problems)
					continue
				}
				run(t, m)
				if n := strangers(t, into, "swords", "maker"); n > 0 {
					t.Errorf("%s: %d swords refer to a stranger", name, n)
				}
				continue
			}
			if p := found[merge.CodeLock]; len(p) != 1 || p[0].Table != "swords" || p[0].Column != c.column {
				t.Errorf("%s: check found %v", name, report.Problems)
			}
			if _, err := m.Run(t.Context()); c.run && (!errors.Is(err, merge.ErrUndecided) || !strings.Contains(err.Error(), c.column)) {
				t.Errorf("%s: the run ended with %v", name, err)
			}
		}
	})
}

func TestAnUndeclaredReferenceStopsARun(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		tables := forgotten(func(tables map[string]*merge.TablePlan) { tables["swords"].References = nil })
		_, into, plan := small(t, target, nobodySaid, tables, nobodySaidRows(1, 200), nobodySaidRows(2, 230))
		giveUp(t, plan)
		m := opened(t, plan)
		_, found := problems(t, m)
		if p := found[merge.CodeUndeclared]; len(p) != 1 || p[0].Table != "swords" || p[0].Column != "maker" ||
			!strings.Contains(p[0].Remedy, `"swords.maker when maker <> 0" under identities: heroes: {key: id, `) ||
			!strings.Contains(p[0].Remedy, `list "swords.maker" under plain:`) {
			t.Errorf("check found %v", found)
		}
		if _, err := m.Run(t.Context()); !errors.Is(err, merge.ErrUndecided) {
			t.Errorf("the run ended with %v", err)
		}
		plan.Plain = []string{"swords.maker"} // somebody says that this is a number and no hero
		giveUp(t, plan)
		m = opened(t, plan)
		report, _ := problems(t, m)
		if !slices.ContainsFunc(report.Warnings, func(p merge.Problem) bool {
			return p.Code == merge.CodeUndeclared && p.Column == "maker" && strings.Contains(p.Message, "under plain:")
		}) {
			t.Errorf("check warns of %v", report.Warnings)
		}
		run(t, m)
		if n := into.number(t, "SELECT COUNT(*) FROM swords"); n == 0 {
			t.Error("no sword was copied")
		}
	})
}

func TestACheckBelievesTheLockOfTheSameData(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		servers, _, plan := small(t, target, nobodySaid, nil, nobodySaidRows(1, 200), nobodySaidRows(2, 230))
		draft, lock := locked(t, plan)
		giveUp(t, draft)
		lock.Tables["swords"].Columns["maker"].Hits["heroes.id"] = "as before"
		believes := func() bool {
			report, _ := problems(t, opened(t, draft, merge.WithLock(lock)))
			return report.Lock.Tables["swords"].Columns["maker"].Hits["heroes.id"] == "as before"
		}
		if believes() != (target.Dialect != "sqlite") {
			t.Error("of the same data")
		}
		for _, change := range []string{"UPDATE bags SET slot = slot + 1 WHERE slot = 1",
			"UPDATE letters SET kind = kind + 1 WHERE sender = (SELECT MIN(id) FROM heroes)"} {
			now := lock.Data
			servers[1].exec(t, change)
			if believes() {
				t.Errorf("after %s", change)
			}
			report, _ := problems(t, opened(t, draft, merge.WithLock(lock)))
			if lock.Data = report.Lock.Data; target.Dialect != "sqlite" && (lock.Data == now || !believes()) {
				t.Errorf("%s leaves the lock as it was", change)
			}
		}
	})
}

// An archive has the same checksum whatever is in it, and a login that may read some columns only gets none.
func TestALockSaysWhereAServerCannotTellWhetherItHasChanged(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE heroes (id INTEGER PRIMARY KEY, name VARCHAR(20))"}
	rows := []string{"INSERT INTO heroes VALUES (1, 'Ai'), (2, 'Bob'), (4, 'Cy')"}
	of := func(t *testing.T, plan *merge.Plan) string {
		_, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		return lock.Data
	}
	t.Run("archive", func(t *testing.T) {
		t.Parallel()
		dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
			servers, _, plan := small(t, target, schema, nil, rows, rows)
			if of(t, plan) == "" {
				t.Error("it cannot tell without an archive")
			}
			if servers[1].Exec("CREATE TABLE deeds (what VARCHAR(20)) ENGINE=ARCHIVE").Error != nil {
				t.Skip("it has no archives")
			}
			servers[1].exec(t, "INSERT INTO deeds VALUES ('a')")
			if of(t, plan) != "" {
				t.Error("it believes an archive")
			}
		})
	})
	t.Run("rights", func(t *testing.T) {
		t.Parallel()
		dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
			servers, _, plan := small(t, target, schema, nil, rows, rows)
			user, _, login := target.Login(t, servers[1].DB, servers[1].dsn)
			servers[1].exec(t, "GRANT SELECT (id, name) ON heroes TO "+user)
			plan.Servers[1].DSN = login
			if of(t, plan) != "" {
				t.Error("it believes a table that it may not read")
			}
		})
	})
}
