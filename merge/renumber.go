package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// keyOffsets is what the policy entry renumber adds to the keys of each table and server.
type keyOffsets struct {
	ws       *workspace
	added    map[tableServer]int64 // with the server allServers: the greatest key afterwards
	counters map[tableServer]int64 // the greatest key that a server has given out, even if its row is gone
	zeros    map[tableServer]bool  // a row has the key 0, so 0 is a key that moves, and not the word for none
	beyond   map[string]int64      // tables whose new keys would look like those of a generator, and how large
	gaps     []Gap                 // where keys move apart
	gapless  map[string]string     // tables for which there is no gap, and why
}

// keySpan is the range of the keys that a server has counted in a table, also of rows that are deleted.
// Without any, greatest is -1.
type keySpan struct{ least, greatest int64 }

// width is how many numbers the range has.
func (s keySpan) width() int64 {
	if s.greatest < 0 {
		return 0
	}
	return s.greatest - s.least + 1
}

// with is the range of both.
func (s keySpan) with(other keySpan) keySpan {
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
	if stored, err := o.read(ctx); err != nil || stored {
		return err
	}
	found := &keyOffsets{ws: o.ws, added: map[tableServer]int64{}, counters: map[tableServer]int64{},
		zeros: map[tableServer]bool{}, beyond: map[string]int64{}, gapless: map[string]string{}}
	var apart []*apartTable
	for _, j := range o.ws.order {
		c := j.key()
		if c == nil || c.Family != sqldb.FamilyInt {
			continue
		}
		spans, err := found.spans(ctx, j, c)
		if err != nil {
			return fmt.Errorf("table %s: the keys that were given out cannot be read: %w", j.name, err)
		}
		switch j.plan.Renumber {
		case Behind:
			found.behind(j, spans)
		case Apart:
			apart = append(apart, &apartTable{name: j.name, key: c.Name, own: spans})
		}
	}
	if err := found.apart(ctx, apart); err != nil {
		return fmt.Errorf("a range for the keys cannot be found: %w", err)
	}
	*o = *found
	return nil
}

// spans returns the range of the keys of a table for each server, and remembers the counters.
func (o *keyOffsets) spans(ctx context.Context, j *tableJob, c *sqldb.Column) ([]keySpan, error) {
	spans := slices.Repeat([]keySpan{{-1, -1}}, len(o.ws.servers))
	for i, s := range o.ws.servers {
		of := tableServer{j.name, s.Number}
		src := j.sources[i]
		if src == nil || src.from.Column(c.Name) == nil {
			continue
		}
		counter, err := s.db.Counter(ctx, src.from, c.Name)
		if err != nil {
			return nil, err
		}
		if o.counters[of] = counter; j.plan.Renumber == "" {
			continue
		}
		if spans[i], err = o.span(ctx, i, j.name, c.Name, counter); err != nil {
			return nil, err
		}
		o.zeros[of] = spans[i].least == 0
	}
	return spans, nil
}

// behind lets the keys of each server begin behind the greatest key that the servers before it have given
// out, even if the rows were deleted since.
func (o *keyOffsets) behind(j *tableJob, spans []keySpan) {
	last := int64(-1) // the greatest new key that was given out so far
	for i, s := range o.ws.servers {
		of := tableServer{j.name, s.Number}
		if o.added[of] = max(last, 0); o.zeros[of] {
			o.added[of] = last + 1
		}
		if spans[i].greatest >= 0 {
			last = spans[i].greatest + o.added[of]
		}
		if last >= o.ws.minGenerated {
			o.beyond[j.name] = last
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
	g := &gapSearch{ws: o.ws, refer: referring(o.ws)}
	var err error
	if g.survey, err = (surveyor{o.ws}).known(ctx); err != nil {
		return err
	}
	if err := g.place(ctx, tables); err != nil {
		return err
	}
	for _, t := range tables {
		if t.why != "" {
			o.gapless[t.name] = t.why
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

// span returns the range of the keys that a server has counted in a table. Those of deleted rows are known by
// its counter, unless that stands behind the last ID of a generator.
func (o *keyOffsets) span(ctx context.Context, server int, table, key string, counter int64) (keySpan,
	error) {
	least, greatest, made, err := o.counted(ctx, server, table, key)
	if counter > 0 && (counter < o.ws.minGenerated || !made) {
		if greatest = max(greatest, counter); least < 0 {
			least = 1
		}
	}
	return keySpan{least, greatest}, err
}

// counted returns the least and the greatest key of a table of a server that was counted, each -1 without
// one, and whether there are keys that a generator made.
func (o *keyOffsets) counted(ctx context.Context, server int,
	table, column string) (least, greatest int64, made bool, err error) {
	db := o.ws.servers[server].db
	key := db.Kind.Quote(column)
	limit := strconv.FormatInt(o.ws.minGenerated, 10)
	from := " FROM " + newSelection(o.ws, server).table(table) + " WHERE " + key
	err = db.Row(ctx, sqldb.NewStatement(db.Kind, "SELECT COALESCE(MIN(", key, "), -1), COALESCE(MAX(", key,
		"), -1)"+from+" >= 0 AND ", key, " < ", limit), &least, &greatest)
	if err != nil {
		return 0, 0, false, err
	}
	rows, err := db.Strings(ctx, sqldb.NewStatement(db.Kind, "SELECT 1"+from+" >= ", limit, " LIMIT 1"))
	return least, greatest, len(rows) > 0, err
}

// read reads what a run has stored; it reports whether there is anything.
func (o *keyOffsets) read(ctx context.Context) (bool, error) {
	t := o.ws.target
	exists, err := t.HasTable(ctx, tableOffsets)
	if err != nil || !exists {
		return false, err
	}
	state, err := (&journal{target: t}).state(ctx)
	if err != nil || state.name == "" {
		return false, err
	}
	added, counters, zeros := map[tableServer]int64{}, map[tableServer]int64{}, map[tableServer]bool{}
	rows, err := t.Strings(ctx, sqldb.NewStatement(t.Kind, "SELECT tbl, server, added, counter FROM ",
		t.Kind.Quote(tableOffsets)))
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		of := tableServer{table: row[0]}
		var offset, counter int64
		if _, err := fmt.Sscan(row[1]+" "+row[2]+" "+row[3], &of.server, &offset, &counter); err != nil {
			return false, fmt.Errorf("%s cannot be read: %w", tableOffsets, err)
		}
		counters[of] = counter
		if j := o.ws.jobs[of.table]; j != nil && j.plan.Renumber != "" {
			added[of] = offset
		}
	}
	for of := range added { // the sources are what they were, so this has not changed either
		i := slices.IndexFunc(o.ws.servers, func(s *server) bool { return s.Number == of.server })
		j := o.ws.jobs[of.table]
		if i < 0 || j.sources[i] == nil || j.sources[i].from.Column(j.key().Name) == nil {
			continue
		}
		least, _, _, err := o.counted(ctx, i, of.table, j.key().Name)
		if err != nil {
			return false, err
		}
		zeros[of] = least == 0
	}
	o.added, o.counters, o.zeros = added, counters, zeros
	return true, nil
}

// keep stores the offsets, in the transaction of the caller.
func (o *keyOffsets) keep(ctx context.Context) error {
	t := o.ws.target
	for _, j := range o.ws.order {
		numbers := []int64{allServers}
		for _, s := range o.ws.servers {
			numbers = append(numbers, s.Number)
		}
		for _, number := range numbers {
			of := tableServer{j.name, number}
			added, renumbered := o.added[of]
			counter, counted := o.counters[of]
			if !renumbered && !counted {
				continue
			}
			q := sqldb.NewStatement(t.Kind, "INSERT INTO ", t.Kind.Quote(tableOffsets),
				" (tbl, server, added, counter) VALUES (").BindAll(j.name, number, added, counter).Add(")")
			if _, err := t.Run(ctx, q); err != nil {
				return err
			}
		}
	}
	return nil
}

// counter returns the greatest key that a table of the target must be taken to have given out.
func (o *keyOffsets) counter(table string) int64 {
	greatest := o.added[tableServer{table, allServers}]
	for _, s := range o.ws.servers {
		of := tableServer{table, s.Number}
		counter := o.counters[of]
		if counter < o.ws.minGenerated {
			counter += o.added[of]
		}
		greatest = max(greatest, counter)
	}
	return greatest
}

// separates reports whether every key of a renumbered table gets a value that no other server's key gets.
func (o *keyOffsets) separates(ctx context.Context, j *tableJob) (bool, error) {
	for i, src := range j.sources {
		if src == nil {
			continue
		}
		db := o.ws.servers[i].db
		key := db.Kind.Quote(j.key().Name)
		n, err := db.Number(ctx, sqldb.NewStatement(db.Kind, "SELECT COUNT(*) FROM ",
			newSelection(o.ws, i).table(j.name), " WHERE ", key, " IS NULL OR ", key, " < 0 OR ",
			key, " >= ", strconv.FormatInt(o.ws.minGenerated, 10)))
		if err != nil || n > 0 {
			return false, err
		}
	}
	return true, nil
}

// newKey returns the key that a row has in the target.
func (o *keyOffsets) newKey(of tableServer, key any) any {
	offset := o.added[of]
	if offset == 0 {
		return key // It may be a text, such as 007, that only looks like a number.
	}
	n, err := sqldb.Integer(key)
	id, ok := n.(int64)
	if err == nil && ok && (id > 0 || id == 0 && o.zeros[of]) && id < o.ws.minGenerated {
		return id + offset
	}
	return key
}
