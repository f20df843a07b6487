package merge

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// each calls fn for every feed, parents first.
func (c *checking) each(fn func(w *work, f *feed, s *server) error) error {
	for _, w := range c.m.order {
		for _, f := range w.feeds {
			if f == nil {
				continue
			}
			s := c.m.servers[f.server]
			if err := fn(w, f, s); err != nil {
				return fmt.Errorf("%s: table %s: %w", s.Name, w.name, err)
			}
		}
	}
	return nil
}

// counts counts the rows that are copied and those that stay behind.
func (c *checking) counts(ctx context.Context) error {
	c.prints = map[tableServer]string{}
	return c.each(func(w *work, f *feed, s *server) error {
		kept, err := c.m.keptRows(ctx, f)
		if err != nil {
			return err
		}
		all, err := s.number(ctx, newStatement(s.kind, "SELECT COUNT(*) FROM ", s.kind.quote(f.from.name)))
		if err != nil {
			return err
		}
		t := c.report.table(w.name, w.plan.Policy)
		t.Rows[s.Name] = kept
		if all > kept {
			t.Left[s.Name] = all - kept
		}
		c.total += kept
		c.prints[tableServer{w.name, s.Number}], err = c.m.fingerprint(ctx, f)
		return err
	})
}

// keptRows counts the rows of a feed that are copied.
func (m *Merge) keptRows(ctx context.Context, f *feed) (int64, error) {
	s := m.selection(f.server)
	q := newStatement(s.kind, "SELECT COUNT(*)")
	s.from(q, f)
	return m.servers[f.server].number(ctx, q)
}

// fingerprint is what must not change while servers are merged: how many rows there are, and the last key.
func (m *Merge) fingerprint(ctx context.Context, f *feed) (string, error) {
	s := m.servers[f.server]
	last := "''"
	if len(f.key) > 0 {
		last = "MAX(" + s.kind.readExpression(f.pairs[f.key[0]].from) + ")"
		if p := f.pairs[f.key[0]].from; p.family == familyBytes && s.kind == PostgreSQL {
			last = "''" // there is no greatest bytea
		}
	}
	var n int64
	var key any
	err := s.row(ctx, newStatement(s.kind, "SELECT COUNT(*), ", last, " FROM ", s.kind.quote(f.from.name),
		" AS s"),
		&n, &key)
	text := textOf(key)
	if len(f.key) > 0 && f.pairs[f.key[0]].from.family == familyBytes {
		text = fmt.Sprintf("%x", text)
	}
	if len(text) > 300 {
		text = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	}
	return fmt.Sprintf("%d rows, last key %s", n, text), err
}

// quiet looks a second time, after everything else: whoever still writes to a source will be noticed.
func (c *checking) quiet(ctx context.Context) error {
	return c.each(func(w *work, f *feed, s *server) error {
		now, err := c.m.fingerprint(ctx, f)
		if before := c.prints[tableServer{w.name, s.Number}]; err == nil && now != before {
			c.report.problem(Problem{Code: CodeNotQuiet, Server: s.Name, Table: w.name,
				Message: fmt.Sprintf("it had %s and now has %s", before, now), Remedy: "stop the game server first"})
		}
		return err
	})
}

// values looks for values that the target would refuse or cut.
func (c *checking) values(ctx context.Context) error {
	return c.each(func(w *work, f *feed, s *server) error {
		for _, p := range f.pairs {
			if err := c.value(ctx, w, f, s, p); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *checking) value(ctx context.Context, w *work, f *feed, s *server, p pair) error {
	name := "s." + s.kind.quote(p.from.name)
	report := c.report.problem
	if w.plan.BadRows == "quarantine" {
		report = c.report.warn
	}
	count := func(code Code, condition, message, remedy string) error {
		q := newStatement(s.kind, "SELECT COUNT(*)")
		sel := c.m.selection(f.server)
		sel.from(q, f, condition)
		n, err := s.number(ctx, q)
		if err == nil && n > 0 {
			report(Problem{Code: code, Server: s.Name, Table: w.name, Column: p.to.name, Count: n,
				Message: message, Remedy: remedy})
		}
		return err
	}
	if to := p.to.maxChars; to > 0 && (p.from.maxChars == 0 || p.from.maxChars > to || s.kind == SQLite) &&
		p.from.family == familyText {
		length := "CHAR_LENGTH"
		if s.kind == SQLite {
			length = "LENGTH"
		}
		if err := count(CodeTooLong, length+"("+name+") > "+strconv.Itoa(to),
			fmt.Sprintf("longer than the %d characters of the target", to),
			"widen the column in the target"); err != nil {
			return err
		}
	}
	if p.from.nullable && !p.to.nullable && !slices.Contains(f.from.primary, p.from.name) {
		if err := count(CodeNull, name+" IS NULL", "NULL, which the target does not take",
			"give it a value on its server, or make the column nullable in the target"); err != nil {
			return err
		}
	}
	if from, to := p.from.bits(), p.to.bits(); to > 0 && to < 64 && from > 0 &&
		(from > to || s.kind == SQLite) && c.m.target.kind != SQLite {
		limit := int64(1) << (to - 1)
		if strings.Contains(p.to.declared, "unsigned") {
			limit <<= 1
		}
		if err := count(CodeTooLong, fmt.Sprintf("(%s >= %d OR %s < -%d)", name, limit, name, limit),
			"too large a number for "+p.to.declared, "widen the column in the target"); err != nil {
			return err
		}
	}
	if slices.Contains(w.plan.Convert, p.to.name) {
		return c.converts(ctx, w, f, s, p)
	}
	return nil
}

// converts tries to convert every value of a column.
func (c *checking) converts(ctx context.Context, w *work, f *feed, s *server, p pair) error {
	q := newStatement(s.kind, "SELECT ", s.kind.readExpression(p.from))
	sel := c.m.selection(f.server)
	sel.from(q, f)
	bad, first := int64(0), error(nil)
	err := s.each(ctx, q, func(values []any) error {
		if _, err := f.value(values[0], p); err != nil {
			if bad++; first == nil {
				first = err
			}
		}
		return nil
	})
	if bad > 0 {
		c.unreadable = true
		c.report.problem(Problem{Code: CodeColumnType, Server: s.Name, Table: w.name, Column: p.to.name,
			Count: bad,
			Message: fmt.Sprintf("the value cannot be converted from %s to %s: %v", p.from.declared, p.to.declared,
				first),
			Remedy: "correct it on its server, or change the column of the target"})
	}
	return err
}

// originKey is a column of a feed.
type originKey struct {
	table, column string
	server        int
}

// origin says by which servers the IDs in a column were made.
type origin struct {
	own, plain int64 // plain numbers were counted: they have no time
	others     map[int64]int64
}

func (o origin) clean() bool { return o.plain == 0 && len(o.others) == 0 }

// ids decodes the server numbers in the primary keys. Keys of disjoint servers cannot collide, so that most
// tables need no further comparison.
func (c *checking) ids(ctx context.Context) error {
	return c.each(func(w *work, f *feed, s *server) error {
		if len(f.key) != 1 || f.pairs[f.key[0]].to.family != familyInt {
			return nil
		}
		column := f.pairs[f.key[0]].to.name
		o, err := c.origin(ctx, f, column)
		if err != nil {
			return err
		}
		if o.plain > 0 && !w.plan.Renumber {
			c.report.warn(Problem{Code: CodePlainKeys, Server: s.Name, Table: w.name, Column: column,
				Count: o.plain,
				Message: "the key was counted, not made by a generator of the layout, so it is compared with the " +
					"others"})
		}
		for number, n := range o.others {
			p := Problem{Code: CodeServerNumber, Server: s.Name, Table: w.name, Column: column, Count: n,
				Message: fmt.Sprintf("the ID was made with the server number %d", number),
				Remedy: "if number: of the server or layout: is wrong in the plan, correct it; if that server was " +
					"merged into this one, list its number under also:; if rows came from elsewhere, or two servers " +
					"had one number, set foreign_ids: true on the table, and the keys are compared one by one"}
			if w.plan.ForeignIDs {
				p.Remedy = "compared with the others, as foreign_ids says"
				c.report.warn(p)
			} else {
				c.report.problem(p)
			}
		}
		return nil
	})
}

// origin decodes the IDs in a column.
func (c *checking) origin(ctx context.Context, f *feed, column string) (origin, error) {
	key := originKey{f.work.name, column, f.server}
	if o, ok := c.origins[key]; ok {
		return o, nil
	}
	s := c.m.servers[f.server]
	name := "s." + s.kind.quote(column)
	q := newStatement(s.kind, fmt.Sprintf("SELECT CASE WHEN %s < %d THEN -1 ELSE %s END AS made_by, COUNT(*)",
		name, c.m.plain, c.m.layout.sql(name)))
	sel := c.m.selection(f.server)
	sel.from(q, f, name+" IS NOT NULL")
	o := origin{others: map[int64]int64{}}
	err := s.each(ctx, q.add(" GROUP BY 1"), func(values []any) error {
		number, err := strconv.ParseInt(textOf(values[0]), 10, 64)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(textOf(values[1]), 10, 64)
		switch {
		case number < 0:
			o.plain += n
		case slices.Contains(s.numbers, number):
			o.own += n
		default:
			o.others[number] += n
		}
		return err
	})
	c.origins[key] = o
	return o, err
}

// disjoint tells whether rows of different servers cannot be equal in a key, nor rows of one server: one
// column holds IDs of that server and no others, and the server has the same key without any text in it,
// of which two databases could think differently.
func (c *checking) disjoint(ctx context.Context, w *work, k uniqueKey) (bool, error) {
	if !k.simple() || w.plan.Policy == Custom {
		return false, nil
	}
	for _, name := range k.columns() {
		for _, ref := range w.refs {
			if slices.Contains(ref.columns, name) && c.report.table(ref.parent,
				c.m.policy(ref.parent)).Dropped > 0 {
				return false, nil // two references may be led to one row
			}
		}
	}
	if w.plan.Renumber && len(k.parts) == 1 && k.columns()[0] == w.to.primary[0] {
		return true, nil
	}
	proven := false
	for _, name := range k.columns() {
		all := w.to.column(name).family == familyInt
		for _, f := range w.feeds {
			if f == nil || !all {
				continue
			}
			if from := f.from.column(name); from == nil || from.family != familyInt {
				all = false
				continue
			}
			o, err := c.origin(ctx, f, name)
			if err != nil {
				return false, err
			}
			all = o.clean()
		}
		proven = proven || all
	}
	if !proven {
		return false, nil
	}
	for _, f := range w.feeds {
		if f != nil && !c.sameKey(f, k) {
			return false, nil
		}
	}
	return true, nil
}

// sameKey tells whether a source has a key itself, and means the same by it.
func (c *checking) sameKey(f *feed, k uniqueKey) bool {
	for _, name := range k.columns() {
		from, to := f.from.column(name), f.work.to.column(name)
		if from == nil {
			return false
		}
		text := to.family != familyInt && to.family != familyBool && to.family != familyUUID
		if text && (c.m.servers[f.server].kind != c.m.target.kind || from.collation != to.collation ||
			from.declared != to.declared) {
			return false
		}
	}
	// Only the indexes of SQLite have collations of their own.
	both := c.m.servers[f.server].kind == SQLite && c.m.target.kind == SQLite
	return slices.ContainsFunc(f.from.keys(), func(own uniqueKey) bool {
		if !own.simple() || !sameNames(own.columns(), k.columns()) {
			return false
		}
		return !slices.ContainsFunc(own.parts, func(p keyPart) bool {
			return !slices.ContainsFunc(k.parts, func(q keyPart) bool {
				return p.column == q.column && (p.collation == q.collation || !both)
			})
		})
	})
}

// estimate measures how long the reading of a sample takes; writing takes about three times as long.
func (c *checking) estimate(ctx context.Context) error {
	if c.unreadable {
		return nil
	}
	var largest *feed
	most := int64(0)
	err := c.each(func(w *work, f *feed, s *server) error {
		if n := c.report.table(w.name, w.plan.Policy).Rows[s.Name]; n > most {
			most, largest = n, f
		}
		return nil
	})
	if err != nil || largest == nil {
		return err
	}
	began := time.Now()
	rows, err := (&reader{m: c.m, feed: largest, size: 10_000}).next(ctx)
	if err == nil && len(rows) > 0 {
		c.report.Estimate = time.Since(began) * 4 / time.Duration(len(rows)) * time.Duration(c.total)
	}
	return err
}
