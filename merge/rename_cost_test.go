package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// TestALookUpOfNewNamesDoesNotReadAllOfThem counts what PostgreSQL reads, because time proves nothing: rows that
// are renamed are looked up chunk by chunk, and every look-up used to read the list of all renames.
func TestALookUpOfNewNamesDoesNotReadAllOfThem(t *testing.T) {
	nightly.Only(t, "it is about what 10,000 renames cost; "+
		"TestManyRowsGetTheNamesThatEachWouldGetAlone has what they do")
	t.Parallel()
	const rows, chunk = 10_000, 250
	targets := dbtest.Servers()
	target := targets[slices.IndexFunc(targets, func(t dbtest.Target) bool { return t.Dialect == "postgres" })]
	servers, into, plan := small(t, target,
		[]string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE)"},
		map[string]*merge.TablePlan{"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}}, nil, nil)
	for i, s := range servers {
		values := many(1, rows, func(n int) string { return fmt.Sprintf("(%s, 'Heron%d')", id(i+1, n), n) })
		s.exec(t, "INSERT INTO roles VALUES "+strings.Join(values, ", "))
	}
	m, err := merge.Open(t.Context(), plan, merge.WithOpener(opener), merge.WithChunk(chunk))
	if err != nil {
		t.Fatal(err)
	}
	report, err := m.Run(t.Context())
	if err != nil || report.Renamed != rows {
		t.Fatalf("%+v, %v", report, err)
	}
	if err := m.Close(); err != nil { // a session tells of what it read when it ends
		t.Fatal(err)
	}
	const question = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'merge_renames'"
	read := into.number(t, question)
	for wait := 0; read == 0 && wait < 100; wait++ {
		time.Sleep(100 * time.Millisecond)
		read = into.number(t, question)
	}
	// Each is looked up once, and all are counted a few times. Without statistics it were 39 times as many.
	if read == 0 || read > 12*rows {
		t.Errorf("%d renames were read to look up %d", read, rows)
	}
}

// TestRenamesTakeATimeThatGrowsWithTheirNumber compares two numbers of renames: eight times as many take eight
// times as long at most, or 64 times if a database reads all of them for each one, as MariaDB did.
func TestRenamesTakeATimeThatGrowsWithTheirNumber(t *testing.T) {
	nightly.Only(t, "it is about the time of 8,000 renames, and takes a machine for itself")
	databases(t, func(t *testing.T, target dbtest.Target) {
		took := func(rows int) time.Duration {
			servers, _, plan := small(t, target, rolesTable(20), map[string]*merge.TablePlan{
				"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name"}}}, nil, nil)
			for i, s := range servers {
				values := many(1, rows, func(n int) string { return fmt.Sprintf("(%s, 'Heron%d', 1)", id(i+1, n), n) })
				s.exec(t, "INSERT INTO roles VALUES "+strings.Join(values, ", "))
			}
			report, err := open(t, plan).Run(t.Context())
			if err != nil || report.Renamed != int64(rows) {
				t.Fatalf("%+v, %v", report, err)
			}
			return report.Took
		}
		if few, eightTimes := took(1000), took(8000); eightTimes > 20*few {
			t.Errorf("1,000 renames take %v, and 8,000 take %v", few, eightTimes)
		}
	})
}
