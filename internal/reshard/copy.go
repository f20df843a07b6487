package reshard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// copies reports whether the row with a key is one that this move copies.
func (mv *move) copies(key int64) bool { return int(key&mv.m.Mask)%mv.modulus == mv.residue }

// copyChunk copies the next rows of a move, and notes that in the same transaction. It returns how many.
func (mv *move) copyChunk(ctx context.Context) (r record, n int64, err error) {
	d := mv.fresh.side.d
	err = d.transaction(ctx, func(q gorm.ConnPool) error {
		if r, err = mv.m.hold(ctx, d, q, mv.id); err != nil || r.last == math.MaxInt64 {
			return err
		}
		err := mv.read(ctx, held{}, q, func(reader gorm.ConnPool) error {
			where, end, err := mv.nextChunk(ctx, reader, r.last)
			if err != nil {
				return err
			}
			strangers, err := numbers(ctx, q, "SELECT "+d.Quote(mv.fresh.Column)+" FROM "+mv.fresh.quoted()+
				" WHERE "+mv.belongs+" AND "+where+" LIMIT 1")
			if err == nil && len(strangers) > 0 {
				err = errStranger(mv, strangers[0])
			}
			if err == nil {
				err = mv.insert(ctx, reader, q, where)
			}
			if err == nil {
				n, err = mv.copied(ctx, q, where)
			}
			r.last, r.copied = end, r.copied+n
			return err
		})
		if err != nil {
			return err
		}
		return mv.m.save(ctx, d, q, mv.id, r)
	})
	return r, n, err
}

// insert copies the rows that meet a condition. It leaves those out whose unique values an outdated copy
// still has. Somebody has written to such a row since its copy was made, so its key is listed.
func (mv *move) insert(ctx context.Context, reader, q gorm.ConnPool, where string) error {
	d := mv.fresh.side.d
	var names []string
	for _, c := range mv.oldColumns {
		names = append(names, c.name)
	}
	begin, end := d.unlessTaken(mv)
	begin = "INSERT INTO " + mv.fresh.quoted() + " (" + d.QuoteAll(names) + ") " + begin
	if !mv.inOne() {
		rows, err := mv.readRows(ctx, mv.old, reader, where)
		if err != nil {
			return err
		}
		return mv.insertRows(ctx, q, rows, begin, end)
	}
	return run(ctx, q, begin+"SELECT "+d.QuoteAll(names)+" FROM "+mv.old.quoted()+" WHERE "+
		mv.belongs+" AND "+where+end)
}

// maxArguments bounds the arguments of one statement. SQLite allows 32,766.
const maxArguments = 30_000

// insertRows writes rows that were read from another database.
func (mv *move) insertRows(
	ctx context.Context, q gorm.ConnPool, rows []tuple, begin, end string,
) error {
	for some := range slices.Chunk(rows, max(1, maxArguments/len(mv.oldColumns))) {
		s := dialect.Write(mv.fresh.side.d.Kind, begin, "VALUES ")
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

// maxWitnesses is how many rows witness that nobody has emptied a table.
const maxWitnesses = 64

// choose chooses the witnesses of a table, from the least key to the greatest one. Each takes one look at the
// index.
func (t *table) choose(ctx context.Context) error {
	d := t.side.d
	t.witnesses = map[int64]bool{}
	if d.Embedded() {
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

// maxRound is how many chunks a round of the list may have.
const maxRound = 100

// errUnseen is wrapped by the error of a cutover that has met rows which no trigger has seen, or a table that
// was emptied.
var errUnseen = errors.New("rows were written that no trigger has seen")

// drain copies the rows again whose keys are the first ones of the list, and removes those from the list that
// it has read. It does not go by numbers that follow others, because transactions do not commit in the order
// of their numbers. It returns how many it has read, and which rows differ still. Those are listed again.
func (s *side) drain(
	ctx context.Context, h held, limit int,
) (read int64, differ []int64, err error) {
	_, all, err := dialect.Query[[]int64](ctx, h.reader(s.d), fmt.Sprintf("SELECT n, t, k FROM %s ORDER BY n "+
		"LIMIT %d", s.d.Quoted(s.keys), limit))
	if err != nil || len(all) == 0 {
		return 0, nil, err
	}
	var numbers []int64
	keys, strays := map[*move][]int64{}, map[*table][]int64{}
	for _, row := range all {
		t, key := s.tables[row[1]], row[2]
		numbers = append(numbers, row[0])
		delete(t.witnesses, key)
		i := slices.IndexFunc(s.m.moves, func(mv *move) bool { return mv.old == t && mv.copies(key) })
		if i < 0 {
			strays[t] = append(strays[t], key)
		} else {
			keys[s.m.moves[i]] = append(keys[s.m.moves[i]], key)
		}
	}
	for t, some := range strays {
		found, err := numbersIn(ctx, h.reader(s.d), t, some)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%w: the table %s has rows that do not belong to its shard, such as %d: move them to "+
				"where their keys belong first", errs.ErrSharding, t.now, found[0])
		}
		if err != nil {
			return 0, nil, err
		}
	}
	again := make([][]int64, len(s.tables))
	for _, mv := range s.m.moves {
		slices.Sort(keys[mv])
		found, err := mv.apply(ctx, h, slices.Compact(keys[mv]))
		if err != nil {
			return 0, nil, fmt.Errorf("%s from %s: %w", mv.fresh.Name, mv.old.now, err)
		}
		again[mv.old.n] = append(again[mv.old.n], found...)
	}
	s.m.reached(stepApplied)
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
func (mv *move) apply(ctx context.Context, h held, keys []int64) (differ []int64, err error) {
	for some := range slices.Chunk(keys, maxKeys) {
		err := h.write(ctx, mv.fresh.side.d, func(q gorm.ConnPool) error {
			r, err := mv.m.hold(ctx, mv.fresh.side.d, q, mv.id)
			if err != nil {
				return err
			}
			key := mv.fresh.side.d.Quote(mv.fresh.Column)
			// The range keeps PostgreSQL from reading the whole table if it knows little about it.
			where := fmt.Sprintf("%s BETWEEN %d AND %d AND %[1]s IN (%[4]s)", key, some[0], some[len(some)-1],
				list(some))
			before, err := mv.copied(ctx, q, where)
			if err == nil {
				err = run(ctx, q, "DELETE FROM "+mv.fresh.quoted()+" WHERE "+mv.belongs+" AND "+where)
			}
			if err == nil {
				err = mv.read(ctx, h, q, func(reader gorm.ConnPool) error {
					if err := mv.insert(ctx, reader, q, where); err != nil {
						return err
					}
					found, _, err := mv.compare(ctx, reader, q, where)
					differ = append(differ, found...)
					return err
				})
			}
			after := int64(0)
			if err == nil {
				after, err = mv.copied(ctx, q, where)
			}
			if err != nil || after == before {
				return err
			}
			r.copied += after - before
			return mv.m.save(ctx, mv.fresh.side.d, q, mv.id, r)
		})
		if err != nil {
			return nil, err
		}
	}
	return differ, nil
}
