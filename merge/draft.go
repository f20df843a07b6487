package merge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Draft opens the databases of a plan and returns the plan with a policy for every table that it does not
// mention yet. The policies are suggestions, made from keys and from what is in them, and must be reviewed;
// the note of each says why. It drafts only what keeps every row: [Copy] and [Rename], with renumbered keys
// or without. Where that may be wrong, a table is [NotDecided], and Check says what there is to choose from;
// such a plan does not run.
//
// The lock is what it has found in the columns of the servers. Keep it beside the plan; see [WithLock].
func Draft(ctx context.Context, plan *Plan, opts ...Option) (_ *Plan, _ *Lock, err error) {
	drafted := *plan
	if drafted.Version == 0 {
		drafted.Version = 1
	}
	drafted.Tables = maps.Clone(plan.Tables)
	if drafted.Tables == nil {
		drafted.Tables = map[string]*TablePlan{}
	}
	drafted.Identities = maps.Clone(plan.Identities)
	if drafted.Identities == nil {
		drafted.Identities = map[string]*Identity{}
	}
	ws, err := openWorkspace(ctx, &drafted, opts)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, ws.close()) }()
	d := newDrafter(ws)
	lock, err := d.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, db := range ws.databases() {
		for name := range db.Tables {
			if drafted.Tables[name] != nil {
				continue
			}
			if drafted.Tables[name], _, err = d.suggest(ctx, name); err != nil {
				return nil, nil, fmt.Errorf("table %s: %w", name, err)
			}
		}
	}
	d.declare(&drafted)
	err = (&nameFinder{d}).repeated(ctx, &drafted, func(table string, o OpenColumn) {
		if d.known[table] == nil {
			drafted.Tables[table].Undecided = append(drafted.Tables[table].Undecided, o)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	for name, p := range drafted.Tables {
		if d.known[name] != nil {
			continue
		}
		if p.Renumber == Apart {
			drafted.Apart = cmp.Or(drafted.Apart, apartAll)
		}
		// As it is read from a file.
		slices.SortStableFunc(p.Undecided, func(a, b OpenColumn) int {
			return strings.Compare(a.Candidate, b.Candidate)
		})
	}
	drafted.LeftOut = d.leftOut(plan.LeftOut)
	for name, p := range drafted.Tables {
		if t := ws.target.Tables[name]; t != nil && p.Policy.copies() && p.Policy != KeepFirst &&
			p.Policy != Newest {
			drafted.Conserve = append(drafted.Conserve, sums(name, t, plan.Conserve)...)
		}
	}
	slices.SortFunc(drafted.Conserve, func(a, b ConservedSum) int { return strings.Compare(a.Name, b.Name) })
	return &drafted, lock, drafted.Validate()
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

// nameWords are columns whose values are names, which one of two rows can give up.
const nameWords = `(?i)^(name|nick|nickname|nick_name|role_name|guild_name|title|tag|display_name)$`

// drafter suggests policies. It suggests none that drops a row or makes one row of several, and it does not
// look at what tables are called.
type drafter struct {
	ws    *workspace
	known map[string]*TablePlan // what the plan had before
	spans map[place]bool        // columns whose values were looked at: are those of different servers apart?
	found []census.Finding      // what columns may refer to, though neither the target nor the plan says so
}

func newDrafter(ws *workspace) *drafter {
	return &drafter{ws: ws, known: maps.Clone(ws.plan.Tables), spans: map[place]bool{}}
}

// find looks for references in the data.
func (d *drafter) find(ctx context.Context) (*Lock, error) {
	s := surveyor{d.ws}
	lock, err := s.outline(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.take(ctx, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	lock.add(found)
	d.found = slices.DeleteFunc(found, func(f census.Finding) bool {
		t, parent := d.ws.target.Tables[f.Table], d.ws.target.Tables[f.Parent.Table]
		return f.Verdict < census.Possible || t == nil || parent == nil || t.Column(f.Name) == nil ||
			parent.Column(f.Parent.Name) == nil || d.ws.declared(f.Table, f.Name, f.Parent.Table) ||
			slices.Contains(d.ws.plan.Plain, f.String())
	})
	return lock, nil
}

// declare writes what was found in the data into the plan: references under their identities, where these can
// say it, and what is only possible as undecided.
func (d *drafter) declare(p *Plan) {
	columns, values := map[census.Column][]holder{}, map[census.Column]int64{}
	for _, f := range d.found {
		t, e := p.Tables[f.Table], holder{table: f.Table, column: f.Name, when: f.When}
		switch {
		case d.known[f.Table] != nil:
		case f.Verdict != census.Reference:
			t.Undecided = append(t.Undecided, OpenColumn{Column: f.Name, Candidate: f.Parent.String(), As: f.As,
				With: f.With, When: f.When, Evidence: f.Evidence})
		case e.plain():
			columns[f.Parent] = append(columns[f.Parent], e)
			values[f.Parent] += f.Values
		default:
			t.References = append(t.References, Reference{Column: f.Name, Table: f.Parent.Table,
				Target: []string{f.Parent.Name}, When: f.When, Note: f.Evidence})
		}
	}
	for _, of := range slices.SortedFunc(maps.Keys(columns), census.Column.Compare) {
		name, id := of.Table, Identity{Key: of.Name}
		if known := p.Identities[name]; known != nil && (known.table(name) != of.Table || known.Key != of.Name) {
			name, id.Table = of.String(), of.Table // the table has another identity
		}
		for n, known := range p.Identities {
			if known.table(n) == of.Table && known.Key == of.Name {
				name, id = n, *known
			}
		}
		id.note = fmt.Sprintf("columns: %d, with %d different values, which are keys on each server",
			len(columns[of]), values[of])
		id.In = d.shorten(of, columns[of], slices.Clone(id.In))
		p.Identities[name] = &id
	}
}

// shorten adds entries to those of an identity. Some that differ only in their tables become a pattern, if
// each column that it is about is one of them, or stands beside it in the same list.
func (d *drafter) shorten(of census.Column, entries []holder, in []string) []string {
	const least = 3 // fewer are no pattern
	for len(entries) > 0 {
		e := entries[0]
		alike := func(o holder) bool { return o.when == e.when && e.covers(o.table, o.column) }
		for at := range len(e.table) {
			if at > 0 && e.table[at-1] != '_' {
				continue
			}
			one := e
			e.table = e.table[:at] + "*"
			if others := slices.DeleteFunc(slices.Clone(entries), alike); len(entries)-len(others) >= least &&
				d.only(of, e, entries, in) {
				break
			}
			e = one
		}
		entries, in = slices.DeleteFunc(entries, alike), append(in, e.String())
	}
	return in
}

// only reports whether a pattern is about no column but those of some entries, and of none that a pattern
// before it is about. The key itself is about nothing.
func (d *drafter) only(of census.Column, pattern holder, entries []holder, before []string) bool {
	for table, t := range d.ws.target.Tables {
		at := census.Column{Table: table, Name: pattern.column}
		if at == of || t.Column(at.Name) == nil || !pattern.covers(table, at.Name) {
			continue
		}
		listed := func(e holder) bool { return e.table == table && e.column == at.Name }
		taken := func(text string) bool {
			e, err := parseHolder(text)
			return err == nil && e.many() && e.covers(table, at.Name)
		}
		other := func(f census.Finding) bool {
			return f.Column == at && f.Verdict >= census.Possible && f.Parent != of
		}
		if !slices.ContainsFunc(entries, listed) || slices.ContainsFunc(before, taken) ||
			slices.ContainsFunc(d.found, other) {
			return false
		}
	}
	return true
}

// references returns the references of a table: those that the target declares, those that the plan does, and
// those that were found in the data.
func (d *drafter) references(t *sqldb.Table) []sqldb.Reference {
	all := slices.Clone(t.References)
	if declared := d.known[t.Name]; declared != nil {
		for _, r := range declared.References {
			all = append(all, r.of())
		}
		return all
	}
	for _, f := range d.found {
		if f.Table == t.Name && f.Verdict == census.Reference {
			all = append(all, sqldb.Reference{Columns: []string{f.Name}, Parent: f.Parent.Table,
				Target: []string{f.Parent.Name}, When: f.When})
		}
	}
	return all
}

// suggest drafts the policy of a table. If nobody but a person can decide, that is NotDecided, and there are
// policies to choose from, the likeliest first.
func (d *drafter) suggest(ctx context.Context, name string) (p *TablePlan, candidates []string, err error) {
	t := d.ws.target.Tables[name]
	p = &TablePlan{Policy: NotDecided}
	for _, s := range d.ws.servers {
		if s.db.Tables[name] == nil {
			p.Absent = append(p.Absent, s.Name)
		}
	}
	leases := func(db *sqldb.DB) bool { return holdsLeases(db.Tables[name]) }
	filled, err := d.ws.target.Holds(ctx, name)
	switch {
	case err != nil:
	case slices.ContainsFunc(d.ws.databases(), leases):
		p.Note = "it holds leases of node numbers"
		candidates = []string{"skip, the only policy for it: run itself retires the numbers of merged servers"}
	case t == nil:
		p.Note = "the target does not have it"
		candidates = []string{"copy, after the migrations of the game have made it in the target",
			"skip, if its rows are not needed any more: they are lost"}
	case filled:
		p.Note = "the target has rows in it already"
		candidates = []string{
			"skip, if the migrations of the game fill it: the rows of the servers are not copied",
			"another policy, after the rows of the target were deleted",
		}
	default:
		candidates, err = d.byKeys(ctx, t, p)
	}
	return p, candidates, err
}

// byKeys drafts the policy of a table by the keys in which rows of different servers may be equal.
func (d *drafter) byKeys(ctx context.Context, t *sqldb.Table, p *TablePlan) ([]string, error) {
	feeds := 0
	for _, s := range d.ws.servers {
		filled, err := s.db.Holds(ctx, t.Name)
		if err != nil {
			return nil, err
		}
		if filled {
			feeds++
		}
	}
	if feeds < 2 {
		p.Policy, p.Note = Copy, "no two servers have rows in it"
		return nil, nil
	}
	notes, open, err := d.openKeys(ctx, t, p)
	if err != nil {
		return nil, err
	}
	name := slices.IndexFunc(open, func(k sqldb.UniqueKey) bool {
		return regexp.MustCompile(nameWords).MatchString(onlyText(t, k)) && len(t.Primary) > 0
	})
	switch {
	case name >= 0 && open[0].Name != sqldb.PrimaryName:
		p.Rename = &RenamePlan{Column: onlyText(t, open[name]), Copies: d.copiesOf(t.Name)}
		notes = append([]string{"names are unique, and the older row keeps its own"}, notes...)
		for _, other := range slices.Delete(slices.Clone(open), name, name+1) {
			notes = append(notes, "REVIEW: so is "+covered(t, other)+": check says if any are equal")
		}
	case len(open) > 0:
		counted := p.Renumber != ""
		p.Renumber = ""
		p.Note = "rows of different servers may be equal in the unique key " + covered(t, open[0])
		if open[0].Name == sqldb.PrimaryName {
			p.Note = "rows of different servers may be equal in the primary key"
		}
		found, err := (&nameFinder{d}).find(ctx, t)
		candidates := d.candidates(t, open[0], counted)
		if len(found) > 0 {
			candidates = slices.Insert(candidates, 0, "rename, with column: "+found[0].column.Name+
				" and renumber: apart, if each server has counted its own rows: names there are unique on each "+
				"server, though no index says so")
		}
		return candidates, err
	default:
		names := &nameFinder{d}
		found, err := names.find(ctx, t)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			notes = append(names.propose(found, t.Name, p), notes...)
		}
	}
	if p.Policy = Copy; p.Rename != nil {
		p.Policy = Rename
	}
	p.Note = cmp.Or(strings.Join(notes, "; "), "no two servers should have rows with equal keys")
	return nil, nil
}

// openKeys returns the keys of a table in which rows of different servers may be equal, the primary key
// first. Of a counted primary key it says that it is renumbered.
func (d *drafter) openKeys(ctx context.Context, t *sqldb.Table,
	p *TablePlan) (notes []string, open []sqldb.UniqueKey, err error) {
	counted, err := d.renumbered(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	if counted {
		p.Renumber = Apart
	}
	for _, k := range t.Keys() {
		if counted && k.Covers(identityOf(t).Name) {
			if len(k.Columns()) == 1 {
				notes = append(notes, "REVIEW: counted keys; keep_first, if a key means the same on all servers")
			}
			continue
		}
		apart := false
		for _, c := range t.Columns {
			if !apart && k.Covers(c.Name) {
				if apart, err = d.apart(ctx, t, c); err != nil {
					return nil, nil, err
				}
			}
		}
		if !apart {
			open = append(open, k)
		}
	}
	return notes, open, nil
}

// candidates says what there is to choose from for a table with a key that rows of different servers may
// share.
func (d *drafter) candidates(t *sqldb.Table, k sqldb.UniqueKey, counted bool) (all []string) {
	either := ""
	if counted {
		either = " (either with renumber: true, since the keys are counted)"
	}
	primary, keyed := k.Name == sqldb.PrimaryName, len(t.Primary) > 0
	numbers := slices.ContainsFunc(t.Columns, func(c *sqldb.Column) bool {
		return k.Covers(c.Name) && c.Family == sqldb.FamilyInt
	})
	name := onlyText(t, k)
	for _, c := range []struct {
		fits bool
		text string
	}{
		{!primary && keyed && name != "",
			"rename, with column: " + name + ", if it is a name that one of the rows can give up"},
		{numbers, "copy, with references: for each column of the key that holds keys of another table"},
		{primary && numbers && len(t.Primary) == 1,
			"copy, with renumber: apart, if each server has counted its own rows"},
		{keyed, "keep_first, or newest with by:, if rows that are equal mean the same on all servers, such as " +
			"a setting: one of them stays" + either},
		{keyed && d.adds(t), "sum, if they are counters whose numbers are added up" + either},
		{true, "rebuild, if the game computes the rows anew"},
		{true, "copy, if no two servers have equal ones, which check finds out"},
	} {
		if c.fits {
			all = append(all, c.text)
		}
	}
	return all
}

// adds reports whether a table has numbers that are neither part of a key nor a reference.
func (d *drafter) adds(t *sqldb.Table) bool {
	return slices.ContainsFunc(t.Columns, func(c *sqldb.Column) bool {
		number := c.Family == sqldb.FamilyInt || c.Family == sqldb.FamilyDecimal || c.Family == sqldb.FamilyFloat
		key := func(k sqldb.UniqueKey) bool { return k.Covers(c.Name) }
		refers := func(r sqldb.Reference) bool { return slices.Contains(r.Columns, c.Name) }
		return number && !slices.ContainsFunc(t.Keys(), key) && !slices.ContainsFunc(d.references(t), refers)
	})
}

// renumbered reports whether the database has counted the keys of a table on a server: two servers have equal
// ones by chance. Keys that a generator made, and keys of other tables, stay as they are.
func (d *drafter) renumbered(ctx context.Context, t *sqldb.Table) (bool, error) {
	c := identityOf(t)
	if c == nil {
		return false, nil
	}
	if known := d.known[t.Name]; known != nil && known.Renumber != "" {
		return true, nil // somebody who knows the game has said so
	}
	refers := func(r sqldb.Reference) bool { return slices.Contains(r.Columns, c.Name) }
	if c.Family != sqldb.FamilyInt || !c.HasDefault || slices.ContainsFunc(d.references(t), refers) {
		return false, nil
	}
	spans, err := d.counted(ctx, t.Name, c.Name)
	if err != nil || len(spans) == 0 {
		return false, err
	}
	// The one row that a world has is no row that a database has counted, whatever its key is.
	other := func(s keySpan) bool { return s.least != s.greatest || s != spans[0] }
	return len(spans) == 1 || slices.ContainsFunc(spans, other), nil
}

// apart reports whether no two servers should have an equal value in a column of a table: because a generator
// made the values, because they are keys of rows that are apart, or because those of different servers lie in
// different ranges, such as the number of the server. The check looks at every row of such a key.
func (d *drafter) apart(ctx context.Context, t *sqldb.Table, c *sqldb.Column) (bool, error) {
	switch c.Family {
	case sqldb.FamilyUUID:
		return true, nil
	case sqldb.FamilyInt:
	default:
		return false, nil
	}
	at := place{t.Name, c.Name}
	if known, ok := d.spans[at]; ok {
		return known, nil
	}
	d.spans[at] = false // of a circle of references
	apart, err := d.leadsApart(ctx, t, c.Name)
	if err == nil && !apart {
		apart, err = d.rangesApart(ctx, t.Name, c.Name)
	}
	d.spans[at] = apart
	return apart, err
}

// leadsApart reports whether a column holds keys of another table that no two servers have in common.
func (d *drafter) leadsApart(ctx context.Context, t *sqldb.Table, column string) (bool, error) {
	for _, ref := range d.references(t) {
		at := slices.Index(ref.Columns, column)
		parent := d.ws.target.Tables[ref.Parent]
		if at < 0 || parent == nil || parent == t || ref.When != "" || ref.Inside() {
			continue
		}
		to := d.ws.led(ref).Target
		if at >= len(to) || parent.Column(to[at]) == nil {
			continue
		}
		key := parent.Column(to[at])
		apart, err := d.renumbered(ctx, parent)
		apart = apart && identityOf(parent) == key
		if err == nil && !apart {
			apart, err = d.apart(ctx, parent, key)
		}
		if err != nil || apart {
			return apart, err
		}
	}
	return false, nil
}

// rangesApart reports whether the values of a column that no generator made lie in another range on each
// server.
func (d *drafter) rangesApart(ctx context.Context, table, column string) (bool, error) {
	for _, s := range d.ws.servers {
		from := s.db.Tables[table]
		if from != nil && from.Column(column) != nil && from.Column(column).Family != sqldb.FamilyInt {
			return false, nil
		}
	}
	spans, err := d.counted(ctx, table, column)
	for i, a := range spans {
		for _, b := range spans[:i] {
			if a.least <= b.greatest && b.least <= a.greatest {
				return false, err
			}
		}
	}
	return err == nil, err
}

// counted returns the range of the values of a column that no generator made, for each server that has any.
func (d *drafter) counted(ctx context.Context, table, column string) (spans []keySpan, err error) {
	for i, s := range d.ws.servers {
		if s.db.Tables[table] == nil || s.db.Tables[table].Column(column) == nil {
			continue
		}
		least, greatest, _, err := (&keyOffsets{ws: d.ws}).counted(ctx, i, table, column)
		if err != nil {
			return nil, err
		}
		if greatest >= 0 {
			spans = append(spans, keySpan{least, greatest})
		}
	}
	return spans, nil
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

// calledKey returns what reports call a unique key: its columns, since databases
// make up names of indexes. An expression has none.
func calledKey(t *sqldb.Table, k sqldb.UniqueKey) string {
	if k.Name == sqldb.PrimaryName || !k.Simple() {
		return k.Name
	}
	return covered(t, k)
}

// covered returns the names of the columns of a unique key, in brackets.
func covered(t *sqldb.Table, k sqldb.UniqueKey) string {
	var names []string
	for _, c := range t.Columns {
		if k.Covers(c.Name) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return k.Name
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// copiesOf looks for columns that repeat the names of a table, such as role_name next to a role_id.
func (d *drafter) copiesOf(parent string) []NameCopy {
	var copies []NameCopy
	for _, name := range slices.Sorted(maps.Keys(d.ws.target.Tables)) {
		t := d.ws.target.Tables[name]
		for _, ref := range d.references(t) {
			if ref.Parent != parent || len(ref.Columns) != 1 || ref.When != "" || ref.Inside() {
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

// leftOut drafts the list of what is left out.
func (d *drafter) leftOut(known []LeftOut) []LeftOut {
	all := slices.Clone(known)
	for _, s := range d.ws.servers {
		for _, o := range s.db.Objects {
			if slices.ContainsFunc(all, func(l LeftOut) bool { return l.Kind == o.Kind && l.Name == o.Name }) {
				continue
			}
			all = append(all, LeftOut{Kind: o.Kind, Name: o.Name, Note: noteOf(o)})
		}
	}
	return all
}

func noteOf(o sqldb.Object) string {
	note := "the migrations make it"
	if o.Rows {
		note = "REVIEW: its rows are not copied"
	}
	if o.What != "" {
		note += "; " + o.What
	}
	return note
}
