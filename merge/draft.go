package merge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
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
	drafted.Version = cmp.Or(plan.Version, 1)
	drafted.Tables, drafted.Identities = map[string]*TablePlan{}, map[string]*Identity{}
	maps.Copy(drafted.Tables, plan.Tables)
	maps.Copy(drafted.Identities, plan.Identities)
	ws, err := openWorkspace(ctx, &drafted, opts)
	if err != nil {
		return nil, nil, withCause(ctx, err)
	}
	defer func() { err = withCause(ctx, errors.Join(err, ws.close())) }()
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
	for name, p := range drafted.Tables {
		if d.known[name] == nil && p.Rename != nil {
			p.Rename.Derived = d.derived(ws.target.Tables[name], p.Rename.Column)
		}
	}
	err = d.repeated(ctx, &drafted, func(table string, o OpenColumn) {
		if d.known[table] == nil && o.As != asSentences { // check warns of these
			drafted.Tables[table].Undecided = append(drafted.Tables[table].Undecided, o)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	for name, p := range drafted.Tables {
		kept := p.Policy == Copy || p.Policy == Rename || p.Policy == Sum
		if t := ws.target.Tables[name]; t != nil && kept {
			drafted.Conserve = append(drafted.Conserve, sums(name, t, plan.Conserve)...)
		}
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
	slices.SortFunc(drafted.Conserve, func(a, b ConservedSum) int { return strings.Compare(a.Name, b.Name) })
	return &drafted, lock, drafted.Validate()
}

// sums suggests sums to conserve: columns whose last word says that they hold money or the like.
func sums(name string, t *sqldb.Table, known []ConservedSum) []ConservedSum {
	words := strings.Fields("gold silver coin coins money cash bank credits diamond diamonds gem gems " +
		"balance paid recharge")
	var all []ConservedSum
	for _, c := range t.Columns {
		s := ConservedSum{Name: name + " " + c.Name, Table: name, Expression: "SUM({" + c.Name + "})"}
		if c.Name == strings.ToLower(c.Name) {
			s.Expression = "SUM(" + c.Name + ")"
		}
		last := strings.ToLower(c.Name[strings.LastIndex(c.Name, "_")+1:])
		if c.Family.Exact() && slices.Contains(words, last) && !slices.Contains(known, s) {
			all = append(all, s)
		}
	}
	return all
}

// drafter suggests policies. It suggests none that drops a row or makes one row of several, and it does not
// look at what tables are called.
type drafter struct {
	*sqldb.Asker
	ws     *workspace
	known  map[string]*TablePlan // what the plan had before
	spans  map[place]bool        // columns whose values were looked at: are those of different servers apart?
	ranges map[place][]keySpan   // of the values of columns that no generator made
	found  []census.Finding      // what columns may refer to, though neither the target nor the plan says so
	stays  map[place]bool        // columns that hold keys of what is installed with the game
	equal  map[string][]string   // by table, what equalColumns has found
	// samples are the texts of columns that are compared with names, by server.
	samples map[place][][]string
	hits    map[textsAndName]int64 // how many texts are names
	// documents are texts in the documents of columns, by path and server.
	documents map[place]map[string][][]string
	pieces    map[place]map[int]pieces // of texts, by server
}

func newDrafter(ws *workspace) *drafter {
	return &drafter{
		ws: ws, known: maps.Clone(ws.plan.Tables), spans: map[place]bool{}, samples: map[place][][]string{},
		pieces: map[place]map[int]pieces{}, stays: map[place]bool{}, ranges: map[place][]keySpan{},
		documents: map[place]map[string][][]string{}, hits: map[textsAndName]int64{},
		equal: map[string][]string{},
	}
}

// find looks for references in the data.
func (d *drafter) find(ctx context.Context) (*Lock, error) {
	lock, found, err := survey(ctx, d.ws, nil, false)
	if err != nil {
		return nil, err
	}
	d.Asker = sqldb.NewAsker(ctx)
	for i, f := range found {
		if known := d.known[f.Parent.Table]; known != nil && known.Renumber != "" {
			found[i].Installed, f.Installed = false, false // somebody wants these rows once for each server
		}
		if f.Installed && f.Verdict == census.Reference && f.When == "" {
			d.stays[place{f.Table, f.Name}] = true
		}
	}
	filled := map[string]bool{}
	isFilled := func(table string) bool {
		if _, known := filled[table]; !known {
			filled[table] = d.filled(table)
		}
		return filled[table]
	}
	d.found = slices.DeleteFunc(found, func(f census.Finding) bool {
		t, parent := d.ws.target.Tables[f.Table], d.ws.target.Tables[f.Parent.Table]
		return f.Verdict < census.Possible || f.Installed || t == nil || parent == nil ||
			t.Column(f.Name) == nil || parent.Column(f.Parent.Name) == nil ||
			d.ws.declared(f.Table, f.Name, f.Parent.Table) || slices.Contains(d.ws.plan.Plain, f.String()) ||
			f.Verdict == census.Possible && (isFilled(f.Table) || isFilled(f.Parent.Table))
	})
	return lock, d.Err
}

// filled reports whether the target has rows of a table, and not only a few of many, such as the account of
// an administrator. They are what the migrations of the game have made, also where somebody has changed some
// of them on a server, and keep their keys and numbers. Most other numbers are among these by chance. If
// somebody wants the rows of the servers after all, check says what may refer.
func (d *drafter) filled(table string) bool {
	count := func(db *sqldb.DB) int64 { return d.Count(db, " FROM ", db.Kind.Quote(table)) }
	rows := count(d.ws.target)
	return rows > 0 && !slices.ContainsFunc(d.ws.servers, func(s *server) bool {
		return s.db.Tables[table] != nil && count(s.db) > 2*rows
	})
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
	for _, parent := range slices.SortedFunc(maps.Keys(columns), census.Column.Compare) {
		name, id := parent.Table, Identity{Key: parent.Name}
		if known := p.Identities[name]; known != nil && (known.table(name) != parent.Table ||
			known.Key != parent.Name) {
			name, id.Table = parent.String(), parent.Table // the table has another identity
		}
		for n, known := range p.Identities {
			if known.table(n) == parent.Table && known.Key == parent.Name {
				name, id = n, *known
			}
		}
		id.note = fmt.Sprintf("columns: %d, with %d different values, which are keys on each server",
			len(columns[parent]), values[parent])
		id.In = d.shorten(parent, columns[parent], slices.Clone(id.In))
		p.Identities[name] = &id
	}
}

// shorten adds entries to those of an identity. Some that differ only in their tables become a pattern, if
// each column that it is about is one of them, or stands beside it in the same list.
func (d *drafter) shorten(parent census.Column, entries []holder, texts []string) []string {
	const least = 3 // fewer are no pattern
	for len(entries) > 0 {
		e := entries[0]
		alike := func(o holder) bool { return o.when == e.when && e.covers(o.table, o.column) }
		for index := range len(e.table) {
			if index > 0 && e.table[index-1] != '_' {
				continue
			}
			one := e
			e.table = e.table[:index] + "*"
			if others := slices.DeleteFunc(slices.Clone(entries), alike); len(entries)-len(others) >= least &&
				d.only(parent, e, entries, texts) {
				break
			}
			e = one
		}
		entries, texts = slices.DeleteFunc(entries, alike), append(texts, e.String())
	}
	return texts
}

// only reports whether a pattern is about no column but those of some entries, and of none that a pattern
// before it is about. The key itself is about nothing.
func (d *drafter) only(parent census.Column, pattern holder, entries []holder, before []string) bool {
	for table, t := range d.ws.target.Tables {
		column := census.Column{Table: table, Name: pattern.column}
		if column == parent || t.Column(column.Name) == nil || !pattern.covers(table, column.Name) {
			continue
		}
		listed := func(e holder) bool { return e.table == table && e.column == column.Name }
		taken := func(text string) bool {
			e, err := parseHolder(text)
			return err == nil && e.many() && e.covers(table, column.Name)
		}
		other := func(f census.Finding) bool {
			return f.Column == column && f.Verdict >= census.Possible && f.Parent != parent
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
			all = append(all, r.catalog())
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

// refers reports whether a column is part of a reference of its table.
func (d *drafter) refers(t *sqldb.Table, column string) bool {
	return slices.ContainsFunc(d.references(t), func(r sqldb.Reference) bool {
		return slices.Contains(r.Columns, column)
	})
}

// asked reports whether a column may refer by what is in it.
func (d *drafter) asked(t *sqldb.Table, column string) bool {
	return slices.ContainsFunc(d.found, func(f census.Finding) bool {
		return f.Table == t.Name && f.Name == column
	})
}

// installed reports whether a table has the same rows on all servers.
func (d *drafter) installed(table string) bool {
	same, err := census.Alike(d.Ctx, d.ws.databases()[:len(d.ws.servers)], table)
	d.Fail(err)
	return same
}

// having returns the servers that have some columns of a table.
func (d *drafter) having(table string, columns ...string) iter.Seq2[int, *sqldb.DB] {
	return func(yield func(int, *sqldb.DB) bool) {
		for i, s := range d.ws.servers {
			lacks := func(name string) bool { return s.db.Tables[table].Column(name) == nil }
			if !slices.ContainsFunc(columns, lacks) && !yield(i, s.db) {
				return
			}
		}
	}
}

// suggest drafts the policy of a table. If nobody but a person can decide, that is NotDecided, and there are
// policies to choose from, the likeliest first.
func (d *drafter) suggest(ctx context.Context, name string) (p *TablePlan, candidates []string, err error) {
	d.Asker = sqldb.NewAsker(ctx)
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
		candidates = d.byKeys(t, p)
	}
	d.Fail(err)
	return p, candidates, d.Err
}

// byKeys drafts the policy of a table by the keys in which rows of different servers may be equal.
func (d *drafter) byKeys(t *sqldb.Table, p *TablePlan) []string {
	feeds := 0
	for _, s := range d.ws.servers {
		filled, err := s.db.Holds(d.Ctx, t.Name)
		if d.Fail(err); filled {
			feeds++
		}
	}
	if feeds < 2 {
		p.Policy, p.Note = Copy, "no two servers have rows in it"
		return nil
	}
	notes, open := d.openKeys(t, p)
	name := slices.IndexFunc(open, func(k sqldb.UniqueKey) bool {
		return isName(onlyText(t, k)) && len(k.Parts) == 1 && len(t.Primary) > 0
	})
	found, others := d.namesOf(t)
	if candidates := d.common(t, p, found); len(candidates) > 0 {
		return candidates
	}
	if other := d.calledAfter(t); p.Renumber != "" && other != "" {
		key := identityOf(t).Name
		p.Renumber, p.Note = "", "the key "+key+" is called after "+other+", and no table here is"
		return append([]string{
			"keep_first, or newest with by:, with key: [" + key + "], if another database counts these keys for " +
				"all servers, as one of accounts does: then they stay as they are"}, ownRows(found)...)
	}
	var equal []string
	for _, n := range found {
		equal = append(equal, "REVIEW: names in "+n.column.Name+" are equal, too, though no index says so")
	}
	if name >= 0 && open[0].Name != sqldb.PrimaryName {
		p.Policy, p.Rename = Rename, &RenamePlan{Column: onlyText(t, open[name]), Copies: d.copiesOf(t.Name)}
		notes = append([]string{"names are unique, and the older row keeps its own"}, notes...)
		for _, other := range slices.Delete(open, name, name+1) {
			notes = append(notes, "REVIEW: so is "+covered(t, other)+": check says if any are equal")
		}
		p.Note = strings.Join(append(notes, equal...), "; ")
		return nil
	}
	notes = append(others, notes...)
	for i, k := range open { // one of which rows of two servers are equal tells more
		some := slices.Repeat([]int64{mostSieved}, len(d.ws.servers))
		n := foundName{column: t.Column(onlyText(t, k)), counts: some}
		if len(open) > 1 && n.column != nil && open[0].Name != sqldb.PrimaryName && d.shared(t, n) > 0 {
			open[0], open[i] = k, open[0]
			break
		}
	}
	if len(open) > 0 {
		candidates := d.candidates(t, open[0], p.Renumber != "", found)
		p.Renumber, p.Note = "", "rows of different servers may be equal in the unique key "+covered(t, open[0])
		if open[0].Name == sqldb.PrimaryName {
			p.Note = "rows of different servers may be equal in the primary key"
		}
		p.Note = strings.Join(append([]string{p.Note}, equal...), "; ")
		return candidates
	}
	if len(found) > 0 && found[0].mayBeChance() {
		own := map[Renumbering]string{Apart: ", with renumber: apart"}[p.Renumber]
		p.Renumber = ""
		columns := sqldb.Mapped(found, func(n foundName) string { return n.column.Name })
		p.Note = "no server has two rows with an equal " + strings.Join(columns, " or ") + ", which may be chance"
		return []string{"copy" + own + ", if several rows may have the same text there, such as a subject",
			"rename, with column: " + found[0].column.Name + strings.Replace(own, ", with", " and", 1) +
				", if it is a name that no two rows may have"}
	}
	if p.Policy = Copy; len(found) > 0 {
		notes = append(d.renaming(found, t.Name, p), notes...)
	} else if d.tells(t, p.Renumber != "") && d.installed(t.Name) {
		*p = TablePlan{Policy: NotDecided, Absent: p.Absent, Note: "the rows are nearly the same on all servers"}
		return []string{"skip, if the migrations of the game fill it in the target",
			"copy, with renumber: apart for counted keys, if each server needs rows of its own"}
	}
	for _, columns := range t.Sorted {
		if len(columns) > 1 && d.equalTogether(t, columns) {
			together := strings.Join(columns, ", ")
			notes = append(notes, "REVIEW: no server has two rows equal in "+together+", and rows of different "+
				"servers are; if they are places that two rows cannot share, set: one of these columns, such as to "+
				"an expression with {server}, or move the rows on their server")
		}
	}
	if len(t.Keys()) == 0 {
		notes = append(notes, "REVIEW: without a key, rows that are equal on several servers all stay")
		for _, c := range t.Columns {
			if c.Family == sqldb.FamilyInt && d.equalTogether(t, []string{c.Name}) {
				notes = append(notes, "REVIEW: no server has two rows equal in "+c.Name+", and rows of different "+
					"servers are; if others refer to this number, make it the primary key, on copies and in the "+
					"target, and draft anew")
			}
		}
	}
	p.Note = cmp.Or(strings.Join(notes, "; "), "no two servers should have rows with equal keys")
	return nil
}

// fewTogether is how many rows of a server have to be equal to those of others.
const fewTogether = 3

// equalTogether reports whether no server has two rows that are equal in several columns, and rows of
// different servers are, as where they are the coordinates of places that only the game keeps apart. Columns
// that refer to rows, or may do so, have other values after the merge.
func (d *drafter) equalTogether(t *sqldb.Table, columns []string) bool {
	refers := func(name string) bool { return d.refers(t, name) || d.asked(t, name) }
	covers := func(k sqldb.UniqueKey) bool {
		other := func(name string) bool { return !slices.Contains(columns, name) }
		return !slices.ContainsFunc(k.Columns(), other)
	}
	if slices.ContainsFunc(columns, refers) || slices.ContainsFunc(t.Keys(), covers) {
		return false
	}
	filled := func(db *sqldb.DB) string {
		return " FROM " + db.Kind.Quote(t.Name) + " WHERE " +
			strings.Join(db.Kind.QuoteEach(columns), " IS NOT NULL AND ") + " IS NOT NULL"
	}
	all := d.having(t.Name, columns...)
	for _, db := range all {
		names := db.Kind.QuoteAll(columns)
		for _, limit := range []string{" LIMIT 20000", ""} { // the first rows of a log mostly tell
			twice := d.Rows(db, db.SQL("SELECT 1 FROM (SELECT ", names, filled(db), limit, ") AS v GROUP BY ",
				names, " HAVING COUNT(*) > 1 LIMIT 1"))
			if len(twice) > 0 {
				return false
			}
		}
	}
	seen, equal := newSieve(mostSieved), 0
	for _, db := range all {
		d.EachSteady(db, db.SQL("SELECT ", db.Kind.QuoteAll(columns), filled(db)), func(values []any) bool {
			if seen.knew(sqldb.KeyText(values)) {
				equal++
			}
			return true
		})
	}
	return equal >= fewTogether
}

// calledAfter returns what the key of a table is called after, if no table is called like that: the accounts
// of account_id in account_settings may be those of a database that all servers share, which counts them. A
// key that the own database counts is its own.
func (d *drafter) calledAfter(t *sqldb.Table) string {
	key := identityOf(t)
	if key == nil || key.Counts() {
		return ""
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	stem, ended := strings.CutSuffix(plain(key.Name), "id")
	stem = strings.TrimSuffix(stem, "gu") // of a GUID
	for name := range d.ws.target.Tables {
		last := strings.ToLower(name[strings.LastIndex(name, "_")+1:])
		for _, plural := range []string{"", "s", "es"} {
			ended = ended && !strings.HasSuffix(plain(name), stem+plural)
		}
		ended = ended && !strings.HasPrefix(last, strings.TrimSuffix(stem, "y"))
	}
	if !ended || len(stem) < 3 {
		return ""
	}
	return stem
}

// common reports whether most rows of a table mean the same on two servers. Then nobody but a person can
// decide.
func (d *drafter) common(t *sqldb.Table, p *TablePlan, found []foundName) []string {
	if p.Renumber == "" {
		return nil
	}
	key := identityOf(t).Name
	equal := d.equalColumns(t, key)
	if len(equal) == 0 {
		return nil
	}
	p.Renumber, p.Note = "", "rows of different servers have the same key and the same "+
		strings.Join(equal, ", ")
	others := slices.DeleteFunc(d.candidates(t, t.Keys()[0], true, found), func(c string) bool {
		return strings.HasPrefix(c, string(KeepFirst))
	})
	return append([]string{"keep_first, or newest with by:, with key: [" + key + "], if rows with an equal " +
		"key mean the same on all servers, such as the towns of a map: one of them stays, and no key changes"},
		others...)
}

// alike is equalColumns for somebody who asks nothing else.
func (d *drafter) alike(ctx context.Context, t *sqldb.Table, key string) ([]string, error) {
	d.Asker = sqldb.NewAsker(ctx)
	equal := d.equalColumns(t, key)
	return equal, d.Err
}

// equalColumns returns the columns in which most rows of a table that have an equal counted key are equal on
// two servers: a name, as the towns of a map have it, or all columns. Then none may lead to a row of its own
// server, and where some may lead to other rows, whose keys are alike, what else there is must tell rows
// apart. There are none if rows are not alike.
func (d *drafter) equalColumns(t *sqldb.Table, key string) []string {
	if known, ok := d.equal[t.Name]; ok {
		return known
	}
	d.equal[t.Name] = nil // of a circle of references
	var sets [][]string
	for _, c := range t.Writable() {
		if c.Name != key && c.Family == sqldb.FamilyText && isName(c.Name) {
			sets = append(sets, []string{c.Name})
		}
	}
	named := len(sets)
	whole, open := d.besides(t, key)
	if len(whole) > 0 {
		sets = append(sets, whole)
	}
	for i, names := range sets {
		seen, equal, all, few, tenths, letters := map[string]bool{}, 0, 0, 1, 5, 0
		if i == named { // Rows without a name are alike by chance more easily.
			few = 5
		}
		if i == named && open > 0 { // and those that lead to rows with the same keys even more
			tenths = 6
		}
		columns := append([]string{key}, names...)
		for server, db := range d.having(t.Name, columns...) {
			if server > 1 {
				break
			}
			rows := d.Rows(db, db.SQL("SELECT ", db.Kind.QuoteAll(columns), " FROM ",
				db.Kind.Quote(t.Name), " ORDER BY ", db.Kind.Quote(key), " LIMIT 500"))
			different, told := map[string]bool{}, map[string]bool{}
			all = len(rows)
			for _, row := range rows {
				text := fmt.Sprintf("%q", row)
				if different[fmt.Sprintf("%q", row[1:])] = true; seen[text] {
					equal++
				}
				seen[text] = true
				if i == named {
					told[fmt.Sprintf("%q", row[1:len(row)-open])] = true
					letters += len(strings.Join(row[1:len(row)-open], ""))
				}
			}
			if 2*len(different) < all || i == named && open > 0 && len(told) <= few {
				equal = -all // a few words, and no names
			}
		}
		if i == named && equal == all && letters >= 2*all*muchText {
			few = 1
		}
		if equal > few && 10*equal >= tenths*all {
			d.equal[t.Name] = names
			return names
		}
	}
	return nil
}

// muchText is how many letters and digits of a row are hardly the same by chance.
const muchText = 8

// besides returns the columns of a table beside its key, and how many of them, the last ones, may lead to
// other rows. There are none if one leads to a row of its own server. Of a table about which somebody has
// decided, only foreign keys lead there.
func (d *drafter) besides(t *sqldb.Table, key string) (names []string, open int) {
	var last []string
	decided := d.known[t.Name] != nil
	for _, c := range t.Writable() {
		found := func(f census.Finding) bool {
			return f.Table == t.Name && f.Name == c.Name && f.Parent.Table != t.Name
		}
		foreign := func(r sqldb.Reference) bool { return slices.Contains(r.Columns, c.Name) }
		switch {
		case c.Name == key:
		case (!decided || slices.ContainsFunc(t.References, foreign)) && d.leadsApart(t, c.Name):
			return nil, 0
		case !decided && (d.refers(t, c.Name) || slices.ContainsFunc(d.found, found)):
			last = append(last, c.Name)
		default:
			names = append(names, c.Name)
		}
	}
	return append(names, last...), len(last)
}

// tells reports whether no column of a table leads to a row of its own server, and some beside a counted key
// to none.
func (d *drafter) tells(t *sqldb.Table, counted bool) bool {
	key := ""
	if counted {
		key = identityOf(t).Name
	}
	all, open := d.besides(t, key)
	return open < len(all)
}

// led returns the tables to which rows of other tables refer.
func (d *drafter) led() map[string]bool {
	led := map[string]bool{}
	for name, t := range d.ws.target.Tables {
		for _, r := range d.references(t) {
			led[r.Parent] = led[r.Parent] || r.Parent != name
		}
	}
	return led
}

// openKeys returns the keys of a table in which rows of different servers may be equal, the primary key
// first. Of a counted primary key it says that it is renumbered.
func (d *drafter) openKeys(t *sqldb.Table, p *TablePlan) (notes []string, open []sqldb.UniqueKey) {
	counted := d.renumbered(t)
	if counted {
		p.Renumber = Apart
	}
	for _, k := range t.Keys() {
		if counted && k.Covers(identityOf(t).Name) {
			const note = "REVIEW: counted keys; if rows mean the same on all servers, skip, or keep_first by " +
				"another key"
			if len(k.Columns()) == 1 && !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
			continue
		}
		apart := func(c *sqldb.Column) bool { return d.apart(t, c) }
		if !slices.ContainsFunc(columnsIn(t, k), apart) {
			open = append(open, k)
		}
	}
	return notes, open
}

// ownRows says what there is to choose from for rows that each server has counted: whether their names may be
// equal is for a person to say.
func ownRows(found []foundName) []string {
	all := []string{"copy, with renumber: apart, if each server has counted its own rows"}
	if len(found) == 0 {
		return all
	}
	return append([]string{"rename, with column: " + found[0].column.Name + " and renumber: apart, if each " +
		"server has counted its own rows, and their names are to differ"}, all...)
}

// candidates says what there is to choose from for a table with a key that rows of different servers may
// share.
func (d *drafter) candidates(
	t *sqldb.Table, k sqldb.UniqueKey, counted bool, found []foundName,
) (all []string) {
	either := ""
	if counted && onlyPrimary(t) == identityOf(t) {
		either = " (either with renumber: true, since the keys are counted)"
	}
	keyed, once := len(t.Primary) > 0, ""
	if !keyed {
		once = ", once " + covered(t, k) + " is the primary key on the servers and in the target"
	}
	number := func(c *sqldb.Column) bool { return c.Family == sqldb.FamilyInt }
	example, i := "", slices.IndexFunc(columnsIn(t, k), number)
	if i >= 0 {
		example = t.Name + "." + columnsIn(t, k)[i].Name
	}
	name := onlyText(t, k)
	if example != "" && len(t.Primary) == 1 && k.Name == sqldb.PrimaryName &&
		!d.sparse(t.Name, t.Primary[0]) {
		all = ownRows(found)
	}
	for _, c := range []struct {
		fits bool
		text string
	}{
		{keyed && name != "",
			"rename, with column: " + name + ", if it is a name that one of the rows can give up"},
		{example != "", "copy, if a column of the key holds keys of another table: list it under that table, " +
			"as in identities: {OTHER_TABLE: {in: [" + example + "]}}"},
		{true, "keep_first, or newest with by:" + once + ", if rows that are equal mean the same on all " +
			"servers, such as a setting: one of them stays" + either},
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
		number := c.Family.Exact() || c.Family == sqldb.FamilyFloat
		key := func(k sqldb.UniqueKey) bool { return k.Covers(c.Name) }
		return number && !slices.ContainsFunc(t.Keys(), key) && !d.refers(t, c.Name)
	})
}

// renumbered reports whether the database has counted the keys of a table on a server: two servers have equal
// ones by chance. Keys that a generator made, and keys of other tables, stay as they are.
func (d *drafter) renumbered(t *sqldb.Table) bool {
	c := identityOf(t)
	if c == nil {
		return false
	}
	if known := d.known[t.Name]; known != nil && known.Renumber != "" {
		return true // somebody who knows the game has said so
	}
	if c.Family != sqldb.FamilyInt || !c.HasDefault || d.stays[place{t.Name, c.Name}] || d.refers(t, c.Name) {
		return false
	}
	// A unique number beside the key, such as the leader of a guild, may be the key of another table.
	spans := d.counted(t.Name, c.Name)
	if len(spans) == 0 || !slices.Contains(t.Primary, c.Name) && !c.Counts() {
		return false
	}
	// What every world has is no row that somebody has counted: one row, whatever its key is, and of keys that
	// the database only gives a default, those from 0 on, or from one number to another.
	counts := c.Counts() || d.ws.target.Kind == sqldb.SQLite
	if !c.Counts() && d.sparse(t.Name, c.Name) {
		return false
	}
	other := func(s keySpan) bool { return s != spans[0] || counts && s.least != s.greatest }
	zero := func(s keySpan) bool { return !counts && s.least == 0 }
	return !slices.ContainsFunc(spans, zero) && (len(spans) == 1 || slices.ContainsFunc(spans, other))
}

// apart reports whether no two servers should have an equal value in a column of a table: because a generator
// made the values, because they are keys of rows that are apart, or because those of different servers lie in
// different ranges, such as the number of the server. The check looks at every row of such a key.
func (d *drafter) apart(t *sqldb.Table, c *sqldb.Column) bool {
	child := place{t.Name, c.Name}
	if known, ok := d.spans[child]; ok {
		return known
	}
	d.spans[child] = false // of a circle of references
	d.spans[child] = d.leadsApart(t, c.Name) || d.rangesApart(t.Name, c.Name)
	return d.spans[child]
}

// leadsApart reports whether a column holds keys of another table that no two servers have in common.
func (d *drafter) leadsApart(t *sqldb.Table, column string) bool {
	for _, ref := range d.references(t) {
		index := slices.Index(ref.Columns, column)
		parent := d.ws.target.Tables[ref.Parent]
		if index < 0 || parent == nil || parent == t || ref.When != "" || ref.Inside() {
			continue
		}
		target := d.ws.led(ref).Target
		if index >= len(target) || parent.Column(target[index]) == nil {
			continue
		}
		key := parent.Column(target[index])
		known := d.known[parent.Name]
		said := known != nil && known.Renumber != ""
		if d.apart(parent, key) || identityOf(parent) == key && d.renumbered(parent) &&
			(said || len(d.equalColumns(parent, key.Name)) == 0) {
			return true
		}
		// What is decided about rows that the game itself counts is true of those that belong to them, too.
		if d.known[parent.Name] == nil && !d.stays[place{parent.Name, key.Name}] &&
			key.Family == sqldb.FamilyInt && !key.HasDefault && slices.Equal(parent.Primary, []string{key.Name}) {
			return !d.installed(parent.Name)
		}
	}
	return false
}

// rangesApart reports whether the values of a column that no generator made lie in another range on each
// server.
func (d *drafter) rangesApart(table, column string) bool {
	for _, db := range d.ws.databases() {
		t := db.Tables[table]
		if t != nil && t.Column(column) != nil && t.Column(column).Family != sqldb.FamilyInt {
			return d.uuids(table, column)
		}
	}
	spans := d.counted(table, column)
	for i, a := range spans {
		for _, b := range spans[:i] {
			if a.least <= b.greatest && b.least <= a.greatest {
				return false
			}
		}
	}
	return true
}

// uuid is how a UUID is written.
var uuid = regexp.MustCompile("(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")

// uuids reports whether the first values of a column are UUIDs, of which each server makes its own. Those of
// players whom all servers know, and of rows that every server was installed with, are no such UUIDs.
func (d *drafter) uuids(table, column string) (all bool) {
	seen := map[string]int{}
	for i, db := range d.having(table, column) {
		family := db.Tables[table].Column(column).Family
		if family != sqldb.FamilyText && family != sqldb.FamilyUUID {
			continue
		}
		all = all || family == sqldb.FamilyUUID
		text, where := d.reading(i, table, column)
		for _, row := range d.Rows(db, db.SQL("SELECT ", text, where, " <> '' ORDER BY 1 LIMIT 100")) {
			server, known := seen[row[0]]
			if known && server != i || family == sqldb.FamilyText && !uuid.MatchString(row[0]) {
				return false
			}
			seen[row[0]], all = i, true
		}
	}
	return all
}

// counted returns the range of the values of a column that no generator made, for each server that has any.
func (d *drafter) counted(table, column string) (spans []keySpan) {
	key := place{table, column}
	if known, ok := d.ranges[key]; ok {
		return known
	}
	for i := range d.having(table, column) {
		span, _, err := newSelection(d.ws, i).counted(d.Ctx, table, column)
		if d.Fail(err); span.greatest >= 0 {
			spans = append(spans, span)
		}
	}
	d.ranges[key] = spans
	return spans
}

// sparse reports whether the keys of so few rows lie so far from each other that nobody has counted them, as
// addresses and hashes do.
func (d *drafter) sparse(table, column string) bool {
	rows, widest := int64(0), int64(0)
	for _, s := range d.counted(table, column) {
		widest = max(widest, s.width())
	}
	for _, db := range d.having(table, column) {
		if rows < widest/10_000 {
			rows += d.Number(db, db.SQL("SELECT COUNT(*) FROM ", db.Kind.Quote(table)))
		}
	}
	return rows < widest/10_000
}

// copiesOf looks for columns that repeat the names of a table, such as role_name next to a role_id.
func (d *drafter) copiesOf(parent string) []NameCopy {
	var copies []NameCopy
	for name, t := range sorted(d.ws.target.Tables) {
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

// leftOut drafts the list of what is left out. Nobody but its author may say that rows are.
func (d *drafter) leftOut(known []LeftOut) []LeftOut {
	all := slices.Clone(known)
	for _, s := range d.ws.servers {
		for _, o := range s.db.Objects {
			note := "the migrations make it"
			if o.What != "" {
				note += "; " + o.What
			}
			same := func(l LeftOut) bool { return l.Kind == o.Kind && l.Name == o.Name }
			if !o.Rows && !slices.ContainsFunc(all, same) {
				all = append(all, LeftOut{Kind: o.Kind, Name: o.Name, Note: note})
			}
		}
	}
	return all
}

// The least number of names that two servers have to have, for a column that is called like one for names and
// for any other.
const (
	fewNames  = 2
	manyNames = 20
)

// foundName is a column of names. What is empty there is no name.
type foundName struct {
	column  *sqldb.Column
	counts  []int64 // by server: how many names there are
	empties int64
	shared  int    // how many are on several servers, up to a few
	doubled bool   // a server has two that are equal, or nobody can say
	alive   string // the condition that leaves out deleted rows, if only those have names of others
}

// mayBeChance reports whether so few texts of several servers are equal that it may be chance, in a column
// that is not called like one for names.
func (n foundName) mayBeChance() bool {
	called := isName(n.column.Name) || strings.HasSuffix(strings.ToLower(n.column.Name), "name")
	return n.shared < fewShared && !called
}

// namesOf returns the columns of a table that hold names which only the game keeps apart, the likeliest
// first: no server has two equal ones, and some are on several servers, so a copy would double them without a
// word. A column that is not called like one for names needs more of them, and the notes say where it has
// those of another table.
func (d *drafter) namesOf(t *sqldb.Table) (_ []foundName, notes []string) {
	columns := d.texts(t)
	if len(t.Primary) == 0 || len(columns) == 0 {
		return nil, nil
	}
	all := make([]foundName, len(columns))
	for i, c := range columns {
		all[i] = foundName{column: c, counts: make([]int64, len(d.ws.servers))}
	}
	for _, alive := range d.alive(t) {
		for i, n := range all {
			if n.doubled {
				all[i] = foundName{column: n.column, counts: make([]int64, len(d.ws.servers)), alive: alive}
			}
		}
		// Most texts have equal ones among the first rows, and then nobody has to look at the others.
		for _, limit := range []string{" LIMIT 1000", ""} {
			for i := range d.ws.servers {
				d.countNames(t, i, limit, all)
			}
		}
	}
	var called, others, perhaps []foundName
	for _, n := range all {
		least, found := int64(manyNames), &others
		if isName(n.column.Name) {
			least, found = fewNames, &called
		}
		enough := slices.DeleteFunc(slices.Clone(n.counts), func(count int64) bool { return count < least })
		if n.doubled || len(enough) < 2 {
			continue
		}
		if n.shared = d.shared(t, n); n.shared == 0 {
			continue
		}
		if n.mayBeChance() {
			found = &perhaps
		}
		if named, note := d.namedBy(t, n.column.Name); note != "" {
			notes = append(notes, note)
		} else if !named {
			*found = append(*found, n)
		}
	}
	return slices.Concat(called, others, perhaps), notes
}

// alive returns the conditions to look for names by: none, and that a row is not deleted, if a column says
// so.
func (d *drafter) alive(t *sqldb.Table) []string {
	for _, c := range t.Writable() {
		name := d.ws.written(c.Name)
		quoted := name != c.Name || name != strings.ToLower(name) // as one kind of databases wants it
		other := func(s *server) bool {
			own := s.db.Tables[t.Name]
			return own != nil && (own.Column(c.Name) == nil || own.Column(c.Name).Family != c.Family ||
				quoted && s.db.Kind != d.ws.servers[0].db.Kind)
		}
		switch {
		case !strings.Contains(strings.ToLower(c.Name), "delet") || slices.ContainsFunc(d.ws.servers, other):
		case c.Family == sqldb.FamilyBool:
			return []string{"", name + " IS NOT TRUE"}
		case c.Family == sqldb.FamilyInt && c.Nullable:
			return []string{"", "COALESCE(" + name + ", 0) = 0"}
		case c.Family == sqldb.FamilyInt:
			return []string{"", name + " = 0"}
		case c.Nullable:
			return []string{"", name + " IS NULL"}
		}
	}
	return []string{""}
}

// namedBy reports whether the texts of a column are names of rows of another table, as where each member of
// a guild has the name of a character, or each owner that of a house. If they were renamed as names of their
// own table, an owner could keep a name that his house has given up. The note says whose they are if the
// table does not refer to the other one, in which no server may have two equal names then.
func (d *drafter) namedBy(t *sqldb.Table, column string) (named bool, note string) {
	led := d.led()
	for name, parent := range sorted(d.ws.target.Tables) {
		leads := func(r sqldb.Reference) bool { return r.Parent == name }
		refers := slices.ContainsFunc(d.references(t), leads)
		// Of a table to which others refer, and where no index keeps apart the others, a name is its own.
		own := !refers && isName(column)
		if parent == t || own && led[t.Name] {
			continue
		}
		least := fewNames
		if !refers {
			least = manyNames
		}
		owns := led[name] && !led[t.Name]
		for _, c := range parent.Writable() {
			unique := func(k sqldb.UniqueKey) bool { return onlyText(parent, k) == c.Name }
			indexed := slices.ContainsFunc(parent.Keys(), unique)
			called := indexed || isName(c.Name)
			if c.Family != sqldb.FamilyText || own && !indexed || !called && (!owns || c.MaxChars > longestName) {
				continue
			}
			names := []foundName{{column: c, counts: make([]int64, len(d.ws.servers))}}
			for i := 0; (!refers || !called) && i < len(d.ws.servers); i++ {
				d.countNames(parent, i, "", names)
			}
			if names[0].doubled || d.repeats(place{t.Name, column}, place{name, c.Name}, least, halfOfTen) == "" {
				continue
			}
			if !refers {
				note = "REVIEW: texts in " + column + " are those of " + name + "." + c.Name
			}
			return true, note
		}
	}
	return false, ""
}

// texts returns the texts of a table that are not too long for names, and neither keys, nor what may refer,
// nor copies of the names of other tables.
func (d *drafter) texts(t *sqldb.Table) []*sqldb.Column {
	return slices.DeleteFunc(t.Writable(), func(c *sqldb.Column) bool {
		stem, copied := strings.CutSuffix(c.Name, "_name")
		return c.Family != sqldb.FamilyText || c.MaxChars > longestName ||
			slices.ContainsFunc(t.Keys(), func(k sqldb.UniqueKey) bool { return k.Covers(c.Name) }) ||
			d.refers(t, c.Name) || copied && d.refers(t, stem+"_id") || d.asked(t, c.Name) && !isName(c.Name)
	})
}

// countNames counts the names in some columns on one server, by one statement. It leaves out those of which
// two are known to be equal.
func (d *drafter) countNames(t *sqldb.Table, server int, limit string, all []foundName) {
	db := d.ws.servers[server].db
	source := db.Tables[t.Name]
	if source == nil {
		return
	}
	var list []string
	var indexes []int
	for i := range all {
		if all[i].doubled {
			continue
		}
		c := source.Column(all[i].column.Name)
		if c == nil || c.Family != sqldb.FamilyText {
			all[i].doubled = true
			continue
		}
		name := c.ReadExpression(db.Kind)
		if all[i].alive != "" {
			name = "CASE WHEN " + all[i].alive + " THEN " + name + " END"
		}
		list = append(list, "COUNT(NULLIF("+name+", ''))", "COUNT(DISTINCT NULLIF("+name+", ''))",
			"COUNT(CASE WHEN "+name+" = '' THEN 1 END)")
		indexes = append(indexes, i)
	}
	if len(list) == 0 {
		return
	}
	columns := db.Kind.QuoteAll(sqldb.ColumnNames(source.Columns))
	q := db.SQL("SELECT ", strings.Join(list, ", "), " FROM (SELECT ", columns, " FROM ",
		newSelection(d.ws, server).table(t.Name), limit, ") AS s")
	counts := d.Numbers(db, len(list), q)
	for n, i := range indexes {
		if limit == "" {
			all[i].counts[server], all[i].empties = counts[3*n], all[i].empties+counts[3*n+2]
		}
		all[i].doubled = counts[3*n] != counts[3*n+1]
	}
}

// sieve remembers texts in a fixed number of bytes. It knows each of them again, and some others by chance:
// with so many as it is made for, one in a hundred thousand.
type sieve []uint64

// mostSieved is how many texts a sieve is made for at most.
const mostSieved = 1 << 20

func newSieve(texts int64) sieve { return make(sieve, min(max(texts, 1<<10), mostSieved)) }

// knew reports whether a text was here, and remembers it.
func (s sieve) knew(text string) bool {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(strings.ToLower(strings.TrimRight(text, " "))))
	sum, known := hash.Sum64(), true
	for i := range uint64(4) {
		bit := (sum + i*(sum>>32|1)) % uint64(64*len(s))
		known = known && s[bit/64]&(1<<(bit%64)) != 0
		s[bit/64] |= 1 << (bit % 64)
	}
	return known
}

// reading returns the expression of a column of texts on a server, and the beginning of a condition on it.
func (d *drafter) reading(server int, table, column string) (text, where string) {
	db := d.ws.servers[server].db
	text = db.Tables[table].Column(column).ReadExpression(db.Kind)
	return text, " FROM " + newSelection(d.ws, server).table(table) + " AS s WHERE " + text
}

// fewShared is how many texts of different servers may be equal where none of one server are, though they are
// no names. About as many are to be expected on each server, and once in e to this there are none.
const fewShared = 5

// shared counts the names that two servers have, up to a few. A document is none.
func (d *drafter) shared(t *sqldb.Table, n foundName) (found int) {
	texts := int64(0)
	for _, count := range n.counts {
		texts += count
	}
	seen := newSieve(texts)
	for i, s := range d.ws.servers {
		if n.counts[i] == 0 {
			continue
		}
		name, where := d.reading(i, t.Name, n.column.Name)
		d.EachSteady(s.db, s.db.SQL("SELECT ", name, where, " <> ''"), func(values []any) bool {
			text := sqldb.Text(values[0])
			document := strings.ContainsAny(text[:1], "{[") && json.Valid([]byte(text))
			if !document && seen.knew(text) && d.had(t, n, i, text) {
				found++
			}
			return found < fewShared
		})
		if found == fewShared {
			break
		}
	}
	return found
}

// had reports whether one of the servers before one has a name.
func (d *drafter) had(t *sqldb.Table, n foundName, before int, text string) bool {
	for i, s := range d.ws.servers[:before] {
		if n.counts[i] == 0 {
			continue
		}
		_, where := d.reading(i, t.Name, n.column.Name)
		if len(d.Rows(s.db, s.db.SQL("SELECT 1", where, " = ").Bind(text).Add(" LIMIT 1"))) > 0 {
			return true
		}
	}
	return false
}

// renaming drafts a rename by the names of a table, and returns the notes about it.
func (d *drafter) renaming(found []foundName, table string, p *TablePlan) []string {
	name := found[0].column.Name
	p.Policy = Rename
	p.Rename = &RenamePlan{Column: name, Copies: d.copiesOf(table)}
	p.Rename.When = found[0].alive
	if found[0].empties > 0 {
		quoted := name
		if !isName(name) || name != strings.ToLower(name) {
			quoted = d.ws.servers[0].db.Kind.Quote(name)
		}
		p.Rename.When = strings.TrimPrefix(p.Rename.When+" AND "+quoted+" <> ''", " AND ")
	}
	notes := []string{"names are unique on each server, though no index says so, and the older row keeps its " +
		"own"}
	if !isName(name) {
		notes[0] = "REVIEW: " + notes[0] + "; copy, if equal ones are no names"
	}
	for _, other := range found[1:] {
		notes = append(notes, "REVIEW: so are those in "+other.column.Name)
	}
	return notes
}
