package merge

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Merge is an opened plan, with a connection to every database. [Open] returns one. Its methods must not
// be called concurrently.
type Merge struct {
	ws      *workspace
	offsets *keyOffsets
}

// Open opens the databases of a plan, the sources read-only, and reads their catalogs. It writes nothing. The
// error wraps [ErrPlan] or [ErrOpen].
func Open(ctx context.Context, plan *Plan, opts ...Option) (*Merge, error) {
	ws, err := openWorkspace(ctx, plan, opts)
	if err != nil {
		return nil, err
	}
	return &Merge{ws: ws, offsets: &keyOffsets{ws: ws}}, nil
}

// Close closes all databases.
func (m *Merge) Close() error { return m.ws.close() }

func (m *Merge) journal() *journal { return &journal{target: m.ws.target, failpoint: m.ws.failpoint} }

// Check looks for everything that stands against the merge. It writes nothing but temporary tables in the
// session of the target. The report says what it found; an error means that the check itself failed.
func (m *Merge) Check(ctx context.Context) (*CheckReport, error) {
	state, err := m.journal().state(ctx)
	if err != nil {
		return nil, err
	}
	if state.name != "" {
		report := &CheckReport{Plan: m.ws.given.Hash(), Verdict: Undecided}
		report.problem(Problem{Code: CodeAlreadyBegun, Server: m.ws.target.Name,
			Message: "it already belongs to a merge, in the state " + state.name,
			Remedy: "run goes on with it, verify looks at its result; to begin anew, drop the target and make " +
				"a fresh one"})
		return report, nil
	}
	return newChecker(m.ws, newDecisions(m.ws, m.offsets, false)).check(ctx)
}

// Run merges, or resumes a merge that was interrupted. On a complete target it changes nothing.
//
// If Check would find problems, the error is [ErrUndecided], and the field Check of the report lists them.
// Other errors are [ErrLocked], [ErrOtherPlan], [ErrSourceChanged], [ErrRow], [ErrBalance] and [ErrDatabase].
// Run can be called again after each of them. When ctx has ended, a connection may be lost; then open a new
// Merge to resume.
func (m *Merge) Run(ctx context.Context) (*RunReport, error) {
	r := &runner{
		ws: m.ws, journal: m.journal(), temporary: newDecisions(m.ws, m.offsets, false),
		decisions: newDecisions(m.ws, m.offsets, true),
		report:    &RunReport{Plan: m.ws.given.Hash(), Servers: m.ws.mergedServers()},
	}
	return r.run(ctx)
}

// Verify compares the target with the sources, by code of its own that shares nothing with Run. It compares
// every value of every row, every reference with the content of its parent, orphans, equal unique keys, new
// names and who kept the old ones, totals, the sums that the plan conserves, and what the target has besides
// rows with what it had before the run. It opens second connections to all databases and writes nothing
// there; large lists are kept in temporary files of this machine. The report lists what differs; an
// error means that Verify itself failed.
func (m *Merge) Verify(ctx context.Context) (*VerifyReport, error) {
	v := &verifier{
		ws: m.ws, journal: m.journal(), report: &VerifyReport{Plan: m.ws.given.Hash()},
	}
	return v.verify(ctx)
}

// Renames calls fn for every row that got a new name, ordered by table, server and key. It is for telling the
// players. The table merge_renames has the same rows.
func (m *Merge) Renames(ctx context.Context, fn func(Renamed) error) error {
	t := m.ws.target
	for _, j := range m.ws.order {
		q := sqldb.NewStatement(t.Kind, "SELECT server, row_key, col, old_name, new_name, new_key FROM ",
			t.Kind.Quote(tableRenames), " WHERE tbl = ").Bind(j.name).Add(" ORDER BY server, row_key")
		err := t.Each(ctx, q, func(values []any) error {
			server, err := strconv.ParseInt(sqldb.Text(values[0]), 10, 64)
			if err != nil {
				return err
			}
			return fn(Renamed{Table: j.name, Server: server, Key: sqldb.Text(values[1]),
				Column: sqldb.Text(values[2]), OldName: sqldb.Text(values[3]), NewName: sqldb.Text(values[4]),
				NewKey: sqldb.Text(values[5])})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// WriteRenames writes the renames as CSV with a header line.
func (m *Merge) WriteRenames(ctx context.Context, to io.Writer) error {
	w := csv.NewWriter(to)
	err := w.Write([]string{"table", "column", "server", "key", "old_name", "new_name", "new_key"})
	if err == nil {
		err = m.Renames(ctx, func(r Renamed) error {
			return w.Write([]string{r.Table, r.Column, strconv.FormatInt(r.Server, 10), r.Key, r.OldName, r.NewName,
				r.NewKey})
		})
	}
	if w.Flush(); err == nil {
		err = w.Error()
	}
	return err
}

// Servers returns into which server every old one was merged, for login servers and statistics. The table
// merge_servers has the same rows.
func (m *Merge) Servers() []MergedServer { return m.ws.mergedServers() }

// WriteServers writes the result of Servers as CSV with a header line.
func (m *Merge) WriteServers(to io.Writer) error {
	rows := [][]string{{"number", "name", "merged_into", "target"}}
	for _, s := range m.ws.mergedServers() {
		rows = append(rows, []string{strconv.FormatInt(s.Number, 10), s.Name,
			strconv.FormatInt(s.MergedInto, 10), s.Target})
	}
	return csv.NewWriter(to).WriteAll(rows)
}
