package router

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// schemas has GORM's schemas of the router's models, by shard.
type schemas struct {
	*shardmap.Topology
	shard []shardSchemas
}

// shardSchemas are the schemas on one shard. They are parsed separately for each shard, into a cache of
// their own, and differ only in the names of their tables. Schemas of related models are parsed together,
// so their relations lead to tables of the same shard.
type shardSchemas struct {
	once   sync.Once
	cache  sync.Map
	byType map[reflect.Type]*shardSchema
	names  map[string]string // of the tables of models and join tables, and their names on the shard
	quoted map[string]string // those names in quotes
	texts  map[string]bool   // by which statements name the tables
	err    error
}

// shardSchema is the schema of a model or a join table on one shard, and how its statements name the table.
//
// A statement on a model calls the table by the name that it has in the model: orders_07 AS orders. So a
// condition that an application writes as text, such as orders.state = ?, is right on every shard.
type shardSchema struct {
	schema *schema.Schema
	shard  *shardSchemas
	base   string // the name of the table in the model
	// alias is base without a schema of PostgreSQL, and the rest is the table under this name. A join
	// table has none of them.
	alias string
	expr  *clause.Expr
	from  clause.Expression
}

func (s *schemas) onShard(shard int) (*shardSchemas, error) {
	own := &s.shard[shard]
	own.once.Do(func() { own.err = s.parse(shard, own) })
	return own, own.err
}

// shardSchema returns the schema of a model or a join table on a shard.
func (s *schemas) shardSchema(shard int, t reflect.Type) (*shardSchema, error) {
	own, err := s.onShard(shard)
	if err != nil {
		return nil, err
	}
	if found := own.byType[t]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("%w: %v", errs.ErrNotSharded, t)
}

func (s *schemas) parse(shard int, own *shardSchemas) error {
	db := s.Databases[s.Entry(shard).Database]
	own.byType, own.names, own.texts = map[reflect.Type]*shardSchema{}, map[string]string{}, map[string]bool{}
	own.quoted = map[string]string{}
	for _, m := range s.Sharded {
		parsed, err := schema.Parse(m.Value, &own.cache, db.NamingStrategy)
		if err != nil {
			return fmt.Errorf("snowflakeplugin: %s on shard %d: %w", m.Base.Name, shard, err)
		}
		if _, err := s.Engine.Plans.PrepareOn(parsed, s.planShard(shard, m), func() {}); err != nil {
			return err
		}
		own.byType[m.Base.ModelType] = &shardSchema{schema: parsed, shard: own, base: m.Base.Table}
	}
	for _, m := range s.Sharded {
		table := own.byType[m.Base.ModelType]
		parsed := table.schema
		parsed.Table = s.Entry(shard).TableOn(table.base)
		own.names[table.base] = parsed.Table
		_, table.alias = dialect.Split(table.base)
		table.expr = named(db.Statement.Quote(parsed.Table) + " AS " + db.Statement.Quote(table.alias))
		table.from = clause.From{Tables: []clause.Table{{Name: table.expr.SQL, Raw: true}}}
		own.texts[table.expr.SQL] = true
		for _, relation := range parsed.Relationships.Many2Many {
			join := relation.JoinTable
			if own.byType[join.ModelType] == nil {
				base := join.Table
				join.Table = s.Entry(shard).TableOn(base)
				own.names[base] = join.Table
				own.byType[join.ModelType] = &shardSchema{schema: join, shard: own, base: base}
			}
		}
	}
	for base, name := range own.names {
		own.quoted[base] = db.Statement.Quote(name)
	}
	return nil
}

// planShard describes the shard to the plan that fills rows of a model.
func (s *schemas) planShard(shard int, m *shardmap.Model) *fill.Shard {
	rules := keyRules{Topology: s.Topology, model: m, shard: shard}
	check := func(key any) error { return rules.checkID(m.Key, key) }
	return &fill.Shard{Number: s.Entry(shard).Residue, Count: s.Entry(shard).Modulus, Check: check}
}

// verb is what a statement does.
type verb int

const (
	reads verb = iota
	creates
	updates
	deletes
)

// usualText is the length of a text that most SELECTs do not exceed.
const usualText = 256

// name makes a statement use the table of the shard, under the name that the table has in the model if it
// can. An INSERT cannot. It returns what the statement renames besides.
func (s *shardSchema) name(stmt *gorm.Statement, what verb) renames {
	aliased := renames{s.shard.names, s}
	stmt.TableExpr, stmt.Table = nil, s.schema.Table
	switch {
	case s.alias == "" || what == creates:
	case what == reads:
		built := stmt.Clauses["FROM"]
		from, _ := built.Expression.(clause.From)
		if len(from.Tables) > 0 && !s.shard.texts[from.Tables[0].Name] {
			break // The application names the tables.
		}
		stmt.SQL.Grow(usualText) // GORM's own guess has no room for the alias.
		built.Name, built.Expression = "FROM", s.from
		if len(from.Joins) > 0 {
			from.Tables = []clause.Table{{Name: s.expr.SQL, Raw: true}}
			built.Expression = from
		}
		stmt.Clauses["FROM"], stmt.Table = built, s.alias
		return aliased
	case what == updates || deletesByAlias(stmt, s.alias):
		stmt.TableExpr, stmt.Table = s.expr, s.alias
		return aliased
	}
	if space, table, qualified := strings.Cut(s.schema.Table, "."); qualified {
		stmt.TableExpr, stmt.Table = named(stmt.Quote(space)+"."+stmt.Quote(table)), table
	}
	return renames{s.shard.names, nil}
}

// named is the name that the guard gives to the table of a statement. The mark, which means nothing in a text
// without arguments, tells it from that of an application where the statement runs once more.
func named(table string) *clause.Expr { return &clause.Expr{SQL: table, WithoutParentheses: true} }

// deletesByAlias reports whether a DELETE can call its table by another name. MySQL and MariaDB before 11.6
// take one only in the form for several tables, which has no ORDER BY, LIMIT and RETURNING.
func deletesByAlias(stmt *gorm.Statement, alias string) bool {
	if stmt.Name() != dialect.MySQL {
		return true
	}
	for _, name := range []string{"ORDER BY", "LIMIT", "RETURNING"} {
		if _, found := stmt.Clauses[name]; found {
			return false
		}
	}
	quoted := stmt.Quote(alias)
	built := stmt.Clauses["DELETE"]
	if own, ok := built.Expression.(clause.Delete); ok && own.Modifier != "" && own.Modifier != quoted {
		return false
	}
	stmt.AddClause(clause.Delete{Modifier: quoted})
	return true
}

// renames are the names that a statement uses for tables in place of those of the models. They are needed
// because GORM's association mode writes conditions before a statement is routed, and so with the original
// names. The relations of a schema on a shard have the names of its tables.
type renames struct {
	tables  map[string]string // of models and join tables, to their names on the shard
	aliased *shardSchema      // of the statement, if that uses an alias for its own table
}

// columnsOf returns the name of a table in front of a column, and whether it differs from the given one.
func (n renames) columnsOf(table string) (name string, changed bool) {
	if own := n.aliased; own != nil && table != "" && (table == own.base || table == own.schema.Table) {
		return own.alias, table != own.alias
	}
	name, changed = n.tables[table]
	return name, changed
}

// rename renames the tables in the conditions and joins that GORM holds as values. It copies what it changes,
// because statements share clauses.
func (n renames) rename(stmt *gorm.Statement) {
	if built, ok := stmt.Clauses["WHERE"]; ok {
		if where, renamed := n.expression(built.Expression); renamed {
			built.Expression = where
			stmt.Clauses["WHERE"] = built
		}
	}
	if built, ok := stmt.Clauses["FROM"]; ok {
		if from, isFrom := built.Expression.(clause.From); isFrom && len(from.Joins) > 0 {
			joins := make([]clause.Join, len(from.Joins))
			for i, join := range from.Joins {
				if name, mine := n.tables[join.Table.Name]; mine {
					join.Table.Name = name
				}
				join.ON.Exprs, _ = n.expressions(join.ON.Exprs)
				joins[i] = join
			}
			from.Joins = joins
			built.Expression = from
			stmt.Clauses["FROM"] = built
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
