package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// mixed makes two servers of different kinds and a target like the second one, with names that have to be quoted, and
// drafts a plan.
func mixed(t *testing.T, first, second string) (base, *merge.Plan, *merge.Lock) {
	t.Helper()
	var servers []base
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}}
	for i, name := range []string{first, second, second} {
		b := newBase(t, dbtest.Named(name))
		group := map[bool]string{true: "`Group`", false: `"Group"`}[b.target.Dialect == "mysql"]
		b.exec(t, "CREATE TABLE heroes (id INT NOT NULL PRIMARY KEY, w VARCHAR(9))",
			"CREATE TABLE things (id INT NOT NULL PRIMARY KEY, "+group+" INT, w VARCHAR(9))")
		servers = append(servers, b)
		if i == 2 {
			continue
		}
		var heroes, things []string
		for n := 1; n <= 80; n++ {
			heroes = append(heroes, fmt.Sprintf("(%d, '%s%d')", 3*n, name[:1], n))
			other := n * 7 % 81
			things = append(things, fmt.Sprintf("(%d, %d, '%s%d')", n, 3*other*min(n%5, 1), name[:1], other*min(n%5, 1)))
		}
		b.exec(t, "INSERT INTO heroes VALUES "+strings.Join(heroes, ", "), "INSERT INTO things VALUES "+strings.Join(things, ", "))
		plan.Servers = append(plan.Servers, merge.Server{Name: fmt.Sprintf("s%d", i+1), Number: int64(i + 1), DSN: b.dsn})
	}
	plan.Target = merge.Target{Name: "s1", Number: 1, DSN: servers[2].dsn}
	plan.Tables = map[string]*merge.TablePlan{"heroes": {Policy: merge.Copy, Renumber: merge.Apart}}
	draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
	if err != nil {
		t.Fatal(err)
	}
	draft.Tables["things"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Apart}
	return servers[2], draft, lock
}

// A condition has to mean the same on all servers, and those of different kinds quote names in different ways.
func TestAConditionIsWrittenAsAllServersReadIt(t *testing.T) {
	t.Parallel()
	into, plan, lock := mixed(t, "sqlite", "postgres")
	run(t, open(t, plan, merge.WithLock(lock)))
	if n := into.number(t, `SELECT COUNT(*) FROM things c JOIN heroes p ON p.id = c."Group" WHERE p.w = c.w`); n != 128 {
		t.Errorf("%d things lead to their own hero, want 128", n)
	}
}

// On MySQL, a name in double quotes is a text, and a condition over it leaves out rows without an error.
func TestAConditionThatOnlySomeServersUnderstandIsRefused(t *testing.T) {
	t.Parallel()
	for _, kinds := range [][]string{{"postgres", "mysql"}, {"mysql", "postgres"}} {
		into, plan, _ := mixed(t, kinds[0], kinds[1])
		refused(t, into, plan, merge.CodePlan, "s2: things: the database does not understand when: ")
	}
}

// PostgreSQL has no number without a sign, and keys of MySQL are decimals there.
func TestADecimalMayBecomeAWholeNumberThatIsAKey(t *testing.T) {
	t.Parallel()
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}, Tables: map[string]*merge.TablePlan{
		"heroes": {Policy: merge.Copy, Renumber: merge.Apart, Convert: []string{"id"}},
		"swords": {Policy: merge.Copy, Convert: []string{"hero_id"}, References: []merge.Reference{{Column: "hero_id", Table: "heroes"}}}}}
	schema := func(number string) []string {
		return []string{"CREATE TABLE heroes (id " + number + " NOT NULL PRIMARY KEY, w VARCHAR(9))",
			"CREATE TABLE swords (hero_id " + number + ", w VARCHAR(9))"}
	}
	for i, name := range []string{"a", "b"} {
		b := newBase(t, dbtest.Named("postgres"))
		b.exec(t, schema("NUMERIC(20,0)")...)
		for n := 1; n < 30; n++ {
			b.exec(t, fmt.Sprintf("INSERT INTO heroes VALUES (%d, '%s%d')", n, name, n), fmt.Sprintf("INSERT INTO swords VALUES (%d, '%s%d')", n, name, n))
		}
		plan.Servers = append(plan.Servers, merge.Server{Name: name, Number: int64(i + 1), DSN: b.dsn})
	}
	into := newBase(t, dbtest.Named("mysql"))
	into.exec(t, schema("BIGINT UNSIGNED")...)
	plan.Target = merge.Target{Name: "s1", Number: 1, DSN: into.dsn}
	run(t, open(t, plan))
	if n := into.number(t, "SELECT COUNT(*) FROM swords c JOIN heroes p ON p.id = c.hero_id WHERE p.w = c.w"); n != 58 {
		t.Errorf("%d swords have their own hero, want 58", n)
	}
}

// PHP writes the modules of a class with backslashes, which MySQL reads in another way than all other databases.
func TestAKindWithBackslashesSelectsTheSameRowsOnAllServers(t *testing.T) {
	t.Parallel()
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}}
	var into base
	for i, name := range []string{"postgres", "mysql", "mysql"} {
		b := newBase(t, dbtest.Named(name))
		counted := countedKeys(b.target.Dialect)
		b.exec(t, "CREATE TABLE heroes (id "+counted+", w VARCHAR(9))", "CREATE TABLE clans (id "+counted+", w VARCHAR(9))",
			"CREATE TABLE words (no INT NOT NULL PRIMARY KEY, about_type VARCHAR(60), about_id INT, w VARCHAR(9))")
		if into = b; i == 2 {
			break
		}
		kind := "'App" + map[string]string{"postgres": `\`, "mysql": `\\`}[b.target.Dialect]
		for n := 1; n <= 60; n++ {
			of := 3 * (1 + n*7%60)
			b.exec(t, fmt.Sprintf("INSERT INTO heroes (id, w) VALUES (%d, '%s%d')", 3*n, name[:1], 3*n),
				fmt.Sprintf("INSERT INTO clans (id, w) VALUES (%d, '%s%d')", 3*n, name[:1], 3*n),
				fmt.Sprintf("INSERT INTO words VALUES (%d, %sHero', %d, '%s%d')", 1000*i+2*n, kind, of, name[:1], of),
				fmt.Sprintf("INSERT INTO words VALUES (%d, %sClan', %d, '%s%d')", 1000*i+2*n+1, kind, of, name[:1], of))
		}
		plan.Servers = append(plan.Servers, merge.Server{Name: fmt.Sprintf("s%d", i+1), Number: int64(i + 1), DSN: b.dsn})
	}
	plan.Target = merge.Target{Name: "s1", Number: 1, DSN: into.dsn}
	draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
	if err != nil {
		t.Fatal(err)
	}
	run(t, open(t, draft, merge.WithLock(lock)))
	for parent, kind := range map[string]string{"heroes": "%Hero", "clans": "%Clan"} {
		if n := into.number(t, "SELECT COUNT(*) FROM words c JOIN "+parent+" p ON p.id = c.about_id AND c.about_type LIKE '"+kind+
			"' WHERE p.w = c.w"); n != 120 {
			t.Errorf("%d words are about their own of %s, want 120", n, parent)
		}
	}
}

func countedKeys(dialect string) string {
	return map[string]string{"postgres": "SERIAL PRIMARY KEY", "mysql": "INT NOT NULL PRIMARY KEY AUTO_INCREMENT"}[dialect]
}

// SQLite keeps a boolean as a number that may be the key of a row by chance, which it is no longer on PostgreSQL.
func TestANumberMayBecomeABoolean(t *testing.T) {
	t.Parallel()
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}, Tables: map[string]*merge.TablePlan{
		"heroes": {Policy: merge.Copy, Renumber: merge.Apart}}}
	for i, name := range []string{"a", "b"} {
		b := newBase(t, dbtest.Named("sqlite"))
		b.exec(t, "CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, dead INTEGER NOT NULL)",
			"INSERT INTO heroes VALUES (1, 0), (2, 1), (3, 1)")
		plan.Servers = append(plan.Servers, merge.Server{Name: name, Number: int64(i + 1), DSN: b.dsn})
	}
	into := newBase(t, dbtest.Named("postgres"))
	into.exec(t, "CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, dead BOOLEAN NOT NULL)")
	plan.Target = merge.Target{Name: "s1", Number: 1, DSN: into.dsn}
	draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
	if err != nil {
		t.Fatal(err)
	}
	run(t, open(t, draft, merge.WithLock(lock)))
	if n := into.number(t, "SELECT COUNT(*) FROM heroes WHERE dead"); n != 4 {
		t.Errorf("%d heroes are dead, want 4", n)
	}
}
