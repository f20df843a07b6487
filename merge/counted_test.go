package merge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// refused demands that check reports a problem, that run writes nothing because of it, and that both leave the
// target as it was.
func refused(t *testing.T, into base, plan *merge.Plan, code merge.Code, says string) {
	t.Helper()
	before := into.tables(t)
	m := open(t, plan)
	report, found := problems(t, m)
	if !slices.ContainsFunc(found[code], func(p merge.Problem) bool {
		return strings.Contains(p.String(), says) && p.Remedy != ""
	}) {
		t.Errorf("check found %v, want a problem %s that says %q and has a remedy", report.Problems, code, says)
	}
	if _, err := m.Run(t.Context()); !errors.Is(err, merge.ErrUndecided) {
		t.Errorf("the run ended with %v", err)
	}
	if after := into.tables(t); !sameTexts(before, after) {
		t.Errorf("the target had the tables %v and has %v", before, after)
	}
}

// onServersAtNight skips a case on a server, unless it is night: in tier one, SQLite shows it.
func onServersAtNight(t *testing.T, target dbtest.Target) {
	t.Helper()
	if target.Dialect != "sqlite" {
		nightly.Only(t, "tier one takes this case on SQLite")
	}
}

func sameTexts(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// A key that gets another value says nothing about which rows are equal: only the other keys do.
func TestARenumberedKeyMakesNoRowsEqual(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE kinds (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9) NOT NULL UNIQUE, n BIGINT)",
			"CREATE TABLE things (id BIGINT NOT NULL PRIMARY KEY, kind_id BIGINT NOT NULL, w VARCHAR(9), " +
				"FOREIGN KEY (kind_id) REFERENCES kinds (id))",
		}
		thing := func(server, n, kind int, w string) string {
			return fmt.Sprintf("INSERT INTO things VALUES (%s, %d, '%s')", id(server, n), kind, w)
		}
		first := []string{"INSERT INTO kinds VALUES (1, 'a', 1), (2, 'b', 1)", thing(1, 1, 1, "a"), thing(1, 2, 2, "b")}
		second := []string{"INSERT INTO kinds VALUES (1, 'b', 1), (2, 'c', 1), (3, 'a', 1)", thing(2, 1, 1, "b"),
			thing(2, 2, 2, "c"), thing(2, 3, 3, "a")}
		for name, p := range map[string]merge.TablePlan{
			"the first server's stays": {Policy: merge.KeepFirst, Key: []string{"name"}},
			"the newest stays":         {Policy: merge.Newest, Key: []string{"name"}, By: "n"},
			"they are added":           {Policy: merge.Sum, Key: []string{"name"}, Sum: []string{"n"}},
		} {
			t.Run(name, func(t *testing.T) {
				if p.Policy != merge.KeepFirst {
					onServersAtNight(t, target)
				}
				p.Renumber = merge.Behind
				_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"kinds": &p,
					"things": {Policy: merge.Copy}}, first, second)
				m := open(t, plan)
				if report, _ := problems(t, m); len(report.Problems) > 0 {
					t.Fatal(report.Problems)
				}
				run(t, m)
				if got := into.texts(t, "SELECT name FROM kinds ORDER BY name"); fmt.Sprint(got) != "[a b c]" {
					t.Errorf("the kinds are %v", got)
				}
				if n := into.number(t, "SELECT COUNT(*) FROM things JOIN kinds ON kinds.id = kind_id AND name = w"); n != 5 {
					t.Errorf("%d of 5 things have their kind", n)
				}
			})
		}
		bare := []string{"CREATE TABLE kinds (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9) NOT NULL, n BIGINT)"}
		for name, p := range map[string]merge.TablePlan{
			"none but that key": {Policy: merge.Sum, Sum: []string{"n"}, Key: []string{"id"}, Renumber: merge.Behind},
		} {
			t.Run(name, func(t *testing.T) {
				_, into, plan := small(t, target, bare, map[string]*merge.TablePlan{"kinds": &p},
					[]string{"INSERT INTO kinds VALUES (1, 'a', 1)"}, []string{"INSERT INTO kinds VALUES (1, 'b', 1)"})
				refused(t, into, plan, merge.CodePlan, "renumber")
			})
		}
	})
}

func TestKeysThatWereCountedFromZeroMove(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE logs (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9) NOT NULL)",
			"CREATE TABLE log_lines (id BIGINT NOT NULL PRIMARY KEY, log_id BIGINT NOT NULL, w VARCHAR(9), " +
				"FOREIGN KEY (log_id) REFERENCES logs (id))",
			"CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, log_id BIGINT NOT NULL, w VARCHAR(9))",
		}
		if target.Dialect == "mysql" { // whose columns may have no sign
			schema[0], schema[1] = strings.ReplaceAll(schema[0], "BIGINT", "BIGINT UNSIGNED"),
				strings.ReplaceAll(schema[1], "BIGINT", "BIGINT UNSIGNED")
		}
		tables := map[string]*merge.TablePlan{
			"logs": {Policy: merge.Copy, Renumber: merge.Behind}, "log_lines": {Policy: merge.Copy, Renumber: merge.Behind},
			"notes": {Policy: merge.Copy, References: []merge.Reference{{Column: "log_id", Table: "logs", When: "w <> '-'"}}},
		}
		rows := func(server, from int, tags ...string) (all []string) {
			for i, tag := range tags {
				n := from + i
				all = append(all, fmt.Sprintf("INSERT INTO logs VALUES (%d, '%s')", n, tag),
					fmt.Sprintf("INSERT INTO log_lines VALUES (%d, %d, '%s')", n, n, tag),
					fmt.Sprintf("INSERT INTO notes VALUES (%s, %d, '%s')", id(server, n+1), n, tag))
			}
			return append(all, fmt.Sprintf("INSERT INTO notes VALUES (%s, 0, '-')", id(server, 50)))
		}
		_, into, plan := small(t, target, schema, tables, rows(1, 0, "a", "b", "c"), rows(2, 0, "d"),
			rows(3, 1, "e", "f"), rows(4, 0, "g", "h"))
		m := open(t, plan)
		if report, _ := problems(t, m); len(report.Problems) > 0 {
			t.Fatal(report.Problems)
		}
		// The run ends after the first table, and goes on with what it has stored.
		stopAfter(t, plan, "logs")
		run(t, open(t, plan))
		if got := into.texts(t, "SELECT concat(id, tag) FROM logs ORDER BY id"); fmt.Sprint(got) != "[0a 1b 2c 3d 4e 5f 6g 7h]" {
			t.Errorf("the keys are %v", got)
		}
		for _, child := range []string{"log_lines", "notes"} {
			if n := into.number(t, "SELECT COUNT(*) FROM "+child+" c JOIN logs ON logs.id = c.log_id AND tag = w"); n != 8 {
				t.Errorf("%d of 8 %s have their log", n, child)
			}
		}
		if n := into.number(t, "SELECT COUNT(*) FROM notes WHERE w = '-' AND log_id <> 0"); n != 0 {
			t.Errorf("%d notes of nothing lead somewhere", n)
		}
	})
}

// startCounting has a database count the keys of a table on from a number.
func (b base) startCounting(t *testing.T, table string, next int64) {
	t.Helper()
	switch b.target.Dialect {
	case "mysql":
		b.exec(t, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", table, next))
	case "postgres":
		b.exec(t, fmt.Sprintf("SELECT setval(pg_get_serial_sequence('%s', 'id'), %d)", table, next-1))
	case "sqlite":
		b.exec(t, fmt.Sprintf("UPDATE sqlite_sequence SET seq = %d WHERE name = '%s'", next-1, table))
	}
}

func TestCountersThatCannotBeSetApartAreRefused(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE logs (COUNTED, tag VARCHAR(9))"}
		two := []string{"INSERT INTO logs (id, tag) VALUES (1, 'a'), (2, 'b')"}
		const limit = int64(1) << 32 // of keys that were counted
		for name, counters := range map[string][]int64{
			"at the limit":         {limit + 1, 0},
			"behind the limit":     {0, limit + 7},
			"together":             {limit/2 + 1, limit/2 + 1},
			"together, and behind": {0, limit/2 + 1, limit/2 + 1},
		} {
			t.Run(name, func(t *testing.T) {
				if name != "at the limit" {
					onServersAtNight(t, target)
				}
				servers, into, plan := small(t, target, schema,
					map[string]*merge.TablePlan{"logs": {Policy: merge.Copy, Renumber: merge.Behind}},
					slices.Repeat([][]string{two}, len(counters))...)
				for i, next := range counters {
					if next > 0 {
						servers[i].startCounting(t, "logs", next)
					}
				}
				refused(t, into, plan, merge.CodeTotal, "renumber")
			})
		}
		t.Run("just below", func(t *testing.T) {
			servers, into, plan := small(t, target, schema,
				map[string]*merge.TablePlan{"logs": {Policy: merge.Copy, Renumber: merge.Behind}}, two, two)
			servers[0].startCounting(t, "logs", limit-4)
			run(t, open(t, plan))
			if got := into.texts(t, "SELECT id FROM logs ORDER BY id"); fmt.Sprint(got) != fmt.Sprint([]int64{1, 2, limit - 4, limit - 3}) {
				t.Errorf("the keys are %v", got)
			}
		})
		t.Run("an ID of a generator", func(t *testing.T) {
			onServersAtNight(t, target)
			made := id(1, 9)
			_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"logs": {Policy: merge.Copy, Renumber: merge.Behind}},
				append(two, "INSERT INTO logs (id, tag) VALUES ("+made+", 'x')"), two)
			run(t, open(t, plan))
			if got := into.texts(t, "SELECT id FROM logs ORDER BY id"); fmt.Sprint(got) != "[1 2 3 4 "+made+"]" {
				t.Errorf("the keys are %v", got)
			}
		})
	})
}

// A sequence may give a column its default without belonging to it, and to several tables.
func TestASequenceThatIsTheDefaultOfAColumnGoesOn(t *testing.T) {
	t.Parallel()
	with := slices.DeleteFunc(dbtest.Servers(), func(target dbtest.Target) bool {
		return target.Name != "postgres" && target.Name != "mariadb" // the others have no sequences
	})
	dbtest.Run(t, dbtest.Chosen(t.Name(), with), func(t *testing.T, target dbtest.Target) {
		for _, next := range map[string][]string{"postgres": {"nextval('numbers')", "nextval('numbers'::text)"},
			"mariadb": {"NEXT VALUE FOR numbers"}}[target.Name] {
			t.Run(next, func(t *testing.T) { goesOn(t, target, next) })
		}
	})
}

func goesOn(t *testing.T, target dbtest.Target, next string) {
	schema := []string{"CREATE SEQUENCE numbers",
		"CREATE TABLE logs (id BIGINT NOT NULL DEFAULT (" + next + ") PRIMARY KEY, tag VARCHAR(9))",
		"CREATE TABLE pets (id BIGINT NOT NULL DEFAULT (" + next + ") PRIMARY KEY, tag VARCHAR(9))"}
	_, into, plan := small(t, target, schema,
		map[string]*merge.TablePlan{"logs": {Policy: merge.Copy, Renumber: merge.Behind},
			"pets": {Policy: merge.Copy, Renumber: merge.Behind}},
		[]string{"INSERT INTO logs (tag) VALUES ('a'), ('b')", "INSERT INTO pets (tag) VALUES ('a')", "INSERT INTO logs (tag) VALUES ('gone')",
			"DELETE FROM logs WHERE tag = 'gone'"},
		[]string{"INSERT INTO logs (tag) VALUES ('c')"})
	draft := draftOf(t, &merge.Plan{Version: 1, Layout: plan.Layout, Servers: plan.Servers, Target: plan.Target})
	plan.LeftOut = draft.LeftOut
	run(t, open(t, plan))
	if got := into.texts(t, "SELECT tag FROM logs ORDER BY tag"); fmt.Sprint(got) != "[a b c]" {
		t.Errorf("the logs are %v", got)
	}
	last := into.number(t, "SELECT MAX(id) FROM logs")
	if last <= 4 {
		t.Errorf("a row of the second server has the key %d, which the first has given out", last)
	}
	into.exec(t, "INSERT INTO logs (tag) VALUES ('new')", "INSERT INTO pets (tag) VALUES ('new')")
	for _, table := range []string{"logs", "pets"} {
		if n := into.number(t, "SELECT id FROM "+table+" WHERE tag = 'new'"); n <= last {
			t.Errorf("a new row of %s has the key %d, and %d was given out", table, n, last)
		}
	}
}

// The towns of a map have counted keys and are the same on all servers, and so are most houses. A key that has
// become another one leads to no place of the map.
func TestRowsWithOneCountedKeyAndOneNameBecomeOneByTheKey(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE homes (COUNTED, name VARCHAR(20) NOT NULL, street BIGINT NOT NULL, lord BIGINT NOT NULL)",
			"CREATE TABLE beasts (COUNTED, name VARCHAR(20) NOT NULL, age BIGINT NOT NULL)"}
		server := func(number int) (all []string) {
			for n := range 30 {
				all = append(all, fmt.Sprintf("INSERT INTO homes (name, street, lord) VALUES ('Villa %d', %d, %d)", n/2, n/4, 100*number+n),
					fmt.Sprintf("INSERT INTO beasts (name, age) VALUES ('Beast %d', %d)", n*number, n))
			}
			return all
		}
		tables := map[string]*merge.TablePlan{"homes": {Policy: merge.KeepFirst, Key: []string{"id"}},
			"beasts": {Policy: merge.KeepFirst, Key: []string{"id"}}}
		_, into, plan := small(t, target, schema, tables, server(1), server(2))
		refused(t, into, plan, merge.CodePlan, "beasts: id: rows would become one by a column that the databases count")
		tables["beasts"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Apart}
		undecided := *plan
		undecided.Tables = map[string]*merge.TablePlan{"beasts": tables["beasts"]}
		_, found := problems(t, opened(t, draftOf(t, &undecided)))
		if got := fmt.Sprint(found[merge.CodeUndecided]); !strings.Contains(got, "keep_first, or newest with by:, with key: [id]") {
			t.Errorf("the draft names no way to keep the homes in their places: %s", got)
		}
		giveUp(t, plan)
		m := open(t, plan)
		run(t, m)
		verified(t, m)
		if n := into.number(t, "SELECT COUNT(*) FROM homes WHERE id <= 30 AND lord = 99 + id"); n != 30 {
			t.Errorf("%d of 30 homes have kept their keys and their lords of the first server", n)
		}
	})
}

// On SQLite only primary keys are counted.
func TestCheckWarnsOfNumbersThatTheDatabaseCountsAndNoKeyKeepsApart(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		counted := map[string]string{"mysql": "n INTEGER NOT NULL AUTO_INCREMENT, KEY (n)", "postgres": "n SERIAL"}[target.Dialect]
		if counted == "" {
			return
		}
		schema := []string{"CREATE TABLE rooms (code VARCHAR(9) PRIMARY KEY, " + counted + ")"}
		tables := map[string]*merge.TablePlan{"rooms": {Policy: merge.Copy}}
		_, _, plan := small(t, target, schema, tables,
			[]string{"INSERT INTO rooms (code) VALUES ('a1'), ('a2')"}, []string{"INSERT INTO rooms (code) VALUES ('b1')"})
		const says = "rooms: n: the database counts this column"
		if report, _ := problems(t, open(t, plan)); !strings.Contains(fmt.Sprint(report.Warnings), says) {
			t.Errorf("check warns of %v", report.Warnings)
		}
		plan.Plain = append(plan.Plain, "rooms.n")
		if report, _ := problems(t, open(t, plan)); strings.Contains(fmt.Sprint(report.Warnings), says) {
			t.Error("check warns of a column that is under plain:")
		}
		tables["rooms"].Policy, tables["rooms"].Key, plan.Plain = merge.KeepFirst, []string{"code"}, nil
		if report, _ := problems(t, open(t, plan)); strings.Contains(fmt.Sprint(report.Warnings), says) {
			t.Error("check warns of rows that become one")
		}
	})
}
