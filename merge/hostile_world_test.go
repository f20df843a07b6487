package merge_test

import (
	"fmt"
	"math/rand/v2"
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
	name, key   string // how the key is made: made, counted, text, pair, enum, bytes or none
	policy      merge.Policy
	columns     []oddType
	parents     []*oddTable // of the columns ref0, ref1 and so on
	declared    []bool      // by parent: whether there is a foreign key
	natural     []bool      // by parent: whether it is referred to by its name
	keyDeclared string
	bag         *oddTable // the table to two of whose rows a text leads
	document    bool      // the text is JSON, not a list
	self        string    // a column that refers to the table itself: declared, planned or ""
}

// refers reports whether children can refer to the key.
func (o *oddTable) refers() bool { return o.key != "bytes" && o.key != "none" }

// double reports whether the key has two columns.
func (o *oddTable) double() bool { return o.key == "pair" || o.key == "enum" }

// oddSchema makes tables from a seed.
func oddSchema(r *rand.Rand, dialect string, count int) (tables []*oddTable) {
	types := oddTypes(dialect)
	for n := range count {
		o := &oddTable{
			name:   fmt.Sprintf("t%02d_%s", n, []string{"plain", "Mixed", "select", "a b", "é"}[r.IntN(5)]),
			key:    []string{"made", "made", "counted", "counted", "text", "pair", "enum", "bytes", "none"}[r.IntN(9)],
			policy: merge.Copy,
		}
		if o.key == "made" || o.key == "counted" {
			o.policy = []merge.Policy{merge.Copy, merge.Copy, merge.Rename, merge.Sum}[r.IntN(4)]
		}
		for range 1 + r.IntN(4) {
			o.columns = append(o.columns, types[r.IntN(len(types))])
		}
		for _, parent := range tables {
			if parent.refers() && len(o.parents) < 2 && r.IntN(4) == 0 {
				o.parents, o.declared = append(o.parents, parent), append(o.declared, r.IntN(2) == 0)
				o.natural = append(o.natural, parent.policy == merge.Rename && r.IntN(2) == 0)
			}
		}
		o.keyDeclared = map[string]string{"made": "BIGINT", "counted": "BIGINT", "text": "VARCHAR(40)", "pair": "BIGINT",
			"enum":  "BIGINT",
			"bytes": map[string]string{"postgres": "BYTEA", "mysql": "VARBINARY(20)", "sqlite": "BLOB"}[dialect]}[o.key]
		if o.refers() && !o.double() {
			o.self = []string{"", "", "", "declared", "planned"}[r.IntN(5)]
		}
		for _, t := range tables {
			if t.refers() && !t.double() && r.IntN(8) == 0 {
				o.bag, o.document = t, r.IntN(2) == 0
			}
		}
		tables = append(tables, o)
	}
	return tables
}

// secondDeclared is the type of the second column of the key. An ENUM is ordered as its members are declared.
func (o *oddTable) secondDeclared(dialect string) string {
	if o.key == "enum" {
		return map[string]string{"postgres": "odd", "mysql": "ENUM('z','A','b')", "sqlite": "VARCHAR(5)"}[dialect]
	}
	return "VARCHAR(5)"
}

func secondOf(n int) string { return []string{"'z'", "'A'", "'b'"}[n%3] }

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
		switch {
		case o.natural[i]:
			lines = append(lines, fmt.Sprintf("ref%d VARCHAR(40)", i))
		case p.double():
			lines = append(lines, fmt.Sprintf("ref%d %s, also%d %s", i, p.keyDeclared, i, p.secondDeclared(target.Dialect)))
		default:
			lines = append(lines, fmt.Sprintf("ref%d %s", i, p.keyDeclared))
		}
	}
	if o.bag != nil {
		lines = append(lines, "bag VARCHAR(200)")
	}
	if o.self != "" {
		lines = append(lines, "own "+o.keyDeclared)
	}
	switch o.policy {
	case merge.Rename:
		lines = append(lines, "name VARCHAR(40) NOT NULL UNIQUE")
	case merge.Sum:
		lines = append(lines, "login VARCHAR(40) NOT NULL UNIQUE", "gold BIGINT NOT NULL")
	}
	switch {
	case o.key == "none":
	case o.double():
		lines = append(lines, "second "+o.secondDeclared(target.Dialect)+" NOT NULL", "PRIMARY KEY (second, k)")
	default:
		lines = append(lines, "PRIMARY KEY (k)")
	}
	if o.self == "declared" {
		lines = append(lines, "FOREIGN KEY (own) REFERENCES "+quoted(target, o.name)+" (k)")
	}
	for i, p := range o.parents {
		if o.declared[i] {
			columns, keys := o.reference(i)
			lines = append(lines, fmt.Sprintf("FOREIGN KEY (%s) REFERENCES %s (%s)", strings.Join(columns, ", "),
				quoted(target, p.name), strings.Join(keys, ", ")))
		}
	}
	return "CREATE TABLE " + quoted(target, o.name) + " (" + strings.Join(lines, ", ") + ")"
}

// reference returns the columns of a reference, and those of the parent.
func (o *oddTable) reference(i int) (columns, of []string) {
	columns, of = []string{fmt.Sprintf("ref%d", i)}, []string{"k"}
	switch {
	case o.natural[i]:
		of = []string{"name"}
	case o.parents[i].double(): // in the order of the primary key, as MySQL and SQLite want it
		columns, of = []string{fmt.Sprintf("also%d", i), columns[0]}, []string{"second", "k"}
	}
	return columns, of
}

// keyOf is the key of a row as a literal.
func (o *oddTable) keyOf(target dbtest.Target, server, n int) string {
	switch o.key {
	case "made", "pair", "enum":
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
		for i, p := range o.parents {
			m, none := r.IntN(count), r.IntN(5) == 0
			switch {
			case none && p.double() && !o.natural[i]:
				values = append(values, "NULL", "NULL")
			case none:
				values = append(values, "NULL")
			case o.natural[i]:
				values = append(values, nameOf(server, m))
			case p.double():
				values = append(values, p.keyOf(target, server, m), secondOf(m))
			default:
				values = append(values, p.keyOf(target, server, m))
			}
		}
		if o.bag != nil {
			values = append(values, o.bagOf(r, target, server, count))
		}
		if o.self != "" {
			values = append(values, o.keyOf(target, server, r.IntN(count)))
		}
		switch o.policy {
		case merge.Rename:
			values = append(values, nameOf(server, n))
		case merge.Sum:
			values = append(values, nameOf(server, n), fmt.Sprint(r.IntN(1000)))
		}
		if o.double() {
			values = append(values, secondOf(n))
		}
		all = append(all, "INSERT INTO "+quoted(target, o.name)+" VALUES ("+strings.Join(values, ", ")+")")
	}
	return all
}

// bagOf is a text that leads to two rows, as a literal.
func (o *oddTable) bagOf(r *rand.Rand, target dbtest.Target, server, count int) string {
	if r.IntN(5) == 0 {
		return "NULL"
	}
	one := strings.Trim(o.bag.keyOf(target, server, r.IntN(count)), "'")
	two := strings.Trim(o.bag.keyOf(target, server, r.IntN(count)), "'")
	if !o.document {
		return "'" + one + "," + two + "'"
	}
	if o.bag.key == "text" {
		one = `"` + one + `"`
	}
	return `'{"p": ` + one + `,  "q": ["` + two + `"], "n": 1.50}'`
}

// plan is what a user writes for the table.
func (o *oddTable) plan() *merge.TablePlan {
	p := &merge.TablePlan{Policy: o.policy, Renumber: o.key == "counted"}
	switch o.policy {
	case merge.Rename:
		p.Rename = &merge.RenamePlan{Column: "name", Keep: "first"}
	case merge.Sum:
		p.Key, p.Sum = []string{"login"}, []string{"gold"}
	}
	for i, parent := range o.parents {
		if !o.declared[i] {
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
	if o.self == "planned" {
		p.References = append(p.References, merge.Reference{Column: "own", Table: o.name})
	}
	return p
}
