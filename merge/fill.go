package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// filler is the second pass over tables whose references form a circle: it sets the references that were
// written as NULL, now that all rows exist.
type filler struct {
	ws      *workspace
	journal *journal
	applier *applier
	entries map[tableServer]*entry
}

func (f *filler) all(ctx context.Context) error {
	p := f.ws.newProgress("fill", 0)
	for _, j := range f.ws.order {
		late := f.ws.late(j)
		if len(late) == 0 {
			continue
		}
		for _, src := range j.sources {
			if src == nil {
				continue
			}
			e := f.entries[tableServer{j.name, f.ws.servers[src.server].Number}]
			if e == nil || e.done {
				continue
			}
			if err := f.fill(ctx, src, late, e, p); err != nil {
				return fmt.Errorf("%s: table %s: references: %w", f.ws.servers[src.server].Name, j.name, err)
			}
		}
	}
	p.end()
	return f.journal.setState(ctx, stateFilled)
}

func (f *filler) fill(ctx context.Context, src *sourceTable, late []string, e *entry, p *progress) error {
	late = slices.DeleteFunc(slices.Clone(late), func(name string) bool { return !src.has(name) })
	names := append(slices.Clone(src.job.to.Primary), late...)
	for _, ref := range src.job.refs {
		names = append(names, ref.Columns...) // a reference of several columns is followed as a whole
	}
	part := src.part(names)
	var conditions []string
	kind := f.ws.servers[src.server].db.Kind
	for _, name := range late {
		conditions = append(conditions, "s."+kind.Quote(name)+" IS NOT NULL")
	}
	if len(late) == 0 {
		conditions = []string{"1 = 0"}
	}
	in := &reader{ws: f.ws, src: part, size: f.ws.chunkRows, skip: e.read,
		where: "(" + strings.Join(conditions, " OR ") + ")"}
	return in.all(ctx, func(read chunk) error {
		rows, err := f.applier.apply(ctx, part, read.rows)
		if err != nil {
			return err
		}
		next := *e
		next.read, next.written, next.done = e.read+read.read, e.written+int64(len(rows)), read.ended
		err = f.ws.target.Transaction(ctx, func() error {
			if err := f.update(ctx, part, late, rows); err != nil {
				return err
			}
			f.ws.failpoint("written")
			return f.journal.recorded(ctx, &next)
		})
		if err != nil {
			return err
		}
		*e = next
		f.ws.failpoint("committed")
		p.add(src.job.name, f.ws.servers[src.server].Name, int(read.read))
		return nil
	})
}

// update sets columns of the rows that the primary keys name. Only PostgreSQL needs it, so it is
// PostgreSQL's SQL.
func (f *filler) update(ctx context.Context, src *sourceTable, late []string, rows []row) error {
	t := f.ws.target
	primary := src.job.to.Primary
	names := append(slices.Clone(primary), late...)
	positions := src.positions(names)
	var set, join []string
	for i, name := range names {
		v := "v.c" + fmt.Sprint(i)
		if i < len(primary) {
			join = append(join, "t."+t.Kind.Quote(name)+" = "+v)
		} else {
			set = append(set, t.Kind.Quote(name)+" = "+v)
		}
	}
	aliases := make([]string, len(names))
	for i := range aliases {
		aliases[i] = "c" + fmt.Sprint(i)
	}
	for batch := range slices.Chunk(rows, 1000) {
		q := sqldb.NewStatement(t.Kind, "UPDATE ", t.Kind.Quote(src.job.name), " AS t SET ", strings.Join(set,
			", "),
			" FROM (VALUES ")
		for i, row := range batch {
			if i > 0 {
				q.Add(", ")
			}
			q.Add("(")
			for j, at := range positions {
				if j > 0 {
					q.Add(", ")
				}
				q.Add("CAST(").Bind(sqldb.Adapt(t.Kind, row.values[at], src.pairs[at].to, false)).
					Add(" AS ", src.pairs[at].to.Declared, ")")
			}
			q.Add(")")
		}
		q.Add(") AS v (", strings.Join(aliases, ", "), ") WHERE ", strings.Join(join, " AND "))
		if _, err := t.Run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}
