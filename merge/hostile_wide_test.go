package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// TestATableMayHaveVeryManyColumns has a table all of whose columns are narrower in the target and must not be
// NULL there, which is more to count than one statement of PostgreSQL can.
func TestATableMayHaveVeryManyColumns(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		const columns = 850
		width, narrow := 20, 10
		if target.Dialect == "mysql" { // where half a page has to hold a row
			width, narrow = 2, 1
		}
		var wide, tight, names, short, long []string
		for i := range columns {
			name := fmt.Sprintf("c%03d", i)
			names = append(names, name)
			wide = append(wide, fmt.Sprintf("%s VARCHAR(%d)", name, width))
			tight = append(tight, fmt.Sprintf("%s VARCHAR(%d) NOT NULL", name, narrow))
			short, long = append(short, "'x'"), append(long, "'x'")
		}
		long[700], long[800] = "'"+strings.Repeat("y", narrow+1)+"'", "NULL"
		insert := func(id string, values []string) string {
			return fmt.Sprintf("INSERT INTO wide (id, %s) VALUES (%s, %s)", strings.Join(names, ", "), id,
				strings.Join(values, ", "))
		}
		_, into, plan := small(t, target, []string{"CREATE TABLE wide (id BIGINT NOT NULL PRIMARY KEY, " +
			strings.Join(wide, ", ") + ")"}, map[string]*merge.TablePlan{"wide": {Policy: merge.Copy}},
			[]string{insert(id(1, 1), short)}, []string{insert(id(2, 1), long)})
		into.exec(t, "DROP TABLE wide", "CREATE TABLE wide (id BIGINT NOT NULL PRIMARY KEY, "+
			strings.Join(tight, ", ")+")")
		_, found := problems(t, open(t, plan))
		if nulls := found[merge.CodeNull]; len(nulls) != 1 || nulls[0].Column != "c800" || nulls[0].Count != 1 {
			t.Errorf("the NULL was reported as %v", nulls)
		}
		if target.Dialect == "sqlite" { // it stores texts of any length
			return
		}
		if texts := found[merge.CodeTooLong]; len(texts) != 1 || texts[0].Column != "c700" || texts[0].Count != 1 {
			t.Errorf("the long text was reported as %v", texts)
		}
	})
}
