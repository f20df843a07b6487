package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// farKey is a key by which rows of one server refer to rows of another one. The key of the n-th parent has the
// same columns as the reference of a child, and a reference may be written in another way.
type farKey struct {
	types func(target dbtest.Target) (prepare, types []string)
	key   func(n int) []string
	refer func(n int) []string
}

func ofTypes(types ...string) func(dbtest.Target) (prepare, types []string) {
	return func(dbtest.Target) ([]string, []string) { return nil, types }
}

// uuidType is the type of UUIDs, or a text where there is none.
func uuidType(target dbtest.Target) string {
	if target.Name == "postgres" || target.Name == "mariadb" {
		return "UUID"
	}
	return "CHAR(36)"
}

func uuidValue(n int) string { return fmt.Sprintf("'0190f3a4-5b6c-7d8e-9fab-%012d'", n) }

func bytesType(target dbtest.Target) string {
	return map[string]string{"sqlite": "BLOB", "postgres": "BYTEA", "mysql": "BINARY(16)"}[target.Dialect]
}

func farKeys() map[string]farKey {
	upper := func(n int) []string { return []string{fmt.Sprintf("'NAME''S?%d'", n)} }
	lower := func(n int) []string { return []string{fmt.Sprintf("'name''s?%d'", n)} }
	return map[string]farKey{
		"two numbers": {types: ofTypes("BIGINT", "BIGINT"), key: func(n int) []string { return []string{fmt.Sprint(n), "7"} }},
		"a number and a text": {types: ofTypes("BIGINT", "VARCHAR(30)"),
			key: func(n int) []string { return []string{"4", fmt.Sprintf("'it''s \" ? $1 \\ %d'", n)} }},
		"a text": {types: ofTypes("VARCHAR(30)"), key: lower},
		"a UUID": {types: func(target dbtest.Target) (prepare, types []string) { return nil, []string{uuidType(target)} },
			key: func(n int) []string { return []string{uuidValue(n)} }},
		"bytes and a UUID": {types: func(target dbtest.Target) (prepare, types []string) {
			return nil, []string{bytesType(target), uuidType(target)}
		}, key: func(n int) []string { return []string{fmt.Sprintf("BLOB'ff00%028d'", n), uuidValue(n)} }},
		"a text without regard to case": {types: func(target dbtest.Target) (prepare, types []string) {
			prepare, name := folding(target, 30)
			return prepare, []string{name}
		}, key: lower, refer: upper},
		"a text without regard to case and a number": {types: func(target dbtest.Target) (prepare, types []string) {
			prepare, name := folding(target, 30)
			return prepare, []string{name, "BIGINT"}
		}, key: func(n int) []string { return append(lower(n), "5") }, refer: func(n int) []string { return append(upper(n), "5") }},
	}
}

// schema makes parents with the key and children that refer to them.
func (k farKey) schema(target dbtest.Target) []string {
	prepare, types := k.types(target)
	var names, keys, references []string
	for i, name := range types {
		column := fmt.Sprintf("k%d", i)
		names, keys = append(names, column), append(keys, column+" "+name+" NOT NULL")
		references = append(references, column+" "+name)
	}
	list := strings.Join(names, ", ")
	return append(slices.Clone(prepare), fmt.Sprintf("CREATE TABLE parents (%s, tag VARCHAR(9), PRIMARY KEY (%s))",
		strings.Join(keys, ", "), list), fmt.Sprintf("CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, %s, FOREIGN KEY (%s) "+
		"REFERENCES parents (%s))", strings.Join(references, ", "), list, list))
}

func (k farKey) parent(n int) string {
	return fmt.Sprintf("INSERT INTO parents VALUES (%s, 't%d')", strings.Join(k.key(n), ", "), n)
}

func (k farKey) child(server, row, parent int) string {
	refer := k.refer
	if refer == nil {
		refer = k.key
	}
	return fmt.Sprintf("INSERT INTO children VALUES (%s, %s)", id(server, row), strings.Join(refer(parent), ", "))
}

// none makes a child with a NULL in its reference, so that it has none.
func (k farKey) none(server, row int) string {
	values := k.key(99)
	values[len(values)-1] = "NULL"
	return fmt.Sprintf("INSERT INTO children VALUES (%s, %s)", id(server, row), strings.Join(values, ", "))
}

// columns names the columns of the reference as problems do.
func (k farKey) columns() string {
	return strings.Join([]string{"k0", "k1"}[:len(k.key(1))], ", ")
}

// led lists the parent of every child; "-" says that it has none.
func (k farKey) led(t *testing.T, into base) string {
	t.Helper()
	var on []string
	for i := range k.key(1) {
		on = append(on, fmt.Sprintf("p.k%d = c.k%d", i, i))
	}
	return strings.Join(into.texts(t, "SELECT COALESCE(p.tag, '-') FROM children AS c LEFT JOIN parents AS p ON "+
		strings.Join(on, " AND ")+" ORDER BY c.id"), " ")
}

func TestAReferenceByAnyKeyToARowOfAnotherServerIsNoOrphan(t *testing.T) {
	t.Parallel()
	for name, k := range farKeys() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databases(t, func(t *testing.T, target dbtest.Target) {
				near := []string{k.parent(1), k.child(1, 1, 2)}
				far := []string{k.parent(2), k.child(2, 2, 1), k.child(2, 3, 2), k.none(2, 4)}
				lost := append(slices.Clone(far), k.child(2, 5, 9))
				for orphans, want := range map[string]string{"": "t2 t1 t2 -", "drop": "t2 t1 t2 -", "null": "t2 t1 t2 - -"} {
					if target.Dialect != "sqlite" && skipped(name+orphans) {
						continue
					}
					t.Run("orphans: "+orphans, func(t *testing.T) {
						rows := lost
						if orphans == "" {
							rows = far
						}
						servers, into, plan := small(t, target, k.schema(target), map[string]*merge.TablePlan{
							"parents": {Policy: merge.Copy}, "children": {Policy: merge.Copy, Orphans: orphans}}, near, rows)
						if report, _ := problems(t, open(t, plan)); len(report.Problems) > 0 {
							t.Fatal(report.Problems)
						}
						if orphans == "" {
							servers[1].unchecked(t, lost[len(lost)-1])
							refused(t, into, plan, merge.CodeOrphan, "s2: children: "+k.columns()+": 1 row: ")
							servers[1].unchecked(t, "DELETE FROM children WHERE id = "+id(2, 5))
						}
						run(t, open(t, plan))
						if got := k.led(t, into); got != want {
							t.Errorf("the children lead to %s, want %s", got, want)
						}
						// Verify misses a child whose parent is far, and finds one without a parent.
						if orphans == "drop" {
							into.unchecked(t, "DELETE FROM children WHERE id = "+id(2, 2))
						} else {
							into.unchecked(t, k.child(1, 6, 9))
						}
						disagrees(t, plan)
					})
				}
			})
		})
	}
}

func TestAReferenceByAnyKeyToASkippedTableNeedsItsRowInTheTarget(t *testing.T) {
	t.Parallel()
	for name, k := range farKeys() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databases(t, func(t *testing.T, target dbtest.Target) {
				for orphans, want := range map[string]string{"": "t1 t3 t2 - t2", "drop": "t1 t3 -", "null": "t1 t3 - - -"} {
					if target.Dialect != "sqlite" && skipped(name+orphans) {
						continue
					}
					t.Run("orphans: "+orphans, func(t *testing.T) {
						_, into, plan := small(t, target, k.schema(target), map[string]*merge.TablePlan{
							"parents": {Policy: merge.Skip}, "children": {Policy: merge.Copy, Orphans: orphans}},
							[]string{k.parent(1), k.parent(2), k.child(1, 1, 1), k.child(1, 2, 3), k.child(1, 3, 2)},
							[]string{k.parent(2), k.none(2, 4), k.child(2, 5, 2)})
						into.exec(t, k.parent(1), k.parent(3))
						if orphans == "" {
							refused(t, into, plan, merge.CodeOrphan, "s1: children: "+k.columns()+": 1 row: ")
							into.exec(t, k.parent(2))
						}
						run(t, open(t, plan))
						if got := k.led(t, into); got != want {
							t.Errorf("the children lead to %s, want %s", got, want)
						}
						into.unchecked(t, "DELETE FROM parents WHERE tag = 't3'")
						disagrees(t, plan)
					})
				}
			})
		})
	}
}

// disagrees expects that the target is not what the plan makes of the servers.
func disagrees(t *testing.T, plan *merge.Plan) {
	t.Helper()
	report, err := open(t, plan).Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Failed) == 0 {
		t.Error("verify finds no difference")
	}
}

// A value that the plan changes on its way means a row of its own server alone.
func TestAReferenceWhoseValuesChangeLeadsToItsOwnServer(t *testing.T) {
	t.Parallel()
	text := "VARCHAR(30)"
	cases := map[string]struct {
		schema, first, second []string
		tables                map[string]*merge.TablePlan
		says                  string
	}{
		"by a column that is renumbered": {
			schema: []string{"CREATE TABLE realms (id BIGINT NOT NULL PRIMARY KEY)",
				"CREATE TABLE guilds (realm BIGINT NOT NULL, code VARCHAR(9) NOT NULL, PRIMARY KEY (realm, code), " +
					"FOREIGN KEY (realm) REFERENCES realms (id))",
				"CREATE TABLE members (id BIGINT NOT NULL PRIMARY KEY, realm BIGINT, code VARCHAR(9), " +
					"FOREIGN KEY (realm, code) REFERENCES guilds (realm, code))"},
			first:  []string{"INSERT INTO realms VALUES (1)", "INSERT INTO guilds VALUES (1, 'a')"},
			second: []string{"INSERT INTO realms VALUES (1)", "INSERT INTO guilds VALUES (1, 'b')", "INSERT INTO members VALUES (" + id(2, 1) + ", 1, 'a')"},
			tables: map[string]*merge.TablePlan{"realms": {Policy: merge.Copy, Renumber: merge.Behind}, "guilds": {Policy: merge.Copy}, "members": {Policy: merge.Copy}},
			says:   "s2: members: realm, code: 1 row: ",
		},
		"by a name that may change": {
			schema: []string{"CREATE TABLE players (id BIGINT NOT NULL PRIMARY KEY, name " + text + " NOT NULL UNIQUE)",
				"CREATE TABLE bans (id BIGINT NOT NULL PRIMARY KEY, player " + text + ", FOREIGN KEY (player) REFERENCES players (name))"},
			first:  []string{"INSERT INTO players VALUES (" + id(1, 1) + ", 'heron')"},
			second: []string{"INSERT INTO players VALUES (" + id(2, 1) + ", 'crane')", "INSERT INTO bans VALUES (" + id(2, 2) + ", 'heron')"},
			tables: map[string]*merge.TablePlan{"players": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}, "bans": {Policy: merge.Copy}},
			says:   "s2: bans: player: 1 row: ",
		},
		"by a text that the plan sets": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, code " + text + " UNIQUE)",
				"CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, code " + text + ", FOREIGN KEY (code) REFERENCES p (code))"},
			first:  []string{"INSERT INTO p VALUES (" + id(1, 1) + ", 'a')"},
			second: []string{"INSERT INTO c VALUES (" + id(2, 1) + ", 'a')"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.Copy, Set: map[string]string{"code": "code"}}, "c": {Policy: merge.Copy}},
			says:   "s2: c: code: 1 row: ",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			someDatabases(t, func(t *testing.T, target dbtest.Target) {
				_, into, plan := small(t, target, c.schema, c.tables, c.first, c.second)
				refused(t, into, plan, merge.CodeOrphan, c.says)
			})
		})
	}
}

// A key that other columns of its table do not change keeps its meaning, whatever is renumbered or renamed.
func TestAReferenceByAKeyThatStaysLeadsToAnyServer(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, []string{
			"CREATE TABLE parents (id BIGINT NOT NULL PRIMARY KEY, code VARCHAR(9) NOT NULL UNIQUE)",
			"CREATE TABLE children (id BIGINT NOT NULL PRIMARY KEY, code VARCHAR(9), FOREIGN KEY (code) REFERENCES parents (code))"},
			map[string]*merge.TablePlan{"parents": {Policy: merge.Copy, Renumber: merge.Behind}, "children": {Policy: merge.Copy}},
			[]string{"INSERT INTO parents VALUES (1, 'a')"},
			[]string{"INSERT INTO parents VALUES (1, 'b')", "INSERT INTO children VALUES (" + id(2, 1) + ", 'a')"})
		run(t, open(t, plan))
		if n := into.number(t, "SELECT id FROM parents WHERE code = 'b'"); n != 2 {
			t.Errorf("the second parent has the key %d", n)
		}
	})
}

func TestAReferenceBetweenKindsIsJudgedAsTheTargetCompares(t *testing.T) {
	t.Parallel()
	const (
		lower = "'0190f3a4-5b6c-7d8e-9fab-00000000000a'"
		upper = "'0190F3A4-5B6C-7D8E-9FAB-00000000000A'"
		other = "'0190f3a4-5b6c-7d8e-9fab-00000000000b'"
	)
	ignoring := func(name string) string { _, c := folding(dbtest.Named(name), 40); return c }
	all := func(name string) func(string) string { return func(string) string { return name } }
	uuid := func(name string) string { return uuidType(dbtest.Named(name)) }
	bytes := func(name string) string { return bytesType(dbtest.Named(name)) }
	cases := map[string]struct {
		from, into           string // the kinds of the servers, and that of the target
		columns              func(kind string) string
		parent, child, ghost string
		says                 string // what refuses the child
		lost                 string // what refuses the ghost
	}{
		"a UUID in capital letters": {from: "sqlite sqlite", into: "postgres", columns: uuid, parent: lower, child: upper, ghost: other},
		"a UUID of two kinds":       {from: "postgres sqlite", into: "postgres", columns: uuid, parent: lower, child: upper, ghost: other},
		"a UUID out of a text":      {from: "sqlite sqlite", into: "mariadb", columns: uuid, parent: upper, child: lower, ghost: other},
		"a UUID into a text":        {from: "postgres postgres", into: "mysql", columns: uuid, parent: lower, child: lower, ghost: other},
		"bytes":                     {from: "mysql mariadb", into: "postgres", columns: bytes, parent: "BLOB'ff000000000000000000000000000001'", child: "BLOB'ff000000000000000000000000000001'", ghost: "BLOB'ff000000000000000000000000000002'"},
		"bytes of SQLite":           {from: "sqlite postgres", into: "mysql", columns: bytes, parent: "BLOB'ff000000000000000000000000000001'", child: "BLOB'ff000000000000000000000000000001'", ghost: "BLOB'ff000000000000000000000000000002'"},
		"a text":                    {from: "sqlite postgres", into: "postgres", columns: all("VARCHAR(40)"), parent: "'heron'", child: "'heron'", ghost: "'crane'"},
		"a text out of one that ignores case": {from: "mysql mariadb", into: "postgres", columns: all("VARCHAR(40)"),
			parent: "'heron'", child: "'Heron'", ghost: "'crane'", says: "s2: c: k: 1 row: "},
		"a text into one that ignores case": {from: "sqlite postgres", into: "mysql", columns: func(name string) string {
			if name == "mysql" {
				return ignoring(name)
			}
			return "VARCHAR(40)"
		}, parent: "'heron'", child: "'heron'", ghost: "'crane'", lost: "nobody can say"},
		"a text that ignores case everywhere": {from: "mariadb mysql", into: "mysql", columns: ignoring,
			parent: "'heron'", child: "'Heron'", ghost: "'crane'"},
	}
	for name, c := range cases {
		for _, orphans := range oneOf(name, []string{"", "drop"}) {
			t.Run(name+", orphans: "+orphans, func(t *testing.T) {
				t.Parallel()
				if turn(name, 3) != 0 {
					nightly.Only(t, "tier one takes every third pair of kinds")
				}
				schema := func(kind string) []string {
					return []string{"CREATE TABLE p (k " + c.columns(kind) + " NOT NULL PRIMARY KEY)",
						"CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, k " + c.columns(kind) + ", FOREIGN KEY (k) REFERENCES p (k))"}
				}
				child := func(n int, key string) string { return "INSERT INTO c VALUES (" + id(2, n) + ", " + key + ")" }
				plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}, Tables: map[string]*merge.TablePlan{
					"p": {Policy: merge.Copy}, "c": {Policy: merge.Copy, Orphans: orphans}}}
				var servers []base
				for i, kind := range strings.Fields(c.from) {
					b := newBase(t, dbtest.Named(kind))
					b.unchecked(t, schema(kind)...)
					servers = append(servers, b)
					plan.Servers = append(plan.Servers, merge.Server{Name: fmt.Sprintf("s%d", i+1), Number: int64(i + 1), DSN: b.dsn})
				}
				servers[0].unchecked(t, "INSERT INTO p VALUES ("+c.parent+")")
				servers[1].unchecked(t, child(1, c.child))
				into := newBase(t, dbtest.Named(c.into))
				into.exec(t, schema(c.into)...)
				plan.Target = merge.Target{Name: "s1", Number: 1, DSN: into.dsn}
				switch {
				case c.says != "" && orphans == "":
					refused(t, into, plan, merge.CodeOrphan, c.says)
					return
				case c.lost != "":
					servers[1].unchecked(t, child(2, c.ghost))
					refused(t, into, plan, merge.CodeOrphan, c.lost)
					servers[1].unchecked(t, "DELETE FROM c WHERE id = "+id(2, 2))
				case orphans == "":
					servers[1].unchecked(t, child(2, c.ghost))
					refused(t, into, plan, merge.CodeOrphan, "s2: c: k: 1 row: ")
					servers[1].unchecked(t, "DELETE FROM c WHERE id = "+id(2, 2))
				default:
					servers[1].unchecked(t, child(2, c.ghost))
				}
				run(t, open(t, plan))
				want := int64(1)
				if c.says != "" {
					want = 0
				}
				if n := into.number(t, "SELECT COUNT(*) FROM c JOIN p ON p.k = c.k"); n != want {
					t.Errorf("%d children have their parent, want %d", n, want)
				}
				if n := into.number(t, "SELECT COUNT(*) FROM c"); n != want {
					t.Errorf("there are %d children, want %d", n, want)
				}
			})
		}
	}
}

// Where the own server of a row takes two texts for one, and the target does not, the row is an orphan there.
func TestAReferenceThatOnlyItsServerTakesForOneIsAnOrphan(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"mysql", "mariadb", "sqlite"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			_, ignoring := folding(dbtest.Named(from), 40)
			schema := func(text string) []string {
				return []string{"CREATE TABLE p (k " + text + " NOT NULL PRIMARY KEY)",
					"CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, k " + text + ", FOREIGN KEY (k) REFERENCES p (k))"}
			}
			_, _, plan := small(t, dbtest.Named(from), schema(ignoring), map[string]*merge.TablePlan{
				"p": {Policy: merge.Copy}, "c": {Policy: merge.Copy}},
				[]string{"INSERT INTO p VALUES ('heron')", "INSERT INTO c VALUES (" + id(1, 1) + ", 'Heron'), (" + id(1, 2) + ", 'heron')"},
				[]string{"INSERT INTO p VALUES ('crane')"})
			into := newBase(t, dbtest.Named("postgres"))
			into.exec(t, schema("VARCHAR(40)")...)
			plan.Target.DSN = into.dsn
			refused(t, into, plan, merge.CodeOrphan, "s1: c: k: 1 row: ")
			plan.Tables["c"].Orphans = "drop"
			run(t, open(t, plan))
			if got := into.texts(t, "SELECT k FROM c"); !slices.Equal(got, []string{"heron"}) {
				t.Errorf("the target has children of %v", got)
			}
		})
	}
}

// The servers are asked for many values with one statement.
func TestManyReferencesByTextAndNumberLeadToOtherServers(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		var parents, children []string
		for n := range 900 {
			parents = append(parents, fmt.Sprintf("('name%d', %d)", n, n%7))
			children = append(children, fmt.Sprintf("(%s, 'name%d', %d)", id(2, n), n, n%7))
		}
		children = append(children, "("+id(2, 900)+", 'name1', 2)")
		_, into, plan := small(t, target, []string{"CREATE TABLE p (k VARCHAR(20) NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (k, n))",
			"CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, k VARCHAR(20), n BIGINT, FOREIGN KEY (k, n) REFERENCES p (k, n))"},
			map[string]*merge.TablePlan{"p": {Policy: merge.Copy}, "c": {Policy: merge.Copy, Orphans: "drop"}},
			[]string{"INSERT INTO p VALUES " + strings.Join(parents, ", ")}, []string{"INSERT INTO c VALUES " + strings.Join(children, ", ")})
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM c JOIN p ON p.k = c.k AND p.n = c.n"); n != 900 {
			t.Errorf("%d children have their parent, want 900", n)
		}
		if n := into.number(t, "SELECT COUNT(*) FROM c"); n != 900 {
			t.Errorf("there are %d children, want 900", n)
		}
	})
}

// A statement lists the values that lead to rows of other servers, so there must not be too many.
func TestTooManyReferencesByTextToOtherServersAreRefused(t *testing.T) {
	t.Parallel()
	const count = 20_001
	numbered := func(insert string) string {
		return fmt.Sprintf("%s WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", insert, count)
	}
	servers, into, plan := small(t, dbtest.Named("sqlite"), []string{"CREATE TABLE p (k VARCHAR(20) NOT NULL PRIMARY KEY)",
		"CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, k VARCHAR(20), FOREIGN KEY (k) REFERENCES p (k))"},
		map[string]*merge.TablePlan{"p": {Policy: merge.Copy}, "c": {Policy: merge.Copy, Orphans: "drop"}},
		[]string{numbered("INSERT INTO p") + "SELECT 'name' || i FROM n"},
		[]string{numbered("INSERT INTO c") + "SELECT " + id(2, 1) + " + i * 4294967296, 'name' || i FROM n"})
	refused(t, into, plan, merge.CodeOrphan, "too many to be told apart")
	// As many orphans need no list.
	servers[0].unchecked(t, "DELETE FROM p WHERE k <> 'name7'")
	run(t, open(t, plan))
	if n := into.number(t, "SELECT COUNT(*) FROM c"); n != 1 {
		t.Errorf("%d children have a parent", n)
	}
}
