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

// keyOffsets is what the policy entry renumber adds to the keys of each table and server.
type keyOffsets struct {
	ws       *workspace
	added    map[tableServer]int64 // with the server allServers: the greatest key afterwards
	counters map[tableServer]int64 // the greatest key that a server has given out, even if its row is gone
	zeros    map[tableServer]bool  // a row has the key 0, so 0 is a key that moves, and not the word for none
	spans    map[string][]keySpan  // the ranges of the keys of each renumbered table, by position of the server
	gaps     []Gap                 // where keys move apart
	faults   []Problem             // why there are no new keys for a table
}

// keySpan is a range of numbers, such as that of the keys that a server has counted in a table, also of rows
// that are deleted. Without any, greatest is -1.
type keySpan struct{ least, greatest int64 }

// width is how many numbers the range has.
func (s keySpan) width() int64 {
	if s.greatest < 0 {
		return 0
	}
	return s.greatest - s.least + 1
}

// union is the range of both.
func (s keySpan) union(other keySpan) keySpan {
	switch {
	case s.greatest < 0:
		return other
	case other.greatest < 0:
		return s
	}
	return keySpan{min(s.least, other.least), max(s.greatest, other.greatest)}
}

// allServers stands for all servers together in a tableServer.
const allServers = -1

// find computes what is added to the keys of renumbered tables. A run stores the result together with its
// decisions, and goes on with what is stored.
func (o *keyOffsets) find(ctx context.Context) error {
	if o.added != nil {
		return nil
	}
	found := &keyOffsets{ws: o.ws, added: map[tableServer]int64{}, counters: map[tableServer]int64{},
		zeros: map[tableServer]bool{}, spans: map[string][]keySpan{}}
	var apart []*apartTable
	for _, j := range o.ws.order {
		c := j.key()
		if c == nil || c.Family != sqldb.FamilyInt {
			continue
		}
		if err := found.span(ctx, j, c); err != nil {
			return fmt.Errorf("table %s: the keys that were given out cannot be read: %w", j.name, err)
		}
		switch j.plan.Renumber {
		case Behind:
			found.behind(j, found.spans[j.name])
		case Apart:
			apart = append(apart, &apartTable{name: j.name, key: c.Name, own: found.spans[j.name]})
		}
	}
	stored, err := found.read(ctx)
	if err == nil && !stored {
		err = found.apart(ctx, apart)
	}
	if err != nil {
		return fmt.Errorf("a range for the keys cannot be found: %w", err)
	}
	*o = *found
	return nil
}

// span finds the range of the keys of a table for each server, and its counters.
func (o *keyOffsets) span(ctx context.Context, j *tableJob, c *sqldb.Column) error {
	spans := slices.Repeat([]keySpan{{-1, -1}}, len(o.ws.servers))
	all := keySpan{-1, -1} // of the rows that are there
	for i, s := range o.ws.servers {
		share := tableServer{j.name, s.Number}
		src := j.sources[i]
		if src == nil || src.table.Column(c.Name) == nil {
			continue
		}
		counter, err := s.db.Counter(ctx, src.table, c.Name)
		if err != nil {
			return err
		}
		if o.counters[share] = counter; j.plan.Renumber == "" {
			continue
		}
		span, made, err := newSelection(o.ws, i).counted(ctx, j.name, c.Name)
		if err != nil {
			return err
		}
		all = all.union(span)
		// The counter knows the keys of deleted rows, unless it stands behind the last ID of a generator.
		if counter > 0 && (counter < o.ws.layout.least || !made) {
			span.greatest = max(span.greatest, counter)
		}
		spans[i], o.zeros[share] = span, span.least == 0
	}
	first := int64(1) // of a server without rows; a game may let keys begin at a number of its own
	if all.least >= ordinary {
		first = all.least
	}
	for i, s := range spans {
		if s.least < 0 && s.greatest >= first {
			spans[i].least = first
		} else if s.least < 0 {
			spans[i].greatest = -1
		}
	}
	o.spans[j.name] = spans
	return nil
}

// behind lets the keys of each server begin behind the greatest key that the servers before it have given
// out, even if the rows were deleted since.
func (o *keyOffsets) behind(j *tableJob, spans []keySpan) {
	last := int64(-1) // the greatest new key that was given out so far
	for i, s := range o.ws.servers {
		share := tableServer{j.name, s.Number}
		if o.added[share] = max(last, 0); o.zeros[share] {
			o.added[share] = last + 1
		}
		if spans[i].greatest >= 0 {
			last = spans[i].greatest + o.added[share]
		}
		if last >= o.ws.layout.least {
			o.faults = append(o.faults, Problem{Code: CodeTotal, Table: j.name, Column: j.key().Name,
				Message: fmt.Sprintf("renumber: the servers have counted so far that new keys would go up to %d, "+
					"and from %d on a key looks like that of a generator of the layout", last, o.ws.layout.least),
				Remedy: "if the counter of a server is far above its greatest key, and nothing names the keys " +
					"between the two any more, set it back; or merge fewer servers; or give the table new keys by " +
					"the game, made by a generator"})
			return
		}
	}
	o.added[tableServer{j.name, allServers}] = max(last, 0)
}

// apart lets the keys of the servers follow each other in a gap.
func (o *keyOffsets) apart(ctx context.Context, tables []*apartTable) error {
	if len(tables) == 0 {
		return nil
	}
	first := 0 // of the servers whose keys move
	if o.ws.plan.Apart == apartOthers {
		first = 1
	}
	for _, t := range tables {
		for _, s := range t.own[:first] {
			t.above = max(t.above, s.greatest)
		}
		t.own = t.own[first:]
	}
	others := ""
	if first == 0 {
		others = "or let those of the first server stay as they are, by apart: others beside identities:; "
	}
	g := &gapSearch{Asker: sqldb.NewAsker(ctx), ws: o.ws, refer: referring(o.ws)}
	if g.place(tables); g.Err != nil {
		return g.Err
	}
	for _, t := range tables {
		if t.why != "" {
			o.faults = append(o.faults, Problem{Code: CodeTotal, Table: t.name, Column: t.key,
				Message: "renumber: apart: " + t.why,
				Remedy: "widen that column in the target; or, if a few keys lie far beyond the others, give those " +
					"rows smaller ones on their server; " + others + "or choose renumber: true, by which the keys of " +
					"later servers move behind those of the first"})
			continue
		}
		next, last := t.gap.From, t.gap.From-1
		for i, s := range t.spans {
			if t.own[i].greatest >= 0 {
				o.added[tableServer{t.name, o.ws.servers[first+i].Number}] = next - s.least
				last = t.own[i].greatest + next - s.least
			}
			next += s.width()
		}
		o.added[tableServer{t.name, allServers}] = last
		if !slices.ContainsFunc(o.gaps, func(gap Gap) bool { return slices.Equal(gap.Tables, t.gap.Tables) }) {
			o.gaps = append(o.gaps, t.gap)
		}
	}
	return nil
}

// read takes what a run has stored for what is added now; it reports whether there is anything.
func (o *keyOffsets) read(ctx context.Context) (bool, error) {
	t := o.ws.target
	state, err := o.ws.journal.state(ctx)
	if err != nil || state.name == "" {
		return false, err
	}
	o.added, o.counters = map[tableServer]int64{}, map[tableServer]int64{}
	q := t.SQL("SELECT tbl, server, added, counter FROM ", t.Kind.Quote(tableOffsets))
	return true, t.Each(ctx, q, func(values []any) error {
		n, err := numbers(values[1:]...)
		if err != nil {
			return fmt.Errorf("%s cannot be read: %w", tableOffsets, err)
		}
		share := tableServer{sqldb.Text(values[0]), n[0]}
		o.counters[share] = n[2]
		if j := o.ws.jobs[share.table]; j != nil && j.plan.Renumber != "" {
			o.added[share] = n[1]
		}
		return nil
	})
}

// rows returns the offsets as merge_offsets has them.
func (o *keyOffsets) rows() (rows [][]any) {
	servers := sqldb.Mapped(o.ws.servers, func(s *server) int64 { return s.Number })
	for _, j := range o.ws.order {
		for _, number := range append([]int64{allServers}, servers...) {
			share := tableServer{j.name, number}
			added, renumbered := o.added[share]
			counter, counted := o.counters[share]
			if renumbered || counted {
				rows = append(rows, []any{j.name, number, added, counter})
			}
		}
	}
	return rows
}

// counter returns the greatest key that a table of the target must be taken to have given out.
func (o *keyOffsets) counter(table string) int64 {
	greatest := o.added[tableServer{table, allServers}]
	for _, s := range o.ws.servers {
		share := tableServer{table, s.Number}
		counter := o.counters[share]
		if counter < o.ws.layout.least {
			counter += o.added[share]
		}
		greatest = max(greatest, counter)
	}
	return greatest
}

// newKey returns the key that a row has in the target.
func (o *keyOffsets) newKey(share tableServer, key any) any {
	offset := o.added[share]
	if offset == 0 {
		return key // It may be a text, such as 007, that only looks like a number.
	}
	n, err := sqldb.Integer(key)
	id, ok := n.(int64)
	if err == nil && ok && (id > 0 || id == 0 && o.zeros[share]) && id < o.ws.layout.least {
		return id + offset
	}
	return key
}

// gapSearch looks for ranges in which keys are apart from everything that may be one of the old keys.
type gapSearch struct {
	*sqldb.Asker
	ws    *workspace
	refer map[string][]holding // by table, the columns that are known to refer to it
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

// place looks for a gap that all tables can share, because no old key lies in it, and otherwise for one for
// each cluster of them. Keys that begin at a number of the game's own choice stay above it, because the game
// may tell by it what a number is.
func (g *gapSearch) place(tables []*apartTable) {
	for _, t := range tables {
		g.bind(t)
	}
	clusters := clustersOf(tables)
	var low []*apartTable
	for _, cluster := range clusters {
		least := cluster[0].begins()
		if least < ordinary {
			low = append(low, cluster...)
			continue
		}
		for _, t := range cluster {
			t.above = max(t.above, least-1)
		}
	}
	if len(low) > 0 && g.find(low) {
		clusters = slices.DeleteFunc(clusters, func(c []*apartTable) bool { return c[0].begins() < ordinary })
	}
	for _, cluster := range clusters {
		g.placeCluster(cluster)
	}
}

// placeCluster looks for a gap that a cluster can share. Tables whose keys have to fit into a narrower
// column than those of the other ones get gaps of their own if they have to.
func (g *gapSearch) placeCluster(cluster []*apartTable) {
	slices.SortStableFunc(cluster, func(a, b *apartTable) int { return cmp.Compare(b.bound, a.bound) })
	for spread(cluster); !g.find(cluster) && len(cluster) > 1; spread(cluster) {
		last := len(cluster) - 1
		spread(cluster[last:])
		g.find(cluster[last:])
		cluster = cluster[:last]
	}
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

// begins returns the least key of the cluster of a table, or 0 if there is none.
func (t *apartTable) begins() (least int64) {
	for _, s := range t.spans {
		if s.width() > 0 && (least == 0 || s.least < least) {
			least = s.least
		}
	}
	return least
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
			spans[i] = spans[i].union(s)
		}
	}
	for _, t := range cluster {
		t.spans = spans
	}
}

// bind finds the narrowest column that has to hold the new keys of a table.
func (g *gapSearch) bind(t *apartTable) {
	t.bound, t.narrowest = g.ws.layout.least-1, "the layout of the plan, because greater ones look generated"
	own := holding{Column: census.Column{Table: t.name, Name: t.key}}
	for _, c := range append([]holding{own}, g.refer[t.name]...) {
		l := link{column: c.Name, bits: c.bits}
		column := g.ws.target.Tables[c.Table].Column(c.Name)
		if column == nil || g.ws.holdsKey(c.Table, l, t.bound) {
			continue
		}
		t.bound = int64(sort.Search(63, func(bits int) bool { return !g.ws.holdsKey(c.Table, l, 1<<bits-1) }))
		t.bound, t.narrowest = 1<<(t.bound-1)-1, c.String()+" ("+column.Declared+")"
	}
}

// find finds the lowest gap for tables that share it. It reports whether there is one; if not, each table
// says why.
func (g *gapSearch) find(tables []*apartTable) bool {
	gap := Gap{}
	var need, above int64
	narrowest := tables[0]
	var columns []holding
	for _, t := range tables {
		gap.Tables = append(gap.Tables, t.name)
		width := int64(0)
		for _, s := range t.spans {
			width += s.width()
		}
		need, above = max(need, width), max(above, t.above)
		if t.bound < narrowest.bound {
			narrowest = t
		}
		columns = append(columns, g.holders(t)...)
	}
	slices.SortFunc(columns, func(a, b holding) int { return strings.Compare(a.String(), b.String()) })
	free := ranges{{above + 1, narrowest.bound}}.atLeast(need)
	for _, t := range tables {
		for _, s := range t.spans { // keys of deleted rows may still stand somewhere
			free = free.without(s, need)
		}
	}
	columns = slices.Compact(columns)
	for _, d := range g.ws.databases() {
		free = g.outside(free, d, columns, need)
	}
	if len(free) == 0 {
		for _, t := range tables {
			widest := slices.MaxFunc(t.own, func(a, b keySpan) int { return cmp.Compare(a.width(), b.width()) })
			t.why = fmt.Sprintf("%d numbers are needed, and up to %d there are not as many side by side that no "+
				"column which may hold the keys has a value among; the end is that of %s, and the keys of %s go "+
				"from %d to %d on one server", need, narrowest.bound, narrowest.narrowest, t.name, widest.least,
				widest.greatest)
		}
		return false
	}
	gap.From, gap.To = free[0].least, free[0].least+need-1
	gap.Room = free[0].greatest - gap.To
	for _, t := range tables {
		t.gap, t.why = gap, ""
	}
	return true
}

// holders are the columns in which an old key may stand: those that refer to the table, and those that hold
// its keys more often than by chance.
func (g *gapSearch) holders(t *apartTable) []holding {
	all := append([]holding{{Column: census.Column{Table: t.name, Name: t.key}}}, g.refer[t.name]...)
	for table, locked := range g.ws.survey.Tables { // which the check has made, since keys change
		for name, c := range locked.Columns {
			column := census.Column{Table: table, Name: name}
			if c.holds(LockedKey{Table: t.name, Column: t.key}) {
				all = append(all, holding{Column: column})
			}
			for _, key := range c.Of {
				columns := strings.Split(strings.Trim(name+"+"+key.With, "+"), "+")
				b, err := parseBits(strings.TrimPrefix(key.As, "bits "), columns)
				if key.Table == t.name && key.As != "" && (err == nil || !strings.HasPrefix(key.As, "bits ")) {
					all = append(all, holding{column, b})
				}
			}
		}
	}
	return all
}

// ranges are ranges of numbers in increasing order.
type ranges []keySpan

// atLeast leaves out ranges of fewer numbers.
func (all ranges) atLeast(need int64) ranges {
	return slices.DeleteFunc(all, func(r keySpan) bool { return r.greatest-r.least+1 < max(need, 1) })
}

// mostGaps is how many gaps between the values of a column are looked at. What lies behind them counts as
// taken, up to the greatest value.
const mostGaps = 10_000

// mostUnited is how many columns one statement reads. SQLite unites 500 results at most.
const mostUnited = 50

// outside returns the ranges of at least so many numbers in which some columns of a database have no value.
// In a column that is no whole number, each run of digits may be a key: of a decimal, of a text, of a list or
// of a document.
func (g *gapSearch) outside(all ranges, d *sqldb.DB, columns []holding, need int64) ranges {
	type value struct{ shown, from string }
	var whole []value
	for _, held := range columns {
		t, names := d.Tables[held.Table], held.bits.columns(held.Name)
		lacks := func(name string) bool { return t.Column(name) == nil }
		if slices.ContainsFunc(names, lacks) {
			continue
		}
		c, from := t.Column(held.Name), " FROM "+d.Kind.Quote(t.Name)+" AS s"
		switch {
		case held.bits.used():
			whole = append(whole, value{held.bits.sql(d.Kind, names), from})
		case c.Family == sqldb.FamilyInt:
			whole = append(whole, value{c.ReadExpression(d.Kind), from})
		case len(all) > 0:
			all = g.without(all, d, d.SQL("SELECT ", c.ReadExpression(d.Kind), from), need)
		}
	}
	for some := range slices.Chunk(whole, mostUnited) {
		q, between := d.SQL(), "SELECT DISTINCT "
		for _, v := range some {
			if len(all) == 0 {
				return all
			}
			q.Add(between, v.shown, v.from, " WHERE ", v.shown, fmt.Sprintf(" BETWEEN %d AND %d", all[0].least,
				all[len(all)-1].greatest))
			between = " UNION SELECT "
		}
		all = g.without(all, d, q.Add(" ORDER BY 1"), need)
	}
	return all
}

// without takes the numbers out that a statement returns.
func (g *gapSearch) without(all ranges, d *sqldb.DB, q *sqldb.Statement, need int64) ranges {
	g.EachSteady(d, q, func(values []any) bool {
		text := sqldb.Text(values[0])
		if f, ok := values[0].(float64); ok {
			text = strconv.FormatFloat(f, 'f', -1, 64)
		}
		for _, run := range strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
			if n, err := strconv.ParseInt(run, 10, 64); err == nil {
				all = all.without(keySpan{n, n}, need)
			}
		}
		return true
	})
	return all
}

// without takes numbers out, and ranges of fewer numbers than needed that this leaves.
func (all ranges) without(taken keySpan, need int64) ranges {
	first := sort.Search(len(all), func(i int) bool { return all[i].greatest >= taken.least })
	end := sort.Search(len(all), func(i int) bool { return all[i].least > taken.greatest })
	if first >= end {
		return all
	}
	left := ranges{{all[first].least, taken.least - 1}, {taken.greatest + 1, all[end-1].greatest}}
	all = slices.Replace(all, first, end, left.atLeast(need)...)
	if len(all) > mostGaps {
		all = slices.Delete(all, mostGaps-1, len(all)-1)
	}
	return all
}

// referring returns the columns of copied tables that follow the keys of each table.
func referring(ws *workspace) map[string][]holding {
	all := map[string][]holding{}
	for name, j := range sorted(ws.jobs) {
		for _, l := range j.follows.links {
			if l.parent != name || l.column != j.key().Name {
				all[l.parent] = append(all[l.parent], holding{census.Column{Table: name, Name: l.column}, l.bits})
			}
		}
	}
	return all
}

// survey says what is in the columns of the servers now, and what the census has found. If all data is as it
// was for an earlier lock, nobody need look again. A run takes that to be so of the tables that have as many
// rows, and the same ends of their keys. An UPDATE escapes that, as it escapes the comparison of the sources
// at the end of a check and during a run; verify finds it.
func survey(ctx context.Context, ws *workspace, earlier *Lock, running bool) (
	*Lock, []census.Finding, error) {
	data := ""
	if !running {
		if data = dataOf(ctx, ws); earlier != nil && data != "" && data == earlier.Data {
			return earlier, nil, nil
		}
		earlier = nil
	}
	now := &Lock{Version: lockVersion, Data: data, Tables: map[string]LockedTable{}}
	all, err := fingerprints(ctx, ws, func(string) bool { return true })
	if err != nil {
		return nil, nil, err
	}
	for _, server := range ws.servers {
		for name, t := range server.db.Tables {
			if now.Tables[name].Rows == nil {
				now.Tables[name] = LockedTable{Rows: map[string]string{}, Columns: map[string]LockedColumn{}}
			}
			now.Tables[name].Rows[server.Name] = all[tableServer{name, server.Number}]
			for _, c := range t.Columns {
				known := now.Tables[name].Columns[c.Name]
				known.Verdict = census.None.String()
				if known.Type == "" {
					known.Type = c.Declared
				} else if !slices.Contains(strings.Split(known.Type, " or "), c.Declared) {
					known.Type += " or " + c.Declared
				}
				now.Tables[name].Columns[c.Name] = known
			}
		}
	}
	if earlier == nil {
		earlier = &Lock{}
	}
	changed := map[string]bool{}
	for name, t := range now.Tables {
		was := earlier.Tables[name]
		types := func(a, b LockedColumn) bool { return a.Type == b.Type }
		if maps.Equal(t.Rows, was.Rows) && maps.EqualFunc(t.Columns, was.Columns, types) {
			now.Tables[name] = was
		} else {
			changed[name] = true
		}
	}
	if len(changed) == 0 {
		return now, nil, nil
	}
	sources := ws.databases()[:len(ws.servers)]
	found, err := census.Take(ctx, sources, ws.layout.least, func(table string) bool { return changed[table] })
	now.add(found)
	return now, found, err
}

// dataOf is a hash of the census and of all that it reads, and "" if some database cannot tell whether it has
// changed.
func dataOf(ctx context.Context, ws *workspace) string {
	const some = 100
	read := make([][]string, len(ws.servers))
	_ = atOnce(len(ws.servers), func(i int) error {
		db := ws.servers[i].db
		read[i] = []string{ws.servers[i].Name}
		for names := range slices.Chunk(slices.Sorted(maps.Keys(db.Tables)), some) {
			sums, err := db.Sums(ctx, names)
			if err != nil { // as where the login may read some columns only
				read[i] = append(read[i], "")
				return nil
			}
			for n, name := range names {
				t := db.Tables[name]
				read[i] = append(read[i], sums[n], name, fmt.Sprintf("%+v", t.Keys()))
				for _, c := range t.Columns {
					read[i] = append(read[i], fmt.Sprintf("%+v", *c))
				}
			}
		}
		return nil
	})
	if slices.ContainsFunc(read, func(of []string) bool { return slices.Contains(of, "") }) {
		return ""
	}
	return hashOf([]any{census.Edition, ws.layout.least, read})
}
