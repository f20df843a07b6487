package merge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// closed refuses what the plan does not know of the columns of the servers: those of which an earlier lock
// says something else, and those that hold keys which change although the plan does not say what they are.
// Their values would lead to other rows after the merge. It warns of those that may hold such keys.
func (c *schemaCheck) closed(ctx context.Context) error {
	earlier := c.ws.lock
	changes := func(j *tableJob) bool {
		return j != nil && j.key() != nil && j.key().Family == sqldb.FamilyInt &&
			(j.plan.Renumber != "" || j.plan.Policy.collapses())
	}
	if earlier == nil && !slices.ContainsFunc(c.ws.order, changes) {
		return nil
	}
	if !c.running {
		earlier = nil
	}
	now, err := surveyor{c.ws}.survey(ctx, earlier)
	if err != nil {
		return err
	}
	c.report.Lock, c.ws.survey = now, now
	for _, j := range c.ws.order {
		if c.ws.lock != nil {
			now.against(c.ws.lock, j.name, c.report.problem)
		}
		for _, to := range j.to.Columns {
			col := now.Tables[j.name].Columns[to.Name]
			for _, of := range col.Of {
				parent := c.ws.jobs[of.Table]
				if !changes(parent) || parent.key().Name != of.Column || c.answered(j, to.Name, of.Table) {
					continue
				}
				is, report := "are", c.report.problem
				if col.Verdict != census.Reference.String() || of.As != "" { // a few small numbers are keys by chance
					is, report = "may be", c.report.warn
				}
				r := inPlan(j.name, OpenColumn{Column: to.Name, As: of.As, With: of.With, When: of.When}, of)
				report(Problem{Code: CodeUndeclared, Table: j.name, Column: to.Name,
					Message: fmt.Sprintf("its values %s keys of %s, which change, and the plan does not say so (%s)",
						is, of.Table, cmp.Or(col.Hits[of.Table+"."+of.Column], "in some rows")),
					Remedy: declareIt(r, j.name+"."+to.Name)})
			}
		}
	}
	return nil
}

// repeated warns of texts that repeat names which may change: they would keep the old ones.
func (c *schemaCheck) repeated(ctx context.Context) error {
	if c.running {
		return nil // check has said it
	}
	f := &nameFinder{newDrafter(c.ws)}
	return f.repeated(ctx, c.ws.plan, func(table string, o OpenColumn) {
		open := func(other OpenColumn) bool { return other.Column == o.Column }
		if slices.ContainsFunc(c.ws.plan.Tables[table].Undecided, open) {
			return // it is reported there
		}
		parent := o.Candidate[:strings.LastIndex(o.Candidate, ".")]
		c.report.warn(Problem{Code: CodeUndeclared, Table: table, Column: o.Column,
			Message: fmt.Sprintf("its texts may be names of %s, which can change, and the plan does not say so (%s)",
				parent, o.Evidence),
			Remedy: declareIt(inPlan(table, o, LockedKey{Table: parent}), table+"."+o.Column)})
	})
}

// answered reports whether the plan says what a column is.
func (c *schemaCheck) answered(j *tableJob, column, parent string) bool {
	return c.ws.declared(j.name, column, parent) || slices.Contains(c.ws.plan.Plain, j.name+"."+column) ||
		slices.ContainsFunc(j.plan.Undecided, func(o OpenColumn) bool { return o.Column == column })
}

// declareIt is the remedy for a column that may be a reference.
func declareIt(reference, column string) string {
	return fmt.Sprintf("if it does refer to it, add %s; if it does not, list %q under plain: of the plan",
		reference, column)
}

// inPlan says in words how a plan declares that a column refers to keys.
func inPlan(table string, o OpenColumn, of LockedKey) string {
	if o.As == asNames {
		return "{table: " + table + ", column: " + o.Column + ", ref: " + cmp.Or(o.With, "...") +
			"} under copies: of the rename of " + of.Table + ", where ref is the column that leads to the row of " +
			"the name"
	}
	e := o.holder(table)
	r, err := e.reference()
	switch {
	case err != nil:
		return "no reference, since none leads to a number within such a text: give the column a value by " +
			"set:, or let the keys of " + of.Table + " stay as they are"
	case e.plain():
		return fmt.Sprintf("%q under identities: %s: {key: %s, in: [...]}", e.String(), of.Table, of.Column)
	}
	r.Table, r.Target = of.Table, []string{of.Column}
	return oneLine(r) + " under references: of the table " + table
}

// openColumns reports the columns about which the plan does not decide.
func (c *schemaCheck) openColumns(name string) {
	p := c.ws.plan.Tables[name]
	if !p.Policy.copies() && p.Policy != NotDecided {
		return
	}
	for _, o := range p.Undecided {
		at := strings.LastIndex("."+o.Candidate, ".")
		of := LockedKey{Table: strings.TrimSuffix(o.Candidate[:at], "."), Column: o.Candidate[at:]}
		evidence := o.Evidence
		if c.ws.lock != nil && evidence == "" {
			for _, known := range c.ws.lock.Tables[name].Columns[o.Column].Of {
				if known.Table == of.Table && known.Column == of.Column && known.As == o.As {
					evidence = known.Evidence
				}
			}
		}
		message := "nobody has decided whether it holds keys of " + o.Candidate
		if evidence != "" {
			message += " (" + evidence + ")"
		}
		c.report.problem(Problem{Code: CodeUndecided, Table: name, Column: o.Column, Message: message,
			Remedy: declareIt(inPlan(name, o, of), name+"."+o.Column) + "; then remove it from undecided:"})
	}
}
