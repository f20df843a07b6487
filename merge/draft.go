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

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Draft opens the databases of a plan and returns the plan with a policy for every table that it does not
// mention yet. The policies are suggestions, made from keys and names, and must be reviewed; the note of
// each says why.
func Draft(ctx context.Context, plan *Plan, opts ...Option) (_ *Plan, err error) {
	drafted := *plan
	if drafted.Version == 0 {
		drafted.Version = 1
	}
	drafted.Tables = maps.Clone(plan.Tables)
	if drafted.Tables == nil {
		drafted.Tables = map[string]*TablePlan{}
	}
	ws, err := openWorkspace(ctx, &drafted, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ws.close()) }()
	d := &drafter{ws: ws}
	for _, db := range ws.databases() {
		for name := range db.Tables {
			if drafted.Tables[name] == nil {
				drafted.Tables[name] = d.suggest(name)
				if err := d.suggestRenumber(ctx, name, drafted.Tables[name]); err != nil {
					return nil, err
				}
			}
		}
	}
	drafted.LeftOut = d.leftOut(plan.LeftOut)
	for name, p := range drafted.Tables {
		if t := ws.target.Tables[name]; t != nil && p.Policy.copies() && p.Policy != KeepFirst &&
			p.Policy != Newest {
			drafted.Conserve = append(drafted.Conserve, sums(name, t, plan.Conserve)...)
		}
	}
	slices.SortFunc(drafted.Conserve, func(a, b ConservedSum) int { return strings.Compare(a.Name, b.Name) })
	return &drafted, drafted.Validate()
}

// sums suggests sums to conserve: columns whose names say that they hold money or the like.
func sums(name string, t *sqldb.Table, known []ConservedSum) []ConservedSum {
	words := []string{
		"gold", "coin", "coins", "money", "diamond", "diamonds", "gem", "gems", "balance",
		"paid", "recharge",
	}
	var all []ConservedSum
	for _, c := range t.Columns {
		s := ConservedSum{Name: name + " " + c.Name, Table: name, Expression: "SUM({" + c.Name + "})"}
		if c.Name == strings.ToLower(c.Name) {
			s.Expression = "SUM(" + c.Name + ")"
		}
		number := c.Family == sqldb.FamilyInt || c.Family == sqldb.FamilyDecimal
		if number && slices.Contains(words, strings.ToLower(c.Name)) && !slices.Contains(known, s) {
			all = append(all, s)
		}
	}
	return all
}

// Patterns of table and column names.
const (
	bookkeeping = `(?i)^(schema_migrations?|goose_db_version|gorp_migrations|flyway_schema_history|` +
		`migrations|snowflake_authority|databasechangelog(lock)?|alembic_version)$`
	computed  = `(?i)(^|_)(rank|ranks|ranking|rankings|leaderboards?|ladder|arena)(_|$)`
	settings  = `(?i)(^|_)(settings?|configs?|globals?|variables?|server_info|world_state)(_|$)`
	nameWords = `(?i)^(name|nick|nickname|nick_name|role_name|guild_name|title|tag|display_name)$`
)

// drafter suggests policies.
type drafter struct{ ws *workspace }

// suggest drafts the policy of a table.
func (d *drafter) suggest(name string) *TablePlan {
	t := d.ws.target.Tables[name]
	var absent []string
	for _, s := range d.ws.servers {
		if from := s.db.Tables[name]; from == nil {
			absent = append(absent, s.Name)
		} else if t == nil {
			t = from
		}
	}
	is := func(pattern string) bool { return regexp.MustCompile(pattern).MatchString(name) }
	switch {
	case is(bookkeeping):
		return &TablePlan{Policy: Skip, Note: "bookkeeping of the database itself"}
	case slices.ContainsFunc(d.ws.databases(), func(db *sqldb.DB) bool { return holdsLeases(db.Tables[name]) }):
		return &TablePlan{Policy: Skip, Note: "leases of node numbers: run retires those of merged servers"}
	case d.ws.target.Tables[name] == nil:
		return &TablePlan{Policy: Skip, Note: "the target does not have it: REVIEW, or its rows are lost"}
	case is(computed):
		return &TablePlan{Policy: Rebuild, Note: "ranks are computed anew"}
	case is(settings):
		return &TablePlan{Policy: KeepFirst, Absent: absent, Note: "settings of the first server stay"}
	}
	p := &TablePlan{Policy: Copy, Absent: absent,
		Note: "no other unique key than IDs, so nothing should collide"}
	for _, k := range t.Unique {
		column := onlyText(t, k)
		switch {
		case column == "":
			if names := mixed(t, k); names != "" && p.Policy == Copy {
				p.Note = names + " are unique together; check says if any are equal"
			}
		case regexp.MustCompile(nameWords).MatchString(column) && len(t.Primary) > 0:
			p.Policy, p.Note = Rename, "names in "+column+" are unique: the older row keeps its name"
			p.Rename = &RenamePlan{Column: column, Keep: "older", Format: "{name}.s{server}",
				Copies: d.copiesOf(name)}
			return p
		case len(t.Primary) > 0:
			p.Policy = KeepFirst
			p.Note = fmt.Sprintf("REVIEW: %s is unique, so equal rows become one, that of the first server",
				column)
		}
	}
	if len(t.Primary) > 0 && p.Policy == Copy && !slices.ContainsFunc(t.Primary, func(pk string) bool {
		c := t.Column(pk)
		return c != nil && c.Family == sqldb.FamilyInt
	}) {
		p.Policy, p.Note = KeepFirst,
			"REVIEW: the primary key is no ID, so equal rows become one, that of the first server"
	}
	return p
}

// suggestRenumber looks for keys that the database counted. Two servers have equal ones by chance. Keys
// that a generator made stay as they are.
func (d *drafter) suggestRenumber(ctx context.Context, name string, p *TablePlan) error {
	t := d.ws.target.Tables[name]
	if t == nil || p.Policy != Copy && p.Policy != Rename || len(t.Primary) != 1 {
		return nil
	}
	if c := t.Column(t.Primary[0]); c.Family != sqldb.FamilyInt || !c.HasDefault {
		return nil
	}
	for _, s := range d.ws.servers {
		if s.db.Tables[name] == nil || s.db.Tables[name].Column(t.Primary[0]) == nil {
			continue
		}
		key := s.db.Kind.Quote(t.Primary[0])
		counted, err := s.db.Strings(ctx, sqldb.NewStatement(s.db.Kind, "SELECT 1 FROM ", s.db.Kind.Quote(name),
			" WHERE ", key,
			" > 0 AND ", key, " < ", strconv.FormatInt(d.ws.minGenerated, 10), " LIMIT 1"))
		if err != nil {
			return err
		}
		if len(counted) > 0 {
			p.Renumber = true
			note := "REVIEW: counted keys: those of later servers move, and known references with them"
			if p.Policy == Rename {
				note = p.Note + "; " + note
			}
			p.Note = note + "; keep_first, if a key means the same on all servers"
			return nil
		}
	}
	return nil
}

// onlyText returns the text column by which rows of different servers may be equal. It is "" unless all
// columns of the key are texts.
func onlyText(t *sqldb.Table, k sqldb.UniqueKey) string {
	found := ""
	for _, c := range t.Columns {
		if !k.Covers(c.Name) {
			continue
		}
		if c.Family != sqldb.FamilyText {
			return ""
		}
		if found == "" || regexp.MustCompile(nameWords).MatchString(c.Name) {
			found = c.Name
		}
	}
	return found
}

// mixed returns the names of the columns of a unique key that has a text and other columns, such as a
// login and a server.
func mixed(t *sqldb.Table, k sqldb.UniqueKey) string {
	var names []string
	text := false
	for _, c := range t.Columns {
		if k.Covers(c.Name) {
			names = append(names, c.Name)
			text = text || c.Family == sqldb.FamilyText
		}
	}
	if !text || len(names) < 2 {
		return ""
	}
	return strings.Join(names, " and ")
}

// copiesOf looks for columns that repeat the names of a table, such as role_name next to a role_id.
func (d *drafter) copiesOf(parent string) []NameCopy {
	var copies []NameCopy
	for _, name := range slices.Sorted(maps.Keys(d.ws.target.Tables)) {
		t := d.ws.target.Tables[name]
		for _, ref := range t.References {
			if ref.Parent != parent || len(ref.Columns) != 1 {
				continue
			}
			stem, ok := strings.CutSuffix(ref.Columns[0], "_id")
			if c := t.Column(stem + "_name"); ok && c != nil && c.Family == sqldb.FamilyText {
				copies = append(copies, NameCopy{Table: name, Column: c.Name, Ref: ref.Columns[0]})
			}
		}
	}
	return copies
}
