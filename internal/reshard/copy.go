package reshard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// copies reports whether the row with a key is one that this move copies.
func (mv *move) copies(key int64) bool { return int(key&mv.m.Mask)%mv.Modulus == mv.Residue }

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
func (mv *move) insertRows(ctx context.Context, q gorm.ConnPool, rows []tuple, begin, end string) error {
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
func (s *side) drain(ctx context.Context, h held, limit int) (read int64, differ []int64, err error) {
	var all [][]int64
	// It reads what is committed, whatever the server does by default: of others the rows are not written yet.
	err = h.reading(ctx, s.d, func(q gorm.ConnPool) error {
		_, all, err = dialect.Query[[]int64](ctx, q, fmt.Sprintf("SELECT n, t, k FROM %s ORDER BY n LIMIT %d",
			s.d.Quoted(s.keys), limit))
		return err
	})
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

// readColumns reads the columns of both tables. It refuses a column that the new table lacks.
func (mv *move) readColumns(ctx context.Context) (err error) {
	if mv.oldColumns, err = mv.old.side.d.columnsOf(ctx, mv.old.side.d.pool, mv.old.now); err != nil {
		return err
	}
	found, err := mv.fresh.side.d.columnsOf(ctx, mv.fresh.side.d.pool, mv.fresh.Name)
	mv.freshColumns = nil
	for _, c := range mv.oldColumns {
		i := slices.IndexFunc(found, func(o column) bool { return o.name == c.name })
		if err == nil && i < 0 {
			err = fmt.Errorf("%w: the table %s has a column %s that the model does not have, and so the new "+
				"table %s has none: add it to the model, or to the new table as it is in the old one",
				errs.ErrSharding, mv.old.now, c.name, mv.fresh.Name)
		}
		if err != nil {
			return err
		}
		mv.freshColumns = append(mv.freshColumns, found[i])
	}
	return err
}

// inOne reports whether both tables are in one database.
func (mv *move) inOne() bool { return mv.old.side.d == mv.fresh.side.d }

// read calls do with where the rows of the old table are read, which is where the copies are written if both
// are in one database.
func (mv *move) read(
	ctx context.Context, h held, q gorm.ConnPool, do func(reader gorm.ConnPool) error,
) error {
	if mv.inOne() {
		return do(q)
	}
	return h.reading(ctx, mv.old.side.d, do)
}

// compareAll compares all rows of a move with their copies while others write, and lists the keys of those
// that differ. In one database the server says for which rows that has to be done, so the others do not
// travel.
func (mv *move) compareAll(ctx context.Context) error {
	s := mv.old.side
	if mv.inOne() {
		differ, err := mv.differing(ctx)
		for some := range slices.Chunk(differ, maxKeys) {
			if err == nil {
				err = mv.compareSome(ctx, s.d.Quote(mv.old.Column)+" IN ("+list(some)+")")
			}
		}
		return err
	}
	for last := int64(math.MinInt64); last < math.MaxInt64; {
		where, end, err := mv.nextChunk(ctx, s.d.pool, last)
		if err == nil {
			err = mv.compareSome(ctx, where)
		}
		if err != nil {
			return err
		}
		last = end
	}
	return nil
}

// compareSome does what compareAll says for the rows that meet a condition.
func (mv *move) compareSome(ctx context.Context, where string) error {
	s := mv.old.side
	var differ, alone []int64
	err := held{}.reading(ctx, mv.fresh.side.d, func(q gorm.ConnPool) error {
		return mv.read(ctx, held{}, q, func(reader gorm.ConnPool) (err error) {
			differ, alone, err = mv.compare(ctx, reader, q, where)
			return err
		})
	})
	if err == nil {
		err = mv.refuseStrangers(ctx, alone)
	}
	if err == nil {
		err = s.enlist(ctx, s.d.pool, mv.old, differ)
	}
	return err
}

// differing asks a database for the keys of the rows that differ from their copies in it.
func (mv *move) differing(ctx context.Context) (differ []int64, err error) {
	d := mv.fresh.side.d
	key := d.Quote(mv.fresh.Column)
	err = held{}.reading(ctx, d, func(q gorm.ConnPool) error {
		for _, one := range [...][2]*table{{mv.old, mv.fresh}, {mv.fresh, mv.old}} {
			this, that := one[0].quoted(), one[1].quoted()
			found, err := numbers(ctx, q, fmt.Sprintf("SELECT %[1]s.%[2]s FROM %[1]s WHERE %[3]s AND NOT "+
				"EXISTS (SELECT 1 FROM %[4]s WHERE %[4]s.%[2]s = %[1]s.%[2]s AND %[5]s)", this, key, mv.belongs, that,
				d.same(mv, this, that)))
			if err != nil {
				return err
			}
			differ = append(differ, found...)
		}
		return nil
	})
	slices.Sort(differ)
	return slices.Compact(differ), err
}

// nextChunk returns the condition for the next rows of a move after a key, and the key with which they end.
// The end is looked up among all rows of the old table, of which those of the move are an even share. By
// their class PostgreSQL would read the whole table for each chunk, because it expects so few rows to be of
// one that it sorts them.
func (mv *move) nextChunk(
	ctx context.Context, q gorm.ConnPool, last int64,
) (where string, end int64, err error) {
	key := mv.old.side.d.Quote(mv.old.Column)
	rows := mv.m.Chunk * mv.Modulus / mv.old.side.Modulus
	ends, err := numbers(ctx, q, fmt.Sprintf("SELECT %s FROM %s WHERE %[1]s > %[3]d ORDER BY %[1]s LIMIT 1 "+
		"OFFSET %[4]d", key, mv.old.quoted(), last, rows-1))
	end = append(ends, math.MaxInt64)[0]
	return fmt.Sprintf("%s > %d AND %[1]s <= %[3]d", key, last, end), end, err
}

// refuseStrangers refuses to go on if one of the rows that are in the new table alone was not put there by
// the job. It would be removed as an outdated copy. If its key is in the list, a program has written to the
// row in the old table. If not, it can also be the copy of a row that has vanished without a trigger. So the
// rows are counted then: the journal says how many the job has put there.
func (mv *move) refuseStrangers(ctx context.Context, alone []int64) error {
	s, d := mv.old.side, mv.fresh.side.d
	for some := range slices.Chunk(alone, maxKeys) {
		listed, err := numbers(ctx, s.d.pool, fmt.Sprintf("SELECT k FROM %s WHERE t = %d AND k IN (%s)",
			s.d.Quoted(s.keys), mv.old.n, list(some)))
		if err != nil {
			return err
		}
		n := slices.IndexFunc(some, func(key int64) bool { return !slices.Contains(listed, key) })
		if n < 0 {
			continue
		}
		return d.transaction(ctx, func(q gorm.ConnPool) error {
			r, err := mv.m.hold(ctx, d, q, mv.id)
			if err != nil {
				return err
			}
			rows, err := mv.copied(ctx, q, "1 = 1")
			if err == nil && rows > r.copied {
				err = errStranger(mv, some[n])
			}
			return err
		})
	}
	return nil
}

// copied counts the copies that meet a condition.
func (mv *move) copied(ctx context.Context, q gorm.ConnPool, where string) (int64, error) {
	return number(ctx, q, "SELECT COUNT(*) FROM "+mv.fresh.quoted()+" WHERE "+mv.belongs+" AND "+where)
}

// errStranger is the error of a row in a new table that the job has not put there.
func errStranger(mv *move, key int64) error {
	return fmt.Errorf("%w: the table %s has a row with %s = %d that somebody has written to it before the "+
		"cutover, when programs use %s: store the row by the router if it is wanted, delete it from %[2]s, and "+
		"call this again", errs.ErrSharding, mv.fresh.Name, mv.fresh.Column, key, mv.old.now)
}

// tuple is a row as it is copied to another database. Its values are numbers, text, bytes or nil.
type tuple struct {
	key    int64
	values []any
}

// image is equal for equal rows only. A text is equal to the same bytes, which a column of another type may
// hold.
func (r tuple) image() string {
	var b strings.Builder
	for _, value := range r.values {
		if bytes, ok := value.([]byte); ok {
			value = string(bytes)
		}
		text := fmt.Sprint(value)
		fmt.Fprintf(&b, "%T %d %s ", value, len(text), text)
	}
	return b.String()
}

// readRows reads rows of a table that meet a condition, in the order of their keys.
func (mv *move) readRows(
	ctx context.Context, t *table, q gorm.ConnPool, where string,
) (all []tuple, err error) {
	d := t.side.d
	columns := mv.oldColumns
	if t == mv.fresh {
		columns = mv.freshColumns
	}
	read := []string{d.Quote(t.Column)}
	isText := make([]bool, len(columns))
	for i, c := range columns {
		var expression string
		expression, isText[i] = d.exactly(c, t.quoted())
		read = append(read, expression)
	}
	//nolint:rowserrcheck // EachRow does both.
	rows, err := q.QueryContext(ctx, "SELECT "+strings.Join(read, ", ")+" FROM "+t.quoted()+" WHERE "+
		mv.belongs+" AND "+where+" ORDER BY 1")
	err = dialect.EachRow(rows, err, func(rows *sql.Rows) error {
		r := tuple{values: make([]any, len(columns))}
		cells := []any{&r.key}
		for i := range r.values {
			cells = append(cells, &r.values[i])
		}
		if err := rows.Scan(cells...); err != nil {
			return err
		}
		for i, value := range r.values {
			switch b, ok := value.([]byte); {
			case ok && isText[i]:
				r.values[i] = string(b)
			case ok && b == nil: // no bytes, which some drivers return so, and not NULL
				r.values[i] = []byte{}
			}
		}
		all = append(all, r)
		return nil
	})
	return all, err
}

// compare compares the rows that meet a condition with their copies. It returns the keys of those that
// differ, and those of rows that only the new table has.
func (mv *move) compare(
	ctx context.Context, reader, q gorm.ConnPool, where string,
) (differ, alone []int64, err error) {
	rows, err := mv.readRows(ctx, mv.old, reader, where)
	if err != nil {
		return nil, nil, err
	}
	copies, err := mv.readRows(ctx, mv.fresh, q, where)
	if err != nil {
		return nil, nil, err
	}
	type seen struct {
		key   int64
		image string
	}
	count := map[seen]int{} // rows less copies
	for _, r := range rows {
		count[seen{r.key, r.image()}]++
	}
	for _, r := range copies {
		count[seen{r.key, r.image()}]--
	}
	for r, n := range count {
		if n != 0 {
			differ = append(differ, r.key)
		}
		if n < 0 {
			alone = append(alone, r.key)
		}
	}
	slices.Sort(differ)
	return slices.Compact(differ), alone, nil
}
