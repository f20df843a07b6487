package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

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
	first, end, err := r.layout.Range(from, to)
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
		return fmt.Errorf("%w: %s has no key of the plugin to page by", errs.ErrNotSharded, m.base.Name)
	}
	if err := r.checkUnlocked(ctx, m); err != nil {
		return err
	}
	parts := partsOf(r.topology, m)
	found := make([]reflect.Value, len(parts))
	err = acrossParts(ctx, r.topology, parts, func(i int) error {
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
func (r *Router) pageOf(ctx context.Context, m *shardModel, part unionPart, p page, into any) error {
	order := clause.OrderByColumn{Column: clause.PrimaryColumn, Desc: p.descending}
	preloads := false
	s, err := r.union(ctx, m, part, func(tx *gorm.DB, _ string) *gorm.DB {
		preloads = preloads || len(tx.Statement.Preloads) > 0
		if len(tx.Statement.Selects) == 0 && len(tx.Statement.Omits) == 0 && len(tx.Statement.Joins) == 0 {
			// Columns are named because the columns of altered tables may be in another order.
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
	return r.ready(ctx, m, part, s).Find(into).Error
}

// merge sorts the rows of all statements by their IDs and cuts them off at the limit.
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
			all = append(all, keyed{m.idOf(ctx, reflect.Indirect(row)), row})
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
