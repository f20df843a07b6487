package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Latest reads the newest rows of all shards into dest, a pointer to a slice, the newest first. A
// row is the newer one if its ID is greater, so no column for the time is needed, and no index but
// the primary key. Each database is asked once, for one page.
//
// It returns an error wrapping [ErrNotSharded]; gorm.ErrInvalidValue for a limit below 1 or another
// kind of dest; or, if a shard fails, a [*PartialError], and dest is empty.
func (r *Router) Latest(ctx context.Context, dest any, limit int) error {
	return r.page(ctx, dest, page{descending: true, limit: limit})
}

// Before is [Router.Latest] for the rows older than the cursor: those of the next page, if the
// cursor is the ID of the last row of a page. Rows that were added meanwhile move nothing, so no row
// comes twice or is left out. The cursor need not be the ID of a row.
func (r *Router) Before(ctx context.Context, dest any, cursor ID, limit int) error {
	if cursor <= 0 {
		return fmt.Errorf("%w: the cursor %d: use Latest for the first page", ErrInvalidID, int64(cursor))
	}
	return r.page(ctx, dest, page{descending: true, limit: limit, below: &cursor})
}

// After reads the rows newer than the cursor, the oldest first; a cursor of 0 stands for the
// beginning. Otherwise it is as [Router.Latest]. A row of a transaction that is still open may
// appear later, behind a cursor that is beyond it already: to read every row once, stay as far
// behind the present as transactions last.
func (r *Router) After(ctx context.Context, dest any, cursor ID, limit int) error {
	if cursor < 0 {
		return fmt.Errorf("%w: the cursor %d is negative", ErrInvalidID, int64(cursor))
	}
	return r.page(ctx, dest, page{limit: limit, above: &cursor})
}

// Between reads all rows whose IDs were made from one time on and before another, the oldest first.
// Their number is not limited. In addition to the errors of [Router.Latest] it returns those of
// [generator.Layout.Range].
func (r *Router) Between(ctx context.Context, dest any, from, to time.Time) error {
	first, end, err := r.layout.Range(from, to)
	if err != nil {
		return fmt.Errorf("snowflakeplugin: rows between %s and %s: %w", from.Format(time.RFC3339Nano),
			to.Format(time.RFC3339Nano), err)
	}
	low, high := ID(first), ID(end)
	return r.page(ctx, dest, page{unlimited: true, from: &low, below: &high})
}

// page is a part of all rows in the order of their IDs.
type page struct {
	descending bool
	limit      int
	unlimited  bool
	// The bounds, if any: above < id, from <= id < below.
	above, from, below *ID
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

// page reads one page of each database and merges them.
func (r *Router) page(ctx context.Context, dest any, p page) error {
	m, err := r.modelOf(dest)
	if err != nil {
		return err
	}
	into, err := emptied(dest)
	switch {
	case err != nil:
		return err
	case p.limit < 1 && !p.unlimited:
		return fmt.Errorf("%w: a limit of %d", gorm.ErrInvalidValue, p.limit)
	case m.key == nil:
		return fmt.Errorf("%w: %s has no key of the plugin to page by", ErrNotSharded, m.base.Name)
	}
	if err := r.checkWhole(ctx, m); err != nil {
		return err
	}
	parts := r.parts(m)
	found := make([]reflect.Value, len(parts))
	err = r.acrossParts(ctx, parts, func(i int) error {
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

// errPreload is for scopes that ask for what a page cannot have.
var errPreload = errors.New("a page over several shards cannot preload: " +
	"take the IDs of its rows and use Router.Find")

// pageOf reads the page of one statement.
func (r *Router) pageOf(ctx context.Context, m *shardModel, part unionPart, p page, into any) error {
	order := clause.OrderByColumn{Column: clause.PrimaryColumn, Desc: p.descending}
	preloads := false
	s, err := r.union(ctx, m, part, func(tx *gorm.DB, _ string) *gorm.DB {
		preloads = preloads || len(tx.Statement.Preloads) > 0
		if len(tx.Statement.Selects) == 0 && len(tx.Statement.Omits) == 0 && len(tx.Statement.Joins) == 0 {
			// By name: tables that were altered may have their columns in another order.
			tx = tx.Select(m.base.DBNames)
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
	tx.QuoteTo(&s.sql, m.key.DBName)
	if p.descending {
		s.sql.WriteString(" DESC")
	}
	if !p.unlimited {
		fmt.Fprintf(&s.sql, " LIMIT %d", p.limit)
	}
	return r.runs(ctx, m, part, s).Find(into).Error
}

// merge takes the rows of all statements in the order of their IDs, up to the limit.
func (p page) merge(ctx context.Context, m *shardModel, t reflect.Type, found []reflect.Value) reflect.Value {
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
			value, _ := m.key.ValueOf(ctx, reflect.Indirect(row))
			id, _ := likeKey(value)
			all = append(all, keyed{id, row})
		}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		if p.descending {
			a, b = b, a
		}
		return int(min(max(a.id-b.id, -1), 1)) // IDs are positive, so the difference is a number
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
