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

// assign makes one reservation for all empty cells of a frame and writes the IDs into them.
func assign(fr *frame, numbers *Numbers) error {
	if fr.rows == nil {
		return nil
	}
	if cell, ok := fr.onlyCell(); ok {
		return assignOne(fr, numbers, cell)
	}
	sent, unselected := fr.sentColumns()
	empty, columns := fr.countVacant(sent | unselected)
	if empty == 0 {
		return nil
	}
	fr.alsoSelect(columns & unselected)
	fr.mask |= columns
	source, byColumn := numbers.columns()
	if fr.plan.bound && !byColumn {
		bound, err := assignBound(fr, numbers, columns)
		if err != nil {
			return err
		}
		columns &^= bound
		empty, columns = fr.countVacant(columns)
	}
	if fr.plan.named {
		named, err := assignNamed(fr, numbers, columns)
		if err != nil {
			return err
		}
		if empty, columns = fr.countVacant(columns &^ named); empty == 0 {
			return nil
		}
	}
	if byColumn {
		return assignColumns(fr, numbers, source, columns)
	}
	before, ids := len(fr.ids), fr.ids
	if before == 0 {
		ids = fr.one[:0] // A single ID needs no other memory.
	}
	ids = slices.Grow(ids, empty)[:before+empty]
	if err := numbers.Take(fr.context(), ids[before:]); err != nil {
		return fr.plan.noID(columns, err)
	}
	fr.ids = ids
	err := fr.write(columns, ids[before:])
	// The plugin's own numbers come in order. Those of an application's source may not.
	if !slices.IsSorted(fr.ids) {
		slices.Sort(fr.ids)
	}
	return err
}

// assignColumns fills the empty cells of each column from a source that has numbers for each.
func assignColumns(fr *frame, numbers *Numbers, source ColumnSource, columns columnMask) error {
	for c, column := range fr.plan.columns {
		if !columns.has(c) {
			continue
		}
		empty, found := fr.countVacant(1 << c)
		ids := make([]int64, empty)
		if err := numbers.takeOf(fr.context(), source, column, ids); err != nil {
			return fr.plan.noID(found, err)
		}
		fr.ids = append(fr.ids, ids...)
		if err := fr.write(found, ids); err != nil {
			return err
		}
	}
	slices.Sort(fr.ids)
	return nil
}

// assignOne fills a single cell.
func assignOne(fr *frame, numbers *Numbers, cell reflect.Value) error {
	if cell.Int() != 0 {
		return nil
	}
	id, err := numbers.nextOf(fr.context(), fr.plan.columns[0])
	if err != nil {
		return fr.plan.noID(1, err)
	}
	cell.SetInt(id)
	fr.one[0] = id
	fr.ids, fr.mask = fr.one[:], 1
	return nil
}

// assignBound fills the empty cells of the columns whose IDs have to lie on a certain shard: that of
// another row, or the one that the statement is routed to. It returns these columns. Each ID is a
// reservation of its own, because the numbers in between belong to other shards.
func assignBound(fr *frame, numbers *Numbers, columns columnMask) (bound columnMask, err error) {
	for c, column := range fr.plan.columns {
		if !columns.has(c) || column.like == nil && !fr.plan.routes(column) {
			continue
		}
		bound |= 1 << c
		before := len(fr.ids)
		for i := range fr.rows.count() {
			if !fr.rows.isVacant(i, c) {
				continue
			}
			id, err := nextBound(fr, numbers, i, column)
			if err != nil {
				return bound, fr.plan.noID(1<<c, err)
			}
			fr.ids = append(fr.ids, id)
		}
		ids := fr.ids[before:]
		if column.source != nil {
			fr.ids = fr.ids[:before]
			ids = slices.Clone(ids)
			fr.note(column, ids)
		}
		if err := fr.write(1<<c, ids); err != nil {
			return bound, err
		}
	}
	return bound, nil
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
			if err := shard.check(fr.plan.schema, id); err != nil {
				return err
			}
			if column.like == nil {
				continue
			}
			like, _ := fr.rows.value(fr.context(), i, column.like)
			err := shard.check(fr.plan.schema, like)
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

// assignNamed fills the empty cells of the columns whose numbers come from named sources, with one
// reservation for each source. It returns these columns.
func assignNamed(fr *frame, numbers *Numbers, columns columnMask) (named columnMask, err error) {
	for c, first := range fr.plan.columns {
		if first.source == nil || !columns.has(c) || named.has(c) {
			continue
		}
		var same columnMask
		for d, column := range fr.plan.columns {
			if column.source != nil && column.source.name == first.source.name && columns.has(d) {
				same |= 1 << d
			}
		}
		named |= same
		empty, found := fr.countVacant(same)
		if empty == 0 {
			continue
		}
		ids := make([]int64, empty)
		if err := numbers.takeFrom(fr.context(), first.source, ids); err != nil {
			return named, fr.plan.noID(found, err)
		}
		if err := fr.writeNamed(found, ids); err != nil {
			return named, err
		}
	}
	return named, nil
}
