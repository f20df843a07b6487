package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// inPlan returns a reference as an entry under references:.
func (r Reference) inPlan() string {
	text := "{column: " + r.Column + ", table: " + r.Table
	if len(r.Target) > 0 {
		text += ", target: [" + strings.Join(r.Target, ", ") + "]"
	}
	if r.When != "" {
		text += ", when: '" + strings.ReplaceAll(r.When, "'", "''") + "'"
	}
	return text + "}"
}

// undeclared warns of columns that hold keys which change, but that neither the database nor the plan
// declares as references. Their values would refer to other rows after the merge.
func (c *schemaCheck) undeclared(ctx context.Context) error {
	changes := func(j *tableJob) bool {
		return j != nil && j.counted() && (j.plan.Renumber || j.plan.Policy.collapses())
	}
	if !slices.ContainsFunc(c.ws.order, changes) {
		return nil
	}
	found, err := c.ws.undeclared(ctx)
	for _, f := range found {
		j, parent := c.ws.jobs[f.Table], c.ws.jobs[f.Parent.Table]
		if j == nil || !changes(parent) || parent.to.Primary[0] != f.Parent.Name ||
			slices.ContainsFunc(j.plan.Undecided, func(o OpenColumn) bool { return o.Column == f.Name }) {
			continue
		}
		c.report.warn(Problem{Code: CodeUndeclared, Table: j.name, Column: f.Name,
			Message: "its values look like keys of " + parent.name + ", which change, but it is not declared as " +
				"a reference, so its values will not change (" + f.Evidence + ")",
			Remedy: "if it is one, list " + c.ws.referenceOf(f).inPlan() + " under references: of the table"})
	}
	return err
}

// openColumns reports the columns about which the plan does not decide.
func (c *schemaCheck) openColumns(name string) {
	p := c.ws.plan.Tables[name]
	if !p.Policy.copies() && p.Policy != NotDecided {
		return
	}
	for _, o := range p.Undecided {
		r := Reference{Column: o.Column, Table: o.Candidate}
		if at := strings.LastIndex(o.Candidate, "."); at >= 0 {
			r.Table = o.Candidate[:at]
			key := []string{o.Candidate[at+1:]}
			if t := c.ws.target.Tables[r.Table]; t != nil && !slices.Equal(t.Primary, key) {
				r.Target = key
			}
		}
		c.report.problem(Problem{Code: CodeUndecided, Table: name, Column: o.Column,
			Message: fmt.Sprintf("nobody has decided whether it holds keys of %s (%s)", o.Candidate, o.Evidence),
			Remedy: "if it does, list " + r.inPlan() + " under references: of the table; then, or if it does " +
				"not, remove it from undecided:"})
	}
}
