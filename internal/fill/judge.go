package fill

import (
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// A row whose key was made for it in its statement is inserted or refused. It never changes, joins or yields
// to a row that has this key already: such a row is that of somebody else who makes the same IDs. Without ON
// CONFLICT the primary key sees to that. GORM sends ON CONFLICT for most associations and for slices of Save,
// and an application may ask for it. What then has to be done depends on the rows and on the database:
//
//   - If all rows have new keys and the clause is about the primary key, it is left out.
//   - ON DUPLICATE KEY of MySQL and DO UPDATE get a condition that is an error if the row that is met has the
//     new key; see guard.
//   - DO NOTHING of PostgreSQL and SQLite cannot fail. If more rows are found by their new keys than were
//     inserted, one of them was there already. Rows with keys of the application would spoil the count, so
//     they are sent in a statement of their own.

// judge is what decides on the rows with new keys of an INSERT with ON CONFLICT.
type judge struct {
	rows     []int          // the rows with a key that was made in this statement, each struct once
	given    []int          // the other rows
	repeats  int            // how many rows are a struct that comes before
	column   *column        // a column of the key that was made
	keys     []madeKey      // of rows
	texts    []string       // of keys, and values: see remember
	values   [][]any        // nil if the rows stay where they are
	counts   bool           // DO NOTHING: the rows that are found are counted
	guarded  bool           // the statement has a guard
	apart    bool           // the given rows were inserted by a statement of their own
	affected int64          // rows, by the INSERT of the rows with new keys
	sent     *sentStatement // what was changed in the statement; nil if nothing was
}

// madeKey is the new part of the key of a row.
type madeKey struct {
	column int
	id     int64
}

// sentStatement remembers what the application has asked for, while the statement is another.
type sentStatement struct {
	conflict clause.Clause
	present  bool // the statement had the clause
	// returning is the RETURNING of the application that was left out; nil if it was not.
	returning *clause.Clause
	parts     bool // the statement sends only some of the rows
	whole     destination
	affected  int64 // rows, by the INSERT of the given rows
}

// newJudge returns nil if no row has a new key.
func newJudge(f *frame) *judge {
	var key columnMask
	for c, column := range f.plan.columns {
		if column.field.PrimaryKey && (f.mask.has(c) || len(f.before) > 0) {
			key |= 1 << c
		}
	}
	if key == 0 {
		return nil
	}
	j := &judge{}
	seen := map[uintptr]bool{}
	for i := range f.rows.count() {
		made, is := f.madeKey(i, key)
		if !is {
			j.given = append(j.given, i)
			continue
		}
		if identity := f.rows.identity(i); identity != 0 {
			if seen[identity] {
				j.repeats++
				continue
			}
			seen[identity] = true
		}
		j.rows, j.keys = append(j.rows, i), append(j.keys, made)
	}
	if len(j.rows) == 0 {
		return nil
	}
	j.column = f.plan.columns[j.keys[0].column]
	return j
}

// madeKey returns the part of a row's key that was made in this statement, if there is one.
func (f *frame) madeKey(i int, key columnMask) (madeKey, bool) {
	for c := range f.plan.columns {
		if !key.has(c) {
			continue
		}
		if id, ok := f.get(i, c); ok && f.made(c, id) {
			return madeKey{c, id}, true
		}
	}
	return madeKey{}, false
}

// prepareUpsert changes a statement with ON CONFLICT so that it obeys the rule above, and notes what has to
// be looked at afterwards.
func (f *filler) prepareUpsert(db *gorm.DB, fr *frame) {
	stmt := db.Statement
	conflict, ok := conflictOf(stmt)
	if !ok {
		return
	}
	j := newJudge(fr)
	if j == nil || isShardingPool(stmt.ConnPool) && len(j.given) > 0 {
		fr.upsert = newUpsert(db, fr, false)
		return
	}
	fr.judge = j
	j.sent = &sentStatement{}
	j.sent.conflict, j.sent.present = stmt.Clauses[clauseOnConflict]
	ignores := insertIgnores(stmt)
	alone := !ignores && f.isAboutKey(db, fr, conflict)
	if alone && len(j.given) == 0 {
		delete(stmt.Clauses, clauseOnConflict)
		j.send(stmt, fr, j.rows)
		return
	}
	if fr.upsert = newUpsert(db, fr, ignores); db.Error != nil || isShardingPool(stmt.ConnPool) {
		return
	}
	if db.Name() == dialectMySQL {
		j.guardDuplicates(stmt, fr)
		j.send(stmt, fr, fr.unrepeated(j))
		return
	}
	current := f.resolved(db, conflict)
	switch meetsKey := !isAboutOther(fr.plan.schema, conflict); {
	case db.Error != nil:
	case !current.DoNothing:
		if meetsKey {
			j.guardUpdates(stmt, fr, current)
		}
		j.counts = ignores
		j.send(stmt, fr, fr.unrepeated(j))
	case len(j.given) == 0 || !meetsKey || db.DryRun || fr.rebuilds(db):
		j.counts = true
		j.countExactly(db, fr)
		j.send(stmt, fr, fr.unrepeated(j))
	default:
		if f.insertApart(db, fr, j.given); db.Error != nil {
			return
		}
		if j.counts = !alone; j.counts {
			j.countExactly(db, fr)
		} else {
			delete(stmt.Clauses, clauseOnConflict)
			fr.upsert = fr.upsert.without(j.rows)
		}
		j.send(stmt, fr, j.rows)
	}
	if fr.upsert != nil {
		fr.upsert.sent = fr.rows.count() - j.repeats
	}
}

// isAboutKey reports whether rows with new keys need no clause. Either its target is the primary key, or GORM
// has put it there for an association, and the model has no other key that the clause could be for. MySQL
// knows no target.
func (f *filler) isAboutKey(db *gorm.DB, fr *frame, conflict clause.OnConflict) bool {
	others := f.plans.hasOtherUnique(fr.plan)
	if targetsPrimaryKey(fr.plan.schema, conflict) {
		return db.Name() != dialectMySQL || !others
	}
	return !others && isAssociation(db.Statement, conflict)
}

// isAssociation reports whether GORM saves an association by the statement, and yields to rows that are
// there.
func isAssociation(stmt *gorm.Statement, conflict clause.OnConflict) bool {
	if !conflict.DoNothing || len(conflict.Columns) > 0 || conflict.OnConstraint != "" ||
		len(conflict.Where.Exprs) > 0 || len(conflict.TargetWhere.Exprs) > 0 {
		return false
	}
	_, saved := stmt.Settings.Load(savedAssociations)
	return saved
}

// savedAssociations is the setting that GORM hands down to the creates of associations, and to nothing else.
const savedAssociations = "gorm:saved_association_map"

// isAboutOther reports whether the conflict target is another key than the primary key. Then a row that meets
// another by its primary key fails the statement, on SQLite and PostgreSQL.
func isAboutOther(s *schema.Schema, conflict clause.OnConflict) bool {
	if conflict.OnConstraint != "" || len(conflict.Columns) == 0 || targetsPrimaryKey(s, conflict) {
		return false
	}
	return !slices.ContainsFunc(conflict.Columns, func(column clause.Column) bool {
		return column.Raw || s.LookUpField(column.Name) == nil
	})
}

// resolved returns the clause as GORM will build it: UPDATE ALL by the assignments that it stands for, which
// may be none. GORM puts them in only as it builds the statement.
func (f *filler) resolved(db *gorm.DB, conflict clause.OnConflict) clause.OnConflict {
	current, ok := db.Statement.Clauses[clauseOnConflict].Expression.(clause.OnConflict)
	if !ok {
		return conflict // INSERT IGNORE
	}
	if current.UpdateAll {
		callbacks.ConvertToCreateValues(db.Statement)
		current, _ = db.Statement.Clauses[clauseOnConflict].Expression.(clause.OnConflict)
		current.UpdateAll = false
		db.Statement.AddClause(current)
	}
	return current
}

// rebuilds reports whether GORM will make the slice anew of the rows that come back.
func (f *frame) rebuilds(db *gorm.DB) bool {
	returning, returns := db.Statement.Clauses[clauseReturning].Expression.(clause.Returning)
	return returns && returnsAll(returning) && supportsReturning(db) && f.structs.isSlice()
}

// remember notes the keys of rows that GORM will replace.
func (j *judge) remember(db *gorm.DB, f *frame) {
	s := &search{db: db, frame: f, sent: sentFields(db.Statement)}
	texts, values := make([]string, len(j.rows)), make([][]any, len(j.rows))
	for n, row := range j.rows {
		texts[n], _ = j.text(f, n)
		values[n], _ = s.keyOf(row, searchKey{fields: f.plan.schema.PrimaryFields})
	}
	j.texts, j.values = texts, values
}

// countExactly leaves RETURNING out where GORM would count wrong: under DO NOTHING it counts, and does not
// read into, each element of a slice that has a value in one of the columns. It does the same by itself for
// columns whose default the database makes, and nothing can be done about that.
func (j *judge) countExactly(db *gorm.DB, f *frame) {
	stmt := db.Statement
	whole := stmt.Clauses[clauseReturning]
	returning, ok := whole.Expression.(clause.Returning)
	if !ok || returnsAll(returning) || !f.structs.isSlice() || len(f.plan.schema.FieldsWithDefaultDBValue) > 0 {
		return
	}
	for _, column := range returning.Columns {
		field := f.plan.schema.LookUpField(column.Name)
		for i := range f.rows.count() {
			row, ok := f.structs.row(i)
			if field == nil || !ok {
				break
			}
			if _, zero := field.ValueOf(f.context(), row); !zero {
				j.sent.returning = &whole
				delete(stmt.Clauses, clauseReturning)
				return
			}
		}
	}
}

// unrepeated lists the rows without those that are a struct that comes before.
func (f *frame) unrepeated(j *judge) []int {
	if j.repeats == 0 {
		return nil
	}
	rows := slices.Concat(j.rows, j.given)
	slices.Sort(rows)
	return rows
}

// send makes the statement insert some of the rows. It does nothing if these are all rows.
func (j *judge) send(stmt *gorm.Statement, f *frame, rows []int) {
	if len(rows) == 0 || len(rows) == f.rows.count() {
		return
	}
	j.sent.parts, j.sent.whole = true, destination{stmt.Dest, stmt.ReflectValue}
	part := f.rows.part(rows)
	stmt.Dest, stmt.ReflectValue = part.dest, part.value
}

// insertApart inserts some rows by a statement of their own, as the application has asked for. Hooks and
// associations are the matter of the statement of all rows.
func (f *filler) insertApart(db *gorm.DB, fr *frame, rows []int) {
	began := time.Now()
	apart := db.Session(&gorm.Session{Initialized: true})
	part := fr.rows.part(rows)
	apart.Statement.Dest, apart.Statement.ReflectValue = part.dest, part.value
	apart.Statement.BuildClauses = db.Statement.BuildClauses
	f.creates.Get(gormInsert)(apart)
	trace(db, apart.Statement, began, apart.RowsAffected, apart.Error)
	if apart.Error != nil {
		db.Error = apart.Error
		return
	}
	fr.judge.apart, fr.judge.sent.affected = true, apart.RowsAffected
}

// trace logs a statement that no callback of GORM logs.
func trace(db *gorm.DB, stmt *gorm.Statement, began time.Time, affected int64, err error) {
	text, vars := stmt.SQL.String(), stmt.Vars
	db.Logger.Trace(db.Statement.Context, began, func() (string, int64) {
		if filter, ok := db.Logger.(gorm.ParamsFilter); ok {
			text, vars = filter.ParamsFilter(db.Statement.Context, text, vars...)
		}
		return db.Explain(text, vars...), affected
	}, err)
}

// settles reports whether only rows with new keys are in doubt, were sent alone, and were all inserted.
func (j *judge) settles(u *upsert) bool {
	return j != nil && j.apart && j.affected == int64(len(j.rows)) &&
		!slices.ContainsFunc(u.cells, func(cell cell) bool { return slices.Contains(j.given, cell.row) })
}

// giveBack makes the statement what it was before prepareUpsert.
func (j *judge) giveBack(db *gorm.DB, f *frame) {
	if j == nil || j.sent == nil {
		return
	}
	stmt, sent := db.Statement, j.sent
	j.sent, j.affected = nil, db.RowsAffected
	if sent.present {
		stmt.Clauses[clauseOnConflict] = sent.conflict
	} else {
		delete(stmt.Clauses, clauseOnConflict)
	}
	if sent.returning != nil {
		stmt.Clauses[clauseReturning] = *sent.returning
	}
	if sent.parts {
		rebuilt := stmt.ReflectValue
		stmt.Dest, stmt.ReflectValue = sent.whole.dest, sent.whole.value
		if f.rebuilds(db) && stmt.ReflectValue.CanSet() && rebuilt.Type() == stmt.ReflectValue.Type() {
			stmt.ReflectValue.Set(rebuilt)
		}
	}
	if j.apart {
		db.RowsAffected += sent.affected
		if stmt.Result != nil {
			stmt.Result.RowsAffected = db.RowsAffected
		}
	}
}
