package reshard

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// comparer compares rows with their copies.
type comparer struct{ *machine }

// A job copies the columns that the table has, which is not what the model may read and write. So rows are
// read and written by SQL of its own, in a form that no driver rounds or converts.

// column is a column that can be written to.
type column struct {
	name string
	kind string // the type, as the catalog names it
}

// readColumns reads the columns of all tables. It refuses a column that the new table lacks.
func (m *comparer) readColumns(ctx context.Context) error {
	for _, mv := range m.moves {
		from, err := mv.from.side.d.columnsOf(ctx, mv.from.side.d.pool, mv.from.now)
		if err != nil {
			return err
		}
		into, err := mv.to.side.d.columnsOf(ctx, mv.to.side.d.pool, mv.to.Name)
		if err != nil {
			return err
		}
		mv.columns, mv.into = from, nil
		for _, c := range from {
			i := slices.IndexFunc(into, func(o column) bool { return o.name == c.name })
			if i < 0 {
				return fmt.Errorf("%w: the table %s has a column %s that the model does not have, and so the new "+
					"table %s has none: add it to the model, or to the new table as it is in the old one",
					errs.ErrSharding, mv.from.now, c.name, mv.to.Name)
			}
			mv.into = append(mv.into, into[i])
		}
	}
	return nil
}

// compareAll compares all rows of a move with their copies while others write, and lists the keys of those
// that differ. In one database the server says for which rows that has to be done, so the others do not
// travel.
func (m *comparer) compareAll(ctx context.Context, mv *move) error {
	s := mv.from.side
	if mv.inOne() {
		differ, err := m.differing(ctx, mv)
		for some := range slices.Chunk(differ, maxKeys) {
			if err == nil {
				err = m.compareSome(ctx, mv, s.d.Quote(mv.from.Column)+" IN ("+list(some)+")")
			}
		}
		return err
	}
	for last := int64(math.MinInt64); last < math.MaxInt64; {
		where, end, err := m.nextChunk(ctx, mv, s.d.pool, last)
		if err == nil {
			err = m.compareSome(ctx, mv, where)
		}
		if err != nil {
			return err
		}
		last = end
	}
	return nil
}

// compareSome does what compareAll says for the rows that meet a condition.
func (m *comparer) compareSome(ctx context.Context, mv *move, where string) error {
	s := mv.from.side
	differ, alone, err := m.compare(ctx, mv, s.d.pool, mv.to.side.d.pool, where)
	if err == nil {
		err = m.refuseStrangers(ctx, mv, alone)
	}
	if err == nil {
		err = s.enlist(ctx, s.d.pool, mv.from, differ)
	}
	return err
}

// differing asks a database for the keys of the rows that differ from their copies in it.
func (m *comparer) differing(ctx context.Context, mv *move) (differ []int64, err error) {
	d := mv.to.side.d
	key := d.Quote(mv.to.Column)
	for _, one := range [...][2]*table{{mv.from, mv.to}, {mv.to, mv.from}} {
		this, that := one[0].quoted(), one[1].quoted()
		found, err := numbers(ctx, d.pool, fmt.Sprintf("SELECT %[1]s.%[2]s FROM %[1]s WHERE %[3]s AND NOT "+
			"EXISTS (SELECT 1 FROM %[4]s WHERE %[4]s.%[2]s = %[1]s.%[2]s AND %[5]s)", this, key, mv.belongs, that,
			mv.sameSQL(this, that)))
		if err != nil {
			return nil, err
		}
		differ = append(differ, found...)
	}
	slices.Sort(differ)
	return slices.Compact(differ), nil
}

// sameSQL is the condition that all columns of two rows are the same, byte for byte, and NULL is a value.
func (mv *move) sameSQL(this, that string) string {
	d := mv.to.side.d
	var same, left, right []string
	for i, c := range mv.columns {
		a, b := this+"."+d.Quote(c.name), that+"."+d.Quote(c.name)
		if d.Kind == dialect.SQLite {
			// The plus sign removes the affinity of a column, by which a text could be compared as a number.
			same = append(same,
				fmt.Sprintf("typeof(%s) = typeof(%s) AND (+%[1]s) COLLATE BINARY IS (+%[2]s)", a, b))
			continue
		}
		if of, _ := d.exactly(c, this); d.Kind == dialect.MySQL {
			into, _ := d.exactly(mv.into[i], that)
			same = append(same, fmt.Sprintf("CAST(%s AS BINARY) <=> CAST(%s AS BINARY)", of, into))
			continue
		}
		if c.kind != mv.into[i].kind {
			a, b = a+"::text", b+"::text"
		}
		left, right = append(left, a), append(right, b)
	}
	if left != nil {
		// Images differ where texts that a collation takes for equal do, or 1.0 and 1.00. Without the cast to
		// record, PostgreSQL would look for such an operator of each column.
		return "ROW(" + strings.Join(left, ", ") + ")::record *= ROW(" + strings.Join(right, ", ") + ")::record"
	}
	return strings.Join(same, " AND ")
}

// nextChunk returns the condition for the next rows of a move after a key, and the key with which they end.
// The end is looked up among all rows of the old table, of which those of the move are an even share. By their
// class PostgreSQL would read the whole table for each chunk: it takes so few rows to be of one that it sorts them.
func (m *comparer) nextChunk(
	ctx context.Context, mv *move, q gorm.ConnPool, last int64,
) (where string, end int64, err error) {
	key := mv.from.side.d.Quote(mv.from.Column)
	rows := m.Chunk * mv.modulus / mv.from.side.Modulus
	ends, err := numbers(ctx, q, fmt.Sprintf("SELECT %s FROM %s WHERE %[1]s > %[3]d ORDER BY %[1]s LIMIT 1 "+
		"OFFSET %[4]d", key, mv.from.quoted(), last, rows-1))
	end = append(ends, math.MaxInt64)[0]
	return fmt.Sprintf("%s > %d AND %[1]s <= %[3]d", key, last, end), end, err
}

// refuseStrangers refuses to go on if one of the rows that are in the new table alone was not put there by
// the job. It would be removed as an outdated copy. If its key is in the list, a program has written to the
// row in the old table. If not, it can also be the copy of a row that has vanished without a trigger. So the
// rows are counted then: the journal says how many the job has put there.
func (m *comparer) refuseStrangers(ctx context.Context, mv *move, alone []int64) error {
	s, d := mv.from.side, mv.to.side.d
	for some := range slices.Chunk(alone, maxKeys) {
		listed, err := numbers(ctx, s.d.pool, fmt.Sprintf("SELECT k FROM %s WHERE t = %d AND k IN (%s)",
			s.d.Quoted(s.keys), mv.from.n, list(some)))
		if err != nil {
			return err
		}
		n := slices.IndexFunc(some, func(key int64) bool { return !slices.Contains(listed, key) })
		if n < 0 {
			continue
		}
		return d.transaction(ctx, func(q gorm.ConnPool) error {
			r, err := m.hold(ctx, d, q, mv.id)
			if err != nil {
				return err
			}
			rows, err := (&copier{m.machine}).copied(ctx, mv, q, "1 = 1")
			if err == nil && rows > r.copied {
				err = errStranger(mv, some[n])
			}
			return err
		})
	}
	return nil
}

// isBytes reports whether a type of MySQL has neither a character set nor a collation.
func isBytes(kind string) bool {
	switch kind {
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return true
	}
	return false
}

func isGeometry(kind string) bool {
	switch kind {
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
		"geometrycollection", "geomcollection":
		return true
	}
	return false
}

// row is a row as it is copied to another database. Its values are numbers, text, bytes or nil.
type row struct {
	key    int64
	values []any
}

// plain returns a value that can be compared. A text is equal to the same bytes, which a column of another
// type may hold.
func plain(value any) any {
	if bytes, ok := value.([]byte); ok {
		return string(bytes)
	}
	return value
}

func (r row) equals(other row) bool {
	return r.key == other.key && slices.EqualFunc(r.values, other.values, func(a, b any) bool {
		return plain(a) == plain(b)
	})
}

// image is equal for equal rows only.
func (r row) image() string {
	var b strings.Builder
	for _, value := range r.values {
		text := fmt.Sprint(plain(value))
		fmt.Fprintf(&b, "%T %d %s ", plain(value), len(text), text)
	}
	return b.String()
}

// readRows reads rows of a table that meet a condition, in the order of their keys.
func (m *comparer) readRows(
	ctx context.Context, mv *move, t *table, q gorm.ConnPool, where string,
) (all []row, err error) {
	d := t.side.d
	columns := mv.columns
	if t == mv.to {
		columns = mv.into
	}
	read := []string{d.Quote(t.Column)}
	isText := make([]bool, len(columns))
	for i, c := range columns {
		var expression string
		expression, isText[i] = d.exactly(c, t.quoted())
		read = append(read, expression)
	}
	err = each(ctx, q, func(rows *sql.Rows) error {
		r := row{values: make([]any, len(columns))}
		into := []any{&r.key}
		for i := range r.values {
			into = append(into, &r.values[i])
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, value := range r.values {
			if text, ok := value.([]byte); ok && isText[i] {
				r.values[i] = string(text)
			}
		}
		all = append(all, r)
		return nil
	}, "SELECT "+strings.Join(read, ", ")+" FROM "+t.quoted()+" WHERE "+mv.belongs+" AND "+where+" ORDER BY 1")
	return all, err
}

// compare compares the rows that meet a condition with their copies. It returns the keys of those that
// differ, and those of rows that only the new table has.
func (m *comparer) compare(
	ctx context.Context, mv *move, reader, q gorm.ConnPool, where string,
) (differ, alone []int64, err error) {
	rows, err := m.readRows(ctx, mv, mv.from, reader, where)
	if err != nil {
		return nil, nil, err
	}
	copies, err := m.readRows(ctx, mv, mv.to, q, where)
	if err != nil {
		return nil, nil, err
	}
	count := map[int64]map[string]int{} // rows less copies, by key and image
	add := func(r row, n int) {
		if count[r.key] == nil {
			count[r.key] = map[string]int{}
		}
		count[r.key][r.image()] += n
	}
	for len(rows)+len(copies) > 0 {
		switch {
		case len(rows) > 0 && len(copies) > 0 && rows[0].equals(copies[0]):
			rows, copies = rows[1:], copies[1:]
		case len(copies) == 0 || len(rows) > 0 && rows[0].key <= copies[0].key:
			add(rows[0], 1)
			rows = rows[1:]
		default:
			add(copies[0], -1)
			copies = copies[1:]
		}
	}
	for key, images := range count {
		for _, n := range images {
			if n != 0 {
				differ = append(differ, key)
			}
			if n < 0 {
				alone = append(alone, key)
			}
		}
	}
	slices.Sort(differ)
	return slices.Compact(differ), alone, nil
}
