package merge_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// oddType is a type of one kind of database, with values that are hard to carry over, as literals.
type oddType struct {
	declared string
	values   []string
}

// oddTypes are the types of the columns of hostile schemas.
func oddTypes(dialect string) []oddType {
	text := []string{"''", "' '", "'a '", "'Zoé'", "'ZOÉ'", "'龍😀'", "'it''s'", "'0'", "'NULL'", "'a\tb'"}
	switch dialect {
	case "postgres":
		return []oddType{
			{"bigint", []string{"9223372036854775807", "-9223372036854775808", "0"}},
			{"smallint", []string{"-32768", "32767"}},
			{"numeric", []string{"0.1000", "123456789012345678901234567890.123", "'NaN'"}},
			{"numeric(20,4)", []string{"1.5", "-9999999999999999.9999"}},
			{"double precision", []string{"0.1", "1e300", "'-0'", "'NaN'", "'Infinity'"}},
			{"real", []string{"0.1", "3.4e38"}},
			{"text", append(text, `E'a\nb\\c'`)},
			{"varchar(30)", text},
			{"char(5)", []string{"'ab'", "''"}},
			{"bytea", []string{`'\x'`, `'\x00ff'`, `'\x5c78'`}},
			{
				"timestamptz",
				[]string{
					"'2025-06-07 08:09:10.123456+03'",
					"'infinity'",
					"'0044-03-15 00:00:00+00 BC'",
					"'12025-01-01 00:00+00'",
				},
			},
			{"timestamp(0)", []string{"'2025-06-07 08:09:10'", "'-infinity'"}},
			{"date", []string{"'2024-02-29'", "'infinity'", "'0044-03-15 BC'"}},
			{
				"time",
				[]string{"'24:00:00'", "'10:11:12.123456'"},
			},
			{"timetz", []string{"'10:11:12.5+03'", "'00:00:00-11:30'"}},
			{"interval", []string{"'1 mon -2 days 03:04:05.6'"}},
			{"boolean", []string{"TRUE", "FALSE"}},
			{
				"jsonb",
				[]string{`'{"b": 1.50, "a": [null, ""]}'`, "'0'", "'null'"},
			},
			{"json", []string{`'{"a":1,  "a":2}'`}},
			{
				"uuid",
				[]string{"'6ba7b810-9dad-11d1-80b4-00c04fd430c8'"},
			},
			{"integer[]", []string{"'{1,NULL,3}'", "'{}'", "'{{1},{2}}'"}},
			{"text[]", []string{`'{"a,b",NULL,""}'`}},
			{"inet", []string{"'10.0.0.1/8'"}},
		}
	case "mysql":
		return []oddType{
			{
				"BIGINT UNSIGNED",
				[]string{"18446744073709551615", "0"},
			},
			{"INT", []string{"-2147483648", "2147483647"}},
			{
				"DECIMAL(30,10)",
				[]string{"12345678901234567890.0000000001", "-0.5"},
			},
			{"DOUBLE", []string{"0.1", "1e300"}},
			{"FLOAT", []string{"0.1", "16777216"}},
			{"VARCHAR(40) CHARACTER SET utf8mb4", text},
			{"VARCHAR(40) CHARACTER SET latin1", []string{"'Zoé'", "'a '"}},
			{"CHAR(5)", []string{"'ab'", "''"}},
			{"LONGTEXT CHARACTER SET utf8mb4", text},
			{"VARBINARY(10)", []string{"X''", "X'00ff'", "X'2020'"}},
			{
				"LONGBLOB",
				[]string{"X''", "X'5c00'"},
			},
			{"DATETIME(6)", []string{"'2025-06-07 08:09:10.123456'", "'1000-01-01 00:00:00'"}},
			{
				"DATETIME",
				[]string{"'9999-12-31 23:59:59'"},
			},
			{"TIMESTAMP(3) NULL", []string{"'2025-06-07 08:09:10.123'"}},
			{
				"DATE",
				[]string{"'9999-12-31'", "'2024-02-29'"},
			},
			{"TIME(6)", []string{"'838:59:59'", "'-00:00:01.5'"}},
			{"YEAR", []string{"1901", "2155"}},
			{"ENUM('z','a','M','')", []string{"'z'", "'M'", "''"}},
			{
				"SET('x','b','a')",
				[]string{"'a,x'", "''"},
			},
			{"JSON", []string{`'{"a": 1.50, "b": [1, null]}'`, "'[]'"}},
			{"BIT(8)", []string{"b'10000001'", "b'0'"}},
			{"TINYINT(1)", []string{"0", "1", "-5"}},
		}
	}
	return []oddType{
		{"INTEGER", []string{"9223372036854775807", "-9223372036854775808", "'text'", "1.5", "X'00'"}},
		{
			"TEXT",
			append(text, "X'ff00'", "char(0) || 'x'"),
		},
		{"VARCHAR(30)", text},
		{"REAL", []string{"0.1", "1e300", "-0.0", "'x'"}},
		{
			"BLOB",
			[]string{"X''", "X'00ff'", "'text'", "5"},
		},
		{"DECIMAL(12,4)", []string{"1.5", "12345678.9", "'1e'"}},
		{
			"DATETIME",
			[]string{
				"'2025-06-07 08:09:10.123456+03:00'",
				"1700000000",
				"1700000000123",
				"'2025-06-07T08:09:10Z'",
				"''",
			},
		},
		{
			"DATE",
			[]string{"'0000-00-00'", "'2024-02-29'", "20240229"},
		},
		{"BOOLEAN", []string{"0", "1", "'true'", "7"}},
		{"JSON", []string{`'{"a":1.50}'`, "'no json'"}},
		{"", []string{"1", "'1'", "1.0", "X'31'"}},
	}
}

// oddTable is a table of a hostile schema. Each row has a tag that no other row of the table has on any server.
type oddTable struct {
	name, key   string // how the key is made: made, counted, text, pair, bytes or none
	columns     []oddType
	parents     []*oddTable // of the columns ref0, ref1 and so on
	declared    []bool      // by parent: whether there is a foreign key
	keyDeclared string
}

// single reports whether children can refer to the key.
func (o *oddTable) single() bool { return o.key == "made" || o.key == "counted" || o.key == "text" }

// refusedDates are values that PostgreSQL can store and that a merge cannot copy yet: it refuses them with an
// error. Only a run of many seeds has them.
var refusedDates = []string{"infinity'", " BC'", "'12025-"}

// withoutDates leaves out the values that cannot be copied yet.
func withoutDates(types []oddType) []oddType {
	for i, c := range types {
		if strings.HasPrefix(c.declared, "date") || strings.HasPrefix(c.declared, "timestamp") {
			types[i].values = slices.DeleteFunc(slices.Clone(c.values), func(v string) bool {
				return slices.ContainsFunc(
					refusedDates,
					func(part string) bool { return strings.Contains(v, part) },
				)
			})
		}
	}
	return slices.DeleteFunc(types, func(c oddType) bool { return len(c.values) == 0 })
}

// oddSchema makes tables from a seed.
func oddSchema(r *rand.Rand, dialect string, count int) (tables []*oddTable) {
	types := oddTypes(dialect)
	if os.Getenv("SNOWFLAKE_HOSTILE") == "" {
		types = withoutDates(types)
	}
	for n := range count {
		o := &oddTable{
			name: fmt.Sprintf("t%02d_%s", n, []string{"plain", "Mixed", "select", "a b", "é"}[r.IntN(5)]),
			key:  []string{"made", "made", "counted", "counted", "text", "pair", "bytes", "none"}[r.IntN(8)],
		}
		for range 1 + r.IntN(4) {
			o.columns = append(o.columns, types[r.IntN(len(types))])
		}
		for _, parent := range tables {
			if parent.single() && len(o.parents) < 2 && r.IntN(4) == 0 {
				o.parents, o.declared = append(o.parents, parent), append(o.declared, r.IntN(2) == 0)
			}
		}
		o.keyDeclared = map[string]string{"made": "BIGINT", "counted": "BIGINT", "text": "VARCHAR(40)", "pair": "BIGINT",
			"bytes": map[string]string{"postgres": "BYTEA", "mysql": "VARBINARY(20)", "sqlite": "BLOB"}[dialect]}[o.key]
		tables = append(tables, o)
	}
	return tables
}

// quoted is a name as an identifier.
func quoted(target dbtest.Target, name string) string {
	if target.Dialect == "mysql" {
		return "`" + name + "`"
	}
	return `"` + name + `"`
}

// create is the statement that makes the table.
func (o *oddTable) create(target dbtest.Target) string {
	lines := []string{"tag VARCHAR(40) NOT NULL"}
	if o.key != "none" {
		lines = append(lines, "k "+o.keyDeclared+" NOT NULL")
	}
	for i, c := range o.columns {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("c%d %s", i, c.declared)))
	}
	for i, p := range o.parents {
		lines = append(lines, fmt.Sprintf("ref%d %s", i, p.keyDeclared))
	}
	switch o.key {
	case "none":
	case "pair":
		lines = append(lines, "second VARCHAR(5) NOT NULL", "PRIMARY KEY (second, k)")
	default:
		lines = append(lines, "PRIMARY KEY (k)")
	}
	for i, p := range o.parents {
		if o.declared[i] {
			lines = append(lines, fmt.Sprintf("FOREIGN KEY (ref%d) REFERENCES %s (k)", i, quoted(target, p.name)))
		}
	}
	return "CREATE TABLE " + quoted(target, o.name) + " (" + strings.Join(lines, ", ") + ")"
}

// keyOf is the key of a row as a literal.
func (o *oddTable) keyOf(target dbtest.Target, server, n int) string {
	switch o.key {
	case "made", "pair":
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

// rows are the statements that fill the table of a server.
func (o *oddTable) rows(r *rand.Rand, target dbtest.Target, server, count int) (all []string) {
	for n := range count {
		values := []string{fmt.Sprintf("'s%d-%d'", server, n)}
		if o.key != "none" {
			values = append(values, o.keyOf(target, server, n))
		}
		for _, c := range o.columns {
			if r.IntN(5) == 0 {
				values = append(values, "NULL")
			} else {
				values = append(values, c.values[r.IntN(len(c.values))])
			}
		}
		for _, p := range o.parents {
			if r.IntN(5) == 0 {
				values = append(values, "NULL")
			} else {
				values = append(values, p.keyOf(target, server, r.IntN(count)))
			}
		}
		if o.key == "pair" {
			values = append(values, []string{"'z'", "'A'", "'b'"}[n%3])
		}
		all = append(all, "INSERT INTO "+quoted(target, o.name)+" VALUES ("+strings.Join(values, ", ")+")")
	}
	return all
}

// plan is what a user writes for the table.
func (o *oddTable) plan() *merge.TablePlan {
	p := &merge.TablePlan{Policy: merge.Copy, Renumber: o.key == "counted"}
	for i, parent := range o.parents {
		if !o.declared[i] {
			p.References = append(p.References, merge.Reference{Column: fmt.Sprint("ref", i), Table: parent.name})
		}
	}
	return p
}

// question reads the table so that source and target have the same answer: every value as bytes or as the
// database writes it, a reference as the tag of its parent, and no key that was counted.
func (o *oddTable) question(target dbtest.Target) string {
	show := map[string]string{
		"sqlite": "typeof(%[1]s) || ':' || quote(%[1]s)", "postgres": "COALESCE(%[1]s::text, 'NULL')",
		"mysql": "COALESCE(CONCAT(HEX(%[1]s), ':', CAST(%[1]s AS CHAR)), 'NULL')",
	}[target.Dialect]
	list, joins := []string{"c.tag"}, ""
	names := []string{}
	if o.key != "none" && o.key != "counted" {
		names = append(names, "c.k")
	}
	if o.key == "pair" {
		names = append(names, "c.second")
	}
	for i := range o.columns {
		names = append(names, fmt.Sprintf("c.c%d", i))
	}
	for i, p := range o.parents {
		joins += fmt.Sprintf(" LEFT JOIN %s p%d ON p%d.k = c.ref%d", quoted(target, p.name), i, i, i)
		list = append(
			list,
			fmt.Sprintf("CASE WHEN c.ref%d IS NULL THEN 'none' ELSE COALESCE(p%d.tag, 'lost') END", i, i),
		)
	}
	for _, name := range names {
		list = append(list, fmt.Sprintf(show, name))
	}
	text := strings.Join(list, " || '|' || ")
	if target.Dialect == "mysql" {
		text = "CONCAT(" + strings.Join(list, ", '|', ") + ")"
	}
	return "SELECT " + text + " FROM " + quoted(target, o.name) + " c" + joins
}
