package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// reader reads the rows of a source table in chunks, ordered by the primary key.
type reader struct {
	ws    *workspace
	src   *sourceTable
	size  int
	where string // one more condition
	after []any  // the position of the last row that was read
	ended bool
	// refused is told of values that cannot be converted, and their rows are left out; without it they are
	// errors.
	refused func(key string, p pair, err error)
	// before is the size of the previous chunk, which is most likely the size of the next one.
	before int
	// limit is how many rows are asked for at a time. It follows the size of the rows.
	limit int
}

// errEnough ends the reading of a chunk that has enough bytes.
var errEnough = errors.New("enough")

// The size of a chunk. While one chunk is written, the next one is read, and drivers and statements hold
// copies of parts of them, so the memory that they take is several times as large. The first chunk of a
// table is small, because nobody knows how large its rows are: rows that are asked for and do not fit into
// the chunk would be read in vain.
const (
	maxChunkBytes  = 8 << 20
	firstChunkRows = 500
)

// nextLimit returns how many rows to ask for after a chunk of so many rows and bytes.
func nextLimit(rows, bytes, size int) int {
	const growth = 4
	if rows == 0 {
		return min(firstChunkRows, size)
	}
	fits := maxChunkBytes / max(1, bytes/rows)
	return max(1, min(size, fits, rows*growth))
}

// sizeOf returns how many bytes a row takes, about.
func sizeOf(values []any) int {
	const cell = 16
	n := cell * len(values)
	for _, v := range values {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// row is a row on its way to the target. The values are in the order of the pairs of its source table.
type row struct {
	values []any
	key    []any // the primary key, as the row had it on its server
	extra  []any // the further expressions of the source table
}

// next reads the next chunk. At the end it returns no rows.
func (r *reader) next(ctx context.Context) ([]row, error) {
	if r.ended {
		return nil, nil
	}
	source := r.ws.servers[r.src.server].db
	s := newSelection(r.ws, r.src.server)
	list, positions, extras := r.list(s)
	q := sqldb.NewStatement(source.Kind, "SELECT ", strings.Join(list, ", "))
	s.from(q, r.src, r.where)
	ordered := len(positions) > 0
	if ordered {
		s.behind(q, r.src, r.after)
	}
	s.order(q, r.src)
	if r.limit == 0 {
		r.limit = nextLimit(0, 0, r.size)
	}
	q.Add(" LIMIT ", strconv.Itoa(r.limit))
	read := int64(0)
	if !ordered && r.after != nil { // without a key, rows can only be counted, which is slow
		read, _ = r.after[0].(int64)
		q.Add(" OFFSET ", strconv.FormatInt(read, 10))
	}
	rows := make([]row, 0, max(r.before, min(r.limit, 1024)))
	// The key is stored behind the values.
	room := max(1, len(r.src.key))
	last := make([]any, max(1, len(positions)))
	fetched, bytes := 0, 0
	how := sqldb.Fetch{Texts: r.texts(list), More: room, Steady: r.steady(s)}
	err := source.Fetch(ctx, q, how, func(values []any) error {
		n, behind := len(r.src.pairs), len(list)
		key := values[behind : behind+room : behind+room]
		read++
		fetched++
		skip := false
		for i, at := range positions {
			last[i] = r.src.order[i].Position(source.Kind, values[at])
		}
		for i, p := range r.src.pairs {
			var err error
			if values[i], err = r.src.value(values[i], p); err != nil && r.refused != nil {
				r.refused(sqldb.KeyText(last), p, err)
				skip = true
			} else if err != nil {
				return fmt.Errorf("%w: %s: table %s, row %s: %w", ErrRow, source.Name, r.src.from.Name,
					sqldb.KeyText(last), err)
			}
		}
		full := error(nil)
		if bytes += sizeOf(values[:len(list)]); bytes > maxChunkBytes {
			full = errEnough // with this row
		}
		if skip {
			return full
		}
		for i, at := range r.src.key {
			key[i] = identity(values[at], r.src.pairs[at].to, r.src.raw)
		}
		if len(r.src.key) == 0 {
			key[0] = read
		}
		rows = append(rows, row{values: values[:n:n], key: key, extra: values[extras : extras+len(r.src.extras)]})
		return full
	})
	full := errors.Is(err, errEnough)
	if err != nil && !full {
		return nil, err
	}
	asked := r.limit
	r.limit = nextLimit(fetched, bytes, r.size)
	r.before = len(rows)
	if r.ended = !full && fetched < asked; fetched > 0 {
		if !ordered {
			last[0] = read
		}
		r.after = last
	}
	return rows, nil
}

// list returns the expressions to select: the columns, and behind them what says the position of a row,
// unless a column that is selected says it. Then come the extras. It also returns where the terms of the
// position and the extras are.
func (r *reader) list(s selection) (list []string, positions []int, extras int) {
	list = s.expressions(r.src, false)
	for _, term := range r.src.order {
		expression, at := term.Read(s.kind), -1
		if c := term.Column(); c != nil && c.Family == sqldb.FamilyInt && s.kind != sqldb.SQLite {
			at = r.src.at(c.Name)
		}
		if at < 0 || list[at] != expression { // the copied value may differ from the source
			list = append(list, expression)
			at = len(list) - 1
		}
		positions = append(positions, at)
	}
	extras = len(list)
	for _, fn := range r.src.extras {
		list = append(list, fn(s))
	}
	return list, positions, extras
}

// texts tells of each column whether bytes can be treated as text.
func (r *reader) texts(list []string) []bool {
	texts := make([]bool, len(list))
	for i, p := range r.src.pairs {
		texts[i] = !r.src.raw && !slices.ContainsFunc([]sqldb.Family{sqldb.FamilyBytes, sqldb.FamilyOther},
			func(f sqldb.Family) bool {
				return p.from.Family == f || p.to.Family == f
			})
	}
	return texts
}

// steady reports whether the database returns rows without long pauses, because it walks along the key and
// leaves no row out.
func (r *reader) steady(s selection) bool {
	return len(r.src.order) > 0 && r.where == "" && r.src.job.plan.Orphans != "null" &&
		s.kept(r.src.job, "s") == ""
}
