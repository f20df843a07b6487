package merge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// dataCheck looks at the rows of the sources.
type dataCheck struct {
	ws           *workspace
	report       *CheckReport
	fingerprints map[tableServer]string // by table and server, as they were when the check began
	total        int64                  // how many rows will be copied
	missing      givenUp                // what the target will not get
}

// emptyTarget checks that the tables of the target are empty. Only then is dropping the target a way to
// undo a merge.
func (c *dataCheck) emptyTarget(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(c.ws.plan.Tables)) {
		if c.ws.plan.Tables[name].Policy == Skip {
			continue
		}
		filled, err := c.ws.target.Holds(ctx, name)
		if err != nil {
			return err
		}
		if filled {
			c.report.problem(Problem{Code: CodeNotEmpty, Server: c.ws.target.Name, Table: name,
				Message: "the table already holds rows",
				Remedy:  "merge into a fresh database; a table that the target fills by itself gets the policy skip"})
		}
	}
	return nil
}

// counts counts the rows that are copied and the rows that are left out.
func (c *dataCheck) counts(ctx context.Context) error {
	return c.ws.eachSource(func(j *tableJob, src *sourceTable, s *server) error {
		sel := newSelection(c.ws, src.server)
		fingerprint, all, err := sel.fingerprint(ctx, src)
		if err != nil {
			return err
		}
		kept := all
		if sel.kept(j, "s") != "" {
			if kept, err = sel.count(ctx, src); err != nil {
				return err
			}
		}
		t := c.report.table(j.name, j.plan.Policy)
		t.Rows[s.Name] = kept
		if all > kept {
			t.Left[s.Name] = all - kept
			met := kept
			if j.plan.Where != "" && j.plan.Orphans == "drop" {
				if met, err = sel.meeting(ctx, src); err != nil {
					return err
				}
			} else if j.plan.Where == "" {
				met = all
			}
			c.missing.add(tableServer{j.name, s.Number}, GivenUp{Orphans: met - kept, Filtered: all - met})
		}
		c.total += kept
		c.fingerprints[tableServer{j.name, s.Number}] = fingerprint
		return nil
	})
}

// beginsWithZero reports whether a text is a number that has zeros in front. The number 0 itself means none.
func beginsWithZero(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) > 1 && text[0] == '0' && strings.Trim(text, "0123456789") == ""
}

// quiet takes the fingerprints again after all other checks, which shows whether a source is still written
// to.
func (c *dataCheck) quiet(ctx context.Context) error {
	return c.ws.eachSource(func(j *tableJob, src *sourceTable, s *server) error {
		now, _, err := newSelection(c.ws, src.server).fingerprint(ctx, src)
		if before := c.fingerprints[tableServer{j.name, s.Number}]; err == nil && now != before {
			c.report.problem(Problem{Code: CodeNotQuiet, Server: s.Name, Table: j.name,
				Message: fmt.Sprintf("it had %s and now has %s", before, now), Remedy: "stop the game server first"})
		}
		return err
	})
}

// orphans counts the rows that refer to a row that does not exist or is not copied.
func (c *dataCheck) orphans(ctx context.Context) error {
	return c.ws.eachSource(func(j *tableJob, src *sourceTable, s *server) error {
		for _, ref := range j.refs {
			if err := c.orphansOf(ctx, j, src, s, ref); err != nil {
				return err
			}
		}
		if err := c.padded(ctx, j, src, s); err != nil {
			return err
		}
		return c.besideWhen(ctx, j, s)
	})
}

// padded refuses keys in texts that begin with zeros, where they change: a new key is written without.
func (c *dataCheck) padded(ctx context.Context, j *tableJob, src *sourceTable, s *server) error {
	for _, l := range j.follows.links {
		of := src.from.Column(l.column)
		if of == nil || of.Family != sqldb.FamilyText || l.path != "" || j.plan.Set[l.column] != "" ||
			c.ws.jobs[l.of].plan.Renumber == "" {
			continue
		}
		k, n := s.db.Kind, int64(0)
		q := sqldb.NewStatement(k, "SELECT ", k.Quote(l.column), " FROM ", k.Quote(src.from.Name), " WHERE ",
			k.Quote(l.column), " LIKE '%0%'")
		err := s.db.Each(ctx, q, func(values []any) error {
			keys := []string{sqldb.Text(values[0])}
			if l.list != "" {
				keys = strings.Split(keys[0], l.list)
			}
			if slices.ContainsFunc(keys, beginsWithZero) {
				n++
			}
			return nil
		})
		if err != nil {
			return err
		}
		if n > 0 {
			c.report.problem(Problem{Code: CodeChanged, Server: s.Name, Table: j.name, Column: l.column, Count: n,
				Message: "keys of " + l.of + " begin with zeros in this text, and new ones would be written without",
				Remedy:  "remove the zeros on the server, or give the column a value by set:"})
		}
	}
	return nil
}

func (c *dataCheck) orphansOf(ctx context.Context, j *tableJob, src *sourceTable, s *server,
	ref sqldb.Reference) error {
	sel := newSelection(c.ws, src.server)
	columns := strings.Join(ref.Columns, ", ")
	count := func(condition string) (int64, error) {
		if condition == "" {
			return 0, nil
		}
		q := sqldb.NewStatement(s.db.Kind, "SELECT COUNT(*) FROM ", s.db.Kind.Quote(src.from.Name),
			" AS s WHERE ", condition)
		return s.db.Number(ctx, q)
	}
	own := "1 = 1"
	if j.plan.Where != "" {
		own = "(" + j.plan.Where + ")"
	}
	missing := sel.orphan(j, ref, "s")
	if missing == "" {
		return nil
	}
	n := int64(0)
	if !c.ws.elsewhere.none[leadingOf(j, ref, src.server)] { // which has looked already
		var err error
		if n, err = count(own + " AND " + missing); err != nil {
			return err
		}
	}
	p := Problem{Code: CodeOrphan, Server: s.Name, Table: j.name, Column: columns, Count: n,
		Message: "the reference leads to a row of " + ref.Parent + " that does not exist or is not copied"}
	if c.ws.policy(ref.Parent) == Skip {
		p.Message = "the reference leads to a row of " + ref.Parent + ", which the plan skips, that the target " +
			"does not have"
	}
	wrong, err := c.leadsNowhere(j, src, ref, sel, n, count)
	switch {
	case err != nil:
		return err
	case n == 0:
	case wrong:
		p.Message = "not one value is a key of " + ref.Parent + " on this server, so the reference looks wrong"
		p.Remedy = "correct it under references: of the table; or, if these rows are really not wanted, leave " +
			"them out by where: of the table"
		c.report.problem(p)
	case j.plan.Orphans == "drop":
		p.Remedy = "not copied, because of orphans: drop"
		c.report.warn(p)
	case j.plan.Orphans == "null" && j.nullable(ref) != "":
		p.Remedy = "copied without the reference, because of orphans: null"
		c.report.warn(p)
	case j.plan.Orphans == "null":
		p.Remedy = "the reference cannot be NULL in the target: " + c.orphanAnswers(j, ref)
		c.report.problem(p)
	default:
		p.Remedy = c.orphanAnswers(j, ref)
		c.report.problem(p)
	}
	if j.plan.Orphans != "drop" || !slices.ContainsFunc(j.circular,
		func(r sqldb.Reference) bool { return r.Parent == ref.Parent }) {
		return nil
	}
	// In a circle, a dropped row may be the parent of another row, and so on. Only one step of that is
	// followed.
	kept, keptParent := sel.kept(j, "s"), sel.kept(c.ws.jobs[ref.Parent], "q")
	if keptParent == "" || kept == "" {
		return nil
	}
	n, err = count(kept + " AND " + c.ws.elsewhere.unless(sel, j, ref, "s", sel.refers(j, ref, "s")+" AND "+
		sel.without(j, ref, "s", "q", keptParent)))
	if n > 0 {
		c.report.problem(Problem{Code: CodeOrphan, Server: s.Name, Table: j.name, Column: columns, Count: n,
			Message: "the reference leads to a row of " + ref.Parent +
				" that is dropped as an orphan itself, in a circle",
			Remedy: "set orphans: null on the table"})
	}
	return err
}

// leadsNowhere reports whether no row of a server leads anywhere by a reference that only the plan declares,
// though the plan drops or empties what leads nowhere. n is how many rows lead to nothing that is copied. A
// single row says nothing.
func (c *dataCheck) leadsNowhere(j *tableJob, src *sourceTable, ref sqldb.Reference, sel selection, n int64,
	count func(condition string) (int64, error),
) (bool, error) {
	parent := c.ws.jobs[ref.Parent]
	refuses := j.plan.Orphans != "drop" && j.plan.Orphans != "null"
	if n < 2 || refuses || ref.Enforced || parent == nil || parent.sources[src.server] == nil {
		return false, nil
	}
	refers := sel.refers(j, ref, "s")
	if j.plan.Where != "" {
		refers = "(" + j.plan.Where + ") AND " + refers
	}
	all, err := count(refers)
	if err != nil || all > n {
		return false, err
	}
	missing, err := count(c.ws.elsewhere.unless(sel, j, ref, "s", refers+" AND "+
		sel.without(j, ref, "s", "q", "1 = 1")))
	return missing == all, err
}

// besideWhen reports references with a condition whose column holds keys of the same table in further rows,
// which no reference of the column applies to.
func (c *dataCheck) besideWhen(ctx context.Context, j *tableJob, s *server) error {
	seen := map[string]bool{}
	for _, ref := range j.refs {
		if ref.When == "" || ref.Inside() || len(ref.Columns) != 1 || j.plan.Set[ref.Columns[0]] != "" ||
			seen[ref.Columns[0]+"\x00"+ref.Parent] || s.db.Tables[ref.Parent] == nil {
			continue
		}
		seen[ref.Columns[0]+"\x00"+ref.Parent] = true
		var whens []string
		for _, other := range j.refs {
			if slices.Equal(other.Columns, ref.Columns) {
				whens = append(whens, "("+cmp.Or(other.When, "1 = 1")+")")
			}
		}
		at, key := census.Column{Table: j.name, Name: ref.Columns[0]}, census.Column{Table: ref.Parent,
			Name: ref.Target[0]}
		found, err := census.Outside(ctx, s.db, at, key, strings.Join(whens, " OR "))
		if err != nil {
			return err
		}
		if found != "" {
			c.report.problem(Problem{Code: CodeUndeclared, Server: s.Name, Table: j.name, Column: at.Name,
				Message: "rows that do not meet when: of the reference to " + ref.Parent + " refer to it by what " +
					"is in them (" + found + ")",
				Remedy: "let when: apply to these rows too, or declare what they refer to by a reference of its own"})
		}
	}
	return nil
}

// orphanAnswers says what can be done about orphans. What keeps rows and references comes first.
func (c *dataCheck) orphanAnswers(j *tableJob, ref sqldb.Reference) string {
	var answers []string
	if !ref.Enforced && len(ref.Columns) == 1 && j.to.Column(ref.Columns[0]).Family == sqldb.FamilyInt {
		answers = append(answers, "if a value such as 0 means that there is none, say so by when: "+
			ref.Columns[0]+" <> 0 of the reference")
	}
	if c.ws.policy(ref.Parent) == Skip {
		answers = append(answers, "put those rows into the target, as the migrations of the game do")
	}
	answers = append(answers, "correct the rows on their server")
	if j.nullable(ref) != "" {
		answers = append(answers, "set orphans: null on the table, and they are copied without the reference")
	}
	return strings.Join(append(answers, "set orphans: drop on the table, and they are not copied"), "; or ")
}

// estimate reads a sample and derives how long a run may take. Writing takes about three times as long as
// reading.
func (c *dataCheck) estimate(ctx context.Context) error {
	var largest *sourceTable
	maxRows := int64(0)
	err := c.ws.eachSource(func(j *tableJob, src *sourceTable, s *server) error {
		if n := c.report.table(j.name, j.plan.Policy).Rows[s.Name]; n > maxRows {
			maxRows, largest = n, src
		}
		return nil
	})
	if err != nil || largest == nil {
		return err
	}
	began := time.Now()
	in := &reader{ws: c.ws, src: largest, size: 10_000, refused: func(string, pair, error) {}}
	sample, err := in.page(ctx)
	if err == nil && sample.read > 0 {
		c.report.Estimate = time.Since(began) * 4 / time.Duration(sample.read) * time.Duration(c.total)
	}
	return err
}
