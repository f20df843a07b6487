package snowflakeplugin

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// Copy copies the rows that are to be moved into the new tables, in chunks. Each chunk is one
// transaction, with the journal of how far it came. When it has returned nil it need not be called
// again; what was written to the old tables meanwhile is brought up to date by [Doubling.Switch].
func (d *Doubling) Copy(ctx context.Context) error {
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

// copyChunk copies one chunk. It returns true when there is nothing left.
func (m *doublingMove) copyChunk(ctx context.Context) (done bool, err error) {
	var at shardMove
	before := false
	err = m.target(ctx).Transaction(func(tx *gorm.DB) error {
		if at, err = m.journal(tx); err != nil || at.Done {
			before = true
			return err
		}
		rows, err := m.read(m.leavingIn(tx), at.LastID, m.d.chunk)
		if err != nil {
			return err
		}
		if n := rows.Len(); n > 0 {
			if err := m.insert(tx, rows); err != nil {
				return err
			}
			at.LastID = m.keyOf(ctx, rows.Index(n-1))
			at.Copied += int64(n)
		}
		at.Done = rows.Len() < m.d.chunk
		return m.journalTable(tx).Save(&at).Error
	})
	if err == nil && !before {
		m.d.told(DoublingProgress{Step: "copy", Table: m.ToTable, Rows: at.Copied})
	}
	return at.Done, err
}

// target returns a handle for the database of the new table.
func (m *doublingMove) target(ctx context.Context) *gorm.DB {
	return m.d.to.dbs[m.ToDatabase].Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
}

func (m *doublingMove) journalTable(tx *gorm.DB) *gorm.DB {
	return tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(internalTable(tx, tableOfMoves))
}

// journal reads how far the table is. It writes first, so that a second process waits.
func (m *doublingMove) journal(tx *gorm.DB) (at shardMove, err error) {
	first := &shardMove{Name: m.ToTable}
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

// leavingIn is leaving within a transaction of the new table's database, if that is the old one's,
// too: where there is only one connection, another one could not be had.
func (m *doublingMove) leavingIn(tx *gorm.DB) *gorm.DB {
	if m.FromDatabase != m.ToDatabase {
		return m.leaving(tx.Statement.Context)
	}
	own := tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(m.FromTable)
	return own.Model(m.model.value).Unscoped().Where(m.d.to.lies(m.model.key.DBName, m.ToShard))
}

// read reads rows in the order of their keys.
func (m *doublingMove) read(tx *gorm.DB, after int64, limit int) (reflect.Value, error) {
	rows := reflect.New(reflect.SliceOf(m.model.base.ModelType))
	key := clause.Column{Name: m.model.key.DBName}
	err := tx.Where(clause.Gt{Column: key, Value: after}).Order(clause.OrderByColumn{Column: key}).
		Limit(limit).Find(rows.Interface()).Error
	return rows.Elem(), err
}

func (m *doublingMove) keyOf(ctx context.Context, row reflect.Value) int64 {
	value, _ := m.model.key.ValueOf(ctx, row)
	id, _ := likeKey(value)
	return id
}

// insert writes rows into the new table, every column as it is: by maps, for which GORM neither
// runs hooks nor sets times.
func (m *doublingMove) insert(tx *gorm.DB, rows reflect.Value) error {
	columns := m.columns()
	perStatement := max(1, mostArguments/len(columns))
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

// mostArguments is how many values one statement has at most: SQLite takes 32,766.
const mostArguments = 30_000

// columns lists the fields that are stored.
func (m *doublingMove) columns() []*schema.Field {
	var fields []*schema.Field
	for _, name := range m.model.base.DBNames {
		if field := m.model.base.FieldsByDBName[name]; field.Creatable {
			fields = append(fields, field)
		}
	}
	return fields
}

// lies is the condition that a key lies on a shard, in the SQL of all databases.
func (r *routing) lies(column string, shard int) clause.Expression {
	return clause.Expr{
		SQL:  fmt.Sprintf("(? & %d) %% %d = %d", r.mask, r.shards, shard),
		Vars: []any{clause.Column{Table: clause.CurrentTable, Name: column}},
	}
}

// sameValue compares two values of a column, which may come from databases of different kinds.
func sameValue(a, b any, finest time.Duration) bool {
	left, right := stored(a), stored(b)
	if t, ok := left.(time.Time); ok {
		u, ok := right.(time.Time)
		return ok && t.Sub(u).Abs() < finest
	}
	if l, ok := left.([]byte); ok {
		r, ok := right.([]byte)
		return ok && bytes.Equal(l, r)
	}
	return reflect.DeepEqual(left, right)
}

// stored is a value as it goes to a driver.
func stored(value any) any {
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		if _, isValuer := v.Interface().(interface{ Value() (any, error) }); isValuer {
			break
		}
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() == reflect.Pointer {
		return nil
	}
	if plain := valueOf(v); plain != nil {
		return plain
	}
	if isNull(v.Interface()) {
		return nil
	}
	return v.Interface()
}

// finest is how exactly times can be compared: databases of different kinds keep other fractions.
func (m *doublingMove) finest() time.Duration {
	if m.d.to.dbs[m.FromDatabase].Name() != m.d.to.dbs[m.ToDatabase].Name() {
		return time.Second + time.Nanosecond
	}
	return time.Nanosecond
}
