package merge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Draft opens the databases of a plan that has no tables yet and returns it with a policy for each, to be
// reviewed: it knows tables by their keys and guesses by their names, and says in the note of each why.
// What the plan already says about a table stays.
func Draft(ctx context.Context, plan *Plan, opts ...Option) (_ *Plan, err error) {
	drafted := *plan
	if drafted.Version == 0 {
		drafted.Version = 1
	}
	drafted.Tables = maps.Clone(plan.Tables)
	if drafted.Tables == nil {
		drafted.Tables = map[string]*TablePlan{}
	}
	m, err := Open(ctx, &drafted, opts...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for _, d := range m.databases() {
		for name := range d.tables {
			if drafted.Tables[name] == nil {
				drafted.Tables[name] = m.suggest(name)
				if err := m.suggestRenumber(ctx, name, drafted.Tables[name]); err != nil {
					return nil, err
				}
			}
		}
	}
	for name, p := range drafted.Tables {
		if t := m.target.tables[name]; t != nil && p.Policy.copies() && p.Policy != KeepTarget &&
			p.Policy != Newest {
			drafted.Conserve = append(drafted.Conserve, sums(name, t, plan.Conserve)...)
		}
	}
	slices.SortFunc(drafted.Conserve, func(a, b Sum) int { return strings.Compare(a.Name, b.Name) })
	return &drafted, drafted.Validate()
}

// sums suggests what should be conserved: what players count.
func sums(name string, t *table, known []Sum) []Sum {
	words := []string{
		"gold", "coin", "coins", "money", "diamond", "diamonds", "gem", "gems", "balance",
		"paid", "recharge",
	}
	var all []Sum
	for _, c := range t.columns {
		s := Sum{Name: name + " " + c.name, Table: name, Expression: "SUM(" + c.name + ")"}
		number := c.family == familyInt || c.family == familyDecimal
		if number && slices.Contains(words, strings.ToLower(c.name)) && !slices.Contains(known, s) {
			all = append(all, s)
		}
	}
	return all
}

// The names by which a table is guessed.
const (
	bookkeeping = `(?i)^(schema_migrations?|goose_db_version|gorp_migrations|flyway_schema_history|` +
		`migrations|snowflake_nodes|databasechangelog(lock)?|alembic_version)$`
	computed  = `(?i)(^|_)(rank|ranks|ranking|rankings|leaderboards?|ladder|arena)(_|$)`
	settings  = `(?i)(^|_)(settings?|configs?|globals?|variables?|server_info|world_state)(_|$)`
	nameWords = `(?i)^(name|nick|nickname|nick_name|role_name|guild_name|title|tag|display_name)$`
)

// suggest drafts the policy of a table.
func (m *Merge) suggest(name string) *TablePlan {
	t := m.target.tables[name]
	var absent []string
	for _, s := range m.servers {
		if from := s.tables[name]; from == nil {
			absent = append(absent, s.Name)
		} else if t == nil {
			t = from
		}
	}
	is := func(pattern string) bool { return regexp.MustCompile(pattern).MatchString(name) }
	switch {
	case is(bookkeeping):
		return &TablePlan{Policy: Skip, Note: "bookkeeping of the database itself"}
	case m.target.tables[name] == nil:
		return &TablePlan{Policy: Skip, Note: "the target does not have it: REVIEW, or its rows are lost"}
	case is(computed):
		return &TablePlan{Policy: Rebuild, Note: "ranks are computed anew"}
	case is(settings):
		return &TablePlan{Policy: KeepTarget, Absent: absent, Note: "settings of the first server stay"}
	}
	p := &TablePlan{Policy: Copy, Absent: absent,
		Note: "no other unique key than IDs, so nothing should collide"}
	for _, k := range t.unique {
		column := onlyText(t, k)
		switch {
		case column == "":
			if names := mixed(t, k); names != "" && p.Policy == Copy {
				p.Note = names + " are unique together; check says if any are equal"
			}
		case regexp.MustCompile(nameWords).MatchString(column) && len(t.primary) > 0:
			p.Policy, p.Note = Rename, "names in "+column+" are unique: the older row keeps its name"
			p.Rename = &RenamePlan{Column: column, Keep: "older", Format: "{name}.s{server}",
				Copies: m.copiesOf(name)}
			return p
		case len(t.primary) > 0:
			p.Policy = KeepTarget
			p.Note = fmt.Sprintf("REVIEW: %s is unique, so equal rows become one, that of the first server",
				column)
		}
	}
	if len(t.primary) > 0 && p.Policy == Copy && !slices.ContainsFunc(t.primary, func(pk string) bool {
		c := t.column(pk)
		return c != nil && c.family == familyInt
	}) {
		p.Policy, p.Note = KeepTarget,
			"REVIEW: the primary key is no ID, so equal rows become one, that of the first server"
	}
	return p
}

// suggestRenumber looks for keys that the database counted: those of two servers are equal, and mean nothing
// by it. Keys of a generator are not changed.
func (m *Merge) suggestRenumber(ctx context.Context, name string, p *TablePlan) error {
	t := m.target.tables[name]
	if t == nil || p.Policy != Copy && p.Policy != Rename || len(t.primary) != 1 {
		return nil
	}
	if c := t.column(t.primary[0]); c.family != familyInt || !c.fallback {
		return nil
	}
	for _, s := range m.servers {
		if s.tables[name] == nil || s.tables[name].column(t.primary[0]) == nil {
			continue
		}
		key := s.kind.quote(t.primary[0])
		counted, err := s.strings(ctx, newStatement(s.kind, "SELECT 1 FROM ", s.kind.quote(name), " WHERE ", key,
			" > 0 AND ", key, " < ", strconv.FormatInt(m.plain, 10), " LIMIT 1"))
		if err != nil {
			return err
		}
		if len(counted) > 0 {
			p.Renumber = true
			note := "REVIEW: counted keys: those of later servers move, and known references with them"
			if p.Policy == Rename {
				note = p.Note + "; " + note
			}
			p.Note = note + "; keep_target, if a key means the same on all servers"
			return nil
		}
	}
	return nil
}

// onlyText returns the column of text by which rows of different servers may be equal: all others of the
// key are texts too.
func onlyText(t *table, k uniqueKey) string {
	found := ""
	for _, c := range t.columns {
		if !k.about(c.name) {
			continue
		}
		if c.family != familyText {
			return ""
		}
		if found == "" || regexp.MustCompile(nameWords).MatchString(c.name) {
			found = c.name
		}
	}
	return found
}

// mixed names the columns of a unique key that has texts and something else, such as a login and a server.
func mixed(t *table, k uniqueKey) string {
	var names []string
	text := false
	for _, c := range t.columns {
		if k.about(c.name) {
			names = append(names, c.name)
			text = text || c.family == familyText
		}
	}
	if !text || len(names) < 2 {
		return ""
	}
	return strings.Join(names, " and ")
}

// copiesOf looks for columns that repeat the names of a table: role_name beside a role_id that refers to it.
func (m *Merge) copiesOf(parent string) []NameCopy {
	var copies []NameCopy
	for _, name := range slices.Sorted(maps.Keys(m.target.tables)) {
		t := m.target.tables[name]
		for _, ref := range t.parents {
			if ref.parent != parent || len(ref.columns) != 1 {
				continue
			}
			stem, ok := strings.CutSuffix(ref.columns[0], "_id")
			if c := t.column(stem + "_name"); ok && c != nil && c.family == familyText {
				copies = append(copies, NameCopy{Table: name, Column: c.name, Ref: ref.columns[0]})
			}
		}
	}
	return copies
}
