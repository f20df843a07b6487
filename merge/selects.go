package merge

import (
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

// orphan returns the condition under which a row refers to a row that the target will not have: one that is
// copied from no server or, of a table that the plan skips, one that is not there. It is "" if no row does.
func (s selection) orphan(j *tableJob, ref sqldb.Reference, alias string, above ...string) string {
	refers := s.refers(j, ref, alias)
	if refers == "" {
		return ""
	}
	parent := s.ws.jobs[ref.Parent]
	switch {
	case parent == nil && s.ws.policy(ref.Parent) == Rebuild:
		return refers
	case parent == nil:
		return s.ws.elsewhere.skipped(s, j, ref, alias, refers)
	case parent.sources[s.server] == nil: // the server has no such table
		return s.ws.elsewhere.unless(s, j, ref, alias, refers)
	}
	other := alias + "p"
	return s.ws.elsewhere.unless(s, j, ref, alias,
		refers+" AND "+s.without(j, ref, alias, other, s.kept(parent, other, append(above, j.name)...)))
}

// refers returns the condition under which a row has a reference. It is "" if its server lacks a column of
// it.
func (s selection) refers(j *tableJob, ref sqldb.Reference, alias string) string {
	src := j.sources[s.server]
	if src == nil || ref.Inside() {
		return ""
	}
	var all []string
	for _, name := range ref.Columns {
		given, _, set := s.given(j, name, alias)
		if !set && src.from.Column(name) == nil {
			return ""
		}
		all = append(all, given+" IS NOT NULL")
	}
	if ref.When != "" {
		// A condition that is NULL does not hold. This one is negated later, and NOT NULL would not hold either.
		all = append(all, "CASE WHEN "+ref.When+" THEN 1 ELSE 0 END = 1")
	}
	return strings.Join(all, " AND ")
}

// without returns the condition under which a reference of a row leads to none of the rows of the parent that
// meet a condition. What counts are the values that the plan gives to both, because the target gets those.
func (s selection) without(j *tableJob, ref sqldb.Reference, alias, other, condition string) string {
	parent := s.ws.jobs[ref.Parent]
	var values, keys, joins, held []string
	src := j.sources[s.server]
	judged := s.ws.elsewhere.judges(j, src, ref)
	computed, written := false, false
	for i, name := range ref.Columns {
		value, of, set := s.given(j, name, alias)
		key, to, setToo := s.given(parent, ref.Target[i], other)
		value, key = s.comparable(value, key, of, to, set || setToo)
		computed = computed || set || setToo
		joins, held = append(joins, key+" = "+value), append(held, key+" IS NOT NULL")
		if judged { // as the target compares them
			switch s.ws.elsewhere.yardstick(s.ws.servers[s.server].db, parent.sources[s.server].from, ref, i) {
			case sqldb.ByOwnRule:
			case sqldb.ByUUID:
				value, key, written = sqldb.Digits(value), sqldb.Digits(key), true
			default:
				joins = append(joins, to.Exactly(s.kind, key)+" = "+of.Exactly(s.kind, value))
			}
		}
		values, keys = append(values, value), append(keys, key)
	}
	if condition != "" {
		joins, held = append(joins, condition), append(held, condition)
	}
	from := " FROM " + s.table(ref.Parent) + " AS " + other + " WHERE "
	near := ""
	if !computed {
		near = "NOT EXISTS (SELECT 1" + from + strings.Join(joins, " AND ") + ")"
		if !written {
			return near
		}
		near += " AND " // most rows are known by an index
	}
	// An expression of the plan stays outside of the other table, which may have columns of the same names.
	return near + "(" + strings.Join(values, ", ") + ") NOT IN (SELECT " + strings.Join(keys, ", ") + from +
		strings.Join(held, " AND ") + ")"
}

// given returns the value that the plan gives to a column of a row, the column that says its type, and
// whether the plan sets it.
func (s selection) given(j *tableJob, name, alias string) (value string, of *sqldb.Column, set bool) {
	if expression, ok := j.plan.Set[name]; ok {
		return s.set(expression), j.to.Column(name), true
	}
	return alias + "." + s.kind.Quote(name), j.sources[s.server].from.Column(name), false
}

// comparable returns two values in a form in which PostgreSQL compares them, for it does not compare a number
// with a text. The type of a computed value may be another one than that of its column.
func (s selection) comparable(a, b string, of, to *sqldb.Column, computed bool) (string, string) {
	if s.kind != sqldb.PostgreSQL || of == nil || to == nil {
		return a, b
	}
	numbers := []sqldb.Family{sqldb.FamilyInt, sqldb.FamilyDecimal, sqldb.FamilyFloat}
	switch {
	case (of.Family == sqldb.FamilyText) != (to.Family == sqldb.FamilyText):
		return a + "::text", b + "::text"
	case computed && slices.Contains(numbers, of.Family) && slices.Contains(numbers, to.Family):
		return a + "::numeric", b + "::numeric"
	}
	return a, b
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
			list[i] = s.shown(p.to, s.set(expression))
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

// set returns the expression that the plan sets a column to, in a row that keeps its name.
func (s selection) set(expression string) string { return s.setFor(expression, "0") }

// setFor returns the expression that the plan sets a column to. renamed is 1 for a row with a new name.
func (s selection) setFor(expression, renamed string) string {
	words := strings.NewReplacer("{server}", strconv.FormatInt(s.ws.servers[s.server].Number, 10),
		"{target}", strconv.FormatInt(s.ws.plan.Target.Number, 10), wordRenamed, renamed)
	return "(" + words.Replace(expression) + ")"
}

// shown returns an expression of the plan for a column so that no driver changes its value. A text is what
// PostgreSQL makes of it, and not what a driver makes of a date or of a boolean.
func (s selection) shown(of *sqldb.Column, expression string) string {
	if s.kind == sqldb.PostgreSQL && of.Family == sqldb.FamilyText {
		return expression + "::text"
	}
	return expression
}

// wordRenamed stands in an expression of the plan for 1 in a row that gets a new name, and for 0 in others.
const wordRenamed = "{renamed}"

// from appends the table and the conditions. Conditions on the key can follow.
func (s selection) from(q *sqldb.Statement, src *sourceTable, condition ...string) {
	q.Add(" FROM ", s.table(src.from.Name), " AS s")
	all := slices.DeleteFunc(append([]string{s.kept(src.job, "s")}, condition...),
		func(c string) bool { return c == "" })
	q.Add(" WHERE ", strings.Join(append([]string{"1 = 1"}, all...), " AND "))
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
			if src.from.Column(p.from.Name) != nil { // else the plan sets what the server does not have
				names = append(names, p.from.Apart(s.kind))
			}
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

// meeting counts the rows that meet the condition of the plan, orphans included.
func (s selection) meeting(ctx context.Context, src *sourceTable) (int64, error) {
	return s.ws.servers[s.server].db.Number(ctx, sqldb.NewStatement(s.kind, "SELECT COUNT(*) FROM ",
		s.table(src.from.Name), " AS s WHERE (", src.job.plan.Where, ")"))
}

// fingerprint describes what must not change during a merge: the number of rows, which it also returns, and
// the first and the last position. VACUUM of SQLite gives rows new positions, and then the last one changes.
func (s selection) fingerprint(ctx context.Context, src *sourceTable) (string, int64, error) {
	db := s.ws.servers[s.server].db
	from := " FROM " + s.table(src.from.Name) + " AS s"
	list := []string{"(SELECT COUNT(*)" + from + ")"}
	ends := []string{"first", "last"}
	for i := range ends {
		var order []string
		for _, term := range src.order {
			order = append(order, term.By()+[]string{"", " DESC"}[i])
		}
		for _, term := range src.order {
			list = append(list, "(SELECT "+term.Read(db.Kind)+from+" ORDER BY "+strings.Join(order, ", ")+
				" LIMIT 1)")
		}
	}
	// It is one statement, because a merge of many small tables asks this more often than anything else.
	rows, err := db.Strings(ctx, sqldb.NewStatement(db.Kind, "SELECT ", strings.Join(list, ", ")))
	if err != nil || len(rows) == 0 {
		return "", 0, err
	}
	n, err := strconv.ParseInt(rows[0][0], 10, 64)
	if err != nil {
		return "", 0, err
	}
	text := fmt.Sprintf("%d rows", n)
	if len(src.order) == 0 || n == 0 {
		return text, n, nil
	}
	for i, what := range ends {
		at := 1 + i*len(src.order)
		key := strings.Join(rows[0][at:at+len(src.order)], ", ")
		if c := src.order[0].Column(); c != nil && c.Family == sqldb.FamilyBytes || len(key) > 200 ||
			!utf8.ValidString(key) {
			key = fmt.Sprintf("%x", sha256.Sum256([]byte(key)))
		}
		text += ", " + what + " key " + key
	}
	return text, n, nil
}
