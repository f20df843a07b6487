package merge_test

import (
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// TestVerifyKnowsRenamedRowsByEveryKindOfKey gives names to rows whose keys are not whole numbers. The list of
// renames has them in a form of its own, and verify looks its entries up by them.
func TestVerifyKnowsRenamedRowsByEveryKindOfKey(t *testing.T) {
	t.Parallel()
	plan := map[string]*merge.TablePlan{"p": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name", Keep: "first"}}}
	keys := func(declared, first, second, third string) hostile {
		return hostile{
			schema: []string{"CREATE TABLE p (id " + declared + " NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE)"},
			first:  []string{"INSERT INTO p VALUES (" + first + ", 'Ann')"},
			second: []string{"INSERT INTO p VALUES (" + second + ", 'Ann'), (" + third + ", 'Bob')"}, tables: plan,
			asks: [][2]string{{"SELECT name FROM p WHERE id = " + first, "Ann"}, {"SELECT name FROM p WHERE id = " + second, "Ann.s2"}},
		}
	}
	long := strings.Repeat("é", 450)
	mergeHostile(t, map[string]hostile{
		"decimals without a fraction":    keys("DECIMAL(20,0)", "12345678901", "12345678902", "12345678903"),
		"decimals":                       keys("DECIMAL(20,2)", "1.50", "2.50", "3.00"),
		"texts":                          keys("VARCHAR(20)", "'a'", "'b\"c'", "'0'"),
		"texts that look like bytes":     keys("VARCHAR(20)", "'0x61'", "'0x62'", "'0t'"),
		"texts that look like nothing":   keys("VARCHAR(20)", "'a'", "'0n'", "''"),
		"texts that are longer than 400": keys("VARCHAR(500)", "'a"+long+"'", "'b"+long+"'", "'c"+long+"'"),
		"bytes":                          keys("BLOBTYPE", "BLOB'6161'", "BLOB'00ff'", "BLOB'22'"),
		"dates":                          keys("DATE", "'2024-02-28'", "'2024-02-29'", "'2024-03-01'"),
	})
}
