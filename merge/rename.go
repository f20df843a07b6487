package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// renamer gives new names to rows whose name is taken.
type renamer struct {
	*resolver
	unnamed Problem       // the problem of the rows that cannot be renamed
	place   string        // the table with the rows that get new names
	again   *sqldb.Writer // writes them there once more
	removes bool          // they have to be removed before that
	quiet   bool          // the conflicts are reported later
}

// maxRounds is how many times new names are tried before the renamer gives up.
const maxRounds = 1000

// rename gives new names until no two names are equal in the target.
func (r *renamer) rename(ctx context.Context) error {
	p := r.job.plan.Rename
	var keys []sqldb.UniqueKey
	for _, k := range r.keys {
		if p.changes(k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		for _, k := range r.job.to.Keys() {
			if p.changes(k) {
				return nil
			}
		}
		part := sqldb.KeyPart{Column: p.Column, Collation: r.job.to.Column(p.Column).Collation}
		keys = []sqldb.UniqueKey{{Name: "the name", Parts: []sqldb.KeyPart{part}}}
	}
	if r.atOnce(keys) {
		return r.renameAtOnce(ctx, keys[0])
	}
	r.writeTo(r.stage.name)
	err := r.rounds(func(round int) (changed int64, err error) {
		for _, key := range keys {
			n, err := r.stage.group(ctx, key, r.preference())
			if err != nil {
				return 0, err
			}
			if n == 0 {
				continue
			}
			var keeper stagedRow
			err = r.stage.groups(ctx, r.place, func(page []stagedRow) error {
				n, err := r.renamePage(ctx, key, round, page, &keeper)
				changed += n
				return err
			})
			if err != nil {
				return 0, err
			}
		}
		return changed, nil
	})
	if err != nil {
		return err
	}
	for _, key := range keys {
		r.settled[key.Name] = len(r.nameless) == 0
	}
	return r.keepRenames(ctx)
}

// writeTo names the table with the rows that get new names.
func (r *renamer) writeTo(table string) {
	t := r.ws.target
	replaces := false
	r.place = table
	r.again, replaces = sqldb.NewReplacer(t, table, append(fixedColumns(), r.stage.columns...),
		t.Kind == sqldb.SQLite)
	r.removes = !replaces
}

// rounds calls fn until no row gets a new name any more. Every round asks the target again, because a new
// name may be equal to any other name, old or new.
func (r *renamer) rounds(fn func(round int) (changed int64, err error)) error {
	for round := 1; ; round++ {
		changed, err := fn(round)
		if err != nil {
			return err
		}
		if changed == 0 {
			break
		}
		if round == maxRounds {
			r.report.problem(Problem{Code: CodeRename, Table: r.job.name, Column: r.job.plan.Rename.Column,
				Count: changed, Message: fmt.Sprintf("after %d attempts they have no free name", round),
				Remedy: "choose another format"})
			break
		}
	}
	if r.unnamed.Count = int64(len(r.nameless)); r.unnamed.Count > 0 {
		r.report.problem(r.unnamed)
	}
	return r.again.Close()
}

// preference returns the order of the rows of a group: first those with their old name, then as the plan
// says.
func (r *renamer) preference() []string {
	k := r.ws.target.Kind
	preference := []string{"CASE WHEN merge_tries = 0 THEN 0 ELSE 1 END"}
	switch p := r.job.plan.Rename; p.Keep {
	case "", "older":
		for _, name := range r.job.to.Primary {
			if c := r.job.to.Column(name); c != nil && c.Family == sqldb.FamilyInt {
				preference = append(preference, k.Quote(name))
			}
		}
	case "highest":
		by := k.Quote(p.By)
		preference = append(preference, "CASE WHEN "+by+" IS NULL THEN 1 ELSE 0 END", by+" DESC")
	}
	return preference
}

// renamePage gives the next name to every row of a page except the first of each group.
func (r *renamer) renamePage(
	ctx context.Context, key sqldb.UniqueKey, round int, page []stagedRow, keeper *stagedRow,
) (int64, error) {
	p := r.job.plan.Rename
	at := r.stage.at(p.Column)
	limit := r.job.renameLimit()
	var losers []stagedRow
	var rows [][]any
	for _, g := range page {
		if g.rank == 1 {
			*keeper = g
			if p.Keep != "none" || round > 1 {
				continue
			}
		}
		if g.old == nil {
			g.old = sqldb.Text(g.values[at])
		}
		g.tries++
		name, ok := newName(p.Format, sqldb.Text(g.old), r.ws.servers[g.server].Number, g.tries, limit)
		if !ok {
			if len(r.nameless) == 0 {
				r.unnamed = Problem{Code: CodeRename, Table: r.job.name, Column: p.Column,
					Message: fmt.Sprintf("no new name of %d characters can be made, such as for row %s of %s, %q",
						limit, g.key, r.ws.servers[g.server].Name, sqldb.Text(g.old)),
					Remedy: "choose a shorter format: for the table, or widen the column"}
			}
			r.nameless[g.n] = true
			continue
		}
		if i, ok := r.noted[r.ref(g)]; ok {
			r.report.Conflicts[i].NewName = name
		} else if g.tries == 1 && !r.quiet {
			r.note(key, *keeper, g, "renamed", name)
		}
		values := slices.Clone(g.values)
		values[at] = name
		for _, d := range p.Derived {
			values[r.stage.at(d.Column)] = derive(d.As, name)
		}
		losers = append(losers, g)
		var short any
		if text := sqldb.ShortKey(g.key); text != g.key {
			short = text
		}
		rows = append(rows, append([]any{g.n, int64(g.server), g.key, g.old, g.tries, g.keeper, short},
			values...))
	}
	if r.removes {
		if err := r.stage.remove(ctx, r.place, losers); err != nil {
			return 0, err
		}
	}
	return int64(len(losers)), r.again.Write(ctx, rows)
}

// newName returns the name for one attempt. It has at most limit characters, unless limit is 0. The old
// name is cut between two characters, and does not end with a blank afterwards.
func newName(format, old string, server, attempt int64, limit int) (string, bool) {
	format = formatOf(format, server)
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

// formatOf returns the format of the new names of one server.
func formatOf(format string, server int64) string {
	if format == "" {
		format = "{name}.s{server}"
	}
	return strings.ReplaceAll(format, "{server}", strconv.FormatInt(server, 10))
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
	key, join := "COALESCE(s.merge_row, s.merge_key)", ""
	if r.place == r.stage.named {
		key, join = "COALESCE(k.merge_row, k.merge_key)", " JOIN "+r.stage.name+" AS k ON k.merge_n = s.merge_n"
	}
	numbers := "CASE s.merge_server"
	for i, s := range r.ws.servers {
		numbers += fmt.Sprintf(" WHEN %d THEN %d", i, s.Number)
	}
	q := sqldb.NewStatement(t.Kind, "INSERT INTO ", r.decisions.name(tableRenames),
		" (tbl, server, row_key, col, old_name, new_name) SELECT ").Text(r.job.name).
		Add(", ", numbers, " END, ", key, ", ").Text(column).
		Add(", s.merge_old, ", r.job.to.Column(column).ReadExpression(t.Kind), " FROM ", r.place, " AS s", join,
			" WHERE s.merge_tries > 0 ORDER BY s.merge_n")
	n, err := t.Run(ctx, q)
	r.table.Renamed += n
	return err
}
