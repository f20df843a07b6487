package router

import (
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// staleRows hides rows that were moved out of a shard but are still in its table, from every read of
// that table. GORM adds it to queries by itself, as it adds the clause of a soft delete. Updates and
// deletes do without it: what they do to stale rows has no effect.
type staleRows struct {
	of     *topology
	shard  int
	column string
}

var _ gorm.StatementModifier = staleRows{}

// clauseStaleRows marks a statement that leaves stale rows out.
const clauseStaleRows = "snowflake_stale_rows"

// hideStaleRows adds the clause to the schema of a shard, if its table has stale rows.
func hideStaleRows(t *topology, s *schema.Schema, shard int) {
	if t.hasStaleRows(shard) {
		s.QueryClauses = append(s.QueryClauses, staleRows{t, shard, s.PrioritizedPrimaryField.DBName})
	}
}

// Name, Build and MergeClause make it a clause. All the work is done by ModifyStatement.
func (c staleRows) Name() string               { return "" }
func (c staleRows) Build(clause.Builder)       {}
func (c staleRows) MergeClause(*clause.Clause) {}

// ModifyStatement adds the condition. It asks again whether there are stale rows, because the schema
// outlives the cleanup.
func (c staleRows) ModifyStatement(stmt *gorm.Statement) {
	if _, added := stmt.Clauses[clauseStaleRows]; added || !c.of.hasStaleRows(c.shard) {
		return
	}
	// Parentheses keep an OR of the caller from bypassing the condition.
	if where, ok := stmt.Clauses["WHERE"].Expression.(clause.Where); ok && len(where.Exprs) > 0 {
		of := stmt.Clauses["WHERE"]
		of.Expression = clause.Where{Exprs: []clause.Expression{clause.And(where.Exprs...)}}
		stmt.Clauses["WHERE"] = of
	}
	stmt.AddClause(clause.Where{Exprs: []clause.Expression{c.of.onShard(c.column, c.shard)}})
	stmt.Clauses[clauseStaleRows] = clause.Clause{}
}
