package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A game that counts its characters by itself gives the key no default, so a person has to decide about the table.
// Names that would be doubled, and copies of names that would be left behind, must not be lost by that.
func TestNamesOfTablesThatAPersonDecidesAboutAreFound(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE chars (charid BIGINT NOT NULL, charname VARCHAR(15) NOT NULL, PRIMARY KEY (charid))",
			"CREATE TABLE mails (charid BIGINT NOT NULL, slot INTEGER NOT NULL, receiver VARCHAR(15) NOT NULL, " +
				"PRIMARY KEY (charid, slot))",
		}
		server := func(first string) (all []string) {
			for n := range 60 {
				name := fmt.Sprintf("%s%d", []string{"Hero", first}[n%2], n)
				all = append(all, fmt.Sprintf("INSERT INTO chars VALUES (%d, '%s')", n+1, name),
					fmt.Sprintf("INSERT INTO mails VALUES (%d, %d, '%s')", n+1, n%3, name))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server("A"), server("B"))
		draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		_, found := problems(t, opened(t, draft, merge.WithLock(lock)))
		if got := fmt.Sprint(found[merge.CodeUndecided]); !strings.Contains(got, "rename, with column: charname") {
			t.Errorf("nobody hears that the names are equal: %s", got)
		}
		draft.Tables["chars"] = &merge.TablePlan{Policy: merge.Rename, Renumber: merge.Apart,
			Rename: &merge.RenamePlan{Column: "charname"}}
		draft.Tables["mails"] = &merge.TablePlan{Policy: merge.Copy,
			References: []merge.Reference{{Column: "charid", Table: "chars", Target: []string{"charid"}}}}
		draft.Identities, draft.Apart = nil, "all"
		report, found := problems(t, opened(t, draft, merge.WithLock(lock)))
		if len(found) > 0 {
			t.Errorf("problems: %v", found)
		}
		if got := fmt.Sprint(report.Warnings); !strings.Contains(got, "table: mails, column: receiver, ref: charid") {
			t.Errorf("nobody hears that old names stay in mails: %s", got)
		}
	})
}

// PostgreSQL compares a label only with labels.
func TestNamesAreNotLookedForAmongLabels(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TYPE mood AS ENUM ('glad', 'sad')",
			"CREATE TABLE chars (id BIGINT PRIMARY KEY, name VARCHAR(15) NOT NULL, mood mood)"}
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"chars": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}},
			[]string{"INSERT INTO chars VALUES (" + id(1, 1) + ", 'Ann', 'glad')"},
			[]string{"INSERT INTO chars VALUES (" + id(2, 1) + ", 'Ann', 'sad')"})
		if _, found := problems(t, open(t, plan)); len(found) > 0 {
			t.Errorf("problems: %v", found)
		}
	})
}
