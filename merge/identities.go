package merge

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Identity is what identifies the rows of a table, and the columns everywhere that refer to them by it.
type Identity struct {
	// Table is the table. By default it is called like the identity.
	Table string `yaml:"table,omitempty" json:"table,omitempty"`
	// Key is the column of the table that the others hold. By default it is the primary key.
	Key string `yaml:"key,omitempty" json:"key,omitempty"`
	// In lists these columns: mail.receiver; mail.sender when messageType = 0, with an SQL condition over the
	// row in the source; and character_*.guid for all tables with such a name and a column of this name and
	// kind, as path.Match has it, without those columns that another reference of the plan names.
	In []string `yaml:"in" json:"in"`
	// notes are comments on entries of In, for those who review the plan.
	notes map[string]string
}

// MarshalYAML writes the identity, with what speaks for each column as a comment.
func (id *Identity) MarshalYAML() (any, error) {
	type bare Identity
	node := &yaml.Node{}
	if err := node.Encode((*bare)(id)); err != nil {
		return nil, err
	}
	in := node.Content[len(node.Content)-1]
	for _, entry := range in.Content {
		entry.LineComment = id.notes[entry.Value]
	}
	return node, nil
}

// table returns the table of an identity of a name.
func (id *Identity) table(name string) string {
	if id.Table != "" {
		return id.Table
	}
	return name
}

// holder is a text under in: of an identity. Several columns have + between them.
type holder struct{ table, column, bits, when string }

// parseHolder reads "table.column bits 24-47 when condition".
func parseHolder(text string) (e holder, err error) {
	at, when, conditional := strings.Cut(text, " when ")
	at, in, packed := strings.Cut(at, " bits ")
	dot := strings.LastIndex(at, ".")
	if dot < 1 || dot == len(at)-1 || conditional && strings.TrimSpace(when) == "" {
		return e, fmt.Errorf("%q is not written as table.column, table.column when condition, or table.column "+
			"bits 24-47", text)
	}
	e = holder{table: at[:dot], column: strings.TrimSpace(at[dot+1:]), when: strings.TrimSpace(when)}
	if packed {
		if e.bits = strings.TrimSpace(in); e.bits == "" {
			return e, fmt.Errorf("%q has no bits", text)
		}
		if _, err := parseBits(e.bits, strings.Split(e.column, "+")); err != nil {
			return e, err
		}
	}
	for _, pattern := range []string{e.table, e.column} {
		if _, err := path.Match(pattern, ""); errors.Is(err, path.ErrBadPattern) {
			return e, fmt.Errorf("%q is no pattern that can be read", pattern)
		}
	}
	return e, nil
}

func (e holder) String() string {
	text := e.table + "." + e.column
	if e.bits != "" {
		text += " bits " + e.bits
	}
	if e.when != "" {
		text += " when " + e.when
	}
	return text
}

// many reports whether the entry is a pattern.
func (e holder) many() bool { return strings.ContainsAny(e.table+e.column, `*?[\`) }

// plain reports whether the entry names just one column, once it is written.
func (e holder) plain() bool {
	read, err := parseHolder(e.String())
	return err == nil && read == e && !e.many()
}

// covers reports whether the entry is about a column.
func (e holder) covers(table, column string) bool {
	if !e.many() {
		return e.table == table && e.column == column
	}
	ofTable, err := path.Match(e.table, table)
	ofColumn, err2 := path.Match(e.column, column)
	return err == nil && err2 == nil && ofTable && ofColumn
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
	r := Reference{Table: id.table(name), When: e.when, Bits: e.bits}
	if parent != nil && len(parent.Primary) == 1 {
		if key == "" {
			key = parent.Primary[0]
		}
	}
	if key != "" && (parent == nil || !slices.Equal(parent.Primary, []string{key})) {
		r.Target = []string{key}
	}
	if !e.many() {
		if r.Column = e.column; e.bits != "" && strings.Contains(e.column, "+") {
			r.Column, r.Columns = "", strings.Split(e.column, "+")
		}
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
			if !e.covers(table, c.Name) || table == r.Table && c.Name == key || named ||
				parent != nil && parent.Column(key) != nil && parent.Column(key).Family != c.Family {
				continue
			}
			r.Column, found = c.Name, true
			own.References = append(own.References, r)
		}
	}
	return found
}

// identify puts a reference that was found in the data under its identity, and reports whether it can be
// written there.
func (p *Plan) identify(f census.Finding) bool {
	e := holder{table: f.Table, column: f.Name, when: f.When}
	if !e.plain() {
		return false
	}
	name := f.Parent.Table
	for n, id := range p.Identities {
		if id.table(n) == f.Parent.Table && id.Key == f.Parent.Name {
			name = n
		}
	}
	id := p.Identities[name]
	switch {
	case id == nil:
		id = &Identity{Key: f.Parent.Name}
	case id.Key != f.Parent.Name: // the table has another identity
		name = f.Parent.String()
		id = &Identity{Table: f.Parent.Table, Key: f.Parent.Name}
	default:
		own := *id
		own.In, own.notes = slices.Clone(id.In), maps.Clone(id.notes)
		id = &own
	}
	if id.notes == nil {
		id.notes = map[string]string{}
	}
	id.In = append(id.In, e.String())
	id.notes[e.String()] = f.Evidence
	p.Identities[name] = id
	return true
}
