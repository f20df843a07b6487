package merge

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// resolver finds the conflicts of one table and decides them by its policy.
type resolver struct {
	m      *Merge
	work   *work
	stage  *stage
	report *CheckReport
	table  *TableReport
	keys   []uniqueKey

	drops, values, renames *writer
	noted                  map[RowRef]int // where in the report's conflicts a row is

	nameless map[int64]bool // rows of the stage that cannot be renamed
	unnamed  Problem        // what is said of them
}

// resolve decides all conflicts of a table. Only keys that may hold some are looked at.
func (m *Merge) resolve(ctx context.Context, w *work, keys []uniqueKey, report *CheckReport,
	tick func(int)) error {
	s, err := m.newStage(ctx, w, keys, tick)
	if err != nil {
		return err
	}
	text := func(names ...string) []*column {
		var columns []*column
		for _, name := range names {
			c := &column{name: name, family: familyText, declared: "text"}
			if strings.HasSuffix(name, "server") {
				c = &column{name: name, family: familyInt, declared: "bigint"}
			}
			columns = append(columns, c)
		}
		return columns
	}
	r := &resolver{
		m: m, work: w, stage: s, report: report, table: report.table(w.name, w.plan.Policy), keys: keys,
		noted: map[RowRef]int{}, nameless: map[int64]bool{},
		drops: newWriter(m.target, "tmp_"+tableDrops,
			text("tbl", "server", "row_key", "keeper_server", "keeper_key", "reason"), false),
		values: newWriter(m.target, "tmp_"+tableValues, text("tbl", "server", "row_key", "col", "value"),
			false),
		renames: newWriter(m.target, "tmp_"+tableRenames, text("tbl", "server", "row_key", "col", "old_name",
			"new_name"), false),
	}
	switch p := w.plan; {
	case p.Policy == Rename:
		err = r.rename(ctx)
	case p.Policy.collapses():
		err = r.collapse(ctx)
	}
	if err != nil {
		return err
	}
	// What is left now nobody has decided.
	for _, key := range keys {
		if err := r.undecided(ctx, key); err != nil {
			return err
		}
	}
	for _, w := range []*writer{r.drops, r.values, r.renames} {
		if err := w.close(); err != nil {
			return m.target.failed(err)
		}
	}
	return s.drop(ctx)
}

// note puts a conflict into the report.
func (r *resolver) note(key uniqueKey, keeper, other grouped, resolution, name string) {
	r.table.Conflicts++
	if len(r.noted) >= r.m.limit {
		return
	}
	r.noted[r.ref(other)] = len(r.report.Conflicts)
	r.report.Conflicts = append(r.report.Conflicts, Conflict{
		Table: r.work.name, Key: key.name, Value: r.valueOf(key, other), Resolution: resolution, NewName: name,
		Keeper: r.ref(keeper), Other: r.ref(other),
	})
}

func (r *resolver) ref(g grouped) RowRef {
	return RowRef{Server: r.m.servers[g.server].Name, Key: g.key}
}

// valueOf shows what a row has in the columns of a key.
func (r *resolver) valueOf(key uniqueKey, g grouped) string {
	var parts []string
	for _, name := range key.columns() {
		if at := r.stage.at(name); at >= 0 {
			v := g.values[at]
			if g.old != nil && r.work.plan.Rename != nil && r.work.plan.Rename.Column == name {
				v = g.old
			}
			parts = append(parts, shortened(textOf(v)))
		}
	}
	return strings.Join(parts, ", ")
}

// undecided reports the groups of a key.
func (r *resolver) undecided(ctx context.Context, key uniqueKey) error {
	n, err := r.stage.group(ctx, key, nil)
	if err != nil || n == 0 {
		return err
	}
	var keeper grouped
	count := int64(0)
	err = r.stage.groups(ctx, func(page []grouped) error {
		for _, g := range page {
			if g.rank == 1 {
				keeper = g
				continue
			}
			count++
			r.note(key, keeper, g, "undecided", "")
		}
		return nil
	})
	p := Problem{Code: CodeUniqueKey, Table: r.work.name, Column: strings.Join(key.columns(), ", "),
		Count:   count,
		Message: "equal to another row in " + key.name + ", as the target sees it",
		Remedy:  "choose rename, sum, keep_target or newest for the table, or change the rows on their server"}
	named := r.work.plan.Rename != nil && key.about(r.work.plan.Rename.Column)
	switch {
	case named && len(r.nameless) > 0:
		return err // it was said why
	case key.name == primaryName && r.work.counted():
		p.Code = CodePrimaryKey
		p.Remedy = "keys that were counted get others by renumber: true; or choose sum, keep_target or newest, " +
			"by which equal rows become one"
	case key.name == primaryName:
		p.Code = CodePrimaryKey
		p.Remedy = "choose sum, keep_target or newest, by which equal rows become one, or change them on " +
			"their server"
	case r.work.plan.Policy == Rename:
		p.Remedy = "rename changes another column: choose sum, keep_target or newest, or change the rows on " +
			"their server"
	}
	r.report.problem(p)
	return err
}

// collapseKeys are the keys by which rows become one.
func (r *resolver) collapseKeys() []uniqueKey {
	if len(r.work.plan.Key) == 0 {
		return r.work.to.keys()
	}
	for _, k := range r.work.to.keys() {
		if k.simple() && sameNames(k.columns(), r.work.plan.Key) {
			return []uniqueKey{k} // with the collations of the index
		}
	}
	key := uniqueKey{name: "the key of the plan"}
	for _, name := range r.work.plan.Key {
		key.parts = append(key.parts, keyPart{column: name})
	}
	return []uniqueKey{key}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// collapse makes one of rows with an equal key.
func (r *resolver) collapse(ctx context.Context) error {
	keys := r.collapseKeys()
	if r.work.plan.Policy == Add && len(keys) != 1 {
		r.report.problem(Problem{Code: CodePlan, Table: r.work.name,
			Message: fmt.Sprintf("the table has %d unique keys", len(keys)),
			Remedy:  "say with key: which columns make rows equal"})
		return nil
	}
	var preference []string
	if by := r.work.plan.By; by != "" {
		q := r.m.target.kind.quote(by)
		preference = []string{"CASE WHEN " + q + " IS NULL THEN 1 ELSE 0 END", q + " DESC"}
	}
	for _, key := range keys {
		if _, err := r.stage.group(ctx, key, preference); err != nil {
			return err
		}
		c := &collapsing{resolver: r, key: key}
		if err := r.stage.groups(ctx, func(page []grouped) error { return c.page(ctx, page) }); err != nil {
			return err
		}
		if err := c.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// collapsing goes through the groups of one key.
type collapsing struct {
	*resolver
	key    uniqueKey
	keeper grouped
	totals []*big.Rat // of the columns in Sum, while a group goes on
	others int        // rows of the group besides the keeper
	gone   []grouped
	out    [][]any // totals of finished groups
}

func (c *collapsing) page(ctx context.Context, page []grouped) error {
	var drops [][]any
	resolution := "dropped"
	if c.work.plan.Policy == Add {
		resolution = "added"
	}
	for _, g := range page {
		if g.rank == 1 {
			if err := c.endGroup(); err != nil {
				return err
			}
			c.keeper, c.totals, c.others = g, make([]*big.Rat, len(c.work.plan.Sum)), 0
			c.add(g)
			continue
		}
		c.others++
		c.add(g)
		c.note(c.key, c.keeper, g, resolution, "")
		c.table.Dropped++
		number := c.m.servers[g.server].Number
		drops = append(drops, []any{c.work.name, number, g.key, c.m.servers[c.keeper.server].Number,
			c.keeper.key, "equal in " + c.key.name})
		c.gone = append(c.gone, g)
	}
	if err := c.drops.write(ctx, drops); err != nil {
		return err
	}
	return c.chain(ctx)
}

// chain leads rows that became one with a row that has now become one with another to that one.
func (c *collapsing) chain(ctx context.Context) error {
	if len(c.gone) == 0 {
		return nil
	}
	gone := c.gone
	c.gone = nil
	if len(c.collapseKeys()) > 1 {
		name, t := c.m.d.name(tableDrops), c.m.target
		for _, g := range gone {
			var server int64
			var key string
			of := newStatement(t.kind, "SELECT keeper_server, keeper_key FROM ", name, " WHERE tbl = ").
				bind(c.work.name).
				add(" AND server = ").bind(c.m.servers[g.server].Number).add(" AND row_key = ").bind(g.key)
			if err := t.row(ctx, of, &server, &key); err != nil {
				return err
			}
			q := newStatement(t.kind, "UPDATE ", name, " SET keeper_server = ").bind(server).
				add(", keeper_key = ").bind(key).
				add(" WHERE tbl = ").bind(c.work.name).add(" AND keeper_server = ").
				bind(c.m.servers[g.server].Number).
				add(" AND keeper_key = ").bind(g.key)
			if _, err := t.run(ctx, q); err != nil {
				return err
			}
		}
	}
	return c.stage.remove(ctx, gone)
}

// add adds a row to the totals of its group.
func (c *collapsing) add(g grouped) {
	for i, name := range c.work.plan.Sum {
		v := g.values[c.stage.at(name)]
		if v == nil {
			continue
		}
		n, ok := new(big.Rat).SetString(textOf(v))
		if !ok {
			continue // Check has refused columns that hold no numbers
		}
		if c.totals[i] == nil {
			c.totals[i] = new(big.Rat)
		}
		c.totals[i].Add(c.totals[i], n)
	}
	for i, list := range [][]string{c.work.plan.Min, c.work.plan.Max} {
		for _, name := range list {
			at := c.stage.at(name)
			if before(g.values[at], c.keeper.values[at]) == (i == 0) && g.values[at] != nil ||
				c.keeper.values[at] == nil {
				c.keeper.values[at] = g.values[at]
			}
		}
	}
}

// before tells which of two values is less: numbers as numbers, anything else as text.
func before(a, b any) bool {
	if x, ok := new(big.Rat).SetString(textOf(a)); ok {
		if y, ok := new(big.Rat).SetString(textOf(b)); ok {
			return x.Cmp(y) < 0
		}
	}
	return textOf(a) < textOf(b)
}

// endGroup writes down what the keeper of a group gets.
func (c *collapsing) endGroup() error {
	if c.others == 0 {
		return nil
	}
	number := c.m.servers[c.keeper.server].Number
	for i, name := range c.work.plan.Sum {
		if c.totals[i] == nil {
			continue
		}
		col := c.work.to.column(name)
		text, ok := totalText(c.totals[i], col)
		if !ok {
			c.report.problem(Problem{Code: CodeTotal, Table: c.work.name, Column: name,
				Message: fmt.Sprintf("the total %s of row %s does not fit into %s", text, c.keeper.key,
					col.declared)})
		}
		c.out = append(c.out, []any{c.work.name, number, c.keeper.key, name, text})
	}
	for _, name := range slices.Concat(c.work.plan.Min, c.work.plan.Max) {
		if v := c.keeper.values[c.stage.at(name)]; v != nil {
			c.out = append(c.out, []any{c.work.name, number, c.keeper.key, name, textOf(v)})
		}
	}
	return nil
}

// totalText writes a total, and tells whether the column can hold it.
func totalText(n *big.Rat, c *column) (string, bool) {
	if !n.IsInt() {
		text := n.FloatString(20)
		return strings.TrimRight(text, "0"), c.family == familyDecimal || c.family == familyFloat
	}
	text := n.Num().String()
	bits := c.bits()
	limit := new(big.Int).Lsh(big.NewInt(1), uint(max(bits, 1)-1)) //nolint:gosec // 64 at most
	return text, bits == 0 || new(big.Int).Abs(n.Num()).Cmp(limit) < 0
}

func (c *collapsing) finish(ctx context.Context) error {
	if err := c.endGroup(); err != nil {
		return err
	}
	return c.values.write(ctx, c.out)
}

// bits is the width of an integer column, or 0.
func (c *column) bits() int {
	if c.family != familyInt {
		return 0
	}
	for _, width := range []struct {
		word string
		bits int
	}{
		{"tinyint", 8}, {"smallint", 16}, {"mediumint", 24}, {"int2", 16}, {"int4", 32}, {"bigint", 64}, {"bit",
			64},
		{"int8", 64},
	} {
		if strings.HasPrefix(c.declared, width.word) {
			return width.bits
		}
	}
	if c.declared == "integer" || strings.HasPrefix(c.declared, "int") {
		return 32
	}
	return 64
}
