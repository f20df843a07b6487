package authority_test

import (
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A table that somebody has copied without its rules may have lost a value. Then nobody knows whether a process
// still makes IDs by its leases, or what the note says.
func TestANullInTheNotesOrTheLeasesKeepsOthersOut(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"the end of a window": {
			"CREATE TABLE " + authority.DefaultLeases + " (node int, owner text, layout text, until text)",
			"INSERT INTO " + authority.DefaultLeases + " VALUES (7, 'somebody', '', NULL)",
		},
		"the subject of a note": {
			"CREATE TABLE " + authority.Table + " (subject text PRIMARY KEY, authority text, layout text, place text, " +
				"noted_by text, noted_at text)",
			"INSERT INTO " + authority.Table + " VALUES (NULL, 'HOME', '', '', '', '')",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, err := dbtest.Named("sqlite").Open(t, nil).DB()
			if err != nil {
				t.Fatal(err)
			}
			for _, statement := range statements {
				if _, err := pool.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			is, err := authority.In("sqlite", pool).Claim(t.Context(), authority.ByHand("another"))
			if err == nil || !strings.Contains(err.Error(), "NULL") {
				t.Errorf("the claim returned %+v and %v, want an error about a NULL", is, err)
			}
		})
	}
}
