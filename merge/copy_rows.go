package merge

import (
	"context"
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// errUnpacked says that rows cannot go in a pack.
var errUnpacked = errors.New("merge: the rows cannot go in a pack")

// byRows copies rows through this program, which always works. Rows that go to PostgreSQL as they are go in
// packs. If a row does not fit into a pack, or the target refuses one, the rest of the table goes without
// packs: then the program has the rows, and can tell which one is wrong.
func (c *copier) byRows(ctx context.Context) error {
	if !c.touched && c.ws.distort == nil {
		// One is filled while the other one is written.
		if one, other := c.out.NewPack(), c.out.NewPack(); one != nil && other != nil {
			if err := c.readAhead(ctx, one, other); !errors.Is(err, errUnpacked) {
				return err
			}
		}
	}
	return c.readAhead(ctx)
}

// rowChunk is what was read of a table at a time.
type rowChunk struct {
	rows  []row
	pack  *sqldb.Pack // in place of the rows
	after []any       // the position of the last one
	ended bool
	err   error
}

// readAhead copies the rest of a table. It reads the next chunk while it writes one. If there are packs, it
// fills them in turns.
func (c *copier) readAhead(ctx context.Context, packs ...*sqldb.Pack) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	enough := make(chan struct{})
	chunks := make(chan rowChunk)
	empty := make(chan *sqldb.Pack, len(packs))
	for _, p := range packs {
		empty <- p
	}
	stopped := make(chan struct{})
	in := &reader{ws: c.ws, src: c.src, size: c.ws.chunkRows, after: c.entry.after}
	go func() {
		defer close(stopped)
		for {
			var next rowChunk
			if len(packs) > 0 {
				select {
				case next.pack = <-empty:
				case <-enough:
					return
				}
				next.pack.Reset()
				in.each = c.packer(next.pack)
			}
			next.rows, next.err = in.next(ctx)
			next.after, next.ended = in.after, in.ended
			select {
			case chunks <- next:
			case <-enough:
				return
			}
			if next.err != nil || next.ended {
				return
			}
		}
	}()
	// The source's connection is not free before the reader has stopped. If the rest of the table goes without
	// packs, the connection is needed again, and the end of a context in the middle of a result would break it.
	defer func() {
		close(enough)
		if !errors.Is(err, errUnpacked) {
			cancel()
		}
		<-stopped
		cancel()
	}()
	for {
		var next rowChunk
		select {
		case next = <-chunks:
		case <-ctx.Done():
			return ctx.Err()
		}
		err = next.err
		switch {
		case err != nil:
		case next.pack == nil:
			err = c.writeChunk(ctx, next.rows, next.after, next.ended)
		default:
			err = c.writePack(ctx, next)
			empty <- next.pack
		}
		if err != nil || next.ended {
			return err
		}
	}
}

// packer returns what puts the values of a row into a pack, as they are written now.
func (c *copier) packer(p *sqldb.Pack) func(values []any) error {
	return func(values []any) error {
		for _, at := range c.late {
			values[at] = nil
		}
		if !p.Add(values) {
			return errUnpacked
		}
		return nil
	}
}

// writePack writes a pack and the journal in one transaction.
func (c *copier) writePack(ctx context.Context, chunk rowChunk) error {
	next, n := *c.entry, int64(chunk.pack.Rows())
	next.after, next.read, next.written, next.done = chunk.after, next.read+n, next.written+n, chunk.ended
	err := c.ws.target.Unflushed(ctx, func() (last bool, err error) {
		if err := c.out.WritePack(ctx, chunk.pack); err != nil {
			return false, err
		}
		c.ws.failpoint("written")
		return next.done, c.journal.recorded(ctx, &next)
	})
	if err != nil {
		if ctx.Err() == nil {
			err = errors.Join(errUnpacked, err)
		}
		return err
	}
	c.written(next)
	return nil
}
