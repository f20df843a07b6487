package merge

import (
	"slices"
)

// work is a table of the target that rows are copied to.
type work struct {
	name     string
	plan     *TablePlan
	to       *table
	refs     []reference // foreign keys of the target, and those of the plan
	circular []reference // those of refs that are part of a circle
	feeds    []*feed     // by the position of the server; nil where the table is absent
}

// feed is a table of a source on its way to the target.
type feed struct {
	work   *work
	server int // position in the plan
	from   *table
	pairs  []pair
	key    []int // which of pairs are the primary key, in its order
	raw    bool  // SQLite to SQLite: values go as they are
}

// pair is a column of a source and its column of the target.
type pair struct{ from, to *column }

// nullable returns the column of a reference that can be NULL until the parent is there.
func (w *work) nullable(ref reference) string {
	for _, name := range ref.columns {
		if c := w.to.column(name); c != nil && c.nullable && !slices.Contains(w.to.primary, name) {
			return name
		}
	}
	return ""
}

// late returns the columns that are filled in a second pass: only PostgreSQL cannot be told to look at
// foreign keys later.
func (m *Merge) late(w *work) []string {
	if m.target.kind != PostgreSQL {
		return nil
	}
	var names []string
	for _, ref := range w.circular {
		if name := w.nullable(ref); ref.enforced && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// has tells whether a source delivers a column.
func (f *feed) has(name string) bool { return f.at(name) >= 0 }

// at returns the position of a column in a row of the feed, or -1.
func (f *feed) at(name string) int {
	return slices.IndexFunc(f.pairs, func(p pair) bool { return p.to.name == name })
}

// positions returns those of several columns.
func (f *feed) positions(names []string) []int {
	at := make([]int, len(names))
	for i, name := range names {
		at[i] = f.at(name)
	}
	return at
}

func (f *feed) names() []string {
	names := make([]string, len(f.pairs))
	for i, p := range f.pairs {
		names[i] = p.to.name
	}
	return names
}

// columns returns the columns of the target.
func (f *feed) columns() []*column {
	columns := make([]*column, len(f.pairs))
	for i, p := range f.pairs {
		columns[i] = p.to
	}
	return columns
}

// policy returns the policy of a table of the plan; what the plan does not know is not copied.
func (m *Merge) policy(name string) Policy {
	if t := m.plan.Tables[name]; t != nil {
		return t.Policy
	}
	return Skip
}

// plain tells whether a feed's rows arrive as they are, so that the databases can do it among themselves.
func (f *feed) plain() bool {
	return !slices.ContainsFunc(f.pairs, func(p pair) bool { return p.from.declared != p.to.declared })
}
