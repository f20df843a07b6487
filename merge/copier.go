package merge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// copier copies one table of one server, in chunks. A chunk and its journal entry are one transaction. After
// a crash of the server, a run goes on where its journal ends. So only the end of a table waits for the disk:
// what follows may tell others that the table is there.
type copier struct {
	ws       *workspace
	journal  *journal
	applier  *applier
	src      *sourceTable
	entry    *entry
	progress *progress
	out      *sqldb.Writer
	late     []int   // positions of the columns that a second pass fills
	touched  bool    // rows may change on their way
	names    bool    // the target looks new names up by itself
	shifts   []shift // what the databases add to keys by themselves
	batch    [][]any // the result of values, reused
}

// The ways in which rows can be copied.
const (
	wayRows         = "rows"          // through this program
	wayAttach       = "attach"        // SQLite reads the other file itself
	wayInsertSelect = "insert-select" // MySQL reads the other schema itself
	wayCopy         = "copy"          // PostgreSQL's COPY, from one server to the other
)

// shift is what is added to the keys of one table in a column.
type shift struct {
	at     int    // the position of the column
	when   string // a condition in SQL; "" for all rows
	offset int64
	least  int64 // the least key that moves
}

// of returns SQL for what becomes of the value of an expression.
func (s shift) of(expression string, below int64) string {
	condition := fmt.Sprintf("%[1]s >= %[2]d AND %[1]s < %[3]d", expression, s.least, below)
	if s.when != "" {
		condition = "(" + s.when + ") AND " + condition
	}
	return fmt.Sprintf("CASE WHEN %[1]s THEN %[2]s + (%[3]d) ELSE %[2]s END", condition, expression, s.offset)
}

// selected returns what another database of the same kind selects for the pairs of the source table.
func (c *copier) selected(s selection, empty ...string) []string {
	list := s.expressions(c.src, true, empty...)
	for _, shift := range c.shifts {
		list[shift.at] = shift.of(list[shift.at], c.ws.minGenerated)
	}
	return list
}

func (c *copier) server() *server { return c.ws.servers[c.src.server] }

// byRows copies the rest of a table through this program, which always works. It reads the next chunk while
// it writes one.
func (c *copier) byRows(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chunks := make(chan chunk)
	var failed error // valid when there are no more chunks
	in := &reader{ws: c.ws, src: c.src, size: c.ws.chunkRows, skip: c.entry.read}
	go func() {
		defer close(chunks)
		failed = in.all(ctx, func(next chunk) error {
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
	if err != nil {
		return err
	}
	return failed
}

// writeChunk writes rows and the journal in one transaction.
func (c *copier) writeChunk(ctx context.Context, read chunk) error {
	rows := read.rows
	if c.touched {
		var err error
		if rows, err = c.applier.apply(ctx, c.src, rows); err != nil {
			return err
		}
	}
	next := *c.entry
	next.read, next.written, next.done = next.read+read.read, next.written+int64(len(rows)), read.ended
	err := c.ws.target.Unflushed(ctx, func() (last bool, err error) {
		if err := c.out.Write(ctx, c.values(rows)); err != nil {
			return false, err
		}
		c.ws.failpoint("written")
		return next.done, c.journal.recorded(ctx, &next)
	})
	if err != nil && ctx.Err() == nil {
		if next, err = c.oneByOne(ctx, rows, next, err); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	c.written(next)
	return nil
}

// written goes on behind a chunk that the target has.
func (c *copier) written(next entry) {
	read := int(next.read - c.entry.read)
	*c.entry = next
	c.ws.failpoint("committed")
	c.progress.add(c.src.job.name, c.server().Name, read)
}

// values returns what is written now. Columns that a second pass fills are NULL.
func (c *copier) values(rows []row) [][]any {
	c.batch = c.batch[:0]
	for _, r := range rows {
		for _, at := range c.late {
			r.values[at] = nil
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
	refused := errors.New("refused")
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
			return refused // the target took every single row, so the cause is another one
		}
		return c.journal.record(ctx, &next)
	})
	if errors.Is(err, refused) {
		return next, cause
	}
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
	text, err := json.Marshal(contents)
	if err != nil {
		return err
	}
	k := c.ws.target.Kind
	q := sqldb.NewStatement(k, "INSERT INTO ", k.Quote(tableQuarantine),
		" (tbl, server, row_key, reason, contents) VALUES (").
		BindAll(c.src.job.name, c.server().Number, sqldb.RowKey(r.key), reasonOf(reason), string(text)).Add(")")
	_, err = c.ws.target.Run(ctx, q)
	return err
}

// reasonOf returns the text of an error, cut to what the table can hold.
func reasonOf(err error) string {
	text := []rune(strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "?"))
	return string(text[:min(len(text), 2000)])
}
