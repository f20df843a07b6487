package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A column of a kind that no key has is refused, before a database refuses to compare it.
func TestAReferenceOfAnotherKindThanItsKeyIsRefused(t *testing.T) {
	t.Parallel()
	kinds := map[string]struct{ refused, fine []string }{
		"postgres": {[]string{"bytea", "boolean", "uuid", "double precision", "real", "date", "timestamp without time zone",
			"time with time zone", "interval", "json", "jsonb", "integer[]", "inet", "mood"},
			[]string{"integer", "numeric(20,0)", "text", "character varying(20)"}},
		"mysql": {[]string{"blob", "binary(16)", "bit(8)", "bit(1)", "float", "double", "year", "date", "datetime", "time", "enum('1','2')",
			"set('1','2')", "json"},
			[]string{"int", "bigint unsigned", "decimal(20,0)", "varchar(20)", "text"}},
		"sqlite": {[]string{"BLOB", "REAL", "BOOLEAN", "DATE", "DATETIME", "JSON"},
			[]string{"INTEGER", "DECIMAL(20,0)", "TEXT", "VARCHAR(20)", "SNOWFLAKE", ""}},
	}
	schema := func(kinds []string, of func(kind string) string) []string {
		columns := ""
		for i, kind := range kinds {
			columns += fmt.Sprintf(", k%d %s", i, of(kind))
		}
		return []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY" + columns + ")",
			"CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, n BIGINT" + columns + ")"}
	}
	databases(t, func(t *testing.T, target dbtest.Target) {
		known := kinds[target.Dialect]
		if target.Name == "mariadb" {
			known.refused = slices.DeleteFunc(slices.Clone(known.refused), func(kind string) bool { return kind == "json" })
		}
		all := slices.Concat(known.refused, known.fine)
		var types []string
		if target.Dialect == "postgres" {
			types = []string{"CREATE TYPE mood AS ENUM ('1', '2')"}
		}
		same := func(kind string) string { return kind }
		number := func(string) string { return "BIGINT" }
		for where, times := range map[string]int{"in the target": 1, "there": 2} {
			t.Run(where, func(t *testing.T) {
				own := map[string]func(string) string{"in the target": same, "there": number}[where]
				_, into, plan := small(t, target, types, copies("p", "c"), schema(all, same), schema(all, same))
				into.exec(t, schema(all, own)...)
				plan.Identities = map[string]*merge.Identity{"p": {}}
				for i := range all {
					plan.Identities["p"].In = append(plan.Identities["p"].In, fmt.Sprintf("c.k%d", i))
					plan.Identities[fmt.Sprintf("q%d", i)] = &merge.Identity{Table: "p", Key: fmt.Sprintf("k%d", i), In: []string{"c.n"}}
				}
				_, found := problems(t, opened(t, plan))
				for i, kind := range all {
					name := fmt.Sprintf("k%d", i)
					refers, identifies := 0, 0
					for _, p := range found[merge.CodePlan] {
						if !strings.Contains(p.Message, where) || p.Server == "" || p.Table != "c" || p.Remedy == "" {
							t.Errorf("check found %v", p)
						}
						if p.Column == name && strings.Contains(p.Message, "is "+kind) {
							refers++
						}
						if p.Column == "n" && strings.Contains(p.Message, "p."+name+", which is "+kind) {
							identifies++
						}
					}
					want := times
					if i >= len(known.refused) {
						want = 0
					}
					if refers != want || identifies != want {
						t.Errorf("%s: %d columns that refer and %d keys are refused, want %d", kind, refers, identifies, want)
					}
				}
			})
		}
	})
}
