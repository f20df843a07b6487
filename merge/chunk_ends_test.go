package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// TestRowsOfPostgreSQLArriveWhereverChunksEnd copies tables whose rows end just before, at and just behind the
// end of a chunk. The target refuses some rows. What arrives, what is put aside and what the journal says are
// those of the way through the program.
func TestRowsOfPostgreSQLArriveWhereverChunksEnd(t *testing.T) {
	t.Parallel()
	rows := []string{"99, 100, 101", "12, 13, 60, 140, 199", "", "1", "5, 6, 7"}
	for i, key := range []string{"id SMALLINT PRIMARY KEY", "id BIGINT, v INTEGER, PRIMARY KEY (v, id)"} {
		for _, refused := range nightly.Pick(rows[i:i+1], rows) {
			t.Run(key+" without "+refused, func(t *testing.T) { streams(t, key, refused) })
		}
	}
}

// streams copies tables with such a key into a target that refuses some rows.
func streams(t *testing.T, key, refused string) {
	t.Helper()
	const chunk = 5
	target := dbtest.Targets()[1]
	source, direct, through := newBase(t, target), newBase(t, target), newBase(t, target)
	plan := &merge.Plan{
		Version: 1, Layout: merge.Layout{Preset: "game"},
		Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}}, Tables: map[string]*merge.TablePlan{},
	}
	var want []string
	ends := []int{0, chunk, 100, 101} // of which each key takes some in tier one
	if strings.Contains(key, "v INTEGER") {
		ends = []int{chunk - 1, chunk + 1, 200}
	}
	for _, rows := range nightly.Pick(ends, []int{0, chunk - 1, chunk, chunk + 1, 100, 101, 200, 1, 99, 105, 203}) {
		name := fmt.Sprintf("t%d", rows)
		create := "CREATE TABLE " + name + " (text TEXT, day DATE, " + key
		if !strings.Contains(key, "v INTEGER") {
			create += ", v INTEGER NOT NULL"
		}
		// Keys begin below zero, and their order is not that in which the rows were written.
		source.exec(t, create+")", fmt.Sprintf("INSERT INTO %s (id, v, text, day) SELECT n - 50, n, repeat('é', n), "+
			"CASE n %% 90 WHEN 38 THEN 'infinity' ELSE date '2024-01-31' + n END "+
			"FROM generate_series(1, %d) AS n ORDER BY n %% 7", name, rows))
		taken := ""
		if refused != "" {
			create += ", CHECK (v NOT IN (" + refused + "))"
			taken = " WHERE v NOT IN (" + refused + ")"
		}
		direct.exec(t, create+")")
		through.exec(t, create+")")
		plan.Tables[name] = &merge.TablePlan{Policy: merge.Copy, BadRows: "quarantine"}
		want = append(want, source.texts(t, "SELECT concat('"+name+"', t) FROM "+name+" AS t"+taken)...)
	}
	slices.Sort(want)

	var journals [2][]string
	for n, into := range []base{direct, through} {
		plan.Target = merge.Target{Name: "s1", Number: 1, DSN: into.dsn}
		opts := []merge.Option{merge.WithChunk(chunk)}
		if into == through {
			opts = append(opts, merge.WithPortableCopy())
		}
		if _, err := open(t, plan, opts...).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for name := range plan.Tables {
			got = append(got, into.texts(t, "SELECT concat('"+name+"', t) FROM "+name+" AS t")...)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%d rows arrived:\n%s\n\n%d were expected:\n%s", len(got), strings.Join(got, "\n"),
				len(want), strings.Join(want, "\n"))
		}
		journals[n] = append(into.texts(t, "SELECT concat(tbl, row_key, contents) FROM merge_quarantine ORDER BY 1"),
			into.texts(t, "SELECT concat(tbl, ' ', rows_read, ' ', rows_written, ' ', done) "+
				"FROM merge_journal WHERE step = 'copy' ORDER BY 1")...)
	}
	if !slices.Equal(journals[0], journals[1]) {
		t.Errorf("the ways differ:\n%s\n\n%s", strings.Join(journals[0], "\n"), strings.Join(journals[1], "\n"))
	}
}

// Nobody has to know where a chunk of them ends. The target refuses a row, and its key has quotes.
func TestFewRowsWithoutANumberInTheirKeyAreCopiedByTheDatabases(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		const rows = 4
		words := "CREATE TABLE words (word VARCHAR(20) NOT NULL PRIMARY KEY, n INTEGER"
		log := "CREATE TABLE log (line VARCHAR(20), n INTEGER)"
		for chunk, direct := range map[int]bool{rows + 1: true, rows: false} {
			for _, refused := range []int64{0, 3} {
				source, into := newBase(t, target), newBase(t, target)
				source.exec(t, words+")", log, "INSERT INTO words VALUES ('a', 1), ('b', 2), ('it''s', 3), ('é', NULL)",
					"INSERT INTO log VALUES ('a', 1), ('a', 1), (NULL, 2), ('', NULL)")
				into.exec(t, fmt.Sprintf("%s, CHECK (n <> %d))", words, refused), log)
				plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}, Tables: map[string]*merge.TablePlan{
					"words": {Policy: merge.Copy, BadRows: "quarantine"}, "log": {Policy: merge.Copy},
				}, Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}}}
				plan.Target = merge.Target{Name: "s1", Number: 1, DSN: into.dsn}
				report, err := open(t, plan, merge.WithChunk(chunk)).Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				// A table of SQLite has row numbers beside any key.
				for _, c := range report.Tables {
					if c.Way == "rows" && (direct || target.Dialect == "sqlite") || c.Way != "rows" && !direct &&
						target.Dialect != "sqlite" {
						t.Errorf("in chunks of %d, %s went as %s", chunk, c.Table, c.Way)
					}
				}
				lost := "SELECT COUNT(*) FROM words"
				if want := source.number(t, lost) - min(refused, 1); into.number(t, lost) != want {
					t.Errorf("in chunks of %d: %d words, want %d", chunk, into.number(t, lost), want)
				}
				for _, q := range []string{"SELECT COUNT(*) FROM log", "SELECT COUNT(*) FROM log WHERE line IS NULL",
					"SELECT SUM(n) FROM log WHERE line = 'a'", "SELECT COUNT(*) FROM words WHERE n IS NULL"} {
					if got, want := into.number(t, q), source.number(t, q); got != want {
						t.Errorf("in chunks of %d: %d, want %d: %s", chunk, got, want, q)
					}
				}
			}
		}
	})
}
