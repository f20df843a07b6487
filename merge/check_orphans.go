package merge

import (
	"context"
	"slices"
	"strings"
)

// orphans counts the rows that refer to one that is not there, or that stays behind.
func (c *checking) orphans(ctx context.Context) error {
	return c.each(func(w *work, f *feed, s *server) error {
		for _, ref := range w.refs {
			if err := c.orphansOf(ctx, w, f, s, ref); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *checking) orphansOf(ctx context.Context, w *work, f *feed, s *server, ref reference) error {
	sel := c.m.selection(f.server)
	columns := strings.Join(ref.columns, ", ")
	count := func(condition string) (int64, error) {
		if condition == "" {
			return 0, nil
		}
		q := newStatement(s.kind, "SELECT COUNT(*) FROM ", s.kind.quote(f.from.name), " AS s WHERE ", condition)
		return s.number(ctx, q)
	}
	own := "1 = 1"
	if w.plan.Where != "" {
		own = "(" + w.plan.Where + ")"
	}
	missing := sel.orphan(w, ref, "s")
	if missing == "" {
		return nil
	}
	n, err := count(own + " AND " + missing)
	if err != nil {
		return err
	}
	p := Problem{Code: CodeOrphan, Server: s.Name, Table: w.name, Column: columns, Count: n,
		Message: "the reference leads to a row of " + ref.parent + " that is not there or is not copied"}
	switch {
	case n == 0:
	case w.plan.Orphans == "drop":
		p.Remedy = "not copied, as orphans: drop says"
		c.report.warn(p)
	case w.plan.Orphans == "null" && w.nullable(ref) != "":
		p.Remedy = "copied without the reference, as orphans: null says"
		c.report.warn(p)
	case w.plan.Orphans == "null":
		p.Remedy = "the reference cannot be NULL in the target: say orphans: drop"
		c.report.problem(p)
	default:
		p.Remedy = "say orphans: drop or orphans: null for the table, or correct the rows on their server"
		c.report.problem(p)
	}
	if w.plan.Orphans != "drop" || !slices.ContainsFunc(w.circular,
		func(r reference) bool { return r.parent == ref.parent }) {
		return nil
	}
	// In a circle a row that is dropped may be the parent of another one, and that of a third. That is
	// followed for one step.
	parent := c.m.works[ref.parent]
	var joins, refers []string
	for i, name := range ref.columns {
		joins = append(joins, "q."+s.kind.quote(ref.target[i])+" = s."+s.kind.quote(name))
		refers = append(refers, "s."+s.kind.quote(name)+" IS NOT NULL")
	}
	kept, keptParent := sel.kept(w, "s"), sel.kept(parent, "q")
	if keptParent == "" || kept == "" {
		return nil
	}
	n, err = count(kept + " AND " + strings.Join(refers, " AND ") + " AND NOT EXISTS (SELECT 1 FROM " +
		s.kind.quote(ref.parent) + " AS q WHERE " + strings.Join(append(joins, keptParent), " AND ") + ")")
	if n > 0 {
		c.report.problem(Problem{Code: CodeOrphan, Server: s.Name, Table: w.name, Column: columns, Count: n,
			Message: "the reference leads to a row of " + ref.parent +
				" that is dropped as an orphan itself, in a circle",
			Remedy: "say orphans: null for the table"})
	}
	return err
}
