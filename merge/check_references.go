package merge

import (
	"slices"
	"strings"
)

// undeclared warns of columns that look like references to a table whose keys change, and that neither the
// database nor the plan knows of: what is in them would lead to other rows afterwards.
func (c *checking) undeclared() {
	for _, parent := range c.m.order {
		if !parent.counted() || !parent.plan.Renumber && !parent.plan.Policy.collapses() {
			continue
		}
		key := strings.ToLower(parent.to.primary[0])
		name := strings.ToLower(parent.name)
		names := []string{name + "_" + key, singular(name) + "_" + key}
		for _, w := range c.m.order {
			for _, col := range w.to.columns {
				if col.family != familyInt || !slices.Contains(names, strings.ToLower(col.name)) ||
					w.refers(col.name) || w == parent {
					continue
				}
				c.report.warn(Problem{Code: CodeUndeclared, Table: w.name, Column: col.name,
					Message: "it looks like a reference to " + parent.name + ", whose keys change, and nobody says " +
						"that it is one: it stays as it is",
					Remedy: "if it is one, list it under references: of the table"})
			}
		}
	}
}

// refers tells whether a column is part of a reference that is known.
func (w *work) refers(column string) bool {
	return slices.ContainsFunc(w.refs, func(ref reference) bool { return slices.Contains(ref.columns, column) })
}

// singular is what a table's name is likely to be in the names of columns.
func singular(name string) string {
	if stem, found := strings.CutSuffix(name, "ies"); found {
		return stem + "y"
	}
	return strings.TrimSuffix(name, "s")
}
