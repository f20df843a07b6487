package router

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// tableMove fills one table from another.
type tableMove struct {
	ReshardMove
	d       *Resharding
	key     string        // the column of the primary key
	shard   int           // after the resharding, of the rows that move
	columns []tableColumn // of the old table
	into    []tableColumn // those of the same names in the new one
}

// failed says in which step and with which tables an error occurred.
func (m *tableMove) failed(step string, err error) error {
	const where = "%s (shard %d, database %d)"
	return fmt.Errorf("snowflakeplugin: reshard: %s "+where+" from "+where+": %w", step,
		m.ToTable, m.ToShard, m.ToDatabase, m.FromTable, m.FromShard, m.FromDatabase, err)
}

// pool returns the connections to a database. They are never those of a replica.
func (m *tableMove) pool(database int) gorm.ConnPool { return m.d.to.Databases[database].ConnPool }

// target returns a handle for the database of the new table.
func (m *tableMove) target(ctx context.Context) *gorm.DB {
	return m.d.to.Databases[m.ToDatabase].Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
}

// inTarget runs a transaction in the database of the new table.
func (m *tableMove) inTarget(ctx context.Context, do func(tx *gorm.DB) error) error {
	return shardmap.InTransaction(m.target(ctx), do)
}

// lockMap refuses to write to a table that is in use, or after another process has taken over: a copy could
// undo what programs have written since. The records stay as they are until the end of the transaction.
func (m *tableMove) lockMap(tx *gorm.DB) error {
	records := shardmap.Registry{Topology: m.d.from}
	held, err := records.Share(tx, "shards = ? AND closing = ?", m.d.shards, m.d.closing)
	if err == nil && !held {
		return shardmap.TakenOver(m.ToDatabase)
	}
	return err
}

// journalTable returns a handle for the journal in a transaction of the new table's database.
func (m *tableMove) journalTable(tx *gorm.DB) *gorm.DB {
	journal := shardmap.InternalTable(tx, shardmap.MovesTable)
	return tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(journal)
}

// journal reads how far the move is. It writes to the record first, so that a second process waits for
// the end of the transaction.
func (m *tableMove) journal(tx *gorm.DB) (at shardmap.MoveRecord, err error) {
	first := &shardmap.MoveRecord{Name: m.ToTable}
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

// readJournal reads the record of the new table. It is empty if there is none.
func (m *tableMove) readJournal(ctx context.Context) (at shardmap.MoveRecord, err error) {
	table := shardmap.InternalTable(m.d.to.Databases[m.ToDatabase], shardmap.MovesTable)
	exists, err := m.d.hasTable(ctx, m.ToDatabase, table)
	if err != nil || !exists {
		return at, err
	}
	var found []shardmap.MoveRecord
	err = m.d.to.PlainOn(ctx, m.ToDatabase, table).Where("name = ?", m.ToTable).Find(&found).Error
	if len(found) > 0 {
		at = found[0]
	}
	return at, err
}

// noteHighest notes the largest key that a copy has had, for a table that Undo may drop.
func (m *tableMove) noteHighest(tx *gorm.DB, key int64) error {
	if m.d.shards != m.d.from.ShardCount {
		return nil // Undo copies the rows back.
	}
	return m.journalTable(tx).Where("name = ? AND highest < ?", m.ToTable, key).Update("highest", key).Error
}

// countSource counts the rows of the old table that belong in the new one, also soft-deleted ones.
func (m *tableMove) countSource(ctx context.Context) (n int64, err error) {
	quote := m.d.to.Databases[m.FromDatabase].Statement.Quote
	err = m.pool(m.FromDatabase).QueryRowContext(ctx, "SELECT COUNT(*) FROM "+quote(m.FromTable)+" WHERE "+
		m.moves(quote(m.key))).Scan(&n)
	return n, err
}

// A resharding copies the columns that the table has, which is not what the model may read and write. So
// rows are read and written by SQL of its own, in a form that no driver rounds or converts.

// tableColumn is a column that can be written to.
type tableColumn struct {
	name string
	// read is the expression that gives the value in its exact form.
	read string
	// isText is set where a driver returns bytes for text.
	isText bool
	// kind is the type, as the catalog names it.
	kind string
	// charset is the character set of a text on MySQL and MariaDB.
	charset string
}

// columnsOf reads the columns of a table from the catalog, without those that the database computes.
func columnsOf(ctx context.Context, t *shardmap.Topology, database int, table string) ([]tableColumn, error) {
	db := t.Databases[database]
	space, name := splitTable(table)
	var query string
	var args []any
	switch db.Name() {
	case dialect.PostgreSQL:
		query = "SELECT attname, format_type(atttypid, NULL), '' FROM pg_attribute " +
			"WHERE attrelid = to_regclass(?) AND attnum > 0 " +
			"AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
		args = []any{db.Statement.Quote(table)}
	case dialect.MySQL:
		query = "SELECT COLUMN_NAME, DATA_TYPE, COALESCE(CHARACTER_SET_NAME, '') " +
			"FROM information_schema.COLUMNS " +
			"WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ? " +
			"AND COALESCE(GENERATION_EXPRESSION, '') = '' ORDER BY ORDINAL_POSITION"
		args = []any{space, name}
	default:
		query = "SELECT name, '', '' FROM pragma_table_xinfo(?, ?) WHERE hidden = 0"
		args = []any{name, cmp.Or(space, "main")}
	}
	var columns []tableColumn
	err := t.EachPlainRow(ctx, db, func(rows *sql.Rows) error {
		var c tableColumn
		err := rows.Scan(&c.name, &c.kind, &c.charset)
		c.kind = strings.ToLower(c.kind)
		c.read, c.isText = exactly(db, db.Statement.Quote(c.name), c.kind)
		columns = append(columns, c)
		return err
	}, query, args...)
	return columns, err
}

// splitTable separates the schema of a table from its name.
func splitTable(table string) (space, name string) {
	space, name, qualified := strings.Cut(table, ".")
	if !qualified {
		return "", table
	}
	return space, name
}

// exactly returns an expression for the exact value of a column, and whether that is text.
func exactly(db *gorm.DB, column, kind string) (read string, isText bool) {
	switch db.Name() {
	case dialect.PostgreSQL:
		return column + "::text", true
	case dialect.SQLite:
		return "+" + column, false // The driver converts the values of columns, but not of expressions.
	}
	switch kind {
	case "float":
		return "CAST(" + column + " AS DOUBLE)", true // As it is, the server rounds it to six digits.
	case "double":
		return column, true
	case "bit":
		return column, false
	}
	if isBytes(kind) || isGeometry(kind) {
		return column, false
	}
	return "CAST(" + column + " AS CHAR)", true
}

// checkColumns refuses a move to a table that lacks columns.
func (m *tableMove) checkColumns(ctx context.Context) error {
	var err error
	if m.columns, err = columnsOf(ctx, m.d.to, m.FromDatabase, m.FromTable); err != nil {
		return err
	}
	into, err := columnsOf(ctx, m.d.to, m.ToDatabase, m.ToTable)
	if err != nil {
		return err
	}
	for table, columns := range map[string][]tableColumn{m.FromTable: m.columns, m.ToTable: into} {
		if len(columns) == 0 {
			return fmt.Errorf("%w: the table %s is not there: somebody has dropped it. Reshard makes new tables "+
				"again, and an old one must be restored", errs.ErrSharding, table)
		}
	}
	m.into = nil
	for _, column := range m.columns {
		i := slices.IndexFunc(into, func(c tableColumn) bool { return c.name == column.name })
		if i < 0 {
			return fmt.Errorf("%w: table %s has a column %s that the model does not have, and so the new table %s "+
				"has none: add it there, as it is in the old table, and call Reshard again", errs.ErrSharding,
				m.FromTable, column.name, m.ToTable)
		}
		m.into = append(m.into, into[i])
	}
	return nil
}

// moves is the condition that the row with a key belongs in the new table.
func (m *tableMove) moves(key string) string {
	return fmt.Sprintf("(%s & %d) %% %d = %d", key, m.d.to.Mask, m.d.to.ShardCount, m.shard)
}

// rawRow is a row as it is copied.
type rawRow struct {
	id     int64
	values []any
}

// same reports whether all values are equal. They are numbers, text, bytes or nil.
func (r rawRow) same(other rawRow) bool {
	return slices.EqualFunc(r.values, other.values, func(a, b any) bool {
		left, isBytes := a.([]byte)
		right, areBytes := b.([]byte)
		if isBytes || areBytes {
			return isBytes && areBytes && bytes.Equal(left, right)
		}
		return a == b
	})
}

// readFrom reads the next rows after a key that belong in the new table, in the order of their keys. pool
// is a connection to the database of the table. only may restrict the keys; see onlyKeys.
func (m *tableMove) readFrom(
	ctx context.Context, pool gorm.ConnPool, table string, after int64, only string, limit int,
) (list []rawRow, err error) {
	db := m.d.to.Databases[m.ToDatabase] // all are of one kind
	key := "o." + db.Statement.Quote(m.key)
	var query strings.Builder
	query.WriteString("SELECT " + key)
	for _, column := range m.columns {
		query.WriteString(", " + column.read)
	}
	fmt.Fprintf(&query, " FROM %s o WHERE %s AND %s > %d%s ORDER BY %[3]s LIMIT %[6]d",
		db.Statement.Quote(table), m.moves(key), key, after, onlyKeys(only, key), limit)
	rows, err := pool.QueryContext(ctx, query.String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		row := rawRow{values: make([]any, len(m.columns))}
		into := []any{&row.id}
		for i := range row.values {
			into = append(into, &row.values[i])
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for i, value := range row.values {
			if text, ok := value.([]byte); ok && m.columns[i].isText {
				row.values[i] = string(text)
			}
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// copyChunk copies one chunk, and records that in the same transaction. It returns true when there is
// nothing left to copy.
func (m *tableMove) copyChunk(ctx context.Context) (done bool, err error) {
	var at shardmap.MoveRecord
	doneBefore := false
	err = m.inTarget(ctx, func(tx *gorm.DB) error {
		if at, err = m.journal(tx); err != nil || at.Done {
			doneBefore = true
			return err
		}
		if err := m.lockMap(tx); err != nil {
			return err
		}
		pool := tx.Statement.ConnPool
		if m.FromDatabase != m.ToDatabase {
			pool = m.pool(m.FromDatabase)
		}
		rows, err := m.readFrom(ctx, pool, m.FromTable, at.LastID, "", m.d.chunk)
		if err != nil {
			return err
		}
		if n := len(rows); n > 0 {
			last := rows[n-1].id
			if m.FromDatabase == m.ToDatabase {
				key := tx.Statement.Quote(m.key)
				err = m.insertSelect(ctx, tx.Statement.ConnPool,
					fmt.Sprintf(" AND %s > %d AND %[1]s <= %[3]d", key, at.LastID, last))
			} else {
				err = m.insertRows(ctx, tx.Statement.ConnPool, rows)
			}
			if err != nil {
				return err
			}
			at.LastID, at.Highest = last, max(at.Highest, last)
			at.Copied += int64(n)
		}
		at.Done = len(rows) < m.d.chunk
		return m.journalTable(tx).Save(&at).Error
	})
	if err == nil && !doneBefore {
		m.d.onProgress(ReshardProgress{Step: "copy", Table: m.ToTable, Rows: at.Copied})
	}
	return at.Done, err
}

// copyKeys copies the rows with these keys, as far as they still exist.
func (m *tableMove) copyKeys(ctx context.Context, keys []int64) error {
	for some := range slices.Chunk(keys, maxKeys) {
		err := m.inTarget(ctx, func(tx *gorm.DB) error {
			if err := m.lockMap(tx); err != nil {
				return err
			}
			// The range keeps PostgreSQL from reading the whole table if it knows little about it.
			only := fmt.Sprintf(" AND %%[1]s BETWEEN %d AND %d AND %%[1]s IN (%s)", some[0], some[len(some)-1],
				listKeys(some))
			if err := m.noteHighest(tx, some[len(some)-1]); err != nil {
				return err
			}
			if m.FromDatabase == m.ToDatabase {
				return m.insertSelect(ctx, tx.Statement.ConnPool, onlyKeys(only, tx.Statement.Quote(m.key)))
			}
			rows, err := m.readFrom(ctx, m.pool(m.FromDatabase), m.FromTable, 0, only, len(some))
			if err != nil {
				return err
			}
			return m.insertRows(ctx, tx.Statement.ConnPool, rows)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// insertInto returns the beginning and the end of a statement that inserts into the new table. A row whose
// unique value an outdated copy still has is left out. It is missing in the next comparison, and is copied
// when the outdated copy is gone.
func (m *tableMove) insertInto() (names, begin, end string) {
	db := m.d.to.Databases[m.ToDatabase]
	quote := db.Statement.Quote
	var list []string
	for _, column := range m.columns {
		list = append(list, quote(column.name))
	}
	names = strings.Join(list, ", ")
	begin, end = "INSERT INTO "+quote(m.ToTable)+" ("+names+") ", " ON CONFLICT DO NOTHING"
	switch db.Name() {
	case dialect.PostgreSQL:
		begin += "OVERRIDING SYSTEM VALUE "
	case dialect.MySQL:
		// IGNORE would also ignore values that do not fit.
		end = " ON DUPLICATE KEY UPDATE " + quote(m.key) + " = " + quote(m.ToTable) + "." + quote(m.key)
	}
	return names, begin, end
}

// insertSelect copies rows inside a database, so that no value leaves the server.
func (m *tableMove) insertSelect(ctx context.Context, pool gorm.ConnPool, condition string) error {
	names, begin, end := m.insertInto()
	quote := m.d.to.Databases[m.ToDatabase].Statement.Quote
	_, err := pool.ExecContext(ctx, begin+"SELECT "+names+" FROM "+quote(m.FromTable)+" WHERE "+
		m.moves(quote(m.key))+condition+end)
	return err
}

// maxArguments bounds the arguments of one statement. SQLite allows 32,766.
const maxArguments = 30_000

// insertRows writes rows that were read from another database.
func (m *tableMove) insertRows(ctx context.Context, pool gorm.ConnPool, rows []rawRow) error {
	db := m.d.to.Databases[m.ToDatabase]
	_, begin, end := m.insertInto()
	for some := range slices.Chunk(rows, max(1, maxArguments/len(m.columns))) {
		var query strings.Builder
		var args []any
		query.WriteString(begin + "VALUES ")
		for i, row := range some {
			if i > 0 {
				query.WriteString(", ")
			}
			for j, value := range row.values {
				query.WriteByte("(,"[min(j, 1)])
				args = append(args, value)
				db.BindVarTo(&query, &gorm.Statement{Vars: args}, value)
			}
			query.WriteByte(')')
		}
		if _, err := pool.ExecContext(ctx, query.String()+end, args...); err != nil {
			return err
		}
	}
	return nil
}

// A comparison finds the keys of the rows that differ between the two tables of a move. Where both tables
// are in one database, the server compares them by one statement, and only these keys travel. Otherwise
// both tables are read in the order of their keys.

// What a difference is.
const (
	isMissing     = "missing"     // the row has no copy
	isSuperfluous = "superfluous" // the copy has no row
	isChanged     = "changed"
)

// difference is a row that is not the same in both tables.
type difference struct {
	id   int64
	what string
}

// maxKeys is how many keys a statement lists.
const maxKeys = 1000

// differences compares the tables of a move. If only is not nil, it looks at these keys alone.
func (m *tableMove) differences(ctx context.Context, only []int64) ([]difference, error) {
	compare := m.compareInServer
	if m.FromDatabase != m.ToDatabase {
		compare = m.compareStreams
	}
	if only == nil {
		return compare(ctx, "")
	}
	var found []difference
	for some := range slices.Chunk(only, maxKeys) {
		differ, err := compare(ctx, " AND %s IN ("+listKeys(some)+")")
		if err != nil {
			return nil, err
		}
		found = append(found, differ...)
	}
	return found, nil
}

// listKeys writes keys as SQL.
func listKeys(keys []int64) string {
	var b strings.Builder
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(key, 10))
	}
	return b.String()
}

// onlyKeys fills the column into a condition that differences has made.
func onlyKeys(only, column string) string {
	if only == "" {
		return ""
	}
	return fmt.Sprintf(only, column)
}

// compareInServer compares by one statement. It takes every column of the catalog, NULL as a value, and no
// collation into account.
func (m *tableMove) compareInServer(ctx context.Context, only string) (found []difference, err error) {
	db := m.d.to.Databases[m.ToDatabase]
	quote := db.Statement.Quote
	left, right := "o."+quote(m.key), "n."+quote(m.key)
	from, to := quote(m.FromTable)+" o", quote(m.ToTable)+" n"
	differ := fmt.Sprintf("SELECT %s, CASE WHEN %s IS NULL THEN '%s' ELSE '%s' END "+
		"FROM %s LEFT JOIN %s ON %s = %s WHERE %s%s AND (%s IS NULL OR %s)",
		left, right, isMissing, isChanged, from, to, right, left, m.moves(left), onlyKeys(only, left), right,
		m.differ(db))
	superfluous := fmt.Sprintf("SELECT %s, '%s' FROM %s LEFT JOIN %s ON %s = %s WHERE %s%s AND %s IS NULL",
		right, isSuperfluous, to, from, left, right, m.moves(right), onlyKeys(only, right), left)
	if !m.d.still || only != "" {
		err = m.collect(ctx, differ+" UNION ALL "+superfluous, &found)
		return found, err
	}
	// Nobody writes, so the statements see the same rows. If the numbers of rows agree, there cannot be a copy
	// without a row, and to count is much cheaper than to look for each.
	if err := m.collect(ctx, differ, &found); err != nil {
		return nil, err
	}
	want, copies := int64(0), int64(0)
	err = m.pool(m.ToDatabase).QueryRowContext(ctx, fmt.Sprintf("SELECT (SELECT COUNT(*) FROM %s WHERE %s), "+
		"(SELECT COUNT(*) FROM %s WHERE %s)", from, m.moves(left), to, m.moves(right))).Scan(&want, &copies)
	for _, one := range found {
		if one.what == isMissing {
			want--
		}
	}
	if err == nil && want != copies {
		err = m.collect(ctx, superfluous, &found)
	}
	return found, err
}

// collect appends the differences that a statement returns.
func (m *tableMove) collect(ctx context.Context, query string, found *[]difference) (err error) {
	rows, err := m.pool(m.ToDatabase).QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var d difference
		if err := rows.Scan(&d.id, &d.what); err != nil {
			return err
		}
		*found = append(*found, d)
	}
	return rows.Err()
}

// differ is the condition that some column of the rows o and n is not the same, byte for byte.
func (m *tableMove) differ(db *gorm.DB) string {
	var conditions []string
	var left, right []string // columns that PostgreSQL compares by their images
	for i, column := range m.columns {
		name := db.Statement.Quote(column.name)
		o, n := "o."+name, "n."+name
		if db.Name() == dialect.PostgreSQL {
			if column.kind != m.into[i].kind {
				o, n = o+"::text", n+"::text"
			}
			left, right = append(left, o), append(right, n)
			continue
		}
		conditions = append(conditions, differSQL(db.Name(), o, n, column, m.into[i]))
	}
	if left != nil {
		// The image of a value is what INSERT ... SELECT copies. Images differ also where = does not:
		// between 1.0 and 1.00, or -0 and 0, or texts that a collation takes for equal.
		// Without the cast to record, PostgreSQL would look for such an operator of each column.
		return "ROW(" + strings.Join(left, ", ") + ")::record *<> ROW(" + strings.Join(right, ", ") + ")::record"
	}
	return strings.Join(conditions, " OR ")
}

// differSQL is the condition for one column, on MySQL, MariaDB and SQLite.
func differSQL(database, o, n string, of, into tableColumn) string {
	if database == dialect.SQLite {
		// The plus sign removes the affinity of a column, by which text could be compared as a number.
		return fmt.Sprintf("typeof(%s) <> typeof(%s) OR (+%[1]s) COLLATE BINARY IS NOT (+%[2]s)", o, n)
	}
	text := func(c string) string { return "CAST(CONVERT(" + c + " USING utf8mb4) AS BINARY)" }
	kind := of.kind
	if kind != into.kind {
		return fmt.Sprintf("NOT (%s <=> %s)", text(o), text(n))
	}
	switch {
	case kind == "float" || kind == "double":
		// Numbers compare exactly, except that 0 equals -0.
		return fmt.Sprintf("NOT (%s <=> %s) OR %[1]s = 0 AND NOT (%[3]s <=> %[4]s)", o, n, text(o), text(n))
	case isGeometry(kind):
		return fmt.Sprintf("NOT (HEX(%s) <=> HEX(%s))", o, n)
	case comparesExactly(kind):
		return fmt.Sprintf("NOT (%s <=> %s)", o, n)
	case of.charset != "" && of.charset == into.charset:
		return fmt.Sprintf("NOT (CAST(%s AS BINARY) <=> CAST(%s AS BINARY))", o, n)
	}
	return fmt.Sprintf("NOT (%s <=> %s)", text(o), text(n))
}

// comparesExactly reports whether equal values of a type of MySQL are the same, so that they need not be
// converted first.
func comparesExactly(kind string) bool {
	switch kind {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "bit", "year",
		"date", "time", "datetime", "timestamp":
		return true
	}
	return isBytes(kind)
}

// isBytes reports whether a type of MySQL has neither a character set nor a collation.
func isBytes(kind string) bool {
	switch kind {
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return true
	}
	return false
}

func isGeometry(kind string) bool {
	switch kind {
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
		"geometrycollection", "geomcollection":
		return true
	}
	return false
}

// compareStreams reads both tables in the order of their keys.
func (m *tableMove) compareStreams(ctx context.Context, only string) ([]difference, error) {
	source := &rowStream{m: m, database: m.FromDatabase, table: m.FromTable, only: only}
	target := &rowStream{m: m, database: m.ToDatabase, table: m.ToTable, only: only}
	var found []difference
	for {
		row, err := source.peek(ctx)
		if err != nil {
			return nil, err
		}
		duplicate, err := target.peek(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case row == nil && duplicate == nil:
			return found, nil
		case duplicate == nil || row != nil && row.id < duplicate.id:
			found = append(found, difference{row.id, isMissing})
			source.next++
		case row == nil || duplicate.id < row.id:
			found = append(found, difference{duplicate.id, isSuperfluous})
			target.next++
		default:
			if !row.same(*duplicate) {
				found = append(found, difference{row.id, isChanged})
			}
			source.next++
			target.next++
		}
	}
}

// rowStream reads a table chunk by chunk.
type rowStream struct {
	m        *tableMove
	database int
	table    string
	only     string
	rows     []rawRow // the current chunk
	next     int      // index into rows
	last     int64    // the last key of the chunk
	ended    bool     // there are no more chunks
}

// peek returns the next row without taking it, or nil at the end.
func (s *rowStream) peek(ctx context.Context) (*rawRow, error) {
	if s.next == len(s.rows) && !s.ended {
		rows, err := s.m.readFrom(ctx, s.m.pool(s.database), s.table, s.last, s.only, s.m.d.chunk)
		if err != nil {
			return nil, err
		}
		s.rows, s.next, s.ended = rows, 0, len(rows) < s.m.d.chunk
		if len(rows) > 0 {
			s.last = rows[len(rows)-1].id
		}
	}
	if s.next == len(s.rows) {
		return nil, nil
	}
	return &s.rows[s.next], nil
}

// checkOwn refuses to remove a row from the new table that is not a copy. Undo has nothing to check: what the
// old table has beside the rows of the new one are copies of before.
func (m *tableMove) checkOwn(ctx context.Context, found []difference) error {
	superfluous := func(one difference) bool { return one.what == isSuperfluous }
	if m.d.shards != m.d.from.ShardCount || !slices.ContainsFunc(found, superfluous) {
		return nil
	}
	at, err := m.readJournal(ctx)
	if err == nil {
		err = m.checkSuperfluous(found, at)
	}
	if err != nil {
		return m.failed("repair", err)
	}
	return nil
}

// remove deletes copies.
func (m *tableMove) remove(ctx context.Context, keys []int64) error {
	for some := range slices.Chunk(keys, maxKeys) {
		err := m.inTarget(ctx, func(tx *gorm.DB) error {
			if err := m.lockMap(tx); err != nil {
				return err
			}
			return tx.Exec(fmt.Sprintf("DELETE FROM %s WHERE %s IN (%s)", tx.Statement.Quote(m.ToTable),
				tx.Statement.Quote(m.key), listKeys(some))).Error
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hasEffects reports whether a write to the new table may change other rows, by a trigger or a foreign key.
// AutoMigrate makes the tables of shards without either.
func (m *tableMove) hasEffects(ctx context.Context) (found bool, err error) {
	db := m.d.to.Databases[m.ToDatabase]
	space, name := splitTable(m.ToTable)
	var query string
	var args []any
	switch db.Name() {
	case dialect.PostgreSQL: // where a foreign key is a trigger of both tables
		query = "SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass(?)"
		args = []any{db.Statement.Quote(m.ToTable)}
	case dialect.MySQL:
		query = "SELECT 1 FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_TABLE = ? " +
			"AND EVENT_OBJECT_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) " +
			"UNION ALL SELECT 1 FROM information_schema.REFERENTIAL_CONSTRAINTS " +
			"WHERE (TABLE_NAME = ? OR REFERENCED_TABLE_NAME = ?) " +
			"AND CONSTRAINT_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE())"
		args = []any{name, space, name, name, space}
	default:
		query = "SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? UNION ALL SELECT 1 " +
			"FROM sqlite_master t, pragma_foreign_key_list(t.name) k WHERE t.name = ? OR k.\"table\" = ?"
		args = []any{name, name, name}
		if space != "" {
			return true, nil // The other database of the connection is not asked.
		}
	}
	err = m.d.to.EachPlainRow(ctx, db, func(*sql.Rows) error {
		found = true
		return nil
	}, query, args...)
	return found, err
}

// awaitWrites waits for the end of the transactions that have written to a table until the context ends.
func (m *tableMove) awaitWrites(ctx context.Context, database int, table string) error {
	db := m.d.to.Databases[database].Session(&gorm.Session{NewDB: true, SkipHooks: true, Context: ctx})
	err := m.lockOnce(db, db.Statement.Quote(table))
	if err == nil || ctx.Err() == nil && !dialect.Locked(err) {
		return err
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), shardmap.MapPatience)
	defer cancel()
	return fmt.Errorf("%w: a transaction that has written to %s has not ended within %v, and nothing was "+
		"routed meanwhile, so the shard map is open as before. %s. End it, and call this step again: %w",
		errs.ErrSharding, table, writersPatience, inTheWay(db.WithContext(asking), table), err)
}

// lockOnce takes a lock that excludes every transaction which has written to a table, and releases it at
// once. The context has a deadline, which the server knows as well: otherwise it might go on waiting, with
// the statements of others behind it, after the program has given up.
func (m *tableMove) lockOnce(db *gorm.DB, table string) error {
	ctx := db.Statement.Context
	deadline, _ := ctx.Deadline()
	left := max(time.Until(deadline), time.Second)
	switch db.Name() {
	case dialect.PostgreSQL:
		return db.Transaction(func(tx *gorm.DB) error {
			err := tx.Exec(fmt.Sprintf("SET LOCAL lock_timeout = %d", left.Milliseconds())).Error
			if err != nil {
				return err
			}
			return tx.Exec("LOCK TABLE " + table + " IN SHARE MODE").Error
		})
	case dialect.MySQL:
		return db.Connection(func(tx *gorm.DB) error {
			err := tx.Exec("SET @snowflake_wait = @@lock_wait_timeout, lock_wait_timeout = ?",
				int(left.Seconds())).Error
			if err != nil {
				return err
			}
			// Should another statement fail, the connection is broken, and the server has unlocked the table.
			err = tx.Exec("LOCK TABLES " + table + " READ").Error
			return errors.Join(err, tx.Exec("UNLOCK TABLES").Error,
				tx.Exec("SET lock_wait_timeout = @snowflake_wait").Error)
		})
	default:
		// Only one transaction of a database writes at a time.
		key := db.Statement.Quote(m.key)
		return db.Exec("UPDATE " + table + " SET " + key + " = " + key + " WHERE 1 = 0").Error
	}
}

// inTheWay says whose transactions are open, as far as the login may know it.
func inTheWay(db *gorm.DB, table string) string {
	var query string
	var args []any
	switch db.Name() {
	case dialect.PostgreSQL:
		// These are all locks with which SHARE MODE conflicts.
		query = `SELECT DISTINCT concat('process ', a.pid, ' of ', a.usename, ' (',
				nullif(a.application_name, ''), '), in a transaction since ', a.xact_start)
			FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE l.relation = to_regclass(?) AND l.granted AND l.pid <> pg_backend_pid()
				AND l.mode NOT IN ('AccessShareLock', 'RowShareLock', 'ShareLock')`
		args = []any{db.Statement.Quote(table)}
	case dialect.MySQL:
		query = `SELECT concat('connection ', trx_mysql_thread_id, ', in a transaction since ', trx_started)
			FROM information_schema.innodb_trx WHERE trx_mysql_thread_id <> connection_id()
			ORDER BY trx_started LIMIT 10`
	default:
		return "It is one of another connection to the file"
	}
	var found []string
	if err := db.Raw(query, args...).Scan(&found).Error; err != nil || len(found) == 0 {
		if db.Name() == dialect.MySQL {
			return "A login with the right PROCESS finds it in information_schema.innodb_trx"
		}
		return "It has ended by now"
	}
	return "In the way is " + strings.Join(found, "; ")
}

// clean refuses an old table with rows of the new one. The cutover has removed those that it moved.
func (m *tableMove) clean(ctx context.Context) error {
	late, err := m.countSource(ctx)
	if err != nil {
		return err
	}
	if late > 0 {
		return fmt.Errorf("%d %w", late, errWrittenLate)
	}
	m.d.onProgress(ReshardProgress{Step: "clean", Table: m.FromTable})
	return nil
}

// checkCopies refuses a new table with a row that is not in the old one, unless it is a copy of a row that
// was deleted since. IDs grow, so such a key is not greater than that of every copy.
func (m *tableMove) checkCopies(ctx context.Context) error {
	exists, err := m.d.hasTable(ctx, m.ToDatabase, m.ToTable)
	if err != nil || !exists {
		return err
	}
	at, err := m.readJournal(ctx)
	if err != nil || !at.Made {
		return err // Undo does not drop it.
	}
	if err := m.checkColumns(ctx); err != nil {
		return err
	}
	found, err := m.differences(ctx, nil)
	if err != nil {
		return err
	}
	return m.checkSuperfluous(found, at)
}

// checkSuperfluous refuses a row of the new table that is not a copy of a row that was deleted since.
func (m *tableMove) checkSuperfluous(found []difference, at shardmap.MoveRecord) error {
	for _, one := range found {
		if one.what == isSuperfluous && one.id > at.Highest {
			return fmt.Errorf("%w: row %d is in %s only, so some program has written it there: move it to %s, "+
				"and call the step again", errs.ErrSharding, one.id, m.ToTable, m.FromTable)
		}
	}
	return nil
}

// drop drops the new table while it holds the records, so that no other process can make the table valid
// meanwhile.
func (m *tableMove) drop(ctx context.Context) error {
	db := m.target(ctx)
	old := shardmap.Registry{Topology: m.d.from}
	table := db.Statement.Quote(m.ToTable)
	records := db.Statement.Quote(shardmap.InternalTable(db, shardmap.ShardsTable))
	const unused = "shards = ? AND next_shards = 0"
	if db.Name() != dialect.MySQL {
		return db.Transaction(func(tx *gorm.DB) error {
			held, err := old.Hold(tx, unused, m.d.from.ShardCount)
			if err == nil && !held {
				err = shardmap.TakenOver(m.ToDatabase)
			}
			if err != nil {
				return err
			}
			return tx.Exec("DROP TABLE " + table).Error
		})
	}
	// A DROP TABLE would end a transaction there, but it is allowed under a lock of tables.
	return db.Connection(func(tx *gorm.DB) error {
		tx = tx.Session(&gorm.Session{})
		if err := tx.Exec("LOCK TABLES " + records + " READ, " + table + " WRITE").Error; err != nil {
			return err
		}
		var all, met int64
		err := old.RecordsOf(tx).Count(&all).Error
		if err == nil {
			err = old.RecordsOf(tx).Where(unused, m.d.from.ShardCount).Count(&met).Error
		}
		if err == nil && met < all {
			err = shardmap.TakenOver(m.ToDatabase)
		}
		if err == nil {
			err = tx.Exec("DROP TABLE " + table).Error
		}
		return errors.Join(err, tx.Exec("UNLOCK TABLES").Error)
	})
}
