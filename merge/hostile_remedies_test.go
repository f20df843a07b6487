package merge_test

import (
	"maps"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// TestWhatARemedySaysLeadsToAMerge has plans that are refused by the schema alone, and does what the remedy of
// each problem says. Refusals by rows are those of TestHostileSchemasAreMergedWhole.
func TestWhatARemedySaysLeadsToAMerge(t *testing.T) {
	t.Parallel()
	one, two := "INSERT INTO p VALUES ("+id(1, 1)+", 'Ann', 1)", "INSERT INTO p VALUES ("+id(2, 1)+", 'Bob', 2)"
	schema := []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9) NOT NULL UNIQUE, n BIGINT)"}
	bare := []string{"CREATE TABLE p (id BIGINT NOT NULL, name VARCHAR(9) NOT NULL UNIQUE, n BIGINT)"}
	texts := []string{"CREATE TABLE p (id VARCHAR(40) NOT NULL PRIMARY KEY, name VARCHAR(9) NOT NULL UNIQUE, n BIGINT)"}
	more := []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9) NOT NULL UNIQUE, n BIGINT, more BIGINT NOT NULL)"}
	names := &merge.RenamePlan{Column: "name"}
	wrong := &merge.RenamePlan{Column: "name", Copies: []merge.NameCopy{{Table: "p", Column: "nick", Ref: "id"}}}
	cases := map[string]hostile{}
	try := func(name string, schema []string, refused merge.Code, plan merge.TablePlan, mend func(h *hostile, p *merge.TablePlan)) {
		h := hostile{schema: schema, first: []string{one}, second: []string{two}, refused: refused, says: "p",
			tables: map[string]*merge.TablePlan{"p": &plan}}
		mended, better := h, plan
		mended.tables, mended.refused = maps.Clone(h.tables), ""
		mended.tables["p"] = &better
		mended.asks = [][2]string{{"SELECT name FROM p ORDER BY name", "Ann,Bob"}}
		mend(&mended, &better)
		if refused == merge.CodeMissingColumn {
			h.before, mended.before = more, more
		}
		cases[name], cases[name+", once mended"] = h, mended
	}
	try("a copy of a name that is not there", schema, merge.CodeNameCopy, merge.TablePlan{Policy: merge.Rename, Rename: wrong},
		func(_ *hostile, p *merge.TablePlan) { p.Rename = names })
	try("a column that is not there", schema, merge.CodePlan, merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"login"}},
		func(_ *hostile, p *merge.TablePlan) { p.Key = []string{"name"} })
	try("keys that cannot be renumbered", texts, merge.CodePlan, merge.TablePlan{Policy: merge.Copy, Renumber: merge.Behind},
		func(_ *hostile, p *merge.TablePlan) { p.Renumber = "" })
	try("a text that cannot be added", schema, merge.CodePlan,
		merge.TablePlan{Policy: merge.Sum, Key: []string{"name"}, Sum: []string{"n", "name"}},
		func(_ *hostile, p *merge.TablePlan) { p.Sum = []string{"n"} })
	try("no key, and the policy copy", bare, merge.CodeNoKey, merge.TablePlan{Policy: merge.Rename, Rename: names},
		func(_ *hostile, p *merge.TablePlan) { *p = merge.TablePlan{Policy: merge.Copy} })
	try("no key, and then one", bare, merge.CodeNoKey, merge.TablePlan{Policy: merge.KeepFirst, Key: []string{"name"}},
		func(h *hostile, _ *merge.TablePlan) { h.schema = schema })
	try("a column that no server has", schema, merge.CodeMissingColumn, merge.TablePlan{Policy: merge.Copy},
		func(_ *hostile, p *merge.TablePlan) { p.Set = map[string]string{"more": "n + 1"} })
	mergeHostile(t, cases)
}
