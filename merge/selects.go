package merge

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	case parent == nil: // the values are those that the target does not have
		if lost := s.ws.elsewhere.listed(s, j, ref, alias); lost != "" {
			return refers + " AND " + lost
		}
		return ""
	case parent.sources[s.server] != nil:
		other := alias + "p"
		refers += " AND " + s.without(j, ref, alias, other, s.kept(parent, other, append(above, j.name)...))
	}
	return s.ws.elsewhere.unless(s, j, ref, alias, refers)
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
		if !set && src.table.Column(name) == nil {
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
		value, own, set := s.given(j, name, alias)
		key, target, setToo := s.given(parent, ref.Target[i], other)
		value, key = s.comparable(value, key, own, target, set || setToo)
		computed = computed || set || setToo
		joins, held = append(joins, key+" = "+value), append(held, key+" IS NOT NULL")
		if judged { // as the target compares them
			switch s.ws.elsewhere.yardstick(s.ws.servers[s.server].db, parent.sources[s.server].table, ref, i) {
			case sqldb.ByOwnRule:
			case sqldb.ByUUID:
				value, key, written = sqldb.Digits(value), sqldb.Digits(key), true
			default:
				joins = append(joins, target.Exactly(s.kind, key)+" = "+own.Exactly(s.kind, value))
			}
		}
		values, keys = append(values, value), append(keys, key)
	}
	if condition != "" {
		joins, held = append(joins, condition), append(held, condition)
	}
	clause := " FROM " + s.table(ref.Parent) + " AS " + other + " WHERE "
	near := ""
	if !computed {
		near = "NOT EXISTS (SELECT 1" + clause + strings.Join(joins, " AND ") + ")"
		if !written {
			return near
		}
		near += " AND " // most rows are known by an index
	}
	// An expression of the plan stays outside of the other table, which may have columns of the same names.
	return near + "(" + strings.Join(values, ", ") + ") NOT IN (SELECT " + strings.Join(keys, ", ") + clause +
		strings.Join(held, " AND ") + ")"
}

// given returns the value that the plan gives to a column of a row, the column that says its type, and
// whether the plan sets it.
func (s selection) given(j *tableJob, name, alias string) (value string, own *sqldb.Column, set bool) {
	if expression, ok := j.plan.Set[name]; ok {
		return s.set(expression), j.target.Column(name), true
	}
	return alias + "." + s.kind.Quote(name), j.sources[s.server].table.Column(name), false
}

// comparable returns two values in a form in which PostgreSQL compares them, for it does not compare a number
// with a text. The type of a computed value may be another one than that of its column.
func (s selection) comparable(a, b string, own, target *sqldb.Column, computed bool) (string, string) {
	if s.kind != sqldb.PostgreSQL || own == nil || target == nil {
		return a, b
	}
	numbers := []sqldb.Family{sqldb.FamilyInt, sqldb.FamilyDecimal, sqldb.FamilyFloat}
	switch {
	case (own.Family == sqldb.FamilyText) != (target.Family == sqldb.FamilyText):
		return a + "::text", b + "::text"
	case computed && slices.Contains(numbers, own.Family) && slices.Contains(numbers, target.Family):
		return a + "::numeric", b + "::numeric"
	}
	return a, b
}

// expressions returns what to select for the pairs of a source table. If plain, another database of the
// same kind reads it, and otherwise this program.
func (s selection) expressions(src *sourceTable, plain bool) []string {
	list := make([]string, len(src.pairs))
	for i, p := range src.pairs {
		list[i] = p.source.ReadExpression(s.kind)
		if plain {
			list[i] = "s." + s.kind.Quote(p.source.Name)
		}
		if expression, ok := src.job.plan.Set[p.target.Name]; ok {
			list[i] = s.shown(p.target, s.set(expression))
		}
		if src.job.plan.Orphans != "null" {
			continue
		}
		for _, ref := range src.job.refs {
			if !slices.Contains(ref.Columns, p.source.Name) || !p.target.Nullable {
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
func (s selection) shown(own *sqldb.Column, expression string) string {
	if own.Family == sqldb.FamilyText {
		return s.kind.AsText(expression)
	}
	return expression
}

// rows returns the table and the conditions. Conditions on the key can follow.
func (s selection) rows(src *sourceTable, condition ...string) string {
	all := slices.DeleteFunc(append([]string{"1 = 1", s.kept(src.job, "s")}, condition...),
		func(c string) bool { return c == "" })
	return " FROM " + s.table(src.table.Name) + " AS s WHERE " + strings.Join(all, " AND ")
}

// by returns the expression of a column to order rows by.
func (s selection) by(c *sqldb.Column) string { return "s." + s.kind.Quote(c.Name) }

// order returns the order in which rows are read. Without a key it is the order by all columns, in which only
// identical rows can swap places.
func (s selection) order(src *sourceTable) string {
	names := sqldb.Mapped(src.order, s.by)
	if len(names) == 0 {
		for _, p := range src.pairs {
			if src.table.Column(p.source.Name) != nil { // else the plan sets what the server does not have
				names = append(names, p.source.Apart(s.kind))
			}
		}
	}
	return " ORDER BY " + strings.Join(names, ", ")
}

// rest returns the rest of a statement that selects rows behind a position.
func (s selection) rest(src *sourceTable, after []string, limit string) string {
	return s.rows(src, s.behind(src, after)) + s.order(src) + " LIMIT " + limit
}

// behind returns the condition that a row follows a position. The first term alone bounds the range, so that
// every database can use the index.
func (s selection) behind(src *sourceTable, after []string) string {
	if after == nil {
		return ""
	}
	var either, same []string
	for i, c := range src.order {
		either = append(either, strings.Join(append(slices.Clone(same), s.by(c)+" > "+after[i]), " AND "))
		same = append(same, s.by(c)+" = "+after[i])
	}
	return s.by(src.order[0]) + " >= " + after[0] + " AND ((" + strings.Join(either, ") OR (") + "))"
}

// position returns where the last of so many rows is that follow a position. Its values are whole numbers, as
// they stand in statements. A table without such a key goes in one chunk. If that is full, rows have come
// since they were counted.
func (s selection) position(ctx context.Context, src *sourceTable, after []string,
	rows int64) ([]string, error) {
	if rows == 0 {
		return after, nil
	}
	if !src.numbered() {
		return nil, ErrSourceChanged
	}
	list := sqldb.Mapped(src.order, func(c *sqldb.Column) string { return c.ReadExpression(s.kind) })
	found, err := src.owner.db.Strings(ctx, src.owner.db.SQL("SELECT ", strings.Join(list, ", "),
		s.rest(src, after, "1 OFFSET "+strconv.FormatInt(rows-1, 10))))
	if err == nil && len(found) == 0 {
		err = ErrSourceChanged
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// counted returns the range of the keys in a column that were counted, and whether there are keys that a
// generator made.
func (s selection) counted(ctx context.Context, table, column string) (span keySpan, made bool, err error) {
	db, key, limit := s.ws.servers[s.server].db, s.kind.Quote(column), strconv.FormatInt(s.ws.layout.least, 10)
	clause := " FROM " + s.table(table) + " WHERE " + key
	generated := int64(0)
	err = db.Row(ctx, db.SQL("SELECT COALESCE(MIN(", key, "), -1), COALESCE(MAX(", key,
		"), -1), (SELECT COUNT(*) FROM (SELECT 1 AS x", clause, " >= ", limit, " LIMIT 1) AS m)", clause,
		" >= 0 AND ", key, " < ", limit), &span.least, &span.greatest, &generated)
	if err != nil {
		return keySpan{}, false, err
	}
	return span, generated > 0, nil
}

// fingerprints describes what must not change in those tables that are asked for during a merge. All servers
// look at the same time.
func fingerprints(ctx context.Context, ws *workspace,
	asked func(table string) bool) (map[tableServer]string, error) {
	all, writing := map[tableServer]string{}, sync.Mutex{}
	return all, atOnce(len(ws.servers), func(i int) error {
		s := ws.servers[i]
		var tables []*sqldb.Table
		for name, t := range sorted(s.db.Tables) {
			if asked(name) {
				tables = append(tables, t)
			}
		}
		// A merge of many small tables asks this more often than anything else.
		for some := range slices.Chunk(tables, 20) {
			texts, err := newSelection(ws, i).fingerprints(ctx, some)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			writing.Lock()
			for n, t := range some {
				all[tableServer{t.Name, s.Number}] = texts[n]
			}
			writing.Unlock()
		}
		return nil
	})
}

// fingerprints describes tables by the number of rows, and the first and the last position. VACUUM of SQLite
// gives rows new positions, and then the last one changes.
func (s selection) fingerprints(ctx context.Context, tables []*sqldb.Table) (texts []string, err error) {
	db := s.ws.servers[s.server].db
	var list []string
	for _, t := range tables {
		by := sqldb.Mapped(t.Order(), s.by)
		clause := " FROM " + s.table(t.Name) + " AS s"
		list = append(list, "(SELECT COUNT(*)"+clause+")")
		for _, way := range []string{"", " DESC"} {
			for _, c := range t.Order() {
				list = append(list, "(SELECT "+c.ReadExpression(db.Kind)+clause+" ORDER BY "+
					strings.Join(by, way+", ")+way+" LIMIT 1)")
			}
		}
	}
	rows, err := db.Strings(ctx, db.SQL("SELECT ", strings.Join(list, ", ")))
	if err != nil {
		return nil, err
	}
	found := rows[0]
	for _, t := range tables {
		key, count := t.Order(), found[0]
		found = found[1:]
		text := count + " rows"
		for _, what := range []string{"first", "last"} {
			end := strings.Join(found[:len(key)], ", ")
			found = found[len(key):]
			if len(key) == 0 || count == "0" {
				continue
			}
			if key[0].Family == sqldb.FamilyBytes || len(end) > 200 || !utf8.ValidString(end) {
				end = fmt.Sprintf("%x", sha256.Sum256([]byte(end)))
			}
			text += ", " + what + " key " + end
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// rowsIn returns how many rows a table had, by its fingerprint.
func rowsIn(fingerprint string) (n int64, err error) {
	if _, err = fmt.Sscanf(fingerprint, "%d rows", &n); err != nil {
		err = fmt.Errorf("the journal cannot be read: %w", err)
	}
	return n, err
}

// reader reads the rows of a source table in the order of its primary key, by one statement. It returns them
// in chunks.
type reader struct {
	src   *sourceTable
	size  int
	where string // one more condition
	skip  int64  // how many rows were read before
	// after is the position of the last of the rows that were read before, if the key is whole numbers.
	after []string
	// refused is told of values that cannot be converted, and their rows are left out; without it they are
	// errors.
	refused func(key string, p pair, err error)
}

// errEnough ends the reading of rows before the last one.
var errEnough = errors.New("enough")

// notEnough returns an error unless it is errEnough.
func notEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// maxChunkBytes bounds a chunk. While one chunk is written, the next one is read, and drivers and statements
// hold copies of parts of them, so the memory that they take is several times as large.
const maxChunkBytes = 8 << 20

// chunk is what was read of a table at a time. The last one of a table may have no rows.
type chunk struct {
	rows  []row
	read  int64 // how many there were, with those that are left out
	ended bool
}

// page reads one chunk. It is for those who need the connection of the source in between. If the key is no
// whole numbers, whoever reads the next one waits until the database has passed over all rows before.
func (r *reader) page(ctx context.Context) (page chunk, err error) {
	err = r.read(ctx, r.size, func(next chunk) error {
		page = next
		return errEnough
	})
	err = notEnough(err)
	r.skip += page.read
	if err == nil && r.src.numbered() && !page.ended {
		r.after, err = r.src.sel.position(ctx, r.src, r.after, page.read)
	}
	return page, err
}

// all calls fn for every chunk. The connection of the source is not free before the end.
func (r *reader) all(ctx context.Context, fn func(next chunk) error) error { return r.read(ctx, 0, fn) }

// read calls fn for the chunks of at most so many rows, or of all rows.
func (r *reader) read(ctx context.Context, limit int, fn func(next chunk) error) error {
	source := r.src.owner.db
	s := r.src.sel
	list := s.expressions(r.src, false)
	extras := len(list)
	list = append(list, r.src.extras...)
	q := source.SQL("SELECT ", strings.Join(list, ", "),
		s.rows(r.src, r.where, s.behind(r.src, r.after)), s.order(r.src))
	if limit > 0 || r.skip > 0 {
		if limit == 0 {
			limit = math.MaxInt
		}
		q.Add(" LIMIT ", strconv.Itoa(limit))
		if r.after == nil {
			q.Add(" OFFSET ", strconv.FormatInt(r.skip, 10))
		}
	}
	// The key is stored behind the values.
	room := max(1, len(r.src.key))
	how := sqldb.Fetch{Texts: r.texts(list), More: room, Steady: r.steady(s)}
	next, bytes, before := chunk{}, 0, 0
	err := source.Fetch(ctx, q, how, func(values []any) error {
		if next.rows == nil {
			next.rows = make([]row, 0, before)
		}
		next.read++
		bytes += sqldb.SizeOf(values)
		row, err := r.row(values, extras, room, r.skip+next.read)
		if err != nil {
			return err
		}
		if row.values != nil {
			next.rows = append(next.rows, row)
		}
		if bytes <= maxChunkBytes && int(next.read) < r.size {
			return nil
		}
		full := next
		next, bytes, before = chunk{}, 0, len(full.rows)
		return fn(full)
	})
	if err != nil {
		return err
	}
	next.ended = true
	return fn(next)
}

// row makes a row of what was read. It has no values if it is left out.
func (r *reader) row(values []any, extras, room int, number int64) (row, error) {
	end := len(values) - room
	key := values[end:]
	for i, index := range r.src.key {
		key[i] = values[index]
	}
	if len(r.src.key) == 0 {
		key[0] = number
	}
	left := false
	for i, p := range r.src.pairs {
		var err error
		if values[i], err = r.src.value(values[i], p); err != nil && r.refused != nil {
			r.refused(sqldb.KeyText(key), p, err)
			left = true
		} else if err != nil {
			return row{}, r.src.refused(key, err)
		}
	}
	if left {
		return row{}, nil
	}
	for i, index := range r.src.key {
		key[i] = identity(values[index], r.src.pairs[index].target, r.src.raw)
	}
	return row{values: values[:extras:extras], key: key, extra: values[extras:end]}, nil
}

// texts tells of each column whether bytes can be treated as text.
func (r *reader) texts(list []string) []bool {
	texts := make([]bool, len(list))
	bytes := func(f sqldb.Family) bool { return f == sqldb.FamilyBytes || f == sqldb.FamilyOther }
	for i, p := range r.src.pairs {
		texts[i] = !r.src.raw && !bytes(p.source.Family) && !bytes(p.target.Family)
	}
	return texts
}

// steady reports whether the database returns rows without long pauses, because it walks along the key and
// leaves no row out.
func (r *reader) steady(s selection) bool {
	return len(r.src.order) > 0 && r.where == "" && r.src.job.plan.Orphans != "null" &&
		s.kept(r.src.job, "s") == ""
}

// leadingOf names a reference of a table on a server.
func leadingOf(j *tableJob, ref sqldb.Reference, server int) string {
	return fmt.Sprintf("%q %q %q %q %q %d", j.name, ref.Columns, ref.Parent, ref.Target, ref.When, server)
}

const (
	// mostElsewhere and longestElsewhere are how many different values a statement lists, and their bytes.
	mostElsewhere, longestElsewhere = 20_000, 2 << 20
	// askedAtOnce is how many values one statement looks for. SQLite joins 500 results at most.
	askedAtOnce = 400
)

// find looks at every reference, parents first.
func (e *elsewhere) find(c *checking) {
	e.known = map[string]verdict{}
	c.eachSource(func(j *tableJob, src *sourceTable, s *server) {
		for _, ref := range j.refs {
			if !e.judges(j, src, ref) {
				continue
			}
			v := e.look(c, j, src, ref)
			p := Problem{Code: CodeOrphan, Server: s.Name, Table: j.name, Column: strings.Join(ref.Columns, ", ")}
			if v.many {
				p.Message = fmt.Sprintf("at least %d different values of the reference lead to rows of %s that "+
					"this server does not have: too many to be told apart one by one", len(v.listed), ref.Parent)
				p.Remedy = "correct the rows on their server, or drop the constraint, or the entry under " +
					"references:, until the merge is done"
				c.found(int64(len(v.listed)), p)
				continue
			}
			p.Message = "nobody can say whether the reference leads to a row of " + ref.Parent + ": no server " +
				"has it in the same letters, and the target has another collation than the servers"
			p.Remedy = "correct the rows on their server, letter by letter, or give the columns the same " +
				"collation on the servers and in the target"
			c.found(v.open, p)
			e.known[leadingOf(j, ref, src.server)] = v
		}
	})
}

// judges reports whether a value of a reference means the same row in the target as on its server, so that
// the rows of other servers count, or those of the target. What the plan sets a column to is judged by its
// own server.
func (e *elsewhere) judges(j *tableJob, src *sourceTable, ref sqldb.Reference) bool {
	table, parent := e.ws.target.Tables[ref.Parent], e.ws.jobs[ref.Parent]
	if ref.Inside() || table == nil {
		return false
	}
	for i, name := range ref.Columns {
		source, target := src.table.Column(name), table.Column(ref.Target[i])
		if j.plan.Set[name] != "" || source == nil || target == nil || !source.Comparable(target) ||
			j.target.Column(name).Family != target.Family || e.moves(j, ref, i) {
			return false
		}
		if parent == nil {
			continue
		}
		for k, other := range parent.sources {
			if other == nil {
				continue
			}
			key := other.table.Column(ref.Target[i])
			own := k == src.server
			if key == nil && own || key != nil && (!key.Comparable(target) || own && key.Family != source.Family) {
				return false
			}
		}
		if !e.stays(parent, ref.Target[i]) {
			return false
		}
	}
	if parent == nil { // what only the plan declares of a table that it skips, nobody enforces
		return e.ws.policy(ref.Parent) == Skip && ref.Enforced
	}
	// A row with this key is there if no row is dropped for another key.
	return !parent.plan.Policy.collapses() || sameNames(parent.plan.Key, ref.Target)
}

// moves reports whether a column of a reference follows other rows than those that the reference leads to.
func (e *elsewhere) moves(j *tableJob, ref sqldb.Reference, i int) bool {
	f, column := j.follows, ref.Columns[i]
	return slices.ContainsFunc(f.links, func(l link) bool {
		return l.column == column && l.parent != ref.Parent && !l.inside() &&
			(l.when == "" || l.when == ref.When)
	}) || slices.ContainsFunc(f.whole, func(w link) bool {
		return w.parent != ref.Parent && slices.Contains(w.columns(), column)
	}) || slices.ContainsFunc(f.names, func(n nameLink) bool { return n.column == column })
}

// stays reports whether every row of a table keeps what it has in a column.
func (e *elsewhere) stays(j *tableJob, column string) bool {
	p, f := j.plan, j.follows
	if p.Renumber != "" && j.key() != nil && j.key().Name == column || p.Set[column] != "" ||
		slices.Contains(p.Rename.writes(), column) {
		return false
	}
	// Of a column that follows other rows, each server has values of its own.
	follows := func(l link) bool { return l.column == column && l.parent != j.name }
	return !slices.ContainsFunc(f.links, follows) &&
		!slices.ContainsFunc(f.whole, func(w link) bool { return slices.Contains(w.columns(), column) }) &&
		!slices.ContainsFunc(f.names, func(n nameLink) bool { return n.column == column })
}

// yardstick returns how a column of the parent of a reference is asked for a value, on its server.
func (e *elsewhere) yardstick(server *sqldb.DB, parent *sqldb.Table, ref sqldb.Reference,
	i int) sqldb.Yardstick {
	standard := e.ws.target.Tables[ref.Parent].Column(ref.Target[i])
	return parent.Column(ref.Target[i]).Measure(server.Kind, standard, e.ws.target.Kind)
}

// verdict is what is known of the values of a reference that lead to no row of their own server.
type verdict struct {
	// listed are, as they stand in statements, those that lead to a row of another server or, if the plan skips
	// the parent, those that do not lead to one of the target.
	listed []string
	bytes  int
	many   bool  // too many to list
	none   bool  // there are no values at all
	open   int64 // how many may lead to a row, or not
}

// look finds the values of a reference that lead to no row of their own server.
func (e *elsewhere) look(c *checking, j *tableJob, src *sourceTable, ref sqldb.Reference) (v verdict) {
	sel := src.sel
	skipped := e.ws.jobs[ref.Parent] == nil
	missing := sel.orphan(j, ref, "s")
	if skipped {
		missing = sel.refers(j, ref, "s")
	}
	if missing == "" {
		return verdict{none: true}
	}
	q := src.owner.db.SQL("SELECT DISTINCT ", strings.Join(sel.exactly(src, ref, "s"), ", "),
		" FROM ", sel.table(j.name), " AS s WHERE ", missing)
	if j.plan.Where != "" {
		q.Add(" AND (", j.plan.Where, ")")
	}
	var batch [][]any
	judge := func() (more bool) {
		there, open := e.there(c, src, ref, batch)
		for i, key := range batch {
			if there[i] != skipped {
				v.listed = append(v.listed, constants(sel.kind, key))
				v.bytes += len(v.listed[len(v.listed)-1])
			} else if open {
				v.open++
			}
		}
		batch = nil
		v.many = len(v.listed) > mostElsewhere || v.bytes > longestElsewhere
		return !v.many
	}
	v.none = true
	c.Each(src.owner.db, q, func(values []any) bool {
		v.none = false
		for i, name := range ref.Columns {
			value, ok := src.table.Column(name).Key(sel.kind, values[i])
			if !ok {
				return true // a value of SQLite that no key is
			}
			values[i] = value
		}
		batch = append(batch, values)
		return len(batch) < askedAtOnce || judge()
	})
	judge() // the rest
	return v
}

// constants writes the values of a key as [sqldb.Among] lists them.
func constants(k sqldb.Kind, key []any) string {
	all := sqldb.Mapped(key, func(v any) string { return sqldb.Constant(k, v) })
	if len(all) == 1 {
		return all[0]
	}
	return "(" + strings.Join(all, ", ") + ")"
}

// there tells which of some values lead to a row of another server or, if the plan skips the parent, of the
// target. It reports whether the others may all the same lead to a row, in other letters.
func (e *elsewhere) there(c *checking, src *sourceTable, ref sqldb.Reference,
	keys [][]any) (there []bool, open bool) {
	there = make([]bool, len(keys))
	parent := e.ws.jobs[ref.Parent]
	if parent == nil {
		t := e.ws.target
		clause := " FROM " + t.Kind.Quote(ref.Parent) + " AS s WHERE 1 = 1"
		e.held(c, t, t.Tables[ref.Parent], clause, src, ref, keys, there)
		return there, false
	}
	for k, other := range parent.sources {
		if other == nil ||
			slices.ContainsFunc(ref.Target, func(name string) bool { return other.table.Column(name) == nil }) {
			continue
		}
		db := e.ws.servers[k].db
		for i := range ref.Target {
			open = open || e.yardstick(db, other.table, ref, i) == sqldb.Unknown
		}
		if k != src.server {
			e.held(c, db, other.table, other.sel.rows(other), src, ref, keys, there)
		}
	}
	return there, open
}

// held notes which of some values a table holds, among the rows that the rest of a statement selects.
func (e *elsewhere) held(c *checking, db *sqldb.DB, table *sqldb.Table, clause string,
	src *sourceTable, ref sqldb.Reference, keys [][]any, there []bool) {
	q := db.SQL("SELECT x.merge_n FROM (")
	between := ""
	for n, key := range keys {
		asked, possible := make([]any, len(key)), !there[n]
		for i, name := range ref.Target {
			ok := false
			asked[i], ok = table.Column(name).Asked(db.Kind, key[i], src.raw && db.Kind.Untyped())
			possible = possible && ok
		}
		if !possible {
			continue
		}
		q.Add(between, "SELECT ", strconv.Itoa(n), " AS merge_n")
		between = " UNION ALL "
		for i, name := range ref.Target {
			q.Add(", ")
			table.Column(name).Ask(q, asked[i])
			q.Add(" AS merge_", strconv.Itoa(i))
		}
	}
	if between == "" {
		return
	}
	q.Add(") AS x WHERE EXISTS (SELECT 1", clause)
	for i, name := range ref.Target {
		q.Add(" AND ", table.Column(name).Equals(db.Kind, "s."+db.Kind.Quote(name), "x.merge_"+strconv.Itoa(i),
			e.yardstick(db, table, ref, i)))
	}
	c.Each(db, q.Add(")"), func(values []any) bool {
		n, err := strconv.Atoi(sqldb.Text(values[0]))
		if c.Fail(err); err == nil {
			there[n] = true
		}
		return true
	})
}

// exactly returns the columns of a reference as [sqldb.Constant] compares them.
func (s selection) exactly(src *sourceTable, ref sqldb.Reference, alias string) []string {
	return sqldb.Mapped(ref.Columns, func(name string) string {
		return src.table.Column(name).Exactly(s.kind, alias+"."+s.kind.Quote(name))
	})
}

// listed returns the condition that a row has one of the values of a reference that are known, or "" if there
// are none.
func (e *elsewhere) listed(s selection, j *tableJob, ref sqldb.Reference, alias string) string {
	found := e.known[leadingOf(j, ref, s.server)].listed
	if len(found) == 0 {
		return ""
	}
	return sqldb.Among(s.kind, s.exactly(j.sources[s.server], ref, alias), found)
}

// unless narrows the condition under which a row has no parent on its server to the rows that have none in
// the target either.
func (e *elsewhere) unless(s selection, j *tableJob, ref sqldb.Reference, alias, missing string) string {
	if found := e.listed(s, j, ref, alias); found != "" {
		missing += " AND NOT " + found
	}
	return missing
}
