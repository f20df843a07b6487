package merge

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// tableCopier copies one table of one server, in the fastest way that its rows can go.
type tableCopier struct{ *copier }

func (c *tableCopier) all(ctx context.Context) (way string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: table %s: %w", c.server().Name, c.src.job.name, err)
		}
	}()
	late := c.ws.late(c.src.job)
	for _, name := range late {
		if at := c.src.at(name); at >= 0 {
			c.late = append(c.late, at)
		}
	}
	c.touched = c.applier.touches(c.src)
	c.out = sqldb.NewWriter(c.ws.target, c.src.job.name, c.src.columns(), c.src.raw)
	defer func() { err = errors.Join(err, c.out.Close()) }()
	way, end, err := c.choose(ctx)
	if err != nil {
		return way, err
	}
	if way == wayRows {
		err = c.byRows(ctx)
	} else {
		err = (&directCopier{copier: c.copier, way: way}).all(ctx)
	}
	if err := errors.Join(err, end()); err != nil {
		return way, err
	}
	if e := c.entry; e.read != e.expected {
		return way, fmt.Errorf("%w: it had %d rows to copy and now has %d", ErrSourceChanged, e.expected, e.read)
	}
	return way, nil
}

// choose returns the fastest way for the rows of this table, and a function that cleans up after it.
func (c *tableCopier) choose(ctx context.Context) (string, func() error, error) {
	none := func() error { return nil }
	j, from, to := c.src.job, c.server().db, c.ws.target
	converted := slices.ContainsFunc(c.src.pairs, func(p pair) bool { return p.from.Family != p.to.Family })
	switch {
	case c.ws.portable, from.Kind != to.Kind, !c.numbered(), converted,
		// A subquery in a condition would read tables of the target.
		c.elsewhere():
		return wayRows, none, nil
	}
	if c.touched {
		able, err := c.named(ctx)
		if err == nil && !able {
			able, err = c.shifted(ctx)
		}
		if err != nil || !able {
			return wayRows, none, err
		}
	}
	switch to.Kind {
	case sqldb.SQLite:
		if from.Catalog == "" {
			return wayRows, none, nil
		}
		uri := "file:" + escapePath(from.Catalog) + "?mode=ro"
		if _, err := to.Run(ctx, sqldb.NewStatement(sqldb.SQLite, "ATTACH DATABASE ").Bind(uri).
			Add(" AS merge_source")); err != nil {
			c.ws.log.WarnContext(ctx, "merge: the source cannot be attached", "server", from.Name, "error", err)
			return wayRows, none, nil
		}
		return wayAttach, func() error {
			return to.Exec(context.WithoutCancel(ctx), "DETACH DATABASE merge_source")
		}, nil
	case sqldb.MySQL:
		if same, err := to.SameInstance(ctx, from); err != nil || !same {
			return wayRows, none, err
		}
		if err := to.Exec(ctx,
			"SELECT 1 FROM "+sqldb.MySQL.Quote(from.Catalog)+"."+sqldb.MySQL.Quote(j.name)+" LIMIT 0"); err != nil {
			return wayRows, none,
				nil //nolint:nilerr // without the right to read there, rows go through this program
		}
		return wayInsertSelect, none, nil
	case sqldb.PostgreSQL:
		if sqldb.CanCopy(from) && sqldb.CanCopy(to) {
			return wayCopy, none, nil
		}
	}
	return wayRows, none, nil
}

// numbered reports whether whole numbers say where a chunk ends.
func (c *tableCopier) numbered() bool {
	return len(c.src.order) > 0 && !slices.ContainsFunc(c.src.order, func(o sqldb.OrderTerm) bool {
		return !o.Whole(c.server().db.Kind)
	})
}

// named reports whether rows change by nothing but new names, and the target can look these up while it reads
// the source itself. It finds a row by its key, which has to be a whole number.
func (c *tableCopier) named(ctx context.Context) (bool, error) {
	from, p := c.server().db, c.src.job.plan
	if from.Kind == sqldb.PostgreSQL || !c.applier.onlyRenames(c.src) || c.applier.moved(c.src) ||
		len(p.Set)+len(p.Rename.Derived) > 0 || !c.src.job.counted() || len(c.src.key) != 1 {
		return false, nil
	}
	key := c.src.pairs[c.src.key[0]].from
	if key.Family != sqldb.FamilyInt {
		return false, nil
	}
	able, err := c.whole(ctx, key.Name)
	c.names = able
	return able, err
}

// whole reports whether a column has whole numbers, or nothing. SQLite may have anything in a column of
// numbers.
func (c *tableCopier) whole(ctx context.Context, column string) (bool, error) {
	from := c.server().db
	if from.Kind != sqldb.SQLite {
		return true, nil
	}
	n, err := from.Number(ctx, sqldb.NewStatement(sqldb.SQLite, "SELECT COUNT(*) FROM (SELECT 1 FROM ",
		sqldb.SQLite.Quote(c.src.from.Name), " WHERE TYPEOF(", sqldb.SQLite.Quote(column),
		") NOT IN ('integer', 'null') LIMIT 1)"))
	return n == 0, err
}

// shifted reports whether rows change by nothing but what is added to keys, so that the databases can add it.
func (c *tableCopier) shifted(ctx context.Context) (bool, error) {
	a, number := c.applier, c.server().Number
	if a.decides(c.src) || a.drops[tableServer{c.src.job.name,
		number}] > 0 || c.src.job.plan.Orphans == "null" || len(c.src.job.plan.Set)+len(c.late) > 0 {
		return false, nil
	}
	var shifts []shift
	for _, l := range c.src.links {
		of := tableServer{l.of, number}
		s := shift{at: l.at, when: l.link.when, offset: a.offsets.added[of], least: 1}
		if s.offset == 0 {
			continue
		}
		if a.offsets.zeros[of] {
			s.least = 0
		}
		other := slices.ContainsFunc(shifts, func(other shift) bool { return other.at == s.at })
		column := c.src.pairs[l.at].from
		if other || l.inside() || column.Family != sqldb.FamilyInt ||
			strings.Contains(strings.ToLower(s.when), "select") {
			return false, nil
		}
		if whole, err := c.whole(ctx, column.Name); err != nil || !whole {
			return false, err
		}
		shifts = append(shifts, s)
	}
	c.shifts = shifts
	return true, nil
}

// elsewhere reports whether a condition in the plan may contain a subquery.
func (c *tableCopier) elsewhere() bool {
	return slices.ContainsFunc(c.ws.order, func(j *tableJob) bool {
		return strings.Contains(strings.ToLower(j.plan.Where), "select")
	})
}

// escapePath escapes a path for a URI of SQLite.
func escapePath(path string) string { return (&url.URL{Path: path}).EscapedPath() }
