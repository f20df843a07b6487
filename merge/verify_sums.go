package merge

import (
	"context"
	"fmt"
	"math/big"
	"strings"
)

// rebuilt makes sure that the tables that the game fills are empty.
func (v *verifying) rebuilt(ctx context.Context) error {
	t := v.m.target
	for name, p := range v.m.plan.Tables {
		if p.Policy != Rebuild || t.tables[name] == nil {
			continue
		}
		n, err := t.number(ctx, newStatement(t.kind, "SELECT COUNT(*) FROM ", t.kind.quote(name)))
		if err != nil {
			return err
		}
		v.compare("empty", name, "", "rows of a table that is computed anew", "0", fmt.Sprint(n))
	}
	return nil
}

// sum compares a sum over all sources with that of the target.
func (v *verifying) sum(ctx context.Context, s Sum) error {
	w := v.m.works[s.Table]
	if w == nil {
		return nil
	}
	want := new(big.Rat)
	for i, f := range w.feeds {
		if f == nil {
			continue
		}
		n, err := v.m.sumOfSource(ctx, s, i, f)
		if err != nil {
			return err
		}
		want.Add(want, n)
	}
	got, err := v.m.sumOfTarget(ctx, s)
	if err != nil {
		return err
	}
	v.compare("sum", s.Table, "", s.Name, ratText(want), ratText(got))
	return nil
}

// sumOfSource computes the expression of a sum over the rows of a server that are copied.
func (m *Merge) sumOfSource(ctx context.Context, s Sum, server int, f *feed) (*big.Rat, error) {
	sel := m.selection(server)
	q := newStatement(sel.kind, "SELECT ", s.expression(sel.kind))
	sel.from(q, f)
	return s.compute(ctx, m.servers[server].database, q)
}

func (m *Merge) sumOfTarget(ctx context.Context, s Sum) (*big.Rat, error) {
	t := m.target
	q := newStatement(t.kind, "SELECT ", s.expression(t.kind), " FROM ", t.kind.quote(s.Table))
	return s.compute(ctx, t, q)
}

func (s Sum) expression(k Kind) string {
	if k == PostgreSQL {
		return "(" + s.Expression + ")::text"
	}
	return s.Expression
}

func (s Sum) compute(ctx context.Context, d *database, q *statement) (*big.Rat, error) {
	var value any
	if err := d.row(ctx, q, &value); err != nil {
		return nil, err
	}
	n := new(big.Rat)
	if value == nil {
		return n, nil // there are no rows
	}
	if _, ok := n.SetString(textOf(value)); !ok {
		return nil, fmt.Errorf("%s: %s is %q, which is no number", d.name, s.Expression, textOf(value))
	}
	return n, nil
}

func ratText(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	return strings.TrimRight(n.FloatString(6), "0")
}
