package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRounds is how often new names are tried before it is taken for hopeless.
const maxRounds = 1000

// rename gives new names to rows whose name is taken, until the target sees no two that are equal. Every
// round asks the target again, as a new name may collide with any other, old or new.
func (r *resolver) rename(ctx context.Context) error {
	p := r.work.plan.Rename
	var keys []uniqueKey
	for _, k := range r.keys {
		if k.about(p.Column) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		for _, k := range r.work.to.keys() {
			if k.about(p.Column) {
				return nil
			}
		}
		keys = []uniqueKey{{name: "the name", parts: []keyPart{{column: p.Column}}}}
	}
	preference := r.preference()
	again := newWriter(r.m.target, r.stage.name, append(fixedColumns(), r.stage.columns...),
		r.m.target.kind == SQLite)
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
			var keeper grouped
			err = r.stage.groups(ctx, func(page []grouped) error {
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
			r.report.problem(Problem{Code: CodeRename, Table: r.work.name, Column: p.Column, Count: changed,
				Message: fmt.Sprintf("after %d attempts they have no free name", round),
				Remedy:  "choose another format"})
			return again.close()
		}
	}
	if r.unnamed.Count = int64(len(r.nameless)); r.unnamed.Count > 0 {
		r.report.problem(r.unnamed)
	}
	if err := again.close(); err != nil {
		return r.m.target.failed(err)
	}
	return r.keepRenames(ctx)
}

// preference orders the rows of a group: names that were never changed first, then as the plan says.
func (r *resolver) preference() []string {
	k := r.m.target.kind
	preference := []string{"CASE WHEN merge_tries = 0 THEN 0 ELSE 1 END"}
	switch p := r.work.plan.Rename; p.Keep {
	case "", "older":
		for _, name := range r.work.to.primary {
			if c := r.work.to.column(name); c != nil && c.family == familyInt {
				preference = append(preference, k.quote(name))
			}
		}
	case "highest":
		by := k.quote(p.By)
		preference = append(preference, "CASE WHEN "+by+" IS NULL THEN 1 ELSE 0 END", by+" DESC")
	}
	return preference
}

// renamePage gives the rows of a page their next names, all but the first of each group.
func (r *resolver) renamePage(
	ctx context.Context, key uniqueKey, round int, page []grouped, keeper *grouped, again *writer,
) (int64, error) {
	p := r.work.plan.Rename
	at := r.stage.at(p.Column)
	limit := r.work.to.column(p.Column).maxChars
	if p.Max > 0 && (limit == 0 || p.Max < limit) {
		limit = p.Max
	}
	var losers []grouped
	var rows [][]any
	for _, g := range page {
		if g.rank == 1 {
			*keeper = g
			if p.Keep != "none" || round > 1 {
				continue
			}
		}
		if g.old == nil {
			g.old = textOf(g.values[at])
		}
		g.tries++
		name, ok := newName(p.Format, textOf(g.old), r.m.servers[g.server].Number, g.tries, limit)
		if !ok {
			if len(r.nameless) == 0 {
				r.unnamed = Problem{Code: CodeRename, Table: r.work.name, Column: p.Column,
					Message: fmt.Sprintf("no new name of %d characters can be made, such as for row %s of %s, %q",
						limit, g.key, r.m.servers[g.server].Name, textOf(g.old)),
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
		losers = append(losers, g)
		rows = append(rows, append([]any{g.n, int64(g.server), g.key, g.old, g.tries}, values...))
	}
	if err := r.stage.remove(ctx, losers); err != nil {
		return 0, err
	}
	return int64(len(losers)), again.write(ctx, rows)
}

// newName makes the name of an attempt. It has at most limit characters, unless limit is 0: the old name
// is cut between two runes, and what is left ends neither with a blank nor with half of a character.
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

// cut shortens a text to so many runes. A letter is not left without a mark that followed it: then the letter
// goes too.
func cut(text string, runes int) string {
	all := []rune(text)
	if len(all) <= runes {
		return text
	}
	end := runes
	for end > 0 && unicode.Is(unicode.M, all[end]) {
		end--
	}
	for end > 0 && all[end-1] == '\u200d' { // it would join nothing
		end--
	}
	if end == 0 {
		end = runes // it is nothing but marks
	}
	return strings.TrimRightFunc(string(all[:end]), unicode.IsSpace)
}

// keepRenames writes down who has another name now.
func (r *resolver) keepRenames(ctx context.Context) error {
	column := r.work.plan.Rename.Column
	t := r.m.target
	last := int64(0)
	for {
		q := newStatement(t.kind, "SELECT merge_n, merge_server, merge_key, merge_old, ",
			t.kind.readExpression(r.work.to.column(column)), " FROM ", r.stage.name,
			" AS s WHERE merge_tries > 0 "+
				"AND merge_n > ").bind(last).add(" ORDER BY merge_n LIMIT 5000")
		var rows [][]any
		err := t.each(ctx, q, func(values []any) error {
			n, err := strconv.ParseInt(textOf(values[0]), 10, 64)
			if err != nil {
				return err
			}
			server, err := strconv.Atoi(textOf(values[1]))
			if err != nil {
				return err
			}
			last = n
			row := []any{r.work.name, r.m.servers[server].Number, textOf(values[2]), column, textOf(values[3]),
				textOf(values[4])}
			rows = append(rows, row)
			if i, ok := r.noted[RowRef{Server: r.m.servers[server].Name, Key: textOf(values[2])}]; ok {
				r.report.Conflicts[i].NewName = textOf(values[4])
			}
			return nil
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		r.table.Renamed += int64(len(rows))
		if err := r.renames.write(ctx, rows); err != nil {
			return err
		}
	}
}
