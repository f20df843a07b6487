package fill

import (
	"database/sql"
	"errors"
	"reflect"
	"strconv"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

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
	cells   map[int][]cell // the cells to load, by row; those of found rows are removed
	keyless map[int]bool   // see upsert
	rows    []int          // the rows searched for, in order
	sent    func(*schema.Field) bool
}

func newSearch(db *gorm.DB, f *frame, upsert *upsert) *search {
	s := &search{
		db: db, frame: f, keyless: upsert.keyless, cells: map[int][]cell{}, sent: sentFields(db.Statement),
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

// by looks for all rows that are still missing and have all columns of the key.
func (s *search) by(key searchKey) error {
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
	for len(wanted) > 0 {
		n := min(len(wanted), searchChunk)
		if err := s.query(key, wanted[:n], values[:n]); err != nil {
			return err
		}
		wanted, values = wanted[n:], values[n:]
	}
	return nil
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

// sentFields says which fields the INSERT had. In any other field the row may hold something else than
// the element.
func sentFields(stmt *gorm.Statement) func(*schema.Field) bool {
	if len(stmt.Selects) == 0 && len(stmt.Omits) == 0 {
		return func(field *schema.Field) bool { return field.Creatable }
	}
	chosen, restricted := stmt.SelectAndOmitColumns(true, false)
	return func(field *schema.Field) bool {
		wanted, named := chosen[field.DBName]
		return wanted || !named && !restricted
	}
}

// query runs one query and loads what it found.
func (s *search) query(key searchKey, wanted []int, values [][]any) error {
	hits, err := s.hits(key, values)
	if err != nil {
		return err
	}
	for n, hit := range hits {
		if hit == nil {
			continue // two rows for one element, and nothing tells which of them it met
		}
		for _, cell := range s.cells[wanted[n]] {
			s.frame.rows.load(cell.row, cell.column, hit[cell.column])
		}
		delete(s.cells, wanted[n])
	}
	return nil
}

// hits runs one query. For the number of each element in it, it returns what scan does.
func (s *search) hits(key searchKey, values [][]any) (hits map[int][]reflect.Value, err error) {
	stmt, began := s.build(key, values), time.Now()
	defer func() { trace(s.db, stmt, began, int64(len(hits)), err) }()
	result, err := s.db.Statement.ConnPool.QueryContext(s.frame.context(), stmt.SQL.String(), stmt.Vars...)
	if err != nil {
		return nil, err
	}
	return s.scan(result)
}

// build writes one SELECT for each element: its number, and the generated columns.
func (s *search) build(key searchKey, values [][]any) *gorm.Statement {
	own := s.db.Statement
	b := &gorm.Statement{
		DB: s.db, Context: s.frame.context(), Schema: own.Schema,
		Table: own.Table, TableExpr: own.TableExpr, Clauses: map[string]clause.Clause{},
	}
	// Rows are numbered by their place in this query. So its text, which may be prepared and kept,
	// does not depend on which rows it is for.
	for n := range values {
		if n > 0 {
			_, _ = b.WriteString(" UNION ALL ")
		}
		if key.lock {
			_, _ = b.WriteString("(")
		}
		_, _ = b.WriteString("SELECT " + strconv.Itoa(n))
		for _, column := range s.loaded() {
			_, _ = b.WriteString(",")
			b.WriteQuoted(clause.Column{Name: column.field.DBName})
		}
		_, _ = b.WriteString(" FROM ")
		b.WriteQuoted(clause.Table{Name: clause.CurrentTable})
		for i, field := range key.fields {
			_, _ = b.WriteString([]string{" WHERE ", " AND "}[min(i, 1)])
			b.WriteQuoted(clause.Column{Name: field.DBName})
			_, _ = b.WriteString(" = ")
			b.AddVar(b, values[n][i])
		}
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

// scan reads the rows of a query. For the number of each element it returns the values by column of
// the plan, or nil if more than one row was found for it.
func (s *search) scan(result *sql.Rows) (hits map[int][]reflect.Value, err error) {
	defer func() { err = errors.Join(err, result.Close()) }()
	hits = map[int][]reflect.Value{}
	for result.Next() {
		var n int
		into := []any{&n}
		cells := make([]reflect.Value, len(s.frame.plan.columns))
		for c, column := range s.frame.plan.columns {
			if s.frame.mask.has(c) {
				cells[c] = reflect.New(reflect.PointerTo(column.value)) // a pointer, for NULL
				into = append(into, cells[c].Interface())
			}
		}
		if err := result.Scan(into...); err != nil {
			return nil, err
		}
		if _, twice := hits[n]; twice {
			hits[n] = nil
			continue
		}
		for c := range cells {
			if cells[c].IsValid() {
				cells[c] = cells[c].Elem().Elem() // the zero Value for NULL
			}
		}
		hits[n] = cells
	}
	return hits, result.Err()
}
