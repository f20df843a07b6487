package merge

import (
	"cmp"
	"context"
	"encoding/csv"
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
	ws *workspace
}

// Open opens the databases of a plan, the sources read-only, and reads their catalogs. It writes nothing. The
// error wraps [ErrPlan] or [ErrOpen].
func Open(ctx context.Context, plan *Plan, opts ...Option) (*Merge, error) {
	ws, err := openWorkspace(ctx, plan, opts)
	if err != nil {
		return nil, withCause(ctx, err)
	}
	return &Merge{ws: ws}, nil
}

// Close closes all databases.
func (m *Merge) Close() error { return m.ws.close() }

// Check looks for everything that stands against the merge. It writes nothing but temporary tables in the
// session of the target. The report says what it found; an error means that the check itself failed. When ctx
// has ended, a connection may be lost; then open a new Merge.
func (m *Merge) Check(ctx context.Context) (*CheckReport, error) {
	state, err := m.ws.journal.state(ctx)
	if err != nil {
		return nil, withCause(ctx, err)
	}
	if state.name != "" {
		report := &CheckReport{Plan: m.ws.given.Hash(), Verdict: Undecided}
		report.problem(Problem{Code: CodeAlreadyBegun, Server: m.ws.target.Name,
			Message: "it already belongs to a merge, in the state " + state.name,
			Remedy: "run goes on with it, verify looks at its result; to begin anew, drop the target and make " +
				"a fresh one"})
		if m.ws.lock == nil && slices.ContainsFunc(m.ws.order, (*tableJob).changes) {
			report.Lock, _, err = survey(ctx, m.ws, nil, false)
		}
		return report, err
	}
	return newChecker(ctx, m.ws, &decisions{ws: m.ws}).check()
}

// Run merges, or resumes a merge that was interrupted. On a complete target it changes nothing.
//
// If Check would find problems, the error is [ErrUndecided], and the field Check of the report lists them.
// Other errors are [ErrLocked], [ErrOtherPlan], [ErrSourceChanged], [ErrRow], [ErrBalance] and [ErrDatabase].
// Run can be called again after each of them. When ctx has ended, a connection may be lost; then open a new
// Merge to resume.
func (m *Merge) Run(ctx context.Context) (*RunReport, error) {
	r := &runner{
		ws: m.ws, temporary: &decisions{ws: m.ws}, decisions: &decisions{ws: m.ws, permanent: true},
		report: &RunReport{Plan: m.ws.given.Hash(), Servers: m.ws.mergedServers()},
	}
	return r.run(ctx)
}

// Verify compares the target with the sources, by code of its own that neither decides nor copies. It
// compares every value of every row, every reference with the content of its parent, orphans, equal unique
// keys, new names and who kept the old ones, totals, and the sums that the plan conserves. It also compares
// what the target has besides rows, such as indexes, with what it had before the run. Both are read by the
// same code of Verify: Run calls that before it writes the first row, and stores what it says.
//
// Verify takes a second connection to each database and writes nothing there. Large lists are kept in
// temporary files of this machine. The report lists what differs; an error means that Verify itself failed.
func (m *Merge) Verify(ctx context.Context) (*VerifyReport, error) {
	began := time.Now()
	state, err := m.ws.journal.state(ctx)
	if err != nil {
		return nil, err
	}
	report := &VerifyReport{Plan: m.ws.given.Hash()}
	switch {
	case state.name == "":
		return nil, fmt.Errorf("%w: nothing has been merged into the target", ErrNotRun)
	case state.plan != report.Plan:
		return nil, fmt.Errorf("%w: verify with the plan of the run", ErrOtherPlan)
	case state.name != stateDone:
		return nil, fmt.Errorf("%w: the state is %s: run again, it goes on where it ended", ErrNotRun,
			state.name)
	}
	entries, err := m.ws.journal.entries(ctx)
	if err != nil {
		return nil, err
	}
	rows := int64(0) // to read
	for _, e := range entries[stepCopy] {
		rows += e.read + e.written
	}
	p := m.ws.newProgress("verify", rows)
	findings, err := verify.Run(ctx, m.promises(p))
	if err != nil {
		return nil, fmt.Errorf("%w: verify: %w", ErrDatabase, withCause(ctx, err))
	}
	p.report()
	report.Checks = sqldb.Mapped(findings, func(f verify.Finding) Comparison { return Comparison(f) })
	for _, c := range report.Checks {
		if !c.OK {
			report.Failed = append(report.Failed, c)
		}
	}
	if m.ws.lock != nil {
		weak, err := m.ws.byChance(ctx, m.ws.lock)
		if err != nil {
			return nil, fmt.Errorf("%w: verify: %w", ErrDatabase, withCause(ctx, err))
		}
		for _, p := range weak {
			report.Checks = append(report.Checks, Comparison{What: "chance", Table: p.Table, Column: p.Column,
				Detail: p.Message, OK: true})
		}
	}
	report.OK = len(report.Failed) == 0
	report.Seal, report.Took = hashOf(report), time.Since(began)
	return report, nil
}

// Renames calls fn for every row that got a new name, ordered by table, server and key. It is for telling the
// players. The table merge_renames has the same rows.
func (m *Merge) Renames(ctx context.Context, fn func(Renamed) error) error {
	t := m.ws.target
	q := t.SQL("SELECT server, row_key, col, old_name, new_name, new_key, tbl FROM ",
		t.Kind.Quote(tableRenames), " ORDER BY tbl, server, row_key")
	return t.Each(ctx, q, func(values []any) error {
		server, err := numbers(values[0])
		if err != nil {
			return err
		}
		text := sqldb.Mapped(values, sqldb.Text)
		return fn(Renamed{Table: text[6], Server: server[0], Key: text[1], Column: text[2], OldName: text[3],
			NewName: text[4], NewKey: text[5]})
	})
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
	w.Flush()
	return cmp.Or(err, w.Error())
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

// promises is the plan in the words of package verify. It hands over what the plan promises, and nothing that
// the run has computed.
func (m *Merge) promises(p *progress) *verify.Plan {
	plan := m.ws.plan
	all := &verify.Plan{
		Target: verify.Server{Name: plan.Target.Name, Number: plan.Target.Number, Pool: m.ws.target.Pool()},
		Shift:  m.ws.layout.shift, Mask: m.ws.layout.mask, Counted: m.ws.layout.least,
		Tables: map[string]*verify.Table{}, Progress: p.add, Own: slices.Sorted(maps.Keys(ownTables())),
		Sums: sqldb.Mapped(plan.Conserve, func(s ConservedSum) verify.Sum { return verify.Sum(s) }),
	}
	for _, s := range m.ws.servers {
		all.Servers = append(all.Servers, verify.Server{Name: s.Name, Number: s.Number, Numbers: s.numbers(),
			Pool: s.db.Pool()})
	}
	for name, t := range plan.Tables {
		all.Tables[name] = m.table(name, t)
		all.Tables[name].GivesUp = verify.GivenUp(plan.GivesUp[name])
	}
	m.watch(all)
	return all
}

// watch names the columns that hold keys of renumbered tables by the lock, and that change with none, or only
// in rows that meet a condition. Those that may refer come before those that hold keys by chance.
func (m *Merge) watch(all *verify.Plan) {
	for _, j := range m.ws.order {
		for name, when := range sorted(j.whens()) {
			all.Watched = append(all.Watched, verify.Watched{Table: j.name, Column: name, Except: when})
		}
	}
	if m.ws.lock == nil {
		return
	}
	var less []verify.Watched
	for table, locked := range sorted(m.ws.lock.Tables) {
		for name, column := range sorted(locked.Columns) {
			own := m.ws.jobs[table]
			if own == nil || own.refers(name) || own.plan.Set[name] != "" || slices.Contains(own.plan.Sum, name) {
				continue
			}
			// The target may have lost a key, which the catalog says.
			if key := own.key(); own.plan.Renumber != "" && key != nil && key.Name == name {
				continue
			}
			rest := verify.Watched{Table: table, Column: name} // of whose keys most are a chance
			for _, j := range m.ws.order {
				if j.plan.Renumber == "" || j.key() == nil {
					continue
				}
				key := LockedKey{Table: j.name, Column: j.key().Name}
				plain := slices.Contains(m.ws.plan.Plain, table+"."+name)
				if column.refers(key) && (!plain || !all.Tables[j.name].First) {
					all.Watched = append(all.Watched, verify.Watched{Table: table, Column: name, Of: []string{j.name},
						Likely: true, Plain: plain})
				} else if column.holds(key) {
					rest.Of = append(rest.Of, j.name)
				}
			}
			if len(rest.Of) > 0 {
				less = append(less, rest)
			}
		}
	}
	all.Watched = append(all.Watched, less...)
}

func (m *Merge) table(name string, t *TablePlan) *verify.Table {
	out := &verify.Table{
		Policy: string(t.Policy), Where: t.Where, Orphans: t.Orphans, Key: t.Key, Sum: t.Sum, Min: t.Min,
		Max: t.Max, By: t.By, Ignore: t.Ignore, Convert: t.Convert, Set: t.Set, Renumber: t.Renumber != "",
		First: t.Renumber == Apart && m.ws.plan.Apart != apartOthers,
	}
	if j := m.ws.jobs[name]; j != nil {
		if key := identityOf(j.target); key != nil {
			out.Counted = key.Name
		}
	}
	out.References = sqldb.Mapped(t.References, func(r Reference) verify.Reference {
		return verify.Reference{Columns: r.columns(), Target: r.Target, Table: r.Table, When: r.When,
			Path: r.Path, List: r.List, Bits: r.Bits}
	})
	if r := t.Rename; r != nil {
		copied := func(c NameCopy) verify.NameCopy { return verify.NameCopy(c) }
		derived := func(d DerivedName) verify.Derived { return verify.Derived(d) }
		out.Rename = &verify.Rename{Column: r.Column, Keep: r.Keep, By: r.By, Format: r.Format, Max: r.Max,
			When: r.When, Copies: sqldb.Mapped(r.Copies, copied), Derived: sqldb.Mapped(r.Derived, derived)}
	}
	return out
}
