package router

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
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
	m, err := r.modelOf(dest)
	if err != nil {
		return err
	}
	into, err := emptied(dest)
	if err != nil {
		return err
	}
	if m.key == nil {
		return fmt.Errorf("%w: %s has no key of the plugin to find rows by", errs.ErrNotSharded, m.base.Name)
	}
	wanted, err := r.groupIDs(ctx, m, ids)
	if err != nil {
		return err
	}
	found := make([]reflect.Value, len(wanted))
	err = scatter(ctx, len(wanted), func(i int) (err error) {
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
			rows[m.idOf(ctx, reflect.Indirect(row))] = row
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
func (r *Router) groupIDs(ctx context.Context, m *shardModel, ids []int64) ([]shardIDs, error) {
	byShard := make(map[int]int)
	seen := make(map[int64]bool, len(ids))
	var wanted []shardIDs
	for _, id := range ids {
		shard, err := r.Shard(id)
		if err == nil && !m.broadcast {
			err = r.checkLocked(ctx, shard)
		}
		if err != nil {
			return nil, err
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		if m.broadcast {
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
	ctx context.Context, m *shardModel, wanted shardIDs, slice reflect.Type,
) (reflect.Value, error) {
	found := reflect.MakeSlice(slice, 0, len(wanted.ids))
	for ids := wanted.ids; len(ids) > 0; ids = ids[min(len(ids), maxIDsPerStatement):] {
		values := make([]any, min(len(ids), maxIDsPerStatement))
		for i := range values {
			values[i] = ids[i]
		}
		some := reflect.New(slice)
		tx := r.scoped(r.handleOn(ctx, wanted.shard, m.value)).
			Where(clause.IN{Column: clause.PrimaryColumn, Values: values})
		if err := tx.Find(some.Interface()).Error; err != nil {
			return found, err
		}
		found = reflect.AppendSlice(found, some.Elem())
	}
	return found, nil
}

// arrange puts the rows in the order of the IDs.
func arrange(into reflect.Value, m *shardModel, ids []int64, rows map[int64]reflect.Value) error {
	missing := &MissingError{Model: m.base.Name}
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
	partial, ok := err.(*PartialError) //nolint:errorlint // scatter returns it unwrapped
	if !ok {
		return err
	}
	e := &PartialError{Failed: map[int]error{}}
	for _, i := range partial.OK {
		e.OK = append(e.OK, wanted[i].shard)
	}
	for i, failure := range partial.Failed {
		e.Failed[wanted[i].shard] = failure
	}
	return e
}
