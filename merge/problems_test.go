package merge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
)

func generatorTick(n int) time.Duration { return time.Duration(n) }

func TestWhatStandsInTheWayIsReportedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	const roles = "CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(16) NOT NULL, boss_id BIGINT)"
	role := func(id string) string { return "INSERT INTO roles VALUES (" + id + ", 'x', NULL)" }
	for name, c := range map[string]struct {
		schema, first, second, target []string
		tables                        map[string]*merge.TablePlan
		code                          merge.Code
		says                          string
	}{
		"a table that the plan does not know": {
			second: []string{"CREATE TABLE pets (id BIGINT PRIMARY KEY)"}, code: merge.CodeUnknownTable, says: "pets",
		},
		"a table that one server lacks": {
			second: []string{"DROP TABLE roles"}, code: merge.CodeMissingTable, says: "s2: roles",
		},
		"a table that the target lacks": {
			target: []string{"DROP TABLE roles"}, code: merge.CodeMissingTable, says: "the target",
		},
		"a table that is written in other letters": {
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy}, "Roles": {Policy: merge.Copy}},
			code:   merge.CodeMissingTable, says: "no database has the table, but roles",
		},
		"a column that the target lacks": {
			second: []string{"ALTER TABLE roles ADD COLUMN vip INTEGER"}, code: merge.CodeMissingColumn, says: "s2: roles: vip",
		},
		"a column that a server lacks and the target needs": {
			target: []string{"DROP TABLE roles", strings.Replace(roles, "boss_id BIGINT", "boss_id BIGINT, vip INTEGER NOT NULL", 1)},
			code:   merge.CodeMissingColumn, says: "no default",
		},
		"a column of another type": {
			second: []string{"DROP TABLE roles", strings.Replace(roles, "boss_id BIGINT", "boss_id VARCHAR(20)", 1)},
			code:   merge.CodeColumnType, says: "s2: roles: boss_id",
		},
		"a value that cannot be converted": {
			second: []string{"DROP TABLE roles", strings.Replace(roles, "boss_id BIGINT", "boss_id VARCHAR(20)", 1),
				"INSERT INTO roles VALUES (" + id(2, 1) + ", 'x', 'nobody')"},
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy, Convert: []string{"boss_id"}}},
			code:   merge.CodeColumnType, says: "nobody",
		},
		"a value that is too long": {
			second: []string{"DROP TABLE roles", strings.Replace(roles, "(16)", "(32)", 1),
				"INSERT INTO roles VALUES (" + id(2, 1) + ", 'seventeen letters', NULL)"},
			code: merge.CodeTooLong, says: "1 row: longer",
		},
		"NULL where the target takes none": {
			second: []string{"DROP TABLE roles", strings.Replace(roles, "(16) NOT NULL", "(16)", 1),
				"INSERT INTO roles VALUES (" + id(2, 1) + ", NULL, NULL)"},
			code: merge.CodeNull, says: "s2: roles: name: 1 row: NULL",
		},
		"a target that is not empty": {
			target: []string{role(id(9, 1))}, code: merge.CodeNotEmpty, says: "fresh",
		},
		"IDs of a server that is not declared": {
			second: []string{role(id(2, 1)), role(id(8, 1))}, code: merge.CodeServerNumber, says: "server number 8",
		},
		"two servers that made IDs with one number": {
			first: []string{role(id(1, 1))}, second: []string{role(id(1, 2))}, code: merge.CodeServerNumber, says: "number 1",
		},
		"equal keys": {
			first: []string{role(id(1, 1))}, second: []string{role(id(1, 1))},
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy, ForeignIDs: true}},
			code:   merge.CodePrimaryKey, says: "id: 1 row: ",
		},
		"equal keys that were counted": {
			first: []string{role("1"), role("2")}, second: []string{role("2"), role("3")}, code: merge.CodePrimaryKey, says: "id: 1 row: ",
		},
		"an equal unique key that nobody has decided about": {
			schema: []string{"CREATE UNIQUE INDEX roles_name ON roles (name)"},
			first:  []string{role(id(1, 1))}, second: []string{role(id(2, 1))}, code: merge.CodeUniqueKey, says: "name",
		},
		"an orphan": {
			schema: []string{"CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, role_id BIGINT, " +
				"FOREIGN KEY (role_id) REFERENCES roles (id))"},
			second: []string{"INSERT INTO items VALUES (" + id(2, 1) + ", " + id(2, 99) + ")"},
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy}, "items": {Policy: merge.Copy}},
			code:   merge.CodeOrphan, says: "s2: items: role_id: 1 row: ",
		},
		"an orphan of a reference that only the plan knows": {
			second: []string{"INSERT INTO roles VALUES (" + id(2, 1) + ", 'x', " + id(2, 99) + ")"},
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy,
				References: []merge.Reference{{Column: "boss_id", Table: "roles"}}}},
			code: merge.CodeOrphan, says: "boss_id",
		},
		"a row whose parent stays behind": {
			schema: []string{"CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, role_id BIGINT, " +
				"FOREIGN KEY (role_id) REFERENCES roles (id))"},
			second: []string{role(id(2, 1)), "INSERT INTO items VALUES (" + id(2, 1) + ", " + id(2, 1) + ")"},
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy, Where: "boss_id IS NOT NULL"},
				"items": {Policy: merge.Copy}},
			code: merge.CodeOrphan, says: "not copied",
		},
		"a reference that leads to a column in which rows that become one differ": {
			schema: []string{"CREATE TABLE guilds (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9) NOT NULL, tag INTEGER NOT NULL UNIQUE)",
				"CREATE TABLE banners (id BIGINT NOT NULL PRIMARY KEY, tag INTEGER, FOREIGN KEY (tag) REFERENCES guilds (tag))"},
			first:  []string{"INSERT INTO guilds VALUES (" + id(1, 1) + ", 'a', 1)", "INSERT INTO banners VALUES (" + id(1, 1) + ", 1)"},
			second: []string{"INSERT INTO guilds VALUES (" + id(2, 1) + ", 'a', 2)", "INSERT INTO banners VALUES (" + id(2, 1) + ", 2)"},
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy}, "guilds": {Policy: merge.KeepFirst, Key: []string{"name"}},
				"banners": {Policy: merge.Copy}},
			code: merge.CodeCollapsedParent, says: "banners: tag: rows of guilds become one",
		},
		"a path that nobody understands": {
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy,
				References: []merge.Reference{{Column: "name", Table: "roles", Path: "$.items[0].id"}}}},
			code: merge.CodePlan, says: `the path "$.items[0].id" is not understood at "[0].id"`,
		},
		"a reference to a column that is not there": {
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy,
				References: []merge.Reference{{Column: "boss_id", Table: "roles", Target: []string{"number"}}}}},
			code: merge.CodePlan, says: "the table that it refers to lacks a column of it",
		},
		"a name that only some rows repeat": {
			schema: []string{"CREATE TABLE bans (id BIGINT NOT NULL PRIMARY KEY, kind INTEGER, player VARCHAR(16))"},
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}},
				"bans": {Policy: merge.Copy, References: []merge.Reference{{Column: "player", Table: "roles", Target: []string{"name"}, When: "kind = 1"}}}},
			code: merge.CodePlan, says: "bans: player: a reference to a name that may change cannot have when:",
		},
		"a reference to a column that repeats a name": {
			schema: []string{"CREATE TABLE bans (player VARCHAR(16) NOT NULL PRIMARY KEY)",
				"CREATE TABLE pleas (id BIGINT NOT NULL PRIMARY KEY, player VARCHAR(16))"},
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}},
				"bans":  {Policy: merge.Copy, References: []merge.Reference{{Column: "player", Table: "roles", Target: []string{"name"}}}},
				"pleas": {Policy: merge.Copy, References: []merge.Reference{{Column: "player", Table: "bans"}}}},
			code: merge.CodePlan, says: "pleas: player: it refers to bans.player, which itself repeats a name that may change",
		},
		"a column that the target computes": {
			schema: []string{"CREATE TABLE purses (id BIGINT NOT NULL PRIMARY KEY, gold INTEGER, silver INTEGER)"},
			first:  []string{"INSERT INTO purses VALUES (" + id(1, 1) + ", 1, 7)"},
			target: []string{"DROP TABLE purses", "CREATE TABLE purses (id BIGINT NOT NULL PRIMARY KEY, gold INTEGER, " +
				"silver INTEGER GENERATED ALWAYS AS (gold * 10) STORED)"},
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy}, "purses": {Policy: merge.Copy}},
			code:   merge.CodeMissingColumn, says: "silver: the target computes the column",
		},
		"a column that is not there": {
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Newest, Key: []string{"id"}, By: "age"}}, code: merge.CodePlan, says: "age",
		},
		"a total that is too large": {
			schema: []string{"CREATE TABLE purses (owner VARCHAR(9) NOT NULL PRIMARY KEY, gold BIGINT NOT NULL)"},
			first:  []string{"INSERT INTO purses VALUES ('a', 9223372036854775807)"},
			second: []string{"INSERT INTO purses VALUES ('a', 1)"},
			tables: map[string]*merge.TablePlan{"roles": {Policy: merge.Copy},
				"purses": {Policy: merge.Sum, Key: []string{"owner"}, Sum: []string{"gold"}}},
			code: merge.CodeTotal, says: "9223372036854775808",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			someDatabases(t, func(t *testing.T, target dbtest.Target) {
				tables := c.tables
				if tables == nil {
					tables = map[string]*merge.TablePlan{"roles": {Policy: merge.Copy}}
				}
				_, into, plan := small(t, target, append([]string{roles}, c.schema...), tables, c.first, c.second)
				into.exec(t, c.target...)
				before := into.dump(t)
				m := open(t, plan)
				report, found := problems(t, m)
				if len(found) != 1 || len(found[c.code]) == 0 || !strings.Contains(fmt.Sprint(found[c.code]), c.says) {
					t.Errorf("found %v, want %s: %s", report.Problems, c.code, c.says)
				}
				for _, p := range report.Problems {
					if p.Remedy == "" && p.Code != merge.CodePlan {
						t.Errorf("%v says not what to do", p)
					}
				}
				if report.Verdict != merge.Undecided {
					t.Errorf("the verdict is %v", report.Verdict)
				}
				if _, err := m.Run(t.Context()); !errors.Is(err, merge.ErrUndecided) {
					t.Errorf("the run ended with %v", err)
				}
				same(t, "the target", into.dump(t), before)
			})
		})
	}
}

func TestACircleInWhichNothingCanBeNullIsRefusedWhereForeignKeysCannotWait(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE nodes (id BIGINT NOT NULL PRIMARY KEY, next_id BIGINT NOT NULL, " +
			"FOREIGN KEY (next_id) REFERENCES nodes (id))"}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"nodes": {Policy: merge.Copy}},
			[]string{"INSERT INTO nodes VALUES (" + id(1, 1) + ", " + id(1, 2) + "), (" + id(1, 2) + ", " + id(1, 1) + ")"})
		m := open(t, plan)
		report, found := problems(t, m)
		if target.Dialect == "postgres" {
			if len(found) != 1 || len(found[merge.CodeCircle]) != 1 {
				t.Errorf("found %v", report.Problems)
			}
			return
		}
		if len(found) > 0 {
			t.Errorf("found %v", report.Problems)
		}
		run(t, m)
		if n := into.number(t, "SELECT COUNT(*) FROM nodes"); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

// Guilds need a leader and roles a guild. On PostgreSQL, the remedy is followed.
func TestTwoTablesOfWhichEachNeedsTheOtherAreMerged(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		leader := "INT NOT NULL"
		if target.Dialect == "sqlite" {
			leader += " REFERENCES roles (id)"
		}
		schema := []string{"CREATE TABLE guilds (id INT NOT NULL PRIMARY KEY, leader " + leader + ", tag VARCHAR(9))",
			"CREATE TABLE roles (id INT NOT NULL PRIMARY KEY, guild INT NOT NULL, tag VARCHAR(9), FOREIGN KEY (guild) REFERENCES guilds (id))"}
		if target.Dialect != "sqlite" {
			schema = append(schema, "ALTER TABLE guilds ADD CONSTRAINT leads FOREIGN KEY (leader) REFERENCES roles (id)")
		}
		server := func(tag string) []string {
			return []string{fmt.Sprintf("INSERT INTO guilds VALUES (1, 3, '%[1]s'), (2, 1, '%[1]s')", tag),
				fmt.Sprintf("INSERT INTO roles VALUES (1, 2, '%[1]s'), (2, 1, '%[1]s'), (3, 1, '%[1]s')", tag)}
		}
		tables := map[string]*merge.TablePlan{"guilds": {Policy: merge.Copy, Renumber: merge.Apart}, "roles": {Policy: merge.Copy, Renumber: merge.Apart}}
		_, into, plan := small(t, target, schema, tables, server("a"), server("b"))
		if target.Dialect == "postgres" {
			refused(t, into, plan, merge.CodeCircle, "guilds.leader refers to roles")
			refused(t, into, plan, merge.CodeCircle, "drop its constraint until the merge is done, and list the column")
			into.exec(t, "ALTER TABLE guilds DROP CONSTRAINT leads")
			tables["guilds"].References = []merge.Reference{{Column: "leader", Table: "roles"}}
		}
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM guilds g JOIN roles l ON l.id = g.leader AND l.guild = g.id AND l.tag = g.tag"); n != 4 {
			t.Errorf("%d guilds have a leader of their own, want 4", n)
		}
		if n := into.number(t, "SELECT COUNT(*) FROM roles r JOIN guilds g ON g.id = r.guild AND g.tag = r.tag"); n != 6 {
			t.Errorf("%d roles are in their guild, want 6", n)
		}
	})
}

// A foreign key of a server is proof, however few its rows are, and also of keys that are those of accounts.
func TestAForeignKeyThatTheTargetLacksHasToBeDeclared(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		const accounts, guilds = "CREATE TABLE accounts (id INT NOT NULL PRIMARY KEY)", "CREATE TABLE guilds (id BIGINT NOT NULL PRIMARY KEY, leader INT"
		for i, roles := range []string{"CREATE TABLE roles (id INT NOT NULL PRIMARY KEY)",
			"CREATE TABLE roles (id INT NOT NULL PRIMARY KEY, FOREIGN KEY (id) REFERENCES accounts (id))"} {
			for _, rows := range []string{"(1), (2)", "(1), (2), (3), (4), (5), (6)"} {
				server := func(number int) []string {
					return []string{accounts, roles, guilds + ", FOREIGN KEY (leader) REFERENCES roles (id))",
						"INSERT INTO accounts VALUES (1), (2), (3), (4), (5), (6)", "INSERT INTO roles VALUES " + rows,
						"INSERT INTO guilds VALUES (" + id(number, 1) + ", 2)"}
				}
				_, into, plan := small(t, target, nil, map[string]*merge.TablePlan{"accounts": {Policy: merge.Copy, Renumber: merge.Apart},
					"roles": {Policy: merge.Copy}, "guilds": {Policy: merge.Copy}}, server(1), server(2))
				if i == 0 {
					plan.Tables["roles"].Renumber = merge.Apart
				}
				into.exec(t, accounts, roles, guilds+")")
				refused(t, into, plan, merge.CodeUndeclared, `add "guilds.leader" under identities: roles`)
			}
		}
	})
}

func TestOrphansAreDroppedOrLoseTheirReference(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		cfg := gameworld.Config{Roles: 60, Clash: 0.2, Faults: gameworld.Faults{Orphans: 5, OtherOrder: true}}
		_, into, plan := games(t, []dbtest.Target{target, target}, target, cfg)
		plan.Tables["items"].Orphans = "drop"
		plan.Tables["mail"].Orphans = "drop"
		plan.Tables["roles"].Orphans = "null"
		for _, from := range []string{"", "portable"} {
			var opts []merge.Option
			if from != "" {
				into = emptyGame(t, target, cfg)
				plan.Target.DSN = into.dsn
				opts = append(opts, merge.WithPortableCopy())
			}
			m := open(t, plan, opts...)
			report, found := problems(t, m)
			if len(found) > 0 {
				t.Fatal(report.Problems)
			}
			run(t, m)
			if n := into.number(t, "SELECT COUNT(*) FROM roles"); n != 120 {
				t.Errorf("%d roles", n)
			}
		}
	})
}

func TestAUniqueKeyIsCalledByItsColumns(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, []string{"CREATE TABLE accounts (id BIGINT NOT NULL PRIMARY KEY, login VARCHAR(20) NOT NULL UNIQUE)"},
			map[string]*merge.TablePlan{"accounts": {Policy: merge.Copy}},
			[]string{"INSERT INTO accounts VALUES (" + id(1, 1) + ", 'Ann')"}, []string{"INSERT INTO accounts VALUES (" + id(2, 1) + ", 'Ann')"})
		report, found := problems(t, open(t, plan))
		if p := found[merge.CodeUniqueKey]; len(p) != 1 || !strings.Contains(p[0].Message, "in (login)") ||
			len(report.Conflicts) != 1 || report.Conflicts[0].Key != "(login)" {
			t.Errorf("check found %v, %v", found, report.Conflicts)
		}
	})
}

// A slip under plain: would leave the column that is meant without an answer.
func TestAPlainColumnHasToBeThere(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE eggs (id BIGINT NOT NULL PRIMARY KEY, low INTEGER, high INTEGER)"}
		rows := func(number int) []string { return []string{"INSERT INTO eggs VALUES (" + id(number, 1) + ", 1, 2)"} }
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{"eggs": {Policy: merge.Copy}}, rows(1), rows(2))
		plan.Plain = []string{"eggs.low", "eggs.low+high", "eggs.hight"}
		_, found := problems(t, open(t, plan))
		got := fmt.Sprint(found[merge.CodePlan])
		for _, slip := range plan.Plain[1:] {
			if !strings.Contains(got, fmt.Sprintf("plain: no database has a column %q", slip)) {
				t.Errorf("%s is accepted: %s", slip, got)
			}
		}
		if strings.Contains(got, `"eggs.low"`) {
			t.Errorf("a column that is there is refused: %s", got)
		}
	})
}
