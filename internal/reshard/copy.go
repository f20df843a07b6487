package reshard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// copier copies rows, first all of them and then those that are listed.
type copier struct{ *machine }

// maxKeys is how many keys a statement lists. From a thousand on, MariaDB makes a table of them.
const maxKeys = 500

// inOne reports whether both tables are in one database.
func (mv *move) inOne() bool { return mv.from.side.d == mv.to.side.d }

// copies reports whether the row with a key is one that this move copies.
func (m *copier) copies(mv *move, key int64) bool { return int(key&m.Mask)%mv.modulus == mv.residue }

// copyAll copies all rows that are not copied yet.
func (m *copier) copyAll(ctx context.Context) error {
	for _, mv := range m.moves {
		count, err := number(ctx, mv.from.side.d.pool, "SELECT COUNT(*) FROM "+mv.from.quoted()+
			" WHERE "+mv.belongs)
		if err != nil {
			return err
		}
		since, moved := time.Now(), int64(0)
		for done := false; !done; {
			r, n, err := m.copyChunk(ctx, mv)
			if err != nil {
				return fmt.Errorf("%s from %s: %w", mv.to.Name, mv.from.now, err)
			}
			moved, done = moved+n, r.last == math.MaxInt64
			p := Progress{Step: "copy", Table: mv.to.Name, Rows: r.copied, Of: max(count, r.copied)}
			if taken := time.Since(since).Seconds(); taken > 0 && moved > 0 {
				p.PerSecond = float64(moved) / taken
				p.Left = time.Duration(float64(p.Of-p.Rows) / p.PerSecond * float64(time.Second))
			}
			m.Progress(p)
			m.reached(stepCopied)
			if m.RowsPerSecond == 0 {
				continue
			}
			seconds := float64(moved) / float64(m.RowsPerSecond)
			select {
			case <-ctx.Done():
				return errs.Ended(ctx)
			case <-time.After(time.Until(since.Add(time.Duration(seconds * float64(time.Second))))):
			}
		}
	}
	return nil
}

// copyChunk copies the next rows of a move, and notes that in the same transaction. It returns how many.
func (m *copier) copyChunk(ctx context.Context, mv *move) (r record, n int64, err error) {
	d, src := mv.to.side.d, mv.from.side.d
	err = d.transaction(ctx, func(q gorm.ConnPool) error {
		if r, err = m.hold(ctx, d, q, mv.id); err != nil {
			return err
		}
		if r.last == math.MaxInt64 {
			return nil
		}
		reader := q
		if !mv.inOne() {
			reader = src.pool
		}
		where, end, err := (&comparer{m.machine}).nextChunk(ctx, mv, reader, r.last)
		if err != nil {
			return err
		}
		strangers, err := numbers(ctx, q, "SELECT "+d.Quote(mv.to.Column)+" FROM "+mv.to.quoted()+" WHERE "+
			mv.belongs+" AND "+where+" LIMIT 1")
		if err == nil && len(strangers) > 0 {
			err = errStranger(mv, strangers[0])
		}
		if err == nil {
			err = m.insert(ctx, mv, reader, q, where)
		}
		if err == nil {
			n, err = m.copied(ctx, mv, q, where)
		}
		if err != nil {
			return err
		}
		r.last, r.copied = end, r.copied+n
		return m.save(ctx, d, q, mv.id, r)
	})
	return r, n, err
}

// insert copies the rows that meet a condition. It leaves those out whose unique values an outdated copy
// still has. Somebody has written to such a row since its copy was made, so its key is listed.
func (m *copier) insert(ctx context.Context, mv *move, reader, q gorm.ConnPool, where string) error {
	d := mv.to.side.d
	var names []string
	for _, c := range mv.columns {
		names = append(names, c.name)
	}
	begin, end := "INSERT INTO "+mv.to.quoted()+" ("+d.QuoteAll(names)+") ", " ON CONFLICT DO NOTHING"
	switch d.Kind {
	case dialect.PostgreSQL:
		begin += "OVERRIDING SYSTEM VALUE "
	case dialect.MySQL:
		// IGNORE would also ignore values that do not fit.
		key := d.Quote(mv.to.Column)
		end = " ON DUPLICATE KEY UPDATE " + key + " = " + mv.to.quoted() + "." + key
	}
	if !mv.inOne() {
		rows, err := (&comparer{m.machine}).readRows(ctx, mv, mv.from, reader, where)
		if err != nil {
			return err
		}
		return m.insertRows(ctx, mv, q, rows, begin, end)
	}
	return run(ctx, q, begin+"SELECT "+d.QuoteAll(names)+" FROM "+mv.from.quoted()+" WHERE "+
		mv.belongs+" AND "+where+end)
}

// copied counts the copies that meet a condition.
func (m *copier) copied(ctx context.Context, mv *move, q gorm.ConnPool, where string) (int64, error) {
	return number(ctx, q, "SELECT COUNT(*) FROM "+mv.to.quoted()+" WHERE "+mv.belongs+" AND "+where)
}

// maxArguments bounds the arguments of one statement. SQLite allows 32,766.
const maxArguments = 30_000

// insertRows writes rows that were read from another database.
func (m *copier) insertRows(
	ctx context.Context, mv *move, q gorm.ConnPool, rows []row, begin, end string,
) error {
	for some := range slices.Chunk(rows, max(1, maxArguments/len(mv.columns))) {
		s := dialect.Write(mv.to.side.d.Kind, begin, "VALUES ")
		for i, r := range some {
			if i > 0 {
				s.Add(", ")
			}
			s.Add("(").BindAll(r.values...).Add(")")
		}
		if err := execute(ctx, q, s.Add(end)); err != nil {
			return err
		}
	}
	return nil
}

// approach copies what was written meanwhile until little is left of that, compares everything, and does so
// again with what differs.
func (m *copier) approach(ctx context.Context) error {
	if err := m.drainOpen(ctx); err != nil {
		return err
	}
	for _, s := range m.from {
		for _, t := range s.tables {
			if err := t.choose(ctx); err != nil {
				return err
			}
		}
	}
	for _, mv := range m.moves {
		if err := (&comparer{m.machine}).compareAll(ctx, mv); err != nil {
			return fmt.Errorf("comparing %s with %s: %w", mv.to.Name, mv.from.now, err)
		}
		m.Progress(Progress{Step: "compare", Table: mv.to.Name})
	}
	m.reached(stepCompared)
	return m.drainOpen(ctx)
}

// maxWitnesses is how many rows witness that nobody has emptied a table.
const maxWitnesses = 64

// choose chooses the witnesses of a table, from the least key to the greatest one. Each takes one look at the
// index.
func (t *table) choose(ctx context.Context) error {
	d := t.side.d
	t.witnesses = map[int64]bool{}
	if d.Kind == dialect.SQLite {
		return nil // It has no TRUNCATE, and its rows are counted.
	}
	keys := func(where, order string) ([]int64, error) {
		return numbers(ctx, d.pool, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %[1]s %[4]s LIMIT 1",
			d.Quote(t.Column), t.quoted(), where, order))
	}
	greatest, err := keys("1 = 1", "DESC")
	if err != nil || len(greatest) == 0 {
		return err
	}
	next, err := keys("1 = 1", "ASC")
	for least := next; err == nil && len(next) > 0 && next[0] <= greatest[0]; {
		t.witnesses[next[0]] = true
		after := next[0] + (greatest[0]-least[0])/maxWitnesses
		next, err = keys(fmt.Sprintf("%s > %d", d.Quote(t.Column), after), "ASC")
	}
	return err
}

// drainOpen goes through the list while others add to it, until a round is short.
func (m *copier) drainOpen(ctx context.Context) error {
	// A longer round takes less time for each key, so in the end it is faster than those who write.
	for limit := m.Chunk; ; limit = min(2*limit, maxRound*m.Chunk) {
		all, since := int64(0), time.Now()
		for _, s := range m.from {
			n, _, err := m.drain(ctx, s, held{}, limit)
			if err != nil {
				return err
			}
			all += n
		}
		m.Progress(Progress{Step: "drain", Rows: all})
		m.reached(stepDrained)
		if all < int64(limit) && time.Since(since) < shortRound {
			return nil
		}
	}
}

// shortRound is what is left to the cutover, which takes as long for what is written meanwhile.
const shortRound = 100 * time.Millisecond

// maxRound is how many chunks a round of the list may have.
const maxRound = 100

// errUnseen is wrapped by the error of a cutover that has met rows which no trigger has seen, or a table that
// was emptied.
var errUnseen = errors.New("rows were written that no trigger has seen")

// errStranger is the error of a row in a new table that the job has not put there.
func errStranger(mv *move, key int64) error {
	return fmt.Errorf("%w: the table %s has a row with %s = %d that somebody has written to it before the "+
		"cutover, when programs use %s: store the row by the router if it is wanted, delete it from %[2]s, and "+
		"call this again", errs.ErrSharding, mv.to.Name, mv.to.Column, key, mv.from.now)
}

// errMisplaced is the error of a row in a table where the router would not look for it.
func errMisplaced(t *table, keys []int64) error {
	return fmt.Errorf("%w: the table %s has rows that do not belong to its shard, such as %d: move them to "+
		"where their keys belong first", errs.ErrSharding, t.now, keys[0])
}

// drain copies the rows again whose keys are the first ones of the list, and removes those from the list that
// it has read. It does not go by numbers that follow others, because transactions do not commit in the order
// of their numbers. It returns how many it has read, and which rows differ still. Those are listed again.
func (m *copier) drain(
	ctx context.Context, s *side, h held, limit int,
) (read int64, differ []int64, err error) {
	all, err := s.listedKeys(ctx, h.reader(s.d), limit)
	if err != nil || len(all) == 0 {
		return 0, nil, err
	}
	var numbers []int64
	keys, strays := map[*move][]int64{}, map[*table][]int64{}
	for _, l := range all {
		t := s.tables[l.table]
		numbers = append(numbers, l.n)
		delete(t.witnesses, l.key)
		i := slices.IndexFunc(m.moves, func(mv *move) bool { return mv.from == t && m.copies(mv, l.key) })
		if i < 0 {
			strays[t] = append(strays[t], l.key)
		} else {
			keys[m.moves[i]] = append(keys[m.moves[i]], l.key)
		}
	}
	for t, some := range strays {
		found, err := numbersIn(ctx, h.reader(s.d), t, some)
		if err == nil && len(found) > 0 {
			err = errMisplaced(t, found)
		}
		if err != nil {
			return 0, nil, err
		}
	}
	again := make([][]int64, len(s.tables))
	for _, mv := range m.moves {
		slices.Sort(keys[mv])
		found, err := m.apply(ctx, mv, h, slices.Compact(keys[mv]))
		if err != nil {
			return 0, nil, fmt.Errorf("%s from %s: %w", mv.to.Name, mv.from.now, err)
		}
		again[mv.from.n] = append(again[mv.from.n], found...)
	}
	m.reached(stepApplied)
	err = h.write(ctx, s.d, func(q gorm.ConnPool) error {
		for n, t := range s.tables {
			if err := s.enlist(ctx, q, t, again[n]); err != nil {
				return err
			}
			differ = append(differ, again[n]...)
		}
		return s.strike(ctx, q, numbers)
	})
	return int64(len(all)), differ, err
}

// numbersIn returns those of some keys that a table has.
func numbersIn(ctx context.Context, q gorm.ConnPool, t *table, keys []int64) ([]int64, error) {
	key := t.side.d.Quote(t.Column)
	return numbers(ctx, q, "SELECT "+key+" FROM "+t.quoted()+" WHERE "+key+" IN ("+list(keys)+")")
}

// apply makes the copies of some rows new, and returns the keys of those that differ still: somebody has
// written to them meanwhile, or another copy still has a unique value of theirs.
func (m *copier) apply(ctx context.Context, mv *move, h held, keys []int64) (differ []int64, err error) {
	for some := range slices.Chunk(keys, maxKeys) {
		err := h.write(ctx, mv.to.side.d, func(q gorm.ConnPool) error {
			r, err := m.hold(ctx, mv.to.side.d, q, mv.id)
			if err != nil {
				return err
			}
			reader := q
			if !mv.inOne() {
				reader = h.reader(mv.from.side.d)
			}
			key := mv.to.side.d.Quote(mv.to.Column)
			// The range keeps PostgreSQL from reading the whole table if it knows little about it.
			where := fmt.Sprintf("%s BETWEEN %d AND %d AND %[1]s IN (%[4]s)", key, some[0], some[len(some)-1],
				list(some))
			before, err := m.copied(ctx, mv, q, where)
			if err == nil {
				err = run(ctx, q, "DELETE FROM "+mv.to.quoted()+" WHERE "+mv.belongs+" AND "+where)
			}
			if err == nil {
				err = m.insert(ctx, mv, reader, q, where)
			}
			after := int64(0)
			if err == nil {
				after, err = m.copied(ctx, mv, q, where)
			}
			if err != nil {
				return err
			}
			if r.copied += after - before; after != before {
				if err := m.save(ctx, mv.to.side.d, q, mv.id, r); err != nil {
					return err
				}
			}
			found, _, err := (&comparer{m.machine}).compare(ctx, mv, reader, q, where)
			differ = append(differ, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return differ, nil
}
