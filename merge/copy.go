package merge

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// The ways in which rows can be copied.
const (
	wayRows         = "rows"          // through this program
	wayAttach       = "attach"        // SQLite reads the other file itself
	wayInsertSelect = "insert-select" // MySQL reads the other schema itself
	wayCopy         = "copy"          // PostgreSQL's COPY, from one server to the other
)

// copier copies one table of one server, in the fastest way that its rows can go, and in chunks. A chunk and
// its journal entry are one transaction. After a crash of the server, a run goes on where its journal ends.
// So only the end of a table waits for the disk: what follows may tell others that the table is there.
type copier struct {
	ws        *workspace
	decisions *decisions
	src       *sourceTable
	entry     *entry
	progress  *progress
	out       *sqldb.Writer
	late      []int      // positions of the columns that a second pass fills
	names     bool       // the target looks new names up by itself
	shifts    []addition // what the databases add to keys by themselves
	batch     [][]any    // the result of values, reused
	after     []string   // the position of the last row that was copied from database to database
}

func (c *copier) all(ctx context.Context) (way string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: table %s: %w", c.src.owner.Name, c.src.job.name, err)
		}
	}()
	lacks := func(index int) bool { return index < 0 }
	c.late = slices.DeleteFunc(c.src.positions(c.ws.late(c.src.job)), lacks)
	c.out = sqldb.NewWriter(c.ws.target, c.src.job.name, c.src.columns(), c.src.raw)
	defer func() { err = errors.Join(err, c.out.Close()) }()
	way, copyRows, err := c.choose(ctx)
	switch {
	case err != nil:
		return way, err
	case copyRows == nil:
		err = c.byRows(ctx)
	default:
		err = c.direct(ctx, copyRows)
	}
	if way == wayAttach {
		err = errors.Join(err, c.ws.target.Exec(context.WithoutCancel(ctx), "DETACH DATABASE merge_source"))
	}
	if e := c.entry; err == nil && e.read != e.expected {
		err = fmt.Errorf("%w: it had %d rows to copy and now has %d", ErrSourceChanged, e.expected, e.read)
	}
	return way, err
}

// rowsCopier copies the next rows from database to database. It returns how many there were, and the position
// of the last one.
type rowsCopier func(ctx context.Context) (n int64, last []string, err error)

// choose returns the fastest way for the rows of this table, and what copies them from database to database.
// For SQLite it attaches the source.
func (c *copier) choose(ctx context.Context) (string, rowsCopier, error) {
	j, source, target := c.src.job, c.src.owner.db, c.ws.target
	converted := func(p pair) bool { return p.source.Family != p.target.Family }
	asks := func(j *tableJob) bool { return hasSubquery(j.plan.Where) }
	short := c.entry.read == 0 && c.entry.expected < int64(c.ws.chunkRows) // its only chunk ends with it
	if c.ws.portable || source.Kind != target.Kind || !short && !c.src.numbered() ||
		slices.ContainsFunc(c.src.pairs, converted) || slices.ContainsFunc(c.ws.order, asks) {
		return wayRows, nil, nil
	}
	if c.decisions.touches(c.src) {
		if able, err := c.rewritten(ctx); err != nil || !able {
			return wayRows, nil, err
		}
	}
	switch target.Kind {
	case sqldb.SQLite:
		if source.Catalog == "" { // it is in memory
			return wayRows, nil, nil
		}
		uri := "file:" + (&url.URL{Path: source.Catalog}).EscapedPath() + "?mode=ro"
		attach := target.SQL("ATTACH DATABASE ").Bind(uri).Add(" AS merge_source")
		if _, err := target.Run(ctx, attach); err == nil {
			return wayAttach, c.insertSelect("merge_source."), nil
		}
	case sqldb.MySQL:
		if beside, err := c.src.owner.beside(ctx, target); err != nil || !beside {
			return wayRows, nil, err
		}
		// Without the right to read there, rows go through this program.
		schema := sqldb.MySQL.Quote(source.Catalog) + "."
		if target.Exec(ctx, "SELECT 1 FROM "+schema+sqldb.MySQL.Quote(j.name)+" LIMIT 0") == nil {
			return wayInsertSelect, c.insertSelect(schema), nil
		}
	case sqldb.PostgreSQL:
		if sqldb.CanCopy(source) && sqldb.CanCopy(target) {
			return wayCopy, c.pipe, nil
		}
	}
	return wayRows, nil, nil
}

// rewritten reports whether the databases can change the rows by themselves. All that changes are names,
// which the target looks up while it reads the source itself, and what is added to keys.
func (c *copier) rewritten(ctx context.Context) (bool, error) {
	d, p, own, source := c.decisions, c.src.job.plan, c.src.share(), c.src.owner.db
	moved := d.moved(c.src)
	if d.values[own]+d.drops[own] > 0 || d.follows(c.src) || len(p.Set) > 0 ||
		moved && len(c.late) > 0 || moved && p.Orphans == "null" {
		return false, nil
	}
	if c.names = d.renames[own] > 0; c.names { // it finds a row by its key
		if source.Kind == sqldb.PostgreSQL || len(p.Rename.Derived) > 0 || !c.src.job.counted() ||
			len(c.src.key) != 1 {
			return false, nil
		}
		if whole, err := c.whole(ctx, c.src.pairs[c.src.key[0]].source); err != nil || !whole {
			return false, err
		}
	}
	for _, l := range c.src.links {
		share := c.src.shareOf(l.parent)
		s := addition{index: l.index, conditions: []string{l.link.when}, bits: l.bits,
			offset: d.ws.offsets.added[share], least: 1}
		if s.offset == 0 {
			continue
		}
		if d.ws.offsets.zeros[share] {
			s.least = 0
		}
		for _, m := range l.rivals {
			s.conditions = append(s.conditions, c.src.links[m].link.when)
		}
		const signed = 63 // the highest bit makes a number negative, or too large for one
		if l.path+l.list+l.bits.rest != "" || l.bits.low+l.bits.width > signed ||
			slices.ContainsFunc(s.conditions, hasSubquery) {
			return false, nil
		}
		if whole, err := c.whole(ctx, c.src.pairs[l.index].source); err != nil || !whole {
			return false, err
		}
		c.shifts = append(c.shifts, s)
	}
	return true, nil
}

// hasSubquery reports whether a condition may have a subquery, which would read tables of the target.
func hasSubquery(condition string) bool {
	return strings.Contains(strings.ToLower(condition), "select")
}

// whole reports whether a column has whole numbers, or nothing. SQLite may have anything in a column of
// numbers.
func (c *copier) whole(ctx context.Context, column *sqldb.Column) (bool, error) {
	source := c.src.owner.db
	if column.Family != sqldb.FamilyInt || !source.Kind.Untyped() {
		return column.Family == sqldb.FamilyInt, nil
	}
	other, err := source.Any(ctx, " FROM ", source.Kind.Quote(c.src.table.Name), " WHERE TYPEOF(",
		source.Kind.Quote(column.Name), ") NOT IN ('integer', 'null')")
	return !other, err
}

// addition is what is added to the keys of one table in a column.
type addition struct {
	index int // the position of the column
	// conditions are that of its rows, in SQL, and those of rows in which an earlier one is added in its place.
	// "" means all rows.
	conditions []string
	bits       bits // where in the column the key is
	offset     int64
	least      int64 // the least key that moves
}

// selected returns what another database of the same kind selects for the pairs of the source table.
func (c *copier) selected(s selection) []string {
	list := s.expressions(c.src, true)
	for _, shift := range c.shifts {
		name := c.src.pairs[shift.index].source.Name
		key, earlier := "s."+s.kind.Quote(name), ""
		if shift.bits.used() {
			key = shift.bits.sql(s.kind, []string{name})
		}
		for _, when := range shift.conditions[1:] {
			earlier += " WHEN " + cmp.Or(when, "1 = 1") + " THEN 0"
		}
		list[shift.index] += fmt.Sprintf(" + CASE%s WHEN (%s) AND %s >= %d AND %[3]s < %[5]d THEN %d ELSE 0 END",
			earlier, cmp.Or(shift.conditions[0], "1 = 1"), key, shift.least, c.ws.layout.least,
			shift.offset<<shift.bits.low)
	}
	for _, index := range c.late {
		list[index] = "NULL"
	}
	return list
}

// byRows copies the rest of a table through this program, which always works. It reads the next chunk while
// it writes one.
func (c *copier) byRows(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chunks := make(chan chunk)
	var failed error // valid when there are no more chunks
	input := &reader{src: c.src, size: c.ws.chunkRows, skip: c.entry.read}
	go func() {
		defer close(chunks)
		failed = input.all(ctx, func(next chunk) error {
			select {
			case chunks <- next:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	var err error
	for next := range chunks {
		if err == nil {
			if err = c.writeChunk(ctx, next); err != nil {
				cancel()
			}
		}
	}
	return cmp.Or(err, failed)
}

// writeChunk writes rows and the journal in one transaction.
func (c *copier) writeChunk(ctx context.Context, read chunk) error {
	rows, err := c.decisions.apply(ctx, c.src, read.rows)
	if err != nil {
		return err
	}
	next := *c.entry
	next.read, next.written, next.done = next.read+read.read, next.written+int64(len(rows)), read.ended
	err = c.commit(ctx, &next, func() error { return c.out.Write(ctx, c.values(rows)) })
	if err == nil || ctx.Err() != nil {
		return err
	}
	if next, err = c.oneByOne(ctx, rows, next, err); err != nil {
		return err
	}
	c.written(next)
	return nil
}

// commit does a part of the work and says so in the journal, in one transaction, and goes on behind it. The
// work may change what the journal will say.
func (c *copier) commit(ctx context.Context, next *entry, work func() error) error {
	err := c.ws.target.Transaction(ctx, func() error {
		err := work()
		if err == nil && !next.done {
			err = c.ws.target.Unflushed(ctx)
		}
		if err != nil {
			return err
		}
		c.ws.failpoint("written")
		return c.ws.journal.record(ctx, next)
	})
	if err == nil {
		c.written(*next)
	}
	return err
}

// written goes on behind a chunk that the target has.
func (c *copier) written(next entry) {
	read := int(next.read - c.entry.read)
	*c.entry = next
	c.ws.failpoint("committed")
	c.progress.add(c.src.job.name, c.src.owner.Name, read)
}

// values returns what is written now. Columns that a second pass fills are NULL.
func (c *copier) values(rows []row) [][]any {
	c.batch = c.batch[:0]
	for _, r := range rows {
		for _, index := range c.late {
			r.values[index] = nil
		}
		c.batch = append(c.batch, r.values)
	}
	if c.ws.distort != nil {
		return c.ws.distort(c.src.job.name, c.src.names(), c.batch)
	}
	return c.batch
}

// oneByOne writes a chunk row by row after the target has refused it, and so finds the row that is wrong. If
// the plan says so, such rows go to the quarantine.
func (c *copier) oneByOne(ctx context.Context, rows []row, next entry, cause error) (entry, error) {
	quarantine := c.src.job.plan.BadRows == "quarantine"
	t := c.ws.target
	one := sqldb.NewWriter(t, c.src.job.name, c.src.columns(), c.src.raw)
	err := t.Transaction(ctx, func() error {
		for _, r := range rows {
			if err := t.Exec(ctx, "SAVEPOINT merge_row"); err != nil {
				return err
			}
			err := one.Write(ctx, c.values([]row{r}))
			if err == nil {
				if err := t.Exec(ctx, "RELEASE SAVEPOINT merge_row"); err != nil {
					return err
				}
				continue
			}
			if !quarantine {
				return fmt.Errorf("%w: row %s: %w", ErrRow, sqldb.KeyText(r.key), err)
			}
			if err := t.Exec(ctx, "ROLLBACK TO SAVEPOINT merge_row"); err != nil {
				return err
			}
			if err := c.quarantine(ctx, r, err); err != nil {
				return err
			}
			next.written--
		}
		if !quarantine {
			return cause // the target took every single row, so it is another one
		}
		return c.ws.journal.record(ctx, &next)
	})
	return next, err
}

// quarantine stores a row and the reason why it was refused.
func (c *copier) quarantine(ctx context.Context, r row, reason error) error {
	contents := map[string]string{}
	for i, name := range c.src.names() {
		if r.values[i] != nil {
			contents[name] = sqldb.Text(r.values[i])
		}
	}
	text, _ := json.Marshal(contents) // which never fails for texts
	// The table has room for the beginning of the reason.
	words := []rune(strings.ToValidUTF8(strings.ReplaceAll(reason.Error(), "\x00", ""), "?"))
	return keepRows(ctx, c.ws.target, tableQuarantine, []any{c.src.job.name, c.src.owner.Number,
		sqldb.RowKey(r.key), string(words[:min(len(words), 2000)]), string(text)})
}

// direct copies chunk by chunk from database to database, until the target refuses something. The program
// only asks where a full chunk ends.
func (c *copier) direct(ctx context.Context, copyRows rowsCopier) (err error) {
	if c.after, err = c.src.sel.position(ctx, c.src, nil, c.entry.read); err != nil {
		return err
	}
	for !c.entry.done {
		end := c.after
		next := *c.entry
		err := c.commit(ctx, &next, func() (err error) {
			var n int64
			n, end, err = copyRows(ctx)
			next.read, next.written, next.done = next.read+n, next.written+n, n < int64(c.ws.chunkRows)
			return err
		})
		switch {
		case err == nil:
			c.after = end
		case ctx.Err() != nil:
			return err
		default: // The target refused something. Row by row it turns out which row that was.
			return c.byRows(ctx)
		}
	}
	return nil
}

// insertSelect lets the target read the source, whose tables have a prefix there.
func (c *copier) insertSelect(prefix string) rowsCopier {
	k := c.ws.target.Kind
	s := c.src.sel
	s.prefix = prefix
	return func(ctx context.Context) (n int64, last []string, err error) {
		q := c.ws.target.SQL("INSERT INTO ", k.Quote(c.src.job.name), " (", k.QuoteAll(c.src.names()),
			") SELECT ")
		for i, expression := range c.selected(s) {
			if i > 0 {
				q.Add(", ")
			}
			if c.names && i == c.src.renamed() {
				c.lookUpName(q, expression)
			} else {
				q.Add(expression)
			}
		}
		q.Add(s.rest(c.src, c.after, strconv.Itoa(c.ws.chunkRows)))
		if n, err = c.ws.target.Run(ctx, q); err == nil && n == int64(c.ws.chunkRows) {
			last, err = c.src.sel.position(ctx, c.src, c.after, n)
		}
		return n, last, err
	}
}

// lookUpName appends the new name of a row or, without one, what it has.
func (c *copier) lookUpName(q *sqldb.Statement, old string) {
	k := c.ws.target.Kind
	key := "CAST(s." + k.Quote(c.src.pairs[c.src.key[0]].source.Name) + " + 0 AS CHAR)"
	q.Add("COALESCE((SELECT merge_r.new_name FROM ", c.decisions.name(tableRenames), " AS merge_r ",
		"WHERE merge_r.tbl = ").Bind(c.src.job.name).Add(" AND merge_r.server = ").Bind(c.src.owner.Number).
		Add(" AND merge_r.row_key = ", key, "), ", old, ")")
}

// pipe connects COPY TO of the source with COPY FROM of the target. The source looks for the position while
// the target still writes.
func (c *copier) pipe(ctx context.Context) (n int64, last []string, err error) {
	k := c.ws.target.Kind
	q := c.src.owner.db.SQL("COPY (SELECT ", strings.Join(c.selected(c.src.sel), ", "),
		c.src.sel.rest(c.src, c.after, strconv.Itoa(c.ws.chunkRows)), ") TO STDOUT")

	// The driver writes row by row, and every write to a pipe waits until its reader has taken all of it. So
	// there is room on both sides, and the source goes on while the target works.
	const size = 256 << 10
	input, out := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		patient := &patientWriter{out: out}
		buffered := bufio.NewWriterSize(patient, size)
		rows, err := sqldb.CopyTo(ctx, c.src.owner.db, buffered, q.String())
		if err == nil {
			err = errors.Join(buffered.Flush(), patient.err)
		}
		// COPY FROM ends its command when its input ends, and fails when that fails.
		out.CloseWithError(err)
		if err == nil && rows == int64(c.ws.chunkRows) {
			last, err = c.src.sel.position(ctx, c.src, c.after, rows)
		}
		sent <- err
	}()
	n, err = sqldb.CopyFrom(ctx, c.ws.target, bufio.NewReaderSize(input, size),
		"COPY "+k.Quote(c.src.job.name)+" ("+k.QuoteAll(c.src.names())+") FROM STDIN")
	input.CloseWithError(io.ErrClosedPipe)
	// An error of the target may have its cause in the source.
	if cause := <-sent; cause != nil && !errors.Is(cause, io.ErrClosedPipe) {
		return 0, nil, cause
	}
	return n, last, err
}

// patientWriter accepts data even when nobody reads it any more. If it returned an error, the driver would
// close its connection, which is still needed to find the row that was refused.
type patientWriter struct {
	out io.Writer
	err error
}

func (w *patientWriter) Write(p []byte) (int, error) {
	if w.err == nil {
		_, w.err = w.out.Write(p)
	}
	return len(p), nil
}

// fill is the second pass over tables whose references form a circle: it sets the references that were
// written as NULL, now that all rows exist.
func (r *runner) fill(ctx context.Context) error {
	p := r.ws.newProgress("fill", 0)
	for j, src := range r.ws.sources() {
		e := r.entries[stepFill][src.share()]
		if e == nil || e.done {
			continue
		}
		if err := r.fillFrom(ctx, src, r.ws.late(j), e, p); err != nil {
			return fmt.Errorf("%s: table %s: references: %w", src.owner.Name, j.name, err)
		}
	}
	p.report()
	return r.ws.journal.setState(ctx, stateFilled)
}

func (r *runner) fillFrom(ctx context.Context, src *sourceTable, late []string, e *entry, p *progress) error {
	late = slices.DeleteFunc(slices.Clone(late), func(name string) bool { return src.index(name) < 0 })
	names := append(slices.Clone(src.job.target.Primary), late...)
	for _, ref := range src.job.refs {
		names = append(names, ref.Columns...) // a reference of several columns is followed as a whole
	}
	part := r.ws.newSource(src.job, src.server, src.table, names...).prepared(r.ws)
	conditions := []string{"1 = 0"} // of a server that has none of these columns
	for _, name := range late {
		conditions = append(conditions, "s."+src.owner.db.Kind.Quote(name)+" IS NOT NULL")
	}
	c := &copier{ws: r.ws, src: part, entry: e, progress: p}
	input := &reader{src: part, size: r.ws.chunkRows, skip: e.read,
		where: "(" + strings.Join(conditions, " OR ") + ")"}
	return input.all(ctx, func(read chunk) error {
		rows, err := r.decisions.apply(ctx, part, read.rows)
		if err != nil {
			return err
		}
		next := *e
		next.read, next.written, next.done = e.read+read.read, e.written+int64(len(rows)), read.ended
		return c.commit(ctx, &next, func() error { return r.update(ctx, part, late, rows) })
	})
}

// update sets columns of the rows that the primary keys name. Only PostgreSQL needs it, so it is
// PostgreSQL's SQL.
func (r *runner) update(ctx context.Context, src *sourceTable, late []string, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	r.ws.stages++
	t, stage, table := r.ws.target, fmt.Sprintf("merge_stage_%d", r.ws.stages), src.job.target
	names := append(slices.Clone(table.Primary), late...)
	err := t.Exec(ctx, "CREATE TEMP TABLE "+stage+" ON COMMIT DROP AS SELECT "+t.Kind.QuoteAll(names)+" FROM "+
		t.Kind.Quote(table.Name)+" WITH NO DATA")
	if err != nil {
		return err
	}
	var columns []*sqldb.Column
	var same, set []string
	for i, name := range names {
		columns = append(columns, table.Column(name))
		if equal := t.Kind.Quote(name) + " = v." + t.Kind.Quote(name); i < len(table.Primary) {
			same = append(same, "t."+equal)
		} else {
			set = append(set, equal)
		}
	}
	values, positions := make([][]any, len(rows)), src.positions(names)
	for i, row := range rows {
		for _, index := range positions {
			values[i] = append(values[i], row.values[index])
		}
	}
	w := sqldb.NewWriter(t, stage, columns, false)
	if err := errors.Join(w.Write(ctx, values), w.Close()); err != nil {
		return err
	}
	return t.Exec(ctx, "UPDATE "+t.Kind.Quote(table.Name)+" AS t SET "+strings.Join(set, ", ")+" FROM "+stage+
		" AS v WHERE "+strings.Join(same, " AND "))
}
