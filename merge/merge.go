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
)

// Merge is an opened plan. It holds a connection to every database; its methods must not be called at the
// same time. [Open] makes one.
type Merge struct {
	options
	plan    *Plan
	layout  decoder
	plain   int64 // IDs below it have no time: they are numbers that were counted
	servers []*server
	target  *database
	works   map[string]*work
	order   []*work    // parents before children
	stuck   [][]string // circles that no order helps
	unknown []Problem  // what is wrong with the plan, seen from the databases
	d       decisions
	stages  int // how many there were
	offsets map[tableServer]int64
}

// server is a source of the plan and its database.
type server struct {
	Server
	*database
	numbers []int64
}

type options struct {
	open     Opener
	log      *slog.Logger
	progress func(Progress)
	hooks    Hooks
	funcs    map[string]Func
	chunk    int
	limit    int // of the conflicts in a report
	portable bool
	fault    func(point string) // tests end the process at such points
}

// An Option changes how a merge works. Those of this package are the only ones.
type Option func(*options)

// WithOpener says how DSNs are opened. There is no merge without it.
func WithOpener(open Opener) Option { return func(o *options) { o.open = open } }

// WithLogger says where to log. By default nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// WithProgress has fn called now and then, from the goroutine of the call that is at work.
func WithProgress(fn func(Progress)) Option { return func(o *options) { o.progress = fn } }

// WithHooks has functions called in the course of a run.
func WithHooks(h Hooks) Option { return func(o *options) { o.hooks = h } }

// WithFunc registers the function that the policy custom calls name in the plan.
func WithFunc(name string, fn Func) Option { return func(o *options) { o.funcs[name] = fn } }

// WithChunk sets how many rows one transaction has, 10,000 by default. It must not change between a run
// and its resumption if both are to end in the same journal; the rows are the same in any case.
func WithChunk(rows int) Option {
	return func(o *options) {
		if rows > 0 {
			o.chunk = rows
		}
	}
}

// WithMaxConflicts sets how many conflicts of each table a report lists, 10,000 by default. All are counted,
// and all renames are in the table merge_renames.
func WithMaxConflicts(n int) Option { return func(o *options) { o.limit = n } }

// WithPortableCopy keeps rows from taking the short ways between databases of one kind. It is for tests and
// for servers on which these ways do not work.
func WithPortableCopy() Option { return func(o *options) { o.portable = true } }

// Hooks are called in the course of a run, for what lives outside of the databases. When one fails the run
// ends, and the next one calls it again: hooks have to bear being called twice.
type Hooks struct {
	// AfterTable is called when all rows of a table are there; by a run that goes on where another one ended
	// also for the tables that were complete before.
	AfterTable func(ctx context.Context, table string) error
	// AfterMerge is called before the run is marked as done.
	AfterMerge func(ctx context.Context) error
}

// Func is the function of the policy custom. It may change the row, and returns false to leave it out.
// It has to give the same answer whenever it is asked, as rows are read once to find conflicts and again
// to be copied, and after a crash a third time.
type Func func(ctx context.Context, r *Row) (keep bool, err error)

// Row is a row on its way to the target.
type Row struct {
	server Server
	feed   *feed
	values []any
}

// Server is where the row comes from.
func (r *Row) Server() Server { return r.server }

// Columns are the names of the columns.
func (r *Row) Columns() []string { return r.feed.names() }

// Get returns the value of a column: nil, int64, uint64, float64, string or []byte. It is nil if there is no
// such column.
func (r *Row) Get(column string) any {
	if at := r.feed.at(column); at >= 0 {
		return r.values[at]
	}
	return nil
}

// Set changes a column; it returns false if there is none of that name. The types are those of Get.
func (r *Row) Set(column string, value any) bool {
	at := r.feed.at(column)
	if at >= 0 {
		r.values[at] = value
	}
	return at >= 0
}

// Open opens the databases of a plan, the sources read-only, and looks at their tables. It writes nothing.
// The error wraps [ErrPlan] or [ErrOpen].
func Open(ctx context.Context, plan *Plan, opts ...Option) (_ *Merge, err error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	m := newMerge(plan, opts)
	if m.open == nil {
		return nil, fmt.Errorf("%w: there is no opener: use WithOpener", ErrOpen)
	}
	layout, err := plan.Layout.Generator()
	if err != nil {
		return nil, fmt.Errorf("%w: layout: %w", ErrPlan, err)
	}
	if m.layout, err = plan.Layout.decoder(); err != nil {
		return nil, fmt.Errorf("%w: layout: %w", ErrPlan, err)
	}
	m.plain = 1 << (layout.NodeBits() + layout.SequenceBits)
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	for _, s := range plan.Servers {
		d, err := m.connect(ctx, s.Name, s.DSN, false)
		if err != nil {
			return nil, err
		}
		m.servers = append(m.servers, &server{Server: s, database: d, numbers: append([]int64{s.Number},
			s.Also...)})
	}
	if m.target, err = m.connect(ctx, "the target", plan.Target.DSN, true); err != nil {
		return nil, err
	}
	if err := m.distinct(); err != nil {
		return nil, err
	}
	m.relate()
	m.d = decisions{m: m}
	return m, nil
}

func newMerge(plan *Plan, opts []Option) *Merge {
	m := &Merge{plan: plan, works: map[string]*work{}, options: options{
		chunk: 10_000, limit: 10_000, funcs: map[string]Func{}, log: slog.New(slog.DiscardHandler),
	}}
	for _, o := range opts {
		o(&m.options)
	}
	return m
}

func (m *Merge) connect(ctx context.Context, name, dsn string, target bool) (*database, error) {
	if variable, ok := strings.CutPrefix(dsn, "$"); ok {
		variable = strings.Trim(variable, "{}")
		if dsn = os.Getenv(variable); dsn == "" {
			return nil, fmt.Errorf("%w: %s: the environment variable %s is not set", ErrOpen, name, variable)
		}
	}
	if dsn == "" {
		return nil, fmt.Errorf("%w: %s: the plan has no DSN for it", ErrOpen, name)
	}
	d, err := openDatabase(ctx, m.open, name, dsn, target)
	if err != nil {
		return nil, err
	}
	if err := d.introspect(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// distinct refuses files that are named twice. On servers, tables that are not empty give it away.
func (m *Merge) distinct() error {
	files := map[string]string{}
	for _, d := range m.databases() {
		if d.kind != SQLite || d.catalog == "" {
			continue
		}
		if other, taken := files[d.catalog]; taken {
			return fmt.Errorf("%w: %s and %s are the same file", ErrPlan, other, d.name)
		}
		files[d.catalog] = d.name
	}
	return nil
}

func (m *Merge) databases() []*database {
	var all []*database
	for _, s := range m.servers {
		all = append(all, s.database)
	}
	if m.target != nil {
		all = append(all, m.target)
	}
	return all
}

// Close closes all databases.
func (m *Merge) Close() error {
	var err error
	for _, d := range m.databases() {
		err = errors.Join(err, d.close())
	}
	return err
}

// relate makes the list of what is to be done to which table, and notes what does not go together.
func (m *Merge) relate() {
	for _, name := range slices.Sorted(maps.Keys(m.plan.Tables)) {
		p := m.plan.Tables[name]
		if !p.Policy.copies() {
			continue
		}
		to := m.target.tables[name]
		if to == nil {
			m.unknown = append(m.unknown, Problem{Code: CodeMissingTable, Server: m.target.name, Table: name,
				Message: "the target has no such table",
				Remedy:  "run the migrations of the game on the target, or give the table the policy skip"})
			continue
		}
		w := &work{name: name, plan: p, to: to, feeds: make([]*feed, len(m.servers))}
		for i, s := range m.servers {
			if from := s.tables[name]; from != nil {
				w.feeds[i] = m.newFeed(w, i, from)
			}
		}
		m.works[name] = w
	}
	for _, w := range m.works {
		w.refs = m.references(w)
	}
	m.order, m.stuck = sortTables(m.works)
}

func (m *Merge) newFeed(w *work, server int, from *table) *feed {
	f := &feed{work: w, server: server, from: from,
		raw: m.servers[server].kind == SQLite && m.target.kind == SQLite}
	for _, to := range w.to.written() {
		if c := from.column(to.name); c != nil {
			f.pairs = append(f.pairs, pair{from: c, to: to})
		}
	}
	for _, name := range from.primary {
		if at := f.at(name); at >= 0 {
			f.key = append(f.key, at)
		} else {
			f.key = nil // a part of it would not be a key
			break
		}
	}
	return f
}

// references are the foreign keys of the target and those that the plan declares.
func (m *Merge) references(w *work) []reference {
	var refs []reference
	for _, ref := range w.to.parents {
		if parent := m.target.tables[ref.parent]; len(ref.target) == 0 && parent != nil {
			ref.target = parent.primary
		}
		if len(ref.target) == len(ref.columns) {
			refs = append(refs, ref)
		}
	}
	for _, r := range w.plan.References {
		parent := m.target.tables[r.Table]
		if parent == nil || len(parent.primary) != 1 || w.to.column(r.Column) == nil {
			m.unknown = append(m.unknown, Problem{Code: CodePlan, Table: w.name, Column: r.Column,
				Message: fmt.Sprintf("the reference to %s needs the column, and one column as the primary key of %s",
					r.Table, r.Table)})
			continue
		}
		refs = append(refs, reference{columns: []string{r.Column}, parent: r.Table, target: parent.primary})
	}
	return refs
}
