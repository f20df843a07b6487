package merge_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// keyOf is the key of a row as a literal.
func (o *oddTable) keyOf(target dbtest.Target, server, n int) string {
	switch o.key {
	case "made", "decimal", "pair", "enum", "dated":
		if o.fault == "foreign" && server == oddServer && n == oddRow {
			return id(oddForeign, n)
		}
		return id(server, n)
	case "counted":
		return fmt.Sprint(n*n + 1)
	case "text":
		return fmt.Sprintf("'%s-%d-%d'", []string{"a", "B", "é", "_"}[n%4], server, n)
	}
	if target.Dialect == "postgres" {
		return fmt.Sprintf(`'\x%02x00%02x'`, (n*37)%256, server)
	}
	return fmt.Sprintf("X'%02x00%02x'", (n*37)%256, server)
}

// rows is the statement that fills the table of a server.
func (o *oddTable) rows(r *rand.Rand, target dbtest.Target, server, count int) string {
	columns := o.all(target.Dialect, false)
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c[0]
	}
	rows := make([]string, count)
	for n := range rows {
		values := o.values(r, target, server, n, count)
		list := make([]string, len(names))
		for i, name := range names {
			list[i] = values[name]
		}
		rows[n] = "(" + strings.Join(list, ", ") + ")"
	}
	return "INSERT INTO " + quoted(target, o.name) + " (" + strings.Join(names, ", ") + ") VALUES " + strings.Join(rows, ", ")
}

// values are those of a row by column, as literals.
func (o *oddTable) values(r *rand.Rand, target dbtest.Target, server, n, count int) map[string]string {
	values := map[string]string{"tag": fmt.Sprintf("'s%d-%d'", server, n), "k": o.keyOf(target, server, n),
		"second": o.secondOf(n), "name": nameOf(server, n), "login": nameOf(server, n)}
	for i, c := range o.columns {
		values[fmt.Sprintf("c%d", i)] = "NULL"
		if r.IntN(5) > 0 {
			values[fmt.Sprintf("c%d", i)] = c.values[r.IntN(len(c.values))]
		}
	}
	astray := server == oddServer && n == oddRow
	for i, p := range o.parents {
		ref, also := fmt.Sprintf("ref%d", i), fmt.Sprintf("also%d", i)
		m, none := r.IntN(count), r.IntN(5) == 0
		if o.fault == "orphan" && astray {
			m, none = count+oddBeyond, false
		}
		values[ref], values[also] = "NULL", "NULL"
		if i == 0 {
			if values["their"] = nameOf(server, m); none {
				values["their"] = "NULL"
			}
		}
		switch {
		case none:
		case p.natural:
			values[ref] = nameOf(server, m)
		default:
			values[ref], values[also] = p.keyOf(target, server, m), p.secondOf(m)
		}
	}
	if o.bag != nil {
		values["bag"] = o.bagOf(r, target, server, count, o.fault == "lost" && astray)
	}
	values["own"] = o.keyOf(target, server, r.IntN(count))
	kind := r.IntN(len(kinds))
	values["kind"], values["way"] = kinds[kind], "77"
	if kind < len(o.either) {
		values["way"] = o.either[kind].keyOf(target, server, r.IntN(count))
	}
	// No two servers have the same number for one login.
	values["number"], values["half"] = fmt.Sprint(r.IntN(1000)*100+server), fmt.Sprint(r.IntN(1000)-500)
	values["least"], values["most"] = fmt.Sprint(r.IntN(100)-50), fmt.Sprint(r.IntN(100)-50)
	values["narrow"], values["filled"], values["less"], values["more"] = "'abc'", "1", fmt.Sprint(r.IntN(100)), "5"
	if astray {
		values["narrow"], values["filled"], values["less"] = "'Zoé龍😀and more'", "NULL", "500"
	}
	return values
}

// bagOf is a text that leads to two rows, as a literal.
func (o *oddTable) bagOf(r *rand.Rand, target dbtest.Target, server, count int, lost bool) string {
	if r.IntN(5) == 0 && !lost {
		return "NULL"
	}
	first := r.IntN(count)
	if lost {
		first = count + oddBeyond
	}
	one := strings.Trim(o.bag.keyOf(target, server, first), "'")
	two := strings.Trim(o.bag.keyOf(target, server, r.IntN(count)), "'")
	if !o.document {
		return "'" + one + "," + two + "'"
	}
	if o.bag.key == "text" {
		one = `"` + one + `"`
	}
	return `'{"p": ` + one + `,  "q": ["` + two + `"], "n": 1.50}'`
}
