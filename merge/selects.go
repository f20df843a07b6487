package merge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// selection builds the statements that read a table of a source. They select the rows that are copied:
// rows that meet the condition of the plan and, if orphans are dropped, rows whose parents are copied too.
type selection struct {
	ws     *workspace
	kind   sqldb.Kind
	server int
	prefix string // the schema, where the statement runs in the target's connection
	// literally writes keys into the text, for COPY, which cannot bind values.
	literally bool
}

func newSelection(ws *workspace, server int) selection {
	return selection{ws: ws, kind: ws.servers[server].db.Kind, server: server}
}

// table returns the quoted name of a table, with the prefix. Rows of tables that inherit from it are not its
// own.
func (s selection) table(name string) string {
	if t := s.ws.servers[s.server].db.Tables[name]; t != nil && t.Heirs {
		return "ONLY " + s.prefix + s.kind.Quote(name)
	}
	return s.prefix + s.kind.Quote(name)
}

// kept returns the condition under which a row is copied; "" means always. above are the tables whose
// conditions contain this one.
func (s selection) kept(j *tableJob, alias string, above ...string) string {
	var conditions []string
	if j.plan.Where != "" {
		conditions = append(conditions, "("+j.plan.Where+")")
	}
	if j.plan.Orphans == "drop" && !slices.Contains(above, j.name) {
		for _, ref := range j.refs {
			if missing := s.orphan(j, ref, alias, above...); missing != "" {
				conditions = append(conditions, "NOT ("+missing+")")
			}
		}
	}
	return strings.Join(conditions, " AND ")
}

// orphan returns the condition under which a row refers to a row that is not copied. It is "" if the
// parent is a table that the plan skips, because the target may have the row.
func (s selection) orphan(j *tableJob, ref sqldb.Reference, alias string, above ...string) string {
	src := j.sources[s.server]
	set := s.setKey(j, ref)
	if src == nil || ref.Inside() || set == "" && slices.ContainsFunc(ref.Columns,
		func(name string) bool { return src.from.Column(name) == nil }) {
		return ""
	}
	var refers []string
	for _, name := range ref.Columns {
		refers = append(refers, cmp.Or(set, alias+"."+s.kind.Quote(name))+" IS NOT NULL")
	}
	if ref.When != "" {
		refers = append(refers, "("+ref.When+")")
	}
	condition := strings.Join(refers, " AND ")
	parent := s.ws.jobs[ref.Parent]
	switch {
	case parent == nil && s.ws.policy(ref.Parent) == Rebuild:
		return condition
	case parent == nil:
		return ""
	case parent.sources[s.server] == nil: // the server has no such table, so every reference is an orphan
		return condition
	}
	other := alias + "p"
	if set != "" {
		key := other + "." + s.kind.Quote(ref.Target[0])
		held := []string{key + " IS NOT NULL"}
		if kept := s.kept(parent, other, append(above, j.name)...); kept != "" {
			held = append(held, kept)
		}
		// The expression stays outside of the other table, which may have columns of the same names.
		return condition + " AND " + set + " NOT IN (SELECT " + key + " FROM " + s.table(ref.Parent) + " AS " +
			other + " WHERE " + strings.Join(held, " AND ") + ")"
	}
	var joins []string
	for i, name := range ref.Columns {
		key, held := parent.sources[s.server].from.Column(ref.Target[i]), src.from.Column(name)
		left, right := other+"."+s.kind.Quote(ref.Target[i]), alias+"."+s.kind.Quote(name)
		if s.kind == sqldb.PostgreSQL && key != nil && held != nil &&
			(key.Family == sqldb.FamilyText) != (held.Family == sqldb.FamilyText) {
			left, right = left+"::text", right+"::text" // It does not compare a number with a text.
		}
		joins = append(joins, left+" = "+right)
	}
	if kept := s.kept(parent, other, append(above, j.name)...); kept != "" {
		joins = append(joins, kept)
	}
	return condition + " AND NOT EXISTS (SELECT 1 FROM " + s.table(ref.Parent) + " AS " + other +
		" WHERE " + strings.Join(joins, " AND ") + ")"
}

// setKey returns the expression by which the plan sets a reference of one column, or "".
func (s selection) setKey(j *tableJob, ref sqldb.Reference) string {
	if expression, ok := j.plan.Set[ref.Columns[0]]; ok && len(ref.Columns) == 1 {
		return s.set(expression)
	}
	return ""
}

// expressions returns what to select for the pairs of a source table. If plain, another database of the
// same kind reads it, and otherwise this program. The columns named in empty become NULL.
func (s selection) expressions(src *sourceTable, plain bool, empty ...string) []string {
	list := make([]string, len(src.pairs))
	for i, p := range src.pairs {
		list[i] = p.from.ReadExpression(s.kind)
		if plain {
			list[i] = "s." + s.kind.Quote(p.from.Name)
		}
		if slices.Contains(empty, p.to.Name) {
			list[i] = "NULL"
			continue
		}
		if expression, ok := src.job.plan.Set[p.to.Name]; ok {
			list[i] = s.set(expression)
		}
		if src.job.plan.Orphans != "null" {
			continue
		}
		for _, ref := range src.job.refs {
			if !slices.Contains(ref.Columns, p.from.Name) || !p.to.Nullable {
				continue
			}
			if missing := s.orphan(src.job, ref, "s"); missing != "" {
				list[i] = "CASE WHEN " + missing + " THEN NULL ELSE " + list[i] + " END"
			}
		}
	}
	return list
}

// set returns the expression that the plan sets a column to.
func (s selection) set(expression string) string {
	return "(" + strings.NewReplacer("{server}", strconv.FormatInt(s.ws.servers[s.server].Number, 10),
		"{target}", strconv.FormatInt(s.ws.plan.Target.Number, 10)).Replace(expression) + ")"
}

// from appends the table and the conditions. Conditions on the key can follow.
func (s selection) from(q *sqldb.Statement, src *sourceTable, condition ...string) {
	q.Add(" FROM ", s.table(src.from.Name), " AS s")
	all := slices.DeleteFunc(append([]string{s.kept(src.job, "s")}, condition...),
		func(c string) bool { return c == "" })
	q.Add(" WHERE ", strings.Join(append([]string{"1 = 1"}, all...), " AND "))
}

// behind appends the condition that the position of a row is behind another one, or at most equal to it,
// depending on the operator. The first term alone bounds the range, so that every database can use the index.
func (s selection) behind(q *sqldb.Statement, src *sourceTable, position []any, operator string) {
	if position == nil {
		return
	}
	terms := src.order
	compare := func(i int, operator string) {
		q.Add(terms[i].By(), " ", operator, " ")
		terms[i].Bound(q, position[i], s.literally)
	}
	strict := operator[:1]
	if q.Add(" AND "); len(terms) > 1 {
		compare(0, strict+"=")
		q.Add(" AND ")
	}
	q.Add("(")
	for i := range terms {
		if i > 0 {
			q.Add(" OR ")
		}
		q.Add("(")
		for j := range i {
			compare(j, "=")
			q.Add(" AND ")
		}
		if i == len(terms)-1 {
			compare(i, operator)
		} else {
			compare(i, strict)
		}
		q.Add(")")
	}
	q.Add(")")
}

// order appends the order in which rows are read. Without a key it is the order by all columns, in which only
// identical rows can swap places.
func (s selection) order(q *sqldb.Statement, src *sourceTable) {
	var names []string
	for _, term := range src.order {
		names = append(names, term.By())
	}
	if len(names) == 0 {
		for _, p := range src.pairs {
			names = append(names, p.from.ReadExpression(s.kind))
		}
	}
	q.Add(" ORDER BY ", strings.Join(names, ", "))
}

// count counts the rows that are copied.
func (s selection) count(ctx context.Context, src *sourceTable) (int64, error) {
	q := sqldb.NewStatement(s.kind, "SELECT COUNT(*)")
	s.from(q, src)
	return s.ws.servers[s.server].db.Number(ctx, q)
}

// fingerprint describes what must not change during a merge: the number of rows, and the first and the last
// position. VACUUM of SQLite gives rows new positions, and then the last one changes.
func (s selection) fingerprint(ctx context.Context, src *sourceTable) (string, error) {
	db := s.ws.servers[s.server].db
	count := sqldb.NewStatement(db.Kind, "SELECT COUNT(*) FROM ", s.table(src.from.Name), " AS s")
	n, err := db.Number(ctx, count)
	if err != nil || len(src.order) == 0 || n == 0 {
		return fmt.Sprintf("%d rows", n), err
	}
	text := fmt.Sprintf("%d rows", n)
	for _, end := range []struct{ what, direction string }{{"first", ""}, {"last", " DESC"}} {
		var list, order []string
		for _, term := range src.order {
			list = append(list, term.Read(db.Kind))
			order = append(order, term.By()+end.direction)
		}
		rows, err := db.Strings(ctx, sqldb.NewStatement(db.Kind, "SELECT ", strings.Join(list, ", "), " FROM ",
			s.table(src.from.Name), " AS s ORDER BY ", strings.Join(order, ", "), " LIMIT 1"))
		if err != nil {
			return "", err
		}
		key := ""
		if len(rows) > 0 {
			key = strings.Join(rows[0], ", ")
		}
		if c := src.order[0].Column(); c != nil && c.Family == sqldb.FamilyBytes || len(key) > 200 ||
			!utf8.ValidString(key) {
			key = fmt.Sprintf("%x", sha256.Sum256([]byte(key)))
		}
		text += ", " + end.what + " key " + key
	}
	return text, nil
}
