package fill

import (
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// An INSERT with ON CONFLICT may meet a row that is there already. Then the generated ID is in no
// row, and the struct must get the ID of that row. The answer of the statement does not tell enough:
// every database and every DSN counts the affected rows in its own way, and RETURNING brings nothing
// for rows that DO NOTHING left alone. So where it has to know, the plugin asks the database which
// row each element has become.

const (
	clauseOnConflict = "ON CONFLICT"
	clauseReturning  = "RETURNING"
	clauseInsert     = "INSERT"
	dialectMySQL     = "mysql" // MariaDB too
	dialectSQLite    = "sqlite"
	dialectPostgres  = "postgres"
)

// newUpsert notes what to reconcile, and keeps ON CONFLICT UPDATE ALL from writing fresh IDs over those of
// rows that are there already. It returns nil if there is nothing to reconcile. ignores says that the
// statement ignores conflicts that are not those of the clause.
func newUpsert(db *gorm.DB, fr *frame, ignores bool) *upsert {
	conflict, ok := conflictOf(db.Statement)
	if !ok || isShardingPool(db.Statement.ConnPool) {
		return nil
	}
	cells := doubtful(db, fr, conflict, ignores)
	if conflict.UpdateAll {
		cells = append(cells, keepStored(db, fr)...)
	}
	if len(cells) == 0 {
		return nil
	}
	return &upsert{conflict: conflict, cells: cells, keyless: keyless(fr, cells), sent: fr.rows.count()}
}

// without returns what is to be reconciled if some rows are certain, or nil if nothing is left.
func (u *upsert) without(rows []int) *upsert {
	if u == nil {
		return nil
	}
	u.cells = slices.DeleteFunc(u.cells, func(cell cell) bool { return slices.Contains(rows, cell.row) })
	if len(u.cells) == 0 {
		return nil
	}
	return u
}

// conflictOf returns what the statement does about conflicts, or false if a conflict fails it. INSERT
// IGNORE, and INSERT OR IGNORE of SQLite, are DO NOTHING by another name.
func conflictOf(stmt *gorm.Statement) (clause.OnConflict, bool) {
	conflict, ok := stmt.Clauses[clauseOnConflict].Expression.(clause.OnConflict)
	if ok {
		return conflict, true
	}
	ignores := insertIgnores(stmt)
	return clause.OnConflict{DoNothing: ignores}, ignores
}

// insertIgnores reports whether the statement is INSERT IGNORE, or INSERT OR IGNORE.
func insertIgnores(stmt *gorm.Statement) bool {
	insert, _ := stmt.Clauses[clauseInsert].Expression.(clause.Insert)
	return strings.HasSuffix(strings.ToUpper(strings.TrimSpace(insert.Modifier)), "IGNORE")
}

// keyless lists the rows among cells whose primary key is not known to the program.
func keyless(f *frame, cells []cell) map[int]bool {
	if !givenByDatabase(f.plan.schema.PrimaryFields) {
		return nil
	}
	rows := map[int]bool{}
	for _, cell := range cells {
		for _, field := range f.plan.schema.PrimaryFields {
			if _, known := f.rows.value(f.context(), cell.row, field); !known {
				rows[cell.row] = true
			}
		}
	}
	return rows
}

// doubtful lists the generated cells of rows that may meet another row under the clause.
func doubtful(db *gorm.DB, f *frame, conflict clause.OnConflict, ignores bool) []cell {
	// ON CONFLICT (primary key): a row with a new key that meets another row by it is refused, see judge, and
	// a conflict on another unique key fails the statement. MySQL knows no conflict target.
	freshKeyIsNew := db.Name() != dialectMySQL && targetsPrimaryKey(f.plan.schema, conflict) && !ignores
	var cells []cell
	for i := range f.rows.count() {
		start, freshKey := len(cells), false
		for c, column := range f.plan.columns {
			id, ok := f.get(i, c)
			if !ok || !f.mask.has(c) || !f.made(c, id) {
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

// keepStored replaces UPDATE ALL by the assignments that it stands for. It leaves out the columns
// that have generated IDs, because a fresh ID must not overwrite a stored one. GORM itself says which
// assignments they are. One clause serves all rows, so IDs that the user gave in such a column do not
// overwrite stored ones either. Their cells are returned, because they may then differ from the
// database.
func keepStored(db *gorm.DB, f *frame) []cell {
	stored := map[string]bool{}
	var given []cell
	for c, column := range f.plan.columns {
		if !f.mask.has(c) || column.field.PrimaryKey {
			continue
		}
		stored[column.field.DBName] = true
		for i := range f.rows.count() {
			if id, ok := f.get(i, c); ok && !f.made(c, id) {
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

// reconcile gives every doubtful cell the ID that is in the database, or no ID.
func reconcile(db *gorm.DB, fr *frame, upsert *upsert, plans *PlanCache) error {
	if fr.rebuilds(db) {
		return nil // GORM has made the slice anew, of the rows that came back
	}
	for _, cell := range upsert.cells {
		if cell.given {
			continue
		}
		if err := fr.rows.put(cell.row, cell.column, cell.id); err != nil {
			return err
		}
	}
	// Without RETURNING the affected rows are the inserted ones. If all were inserted, no row met
	// another. MySQL counts in another way.
	_, returns := db.Statement.Clauses[clauseReturning]
	if upsert.conflict.DoNothing && !returns && db.Name() != dialectMySQL &&
		(db.RowsAffected == int64(upsert.sent) || fr.judge.settles(upsert)) {
		return nil
	}
	search := newSearch(db, fr, upsert)
	for _, key := range searchKeys(db, fr, upsert.conflict, plans) {
		if err := search.by(key); err != nil {
			return err
		}
		if key.own && fr.judge.exceeds(db, fr, search) {
			return nil
		}
	}
	// A row that was not found is not there, so its ID would be a phantom.
	for _, cell := range upsert.cells {
		if search.missing(cell.row) && !cell.given {
			fr.rows.restore(cell.row, cell.column)
		}
	}
	return nil
}

// searchKeys lists the ways to find the row that an element has become. The best come first.
func searchKeys(
	db *gorm.DB, fr *frame, conflict clause.OnConflict, plans *PlanCache,
) []searchKey {
	s := fr.plan.schema
	// By its own key: a row that has this key was inserted, or is the right one.
	keys := []searchKey{{fields: s.PrimaryFields, own: true}}
	// Or by a generated column alone, if the database gives the primary key, or if the key has other
	// columns. The database may have changed their values, such as a time that it rounds.
	if len(s.PrimaryFields) > 1 || givenByDatabase(s.PrimaryFields) {
		for c, column := range fr.plan.columns {
			if fr.mask.has(c) && isIndexed(s, column.field) {
				keys = append(keys, searchKey{fields: []*schema.Field{column.field}})
			}
		}
	}
	// By what it may have met: the conflict target first, then all unique keys.
	var others []searchKey
	if target, ok := targetKey(s, conflict); ok {
		others = append(others, target)
	}
	for _, unique := range plans.Unique(fr.plan) {
		others = append(others, searchKey{fields: unique})
	}
	keys = append(keys, others...)
	// Under REPEATABLE READ a plain SELECT may not see the row that was met, but a locking SELECT
	// does. It comes last and only here, because it locks the gap around a key that it does not find,
	// and so delays the inserts of others.
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
