package merge

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// collapser merges the rows of each group with an equal key into one.
type collapser struct {
	*resolver
	key    sqldb.UniqueKey
	keeper stagedRow
	totals []*big.Rat // of the columns in Sum, for the current group
	others int        // how many rows of the group are merged into the keeper
	rest   []int      // the columns in which rows of a group may differ without a word of the plan
	exact  bool       // all databases are SQLite, which stores values of any type
	out    [][]any    // totals of finished groups
}

// collapse merges rows with an equal key into one.
func (c *collapser) collapse(ctx context.Context) error {
	c.key = c.job.collapseKey()
	c.compared()
	var preference []string
	if by := c.job.plan.By; by != "" {
		q := c.ws.target.Kind.Quote(by)
		preference = []string{"CASE WHEN " + q + " IS NULL THEN 1 ELSE 0 END", q + " DESC"}
	}
	n, err := c.stage.group(ctx, c.key, preference, 1)
	if err != nil || n == 0 {
		return err
	}
	err = c.stage.groups(ctx, func(page []stagedRow) error { return c.page(ctx, page) })
	if err != nil {
		return err
	}
	if err := c.endGroup(); err != nil {
		return err
	}
	return c.values.Write(ctx, c.out)
}

func (c *collapser) page(ctx context.Context, page []stagedRow) error {
	var drops [][]any
	var gone []stagedRow
	resolution := "dropped"
	if c.job.plan.Policy == Sum {
		resolution = "added"
	}
	for _, g := range page {
		if g.rank == 1 {
			if err := c.endGroup(); err != nil {
				return err
			}
			c.keeper, c.totals, c.others = g, make([]*big.Rat, len(c.job.plan.Sum)), 0
			c.add(g)
			continue
		}
		c.others++
		c.add(g)
		c.note(c.key, c.keeper, g, resolution, "")
		c.table.Dropped++
		number := c.ws.servers[g.server].Number
		drops = append(drops, []any{c.job.name, number, sqldb.ShortKey(g.key),
			c.ws.servers[c.keeper.server].Number, c.keeper.key, "equal in " + c.key.Name, c.differs(g)})
		gone = append(gone, g)
	}
	if err := c.drops.Write(ctx, drops); err != nil {
		return err
	}
	return c.stage.remove(ctx, gone)
}

// compared finds the columns in which rows of a group are compared.
func (c *collapser) compared() {
	p := c.job.plan
	said := slices.Concat(c.job.to.Primary, p.Key, p.Sum, p.Min, p.Max, []string{p.By})
	for _, ref := range c.job.refs {
		if ref.Parent == c.job.name { // what it leads to is known when all have become one
			said = append(said, ref.Columns...)
		}
	}
	for i, column := range c.stage.columns {
		if !slices.Contains(said, column.Name) {
			c.rest = append(c.rest, i)
		}
	}
	c.exact = !slices.ContainsFunc(c.ws.databases(), func(d *sqldb.DB) bool { return d.Kind != sqldb.SQLite })
}

// differs is 1 for a row that has another value than the keeper of its group, and 0 for one that has not.
func (c *collapser) differs(g stagedRow) int64 {
	for _, i := range c.rest {
		a, b, column := g.values[i], c.keeper.values[i], c.stage.columns[i]
		same := sqldb.Same(a, b, column, c.exact)
		if c.exact || column.Family == sqldb.FamilyOther {
			same = sameStored(a, b)
		}
		if !same {
			return 1
		}
	}
	return 0
}

// sameStored reports whether two values are of one type and one text.
func sameStored(a, b any) bool {
	return fmt.Sprintf("%T", a) == fmt.Sprintf("%T", b) && sqldb.Text(a) == sqldb.Text(b)
}

// add adds a row to the totals of the current group.
func (c *collapser) add(g stagedRow) {
	for i, name := range c.job.plan.Sum {
		v := g.values[c.stage.at(name)]
		if v == nil {
			continue
		}
		n, ok := new(big.Rat).SetString(sqldb.Text(v))
		if !ok {
			continue // the check refuses columns that are not numeric
		}
		if c.totals[i] == nil {
			c.totals[i] = new(big.Rat)
		}
		c.totals[i].Add(c.totals[i], n)
	}
	for i, list := range [][]string{c.job.plan.Min, c.job.plan.Max} {
		for _, name := range list {
			at := c.stage.at(name)
			if before(g.values[at], c.keeper.values[at]) == (i == 0) && g.values[at] != nil ||
				c.keeper.values[at] == nil {
				c.keeper.values[at] = g.values[at]
			}
		}
	}
}

// before reports whether a is less than b. Numbers are compared as numbers, everything else as text.
func before(a, b any) bool {
	if x, ok := new(big.Rat).SetString(sqldb.Text(a)); ok {
		if y, ok := new(big.Rat).SetString(sqldb.Text(b)); ok {
			return x.Cmp(y) < 0
		}
	}
	return sqldb.Text(a) < sqldb.Text(b)
}

// endGroup records the values that the keeper of a group gets.
func (c *collapser) endGroup() error {
	if c.others == 0 {
		return nil
	}
	number := c.ws.servers[c.keeper.server].Number
	for i, name := range c.job.plan.Sum {
		if c.totals[i] == nil {
			continue
		}
		col := c.job.to.Column(name)
		text, ok := totalText(c.totals[i], col)
		if !ok {
			c.report.problem(Problem{Code: CodeTotal, Table: c.job.name, Column: name,
				Message: fmt.Sprintf("the total %s of row %s does not fit into %s", text, c.keeper.key,
					col.Declared),
				Remedy: "widen the column in the target, correct the values on their servers, or take the " +
					"column out of sum:, so that the value of the row that stays is kept"})
		}
		c.out = append(c.out, []any{c.job.name, number, sqldb.ShortKey(c.keeper.key), name, text})
	}
	for _, name := range slices.Concat(c.job.plan.Min, c.job.plan.Max) {
		if v := c.keeper.values[c.stage.at(name)]; v != nil {
			c.out = append(c.out, []any{c.job.name, number, sqldb.ShortKey(c.keeper.key), name, sqldb.Text(v)})
		}
	}
	return nil
}

// totalText returns a total as text and reports whether the column can hold it.
func totalText(n *big.Rat, c *sqldb.Column) (string, bool) {
	if !n.IsInt() {
		text := n.FloatString(20)
		return strings.TrimRight(text, "0"), c.Family == sqldb.FamilyDecimal || c.Family == sqldb.FamilyFloat
	}
	text := n.Num().String()
	bits := c.Bits()
	limit := new(big.Int).Lsh(big.NewInt(1), uint(max(bits, 1)-1)) //nolint:gosec // 64 at most
	return text, bits == 0 || new(big.Int).Abs(n.Num()).Cmp(limit) < 0
}
