package merge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// reader reads the rows of a source table in the order of its primary key, by one statement. It returns them
// in chunks.
type reader struct {
	ws    *workspace
	src   *sourceTable
	size  int
	where string // one more condition
	skip  int64  // how many rows were read before
	// refused is told of values that cannot be converted, and their rows are left out; without it they are
	// errors.
	refused func(key string, p pair, err error)
}

// errEnough ends the reading of rows before the last one.
var errEnough = errors.New("enough")

// maxChunkBytes bounds a chunk. While one chunk is written, the next one is read, and drivers and statements
// hold copies of parts of them, so the memory that they take is several times as large.
const maxChunkBytes = 8 << 20

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

// chunk is what was read of a table at a time. The last one of a table may have no rows.
type chunk struct {
	rows  []row
	read  int64 // how many there were, with those that are left out
	ended bool
}

// page reads one chunk. It is for those who need the connection of the source in between: whoever reads the
// next one waits until the database has passed over the rows of all pages before.
func (r *reader) page(ctx context.Context) (page chunk, err error) {
	err = r.read(ctx, r.size, func(next chunk) error {
		page = next
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	r.skip += page.read
	return page, err
}

// all calls fn for every chunk. The connection of the source is not free before the end.
func (r *reader) all(ctx context.Context, fn func(next chunk) error) error { return r.read(ctx, 0, fn) }

// read calls fn for the chunks of at most so many rows, or of all rows.
func (r *reader) read(ctx context.Context, limit int, fn func(next chunk) error) error {
	source := r.ws.servers[r.src.server].db
	s := newSelection(r.ws, r.src.server)
	list := s.expressions(r.src, false)
	extras := len(list)
	for _, expression := range r.src.extras {
		list = append(list, expression(s))
	}
	q := sqldb.NewStatement(source.Kind, "SELECT ", strings.Join(list, ", "))
	s.from(q, r.src, r.where)
	s.order(q, r.src)
	if limit > 0 || r.skip > 0 {
		if limit == 0 {
			limit = math.MaxInt
		}
		q.Add(" LIMIT ", strconv.Itoa(limit), " OFFSET ", strconv.FormatInt(r.skip, 10))
	}
	// The key is stored behind the values.
	room := max(1, len(r.src.key))
	how := sqldb.Fetch{Texts: r.texts(list), More: room, Steady: r.steady(s)}
	next, bytes, before := chunk{}, 0, 0
	err := source.Fetch(ctx, q, how, func(values []any) error {
		if next.rows == nil {
			next.rows = make([]row, 0, before)
		}
		next.read++
		bytes += sizeOf(values)
		row, err := r.row(values, extras, room, r.skip+next.read)
		if err != nil {
			return err
		}
		if row.values != nil {
			next.rows = append(next.rows, row)
		}
		if bytes <= maxChunkBytes && int(next.read) < r.size {
			return nil
		}
		full := next
		next, bytes, before = chunk{}, 0, len(full.rows)
		return fn(full)
	})
	if err != nil {
		return err
	}
	next.ended = true
	return fn(next)
}

// row makes a row of what was read. It has no values if it is left out.
func (r *reader) row(values []any, extras, room int, number int64) (row, error) {
	end := len(values) - room
	key := values[end:]
	for i, at := range r.src.key {
		key[i] = values[at]
	}
	if len(r.src.key) == 0 {
		key[0] = number
	}
	left := false
	for i, p := range r.src.pairs {
		var err error
		if values[i], err = r.src.value(values[i], p); err != nil && r.refused != nil {
			r.refused(sqldb.KeyText(key), p, err)
			left = true
		} else if err != nil {
			return row{}, fmt.Errorf("%w: %s: table %s, row %s: %w", ErrRow, r.ws.servers[r.src.server].db.Name,
				r.src.from.Name, sqldb.KeyText(key), err)
		}
	}
	if left {
		return row{}, nil
	}
	for i, at := range r.src.key {
		key[i] = identity(values[at], r.src.pairs[at].to, r.src.raw)
	}
	return row{values: values[:extras:extras], key: key, extra: values[extras:end]}, nil
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
