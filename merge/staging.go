package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// stage is a temporary table of the target with the keys of one table of all servers. Its columns have the
// types and collations of the target, so that what the target would call equal is found by asking it.
type stage struct {
	m       *Merge
	work    *work
	columns []*column // of the table; those of the stage come before them
	rows    int64
	// The temporary tables. Each stage has names of its own: drivers prepare statements and would remember
	// those of another table.
	name, found string
}

// The first columns of a stage: a running number, the position of the server, the key of the row, its old
// name, and how often a new one was tried.
const stageFixed = 5

func fixedColumns() []*column {
	return []*column{
		{name: "merge_n", family: familyInt, declared: "bigint"},
		{name: "merge_server", family: familyInt, declared: "bigint"},
		{name: "merge_key", family: familyText, declared: "text"},
		{name: "merge_old", family: familyText, declared: "text"},
		{name: "merge_tries", family: familyInt, declared: "bigint"},
	}
}

// newStage makes the temporary table and fills it with what would be written.
func (m *Merge) newStage(ctx context.Context, w *work, keys []uniqueKey, tick func(n int)) (*stage, error) {
	m.stages++
	s := &stage{m: m, work: w, columns: stagedColumns(w, keys),
		name: fmt.Sprintf("merge_stage_%d", m.stages), found: fmt.Sprintf("merge_groups_%d", m.stages)}
	if err := s.create(ctx); err != nil {
		return nil, fmt.Errorf("table %s: the keys cannot be compared: %w", w.name, err)
	}
	out := newWriter(m.target, s.name, append(fixedColumns(), s.columns...), false)
	for i, f := range w.feeds {
		if f == nil {
			continue
		}
		out.raw = f.raw
		if err := s.load(ctx, i, f, out, tick); err != nil {
			return nil, err
		}
	}
	return s, out.close()
}

// stagedColumns are those that matter for the conflicts.
func stagedColumns(w *work, keys []uniqueKey) []*column {
	names := slices.Clone(w.to.primary)
	p := w.plan
	for _, k := range keys {
		names = append(names, k.columns()...)
		if !k.simple() { // an expression may be about any column
			return w.to.written()
		}
	}
	for _, list := range [][]string{p.Key, p.Sum, p.Min, p.Max, {p.By}} {
		names = append(names, list...)
	}
	if p.Rename != nil {
		names = append(names, p.Rename.Column, p.Rename.By)
	}
	return slices.DeleteFunc(w.to.written(), func(c *column) bool {
		return !slices.Contains(names, c.name)
	})
}

func (s *stage) create(ctx context.Context) error {
	t := s.m.target
	if err := s.drop(ctx); err != nil {
		return err
	}
	fixed := "merge_n BIGINT DEFAULT 0 PRIMARY KEY, merge_server BIGINT, merge_key VARCHAR(512), " +
		"merge_old VARCHAR(2000), merge_tries BIGINT"
	names := t.kind.list(namesOf(s.columns))
	var text []string
	switch t.kind {
	case SQLite:
		columns := make([]string, len(s.columns))
		for i, c := range s.columns {
			columns[i] = ", " + t.kind.quote(c.name) + " " + c.declared
			if c.collation != "" {
				columns[i] += " COLLATE " + c.collation
			}
		}
		text = []string{"CREATE TEMP TABLE " + s.name + " (" + fixed + strings.Join(columns, "") + ")"}
	case MySQL:
		text = []string{"CREATE TEMPORARY TABLE " + s.name + " (" + fixed + ") DEFAULT CHARSET=utf8mb4 " +
			"COLLATE=utf8mb4_bin AS SELECT " + names + " FROM " + t.kind.quote(s.work.name) + " WHERE 1 = 0"}
	case PostgreSQL:
		text = []string{
			"CREATE TEMP TABLE " + s.name + " AS SELECT 0::bigint AS merge_n, 0::bigint AS merge_server, " +
				"''::text AS merge_key, ''::text AS merge_old, 0::bigint AS merge_tries, " + names +
				" FROM " + t.kind.quote(s.work.name) + " WITH NO DATA",
			"ALTER TABLE " + s.name + " ADD PRIMARY KEY (merge_n)",
		}
	}
	text = append(text, "CREATE TEMPORARY TABLE "+s.found+
		" (i BIGINT PRIMARY KEY, n BIGINT, g BIGINT, r BIGINT)")
	for _, statement := range text {
		if err := t.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) drop(ctx context.Context) error {
	t := s.m.target
	for _, name := range []string{s.name, s.found} {
		if err := t.exec(ctx, "DROP "+temporaryWord(t.kind)+"TABLE IF EXISTS "+name); err != nil {
			return err
		}
	}
	return nil
}

// load brings the rows of one server, as they would be written: references to rows that became one with
// another are led there, and the function of the policy custom has seen them.
func (s *stage) load(ctx context.Context, server int, f *feed, out *writer, tick func(n int)) error {
	in := &reader{m: s.m, feed: f, size: s.m.chunk}
	positions := f.positions(namesOf(s.columns))
	for {
		rows, err := in.next(ctx)
		if err != nil || len(rows) == 0 {
			return err
		}
		read := len(rows)
		if err := s.m.d.redirect(ctx, f, rows); err != nil {
			return err
		}
		s.m.renumber(f, rows)
		if rows, err = s.m.d.custom(ctx, f, rows); err != nil {
			return err
		}
		batch := make([][]any, len(rows))
		for i, r := range rows {
			s.rows++
			values := make([]any, 0, stageFixed+len(s.columns))
			values = append(values, s.rows, int64(server), keyText(r.key), nil, int64(0))
			for _, at := range positions {
				if at < 0 {
					values = append(values, nil)
				} else {
					values = append(values, r.values[at])
				}
			}
			batch[i] = values
		}
		if err := out.write(ctx, batch); err != nil {
			return fmt.Errorf("%s: table %s: the keys cannot be compared: %w", s.m.servers[server].Name,
				s.work.name, err)
		}
		tick(read)
	}
}

// group finds the rows that are equal in a key. Within a group they come in the order of preference: the
// first one is to stay as it is.
func (s *stage) group(ctx context.Context, key uniqueKey, preference []string) (int64, error) {
	t := s.m.target
	if err := t.exec(ctx, "DELETE FROM "+s.found); err != nil {
		return 0, err
	}
	by, conditions := key.terms(t.kind)
	q := newStatement(t.kind, "INSERT INTO ", s.found,
		" (i, n, g, r) SELECT ROW_NUMBER() OVER (ORDER BY g, r), "+
			"n, g, r FROM (SELECT merge_n AS n, RANK() OVER (ORDER BY ", by,
		") AS g, ROW_NUMBER() OVER (PARTITION BY ",
		by, " ORDER BY ", strings.Join(append(preference, "merge_n"), ", "),
		") AS r, COUNT(*) OVER (PARTITION BY ",
		by, ") AS c FROM ", s.name, " WHERE ", conditions, ") AS x WHERE c > 1")
	return t.run(ctx, q)
}

// grouped is a row of a group.
type grouped struct {
	n, group, rank int64
	server         int
	key            string
	old            any // the name it had in its source
	tries          int64
	values         []any
}

// groups calls fn for pages of the rows of all groups. A group may go on over the end of a page.
func (s *stage) groups(ctx context.Context, fn func(page []grouped) error) error {
	t := s.m.target
	raw := t.kind == SQLite
	list := make([]string, len(s.columns))
	for i, c := range s.columns {
		list[i] = ", " + t.kind.readExpression(c)
	}
	for last := int64(0); ; {
		q := newStatement(t.kind,
			"SELECT g.i, g.n, g.g, g.r, s.merge_server, s.merge_key, s.merge_old, s.merge_tries",
			strings.Join(list, ""), " FROM ", s.found, " AS g JOIN ", s.name, " AS s ON s.merge_n = g.n ",
			"WHERE g.i > ").bind(last).add(" ORDER BY g.i LIMIT 5000")
		var page []grouped
		err := t.each(ctx, q, func(values []any) error {
			numbers := make([]int64, 8)
			for _, i := range []int{0, 1, 2, 3, 4, 7} {
				n, err := strconv.ParseInt(textOf(values[i]), 10, 64)
				if err != nil {
					return err
				}
				numbers[i] = n
			}
			g := grouped{n: numbers[1], group: numbers[2], rank: numbers[3], server: int(numbers[4]),
				key: textOf(values[5]), tries: numbers[7], values: values[8:]}
			if values[6] != nil {
				g.old = textOf(values[6])
			}
			for i, c := range s.columns {
				var err error
				if g.values[i], err = canonical(g.values[i], c, raw); err != nil {
					return err
				}
			}
			page = append(page, g)
			last = numbers[0]
			return nil
		})
		if err != nil || len(page) == 0 {
			return err
		}
		if err := fn(page); err != nil {
			return err
		}
	}
}

// remove takes rows out of the stage.
func (s *stage) remove(ctx context.Context, rows []grouped) error {
	for batch := range slices.Chunk(rows, 500) {
		q := newStatement(s.m.target.kind, "DELETE FROM ", s.name, " WHERE merge_n IN (")
		for i, r := range batch {
			if i > 0 {
				q.add(", ")
			}
			q.bind(r.n)
		}
		if _, err := s.m.target.run(ctx, q.add(")")); err != nil {
			return err
		}
	}
	return nil
}

// at is the position of a column in the values of a grouped row.
func (s *stage) at(name string) int {
	return slices.IndexFunc(s.columns, func(c *column) bool { return c.name == name })
}
