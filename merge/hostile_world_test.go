package merge_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// oddTable is a table of a hostile schema. Each row has a tag that no other row of the table has on any server.
type oddTable struct {
	number   int
	name     string
	key      string // how the key is made: made, counted, text, decimal, pair, enum, dated, bytes or none
	declared string // the type of the key
	serial   bool   // the database counts the key
	policy   merge.Policy
	columns  []oddType
	parents  []oddParent // of the columns ref0, ref1 and so on
	bag      *oddTable   // the table to two of whose rows a text leads
	document bool        // the text is JSON, not a list
	self     string      // a column that refers to the table itself: declared, planned or ""
	either   []*oddTable // the tables to which the column way leads, by the column kind; none or two
	computed bool        // a column is computed from another one
	folded   bool        // the tags are unique by an expression
	repeats  bool        // the column their repeats the name of the row to which ref0 leads
	fault    string      // what check must refuse, or ""
	mended   string      // what was done about it: plan or target; "" for nothing
	orphans  string      // of the plan
}

// oddParent is a table that a column refers to.
type oddParent struct {
	*oddTable
	declared bool // there is a foreign key
	natural  bool // it is referred to by its name
}

// refers reports whether children can refer to the key.
func (o *oddTable) refers() bool { return o.key != "bytes" && o.key != "none" }

// double reports whether the key has two columns.
func (o *oddTable) double() bool { return o.key == "pair" || o.key == "enum" || o.key == "dated" }

// collapses reports whether rows with an equal login become one.
func (o *oddTable) collapses() bool {
	return o.policy == merge.Sum || o.policy == merge.KeepFirst || o.policy == merge.Newest
}

// lacks reports whether a server has no such table.
func (o *oddTable) lacks(server int) bool { return o.fault == "absent" && server == oddServer }

// oddSchema makes tables from a seed.
func oddSchema(r *rand.Rand, dialect string, count int) (tables []*oddTable) {
	types := oddTypes(dialect)
	for n := range count {
		o := &oddTable{
			number: n,
			name:   fmt.Sprintf("t%02d_%s", n, []string{"plain", "Mixed", "select", "a b", "é"}[r.IntN(5)]),
			key: []string{"made", "made", "counted", "counted", "text", "decimal", "pair", "enum", "dated", "bytes",
				"none"}[r.IntN(11)],
			policy: merge.Copy, computed: r.IntN(6) == 0, folded: r.IntN(6) == 0,
		}
		o.declared = keyTypes(dialect)[o.key]
		switch o.key {
		case "counted":
			if r.IntN(3) == 0 {
				o.declared = map[string]string{"postgres": "INTEGER", "mysql": "INT UNSIGNED", "sqlite": "INT"}[dialect]
			} else {
				o.serial = r.IntN(2) == 0
			}
			fallthrough
		case "made":
			o.policy = []merge.Policy{merge.Copy, merge.Copy, merge.Rename, merge.Sum, merge.KeepFirst, merge.Newest}[r.IntN(6)]
		case "text", "decimal":
			o.policy = []merge.Policy{merge.Copy, merge.Rename, merge.KeepFirst, merge.Newest}[r.IntN(4)]
		case "pair", "enum", "dated":
			o.policy = []merge.Policy{merge.Copy, merge.Copy, merge.KeepFirst}[r.IntN(3)]
		}
		for range 1 + r.IntN(4) {
			o.columns = append(o.columns, types[r.IntN(len(types))])
		}
		o.refer(r, tables)
		tables = append(tables, o)
	}
	return tables
}

func keyTypes(dialect string) map[string]string {
	return map[string]string{
		"made": "BIGINT", "counted": "BIGINT", "text": "VARCHAR(40)", "decimal": "DECIMAL(20,0)", "pair": "BIGINT",
		"enum": "BIGINT", "dated": "BIGINT",
		"bytes": map[string]string{"postgres": "BYTEA", "mysql": "VARBINARY(20)", "sqlite": "BLOB"}[dialect],
	}
}

// refer lets the table refer to some of those before it.
func (o *oddTable) refer(r *rand.Rand, tables []*oddTable) {
	var large []*oddTable
	for _, t := range tables {
		if !t.refers() {
			continue
		}
		if len(o.parents) < 2 && r.IntN(4) == 0 {
			o.parents = append(o.parents, oddParent{t, r.IntN(2) == 0, t.policy == merge.Rename && r.IntN(2) == 0})
		}
		if !t.double() && r.IntN(8) == 0 {
			o.bag, o.document = t, r.IntN(2) == 0
		}
		if !t.double() && t.declared == "BIGINT" {
			large = append(large, t)
		}
	}
	if o.refers() && !o.double() {
		o.self = []string{"", "", "", "declared", "planned"}[r.IntN(5)]
	}
	if len(large) > 1 && r.IntN(5) == 0 {
		at := r.Perm(len(large))
		o.either = []*oddTable{large[at[0]], large[at[1]]}
	}
}

// secondDeclared is the type of the second column of the key. An ENUM is ordered as its members are declared.
func (o *oddTable) secondDeclared(dialect string) string {
	switch o.key {
	case "enum":
		return map[string]string{"postgres": "odd", "mysql": "ENUM('z','A','b')", "sqlite": "VARCHAR(5)"}[dialect]
	case "dated":
		return "DATE"
	}
	return "VARCHAR(5)"
}

func (o *oddTable) secondOf(n int) string {
	if o.key == "dated" {
		return []string{"'2024-02-29'", "'1999-12-31'", "'2038-01-20'"}[n%3]
	}
	return []string{"'z'", "'A'", "'b'"}[n%3]
}

// nameOf is the name of a row. Every other name is the same on all servers.
func nameOf(server, n int) string {
	if n%2 == 0 {
		return fmt.Sprintf("'n%d'", n)
	}
	return fmt.Sprintf("'u%d-%d'", server, n)
}

// quoted is a name as an identifier.
func quoted(target dbtest.Target, name string) string {
	if target.Dialect == "mysql" {
		return "`" + name + "`"
	}
	return `"` + name + `"`
}

// create returns the statements that make the table on the servers, or into the target.
func (o *oddTable) create(target dbtest.Target, into bool) []string {
	var lines []string
	for _, c := range o.all(target.Dialect, into) {
		lines = append(lines, strings.TrimSpace(c[0]+" "+c[1]))
	}
	if o.computed {
		lines = append(lines, "twice BIGINT GENERATED ALWAYS AS (half * 2) STORED")
	}
	switch {
	case o.key == "none":
	case o.double():
		lines = append(lines, "PRIMARY KEY (second, k)")
	default:
		lines = append(lines, "PRIMARY KEY (k)")
	}
	if o.self == "declared" {
		lines = append(lines, "FOREIGN KEY (own) REFERENCES "+quoted(target, o.name)+" (k)")
	}
	for i, p := range o.parents {
		if p.declared {
			columns, keys := o.reference(i)
			lines = append(lines, fmt.Sprintf("FOREIGN KEY (%s) REFERENCES %s (%s)", strings.Join(columns, ", "),
				quoted(target, p.name), strings.Join(keys, ", ")))
		}
	}
	all := []string{"CREATE TABLE " + quoted(target, o.name) + " (" + strings.Join(lines, ", ") + ")"}
	if o.folded && target.Name != "mariadb" { // which has no indexes of expressions
		all = append(all, fmt.Sprintf("CREATE UNIQUE INDEX folded%d ON %s ((lower(tag)))", o.number, quoted(target, o.name)))
	}
	return all
}

// all returns the columns that are written, each with its type.
func (o *oddTable) all(dialect string, into bool) [][2]string {
	all := [][2]string{{"tag", "VARCHAR(40) NOT NULL"}}
	add := func(name, declared string) { all = append(all, [2]string{name, declared}) }
	switch {
	case o.serial:
		add("k", map[string]string{"postgres": "BIGSERIAL", "mysql": "BIGINT NOT NULL AUTO_INCREMENT", "sqlite": "INTEGER"}[dialect])
	case o.key != "none":
		add("k", o.declared+" NOT NULL")
	}
	if o.double() {
		add("second", o.secondDeclared(dialect)+" NOT NULL")
	}
	for i, c := range o.columns {
		add(fmt.Sprintf("c%d", i), c.declared)
	}
	for i, p := range o.parents {
		if p.natural {
			add(fmt.Sprintf("ref%d", i), "VARCHAR(40)")
			continue
		}
		add(fmt.Sprintf("ref%d", i), p.oddTable.declared)
		if p.double() {
			add(fmt.Sprintf("also%d", i), p.secondDeclared(dialect))
		}
	}
	if o.bag != nil {
		add("bag", "VARCHAR(200)")
	}
	if o.self != "" {
		add("own", o.declared)
	}
	if o.either != nil {
		add("kind", "VARCHAR(5)")
		add("way", "BIGINT")
	}
	switch {
	case o.policy == merge.Rename:
		add("name", "VARCHAR(40) NOT NULL UNIQUE")
	case o.collapses():
		add("login", "VARCHAR(40) NOT NULL UNIQUE")
		add("number", "BIGINT NOT NULL")
		if o.policy == merge.Sum {
			add("least", "INTEGER")
			add("most", "SMALLINT")
		}
	}
	if o.repeats {
		add("their", "VARCHAR(40)")
	}
	if o.computed {
		add("half", "BIGINT")
	}
	return append(all, o.faulty(into)...)
}

// reference returns the columns of a reference, and those of the parent.
func (o *oddTable) reference(i int) (columns, of []string) {
	columns, of = []string{fmt.Sprintf("ref%d", i)}, []string{"k"}
	switch p := o.parents[i]; {
	case p.natural:
		of = []string{"name"}
	case p.double(): // in the order of the primary key, as MySQL and SQLite want it
		columns, of = []string{fmt.Sprintf("also%d", i), columns[0]}, []string{"second", "k"}
	}
	return columns, of
}

// plan is what a user writes for the table.
func (o *oddTable) plan() *merge.TablePlan {
	p := &merge.TablePlan{Policy: o.policy, Orphans: o.orphans}
	if o.key == "counted" && !o.broken("uncounted") {
		p.Renumber = merge.Behind
		if !o.collapses() && len(o.name)%2 == 0 {
			p.Renumber = merge.Apart
		}
	}
	switch {
	case o.broken("twin"):
		p.Policy = merge.Copy
	case o.policy == merge.Rename:
		p.Rename = &merge.RenamePlan{Column: "name", Keep: "first"}
	case o.collapses():
		p.Key = []string{"login"}
	}
	switch o.policy {
	case merge.Sum:
		p.Sum, p.Min, p.Max = []string{"number"}, []string{"least"}, []string{"most"}
	case merge.Newest:
		p.By = "number"
	}
	for i, parent := range o.parents {
		if !parent.declared {
			columns, of := o.reference(i)
			p.References = append(p.References, merge.Reference{Columns: columns, Target: of, Table: parent.name})
		}
	}
	switch {
	case o.bag == nil:
	case o.document:
		p.References = append(p.References, merge.Reference{Column: "bag", Table: o.bag.name, Path: "$.p"},
			merge.Reference{Column: "bag", Table: o.bag.name, Path: "$.q[*]"})
	default:
		p.References = append(p.References, merge.Reference{Column: "bag", Table: o.bag.name, List: ","})
	}
	for i, parent := range o.either {
		p.References = append(p.References, merge.Reference{Column: "way", Table: parent.name, When: "kind = " + kinds[i]})
	}
	if o.self == "planned" {
		p.References = append(p.References, merge.Reference{Column: "own", Table: o.name})
	}
	o.mend(p)
	return p
}

// kinds are the values of the column kind. The first two say that the column way refers to a row.
var kinds = []string{"'a'", "'b'", "'c'", "NULL"}

// repeatNames has some tables repeat the names of rows that may be renamed.
func repeatNames(r *rand.Rand, tables []*oddTable) {
	for _, o := range tables {
		o.repeats = len(o.parents) > 0 && o.parents[0].policy == merge.Rename && !o.parents[0].natural && r.IntN(2) == 0
	}
}

// leads reports whether a table refers to another one.
func (o *oddTable) leads(to *oddTable) bool {
	return o.bag == to || slices.Contains(o.either, to) ||
		slices.ContainsFunc(o.parents, func(p oddParent) bool { return p.oddTable == to })
}
