package merge

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// directCopier copies chunk by chunk from database to database. The program only asks where a chunk ends.
type directCopier struct {
	*copier
	way   string
	after []string // the position of the last row that was copied
}

func (c *directCopier) all(ctx context.Context) (err error) {
	if c.after, err = c.position(ctx, nil, c.entry.read); err != nil {
		return err
	}
	for !c.entry.done {
		end := c.after
		next := *c.entry
		err := c.ws.target.Unflushed(ctx, func() (last bool, err error) {
			copyRows := c.insertSelect
			if c.way == wayCopy {
				copyRows = c.pipe
			}
			n, err := copyRows(ctx)
			if err != nil {
				return false, err
			}
			c.ws.failpoint("written")
			next.read, next.written = next.read+n, next.written+n
			next.done = n < int64(c.ws.chunkRows)
			if end, err = c.position(ctx, c.after, n); err != nil {
				return false, err
			}
			return next.done, c.journal.recorded(ctx, &next)
		})
		switch {
		case err == nil:
			c.written(next)
			c.after = end
		case ctx.Err() != nil:
			return err
		default:
			// The target refused something. Row by row it turns out which row that was.
			if err := c.again(ctx, err); err != nil {
				return err
			}
			if c.after, err = c.position(ctx, nil, c.entry.read); err != nil {
				return err
			}
		}
	}
	return nil
}

// again copies the next chunk through this program.
func (c *directCopier) again(ctx context.Context, cause error) error {
	next, err := (&reader{ws: c.ws, src: c.src, size: c.ws.chunkRows, skip: c.entry.read}).page(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	return c.writeChunk(ctx, next)
}

// position returns where the last of so many rows is that follow a position. Its values are whole numbers, as
// they stand in statements.
func (c *directCopier) position(ctx context.Context, after []string, rows int64) ([]string, error) {
	if rows == 0 {
		return after, nil
	}
	from := c.server().db
	list := make([]string, len(c.src.order))
	for i, term := range c.src.order {
		list[i] = term.Read(from.Kind)
	}
	q := sqldb.NewStatement(from.Kind, "SELECT ", strings.Join(list, ", "))
	c.rest(q, newSelection(c.ws, c.src.server), after, "1 OFFSET "+strconv.FormatInt(rows-1, 10))
	found, err := from.Strings(ctx, q)
	if err == nil && len(found) == 0 {
		err = ErrSourceChanged
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// rest appends the rest of a statement that selects rows behind a position. The first term alone bounds the
// range, so that every database can use the index.
func (c *directCopier) rest(q *sqldb.Statement, s selection, after []string, limit string) {
	s.from(q, c.src)
	if after != nil {
		var either, same []string
		for i, term := range c.src.order {
			either = append(either, strings.Join(append(slices.Clone(same), term.By()+" > "+after[i]), " AND "))
			same = append(same, term.By()+" = "+after[i])
		}
		q.Add(" AND ", c.src.order[0].By(), " >= ", after[0], " AND ((", strings.Join(either, ") OR ("), "))")
	}
	s.order(q, c.src)
	q.Add(" LIMIT ", limit)
}

// insertSelect lets the target read the source.
func (c *directCopier) insertSelect(ctx context.Context) (int64, error) {
	k := c.ws.target.Kind
	s := newSelection(c.ws, c.src.server)
	s.prefix = "merge_source."
	if c.way == wayInsertSelect {
		s.prefix = k.Quote(c.server().db.Catalog) + "."
	}
	into := k.Quote(c.src.job.name)
	if k == sqldb.SQLite {
		into = "main." + into
	}
	q := sqldb.NewStatement(k, "INSERT INTO ", into, " (", k.QuoteAll(c.src.names()), ") SELECT ")
	for i, expression := range c.selected(s) {
		if i > 0 {
			q.Add(", ")
		}
		if c.names && i == c.src.renamed() {
			c.newName(q, expression)
		} else {
			q.Add(expression)
		}
	}
	c.rest(q, s, c.after, strconv.Itoa(c.ws.chunkRows))
	return c.ws.target.Run(ctx, q)
}

// newName appends the new name of a row or, without one, what it has.
func (c *directCopier) newName(q *sqldb.Statement, old string) {
	k := c.ws.target.Kind
	key := "CAST(s." + k.Quote(c.src.pairs[c.src.key[0]].from.Name) + " + 0 AS CHAR)"
	if k == sqldb.SQLite {
		key = strings.Replace(key, "CHAR)", "TEXT)", 1)
	}
	q.Add("COALESCE((SELECT merge_r.new_name FROM ", c.applier.name(tableRenames), " AS merge_r ",
		"WHERE merge_r.tbl = ").Bind(c.src.job.name).Add(" AND merge_r.server = ").Bind(c.server().Number).
		Add(" AND merge_r.row_key = ", key, "), ", old, ")")
}

// pipe connects COPY TO of the source with COPY FROM of the target.
func (c *directCopier) pipe(ctx context.Context) (int64, error) {
	k := c.ws.target.Kind
	s := newSelection(c.ws, c.src.server)
	empty := make([]string, 0, len(c.late))
	for _, at := range c.late {
		empty = append(empty, c.src.pairs[at].to.Name)
	}
	q := sqldb.NewStatement(k, "COPY (SELECT ", strings.Join(c.selected(s, empty...), ", "))
	c.rest(q, s, c.after, strconv.Itoa(c.ws.chunkRows))
	q.Add(") TO STDOUT")

	// The driver writes row by row, and every write to a pipe waits until its reader has taken all of it. So
	// there is room on both sides, and the source goes on while the target works.
	const size = 256 << 10
	in, out := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		patient := &patientWriter{out: out}
		buffered := bufio.NewWriterSize(patient, size)
		_, err := sqldb.CopyTo(ctx, c.server().db, buffered, q.String())
		if err == nil {
			err = errors.Join(buffered.Flush(), patient.err)
		}
		// COPY FROM ends its command when its input ends, and fails when that fails.
		out.CloseWithError(err)
		sent <- err
	}()
	n, err := sqldb.CopyFrom(ctx, c.ws.target, bufio.NewReaderSize(in, size),
		"COPY "+k.Quote(c.src.job.name)+" ("+k.QuoteAll(c.src.names())+") FROM STDIN")
	in.CloseWithError(io.ErrClosedPipe)
	// An error of the target may have its cause in the source.
	if from := <-sent; from != nil && !errors.Is(from, io.ErrClosedPipe) {
		return 0, from
	}
	return n, err
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
