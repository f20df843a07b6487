package merge_test

import (
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A report that a program reads back from its JSON is the one that was written.
func TestAReportOfVerifyWithoutAFaultNamesNone(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE notes (id INT PRIMARY KEY)"}
	_, _, plan := small(t, dbtest.Named("sqlite"), schema, copies("notes"), []string{"INSERT INTO notes VALUES (1)"},
		[]string{"INSERT INTO notes VALUES (2)"})
	m, err := merge.Open(t.Context(), plan, merge.WithOpener(opener))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	report, err := m.Verify(t.Context())
	if err != nil || !report.OK || report.Failed != nil {
		t.Errorf("verify returned %+v and %v, want that it is OK, and nil for the comparisons that failed", report, err)
	}
}

// Nothing says in which order a database returns the rows of the journal, and the seal must not depend on it.
func TestTheSealDoesNotDependOnWhereARowLies(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE notes (id INTEGER NOT NULL PRIMARY KEY)"}
		_, into, plan := small(t, target, schema, copies("notes"), []string{"INSERT INTO notes VALUES (1)"},
			[]string{"INSERT INTO notes VALUES (2)"})
		m := opened(t, plan)
		run(t, m)
		seals := map[string]bool{}
		for _, number := range []int{0, 1, 2} { // PostgreSQL writes a row that changes to another place
			into.exec(t, fmt.Sprintf("UPDATE merge_journal SET done = done WHERE server = %d", number))
			report, err := m.Verify(t.Context())
			if err != nil || !report.OK {
				t.Fatalf("verify returned %+v and %v", report, err)
			}
			seals[report.Seal] = true
		}
		if len(seals) > 1 {
			t.Errorf("of one target, verify made %d seals", len(seals))
		}
	})
}
