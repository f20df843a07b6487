package census

import (
	"context"
	"strconv"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// asker asks the servers for one census. After the first error it asks nothing more and answers with nothing,
// so that none of those who judge the answers has to look at errors: whoever began the census does, and
// returns no finding.
type asker struct {
	ctx context.Context
	err error
}

// rows reads a whole result as text. NULL becomes "".
func (a *asker) rows(d *sqldb.DB, q *sqldb.Statement) (all [][]string) {
	if a.err == nil {
		all, a.err = d.Strings(a.ctx, q)
	}
	return all
}

// row reads the one row of a result, which has so many columns.
func (a *asker) row(d *sqldb.DB, columns int, q *sqldb.Statement) []string {
	if rows := a.rows(d, q); a.err == nil {
		return rows[0]
	}
	return make([]string, columns)
}

// numbers reads the whole numbers of the one row of a result, which has so many columns.
func (a *asker) numbers(d *sqldb.DB, columns int, q *sqldb.Statement) []int64 {
	all := make([]int64, columns)
	for i, text := range a.row(d, columns, q) {
		n, err := strconv.ParseInt(text, 10, 64)
		if all[i] = n; err != nil && text != "" && a.err == nil {
			a.err = err
		}
	}
	return all
}

// each calls fn for every row of a result.
func (a *asker) each(d *sqldb.DB, q *sqldb.Statement, fn func(values []any)) {
	if a.err == nil {
		a.err = d.Each(a.ctx, q, func(values []any) error {
			fn(values)
			return nil
		})
	}
}

// number reads the one whole number that a result consists of.
func (a *asker) number(d *sqldb.DB, q *sqldb.Statement) (n int64) {
	if a.err == nil {
		n, a.err = d.Number(a.ctx, q)
	}
	return n
}
