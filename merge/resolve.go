package merge

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// resolver finds the conflicts of one table and records how they are resolved.
type resolver struct {
	ws        *workspace
	decisions *decisions
	job       *tableJob
	stage     *stage
	report    *CheckReport
	table     *TableReport
	keys      []sqldb.UniqueKey

	drops, values *sqldb.Writer
	noted         map[RowRef]int // the position of a row in the conflicts of the report

	nameless map[RowRef]bool // rows for which there is no new name
	settled  map[string]bool // keys in which no two rows are equal any more, by their names
}

// newResolver loads the keys of a table into a stage.
func newResolver(ctx context.Context, d *decisions, j *tableJob, keys []sqldb.UniqueKey, report *CheckReport,
	tick func(int)) (*resolver, error) {
	ws := d.ws
	s, err := newStage(ctx, d, j, keys, tick)
	if err != nil {
		return nil, err
	}
	return &resolver{
		ws: ws, decisions: d, job: j, stage: s, report: report, table: report.table(j.name),
		keys: keys, noted: map[RowRef]int{}, nameless: map[RowRef]bool{}, settled: map[string]bool{},
		drops: d.writer(tableDrops), values: d.writer(tableValues),
	}, nil
}

// mostConflicts is how many conflicts of each table a report lists. All are counted, and all renames are in
// the table merge_renames.
const mostConflicts = 10_000

// note adds a conflict to the report.
func (r *resolver) note(key sqldb.UniqueKey, keeper, other stagedRow, resolution, name string) {
	r.table.Conflicts++
	if len(r.noted) >= mostConflicts {
		return
	}
	r.noted[r.ref(other)] = len(r.report.Conflicts)
	r.report.Conflicts = append(r.report.Conflicts, Conflict{
		Table: r.job.name, Key: calledKey(r.job.target, key), Value: r.valueOf(key, other),
		Resolution: resolution, NewName: name, Keeper: r.ref(keeper), Other: r.ref(other),
	})
}

func (r *resolver) ref(g stagedRow) RowRef {
	return RowRef{Server: r.ws.servers[g.server].Name, Key: g.key}
}

// valueOf returns the values of a row in the columns of a key, for the report.
func (r *resolver) valueOf(key sqldb.UniqueKey, g stagedRow) string {
	var parts []string
	for _, name := range key.Columns() {
		if index := r.stage.index(name); index >= 0 {
			v := g.values[index]
			if g.old != nil && r.job.plan.Rename != nil && r.job.plan.Rename.Column == name {
				v = g.old
			}
			parts = append(parts, sqldb.Shorten(sqldb.Text(v)))
		}
	}
	return strings.Join(parts, ", ")
}

// greatestFirst returns the order of rows by a column, if there is one: NULL comes last on every database.
func (r *resolver) greatestFirst(column string) []string {
	if column == "" {
		return nil
	}
	column = r.ws.target.Kind.Quote(column)
	return []string{"CASE WHEN " + column + " IS NULL THEN 1 ELSE 0 END", column + " DESC"}
}

// undecided reports the rows that are still equal in a key.
func (r *resolver) undecided(ctx context.Context, key sqldb.UniqueKey) error {
	if r.settled[key.Name] {
		return nil
	}
	n, err := r.stage.group(ctx, key, nil, 1)
	if err != nil || n == 0 {
		return err
	}
	p := Problem{Code: CodeUniqueKey, Table: r.job.name, Column: strings.Join(key.Columns(), ", "),
		Message: "equal to another row in " + calledKey(r.job.target, key) + ", as the target compares them"}
	var keeper stagedRow
	err = r.stage.groups(ctx, func(page []stagedRow) error {
		for _, g := range page {
			if g.rank == 1 {
				keeper = g
				continue
			}
			p.Count++
			r.note(key, keeper, g, "undecided", "")
		}
		return nil
	})
	named := r.job.plan.Rename.changes(key)
	primary := key.Name == sqldb.PrimaryName
	if primary {
		p.Code = CodePrimaryKey
	}
	var answers []string
	text, own := onlyText(r.job.target, key), identityOf(r.job.target)
	counted := own != nil && own.Family == sqldb.FamilyInt && slices.Equal(key.Columns(), []string{own.Name}) &&
		r.job.plan.Renumber == "" && (primary || !r.job.plan.Policy.collapses())
	if r.leads(key) {
		answers = append(answers, "if a column of the key holds keys of another table, declare that under "+
			"identities:, and they follow")
	}
	switch {
	case named && len(r.nameless) > 0:
		return err // the reason is reported already
	case primary && r.job.plan.Renumber != "":
		answers = []string{"renumber gives other keys to rows whose keys were counted from 0 or 1, and leaves " +
			"keys below 0 and those of a generator alone: give these rows other keys on their server"}
	case primary && r.followsOthers(key): // of rows that become one
		answers = []string{"choose rebuild, if the game computes these rows anew"}
	case counted:
		how := "apart"
		if r.job.plan.Policy.collapses() {
			how = "true"
		}
		answers = append(answers,
			"if each server has counted its own rows, they get other keys by renumber: "+how)
	case primary && text == "":
		answers = append(answers, "if a column of it has numbers that each server has counted and that are the "+
			"key of no table, make a table of them, on copies of the servers and in the target, with the policy "+
			"copy and renumber: apart, and refer to it")
	case named && r.job.plan.Rename.When != "":
		p.Message += "; when: of the rename does not hold for them"
		answers = append(answers, "let when: of the rename hold for all of them but one")
	case r.job.plan.Policy == Rename:
		p.Message += "; rename changes another column"
	case text != "" && len(r.job.target.Primary) > 0:
		answers = append(answers, "if it is a name that one of the rows can give up, choose rename")
	}
	if !primary && !counted {
		answers = append(answers, "if "+strings.Join(key.Columns(), " or ")+" can be another one on all but the "+
			"first server, give it that by set:, an expression with {server}, such as slot + 10 * ({server} - 1)")
	}
	if !primary || r.job.plan.Renumber == "" {
		answers = append(answers, "change the rows on their server")
	}
	if len(r.job.target.Primary) > 0 && !r.followsOthers(key) {
		answers = append(answers, "if rows that are equal mean the same on all servers, choose sum, keep_first "+
			"or newest: they become one")
	}
	p.Remedy = strings.Join(answers, "; or ")
	r.report.problem(p)
	return err
}

// leads reports whether a column of a key may hold keys of another table, and nobody has said that it does.
func (r *resolver) leads(key sqldb.UniqueKey) bool {
	return slices.ContainsFunc(key.Columns(), func(name string) bool {
		c := r.job.target.Column(name)
		return c != nil && c.Family == sqldb.FamilyInt && !r.job.refers(name)
	})
}

// followsOthers reports whether a key is one column that follows the rows of another table. Then rows cannot
// become one by it.
func (r *resolver) followsOthers(key sqldb.UniqueKey) bool {
	return len(key.Columns()) == 1 && slices.ContainsFunc(r.job.follows.links, func(l link) bool {
		return key.Covers(l.column) && l.parent != r.job.name
	})
}

// collapser merges the rows of each group with an equal key into one.
type collapser struct {
	*resolver
	key    sqldb.UniqueKey
	keeper stagedRow
	totals []*big.Rat // of the columns in Sum, for the current group
	others int        // how many rows of the group are merged into the keeper
	rest   []int      // the columns in which rows of a group may differ without a word of the plan
	exact  bool       // all databases are SQLite, which stores values of any type
	out    [][]any    // totals of finished groups
}

// collapse merges rows with an equal key into one.
func (c *collapser) collapse(ctx context.Context) error {
	p := c.job.plan
	c.key = c.job.collapseKey()
	c.exact = !slices.ContainsFunc(c.ws.databases(), func(d *sqldb.DB) bool { return !d.Kind.Untyped() })
	said := slices.Concat(c.job.target.Primary, p.Key, p.Sum, p.Min, p.Max, []string{p.By})
	for _, ref := range c.job.refs {
		if ref.Parent == c.job.name { // what it leads to is known when all have become one
			said = append(said, ref.Columns...)
		}
	}
	for i, column := range c.stage.columns {
		if !slices.Contains(said, column.Name) {
			c.rest = append(c.rest, i)
		}
	}
	n, err := c.stage.group(ctx, c.key, c.greatestFirst(p.By), 1)
	if err != nil || n == 0 {
		return err
	}
	err = c.stage.groups(ctx, func(page []stagedRow) error { return c.page(ctx, page) })
	if err != nil {
		return err
	}
	c.endGroup()
	if err := c.values.Write(ctx, c.out); err != nil {
		return err
	}
	return c.stage.remove(ctx, 2)
}

func (c *collapser) page(ctx context.Context, page []stagedRow) error {
	var drops [][]any
	resolution := "dropped"
	if c.job.plan.Policy == Sum {
		resolution = "added"
	}
	for _, g := range page {
		if g.rank == 1 {
			c.endGroup()
			c.keeper, c.totals, c.others = g, make([]*big.Rat, len(c.job.plan.Sum)), 0
			c.add(g)
			continue
		}
		c.others++
		c.add(g)
		c.note(c.key, c.keeper, g, resolution, "")
		c.table.Dropped++
		drops = append(drops, []any{c.job.name, c.ws.servers[g.server].Number, sqldb.ShortKey(g.key),
			c.ws.servers[c.keeper.server].Number, c.keeper.key, "equal in " + c.key.Name, oneIf(c.differs(g))})
	}
	return c.drops.Write(ctx, drops)
}

// differs reports whether a row has another value than the keeper of its group.
func (c *collapser) differs(g stagedRow) bool {
	return slices.ContainsFunc(c.rest, func(i int) bool {
		a, b, column := g.values[i], c.keeper.values[i], c.stage.columns[i]
		same := sqldb.Same(a, b, column, c.exact)
		if c.exact || column.Family == sqldb.FamilyOther { // of one type and one text
			same = fmt.Sprintf("%T", a) == fmt.Sprintf("%T", b) && sqldb.Text(a) == sqldb.Text(b)
		}
		return !same
	})
}

// add adds a row to the totals of the current group.
func (c *collapser) add(g stagedRow) {
	for i, name := range c.job.plan.Sum {
		n, ok := new(big.Rat).SetString(sqldb.Text(g.values[c.stage.index(name)]))
		if !ok {
			continue // NULL; the check refuses columns that are not numeric
		}
		if c.totals[i] == nil {
			c.totals[i] = new(big.Rat)
		}
		c.totals[i].Add(c.totals[i], n)
	}
	for i, list := range [][]string{c.job.plan.Min, c.job.plan.Max} {
		for _, name := range list {
			index := c.stage.index(name)
			if isLess(g.values[index], c.keeper.values[index]) == (i == 0) && g.values[index] != nil ||
				c.keeper.values[index] == nil {
				c.keeper.values[index] = g.values[index]
			}
		}
	}
}

// isLess reports whether a is less than b. Numbers are compared as numbers, everything else as text.
func isLess(a, b any) bool {
	if x, ok := new(big.Rat).SetString(sqldb.Text(a)); ok {
		if y, ok := new(big.Rat).SetString(sqldb.Text(b)); ok {
			return x.Cmp(y) < 0
		}
	}
	return sqldb.Text(a) < sqldb.Text(b)
}

// endGroup records the values that the keeper of a group gets.
func (c *collapser) endGroup() {
	if c.others == 0 {
		return
	}
	keep := func(column, value string) {
		c.out = append(c.out, []any{c.job.name, c.ws.servers[c.keeper.server].Number,
			sqldb.ShortKey(c.keeper.key), column, value})
	}
	for i, name := range c.job.plan.Sum {
		if c.totals[i] == nil {
			continue
		}
		col := c.job.target.Column(name)
		text, ok := totalText(c.totals[i], col)
		if !ok {
			c.report.problem(Problem{Code: CodeTotal, Table: c.job.name, Column: name,
				Message: fmt.Sprintf("the total %s of row %s does not fit into %s", text, c.keeper.key,
					col.Declared),
				Remedy: "widen the column in the target, correct the values on their servers, or take the " +
					"column out of sum:, so that the value of the row that stays is kept"})
		}
		keep(name, text)
	}
	for _, name := range slices.Concat(c.job.plan.Min, c.job.plan.Max) {
		if v := c.keeper.values[c.stage.index(name)]; v != nil {
			keep(name, sqldb.Text(v))
		}
	}
}

// totalText returns a total as text and reports whether the column can hold it.
func totalText(n *big.Rat, c *sqldb.Column) (string, bool) {
	if !n.IsInt() {
		text := n.FloatString(20)
		return strings.TrimRight(text, "0"), c.Family == sqldb.FamilyDecimal || c.Family == sqldb.FamilyFloat
	}
	text := n.Num().String()
	bits := c.Bits()
	limit := new(big.Int).Lsh(big.NewInt(1), uint(max(bits, 1)-1)) //nolint:gosec // 64 at most
	return text, bits == 0 || new(big.Int).Abs(n.Num()).Cmp(limit) < 0
}

// renamer gives new names to rows whose name is taken. All rows that were found in a key are written to the
// stage anew, under other numbers. Then the old ones are deleted there.
type renamer struct {
	*resolver
	unnamed  Problem // the problem of the rows that cannot be renamed
	renamed  *sqldb.Writer
	greatest int64       // the greatest number in a new name
	last     []beginning // of each server
}

// beginning is what the names of rows that follow each other have in common when they are cut.
type beginning struct {
	name string // the new name without a number
	rest string // the other columns of the key
	rows int64
}

// maxRounds is how many times a row gets a new name before the renamer gives up.
const maxRounds = 7

// rankedRounds is how many names of a row count on by its rank among the rows of the same name. From the next
// one on, each row gets a number that no other row has, and only a name that a row had before can be equal.
const rankedRounds = 3

// anyName is what reports call the name of a table that no unique key keeps apart.
const anyName = "the name"

// rename gives new names until no two names are equal in the target.
func (r *renamer) rename(ctx context.Context) error {
	p := r.job.plan.Rename
	keys := slices.DeleteFunc(slices.Clone(r.keys), func(k sqldb.UniqueKey) bool { return !p.changes(k) })
	if len(keys) == 0 {
		if slices.ContainsFunc(r.job.target.Keys(), p.changes) {
			return nil
		}
		part := sqldb.KeyPart{Column: p.Column, Collation: r.job.target.Column(p.Column).Collation}
		keys = []sqldb.UniqueKey{{Name: anyName, Parts: []sqldb.KeyPart{part}}}
	}
	all := p.When == ""
	if !all {
		for i := range keys {
			keys[i] = keys[i].Among("merge_exempt = 0")
		}
	}
	t := r.ws.target
	r.last = make([]beginning, len(r.ws.servers))
	r.renamed = sqldb.NewWriter(t, r.stage.name, append(fixedColumns(), r.stage.columns...),
		t.Kind.Untyped())
	if err := r.rounds(ctx, keys); err != nil {
		return err
	}
	for _, key := range keys {
		// Rows that the plan exempts may still be equal.
		r.settled[key.Name] = len(r.nameless) == 0 && all
	}
	return r.keepRenames(ctx)
}

// rounds gives new names until no row gets one any more. Every round asks the target again, because a new
// name may be equal to any other name, old or new.
func (r *renamer) rounds(ctx context.Context, keys []sqldb.UniqueKey) error {
	for round := 1; ; round++ {
		changed := int64(0)
		least := 2
		if round == 1 && r.job.plan.Rename.Keep == "none" {
			least = 1
		}
		for _, key := range keys {
			n, err := r.stage.group(ctx, key, r.preference(), least)
			if err != nil {
				return err
			}
			if n > 0 {
				n, err = r.renameFound(ctx, key)
			}
			if changed += n; err != nil {
				return err
			}
		}
		if changed == 0 {
			break
		}
		if round > maxRounds {
			r.report.problem(Problem{Code: CodeRename, Table: r.job.name, Column: r.job.plan.Rename.Column,
				Count: changed, Message: fmt.Sprintf("after %d attempts they have no free name", maxRounds),
				Remedy: "choose another format"})
			break
		}
	}
	r.unnamed.Count = int64(len(r.nameless))
	r.report.problemIf(r.unnamed.Count > 0, r.unnamed)
	return r.renamed.Close()
}

// renameFound gives new names to the rows that were found, and returns how many got one.
func (r *renamer) renameFound(ctx context.Context, key sqldb.UniqueKey) (changed int64, err error) {
	keepers, err := r.stage.keepers(ctx, mostConflicts-len(r.noted))
	if err != nil {
		return 0, err
	}
	err = r.stage.groups(ctx, func(page []stagedRow) error {
		n, err := r.renamePage(ctx, key, page, keepers)
		changed += n
		return err
	})
	if err != nil {
		return 0, err
	}
	return changed, r.stage.remove(ctx, 1)
}

// preference returns the order of the rows of a group: first those with their old name, then those that got
// their new one earlier, and then as the plan says.
func (r *renamer) preference() []string {
	k := r.ws.target.Kind
	preference := []string{"ABS(merge_tries)"}
	switch p := r.job.plan.Rename; p.Keep {
	case "", "older":
		for _, name := range r.job.target.Primary {
			if c := r.job.target.Column(name); c != nil && c.Family == sqldb.FamilyInt {
				preference = append(preference, k.Quote(name))
			}
		}
	case "highest":
		preference = append(preference, r.greatestFirst(p.By)...)
	}
	return preference
}

// writtenAnew is how far the number of a row that is written anew lies behind its old one. So rows keep their
// order, and no two have the same number.
const writtenAnew = 1 << 40

// renamePage gives the next name to every row of a page, and writes them all anew. It returns how many have
// got one.
func (r *renamer) renamePage(ctx context.Context, key sqldb.UniqueKey, page []stagedRow,
	keepers map[int64]stagedRow) (changed int64, err error) {
	p := r.job.plan.Rename
	index := r.stage.index(p.Column)
	rows := make([][]any, len(page))
	for i, g := range page {
		values := slices.Clone(g.values)
		if g.rank > 1 || g.tries == 0 { // otherwise it has got its name by another key
			if g.old == nil {
				g.old = sqldb.Text(g.values[index])
			}
			if name, ok := r.next(&g, key); ok {
				if noted, known := r.noted[r.ref(g)]; known {
					r.report.Conflicts[noted].NewName = name
				} else if g.tries == 1 {
					r.note(key, keepers[g.n], g, "renamed", name)
				}
				changed++
				values[index] = name
				for _, d := range p.Derived {
					values[r.stage.index(d.Column)] = derive(d.As, name)
				}
			} else {
				if len(r.nameless) == 0 {
					r.unnamed = Problem{Code: CodeRename, Table: r.job.name, Column: p.Column,
						Message: fmt.Sprintf("no new name of %d characters can be made, such as for row %s of %s, %q",
							r.job.renameLimit(), g.key, r.ws.servers[g.server].Name, sqldb.Text(g.old)),
						Remedy: "choose a shorter format: for the table, or widen the column"}
				}
				r.nameless[r.ref(g)] = true
			}
		}
		rows[i] = append([]any{g.n + writtenAnew, int64(g.server), g.key, int64(0), g.old, g.tries,
			sqldb.ShortKey(g.key), r.newKey(values)}, values...)
	}
	return changed, r.renamed.Write(ctx, rows)
}

// newKey returns the key of a row in the target.
func (r *renamer) newKey(values []any) string {
	var key []any
	for _, name := range r.job.target.Primary {
		v, column := values[r.stage.index(name)], r.job.target.Column(name)
		key = append(key, identity(v, column, r.ws.target.Kind.Untyped()))
	}
	return sqldb.RowKey(key)
}

// next returns the next name of a row, and counts it. It returns false if there is none of the right length.
func (r *renamer) next(g *stagedRow, key sqldb.UniqueKey) (string, bool) {
	format, old, server := r.job.plan.Rename.Format, sqldb.Text(g.old), r.ws.servers[g.server].Number
	limit := r.job.renameLimit()
	name, ok := newName(format, old, server, 1, limit)
	if !ok {
		return "", false
	}
	number := int64(1)
	switch last := &r.last[g.server]; {
	case g.tries == 0:
		if now := (beginning{name, r.besides(key, g), last.rows}); now != *last {
			*last = beginning{name: name, rest: now.rest}
		}
		last.rows++
		number = last.rows
	case g.tries < rankedRounds:
		if had := sqldb.Text(g.values[r.stage.index(r.job.plan.Rename.Column)]); had != name {
			number = numberOf(had)
		}
		number += g.rank - 1
	default:
		number = r.greatest + 1
	}
	g.tries++
	r.greatest = max(r.greatest, number)
	if number == 1 {
		return name, true
	}
	return newName(format, old, server, number, limit)
}

// besides returns what a row has in the columns of a key besides its name.
func (r *renamer) besides(key sqldb.UniqueKey, g *stagedRow) string {
	var rest strings.Builder
	for _, name := range key.Columns() {
		if name != r.job.plan.Rename.Column {
			rest.WriteString(sqldb.Text(g.values[r.stage.index(name)]) + "\x00")
		}
	}
	return rest.String()
}

// numberOf returns the number at the end of a new name, or 1.
func numberOf(name string) int64 {
	n, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	if err != nil || n < 1 || !strings.Contains(name, "-") {
		return 1
	}
	return n
}

// newName returns the name for one attempt. It has at most limit characters, unless limit is 0. The old
// name is cut between two characters, and does not end with a blank afterwards.
func newName(format, old string, server, attempt int64, limit int) (string, bool) {
	format = strings.ReplaceAll(cmp.Or(format, "{name}.s{server}"), "{server}", strconv.FormatInt(server, 10))
	if attempt > 1 {
		format += "-" + strconv.FormatInt(attempt, 10)
	}
	room := limit - (utf8.RuneCountInString(format) - len("{name}"))
	if limit > 0 && room < 1 {
		return "", false
	}
	name := strings.TrimRight(old, " \x00\t")
	if limit > 0 {
		name = cut(name, room)
	}
	return strings.Replace(format, "{name}", name, 1), name != ""
}

// cut shortens a text to at most the given number of runes. It does not separate a letter from the marks that
// follow it: the letter is cut off too.
func cut(text string, runes int) string {
	all := []rune(text)
	if len(all) <= runes {
		return text
	}
	end := runes
	for end > 0 && unicode.Is(unicode.M, all[end]) {
		end--
	}
	for end > 0 && all[end-1] == '\u200d' { // a joiner at the end joins nothing
		end--
	}
	if end == 0 {
		end = runes // the text consists of marks only
	}
	return strings.TrimRightFunc(string(all[:end]), unicode.IsSpace)
}

// keepRenames records the rows that have a new name.
func (r *renamer) keepRenames(ctx context.Context) error {
	column, t := r.job.plan.Rename.Column, r.ws.target
	number := "CASE s.merge_server"
	for i, s := range r.ws.servers {
		number += fmt.Sprintf(" WHEN %d THEN %d", i, s.Number)
	}
	name := r.job.target.Column(column).ReadExpression(t.Kind)
	q := t.SQL("INSERT INTO ", r.decisions.name(tableRenames),
		" (server, row_key, old_name, new_name, new_key, tbl, col) SELECT ", number,
		" END, s.merge_row, s.merge_old, ", name, ", s.merge_new, ").Text(r.job.name).
		Add(", ").Text(column).Add(" FROM ", r.stage.name, " AS s WHERE s.merge_tries > 0 ORDER BY s.merge_n")
	n, err := t.Run(ctx, q)
	r.table.Renamed += n
	return err
}
