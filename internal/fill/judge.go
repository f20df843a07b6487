package fill

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
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

// remember notes the keys of rows that GORM will replace.
func (j *judge) remember(db *gorm.DB, f *frame) {
	s := &search{db: db, frame: f, sent: sentFields(db.Statement)}
	texts, values := make([]string, len(j.rows)), make([][]any, len(j.rows))
	for n, row := range j.rows {
		texts[n], _ = j.keyText(f, n)
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

// rebuilds reports whether GORM will make the slice anew of the rows that come back.
func (f *frame) rebuilds(db *gorm.DB) bool {
	returning, returns := db.Statement.Clauses[clauseReturning].Expression.(clause.Returning)
	sends := slices.Contains(db.Callback().Create().Clauses, clauseReturning) // as the driver says
	return returns && returnsAll(returning) && sends && f.structs.isSlice()
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

// The texts by which the errors of guards are known. MySQL puts the expression into its error, and PostgreSQL
// the text that is no number.
const (
	guardMySQL    = "9223372036854775807 + "
	guardPostgres = "snowflake contested "
	guardSQLite   = "integer overflow"
)

// guard is a condition on the row that an upsert meets. It is an error if the row has the key that was made
// for the row that meets it.
type guard struct {
	frame  *frame
	judge  *judge
	mysql  bool
	sqlite bool
	meets  bool         // the clause may be for another key than the primary key
	rest   clause.Where // the condition of the application
}

// guardDuplicates makes the guard the first assignment of ON DUPLICATE KEY, which then changes nothing
// itself. It works with INSERT IGNORE as well: that does not ignore the error.
func (j *judge) guardDuplicates(stmt *gorm.Statement, f *frame) {
	conflict, _ := stmt.Clauses[clauseOnConflict].Expression.(clause.OnConflict)
	conflict.DoNothing = false
	conflict.DoUpdates = append(clause.Set{{
		Column: clause.Column{Name: j.column.field.DBName},
		Value:  guard{frame: f, judge: j, mysql: true, meets: true},
	}}, conflict.DoUpdates...)
	j.guarded = true
	stmt.AddClause(conflict)
}

// guardUpdates makes the guard the condition of DO UPDATE.
func (j *judge) guardUpdates(stmt *gorm.Statement, f *frame, conflict clause.OnConflict) {
	conflict.Where = clause.Where{Exprs: []clause.Expression{guard{
		frame: f, judge: j, sqlite: stmt.Name() == dialect.SQLite, rest: conflict.Where,
		meets: !targetsPrimaryKey(f.plan.schema, conflict),
	}}}
	j.guarded = true
	stmt.AddClause(conflict)
}

// Build writes the guard.
func (g guard) Build(b clause.Builder) {
	column := clause.Column{Name: g.judge.column.field.DBName}
	if g.mysql {
		clause.Expr{
			SQL:  "IF(?, " + guardMySQL + "(1 + LENGTH(?)), ?)",
			Vars: []any{g.condition(), column, column},
		}.Build(b)
		return
	}
	failure := "CAST(concat('" + guardPostgres + "', ?) AS bigint) = 1"
	if g.sqlite {
		failure = "abs(-9223372036854775807 - 1 + 0 * ?)"
	}
	clause.Expr{SQL: "CASE WHEN ? THEN " + failure + " ELSE ", Vars: []any{
		g.condition(), g.inserted(column.Name),
	}}.Build(b)
	if len(g.rest.Exprs) > 0 {
		_, _ = b.WriteString("(")
		g.rest.Build(b)
		_, _ = b.WriteString(") END")
		return
	}
	_, _ = b.WriteString("1 = 1 END")
}

// inserted is the value that a column has in the row to be inserted.
func (g guard) inserted(column string) any {
	if g.mysql {
		return clause.Expr{SQL: "VALUES(?)", Vars: []any{clause.Column{Name: column}}}
	}
	return clause.Column{Table: "excluded", Name: column}
}

// condition says that the row that is met has the key of the row to be inserted, and that this key was made.
// What is certain is left out, so that the text of most statements is always the same.
func (g guard) condition() clause.Expression {
	var terms, made []string
	var vars []any
	if g.meets {
		for _, field := range g.frame.plan.schema.PrimaryFields {
			met := clause.Column{Name: field.DBName}
			if !g.mysql {
				met.Table = clause.CurrentTable
			}
			terms, vars = append(terms, "? = ?"), append(vars, met, g.inserted(field.DBName))
		}
	}
	for c, column := range g.frame.plan.columns {
		if rows := g.judge.madeIn(c); len(rows) > 0 && len(g.judge.given) > 0 {
			made, vars = append(made, "? ?"), append(vars, g.inserted(column.field.DBName), g.isMade(c, rows))
		}
	}
	if len(made) > 0 {
		terms = append(terms, "("+strings.Join(made, " OR ")+")")
	}
	return clause.Expr{SQL: cmp.Or(strings.Join(terms, " AND "), "1 = 1"), Vars: vars}
}

// madeIn lists the rows whose key was made in a column, as indexes into j.rows.
func (j *judge) madeIn(c int) []int {
	var rows []int
	for n, key := range j.keys {
		if key.column == c {
			rows = append(rows, n)
		}
	}
	return rows
}

// isMade says of a value that it is among the keys that were made in a column. New numbers lie close
// together, so two of them mostly tell all: the text is then the same for any number of rows, and a database
// takes only so many parameters.
func (g guard) isMade(c int, rows []int) clause.Expression {
	f, j := g.frame, g.judge
	field := f.plan.columns[c].field
	value := func(n int) any {
		v, _ := f.rows.value(f.context(), j.rows[n], field)
		return v
	}
	byID := func(a, b int) int { return cmp.Compare(j.keys[a].id, j.keys[b].id) }
	least, greatest := slices.MinFunc(rows, byID), slices.MaxFunc(rows, byID)
	between := slices.ContainsFunc(slices.Concat(j.given, j.rows), func(i int) bool {
		id, ok := f.get(i, c)
		return ok && !f.made(c, id) && j.keys[least].id <= id && id <= j.keys[greatest].id
	})
	if !between && strings.Contains(strings.ToLower(string(field.DataType)), "int") {
		return clause.Expr{SQL: "BETWEEN ? AND ?", Vars: []any{value(least), value(greatest)}}
	}
	values := make([]any, len(rows))
	for k, n := range rows {
		values[k] = value(n)
	}
	return clause.Expr{SQL: "IN ?", Vars: []any{values}}
}

// allInserted reports whether only rows with new keys are in doubt, were sent alone, and were all inserted.
func (j *judge) allInserted(u *upsert) bool {
	return j != nil && j.apart && j.affected == int64(len(j.rows)) &&
		!slices.ContainsFunc(u.cells, func(cell cellID) bool { return slices.Contains(j.given, cell.row) })
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

// plainErrors keeps GORM from translating the error of the INSERT, until afterInsert does so: the translation
// of most drivers does not say any more which key it was. It returns the configuration of the handle, or nil
// if that stays.
func plainErrors(db *gorm.DB) *gorm.Config {
	if !db.TranslateError {
		return nil
	}
	original, plain := db.Config, *db.Config
	plain.TranslateError = false
	db.Config = &plain
	return original
}

// translated takes back what plainErrors has done.
func translated(db *gorm.DB, original *gorm.Config) {
	if original == nil {
		return
	}
	db.Config = original
	if translator, ok := db.Dialector.(gorm.ErrorTranslator); ok && db.Error != nil {
		setError(db, translator.Translate(db.Error))
	}
}

// setError replaces the error of a statement, and that in its result, which has had one since GORM 1.31.2.
// AddError would have it translated, and the words of it lost.
func setError(db *gorm.DB, err error) {
	db.Error = err
	if db.Statement.Result == nil {
		return
	}
	if field := reflect.ValueOf(db.Statement.Result).Elem().FieldByName("Error"); field.IsValid() {
		field.Set(reflect.ValueOf(err))
	}
}

// refusalOf reports whether an INSERT has failed because a row was there with the primary key of a new one,
// and what the database calls this key, if it says so.
func refusalOf(db *gorm.DB, fr *frame, err error) (key string, is bool) {
	if fr != nil && fr.judge != nil && fr.judge.guarded {
		if key, is = refusedByGuard(db.Name(), err.Error()); is {
			return key, true
		}
	}
	d, is := duplicateOf(db.Statement, err)
	return d.key, is && d.primary
}

// refusedByGuard reports whether an error is that of a guard, and which key it names.
func refusedByGuard(kind, text string) (key string, is bool) {
	switch kind {
	case dialect.MySQL:
		return "", strings.Contains(text, "1690") && strings.Contains(text, guardMySQL)
	case dialect.SQLite:
		return "", strings.Contains(text, guardSQLite)
	case dialect.PostgreSQL:
		_, rest, found := strings.Cut(text, guardPostgres)
		key, _, _ = strings.Cut(rest, `"`)
		return key, found
	}
	return "", false
}

// judged is the judge of a statement, which needs none before it is refused unless it has ON CONFLICT.
func (f *frame) judged(db *gorm.DB) *judge {
	if f.judge != nil {
		return f.judge
	}
	f.before = madeBefore(db.Statement)
	return newJudge(f)
}

// refusedKeys returns the new keys that are there already, as text. If the database says which key it has
// refused, it returns false unless that was made for a row of this statement. Otherwise it looks for the
// rows.
func (f *frame) refusedKeys(db *gorm.DB, refused string) (keys []string, is bool) {
	j := f.judged(db)
	if j == nil {
		return nil, false
	}
	var texts []string
	known := true // the texts are what the database writes
	for n := range j.rows {
		text, same := j.keyText(f, n)
		texts, known = append(texts, text), known && same
	}
	if refused != "" && known {
		n := slices.IndexFunc(texts, func(text string) bool { return duplicate{key: refused}.has(text) })
		if n < 0 {
			return nil, false
		}
		return []string{refused}, true
	}
	if len(j.rows) == 1 && len(j.given) == 0 {
		return texts, true
	}
	if refused == "" {
		var there []string
		for _, n := range j.find(db, f, nil) {
			there = append(there, texts[n])
		}
		if len(there) > 0 {
			return there, true
		}
	}
	return texts, len(j.given) == 0 || j.guarded
}

// keyText returns the new part of a key. same is false if databases write such a key in another way.
func (j *judge) keyText(f *frame, n int) (text string, same bool) {
	column := f.plan.columns[j.keys[n].column]
	if j.texts != nil {
		return j.texts[n], column.kind != kindBytes
	}
	if column.hasText() || column.kind == kindString {
		if value, known := f.rows.value(f.context(), j.rows[n], column.field); known {
			if text, ok := textIn(value); ok {
				return text, true
			}
		}
	}
	return strconv.FormatInt(j.keys[n].id, 10), column.kind != kindBytes
}

// find lists those of the new keys, but the ones that except has, that are in the table, as indexes into
// j.rows. It changes no row. Errors count as nothing found.
func (j *judge) find(db *gorm.DB, f *frame, except map[madeKey]bool) []int {
	s := &search{db: db, frame: f, sent: sentFields(db.Statement)}
	own := searchKey{fields: f.plan.schema.PrimaryFields}
	var wanted, found []int
	var values [][]any
	for n, row := range j.rows {
		if except[j.keys[n]] {
			continue
		}
		var v []any
		if j.values != nil {
			v = j.values[n]
		} else {
			v, _ = s.keyOf(row, own)
		}
		if v != nil {
			wanted, values = append(wanted, n), append(values, v)
		}
	}
	_ = s.eachHit(own, wanted, values, func(n int, _ []reflect.Value) { found = append(found, n) })
	slices.Sort(found)
	return found
}

// exceeds refuses the statement if a search has found more rows by new keys than were inserted. Then one of
// them was there before.
func (j *judge) exceeds(db *gorm.DB, f *frame, search *search) bool {
	if j == nil || !j.counts {
		return false
	}
	var found []int
	for n, row := range j.rows {
		if !search.missing(row) {
			found = append(found, n)
		}
	}
	return int64(len(found)) > j.affected && j.refuse(db, f, found)
}

// refuse makes the error of a statement whose new keys, given as indexes into j.rows, are there already.
func (j *judge) refuse(db *gorm.DB, f *frame, found []int) bool {
	var keys []string
	for _, n := range found {
		text, _ := j.keyText(f, n)
		keys = append(keys, text)
	}
	setError(db, contested(db, keys, f.state(db), nil))
	return true
}

// loses refuses the statement if the rows that were inserted have come back, and others are found by new
// keys.
func (j *judge) loses(db *gorm.DB, f *frame) bool {
	if j == nil || !j.counts || !f.rebuilds(db) {
		return false
	}
	inserted := map[madeKey]bool{}
	for i := range f.rows.count() {
		for c := range f.plan.columns {
			if id, ok := f.get(i, c); ok {
				inserted[madeKey{c, id}] = true
			}
		}
	}
	found := j.find(db, f, inserted)
	return len(found) > 0 && j.refuse(db, f, found)
}

// KeysMade is the setting under which a statement has the keys, in ascending order, that were made for its
// rows just before it.
const KeysMade = PluginName + ":keys_made"

// madeBefore returns the keys of KeysMade. They are none of those of associations, to which GORM hands the
// setting down.
func madeBefore(stmt *gorm.Statement) []int64 {
	if _, isAssociation := stmt.Settings.Load(savedAssociations); isAssociation {
		return nil
	}
	made, _ := stmt.Settings.Load(KeysMade)
	keys, _ := made.([]int64)
	return keys
}

// state says what is stored now.
func (f *frame) state(db *gorm.DB) string {
	if InTransaction(db.Statement.ConnPool) {
		return "nothing of this is stored once the transaction is rolled back, as GORM rolls back its own"
	}
	stored, j := "nothing of this statement", f.judge
	if j != nil && j.counts && j.affected > 0 {
		var texts []string
		for n := range j.rows {
			text, _ := j.keyText(f, n)
			texts = append(texts, text)
		}
		stored = fmt.Sprintf("%d of the rows with the keys %s", j.affected, errs.Listed(texts, ", "))
	}
	if j != nil && j.apart {
		stored += ", but all of its rows whose keys were given"
	}
	return "there is no transaction, so what was stored before this statement stays; stored is " + stored
}

// contested is the error of a new row whose key belongs to a row of somebody else.
func contested(db *gorm.DB, keys []string, state string, cause error) error {
	if cause == nil {
		cause = gorm.ErrDuplicatedKey
	} else if !errors.Is(cause, gorm.ErrDuplicatedKey) {
		cause = fmt.Errorf("%w: %w", gorm.ErrDuplicatedKey, cause)
	}
	name := "the key " + errs.Listed(keys, ", ")
	if len(keys) > 1 {
		name = "one of the keys " + errs.Listed(keys, ", ")
	}
	return fmt.Errorf("%w: %s of %s was just made for a new row, and a row that has it is there already, "+
		"which was left as it is: somebody else makes the same IDs. Look for a second program with the same "+
		"node number (WithNode given twice, a copied machine, a restored backup or store of leases), stop it, "+
		"give it another number, and then create the row again. A struct that stands twice in a slice looks "+
		"alike, and a hook that stores a copy of its row under the same key: let it set the key of the copy to "+
		"0; %s: %w",
		errs.ErrContested, name, db.Statement.Table, state, cause)
}
