package merge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// repeated finds texts that are names of rows which may be renamed, of which the plan says nothing.
func (d *drafter) repeated(ctx context.Context, p *Plan, found func(table string, o OpenColumn)) error {
	d.Asker = sqldb.NewAsker(ctx)
	for parent, renamed := range sorted(p.Tables) {
		r := renamed.Rename
		if r == nil {
			continue
		}
		for table, planned := range sorted(p.Tables) {
			t := d.ws.target.Tables[table]
			if t == nil || !planned.Policy.copies() && planned.Policy != NotDecided {
				continue
			}
			var computed []DerivedName
			if table == parent {
				computed = d.derived(t, r.Column)
			}
			for _, c := range t.Writable() {
				listed := func(n NameCopy) bool { return n.Table == table && n.Column == c.Name }
				refers := func(ref sqldb.Reference) bool {
					return ref.Parent == parent && !ref.Inside() && slices.Contains(ref.Columns, c.Name)
				}
				if c.Family != sqldb.FamilyText && c.Family != sqldb.FamilyJSON ||
					slices.Contains(planned.Rename.writes(), c.Name) ||
					slices.ContainsFunc(r.Copies, listed) || slices.ContainsFunc(d.references(t), refers) ||
					slices.Contains(p.Plain, table+"."+c.Name) {
					continue
				}
				same := func(own DerivedName) bool { return own.Column == c.Name }
				if i := slices.IndexFunc(computed, same); i >= 0 {
					found(table, OpenColumn{Column: c.Name, Candidate: parent + "." + r.Column,
						As: asComputed + computed[i].As, Evidence: "in all rows"})
				} else if o := d.repeatedIn(t, c, place{parent, r.Column}); o.Evidence != "" {
					found(table, o)
				}
			}
		}
	}
	if d.Err != nil {
		return fmt.Errorf("copies of names cannot be looked for: %w", d.Err)
	}
	return nil
}

// derived returns the columns that are computed from the name beside them, in all rows. What leads to other
// rows is none of them.
func (d *drafter) derived(t *sqldb.Table, name string) (all []DerivedName) {
	for _, c := range t.Writable() {
		ways, rows := []string{"same", "lower", "upper"}, 0
		if c.Name == name || c.Family != sqldb.FamilyText || d.refers(t, c.Name) {
			continue
		}
		for _, limit := range []string{" LIMIT 500", ""} { // most columns are something else
			rows = 0
			for i, db := range d.having(t.Name, name, c.Name) {
				text, where := d.reading(i, t.Name, name)
				own := db.Tables[t.Name].Column(c.Name)
				if own.Family != sqldb.FamilyText {
					ways = nil
				}
				if len(ways) == 0 {
					break
				}
				q := db.SQL("SELECT ", text, ", ", own.ReadExpression(db.Kind), where, " <> ''", limit)
				d.EachSteady(db, q, func(values []any) bool {
					rows++
					name, other := sqldb.Text(values[0]), sqldb.Text(values[1])
					ways = slices.DeleteFunc(ways, func(as string) bool { return derive(as, name) != other })
					return len(ways) > 0
				})
			}
		}
		if rows >= fewNames && len(ways) > 0 {
			all = append(all, DerivedName{Column: c.Name, As: ways[0]})
		}
	}
	return all
}

// repeatedIn says how a column holds names, in its documents or as its texts. There is no evidence if it
// holds none.
func (d *drafter) repeatedIn(t *sqldb.Table, c *sqldb.Column, name place) (o OpenColumn) {
	o = OpenColumn{Column: c.Name, Candidate: name.table + "." + name.column}
	path, evidence := d.inDocuments(t.Name, c.Name, name)
	if evidence != "" || c.Family == sqldb.FamilyJSON {
		o.As, o.Evidence = "path "+path, evidence
		return o
	}
	leads, least := d.beside(t, c.Name, name.table)
	o.As, o.With = asNames, leads
	text := place{t.Name, c.Name}
	for _, look := range []func() string{
		func() string { return d.repeats(text, name, least, mostOfTen) },
		func() string { return d.repeatsInKind(t, c, name) },
		func() string { return d.repeats(text, name, least, halfOfTen) },
		func() string { return d.repeats(text, name, someNames, allOfTen) }, // and nothing else
	} {
		if o.Evidence = look(); o.Evidence != "" {
			break
		}
	}
	if o.Evidence == "" {
		o.With = ""
		o.As, o.Evidence = d.repeatedWithin(text, name)
		return o
	}
	hits, all := 0, 0
	for i := range d.ws.servers {
		found, err := namesBeside(d.Ctx, d.ws, i, text, leads, name)
		if d.Fail(err); found.others || found.left >= fewOthers {
			o.With = ""
		}
		hits, all = hits+found.hits, all+found.all
	}
	if hits == 0 && all > 0 { // too few on each server, and all are names of others
		o.With = ""
	}
	return o
}

// repeatedWithin returns how names stand within the texts of a column, and the evidence: in lists, of which
// most members are names, or among the words of some sentences at least. Most of these may be nothing else
// than a name.
func (d *drafter) repeatedWithin(text, name place) (as, evidence string) {
	var lists, sentences []string
	listed, said, listHits, alone := 0, 0, 0, 0
	for i, db := range d.having(text.table, text.column) {
		if db.Tables[name.table].Column(name.column) == nil {
			continue
		}
		w := d.within(i, text)
		if len(w.pieces) == 0 {
			return "", ""
		}
		found := d.exactNames(i, slices.Sorted(maps.Keys(w.pieces)), name)
		hits, all := 0, 0
		for piece, isMember := range w.pieces {
			if isMember {
				all++
			}
			if found[piece] && isMember {
				hits++
			}
		}
		texts := 0
		for _, pieces := range w.texts {
			if slices.ContainsFunc(pieces, func(p string) bool { return found[p] }) {
				texts++
			}
			alone--
			if w.lists == 0 && len(pieces) > 0 && found[pieces[0]] { // the first is the whole text
				alone += 2
			}
		}
		listed, listHits, said = listed+w.lists, listHits+hits, said+len(found)
		if hits*2 < all {
			listed = -len(w.texts) * len(d.ws.servers)
		}
		if texts*10 < len(w.texts) {
			return "", ""
		}
		lists = append(lists, fmt.Sprintf("%s: %d of %d members of lists are names", db.Name, hits, all))
		sentences = append(sentences, fmt.Sprintf("%s: %d of %d texts have names in them", db.Name, texts,
			len(w.texts)))
	}
	switch {
	case listed > 0 && listHits >= manyNames:
		return asLists, strings.Join(lists, "; ")
	case said >= manyNames && alone > 0:
		return asNames, strings.Join(sentences, "; ")
	case said >= manyNames:
		return asSentences, strings.Join(sentences, "; ")
	}
	return "", ""
}

// pieces are what may be names within some texts of a column of a server.
type pieces struct {
	texts  [][]string      // the pieces of each text
	pieces map[string]bool // whether a piece is a member of a list
	lists  int             // how many texts have several members
}

// within reads some texts of a column, and what stands between commas, semicolons and ends of lines in them,
// and their words and pairs of words. What stands in many texts is no name of anybody.
func (d *drafter) within(server int, text place) (w pieces) {
	if all := d.pieces[text]; all[server].pieces != nil {
		return all[server]
	}
	const sample, texts, most = "4000", "200", 2000
	read, where := d.reading(server, text.table, text.column)
	db := d.ws.servers[server].db
	// A database may look at all rows to find some that differ.
	rows := d.Rows(db, db.SQL("SELECT DISTINCT merge_text FROM (SELECT SUBSTR(", read, ", 1, ",
		strconv.Itoa(census.MaxChars), ") AS merge_text", where, " <> '' LIMIT ", sample,
		") AS merge_sample LIMIT ", texts))
	w.pieces = map[string]bool{}
	counts := map[string]int{}
	separates := func(r rune) bool { return strings.ContainsRune(",;|\n\r\t", r) }
	for _, row := range rows {
		var all []string
		members := strings.FieldsFunc(row[0], separates)
		if len(members) > 1 {
			w.lists++
		}
		add := func(piece string, member bool) {
			if len(piece) > 2 && len(piece) <= longestName && !slices.Contains(all, piece) && len(w.pieces) < most {
				all = append(all, piece)
				w.pieces[piece] = w.pieces[piece] || member
				counts[piece]++
			}
		}
		for _, m := range members {
			add(strings.Trim(m, " \"'@#*-"), true)
		}
		words := strings.FieldsFunc(row[0], func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-'", r)
		})
		for i, word := range words {
			add(word, false)
			if i > 0 {
				add(words[i-1]+" "+word, false)
			}
		}
		w.texts = append(w.texts, all)
	}
	for piece, n := range counts {
		if n*10 > len(rows) && n > 5 && !w.pieces[piece] {
			delete(w.pieces, piece)
		}
	}
	if d.pieces[text] == nil {
		d.pieces[text] = map[int]pieces{}
	}
	d.pieces[text][server] = w
	return w
}

// amongNames is exactNames for somebody who asks nothing else.
func (d *drafter) amongNames(ctx context.Context, server int, texts []string, named place) (
	map[string]bool, error) {
	d.Asker = sqldb.NewAsker(ctx)
	found := d.exactNames(server, texts, named)
	return found, d.Err
}

// exactNames returns those of some texts that are names on a server, letter by letter.
func (d *drafter) exactNames(server int, texts []string, named place) map[string]bool {
	found := map[string]bool{}
	for some := range slices.Chunk(texts, sampled) {
		asked := d.namesAmong(server, some, named, "DISTINCT ", "")
		for _, row := range d.Rows(d.ws.servers[server].db, asked) {
			found[row[0]] = slices.Contains(some, row[0])
		}
	}
	maps.DeleteFunc(found, func(_ string, exact bool) bool { return !exact })
	return found
}

// namesAmong asks for the names of a server that are among some texts. What it asks stands around the name.
func (d *drafter) namesAmong(
	server int, texts []string, named place, before, behind string,
) *sqldb.Statement {
	name, where := d.reading(server, named.table, named.column)
	db := d.ws.servers[server].db
	compared := sqldb.AnyText(db.Kind, name)
	return db.SQL("SELECT ", before, compared, behind, strings.TrimSuffix(where, name), compared).In(texts)
}

// beside returns the column of a table that leads to the row of another table whose name stands in a column:
// x_id beside x_name, or else the only one; "" if there is none. A few names prove it beside the former, and
// if their column is called like one for names.
func (d *drafter) beside(t *sqldb.Table, name, parent string) (column string, least int) {
	stem, named := strings.CutSuffix(name, "_name")
	id := census.Column{Table: t.Name, Name: stem + "_id"}
	open := func(o census.Finding) bool { return o.Column == id && o.Parent.Table == parent && o.As == "" }
	var all []string
	for _, ref := range d.references(t) {
		if ref.Parent == parent && len(ref.Columns) == 1 && !ref.Inside() {
			all = append(all, ref.Columns[0])
		}
	}
	all = slices.Compact(all)
	switch {
	case named && (slices.Contains(all, id.Name) || slices.ContainsFunc(d.found, open)):
		return id.Name, fewNames
	case len(all) == 1 && isName(name):
		return all[0], fewNames
	case len(all) == 1:
		return all[0], manyNames
	}
	return "", manyNames
}

const (
	// sampled is how many texts of a column are compared with names.
	sampled = 500
	// longestName is how many characters a name has at most.
	longestName = 255

	// So many of ten texts have to be names: some where rows of one kind have them, and half where rows of
	// other names were deleted, if each server has many.
	someOfTen, halfOfTen, mostOfTen, allOfTen = 1, 5, 9, 10
	// someNames is how many names are enough if no other text is there.
	someNames = 6
)

// textsAndName are some texts of a server, by the first of them, and the names with which they are compared.
type textsAndName struct {
	first *string
	name  place
}

// repeats returns evidence if enough texts of a column are names, on each server that has any. All servers
// together have to have so many at least.
func (d *drafter) repeats(text, name place, least, tenths int) string {
	all, known := d.samples[text]
	if !known {
		sample := d.sampleOf(text, "")
		if all = sample[""]; all == nil {
			all = make([][]string, len(d.ws.servers))
		}
		d.samples[text] = all
	}
	return d.areNames(all, name, least, tenths)
}

// sampleOf returns some texts of a column of each server by the value of another column beside them, if there
// is one. There are none if that one has more than a few values.
func (d *drafter) sampleOf(text place, by string) map[string][][]string {
	const fewKinds = 8
	all := map[string][][]string{}
	for i, db := range d.having(text.table, text.column, cmp.Or(by, text.column)) {
		// A text that is too long for a name is still too long for one when it is cut.
		read, where := d.reading(i, text.table, text.column)
		kind := "''"
		if by != "" {
			kind = db.Tables[text.table].Column(by).ReadExpression(db.Kind)
		}
		rows := d.Rows(db, db.SQL("SELECT DISTINCT SUBSTR(", read, ", 1, ",
			strconv.Itoa(longestName+1), "), ", kind, where, " <> '' LIMIT ", strconv.Itoa(sampled)))
		for _, row := range rows {
			if all[row[1]] == nil {
				all[row[1]] = make([][]string, len(d.ws.servers))
			}
			if all[row[1]][i] = append(all[row[1]][i], row[0]); len(all) > fewKinds {
				return nil
			}
		}
	}
	return all
}

// repeatsInKind returns evidence if texts are names in the rows of one kind, which another column tells: such
// as is_player beside killed_by.
func (d *drafter) repeatsInKind(t *sqldb.Table, c *sqldb.Column, name place) string {
	text := place{t.Name, c.Name}
	if d.areNames(d.samples[text], name, manyNames, someOfTen) == "" {
		return "" // nobody has to look at the kinds
	}
	for _, by := range t.Writable() {
		short := by.Family == sqldb.FamilyText && by.MaxChars > 0 && by.MaxChars <= longestName
		if by == c || !short && by.Family != sqldb.FamilyInt && by.Family != sqldb.FamilyBool {
			continue
		}
		for kind, texts := range sorted(d.sampleOf(text, by.Name)) {
			if evidence := d.areNames(texts, name, manyNames, mostOfTen); evidence != "" {
				return fmt.Sprintf("where %s is %q, %s", by.Name, kind, evidence)
			}
		}
	}
	return ""
}

// areNames returns evidence as repeats does, for texts of each server. Of texts that are primary keys, some
// among others are enough, as where only rows of one kind have them.
func (d *drafter) areNames(texts [][]string, named place, least, tenths int) string {
	var parts []string
	total := int64(0)
	if t := d.ws.target.Tables[named.table]; t != nil && slices.Equal(t.Primary, []string{named.column}) {
		tenths = someOfTen
	}
	for i, db := range d.having(named.table, named.column) {
		if len(texts[i]) == 0 {
			continue
		}
		sample := textsAndName{&texts[i][0], named}
		hits, known := d.hits[sample]
		if !known {
			hits = d.Number(db, d.namesAmong(i, texts[i], named, "COUNT(DISTINCT ", ")"))
			d.hits[sample] = hits
		}
		all := int64(len(texts[i]))
		enough := hits*10 >= all*int64(tenths) && (tenths != halfOfTen || hits >= manyNames)
		if !enough && hits*10 < all*mostOfTen {
			return ""
		}
		if total += hits; tenths != someOfTen {
			total += all - hits
		}
		parts = append(parts, fmt.Sprintf("%s: %d of %d texts are names", db.Name, hits, len(texts[i])))
	}
	if total < int64(least) {
		return ""
	}
	return strings.Join(parts, "; ")
}

// inDocuments returns the path to names in the documents of a column, if there is one, and the evidence.
func (d *drafter) inDocuments(table, column string, named place) (path, evidence string) {
	enough := func(texts []string) bool { return len(texts) >= manyNames }
	for path, texts := range sorted(d.documentsIn(place{table, column})) {
		if !slices.ContainsFunc(texts, enough) {
			continue
		}
		if evidence := d.areNames(texts, named, manyNames, halfOfTen); evidence != "" {
			return path, evidence
		}
	}
	return "", ""
}

// documentsIn returns some texts of the documents of a column by their paths and servers.
func (d *drafter) documentsIn(text place) map[string][][]string {
	if found, known := d.documents[text]; known {
		return found
	}
	found := map[string][][]string{}
	d.documents[text] = found
	for i, db := range d.having(text.table, text.column) {
		read, where := d.reading(i, text.table, text.column)
		rows := d.Rows(db, db.SQL("SELECT SUBSTR(", read, ", 1, ", strconv.Itoa(census.MaxChars),
			")", where, " <> '' LIMIT ", strconv.Itoa(sampled)))
		for _, row := range rows {
			for _, v := range census.Values(row[0], text.column) {
				if found[v.Path] == nil {
					found[v.Path] = make([][]string, len(d.ws.servers))
				}
				text, _ := v.Value.(string)
				if all := found[v.Path][i]; text != "" && len(all) < sampled && !slices.Contains(all, text) {
					found[v.Path][i] = append(all, text)
				}
			}
		}
	}
	return found
}
