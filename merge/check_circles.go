package merge

import (
	"slices"
	"strings"
)

// circles reports foreign keys that refer to each other, once for each circle, and how that is dealt with.
func (c *checking) circles() {
	seen := map[string]bool{}
	for _, w := range c.m.order {
		for _, ref := range w.circular {
			if ref.parent == w.name {
				c.report.warn(Problem{Code: CodeSelfReference, Table: w.name,
					Column:  strings.Join(ref.columns, ", "),
					Message: "it refers to its own table; " + c.later([]*work{w}, true)})
			}
		}
		if group := c.circle(w); len(group) > 1 && !seen[w.name] {
			for _, member := range group {
				seen[member.name] = true
			}
			c.circleOf(group)
		}
	}
	if c.m.target.kind != PostgreSQL {
		return
	}
	for _, group := range c.m.stuck {
		c.report.problem(Problem{Code: CodeCircle, Table: strings.Join(group, ", "),
			Message: "the foreign keys form a circle in which no column can be NULL for a while",
			Remedy: "make one of the columns nullable in the target, or drop the constraint until the merge " +
				"is done"})
	}
}

// circle returns the tables that stand in a circle with one, in the order in which they are copied. What can
// be reached by such references is all of it, since they lead nowhere else.
func (c *checking) circle(w *work) []*work {
	reached := []*work{w}
	for i := 0; i < len(reached); i++ {
		for _, ref := range reached[i].circular {
			if next := c.m.works[ref.parent]; next != nil && !slices.Contains(reached, next) {
				reached = append(reached, next)
			}
		}
	}
	slices.SortFunc(reached, func(a, b *work) int {
		return slices.Index(c.m.order, a) - slices.Index(c.m.order, b)
	})
	return reached
}

// circleOf reports a circle of several tables.
func (c *checking) circleOf(group []*work) {
	var names, refers []string
	for _, w := range group {
		names = append(names, w.name)
		for _, ref := range w.circular {
			if ref.parent != w.name {
				refers = append(refers, qualified(w, ref)+" refers to "+ref.parent)
			}
		}
	}
	for i := range refers[1:] { // the verb is said once
		refers[i+1] = strings.Replace(refers[i+1], " refers to ", " to ", 1)
	}
	stuck := slices.ContainsFunc(c.m.stuck, func(s []string) bool { return slices.Contains(s, names[0]) })
	if stuck && c.m.target.kind == PostgreSQL {
		return // that is a problem, and is reported as such
	}
	c.report.warn(Problem{Code: CodeCircle, Table: strings.Join(names, ", "),
		Message: strings.Join(refers, ", ") + "; " + c.later(group, false)})
}

// later says when the references of a circle lead somewhere.
func (c *checking) later(group []*work, self bool) string {
	if c.m.target.kind != PostgreSQL {
		return "verify looks at foreign keys when all rows are there"
	}
	var filled []string
	for _, w := range group {
		for _, ref := range w.circular {
			if (ref.parent == w.name) == self && ref.enforced && w.nullable(ref) != "" {
				filled = append(filled, qualified(w, ref))
			}
		}
	}
	switch len(filled) {
	case 0: // only the plan knows of it, so no database minds
		return "verify looks at it when all rows are there"
	case 1:
		return filled[0] + " is filled in when all rows are there"
	}
	return strings.Join(filled, ", ") + " are filled in when all rows are there"
}

func qualified(w *work, ref reference) string { return w.name + "." + strings.Join(ref.columns, ", ") }
