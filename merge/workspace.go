package merge

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Opener opens the database that a DSN of the plan names, with a driver that the caller has registered:
// usually it is one call of sql.Open behind a look at the DSN. The merge closes what it gets.
type Opener func(ctx context.Context, dsn string) (*sql.DB, error)

type options struct {
	open       Opener
	onProgress func(Progress)
	hooks      Hooks
	chunkRows  int
	portable   bool
	lock       *Lock              // what was found before; nil if nothing is known
	failpoint  func(point string) // where tests interrupt a run or end the process
	// distort is set by tests only: it changes rows on their way to the target.
	distort func(table string, columns []string, rows [][]any) [][]any
}

// An Option changes how a merge works. Those of this package are the only ones.
type Option func(*options)

// WithOpener sets the function that opens the DSNs of the plan. It is required.
func WithOpener(open Opener) Option { return func(o *options) { o.open = open } }

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
	given     *Plan // as people wrote it
	plan      *Plan // the same with all references at their tables
	layout    decoder
	servers   []*server
	target    *sqldb.DB
	jobs      map[string]*tableJob
	order     []*tableJob // parents before children
	circles   []circle
	problems  []Problem   // problems found when plan and databases were related
	elsewhere *elsewhere  // parents that the own server of a row does not have
	offsets   *keyOffsets // what is added to keys
	journal   *journal
	stages    int        // how many there were
	survey    *Lock      // what the servers have in their columns; nil if nobody has looked yet
	opening   sync.Mutex // held while the opener of the caller works
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
	return cmp.Or(faults...)
}

// inTurn calls functions until one of them fails.
func inTurn(ctx context.Context, all ...func(context.Context) error) error {
	for _, fn := range all {
		if err := fn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sorted returns the entries of a map in the order of their keys.
func sorted[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
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

// led returns a reference with the columns that it leads to, which are those of the primary key by default.
func (ws *workspace) led(ref sqldb.Reference) sqldb.Reference {
	if parent := ws.target.Tables[ref.Parent]; parent != nil && len(ref.Target) == 0 {
		ref.Target = parent.Primary
	}
	return ref
}

func (ws *workspace) databases() []*sqldb.DB {
	all := sqldb.Mapped(ws.servers, func(s *server) *sqldb.DB { return s.db })
	if ws.target != nil {
		all = append(all, ws.target)
	}
	return all
}

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
		for _, number := range s.numbers() {
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

// sources returns every source table and where it goes, parents first.
func (ws *workspace) sources() iter.Seq2[*tableJob, *sourceTable] {
	return func(yield func(*tableJob, *sourceTable) bool) {
		for _, j := range ws.order {
			for _, src := range j.present() {
				if !yield(j, src) {
					return
				}
			}
		}
	}
}

// late returns the columns that a second pass fills. One is needed where foreign keys are always checked.
func (ws *workspace) late(j *tableJob) []string {
	if !ws.target.Kind.ChecksAtOnce() {
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
	return l.bits.holds(ws.target.Kind, sqldb.Mapped(l.columns(), t.Column), key)
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

// leadsThere returns the condition that the row is there to which a reference leads that only the plan
// declares, or "" if the keys that the others hold may become those of strangers, or are within texts.
func (ws *workspace) leadsThere(ref sqldb.Reference) string {
	parent := ws.jobs[ref.Parent]
	if ref.Enforced || ref.Inside() || len(ref.Columns) > 1 || parent == nil || parent.plan.Renumber != Apart ||
		ref.Target[0] != parent.key().Name {
		return ""
	}
	return ws.written(ref.Columns[0]) + " IN (SELECT " + ws.written(parent.key().Name) + " FROM " +
		ws.written(parent.name) + ")"
}

// written returns a name for a condition of a plan, in quotes if the database takes it for another one
// without them, or for a word of SQL that columns of games are called by.
func (ws *workspace) written(name string) string {
	k, plain := ws.servers[0].db.Kind, `^[A-Za-z_][A-Za-z0-9_]*$`
	if k == sqldb.PostgreSQL {
		plain = `^[a-z_][a-z0-9_]*$`
	}
	words := strings.Fields("all by case check condition default desc end for from group groups in index key " +
		"keys left limit lock match option order rank range read references release right row rows set table " +
		"to trigger use user using values when where window with write")
	if regexp.MustCompile(plain).MatchString(name) && !slices.Contains(words, strings.ToLower(name)) {
		return name
	}
	return k.Quote(name)
}

// saysNowhere reports whether the plan says that the rows of a column lead nowhere if the row is not there to
// which a reference leads.
func (ws *workspace) saysNowhere(j *tableJob, column string) bool {
	return slices.ContainsFunc(j.refs, func(ref sqldb.Reference) bool {
		there := ws.leadsThere(ref)
		return ref.Columns[0] == column && there != "" && strings.Contains(ref.When, there)
	})
}

// byChance names references that only the plan declares, and whose values are keys no more often than other
// numbers are, also where a condition leaves out those that are none. The lock says which ones are certain.
func (ws *workspace) byChance(ctx context.Context, lock *Lock) (all []Problem, err error) {
	const there = `(?i)\b(NOT\s+)?IN\s*\(\s*SELECT\s+\W?%s\W?\s+FROM\s+\W?%s\b(?:[^()']|'[^']*')*\)`
	for _, j := range ws.order {
		for _, ref := range j.refs {
			parent := ws.jobs[ref.Parent]
			if ref.Enforced || ref.Inside() || len(ref.Columns) > 1 || parent == nil || parent.key() == nil ||
				ref.Target[0] != parent.key().Name || !parent.changes() && !parent.refers(ref.Target[0]) ||
				j.plan.Set[ref.Columns[0]] != "" {
				continue
			}
			known := lock.Tables[j.name].Columns[ref.Columns[0]]
			if known.Verdict == census.Reference.String() {
				continue
			}
			leftOut := regexp.MustCompile(fmt.Sprintf(there, regexp.QuoteMeta(ref.Target[0]),
				regexp.QuoteMeta(parent.name)))
			when := leftOut.ReplaceAllString(cmp.Or(ref.When, "1 = 1"), "IS NOT NULL")
			found, err := census.ByChance(ctx, ws.databases()[:len(ws.servers)],
				census.Column{Table: j.name, Name: ref.Columns[0]},
				census.Column{Table: parent.name, Name: ref.Target[0]}, when)
			if err != nil {
				return nil, err
			}
			if found != "" {
				all = append(all, Problem{Code: CodePlan, Table: j.name, Column: ref.Columns[0],
					Message: found,
					Remedy: fmt.Sprintf("ask somebody who knows the game: if it refers to %s, all is well; if not, "+
						"remove the reference, and list %q under plain: of the plan", parent.name,
						j.name+"."+ref.Columns[0])})
			}
		}
	}
	return all, nil
}

// repeatsNames reports whether a column of any table repeats the names of a table.
func (ws *workspace) repeatsNames(parent *tableJob) bool {
	return slices.ContainsFunc(ws.order, func(j *tableJob) bool {
		return slices.ContainsFunc(j.follows.names, func(n nameLink) bool { return n.parent == parent.name })
	})
}

// circle are tables that refer to each other in a circle, or one that refers to itself, in the order in which
// they are copied. If it is stuck, no order keeps references that cannot be NULL.
type circle struct {
	tables []*tableJob
	stuck  bool
}

// elsewhere says of the rows that have no parent on their own server which of them have one in the target all
// the same: a row of another server, or one that the target had before. It knows references whose values mean
// the same row for every server and for the target. Others are judged by the rows of their own server.
type elsewhere struct {
	ws *workspace
	// known are the values of each reference, by [leadingOf], that lead to no row of their own server.
	known map[string]verdict
}
