package merge

import (
	"fmt"
	"slices"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// inventory compares what the sources hold besides tables with what the plan lists as left out. What holds
// rows stands in the way until the plan names it; of the rest check tells.
func (c *schemaCheck) inventory() {
	unused := slices.Clone(c.ws.plan.LeftOut)
	for _, d := range c.ws.databases() {
		for _, o := range d.Objects {
			listed := func(l LeftOut) bool { return l.Kind == o.Kind && l.Name == o.Name }
			if slices.ContainsFunc(c.ws.plan.LeftOut, listed) {
				unused = slices.DeleteFunc(unused, listed)
				continue
			}
			if d == c.ws.target {
				continue // nothing of it is lost
			}
			p := Problem{Code: CodeLeftOut, Server: d.Name, Table: o.Name,
				Message: "a " + o.Kind + ", which a merge does not copy",
				Remedy:  fmt.Sprintf("list it under left_out: of the plan as {kind: %s, name: %s}", o.Kind, o.Name)}
			if o.What != "" {
				p.Message = "a " + o.Kind + " " + o.What + ", which a merge does not copy"
			}
			switch {
			case o.Kind == "schema":
				p.Remedy += "; or merge it as well, by a plan whose DSNs have search_path=" + o.Name
			case o.Rows:
				p.Remedy += "; or copy its rows into a table first"
			default:
				p.Remedy += ", once the migrations make it in the target"
			}
			if o.Rows {
				c.report.problem(p)
			} else {
				c.report.warn(p)
			}
		}
	}
	for _, l := range unused {
		c.report.problem(Problem{Code: CodePlan, Table: l.Name,
			Message: "left_out: no database has a " + l.Kind + " of this name",
			Remedy:  "correct or remove the entry"})
	}
}

// hidden reports tables of which the login may not see all rows.
func (c *schemaCheck) hidden() {
	for _, d := range c.ws.databases() {
		for name, t := range d.Tables {
			if t.Hidden && c.ws.policy(name).copies() {
				c.report.problem(Problem{Code: CodeHiddenRows, Server: d.Name, Table: name,
					Message: "row-level security hides rows of the table from this login",
					Remedy:  "use a login with BYPASSRLS, or the owner of the table without FORCE ROW LEVEL SECURITY"})
			}
		}
	}
}

// leftOut drafts the list of what is left out.
func (d *drafter) leftOut(known []LeftOut) []LeftOut {
	all := slices.Clone(known)
	for _, s := range d.ws.servers {
		for _, o := range s.db.Objects {
			if slices.ContainsFunc(all, func(l LeftOut) bool { return l.Kind == o.Kind && l.Name == o.Name }) {
				continue
			}
			all = append(all, LeftOut{Kind: o.Kind, Name: o.Name, Note: noteOf(o)})
		}
	}
	return all
}

func noteOf(o sqldb.Object) string {
	note := "the migrations make it"
	if o.Rows {
		note = "REVIEW: its rows are not copied"
	}
	if o.What != "" {
		note += "; " + o.What
	}
	return note
}
