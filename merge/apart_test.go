package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// clans has a table of players with counted keys, one column that refers to them, and one of which nobody said
// so. The numbers in wild are far from any key.
var clans = []string{
	"CREATE TABLE players (id INTEGER NOT NULL PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
	"CREATE TABLE clans (id BIGINT NOT NULL PRIMARY KEY, leader INTEGER, rival INTEGER, wild BIGINT)",
}

// clansOf are the rows of a server whose players have the keys from least to greatest. Each clan has a leader
// and a rival.
func clansOf(server, least, greatest int) []string {
	all := []string{"INSERT INTO players VALUES "}
	for n := least; n <= greatest; n++ {
		all[0] += fmt.Sprintf("(%d, 's%d-%d'), ", n, server, n)
	}
	all[0] = strings.TrimSuffix(all[0], ", ")
	for n := least; n <= greatest; n++ {
		all = append(all, fmt.Sprintf("INSERT INTO clans VALUES (%s, %d, %d, 0)", id(server, n), n, least+greatest-n))
	}
	return all
}

// playersApart is a plan for clans.
func playersApart() map[string]*merge.TablePlan {
	return map[string]*merge.TablePlan{
		"players": {Policy: merge.Copy, Renumber: merge.Apart},
		"clans":   {Policy: merge.Copy, References: []merge.Reference{{Column: "leader", Table: "players"}}},
	}
}

func TestKeysThatMoveApartLeaveAForgottenReferenceWithoutARow(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		servers, into, plan := small(t, target, clans, playersApart(), clansOf(1, 1, 40), clansOf(2, 5, 60), clansOf(3, 1, 30))
		plan.Plain = []string{"clans.rival"} // which is wrong
		m := open(t, plan)
		report, found := problems(t, m)
		if len(found) > 0 {
			t.Fatal(found)
		}
		// The keys of the three servers take 40 + 56 + 30 numbers, and 60 is the greatest that lies anywhere.
		room := int64(1<<31 - 1 - 186)
		if target.Dialect == "sqlite" {
			room = 1<<32 - 1 - 186
		}
		if want := fmt.Sprintf("[{[players] 61 186 %d}]", room); fmt.Sprint(report.Gaps) != want {
			t.Errorf("the gaps are %v, want %s", report.Gaps, want)
		}
		stopAfter(t, plan, "players")
		copied := run(t, open(t, plan))
		if slices.ContainsFunc(copied.Tables, func(c merge.CopyReport) bool { return c.Way == "rows" }) {
			t.Errorf("the databases do not add to the keys by themselves: %+v", copied.Tables)
		}
		if n := into.number(t, "SELECT COUNT(*) FROM players WHERE id < 61 OR id > 186"); n != 0 {
			t.Errorf("%d players are outside of the gap", n)
		}
		if n := into.number(t, "SELECT COUNT(*) FROM clans c JOIN players p ON p.id = c.leader"); n != 126 {
			t.Errorf("%d of 126 clans have a leader", n)
		}
		if n := into.number(t, "SELECT COUNT(*) FROM clans c JOIN players p ON p.id = c.rival"); n != 0 {
			t.Errorf("%d clans have a stranger as their rival", n)
		}
		for i, b := range servers {
			for _, of := range b.texts(t, "SELECT CONCAT(c.id, ' ', p.tag) FROM clans c JOIN players p ON p.id = c.leader") {
				clan, tag, _ := strings.Cut(of, " ")
				if got := into.texts(t, "SELECT p.tag FROM clans c JOIN players p ON p.id = c.leader WHERE c.id = "+clan); !slices.Equal(got, []string{tag}) {
					t.Errorf("server %d: clan %s is led by %v, want %s", i+1, clan, got, tag)
				}
			}
		}
		// The numbers that nobody has followed are printed, and no difference.
		verify, err := open(t, plan, merge.WithLock(report.Lock)).Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(verify.Checks, func(c merge.Comparison) bool {
			return c.What == "apart" && c.Table == "clans" && strings.Contains(c.Detail, "rival") && c.Got == "126" && c.OK
		}) {
			t.Errorf("nothing says that 126 rivals lead to nobody: %v", verify.Checks)
		}
		into.exec(t, "UPDATE clans SET leader = 7 WHERE leader = 61")
		if verify, err = open(t, plan).Verify(t.Context()); err != nil || !slices.ContainsFunc(verify.Failed,
			func(c merge.Comparison) bool {
				return c.What == "apart" && strings.Contains(c.Detail, "leader") && c.Got == "1"
			}) {
			t.Errorf("an old key in the target is not seen: %v, %v", verify.Failed, err)
		}
	})
}

// The keys of a young server are dense, so the data cannot tell what the rows of a further kind refer to.
func TestRowsThatNoConditionAppliesToAreNamedBeforeAndAfterTheMerge(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{clans[0], "CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, sort INTEGER NOT NULL, about INTEGER)"}
		tables := map[string]*merge.TablePlan{
			"players": {Policy: merge.Copy, Renumber: merge.Apart},
			"notes": {Policy: merge.Copy,
				References: []merge.Reference{{Column: "about", Table: "players", When: "sort = 1"},
					{Column: "about", Table: "players", Bits: "8-23", When: "sort = 3"}}},
		}
		server := func(n int) []string {
			all := clansOf(n, 1, 40)[:1]
			for i := range 120 {
				all = append(all, fmt.Sprintf("INSERT INTO notes VALUES (%s, %d, %d)", id(n, i), 1+i%3,
					[]int{1 + i%40, 1 + i%7, (1 + i%40) << 8}[i%3]))
			}
			return all
		}
		_, _, plan := small(t, target, schema, tables, server(1), server(2))
		report, found := problems(t, open(t, plan))
		if len(found) > 0 {
			t.Fatal(found)
		}
		warned := func(report *merge.CheckReport) bool {
			return slices.ContainsFunc(report.Warnings, func(p merge.Problem) bool {
				return p.Code == merge.CodeUndeclared && p.Column == "about" && p.Count == 7 && strings.Contains(p.Message, "players")
			})
		}
		if !warned(report) {
			t.Errorf("nothing warns of the notes of the second sort: %v", report.Warnings)
		}
		m := open(t, plan)
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		verify, err := m.Verify(t.Context())
		if err != nil || !verify.OK {
			t.Fatal(verify, err)
		}
		if !slices.ContainsFunc(verify.Checks, func(c merge.Comparison) bool {
			return c.What == "apart" && c.Table == "notes" && c.Except != "" && c.Got == "80"
		}) {
			t.Errorf("nothing says that 80 notes lead to nobody: %v", verify.Checks)
		}
	})
}

// A condition is SQL of the servers, about what their rows hold: the target may be another kind of database, and
// the keys that follow are others there.
func TestVerifyAsksTheServersWhichRowsAConditionAppliesTo(t *testing.T) {
	t.Parallel()
	schema := []string{clans[0], "CREATE TABLE coins (id INTEGER NOT NULL PRIMARY KEY, worth BIGINT)",
		"CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, about INTEGER)"}
	server := func(n int) []string {
		all := clansOf(n, 1, 40)[:1]
		for i := 1; i <= 200; i++ {
			all = append(all, fmt.Sprintf("INSERT INTO coins VALUES (%d, 0)", i),
				fmt.Sprintf("INSERT INTO notes VALUES (%s, %d)", id(n, i), []int{1 + i%40, 100 + i%90}[i%2]))
		}
		return all
	}
	for name, c := range map[string]struct{ servers, target, when string }{
		"other keys":    {"sqlite", "sqlite", "about < 100"},
		"another kind":  {"sqlite", "postgres", "`about` < 100"},
		"other quoting": {"postgres", "mysql", `"about" < 100`},
	} {
		t.Run(name, func(t *testing.T) {
			targets, kinds := dbtest.ServersOf(c.target), dbtest.ServersOf(c.servers)
			if len(targets) == 0 || len(kinds) == 0 {
				t.Skip("there is no such server")
			}
			_, into, plan := small(t, kinds[0], schema, map[string]*merge.TablePlan{
				"players": {Policy: merge.Copy, Renumber: merge.Apart}, "coins": {Policy: merge.Copy, Renumber: merge.Apart},
				"notes": {Policy: merge.Copy, References: []merge.Reference{{Column: "about", Table: "players", When: c.when}}},
			}, server(1), server(2))
			if c.target != c.servers {
				into = newBase(t, targets[0])
				into.exec(t, schema...)
				plan.Target.DSN = into.dsn
			}
			m := opened(t, plan)
			run(t, m)
			verify, err := m.Verify(t.Context())
			if err != nil || !verify.OK {
				t.Fatal(verify.Failed, err)
			}
			if !slices.ContainsFunc(verify.Checks, func(c merge.Comparison) bool {
				return c.What == "apart" && c.Table == "notes" && strings.Contains(c.Detail, "keys of coins") && c.Got == "200"
			}) {
				t.Errorf("nothing says that 200 notes lead to no coin: %v", verify.Checks)
			}
		})
	}
}

// A world of Lineage II counts its characters, items and clans by one number, from 268,435,456 on: the program
// has one map for all of them.
func TestTablesThatCountByOneNumberGoOnToShareNone(t *testing.T) {
	t.Parallel()
	schema := []string{
		"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
		"CREATE TABLE items (object INTEGER NOT NULL PRIMARY KEY, owner INTEGER NOT NULL)",
		"CREATE TABLE crests (id INTEGER NOT NULL PRIMARY KEY, hero INTEGER NOT NULL)",
		"CREATE TABLE letters (object INTEGER NOT NULL PRIMARY KEY, hero INTEGER NOT NULL)",
	}
	rows := func(server, heroes int) (all []string) {
		next := 268_435_456
		for n := range heroes {
			next++
			hero := next
			all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%d, 's%d-%d')", hero, server, n))
			for range 3 + n%2 {
				next++
				all = append(all, fmt.Sprintf("INSERT INTO items VALUES (%d, %d)", next, hero))
			}
			if n%9 == 0 {
				all = append(all, fmt.Sprintf("INSERT INTO crests VALUES (%d, %d)", n/9+1, hero))
			}
		}
		for n := range 7 {
			all = append(all, fmt.Sprintf("INSERT INTO letters VALUES (%d, 268435457)", next+2*n+1))
		}
		return all
	}
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes": {Policy: merge.Copy, Renumber: merge.Apart},
			"items": {Policy: merge.Copy, Renumber: merge.Apart,
				References: []merge.Reference{{Column: "owner", Table: "heroes"}}},
			"crests": {Policy: merge.Copy, Renumber: merge.Apart,
				References: []merge.Reference{{Column: "hero", Table: "heroes"}}},
			"letters": {Policy: merge.Copy, Renumber: merge.Apart,
				References: []merge.Reference{{Column: "hero", Table: "heroes"}}},
		}, rows(1, 90), rows(2, 80))
		plan.Layout = merge.Layout{Preset: "default"} // of which 268,435,456 is an ID of the first second
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM heroes h JOIN items i ON i.object = h.id"); n != 0 {
			t.Errorf("%d heroes have the number of an item", n)
		}
		if n := into.number(t, "SELECT COUNT(*) FROM letters l JOIN items i ON i.object = l.object"); n != 0 {
			t.Errorf("%d letters have the number of an item", n)
		}
		if n := into.number(t, "SELECT COUNT(*) FROM items i JOIN heroes h ON h.id = i.owner"); n != 315+280 {
			t.Errorf("%d of 595 items have an owner", n)
		}
		// Such a game takes no number below the first one for that of an object.
		if n := into.number(t, "SELECT COUNT(*) FROM heroes WHERE id <= 268435456 + 418"); n != 0 {
			t.Errorf("%d heroes have not moved, or below the numbers of the game", n)
		}
		if verify, err := open(t, plan).Verify(t.Context()); err != nil || len(verify.Failed) > 0 {
			t.Errorf("%v, %v", verify, err)
		}
	})
}

// Where keys are dense, nothing in the data says that those of one table are keys of another one.
func TestAKeyThatIsTheKeyOfAnotherTableStaysSoThoughNobodyKnows(t *testing.T) {
	t.Parallel()
	schema := []string{
		"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
		"CREATE TABLE members (member INTEGER NOT NULL PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
	}
	rows := func(server, heroes int) (all []string) {
		for n := 1; n <= heroes; n++ {
			all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%d, 's%d-%d')", n, server, n))
			if n%2 == 0 {
				all = append(all, fmt.Sprintf("INSERT INTO members VALUES (%d, 's%d-%d')", n, server, n))
			}
		}
		return all
	}
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes":  {Policy: merge.Copy, Renumber: merge.Apart},
			"members": {Policy: merge.Copy, Renumber: merge.Apart},
		}, rows(1, 91), rows(2, 60))
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM heroes h JOIN members m ON m.member = h.id AND m.tag = h.tag"); n != 75 {
			t.Errorf("%d of 75 members are the heroes that they were", n)
		}
	})
}

// Some of the rows that refer do so to heroes who were deleted, and the keys are dense.
func TestNewKeysMeetNoValueOfAForgottenReferenceInANumberOrAText(t *testing.T) {
	t.Parallel()
	schema := []string{
		"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
		"CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, n INTEGER NOT NULL, whose VARCHAR(20) NOT NULL)",
	}
	rows := func(server, heroes int) (all []string) {
		for n := 1; n <= heroes; n++ {
			all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%d, 's%d-%d')", n, server, n))
		}
		for n := range 200 {
			hero := n%heroes + 1
			if n%20 == 0 {
				hero = heroes + n
			}
			all = append(all, fmt.Sprintf("INSERT INTO notes VALUES (%s, %d, '%d')", id(server, n), hero, hero))
		}
		return all
	}
	plans(t, func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes": {Policy: merge.Copy, Renumber: merge.Apart}, "notes": {Policy: merge.Copy},
		}, rows(1, 90), rows(2, 60))
		plan.Plain = []string{"notes.n", "notes.whose"} // which is wrong
		report, found := problems(t, open(t, plan))
		if len(found) > 0 {
			t.Fatal(found)
		}
		run(t, open(t, plan))
		for _, column := range []string{"n", "whose"} {
			if n := into.number(t, "SELECT COUNT(*) FROM notes m JOIN heroes h ON CONCAT(h.id, '') = CONCAT(m."+column+
				", '')"); n != 0 {
				t.Errorf("%d notes lead to strangers by %s", n, column)
			}
		}
		verify, err := open(t, plan, merge.WithLock(report.Lock)).Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, column := range []string{"n", "whose"} {
			if !slices.ContainsFunc(verify.Checks, func(c merge.Comparison) bool {
				return c.What == "apart" && strings.Contains(c.Detail, "whose "+column+" held keys") && c.Got == "382" && c.OK
			}) {
				t.Errorf("nothing says that 382 notes lead to nobody by %s: %v", column, verify.Checks)
			}
		}
	})
}

// One value of many is a key by chance, as of a column of addresses.
func TestAColumnOfOtherNumbersLeavesRoomForNewKeys(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		wild := "INSERT INTO clans VALUES (" + id(1, 200_000) + ", NULL, NULL, 5)"
		for n := range 900 {
			wild += fmt.Sprintf(", (%s, NULL, NULL, %d)", id(1, 200_001+n), 90*(n+1))
		}
		tables := playersApart()
		_, _, plan := small(t, target, clans, tables, append(clansOf(1, 1, 40), wild), clansOf(2, 1, 60))
		plan.Plain = []string{"clans.rival"}
		report, found := problems(t, open(t, plan))
		if len(found) > 0 || len(report.Gaps) != 1 || report.Gaps[0].From != 61 {
			t.Errorf("%v, %v", report.Gaps, found)
		}
	})
}

func TestKeysThatMoveApartTakeTheLowestRangeThatFits(t *testing.T) {
	t.Parallel()
	type server struct {
		least, greatest int
		more            []string
	}
	for name, c := range map[string]struct {
		columns string          // of the clans, in place of their own
		refers  merge.Reference // of the leader, in place of that of the whole column
		counts  bool            // the database counts the players
		apart   string
		servers []server
		gap     string // or what the problem says
	}{
		"below the keys": {servers: []server{{500, 520, nil}, {501, 530, nil}}, gap: "1 to 51"},
		"above the number at which the game lets them begin": {
			servers: []server{{16777216, 16777240, nil}, {16777216, 16777300, nil}}, gap: "16777301 to 16777410"},
		"between values of a column that refers": {
			servers: []server{{1, 20, nil}, {1, 20, []string{
				"INSERT INTO clans VALUES (" + id(2, 900) + ", 2000000000, NULL, 0)",
				"INSERT INTO clans VALUES (" + id(2, 901) + ", 45, NULL, 0)"}}}, gap: "46 to 85"},
		"behind keys of rows that are deleted": {counts: true,
			servers: []server{{1, 20, nil}, {1, 100, []string{"DELETE FROM clans", "DELETE FROM players WHERE id > 30"}}}, gap: "101 to 220"},
		"where a server without rows counts from the first number of the game": {counts: true,
			servers: []server{{800_000_001, 800_000_020, nil}, {800_000_001, 800_000_010, nil}, {800_000_001, 800_000_001,
				[]string{"DELETE FROM clans", "DELETE FROM players"}}}, gap: "800000021 to 800000051"},
		"as the first server stays": {apart: "others", servers: []server{{300, 340, nil}, {1, 20, nil}}, gap: "341 to 360"},
		"between values of a text that refers": {columns: "leader VARCHAR(20), rival INTEGER, wild BIGINT",
			servers: []server{{1, 20, nil}, {1, 20, []string{
				"INSERT INTO clans VALUES (" + id(2, 900) + ", '2000000000', NULL, 0)",
				"INSERT INTO clans VALUES (" + id(2, 901) + ", '45', NULL, 0)"}}}, gap: "46 to 85"},
		"between values of a decimal that refers": {columns: "leader DECIMAL(12,2), rival INTEGER, wild BIGINT",
			servers: []server{{1, 20, []string{"INSERT INTO clans VALUES (" + id(1, 901) + ", 45, NULL, 0)"}},
				{1, 20, nil}}, gap: "46 to 85"},
		"between values of a list that refers": {columns: "leader VARCHAR(20), rival INTEGER, wild BIGINT",
			refers: merge.Reference{Column: "leader", Table: "players", List: ",", When: "wild = 0"},
			servers: []server{{1, 20, nil}, {1, 20, []string{
				"INSERT INTO clans VALUES (" + id(2, 901) + ", '44,45', NULL, 1)"}}}, gap: "46 to 85"},
		"between values of bits that refer": {columns: "leader BIGINT, rival INTEGER, wild BIGINT",
			refers: merge.Reference{Column: "leader", Table: "players", Bits: "8-31", When: "wild = 0"},
			servers: []server{{1, 20, []string{"UPDATE clans SET leader = leader * 256 + 3"}}, {1, 20, []string{
				"UPDATE clans SET leader = leader * 256 + 200",
				fmt.Sprintf("INSERT INTO clans VALUES (%s, %d, NULL, 1)", id(2, 901), 45*256+7)}}}, gap: "46 to 85"},
		"in few bits": {columns: "leader BIGINT, rival INTEGER, wild BIGINT",
			refers:  merge.Reference{Column: "leader", Table: "players", Bits: "0-4"},
			servers: []server{{1, 20, nil}, {1, 20, nil}}, gap: "40 numbers are needed, and up to 31"},
		"in a narrow column": {columns: "leader SMALLINT, rival INTEGER, wild BIGINT",
			servers: []server{{1, 20000, nil}, {1, 12760, nil}}, gap: "32760 numbers are needed, and up to 32767"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plans(t, func(t *testing.T, target dbtest.Target) {
				if target.Dialect == "sqlite" && name == "in a narrow column" {
					t.Skip("a column of SQLite holds numbers of any size")
				}
				schema := slices.Clone(clans)
				if c.columns != "" {
					schema[1] = "CREATE TABLE clans (id BIGINT NOT NULL PRIMARY KEY, " + c.columns + ")"
				}
				if c.counts {
					schema[0] = strings.Replace(schema[0], "INTEGER NOT NULL PRIMARY KEY", map[string]string{
						"sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT", "postgres": "SERIAL PRIMARY KEY",
						"mysql": "INTEGER PRIMARY KEY AUTO_INCREMENT"}[target.Dialect], 1)
				}
				var rows [][]string
				for i, s := range c.servers {
					all := clansOf(i+1, s.least, s.greatest)
					if len(all) > 200 {
						all = all[:3]
					}
					if c.counts && target.Dialect == "postgres" {
						all = append(all, fmt.Sprintf("SELECT setval('players_id_seq', %d)", s.greatest))
					}
					rows = append(rows, append(all, s.more...))
				}
				tables := playersApart()
				tables["clans"].Orphans = "null"
				if c.refers.Table != "" {
					tables["clans"].References = []merge.Reference{c.refers}
				}
				_, _, plan := small(t, target, schema, tables, rows...)
				plan.Apart, plan.Plain = c.apart, []string{"clans.rival"}
				report, found := problems(t, open(t, plan))
				got := fmt.Sprint(found[merge.CodeTotal])
				if len(report.Gaps) == 1 {
					got = fmt.Sprintf("%d to %d", report.Gaps[0].From, report.Gaps[0].To)
				}
				if !strings.Contains(got, c.gap) {
					t.Errorf("%s, want %s: %v", got, c.gap, found)
				}
			})
		})
	}
}

// Where there is room for the keys of all servers but one, those of the first can stay.
func TestTheKeysOfTheFirstServerCanStayWhereThereIsNoRoomForThem(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			return // whose columns have no end
		}
		schema := []string{"CREATE TABLE heroes (COUNTED, name VARCHAR(9))",
			"CREATE TABLE bags (hero SMALLINT NOT NULL PRIMARY KEY, n INTEGER)"}
		rows := []string{"INSERT INTO heroes VALUES (1, 'a'), (12000, 'b')", "INSERT INTO bags VALUES (1, 2), (12000, 3)"}
		tables := copies("heroes", "bags")
		tables["heroes"].Renumber = merge.Apart
		_, _, plan := small(t, target, schema, tables, rows, rows)
		plan.Identities = map[string]*merge.Identity{"heroes": {Key: "id", In: []string{"bags.hero"}}}
		_, found := problems(t, open(t, plan))
		if got := found[merge.CodeTotal]; len(got) != 1 || !strings.Contains(got[0].Remedy, "apart: others") {
			t.Fatalf("check found %v, want that the keys of the first server may stay", found)
		}
		plan.Apart = "others"
		run(t, open(t, plan))
	})
}

func TestAReferenceThatNobodyHasSaidIsFoundWhereKeysAreNotApart(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{clans[0], "CREATE TABLE clans (id BIGINT NOT NULL PRIMARY KEY, leader INTEGER, last_player INTEGER)"}
		tables := playersApart()
		tables["players"].Renumber = merge.Behind
		server := func(n int) []string {
			all := clansOf(n, 1, 3)
			for i, s := range all[1:] {
				all[1+i] = strings.Replace(s, ", 0)", ")", 1)
			}
			return all
		}
		_, _, plan := small(t, target, schema, tables, server(1), server(2))
		report, found := problems(t, open(t, plan))
		if len(found) > 0 || !slices.ContainsFunc(report.Warnings, func(p merge.Problem) bool { return p.Code == merge.CodeUndeclared }) {
			t.Fatalf("the column is no warning: %v, %v", report.Warnings, found)
		}
		m := open(t, plan, merge.WithLock(report.Lock))
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		verify, err := m.Verify(t.Context())
		if err != nil || len(verify.Failed) != 1 || verify.Failed[0].What != "apart" || verify.Failed[0].Got != "3" {
			t.Errorf("three rows lead to another server's: %v, %v", verify.Failed, err)
		}
	})
}

func TestKeysInTextsThatBeginWithZerosAreRefusedWhereTheyChange(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
		"CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, whose VARCHAR(20), team VARCHAR(20))"}
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes": {Policy: merge.Copy, Renumber: merge.Apart},
			"notes": {Policy: merge.Copy, References: []merge.Reference{{Column: "whose", Table: "heroes"},
				{Column: "team", Table: "heroes", List: "_"}}},
		}, []string{"INSERT INTO heroes VALUES (7), (8)", "INSERT INTO notes VALUES (" + id(1, 1) + ", '0007', '7_08')",
			"INSERT INTO notes VALUES (" + id(1, 2) + ", '0', '0_7_0'), (" + id(1, 3) + ", '8', '8_0')"})
		_, found := problems(t, open(t, plan))
		all := found[merge.CodeChanged]
		if len(all) != 2 || all[0].Column != "whose" || all[1].Column != "team" || all[0].Count+all[1].Count != 2 {
			t.Errorf("%v", found)
		}
	})
}

// A row that the migrations have made is the hero of whoever has none, by a default. It gets another key, as all do.
func TestCheckWarnsOfADefaultThatWillLeadNowhere(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20))",
			"CREATE TABLE clubs (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20))",
			"CREATE TABLE seats (id BIGINT NOT NULL PRIMARY KEY, hero BIGINT DEFAULT 0 NOT NULL, club BIGINT DEFAULT 0, " +
				"price INTEGER DEFAULT 3)"}
		server := func(n int) []string {
			return []string{fmt.Sprintf("INSERT INTO heroes VALUES (0, 'Nobody%d'), (3, 'Ann%d')", n, n),
				fmt.Sprintf("INSERT INTO clubs VALUES (3, 'c%d')", n),
				fmt.Sprintf("INSERT INTO seats VALUES (%d, 0, 3, 3), (%d, 3, 3, 3)", 10*n, 10*n+1)}
		}
		plan := map[string]*merge.TablePlan{}
		for _, name := range []string{"heroes", "clubs", "seats"} {
			plan[name] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Apart}
		}
		_, into, p := small(t, target, schema, plan, server(1), server(2))
		p.Identities = map[string]*merge.Identity{"heroes": {Key: "id", In: []string{"seats.hero"}},
			"clubs": {Key: "id", In: []string{"seats.club"}}}
		report, found := problems(t, open(t, p))
		warned := slices.DeleteFunc(report.Warnings, func(p merge.Problem) bool { return !strings.Contains(p.Message, "default") })
		if len(found) > 0 || len(warned) != 1 || warned[0].Column != "hero" || !strings.Contains(warned[0].Message, "default 0") {
			t.Errorf("problems %v, warnings %v", found, report.Warnings)
		}
		run(t, open(t, p))
		into.exec(t, "INSERT INTO seats (id) VALUES (1)")
		if n := into.number(t, "SELECT COUNT(*) FROM seats WHERE hero = 0"); n != 1 {
			t.Errorf("%d seats have the default", n)
		}
	})
}

// Somebody takes the key of items for that of goods, and has items counted anew. Then most items would lead to nothing.
func TestAKeyThatLeadsToRowsWhichStayIsNotRenumbered(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE goods (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20))", "CREATE TABLE items (COUNTED, owner INTEGER)"}
		server := func(number int) []string {
			return []string{"INSERT INTO goods VALUES (1, 'a'), (2, 'b'), (3, 'c')",
				fmt.Sprintf("INSERT INTO items (owner) VALUES (%d), (7)", number)}
		}
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{"goods": {Policy: merge.KeepFirst, Key: []string{"id"}},
			"items": {Policy: merge.Copy, Renumber: merge.Apart, References: []merge.Reference{{Column: "id", Table: "goods"}}}}, server(1), server(2))
		_, found := problems(t, open(t, plan))
		if got := fmt.Sprint(found[merge.CodePlan]); !strings.Contains(got, "its values are keys of goods, which stay") {
			t.Errorf("nobody hears of it: %v", found)
		}
	})
}

// A server may lack a column that the plan sets, and have a key as a text that the plan refuses.
func TestCheckAsksNothingThatAServerCannotAnswer(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		heroes, toys := "CREATE TABLE heroes (id BIGINT NOT NULL PRIMARY KEY, level INTEGER)",
			"CREATE TABLE toys (id BIGINT NOT NULL PRIMARY KEY, kind INTEGER, owner BIGINT)"
		tables := map[string]*merge.TablePlan{"heroes": {Policy: merge.Copy},
			"toys": {Policy: merge.Copy, Set: map[string]string{"owner": "0"},
				References: []merge.Reference{{Column: "owner", Table: "heroes", When: "kind = 1"}}}}
		server := func(n int) []string {
			return []string{fmt.Sprintf("INSERT INTO heroes VALUES (%s, 1)", id(n, 1)),
				fmt.Sprintf("INSERT INTO toys VALUES (%s, 2, 7)", id(n, 1))}
		}
		servers, _, plan := small(t, target, []string{heroes, toys}, tables, server(1), server(2))
		servers[1].exec(t, "ALTER TABLE toys DROP COLUMN owner")
		if _, err := open(t, plan).Check(t.Context()); err != nil {
			t.Error(err)
		}

		_, _, plan = small(t, target, []string{"CREATE TABLE houses (id VARCHAR(9) NOT NULL PRIMARY KEY, level INTEGER)",
			"CREATE TABLE doors (id BIGINT NOT NULL PRIMARY KEY, house VARCHAR(9) DEFAULT '0')"},
			map[string]*merge.TablePlan{"houses": {Policy: merge.Copy, Renumber: merge.Apart},
				"doors": {Policy: merge.Copy, References: []merge.Reference{{Column: "house", Table: "houses"}}}},
			[]string{"INSERT INTO houses VALUES ('a', 1)"}, []string{"INSERT INTO houses VALUES ('b', 1)"})
		if _, found := problems(t, open(t, plan)); !strings.Contains(fmt.Sprint(found[merge.CodePlan]), "renumber needs a primary key") {
			t.Errorf("check found %v", found)
		}
	})
}

// Each of a few tools is for some groups, which stand in a list, and so few numbers prove nothing before the merge.
func TestVerifyNamesAListThatNobodyHasDeclaredHoweverShortItIs(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE sorts (id INTEGER NOT NULL PRIMARY KEY, tag VARCHAR(20) NOT NULL)",
			"CREATE TABLE tools (id BIGINT NOT NULL PRIMARY KEY, who VARCHAR(40), words VARCHAR(40))"}
		server := func(n int) (all []string) {
			for i := 1; i <= 9; i++ {
				all = append(all, fmt.Sprintf("INSERT INTO sorts VALUES (%d, 's%d-%d')", i, n, i))
			}
			return append(all, fmt.Sprintf("INSERT INTO tools VALUES (%s, '4,6', 'old, and 4'), (%s, '-1', ''), (%s, '8', 'new')",
				id(n, 1), id(n, 2), id(n, 3)))
		}
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"sorts": {Policy: merge.Copy, Renumber: merge.Apart}, "tools": {Policy: merge.Copy}}, server(1), server(2))
		report, found := problems(t, opened(t, plan))
		if len(found) > 0 {
			t.Fatal(found)
		}
		m := opened(t, plan, merge.WithLock(report.Lock))
		run(t, m)
		verify, err := m.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		told := fmt.Sprint(slices.DeleteFunc(verify.Checks, func(c merge.Comparison) bool { return c.Parent == "" }))
		if want := "[{apart tools  rows whose who held keys of sorts and leads to no row now 4 4 true who  sorts 6}]"; told != want {
			t.Errorf("it says %s, want %s", told, want)
		}
	})
}

// Keys that move with the heroes they belong to cannot be equal, and nobody compares them. Those of no hero stay,
// and are equal on two servers.
func TestKeysThatDoNotMoveAreCompared(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, level INTEGER)",
			"CREATE TABLE deeds (hero_id INTEGER NOT NULL, kind INTEGER NOT NULL, PRIMARY KEY (hero_id, kind))"}
		rows := []string{"INSERT INTO heroes VALUES (1, 1), (2, 2)", "INSERT INTO deeds VALUES (1, 1), (2, 1), (0, 7)"}
		for when, orphans := range map[string]int{"hero_id <> 0": 0, "": 2} {
			_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
				"heroes": {Policy: merge.Copy, Renumber: merge.Apart},
				"deeds": {Policy: merge.Copy, References: []merge.Reference{{Column: "hero_id", Table: "heroes",
					When: when}}},
			}, rows, rows)
			plan.Apart = "all"
			_, found := problems(t, open(t, plan))
			keys := found[merge.CodePrimaryKey]
			if len(keys) != 1 || keys[0].Table != "deeds" || keys[0].Count != 1 || len(found[merge.CodeOrphan]) != orphans {
				t.Errorf("when %q: %v", when, found)
			}
		}
		// A server without heroes has no keys that move, and -1 is none.
		none := []string{"INSERT INTO deeds VALUES (-1, 1), (-1, 2)"}
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes": {Policy: merge.Copy, Renumber: merge.Apart},
			"deeds":  {Policy: merge.Copy, References: []merge.Reference{{Column: "hero_id", Table: "heroes"}}},
		}, none, none)
		plan.Apart = "all"
		_, found := problems(t, open(t, plan))
		if keys := found[merge.CodePrimaryKey]; len(keys) != 1 || keys[0].Count != 2 {
			t.Errorf("without heroes: %v", found)
		}
	})
}
