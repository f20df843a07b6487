package merge

import (
	"context"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// resolver finds the conflicts of one table and records how they are resolved.
type resolver struct {
	ws        *workspace
	decisions *decisions
	job       *tableJob
	stage     *stage
	report    *CheckReport
	table     *TableReport
	keys      []sqldb.UniqueKey

	drops, values *sqldb.Writer
	noted         map[RowRef]int // the position of a row in the conflicts of the report

	nameless map[int64]bool  // staged rows for which there is no new name
	settled  map[string]bool // keys in which no two rows are equal any more, by their names
}

// newResolver loads the keys of a table into a stage.
func newResolver(ctx context.Context, d *decisions, j *tableJob, keys []sqldb.UniqueKey, report *CheckReport,
	tick func(int)) (*resolver, error) {
	ws := d.ws
	s, err := newStage(ctx, d, j, keys, tick)
	if err != nil {
		return nil, err
	}
	return &resolver{
		ws: ws, decisions: d, job: j, stage: s, report: report, table: report.table(j.name, j.plan.Policy),
		keys:  keys,
		noted: map[RowRef]int{}, nameless: map[int64]bool{}, settled: map[string]bool{},
		drops: sqldb.NewWriter(ws.target, "tmp_"+tableDrops,
			textColumns("tbl", "server", "row_key", "keeper_server", "keeper_key", "reason", "differs"), false),
		values: sqldb.NewWriter(ws.target, "tmp_"+tableValues,
			textColumns("tbl", "server", "row_key", "col", "value"), false),
	}, nil
}

// textColumns returns columns of a table of the merge, of which most are texts.
func textColumns(names ...string) (columns []*sqldb.Column) {
	for _, name := range names {
		c := &sqldb.Column{Name: name, Family: sqldb.FamilyText, Declared: "text"}
		if strings.HasSuffix(name, "server") || name == "differs" {
			c = &sqldb.Column{Name: name, Family: sqldb.FamilyInt, Declared: "bigint"}
		}
		columns = append(columns, c)
	}
	return columns
}

// note adds a conflict to the report.
func (r *resolver) note(key sqldb.UniqueKey, keeper, other stagedRow, resolution, name string) {
	r.table.Conflicts++
	if len(r.noted) >= r.ws.maxConflicts {
		return
	}
	r.noted[r.ref(other)] = len(r.report.Conflicts)
	r.report.Conflicts = append(r.report.Conflicts, Conflict{
		Table: r.job.name, Key: calledKey(r.job.to, key), Value: r.valueOf(key, other), Resolution: resolution,
		NewName: name,
		Keeper:  r.ref(keeper), Other: r.ref(other),
	})
}

func (r *resolver) ref(g stagedRow) RowRef {
	return RowRef{Server: r.ws.servers[g.server].Name, Key: g.key}
}

// valueOf returns the values of a row in the columns of a key, for the report.
func (r *resolver) valueOf(key sqldb.UniqueKey, g stagedRow) string {
	var parts []string
	for _, name := range key.Columns() {
		if at := r.stage.at(name); at >= 0 {
			v := g.values[at]
			if g.old != nil && r.job.plan.Rename != nil && r.job.plan.Rename.Column == name {
				v = g.old
			}
			parts = append(parts, sqldb.Shorten(sqldb.Text(v)))
		}
	}
	return strings.Join(parts, ", ")
}

// undecided reports the rows that are still equal in a key.
func (r *resolver) undecided(ctx context.Context, key sqldb.UniqueKey) error {
	if r.settled[key.Name] {
		return nil
	}
	n, err := r.stage.group(ctx, key, nil, 1)
	if err != nil || n == 0 {
		return err
	}
	var keeper stagedRow
	count := int64(0)
	err = r.stage.groups(ctx, func(page []stagedRow) error {
		for _, g := range page {
			if g.rank == 1 {
				keeper = g
				continue
			}
			count++
			r.note(key, keeper, g, "undecided", "")
		}
		return nil
	})
	p := Problem{Code: CodeUniqueKey, Table: r.job.name, Column: strings.Join(key.Columns(), ", "),
		Count:   count,
		Message: "equal to another row in " + calledKey(r.job.to, key) + ", as the target compares them",
	}
	named := r.job.plan.Rename != nil && r.job.plan.Rename.changes(key)
	primary := key.Name == sqldb.PrimaryName
	if primary {
		p.Code = CodePrimaryKey
	}
	var answers []string
	if r.leads(key) {
		answers = append(answers, "if a column of the key holds keys of another table, declare that under "+
			"references:, and they follow")
	}
	switch {
	case named && len(r.nameless) > 0:
		return err // the reason is reported already
	case primary && r.job.plan.Renumber != "":
		answers = []string{"renumber gives other keys to rows whose keys were counted from 0 or 1, and leaves " +
			"keys below 0 and those of a generator alone: give these rows other keys on their server"}
	case primary && r.job.counted():
		answers = append(answers,
			"if each server has counted its own rows, they get other keys by renumber: true")
	case primary:
	case r.job.plan.Policy == Rename:
		p.Message += "; rename changes another column"
	case onlyText(r.job.to, key) != "" && len(r.job.to.Primary) > 0:
		answers = append(answers, "if it is a name that one of the rows can give up, choose rename")
	}
	if !primary || r.job.plan.Renumber == "" {
		answers = append(answers, "change the rows on their server")
	}
	if len(r.job.to.Primary) > 0 {
		answers = append(answers, "if rows that are equal mean the same on all servers, choose sum, keep_first "+
			"or newest: they become one")
	}
	p.Remedy = strings.Join(answers, "; or ")
	r.report.problem(p)
	return err
}

// leads reports whether a column of a key may hold keys of another table, and nobody has said that it does.
func (r *resolver) leads(key sqldb.UniqueKey) bool {
	return slices.ContainsFunc(key.Columns(), func(name string) bool {
		c := r.job.to.Column(name)
		return c != nil && c.Family == sqldb.FamilyInt && !r.job.refers(name)
	})
}
