package merge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Renumbering says which new values the keys of a table get that the servers have counted.
type Renumbering string

const (
	// Behind puts the keys of each server behind those of the servers before it, so those of the first server
	// stay. A reference that the plan forgets leads to a row of another server. In YAML it is written true.
	Behind Renumbering = "behind"
	// Apart puts the keys of the servers, side by side, into a range in which no value lies of any column that
	// holds keys of the table more often than by chance. A reference that the plan forgets leads to no row.
	Apart Renumbering = "apart"
)

// UnmarshalYAML reads true, behind, apart, or false.
func (r *Renumbering) UnmarshalYAML(read func(any) error) error {
	text := ""
	if err := read(&text); err != nil {
		return err
	}
	switch text {
	case "true", string(Behind):
		*r = Behind
	case "false", "":
		*r = ""
	case string(Apart):
		*r = Apart
	default:
		return fmt.Errorf("renumber is %q, not true or apart", text)
	}
	return nil
}

// MarshalYAML writes true for Behind.
func (r Renumbering) MarshalYAML() (any, error) {
	if r == Behind {
		return true, nil
	}
	return string(r), nil
}

// Which servers get other keys where a table is renumbered apart.
const (
	apartAll    = "all"
	apartOthers = "others"
)

// Gap is a range of numbers to which keys move apart.
type Gap struct {
	Tables []string `json:"tables"`
	// From and To are the first and the last number that new keys may take.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Room is how many numbers are free behind To, up to the next value or the end of the narrowest column.
	Room int64 `json:"room"`
}

// gapSearch looks for ranges in which keys are apart from everything that may be one of the old keys.
type gapSearch struct {
	ws     *workspace
	survey *Lock                // which columns hold keys of which tables
	refer  map[string][]holding // by table, the columns that are known to refer to it
}

// holding is a column that may hold keys, in all of it or in some bits.
type holding struct {
	census.Column
	bits bits
}

func (h holding) String() string {
	text := h.Table + "." + strings.Join(h.bits.columns(h.Name), "+")
	if h.bits.used() {
		text += " bits " + h.bits.String()
	}
	return text
}

// apartTable is a table whose keys move into a gap.
type apartTable struct {
	name, key string
	own       []keySpan // of the servers whose keys move
	spans     []keySpan // how many numbers each server takes: those of its own keys, or of several tables
	above     int64     // the gap has to lie above this number
	gap       Gap
	why       string // why there is no gap, or ""
	narrowest string // the column that ends the gap
	bound     int64  // the greatest number that it holds
}

// need is how many numbers the keys take.
func (t *apartTable) need() (n int64) {
	for _, s := range t.spans {
		n += s.width()
	}
	return n
}

// place looks for a gap that all tables can share, because no old key lies in it, and otherwise for one for
// each cluster of them.
func (g *gapSearch) place(ctx context.Context, tables []*apartTable) error {
	for _, t := range tables {
		g.bind(t)
	}
	clusters := clustersOf(tables)
	shared, err := g.find(ctx, tables)
	if err != nil || shared != nil {
		return err
	}
	for _, cluster := range clusters {
		if err := g.placeCluster(ctx, cluster); err != nil {
			return err
		}
	}
	return nil
}

// placeCluster looks for a gap that a cluster can share. Tables whose keys have to fit into a narrower
// column than those of the other ones get gaps of their own if they have to.
func (g *gapSearch) placeCluster(ctx context.Context, cluster []*apartTable) error {
	slices.SortStableFunc(cluster, func(a, b *apartTable) int { return cmp.Compare(b.bound, a.bound) })
	for len(cluster) > 0 {
		spread(cluster)
		gap, err := g.find(ctx, cluster)
		if err != nil || gap != nil {
			return err
		}
		last := len(cluster) - 1
		if last > 0 {
			spread(cluster[last:])
			if _, err := g.find(ctx, cluster[last:]); err != nil {
				return err
			}
		}
		cluster = cluster[:last]
	}
	return nil
}

// ordinary is the end of the numbers from which tables count by themselves.
const ordinary = 1000

// clustersOf puts together the tables whose keys lie in one range on some server, or side by side in a
// range with which no table begins by itself. All keys of a cluster move by the same number on a server.
// So two equal keys stay equal. They may belong to one object, though nobody has said it. And two different
// keys stay different. A game may count the rows of several tables by one number, and rely on that.
func clustersOf(tables []*apartTable) (clusters [][]*apartTable) {
	for _, t := range tables {
		cluster := []*apartTable{t}
		clusters = slices.DeleteFunc(clusters, func(other []*apartTable) bool {
			near := slices.ContainsFunc(other, t.meets)
			if near {
				cluster = append(other, cluster...)
			}
			return near
		})
		clusters = append(clusters, cluster)
	}
	for _, cluster := range clusters {
		spread(cluster)
	}
	return clusters
}

// meets reports whether the keys of two tables lie in one range on some server, or side by side.
func (t *apartTable) meets(other *apartTable) bool {
	for i, a := range t.own {
		b := other.own[i]
		if a.width() == 0 || b.width() == 0 {
			continue
		}
		between := max(a.least, b.least) - min(a.greatest, b.greatest) - 1
		if between < 0 || min(a.least, b.least) >= ordinary && between <= a.width()+b.width() {
			return true
		}
	}
	return false
}

// spread lets each table of a cluster take the range in which all keys of the cluster lie, on each server.
func spread(cluster []*apartTable) {
	spans := slices.Clone(cluster[0].own)
	for _, t := range cluster[1:] {
		for i, s := range t.own {
			spans[i] = spans[i].with(s)
		}
	}
	for _, t := range cluster {
		t.spans = spans
	}
}

// bind finds the narrowest column that has to hold the new keys of a table.
func (g *gapSearch) bind(t *apartTable) {
	t.bound, t.narrowest = g.ws.minGenerated-1, "the layout of the plan, because greater ones look generated"
	own := holding{Column: census.Column{Table: t.name, Name: t.key}}
	for _, c := range append([]holding{own}, g.refer[t.name]...) {
		l := link{column: c.Name, bits: c.bits}
		if of := g.ws.target.Tables[c.Table]; of == nil || of.Column(c.Name) == nil ||
			g.ws.holdsKey(c.Table, l, t.bound) {
			continue
		}
		t.bound = int64(sort.Search(63, func(bits int) bool { return !g.ws.holdsKey(c.Table, l, 1<<bits-1) }))
		t.bound, t.narrowest = 1<<(t.bound-1)-1, c.String()+" ("+
			g.ws.target.Tables[c.Table].Column(c.Name).Declared+")"
	}
}

// find finds the lowest gap for tables that share it. It returns nil if there is none, and then each table
// says why.
func (g *gapSearch) find(ctx context.Context, tables []*apartTable) (*Gap, error) {
	gap := Gap{}
	var need, above int64
	narrowest := tables[0]
	var columns []holding
	for _, t := range tables {
		gap.Tables = append(gap.Tables, t.name)
		need, above = max(need, t.need()), max(above, t.above)
		if t.bound < narrowest.bound {
			narrowest = t
		}
		columns = append(columns, g.holders(t)...)
	}
	slices.SortFunc(columns, func(a, b holding) int { return strings.Compare(a.String(), b.String()) })
	free := numberRanges{{above + 1, narrowest.bound}}.atLeast(need)
	for _, t := range tables {
		for _, s := range t.spans { // keys of deleted rows may still stand somewhere
			if s.greatest >= 0 {
				free = intersect(free, numberRanges{{1, s.least - 1}, {s.greatest + 1,
					narrowest.bound}}).atLeast(need)
			}
		}
	}
	for _, c := range slices.Compact(columns) {
		for _, d := range g.ws.databases() {
			if len(free) == 0 {
				break
			}
			of, err := freeOf(ctx, d, c, need, narrowest.bound)
			if err != nil {
				return nil, err
			}
			free = intersect(free, of).atLeast(need)
		}
	}
	if len(free) == 0 {
		for _, t := range tables {
			t.why = fmt.Sprintf("%d numbers are needed, and up to %d there are not as many side by side that no "+
				"column which may hold the keys has a value among; the end is that of %s", need, narrowest.bound,
				narrowest.narrowest)
		}
		return nil, nil
	}
	gap.From, gap.To = free[0].from, free[0].from+need-1
	gap.Room = free[0].to - gap.To
	for _, t := range tables {
		t.gap, t.why = gap, ""
	}
	return &gap, nil
}

// holders are the columns in which an old key may stand: those that refer to the table, and those that hold
// its keys more often than by chance.
func (g *gapSearch) holders(t *apartTable) []holding {
	all := append([]holding{{Column: census.Column{Table: t.name, Name: t.key}}}, g.refer[t.name]...)
	for table, locked := range g.survey.Tables {
		for name, c := range locked.Columns {
			at := census.Column{Table: table, Name: name}
			if c.holds(LockedKey{Table: t.name, Column: t.key}) {
				all = append(all, holding{Column: at})
			}
			for _, of := range c.Of {
				columns := strings.Split(strings.Trim(name+"+"+of.With, "+"), "+")
				b, err := parseBits(strings.TrimPrefix(of.As, "bits "), columns)
				if of.Table == t.name && of.As != "" && (err == nil || !strings.HasPrefix(of.As, "bits ")) {
					all = append(all, holding{at, b})
				}
			}
		}
	}
	return all
}

// numberRange is a range of numbers, with both ends.
type numberRange struct{ from, to int64 }

// numberRanges are ranges in increasing order.
type numberRanges []numberRange

// atLeast leaves out ranges of fewer numbers.
func (all numberRanges) atLeast(need int64) numberRanges {
	return slices.DeleteFunc(all, func(r numberRange) bool { return r.to-r.from+1 < max(need, 1) })
}

// intersect returns what lies in ranges of both lists.
func intersect(a, b numberRanges) (both numberRanges) {
	for len(a) > 0 && len(b) > 0 {
		if r := (numberRange{max(a[0].from, b[0].from), min(a[0].to, b[0].to)}); r.from <= r.to {
			both = append(both, r)
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return both
}

// mostGaps is how many gaps between the values of a column are looked at. What lies behind them counts as
// taken, up to the greatest value.
const mostGaps = 10_000

// freeOf returns the ranges of at least so many numbers, up to a bound, in which a column of a database has
// no value.
func freeOf(ctx context.Context, d *sqldb.DB, of holding, need, bound int64) (free numberRanges, err error) {
	whole := numberRanges{{1, bound}}
	t, columns := d.Tables[of.Table], of.bits.columns(of.Name)
	if t == nil || slices.ContainsFunc(columns, func(name string) bool { return t.Column(name) == nil }) {
		return whole, nil
	}
	name := d.Kind.Quote(of.Name)
	if of.bits.used() {
		name = of.bits.sql(d.Kind, columns)
	} else if t.Column(of.Name).Family != sqldb.FamilyInt {
		return spelled(ctx, d, t.Column(of.Name), t.Name, need, whole)
	}
	values := "(SELECT DISTINCT " + name + " AS x FROM " + d.Kind.Quote(of.Table) + " WHERE " + name +
		" > 0 AND " + name + " <= " + strconv.FormatInt(bound, 10) + ") AS v"
	ends, err := d.Strings(ctx, sqldb.NewStatement(d.Kind, "SELECT MIN(x), MAX(x) FROM ", values))
	if err != nil || ends[0][0] == "" {
		return whole, err
	}
	rows, err := d.Strings(ctx, sqldb.NewStatement(d.Kind, "SELECT x, y FROM (SELECT x, LEAD(x) OVER (ORDER "+
		"BY x)",
		" AS y FROM ", values, ") AS w WHERE y - x > ", strconv.FormatInt(need, 10), " ORDER BY x LIMIT ",
		strconv.Itoa(mostGaps)))
	if err != nil {
		return nil, err
	}
	for _, pair := range append([][]string{{"0", ends[0][0]}}, append(rows, []string{ends[0][1], ""})...) {
		r := numberRange{to: bound}
		if r.from, err = strconv.ParseInt(pair[0], 10, 64); err != nil {
			return nil, nil // It is no whole number, as a column of SQLite may have: nothing is known of it.
		}
		if pair[1] != "" {
			if r.to, err = strconv.ParseInt(pair[1], 10, 64); err != nil {
				return nil, nil
			}
			r.to--
		}
		if r.from++; r.from <= r.to {
			free = append(free, r)
		}
	}
	return free, nil
}

// spelled is freeOf for a column that is no whole number. Each run of digits in it may be a key: of a
// decimal, of a text, of a list or of a document.
func spelled(ctx context.Context, d *sqldb.DB, c *sqldb.Column, table string, need int64,
	free numberRanges) (numberRanges, error) {
	q := sqldb.NewStatement(d.Kind, "SELECT ", c.ReadExpression(d.Kind), " FROM ", d.Kind.Quote(table), " AS s")
	err := d.Each(ctx, q, func(values []any) error {
		text := sqldb.Text(values[0])
		if f, ok := values[0].(float64); ok {
			text = strconv.FormatFloat(f, 'f', -1, 64)
		}
		for _, run := range strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
			if n, err := strconv.ParseInt(run, 10, 64); err == nil {
				free = free.without(n, need)
			}
		}
		return nil
	})
	return free, err
}

// without takes a number out, and ranges of fewer numbers than needed that this leaves.
func (all numberRanges) without(n, need int64) numberRanges {
	i := sort.Search(len(all), func(i int) bool { return all[i].to >= n })
	if i == len(all) || all[i].from > n {
		return all
	}
	r := all[i]
	both := numberRanges{{r.from, n - 1}, {n + 1, r.to}}.atLeast(need)
	all = slices.Replace(all, i, i+1, both...)
	return all[:min(len(all), mostGaps)]
}

// referring returns the columns of copied tables that follow the keys of each table.
func referring(ws *workspace) map[string][]holding {
	all := map[string][]holding{}
	for _, name := range slices.Sorted(maps.Keys(ws.jobs)) {
		for _, l := range ws.jobs[name].follows.links {
			if l.of != name || l.column != ws.jobs[name].key().Name {
				all[l.of] = append(all[l.of], holding{census.Column{Table: name, Name: l.column}, l.bits})
			}
		}
	}
	return all
}
