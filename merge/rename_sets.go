package merge

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Rows are renamed by the thousands when servers have the same names, so the target does that by itself: one
// statement finds all rows but the first of each group and writes them, with their new names, to a table
// beside the stage. The stage keeps their old names. That does no harm when new names are compared with all
// others, because each old name is still there anyway: the first row of its group has it.

// atOnce reports whether the target can rename the rows in this way. There has to be one key, and in each of
// its groups one row that keeps its name. Where the plan exempts rows, a key of the target still has to tell
// these apart, which only the stage shows.
func (r *renamer) atOnce(keys []sqldb.UniqueKey) bool {
	by, _ := keys[0].Terms(r.ws.target.Kind)
	return len(keys) == 1 && by != "" && !keys[0].Computed() && r.job.plan.Rename.Keep != "none" &&
		(r.job.plan.Rename.When == "" || keys[0].Name == anyName)
}

// renameAtOnce gives new names in one key.
func (r *renamer) renameAtOnce(ctx context.Context, key sqldb.UniqueKey) error {
	r.settled[key.Name] = true // what is left is reported here
	some, err := r.stage.some(ctx, r.stage.name, key, "COUNT(*) > 1")
	if err != nil || !some {
		return err
	}
	r.writeTo(r.stage.named)
	if err := r.stage.create(ctx, r.stage.named); err != nil {
		return err
	}
	count, err := r.ws.target.Run(ctx, r.losers(key))
	if err != nil {
		return err
	}
	if err := r.stage.analyze(ctx, r.stage.named); err != nil {
		return err
	}
	r.quiet = true
	err = r.rounds(func(round int) (changed int64, err error) {
		// Rows with an old name, for which only this program can make a new one, are found here as well.
		some, err := r.stage.some(ctx, r.everyName(key), key, "COUNT(*) > 1 AND MAX(merge_new) = 1")
		if err != nil || !some {
			return 0, err
		}
		found, err := r.stage.find(ctx, r.taken(key))
		if err != nil {
			return 0, err
		}
		return r.renameFound(ctx, key, round, found)
	})
	if err != nil {
		return err
	}
	if err := r.noteNamed(ctx, key, count); err != nil {
		return err
	}
	return r.keepRenames(ctx)
}

// losers returns the statement that writes all rows but the first of each group to the table of new names.
func (r *renamer) losers(key sqldb.UniqueKey) *sqldb.Statement {
	k := r.ws.target.Kind
	by, conditions := key.Terms(k)
	order := strings.Join(append(r.preference()[1:], "merge_n"), ", ")
	column := r.job.to.Column(r.job.plan.Rename.Column)
	names := k.QuoteAll(sqldb.ColumnNames(r.stage.columns))
	q := sqldb.NewStatement(k, "INSERT INTO ", r.stage.named,
		" (merge_n, merge_server, merge_keeper, merge_old, merge_tries, ", names,
		") SELECT merge_n, merge_server, merge_keeper, ", column.ReadExpression(k), ", ")
	r.choose(q, column, func() { q.Add("1") }, "0")
	for _, c := range r.stage.columns {
		q.Add(", ")
		if c == column {
			r.choose(q, c, func() { r.newNames(q, c) }, k.Quote(c.Name))
		} else {
			q.Add(k.Quote(c.Name))
		}
	}
	return q.Add(" FROM (SELECT merge_n, merge_server, ", names, ", COUNT(*) OVER w AS merge_r, ",
		"FIRST_VALUE(merge_n) OVER w AS merge_keeper FROM ", r.stage.name, " WHERE ", conditions,
		" WINDOW w AS (PARTITION BY ", by, " ORDER BY ", order,
		" ROWS UNBOUNDED PRECEDING)) AS s WHERE merge_r > 1")
}

// choose appends what simple appends for the rows whose new name the target can make, and otherwise something
// else. The target can if the old name loses no blanks at its end, and neither has to be cut nor has other
// letters than those of ASCII, which stand alone.
func (r *renamer) choose(q *sqldb.Statement, name *sqldb.Column, simple func(), otherwise string) {
	k := r.ws.target.Kind
	if name.Family != sqldb.FamilyText || len(r.job.plan.Rename.Derived) > 0 {
		q.Add(otherwise)
		return
	}
	column := "s." + k.Quote(name.Name)
	length, ascii, end, cut := "", "", "", ""
	switch k {
	case sqldb.SQLite:
		// The length in bytes is at least that in characters, whatever is in the column.
		length = "LENGTH(CAST(" + column + " AS BLOB))"
		ascii = length + " = LENGTH(" + column + ")"
		end = "TYPEOF(" + column + ") = 'text' AND HEX(SUBSTR(CAST(" + column + " AS BLOB), -1))"
		cut = "HEX(SUBSTR(" + column + ", " + r.room() + ", 1))"
	case sqldb.MySQL:
		length = "CHAR_LENGTH(" + column + ")"
		ascii = length + " = LENGTH(CONVERT(" + column + " USING utf8mb4))"
		end = "HEX(CONVERT(RIGHT(" + column + ", 1) USING utf8mb4))"
		cut = "HEX(CONVERT(SUBSTR(" + column + ", " + r.room() + ", 1) USING utf8mb4))"
	case sqldb.PostgreSQL:
		length = "CHAR_LENGTH(" + column + "::text)"
		ascii = length + " = OCTET_LENGTH(" + column + "::text)"
		end = "ENCODE(CONVERT_TO(RIGHT(" + column + "::text, 1), 'UTF8'), 'hex')"
		cut = "UPPER(ENCODE(CONVERT_TO(SUBSTR(" + column + "::text, " + r.room() + ", 1), 'UTF8'), 'hex'))"
	}
	q.Add("CASE WHEN ", end, " NOT IN ('', '20', '00', '09')")
	if r.job.renameLimit() > 0 {
		q.Add(" AND ", r.room(), " > 0 AND (", length, " <= ", r.room(), " OR ", ascii, " AND ", cut,
			" NOT IN ('', '00', '09', '0A', '0B', '0C', '0D', '20'))")
	}
	q.Add(" THEN ")
	simple()
	q.Add(" ELSE ", otherwise, " END")
}

// room returns how many characters of an old name fit into a new one, which depends on the server.
func (r *renamer) room() string {
	text := "CASE merge_server"
	for i := range r.ws.servers {
		before, after := r.around(i)
		room := r.job.renameLimit() - utf8.RuneCountInString(before+after)
		text += " WHEN " + strconv.Itoa(i) + " THEN " + strconv.Itoa(max(0, room))
	}
	return text + " END"
}

// around returns what stands before and after the name in the new names of a server.
func (r *renamer) around(server int) (before, after string) {
	before, after, _ = strings.Cut(formatOf(r.job.plan.Rename.Format, r.ws.servers[server].Number), "{name}")
	return before, after
}

// newNames appends the new name of a row, which is what newName returns for the first attempt.
func (r *renamer) newNames(q *sqldb.Statement, name *sqldb.Column) {
	k := r.ws.target.Kind
	part := func(of func(before, after string) string) {
		q.Add("CASE merge_server")
		for i := range r.ws.servers {
			q.Add(" WHEN ", strconv.Itoa(i), " THEN ").Text(of(r.around(i)))
		}
		q.Add(" END")
	}
	first := func(before, _ string) string { return before }
	last := func(_, after string) string { return after }
	column, between, end := "s."+k.Quote(name.Name), " || ", ""
	switch k {
	case sqldb.MySQL:
		q.Add("CONCAT(")
		between, end = ", ", ")"
	case sqldb.PostgreSQL:
		column += "::text"
	case sqldb.SQLite:
	}
	if r.job.renameLimit() > 0 { // which does nothing to a name that is short enough
		column = "SUBSTR(" + column + ", 1, " + r.room() + ")"
	}
	part(first)
	q.Add(between, column, between)
	part(last)
	q.Add(end)
}

// everyName returns a table with the rows of the stage and those with new names. It has the columns of the
// key, and those that are named.
func (r *renamer) everyName(key sqldb.UniqueKey, more ...string) string {
	columns := sqldb.ColumnNames(r.stage.columns)
	if key.Simple() { // otherwise an expression may be about any of them
		needed := append(key.Columns(), more...)
		columns = slices.DeleteFunc(columns, func(name string) bool { return !slices.Contains(needed, name) })
	}
	list := r.ws.target.Kind.QuoteAll(columns)
	if len(more) > 0 {
		list = "merge_n, merge_tries, " + list
	}
	if r.job.plan.Rename.When != "" {
		list = "merge_exempt, " + list
	}
	return "(SELECT 0 AS merge_new, " + list + " FROM " + r.stage.name + " UNION ALL SELECT 1 AS merge_new, " +
		list + " FROM " + r.stage.named + ") AS s"
}

// taken returns the statement that finds the rows whose new name another row has.
func (r *renamer) taken(key sqldb.UniqueKey) *sqldb.Statement {
	k := r.ws.target.Kind
	by, conditions := key.Terms(k)
	order := slices.Concat([]string{"merge_new"}, r.preference(), []string{"merge_n"})
	of := append([]string{r.job.plan.Rename.By}, r.job.to.Primary...)
	return sqldb.NewStatement(k, "INSERT INTO ", r.stage.found,
		" (merge_position, merge_member, merge_group, merge_rank) "+
			"SELECT ROW_NUMBER() OVER (ORDER BY merge_n), merge_n, 0, merge_r FROM (SELECT merge_n, "+
			"merge_new, ROW_NUMBER() OVER (PARTITION BY ", by, " ORDER BY ", strings.Join(order, ", "),
		") AS merge_r FROM ", r.everyName(key, of...), " WHERE ", conditions,
		") AS x WHERE merge_new = 1 AND merge_r > 1")
}

// noteNamed adds the conflicts of the rows with new names to the report, as many as it may list.
func (r *renamer) noteNamed(ctx context.Context, key sqldb.UniqueKey, count int64) error {
	// MySQL cannot read a temporary table twice in one statement: hence one for the rows that keep their names,
	// and one for the others.
	var keepers []stagedRow
	err := r.eachNamed(ctx, "s.merge_keeper", nil, func(keeper stagedRow, _ []any) error {
		keepers = append(keepers, keeper)
		return nil
	})
	if err != nil {
		return err
	}
	k := r.ws.target.Kind
	name := r.job.to.Column(r.job.plan.Rename.Column).ReadExpression(k)
	list := []string{"s.merge_tries", name, "s.merge_old"}
	for _, c := range r.stage.columns {
		list = append(list, c.ReadExpression(k))
	}
	noted := 0
	err = r.eachNamed(ctx, "s.merge_n", list, func(other stagedRow, values []any) error {
		other.old, other.values = sqldb.Text(values[2]), values[3:]
		for i, c := range r.stage.columns {
			var err error
			if k == sqldb.SQLite {
				continue
			}
			if other.values[i], err = sqldb.Native(other.values[i], c); err != nil {
				return err
			}
		}
		resolution, name := "renamed", sqldb.Text(values[1])
		if tries := sqldb.Text(values[0]); tries == "0" || tries[0] == '-' { // there is no new name for it
			resolution, name = "undecided", ""
		}
		r.note(key, keepers[noted], other, resolution, name)
		noted++
		return nil
	})
	r.table.Conflicts += count - int64(noted)
	return err
}

// eachNamed calls fn for the rows with new names, in their order, as many as the report may list. The row is
// that of the stage to which a column leads, and the values are the expressions of the list.
func (r *renamer) eachNamed(ctx context.Context, column string, list []string,
	fn func(g stagedRow, values []any) error) error {
	t := r.ws.target
	q := sqldb.NewStatement(t.Kind, "SELECT ", strings.Join(append([]string{"k.merge_server", "k.merge_key"},
		list...), ", "), " FROM ", r.stage.named, " AS s JOIN ", r.stage.name, " AS k ON k.merge_n = ", column,
		" ORDER BY s.merge_n LIMIT ", strconv.Itoa(max(0, r.ws.maxConflicts-len(r.noted))))
	return t.EachSteady(ctx, q, func(values []any) error {
		server, err := strconv.Atoi(sqldb.Text(values[0]))
		if err != nil {
			return err
		}
		return fn(stagedRow{server: server, key: sqldb.Text(values[1])}, values[2:])
	})
}
