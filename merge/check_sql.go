package merge

import (
	"context"
	"fmt"
)

// expressions tries the SQL that the plan has in it. What a database does not understand would otherwise
// be found by the first statement that needs it: by verify, when all is copied and the plan is fixed.
func (c *checking) expressions(ctx context.Context) error {
	m := c.m
	for _, w := range m.order {
		for i, f := range w.feeds {
			if f == nil || w.plan.Where == "" {
				continue
			}
			d := m.servers[i].database
			q := newStatement(d.kind, "SELECT 1 FROM ", d.kind.quote(w.name), " AS s WHERE (", w.plan.Where,
				") AND 1 = 0")
			if _, err := d.strings(ctx, q); err != nil {
				if ctx.Err() != nil {
					return err
				}
				c.report.problem(Problem{Code: CodePlan, Server: d.name, Table: w.name,
					Message: fmt.Sprintf("the database does not understand where: %s: %v", w.plan.Where, err),
					Remedy:  "correct where: of the table; it is a condition on its columns"})
			}
		}
	}
	if len(c.report.Problems) > 0 {
		return nil // the sums may have the same conditions in them
	}
	for _, s := range m.plan.Conserve {
		w := m.works[s.Table]
		if w == nil {
			continue
		}
		failed := func(server string, err error) error {
			if err == nil || ctx.Err() != nil {
				return err
			}
			c.report.problem(Problem{Code: CodePlan, Server: server, Table: s.Table,
				Message: fmt.Sprintf("the sum %q cannot be computed: %v", s.Name, err),
				Remedy: "correct its expression under conserve:, which every source and the target have to " +
					"understand"})
			return nil
		}
		for i, f := range w.feeds {
			if f == nil {
				continue
			}
			_, err := m.sumOfSource(ctx, s, i, f)
			if err := failed(m.servers[i].name, err); err != nil {
				return err
			}
		}
		_, err := m.sumOfTarget(ctx, s)
		if err := failed(m.target.name, err); err != nil {
			return err
		}
	}
	return nil
}
