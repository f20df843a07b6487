package merge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

const (
	accountsTable = "CREATE TABLE accounts (id BIGINT NOT NULL PRIMARY KEY, login VARCHAR(20) NOT NULL UNIQUE, " +
		"phone VARCHAR(20) UNIQUE, paid BIGINT NOT NULL, seen INTEGER)"
	ownedTable = "CREATE TABLE owned (id BIGINT NOT NULL PRIMARY KEY, account_id BIGINT NOT NULL, " +
		"FOREIGN KEY (account_id) REFERENCES accounts (id))"
)

func account(id, login, phone string, paid, seen int) string {
	return fmt.Sprintf("INSERT INTO accounts VALUES (%s, '%s', %s, %d, %d)", id, login, phone, paid, seen)
}

func TestRowsThatBecomeOneTakeTheReferencesToThemAlong(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		for name, c := range map[string]struct {
			plan merge.TablePlan
			want string
		}{
			"the first server's stays": {merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"login"}}, "ann 5 1, bob 1 1 3"},
			"the last one seen stays":  {merge.TablePlan{Policy: merge.Newest, Key: []string{"login"}, By: "seen"}, "ann 7 2, bob 3 3 3"},
			"they are added": {merge.TablePlan{Policy: merge.Sum, Key: []string{"login"}, Sum: []string{"paid"},
				Max: []string{"seen"}}, "ann 12 1, bob 4 1 3"},
		} {
			t.Run(name, func(t *testing.T) {
				if c.plan.Policy != merge.Sum {
					onServersAtNight(t, target)
				}
				first := []string{account(id(1, 1), "ann", "NULL", 5, 10), account(id(1, 2), "bob", "NULL", 1, 10)}
				second := []string{account(id(2, 11), "ann", "NULL", 7, 20)}
				third := []string{account(id(3, 21), "bob", "NULL", 3, 30)}
				for i, s := range []*[]string{&first, &second, &third} {
					for _, n := range []int{1, 2, 11, 21} {
						if owner := id(i+1, n); strings.Contains(strings.Join(*s, " "), owner) {
							*s = append(*s, "INSERT INTO owned VALUES ("+id(i+1, n+100)+", "+owner+")")
						}
					}
				}
				_, into, plan := small(t, target, []string{accountsTable, ownedTable},
					map[string]*merge.TablePlan{"accounts": &c.plan, "owned": {Policy: merge.Copy}}, first, second, third)
				run(t, open(t, plan))
				got := strings.Join(into.texts(t, "SELECT concat(login, ' ', paid, ' ', (id / 1024) % 1048576) FROM accounts "+
					"ORDER BY login"), ", ")
				if target.Dialect == "mysql" {
					got = strings.Join(into.texts(t, "SELECT concat(login, ' ', paid, ' ', (id >> 10) & 1048575) FROM accounts "+
						"ORDER BY login"), ", ")
				}
				if want := strings.TrimSuffix(c.want, " 3"); got != want {
					t.Errorf("accounts are %q, want %q", got, want)
				}
				if n := into.number(t, "SELECT COUNT(*) FROM owned JOIN accounts ON accounts.id = account_id"); n != 4 {
					t.Errorf("%d of 4 rows have their account", n)
				}
			})
		}
	})
}

func TestRowsBecomeOneByTheKeyOfThePlanOnly(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		counted := map[string]string{"sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT", "mysql": "BIGINT AUTO_INCREMENT PRIMARY KEY",
			"postgres": "BIGSERIAL PRIMARY KEY"}[target.Dialect]
		accounts := []string{accountsTable, "CREATE TABLE bans (id " + counted + ", why VARCHAR(9))"}
		for name, c := range map[string]struct {
			accounts, bans merge.TablePlan
			code           merge.Code
			says           string
		}{
			"no key": {merge.TablePlan{Policy: merge.KeepFirst}, merge.TablePlan{Policy: merge.Skip}, merge.CodePlan,
				"such as key: ["},
			"a key that is counted": {merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"login"}},
				merge.TablePlan{Policy: merge.Newest, Key: []string{"id"}, By: "why"}, merge.CodePlan, "that the databases count"},
			"another key in which rows are equal": {merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"login"}},
				merge.TablePlan{Policy: merge.Skip}, merge.CodeUniqueKey, "equal to another row in"},
		} {
			_, into, plan := small(t, target, accounts, map[string]*merge.TablePlan{"accounts": &c.accounts, "bans": &c.bans},
				[]string{account(id(1, 1), "ann", "'0'", 5, 1), "INSERT INTO bans VALUES (1, 'a')"},
				[]string{account(id(2, 2), "eve", "'0'", 5, 1), "INSERT INTO bans VALUES (1, 'b')"})
			t.Log(name)
			refused(t, into, plan, c.code, c.says)
		}
	})
}

func TestWhatDoesNotMeetTheConditionStaysBehind(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, []string{accountsTable, ownedTable},
			map[string]*merge.TablePlan{"accounts": {Policy: merge.Copy, Where: "paid > 0"},
				"owned": {Policy: merge.Copy, Orphans: "drop"}},
			[]string{account(id(1, 1), "ann", "NULL", 5, 1), account(id(1, 2), "bob", "NULL", 0, 1),
				"INSERT INTO owned VALUES (" + id(1, 8) + ", " + id(1, 1) + "), (" + id(1, 9) + ", " + id(1, 2) + ")"})
		m := open(t, plan)
		report, _ := problems(t, m)
		for _, table := range report.Tables {
			if table.Rows["s1"] != 1 || table.Left["s1"] != 1 {
				t.Errorf("the check announces %+v", table)
			}
		}
		run(t, m)
		if got := into.number(t, "SELECT COUNT(*) FROM owned"); got != 1 {
			t.Errorf("%d rows", got)
		}
	})
}

func TestARowThatTheTargetRefusesIsNamedOrPutAside(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		target = target.Privileged() // it makes triggers
		for _, way := range []merge.Option{merge.WithChunk(2), merge.WithPortableCopy()} {
			plain := "CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, level INTEGER NOT NULL"
			_, into, plan := small(t, target, nil, map[string]*merge.TablePlan{"roles": {Policy: merge.Copy}},
				[]string{plain + ")", "INSERT INTO roles VALUES (" + id(1, 1) + ", 1), (" + id(1, 2) + ", 2), (" + id(1, 3) +
					", -3), (" + id(1, 4) + ", 4)"})
			into.exec(t, append([]string{plain + ")"}, refusing(target)...)...) // the check does not try triggers
			plan.Fires = []string{"positive"}
			_, err := open(t, plan, way).Run(t.Context())
			plan.Fires = nil
			if !errors.Is(err, merge.ErrRow) || !strings.Contains(err.Error(), id(1, 3)) || !strings.Contains(err.Error(), "s1: table roles") {
				t.Errorf("the run ended with %v", err)
			}

			other := newBase(t, target)
			other.exec(t, plain+", CHECK (level > 0))")
			plan.Target.DSN = other.dsn
			plan.Tables["roles"].BadRows = "quarantine"
			m := open(t, plan, way)
			report := run(t, m)
			if got := other.number(t, "SELECT SUM(level) FROM roles"); got != 7 || report.Quarantined != 1 {
				t.Errorf("the levels are %d, %d are in quarantine", got, report.Quarantined)
			}
			aside := other.texts(t, "SELECT concat(tbl, ' ', server, ' ', row_key, ' ', contents) FROM merge_quarantine")
			if want := fmt.Sprintf(`[roles 1 %s {"id":%q,"level":"-3"}]`, id(1, 3), id(1, 3)); fmt.Sprint(aside) != want {
				t.Errorf("in quarantine is %v, want %s", aside, want)
			}
		}
	})
}

// refusing are statements that make a trigger of roles that refuses levels below 1.
func refusing(target dbtest.Target) []string {
	switch target.Dialect {
	case "mysql":
		return []string{"CREATE TRIGGER positive BEFORE INSERT ON roles FOR EACH ROW IF NEW.level < 1 THEN " +
			"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'too low'; END IF"}
	case "postgres":
		return []string{"CREATE FUNCTION positive() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " +
			"IF NEW.level < 1 THEN RAISE EXCEPTION 'too low'; END IF; RETURN NEW; END $$",
			"CREATE TRIGGER positive BEFORE INSERT ON roles FOR EACH ROW EXECUTE FUNCTION positive()"}
	}
	return []string{"CREATE TRIGGER positive BEFORE INSERT ON roles WHEN NEW.level < 1 BEGIN SELECT RAISE(ABORT, 'too low'); END"}
}

// granted leases a number from the table of a database. The holder gives it back at the end of the test.
func granted(t *testing.T, b base, table string, number int64) error {
	t.Helper()
	store, err := gormlease.New(b.DB, gormlease.WithTable(table))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	k, err := lease.Acquire(ctx, store, generator.Game(), lease.WithNodes(number, number))
	if err != nil {
		return err
	}
	return k.Close(t.Context())
}

func TestAServerThatIsMergedAwayIsNeverGrantedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, target string }{
		"in the table with the default name":            {"snowflake_nodes", "snowflake_nodes"},
		"in a table with a prefix":                      {"app_snowflake_nodes", "app_snowflake_nodes"},
		"in a table with a name of its own":             {"holders", "holders"},
		"in a table with another name than the sources": {"snowflake_nodes", "app_nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			someDatabases(t, func(t *testing.T, target dbtest.Target) {
				servers, into, plan := small(t, target, []string{accountsTable}, map[string]*merge.TablePlan{
					"accounts": {Policy: merge.Copy}, c.source: {Policy: merge.Skip}, c.target: {Policy: merge.Skip},
				}, nil, nil)
				for i, b := range servers {
					if err := granted(t, b, c.source, int64(i+1)); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := gormlease.New(into.DB, gormlease.WithTable(c.target)); err != nil {
					t.Fatal(err)
				}
				m := open(t, plan)
				run(t, m)
				if err := granted(t, into, c.target, 2); err == nil {
					t.Error("the number of server 2 was granted again")
				}
				if err := granted(t, into, c.target, 1); err != nil {
					t.Errorf("server 1 must be able to go on: %v", err)
				}
				if got := fmt.Sprint(m.Servers()); got != "[{1 s1 1 s1} {2 s2 1 s1}]" {
					t.Errorf("the servers are %s", got)
				}
			})
		})
	}
}

// Servers and target may have begun as copies of one database. The run then changes the leases of the target.
func TestLeasesOfServersThatBeganAsOneAreRetired(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		const table = "snowflake_nodes"
		servers, into, plan := small(t, target, []string{accountsTable}, map[string]*merge.TablePlan{
			"accounts": {Policy: merge.Copy}, table: {Policy: merge.Skip},
		}, nil, nil)
		if err := granted(t, into, table, 2); err != nil {
			t.Fatal(err)
		}
		var rows []map[string]any
		if err := into.Table(table).Find(&rows).Error; err != nil || len(rows) < 2 {
			t.Fatal(rows, err)
		}
		for _, b := range servers {
			if _, err := gormlease.New(b.DB); err != nil {
				t.Fatal(err)
			}
			b.exec(t, "DELETE FROM "+table)
			for _, row := range rows {
				delete(row, "@id") // which GORM adds on SQLite
				if err := b.Table(table).Create(row).Error; err != nil {
					t.Fatal(err)
				}
			}
		}
		run(t, open(t, plan))
	})
}

func TestSeveralTablesOfLeasesMustBeNamedInThePlan(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		servers, into, plan := small(t, target, []string{accountsTable}, map[string]*merge.TablePlan{
			"accounts": {Policy: merge.Copy}, "a_nodes": {Policy: merge.Skip}, "b_nodes": {Policy: merge.Skip},
		}, nil, nil)
		for i, b := range servers {
			if err := granted(t, b, "a_nodes", int64(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		for _, table := range []string{"a_nodes", "b_nodes"} {
			if _, err := gormlease.New(into.DB, gormlease.WithTable(table)); err != nil {
				t.Fatal(err)
			}
		}
		for _, names := range [][]string{nil, {"c_nodes"}, {"accounts"}} {
			plan.Target.LeaseTables = names
			report, err := open(t, plan).Run(t.Context())
			if !errors.Is(err, merge.ErrUndecided) || report.Check.Problems[0].Code != merge.CodeLeases {
				t.Errorf("with lease_tables %v: the error is %v", names, err)
			}
		}
		plan.Target.LeaseTables = []string{"a_nodes"}
		run(t, open(t, plan))
		if err := granted(t, into, "a_nodes", 2); err == nil {
			t.Error("the number of server 2 was granted again")
		}
		if err := granted(t, into, "b_nodes", 2); err != nil {
			t.Errorf("the other table must stay as it is: %v", err)
		}
	})
}

func TestATableOfLeasesIsNeitherCopiedNorForgotten(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		servers, into, plan := small(t, target, []string{accountsTable}, map[string]*merge.TablePlan{
			"accounts": {Policy: merge.Copy}, "app_nodes": {Policy: merge.Skip},
		}, nil, nil)
		if err := granted(t, servers[1], "app_nodes", 2); err != nil {
			t.Fatal(err)
		}
		report, err := open(t, plan).Check(t.Context())
		if err != nil || len(report.Warnings) != 1 || report.Warnings[0].Code != merge.CodeLeases {
			t.Errorf("without a table in the target: %v, %+v", err, report)
		}
		if _, err := gormlease.New(into.DB, gormlease.WithTable("app_nodes")); err != nil {
			t.Fatal(err)
		}
		plan.Tables["app_nodes"] = &merge.TablePlan{Policy: merge.Copy, Absent: []string{"s1"}}
		report, err = open(t, plan).Check(t.Context())
		if err != nil || len(report.Problems) == 0 || report.Problems[0].Code != merge.CodeLeases {
			t.Errorf("with the policy copy: %v, %+v", err, report)
		}
	})
}

func TestKeysThatWereCountedMoveOutOfEachOthersWay(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE logs (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9) NOT NULL UNIQUE, before_id BIGINT)",
			"CREATE TABLE log_lines (id BIGINT NOT NULL PRIMARY KEY, log_id BIGINT NOT NULL, w VARCHAR(9), " +
				"FOREIGN KEY (log_id) REFERENCES logs (id))",
		}
		tables := map[string]*merge.TablePlan{
			"logs": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name", Keep: "first"}, Renumber: merge.Behind,
				References: []merge.Reference{{Column: "before_id", Table: "logs"}}},
			"log_lines": {Policy: merge.Copy, Renumber: merge.Behind},
		}
		made := id(2, 5) // one that a generator has made stays
		_, into, plan := small(t, target, schema, tables,
			[]string{"INSERT INTO logs VALUES (1, 'a', NULL), (7, 'b', 1)", "INSERT INTO log_lines VALUES (3, 7, 'b')"},
			[]string{"INSERT INTO logs VALUES (1, 'a', " + made + "), (2, 'c', 1), (" + made + ", 'd', 2)",
				"INSERT INTO log_lines VALUES (3, 2, 'c'), (4, " + made + ", 'd')"},
			[]string{"INSERT INTO logs VALUES (1, 'e', NULL)", "INSERT INTO log_lines VALUES (3, 1, 'e')"})
		m := open(t, plan, merge.WithChunk(1))
		if _, found := problems(t, m); len(found) > 0 {
			t.Fatal(found)
		}
		run(t, m)
		var ids []int64
		into.Raw("SELECT id FROM logs ORDER BY id").Scan(&ids)
		if want := "[1 7 8 9 10 " + made + "]"; fmt.Sprint(ids) != want {
			t.Errorf("the keys are %v, want %s", ids, want)
		}
		if n := into.number(t, "SELECT COUNT(*) FROM log_lines JOIN logs ON logs.id = log_id AND logs.name = w"); n != 4 {
			t.Errorf("%d of 4 lines have their log", n)
		}
		if got := into.texts(t, "SELECT b.name FROM logs a JOIN logs b ON b.id = a.before_id ORDER BY a.id"); fmt.Sprint(got) != "[a d a.s2 c]" {
			t.Errorf("before each came %v", got)
		}
	})
}

// The account of a club has no owner, and there is one on each server. A database takes no two of them for equal, so
// both would come, and the game would find the money of one.
func TestRowsWithoutAValueInTheKeyDoNotStayApartInSilence(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE purses (id BIGINT PRIMARY KEY, name VARCHAR(20) NOT NULL, owner VARCHAR(20), " +
			"money BIGINT NOT NULL, UNIQUE (name, owner))"}
		server := func(number int) (all []string) {
			all = append(all, fmt.Sprintf("INSERT INTO purses VALUES (1, 'police', NULL, %d)", 10*number))
			for n := 2; n < 30; n++ {
				all = append(all, fmt.Sprintf("INSERT INTO purses VALUES (%d, 'bank', 'QB%d', %d)", n, n*number, n))
			}
			return all
		}
		tables := map[string]*merge.TablePlan{"purses": {Policy: merge.Sum, Key: []string{"name", "owner"},
			Sum: []string{"money"}, Renumber: merge.Behind}}
		_, into, plan := small(t, target, schema, tables, server(1), server(2))
		refused(t, into, plan, merge.CodeNull, "owner: 1 row: NULL in a column of the key")
		tables["purses"].Set = map[string]string{"owner": "COALESCE(owner, 'nobody')"}
		plan.GivesUp = map[string]merge.GivenUp{"purses": {Collapsed: 14}}
		run(t, open(t, plan))
		if n := into.number(t, "SELECT SUM(money) FROM purses WHERE name = 'police'"); n != 30 {
			t.Errorf("the police has %d", n)
		}
		if got := failures(t, open(t, plan)); len(got) > 0 {
			t.Errorf("verify says %v", got)
		}
	})
}

// What an account has on all servers is one, and so is what it has beside that, by the same key.
func TestTablesOfOneKeyBecomeOneByThatKey(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE stamps (account BIGINT NOT NULL PRIMARY KEY, day INTEGER)",
			"CREATE TABLE ranks (account BIGINT NOT NULL PRIMARY KEY, level INTEGER)"}
		server := func(first int) []string {
			return many(first, first+30, func(n int) string {
				return fmt.Sprintf("INSERT INTO stamps VALUES (%d, %d); INSERT INTO ranks VALUES (%[1]d, %[2]d)", 7*n, first+n)
			})
		}
		split := func(all []string) []string { return strings.Split(strings.Join(all, ";"), ";") }
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"stamps": {Policy: merge.KeepFirst, Key: []string{"account"}},
			"ranks":  {Policy: merge.KeepFirst, Key: []string{"account"}}}, split(server(1)), split(server(11)))
		plan.Identities = map[string]*merge.Identity{"stamps": {Key: "account", In: []string{"ranks.account"}}}
		run(t, open(t, plan))
		if n := into.number(t, "SELECT COUNT(*) FROM ranks JOIN stamps ON ranks.account = stamps.account AND level = day"); n != 41 {
			t.Errorf("%d of 41 accounts have both", n)
		}
	})
}
