package merge

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/verify"
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
func (m *Merge) WriteRenames(ctx context.Context, out io.Writer) error {
	w := csv.NewWriter(out)
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
func (m *Merge) WriteServers(out io.Writer) error {
	rows := [][]string{{"number", "name", "merged_into", "target"}}
	for _, s := range m.ws.mergedServers() {
		rows = append(rows, []string{strconv.FormatInt(s.Number, 10), s.Name,
			strconv.FormatInt(s.MergedInto, 10), s.Target})
	}
	return csv.NewWriter(out).WriteAll(rows)
}

// verifier lets package verify compare the target with the sources. It hands over what the plan promises, and
// nothing that the run has computed.
type verifier struct {
	ws      *workspace
	journal *journal
	report  *VerifyReport
}

// verify is [Merge.Verify].
func (v *verifier) verify(ctx context.Context) (*VerifyReport, error) {
	began := time.Now()
	state, err := v.journal.state(ctx)
	if err != nil {
		return nil, err
	}
	report := v.report
	switch {
	case state.name == "":
		return nil, fmt.Errorf("%w: nothing has been merged into the target", ErrNotRun)
	case state.plan != report.Plan:
		return nil, fmt.Errorf("%w: verify with the plan of the run", ErrOtherPlan)
	case state.name != stateDone:
		return nil, fmt.Errorf("%w: the state is %s: run again, it goes on where it ended", ErrNotRun,
			state.name)
	}
	total, err := v.total(ctx)
	if err != nil {
		return nil, err
	}
	p := v.ws.newProgress("verify", total)
	findings, err := verify.Run(ctx, v.promises(p))
	switch {
	case err == nil:
	case errors.Is(err, ErrOpen), errors.Is(err, ErrRow):
		return nil, fmt.Errorf("verify: %w", err)
	default:
		return nil, fmt.Errorf("%w: verify: %w", ErrDatabase, withCause(ctx, err))
	}
	p.end()
	for _, f := range findings {
		c := Comparison(f)
		report.Checks = append(report.Checks, c)
		if !c.OK {
			report.Failed = append(report.Failed, c)
		}
	}
	report.OK = len(report.Failed) == 0
	text, err := json.Marshal(report)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	report.Seal, report.Took = hex.EncodeToString(sum[:]), time.Since(began)
	return report, nil
}

// total returns how many rows there are to read, for the progress.
func (v *verifier) total(ctx context.Context) (rows int64, err error) {
	entries, err := v.journal.entries(ctx)
	for _, e := range entries[stepCopy] {
		rows += e.read + e.written
	}
	return rows, err
}

// promises is the plan in the words of package verify.
func (v *verifier) promises(p *progress) *verify.Plan {
	plan := v.ws.plan
	all := &verify.Plan{
		Target: v.server(Server{Name: plan.Target.Name, Number: plan.Target.Number, DSN: plan.Target.DSN}),
		Shift:  v.ws.layout.shift, Mask: v.ws.layout.mask, Counted: v.ws.minGenerated,
		Tables: map[string]*verify.Table{}, Progress: p.add,
	}
	for _, own := range ownTables() {
		all.Own = append(all.Own, own.name)
	}
	for _, s := range plan.Servers {
		all.Servers = append(all.Servers, v.server(s))
	}
	for _, s := range plan.Conserve {
		all.Sums = append(all.Sums, verify.Sum(s))
	}
	for name, t := range plan.Tables {
		all.Tables[name] = v.table(t)
		all.Tables[name].GivesUp = verify.GivenUp(plan.GivesUp[name])
	}
	v.watch(all)
	return all
}

// watch names the columns that hold keys of renumbered tables by the lock, and that change with none, or only
// in rows that meet a condition.
func (v *verifier) watch(all *verify.Plan) {
	for _, j := range v.ws.order {
		whens := j.whens()
		for _, name := range slices.Sorted(maps.Keys(whens)) {
			all.Watched = append(all.Watched, verify.Watched{Table: j.name, Column: name, Except: whens[name]})
		}
	}
	if v.ws.lock == nil {
		return
	}
	for _, table := range slices.Sorted(maps.Keys(v.ws.lock.Tables)) {
		columns := v.ws.lock.Tables[table].Columns
		for _, name := range slices.Sorted(maps.Keys(columns)) {
			own := v.ws.jobs[table]
			if own == nil || own.refers(name) || own.plan.Set[name] != "" || slices.Contains(own.plan.Sum, name) {
				continue
			}
			// The target may have lost a key, which the catalog says.
			if key := own.key(); own.plan.Renumber != "" && key != nil && key.Name == name {
				continue
			}
			rest := verify.Watched{Table: table, Column: name} // of whose keys most are a chance
			for _, j := range v.ws.order {
				if j.plan.Renumber == "" || j.key() == nil {
					continue
				}
				key := LockedKey{Table: j.name, Column: j.key().Name}
				if columns[name].refers(key) && !slices.Contains(v.ws.plan.Plain, table+"."+name) {
					all.Watched = append(all.Watched, verify.Watched{Table: table, Column: name, Of: []string{j.name},
						Likely: true})
				} else if columns[name].holds(key) {
					rest.Of = append(rest.Of, j.name)
				}
			}
			if len(rest.Of) > 0 {
				all.Watched = append(all.Watched, rest)
			}
		}
	}
}

func (v *verifier) server(s Server) verify.Server {
	return verify.Server{
		Name: s.Name, Number: s.Number, Numbers: append([]int64{s.Number}, s.Also...),
		Open: func(ctx context.Context) (*sql.DB, error) {
			dsn, err := resolveDSN(s.Name, s.DSN)
			if err != nil {
				return nil, err
			}
			pool, err := v.ws.open(ctx, dsn)
			if err != nil { // the words of a driver may hold the DSN
				return nil, fmt.Errorf("%w: %s: a second connection cannot be opened", ErrOpen, s.Name)
			}
			return pool, nil
		},
		Shared: func(pool *sql.DB) bool {
			for _, d := range v.ws.databases() {
				if d.Uses(pool) {
					return true
				}
			}
			return false
		},
	}
}

func (v *verifier) table(t *TablePlan) *verify.Table {
	out := &verify.Table{
		Policy:   string(t.Policy),
		Where:    t.Where,
		Orphans:  t.Orphans,
		Key:      t.Key,
		Sum:      t.Sum,
		Min:      t.Min,
		Max:      t.Max,
		By:       t.By,
		Ignore:   t.Ignore,
		Convert:  t.Convert,
		Renumber: t.Renumber != "",
		First:    t.Renumber == Apart && v.ws.plan.Apart != apartOthers,
		Set:      t.Set,
	}
	for _, r := range t.References {
		out.References = append(
			out.References,
			verify.Reference{Columns: r.columns(), Target: r.Target, Table: r.Table,
				When: r.When, Path: r.Path, List: r.List, Bits: r.Bits},
		)
	}
	if r := t.Rename; r != nil {
		out.Rename = &verify.Rename{Column: r.Column, Keep: r.Keep, By: r.By, Format: r.Format, Max: r.Max,
			When: r.When}
		for _, c := range r.Copies {
			out.Rename.Copies = append(out.Rename.Copies, verify.NameCopy(c))
		}
		for _, d := range r.Derived {
			out.Rename.Derived = append(out.Rename.Derived, verify.Derived(d))
		}
	}
	return out
}
