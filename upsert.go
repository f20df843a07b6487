package snowflakeplugin

import (
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// An INSERT with ON CONFLICT may meet a row that is there already. Then the ID that was generated
// is in no row, and the struct must get the one that is. The statement's answer is not enough to
// know: rows affected count differently on every database and with every DSN, and RETURNING
// brings nothing for rows that DO NOTHING left alone. So the plugin asks the database which row
// each element has become, where it has to.

const (
	clauseOnConflict = "ON CONFLICT"
	clauseReturning  = "RETURNING"
	clauseInsert     = "INSERT"
	dialectMySQL     = "mysql" // MariaDB too
)

// upsert is what has to be reconciled after an INSERT with ON CONFLICT.
type upsert struct {
	// conflict is the clause as the user gave it. The drivers rewrite theirs as they build SQL.
	conflict clause.OnConflict
	cells    []cell
	// keyless are the rows whose primary key the database was to give. What GORM puts there
	// afterwards may be that of another row.
	keyless map[int]bool
}

// cell is an ID and where it was put. It is remembered, because scanning the rows of RETURNING,
// which GORM does by position, may move IDs to other elements.
type cell struct {
	row, column int
	id          int64
	given       bool // by the user
}

// prepareUpsert notes what to reconcile, and keeps ON CONFLICT UPDATE ALL from writing fresh IDs
// over those of rows that are there already.
func (f *filler) prepareUpsert(db *gorm.DB) {
	if db.Error != nil {
		return
	}
	fr := frameOf(db.Statement)
	if fr == nil || fr.rows == nil || fr.mask == 0 || isShardingPool(db.Statement.ConnPool) {
		return
	}
	conflict, ok := conflictOf(db.Statement)
	if !ok {
		return
	}
	cells := fr.doubtful(db, conflict)
	if conflict.UpdateAll {
		cells = append(cells, fr.keepStored(db)...)
	}
	if len(cells) > 0 {
		fr.upsert = &upsert{conflict: conflict, cells: cells, keyless: fr.keyless(cells)}
	}
}

// conflictOf returns what the statement does about conflicts; false if it fails on one. INSERT
// IGNORE, and INSERT OR IGNORE of SQLite, are DO NOTHING by another name.
func conflictOf(stmt *gorm.Statement) (clause.OnConflict, bool) {
	conflict, ok := stmt.Clauses[clauseOnConflict].Expression.(clause.OnConflict)
	if ok {
		return conflict, true
	}
	insert, _ := stmt.Clauses[clauseInsert].Expression.(clause.Insert)
	ignores := strings.HasSuffix(strings.ToUpper(strings.TrimSpace(insert.Modifier)), "IGNORE")
	return clause.OnConflict{DoNothing: ignores}, ignores
}

// keyless lists the rows among cells whose primary key is not known to the program.
func (f *frame) keyless(cells []cell) map[int]bool {
	if !givenByDatabase(f.plan.schema.PrimaryFields) {
		return nil
	}
	rows := map[int]bool{}
	for _, cell := range cells {
		for _, field := range f.plan.schema.PrimaryFields {
			if _, known := f.rows.value(f.Context, cell.row, field); !known {
				rows[cell.row] = true
			}
		}
	}
	return rows
}

// doubtful lists the generated cells of rows that the clause may have let meet another row.
func (f *frame) doubtful(db *gorm.DB, conflict clause.OnConflict) []cell {
	// ON CONFLICT (primary key): a key with a fresh ID in it meets no other row, and if another
	// unique key does, the statement fails. MySQL knows no conflict target.
	freshKeyIsNew := db.Name() != dialectMySQL && targetsPrimaryKey(f.plan.schema, conflict)
	var cells []cell
	for i := range f.rows.count() {
		start, freshKey := len(cells), false
		for c, column := range f.plan.columns {
			id, ok := f.rows.get(i, c)
			if !ok || !f.mask.has(c) || !f.made(id) {
				continue
			}
			cells = append(cells, cell{row: i, column: c, id: id})
			freshKey = freshKey || column.field.PrimaryKey
		}
		if freshKey && freshKeyIsNew {
			cells = cells[:start]
		}
	}
	return cells
}

// targetsPrimaryKey reports whether the conflict target is exactly the primary key.
func targetsPrimaryKey(s *schema.Schema, conflict clause.OnConflict) bool {
	if conflict.OnConstraint != "" || len(conflict.TargetWhere.Exprs) > 0 {
		return false // an unknown target
	}
	if len(conflict.Columns) == 0 {
		return conflict.UpdateAll // for which GORM puts in the primary key
	}
	if len(conflict.Columns) != len(s.PrimaryFields) {
		return false
	}
	for _, column := range conflict.Columns {
		if field := s.LookUpField(column.Name); field == nil || !field.PrimaryKey {
			return false
		}
	}
	return true
}

// keepStored replaces UPDATE ALL by the assignments that it stands for, without those to columns
// that have generated IDs: a fresh ID must not overwrite a stored one. GORM itself says which they
// are. The clause is one for all rows, so IDs that the user gave in such a column are not stored
// over others either; it returns their cells, which then hold something else than the database.
func (f *frame) keepStored(db *gorm.DB) []cell {
	stored := map[string]bool{}
	var given []cell
	for c, column := range f.plan.columns {
		if !f.mask.has(c) || column.field.PrimaryKey {
			continue
		}
		stored[column.field.DBName] = true
		for i := range f.rows.count() {
			if id, ok := f.rows.get(i, c); ok && !f.made(id) {
				given = append(given, cell{row: i, column: c, id: id, given: true})
			}
		}
	}
	if len(stored) == 0 {
		return nil
	}
	callbacks.ConvertToCreateValues(db.Statement)
	conflict, ok := db.Statement.Clauses[clauseOnConflict].Expression.(clause.OnConflict)
	if !ok || db.Error != nil {
		return nil
	}
	kept := make(clause.Set, 0, len(conflict.DoUpdates))
	for _, assignment := range conflict.DoUpdates {
		if !stored[assignment.Column.Name] {
			kept = append(kept, assignment)
		}
	}
	conflict.DoUpdates = kept
	conflict.UpdateAll = false
	conflict.DoNothing = len(kept) == 0
	db.Statement.AddClause(conflict)
	return given
}

// afterInsert brings IDs and rows together, before associations copy the keys.
func (f *filler) afterInsert(db *gorm.DB) {
	if db.Error != nil || db.DryRun {
		return
	}
	fr := frameOf(db.Statement)
	if fr == nil || fr.rows == nil {
		return
	}
	if fr.upsert != nil {
		if err := f.reconcile(db, fr); err != nil {
			_ = db.AddError(fmt.Errorf("snowflakeplugin: read the IDs of upserted %s back: %w",
				fr.plan.schema.Name, err))
			return
		}
	}
	fr.settled = !inTransaction(db.Statement.ConnPool)
}

// reconcile gives every doubtful cell the ID that is in the database, or none.
func (f *filler) reconcile(db *gorm.DB, fr *frame) error {
	returning, returns := db.Statement.Clauses[clauseReturning].Expression.(clause.Returning)
	if returns && returnsAll(returning) && supportsReturning(db) && fr.structs.isSlice() {
		return nil // GORM has made the slice anew, of the rows that came back
	}
	for _, cell := range fr.upsert.cells {
		if cell.given {
			continue
		}
		if err := fr.rows.put(cell.row, cell.column, cell.id); err != nil {
			return err
		}
	}
	// With no RETURNING rows affected are rows inserted, and if that is all of them, no row met
	// another. MySQL counts otherwise.
	if fr.upsert.conflict.DoNothing && !returns && db.Name() != dialectMySQL &&
		db.RowsAffected == int64(fr.rows.count()) {
		return nil
	}
	search := newSearch(db, fr)
	for _, key := range f.searchKeys(db, fr) {
		if err := search.by(key); err != nil {
			return err
		}
	}
	// Never a phantom: what was not found is not there.
	for _, cell := range fr.upsert.cells {
		if search.missing(cell.row) && !cell.given {
			fr.rows.restore(cell.row, cell.column)
		}
	}
	return nil
}

// searchKeys lists the ways to find the row that an element has become, best first.
func (f *filler) searchKeys(db *gorm.DB, fr *frame) []searchKey {
	s, conflict := fr.plan.schema, fr.upsert.conflict
	// By its own key: a row that has it was inserted, or is the right one.
	keys := []searchKey{{fields: s.PrimaryFields, own: true}}
	// Or by a generated column alone: if the primary key is the database's to give, or has other
	// columns, whose values the database may have stored otherwise, such as a time cut short.
	if len(s.PrimaryFields) > 1 || givenByDatabase(s.PrimaryFields) {
		for c, column := range fr.plan.columns {
			if fr.mask.has(c) && isIndexed(s, column.field) {
				keys = append(keys, searchKey{fields: []*schema.Field{column.field}})
			}
		}
	}
	// By what it may have run into: the conflict target first, then all unique keys.
	var others []searchKey
	if target, ok := targetKey(s, conflict); ok {
		others = append(others, target)
	}
	for _, unique := range f.plans.unique(fr.plan) {
		others = append(others, searchKey{fields: unique})
	}
	keys = append(keys, others...)
	// Under REPEATABLE READ a plain SELECT may not see the row that stood in the way; a locking
	// one does. It comes last and only here, because on a key that finds nothing it would lock
	// the gap and hold up the inserts of others.
	if db.Name() == dialectMySQL {
		for _, key := range others {
			key.lock = true
			keys = append(keys, key)
		}
	}
	return keys
}

// targetKey is the conflict target as a key, if the model knows its columns.
func targetKey(s *schema.Schema, conflict clause.OnConflict) (searchKey, bool) {
	key := searchKey{where: conflict.TargetWhere}
	for _, column := range conflict.Columns {
		field := s.LookUpField(column.Name)
		if field == nil || field.DBName == "" {
			return searchKey{}, false
		}
		key.fields = append(key.fields, field)
	}
	return key, len(key.fields) > 0 && conflict.OnConstraint == "" && !targetsPrimaryKey(s, conflict)
}

// givenByDatabase reports whether the program does not know all values of the key.
func givenByDatabase(key []*schema.Field) bool {
	return len(key) == 0 ||
		slices.ContainsFunc(key, func(field *schema.Field) bool { return field.HasDefaultValue })
}

// isIndexed reports whether the model gives the column an index, so that a search is cheap.
func isIndexed(s *schema.Schema, field *schema.Field) bool {
	return len(s.PrimaryFields) > 0 && s.PrimaryFields[0] == field || field.Unique ||
		field.TagSettings["INDEX"] != "" || field.TagSettings["UNIQUEINDEX"] != ""
}

func returnsAll(r clause.Returning) bool {
	return len(r.Columns) == 0 || len(r.Columns) == 1 && r.Columns[0].Name == "*"
}

// supportsReturning reports whether GORM sends the RETURNING clause to this database.
func supportsReturning(db *gorm.DB) bool {
	return slices.Contains(db.Callback().Create().Clauses, clauseReturning)
}

// isShardingPool recognizes the pool of gorm.io/sharding, which refuses queries without the
// sharding key.
func isShardingPool(pool gorm.ConnPool) bool {
	named, ok := pool.(fmt.Stringer)
	return ok && named.String() == "gorm:sharding:conn_pool"
}
