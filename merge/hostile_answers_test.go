package merge_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// between separates the login and the gold of a sum from the rest of a row.
const between = "<>"

// question reads the table of a server, or of the target if the server is 0, so that source and target have the
// same answer: every value as bytes or as the database writes it, a reference as what tells its parent from
// others before and after, and no key that was counted. Only a sum is left to be added up.
func (o *oddTable) question(target dbtest.Target, server int) string {
	show := map[string]string{
		"sqlite": "typeof(%[1]s) || ':' || quote(%[1]s)", "postgres": "COALESCE(%[1]s::text, 'NULL')",
		"mysql": "COALESCE(CONCAT(HEX(%[1]s), ':', CAST(%[1]s AS CHAR)), 'NULL')",
	}[target.Dialect]
	list, joins := []string{"c.tag"}, ""
	names := []string{}
	// The row of the first server stays, so that its key is also the first one's.
	if o.key != "none" && o.key != "counted" {
		names = append(names, "c.k")
	}
	if o.double() {
		names = append(names, "c.second")
	}
	for i := range o.columns {
		names = append(names, fmt.Sprintf("c.c%d", i))
	}
	leads := func(alias string, p *oddTable, on, held string) {
		joins += " LEFT JOIN " + quoted(target, p.name) + " " + alias + " ON " + on
		label := "tag"
		if p.policy == merge.Sum {
			label = "login"
		}
		list = append(list, fmt.Sprintf("CASE WHEN c.%s IS NULL THEN 'none' ELSE COALESCE(%s.%s, 'lost') END", held, alias, label))
	}
	if o.self != "" {
		leads("o", o, "o.k = c.own", "own")
	}
	if o.bag != nil {
		for i, part := range o.parts(target) {
			alias := fmt.Sprintf("b%d", i)
			key := map[string]string{"mysql": "CAST(%s.k AS CHAR)", "postgres": "%s.k::text", "sqlite": "CAST(%s.k AS TEXT)"}[target.Dialect]
			leads(alias, o.bag, fmt.Sprintf(key, alias)+" = "+part, "bag")
		}
	}
	for i, p := range o.parents {
		columns, of := o.reference(i)
		var on []string
		for n, column := range columns {
			on = append(on, fmt.Sprintf("p%d.%s = c.%s", i, of[n], column))
		}
		leads(fmt.Sprintf("p%d", i), p, strings.Join(on, " AND "), fmt.Sprintf("ref%d", i))
	}
	for _, name := range names {
		list = append(list, fmt.Sprintf(show, name))
	}
	join := func(list []string, with string) string {
		if target.Dialect == "mysql" {
			return "CONCAT(" + strings.Join(list, ", '"+with+"', ") + ")"
		}
		return strings.Join(list, " || '"+with+"' || ")
	}
	switch {
	case o.policy == merge.Rename && server > 1:
		list = append(list, "CASE WHEN c.name LIKE 'n%' THEN "+join([]string{"c.name", fmt.Sprintf("'.s%d'", server)}, "")+
			" ELSE c.name END")
	case o.policy == merge.Rename:
		list = append(list, "c.name")
	}
	text := join(list, "|")
	if o.policy == merge.Sum {
		gold := map[string]string{"mysql": "CAST(c.gold AS CHAR)"}[target.Dialect]
		if gold == "" {
			gold = "CAST(c.gold AS VARCHAR(20))"
		}
		text = join([]string{"c.login", gold, text}, between)
	}
	return "SELECT " + text + " FROM " + quoted(target, o.name) + " c" + joins
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

// added joins rows of a sum that have one login: the gold is added up, and the rest is that of the first row.
func added(rows []string) (all []string) {
	gold, rest := map[string]int{}, map[string]string{}
	for _, row := range rows {
		parts := strings.SplitN(row, between, 3)
		n, err := strconv.Atoi(parts[1])
		if err != nil {
			panic(err)
		}
		gold[parts[0]] += n
		if _, found := rest[parts[0]]; !found {
			rest[parts[0]] = parts[2]
		}
	}
	for login, text := range rest {
		all = append(all, strings.Join([]string{login, strconv.Itoa(gold[login]), text}, between))
	}
	return all
}
