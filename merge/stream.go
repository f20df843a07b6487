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

// pipe connects COPY TO of the source with COPY FROM of the target, for the chunk up to a key.
func (c *directCopier) pipe(ctx context.Context, end []any) (int64, error) {
	out := c.copyOut(ctx, end, 0)
	n, err := sqldb.CopyFrom(ctx, c.ws.target, out.rows, c.copyIn())
	return n, out.end(err)
}

// copyIn returns the COPY FROM of the target.
func (c *directCopier) copyIn() string {
	k := c.ws.target.Kind
	return "COPY " + k.Quote(c.src.job.name) + " (" + k.QuoteAll(c.src.names()) + ") FROM STDIN" + c.form()
}

// form is the option of COPY that says in which format rows go.
func (c *directCopier) form() string {
	if c.binary() {
		return " (FORMAT binary)"
	}
	return " (FORMAT text)"
}

// binary reports whether the binary format means the same on both sides. Types that the merge does not know
// may contain object numbers of one database.
func (c *directCopier) binary() bool {
	return c.src.plain() && len(c.late) == 0 && !slices.ContainsFunc(c.src.pairs, func(p pair) bool {
		return p.from.Family == sqldb.FamilyOther
	})
}

// copyOut starts a COPY TO of the source: of the rows up to a key, if there is one, and of at most limit
// rows, if there is a limit. The connection of the source is not free before the end of what it returns.
func (c *directCopier) copyOut(ctx context.Context, end []any, limit int) *outflow {
	s := newSelection(c.ws, c.src.server)
	empty := make([]string, 0, len(c.late))
	for _, at := range c.late {
		empty = append(empty, c.src.pairs[at].to.Name)
	}
	q := sqldb.NewStatement(s.kind, "COPY (SELECT ", strings.Join(c.selected(s, empty...), ", "))
	s.from(q, c.src)
	s.literally = true // COPY cannot bind
	s.behind(q, c.src, c.entry.after, ">")
	s.behind(q, c.src, end, "<=")
	s.order(q, c.src)
	if limit > 0 {
		q.Add(" LIMIT ", strconv.Itoa(limit))
	}
	q.Add(") TO STDOUT", c.form())

	in, out := io.Pipe()
	o := &outflow{rows: in, ended: make(chan error, 1)}
	go func() {
		// The driver writes row by row, and every write to a pipe waits for its reader.
		patient := &patientWriter{out: out}
		buffered := bufio.NewWriterSize(patient, 256<<10)
		_, err := sqldb.CopyTo(ctx, c.server().db, buffered, q.String())
		if err == nil {
			err = errors.Join(buffered.Flush(), patient.err)
		}
		// COPY FROM ends its command when its input ends, and fails when that fails.
		out.CloseWithError(err)
		o.ended <- err
	}()
	return o
}

// outflow is a COPY TO that is under way.
type outflow struct {
	rows  *io.PipeReader
	ended chan error
}

// end waits for the end of the command, and returns why the rows did not arrive, if they did not: an error of
// who took them may have its cause in the source.
func (o *outflow) end(err error) error {
	o.rows.CloseWithError(io.ErrClosedPipe)
	if from := <-o.ended; from != nil && !errors.Is(from, io.ErrClosedPipe) {
		return from
	}
	return err
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

// streamCopier copies several chunks from one COPY TO. So the source need not look for the ends of chunks,
// and it goes on while the target commits one.
type streamCopier struct {
	*directCopier
	key []int // the positions of the columns of the key
}

// chunksOfStream is how many chunks a COPY TO feeds. When the target refuses a row, the rest of the stream is
// read in vain.
const chunksOfStream = 20

// streamKey returns the positions of the columns by which the source orders its rows, if chunks can be cut
// out of a stream, and otherwise nil: a chunk ends with a key, which the program must be able to read.
func (c *directCopier) streamKey() []int {
	if c.way != wayCopy || !c.binary() {
		return nil
	}
	var key []int
	for _, term := range c.src.order {
		if term.Column() == nil || term.Column().Family != sqldb.FamilyInt {
			return nil
		}
		at := c.src.at(term.Column().Name)
		if at < 0 || slices.ContainsFunc(c.shifts, func(s shift) bool { return s.at == at }) {
			return nil // the journal has the keys of the source
		}
		key = append(key, at)
	}
	return key
}

func (c *streamCopier) all(ctx context.Context) error {
	for chunks := chunksOfStream; !c.entry.done; {
		err := c.stream(ctx, chunks)
		if err == nil {
			chunks = min(2*chunks, chunksOfStream)
			continue
		}
		if ctx.Err() != nil {
			return err
		}
		// The target refused something. Row by row it turns out which row that was. Others may be near.
		if err := c.again(ctx, err); err != nil {
			return err
		}
		chunks = 1
	}
	return nil
}

// stream copies at most so many chunks.
func (c *streamCopier) stream(ctx context.Context, chunks int) error {
	out := c.copyOut(ctx, nil, chunks*c.ws.chunkRows)
	cutter := sqldb.NewCopyCutter(out.rows, c.key)
	var err error
	for n := 0; n < chunks && err == nil && !c.entry.done; n++ {
		err = c.cut(ctx, cutter)
	}
	return out.end(err)
}

// cut copies the next chunk of a stream. The stream has ended when a chunk is not full.
func (c *streamCopier) cut(ctx context.Context, from *sqldb.CopyCutter) error {
	next := *c.entry
	err := c.ws.target.Unflushed(ctx, func() (last bool, err error) {
		n, err := sqldb.CopyFrom(ctx, c.ws.target, from.Part(c.ws.chunkRows), c.copyIn())
		if err != nil {
			return false, err
		}
		c.ws.failpoint("written")
		next.read, next.written, next.done = next.read+n, next.written+n, from.Ended()
		key, err := from.Last()
		if err != nil {
			return false, err
		}
		if key != nil {
			next.after = key
		}
		return next.done, c.journal.recorded(ctx, &next)
	})
	if err != nil {
		return err
	}
	c.written(next)
	return nil
}
