package fill

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// AssignAll gives IDs to the rows of a model that have none, outside of any statement. rows is a
// pointer to a struct, or a slice of structs or of pointers to them. It returns the IDs, for KeysMade.
func AssignAll(
	ctx context.Context, db *gorm.DB, plans *PlanCache, numbers *Numbers, s *schema.Schema, rows any,
) ([]int64, error) {
	plan := plans.Of(s)
	fr := &frame{stmt: &gorm.Statement{DB: db, Context: ctx}, plan: plan}
	v := reflect.ValueOf(rows)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !fr.structs.pointAt(plan, v) {
		return nil, fmt.Errorf("%w: %T", gorm.ErrInvalidValue, rows)
	}
	fr.rows = &fr.structs
	err := assign(fr, numbers) //nolint:contextcheck // the statement has the context
	made := slices.Clone(fr.ids)
	for _, batch := range fr.named {
		made = append(made, batch.ids...)
	}
	slices.Sort(made)
	return made, err
}

// assign fills all empty cells of a frame, with one reservation for those that get their numbers together.
func assign(fr *frame, numbers *Numbers) (err error) {
	if fr.rows == nil {
		return nil
	}
	sent, unselected := fr.sentColumns()
	empty, columns := fr.countVacant(sent | unselected)
	fr.alsoSelect(columns & unselected)
	fr.mask |= columns
	rest := columns
	for c := range fr.plan.columns {
		if !rest.has(c) || err != nil {
			continue
		}
		batch := fr.plan.batchOf(c, rest, numbers)
		rest &^= batch
		if batch != columns {
			empty, _ = fr.countVacant(batch)
		}
		err = assignBatch(fr, numbers, c, batch, empty)
	}
	// The plugin's own numbers come in order. Those of an application's source may not.
	if !slices.IsSorted(fr.ids) {
		slices.Sort(fr.ids)
	}
	return err
}

// batchOf returns those of the columns that get their numbers together with column c: all of one source. A
// column whose IDs lie on a certain shard stays alone, and so does one whose source has numbers for it.
func (p *Plan) batchOf(c int, columns columnMask, numbers *Numbers) columnMask {
	_, byColumn := numbers.columnSource()
	isAlone := func(column *column) bool { return byColumn && column.source == nil || p.isBound(column) }
	batch := columnMask(1) << c
	if isAlone(p.columns[c]) {
		return batch
	}
	for d, column := range p.columns {
		if columns.has(d) && !isAlone(column) && column.sourceName() == p.columns[c].sourceName() {
			batch |= 1 << d
		}
	}
	return batch
}

// assignBatch fills the empty cells of a batch, whose first column is c.
func assignBatch(fr *frame, numbers *Numbers, c int, batch columnMask, empty int) error {
	before, ids := len(fr.ids), fr.ids
	if before == 0 {
		ids = fr.one[:0] // A single ID needs no other memory.
	}
	ids = slices.Grow(ids, empty)[:before+empty]
	if err := take(fr, numbers, c, ids[before:]); err != nil {
		return fr.plan.noID(batch, err)
	}
	if fr.plan.columns[c].source != nil {
		return fr.writeNamed(batch, ids[before:])
	}
	fr.ids = ids
	return fr.write(batch, ids[before:])
}

// take sets all elements of ids to new numbers for the batch of column c. IDs that have to lie on a certain
// shard, that of another row or the one that the statement is routed to, are reservations of their own,
// because the numbers in between belong to other shards.
func take(fr *frame, numbers *Numbers, c int, ids []int64) (err error) {
	column := fr.plan.columns[c]
	source, byColumn := numbers.columnSource()
	switch {
	case fr.plan.isBound(column) && !byColumn:
		for i := 0; len(ids) > 0 && err == nil; i++ {
			if fr.rows.isVacant(i, c) {
				ids[0], err = nextBound(fr, numbers, i, column)
				ids = ids[1:]
			}
		}
		return err
	case column.source != nil:
		if err := numbers.draw(fr.context(), column.source.source, ids); err != nil {
			return column.source.failed(err)
		}
		return nil
	case byColumn:
		return numbers.draw(fr.context(), ofColumn{source, column.field.Schema.Table, column.field.DBName}, ids)
	}
	return numbers.Take(fr.context(), ids)
}

// nextBound returns a new ID for one row.
func nextBound(fr *frame, numbers *Numbers, i int, column *column) (int64, error) {
	switch {
	case column.source != nil:
		return numbers.nextFrom(fr.context(), column.source, fr.plan.shard)
	case column.like == nil:
		return numbers.nextOn(fr.context(), fr.plan.shard)
	}
	value, known := fr.rows.value(fr.context(), i, column.like)
	key, ok := IDOf(value)
	switch vacant := !known || !ok || key <= 0; {
	case vacant && fr.plan.shard != nil:
		// The parent may be created with this row. checkShard looks again when it has its ID.
		return numbers.nextOn(fr.context(), fr.plan.shard)
	case vacant:
		return 0, fr.noParent(i, column, value)
	}
	return numbers.NextLike(fr.context(), key)
}

// checkShard refuses rows whose key, or the key of the row they are colocated with, lies on another
// shard than the statement's.
func checkShard(fr *frame) error {
	shard := fr.plan.shard
	for c, column := range fr.plan.columns {
		if !column.field.PrimaryKey {
			continue
		}
		for i := range fr.rows.count() {
			id, ok := fr.rows.get(i, c)
			if !ok {
				continue
			}
			if err := shard.Check(id); err != nil {
				return err
			}
			if column.like == nil {
				continue
			}
			like, _ := fr.rows.value(fr.context(), i, column.like)
			err := shard.Check(like)
			if key, ok := IDOf(like); (!ok || key <= 0) && slices.Contains(fr.ids, id) {
				err = fr.plan.noID(1<<c, fr.noParent(i, column, like))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
