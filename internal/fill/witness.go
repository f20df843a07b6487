package fill

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

const (
	// askTimeout bounds the question after a create that has failed, whose pool may be busy.
	askTimeout = time.Second
	// askAfter is how long a question waits for a create or an update that asks it.
	askAfter = 200 * time.Millisecond
	// maxQuestions is how many questions wait for the end of the transactions that they are about.
	maxQuestions = 16
	// maxAsked is how many rows of a statement a question is about, and maxVars how many values it has. SQLite
	// takes 500 and 32,766.
	maxAsked, maxVars = 400, 10_000
)

// Witnesses finds out whose row it is that has refused a new key. If it differs in a column from what was
// sent, somebody else makes the same IDs, and the row is the witness. An equal row is our own: a proxy or a
// cluster has sent the INSERT twice.
//
// A number of another source is looked at in the same way.
//
// The question is asked when the transaction is over, because PostgreSQL answers nothing in one that has
// failed. In a transaction of the application it waits for the next create or update outside of one, but not
// for long where a server answers on several connections. Its methods are safe for concurrent use.
type Witnesses struct {
	tell    func(table string, id int64)
	count   atomic.Int32 // of those that are not answered; until something is refused, nobody looks further
	asking  sync.Mutex   // held by who asks, so that a create knows the answers when it ends
	mu      sync.Mutex
	waiting []*question
}

// NewWitnesses returns witnesses of no row yet. The function is told of each, and must not wait long.
func NewWitnesses(tell func(table string, id int64)) *Witnesses { return &Witnesses{tell: tell} }

// question asks for the rows that have new keys of a statement and differ from what that has sent.
type question struct {
	pool  *sql.DB
	table string
	text  string
	vars  []any
	ids   []int64
	tell  []func(table string, id int64) // who wants to know of each of them
}

// note keeps a question until it can be asked.
func (w *Witnesses) note(db *gorm.DB, q *question) {
	if q == nil || q.pool == nil {
		return
	}
	if InTransaction(db.Statement.ConnPool) && !beganTransaction(db) && !dialect.Kind(db.Name()).Embedded() {
		ctx := orBackground(db.Statement.Context)
		time.AfterFunc(askAfter, func() { w.askNow(ctx, nil, nil) })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) < maxQuestions {
		w.waiting = append(w.waiting, q)
		w.count.Add(1)
	}
}

// connection is the setting under which a statement has the connection to which its handle is bound.
const connection = PluginName + ":connection"

// bind remembers the connection to which the handle of a statement is bound, before GORM begins a
// transaction. GORM goes on with the pool afterwards.
func (w *Witnesses) bind(db *gorm.DB) {
	if conn, is := db.Statement.ConnPool.(*sql.Conn); is && w != nil {
		db.InstanceSet(connection, conn)
	}
}

// boundTo returns that connection, or nil if there is none.
func boundTo(db *gorm.DB) *sql.Conn {
	if conn, is := db.Statement.ConnPool.(*sql.Conn); is {
		return conn
	}
	bound, _ := db.InstanceGet(connection)
	conn, _ := bound.(*sql.Conn)
	return conn
}

// ask asks what waits, unless the statement is in a transaction, which may have the only connection. The
// handle of a statement may have it as well, and lends it. poolOf knows the pool of a connection.
func (w *Witnesses) ask(db *gorm.DB, poolOf func(gorm.ConnPool) (pool *sql.DB, pinned bool)) {
	if w == nil || w.count.Load() == 0 || InTransaction(db.Statement.ConnPool) {
		return
	}
	conn := boundTo(db)
	pool, _ := poolOf(conn) // none if it is closed, and the handle lives longer
	w.askNow(orBackground(db.Statement.Context), conn, pool)
}

// askNow asks what waits: on a connection if it belongs to the pool, and otherwise on the pool itself.
func (w *Witnesses) askNow(ctx context.Context, conn *sql.Conn, bound *sql.DB) {
	w.asking.Lock()
	defer w.asking.Unlock()
	w.mu.Lock()
	waiting := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	defer w.count.Add(-int32(len(waiting)))
	// The caller may have given up, and the answer is not for it alone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	for _, q := range waiting {
		var pool gorm.ConnPool = q.pool
		if bound != nil && bound == q.pool {
			pool = conn
		}
		for _, n := range q.strangers(ctx, pool) {
			q.tell[n](q.table, q.ids[n])
		}
	}
}

// strangers returns which of the rows somebody else has made. A database that does not answer tells of none:
// the next refusal asks again.
func (q *question) strangers(ctx context.Context, pool gorm.ConnPool) (found []int) {
	rows, err := pool.QueryContext(ctx, q.text, q.vars...) //nolint:rowserrcheck // EachRow does both.
	err = dialect.EachRow(rows, err, func(rows *sql.Rows) error {
		var n int
		err := rows.Scan(&n)
		found = append(found, n)
		return err
	})
	if err != nil {
		return nil
	}
	return found
}

// sentRow is a row with a key or a number that was made for it, and how it was sent.
type sentRow struct {
	id      int64
	columns []*schema.Field // those of the index that has refused it
	tell    func(table string, id int64)
	value   func(field *schema.Field) (v any, known bool)
}

// sentRowAt is the row of a frame that has a key or a number. A NULL that was sent, such as a pointer that is
// nil, tells rows apart as other values do.
func sentRowAt(f *frame, i int, id int64) sentRow {
	return sentRow{id: id, value: func(field *schema.Field) (any, bool) {
		value, known := f.rows.value(f.context(), i, field)
		return value, known || value != nil
	}}
}

// questionOf builds the question about rows of a statement, or returns nil if no column can tell them apart.
// It compares what every database compares alike: whole numbers, truth values, texts and bytes. Times and
// decimals come back rounded, and documents in another form.
func questionOf(db *gorm.DB, pool *sql.DB, rows []sentRow) *question {
	own := db.Statement
	sent := sentFields(own)
	b := queriesOn(db)
	equalOrNull := dialect.Kind(db.Name()).EqualOrNull()
	q := &question{pool: pool, table: own.Table}
	rows = slices.DeleteFunc(rows, func(row sentRow) bool { return row.tell == nil })
	for _, row := range rows[:min(len(rows), maxAsked)] {
		key, keyed := valuesOf(row.columns, row)
		var others []*schema.Field
		for _, field := range own.Schema.Fields {
			if sent(field) && (tellsRowsApart(field) || field.PrimaryKey) && !slices.Contains(row.columns, field) {
				if _, known := row.value(field); known {
					others = append(others, field)
				}
			}
		}
		if !keyed || len(others) == 0 || len(b.Vars) > maxVars {
			continue
		}
		if len(q.ids) > 0 {
			_, _ = b.WriteString(" UNION ALL ")
		}
		writeQuery(b, len(q.ids), nil, row.columns, key)
		_, _ = b.WriteString(" AND NOT (")
		for i, field := range others {
			if i > 0 {
				_, _ = b.WriteString(" AND ")
			}
			value, _ := row.value(field)
			b.WriteQuoted(clause.Column{Name: field.DBName})
			_, _ = b.WriteString(equalOrNull)
			b.AddVar(b, value)
		}
		_, _ = b.WriteString(")")
		q.ids, q.tell = append(q.ids, row.id), append(q.tell, row.tell)
	}
	if len(q.ids) == 0 {
		return nil
	}
	q.text, q.vars = b.SQL.String(), b.Vars
	return q
}

// valuesOf returns the values that a row has in fields, if all of them are known.
func valuesOf(fields []*schema.Field, row sentRow) (values []any, ok bool) {
	for _, field := range fields {
		value, known := row.value(field)
		if !known {
			return nil, false
		}
		values = append(values, value)
	}
	return values, len(values) > 0
}

// tellsRowsApart reports whether databases give the value of a field back as it was sent.
func tellsRowsApart(field *schema.Field) bool {
	if field.PrimaryKey || !field.Creatable || field.DBName == "" || field.Serializer != nil ||
		field.HasDefaultValue {
		return false
	}
	switch field.DataType {
	case schema.Bool, schema.Int, schema.Uint, schema.String, schema.Bytes:
		return true
	case schema.Float, schema.Time:
		return false
	}
	declared := strings.ToLower(string(field.DataType))
	return strings.Contains(declared, "int") && !strings.HasPrefix(declared, "interval") ||
		strings.HasPrefix(declared, "varchar") || declared == "text"
}
