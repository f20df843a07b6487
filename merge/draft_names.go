package merge

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// nameFinder finds the column of a table that holds names which only the game keeps apart: no server has two
// equal ones, and some are on several servers, so a copy would double them without a word. A column that is
// not called like one for names needs more of them.
type nameFinder struct{ d *drafter }

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
	doubled bool // a server has two that are equal, or nobody can say
}

// find returns the columns of names of a table, the likeliest first.
func (f *nameFinder) find(ctx context.Context, t *sqldb.Table) ([]foundName, error) {
	columns := f.candidates(t)
	if len(t.Primary) == 0 || len(columns) == 0 {
		return nil, nil
	}
	all := make([]foundName, len(columns))
	for i, c := range columns {
		all[i] = foundName{column: c, counts: make([]int64, len(f.d.ws.servers))}
	}
	for i := range f.d.ws.servers {
		if err := f.count(ctx, t, i, all); err != nil {
			return nil, err
		}
	}
	var found []foundName
	for _, n := range all {
		least := int64(manyNames)
		if regexp.MustCompile(nameWords).MatchString(n.column.Name) {
			least = fewNames
		}
		enough := slices.DeleteFunc(slices.Clone(n.counts), func(count int64) bool { return count < least })
		if n.doubled || len(enough) < 2 {
			continue
		}
		shared, err := f.shared(ctx, t, n)
		if err != nil {
			return nil, err
		}
		if shared {
			found = append(found, n)
		}
	}
	slices.SortStableFunc(found, func(a, b foundName) int { return f.rank(a) - f.rank(b) })
	return found, nil
}

func (f *nameFinder) rank(n foundName) int {
	if regexp.MustCompile(nameWords).MatchString(n.column.Name) {
		return 0
	}
	return 1
}

// candidates returns the texts of a table that are not too long for names, and neither keys, references nor
// copies of the names of other tables.
func (f *nameFinder) candidates(t *sqldb.Table) []*sqldb.Column {
	const longest = 255
	references := f.d.references(t)
	return slices.DeleteFunc(t.Writable(), func(c *sqldb.Column) bool {
		stem, copied := strings.CutSuffix(c.Name, "_name")
		taken := func(r sqldb.Reference) bool {
			return slices.Contains(r.Columns, c.Name) || copied && slices.Contains(r.Columns, stem+"_id")
		}
		return c.Family != sqldb.FamilyText || c.MaxChars > longest ||
			c.MaxChars == 0 && f.d.ws.target.Kind == sqldb.MySQL ||
			slices.ContainsFunc(t.Keys(), func(k sqldb.UniqueKey) bool { return k.Covers(c.Name) }) ||
			slices.ContainsFunc(references, taken)
	})
}

// count counts the names in some columns on one server, by one statement.
func (f *nameFinder) count(ctx context.Context, t *sqldb.Table, server int, all []foundName) error {
	db := f.d.ws.servers[server].db
	from := db.Tables[t.Name]
	if from == nil {
		return nil
	}
	var list []string
	var at []int
	for i := range all {
		c := from.Column(all[i].column.Name)
		if c == nil || c.Family != sqldb.FamilyText {
			all[i].doubled = true
			continue
		}
		name := c.ReadExpression(db.Kind)
		list = append(list, "COUNT(NULLIF("+name+", ''))", "COUNT(DISTINCT NULLIF("+name+", ''))",
			"COUNT(CASE WHEN "+name+" = '' THEN 1 END)")
		at = append(at, i)
	}
	if len(list) == 0 {
		return nil
	}
	rows, err := db.Strings(ctx, sqldb.NewStatement(db.Kind, "SELECT ", strings.Join(list, ", "), " FROM ",
		newSelection(f.d.ws, server).table(t.Name), " AS s"))
	if err != nil {
		return err
	}
	for n, i := range at {
		var counts [3]int64
		for k := range counts {
			if counts[k], err = strconv.ParseInt(rows[0][3*n+k], 10, 64); err != nil {
				return err
			}
		}
		all[i].counts[server], all[i].empties = counts[0], all[i].empties+counts[2]
		all[i].doubled = all[i].doubled || counts[0] != counts[1]
	}
	return nil
}

// sieve remembers texts in a fixed number of bytes. It knows each of them again, and some others by chance.
type sieve []uint64

// sieveBits is the number of bits of a sieve. With a million texts in it, it takes one in a hundred thousand
// others for known.
const sieveBits = 1 << 26

func newSieve() sieve { return make(sieve, sieveBits/64) }

// knew reports whether a text was here, and remembers it.
func (s sieve) knew(text string) bool {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(strings.ToLower(strings.TrimRight(text, " "))))
	sum, known := hash.Sum64(), true
	for i := range uint64(4) {
		bit := (sum + i*(sum>>32|1)) % sieveBits
		known = known && s[bit/64]&(1<<(bit%64)) != 0
		s[bit/64] |= 1 << (bit % 64)
	}
	return known
}

// shared reports whether two servers have an equal name.
func (f *nameFinder) shared(ctx context.Context, t *sqldb.Table, n foundName) (bool, error) {
	seen := newSieve()
	for i, s := range f.d.ws.servers {
		if n.counts[i] == 0 {
			continue
		}
		name := s.db.Tables[t.Name].Column(n.column.Name).ReadExpression(s.db.Kind)
		q := sqldb.NewStatement(s.db.Kind, "SELECT ", name, " FROM ", newSelection(f.d.ws, i).table(t.Name),
			" AS s WHERE ", name, " <> ''")
		err := s.db.EachSteady(ctx, q, func(values []any) error {
			text := sqldb.Text(values[0])
			if !seen.knew(text) {
				return nil
			}
			had, err := f.had(ctx, t, n, i, text)
			if err == nil && had {
				return errEnough
			}
			return err
		})
		if errors.Is(err, errEnough) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// had reports whether one of the servers before one has a name.
func (f *nameFinder) had(ctx context.Context, t *sqldb.Table, n foundName, before int,
	text string) (bool, error) {
	for i, s := range f.d.ws.servers[:before] {
		if n.counts[i] == 0 {
			continue
		}
		name := s.db.Tables[t.Name].Column(n.column.Name).ReadExpression(s.db.Kind)
		rows, err := s.db.Strings(ctx, sqldb.NewStatement(s.db.Kind, "SELECT 1 FROM ",
			newSelection(f.d.ws, i).table(t.Name), " AS s WHERE ", name, " = ").Bind(text).Add(" LIMIT 1"))
		if err != nil || len(rows) > 0 {
			return len(rows) > 0, err
		}
	}
	return false, nil
}

// propose drafts a rename by the names of a table, and returns the notes about it.
func (f *nameFinder) propose(found []foundName, table string, p *TablePlan) []string {
	name := found[0].column.Name
	p.Policy = Rename
	p.Rename = &RenamePlan{Column: name, Copies: f.d.copiesOf(table)}
	if found[0].empties > 0 {
		quoted := name
		if f.rank(found[0]) > 0 || name != strings.ToLower(name) {
			quoted = f.d.ws.servers[0].db.Kind.Quote(name)
		}
		p.Rename.When = quoted + " <> ''"
	}
	notes := []string{"names are unique on each server, though no index says so, and the older row keeps its " +
		"own"}
	if f.rank(found[0]) > 0 {
		notes[0] = "REVIEW: " + notes[0] + "; copy, if equal ones are no names"
	}
	for _, other := range found[1:] {
		notes = append(notes, "REVIEW: so are those in "+other.column.Name)
	}
	return notes
}

// asNames is how a column may refer that repeats names which may change.
const asNames = "names"

// repeated finds texts that are names of rows which may be renamed, of which the plan says nothing.
func (f *nameFinder) repeated(ctx context.Context, p *Plan, found func(table string, o OpenColumn)) error {
	for _, parent := range slices.Sorted(maps.Keys(p.Tables)) {
		r := p.Tables[parent].Rename
		if r == nil {
			continue
		}
		for _, table := range slices.Sorted(maps.Keys(p.Tables)) {
			t, of := f.d.ws.target.Tables[table], p.Tables[table]
			if t == nil || !of.Policy.copies() && of.Policy != NotDecided {
				continue
			}
			for _, c := range t.Writable() {
				listed := func(n NameCopy) bool { return n.Table == table && n.Column == c.Name }
				if c.Family != sqldb.FamilyText || of.Rename != nil && of.Rename.Column == c.Name ||
					slices.ContainsFunc(r.Copies, listed) || slices.Contains(p.Plain, table+"."+c.Name) {
					continue
				}
				evidence, err := f.repeats(ctx, table, c.Name, parent, r.Column)
				if err != nil {
					return fmt.Errorf("copies of names cannot be looked for: %w", err)
				}
				if evidence != "" {
					found(table, OpenColumn{Column: c.Name, Candidate: parent + "." + r.Column, As: asNames,
						With: f.beside(t, parent), Evidence: evidence})
				}
			}
		}
	}
	return nil
}

// beside returns the one column of a table that leads to another table, or "".
func (f *nameFinder) beside(t *sqldb.Table, parent string) (column string) {
	for _, ref := range f.d.references(t) {
		if ref.Parent != parent || len(ref.Columns) != 1 || ref.Inside() {
			continue
		}
		if column != "" && column != ref.Columns[0] {
			return ""
		}
		column = ref.Columns[0]
	}
	return column
}

// repeats returns evidence if almost all of some texts of a column are names, on each server that has any.
func (f *nameFinder) repeats(ctx context.Context, table, column, parent, named string) (string, error) {
	const sampled, least = 500, 20
	var parts []string
	for i, s := range f.d.ws.servers {
		of, names := s.db.Tables[table], s.db.Tables[parent]
		if of == nil || names == nil || of.Column(column) == nil || names.Column(named) == nil {
			continue
		}
		k, sel := s.db.Kind, newSelection(f.d.ws, i)
		rows, err := s.db.Strings(ctx, sqldb.NewStatement(k, "SELECT DISTINCT ", k.Quote(column), " FROM ",
			sel.table(table), " WHERE ", k.Quote(column), " <> '' LIMIT ", strconv.Itoa(sampled)))
		if err != nil || len(rows) == 0 {
			if err != nil {
				return "", err
			}
			continue
		}
		q := sqldb.NewStatement(k, "SELECT COUNT(DISTINCT ", k.Quote(named), ") FROM ", sel.table(parent),
			" WHERE ", k.Quote(named), " IN (")
		for n, row := range rows {
			q.Add([]string{"", ", "}[min(n, 1)]).Bind(row[0])
		}
		hits, err := s.db.Number(ctx, q.Add(")"))
		if err != nil || len(rows) < least || hits*10 < int64(len(rows))*9 {
			return "", err
		}
		parts = append(parts, fmt.Sprintf("%s: %d of %d texts are names", s.Name, hits, len(rows)))
	}
	return strings.Join(parts, "; "), nil
}
