package router

import (
	"context"
	"reflect"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// Copy goes on where the journal says that an earlier call ended.
func (d *Resharding) Copy(ctx context.Context) error {
	for _, move := range d.moves() {
		for done := false; !done; {
			var err error
			if done, err = move.copyChunk(ctx); err != nil {
				return move.failed("copying", err)
			}
		}
	}
	return nil
}

// copyChunk copies one chunk, and records that in the same transaction. It returns true when there is
// nothing left to copy.
func (m *tableMove) copyChunk(ctx context.Context) (done bool, err error) {
	var at moveRecord
	doneBefore := false
	err = m.target(ctx).Transaction(func(tx *gorm.DB) error {
		if at, err = m.journal(tx); err != nil || at.Done {
			doneBefore = true
			return err
		}
		rows, err := m.read(m.sourceRowsIn(tx), at.LastID, m.d.chunk)
		if err != nil {
			return err
		}
		if n := rows.Len(); n > 0 {
			if err := m.insert(tx, rows); err != nil {
				return err
			}
			at.LastID = m.model.idOf(ctx, rows.Index(n-1))
			at.Copied += int64(n)
		}
		at.Done = rows.Len() < m.d.chunk
		return m.journalTable(tx).Save(&at).Error
	})
	if err == nil && !doneBefore {
		m.d.onProgress(ReshardProgress{Step: "copy", Table: m.ToTable, Rows: at.Copied})
	}
	return at.Done, err
}

// target returns a handle for the database of the new table.
func (m *tableMove) target(ctx context.Context) *gorm.DB {
	return m.d.to.dbs[m.ToDatabase].Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
}

// journalTable returns a handle for the journal in a transaction of the new table's database.
func (m *tableMove) journalTable(tx *gorm.DB) *gorm.DB {
	return tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(internalTable(tx, movesTable))
}

// journal reads how far the move is. It writes to the record first, so that a second process waits for
// the end of the transaction.
func (m *tableMove) journal(tx *gorm.DB) (at moveRecord, err error) {
	first := &moveRecord{Name: m.ToTable}
	err = m.journalTable(tx).Clauses(clause.OnConflict{DoNothing: true}).Create(first).Error
	if err != nil {
		return at, err
	}
	err = m.journalTable(tx).Where("name = ?", m.ToTable).Update("name", m.ToTable).Error
	if err != nil {
		return at, err
	}
	return at, m.journalTable(tx).Where("name = ?", m.ToTable).Take(&at).Error
}

// sourceRowsIn is sourceRows for use within a transaction of the new table's database. If that is also
// the database of the old table, the rows are read in the transaction: a pool with a single connection
// could not give out another one.
func (m *tableMove) sourceRowsIn(tx *gorm.DB) *gorm.DB {
	if m.FromDatabase != m.ToDatabase {
		return m.sourceRows(tx.Statement.Context)
	}
	own := tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(m.FromTable)
	return m.all(own).Where(m.d.to.onShard(m.model.key.DBName, m.ToShard))
}

// read reads the next rows after a key, in the order of their keys.
func (m *tableMove) read(tx *gorm.DB, after int64, limit int) (reflect.Value, error) {
	rows := reflect.New(reflect.SliceOf(m.model.base.ModelType))
	key := clause.Column{Name: m.model.key.DBName}
	err := tx.Where(clause.Gt{Column: key, Value: after}).Order(clause.OrderByColumn{Column: key}).
		Limit(limit).Find(rows.Interface()).Error
	return rows.Elem(), err
}

// insert writes rows into the new table without changing any column. It passes maps, because for those
// GORM neither runs hooks nor sets times.
func (m *tableMove) insert(tx *gorm.DB, rows reflect.Value) error {
	columns := m.columns()
	perStatement := max(1, maxArguments/len(columns))
	maps := make([]map[string]any, rows.Len())
	for i := range maps {
		maps[i] = make(map[string]any, len(columns))
		for _, field := range columns {
			value, _ := field.ValueOf(tx.Statement.Context, rows.Index(i))
			maps[i][field.DBName] = value
		}
	}
	for some := range slices.Chunk(maps, perStatement) {
		session := tx.Session(&gorm.Session{NewDB: true, SkipHooks: true})
		if err := session.Table(m.ToTable).Model(m.model.value).Create(some).Error; err != nil {
			return err
		}
	}
	return nil
}

// maxArguments bounds the arguments of one statement. SQLite allows 32,766.
const maxArguments = 30_000

// columns lists the fields that are stored in a column.
func (m *tableMove) columns() []*schema.Field {
	var fields []*schema.Field
	for _, name := range m.model.base.DBNames {
		if field := m.model.base.FieldsByDBName[name]; field.Creatable {
			fields = append(fields, field)
		}
	}
	return fields
}
