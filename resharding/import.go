package resharding

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// NewKey is a row of the map from old keys to new ones.
type NewKey struct {
	Old int64              `gorm:"column:old;primaryKey;autoIncrement:false"`
	New snowflakeplugin.ID `gorm:"column:new;not null"`
}

// importChunk is how many rows are imported at a time.
const importChunk = 500

// Import stores the rows of an old table by a router, under new keys, and returns how many it has stored. It
// is for tables of gorm.io/sharding, whose keys lie on few shards. The columns are those of the model, and
// nobody writes to the table meanwhile.
//
//	n, err := resharding.Import(ctx, router, &Order{}, db.Table("old_orders_00"), db.Table("order_keys"))
//
// The map from old keys to new ones is a table of the columns of [NewKey], which Import makes. All old tables
// of a model have one map in common. The new keys go into it before their rows are stored. So after an error
// or the end of the process, another call goes on, and stores no row twice. Keep the map, because links
// outside of the database have old keys. The rows of children come after those of their parents, joined with
// the map of these: docs/migrating.md shows the query.
//
// The error wraps [snowflakeplugin.ErrSharding] for what cannot be imported as it is, or is that of
// [snowflakeplugin.Router.Create] or of a database.
func Import(
	ctx context.Context, r *snowflakeplugin.Router, model any, rows, keys *gorm.DB,
) (stored int, err error) {
	current := r.Inner().Known()
	m, err := current.ModelOf(model)
	if err == nil && m.Broadcast {
		err = fmt.Errorf("%w: %s has the same keys in every database", errs.ErrSharding, m.Base.Name)
	}
	_, limited := rows.Statement.Clauses["LIMIT"]
	if err == nil && (limited || rows.Statement.SQL.Len() > 0) {
		err = fmt.Errorf("%w: import of %s: the rows are read in chunks, so Limit, Offset and Raw cannot choose "+
			"them: use Where", errs.ErrSharding, m.Base.Name)
	}
	if err != nil {
		return 0, err
	}
	im := importer{r, m, rows.Session(&gorm.Session{Context: ctx}), keys.Session(&gorm.Session{Context: ctx})}
	if err := shardmap.AutoMigrate(im.keys, &NewKey{}); err != nil {
		return 0, err
	}
	for last := int64(math.MinInt64); ; {
		list, old, err := im.read(ctx, last)
		if err == nil && len(old) == 0 {
			return stored, nil
		}
		if err == nil {
			err = im.rekey(ctx, current.Topology, list, old)
		}
		n := 0
		if err == nil {
			n, err = im.store(ctx, list)
		}
		if stored += n; err != nil {
			return stored, fmt.Errorf("snowflakeplugin: import of %s: %w", m.Base.Name, err)
		}
		last = old[len(old)-1]
	}
}

type importer struct {
	router     *snowflakeplugin.Router
	model      *shardmap.Model
	rows, keys *gorm.DB
}

// read reads the rows that follow a key, as a slice of the model, and their keys.
func (im importer) read(ctx context.Context, last int64) (list reflect.Value, old []int64, err error) {
	list = reflect.MakeSlice(reflect.SliceOf(im.model.Base.ModelType), 0, importChunk)
	key := clause.Column{Name: im.model.Key.DBName}
	byKey := clause.OrderByColumn{Column: key, Reorder: true}
	rows, err := im.rows.Where(clause.Gt{Column: key, Value: last}).Order(byKey).Limit(importChunk).Rows()
	if err != nil {
		return list, nil, err
	}
	defer func() { err = errors.Join(err, rows.Err(), rows.Close()) }()
	columns, err := rows.Columns()
	for _, column := range columns {
		if im.model.Base.FieldsByDBName[column] == nil {
			err = fmt.Errorf("%w: the model has no column %s: add it, or leave it out by Select", errs.ErrSharding,
				column)
		}
	}
	for err == nil && rows.Next() {
		row := reflect.New(im.model.Base.ModelType)
		err = im.rows.Session(&gorm.Session{NewDB: true}).ScanRows(rows, row.Interface())
		list, old = reflect.Append(list, row.Elem()), append(old, im.model.IDOf(ctx, row.Elem()))
	}
	if err == nil && len(old) > 0 && old[0] <= last {
		err = fmt.Errorf("%w: rows that are imported already were read again: give the conditions around Or to "+
			"one Where, as db.Where(db.Where(...).Or(...))", errs.ErrSharding)
	}
	return list, old, err
}

// rekey gives rows their new keys. It puts those into the map that are not there yet.
func (im importer) rekey(ctx context.Context, t *shardmap.Topology, list reflect.Value, old []int64) error {
	var found, made []NewKey
	if err := im.keys.Where(map[string]any{"old": old}).Find(&found).Error; err != nil {
		return err
	}
	known := map[int64]int64{}
	for _, k := range found {
		known[k.Old] = int64(k.New)
	}
	for i, key := range old {
		for _, field := range im.model.Base.Fields {
			_, empty := field.ValueOf(ctx, list.Index(i))
			if empty && field.HasDefaultValue && field != im.model.Key {
				return fmt.Errorf("%w: the row %d has no %s, and would be stored with the default of the model: "+
					"import with a model that has none", errs.ErrSharding, key, field.DBName)
			}
		}
		if err := im.model.Key.Set(ctx, list.Index(i), known[key]); err != nil {
			return err
		}
	}
	numbers, err := t.Engine.Numbers(ctx)
	if err != nil {
		return err
	}
	rows := list.Interface()
	if _, err := fill.AssignAll(ctx, t.Databases[0], t.Engine.Plans, numbers, im.model.Base, rows); err != nil {
		return err
	}
	for i, key := range old {
		if known[key] == 0 {
			made = append(made, NewKey{key, snowflakeplugin.ID(im.model.IDOf(ctx, list.Index(i)))})
		}
	}
	if len(made) == 0 {
		return nil
	}
	return im.keys.Create(&made).Error
}

// store stores the rows that are not there yet.
func (im importer) store(ctx context.Context, list reflect.Value) (stored int, err error) {
	var ids []snowflakeplugin.ID
	for i := range list.Len() {
		ids = append(ids, snowflakeplugin.ID(im.model.IDOf(ctx, list.Index(i))))
	}
	all := im.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Unscoped() })
	err = all.Find(ctx, reflect.New(list.Type()).Interface(), ids)
	var missing *snowflakeplugin.MissingError
	if !errors.As(err, &missing) {
		return 0, err
	}
	left := reflect.MakeSlice(list.Type(), 0, list.Len())
	for i, id := range ids {
		if slices.Contains(missing.IDs, id) {
			left = reflect.Append(left, list.Index(i))
		}
	}
	if err := im.router.Create(ctx, left.Interface()); err != nil {
		return 0, err
	}
	return left.Len(), nil
}
