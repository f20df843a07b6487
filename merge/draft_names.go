package merge

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
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
	doubled := map[*sqldb.Column]bool{}
	for i := range f.d.ws.servers {
		if err := f.count(ctx, t, i, all, doubled); err != nil {
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
		if doubled[n.column] || len(enough) < 2 {
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
func (f *nameFinder) count(
	ctx context.Context, t *sqldb.Table, server int, all []foundName, doubled map[*sqldb.Column]bool,
) error {
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
			doubled[all[i].column] = true // nobody can say
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
		if counts[0] != counts[1] {
			doubled[all[i].column] = true
		}
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
func (f *nameFinder) had(
	ctx context.Context, t *sqldb.Table, n foundName, before int, text string,
) (bool, error) {
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
	p.Rename = &RenamePlan{Column: name, Keep: "older", Format: "{name}.s{server}", Copies: f.d.copiesOf(table)}
	if found[0].empties > 0 {
		quoted := name
		if f.rank(found[0]) > 0 || name != strings.ToLower(name) {
			quoted = f.d.ws.servers[0].db.Kind.Quote(name)
		}
		p.Rename.When = quoted + " <> ''"
	}
	notes := []string{fmt.Sprintf("names in %s are unique on each server, though no index says so, and some "+
		"are on several: the older row keeps its name", name)}
	if f.rank(found[0]) > 0 {
		notes[0] = "REVIEW: " + notes[0] + "; copy, if equal ones are no names"
	}
	for _, other := range found[1:] {
		notes = append(notes, "REVIEW: so are those in "+other.column.Name)
	}
	return notes
}
