package router

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// shardBatch is what goes to one shard, or, for a broadcast model, to one database.
type shardBatch struct {
	shard int // its number for applications
	route route
	rows  any
	made  []int64 // the keys that were made for them
}

// group makes a batch for each shard that gets rows. Those of a broadcast model go to every database.
func group(
	ctx context.Context, c *cluster, m *shardmap.Model, rows []reflect.Value, made []int64,
) ([][]shardBatch, error) {
	byShard := make([]reflect.Value, c.ShardCount)
	slice := reflect.SliceOf(reflect.PointerTo(m.Base.ModelType))
	for i, row := range rows {
		shard := 0
		if !m.Broadcast {
			var err error
			if shard, err = c.reach(ctx, m.IDOf(ctx, row)); err != nil {
				return nil, fmt.Errorf("create %s: row %d: %w", m.Base.Name, i, err)
			}
		}
		if !byShard[shard].IsValid() {
			byShard[shard] = reflect.MakeSlice(slice, 0, len(rows)/c.ShardCount+1)
		}
		byShard[shard] = reflect.Append(byShard[shard], row.Addr())
	}
	batches := make([][]shardBatch, len(c.Databases))
	for shard, some := range byShard {
		if !some.IsValid() {
			continue
		}
		if m.Broadcast {
			for database := range batches {
				batches[database] = []shardBatch{{database, route{all: true}, some.Interface(), made}}
			}
			break
		}
		e := c.Entry(shard)
		b := shardBatch{e.Residue, c.routeTo(shard), some.Interface(), made}
		batches[e.Database] = append(batches[e.Database], b)
	}
	return batches, nil
}

// storeBatches writes the batches, which are grouped by database, in one transaction for each database. It
// goes from one database to the next in the order of their places. Two creates that took them in any order
// could each have what the other one waits for, and no database sees such a circle.
func storeBatches(ctx context.Context, c *cluster, batches [][]shardBatch) error {
	var txs []*storeTx
	defer func() { // because a hook can end the goroutine of the caller
		for _, t := range txs {
			if t.tx != nil {
				_ = t.tx.Rollback() // nobody is there to tell
			}
		}
	}()
	for i, own := range batches {
		if len(own) == 0 {
			continue
		}
		t := &storeTx{batches: own}
		txs = append(txs, t)
		err := errs.Ended(ctx)
		if err == nil {
			err = t.run(ctx, c, c.Databases[i])
		}
		if err != nil {
			return fmt.Errorf("snowflakeplugin: nothing was stored: %w", err)
		}
	}
	return commit(ctx, txs)
}

// storeTx is the transaction of Create in one database.
type storeTx struct {
	batches []shardBatch
	tx      *gorm.DB // nil if it is not open
}

// run begins the transaction and writes the batches. It leaves the transaction open.
func (t *storeTx) run(ctx context.Context, c *cluster, db *gorm.DB) error {
	if b, one := t.together(ctx, c, db); one {
		if err := t.write(ctx, c, db, b); err == nil || t.tx == nil {
			return err
		}
		// By a statement for each shard, the error says which of them it is of.
		_ = t.tx.Rollback()
		t.tx = nil
	}
	return t.write(ctx, c, db, t.batches...)
}

// write does what run says by a statement for each of some batches.
func (t *storeTx) write(ctx context.Context, c *cluster, db *gorm.DB, batches ...shardBatch) error {
	tx := db.Session(&gorm.Session{NewDB: true, Context: ctx}).Begin()
	if tx.Error != nil {
		return tx.Error
	}
	t.tx = tx
	for _, b := range batches {
		err := shardmap.RecoverPanic(func() error {
			session := tx.Session(&gorm.Session{NewDB: true})
			return c.handle(ctx, session, b.route, nil).Set(fill.KeysMade, b.made).Create(b.rows).Error
		})
		if err != nil {
			return fmt.Errorf("shard %d: %w", b.shard, err)
		}
	}
	return nil
}

const (
	// maxTogether bounds the arguments of a statement that stores rows of several shards. With more, what a
	// statement for each shard costs hardly counts.
	maxTogether = 10_000
	// minTogether is how many of many shards have to get rows. For fewer, such a text takes as many round trips
	// to prepare as statements whose plans are kept.
	minTogether = 4
)

// together makes one batch of all if one statement can store it: PostgreSQL takes one for several tables, the
// database has no values to return, and neither hooks nor relations need the handle of a shard.
func (t *storeTx) together(ctx context.Context, c *cluster, db *gorm.DB) (b shardBatch, one bool) {
	few := min(minTogether, c.ShardCount/len(c.Databases))
	if db.Name() != dialect.PostgreSQL || len(t.batches) < max(2, few) {
		return b, false
	}
	b = t.batches[0]
	slice := reflect.TypeOf(b.rows)
	s := c.ByType[slice.Elem().Elem()].Base
	if s.BeforeCreate || s.BeforeSave || s.AfterCreate || s.AfterSave || len(s.FieldsWithDefaultDBValue) > 0 {
		return b, false
	}
	all := reflect.MakeSlice(slice, 0, len(b.made))
	for _, batch := range t.batches {
		all = reflect.AppendSlice(all, reflect.ValueOf(batch.rows))
	}
	for _, relation := range allRelations(s) {
		if holdsRows(&gorm.Statement{Schema: s, Context: ctx}, relation, all) {
			return b, false
		}
	}
	b.rows, b.route = all.Interface(), route{shard: b.route.shard, all: true, together: true}
	return b, all.Len()*len(s.DBNames) <= maxTogether
}

// createTogether does what GORM's own callback does for the rows of one table. Each table but the last one
// gets its rows in a WITH.
func createTogether(c *cluster, db *gorm.DB) {
	stmt := db.Statement
	if db.Error != nil {
		return
	}
	if !stmt.Unscoped {
		for _, added := range stmt.Schema.CreateClauses {
			stmt.AddClause(added)
		}
	}
	m := c.ByType[stmt.Schema.ModelType]
	values := callbacks.ConvertToCreateValues(stmt)
	byShard, last := make([][][]any, c.ShardCount), 0
	for i, row := range values.Values {
		item := reflect.Indirect(stmt.ReflectValue.Index(i))
		shard := c.ShardOf(m.IDOf(stmt.Context, item))
		_ = db.AddError(keyRules{c.Topology, stmt, m, shard, true}.checkRows(item))
		byShard[shard], last = append(byShard[shard], row), max(last, shard)
	}
	for _, name := range stmt.BuildClauses {
		if _, found := stmt.Clauses[name]; found { // A callback of the application has added it.
			_ = db.AddError(fmt.Errorf("%w: %s in a statement for several tables", gorm.ErrInvalidData, name))
		}
	}
	begin, least, most := "WITH ", len(byShard[last]), len(byShard[last])
	for shard, rows := range byShard {
		if c.databaseOf(shard) == c.databaseOf(last) {
			least, most = min(least, len(rows)), max(most, len(rows))
		}
		if rows == nil {
			continue
		}
		into := "INSERT INTO " + stmt.Quote(c.TableOn(m, shard)) + " "
		if shard < last {
			into, begin = fmt.Sprintf("%ss%d AS (%s", begin, shard, into), ", "
		} else {
			into = " " + into
		}
		stmt.SQL.WriteString(into)
		clause.Values{Columns: values.Columns, Values: rows}.Build(stmt)
		if shard < last {
			stmt.SQL.WriteByte(')')
		}
	}
	if db.DryRun || db.Error != nil {
		return
	}
	// As many rows on each shard are what comes again. Of a few shards, so is one row more on some.
	again := most == least || most == least+1 && c.ShardCount <= fewTexts
	if db.AddError(insert(stmt, again)) == nil {
		db.RowsAffected = int64(len(values.Values))
	}
}

// fewTexts is how many shards there may be for texts that differ by the shards which get one row more: IDs
// follow each other, so there are as many of these texts.
const fewTexts = 16

// maxKept is the length of the longest text over many shards that drivers may keep. PostgreSQL needs a
// hundred times as much for it on each connection.
const maxKept = 16 << 10

// insert runs a statement. Drivers keep what they prepare, so one whose text hardly ever comes again is
// closed at once.
func insert(stmt *gorm.Statement, again bool) (err error) {
	text := stmt.SQL.String()
	if again && len(text) <= maxKept {
		_, err = stmt.ConnPool.ExecContext(stmt.Context, text, stmt.Vars...)
		return err
	}
	prepared, err := stmt.ConnPool.PrepareContext(stmt.Context, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prepared.Close()) }()
	_, err = prepared.ExecContext(stmt.Context, stmt.Vars...)
	return err
}

// commit commits all transactions side by side: none of them waits for another one, as their statements may.
// If some fail, the error says which shards have their rows.
func commit(ctx context.Context, txs []*storeTx) error {
	shards := make([][]int, len(txs))
	for i, t := range txs {
		for _, b := range t.batches {
			shards[i] = append(shards[i], b.shard)
		}
	}
	return shardmap.Scatter(context.WithoutCancel(ctx), shards, func(i int) error {
		tx := txs[i].tx
		txs[i].tx = nil
		err := shardmap.RecoverPanic(func() error { return tx.Commit().Error })
		if err != nil {
			// The database may have committed, and only its answer was lost.
			err = fmt.Errorf("the commit was not confirmed, so the rows may be stored or not: look for them by "+
				"Router.Find, and create again those that are missing: %w", err)
		}
		return err
	})
}
