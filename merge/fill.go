package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// fill sets the references of circles, now that all rows are there.
func (r *running) fill(ctx context.Context) error {
	p := r.m.newProgress("fill", 0)
	for _, w := range r.m.order {
		late := r.m.late(w)
		if len(late) == 0 {
			continue
		}
		for _, f := range w.feeds {
			if f == nil {
				continue
			}
			e := r.entries[stepFill][tableServer{w.name, r.m.servers[f.server].Number}]
			if e == nil || e.done {
				continue
			}
			if err := r.fillFeed(ctx, f, late, e, p); err != nil {
				return fmt.Errorf("%s: table %s: references: %w", r.m.servers[f.server].Name, w.name, err)
			}
		}
	}
	p.end()
	return r.m.setState(ctx, stateFilled)
}

func (r *running) fillFeed(ctx context.Context, f *feed, late []string, e *entry, p *progress) error {
	late = slices.DeleteFunc(slices.Clone(late), func(name string) bool { return !f.has(name) })
	part := f
	if f.work.plan.Policy != Custom { // a function has to see the whole row
		part = f.part(append(slices.Clone(f.work.to.primary), late...))
	}
	var conditions []string
	kind := r.m.servers[f.server].kind
	for _, name := range late {
		conditions = append(conditions, "s."+kind.quote(name)+" IS NOT NULL")
	}
	if len(late) == 0 {
		conditions = []string{"1 = 0"}
	}
	in := &reader{m: r.m, feed: part, size: r.m.chunk, after: e.after, where: "(" + strings.Join(conditions,
		" OR ") + ")"}
	for {
		rows, err := in.next(ctx)
		if err != nil {
			return err
		}
		read := len(rows)
		if rows, err = r.m.d.apply(ctx, part, rows); err != nil {
			return err
		}
		next := *e
		next.after, next.read, next.written, next.done = in.after, e.read+int64(read),
			e.written+int64(len(rows)), in.ended
		err = r.m.target.transaction(ctx, func() error {
			if err := r.update(ctx, part, late, rows); err != nil {
				return err
			}
			r.m.reach("written")
			return r.m.recorded(ctx, &next)
		})
		if err != nil {
			return err
		}
		*e = next
		r.m.reach("committed")
		p.add(f.work.name, r.m.servers[f.server].Name, read)
		if e.done {
			return nil
		}
	}
}

// part is a feed with some of the columns.
func (f *feed) part(names []string) *feed {
	part := &feed{work: f.work, server: f.server, from: f.from, raw: f.raw}
	key := make([]string, len(f.key))
	for i, at := range f.key {
		key[i] = f.pairs[at].to.name
	}
	for _, p := range f.pairs {
		if slices.Contains(names, p.to.name) || slices.Contains(key, p.to.name) {
			part.pairs = append(part.pairs, p)
		}
	}
	for _, name := range key {
		part.key = append(part.key, part.at(name))
	}
	return part
}

// update sets columns of rows that the primary key names. Only PostgreSQL needs it, so it is in its words.
func (r *running) update(ctx context.Context, f *feed, late []string, rows []row) error {
	t := r.m.target
	primary := f.work.to.primary
	names := append(slices.Clone(primary), late...)
	positions := f.positions(names)
	var set, join []string
	for i, name := range names {
		v := "v.c" + fmt.Sprint(i)
		if i < len(primary) {
			join = append(join, "t."+t.kind.quote(name)+" = "+v)
		} else {
			set = append(set, t.kind.quote(name)+" = "+v)
		}
	}
	aliases := make([]string, len(names))
	for i := range aliases {
		aliases[i] = "c" + fmt.Sprint(i)
	}
	for batch := range slices.Chunk(rows, 1000) {
		q := newStatement(t.kind, "UPDATE ", t.kind.quote(f.work.name), " AS t SET ", strings.Join(set, ", "),
			" FROM (VALUES ")
		for i, row := range batch {
			if i > 0 {
				q.add(", ")
			}
			q.add("(")
			for j, at := range positions {
				if j > 0 {
					q.add(", ")
				}
				q.add("CAST(").bind(t.kind.adapt(row.values[at], f.pairs[at].to, false)).
					add(" AS ", f.pairs[at].to.declared, ")")
			}
			q.add(")")
		}
		q.add(") AS v (", strings.Join(aliases, ", "), ") WHERE ", strings.Join(join, " AND "))
		if _, err := t.run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}
