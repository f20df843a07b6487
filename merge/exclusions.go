package merge

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// excluded reports the rows that an exclusion constraint refuses beside others. The target itself decides:
// the rows go into a temporary table with the same constraint.
func (r *resolver) excluded(ctx context.Context, x sqldb.Exclusion) error {
	t := r.ws.target
	const name = "merge_apart"
	columns := "merge_n, " + t.Kind.QuoteAll(sqldb.ColumnNames(r.stage.columns))
	if err := t.Exec(ctx, "CREATE TEMP TABLE "+name+" AS SELECT "+columns+" FROM "+r.stage.name+
		" WITH NO DATA"); err != nil {
		return err
	}
	if err := t.Exec(ctx, "ALTER TABLE "+name+" ADD "+x.Definition); err != nil {
		r.report.warn(Problem{Code: CodeUncheckable, Table: r.job.name, Column: x.Name,
			Message: "the exclusion constraint cannot be tried beforehand: " + err.Error(),
			Remedy:  "look for rows of several servers that break it together"})
		return t.Exec(ctx, "DROP TABLE "+name)
	}
	if _, err := t.Run(ctx, sqldb.NewStatement(t.Kind, "INSERT INTO ", name, " SELECT ", columns, " FROM ",
		r.stage.name, " ORDER BY merge_n ON CONFLICT DO NOTHING")); err != nil {
		return err
	}
	refused := sqldb.NewStatement(t.Kind, "SELECT merge_server, merge_key, COUNT(*) OVER () FROM ",
		r.stage.name, " AS s WHERE NOT EXISTS (SELECT 1 FROM ", name, " AS a WHERE a.merge_n = s.merge_n) ",
		"ORDER BY merge_n LIMIT 1")
	err := t.Each(ctx, refused, func(values []any) error {
		server, err := strconv.Atoi(sqldb.Text(values[0]))
		if err != nil {
			return err
		}
		count, err := strconv.ParseInt(sqldb.Text(values[2]), 10, 64)
		r.report.problem(Problem{Code: CodeUniqueKey, Table: r.job.name, Column: x.Name, Count: count,
			Message: fmt.Sprintf("refused by this exclusion constraint beside another row, such as row %s of %s",
				sqldb.Text(values[1]), r.ws.servers[server].Name),
			Remedy: "change the rows on their server, or drop the constraint from the target until the merge " +
				"is done"})
		return err
	})
	return errors.Join(err, t.Exec(ctx, "DROP TABLE "+name))
}
