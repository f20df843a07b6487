package merge_test

import (
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
