package snowflakeplugin

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// idsAtOnce is how many IDs one statement asks for: well below what any database allows.
const idsAtOnce = 5000

// MissingError says which of the rows that were asked for are not there. It wraps [ErrMissing].
type MissingError struct {
	// Model is the name of the model.
	Model string
	// IDs are those without a row, each once, in the order in which they were asked for.
	IDs []ID
}

// Error names the first of them.
func (e *MissingError) Error() string {
	const most = 10
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s with the ID", ErrMissing, e.Model)
	for i, id := range e.IDs[:min(len(e.IDs), most)] {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d", int64(id))
	}
	if len(e.IDs) > most {
		fmt.Fprintf(&b, " and %d more", len(e.IDs)-most)
	}
	return b.String()
}

// Unwrap returns [ErrMissing].
func (e *MissingError) Unwrap() error { return ErrMissing }

// Find reads the rows with these IDs into dest, a pointer to a slice of structs or of pointers to
// structs, in the order of the IDs; an ID that is given twice is there twice. It asks each shard
// once, for up to 5,000 IDs at a time.
//
// If rows are missing, dest has those that were found, and the error is a [*MissingError] that names
// the others. If a shard fails, dest is empty and the error is a [*PartialError]. For an ID that
// cannot be one the error is that of [Router.Shard].
func (r *Router) Find(ctx context.Context, dest any, ids []ID) error {
	m, err := r.modelOf(dest)
	if err != nil {
		return err
	}
	into, err := emptied(dest)
	if err != nil {
		return err
	}
	if m.key == nil {
		return fmt.Errorf("%w: %s has no key of the plugin to find rows by", ErrNotSharded, m.base.Name)
	}
	wanted, err := r.sorted(ctx, m, ids)
	if err != nil {
		return err
	}
	key := m.key
	found := make([]reflect.Value, len(wanted))
	err = scatter(ctx, len(wanted), func(i int) error {
		found[i] = reflect.MakeSlice(into.Type(), 0, len(wanted[i].ids))
		for ids := wanted[i].ids; len(ids) > 0; ids = ids[min(len(ids), idsAtOnce):] {
			values := make([]any, min(len(ids), idsAtOnce))
			for j := range values {
				values[j] = ids[j]
			}
			some := reflect.New(into.Type())
			tx := r.scoped(r.reading(ctx, m, wanted[i].shard)).
				Where(clause.IN{Column: clause.PrimaryColumn, Values: values})
			if err := tx.Find(some.Interface()).Error; err != nil {
				return err
			}
			found[i] = reflect.AppendSlice(found[i], some.Elem())
		}
		return nil
	})
	if err != nil {
		return renumber(err, wanted)
	}
	rows := make(map[ID]reflect.Value, len(ids))
	for _, some := range found {
		for i := range some.Len() {
			row := some.Index(i)
			value, _ := key.ValueOf(ctx, reflect.Indirect(row))
			id, _ := likeKey(value)
			rows[ID(id)] = row
		}
	}
	return arrange(into, m, ids, rows)
}

// arrange puts the rows in the order of the IDs.
func arrange(into reflect.Value, m *shardModel, ids []ID, rows map[ID]reflect.Value) error {
	missing := &MissingError{Model: m.base.Name}
	said := map[ID]bool{}
	all := reflect.MakeSlice(into.Type(), 0, len(ids))
	for _, id := range ids {
		row, found := rows[id]
		if found {
			all = reflect.Append(all, row)
		} else if !said[id] {
			said[id] = true
			missing.IDs = append(missing.IDs, id)
		}
	}
	into.Set(all)
	if len(missing.IDs) > 0 {
		return missing
	}
	return nil
}

// shardIDs are the IDs that are wanted of one shard.
type shardIDs struct {
	shard int
	ids   []ID
}

// sorted puts each ID, once, to those of its shard.
func (r *Router) sorted(ctx context.Context, m *shardModel, ids []ID) ([]shardIDs, error) {
	byShard := make(map[int]int)
	seen := make(map[ID]bool, len(ids))
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

// reading returns a handle to read the model on a shard.
func (r *routing) reading(ctx context.Context, m *shardModel, shard int) *gorm.DB {
	return r.handleOn(ctx, shard, m.value)
}

// scoped adds what Scopes has asked for. What that says with OR is put in parentheses, so that it
// does not reach past the conditions that the router adds.
func (r *Router) scoped(tx *gorm.DB) *gorm.DB {
	if len(r.scopes) == 0 {
		return tx
	}
	for _, fn := range r.scopes {
		tx = fn(tx)
	}
	tx = tx.Session(&gorm.Session{}).Model(tx.Statement.Model) // a statement of its own
	if where, ok := tx.Statement.Clauses["WHERE"].Expression.(clause.Where); ok && len(where.Exprs) > 1 {
		of := tx.Statement.Clauses["WHERE"]
		of.Expression = clause.Where{Exprs: []clause.Expression{clause.And(where.Exprs...)}}
		tx.Statement.Clauses["WHERE"] = of
	}
	return tx
}

// emptied returns the slice behind dest, without elements.
func emptied(dest any) (reflect.Value, error) {
	v := reflect.ValueOf(dest)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Slice {
		return reflect.Value{}, fmt.Errorf("%w: %T, where a pointer to a slice is needed",
			gorm.ErrInvalidValue, dest)
	}
	v = v.Elem()
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	return v, nil
}

// renumber makes an error about the i-th shard that was asked one about that shard.
func renumber(err error, wanted []shardIDs) error {
	partial, ok := err.(*PartialError) //nolint:errorlint // it is scatter's own
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
