package merge

import (
	"context"
	"fmt"
	"math/big"
	"regexp"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// sumOfSource computes a conserved sum over the rows of a server that are copied.
func sumOfSource(ctx context.Context, ws *workspace, s ConservedSum, src *sourceTable) (*big.Rat, error) {
	sel := newSelection(ws, src.server)
	q := sqldb.NewStatement(sel.kind, "SELECT ", sumExpression(s, sel.kind))
	sel.from(q, src)
	return computeSum(ctx, s, ws.servers[src.server].db, q)
}

func sumOfTarget(ctx context.Context, ws *workspace, s ConservedSum) (*big.Rat, error) {
	t := ws.target
	q := sqldb.NewStatement(t.Kind, "SELECT ", sumExpression(s, t.Kind), " FROM ", t.Kind.Quote(s.Table))
	return computeSum(ctx, s, t, q)
}

func sumExpression(s ConservedSum, k sqldb.Kind) string {
	// {Gold} is the column Gold, quoted as each kind of database wants it.
	column := regexp.MustCompile(`\{([^{}'"` + "`" + `]+)\}`)
	text := column.ReplaceAllStringFunc(s.Expression, func(name string) string {
		return k.Quote(name[1 : len(name)-1])
	})
	if k == sqldb.PostgreSQL {
		return "(" + text + ")::text"
	}
	return text
}

func computeSum(ctx context.Context, s ConservedSum, d *sqldb.DB, q *sqldb.Statement) (*big.Rat, error) {
	var value any
	if err := d.Row(ctx, q, &value); err != nil {
		return nil, err
	}
	n := new(big.Rat)
	if value == nil {
		return n, nil // there are no rows
	}
	if _, ok := n.SetString(sqldb.Text(value)); !ok {
		return nil, fmt.Errorf("%s: %s is %q, which is not a number", d.Name, s.Expression, sqldb.Text(value))
	}
	return n, nil
}
