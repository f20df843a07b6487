package merge

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// bits says where a key lies within whole numbers: in so many bits of a column, from the bit low on, and, if
// one column is not enough, in the same bits of further columns, each of which has the next higher bits.
type bits struct {
	low, width int    // no width: the whole column is the key
	rest       string // the further columns, with + between them
}

// parseBits reads the first and the last bit, such as 24-47.
func parseBits(text string, columns []string) (b bits, err error) {
	if text == "" {
		return b, nil
	}
	from, to, _ := strings.Cut(text, "-")
	first, err1 := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	b = bits{low: first, width: last - first + 1, rest: strings.Join(columns[1:], "+")}
	if err1 != nil || err2 != nil || first < 0 || last < first || last > 63 || b.width*len(columns) > 63 {
		return bits{}, fmt.Errorf("the bits %q are not written as the first and the last one, such as 24-47, of "+
			"0 to 63, and 63 altogether", text)
	}
	return b, nil
}

func (b bits) used() bool { return b.width > 0 }

func (b bits) String() string { return fmt.Sprintf("%d-%d", b.low, b.low+b.width-1) }

func (b bits) mask() uint64 { return 1<<b.width - 1 }

// columns returns all columns, of which the first is given.
func (b bits) columns(first string) []string {
	if b.rest == "" {
		return []string{first}
	}
	return append([]string{first}, strings.Split(b.rest, "+")...)
}

// meets reports whether two places in one column have a bit in common.
func (b bits) meets(o bits) bool {
	return !b.used() || !o.used() || b.low < o.low+o.width && o.low < b.low+b.width
}

// replace puts what fn makes of the key in the place of the key. The other bits stay.
func (b bits) replace(values []any, fn func(any) (any, error)) ([]any, error) {
	numbers, key := make([]uint64, len(values)), uint64(0)
	for i, v := range values {
		switch n := v.(type) {
		case int64:
			numbers[i] = uint64(n)
		case uint64:
			numbers[i] = n
		default:
			return nil, fmt.Errorf("%q is no whole number", sqldb.Shorten(sqldb.Text(v)))
		}
		key |= numbers[i] >> b.low & b.mask() << (i * b.width)
	}
	v, err := fn(int64(key))
	if err != nil {
		return nil, err
	}
	now, err := sqldb.Integer(v)
	n, ok := now.(int64)
	if err != nil || !ok || n < 0 || n>>(b.width*len(values)) != 0 {
		return nil, fmt.Errorf("the new key %s is too large for its bits", sqldb.Text(v))
	}
	all := slices.Clone(values)
	for i := range values {
		whole := numbers[i]&^(b.mask()<<b.low) | uint64(n)>>(i*b.width)&b.mask()<<b.low
		if all[i] = any(whole); isSigned(values[i]) {
			all[i] = int64(whole)
		}
	}
	return all, nil
}

func isSigned(v any) bool {
	_, ok := v.(int64)
	return ok
}

// holds reports whether the columns of the target can hold a key.
func (b bits) holds(kind sqldb.Kind, columns []*sqldb.Column, key int64) bool {
	if key>>(b.width*len(columns)) != 0 {
		return false
	}
	for i, c := range columns {
		part := min(uint64(key)>>(i*b.width), b.mask()) << b.low
		if !c.Holds(kind, int64(min(part, math.MaxInt64))) {
			return false
		}
	}
	return true
}

// sql returns SQL for the key. Shifts of PostgreSQL keep the type of a column, so that is a wide one.
func (b bits) sql(kind sqldb.Kind, columns []string) string {
	var parts []string
	for i, name := range columns {
		if name = kind.Quote(name); kind == sqldb.PostgreSQL {
			name += "::bigint"
		}
		parts = append(parts, fmt.Sprintf("((%s >> %d) & %d) * %d", name, b.low, b.mask(),
			uint64(1)<<(i*b.width)))
	}
	return "(" + strings.Join(parts, " + ") + ")"
}
