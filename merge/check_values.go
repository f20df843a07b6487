package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// valueCheck writes rows to temporary tables of the target that have the definitions of its tables, and reads
// them back. So the target itself decides which values it takes, and which ones it would change: there is no
// list of types, ranges and character sets that could be incomplete.
//
// A table is left out if the server has it with the same definition on the same kind of database, because
// then the target takes whatever the server took.
type valueCheck struct {
	*checking
	decisions *decisions
	refused   bool // a row cannot be copied as it is
}

// maxRefused is how many rows of a table of a server are named one by one. Each takes the target several
// statements.
const maxRefused = 1000

// all tries the tables of all servers. Before the conflicts are resolved, it tries every row; afterwards
// those that change by a decision.
func (c *valueCheck) all(decided bool) {
	var trials []*sourceTable
	p := c.ws.newProgress("check", 0)
	c.eachSource(func(j *tableJob, src *sourceTable, s *server) {
		if c.needed(src, decided) {
			trials = append(trials, src)
			p.Total += c.report.table(j.name).Rows[s.Name]
		}
	})
	c.eachSource(func(j *tableJob, src *sourceTable, s *server) {
		if slices.Contains(trials, src) {
			r := &rehearsal{valueCheck: c, src: src, server: s.Name, decided: decided, progress: p}
			r.run()
			r.tell()
		}
	})
	if len(trials) > 0 {
		p.report()
	}
}

// needed reports whether a value of a source table could be one that the target does not keep.
func (c *valueCheck) needed(src *sourceTable, decided bool) bool {
	if decided {
		return c.decisions.decides(src) && !c.stagedNames(src)
	}
	p, source := src.job.plan, src.owner.db
	if c.grows(src) || source.Kind != c.ws.target.Kind || len(p.Set) > 0 || len(p.Convert) > 0 {
		return true
	}
	theirs, err := source.Definition(c.Ctx, src.table)
	if c.Fail(err); theirs == "" {
		return true
	}
	ours, err := c.ws.target.Definition(c.Ctx, src.job.target)
	c.Fail(err)
	return theirs != ours
}

// stagedNames reports whether the decisions only give other names to rows of a source table, and the target
// is known to take them: the stage, whose columns have the types of the target, has taken each of them.
func (c *valueCheck) stagedNames(src *sourceTable) bool {
	// PostgreSQL refuses an index entry that is too long, and the stage has no such index.
	const most = 255
	if !c.decisions.onlyRenames(src) || len(src.flags) > 0 {
		return false
	}
	if n := src.job.renameLimit(); (n == 0 || n > most) && !c.ws.target.Kind.Untyped() {
		return false
	}
	plain, err := c.ws.target.Plain(c.Ctx, src.job.target)
	c.Fail(err)
	return plain
}

// grows reports whether a column gets longer keys, and is no number whose bounds are known.
func (c *valueCheck) grows(src *sourceTable) bool {
	return slices.ContainsFunc(src.links, func(l sourceLink) bool {
		return c.ws.offsets.added[src.shareOf(l.parent)] != 0 &&
			(l.path+l.list != "" || src.pairs[l.index].target.Family != sqldb.FamilyInt)
	})
}

// rehearsal is the trial of one table of one server.
type rehearsal struct {
	*valueCheck
	src      *sourceTable
	trial    *sqldb.Trial
	server   string
	decided  bool
	compared []int    // the positions of the columns that are read back
	findings findings // what is wrong with columns
	named    int64    // rows that the target refused
	guilty   int      // the column in which it refused the last one
	progress *progress
}

const remedyOfValue = "correct it on its server, give the column a value by set:, or change the column of " +
	"the target"

const messageTooLong = "longer than the %d characters of the target, such as in row %s"

func (r *rehearsal) run() {
	r.ws.stages++
	name, j, err := fmt.Sprintf("merge_trial_%d", r.ws.stages), r.src.job, error(nil)
	r.trial, err = sqldb.NewTrial(r.Ctx, r.ws.target, j.target, name, r.src.columns(), r.src.raw)
	switch {
	case err != nil && r.Ctx.Err() != nil:
		r.Fail(err)
		return
	case err != nil:
		r.report.warn(Problem{Code: CodeUncheckable, Server: r.server, Table: j.name,
			Message: fmt.Sprintf("values cannot be tried beforehand: the temporary table cannot be made: %v", err),
			Remedy:  "a row that the target refuses will be named by the run"})
		return
	}
	if r.trial.Untried != nil && !r.decided {
		r.report.warn(Problem{Code: CodeUncheckable, Server: r.server, Table: j.name,
			Message: fmt.Sprintf("nobody can say beforehand whether there is a partition for every row: %v",
				r.trial.Untried),
			Remedy: "a row for which there is no partition will be named by the run"})
	}
	whole := !r.ws.target.Kind.Untyped()
	for i, p := range r.src.pairs {
		// A whole number is taken or refused by these, and never rounded.
		if !p.native && (!whole || p.target.Family != sqldb.FamilyInt) {
			r.compared = append(r.compared, i)
		}
	}
	input := &reader{src: r.src, size: r.ws.chunkRows, refused: r.unreadable}
	r.Fail(notEnough(input.all(r.Ctx, func(read chunk) error {
		if r.named >= maxRefused || r.Err != nil {
			return errEnough
		}
		r.progress.add(j.name, r.server, len(read.rows))
		for i := range read.rows {
			if r.decided {
				read.rows[i].before = slices.Clone(read.rows[i].values)
			}
		}
		rows, err := r.decisions.apply(r.Ctx, r.src, read.rows)
		if err != nil {
			return err
		}
		if r.decided {
			rows = slices.DeleteFunc(rows, row.unchanged)
		}
		r.try(r.fitting(rows))
		return nil
	})))
	r.Fail(r.trial.Drop(context.WithoutCancel(r.Ctx)))
}

// fitting notes rows with a NULL where the target takes none, and with texts that are longer than a column of
// the target, which SQLite would take all the same. It returns the others.
func (r *rehearsal) fitting(rows []row) []row {
	untyped := r.ws.target.Kind.Untyped()
	return slices.DeleteFunc(rows, func(row row) (misfit bool) {
		for i, p := range r.src.pairs {
			anyway := untyped && slices.Contains(r.src.job.target.Primary, p.target.Name)
			switch {
			case row.values[i] == nil && !p.target.Nullable && !anyway:
				r.find(CodeNull, i,
					"NULL, which the target does not allow, such as in row "+sqldb.KeyText(row.key))
			case p.source.Family == sqldb.FamilyText && p.target.Overflows(row.values[i]):
				message := messageTooLong
				if r.src.job.refers(p.target.Name) && r.decisions.touches(r.src) {
					message = "with its new keys, " + message
				}
				r.find(CodeTooLong, i, fmt.Sprintf(message, p.target.MaxChars, sqldb.KeyText(row.key)))
			default:
				continue
			}
			misfit = true
		}
		return misfit
	})
}

// try writes rows. If the target refuses them, it tries each half, until it is known which rows it refuses.
func (r *rehearsal) try(rows []row) {
	if len(rows) == 0 || r.named >= maxRefused || r.Err != nil {
		return
	}
	err := r.trial.Write(r.Ctx, sqldb.Mapped(rows, func(r row) []any { return r.values }))
	var refused *sqldb.RefusedError
	switch {
	case err == nil:
		r.compare(rows)
	case r.Ctx.Err() != nil || !errors.As(err, &refused):
		r.Fail(err)
	case len(rows) == 1:
		r.blame(rows[0], refused)
	default:
		half := len(rows) / 2
		r.try(rows[:half])
		r.try(rows[half:])
	}
}

// blame finds the column in which the target refuses a row.
func (r *rehearsal) blame(row row, cause *sqldb.RefusedError) {
	r.named++
	key := sqldb.KeyText(row.key)
	for n := range r.src.pairs {
		index := (r.guilty + n) % len(r.src.pairs) // mostly it is the same column again
		err := r.trial.Takes(r.Ctx, index, row.values[index])
		refused := cause
		switch {
		case err == nil && !r.trial.Names(cause, index):
		case err != nil && (r.Ctx.Err() != nil || !errors.As(err, &refused)):
			r.Fail(err)
			return
		default:
			r.guilty = index
			r.find(CodeRefused, index, fmt.Sprintf("the target refuses the value, such as %s in row %s: %v",
				quoted(row.values[index]), key, refused))
			return
		}
	}
	r.find(CodeRefused, -1, fmt.Sprintf("the target refuses the row, such as %s: %v", key, cause))
}

// compare reads the rows back.
func (r *rehearsal) compare(rows []row) {
	if len(r.compared) == 0 {
		return
	}
	r.Fail(r.trial.Each(r.Ctx, r.compared, func(n int, values []any) {
		for i, index := range r.compared {
			if wrote := rows[n].values[index]; !sqldb.Same(wrote, values[i], r.src.pairs[index].target, r.src.raw) {
				r.find(CodeChanged, index, fmt.Sprintf(
					"the target would change the value, such as %s to %s in row %s", quoted(wrote), quoted(values[i]),
					sqldb.KeyText(rows[n].key)))
			}
		}
	}))
}

// unreadable notes a value that cannot be converted.
func (r *rehearsal) unreadable(key string, p pair, err error) {
	r.find(CodeColumnType, r.src.index(p.target.Name),
		fmt.Sprintf("the value cannot be converted from %s to %s, such as in row %s: %v", p.source.Declared,
			p.target.Declared, key, err))
}

// find counts a row.
func (r *rehearsal) find(code Code, index int, message string) {
	column := ""
	if index >= 0 {
		column = r.src.pairs[index].target.Name
	}
	r.findings.add(Problem{Code: code, Server: r.server, Table: r.src.job.name, Column: column,
		Message: message, Remedy: remedyOfValue})
}

// tell adds the findings to the report.
func (r *rehearsal) tell() {
	j := r.src.job
	keys := sqldb.ColumnNames(stagedColumns(j, j.target.Keys()))
	for _, p := range r.findings {
		// The run puts rows that the target refuses into the quarantine. SQLite takes a text that is too long.
		aside := p.Code == CodeNull || p.Code == CodeRefused ||
			p.Code == CodeTooLong && !r.ws.target.Kind.Untyped()
		if p.Code == CodeRefused && r.named >= maxRefused {
			p.Message += fmt.Sprintf("; it was not counted further than %d rows", maxRefused)
		}
		copied := slices.IndexFunc(r.src.repeats, func(n sourceName) bool { return n.column == p.Column })
		if r.decided && p.Code == CodeTooLong && copied >= 0 {
			p.Remedy = remedyOfCopy(r.src.repeats[copied].parent)
		}
		switch {
		case p.Code == CodeColumnType:
			p.Remedy += "; convert: allows to cut a fraction of a second"
		case aside && j.plan.BadRows == "quarantine" && !slices.Contains(keys, p.Column):
			p.Remedy = "the run puts such rows into the quarantine"
			if !reported(r.report.Warnings, p) {
				r.report.warn(p)
			}
			if !r.decided { // afterwards, the rows that change are tried again
				r.missing.add(r.src.share(), GivenUp{Quarantined: p.Count})
			}
			continue
		case aside && p.Column != "" && !slices.Contains(keys, p.Column):
			p.Remedy += "; bad_rows: quarantine puts such rows aside"
		case aside && p.Column == "":
			p.Remedy = "correct it on its server, leave it out by where:, or change the table of the target; " +
				"bad_rows: quarantine puts such rows aside"
		}
		r.refused = true
		r.report.problemIf(!reported(r.report.Problems, p), p)
	}
}

// reported reports whether there is already a problem with a column.
func reported(all []Problem, p Problem) bool {
	return slices.ContainsFunc(all, func(o Problem) bool {
		return o.Server == p.Server && o.Table == p.Table && o.Column == p.Column && p.Column != "" &&
			o.Count > 0 && slices.Contains([]Code{CodeTooLong, CodeNull, CodeRefused, CodeChanged}, o.Code)
	})
}

// quoted returns a value for a message.
func quoted(v any) string {
	text := sqldb.Text(v)
	switch v.(type) {
	case nil:
		return "NULL"
	case []byte:
		const most = 30
		more := ""
		if len(text) > most {
			text, more = text[:most], "..."
		}
		return fmt.Sprintf("the bytes %x%s", text, more)
	case int64, uint64, float64:
		return text
	}
	return fmt.Sprintf("%q", sqldb.Shorten(text))
}
