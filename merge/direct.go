package merge

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// directCopier copies chunk by chunk from database to database. The program only asks where a chunk ends.
type directCopier struct {
	*copier
	way string
}

func (c *directCopier) all(ctx context.Context) error {
	var ahead *boundaryAhead
	defer func() { _, _ = ahead.wait() }() // the connection must be free when this returns
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
		err = c.ws.target.Unflushed(ctx, func() (last bool, err error) {
			n, err := c.chunk(ctx, end, func() {
				if end != nil {
					ahead = c.lookAhead(ctx, end)
				}
			})
			if err != nil {
				return false, err
			}
			c.ws.failpoint("written")
			next.read, next.written = next.read+n, next.written+n
			if next.done = end == nil; !next.done {
				next.after = end
			} else if next.after, err = c.last(ctx); err != nil {
				return false, err
			}
			return next.done, c.journal.recorded(ctx, &next)
		})
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			_, _ = ahead.wait() // the chunk ends elsewhere now
			ahead = nil
			// The target refused something. Row by row it turns out which row that was.
			if err := c.again(ctx, err); err != nil {
				return err
			}
			continue
		}
		c.written(next)
	}
	return nil
}

// chunk copies the rows up to a key. It calls idle as soon as the connection of the source is free.
func (c *directCopier) chunk(ctx context.Context, end []any, idle func()) (int64, error) {
	if c.way != wayCopy {
		idle() // the target reads the source itself
		return c.insertSelect(ctx, end)
	}
	n, err := c.pipe(ctx, end)
	if err == nil {
		idle()
	}
	return n, err
}

// boundaryAhead is a search for the end of the next chunk, while the target writes this one.
type boundaryAhead struct {
	done chan struct{}
	key  []any
	err  error
}

func (c *directCopier) lookAhead(ctx context.Context, after []any) *boundaryAhead {
	b := &boundaryAhead{done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.key, b.err = c.boundary(ctx, after)
	}()
	return b
}

// wait returns the key when it is found. Without a search it returns none.
func (b *boundaryAhead) wait() ([]any, error) {
	if b == nil {
		return nil, nil
	}
	<-b.done
	return b.key, b.err
}

// again copies the next chunk through this program.
func (c *directCopier) again(ctx context.Context, cause error) error {
	in := &reader{ws: c.ws, src: c.src, size: c.ws.chunkRows, after: c.entry.after}
	rows, err := in.next(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	return c.writeChunk(ctx, rows, in.after, in.ended)
}

// boundary returns the last key of the chunk that follows a key, or nil if that is the last chunk.
func (c *directCopier) boundary(ctx context.Context, after []any) ([]any, error) {
	return c.keyAt(ctx, after, " LIMIT 1 OFFSET "+strconv.Itoa(c.ws.chunkRows-1), false)
}

// last returns the last key of the table, which ends up in the journal.
func (c *directCopier) last(ctx context.Context) ([]any, error) {
	key, err := c.keyAt(ctx, c.entry.after, " LIMIT 1", true)
	if key == nil {
		key = c.entry.after
	}
	return key, err
}

func (c *directCopier) keyAt(ctx context.Context, after []any, limit string, backwards bool) ([]any, error) {
	from := c.server().db
	s := newSelection(c.ws, c.src.server)
	var list, order []string
	for _, term := range c.src.order {
		list = append(list, term.Read(from.Kind))
		by := term.By()
		if backwards {
			by += " DESC"
		}
		order = append(order, by)
	}
	q := sqldb.NewStatement(from.Kind, "SELECT ", strings.Join(list, ", "))
	s.from(q, c.src)
	s.behind(q, c.src, after, ">")
	q.Add(" ORDER BY ", strings.Join(order, ", "), limit)
	key := make([]any, len(list))
	into := make([]any, len(list))
	for i := range key {
		into[i] = &key[i]
	}
	err := from.Row(ctx, q, into...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	for i, term := range c.src.order {
		key[i] = term.Position(from.Kind, key[i])
	}
	return key, err
}

// insertSelect lets the target read the source.
func (c *directCopier) insertSelect(ctx context.Context, end []any) (int64, error) {
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
	s.from(q, c.src)
	s.behind(q, c.src, c.entry.after, ">")
	s.behind(q, c.src, end, "<=")
	s.order(q, c.src)
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
