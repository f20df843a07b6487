package verify

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// balanced checks that the target lacks those rows of a table which the plan gives up, and no other row.
func (v *verifier) balanced(ctx context.Context, name string) error {
	p, j := v.plan.Tables[name], v.jobs[name]
	var lost GivenUp
	for i, d := range v.sources {
		if d.tables[name] == nil {
			continue
		}
		if j != nil && p.Where == "" && p.Orphans != "drop" {
			break // the rows that were read are all that there are
		}
		all, err := v.count(ctx, d, name, "")
		if err != nil {
			return err
		}
		met := all
		if j != nil && p.Where != "" {
			if met, err = v.count(ctx, d, name, " WHERE ("+p.Where+")"); err != nil {
				return err
			}
		}
		switch {
		case p.Policy == policyRebuild:
			lost.Rebuilt += all
		case j == nil:
			lost.Skipped += all
		default:
			lost.Filtered += all - met
			lost.Orphans += met - j.read[i]
		}
	}
	if j != nil {
		lost.Quarantined = int64(j.refused.len())
		lost.Filtered += j.left - lost.Quarantined
		lost.Collapsed = -j.left - j.held
		for _, n := range j.read {
			lost.Collapsed += n
		}
	}
	v.compare("balance", name, "", "rows that are given up", p.GivesUp.String(), lost.String())
	return nil
}

func (v *verifier) count(ctx context.Context, d *database, table, where string) (int64, error) {
	text, err := d.text(ctx, "SELECT COUNT(*) FROM "+d.kind.quote(table)+" AS s"+where)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// String returns the numbers as they stand in a plan.
func (g GivenUp) String() string {
	var parts []string
	for _, part := range []struct {
		name string
		rows int64
	}{
		{"collapsed", g.Collapsed}, {"orphans", g.Orphans}, {"filtered", g.Filtered}, {"skipped", g.Skipped},
		{"rebuilt", g.Rebuilt}, {"quarantined", g.Quarantined},
	} {
		if part.rows != 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", part.name, part.rows))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
