package fill

import (
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
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
)

// newUpsert notes what to reconcile, and keeps ON CONFLICT UPDATE ALL from writing fresh IDs over those of
// rows that are there already. It returns nil if there is nothing to reconcile.
func newUpsert(db *gorm.DB, fr *frame, conflict clause.OnConflict) *upsert {
	if isShardingPool(db.Statement.ConnPool) {
		return nil
	}
	cells := doubtful(db, fr, conflict)
	if conflict.UpdateAll {
		cells = append(cells, keepStored(db, fr, conflict)...)
	}
	if len(cells) == 0 {
		return nil
	}
	return &upsert{conflict: conflict, cells: cells, keyless: rowsWithoutKey(fr, cells), sent: fr.rows.count()}
}

// without returns what is to be reconciled if some rows are certain, or nil if nothing is left.
func (u *upsert) without(rows []int) *upsert {
	if u == nil {
		return nil
	}
	u.cells = slices.DeleteFunc(u.cells, func(cell cellID) bool { return slices.Contains(rows, cell.row) })
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

// rowsWithoutKey lists the rows among cells whose primary key is not known to the program.
func rowsWithoutKey(f *frame, cells []cellID) map[int]bool {
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
func doubtful(db *gorm.DB, f *frame, conflict clause.OnConflict) []cellID {
	// ON CONFLICT (primary key): a row with a new key that meets another row by it is refused, see judge, and
	// a conflict on another unique key fails the statement, unless that ignores it.
	freshKeyIsNew := !insertIgnores(db.Statement) && dialect.Kind(db.Name()).HasTarget() &&
		targetsPrimaryKey(f.plan.schema, conflict)
	var cells []cellID
	for i := range f.rows.count() {
		start, freshKey := len(cells), false
		for c, column := range f.plan.columns {
			id, ok := f.get(i, c)
			if !ok || !f.mask.has(c) || !f.made(c, id) {
				continue
			}
			cells = append(cells, cellID{row: i, column: c, id: id})
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
func keepStored(db *gorm.DB, f *frame, conflict clause.OnConflict) []cellID {
	stored := map[string]bool{}
	var given []cellID
	for c, column := range f.plan.columns {
		if !f.mask.has(c) || column.field.PrimaryKey {
			continue
		}
		stored[column.field.DBName] = true
		for i := range f.rows.count() {
			if id, ok := f.get(i, c); ok && !f.made(c, id) {
				given = append(given, cellID{row: i, column: c, id: id, given: true})
			}
		}
	}
	if len(stored) == 0 {
		return nil
	}
	conflict = resolved(db, conflict)
	if db.Error != nil {
		return nil
	}
	conflict.DoUpdates = slices.DeleteFunc(slices.Clone(conflict.DoUpdates),
		func(a clause.Assignment) bool { return stored[a.Column.Name] })
	conflict.DoNothing = len(conflict.DoUpdates) == 0
	db.Statement.AddClause(conflict)
	return given
}

// resolved returns the clause as GORM will build it: UPDATE ALL by the assignments that it stands for, which
// may be none. GORM puts them in only as it builds the statement.
func resolved(db *gorm.DB, conflict clause.OnConflict) clause.OnConflict {
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

// searchKeys lists the ways to find the row that an element has become. The best come first.
func searchKeys(db *gorm.DB, fr *frame, conflict clause.OnConflict) []searchKey {
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
	for _, unique := range fr.plan.Unique() {
		others = append(others, searchKey{fields: unique})
	}
	keys = append(keys, others...)
	// Under REPEATABLE READ a plain SELECT may not see the row that was met, but a locking SELECT
	// does. It comes last and only here, because it locks the gap around a key that it does not find,
	// and so delays the inserts of others.
	if db.Name() == dialect.MySQL {
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

// isShardingPool recognizes the pool of gorm.io/sharding, which refuses queries without the
// sharding key.
func isShardingPool(pool gorm.ConnPool) bool {
	named, ok := pool.(fmt.Stringer)
	return ok && named.String() == "gorm:sharding:conn_pool"
}

// refuseRival refuses to make the key of a row that gorm.io/sharding spreads by keys of its own. It takes the
// node in a key for the number of a table. By another key, it would look for the row in a wrong table, change
// and delete it there, and find nothing, without an error. What it knows of its models has no exported names.
func refuseRival(db *gorm.DB, plan *Plan) error {
	rival := db.Plugins["gorm:sharding"]
	if rival == nil || !slices.ContainsFunc(plan.columns, func(c *column) bool { return c.field.PrimaryKey }) {
		return nil
	}
	configured := reflect.Indirect(reflect.ValueOf(rival))
	if configured.Kind() != reflect.Struct {
		return nil
	}
	tables, settings := configured.FieldByName("configs"), configured.FieldByName("_config")
	if tables.Kind() != reflect.Map || tables.Type().Key().Kind() != reflect.String ||
		settings.Kind() != reflect.Struct || !tables.MapIndex(reflect.ValueOf(plan.schema.Table)).IsValid() {
		return nil
	}
	maker := settings.FieldByName("PrimaryKeyGenerator")
	leads := settings.FieldByName("ShardingAlgorithmByPrimaryKey")
	if maker.Kind() != reflect.Int || maker.Int() != 0 || leads.Kind() != reflect.Func || !leads.IsNil() {
		return nil // The application says how a key leads to a table, or that none does.
	}
	return fmt.Errorf("%w: gorm.io/sharding spreads %s, and takes the node in a key for the number of a "+
		"table, so it would not find rows with keys of this plugin: let only one of the two make keys of the "+
		"model, or set ShardingAlgorithmByPrimaryKey; docs/migrating.md says how to come from there",
		errs.ErrSharding, plan.schema.Table)
}

// searchChunk is how many rows one query looks for. It is below the 500 terms that SQLite allows
// in a compound SELECT, and fixed, so that prepared statements are few.
const searchChunk = 200

// searchKey is one way to find the rows of elements: by the values of some columns.
type searchKey struct {
	fields []*schema.Field
	where  clause.Where // of a partial index
	own    bool         // it is the primary key
	lock   bool         // with a locking read
}

// search finds the rows of elements after an upsert and loads their IDs.
//
// It queries the connection of the statement itself and does not go through GORM. That connection
// leads to the primary database and is in the transaction, and no scope such as soft delete applies.
// Values are compared in SQL, because only the database knows which values its collation takes for
// equal.
type search struct {
	db      *gorm.DB
	frame   *frame
	cells   map[int][]cellID // the cells to load, by row; those of found rows are removed
	keyless map[int]bool     // see upsert
	rows    []int            // the rows searched for, in order
	sent    func(*schema.Field) bool
}

func newSearch(db *gorm.DB, f *frame, upsert *upsert) *search {
	s := &search{
		db: db, frame: f, keyless: upsert.keyless, cells: map[int][]cellID{}, sent: sentFields(db.Statement),
	}
	for _, c := range upsert.cells {
		if _, seen := s.cells[c.row]; !seen {
			s.rows = append(s.rows, c.row)
		}
		s.cells[c.row] = append(s.cells[c.row], c)
	}
	return s
}

// missing reports whether the row was not found so far.
func (s *search) missing(row int) bool {
	_, missing := s.cells[row]
	return missing
}

// findBy looks for all rows that are still missing and have all columns of the key.
func (s *search) findBy(key searchKey) error {
	var wanted []int
	var values [][]any
	for _, row := range s.rows {
		if !s.missing(row) {
			continue
		}
		if v, ok := s.keyOf(row, key); ok {
			wanted, values = append(wanted, row), append(values, v)
		}
	}
	return s.eachHit(key, wanted, values, func(row int, hit []reflect.Value) {
		if hit == nil {
			return // two rows for one element, and nothing tells which of them it met
		}
		for _, cell := range s.cells[row] {
			s.frame.rows.load(cell.row, cell.column, hit[cell.column])
		}
		delete(s.cells, row)
	})
}

// keyOf returns the values that the element has in the key's columns. ok is false if only the database
// knows one of them, or if one is NULL, which conflicts with nothing.
func (s *search) keyOf(row int, key searchKey) (values []any, ok bool) {
	if len(key.fields) == 0 || key.own && s.keyless[row] {
		return nil, false
	}
	for _, field := range key.fields {
		value, known := s.frame.rows.value(s.frame.context(), row, field)
		if !known || !s.sent(field) {
			return nil, false
		}
		values = append(values, value)
	}
	return values, true
}

// eachHit looks for the rows of elements by their values, and calls visit for each element that has a row,
// with what scan returns of it.
func (s *search) eachHit(
	key searchKey, elements []int, values [][]any, visit func(element int, hit []reflect.Value),
) error {
	for len(elements) > 0 {
		n := min(len(elements), searchChunk)
		hits, err := s.hits(key, values[:n])
		if err != nil {
			return err
		}
		for i, hit := range hits {
			visit(elements[i], hit)
		}
		elements, values = elements[n:], values[n:]
	}
	return nil
}

// hits runs one query. For the number of each element in it, it returns the values by column of the plan, or
// nil if more than one row was found for it.
func (s *search) hits(key searchKey, values [][]any) (hits map[int][]reflect.Value, err error) {
	stmt, began := s.build(key, values), time.Now()
	defer func() { trace(s.db, stmt, began, int64(len(hits)), err) }()
	//nolint:rowserrcheck // EachRow does both.
	rows, err := s.db.Statement.ConnPool.QueryContext(s.frame.context(), stmt.SQL.String(), stmt.Vars...)
	hits = map[int][]reflect.Value{}
	return hits, dialect.EachRow(rows, err, func(row *sql.Rows) error { return s.scan(row, hits) })
}

// build writes one SELECT for each element: its number, and the generated columns.
func (s *search) build(key searchKey, values [][]any) *gorm.Statement {
	b := queriesOn(s.db)
	// Rows are numbered by their place in this query. So its text, which may be prepared and kept,
	// does not depend on which rows it is for.
	for n := range values {
		if n > 0 {
			_, _ = b.WriteString(" UNION ALL ")
		}
		if key.lock {
			_, _ = b.WriteString("(")
		}
		writeQuery(b, n, s.loaded(), key.fields, values[n])
		if len(key.where.Exprs) > 0 {
			_, _ = b.WriteString(" AND (")
			key.where.Build(b)
			_, _ = b.WriteString(")")
		}
		if key.lock {
			_, _ = b.WriteString(" FOR UPDATE)")
		}
	}
	return b
}

// queriesOn returns a statement for queries on the table of another statement.
func queriesOn(db *gorm.DB) *gorm.Statement {
	own := db.Statement
	return &gorm.Statement{
		DB: db, Context: orBackground(own.Context), Schema: own.Schema,
		Table: own.Table, TableExpr: own.TableExpr, Clauses: map[string]clause.Clause{},
	}
}

// writeQuery writes a query for a number, and for some columns of the row whose fields have the values.
func writeQuery(b *gorm.Statement, n int, columns []*column, fields []*schema.Field, values []any) {
	_, _ = b.WriteString("SELECT " + strconv.Itoa(n))
	for _, column := range columns {
		_, _ = b.WriteString(",")
		b.WriteQuoted(clause.Column{Name: column.field.DBName})
	}
	_, _ = b.WriteString(" FROM ")
	b.WriteQuoted(clause.Table{Name: clause.CurrentTable})
	for i, field := range fields {
		_, _ = b.WriteString([]string{" WHERE ", " AND "}[min(i, 1)])
		b.WriteQuoted(clause.Column{Name: field.DBName})
		_, _ = b.WriteString(" = ")
		b.AddVar(b, values[i])
	}
}

// loaded lists the columns that have generated IDs.
func (s *search) loaded() []*column {
	var columns []*column
	for c, column := range s.frame.plan.columns {
		if s.frame.mask.has(c) {
			columns = append(columns, column)
		}
	}
	return columns
}

// scan adds a row of a query to the hits.
func (s *search) scan(row *sql.Rows, hits map[int][]reflect.Value) error {
	var n int
	targets := []any{&n}
	cells := make([]reflect.Value, len(s.frame.plan.columns))
	for c, column := range s.frame.plan.columns {
		if s.frame.mask.has(c) {
			cells[c] = reflect.New(reflect.PointerTo(column.value)) // a pointer, for NULL
			targets = append(targets, cells[c].Interface())
		}
	}
	if err := row.Scan(targets...); err != nil {
		return err
	}
	for c := range cells {
		if cells[c].IsValid() {
			cells[c] = cells[c].Elem().Elem() // the zero Value for NULL
		}
	}
	if _, twice := hits[n]; twice {
		cells = nil
	}
	hits[n] = cells
	return nil
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
