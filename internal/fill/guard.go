package fill

import (
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// The texts by which the errors of guards are known. MySQL puts the expression into its error, and PostgreSQL
// the text that is no number.
const (
	guardMySQL    = "9223372036854775807 + "
	guardPostgres = "snowflake contested "
	guardSQLite   = "integer overflow"
)

// guard is a condition on the row that an upsert meets. It is an error if the row has the key that was made
// for the row that meets it.
type guard struct {
	frame  *frame
	judge  *judge
	mysql  bool
	sqlite bool
	meets  bool         // the clause may be for another key than the primary key
	rest   clause.Where // the condition of the application
}

// guardDuplicates makes the guard the first assignment of ON DUPLICATE KEY, which then changes nothing
// itself. It works with INSERT IGNORE as well: that does not ignore the error.
func (j *judge) guardDuplicates(stmt *gorm.Statement, f *frame) {
	conflict, _ := stmt.Clauses[clauseOnConflict].Expression.(clause.OnConflict)
	conflict.DoNothing = false
	conflict.DoUpdates = append(clause.Set{{
		Column: clause.Column{Name: j.column.field.DBName},
		Value:  guard{frame: f, judge: j, mysql: true, meets: true},
	}}, conflict.DoUpdates...)
	j.guarded = true
	stmt.AddClause(conflict)
}

// guardUpdates makes the guard the condition of DO UPDATE.
func (j *judge) guardUpdates(stmt *gorm.Statement, f *frame, conflict clause.OnConflict) {
	conflict.Where = clause.Where{Exprs: []clause.Expression{guard{
		frame: f, judge: j, sqlite: stmt.Name() == dialectSQLite, rest: conflict.Where,
		meets: !targetsPrimaryKey(f.plan.schema, conflict),
	}}}
	j.guarded = true
	stmt.AddClause(conflict)
}

// Build writes the guard.
func (g guard) Build(b clause.Builder) {
	column := clause.Column{Name: g.judge.column.field.DBName}
	write := func(text string) { _, _ = b.WriteString(text) }
	if g.mysql {
		write("IF(")
		g.buildCondition(b)
		write(", " + guardMySQL + "(1 + LENGTH(")
		b.WriteQuoted(column)
		write(")), ")
		b.WriteQuoted(column)
		write(")")
		return
	}
	write("CASE WHEN ")
	g.buildCondition(b)
	if g.sqlite {
		write(" THEN abs(-9223372036854775807 - 1 + 0 * ")
		g.buildNew(b, column.Name)
		write(")")
	} else {
		write(" THEN CAST(concat('" + guardPostgres + "', ")
		g.buildNew(b, column.Name)
		write(") AS bigint) = 1")
	}
	write(" ELSE ")
	if len(g.rest.Exprs) > 0 {
		write("(")
		g.rest.Build(b)
		write(")")
	} else {
		write("1 = 1")
	}
	write(" END")
}

// buildNew writes the value that a column has in the row to be inserted.
func (g guard) buildNew(b clause.Builder, column string) {
	if g.mysql {
		_, _ = b.WriteString("VALUES(")
		b.WriteQuoted(clause.Column{Name: column})
		_, _ = b.WriteString(")")
		return
	}
	b.WriteQuoted(clause.Column{Table: "excluded", Name: column})
}

// buildCondition writes that the row that is met has the key of the row to be inserted, and that this key was
// made. What is certain is left out, so that the text of most statements is always the same.
func (g guard) buildCondition(b clause.Builder) {
	write := func(text string) { _, _ = b.WriteString(text) }
	if g.meets {
		for i, field := range g.frame.plan.schema.PrimaryFields {
			if i > 0 {
				write(" AND ")
			}
			if g.mysql {
				b.WriteQuoted(clause.Column{Name: field.DBName})
			} else {
				b.WriteQuoted(clause.Column{Table: clause.CurrentTable, Name: field.DBName})
			}
			write(" = ")
			g.buildNew(b, field.DBName)
		}
	}
	if len(g.judge.given) == 0 {
		if !g.meets {
			write("1 = 1")
		}
		return
	}
	if g.meets {
		write(" AND ")
	}
	write("(")
	first := true
	for c, column := range g.frame.plan.columns {
		rows := g.judge.madeIn(c)
		if len(rows) == 0 {
			continue
		}
		if !first {
			write(" OR ")
		}
		first = false
		g.buildNew(b, column.field.DBName)
		g.buildMade(b, c, rows)
	}
	write(")")
}

// madeIn lists the rows whose key was made in a column, as indexes into j.rows.
func (j *judge) madeIn(c int) []int {
	var rows []int
	for n, key := range j.keys {
		if key.column == c {
			rows = append(rows, n)
		}
	}
	return rows
}

// buildMade writes that a value is among the keys that were made in a column. New numbers lie close together,
// so two of them mostly tell all: the text is then the same for any number of rows, and a database takes only
// so many parameters.
func (g guard) buildMade(b clause.Builder, c int, rows []int) {
	f, j := g.frame, g.judge
	field := f.plan.columns[c].field
	value := func(n int) any {
		v, _ := f.rows.value(f.context(), j.rows[n], field)
		return v
	}
	least, greatest := rows[0], rows[0]
	for _, n := range rows {
		if j.keys[n].id < j.keys[least].id {
			least = n
		}
		if j.keys[n].id > j.keys[greatest].id {
			greatest = n
		}
	}
	between := slices.ContainsFunc(slices.Concat(j.given, j.rows), func(i int) bool {
		id, ok := f.get(i, c)
		return ok && !f.made(c, id) && j.keys[least].id <= id && id <= j.keys[greatest].id
	})
	if !between && strings.Contains(strings.ToLower(string(field.DataType)), "int") {
		_, _ = b.WriteString(" BETWEEN ")
		b.AddVar(b, value(least))
		_, _ = b.WriteString(" AND ")
		b.AddVar(b, value(greatest))
		return
	}
	_, _ = b.WriteString(" IN (")
	for k, n := range rows {
		if k > 0 {
			_, _ = b.WriteString(",")
		}
		b.AddVar(b, value(n))
	}
	_, _ = b.WriteString(")")
}
