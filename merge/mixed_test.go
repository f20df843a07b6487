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
