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
	add := func(to *big.Rat, d *database, q *statement) error {
		var value any
		if err := d.row(ctx, q, &value); err != nil {
			return err
		}
		if value == nil {
			return nil // there are no rows
		}
		n, ok := new(big.Rat).SetString(textOf(value))
		if !ok {
			return fmt.Errorf("%s: %s is %q, which is no number", d.name, s.Expression, textOf(value))
		}
		to.Add(to, n)
		return nil
	}
	cast := func(k Kind) string {
		if k == PostgreSQL {
			return "(" + s.Expression + ")::text"
		}
		return s.Expression
	}
	for i, f := range w.feeds {
		if f == nil {
			continue
		}
		sel := v.m.selection(i)
		q := newStatement(sel.kind, "SELECT ", cast(sel.kind))
		sel.from(q, f)
		if err := add(want, v.m.servers[i].database, q); err != nil {
			return err
		}
	}
	got, t := new(big.Rat), v.m.target
	err := add(got, t, newStatement(t.kind, "SELECT ", cast(t.kind), " FROM ", t.kind.quote(s.Table)))
	v.compare("sum", s.Table, "", s.Name, ratText(want), ratText(got))
	return err
}

func ratText(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	return strings.TrimRight(n.FloatString(6), "0")
}
