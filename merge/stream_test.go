package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// TestRowsOfPostgreSQLArriveWhereverChunksAndStreamsEnd copies tables whose rows end just before, at and just
// behind the end of a chunk, or of the many chunks that one COPY TO feeds. The target refuses some rows. What
// arrives, what is put aside and what the journal says are those of the way through the program.
func TestRowsOfPostgreSQLArriveWhereverChunksAndStreamsEnd(t *testing.T) {
	t.Parallel()
	const chunk = 5 // so a stream has 100 rows
	target := dbtest.Targets()[1]
	for _, key := range []string{"id SMALLINT PRIMARY KEY", "id BIGINT, v INTEGER, PRIMARY KEY (v, id)"} {
		for _, refused := range []string{"", "1", "5, 6, 7", "99, 100, 101", "12, 13, 60, 140, 199"} {
			source, direct, through := newBase(t, target), newBase(t, target), newBase(t, target)
			plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
				Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}}, Tables: map[string]*merge.TablePlan{}}
			for _, rows := range []int{0, 1, chunk - 1, chunk, chunk + 1, 99, 100, 101, 105, 200, 203} {
				name := fmt.Sprintf("t%d", rows)
				var columns []string
				for _, c := range []string{"v INTEGER NOT NULL", key} {
					if c == key || !strings.Contains(key, "v ") {
						columns = append(columns, c)
					}
				}
				create := "CREATE TABLE " + name + " (" + strings.Join(columns, ", ") + ", text TEXT"
				// Keys begin below zero, and their order is not that in which the rows were written.
				source.exec(t, create+")", fmt.Sprintf("INSERT INTO %s (id, v, text) SELECT n - 50, n, repeat('é', n) "+
					"FROM generate_series(1, %d) AS n ORDER BY n %% 7", name, rows))
				if refused != "" {
					create += ", CHECK (v NOT IN (" + refused + "))"
				}
				direct.exec(t, create+")")
				through.exec(t, create+")")
				plan.Tables[name] = &merge.TablePlan{Policy: merge.Copy, BadRows: "quarantine"}
			}
			var all [2][]string
			for n, into := range []base{direct, through} {
				opts := [][]merge.Option{{}, {merge.WithPortableCopy()}}[n]
				plan.Target = merge.Target{Name: "s1", Number: 1, DSN: into.dsn}
				m := open(t, plan, append(opts, merge.WithChunk(chunk))...)
				if _, err := m.Run(t.Context()); err != nil {
					t.Fatalf("%s without %q: %v", key, refused, err)
				}
				for name := range plan.Tables {
					all[n] = append(all[n], into.texts(t, "SELECT concat('"+name+"', t) FROM "+name+" AS t")...)
				}
				all[n] = append(all[n], into.texts(t, "SELECT concat(tbl, row_key, contents) FROM merge_quarantine")...)
				all[n] = append(all[n], into.texts(t, "SELECT concat(tbl, ' ', position, ' ', rows_read, ' ', "+
					"rows_written, ' ', done) FROM merge_journal WHERE step = 'copy'")...)
				slices.Sort(all[n])
			}
			if !slices.Equal(all[0], all[1]) {
				t.Errorf("%s without %q: the ways differ:\n%s\n\n%s", key, refused,
					strings.Join(all[0], "\n"), strings.Join(all[1], "\n"))
			}
			want := []string{}
			for name := range plan.Tables {
				want = append(want, source.texts(t, "SELECT concat('"+name+"', t) FROM "+name+" AS t"+
					map[bool]string{true: " WHERE v NOT IN (" + refused + ")"}[refused != ""])...)
			}
			for _, row := range want {
				if !slices.Contains(all[0], row) {
					t.Errorf("%s without %q: %s is missing", key, refused, row)
				}
			}
		}
	}
}
