package merge

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Opener opens the database that a DSN of the plan names, with a driver that the caller has registered:
// usually it is one call of sql.Open behind a look at the DSN. The merge closes what it gets.
type Opener func(ctx context.Context, dsn string) (*sql.DB, error)

type options struct {
	open         Opener
	log          *slog.Logger
	onProgress   func(Progress)
	hooks        Hooks
	chunkRows    int
	maxConflicts int // how many conflicts a report lists for each table
	portable     bool
	lock         *Lock              // what was found before; nil if nothing is known
	atFailpoint  func(point string) // set by tests only
	// distort is set by tests only: it changes rows on their way to the target.
	distort func(table string, columns []string, rows [][]any) [][]any
}

// An Option changes how a merge works. Those of this package are the only ones.
type Option func(*options)

// WithOpener sets the function that opens the DSNs of the plan. It is required.
func WithOpener(open Opener) Option { return func(o *options) { o.open = open } }

// WithLogger sets the logger. By default nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// WithProgress sets a function that is called about ten times a second while a method works, from the
// goroutine of that method.
func WithProgress(fn func(Progress)) Option { return func(o *options) { o.onProgress = fn } }

// WithHooks sets functions that Run calls.
func WithHooks(h Hooks) Option { return func(o *options) { o.hooks = h } }

// WithChunk sets how many rows are written in one transaction, 10,000 by default, or fewer if they have
// more than 8 MB and go through this program. Values below 1 change nothing. The journal is only the same
// after a resumed run as after an uninterrupted one if both use the same value. The rows are the same in
// any case.
func WithChunk(rows int) Option {
	return func(o *options) {
		if rows > 0 {
			o.chunkRows = rows
		}
	}
}

// WithLock sets what was found in the servers when the plan was written. Check and Run then refuse columns
// that are new, or of which the data says something else now. Check looks at all of them again, and Run only
// into tables in which rows have come or gone. Without a lock both look at everything, unless no key changes.
func WithLock(l *Lock) Option { return func(o *options) { o.lock = l } }

// WithMaxConflicts sets how many conflicts of each table a report lists, 10,000 by default. All conflicts are
// counted, and all renames are in the table merge_renames.
func WithMaxConflicts(n int) Option { return func(o *options) { o.maxConflicts = n } }

// WithPortableCopy makes all rows go through this program, even between databases of one kind. It is for
// tests, and for servers on which the faster ways do not work.
func WithPortableCopy() Option { return func(o *options) { o.portable = true } }

// Hooks are called by Run, for work outside of the databases. When a hook fails, the run ends, and the
// next run calls it again. So hooks must tolerate being called twice.
type Hooks struct {
	// AfterTable is called when all rows of a table are copied. A resumed run calls it for tables that were
	// complete before, too.
	AfterTable func(ctx context.Context, table string) error
	// AfterMerge is called before the run is marked as done.
	AfterMerge func(ctx context.Context) error
}

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
	opening      sync.Mutex // held while the opener of the caller works
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
	if err := ws.connectAll(ctx); err != nil {
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

// connectAll opens the servers and the target, all at once: most of the time goes by in waiting for them.
func (ws *workspace) connectAll(ctx context.Context) error {
	opened := make([]*sqldb.DB, len(ws.plan.Servers)+1)
	err := atOnce(len(opened), func(i int) (err error) {
		name, dsn, target := "the target", ws.plan.Target.DSN, i == len(ws.plan.Servers)
		if !target {
			name, dsn = ws.plan.Servers[i].Name, ws.plan.Servers[i].DSN
		}
		opened[i], err = ws.connect(ctx, name, dsn, target)
		return err
	})
	for i, s := range ws.plan.Servers {
		if opened[i] != nil {
			ws.servers = append(ws.servers, &server{Server: s, db: opened[i],
				numbers: append([]int64{s.Number}, s.Also...)})
		}
	}
	ws.target = opened[len(opened)-1]
	return err
}

// atOnce calls fn for each of the first n numbers at the same time, and waits for all. It returns the error
// of the lowest one.
func atOnce(n int, fn func(i int) error) error {
	faults := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { faults[i] = fn(i) })
	}
	all.Wait()
	for _, err := range faults {
		if err != nil {
			return err
		}
	}
	return nil
}

func (ws *workspace) connect(ctx context.Context, name, dsn string, target bool) (*sqldb.DB, error) {
	dsn, err := resolveDSN(name, dsn)
	if err != nil {
		return nil, err
	}
	// The opener of the caller may not be made for several calls at a time.
	open := func(ctx context.Context, dsn string) (*sql.DB, error) {
		ws.opening.Lock()
		defer ws.opening.Unlock()
		return ws.open(ctx, dsn)
	}
	d, err := sqldb.Open(ctx, open, name, dsn, target)
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
		target := ws.target.Tables[name]
		if target == nil {
			ws.problems = append(ws.problems, Problem{Code: CodeMissingTable, Server: ws.target.Name, Table: name,
				Message: "the target has no such table",
				Remedy:  "run the migrations of the game on the target, or give the table the policy skip"})
			continue
		}
		j := &tableJob{name: name, plan: p, target: target, sources: make([]*sourceTable, len(ws.servers))}
		for _, name := range p.Convert {
			if c := target.Column(name); c != nil {
				c.Cuts = true
			}
		}
		for i, s := range ws.servers {
			if source := s.db.Tables[name]; source != nil {
				j.sources[i] = ws.newSource(j, i, source)
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
		for _, src := range j.present() {
			src.prepared(ws)
		}
	}
}

func (ws *workspace) newSource(j *tableJob, server int, source *sqldb.Table) *sourceTable {
	kind := ws.servers[server].db.Kind
	src := &sourceTable{ws: ws, job: j, server: server, table: source, order: source.Order(kind),
		raw: ws.servers[server].db.Kind == sqldb.SQLite && ws.target.Kind == sqldb.SQLite}
	for _, target := range j.target.Writable() {
		c, set := source.Column(target.Name), j.plan.Set[target.Name] != ""
		if c == nil && set {
			c = target // what the plan sets needs no column there
		}
		if c != nil {
			src.pairs = append(src.pairs, pair{source: c, target: target, set: set,
				native: kind == ws.target.Kind && c.Declared == target.Declared && !set})
		}
	}
	for _, name := range source.Primary {
		if index := src.index(name); index >= 0 {
			src.key = append(src.key, index)
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
	for _, ref := range j.target.References {
		if ref = ws.led(ref); len(ref.Target) == len(ref.Columns) {
			refs = append(refs, ref)
		}
	}
	for _, r := range j.plan.References {
		if ws.policy(r.Table) == Skip && ws.target.Tables[r.Table] == nil {
			continue
		}
		ref, parent := ws.led(r.catalog()), ws.target.Tables[r.Table]
		problem := ""
		switch {
		case parent == nil:
			problem = "the target has no table " + r.Table
		case len(ref.Target) != len(ref.Columns):
			problem = fmt.Sprintf("it has %d columns, and %s is referred to by %d",
				len(ref.Columns), r.Table, len(ref.Target))
		case slices.ContainsFunc(r.columns(), func(name string) bool { return j.target.Column(name) == nil }):
			problem = "the target lacks a column of it"
		case slices.ContainsFunc(ref.Target, func(name string) bool { return parent.Column(name) == nil }):
			problem = "the table that it refers to lacks a column of it"
		case ref.Bits != "" && slices.ContainsFunc(r.columns(), func(name string) bool {
			c := j.target.Column(name)
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

// copied reports whether rows of a table are copied.
func (ws *workspace) copied(table string) bool { return ws.jobs[table] != nil }

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
		for _, src := range j.present() {
			s := src.owner()
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

// resolved returns the plan with each column of its identities as a reference of its table, which is the one
// form on which everything else works. It also returns the entries that name no column.
func (p *Plan) resolved(target map[string]*sqldb.Table) (*Plan, []Problem) {
	if len(p.Identities) == 0 {
		return p, nil
	}
	all := *p
	all.Identities, all.Tables = nil, map[string]*TablePlan{}
	for name, t := range p.Tables {
		own := *t
		own.References = slices.Clone(t.References)
		all.Tables[name] = &own
	}
	var faults []Problem
	for _, many := range []bool{false, true} { // what is named comes before patterns
		for _, name := range slices.Sorted(maps.Keys(p.Identities)) {
			id := p.Identities[name]
			for _, text := range id.In {
				e, err := parseHolder(text)
				if err != nil || e.many() != many {
					continue
				}
				if !all.refer(id, name, e, target) {
					faults = append(faults, Problem{Code: CodePlan, Table: id.table(name), Column: id.Key,
						Message: fmt.Sprintf("the entry %q under in: of the identity %s is about no column that no "+
							"other reference names", text, name), Remedy: "correct it, or remove it"})
				}
			}
		}
	}
	return &all, faults
}

// refer adds what an entry of an identity says to the references of tables, and reports whether that is
// anything.
func (p *Plan) refer(id *Identity, name string, e holder, target map[string]*sqldb.Table) (found bool) {
	parent, key := target[id.table(name)], id.Key
	r, err := e.reference()
	if err != nil {
		return false
	}
	if r.Table = id.table(name); parent != nil && len(parent.Primary) == 1 {
		key = cmp.Or(key, parent.Primary[0])
	}
	if key != "" && (parent == nil || !slices.Equal(parent.Primary, []string{key})) {
		r.Target = []string{key}
	}
	if !e.many() {
		p.Tables[e.table].References = append(p.Tables[e.table].References, r)
		return true
	}
	for _, table := range slices.Sorted(maps.Keys(p.Tables)) {
		t, own := target[table], p.Tables[table]
		if t == nil || !own.Policy.copies() {
			continue
		}
		for _, c := range t.Columns {
			named := slices.ContainsFunc(own.References, func(r Reference) bool {
				return slices.Contains(r.columns(), c.Name)
			})
			another := r.Path+r.List == "" && parent != nil && parent.Column(key) != nil &&
				parent.Column(key).Family != c.Family
			if !e.covers(table, c.Name) || table == r.Table && c.Name == key || named || another {
				continue
			}
			one := r
			if len(r.Columns) > 0 {
				one.Columns = append([]string{c.Name}, r.Columns[1:]...)
			} else {
				one.Column = c.Name
			}
			own.References, found = append(own.References, one), true
		}
	}
	return found
}

// isOurs reports whether a table is one that a merge has made. The table of a game may have the same name,
// but not the same columns. Those that other versions made differ in some.
func isOurs(t *sqldb.Table) bool {
	lasting := func(names []string) []string {
		return slices.DeleteFunc(names, func(name string) bool {
			return name == "new_key" || name == "differs" || name == "position"
		})
	}
	return slices.ContainsFunc(ownTables(), func(own ownTable) bool {
		columns, _, _ := strings.Cut(own.columns, ", PRIMARY KEY (")
		var names []string
		for column := range strings.SplitSeq(columns, ", ") {
			name, _, _ := strings.Cut(column, " ")
			names = append(names, name)
		}
		return own.name == t.Name && sameNames(lasting(names), lasting(sqldb.ColumnNames(t.Columns)))
	})
}

// circle are tables that refer to each other in a circle, or one that refers to itself, in the order in which
// they are copied. If it is stuck, no order keeps references that cannot be NULL.
type circle struct {
	tables []*tableJob
	stuck  bool
}

// sortTables orders parents before children. Tables that refer to each other in a circle follow each other;
// their order depends only on the references that cannot be NULL. The result depends on names and references
// alone, so every run has the same order.
func sortTables(jobs map[string]*tableJob) (order []*tableJob, circles []circle) {
	g := &graph{jobs: jobs, index: map[string]int{}, low: map[string]int{}, stacked: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		if _, seen := g.index[name]; !seen {
			g.visit(name)
		}
	}
	for _, group := range g.groups {
		names, ok := sortCircle(jobs, group)
		for _, name := range names {
			order = append(order, jobs[name])
		}
		if last := order[len(order)-len(names):]; len(last[0].circular) > 0 {
			circles = append(circles, circle{slices.Clone(last), !ok})
		}
	}
	return order, circles
}

// graph finds the circles, which are the strongly connected components. Tarjan's algorithm returns them with
// parents first.
type graph struct {
	jobs       map[string]*tableJob
	index, low map[string]int
	stacked    map[string]bool
	stack      []string
	groups     [][]string
}

func (g *graph) visit(name string) {
	g.index[name] = len(g.index)
	g.low[name] = g.index[name]
	g.stack = append(g.stack, name)
	g.stacked[name] = true
	for _, ref := range g.jobs[name].refs {
		parent := ref.Parent
		if g.jobs[parent] == nil {
			continue
		}
		if _, seen := g.index[parent]; !seen {
			g.visit(parent)
			g.low[name] = min(g.low[name], g.low[parent])
		} else if g.stacked[parent] {
			g.low[name] = min(g.low[name], g.index[parent])
		}
	}
	if g.low[name] != g.index[name] {
		return
	}
	var group []string
	for {
		last := g.stack[len(g.stack)-1]
		g.stack = g.stack[:len(g.stack)-1]
		g.stacked[last] = false
		group = append(group, last)
		if last == name {
			break
		}
	}
	slices.Sort(group)
	g.groups = append(g.groups, group)
}

// sortCircle orders the tables of a circle and marks the references that must wait until all rows exist. It
// reports whether such an order exists.
func sortCircle(jobs map[string]*tableJob, group []string) ([]string, bool) {
	waits := map[string][]string{} // the parents that must be copied before a table
	possible := true
	for _, name := range group {
		j := jobs[name]
		for i := range j.refs {
			ref := &j.refs[i]
			if !slices.Contains(group, ref.Parent) {
				continue
			}
			j.circular = append(j.circular, *ref)
			switch {
			case !ref.Enforced || j.nullable(*ref) != "":
			case ref.Parent == name:
				possible = false
			default:
				waits[name] = append(waits[name], ref.Parent)
			}
		}
	}
	var order []string
	for len(order) < len(group) {
		next := slices.IndexFunc(group, func(name string) bool {
			return !slices.Contains(order, name) && !slices.ContainsFunc(waits[name], func(parent string) bool {
				return !slices.Contains(order, parent)
			})
		})
		if next < 0 {
			return group, false
		}
		order = append(order, group[next])
	}
	return order, possible
}
