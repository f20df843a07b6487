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

// TestRowsThatBecomeOneThoughTheyDifferNeedALineOfTheirOwn counts them by hand: what a plan says of a column, its
// key and the primary key do not count, and neither does another form of the same value.
func TestRowsThatBecomeOneThoughTheyDifferNeedALineOfTheirOwn(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		document := map[string]string{"postgres": "JSONB", "mysql": "JSON", "sqlite": "TEXT"}[target.Dialect]
		schema := []string{
			"CREATE TABLE settings (COUNTED, name VARCHAR(20) NOT NULL UNIQUE, value VARCHAR(20), price DECIMAL(8,2), " +
				"data " + document + ", raw BLOBTYPE, parent INTEGER, at TIMESTAMPTYPE, n INTEGER)",
		}
		row := func(id int, name, rest string) string {
			return fmt.Sprintf("INSERT INTO settings (id, name, value, price, data, raw, parent, at, n) VALUES (%d, '%s', %s)", id, name, rest)
		}
		const plain = `'a', 1.5, '{"a": 1}', BLOB'0102', PARENT, '2024-01-02 03:04:05', 1`
		names := []string{"same", "value", "null", "price", "data", "raw", "at", "n"}
		var first, second []string
		for i, name := range names {
			first = append(first, row(i+1, name, strings.Replace(plain, "PARENT", "1", 1)))
		}
		for i, rest := range []string{plain, strings.Replace(plain, "'a'", "'A'", 1), strings.Replace(plain, "'a'", "NULL", 1),
			strings.Replace(plain, "1.5", "1.51", 1), strings.Replace(plain, ": 1", ": 2", 1), strings.Replace(plain, "0102", "0103", 1),
			strings.Replace(plain, ":05", ":06", 1), strings.TrimSuffix(plain, "1") + "9"} {
			second = append(second, row(i+20, names[i], strings.Replace(rest, "PARENT", "20", 1)))
		}
		for policy, want := range map[merge.Policy]int64{merge.KeepFirst: 7, merge.Sum: 6, merge.Newest: 6} {
			if policy == merge.Newest && target.Dialect != "sqlite" && !nightly.Enabled() {
				continue
			}
			p := &merge.TablePlan{Policy: policy, Key: []string{"name"}, Renumber: merge.Behind,
				References: []merge.Reference{{Column: "parent", Table: "settings"}}}
			switch policy {
			case merge.Sum:
				p.Sum = []string{"n"}
			case merge.Newest:
				p.By = "n"
			}
			_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{"settings": p}, first, second)
			plan.GivesUp = map[string]merge.GivenUp{"settings": {Collapsed: 8}}
			report, found := problems(t, opened(t, plan))
			line := fmt.Sprintf("settings: {collapsed: 8, differing: %d}", want)
			if len(report.Problems) != 1 || !strings.Contains(fmt.Sprint(found[merge.CodeGivesUp]), line) {
				t.Fatalf("%s: check says %v, want %s", policy, report.Problems, line)
			}
			plan.GivesUp = report.GivesUp
			m := opened(t, plan)
			run(t, m)
			into.exec(t, "UPDATE settings SET value = 'z'") // now all differ
			verify, err := m.Verify(t.Context())
			if err != nil || !slices.ContainsFunc(verify.Failed, func(c merge.Comparison) bool {
				return c.What == "balance" && strings.Contains(c.Got, "differing: 8") || c.What == "rows"
			}) {
				t.Errorf("%s: verify finds %+v, %v", policy, verify.Failed, err)
			}
		}
	})
}

// TestWhatAMergeSaysItHasDoneIsComputedAgain damages the tables of a merge.
func TestWhatAMergeSaysItHasDoneIsComputedAgain(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE counters (name VARCHAR(20) NOT NULL PRIMARY KEY, n INTEGER, least INTEGER)",
			"CREATE TABLE logs (COUNTED, what VARCHAR(20))", "CREATE TABLE worlds (id SMALLINT NOT NULL PRIMARY KEY, tax INTEGER)"}
		rows := func(s int) []string {
			return []string{fmt.Sprintf("INSERT INTO counters VALUES ('a', %d, %d), ('b', 5, 6), ('%d', 1, 1)", s, s, s),
				"INSERT INTO logs (what) VALUES ('x'), ('y')", "INSERT INTO worlds VALUES (1, 1), (2, 7)"}
		}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"counters": {Policy: merge.Sum, Key: []string{"name"}, Sum: []string{"n"}, Min: []string{"least"}},
			"logs":     {Policy: merge.Copy, Renumber: merge.Behind},
			"worlds":   {Policy: merge.KeepFirst, Key: []string{"id"}},
		}, rows(1), rows(2), rows(3))
		m := open(t, plan)
		run(t, m)
		tables := []string{"merge_servers", "merge_offsets", "merge_journal", "merge_drops", "merge_values"}
		for _, table := range tables {
			into.exec(t, "CREATE TABLE keep_"+table+" AS SELECT * FROM "+table)
		}
		for _, harm := range []string{
			"UPDATE merge_servers SET name = 'other' WHERE number = 2", "DELETE FROM merge_servers WHERE number = 3",
			"UPDATE merge_offsets SET added = 3 WHERE server = 2 AND tbl = 'logs'",
			"UPDATE merge_offsets SET added = 3 WHERE server = 2 AND tbl = 'worlds'",
			"UPDATE merge_journal SET rows_read = 7 WHERE tbl = 'logs' AND server = 1",
			"UPDATE merge_journal SET done = 0 WHERE tbl = 'logs' AND server = 1",
			"DELETE FROM merge_drops WHERE server = 3 AND row_key LIKE '%a%'", "UPDATE merge_drops SET keeper_server = 2 WHERE server = 3 AND row_key LIKE '%b%'",
			"UPDATE merge_drops SET differs = 1 WHERE server = 3 AND row_key LIKE '%b%'",
			"UPDATE merge_values SET value = '7' WHERE row_key LIKE '%a%' AND col = 'n'", "DELETE FROM merge_values WHERE col = 'least'",
		} {
			into.exec(t, harm)
			if failed := failures(t, m); !slices.Contains(failed, "lists") {
				t.Errorf("%s: verify finds %v", harm, failed)
			}
			for _, table := range tables {
				if strings.Contains(harm, table) {
					into.exec(t, "DELETE FROM "+table, "INSERT INTO "+table+" SELECT * FROM keep_"+table)
				}
			}
		}
	})
}
