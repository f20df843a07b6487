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
	unnamed Problem // the problem of the rows that cannot be renamed
	removes bool    // staged rows have to be removed before they are written again
}

// maxRounds is how many times new names are tried before the renamer gives up.
const maxRounds = 1000

// rename gives new names until no two names are equal in the target. Every round asks the target again,
// because a new name may be equal to any other name, old or new.
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
		keys = []sqldb.UniqueKey{{Name: "the name", Parts: []sqldb.KeyPart{{Column: p.Column}}}}
	}
	preference := r.preference()
	again, replaces := sqldb.NewReplacer(r.ws.target, r.stage.name, append(fixedColumns(), r.stage.columns...),
		r.ws.target.Kind == sqldb.SQLite)
	r.removes = !replaces
	for round := 1; ; round++ {
		changed := int64(0)
		for _, key := range keys {
			n, err := r.stage.group(ctx, key, preference)
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			var keeper stagedRow
			err = r.stage.groups(ctx, func(page []stagedRow) error {
				n, err := r.renamePage(ctx, key, round, page, &keeper, again)
				changed += n
				return err
			})
			if err != nil {
				return err
			}
		}
		if changed == 0 {
			break
		}
		if round == maxRounds {
			r.report.problem(Problem{Code: CodeRename, Table: r.job.name, Column: p.Column, Count: changed,
				Message: fmt.Sprintf("after %d attempts they have no free name", round),
				Remedy:  "choose another format"})
			return again.Close()
		}
	}
	if r.unnamed.Count = int64(len(r.nameless)); r.unnamed.Count > 0 {
		r.report.problem(r.unnamed)
	}
	if err := again.Close(); err != nil {
		return err
	}
	return r.keepRenames(ctx)
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
	again *sqldb.Writer,
) (int64, error) {
	p := r.job.plan.Rename
	at := r.stage.at(p.Column)
	limit := r.job.to.Column(p.Column).MaxChars
	if p.Max > 0 && (limit == 0 || p.Max < limit) {
		limit = p.Max
	}
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
		if g.tries == 1 {
			r.note(key, *keeper, g, "renamed", name)
		}
		values := slices.Clone(g.values)
		values[at] = name
		for _, d := range p.Derived {
			values[r.stage.at(d.Column)] = derive(d.As, name)
		}
		losers = append(losers, g)
		rows = append(rows, append([]any{g.n, int64(g.server), g.key, g.old, g.tries}, values...))
	}
	if r.removes {
		if err := r.stage.remove(ctx, losers); err != nil {
			return 0, err
		}
	}
	return int64(len(losers)), again.Write(ctx, rows)
}

// newName returns the name for one attempt. It has at most limit characters, unless limit is 0. The old
// name is cut between two characters, and does not end with a blank afterwards.
func newName(format, old string, server, attempt int64, limit int) (string, bool) {
	if format == "" {
		format = "{name}.s{server}"
	}
	format = strings.ReplaceAll(format, "{server}", strconv.FormatInt(server, 10))
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
	column := r.job.plan.Rename.Column
	t := r.ws.target
	last := int64(0)
	for {
		q := sqldb.NewStatement(t.Kind, "SELECT merge_n, merge_server, merge_key, merge_old, ",
			r.job.to.Column(column).ReadExpression(t.Kind), " FROM ", r.stage.name,
			" AS s WHERE merge_tries > 0 "+
				"AND merge_n > ").Bind(last).Add(" ORDER BY merge_n LIMIT 5000")
		var rows [][]any
		err := t.EachSteady(ctx, q, func(values []any) error {
			n, err := strconv.ParseInt(sqldb.Text(values[0]), 10, 64)
			if err != nil {
				return err
			}
			server, err := strconv.Atoi(sqldb.Text(values[1]))
			if err != nil {
				return err
			}
			last = n
			row := []any{r.job.name, r.ws.servers[server].Number, sqldb.ShortKey(sqldb.Text(values[2])), column,
				sqldb.Text(values[3]),
				sqldb.Text(values[4])}
			rows = append(rows, row)
			if i, ok := r.noted[RowRef{Server: r.ws.servers[server].Name, Key: sqldb.Text(values[2])}]; ok {
				r.report.Conflicts[i].NewName = sqldb.Text(values[4])
			}
			return nil
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		r.table.Renamed += int64(len(rows))
		if err := r.renames.Write(ctx, rows); err != nil {
			return err
		}
	}
}
