package merge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// workspace is an opened plan: the databases, and the tables that are copied between them. Every part of a
// merge works on it.
type workspace struct {
	options
	given        *Plan // as people wrote it
	plan         *Plan // the same with all references at their tables
	layout       decoder
	minGenerated int64 // see leastGenerated
	servers      []*server
	target       *sqldb.DB
	jobs         map[string]*tableJob
	order        []*tableJob // parents before children
	circles      []circle
	problems     []Problem  // problems found when plan and databases were related
	elsewhere    *elsewhere // parents that the own server of a row does not have
	stages       int        // how many there were
	survey       *Lock      // what the servers have in their columns; nil if nobody has looked yet
}

// server is a source of the plan and its database.
type server struct {
	Server
	db      *sqldb.DB
	numbers []int64
}

// openWorkspace opens the databases and relates their tables.
func openWorkspace(ctx context.Context, plan *Plan, opts []Option) (_ *workspace, err error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	ws := newWorkspace(plan, opts)
	if ws.open == nil {
		return nil, fmt.Errorf("%w: no opener is set: use WithOpener", ErrOpen)
	}
	layout, err := plan.Layout.Resolve()
	if err != nil {
		return nil, fmt.Errorf("%w: layout: %w", ErrPlan, err)
	}
	if ws.layout, err = plan.Layout.decoder(); err != nil {
		return nil, fmt.Errorf("%w: layout: %w", ErrPlan, err)
	}
	ws.minGenerated = leastGenerated(layout)
	defer func() {
		if err != nil {
			err = errors.Join(err, ws.close())
		}
	}()
	for _, s := range plan.Servers {
		d, err := ws.connect(ctx, s.Name, s.DSN, false)
		if err != nil {
			return nil, err
		}
		ws.servers = append(ws.servers, &server{Server: s, db: d, numbers: append([]int64{s.Number},
			s.Also...)})
	}
	if ws.target, err = ws.connect(ctx, "the target", plan.Target.DSN, true); err != nil {
		return nil, err
	}
	if err := ws.distinct(); err != nil {
		return nil, err
	}
	var faults []Problem
	if ws.plan, faults = plan.resolved(ws.target.Tables); len(faults) > 0 {
		ws.problems = append(ws.problems, faults...)
	}
	ws.relate()
	return ws, nil
}

func newWorkspace(plan *Plan, opts []Option) *workspace {
	ws := &workspace{given: plan, plan: plan, jobs: map[string]*tableJob{}, options: options{
		chunkRows: 10_000, maxConflicts: 10_000, log: slog.New(slog.DiscardHandler),
	}}
	ws.elsewhere = &elsewhere{ws: ws}
	for _, o := range opts {
		o(&ws.options)
	}
	return ws
}

func (ws *workspace) connect(ctx context.Context, name, dsn string, target bool) (*sqldb.DB, error) {
	dsn, err := resolveDSN(name, dsn)
	if err != nil {
		return nil, err
	}
	d, err := sqldb.Open(ctx, ws.open, name, dsn, target)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(d.Tables, func(_ string, t *sqldb.Table) bool { return isOurs(t) })
	return d, nil
}

// resolveDSN returns the DSN that the plan names, which may be in an environment variable.
func resolveDSN(name, dsn string) (string, error) {
	if variable, ok := strings.CutPrefix(dsn, "$"); ok {
		variable = strings.Trim(variable, "{}")
		if dsn = os.Getenv(variable); dsn == "" {
			return "", fmt.Errorf("%w: %s: the environment variable %s is not set", ErrOpen, name, variable)
		}
	}
	if dsn == "" {
		return "", fmt.Errorf("%w: %s: the plan has no DSN for it", ErrOpen, name)
	}
	return dsn, nil
}

// distinct refuses a file that is named twice. On database servers the same mistake shows as a target that
// is not empty.
func (ws *workspace) distinct() error {
	files := map[string]string{}
	for _, d := range ws.databases() {
		if d.Kind != sqldb.SQLite || d.Catalog == "" {
			continue
		}
		if other, taken := files[d.Catalog]; taken {
			return fmt.Errorf("%w: %s and %s are the same file", ErrPlan, other, d.Name)
		}
		files[d.Catalog] = d.Name
	}
	return nil
}

// relate makes the jobs: which table of which source goes to which table of the target. It notes the
// problems that it meets.
func (ws *workspace) relate() {
	for _, name := range slices.Sorted(maps.Keys(ws.plan.Tables)) {
		p := ws.plan.Tables[name]
		if !p.Policy.copies() {
			continue
		}
		to := ws.target.Tables[name]
		if to == nil {
			ws.problems = append(ws.problems, Problem{Code: CodeMissingTable, Server: ws.target.Name, Table: name,
				Message: "the target has no such table",
				Remedy:  "run the migrations of the game on the target, or give the table the policy skip"})
			continue
		}
		j := &tableJob{name: name, plan: p, to: to, sources: make([]*sourceTable, len(ws.servers))}
		for _, name := range p.Convert {
			if c := to.Column(name); c != nil {
				c.Cuts = true
			}
		}
		for i, s := range ws.servers {
			if from := s.db.Tables[name]; from != nil {
				j.sources[i] = ws.newSource(j, i, from)
			}
		}
		ws.jobs[name] = j
	}
	for _, j := range ws.jobs {
		j.refs = ws.references(j)
	}
	ws.order, ws.circles = sortTables(ws.jobs)
	ws.follow()
	for _, j := range ws.order {
		for _, src := range j.sources {
			if src != nil {
				src.prepared(ws)
			}
		}
	}
}

func (ws *workspace) newSource(j *tableJob, server int, from *sqldb.Table) *sourceTable {
	kind := ws.servers[server].db.Kind
	src := &sourceTable{ws: ws, job: j, server: server, from: from, order: from.Order(kind),
		raw: ws.servers[server].db.Kind == sqldb.SQLite && ws.target.Kind == sqldb.SQLite}
	for _, to := range j.to.Writable() {
		c, set := from.Column(to.Name), j.plan.Set[to.Name] != ""
		if c == nil && set {
			c = to // what the plan sets needs no column there
		}
		if c != nil {
			src.pairs = append(src.pairs, pair{from: c, to: to, set: set,
				native: kind == ws.target.Kind && c.Declared == to.Declared && !set})
		}
	}
	for _, name := range from.Primary {
		if at := src.at(name); at >= 0 {
			src.key = append(src.key, at)
		} else {
			src.key = nil // a part of the key does not identify rows
			break
		}
	}
	return src
}

// references returns the foreign keys of the target and the references that the plan declares.
func (ws *workspace) references(j *tableJob) []sqldb.Reference {
	var refs []sqldb.Reference
	for _, ref := range j.to.References {
		if ref = ws.led(ref); len(ref.Target) == len(ref.Columns) {
			refs = append(refs, ref)
		}
	}
	for _, r := range j.plan.References {
		if ws.policy(r.Table) == Skip && ws.target.Tables[r.Table] == nil {
			continue
		}
		ref, parent := ws.led(r.of()), ws.target.Tables[r.Table]
		problem := ""
		switch {
		case parent == nil:
			problem = "the target has no table " + r.Table
		case len(ref.Target) != len(ref.Columns):
			problem = fmt.Sprintf("it has %d columns, and %s is referred to by %d",
				len(ref.Columns), r.Table, len(ref.Target))
		case slices.ContainsFunc(r.columns(), func(name string) bool { return j.to.Column(name) == nil }):
			problem = "the target lacks a column of it"
		case slices.ContainsFunc(ref.Target, func(name string) bool { return parent.Column(name) == nil }):
			problem = "the table that it refers to lacks a column of it"
		case ref.Bits != "" && slices.ContainsFunc(r.columns(), func(name string) bool {
			c := j.to.Column(name)
			return c == nil || c.Family != sqldb.FamilyInt
		}) || ref.Bits != "" && parent.Column(ref.Target[0]).Family != sqldb.FamilyInt:
			problem = "bits are those of columns of whole numbers, and of keys of that kind"
		case ref.Path != "":
			if _, err := parsePath(ref.Path); err != nil {
				problem = err.Error()
			}
		}
		if problem != "" {
			ws.problems = append(ws.problems, Problem{Code: CodePlan, Table: j.name,
				Column:  strings.Join(ref.Columns, ", "),
				Message: "the reference to " + r.Table + " cannot be followed: " + problem,
				Remedy:  "correct it under references: of the table"})
			continue
		}
		refs = append(refs, ref)
	}
	return refs
}

// led returns a reference with the columns that it leads to, which are those of the primary key by default.
func (ws *workspace) led(ref sqldb.Reference) sqldb.Reference {
	if parent := ws.target.Tables[ref.Parent]; parent != nil && len(ref.Target) == 0 {
		ref.Target = parent.Primary
	}
	return ref
}

func (ws *workspace) databases() []*sqldb.DB {
	var all []*sqldb.DB
	for _, s := range ws.servers {
		all = append(all, s.db)
	}
	if ws.target != nil {
		all = append(all, ws.target)
	}
	return all
}

// close closes all databases.
func (ws *workspace) close() error {
	var err error
	for _, d := range ws.databases() {
		err = errors.Join(err, d.Close())
	}
	return err
}

func (ws *workspace) mergedServers() []MergedServer {
	var all []MergedServer
	for _, s := range ws.servers {
		for _, number := range s.numbers {
			all = append(all, MergedServer{Number: number, Name: s.Name,
				MergedInto: ws.plan.Target.Number, Target: ws.plan.Target.Name})
		}
	}
	return all
}

// known reports whether any database has a table.
func (ws *workspace) known(table string) bool {
	return slices.ContainsFunc(ws.databases(), func(d *sqldb.DB) bool { return d.Tables[table] != nil })
}

// policy returns the policy of a table. Tables that the plan does not mention are not copied.
func (ws *workspace) policy(name string) Policy {
	if t := ws.plan.Tables[name]; t != nil {
		return t.Policy
	}
	return Skip
}

func (ws *workspace) newProgress(phase string, total int64) *progress {
	return &progress{Progress: Progress{Phase: phase, Total: total}, onProgress: ws.onProgress,
		began: time.Now()}
}

// failpoint is where tests interrupt a run or end the process.
func (ws *workspace) failpoint(point string) {
	if ws.atFailpoint != nil {
		ws.atFailpoint(point)
	}
}

// eachSource calls fn for every source table, parents first.
func (ws *workspace) eachSource(fn func(j *tableJob, src *sourceTable, s *server) error) error {
	for _, j := range ws.order {
		for _, src := range j.sources {
			if src == nil {
				continue
			}
			s := ws.servers[src.server]
			if err := fn(j, src, s); err != nil {
				return fmt.Errorf("%s: table %s: %w", s.Name, j.name, err)
			}
		}
	}
	return nil
}

// late returns the columns that a second pass fills. Only PostgreSQL needs one, as it always checks
// foreign keys.
func (ws *workspace) late(j *tableJob) []string {
	if ws.target.Kind != sqldb.PostgreSQL {
		return nil
	}
	var names []string
	for _, ref := range j.circular {
		if name := j.nullable(ref); ref.Enforced && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// holdsKey reports whether the columns of a link can hold a key in the target, of a table that it has.
func (ws *workspace) holdsKey(table string, l link, key int64) bool {
	t := ws.target.Tables[table]
	if !l.bits.used() {
		return t.Column(l.column).Holds(ws.target.Kind, key)
	}
	var columns []*sqldb.Column
	for _, name := range l.bits.columns(l.column) {
		if c := t.Column(name); c != nil {
			columns = append(columns, c)
		}
	}
	return l.bits.holds(ws.target.Kind, columns, key)
}

// declared reports whether the target or the plan says what a column refers to. A condition speaks for the
// rows that meet it, and so for one table only.
func (ws *workspace) declared(table, column, parent string) bool {
	if t := ws.target.Tables[table]; t != nil && slices.ContainsFunc(t.References,
		func(r sqldb.Reference) bool { return slices.Contains(r.Columns, column) }) {
		return true
	}
	p := ws.plan.Tables[table]
	return p != nil && (p.Set[column] != "" || slices.ContainsFunc(p.References, func(r Reference) bool {
		return slices.Contains(r.columns(), column) && (r.When == "" || r.Table == parent)
	}))
}
