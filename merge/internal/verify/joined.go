package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// joiner checks a table in which equal rows became one. Every row of a source must have been kept or have
// become a row of the target that is equal to it, and that one must be the row that the policy keeps.
type joiner struct {
	*stream           // of the target
	by      uniqueKey // in which rows are equal
	fixed   []bool    // by column: it has the value of the row that stayed
	own     []int     // columns that refer to rows of the table itself
	silent  []int     // columns of which the plan does not say what becomes of different values
	state   *index    // by row of the target: what became of it so far
	targets [][]string
	lists   *joinLists

	lost, other, unowned, totals int64
	example                      string
	buffer                       []byte
}

// joinedRow is a row of a source as it should be in the target.
type joinedRow struct {
	server int
	key    string
	before []any // the values that children of the server refer to
	values []any
	sum    sum
	found  []heldRow
}

// heldRow is a row of the target.
type heldRow struct {
	id     sum
	sum    sum
	values []any
	newer  bool // by the target, it is not below the row of the source in the column of the policy newest
}

// outcome is what is known of a row of the target.
type outcome struct {
	Owner  int       // the server whose row it is
	Key    string    // the key of that row there
	Twins  bool      // the server has several rows that it may be
	Rows   int       // how many rows became it, if their values are added up
	Sum    string    // the hash of that row
	By     string    // what it has in the column of the policy newest
	Totals []string  // of the columns that are added up; "" is NULL
	Ends   []*string // of the columns of which the least or the greatest value stays
	Leads  bool      // its references to rows of its own table lead where they have to
}

// compareJoined compares a table in which equal rows became one.
func compareJoined(ctx context.Context, j *job) {
	n := &joiner{stream: newStream(j.inTarget(), j.columns), by: uniqueKey{columns: j.plan.Key},
		state: newIndex(j.v.fail),
		lists: &joinLists{job: j, drops: newIndex(j.v.fail), values: newIndex(j.v.fail)}}
	j.moved = newIndex(j.v.fail)
	defer func() {
		for _, x := range []*index{n.state, n.lists.drops, n.lists.values} {
			x.close()
		}
	}()
	for _, u := range j.target.unique { // with the collations of the index
		if sameColumns(u.columns, j.plan.Key) {
			n.by = u
		}
	}
	changing := slices.Concat(j.plan.Sum, j.plan.Min, j.plan.Max)
	if j.plan.Renumber {
		changing = append(changing, j.target.primary...)
	}
	said := slices.Concat(changing, j.target.primary, j.plan.Key, []string{j.plan.By})
	for i, c := range j.columns {
		own := slices.ContainsFunc(j.links, func(r reference) bool {
			return r.parent == j.name && slices.Contains(r.columns, c.name)
		})
		if own {
			n.own = append(n.own, i)
		}
		n.fixed = append(n.fixed, !own && !slices.Contains(changing, c.name))
		if !own && !slices.Contains(said, c.name) {
			n.silent = append(n.silent, i)
		}
	}
	n.findTargets()
	n.lists.read(ctx)
	passes := []func(*joinedRow){n.first, n.second}
	if len(n.own) > 0 {
		passes = append(passes, n.third)
	}
	for _, pass := range passes {
		j.left = 0
		for _, s := range j.sides {
			s.read = 0
			n.pass(ctx, s, pass)
		}
	}
	n.settle(ctx)
	n.lists.settle()
}

// findTargets finds the lists of columns of the table that references hold.
func (n *joiner) findTargets() {
	for _, child := range n.v.jobs {
		for _, r := range child.links {
			if r.parent == n.name &&
				!slices.ContainsFunc(n.targets, func(o []string) bool { return slices.Equal(o, r.targets) }) {
				n.targets = append(n.targets, r.targets)
			}
		}
	}
}

// pass calls fn for every row of a source, with the rows of the target that are equal to it.
func (n *joiner) pass(ctx context.Context, s *side, fn func(*joinedRow)) {
	e := newExpecter(newStream(s, n.columns))
	var batch []*joinedRow
	flush := func() {
		n.look(ctx, batch)
		for _, row := range batch {
			fn(row)
		}
		batch = batch[:0]
	}
	e.each(ctx, func(values []any) {
		s.read++
		row := &joinedRow{server: s.server, key: e.keyOf(values), before: owned(values[:len(n.columns)])}
		if !e.row(values) {
			n.left++
			return
		}
		row.values = owned(values[:len(n.columns)])
		row.sum = n.hash(row.values)
		if batch = append(batch, row); len(batch) == lookupBatch {
			flush()
		}
	})
	flush()
}

// first finds whose rows those of the target are, and adds up totals.
func (n *joiner) first(row *joinedRow) {
	for _, h := range row.found {
		o, known := n.outcome(h.id)
		adds, mine := n.plan.Policy == policySum, h.sum == row.sum
		switch {
		case !known && (adds || mine):
			o = outcome{Owner: row.server, Key: row.key, Sum: fmt.Sprintf("%x", row.sum), By: n.preferred(row)}
		case o.Owner == row.server && (adds && o.Key != row.key || !adds && mine):
			o.Twins = true
		case !adds:
			continue
		}
		if adds {
			o.Rows++
			n.add(&o, row)
		}
		n.keep(h.id, o)
	}
}

// second checks that each row is there or has become a row that comes before it, and notes where
// references to it have to lead.
func (n *joiner) second(row *joinedRow) {
	var stays *heldRow
	var o outcome
	for i := range row.found {
		h := &row.found[i]
		found, known := n.outcome(h.id)
		own := known && found.Owner == row.server && h.sum == row.sum
		if own || known && stays == nil && n.comesFirst(h, found, row) {
			stays, o = h, found
		}
		if own {
			break
		}
	}
	if stays == nil {
		n.lost++
		n.example = cmp.Or(n.example, fmt.Sprintf("%s: row %s", n.v.plan.Servers[row.server].Name, row.key))
		return
	}
	became := o.Owner != row.server || o.Key != row.key
	differs := became && !n.equal(n.silent, row.values, stays.values)
	if differs {
		n.differing++
	}
	if became || o.Twins {
		n.lists.joined(row, o, differs)
	}
	n.move(row, stays)
}

func (n *joiner) equal(columns []int, a, b []any) bool {
	return !slices.ContainsFunc(columns, func(pos int) bool {
		f := n.forms[pos]
		return !bytes.Equal(f.append(nil, a[pos]), f.append(nil, b[pos]))
	})
}

// look finds the rows of the target that are equal to rows of a source, as the target compares them.
func (n *joiner) look(ctx context.Context, batch []*joinedRow) {
	t := n.v.target
	list := make([]string, len(n.columns))
	for i, c := range n.columns {
		list[i] = t.expression("k", c)
	}
	l, key := lookup{d: t}, n.indexes(n.by.columns)
	for i, row := range batch {
		if key == nil || slices.ContainsFunc(key, func(pos int) bool { return row.values[pos] == nil }) {
			continue
		}
		newer := "0"
		if n.ordered(row) {
			by := n.positions[n.plan.By]
			text, held := textOf(row.values[by]), "k."+t.kind.quote(n.plan.By)
			than := t.kind.placeholder(len(l.args) + 1)
			if members, is := strings.CutPrefix(n.columns[by].declared, "enum("); is && t.kind == mysql {
				text, held, than = strings.ToLower(text), held+" + 0", "FIELD(?, "+members
			}
			l.args = append(l.args, text)
			newer = fmt.Sprintf("CASE WHEN %s >= %s THEN 1 ELSE 0 END", held, than)
		}
		var conditions []string
		for part, pos := range key {
			conditions = append(conditions, l.equal(n.by.term(t.kind, part, "k."), n.columns[pos], row.values[pos]))
		}
		l.add(i, strings.Join(append(list, newer), ", "), n.name, conditions)
	}
	l.each(ctx, func(i int, values []any) {
		held := n.held(values[:len(list)])
		held.newer = textOf(values[len(list)]) == "1"
		if !slices.ContainsFunc(batch[i].found, func(h heldRow) bool { return h.id == held.id }) {
			batch[i].found = append(batch[i].found, held)
		}
	})
}

// third compares the references of rows to rows of their own table. Only now it is known where all of these
// are.
func (n *joiner) third(row *joinedRow) {
	for _, h := range row.found {
		o, known := n.outcome(h.id)
		if known && !o.Leads && o.Owner == row.server && h.sum == row.sum {
			o.Leads = n.equal(n.own, row.values, h.values)
			n.keep(h.id, o)
		}
	}
}

// settle reads the target, and compares each row with what became of it.
func (n *joiner) settle(ctx context.Context) {
	m, all := newSummer(n.stream), newTally(len(n.links))
	n.each(ctx, func(values []any) {
		m.add(all, values, 0, 0)
		h := n.held(values[:len(n.columns)])
		o, known := n.outcome(h.id)
		switch {
		case !known:
			n.unowned++
		case o.Sum != fmt.Sprintf("%x", h.sum), len(n.own) > 0 && !o.Leads:
			n.other++
		case n.plan.Policy == policySum && !n.added(o, h):
			n.totals++
		}
		if known && o.Rows > 1 {
			n.inLists(o)
		}
	})
	n.present = all.rows.rows
	n.v.none("rows", n.name, "of the target that are no row of a server", n.unowned)
	n.v.none("rows", n.name, "of servers that became no row of the target "+n.example, n.lost)
	n.v.none("checksum", n.name, "rows that differ from the row that the policy keeps", n.other)
	if n.plan.Policy == policySum {
		n.v.none("totals", n.name, "rows with other totals", n.totals)
	}
	n.v.compare("rows", n.name, "", "rows of the target, each found once", fmt.Sprint(n.state.len()),
		fmt.Sprint(n.present))
	all.orphanLines(n.job)
}

// inLists looks up the values that a row got because others became it.
func (n *joiner) inLists(o outcome) {
	for i, name := range n.plan.Sum {
		total, some := new(big.Rat).SetString(o.Totals[i])
		if !some {
			continue
		}
		want := total.FloatString(listDigits + 1)
		if n.columns[n.positions[name]].class == classFloat {
			want = "" // the row of the target is compared, and the list has other digits
		}
		n.lists.total(o, name, want)
	}
	for i, name := range n.ends() {
		if o.Ends[i] != nil {
			n.lists.total(o, name, "")
		}
	}
}

// ends returns the columns of which the least value stays, and then those of which the greatest one does.
func (n *joiner) ends() []string { return slices.Concat(n.plan.Min, n.plan.Max) }

// added reports whether a row of the target has the totals of the rows that became it.
func (n *joiner) added(o outcome, h heldRow) bool {
	for i, name := range n.plan.Sum {
		v := h.values[n.positions[name]]
		total, ok := new(big.Rat).SetString(o.Totals[i])
		if !ok || v == nil {
			if ok || v != nil {
				return false
			}
			continue
		}
		held, ok := new(big.Rat).SetString(plainNumber(textOf(v)))
		if !ok {
			return false
		}
		if n.columns[n.positions[name]].class == classFloat {
			x, _ := total.Float64()
			y, _ := held.Float64()
			if x != y {
				return false
			}
		} else if held.Cmp(total) != 0 {
			return false
		}
	}
	for i, name := range n.ends() {
		v := n.spelled(h.values, name)
		if (v == nil) != (o.Ends[i] == nil) || v != nil && *v != *o.Ends[i] {
			return false
		}
	}
	return true
}

// spelled returns what a row has in a column in the form in which values are compared, or nil for NULL.
func (n *joiner) spelled(values []any, column string) *string {
	pos, has := n.positions[column]
	if !has || values[pos] == nil {
		return nil
	}
	text := string(n.forms[pos].append(nil, values[pos])[5:])
	return &text
}

// owned copies values out of the memory of the driver.
func owned(values []any) []any {
	all := make([]any, len(values))
	for i, v := range values {
		if b, ok := v.([]byte); ok {
			v = slices.Clone(b)
		}
		all[i] = v
	}
	return all
}

// hash is over the columns that have the values of the row that stayed.
func (n *joiner) hash(values []any) sum {
	n.buffer = n.buffer[:0]
	for i, f := range n.forms {
		if n.fixed[i] {
			n.buffer = f.append(n.buffer, values[i])
		}
	}
	return sumOf(n.buffer)
}

// held describes a row of the target. Its id is its primary key or, without one, what is in it.
func (n *joiner) held(values []any) heldRow {
	h := heldRow{values: owned(values), sum: n.hash(values)}
	var key []byte
	for _, pos := range n.indexes(n.target.primary) {
		key = n.forms[pos].append(key, h.values[pos])
	}
	if h.id = sumOf(key); len(key) == 0 {
		h.id = h.sum
	}
	return h
}

func (n *joiner) outcome(id sum) (o outcome, ok bool) {
	text, ok := n.state.get(id)
	ok = ok && json.Unmarshal([]byte(text), &o) == nil
	return o, ok
}

func (n *joiner) keep(id sum, o outcome) {
	text, _ := json.Marshal(o) // which never fails for texts and numbers
	n.state.set(id, string(text))
}

// preferred returns what a row has in the column of the policy newest; "" is NULL.
func (n *joiner) preferred(row *joinedRow) string {
	if by := n.spelled(row.values, n.plan.By); by != nil {
		return *by
	}
	return ""
}

// add adds a row to the totals of a row of the target.
func (n *joiner) add(o *outcome, row *joinedRow) {
	ends := n.ends()
	if o.Totals == nil {
		o.Totals, o.Ends = make([]string, len(n.plan.Sum)), make([]*string, len(ends))
	}
	for i, name := range n.plan.Sum {
		v := row.values[n.positions[name]]
		more, ok := new(big.Rat).SetString(plainNumber(textOf(v)))
		if v == nil || !ok {
			continue
		}
		if before, ok := new(big.Rat).SetString(o.Totals[i]); ok {
			more.Add(more, before)
		}
		o.Totals[i] = more.RatString()
	}
	for i, name := range ends {
		v, least := n.spelled(row.values, name), i < len(n.plan.Min)
		if v != nil && (o.Ends[i] == nil || (compareTexts(*v, *o.Ends[i]) < 0) == least) {
			o.Ends[i] = v
		}
	}
}

// ordered reports whether the target is asked which of two rows is the newer one: only a database knows the
// order of its intervals, its collations, the members of an ENUM, and years before Christ.
func (n *joiner) ordered(row *joinedRow) bool {
	by, newest := n.positions[n.plan.By]
	if !newest || n.v.target.kind == sqlite || row.values[by] == nil {
		return false
	}
	kind := n.columns[by].class
	return kind == classText || kind == classClock || strings.HasSuffix(textOf(row.values[by]), " BC")
}

// comesFirst reports whether the row that stayed is the one that the policy keeps.
func (n *joiner) comesFirst(h *heldRow, o outcome, row *joinedRow) bool {
	if n.plan.Policy == policyNewest {
		by := n.preferred(row)
		if n.ordered(row) {
			return h.newer
		}
		return by == "" || o.By != "" && compareTexts(o.By, by) >= 0
	}
	return o.Owner <= row.server
}

// move notes what children of the row hold in the target.
func (n *joiner) move(row *joinedRow, held *heldRow) {
	for _, targets := range n.targets {
		key := n.indexes(targets)
		if key == nil || slices.ContainsFunc(key, func(pos int) bool { return row.before[pos] == nil }) {
			continue
		}
		var before, now []byte
		for _, pos := range key {
			before = form{class: n.columns[pos].class, digits: -1}.append(before, row.before[pos])
			now = form{exact: true}.append(now, held.values[pos])
		}
		n.moved.set(moveKey(row.server, targets, before), string(now))
	}
}

// joinLists compares what the tables of the merge say about rows that became one.
type joinLists struct {
	*job
	drops   *index // of one table: by server and key, the row that stayed and whether it differs
	values  *index // of one table: by server, key and column, the value
	example string
	// How many rows each of the two has, how many of them are right, and how many values there should be.
	dropped, valued, rightDrops, rightValues, totals int
}

// read reads what became of the rows of a table in which equal rows became one.
func (l *joinLists) read(ctx context.Context) {
	l.v.list(ctx, listOfDrops, "server, row_key, keeper_server, keeper_key, differs", l.name,
		func(row []string) {
			l.dropped++
			l.drops.set(rowAt(l.v.position(row[0]), row[1]),
				fmt.Sprintf("%x ", rowAt(l.v.position(row[2]), shortened(row[3])))+row[4])
		})
	l.v.list(ctx, listOfValues, "server, row_key, col, value", l.name, func(row []string) {
		l.valued++
		l.values.set(rowAt(l.v.position(row[0]), row[1]+"\x00"+row[2]), row[3])
	})
}

// joined looks up a row that became another one. If several rows of one server are equal, nobody can tell
// which of them stayed.
func (l *joinLists) joined(row *joinedRow, keeper outcome, differs bool) {
	text, ok := l.drops.get(rowAt(row.server, row.key))
	if !ok && keeper.Twins && keeper.Owner == row.server {
		return
	}
	stays, differed, _ := strings.Cut(text, " ")
	kept := keeper.Twins || stays == fmt.Sprintf("%x", rowAt(keeper.Owner, keeper.Key))
	if ok && kept && (differed == "1") == differs {
		l.rightDrops++
	} else if l.example == "" {
		l.example = fmt.Sprintf("%s: row %s", l.v.plan.Servers[row.server].Name, row.key)
	}
}

// total looks up a value of a row that others became. Without one to compare, it is enough that it is there.
func (l *joinLists) total(keeper outcome, column, want string) {
	l.totals++
	text, ok := l.values.get(rowAt(keeper.Owner, keeper.Key+"\x00"+column))
	a, number := new(big.Rat).SetString(want)
	b, too := new(big.Rat).SetString(text)
	if keeper.Twins ||
		ok && (want == "" || number && too && a.FloatString(listDigits) == b.FloatString(listDigits)) {
		l.rightValues++
	}
}

// listDigits is how many digits of a fraction are compared. The list has more.
const listDigits = 15

// settle compares both lists of a table.
func (l *joinLists) settle() {
	rows := l.taken() - l.left - l.present
	l.v.compare("lists", l.name, "", strings.TrimSpace("rows of "+listOfDrops+" that are right "+l.example),
		fmt.Sprintf("%d of %d", rows, rows), fmt.Sprintf("%d of %d", l.rightDrops, l.dropped))
	l.v.compare("lists", l.name, "", "rows of "+listOfValues+" that are right",
		fmt.Sprintf("%d of %d", l.totals, l.totals), fmt.Sprintf("%d of %d", l.rightValues, l.valued))
}
