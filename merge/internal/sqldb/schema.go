package sqldb

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// reading is a query of a catalog, with a table in the first column, and what adds a row of it to the table.
type reading struct {
	text string
	add  func(t *Table, row []string)
}

// readTables makes the tables that the first of some readings names, and adds to them what all of them find.
func readTables(ctx context.Context, d *DB, readings ...reading) (map[string]*Table, error) {
	tables := map[string]*Table{}
	for i, r := range readings {
		rows, err := d.Strings(ctx, d.SQL(here(r.text)))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if i == 0 {
				tables[row[0]] = &Table{Name: row[0]}
			}
			if t := tables[row[0]]; t != nil {
				r.add(t, row)
			}
		}
	}
	return tables, nil
}

// familyOf returns the family that has a type among its words.
func familyOf(name string, words map[Family]string) Family {
	for family, types := range words {
		if slices.Contains(strings.Fields(types), name) {
			return family
		}
	}
	return FamilyOther
}

// references returns what adds foreign keys. The rows hold table, constraint, column, parent table and parent
// column, and the columns of a constraint follow each other. Without a parent column it refers to the primary
// key.
func references() func(t *Table, row []string) {
	last := ""
	return func(t *Table, row []string) {
		if name := row[0] + "\x00" + row[1]; name != last {
			t.References = append(t.References, Reference{Parent: row[3], Enforced: true})
			last = name
		}
		ref := &t.References[len(t.References)-1]
		if ref.Columns = append(ref.Columns, row[2]); row[4] != "" {
			ref.Target = append(ref.Target, row[4])
		}
	}
}

// abroad adds a foreign key to a table of another schema. The row holds table, constraint and that table.
func abroad(t *Table, row []string) { t.Abroad = append(t.Abroad, row[1]+" refers to "+row[2]) }

// columns returns what adds columns, with their families by the names of their types. The rows hold table,
// column, type and its name, then 1 where the column takes NULL, has a default, is counted, and is computed,
// then how many characters and digits of a second it keeps, its collation, the rule by which it folds texts,
// its default, the expression that computes it, and the type without limits and as it is spelled.
func columns(family func(name string) Family) func(t *Table, row []string) {
	return func(t *Table, row []string) {
		c := &Column{
			Name: row[1], Declared: row[2], Family: family(row[3]), labels: row[3] == "(enum)",
			Nullable: row[4] == "1", HasDefault: row[5] == "1" || row[6] == "1", counted: row[6] == "1",
			Generated: row[7] == "1", Collation: row[10], folds: row[11], Default: wholeNumber(row[12]),
			unlimited: row[14], Spelled: row[15],
		}
		if c.Family == FamilyText {
			c.MaxChars, _ = strconv.Atoi(row[8]) // The limit of a LONGTEXT may not fit, and never matters.
		}
		c.precision, _ = strconv.Atoi(row[9])
		def, ok := strings.CutPrefix(strings.Trim(row[12], "()"), "nextval(`")
		if ok && c.Family == FamilyInt { // the default of another column may be such a text
			c.sequence = "`" + def
		}
		t.Columns = append(t.Columns, c)
		compute(t, c.Name, row[13])
	}
}

// addTrigger adds a trigger. The row holds table and trigger.
func addTrigger(t *Table, row []string) { t.Triggers = append(t.Triggers, row[1]) }

// indexes returns what adds indexes. The rows hold table, index, 1 where it is unique, and a column, and the
// columns of an index follow each other. Those of unique ones hold more, which another function knows.
func indexes(unique func(t *Table, row []string)) func(t *Table, row []string) {
	last := ""
	return func(t *Table, row []string) {
		if row[2] == "1" {
			unique(t, row)
			return
		}
		if name := row[0] + "." + row[1]; name != last {
			t.Sorted, last = append(t.Sorted, nil), name
		}
		n := len(t.Sorted) - 1
		t.Sorted[n] = append(t.Sorted[n], row[3])
	}
}

// addPart adds a part of a unique key.
func addPart(t *Table, key UniqueKey, part KeyPart) {
	if n := len(t.Unique); n == 0 || t.Unique[n-1].Name != key.Name {
		t.Unique = append(t.Unique, key)
	}
	last := &t.Unique[len(t.Unique)-1]
	last.Parts = append(last.Parts, part)
}

// compute puts the expression of a generated column into the keys that contain it, because keys are compared
// before such a column has a value. The keys were read before. A column that is not generated has "".
func compute(t *Table, column, expression string) {
	for i := range t.Unique {
		for n, part := range t.Unique[i].Parts {
			if part.Column == column && expression != "" {
				t.Unique[i].Parts[n] = KeyPart{Expression: "(" + expression + ")"}
			}
		}
	}
}
