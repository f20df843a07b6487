package snowflakeplugin

import (
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// renames has the table of a shard for that of a model, and of a join table. GORM's association mode
// writes conditions before a statement is routed, so with the names that the models have by
// themselves.
type renames map[string]string

// in renames the tables in the conditions and the joins of a statement, as far as GORM holds them
// as values. It reports whether there were any. What it changes it copies: statements share it.
func (n renames) in(stmt *gorm.Statement) (changed bool) {
	if of, ok := stmt.Clauses["WHERE"]; ok {
		if where, renamed := n.expression(of.Expression); renamed {
			of.Expression, changed = where, true
			stmt.Clauses["WHERE"] = of
		}
	}
	if of, ok := stmt.Clauses["FROM"]; ok {
		if from, isFrom := of.Expression.(clause.From); isFrom {
			joins := make([]clause.Join, len(from.Joins))
			for i, join := range from.Joins {
				if name, mine := n[join.Table.Name]; mine {
					join.Table.Name, changed = name, true
				}
				if on, renamed := n.expressions(join.ON.Exprs); renamed {
					join.ON.Exprs, changed = on, true
				}
				joins[i] = join
			}
			from.Joins = joins
			of.Expression = from
			stmt.Clauses["FROM"] = of
		}
	}
	return changed
}

func (n renames) expressions(list []clause.Expression) (_ []clause.Expression, changed bool) {
	own := list
	for i, e := range list {
		renamed, ok := n.expression(e)
		if !ok {
			continue
		}
		if !changed {
			own, changed = append([]clause.Expression(nil), list...), true
		}
		own[i] = renamed
	}
	return own, changed
}

func (n renames) expression(e clause.Expression) (_ clause.Expression, changed bool) {
	switch c := e.(type) {
	case clause.Where:
		c.Exprs, changed = n.expressions(c.Exprs)
		return c, changed
	case clause.AndConditions:
		c.Exprs, changed = n.expressions(c.Exprs)
		return c, changed
	case clause.OrConditions:
		c.Exprs, changed = n.expressions(c.Exprs)
		return c, changed
	case clause.NotConditions:
		c.Exprs, changed = n.expressions(c.Exprs)
		return c, changed
	case clause.IN:
		c.Column, changed = n.column(c.Column)
		return c, changed
	case clause.Eq:
		changed = n.both(&c.Column, &c.Value)
		return c, changed
	case clause.Neq:
		changed = n.both(&c.Column, &c.Value)
		return c, changed
	}
	return e, false
}

func (n renames) both(column, value *any) bool {
	var first, second bool
	*column, first = n.column(*column)
	*value, second = n.column(*value)
	return first || second
}

func (n renames) column(v any) (_ any, changed bool) {
	switch c := v.(type) {
	case clause.Column:
		if name, mine := n[c.Table]; mine {
			c.Table = name
			return c, true
		}
	case []clause.Column:
		own := append([]clause.Column(nil), c...)
		for i := range own {
			if name, mine := n[own[i].Table]; mine {
				own[i].Table, changed = name, true
			}
		}
		if changed {
			return own, true
		}
	}
	return v, false
}
