package router

import (
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// renames are the names that a statement uses for tables in place of those of the models. They are needed
// because GORM's association mode writes conditions before a statement is routed, and so with the original
// names. The relations of a schema on a shard have the names of its tables.
type renames struct {
	tables  map[string]string // of models and join tables, to their names on the shard
	aliased *shardSchema      // of the statement, if that uses an alias for its own table
}

// columnsOf returns the name of a table in front of a column, and whether it differs from the given one.
func (n renames) columnsOf(table string) (name string, changed bool) {
	if on := n.aliased; on != nil && table != "" && (table == on.base || table == on.schema.Table) {
		return on.alias, table != on.alias
	}
	name, changed = n.tables[table]
	return name, changed
}

// in renames the tables in the conditions and joins that GORM holds as values. It copies what it changes,
// because statements share clauses.
func (n renames) in(stmt *gorm.Statement) {
	if of, ok := stmt.Clauses["WHERE"]; ok {
		if where, renamed := n.expression(of.Expression); renamed {
			of.Expression = where
			stmt.Clauses["WHERE"] = of
		}
	}
	if of, ok := stmt.Clauses["FROM"]; ok {
		if from, isFrom := of.Expression.(clause.From); isFrom && len(from.Joins) > 0 {
			joins := make([]clause.Join, len(from.Joins))
			for i, join := range from.Joins {
				if name, mine := n.tables[join.Table.Name]; mine {
					join.Table.Name = name
				}
				join.ON.Exprs, _ = n.expressions(join.ON.Exprs)
				joins[i] = join
			}
			from.Joins = joins
			of.Expression = from
			stmt.Clauses["FROM"] = of
		}
	}
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

// expression returns the expression itself unless it has to be renamed, because a copy is an allocation in
// every statement.
func (n renames) expression(e clause.Expression) (_ clause.Expression, changed bool) {
	switch c := e.(type) {
	case clause.Where:
		if c.Exprs, changed = n.expressions(c.Exprs); changed {
			return c, true
		}
	case clause.AndConditions:
		if c.Exprs, changed = n.expressions(c.Exprs); changed {
			return c, true
		}
	case clause.OrConditions:
		if c.Exprs, changed = n.expressions(c.Exprs); changed {
			return c, true
		}
	case clause.NotConditions:
		if c.Exprs, changed = n.expressions(c.Exprs); changed {
			return c, true
		}
	case clause.IN:
		if column, renamed := n.column(c.Column); renamed {
			c.Column = column
			return c, true
		}
	case clause.Eq:
		if n.both(&c.Column, &c.Value) {
			return c, true
		}
	case clause.Neq:
		if n.both(&c.Column, &c.Value) {
			return c, true
		}
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
		if name, mine := n.columnsOf(c.Table); mine {
			c.Table = name
			return c, true
		}
	case []clause.Column:
		own := append([]clause.Column(nil), c...)
		for i := range own {
			if name, mine := n.columnsOf(own[i].Table); mine {
				own[i].Table, changed = name, true
			}
		}
		if changed {
			return own, true
		}
	}
	return v, false
}
