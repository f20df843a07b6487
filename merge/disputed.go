package merge

import (
	"context"
	"fmt"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// disputed counts the rows in which two references hold that would change the same key in two ways.
func (c *insideCheck) disputed(ctx context.Context) error {
	return c.ws.eachSource(func(j *tableJob, src *sourceTable, s *server) error {
		for _, l := range src.links {
			for _, m := range l.rivals {
				o := src.links[m]
				if o.repeats(l.link) {
					continue
				}
				if err := c.dispute(ctx, j, src, s, o.link, l.link); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (c *insideCheck) dispute(ctx context.Context, j *tableJob, src *sourceTable, s *server,
	a, b link) error {
	sel := newSelection(c.ws, src.server)
	p := src.pairs[src.at(a.column)]
	value := "s." + s.db.Kind.Quote(p.from.Name)
	if p.set {
		value = sel.set(j.plan.Set[p.to.Name])
	}
	condition := []string{value + " IS NOT NULL"}
	for _, l := range []link{a, b} {
		if l.when != "" {
			condition = append(condition, "("+l.when+")")
		}
	}
	q := sqldb.NewStatement(s.db.Kind, "SELECT COUNT(*)")
	sel.from(q, src, condition...)
	n, err := s.db.Number(ctx, q)
	if err != nil || n == 0 {
		return err
	}
	c.broken = true
	c.report.problem(Problem{Code: CodePlan, Server: s.Name, Table: j.name, Column: a.column, Count: n,
		Message: "two references hold, and the same keys would have to follow " + disputants(a, b),
		Remedy:  "let no two conditions of when: hold in one row, or correct the rows on their server"})
	return nil
}

// disputants says what keys would have to follow by each of two references.
func disputants(a, b link) string {
	if a.of != b.of {
		return fmt.Sprintf("the keys of both %s and %s", a.of, b.of)
	}
	var ways []string
	for _, l := range []link{a, b} {
		switch {
		case l.path != "":
			ways = append(ways, "path: "+l.path)
		case l.bits.used():
			ways = append(ways, "bits: "+l.bits.String())
		case l.list != "":
			ways = append(ways, fmt.Sprintf("list: %q", l.list))
		default:
			ways = append(ways, "the whole column")
		}
	}
	return fmt.Sprintf("the keys of %s in two ways, by %s", a.of, strings.Join(ways, " and by "))
}
