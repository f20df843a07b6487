package merge_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// The row that has the fault, and the server that has it. Its keys may be those of another server, or lead
// beyond the rows of a table.
const (
	oddServer, oddRow     = 2, 3
	oddForeign, oddBeyond = 77, 40
)

// oddFault is something that check must refuse.
type oddFault struct {
	code merge.Code
	// ways are what can be done about it, in the words of the remedy: change the plan, or change the target.
	ways string
	// can reports whether a table can have it.
	can func(o *oddTable, all []*oddTable) bool
}

var oddFaults = map[string]oddFault{
	"orphan": {merge.CodeOrphan, "plan", func(o *oddTable, _ []*oddTable) bool { return len(o.parents) > 0 }},
	// A key that leads nowhere is only refused if the keys of its table change.
	"lost": {merge.CodeOrphan, "plan", func(o *oddTable, _ []*oddTable) bool {
		return o.bag != nil && (o.bag.key == "counted" || o.bag.collapses())
	}},
	"uncounted": {merge.CodePrimaryKey, "plan", func(o *oddTable, _ []*oddTable) bool { return o.key == "counted" }},
	"twin":      {merge.CodeUniqueKey, "plan", func(o *oddTable, _ []*oddTable) bool { return o.policy == merge.Rename }},
	"foreign":   {merge.CodeServerNumber, "plan", func(o *oddTable, _ []*oddTable) bool { return o.key == "made" }},
	"unknown":   {merge.CodeUnknownTable, "plan", childless},
	"absent":    {merge.CodeMissingTable, "plan", childless},
	"full":      {merge.CodeNotEmpty, "target", func(*oddTable, []*oddTable) bool { return true }},
	"extra":     {merge.CodeMissingColumn, "plan target", func(*oddTable, []*oddTable) bool { return true }},
	"short":     {merge.CodeTooLong, "plan target", func(*oddTable, []*oddTable) bool { return true }},
	"null":      {merge.CodeNull, "plan target", func(*oddTable, []*oddTable) bool { return true }},
	"check":     {merge.CodeRefused, "plan target", func(*oddTable, []*oddTable) bool { return true }},
}

func childless(o *oddTable, all []*oddTable) bool {
	return !slices.ContainsFunc(all, func(other *oddTable) bool { return other.leads(o) })
}

// spoil gives faults to one table in eight.
func spoil(r *rand.Rand, tables []*oddTable) {
	names := []string{"orphan", "lost", "uncounted", "twin", "foreign", "unknown", "absent", "full", "extra", "short", "null", "check"}
	for _, o := range tables {
		name := names[r.IntN(len(names))]
		if r.IntN(8) == 0 && oddFaults[name].can(o, tables) {
			o.fault = name
		}
	}
}

// broken reports whether the table has a fault about which nothing was done.
func (o *oddTable) broken(fault string) bool { return o.fault == fault && o.mended == "" }

// faulty returns the column of the fault.
func (o *oddTable) faulty(into bool) [][2]string {
	sound := !into || o.mended == "target"
	declared := func(name, there, otherwise string) [][2]string {
		if sound {
			return [][2]string{{name, there}}
		}
		return [][2]string{{name, otherwise}}
	}
	switch o.fault {
	case "extra":
		if !sound {
			return nil
		}
		return [][2]string{{"more", "BIGINT"}}
	case "short":
		return declared("narrow", "VARCHAR(30)", "VARCHAR(5)")
	case "null":
		return declared("filled", "BIGINT", "BIGINT NOT NULL")
	case "check":
		return declared("less", "BIGINT", "BIGINT CHECK (less < 100)")
	}
	return nil
}

// given is the column of the fault as the target has it, by its values on a server, or "" if it has none.
func (o *oddTable) given(server int) string {
	planned := o.mended == "plan"
	switch {
	case o.fault == "short" && planned && server > 0:
		return "SUBSTR(c.narrow, 1, 5)"
	case o.fault == "null" && planned && server > 0:
		return "COALESCE(c.filled, 7)"
	case o.fault == "extra" && planned:
		return ""
	}
	return map[string]string{"short": "c.narrow", "null": "c.filled", "check": "c.less", "extra": "c.more"}[o.fault]
}

// mend writes into the plan of the table what was done about its fault.
func (o *oddTable) mend(p *merge.TablePlan) {
	if o.mended != "plan" {
		return
	}
	switch o.fault {
	case "foreign":
		p.ForeignIDs = true
	case "absent":
		p.Absent = []string{"s2"}
	case "extra":
		p.Ignore = []string{"more"}
	case "short":
		p.Set = map[string]string{"narrow": "SUBSTR(narrow, 1, 5)"}
	case "null":
		p.Set = map[string]string{"filled": "COALESCE(filled, 7)"}
	case "check":
		p.Where = "less < 100"
	}
}

// remedy does what a problem tells to do. It reports whether the target has to be made again.
func (w *oddWorld) remedy(t *testing.T, p merge.Problem) (remade bool) {
	t.Helper()
	at := slices.IndexFunc(w.tables, func(o *oddTable) bool { return o.name == p.Table })
	if at < 0 || p.Remedy == "" {
		t.Fatalf("refused without a table or a remedy: %s", p)
	}
	o := w.tables[at]
	if p.Code == merge.CodeOrphan {
		if o.fault == "orphan" || o.fault == "lost" {
			o.mended = "plan"
		}
		switch {
		case strings.HasPrefix(p.Column, "bag"):
			w.correct(t, o)
		case o.orphans != "":
			t.Fatalf("orphans: %s does not help: %s", o.orphans, p)
		case o.self == "" && w.r.IntN(2) == 0:
			o.orphans = "drop"
		default:
			o.orphans = "null"
		}
		return false
	}
	fault := oddFaults[o.fault]
	if o.fault == "" || fault.code != p.Code {
		t.Fatalf("refused without need, as its fault is %q: %s", o.fault, p)
	}
	if o.mended != "" {
		t.Fatalf("refused although %s was changed: %s", o.mended, p)
	}
	ways := strings.Fields(fault.ways)
	o.mended = ways[w.r.IntN(len(ways))]
	return o.mended == "target"
}

// correct takes texts that lead to no row from the servers.
func (w *oddWorld) correct(t *testing.T, o *oddTable) {
	t.Helper()
	_, adrift := w.want(t)
	for i, tags := range adrift[o] {
		for _, tag := range tags {
			w.sources[i].unchecked(t, "UPDATE "+quoted(w.target, o.name)+" SET bag = NULL WHERE tag = '"+tag+"'")
		}
	}
	if len(adrift[o]) == 0 {
		t.Fatalf("%s has no text that leads to no row", o.name)
	}
}

// fill puts a row into a table of the target.
func (o *oddTable) fill(t *testing.T, r *rand.Rand, target dbtest.Target, into base) {
	t.Helper()
	into.unchecked(t, o.rows(r, target, 1, 1))
}
