package merge

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func randomName() (string, error) {
	var b [12]byte
	_, err := rand.Read(b[:])
	return fmt.Sprintf("merge_%x", b), err
}

// escapePath writes a path as it stands in a URI of SQLite.
func escapePath(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// direct copies chunk by chunk from database to database. The program only asks where a chunk ends.
func (c *copying) direct(ctx context.Context, way string) error {
	var ahead *boundaryAhead
	defer func() { _, _ = ahead.wait() }() // the connection is needed for other things
	for !c.entry.done {
		if ahead == nil {
			ahead = c.lookAhead(ctx, c.entry.after)
		}
		end, err := ahead.wait()
		if err != nil {
			return err
		}
		ahead = nil
		next := *c.entry
		err = c.m.target.transaction(ctx, func() error {
			n, err := c.chunk(ctx, way, end, func() {
				if end != nil {
					ahead = c.lookAhead(ctx, end)
				}
			})
			if err != nil {
				return err
			}
			c.m.reach("written")
			next.read, next.written = next.read+n, next.written+n
			if next.done = end == nil; !next.done {
				next.after = end
			} else if next.after, err = c.last(ctx); err != nil {
				return err
			}
			return c.m.recorded(ctx, &next)
		})
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			_, _ = ahead.wait() // what it found is of no use: the chunk does not end there
			ahead = nil
			// Something was refused: row by row it shows which it was, or is put aside.
			if err := c.again(ctx, err); err != nil {
				return err
			}
			continue
		}
		n := next.read - c.entry.read
		*c.entry = next
		c.m.reach("committed")
		c.progress.add(c.feed.work.name, c.server().Name, int(n))
	}
	return nil
}

// chunk copies the rows up to a key. It calls idle when the connection of the source has nothing more to do.
func (c *copying) chunk(ctx context.Context, way string, end []any, idle func()) (int64, error) {
	if way != wayCopy {
		idle() // the target reads the source by itself
		return c.insertSelect(ctx, way, end)
	}
	n, err := c.pipe(ctx, end)
	if err == nil {
		idle()
	}
	return n, err
}

// boundaryAhead is the end of the next chunk, which is looked for while the target is at work on this one.
type boundaryAhead struct {
	done chan struct{}
	key  []any
	err  error
}

func (c *copying) lookAhead(ctx context.Context, after []any) *boundaryAhead {
	b := &boundaryAhead{done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.key, b.err = c.boundary(ctx, after)
	}()
	return b
}

// wait returns the key when it is found; there is none if nobody looks for it.
func (b *boundaryAhead) wait() ([]any, error) {
	if b == nil {
		return nil, nil
	}
	<-b.done
	return b.key, b.err
}

// again copies the next chunk the long way.
func (c *copying) again(ctx context.Context, cause error) error {
	in := &reader{m: c.m, feed: c.feed, size: c.m.chunk, after: c.entry.after}
	rows, err := in.next(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	return c.writeChunk(ctx, rows, in.after, in.ended)
}

// boundary returns the last key of the chunk that follows a key, or nil if that is the last chunk.
func (c *copying) boundary(ctx context.Context, after []any) ([]any, error) {
	return c.keyAt(ctx, after, " LIMIT 1 OFFSET "+strconv.Itoa(c.m.chunk-1), false)
}

// last returns the last key of all, as the long way would leave it in the journal.
func (c *copying) last(ctx context.Context) ([]any, error) {
	key, err := c.keyAt(ctx, c.entry.after, " LIMIT 1", true)
	if key == nil {
		key = c.entry.after
	}
	return key, err
}

func (c *copying) keyAt(ctx context.Context, after []any, limit string, backwards bool) ([]any, error) {
	from := c.server().database
	s := c.m.selection(c.feed.server)
	list := make([]string, len(c.feed.key))
	order := make([]string, len(c.feed.key))
	for i, at := range c.feed.key {
		list[i] = from.kind.readExpression(c.feed.pairs[at].from)
		if order[i] = "s." + from.kind.quote(c.feed.pairs[at].from.name); backwards {
			order[i] += " DESC"
		}
	}
	q := newStatement(from.kind, "SELECT ", strings.Join(list, ", "))
	s.from(q, c.feed)
	s.behind(q, c.feed, after, ">")
	q.add(" ORDER BY ", strings.Join(order, ", "), limit)
	key := make([]any, len(list))
	into := make([]any, len(list))
	for i := range key {
		into[i] = &key[i]
	}
	err := from.row(ctx, q, into...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	for i, at := range c.feed.key {
		key[i] = cursorOf(key[i], c.feed.pairs[at].from)
	}
	return key, err
}

// insertSelect has the target read the source itself.
func (c *copying) insertSelect(ctx context.Context, way string, end []any) (int64, error) {
	k := c.m.target.kind
	s := c.m.selection(c.feed.server)
	s.prefix = "merge_source."
	if way == wayInsertSelect {
		s.prefix = k.quote(c.server().catalog) + "."
	}
	into := k.quote(c.feed.work.name)
	if k == SQLite {
		into = "main." + into
	}
	q := newStatement(k, "INSERT INTO ", into, " (", k.list(c.feed.names()), ") SELECT ",
		strings.Join(s.expressions(c.feed, true), ", "))
	s.from(q, c.feed)
	s.behind(q, c.feed, c.entry.after, ">")
	s.behind(q, c.feed, end, "<=")
	s.order(q, c.feed)
	return c.m.target.run(ctx, q)
}

// pipe leads COPY TO of the source into COPY FROM of the target.
func (c *copying) pipe(ctx context.Context, end []any) (int64, error) {
	k := c.m.target.kind
	s := c.m.selection(c.feed.server)
	empty := make([]string, 0, len(c.late))
	for _, at := range c.late {
		empty = append(empty, c.feed.pairs[at].to.name)
	}
	q := newStatement(k, "COPY (SELECT ", strings.Join(s.expressions(c.feed, true, empty...), ", "))
	s.from(q, c.feed)
	s.literally = true // COPY cannot bind
	s.behind(q, c.feed, c.entry.after, ">")
	s.behind(q, c.feed, end, "<=")
	s.order(q, c.feed)
	form := " (FORMAT text)"
	if c.binary() {
		form = " (FORMAT binary)"
	}
	q.add(") TO STDOUT", form)
	into := "COPY " + k.quote(c.feed.work.name) + " (" + k.list(c.feed.names()) + ") FROM STDIN" + form

	in, out := io.Pipe()
	read := make(chan error, 1)
	go func() {
		// The driver writes row by row, and every write to a pipe waits for its reader.
		patient := &patientWriter{out: out}
		buffered := bufio.NewWriterSize(patient, 256<<10)
		_, err := c.server().copyTo(ctx, buffered, q.String())
		if err == nil {
			err = errors.Join(buffered.Flush(), patient.err)
		}
		// COPY FROM ends its command when its input ends, and fails when that fails.
		out.CloseWithError(err)
		read <- err
	}()
	n, err := c.m.target.copyFrom(ctx, in, into)
	in.CloseWithError(io.ErrClosedPipe)
	if from := <-read; err == nil || from != nil && !errors.Is(from, io.ErrClosedPipe) {
		err = from
	}
	return n, err
}

// patientWriter goes on taking what nobody reads any more. Of an error the driver would end its connection,
// which is still needed to find the row that was refused.
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

// binary tells whether the binary form means the same on both sides. Types that the merge does not know may
// hold numbers of the catalog.
func (c *copying) binary() bool {
	return c.feed.plain() && len(c.late) == 0 && !slices.ContainsFunc(c.feed.pairs, func(p pair) bool {
		return p.from.family == familyOther
	})
}
