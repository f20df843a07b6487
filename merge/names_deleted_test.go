package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A player who deletes a hero can give the name to the next one, and the row of the deleted one keeps it. So a server
// has equal names, and yet no two heroes that play have one.
func TestNamesThatOnlyDeletedRowsHaveTwiceAreNames(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		time := map[string]string{"sqlite": "DATETIME", "postgres": "TIMESTAMP", "mysql": "DATETIME"}[target.Dialect]
		schema := []string{"CREATE TABLE heroes (COUNTED, name VARCHAR(20), deleted_at " + time + ")",
			"CREATE TABLE clans (COUNTED, name VARCHAR(20), is_deleted SMALLINT NOT NULL)",
			"CREATE TABLE towns (COUNTED, name VARCHAR(20), deleted_at " + time + ")"}
		server := func(own string, first int) (all []string) {
			name := func(begins string, n int) string {
				return begins + strings.Map(func(r rune) rune { return r + 'a' - '0' }, fmt.Sprint(first+n))
			}
			for n := range 60 {
				called, deleted, gone := name([]string{"Hero", own}[n%2], n), "NULL", 0
				if n%10 == 1 {
					called, deleted, gone = name("Hero", n-1), "'2026-01-02 03:04:05'", 2
				}
				all = append(all, fmt.Sprintf("INSERT INTO heroes (name, deleted_at) VALUES ('%s', %s)", called, deleted),
					fmt.Sprintf("INSERT INTO clans (name, is_deleted) VALUES ('%s', %d)", called, gone),
					fmt.Sprintf("INSERT INTO towns (name, deleted_at) VALUES ('%s', %s)", name("Town", n/3), deleted))
			}
			return all
		}
		servers, into, plan := small(t, target, schema, nil, server("A", 100), server("B", 130))
		servers[0].exec(t, "ALTER TABLE towns DROP COLUMN deleted_at") // of an older version
		draft := draftOf(t, plan)
		for table, when := range map[string]string{"heroes": "deleted_at IS NULL", "clans": "is_deleted = 0"} {
			if r := draft.Tables[table].Rename; r == nil || r.Column != "name" || r.When != when {
				t.Fatalf("%s: %+v", table, draft.Tables[table])
			}
		}
		if r := draft.Tables["towns"].Rename; r != nil {
			t.Errorf("towns: %+v", r)
		}
		m := opened(t, draft)
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, ask := range []string{"heroes WHERE deleted_at IS NULL", "clans WHERE is_deleted = 0"} {
			if n := into.number(t, "SELECT COUNT(*) - COUNT(DISTINCT name) FROM "+ask); n != 0 {
				t.Errorf("%s: %d equal names", ask, n)
			}
		}
		report, err := m.Verify(t.Context())
		if err != nil || !report.OK {
			t.Errorf("%v, %+v", err, report)
		}
	})
}

// One condition is for all servers, and databases write capital letters in different ways.
func TestAColumnOfDeletedRowsWithCapitalLettersDoesNotEndADraftOverTwoKinds(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}}
		var into base
		for n, kind := range []dbtest.Target{dbtest.ServersOf("sqlite")[0], target, target} {
			into = newBase(t, kind)
			into.exec(t, `CREATE TABLE heroes (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20), "deletedAt" INTEGER)`,
				`INSERT INTO heroes VALUES (1, 'Ann', 5), (2, 'Ann', NULL), (3, 'Bea', NULL)`)
			plan.Servers = append(plan.Servers, merge.Server{Name: fmt.Sprint("s", n), Number: int64(n), DSN: into.dsn})
		}
		into.exec(t, "DELETE FROM heroes")
		plan.Servers, plan.Target = plan.Servers[:2], merge.Target{Name: "s0", Number: 0, DSN: into.dsn}
		if _, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener)); err != nil {
			t.Error(err)
		}
	})
}
