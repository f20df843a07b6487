package merge

import (
	"context"
	"io"
	"slices"
	"strings"
)

// stream is what COPY TO of the source hands over for one chunk. It may run ahead of COPY FROM by so many
// blocks, so that the source is at work while the target writes the chunk before.
type stream struct {
	end    []any // the last key of the chunk; nil if it is the last chunk
	blocks chan []byte
	quit   <-chan struct{}
	part   []byte // of a block, on either side
	err    error  // why there are no more blocks
}

const (
	streamBlock  = 64 << 10
	streamBlocks = 32
)

// Write takes what the source sends. When nobody wants it any more it goes nowhere: an error would cost the
// driver its connection, which is still needed to find out what was wrong.
func (s *stream) Write(p []byte) (int, error) {
	if s.part = append(s.part, p...); len(s.part) >= streamBlock {
		s.flush()
	}
	return len(p), nil
}

func (s *stream) flush() {
	select {
	case s.blocks <- s.part:
		s.part = make([]byte, 0, streamBlock+streamBlock/4)
	case <-s.quit:
		s.part = s.part[:0]
	}
}

// received is the side that COPY FROM reads.
type received struct {
	*stream
	part []byte
}

// Read is that of an io.Reader.
func (r *received) Read(p []byte) (int, error) {
	for len(r.part) == 0 {
		block, more := <-r.blocks
		if !more {
			if r.err != nil {
				return 0, r.err
			}
			return 0, io.EOF
		}
		r.part = block
	}
	n := copy(p, r.part)
	r.part = r.part[n:]
	return n, nil
}

// piped leads COPY TO of the source into COPY FROM of the target, chunk by chunk.
func (c *copying) piped(ctx context.Context) error {
	for !c.entry.done {
		cause := c.pipe(ctx)
		if cause == nil || ctx.Err() != nil {
			return cause
		}
		// Something was refused: row by row it shows which it was, or is put aside.
		if err := c.again(ctx, cause); err != nil {
			return err
		}
	}
	return nil
}

// pipe copies chunks until one of them is refused.
func (c *copying) pipe(ctx context.Context) error {
	streams, quit, stopped := make(chan *stream), make(chan struct{}), make(chan struct{})
	after := c.entry.after
	go func() {
		defer close(stopped)
		for {
			s := &stream{blocks: make(chan []byte, streamBlocks), quit: quit}
			s.end, s.err = c.boundary(ctx, after)
			select {
			case streams <- s:
			case <-quit:
				return
			}
			if s.err == nil {
				_, s.err = c.server().copyTo(ctx, s, c.copyText(after, s.end))
				s.flush()
			}
			close(s.blocks)
			if after = s.end; s.err != nil || s.end == nil {
				return
			}
		}
	}()
	// The source's connection is free again only when the goroutine has stopped.
	defer func() {
		close(quit)
		<-stopped
	}()
	k := c.m.target.kind
	into := "COPY " + k.quote(c.feed.work.name) + " (" + k.list(c.feed.names()) + ") FROM STDIN" + c.copyForm()
	for !c.entry.done {
		s := <-streams
		err := c.commitChunk(ctx, s.end, func() (int64, error) {
			return c.m.target.copyFrom(ctx, &received{stream: s}, into)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copyText is the statement that the source sends the rows between two keys by.
func (c *copying) copyText(after, end []any) string {
	s := c.m.selection(c.feed.server)
	empty := make([]string, 0, len(c.late))
	for _, at := range c.late {
		empty = append(empty, c.feed.pairs[at].to.name)
	}
	q := newStatement(PostgreSQL, "COPY (SELECT ", strings.Join(s.expressions(c.feed, true, empty...), ", "))
	s.from(q, c.feed)
	s.literally = true // COPY cannot bind
	s.behind(q, c.feed, after, ">")
	s.behind(q, c.feed, end, "<=")
	s.order(q, c.feed)
	return q.add(") TO STDOUT", c.copyForm()).String()
}

// copyForm is the binary form where it means the same on both sides. Types that the merge does not know may
// hold numbers of the catalog.
func (c *copying) copyForm() string {
	if c.feed.plain() && len(c.late) == 0 && !slices.ContainsFunc(c.feed.pairs, func(p pair) bool {
		return p.from.family == familyOther
	}) {
		return " (FORMAT binary)"
	}
	return " (FORMAT text)"
}
