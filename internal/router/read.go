package router

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// maxIDsPerStatement is well below the number of arguments that any database allows.
const maxIDsPerStatement = 5000

// Find asks each database for its IDs, and then puts the rows in the order of the IDs. It returns the model,
// and those IDs that have no row, each once.
func (r *Router) Find(
	ctx context.Context, dest any, ids []int64,
) (m *shardmap.Model, missing []int64, err error) {
	m, err = r.ModelOf(dest)
	if err != nil {
		return nil, nil, err
	}
	into, err := emptied(dest)
	if err != nil {
		return nil, nil, err
	}
	if m.Key == nil {
		return nil, nil, fmt.Errorf("%w: %s has no key of the plugin to find rows by", errs.ErrNotSharded,
			m.Base.Name)
	}
	wanted, err := r.groupIDs(ctx, m, ids)
	if err != nil {
		return nil, nil, err
	}
	// A hook may read by its handle, which needs a route.
	apart := len(wanted) < 2 || m.Base.AfterFind || hasUnmigrated(m)
	q, err := r.newQuery(ctx, m, wanted, apart, func(tx *gorm.DB, one *asked) *gorm.DB {
		var ids any = openIDs{}
		if one != nil {
			ids = one.ids
		}
		return tx.Where(clause.Expr{SQL: "? IN (?)", Vars: []any{clause.PrimaryColumn, ids}})
	})
	if err != nil {
		return nil, nil, err
	}
	q.once = !q.askWhole()
	found, err := q.rows(into.Type())
	if err != nil {
		return nil, nil, err
	}
	rows := make(map[int64]reflect.Value, len(ids))
	for _, one := range found {
		rows[one.id] = one.row
	}
	all := reflect.MakeSlice(into.Type(), 0, len(ids))
	for _, id := range ids {
		row, known := rows[id]
		switch {
		case !known:
			missing = append(missing, id)
			rows[id] = reflect.Value{} // It is named once.
		case row.IsValid():
			all = reflect.Append(all, row)
		}
	}
	into.Set(all)
	return m, missing, nil
}

// groupIDs groups the IDs by shard, each ID once. A shard of which many are wanted is there several times.
func (r *Router) groupIDs(ctx context.Context, m *shardmap.Model, ids []int64) (groups []asked, err error) {
	latest := make(map[int]int) // the last group of each shard
	seen := make(map[int64]bool, len(ids))
	for _, id := range ids {
		shard := 0
		if m.Broadcast {
			err = r.CheckID(id)
		} else {
			shard, err = r.reach(ctx, id)
		}
		if err != nil {
			return nil, err
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		i, known := latest[shard]
		if !known || len(groups[i].ids) == maxIDsPerStatement {
			i = len(groups)
			latest[shard], groups = i, append(groups, asked{shard: shard})
		}
		groups[i].ids = append(groups[i].ids, id)
	}
	return groups, nil
}

// askWhole makes a query for IDs ask all shards of its database if a fifth of them is asked anyway, each
// for as many IDs. PostgreSQL keeps the plan of such a statement, because it comes again with other IDs, and
// to make a plan for a table takes it several times as long as to look there for an ID that no row has.
func (q *shardQuery) askWhole() bool {
	if q.apart || len(q.parts) != 1 || q.templateOf(q.parts[0]).db.Name() != dialect.PostgreSQL {
		return false
	}
	part, most := q.parts[0], 1
	ids := make(map[int][]int64, len(part))
	for _, one := range part {
		ids[one.shard] = one.ids
		for most < len(one.ids) {
			most *= 2
		}
	}
	const maxMost = 16
	if most > maxMost {
		return false
	}
	var whole []asked
	for shard := range q.ShardCount {
		if q.Entry(shard).Database == q.Entry(part[0].shard).Database {
			some := append(slices.Clip(ids[shard]), make([]int64, most-len(ids[shard]))...)
			whole = append(whole, asked{shard, some})
		}
	}
	if 5*len(part) < len(whole) || len(whole)*(len(q.templateOf(part).sql)+5*most) > maxKept {
		return false
	}
	q.parts[0] = whole
	return true
}

// emptied returns the slice behind dest, without elements.
func emptied(dest any) (reflect.Value, error) {
	v := reflect.ValueOf(dest)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Slice {
		return reflect.Value{}, fmt.Errorf("%w: %T: pass a pointer to a slice", gorm.ErrInvalidValue, dest)
	}
	v = v.Elem()
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	return v, nil
}

// Each gives fn a handle for every shard, or for every database if the model is a broadcast one.
func (r *Router) Each(ctx context.Context, model any, fn func(shard int, tx *gorm.DB) error) error {
	m, err := r.ModelOf(model)
	if err != nil {
		return err
	}
	if m.Broadcast {
		return shardmap.Scatter(ctx, shardmap.Singles(len(r.Databases)), func(database int) error {
			return fn(database, r.handle(ctx, r.Databases[database], route{all: true}, m.Value))
		})
	}
	return shardmap.Scatter(ctx, r.numbers(), func(shard int) error {
		if err := r.checkLocked(ctx, shard); err != nil {
			return err
		}
		return fn(r.Entry(shard).Residue, r.handleOn(ctx, shard, m.Value))
	})
}

// numbers are those by which applications know all shards, in groups of one.
func (r *Router) numbers() [][]int {
	numbers := shardmap.Singles(r.ShardCount)
	for shard := range numbers {
		numbers[shard][0] = r.Entry(shard).Residue
	}
	return numbers
}

// Page is a range of all rows in the order of their IDs.
type Page struct {
	Descending bool
	Limit      int
	Unlimited  bool
	// The bounds are nil where there are none: Above < id, id < Below.
	Above, Below *int64
}

func (p Page) bounded(tx *gorm.DB) *gorm.DB {
	if p.Above != nil {
		tx = tx.Where(clause.Gt{Column: clause.PrimaryColumn, Value: *p.Above})
	}
	if p.Below != nil {
		tx = tx.Where(clause.Lt{Column: clause.PrimaryColumn, Value: *p.Below})
	}
	return tx
}

// shareOf is how many rows of a page are asked of each shard at first. Shards that are as even as the IDs of
// this module have half of that in the page, so only rows that are spread otherwise need a second look.
func (p Page) shareOf(t *shardmap.Topology, m *shardmap.Model) int {
	const reserve = 4
	if m.Broadcast || t.ShardCount <= 2 || p.Limit <= reserve {
		return p.Limit
	}
	return min(p.Limit, p.Limit/t.ShardCount*2+p.Limit%t.ShardCount*2/t.ShardCount+reserve)
}

// Page asks each shard for its share of the page, and then those for more that have all of their share in
// it. Each row behind the last one of another shard comes after the page.
func (r *Router) Page(ctx context.Context, dest any, p Page) error {
	m, err := r.ModelOf(dest)
	if err != nil {
		return err
	}
	into, err := emptied(dest)
	switch {
	case err != nil:
		return err
	case p.Limit < 1 && !p.Unlimited:
		return fmt.Errorf("%w: a limit of %d", gorm.ErrInvalidValue, p.Limit)
	case m.Key == nil:
		return fmt.Errorf("%w: %s has no key of the plugin to page by", errs.ErrNotSharded, m.Base.Name)
	}
	if err := r.checkUnlocked(ctx, m); err != nil {
		return err
	}
	share := p.shareOf(r.Topology, m)
	q, err := r.newQuery(ctx, m, r.askAll(m), hasUnmigrated(m), func(tx *gorm.DB, _ *asked) *gorm.DB {
		return p.ordered(p.bounded(tx), share)
	})
	switch {
	case err != nil:
		return err
	case q.preloads:
		return errors.New("a page over several shards cannot preload: take the IDs of its rows and read " +
			"them by Router.Find")
	}
	q.end = func(db *gorm.DB, s *gorm.Statement) {
		s.SQL.WriteString(" ORDER BY " + db.Statement.Quote(m.Key.DBName) + p.direction(p.Limit))
	}
	rows, err := q.rows(into.Type())
	if err != nil {
		return err
	}
	rows = p.cut(rows)
	more, err := r.moreRows(ctx, m, p, share, rows, into.Type())
	if err != nil {
		return err
	}
	rows = p.cut(append(rows, more...))
	all := reflect.MakeSlice(into.Type(), len(rows), len(rows))
	for i := range rows {
		all.Index(i).Set(rows[i].row)
	}
	into.Set(all)
	return nil
}

// hasUnmigrated reports whether AutoMigrate leaves out a column of a model. The application may have made it,
// so only SELECT * tells.
func hasUnmigrated(m *shardmap.Model) bool {
	return slices.ContainsFunc(m.Base.DBNames, func(column string) bool {
		return m.Base.FieldsByDBName[column].IgnoreMigration
	})
}

// moreRows asks the shards that have their whole share among the rows for what follows it in the page.
func (r *Router) moreRows(
	ctx context.Context, m *shardmap.Model, p Page, share int, rows []foundRow, slice reflect.Type,
) ([]foundRow, error) {
	if p.Unlimited || share == p.Limit {
		return nil, nil
	}
	counts, last := make([]int, r.ShardCount), make([]int64, r.ShardCount)
	for _, row := range rows {
		shard := r.ShardOf(row.id)
		counts[shard]++
		last[shard] = row.id
	}
	var full []asked
	for shard, n := range counts {
		if n >= share {
			full = append(full, asked{shard: shard})
		}
	}
	q, err := r.newQuery(ctx, m, full, true, func(tx *gorm.DB, one *asked) *gorm.DB {
		return p.ordered(p.after(last[one.shard], rows).bounded(tx), p.Limit-share)
	})
	if err != nil {
		return nil, err
	}
	return q.rows(slice)
}

// after is the part of a page that follows a row and comes before the last one of a full page.
func (p Page) after(last int64, rows []foundRow) Page {
	begin, end := &p.Above, &p.Below
	if p.Descending {
		begin, end = end, begin
	}
	*begin = &last
	if len(rows) == p.Limit {
		*end = &rows[len(rows)-1].id
	}
	return p
}

// ordered puts rows in the order of the page. The limit stands in the text, because PostgreSQL makes a plan
// that it keeps only if it knows the limits.
func (p Page) ordered(tx *gorm.DB, limit int) *gorm.DB {
	return tx.Order(clause.OrderBy{Expression: clause.Expr{
		SQL: "?" + p.direction(limit), Vars: []any{clause.PrimaryColumn},
	}})
}

// direction is what follows the key in ORDER BY.
func (p Page) direction(limit int) (text string) {
	if p.Descending {
		text = " DESC"
	}
	if !p.Unlimited {
		text += " LIMIT " + strconv.Itoa(limit)
	}
	return text
}

type foundRow struct {
	id  int64
	row reflect.Value
}

// cut sorts rows by their IDs and cuts them off at the limit.
func (p Page) cut(rows []foundRow) []foundRow {
	slices.SortFunc(rows, func(a, b foundRow) int {
		if p.Descending {
			a, b = b, a
		}
		return cmp.Compare(a.id, b.id)
	})
	if !p.Unlimited {
		rows = rows[:min(len(rows), p.Limit)]
	}
	return rows
}

// maxTablesPerStatement bounds the tables that one statement reads. SQLite allows 500.
const maxTablesPerStatement = 200

// asked is a shard that is read, with the IDs that are wanted of it, if any are.
type asked struct {
	shard int
	ids   []int64
}

// partsOf divides shards into statements, each for some of one database.
func partsOf(t *shardmap.Topology, all []asked) [][]asked {
	var parts [][]asked
	latest, ids := map[int]int{}, map[int]int{} // by database, the last part and its IDs
	for _, one := range all {
		database := t.Entry(one.shard).Database
		last, begun := latest[database]
		if !begun || len(parts[last]) == maxTablesPerStatement ||
			ids[database]+len(one.ids) > maxIDsPerStatement {
			last = len(parts)
			latest[database], ids[database] = last, 0
			parts = append(parts, nil)
		}
		parts[last] = append(parts[last], one)
		ids[database] += len(one.ids)
	}
	return parts
}

// askAll asks all shards of a model.
func (r *Router) askAll(m *shardmap.Model) []asked {
	all := make([]asked, r.ShardCount)
	for shard := range all {
		all[shard].shard = shard
	}
	if m.Broadcast {
		all = all[:1]
	}
	return all
}

// branch completes the SELECT for one shard, or the template for all of them if that is nil.
type branch func(tx *gorm.DB, one *asked) *gorm.DB

// shardQuery is a read of some parts. GORM builds its SELECT, so scopes, soft deletes and plugins of the
// application apply. It builds only one for all shards of a database where a template can be made of that.
type shardQuery struct {
	*Router
	ctx       context.Context //nolint:containedctx // of the one call that the query serves
	m         *shardmap.Model
	parts     [][]asked // each is asked by one statement
	complete  branch
	templates []*template // by database
	// apart is set if each part is one shard, which GORM builds a SELECT of its own for.
	apart bool
	// end completes a statement over several shards.
	end func(db *gorm.DB, s *gorm.Statement)
	// preloads is set if scopes preload, which a statement over several shards cannot.
	preloads bool
	// once marks statements whose text hardly ever comes again.
	once bool
}

// newQuery builds the templates, unless the shards are to be asked apart, or have to be.
func (r *Router) newQuery(
	ctx context.Context, m *shardmap.Model, all []asked, apart bool, complete branch,
) (*shardQuery, error) {
	q := &shardQuery{Router: r, ctx: ctx, m: m, complete: complete, apart: apart}
	q.parts, q.templates = partsOf(r.Topology, all), make([]*template, len(r.Databases))
	for _, part := range q.parts {
		if q.apart || q.templateOf(part) != nil {
			continue
		}
		if err := q.addTemplate(part[0].shard); err != nil {
			return nil, err
		}
	}
	if q.apart {
		q.parts = slices.Collect(slices.Chunk(all, 1))
	}
	return q, nil
}

func (q *shardQuery) templateOf(part []asked) *template {
	return q.templates[q.Entry(part[0].shard).Database]
}

// rows reads the rows of all parts, as elements of slices of the given type.
func (q *shardQuery) rows(slice reflect.Type) (all []foundRow, err error) {
	found := make([]reflect.Value, len(q.parts))
	err = q.run(func(i int, tx *gorm.DB) error {
		some := reflect.New(slice)
		found[i] = some.Elem()
		return tx.Find(some.Interface()).Error
	})
	if err != nil {
		return nil, err
	}
	for _, some := range found {
		all = slices.Grow(all, some.Len())
		for i := range some.Len() {
			row := some.Index(i)
			id := q.m.IDOf(q.ctx, reflect.Indirect(row))
			if id == 0 {
				return nil, fmt.Errorf("%w: Scopes with Select or Omit left out the key %s of %s, by which rows of "+
					"several shards are put in order", gorm.ErrInvalidValue, q.m.Key.Name, q.m.Base.Name)
			}
			all = append(all, foundRow{id, row})
		}
	}
	return all, nil
}

// run runs the statements of all parts, several at a time. ask gets each as the next one of a handle.
func (q *shardQuery) run(ask func(i int, tx *gorm.DB) error) error {
	numbers := make([][]int, len(q.parts))
	for i, part := range q.parts {
		for _, one := range part {
			numbers[i] = append(numbers[i], q.Entry(one.shard).Residue)
		}
	}
	return shardmap.Scatter(q.ctx, numbers, func(i int) error {
		one := &q.parts[i][0]
		if q.apart {
			return ask(i, q.complete(q.scoped(q.handleOn(q.ctx, one.shard, q.m.Value)), one))
		}
		tx := q.ready(q.databaseOf(one.shard))
		if err := q.union(tx.Statement, q.parts[i]); err != nil {
			return err
		}
		return ask(i, tx)
	})
}

// union makes one SELECT for each shard, joined by UNION ALL, the text of a statement.
func (q *shardQuery) union(s *gorm.Statement, part []asked) error {
	t, several := q.templateOf(part), len(part) > 1
	const begin, end = "SELECT * FROM (", ") AS s"
	sqlite := t.db.Name() == dialect.SQLite
	// SQLite would put the rows of a UNION ALL in order by as many merges as it has parts, one in the other.
	// What has a limit of its own it reads first, and sorts then.
	apart := several && q.end != nil && sqlite
	if apart {
		s.SQL.WriteString(begin)
	}
	for i, asked := range part {
		// SQLite accepts ORDER BY and LIMIT only in a SELECT of its own, PostgreSQL a lock, and dbresolver takes
		// a text for a read only if it begins with SELECT. Elsewhere another SELECT would take longer to plan.
		open, closed := "(", ")"
		switch {
		case !several:
			open, closed = "", ""
		case i == 0 || t.locks || sqlite:
			open, closed = begin, end
		}
		if i > 0 {
			s.SQL.WriteString(" UNION ALL ")
		}
		s.SQL.WriteString(open)
		own, err := q.schemas.onShard(asked.shard)
		if err != nil {
			return err
		}
		t.render(s, own.quoted, asked.ids)
		s.SQL.WriteString(closed)
	}
	if apart {
		s.SQL.WriteString(" LIMIT -1" + end)
	}
	if several && q.end != nil {
		q.end(t.db, s)
	}
	return nil
}

// ready returns a handle for a statement whose text is written next. It has gone through the scopes as well:
// they may choose a replica, and hooks see what they set.
func (q *shardQuery) ready(db *gorm.DB) *gorm.DB {
	tx := q.scoped(q.handle(q.ctx, db, route{all: true}, q.m.Value).Model(q.m.Value))
	if prepared, ok := tx.Statement.ConnPool.(*gorm.PreparedStmtDB); ok && q.once {
		// GORM would keep a prepared statement for each of these texts.
		cfg := *tx.Config
		cfg.PrepareStmt = false
		tx.Config = &cfg
		tx.Statement.ConnPool = prepared.ConnPool
	}
	return tx
}

// scoped applies the functions of Scopes. Their conditions become one group, even a single one, so that an OR
// among them does not bypass the conditions that the router adds.
func (r *Router) scoped(tx *gorm.DB) *gorm.DB {
	if len(r.scopes) == 0 {
		return tx
	}
	for _, fn := range r.scopes {
		tx = fn(tx)
	}
	tx = tx.Session(&gorm.Session{}).Model(tx.Statement.Model) // a statement of its own
	if err := checkScopes(tx.Statement); err != nil {
		_ = tx.AddError(err)
	}
	if where, ok := tx.Statement.Clauses["WHERE"].Expression.(clause.Where); ok && len(where.Exprs) > 0 {
		built := tx.Statement.Clauses["WHERE"]
		built.Expression = clause.Where{Exprs: []clause.Expression{clause.And(where.Exprs...)}}
		tx.Statement.Clauses["WHERE"] = built
	}
	return tx
}

// checkScopes refuses what means something else on each shard than on all of them together.
func checkScopes(stmt *gorm.Statement) error {
	what := ""
	for _, one := range [][2]string{
		{"GROUP BY", "Group or Having"}, {"ORDER BY", "Order"}, {"LIMIT", "Limit or Offset"},
	} {
		if _, found := stmt.Clauses[one[0]]; found {
			what = one[1]
		}
	}
	from, _ := stmt.Clauses["FROM"].Expression.(clause.From)
	switch {
	case stmt.Distinct:
		what = "Distinct"
	case stmt.TableExpr != nil && len(stmt.TableExpr.Vars) == 0, len(from.Tables) > 0, stmt.SQL.Len() > 0:
		what = "Table, From or Raw" // Each shard would answer for the same table.
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%w: Scopes with %s: each shard would answer for itself: read the rows, or use "+
		"Router.Each and put the answers together", gorm.ErrInvalidValue, what)
}

// template is a SELECT that leaves open which shard it is for. GORM needs ten times as long to build a
// statement as it takes to fill in a template, and a page over 64 shards has 64 of them.
type template struct {
	db    *gorm.DB
	sql   string
	vars  []any
	locks bool // it has FOR UPDATE or FOR SHARE
}

// What stands in a template for the parts that differ from shard to shard. No SQL contains these characters.
const (
	openTable    = '\x00' // the name of a table, between two of them as it is in the model
	openArgument = '\x01' // a placeholder, which some databases number
)

// openIDs stands in a template for the IDs that are wanted from a shard.
type openIDs struct{}

// addTemplate lets GORM build the SELECT for one shard without running it, and leaves open what is different
// on others.
func (q *shardQuery) addTemplate(shard int) error {
	own, err := q.schemas.onShard(shard)
	if err != nil {
		return err
	}
	r, db := q.routeTo(shard), q.databaseOf(shard)
	r.open = true
	tx := q.handle(q.ctx, db, r, q.m.Value)
	tx = tx.Session(&gorm.Session{DryRun: true, SkipHooks: true, Logger: logger.Discard})
	tx.Dialector = openPlaceholders{db.Dialector} // in this session's copy of the configuration
	tx = q.scoped(tx.Model(q.m.Value))
	if stmt := tx.Statement; len(stmt.Selects) == 0 && len(stmt.Omits) == 0 && len(stmt.Joins) == 0 {
		tx = tx.Select(q.m.Base.DBNames) // because the columns of altered tables may be in another order
	}
	tx = q.complete(tx, nil).Find(q.m.Slice())
	stmt := tx.Statement
	if tx.Error != nil {
		return tx.Error
	}
	t := &template{db: db, sql: stmt.SQL.String(), vars: stmt.Vars}
	for base, name := range own.quoted {
		t.sql = strings.ReplaceAll(t.sql, name, string(openTable)+base+string(openTable))
	}
	_, t.locks = stmt.Clauses["FOR"]
	q.templates[q.Entry(shard).Database] = t
	q.preloads = q.preloads || len(stmt.Preloads) > 0
	// A subquery by a handle of the application has placeholders of its own, so it cannot be left open.
	q.apart = q.preloads || strings.Count(t.sql, string(openArgument)) != len(t.vars)
	return nil
}

// openPlaceholders is a dialect that leaves placeholders open.
type openPlaceholders struct{ gorm.Dialector }

// BindVarTo writes the character for a placeholder.
func (openPlaceholders) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) {
	_ = w.WriteByte(openArgument)
}

// render appends the SELECT for a shard to a statement. ids are those that are wanted from it, if any are.
func (t *template) render(s *gorm.Statement, tables map[string]string, ids []int64) {
	args := t.vars
	for rest := t.sql; ; {
		next := strings.IndexAny(rest, string([]rune{openTable, openArgument}))
		if next < 0 {
			s.SQL.WriteString(rest)
			return
		}
		s.SQL.WriteString(rest[:next])
		if rest[next] == openTable {
			base, _, _ := strings.Cut(rest[next+1:], string(openTable))
			s.SQL.WriteString(tables[base])
			rest = rest[next+len(base)+2:]
			continue
		}
		values := args[:1]
		if _, open := args[0].(openIDs); open {
			values = make([]any, len(ids))
			for i, id := range ids {
				values[i] = id
			}
		}
		for i, value := range values {
			if i > 0 {
				s.SQL.WriteByte(',')
			}
			s.Vars = append(s.Vars, value)
			t.db.BindVarTo(s, s, value)
		}
		args, rest = args[1:], rest[next+1:]
	}
}

// Count adds up the counts of the shards.
func (r *Router) Count(ctx context.Context, model any) (int64, error) {
	m, err := r.ModelOf(model)
	if err != nil {
		return 0, err
	}
	total, _, err := r.total(ctx, m, "rows", selecting("count(*)"))
	if err != nil {
		return 0, err
	}
	return total.Num().Int64(), nil
}

// Distribution counts the rows on each shard.
func (r *Router) Distribution(ctx context.Context, model any) ([]int64, error) {
	m, err := r.ModelOf(model)
	if err != nil {
		return nil, err
	}
	if m.Broadcast {
		return nil, fmt.Errorf("%w: %s has all its rows in every database", errs.ErrNotSharded, m.Base.Name)
	}
	counts := make([]int64, r.ShardCount)
	err = r.figures(ctx, m, true, selecting("count(*)"), func(shard int, rows *sql.Rows) error {
		return rows.Scan(&counts[shard])
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// Aggregate puts the sums, or the least or greatest values of the shards together.
func (r *Router) Aggregate(
	ctx context.Context, model any, function, column string, dest any,
) (found bool, err error) {
	m, err := r.ModelOf(model)
	if err != nil {
		return false, err
	}
	field := m.Base.LookUpField(column)
	if field == nil || field.DBName == "" {
		return false, fmt.Errorf("%w: %s has no column %q", gorm.ErrInvalidField, m.Base.Name, column)
	}
	switch function {
	case "sum":
		total, found, err := r.total(ctx, m, field.Name, applying("sum", field))
		if err != nil {
			return false, err
		}
		return found, storeSum(total, found, dest)
	case "min", "max":
		return r.extreme(ctx, m, field, function, dest)
	}
	return false, fmt.Errorf("%w: the function %q of %s.%s: it must be sum, min or max", gorm.ErrInvalidValue,
		function, m.Base.Name, field.Name)
}

// total adds up the figures of the shards, exactly, and says whether there are any.
func (r *Router) total(
	ctx context.Context, m *shardmap.Model, what string, figure branch,
) (total *big.Rat, found bool, err error) {
	total = new(big.Rat)
	err = r.figures(ctx, m, false, figure, func(_ int, rows *sql.Rows) error {
		var text sql.NullString // which is exact, whatever type the database adds up in
		if err := rows.Scan(&text); err != nil || !text.Valid {
			return err
		}
		n, ok := new(big.Rat).SetString(text.String)
		if !ok {
			return fmt.Errorf("%w: the sum of %s.%s is %q, which is not a number", gorm.ErrInvalidValue,
				m.Base.Name, what, text.String)
		}
		found, total = true, total.Add(total, n)
		return nil
	})
	return total, found, err
}

// storeSum stores a sum, unless there is none. It looks at the type of dest in any case.
func storeSum(total *big.Rat, found bool, dest any) error {
	switch dest := dest.(type) {
	case *big.Rat:
		if found {
			dest.Set(total)
		}
	case *float64:
		if found {
			*dest, _ = total.Float64()
		}
	case *int64:
		switch {
		case !found:
		case total.IsInt() && total.Num().IsInt64():
			*dest = total.Num().Int64()
		default:
			return fmt.Errorf("%w: an int64 cannot hold the sum %s", gorm.ErrInvalidValue, total.RatString())
		}
	default:
		return fmt.Errorf("%w: a sum in a %T: pass a *big.Rat, *int64 or *float64", gorm.ErrInvalidValue, dest)
	}
	return nil
}

// selecting selects an expression. It replaces whatever the scopes select.
func selecting(text string, vars ...any) branch {
	return func(tx *gorm.DB, _ *asked) *gorm.DB {
		return tx.Clauses(clause.Select{Expression: clause.Expr{SQL: text + " AS n", Vars: vars}})
	}
}

// applying selects a function of a column. Scopes may join other tables, so the column names its own.
func applying(function string, field *schema.Field) branch {
	return selecting(function+"(?)", clause.Column{Table: clause.CurrentTable, Name: field.DBName})
}

// figures asks each shard for one line of figures and passes the lines to read, one at a time. If the shards
// are asked apart, it says which one a line is from.
func (r *Router) figures(
	ctx context.Context, m *shardmap.Model, apart bool, complete branch,
	read func(shard int, line *sql.Rows) error,
) error {
	if err := r.checkUnlocked(ctx, m); err != nil {
		return err
	}
	q, err := r.newQuery(ctx, m, r.askAll(m), apart, complete)
	if err != nil {
		return err
	}
	var reading sync.Mutex
	return q.run(func(i int, tx *gorm.DB) error {
		rows, err := tx.Rows() //nolint:rowserrcheck // EachRow does both.
		return dialect.EachRow(rows, err, func(rows *sql.Rows) error {
			reading.Lock()
			defer reading.Unlock()
			return read(q.parts[i][0].shard, rows)
		})
	})
}

// extreme asks each shard for its least or greatest value, and takes the least or greatest of these.
func (r *Router) extreme(
	ctx context.Context, m *shardmap.Model, field *schema.Field, function string, dest any,
) (bool, error) {
	into := reflect.ValueOf(dest)
	if into.Kind() != reflect.Pointer || into.IsNil() {
		return false, fmt.Errorf("%w: a value in a %T: pass a pointer", gorm.ErrInvalidValue, dest)
	}
	into = into.Elem()
	if _, err := compareValues(into.Interface(), into.Interface()); err != nil {
		return false, err
	}
	found := reflect.Value{}
	err := r.figures(ctx, m, false, applying(function, field), func(_ int, rows *sql.Rows) error {
		value := reflect.New(reflect.PointerTo(into.Type())) // nil for NULL
		scanned := value.Interface()
		if when, ok := scanned.(**time.Time); ok {
			scanned = &storedTime{when}
		}
		if err := rows.Scan(scanned); err != nil || value.Elem().IsNil() {
			return err
		}
		one := value.Elem().Elem()
		if found.IsValid() {
			sign, err := compareValues(one.Interface(), found.Interface())
			if err != nil || (sign < 0) != (function == "min") {
				return err
			}
		}
		found = one
		return nil
	})
	if err != nil {
		return false, err
	}
	if found.IsValid() {
		into.Set(found)
	}
	return found.IsValid(), nil
}

// storedTime scans a time. SQLite has no type for times: it returns the text of an expression as it was
// stored.
type storedTime struct{ value **time.Time }

// Scan is that of sql.Scanner.
func (s *storedTime) Scan(value any) error {
	var text string
	switch value := value.(type) {
	case nil:
		return nil
	case time.Time:
		*s.value = &value
		return nil
	case string:
		text = value
	case []byte:
		text = string(value)
	default:
		return fmt.Errorf("%w: a time in a %T", gorm.ErrInvalidValue, value)
	}
	// The driver of SQLite stores the first form, its CURRENT_TIMESTAMP the third, other programs the rest.
	for _, form := range []string{
		"2006-01-02 15:04:05.999999999-07:00", time.RFC3339Nano, time.DateTime, "2006-01-02T15:04:05",
		time.DateOnly,
	} {
		if parsed, err := time.Parse(form, text); err == nil {
			*s.value = &parsed
			return nil
		}
	}
	return fmt.Errorf("%w: %q is not a time", gorm.ErrInvalidValue, text)
}

func compareValues(a, b any) (int, error) {
	switch a := a.(type) {
	case time.Time:
		return a.Compare(b.(time.Time)), nil //nolint:forcetypeassert // of one type
	case []byte:
		return bytes.Compare(a, b.([]byte)), nil //nolint:forcetypeassert // of one type
	}
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case v.CanInt():
		return cmp.Compare(v.Int(), w.Int()), nil
	case v.CanUint():
		return cmp.Compare(v.Uint(), w.Uint()), nil
	case v.CanFloat():
		return cmp.Compare(v.Float(), w.Float()), nil
	case v.Kind() == reflect.String:
		return cmp.Compare(v.String(), w.String()), nil
	}
	return 0, fmt.Errorf("%w: values of type %T cannot be compared", gorm.ErrInvalidValue, a)
}
