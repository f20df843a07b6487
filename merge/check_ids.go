package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// idCheck finds out which server made the IDs in a column.
type idCheck struct {
	ws      *workspace
	report  *CheckReport
	origins map[originKey]origin
	offsets *keyOffsets
}

// originKey is a column of a source table.
type originKey struct {
	table, column string
	server        int
}

// origin counts the IDs in a column by the server that made them.
type origin struct {
	own, plain int64 // plain IDs have no time: a database counted them
	others     map[int64]int64
}

func (o origin) clean() bool { return o.plain == 0 && len(o.others) == 0 }

// check decodes the server numbers in the primary keys. Keys that different servers made cannot be equal,
// so most tables need no further comparison.
func (c *idCheck) check(ctx context.Context) error {
	return c.ws.eachSource(func(j *tableJob, src *sourceTable, s *server) error {
		if len(src.key) != 1 || src.pairs[src.key[0]].to.Family != sqldb.FamilyInt {
			return nil
		}
		column := src.pairs[src.key[0]].to.Name
		o, err := c.origin(ctx, src, column)
		if err != nil {
			return err
		}
		if o.plain > 0 && j.plan.Renumber == "" {
			c.report.warn(Problem{Code: CodePlainKeys, Server: s.Name, Table: j.name, Column: column,
				Count: o.plain,
				Message: "the key was counted, not made by a generator of the layout, so it is compared with the " +
					"others"})
		}
		for number, n := range o.others {
			p := Problem{Code: CodeServerNumber, Server: s.Name, Table: j.name, Column: column, Count: n,
				Message: fmt.Sprintf("the ID was made with the server number %d", number),
				Remedy: "if number: of the server or layout: is wrong in the plan, correct it; if that server was " +
					"merged into this one, list its number under also:; if rows came from elsewhere, or two servers " +
					"had one number, set foreign_ids: true on the table, and the keys are compared one by one"}
			if j.plan.ForeignIDs {
				p.Remedy = "compared with the others, because of foreign_ids: true"
				c.report.warn(p)
			} else {
				c.report.problem(p)
			}
		}
		return nil
	})
}

// origin counts the IDs in a column by server.
func (c *idCheck) origin(ctx context.Context, src *sourceTable, column string) (origin, error) {
	key := originKey{src.job.name, column, src.server}
	if o, ok := c.origins[key]; ok {
		return o, nil
	}
	s := c.ws.servers[src.server]
	name := "s." + s.db.Kind.Quote(column)
	q := sqldb.NewStatement(s.db.Kind,
		fmt.Sprintf("SELECT CASE WHEN %s < %d THEN -1 ELSE %s END AS made_by, COUNT(*)",
			name, c.ws.minGenerated, c.ws.layout.sql(name)))
	sel := newSelection(c.ws, src.server)
	sel.from(q, src, name+" IS NOT NULL")
	o := origin{others: map[int64]int64{}}
	err := s.db.Each(ctx, q.Add(" GROUP BY 1"), func(values []any) error {
		number, err := strconv.ParseInt(sqldb.Text(values[0]), 10, 64)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(sqldb.Text(values[1]), 10, 64)
		switch {
		case number < 0:
			o.plain += n
		case slices.Contains(s.numbers, number):
			o.own += n
		default:
			o.others[number] += n
		}
		return err
	})
	c.origins[key] = o
	return o, err
}

// disjoint reports whether no two rows can be equal in a key. That is so if one column of the key holds
// only IDs of its own server, and if every server itself enforces the same key in the same way.
func (c *idCheck) disjoint(ctx context.Context, j *tableJob, k sqldb.UniqueKey) (bool, error) {
	if !k.Simple() {
		return false, nil
	}
	for _, name := range k.Columns() {
		for _, ref := range j.refs {
			if slices.Contains(ref.Columns, name) && c.report.table(ref.Parent,
				c.ws.policy(ref.Parent)).Dropped > 0 {
				return false, nil // two references may be changed to one row
			}
		}
	}
	if j.plan.Renumber != "" && len(k.Parts) == 1 && k.Columns()[0] == j.key().Name {
		return c.offsets.separates(ctx, j)
	}
	proven := false
	for _, name := range k.Columns() {
		all := j.to.Column(name).Family == sqldb.FamilyInt
		for _, src := range j.sources {
			if src == nil || !all {
				continue
			}
			if from := src.from.Column(name); from == nil || from.Family != sqldb.FamilyInt {
				all = false
				continue
			}
			o, err := c.origin(ctx, src, name)
			if err != nil {
				return false, err
			}
			all = o.clean()
		}
		proven = proven || all
	}
	if !proven {
		return false, nil
	}
	for _, src := range j.sources {
		if src != nil && !c.sameKey(src, k) {
			return false, nil
		}
	}
	return true, nil
}

// sameKey reports whether a source enforces a key itself, with the same comparison of values.
func (c *idCheck) sameKey(src *sourceTable, k sqldb.UniqueKey) bool {
	for _, name := range k.Columns() {
		from, to := src.from.Column(name), src.job.to.Column(name)
		if from == nil {
			return false
		}
		text := to.Family != sqldb.FamilyInt && to.Family != sqldb.FamilyBool && to.Family != sqldb.FamilyUUID
		if text && (c.ws.servers[src.server].db.Kind != c.ws.target.Kind || from.Collation != to.Collation ||
			from.Declared != to.Declared) {
			return false
		}
	}
	// Only the indexes of SQLite have their own collations.
	both := c.ws.servers[src.server].db.Kind == sqldb.SQLite && c.ws.target.Kind == sqldb.SQLite
	return slices.ContainsFunc(src.from.Keys(), func(own sqldb.UniqueKey) bool {
		if !own.Simple() || !sameNames(own.Columns(), k.Columns()) {
			return false
		}
		return !slices.ContainsFunc(own.Parts, func(p sqldb.KeyPart) bool {
			return !slices.ContainsFunc(k.Parts, func(q sqldb.KeyPart) bool {
				return p.Column == q.Column && (p.Collation == q.Collation || !both)
			})
		})
	})
}
