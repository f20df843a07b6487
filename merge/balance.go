package merge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// GivenUp counts the rows of a table that the target does not get, by the reason. For each table, the rows
// of all servers are those of the target and these.
type GivenUp struct {
	// Collapsed rows became one with another row. Differing says how many of them had another value than the
	// row that stayed, besides the primary key, the columns by which they are equal, the reference of a row to
	// its own table, and what the plan adds up or compares: nobody finds these values again.
	Collapsed int64 `yaml:"collapsed,omitempty" json:"collapsed,omitempty"`
	Differing int64 `yaml:"differing,omitempty" json:"differing,omitempty"`
	// Orphans were dropped because the target does not have the row that they refer to.
	Orphans int64 `yaml:"orphans,omitempty" json:"orphans,omitempty"`
	// Filtered rows do not meet the condition of the plan.
	Filtered int64 `yaml:"filtered,omitempty" json:"filtered,omitempty"`
	// Skipped and Rebuilt are all rows of a table with the policy skip or rebuild.
	Skipped int64 `yaml:"skipped,omitempty" json:"skipped,omitempty"`
	Rebuilt int64 `yaml:"rebuilt,omitempty" json:"rebuilt,omitempty"`
	// Quarantined rows were refused by the target.
	Quarantined int64 `yaml:"quarantined,omitempty" json:"quarantined,omitempty"`
}

// rows returns how many rows are given up. Those that differ are among those that became one.
func (g GivenUp) rows() int64 {
	return g.Collapsed + g.Orphans + g.Filtered + g.Skipped + g.Rebuilt + g.Quarantined
}

func (g *GivenUp) add(o GivenUp) {
	g.Collapsed += o.Collapsed
	g.Differing += o.Differing
	g.Orphans += o.Orphans
	g.Filtered += o.Filtered
	g.Skipped += o.Skipped
	g.Rebuilt += o.Rebuilt
	g.Quarantined += o.Quarantined
}

// String returns the numbers as they stand in a plan.
func (g GivenUp) String() string { return oneLine(g) }

// givenUp has what each server gives up of each table.
type givenUp map[tableServer]GivenUp

func (g givenUp) add(of tableServer, more GivenUp) {
	sum := g[of]
	sum.add(more)
	g[of] = sum
}

// balance is the last step of a check. It compares what the merge would give up with the lines of the plan.
// As long as there is another problem, the numbers are not those of the merge.
func (c *checker) balance(ctx context.Context) error {
	if len(c.report.Problems) > 0 {
		return nil
	}
	if err := c.notCopied(ctx); err != nil {
		return err
	}
	for of, n := range c.decisions.drops {
		c.missing.add(of, GivenUp{Collapsed: n, Differing: c.decisions.differing[of]})
	}
	c.report.GivesUp = map[string]GivenUp{}
	for _, name := range slices.Sorted(maps.Keys(c.ws.plan.Tables)) {
		var all GivenUp
		var servers []string
		for _, s := range c.ws.servers {
			one := c.missing[tableServer{name, s.Number}]
			if all.add(one); one.rows() > 0 {
				servers = append(servers, fmt.Sprintf("%s %d", s.Name, one.rows()))
			}
		}
		planned := c.ws.plan.GivesUp[name]
		if planned.Quarantined > 0 && c.ws.plan.Tables[name].BadRows == "quarantine" {
			all.Quarantined = planned.Quarantined // only the run knows which rows the target refuses
		}
		if all.rows() > 0 {
			c.report.GivesUp[name] = all
		}
		if all != planned {
			c.report.problem(unbalanced(name, all, planned, servers))
		}
	}
	return nil
}

// notCopied counts the rows of the tables that are not copied.
func (c *checker) notCopied(ctx context.Context) error {
	for name, p := range c.ws.plan.Tables {
		for i, s := range c.ws.servers {
			if s.db.Tables[name] == nil || p.Policy.copies() {
				continue
			}
			n, err := s.db.Number(ctx, sqldb.NewStatement(s.db.Kind, "SELECT COUNT(*) FROM ",
				newSelection(c.ws, i).table(name)))
			if err != nil {
				return fmt.Errorf("%s: table %s: %w", s.Name, name, err)
			}
			if of := (tableServer{name, s.Number}); p.Policy == Rebuild {
				c.missing.add(of, GivenUp{Rebuilt: n})
			} else {
				c.missing.add(of, GivenUp{Skipped: n})
			}
		}
	}
	return nil
}

// unbalanced is the problem that a plan gives up other rows of a table than the merge would.
func unbalanced(table string, all, planned GivenUp, servers []string) Problem {
	p := Problem{Code: CodeGivesUp, Table: table, Count: all.rows(),
		Message: "the target does not get them (" + strings.Join(servers, ", ") + "), and the plan gives up none",
		Remedy:  "if they may be lost, write under gives_up: of the plan " + line(table, all)}
	switch {
	case p.Count == 0:
		p.Message = "the plan gives up " + planned.String() + ", and the target gets every row"
		p.Remedy = "take the table out of gives_up:"
	case planned.rows() > 0:
		p.Message = strings.TrimSuffix(p.Message, "none") + planned.String()
	}
	if all.Differing != planned.Differing {
		p.Message += fmt.Sprintf("; %d of them have other values than the row that stays", all.Differing)
	}
	return p
}

// line is the line of a table under gives_up.
func line(table string, g GivenUp) string { return oneLine(table) + ": " + oneLine(g) }

// GivesUpLines returns the lines of the plan for what is given up.
func (r *CheckReport) GivesUpLines() string {
	text := "gives_up:\n"
	for _, name := range slices.Sorted(maps.Keys(r.GivesUp)) {
		text += "  " + line(name, r.GivesUp[name]) + "\n"
	}
	return text
}
