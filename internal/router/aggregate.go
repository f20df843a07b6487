package router

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

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

// Exists asks each shard for at most one row.
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

// columnOf finds a column by the name of its field or its own.
func columnOf(m *shardModel, column string) (*schema.Field, error) {
	field := m.base.LookUpField(column)
	if field == nil || field.DBName == "" {
		return nil, fmt.Errorf("%w: %s has no column %q", gorm.ErrInvalidField, m.base.Name, column)
	}
	return field, nil
}

// Sum adds up the sums of the shards, exactly.
func (r *Router) Sum(ctx context.Context, model any, column string, dest any) error {
	m, err := r.modelOf(model)
	if err != nil {
		return err
	}
	field, err := columnOf(m, column)
	if err != nil {
		return err
	}
	sums := make([]*big.Rat, r.shards)
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

// figure selects an expression. It replaces whatever the scopes select.
func figure(tx *gorm.DB, sql string, vars ...any) *gorm.DB {
	return tx.Clauses(clause.Select{Expression: clause.Expr{SQL: sql, Vars: vars}})
}

// figures asks each shard for one line of figures and passes the lines to read, which may be called
// by several goroutines at a time, for different shards.
func (r *Router) figures(
	ctx context.Context, m *shardModel, complete branch, read func(*sql.Rows) error,
) error {
	if err := r.checkUnlocked(ctx, m); err != nil {
		return err
	}
	parts := partsOf(r.topology, m)
	return acrossParts(ctx, r.topology, parts, func(i int) (err error) {
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
	m, err := r.modelOf(model)
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
	values := make([]reflect.Value, r.shards) // by shard, because several write at a time
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

// Distribution is the number of rows on each shard, with a judgement of how even it is.
type Distribution struct {
	Model           string
	Rows            []int64 // by shard
	Total, Min, Max int64
	ChiSquare, Z    float64
}

// Distribution counts the rows on each shard.
func (r *Router) Distribution(ctx context.Context, model any) (Distribution, error) {
	m, err := r.modelOf(model)
	if err != nil {
		return Distribution{}, err
	}
	if m.broadcast {
		return Distribution{}, fmt.Errorf("%w: %s has all its rows in every database",
			errs.ErrNotSharded, m.base.Name)
	}
	rows, err := r.counts(ctx, model)
	if err != nil {
		return Distribution{}, err
	}
	return distributionOf(m.base.Name, rows), nil
}

// distributionOf computes Pearson's statistic against equal shares, and its place on the scale of a
// normal distribution by the approximation of Wilson and Hilferty (1931).
func distributionOf(model string, rows []int64) Distribution {
	d := Distribution{Model: model, Rows: rows, Min: slices.Min(rows), Max: slices.Max(rows)}
	for _, n := range rows {
		d.Total += n
	}
	if d.Total == 0 || len(rows) == 1 {
		return d
	}
	expected := float64(d.Total) / float64(len(rows))
	for _, n := range rows {
		off := float64(n) - expected
		d.ChiSquare += off * off / expected
	}
	const ninths = 2.0 / 9
	degrees := float64(len(rows) - 1)
	d.Z = (math.Cbrt(d.ChiSquare/degrees) - (1 - ninths/degrees)) / math.Sqrt(ninths/degrees)
	return d
}

// String draws a line for each shard.
func (d Distribution) String() string {
	const barWidth = 40
	var b strings.Builder
	for shard, n := range d.Rows {
		bar := 0
		if d.Max > 0 {
			bar = int(n * barWidth / d.Max)
		}
		fmt.Fprintf(&b, "%4d %10d %s\n", shard, n, strings.Repeat("#", bar))
	}
	fmt.Fprintf(&b, "%s: %d rows, from %d to %d on a shard; chi-square %.1f (%d degrees of freedom), z %.1f\n",
		d.Model, d.Total, d.Min, d.Max, d.ChiSquare, len(d.Rows)-1, d.Z)
	return b.String()
}
