package merge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// copying copies one table of one server, a chunk and its entry in the journal at a time.
type copying struct {
	m        *Merge
	feed     *feed
	entry    *entry
	progress *progress
	out      *writer
	late     []int   // positions of columns that a second pass fills
	touched  bool    // rows may arrive other than they are
	batch    [][]any // what values returned, to be used again
}

// The ways that rows can go.
const (
	wayRows         = "rows"          // through this program
	wayAttach       = "attach"        // SQLite reads the other file itself
	wayInsertSelect = "insert-select" // MySQL reads the other schema itself
	wayCopy         = "copy"          // PostgreSQL's COPY, from one server to the other
)

func (c *copying) all(ctx context.Context) (way string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: table %s: %w", c.server().Name, c.feed.work.name, err)
		}
	}()
	late := c.m.late(c.feed.work)
	for _, name := range late {
		if at := c.feed.at(name); at >= 0 {
			c.late = append(c.late, at)
		}
	}
	c.touched = c.m.d.touches(c.feed)
	c.out = newWriter(c.m.target, c.feed.work.name, c.feed.columns(), c.feed.raw)
	defer func() { err = errors.Join(err, c.m.target.failed(c.out.close())) }()
	way, end, err := c.choose(ctx)
	if err != nil {
		return way, err
	}
	if way == wayRows {
		err = c.byRows(ctx)
	} else {
		err = c.direct(ctx, way)
	}
	if err := errors.Join(err, end()); err != nil {
		return way, err
	}
	if e := c.entry; e.read != e.expected {
		return way, fmt.Errorf("%w: it had %d rows to copy and now has %d", ErrSourceChanged, e.expected, e.read)
	}
	return way, nil
}

func (c *copying) server() *server { return c.m.servers[c.feed.server] }

// byRows takes the rows through this program: the way that works for everything. While a chunk is written
// the next one is read.
func (c *copying) byRows(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	type chunk struct {
		rows  []row
		after []any
		ended bool
		err   error
	}
	chunks := make(chan chunk)
	stopped := make(chan struct{})
	after := c.entry.after
	go func() {
		defer close(stopped)
		in := &reader{m: c.m, feed: c.feed, size: c.m.chunk, after: after}
		for {
			rows, err := in.next(ctx)
			select {
			case chunks <- chunk{rows: rows, after: in.after, ended: in.ended, err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil || in.ended {
				return
			}
		}
	}()
	// The source's connection is free again only when the reader has stopped.
	defer func() {
		cancel()
		<-stopped
	}()
	for {
		var next chunk
		select {
		case next = <-chunks:
		case <-ctx.Done():
			return ctx.Err()
		}
		if next.err != nil {
			return next.err
		}
		if err := c.writeChunk(ctx, next.rows, next.after, next.ended); err != nil || next.ended {
			return err
		}
	}
}

// writeChunk writes rows and the journal in one transaction.
func (c *copying) writeChunk(ctx context.Context, rows []row, after []any, ended bool) error {
	read := len(rows)
	if c.touched {
		var err error
		if rows, err = c.m.d.apply(ctx, c.feed, rows); err != nil {
			return err
		}
	}
	next := *c.entry
	next.after, next.read, next.done = after, next.read+int64(read), ended
	next.written += int64(len(rows))
	err := c.m.target.transaction(ctx, func() error {
		if err := c.out.write(ctx, c.values(rows)); err != nil {
			return err
		}
		c.m.reach("written")
		return c.m.recorded(ctx, &next)
	})
	if err != nil && ctx.Err() == nil {
		if next, err = c.oneByOne(ctx, rows, next, err); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	*c.entry = next
	c.m.reach("committed")
	c.progress.add(c.feed.work.name, c.server().Name, read)
	return nil
}

// values are those that are written now: columns that a second pass fills are NULL.
func (c *copying) values(rows []row) [][]any {
	c.batch = c.batch[:0]
	for _, r := range rows {
		for _, at := range c.late {
			r.values[at] = nil
		}
		c.batch = append(c.batch, r.values)
	}
	return c.batch
}

// oneByOne writes a chunk that was refused row by row. It finds out which row it was, and if the plan says
// so puts such rows aside.
func (c *copying) oneByOne(ctx context.Context, rows []row, next entry, cause error) (entry, error) {
	quarantine := c.feed.work.plan.BadRows == "quarantine"
	t := c.m.target
	one := newWriter(t, c.feed.work.name, c.feed.columns(), c.feed.raw)
	refused := errors.New("refused")
	err := t.transaction(ctx, func() error {
		for _, r := range rows {
			if err := t.exec(ctx, "SAVEPOINT merge_row"); err != nil {
				return err
			}
			err := one.write(ctx, c.values([]row{r}))
			if err == nil {
				if err := t.exec(ctx, "RELEASE SAVEPOINT merge_row"); err != nil {
					return err
				}
				continue
			}
			if !quarantine {
				return fmt.Errorf("%w: row %s: %w", ErrRow, keyText(r.key), err)
			}
			if err := t.exec(ctx, "ROLLBACK TO SAVEPOINT merge_row"); err != nil {
				return err
			}
			if err := c.quarantine(ctx, r, err); err != nil {
				return err
			}
			next.written--
		}
		if !quarantine {
			return refused // every single row was taken, so it was something else
		}
		return c.m.record(ctx, &next)
	})
	if errors.Is(err, refused) {
		return next, cause
	}
	return next, err
}

// quarantine puts a row aside, with the reason.
func (c *copying) quarantine(ctx context.Context, r row, reason error) error {
	contents := map[string]string{}
	for i, name := range c.feed.names() {
		if r.values[i] != nil {
			contents[name] = textOf(r.values[i])
		}
	}
	text, err := json.Marshal(contents)
	if err != nil {
		return err
	}
	k := c.m.target.kind
	q := newStatement(k, "INSERT INTO ", k.quote(tableQuarantine),
		" (tbl, server, row_key, reason, contents) VALUES (").
		bindList(c.feed.work.name, c.server().Number, keyText(r.key), reasonOf(reason), string(text)).add(")")
	_, err = c.m.target.run(ctx, q)
	return err
}

// reasonOf is the text of an error as it fits into the table.
func reasonOf(err error) string {
	text := []rune(strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "?"))
	return string(text[:min(len(text), 2000)])
}

// choose finds the shortest way that rows of this feed can go, and returns what ends it.
func (c *copying) choose(ctx context.Context) (string, func() error, error) {
	none := func() error { return nil }
	w, from, to := c.feed.work, c.server().database, c.m.target
	converted := slices.ContainsFunc(c.feed.pairs, func(p pair) bool { return p.from.family != p.to.family })
	switch {
	case c.m.portable, from.kind != to.kind, len(c.feed.key) == 0, converted, c.touched,
		// A condition on other tables would find those of the target.
		c.elsewhere():
		return wayRows, none, nil
	}
	switch to.kind {
	case SQLite:
		if from.catalog == "" {
			return wayRows, none, nil
		}
		uri := "file:" + escapePath(from.catalog) + "?mode=ro"
		if _, err := to.run(ctx, newStatement(SQLite, "ATTACH DATABASE ").bind(uri).
			add(" AS merge_source")); err != nil {
			c.m.log.WarnContext(ctx, "merge: the source cannot be attached", "server", from.name, "error", err)
			return wayRows, none, nil
		}
		return wayAttach, func() error {
			return to.exec(context.WithoutCancel(ctx), "DETACH DATABASE merge_source")
		}, nil
	case MySQL:
		if same, err := to.sameInstance(ctx, from); err != nil || !same {
			return wayRows, none, err
		}
		if err := to.exec(ctx,
			"SELECT 1 FROM "+MySQL.quote(from.catalog)+"."+MySQL.quote(w.name)+" LIMIT 0"); err != nil {
			return wayRows, none, nil //nolint:nilerr // the login may not read there; the long way works
		}
		return wayInsertSelect, none, nil
	case PostgreSQL:
		if from.canCopy() && to.canCopy() {
			return wayCopy, none, nil
		}
	}
	return wayRows, none, nil
}

// elsewhere tells whether the condition of the table, or of a parent, may look at tables by itself.
func (c *copying) elsewhere() bool {
	return slices.ContainsFunc(c.m.order, func(w *work) bool {
		return strings.Contains(strings.ToLower(w.plan.Where), "select")
	})
}

// sameInstance tells whether two connections lead to one server of MySQL: a lock that one of them takes is
// seen by the other, as held by that connection.
func (d *database) sameInstance(ctx context.Context, other *database) (bool, error) {
	name, err := randomName()
	if err != nil {
		return false, err
	}
	if _, err := other.number(ctx, newStatement(MySQL, "SELECT GET_LOCK(").bind(name).
		add(", 0)")); err != nil {
		return false, err
	}
	own, err := other.number(ctx, newStatement(MySQL, "SELECT CONNECTION_ID()"))
	if err != nil {
		return false, err
	}
	holder, err := d.number(ctx, newStatement(MySQL, "SELECT COALESCE(IS_USED_LOCK(").bind(name).add("), -1)"))
	_, releasing := other.number(ctx, newStatement(MySQL, "SELECT RELEASE_LOCK(").bind(name).add(")"))
	return holder == own, errors.Join(err, releasing)
}
