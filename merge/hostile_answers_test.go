package merge_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// oddLabel is a reference of a table, which a question answers with what tells the parent from others.
type oddLabel struct {
	of     *oddTable
	on     string // how the parent, p, is joined
	refers string // the condition under which the row refers to anything
	inside bool   // of a text
}

// labels are the references of the table. Those to the table itself come last.
func (o *oddTable) labels(target dbtest.Target) (all []oddLabel) {
	for i, p := range o.parents {
		columns, of := o.reference(i)
		var on []string
		for n, column := range columns {
			on = append(on, fmt.Sprintf("p.%s = c.%s", of[n], column))
		}
		all = append(all, oddLabel{p.oddTable, strings.Join(on, " AND "), "c." + columns[0] + " IS NOT NULL", false})
	}
	if o.bag != nil {
		key := map[string]string{"mysql": "CAST(p.k AS CHAR)", "postgres": "p.k::text", "sqlite": "CAST(p.k AS TEXT)"}[target.Dialect]
		for _, part := range o.parts(target) {
			all = append(all, oddLabel{o.bag, key + " = " + part, "c.bag IS NOT NULL", true})
		}
	}
	for i, p := range o.either {
		all = append(all, oddLabel{p, "p.k = c.way", "c.way IS NOT NULL AND c.kind = " + kinds[i], false})
	}
	if o.self != "" {
		all = append(all, oddLabel{o, "p.k = c.own", "c.own IS NOT NULL", false})
	}
	return all
}

// parts are expressions for the two keys of a text.
func (o *oddTable) parts(target dbtest.Target) []string {
	switch {
	case o.document && target.Dialect == "postgres":
		return []string{"c.bag::json ->> 'p'", "c.bag::json -> 'q' ->> 0"}
	case o.document && target.Dialect == "mysql":
		return []string{"JSON_UNQUOTE(JSON_EXTRACT(c.bag, '$.p'))", "JSON_UNQUOTE(JSON_EXTRACT(c.bag, '$.q[0]'))"}
	case o.document:
		return []string{"CAST(c.bag ->> '$.p' AS TEXT)", "CAST(c.bag ->> '$.q[0]' AS TEXT)"}
	case target.Dialect == "postgres":
		return []string{"split_part(c.bag, ',', 1)", "split_part(c.bag, ',', 2)"}
	case target.Dialect == "mysql":
		return []string{"SUBSTRING_INDEX(c.bag, ',', 1)", "SUBSTRING_INDEX(c.bag, ',', -1)"}
	}
	return []string{"substr(c.bag, 1, instr(c.bag, ',') - 1)", "substr(c.bag, instr(c.bag, ',') + 1)"}
}

// oddAnswer is a row, so that source and target have the same answer: every value as bytes or as the database
// writes it, a reference as what tells its parent from others before and after, and no key that was counted.
type oddAnswer struct {
	server       int
	tag          string
	labels       []string
	name, number string // a name or a login, and a number that is added up or compared
	least, most  string // of a sum
	rest         string
}

func (a oddAnswer) String() string {
	return strings.Join(slices.Concat([]string{a.tag}, a.labels, []string{a.name, a.number, a.least, a.most, a.rest}), "|")
}

// ask reads the table of a server, or of the target if the server is 0.
func (o *oddTable) ask(t *testing.T, from base, server int) (all []oddAnswer) {
	t.Helper()
	target := from.target
	show := map[string]string{
		"sqlite": "typeof(%[1]s) || ':' || quote(%[1]s)", "postgres": "COALESCE(%[1]s::text, 'NULL')",
		"mysql": "COALESCE(CONCAT(HEX(%[1]s), ':', CAST(%[1]s AS CHAR)), 'NULL')",
	}[target.Dialect]
	text := map[string]string{"mysql": "CAST(%s AS CHAR)", "postgres": "%s::text", "sqlite": "CAST(%s AS TEXT)"}[target.Dialect]
	list, joins := []string{"c.tag"}, ""
	labels := o.labels(target)
	for i, l := range labels {
		alias := fmt.Sprintf("p%d", i)
		label := alias + ".tag"
		if l.of.collapses() {
			label = alias + ".login"
		}
		joins += " LEFT JOIN " + quoted(target, l.of.name) + " " + alias + " ON " + strings.ReplaceAll(l.on, "p.", alias+".")
		list = append(list, fmt.Sprintf("CASE WHEN %s THEN COALESCE(%s, 'lost') ELSE 'none' END", l.refers, label))
	}
	switch {
	case o.policy == merge.Rename:
		list = append(list, "c.name", "''", "''", "''")
	case o.policy == merge.Sum:
		list = append(list, "c.login", fmt.Sprintf(text, "c.number"), fmt.Sprintf(text, "c.least"), fmt.Sprintf(text, "c.most"))
	case o.collapses():
		list = append(list, "c.login", fmt.Sprintf(text, "c.number"), "''", "''")
	default:
		list = append(list, "''", "''", "''", "''")
	}
	if o.repeats {
		list = append(list, "CASE WHEN c.their IS NULL THEN 'none' WHEN c.their = p0.name THEN 'repeated' ELSE c.their END")
	}
	for _, value := range o.shown(server) {
		list = append(list, fmt.Sprintf(show, value))
	}
	query := strings.Join(list, " || '|' || ")
	if target.Dialect == "mysql" {
		query = "CONCAT(" + strings.Join(list, ", '|', ") + ")"
	}
	query = "SELECT " + query + " FROM " + quoted(target, o.name) + " c" + joins
	if server > 0 && o.fault == "check" && o.mended == "plan" {
		query += " WHERE c.less < 100"
	}
	for _, line := range from.texts(t, query) {
		parts := strings.SplitN(line, "|", len(labels)+6)
		n := len(labels) + 1
		all = append(all, oddAnswer{server, parts[0], parts[1:n], parts[n], parts[n+1], parts[n+2], parts[n+3], parts[n+4]})
	}
	return all
}

// shown are the expressions of all other values.
func (o *oddTable) shown(server int) (all []string) {
	if o.key != "none" && o.key != "counted" {
		all = append(all, "c.k")
	}
	if o.double() {
		all = append(all, "c.second")
	}
	for i := range o.columns {
		all = append(all, fmt.Sprintf("c.c%d", i))
	}
	if o.either != nil {
		all = append(all, "c.kind", "(CASE WHEN c.kind IN ('a', 'b') THEN NULL ELSE c.way END)")
	}
	if o.computed {
		all = append(all, "c.half", "c.twice")
	}
	if given := o.given(server); given != "" {
		all = append(all, given)
	}
	return append(all, "0")
}

// want returns what the target has to hold, by what the servers do, and the tags of rows with a text that leads
// to no row of the target, by server.
func (w *oddWorld) want(t *testing.T) (want map[*oddTable][]string, adrift map[*oddTable]map[int][]string) {
	t.Helper()
	want, adrift = map[*oddTable][]string{}, map[*oddTable]map[int][]string{}
	kept := map[*oddTable]map[string]bool{} // by server and what tells the row from others
	for _, o := range w.tables {
		kept[o], adrift[o] = map[string]bool{}, map[int][]string{}
		labels := o.labels(w.target)
		var rows []oddAnswer
		for i, source := range w.sources {
			if o.lacks(i + 1) {
				continue
			}
			// follow looks at references to the table itself, or at the others. It reports whether a row is kept.
			follow := func(a oddAnswer, self bool) bool {
				for n, l := range labels {
					if a.labels[n] == "none" || (l.of == o) != self || kept[l.of][fmt.Sprint(i, a.labels[n])] {
						continue
					}
					switch a.labels[n] = "lost"; {
					case l.inside:
						adrift[o][i] = append(adrift[o][i], a.tag)
					case o.orphans == "drop":
						return false
					case o.orphans == "null":
						a.labels[n] = "none"
					}
				}
				return true
			}
			var own []oddAnswer
			for _, a := range o.ask(t, source, i+1) {
				if follow(a, false) {
					own = append(own, a)
					kept[o][fmt.Sprint(i, a.mark(o))] = true
				}
			}
			for _, a := range own {
				follow(a, true)
			}
			slices.SortFunc(own, func(a, b oddAnswer) int { return strings.Compare(a.tag, b.tag) })
			rows = append(rows, own...)
		}
		for _, a := range o.merged(t, rows) {
			want[o] = append(want[o], a.String())
		}
	}
	return want, adrift
}

// mark is what tells the row from others, on its server and, but for the rows that become one with it, on all.
func (a oddAnswer) mark(o *oddTable) string {
	if o.collapses() {
		return a.name
	}
	return a.tag
}

// merged does to rows what the policy of their table does.
func (o *oddTable) merged(t *testing.T, rows []oddAnswer) (all []oddAnswer) {
	t.Helper()
	at := map[string]int{}
	for _, a := range rows {
		first, found := at[a.name]
		if !found || o.policy == merge.Copy {
			at[a.name] = len(all)
			all = append(all, a)
			continue
		}
		switch o.policy {
		case merge.Rename:
			a.name += fmt.Sprintf(".s%d", a.server)
			all = append(all, a)
		case merge.Sum:
			b := &all[first]
			b.number = strconv.Itoa(atoi(t, b.number) + atoi(t, a.number))
			b.least = strconv.Itoa(min(atoi(t, b.least), atoi(t, a.least)))
			b.most = strconv.Itoa(max(atoi(t, b.most), atoi(t, a.most)))
		case merge.Newest:
			if atoi(t, a.number) > atoi(t, all[first].number) {
				all[first] = a
			}
		}
	}
	return all
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
