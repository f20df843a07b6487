package merge

import (
	"slices"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// tableJob is a table of the target and the source tables that are copied to it.
type tableJob struct {
	name     string
	plan     *TablePlan
	to       *sqldb.Table
	refs     []sqldb.Reference // foreign keys of the target, and those of the plan
	circular []sqldb.Reference // the refs that are part of a circle
	sources  []*sourceTable    // by position of the server; nil where the server lacks the table
	follows  *follows
}

// sourceTable is a table of one server that is copied to the target.
type sourceTable struct {
	ws     *workspace
	job    *tableJob
	server int // position in the plan
	from   *sqldb.Table
	pairs  []pair
	key    []int // the positions in pairs of the primary key
	order  []sqldb.OrderTerm
	raw    bool // from SQLite to SQLite values are not converted
	// What has to follow the rows of other tables, and the expressions that are read for it.
	links   []sourceLink
	whole   []sourceWhole
	repeats []sourceName
	extras  []extra
}

// pair is a column of a source and the column of the target that it is copied to.
type pair struct {
	from, to *sqldb.Column
	set      bool // the plan sets it to an expression
	native   bool // both have the same type on the same kind of database
}

// nullable returns a column of a reference that can be NULL until the parent row exists, or "".
func (j *tableJob) nullable(ref sqldb.Reference) string {
	for _, name := range ref.Columns {
		if c := j.to.Column(name); c != nil && c.Nullable && !slices.Contains(j.to.Primary, name) {
			return name
		}
	}
	return ""
}

// computed reports whether a key contains a value that only the database computes, by an expression that is
// not known.
func (j *tableJob) computed(k sqldb.UniqueKey) bool {
	return slices.ContainsFunc(k.Parts, func(p sqldb.KeyPart) bool {
		return p.Column == "" && p.Expression == "" ||
			p.Column != "" && (j.to.Column(p.Column) == nil || j.to.Column(p.Column).Generated)
	})
}

// refers reports whether a column is part of a known reference.
func (j *tableJob) refers(column string) bool {
	return slices.ContainsFunc(j.refs, func(ref sqldb.Reference) bool {
		return slices.Contains(ref.Columns,
			column)
	})
}

// has reports whether the source has a column.
func (src *sourceTable) has(name string) bool { return src.at(name) >= 0 }

// at returns the position of a column in the rows of the source, or -1.
func (src *sourceTable) at(name string) int {
	return slices.IndexFunc(src.pairs, func(p pair) bool { return p.to.Name == name })
}

// positions returns the positions of several columns.
func (src *sourceTable) positions(names []string) []int {
	at := make([]int, len(names))
	for i, name := range names {
		at[i] = src.at(name)
	}
	return at
}

func (src *sourceTable) names() []string {
	names := make([]string, len(src.pairs))
	for i, p := range src.pairs {
		names[i] = p.to.Name
	}
	return names
}

// columns returns the columns of the target that the source has.
func (src *sourceTable) columns() []*sqldb.Column {
	columns := make([]*sqldb.Column, len(src.pairs))
	for i, p := range src.pairs {
		columns[i] = p.to
	}
	return columns
}

// plain reports whether all columns have the same types on both sides.
func (src *sourceTable) plain() bool {
	return !slices.ContainsFunc(src.pairs, func(p pair) bool { return p.from.Declared != p.to.Declared })
}

// counted reports whether the primary key of a table is one integer column.
func (j *tableJob) counted() bool {
	return len(j.to.Primary) == 1 && j.to.Column(j.to.Primary[0]).Family == sqldb.FamilyInt
}

// value converts what a driver returned to the value that is copied.
func (src *sourceTable) value(v any, p pair) (any, error) {
	if p.native && !src.raw {
		return sqldb.Native(v, p.to)
	}
	if !src.raw || p.from.Family == p.to.Family {
		return sqldb.Canonical(v, p.to, src.raw)
	}
	v, err := sqldb.Canonical(v, p.to, false)
	return sqldb.Adapt(sqldb.SQLite, v, p.to, false), err
}

// part returns a source table with some of its columns.
func (src *sourceTable) part(names []string) *sourceTable {
	part := &sourceTable{ws: src.ws, job: src.job, server: src.server, from: src.from, order: src.order,
		raw: src.raw}
	key := make([]string, len(src.key))
	for i, at := range src.key {
		key[i] = src.pairs[at].to.Name
	}
	for _, p := range src.pairs {
		if slices.Contains(names, p.to.Name) || slices.Contains(key, p.to.Name) {
			part.pairs = append(part.pairs, p)
		}
	}
	for _, name := range key {
		part.key = append(part.key, part.at(name))
	}
	return part.prepared(src.ws)
}

// renamed returns the position of the column that the policy rename changes, or -1.
func (src *sourceTable) renamed() int {
	if src.job.plan.Rename == nil {
		return -1
	}
	return src.at(src.job.plan.Rename.Column)
}
