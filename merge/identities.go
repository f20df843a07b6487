package merge

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Identity is what identifies the rows of a table, and the columns everywhere that refer to them by it.
type Identity struct {
	// Table is the table. By default it is called like the identity.
	Table string `yaml:"table,omitempty" json:"table,omitempty"`
	// Key is the column of the table that the others hold. By default it is the primary key.
	Key string `yaml:"key,omitempty" json:"key,omitempty"`
	// In lists these columns: mail.receiver; mail.sender when messageType = 0, with an SQL condition over the
	// row in the source; auras.caster bits 24-47, items.card1+card2 bits 0-15, scrolls.props path $.owner or
	// circles.members list , where the key is a part of what is there, as Bits, Path and List of a [Reference]
	// have it; and character_*.guid for all tables with such a name and a column of this name and kind, as
	// path.Match has it, without those columns that another reference of the plan names.
	In []string `yaml:"in" json:"in"`
	// note is a comment, for those who review the plan.
	note string
}

// table returns the table of an identity of a name.
func (id *Identity) table(name string) string { return cmp.Or(id.Table, name) }

// holder is a text under in: of an identity, or under undecided:. Several columns have + between them. Where
// the key is only a part of what is there, as says which: bits 24-47, path $.id, list , or names by a column
// that leads to the row of the name.
type holder struct{ table, column, as, when string }

// parseHolder reads "table.column bits 24-47 when condition".
func parseHolder(text string) (e holder, err error) {
	at, when, conditional := strings.Cut(text, " when ")
	for _, kind := range []string{" bits ", " path ", " list ", " number ", " " + asNames + " by "} {
		if before, how, ok := strings.Cut(at, kind); ok {
			at, e.as = before, kind[1:]+how
		}
	}
	if before, names := strings.CutSuffix(at, " "+asNames); names {
		at, e.as = before, asNames
	}
	dot := strings.LastIndex(at, ".")
	if dot < 1 || dot == len(at)-1 || conditional && strings.TrimSpace(when) == "" {
		return e, fmt.Errorf("%q is not written as table.column, table.column when condition, or table.column "+
			"bits 24-47", text)
	}
	e.table, e.column, e.when = at[:dot], strings.TrimSpace(at[dot+1:]), strings.TrimSpace(when)
	for _, pattern := range []string{e.table, e.column} {
		if _, err := path.Match(pattern, ""); errors.Is(err, path.ErrBadPattern) {
			return e, fmt.Errorf("%q is no pattern that can be read", pattern)
		}
	}
	return e, nil
}

func (e holder) String() string {
	text := e.table + "." + e.column
	if e.as != "" {
		text += " " + e.as
	}
	if e.when != "" {
		text += " when " + e.when
	}
	return text
}

// reference returns what an entry of an identity says, without the table that it is about.
func (e holder) reference() (r Reference, err error) {
	r = Reference{Column: e.column, When: e.when}
	switch kind, where, _ := strings.Cut(e.as, " "); {
	case e.as == "":
	case kind == "bits" && where != "":
		if r.Bits = where; strings.Contains(e.column, "+") {
			r.Column, r.Columns = "", strings.Split(e.column, "+")
		}
		_, err = parseBits(where, r.columns())
	case kind == "path":
		r.Path = where
		_, err = parsePath(where)
	case kind == "list" && where != "":
		r.List = where
	default:
		err = fmt.Errorf("%q is not in whole columns, bits, documents or lists", e.String())
	}
	return r, err
}

// many reports whether the entry is a pattern.
func (e holder) many() bool { return strings.ContainsAny(e.table+e.column, `*?[\`) }

// plain reports whether the entry names just one column, once it is written.
func (e holder) plain() bool {
	read, err := parseHolder(e.String())
	return err == nil && read == e && !e.many()
}

// covers reports whether the entry is about a column, of several the first.
func (e holder) covers(table, column string) bool {
	first, _, _ := strings.Cut(e.column, "+")
	if !e.many() {
		return e.table == table && first == column
	}
	ofTable, err := path.Match(e.table, table)
	ofColumn, err2 := path.Match(first, column)
	return err == nil && err2 == nil && ofTable && ofColumn
}

// holder returns the column in the form in which it stands in the file of a plan.
func (o OpenColumn) holder(table string) holder {
	e := holder{table: table, column: o.Column, as: o.As, when: o.When}
	switch {
	case o.With == "":
	case o.As == asNames:
		e.as += " by " + o.With
	default:
		e.column += "+" + o.With
	}
	return e
}

// open is the opposite of holder.
func (e holder) open(candidate string) OpenColumn {
	o := OpenColumn{Column: e.column, Candidate: candidate, As: e.as, When: e.when}
	if names, with, found := strings.Cut(e.as, " by "); found && names == asNames {
		o.As, o.With = names, with
	} else if strings.HasPrefix(e.as, "bits ") {
		o.Column, o.With, _ = strings.Cut(e.column, "+")
	}
	return o
}

// validateIdentities looks at the identities and at the plain columns.
func (p *Plan) validateIdentities(errs *planErrors) {
	for _, name := range slices.Sorted(maps.Keys(p.Identities)) {
		id := p.Identities[name]
		if id == nil {
			errs.add("identities: %s is empty", name)
			continue
		}
		errs.check(p.Tables[id.table(name)] != nil, "identities: %s: there is no table %q in the plan", name,
			id.table(name))
		for _, text := range id.In {
			e, err := parseHolder(text)
			if err == nil {
				_, err = e.reference()
			}
			if err != nil {
				errs.add("identities: %s: %v", name, err)
				continue
			}
			errs.check(e.many() || p.Tables[e.table] != nil, "identities: %s: there is no table %q in the plan",
				name, e.table)
		}
	}
	for _, text := range p.Plain {
		names := func(table string) bool { return strings.HasPrefix(text, table+".") && len(text) > len(table)+1 }
		errs.check(slices.ContainsFunc(slices.Collect(maps.Keys(p.Tables)), names),
			"plain: %q is no column of a table of the plan, written as table.column", text)
	}
}

// resolved returns the plan with each column of its identities as a reference of its table, which is the one
// form on which everything else works. It also returns the entries that name no column.
func (p *Plan) resolved(target map[string]*sqldb.Table) (*Plan, []Problem) {
	if len(p.Identities) == 0 {
		return p, nil
	}
	all := *p
	all.Identities, all.Tables = nil, map[string]*TablePlan{}
	for name, t := range p.Tables {
		own := *t
		own.References = slices.Clone(t.References)
		all.Tables[name] = &own
	}
	var faults []Problem
	for _, many := range []bool{false, true} { // what is named comes before patterns
		for _, name := range slices.Sorted(maps.Keys(p.Identities)) {
			id := p.Identities[name]
			for _, text := range id.In {
				e, err := parseHolder(text)
				if err != nil || e.many() != many {
					continue
				}
				if !all.refer(id, name, e, target) {
					faults = append(faults, Problem{Code: CodePlan, Table: id.table(name), Column: id.Key,
						Message: fmt.Sprintf("the entry %q under in: of the identity %s is about no column that no "+
							"other reference names", text, name), Remedy: "correct it, or remove it"})
				}
			}
		}
	}
	return &all, faults
}

// refer adds what an entry of an identity says to the references of tables, and reports whether that is
// anything.
func (p *Plan) refer(id *Identity, name string, e holder, target map[string]*sqldb.Table) (found bool) {
	parent, key := target[id.table(name)], id.Key
	r, err := e.reference()
	if err != nil {
		return false
	}
	if r.Table = id.table(name); parent != nil && len(parent.Primary) == 1 {
		key = cmp.Or(key, parent.Primary[0])
	}
	if key != "" && (parent == nil || !slices.Equal(parent.Primary, []string{key})) {
		r.Target = []string{key}
	}
	if !e.many() {
		p.Tables[e.table].References = append(p.Tables[e.table].References, r)
		return true
	}
	for _, table := range slices.Sorted(maps.Keys(p.Tables)) {
		t, own := target[table], p.Tables[table]
		if t == nil || !own.Policy.copies() {
			continue
		}
		for _, c := range t.Columns {
			named := slices.ContainsFunc(own.References, func(r Reference) bool {
				return slices.Contains(r.columns(), c.Name)
			})
			another := r.Path+r.List == "" && parent != nil && parent.Column(key) != nil &&
				parent.Column(key).Family != c.Family
			if !e.covers(table, c.Name) || table == r.Table && c.Name == key || named || another {
				continue
			}
			one := r
			if len(r.Columns) > 0 {
				one.Columns = append([]string{c.Name}, r.Columns[1:]...)
			} else {
				one.Column = c.Name
			}
			own.References, found = append(own.References, one), true
		}
	}
	return found
}
