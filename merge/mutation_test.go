package merge_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// harmful returns the statements of a fault for a database.
func (f fault) harmful(target dbtest.Target) []string {
	var all []string
	for _, text := range f.harm {
		for s := range 10 {
			for n := range 100 {
				text = strings.ReplaceAll(text, fmt.Sprintf("{s%d:%d}", s, n), id(s, n))
			}
		}
		all = append(
			all,
			strings.NewReplacer("{false}", flag(target, false), "{short}", strings.Replace(raw(target, 18), "0a'", "'", 1),
				"{other}", raw(target, 19)).
				Replace(text),
		)
	}
	return all
}

// sooner are the faults that are put into the database of a server in tier one: one for each thing that verify
// compares, and for each sort of value that it reads in a way of its own. SQLite gets all faults in both tiers.
var sooner = []string{
	"a row is dropped", "a row without a key is doubled", "a large number went through a float",
	"the fraction of a second is cut", "a value in JSON changes", "a byte changes", "NULL in place of an empty text",
	"children of two servers exchange their parents", "one reference does not follow a renumbered key",
	"a row loses its new name", "the list of renames lacks a row", "a copy of a name keeps the old one",
	"a total is too low", "the older row stays", "what a dropped row had stays with it",
	"a table that is computed anew has rows", "a sequence is set back",
}

func TestEveryFaultInATargetIsFound(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		into, plan := mutable(t, target)
		m := open(t, plan)
		run(t, m)
		tables := append(
			[]string{"merge_renames"},
			"players",
			"pets",
			"mail",
			"slots",
			"accounts",
			"owned",
			"settings",
			"counters",
			"world",
			"rankings",
			"logs",
		)
		for _, table := range tables {
			into.exec(t, "CREATE TABLE keep_"+table+" AS SELECT * FROM "+table)
		}
		for i, f := range faults {
			// MariaDB and MySQL are one kind, which is read in one way, so they take turns.
			turn := target.Dialect != "mysql" || (i%2 == 0) == (target.Name == "mysql") || !nightly.Enabled()
			if f.on != "" && f.on != target.Dialect || f.on == "" && !turn {
				continue
			}
			if !nightly.Enabled() && target.Dialect != "sqlite" && !slices.Contains(sooner, f.name) {
				continue
			}
			harm := f.harmful(target)
			into.unchecked(t, harm...)
			failed := failures(t, m)
			for what := range strings.FieldsSeq(f.found) {
				if !slices.Contains(failed, what) {
					t.Errorf("%s: found by %v, want %s\n%s", f.name, failed, f.found, strings.Join(harm, "\n"))
				}
			}
			var repair []string
			for _, table := range tables {
				if strings.Contains(strings.Join(harm, " ")+" ", " "+table+" ") {
					repair = append(repair, "DELETE FROM "+table, "INSERT INTO "+table+" SELECT * FROM keep_"+table)
				}
			}
			if f.on == "postgres" {
				repair = append(repair, "SELECT setval('pets_id_seq', 100)")
			}
			into.unchecked(t, repair...)
		}
		for _, table := range tables { // which are more than the target had
			into.exec(t, "DROP TABLE keep_"+table)
		}
		if failed := failures(t, m); len(failed) > 0 {
			t.Errorf("after all repairs %v fails", failed)
		}
	})
}

// failures are the comparisons that fail, each once.
func failures(t testing.TB, m *merge.Merge) []string {
	t.Helper()
	report, err := m.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, c := range report.Failed {
		failed = append(failed, c.What)
	}
	slices.Sort(failed)
	return slices.Compact(failed)
}

// distortions are faults of the code that copies, put into the rows of one table on their way.
var distortions = []struct {
	name, table, found string
	distort            func(at func(string) int, rows [][]any) [][]any
}{
	{
		"the last row of every chunk is skipped",
		"owned",
		"balance",
		func(_ func(string) int, rows [][]any) [][]any {
			return rows[:max(0, len(rows)-1)]
		},
	},
	{
		"the first row of every chunk is skipped",
		"settings",
		"balance",
		func(_ func(string) int, rows [][]any) [][]any {
			return rows[min(1, len(rows)):]
		},
	},
	{"a row of every chunk is written twice", "logs", "balance", func(_ func(string) int, rows [][]any) [][]any {
		return append(slices.Clone(rows), rows[:min(1, len(rows))]...)
	}},
	{
		"values of neighboring rows are mixed up",
		"slots",
		"checksum",
		func(at func(string) int, rows [][]any) [][]any {
			if i := at("item"); len(rows) > 1 {
				rows[0][i], rows[1][i] = rows[1][i], rows[0][i]
			}
			return rows
		},
	},
	{"empty texts become NULL", "players", "checksum", func(at func(string) int, rows [][]any) [][]any {
		for _, row := range rows {
			if i := at("story"); sqlText(row[i]) == "" {
				row[i] = nil
			}
		}
		return rows
	}},
	{"texts are cut", "world", "rows", func(at func(string) int, rows [][]any) [][]any {
		for _, row := range rows {
			row[at("boss")] = "boss"
		}
		return rows
	}},
	{
		"references to renumbered keys are off by one",
		"mail",
		"parents",
		func(at func(string) int, rows [][]any) [][]any {
			for _, row := range rows {
				if n, ok := row[at("pet_id")].(int64); ok && n > 7 {
					row[at("pet_id")] = n - 1
				}
			}
			return rows
		},
	},
	{"all children of a chunk get the first one's parent", "pets", "parents",
		func(at func(string) int, rows [][]any) [][]any {
			for _, row := range rows {
				row[at("owner_id")] = rows[0][at("owner_id")]
			}
			return rows
		}},
}

func sqlText(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

func TestEveryFaultOfTheCopyingIsFound(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		// The run itself counts rows and stops, so these faults cannot be together with those that verify finds.
		for _, counted := range []bool{true, false} {
			_, plan := mutable(t, target)
			giveUp(t, plan)
			m := open(t, plan, merge.WithPortableCopy(), merge.WithChunk(5),
				merge.WithDistortion(func(table string, columns []string, rows [][]any) [][]any {
					for _, d := range distortions {
						if d.table == table && (d.found == "balance") == counted {
							rows = d.distort(func(name string) int { return slices.Index(columns, name) }, rows)
						}
					}
					return rows
				}))
			_, err := m.Run(t.Context())
			report := &merge.VerifyReport{}
			if !counted && err == nil {
				report, err = m.Verify(t.Context())
			}
			if err != nil && !errors.Is(err, merge.ErrBalance) {
				t.Fatal(err)
			}
			for _, d := range distortions {
				found := slices.ContainsFunc(report.Failed, func(c merge.Comparison) bool {
					return c.Table == d.table && c.What == d.found
				})
				if counted {
					found = err != nil && strings.Contains(err.Error(), "table "+d.table+": ")
				}
				if (d.found == "balance") == counted && !found {
					t.Errorf("%s: %s of %s does not fail", d.name, d.found, d.table)
				}
			}
		}
	})
}

// The table of faults in the documentation is written from the tests above. SNOWFLAKE_WRITE_DOCS=1 writes it.
func TestTheTableOfFaultsIsInTheDocumentation(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../docs/merge-reference.md", "<!-- faults: written by the tests of package merge -->\n", "<!-- end of faults -->\n"
	var table strings.Builder
	table.WriteString("\n| fault in the target | found by |\n|---|---|\n")
	for _, f := range faults {
		on := ""
		if f.on != "" {
			on = " (PostgreSQL)"
		}
		fmt.Fprintf(&table, "| %s%s | `%s` |\n", f.name, on, strings.ReplaceAll(f.found, " ", "`, `"))
	}
	table.WriteString("\n| fault in the code that copies | found by |\n|---|---|\n")
	for _, d := range distortions {
		fmt.Fprintf(&table, "| %s | `%s` |\n", d.name, d.found)
	}
	table.WriteString("\n")
	if len(faults)+len(distortions) < 40 {
		t.Errorf("there are %d faults only", len(faults)+len(distortions))
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), begin)
	held, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table of faults", path)
	}
	if held == table.String() {
		return
	}
	if os.Getenv("SNOWFLAKE_WRITE_DOCS") == "" {
		t.Fatalf("%s has another table of faults: run this test with SNOWFLAKE_WRITE_DOCS=1", path)
	}
	if err := os.WriteFile(path, []byte(before+begin+table.String()+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
