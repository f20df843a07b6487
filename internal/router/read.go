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
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// maxIDsPerStatement is well below the number of arguments that any database allows.
const maxIDsPerStatement = 5000

// MissingError names the IDs without a row.
type MissingError struct {
	Model string
	IDs   []int64
}

// Error names the first of them.
func (e *MissingError) Error() string {
	const maxNamed = 10
	var b strings.Builder
	fmt.Fprintf(&b, "snowflakeplugin: rows are missing: %s with the ID", e.Model)
	for i, id := range e.IDs[:min(len(e.IDs), maxNamed)] {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d", id)
	}
	if len(e.IDs) > maxNamed {
		fmt.Fprintf(&b, " and %d more", len(e.IDs)-maxNamed)
	}
	return b.String()
}

// Unwrap returns gorm.ErrRecordNotFound.
func (e *MissingError) Unwrap() error { return gorm.ErrRecordNotFound }

// Find asks each shard for its IDs, and then puts the rows in the order of the IDs.
func (r *Router) Find(ctx context.Context, dest any, ids []int64) error {
	m, err := r.ModelOf(dest)
	if err != nil {
		return err
	}
	into, err := emptied(dest)
	if err != nil {
		return err
	}
	if m.Key == nil {
		return fmt.Errorf("%w: %s has no key of the plugin to find rows by", errs.ErrNotSharded, m.Base.Name)
	}
	wanted, err := r.groupIDs(ctx, m, ids)
	if err != nil {
		return err
	}
	found := make([]reflect.Value, len(wanted))
	err = shardmap.Scatter(ctx, len(wanted), func(i int) (err error) {
		found[i], err = r.findOn(ctx, m, wanted[i], into.Type())
		return err
	})
	if err != nil {
		return aboutShards(err, wanted)
	}
	rows := make(map[int64]reflect.Value, len(ids))
	for _, some := range found {
		for i := range some.Len() {
			row := some.Index(i)
			rows[m.IDOf(ctx, reflect.Indirect(row))] = row
		}
	}
	return arrange(into, m, ids, rows)
}

// shardIDs are the IDs that are wanted from one shard.
type shardIDs struct {
	shard int
	ids   []int64
}

// groupIDs groups the IDs by shard, each ID once.
func (r *Router) groupIDs(ctx context.Context, m *shardmap.Model, ids []int64) ([]shardIDs, error) {
	byShard := make(map[int]int)
	seen := make(map[int64]bool, len(ids))
	var wanted []shardIDs
	for _, id := range ids {
		shard, err := r.Shard(id)
		if err == nil && !m.Broadcast {
			err = r.checkLocked(ctx, shard)
		}
		if err != nil {
			return nil, err
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		if m.Broadcast {
			shard = 0
		}
		i, known := byShard[shard]
		if !known {
			i = len(wanted)
			byShard[shard] = i
			wanted = append(wanted, shardIDs{shard: shard})
		}
		wanted[i].ids = append(wanted[i].ids, id)
	}
	return wanted, nil
}

// findOn reads the rows that one shard has, into a slice of the given type.
func (r *Router) findOn(
	ctx context.Context, m *shardmap.Model, wanted shardIDs, slice reflect.Type,
) (reflect.Value, error) {
	found := reflect.MakeSlice(slice, 0, len(wanted.ids))
	for ids := wanted.ids; len(ids) > 0; ids = ids[min(len(ids), maxIDsPerStatement):] {
		values := make([]any, min(len(ids), maxIDsPerStatement))
		for i := range values {
			values[i] = ids[i]
		}
		some := reflect.New(slice)
		tx := r.scoped(r.handleOn(ctx, wanted.shard, m.Value)).
			Where(clause.IN{Column: clause.PrimaryColumn, Values: values})
		if err := tx.Find(some.Interface()).Error; err != nil {
			return found, err
		}
		found = reflect.AppendSlice(found, some.Elem())
	}
	return found, nil
}

// arrange puts the rows in the order of the IDs.
func arrange(into reflect.Value, m *shardmap.Model, ids []int64, rows map[int64]reflect.Value) error {
	missing := &MissingError{Model: m.Base.Name}
	named := map[int64]bool{}
	all := reflect.MakeSlice(into.Type(), 0, len(ids))
	for _, id := range ids {
		row, found := rows[id]
		if found {
			all = reflect.Append(all, row)
		} else if !named[id] {
			named[id] = true
			missing.IDs = append(missing.IDs, id)
		}
	}
	into.Set(all)
	if len(missing.IDs) > 0 {
		return missing
	}
	return nil
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

// aboutShards turns the numbers in an error from positions in wanted to shards.
func aboutShards(err error, wanted []shardIDs) error {
	partial, ok := err.(*shardmap.PartialError) //nolint:errorlint // scatter returns it unwrapped
	if !ok {
		return err
	}
	e := &shardmap.PartialError{Failed: map[int]error{}}
	for _, i := range partial.OK {
		e.OK = append(e.OK, wanted[i].shard)
	}
	for i, failure := range partial.Failed {
		e.Failed[wanted[i].shard] = failure
	}
	return e
}

// Latest reads the first page, newest rows first.
func (r *Router) Latest(ctx context.Context, dest any, limit int) error {
	return r.page(ctx, dest, page{descending: true, limit: limit})
}

// Before reads a page of rows older than the cursor, newest first.
func (r *Router) Before(ctx context.Context, dest any, cursor int64, limit int) error {
	if cursor <= 0 {
		return fmt.Errorf("%w: the cursor %d: use Latest for the first page", errs.ErrInvalidID, cursor)
	}
	return r.page(ctx, dest, page{descending: true, limit: limit, below: &cursor})
}

// After reads a page of rows newer than the cursor, oldest first.
func (r *Router) After(ctx context.Context, dest any, cursor int64, limit int) error {
	if cursor < 0 {
		return fmt.Errorf("%w: the cursor %d is negative", errs.ErrInvalidID, cursor)
	}
	return r.page(ctx, dest, page{limit: limit, above: &cursor})
}

// Between reads all rows from one time to another, oldest first.
func (r *Router) Between(ctx context.Context, dest any, from, to time.Time) error {
	first, end, err := r.Layout.Range(from, to)
	if err != nil {
		return fmt.Errorf("snowflakeplugin: rows between %s and %s: %w", from.Format(time.RFC3339Nano),
			to.Format(time.RFC3339Nano), err)
	}
	return r.page(ctx, dest, page{unlimited: true, from: &first, below: &end})
}

// page is a range of all rows in the order of their IDs.
type page struct {
	descending bool
	limit      int
	unlimited  bool
	// The bounds are nil where there are none: above < id, from <= id, id < below.
	above, from, below *int64
}

func (p page) where(tx *gorm.DB) *gorm.DB {
	if p.above != nil {
		tx = tx.Where(clause.Gt{Column: clause.PrimaryColumn, Value: *p.above})
	}
	if p.from != nil {
		tx = tx.Where(clause.Gte{Column: clause.PrimaryColumn, Value: *p.from})
	}
	if p.below != nil {
		tx = tx.Where(clause.Lt{Column: clause.PrimaryColumn, Value: *p.below})
	}
	return tx
}

// page reads one page from each database and merges the pages.
func (r *Router) page(ctx context.Context, dest any, p page) error {
	m, err := r.ModelOf(dest)
	if err != nil {
		return err
	}
	into, err := emptied(dest)
	switch {
	case err != nil:
		return err
	case p.limit < 1 && !p.unlimited:
		return fmt.Errorf("%w: a limit of %d", gorm.ErrInvalidValue, p.limit)
	case m.Key == nil:
		return fmt.Errorf("%w: %s has no key of the plugin to page by", errs.ErrNotSharded, m.Base.Name)
	}
	if err := r.checkUnlocked(ctx, m); err != nil {
		return err
	}
	parts := partsOf(r.Topology, m)
	found := make([]reflect.Value, len(parts))
	err = acrossParts(ctx, r.Topology, parts, func(i int) error {
		some := reflect.New(into.Type())
		found[i] = some.Elem()
		return r.pageOf(ctx, m, parts[i], p, some.Interface())
	})
	if err != nil {
		return err
	}
	into.Set(p.merge(ctx, m, into.Type(), found))
	return nil
}

// errPreload is returned when a scope asks for a preload.
var errPreload = errors.New("a page over several shards cannot preload: " +
	"take the IDs of its rows and read them by Router.Find")

// pageOf reads the page of one statement.
func (r *Router) pageOf(ctx context.Context, m *shardmap.Model, part unionPart, p page, into any) error {
	order := clause.OrderByColumn{Column: clause.PrimaryColumn, Desc: p.descending}
	preloads := false
	s, err := r.union(ctx, m, part, func(tx *gorm.DB, _ string) *gorm.DB {
		preloads = preloads || len(tx.Statement.Preloads) > 0
		if len(tx.Statement.Selects) == 0 && len(tx.Statement.Omits) == 0 && len(tx.Statement.Joins) == 0 {
			// Columns are named because the columns of altered tables may be in another order.
			tx = tx.Select(m.Base.DBNames)
		}
		if !p.unlimited {
			tx = tx.Limit(p.limit)
		}
		return p.where(tx).Order(order)
	})
	if err != nil {
		return err
	}
	if preloads {
		return errPreload
	}
	tx := r.session(ctx, part.database, route{all: true})
	s.sql.WriteString(" ORDER BY ")
	tx.QuoteTo(&s.sql, m.Key.DBName)
	if p.descending {
		s.sql.WriteString(" DESC")
	}
	if !p.unlimited {
		fmt.Fprintf(&s.sql, " LIMIT %d", p.limit)
	}
	return r.ready(ctx, m, part, s).Find(into).Error
}

// merge sorts the rows of all statements by their IDs and cuts them off at the limit.
func (p page) merge(
	ctx context.Context, m *shardmap.Model, t reflect.Type, found []reflect.Value,
) reflect.Value {
	if len(found) == 1 {
		return found[0]
	}
	type keyed struct {
		id  int64
		row reflect.Value
	}
	var all []keyed
	for _, rows := range found {
		for i := range rows.Len() {
			row := rows.Index(i)
			all = append(all, keyed{m.IDOf(ctx, reflect.Indirect(row)), row})
		}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		if p.descending {
			a, b = b, a
		}
		return cmp.Compare(a.id, b.id)
	})
	if !p.unlimited {
		all = all[:min(len(all), p.limit)]
	}
	rows := reflect.MakeSlice(t, 0, len(all))
	for _, k := range all {
		rows = reflect.Append(rows, k.row)
	}
	return rows
}

// maxTablesPerStatement bounds the tables that one statement reads. SQLite allows 500.
const maxTablesPerStatement = 200

// unionPart is what one statement of a read over all shards covers: some shards of one database.
type unionPart struct {
	database int
	shards   []int
}

// partsOf divides all shards of a model into statements.
func partsOf(t *shardmap.Topology, m *shardmap.Model) []unionPart {
	if m.Broadcast {
		return []unionPart{{database: 0, shards: []int{0}}}
	}
	of := make([][]int, len(t.Databases))
	for shard, at := range t.Place {
		of[at] = append(of[at], shard)
	}
	var parts []unionPart
	for at, shards := range of {
		for len(shards) > 0 {
			n := min(len(shards), maxTablesPerStatement)
			parts = append(parts, unionPart{at, shards[:n]})
			shards = shards[n:]
		}
	}
	return parts
}

// acrossParts runs do for each part, several at a time. Its errors are about shards, not parts.
func acrossParts(ctx context.Context, t *shardmap.Topology, parts []unionPart, do func(i int) error) error {
	err := shardmap.Scatter(ctx, len(parts), func(i int) error {
		at := parts[i].database
		if err := t.CheckLease(ctx, at, nil, shardmap.BeforeStatement); err != nil {
			return err
		}
		if err := do(i); err != nil {
			return err
		}
		return t.CheckLease(ctx, at, nil, shardmap.AfterStatement)
	})
	partial, ok := err.(*shardmap.PartialError) //nolint:errorlint // scatter returns it unwrapped
	if !ok {
		return err
	}
	failures := make([]error, t.ShardCount)
	for i, failure := range partial.Failed {
		for _, shard := range parts[i].shards {
			failures[shard] = failure
		}
	}
	return shardmap.PartialOf(failures)
}

// statement is SQL under construction, with its arguments.
type statement struct {
	sql  strings.Builder
	vars []any
}

// branch completes the SELECT on one shard. number is how the shard is written in SQL.
type branch func(tx *gorm.DB, number string) *gorm.DB

// union joins one SELECT for each shard by UNION ALL. The arguments follow in the same order. Each SELECT
// is wrapped in another, because SQLite accepts ORDER BY and LIMIT only so.
//
// GORM builds the SELECT, so scopes, soft deletes and plugins of the application apply. It builds only
// one for all shards where a template can be made of that.
func (r *Router) union(
	ctx context.Context, m *shardmap.Model, part unionPart, complete branch,
) (*statement, error) {
	s := &statement{}
	var t *template
	for i, shard := range part.shards {
		if t == nil {
			var err error
			if t, err = r.template(ctx, m, part.database, shard, complete); err != nil {
				return nil, err
			}
		}
		if i > 0 {
			s.sql.WriteString(" UNION ALL ")
		}
		s.sql.WriteString("SELECT * FROM (")
		if t.special {
			if err := r.buildForShard(ctx, m, part.database, shard, complete, s); err != nil {
				return nil, err
			}
		} else {
			t.fill(s, m.Table(shard), shard)
		}
		s.sql.WriteString(") AS s")
		s.sql.WriteString(strconv.Itoa(shard))
	}
	return s, nil
}

// ready returns a handle that has a finished statement as its next one. It has gone through the scopes
// as well: they may choose a replica, and hooks see what they set.
func (r *Router) ready(ctx context.Context, m *shardmap.Model, part unionPart, s *statement) *gorm.DB {
	tx := r.scoped(r.bind(ctx, r.Databases[part.database], route{all: true}, m.Value))
	tx.Statement.SQL.WriteString(s.sql.String())
	tx.Statement.Vars = s.vars
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
		of := tx.Statement.Clauses["WHERE"]
		of.Expression = clause.Where{Exprs: []clause.Expression{clause.And(where.Exprs...)}}
		tx.Statement.Clauses["WHERE"] = of
	}
	return tx
}

// checkScopes refuses what means something else on each shard than on all of them together.
func checkScopes(stmt *gorm.Statement) error {
	for _, c := range []struct{ name, what string }{
		{"GROUP BY", "Group or Having"}, {"ORDER BY", "Order"}, {"LIMIT", "Limit or Offset"},
	} {
		if _, found := stmt.Clauses[c.name]; found {
			return fmt.Errorf("%w: Scopes with %s: each shard would answer for itself: read the rows, or use "+
				"Router.Each and put the answers together", gorm.ErrInvalidValue, c.what)
		}
	}
	if stmt.Distinct {
		return fmt.Errorf("%w: Scopes with Distinct: each shard would answer for itself: read the rows, or use "+
			"Router.Each and put the answers together", gorm.ErrInvalidValue)
	}
	return nil
}

// buildForShard lets GORM build the SELECT for one shard, and appends it to a statement.
func (r *Router) buildForShard(
	ctx context.Context, m *shardmap.Model, database, shard int, complete branch, s *statement,
) error {
	tx := r.bind(ctx, r.Databases[database], route{shard: shard}, m.Value)
	tx = tx.Session(&gorm.Session{DryRun: true, SkipHooks: true, Logger: logger.Discard})
	tx = complete(r.scoped(tx.Model(m.Value)), strconv.Itoa(shard))
	tx.Statement.Vars = s.vars // because placeholders are numbered by position
	tx = tx.Find(m.Slice())
	s.sql.WriteString(tx.Statement.SQL.String())
	s.vars = tx.Statement.Vars
	return tx.Error
}

// template is a SELECT that leaves open which shard it is for. GORM needs ten times as long to build a
// statement as it takes to fill in a template, and a page over 64 shards has 64 of them.
type template struct {
	dialect gorm.Dialector
	sql     string
	vars    []any
	quote   string // of the dialect
	// special marks a SELECT that differs between shards by more than can be left open.
	special bool
}

// What stands in a template for the parts that differ from shard to shard. openTable is the third of
// them. No SQL contains these characters.
const (
	openNumber   = '\x01' // the number of the shard
	openArgument = '\x02' // a placeholder, which some databases number
)

// template lets GORM build a SELECT without running it.
func (r *Router) template(
	ctx context.Context, m *shardmap.Model, database, shard int, complete branch,
) (*template, error) {
	to := route{shard: shard}
	if !m.Broadcast {
		to.open = &opening{of: m}
	}
	db := r.Databases[database]
	tx := r.bind(ctx, db, to, m.Value)
	tx = tx.Session(&gorm.Session{DryRun: true, SkipHooks: true, Logger: logger.Discard})
	tx.Dialector = openPlaceholders{db.Dialector} // in this session's copy of the configuration
	tx = complete(r.scoped(tx.Model(m.Value)), string(openNumber)).Find(m.Slice())
	if tx.Error != nil {
		return nil, tx.Error
	}
	t := &template{
		dialect: db.Dialector, sql: tx.Statement.SQL.String(), vars: tx.Statement.Vars,
		quote: db.Statement.Quote("x")[:1],
	}
	// A subquery by a handle of the application has placeholders of its own.
	t.special = to.open != nil && to.open.others ||
		strings.Count(t.sql, string(openArgument)) != len(t.vars)
	return t, nil
}

// openPlaceholders is a dialect that leaves placeholders open.
type openPlaceholders struct{ gorm.Dialector }

// BindVarTo writes the character for a placeholder.
func (openPlaceholders) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) {
	_ = w.WriteByte(openArgument)
}

// fill appends the SELECT for a shard to a statement.
func (t *template) fill(s *statement, table string, shard int) {
	args := t.vars
	table = strings.ReplaceAll(table[strings.LastIndexByte(table, '.')+1:], t.quote, t.quote+t.quote)
	for rest := t.sql; ; {
		at := strings.IndexAny(rest, string([]rune{openTable, openNumber, openArgument}))
		if at < 0 {
			s.sql.WriteString(rest)
			return
		}
		s.sql.WriteString(rest[:at])
		switch rest[at] {
		case openTable:
			s.sql.WriteString(table)
		case openNumber:
			s.sql.WriteString(strconv.Itoa(shard))
		case openArgument:
			s.vars = append(s.vars, args[0])
			t.dialect.BindVarTo(&s.sql, &gorm.Statement{Vars: s.vars}, args[0])
			args = args[1:]
		}
		rest = rest[at+1:]
	}
}

// Count adds up the counts of the shards.
func (r *Router) Count(ctx context.Context, model any) (int64, error) {
	counts, err := r.counts(ctx, model)
	var sum int64
	for _, n := range counts {
		sum += n
	}
	return sum, err
}

// counts returns the number of rows on each shard.
func (r *Router) counts(ctx context.Context, model any) ([]int64, error) {
	m, err := r.ModelOf(model)
	if err != nil {
		return nil, err
	}
	counts := make([]int64, r.ShardCount)
	err = r.figures(ctx, m, func(tx *gorm.DB, shard string) *gorm.DB {
		return figure(tx, shard+" AS shard, count(*) AS n")
	}, func(rows *sql.Rows) error {
		var shard int
		var n int64
		if err := rows.Scan(&shard, &n); err != nil {
			return err
		}
		counts[shard] = n
		return nil
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// Exists asks each shard for at most one row.
func (r *Router) Exists(ctx context.Context, model any) (bool, error) {
	m, err := r.ModelOf(model)
	if err != nil {
		return false, err
	}
	found := make([]bool, r.ShardCount)
	err = r.figures(ctx, m, func(tx *gorm.DB, shard string) *gorm.DB {
		return figure(tx, shard+" AS shard").Limit(1)
	}, func(rows *sql.Rows) error {
		var shard int
		err := rows.Scan(&shard)
		if err == nil {
			found[shard] = true
		}
		return err
	})
	if err != nil {
		return false, err
	}
	for _, some := range found {
		if some {
			return true, nil
		}
	}
	return false, nil
}

// columnOf finds a column by the name of its field or its own.
func columnOf(m *shardmap.Model, column string) (*schema.Field, error) {
	field := m.Base.LookUpField(column)
	if field == nil || field.DBName == "" {
		return nil, fmt.Errorf("%w: %s has no column %q", gorm.ErrInvalidField, m.Base.Name, column)
	}
	return field, nil
}

// Sum adds up the sums of the shards, exactly.
func (r *Router) Sum(ctx context.Context, model any, column string, dest any) error {
	m, err := r.ModelOf(model)
	if err != nil {
		return err
	}
	field, err := columnOf(m, column)
	if err != nil {
		return err
	}
	sums := make([]*big.Rat, r.ShardCount)
	err = r.figures(ctx, m, func(tx *gorm.DB, shard string) *gorm.DB {
		column := clause.Column{Table: clause.CurrentTable, Name: field.DBName} // Scopes may join other tables.
		return figure(tx, shard+" AS shard, sum(?) AS n", column)
	}, func(rows *sql.Rows) error {
		var shard int
		var text sql.NullString // which is exact, whatever type the database adds up in
		if err := rows.Scan(&shard, &text); err != nil || !text.Valid {
			return err
		}
		n, ok := new(big.Rat).SetString(text.String)
		if !ok {
			return fmt.Errorf("%w: the sum of %s.%s is %q, which is not a number", gorm.ErrInvalidValue,
				m.Base.Name, field.Name, text.String)
		}
		sums[shard] = n
		return nil
	})
	if err != nil {
		return err
	}
	total := new(big.Rat)
	for _, n := range sums {
		if n != nil {
			total.Add(total, n)
		}
	}
	return storeSum(total, dest)
}

func storeSum(total *big.Rat, dest any) error {
	switch dest := dest.(type) {
	case *big.Rat:
		dest.Set(total)
	case *float64:
		*dest, _ = total.Float64()
	case *int64:
		if !total.IsInt() || !total.Num().IsInt64() {
			return fmt.Errorf("%w: an int64 cannot hold the sum %s", gorm.ErrInvalidValue, total.RatString())
		}
		*dest = total.Num().Int64()
	default:
		return fmt.Errorf("%w: a sum in a %T: pass a *big.Rat, *int64 or *float64", gorm.ErrInvalidValue, dest)
	}
	return nil
}

// figure selects an expression. It replaces whatever the scopes select.
func figure(tx *gorm.DB, sql string, vars ...any) *gorm.DB {
	return tx.Clauses(clause.Select{Expression: clause.Expr{SQL: sql, Vars: vars}})
}

// figures asks each shard for one line of figures and passes the lines to read, which may be called
// by several goroutines at a time, for different shards.
func (r *Router) figures(
	ctx context.Context, m *shardmap.Model, complete branch, read func(*sql.Rows) error,
) error {
	if err := r.checkUnlocked(ctx, m); err != nil {
		return err
	}
	parts := partsOf(r.Topology, m)
	return acrossParts(ctx, r.Topology, parts, func(i int) (err error) {
		s, err := r.union(ctx, m, parts[i], complete)
		if err != nil {
			return err
		}
		rows, err := r.ready(ctx, m, parts[i], s).Rows()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			if err := read(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// Min takes the least of the values of the shards.
func (r *Router) Min(ctx context.Context, model any, column string, dest any) (bool, error) {
	return r.extreme(ctx, model, column, "min", dest)
}

// Max takes the greatest of the values of the shards.
func (r *Router) Max(ctx context.Context, model any, column string, dest any) (bool, error) {
	return r.extreme(ctx, model, column, "max", dest)
}

// extreme asks each shard for its least or greatest value, and takes the least or greatest of these.
func (r *Router) extreme(ctx context.Context, model any, column, function string, dest any) (bool, error) {
	m, err := r.ModelOf(model)
	if err != nil {
		return false, err
	}
	field, err := columnOf(m, column)
	if err != nil {
		return false, err
	}
	into := reflect.ValueOf(dest)
	if into.Kind() != reflect.Pointer || into.IsNil() {
		return false, fmt.Errorf("%w: a value in a %T: pass a pointer", gorm.ErrInvalidValue, dest)
	}
	into = into.Elem()
	if _, err := compareValues(into.Interface(), into.Interface()); err != nil {
		return false, err
	}
	values := make([]reflect.Value, r.ShardCount) // by shard, because several write at a time
	err = r.figures(ctx, m, func(tx *gorm.DB, shard string) *gorm.DB {
		return tx.Select(shard + " AS shard, " + function + "(" + tx.Statement.Quote(field.DBName) + ") AS n")
	}, func(rows *sql.Rows) error {
		var shard int
		value := reflect.New(reflect.PointerTo(into.Type())) // nil for NULL
		to := value.Interface()
		if at, ok := to.(**time.Time); ok {
			to = &storedTime{at}
		}
		if err := rows.Scan(&shard, to); err != nil {
			return err
		}
		values[shard] = value.Elem()
		return nil
	})
	if err != nil {
		return false, err
	}
	found := reflect.Value{}
	for _, value := range values {
		if !value.IsValid() || value.IsNil() {
			continue
		}
		if !found.IsValid() {
			found = value.Elem()
			continue
		}
		sign, err := compareValues(value.Elem().Interface(), found.Interface())
		if err != nil {
			return false, err
		}
		if function == "min" && sign < 0 || function == "max" && sign > 0 {
			found = value.Elem()
		}
	}
	if found.IsValid() {
		into.Set(found)
	}
	return found.IsValid(), nil
}

// storedTime scans a time. SQLite has no type for times: it returns the text of an expression as it was
// stored.
type storedTime struct{ to **time.Time }

// Scan is that of sql.Scanner.
func (s *storedTime) Scan(value any) error {
	var text string
	switch value := value.(type) {
	case nil:
		return nil
	case time.Time:
		*s.to = &value
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
		if at, err := time.Parse(form, text); err == nil {
			*s.to = &at
			return nil
		}
	}
	return fmt.Errorf("%w: %q is not a time", gorm.ErrInvalidValue, text)
}

// compareValues compares two values of one type.
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

// Distribution counts the rows on each shard.
func (r *Router) Distribution(ctx context.Context, model any) ([]int64, error) {
	m, err := r.ModelOf(model)
	if err != nil {
		return nil, err
	}
	if m.Broadcast {
		return nil, fmt.Errorf("%w: %s has all its rows in every database", errs.ErrNotSharded, m.Base.Name)
	}
	return r.counts(ctx, model)
}
