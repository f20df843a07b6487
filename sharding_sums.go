package snowflakeplugin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Count returns the number of the model's rows on all shards. The counts of different databases are
// not of one instant. The error wraps [ErrNotSharded], or is a [*PartialError], and there is no
// number then.
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
	m, err := r.modelOf(model)
	if err != nil {
		return nil, err
	}
	counts := make([]int64, r.shards)
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

// Exists reports whether any shard has a row of the model; together with [Router.Scopes], one that
// meets some conditions. The errors are those of [Router.Count].
func (r *Router) Exists(ctx context.Context, model any) (bool, error) {
	m, err := r.modelOf(model)
	if err != nil {
		return false, err
	}
	found := make([]bool, r.shards)
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

// Min stores the least value of a column over all shards in dest, a pointer to a value that the
// database can be scanned into and that can be ordered: a number, a string, a []byte or a time.Time.
// It returns false, and leaves dest alone, if there is none, because there are no rows or they hold
// NULL. Strings are compared byte by byte where they come from different shards. The errors are those
// of [Router.Sum].
func (r *Router) Min(ctx context.Context, model any, column string, dest any) (bool, error) {
	return r.extreme(ctx, model, column, "min", dest)
}

// Max is [Router.Min] for the greatest value.
func (r *Router) Max(ctx context.Context, model any, column string, dest any) (bool, error) {
	return r.extreme(ctx, model, column, "max", dest)
}

// Sum adds up a column of the model over all shards, and stores the sum in dest: a *big.Rat, which
// is exact for whole and decimal numbers, a *int64, or a *float64. NULL counts as nothing. The column
// is named as in the model or in the table. The errors are those of [Router.Count], and one wrapping
// gorm.ErrInvalidField for a column that the model does not have, or gorm.ErrInvalidValue where a
// *int64 cannot hold the sum or dest is of another type.
func (r *Router) Sum(ctx context.Context, model any, column string, dest any) error {
	m, err := r.modelOf(model)
	if err != nil {
		return err
	}
	field := m.base.LookUpField(column)
	if field == nil || field.DBName == "" {
		return fmt.Errorf("%w: %s has no column %q", gorm.ErrInvalidField, m.base.Name, column)
	}
	sums := make([]*big.Rat, r.shards)
	err = r.figures(ctx, m, func(tx *gorm.DB, shard string) *gorm.DB {
		column := clause.Column{Table: clause.CurrentTable, Name: field.DBName} // scopes may join others
		return figure(tx, shard+" AS shard, sum(?) AS n", column)
	}, func(rows *sql.Rows) error {
		var shard int
		var text sql.NullString // exact, whatever type the database adds up in
		if err := rows.Scan(&shard, &text); err != nil || !text.Valid {
			return err
		}
		n, ok := new(big.Rat).SetString(text.String)
		if !ok {
			return fmt.Errorf("%w: the sum of %s.%s is %q, which is no number", gorm.ErrInvalidValue,
				m.base.Name, field.Name, text.String)
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

// figure selects a figure. As an expression it stays alone, whatever the scopes join or select.
func figure(tx *gorm.DB, sql string, vars ...any) *gorm.DB {
	return tx.Clauses(clause.Select{Expression: clause.Expr{SQL: sql, Vars: vars}})
}

// figures asks each shard for one line, and hands the lines to read.
func (r *Router) figures(
	ctx context.Context, m *shardModel,
	complete branch, read func(*sql.Rows) error,
) error {
	if err := r.checkWhole(ctx, m); err != nil {
		return err
	}
	parts := r.parts(m)
	return r.acrossParts(ctx, parts, func(i int) (err error) {
		s, err := r.union(ctx, m, parts[i], complete)
		if err != nil {
			return err
		}
		rows, err := r.runs(ctx, m, parts[i], s).Rows()
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
