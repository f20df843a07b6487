package reshard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

const mask = 4095

func must(t testing.TB, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// kind is what a job does in a test.
type kind struct {
	name      string
	from, to  [][2]int // residue and modulus
	databases int
}

var (
	split     = kind{"split", [][2]int{{1, 2}}, [][2]int{{1, 4}, {3, 4}}, 1}
	joined    = kind{"join", [][2]int{{1, 4}, {3, 4}}, [][2]int{{1, 2}}, 1}
	moved     = kind{"move", [][2]int{{1, 2}}, [][2]int{{1, 2}}, 2}
	splitAway = kind{"split over two databases", [][2]int{{1, 2}}, [][2]int{{1, 4}, {3, 4}}, 2}
)

// world has the tables of a job, and programs that write to them.
type world struct {
	testing.TB
	kind     kind
	dbs      []*gorm.DB // the new tables are in the last ones
	job      *Job
	from, to []entry

	started int // how often writers were
	mu      sync.Mutex
	rows    map[int64]string // what was acknowledged, by key
}

// testMap is a shard map of one row in the first database.
type testMap struct{ w *world }

func (m testMap) set(ctx context.Context, tx *gorm.DB, set string) error {
	if tx == nil {
		tx = m.w.dbs[0].WithContext(ctx)
	}
	return tx.Exec("UPDATE test_map SET " + set).Error
}

func (m testMap) Close(ctx context.Context) error {
	return m.set(ctx, nil, "closed = 1 WHERE id = 1 AND replaced = 0")
}
func (m testMap) Open(ctx context.Context) error { return m.set(ctx, nil, "closed = 0 WHERE id = 1") }
func (m testMap) Lock(ctx context.Context, tx *gorm.DB) error {
	return m.set(ctx, tx, "closed = closed WHERE id = 1")
}
func (m testMap) Replace(ctx context.Context, tx *gorm.DB) error {
	return m.set(ctx, tx, "replaced = 1 WHERE id = 1")
}

// newWorld makes the tables. If they are there, as for a process that another one has started, it leaves them.
func newWorld(t testing.TB, k kind, dbs []*gorm.DB) *world {
	t.Helper()
	w := &world{TB: t, kind: k, dbs: dbs, rows: map[int64]string{}}
	last := len(dbs) - 1
	for i, c := range k.from {
		w.from = append(w.from, newEntry(dbs, 0, c, fmt.Sprintf("_%02d", c[0]*10+i)))
	}
	for i, c := range k.to {
		w.to = append(w.to, newEntry(dbs, min(i, last)+max(0, last+1-len(k.to)), c, fmt.Sprintf("_%02d_g1", c[0])))
	}
	w.job = &Job{
		Name: "t1", Mask: mask, Map: testMap{w}, Chunk: 100, Databases: dbs,
		Tables: func(e shardmap.Entry) []shardmap.Table { return w.of(e).tables },
		Make:   func(ctx context.Context, e shardmap.Entry) error { return w.of(e).make(ctx) },
	}
	for _, e := range w.from {
		w.job.Old = append(w.job.Old, e.Entry)
	}
	for _, e := range w.to {
		w.job.Fresh = append(w.job.Fresh, e.Entry)
	}
	if dbs[0].Migrator().HasTable("test_map") {
		return w
	}
	must(t, dbs[0].Exec("CREATE TABLE test_map (id integer PRIMARY KEY, closed integer NOT NULL, replaced integer NOT NULL)").Error, "the map")
	must(t, dbs[0].Exec("INSERT INTO test_map VALUES (1, 0, 0)").Error, "the map")
	for _, e := range w.from {
		must(t, e.make(t.Context()), "the old tables")
	}
	return w
}

// opened returns the machine of the job, which has done nothing yet.
func (w *world) opened() *machine {
	w.Helper()
	m, err := w.job.open()
	must(w, err, "the databases")
	return m
}

// open opens fresh databases for a kind.
func open(t testing.TB, target dbtest.Target, k kind) (dsns []string, dbs []*gorm.DB) {
	t.Helper()
	for range k.databases {
		dsn := target.DSN(t)
		dsns = append(dsns, dsn)
		dbs = append(dbs, target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(12)))
	}
	return dsns, dbs
}

// entry is a shard with its tables.
type entry struct {
	shardmap.Entry
	db     *gorm.DB
	tables []shardmap.Table
}

func newEntry(dbs []*gorm.DB, database int, class [2]int, suffix string) entry {
	e := entry{db: dbs[database], tables: []shardmap.Table{
		{Name: "orders" + suffix, Column: "id"}, {Name: "items" + suffix, Column: "id"},
		{Name: "tags" + suffix, Column: "order_id"},
	}}
	e.Class, e.Database = shardmap.Class{Residue: class[0], Modulus: class[1]}, database
	if strings.HasSuffix(suffix, "_g1") {
		e.Generation = 1
	}
	return e
}

// of returns an entry with its tables.
func (w *world) of(e shardmap.Entry) entry {
	for _, other := range slices.Concat(w.from, w.to) {
		if other.Entry == e {
			return other
		}
	}
	panic("another entry")
}

func (e entry) make(ctx context.Context) error {
	check := func(n int, column string) string {
		return fmt.Sprintf("CONSTRAINT %s_%s_shard_%d_of_%d CHECK (%[2]s > 0 AND %[2]s %% %[4]d = %[3]d)", e.tables[n].Name, column,
			e.Residue, e.Modulus)
	}
	bytes := map[string]string{"postgres": "bytea", "mysql": "blob", "sqlite": "blob"}[e.db.Name()]
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS " + e.tables[0].Name + " (id bigint PRIMARY KEY, name varchar(50), email varchar(50) UNIQUE, " +
			"amount decimal(12,3), content " + bytes + ", " + check(0, "id") + ")",
		"CREATE TABLE IF NOT EXISTS " + e.tables[1].Name + " (id bigint PRIMARY KEY, order_id bigint NOT NULL, note varchar(50), " +
			check(1, "id") + ")",
		"CREATE TABLE IF NOT EXISTS " + e.tables[2].Name + " (order_id bigint NOT NULL, tag varchar(20) NOT NULL, " +
			"PRIMARY KEY (order_id, tag), " + check(2, "order_id") + ")",
	} {
		if err := e.db.WithContext(ctx).Exec(statement).Error; err != nil {
			return err
		}
	}
	return nil
}

// isCut reads the map, and waits while it is closed.
func (w *world) isCut(ctx context.Context) (bool, error) {
	for {
		var m struct{ Closed, Replaced int }
		if err := w.dbs[0].WithContext(ctx).Raw("SELECT closed, replaced FROM test_map").Scan(&m).Error; err != nil {
			return false, err
		}
		if m.Closed == 0 {
			return m.Replaced == 1, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// place returns the entry of a key.
func (w *world) place(key int64, cut bool) entry {
	entries := w.from
	if cut {
		entries = w.to
	}
	for _, e := range entries {
		if int(key&mask)%e.Modulus == e.Residue {
			return e
		}
	}
	panic("a key of another shard")
}

// content is what the row with a key has, in all tables.
func content(version int) string { return fmt.Sprintf("v%d", version) }

// writer writes to the rows of some keys, as a program does.
type writer struct {
	*world
	n, version int
	keys       []int64
	next       int64
	cut        bool
	random     *rand.Rand
	done       int
	longest    time.Duration
}

// fill stores rows before the job begins.
func (w *world) fill(n int) {
	w.Helper()
	cut, err := w.isCut(w.Context())
	must(w, err, "the map")
	rows := map[string][]string{}
	at := map[string]*gorm.DB{}
	for i := range n {
		key := int64(i)*2 + 1
		e := w.place(key, cut)
		text := content(0)
		w.rows[key] = text
		for j, values := range []string{
			fmt.Sprintf("(%d, '%s', 'mail%d', 1.5, '%s')", key, text, key, text),
			fmt.Sprintf("(%d, %d, '%s')", key, key, text), fmt.Sprintf("(%d, '%s'), (%d, 'second')", key, text, key),
		} {
			rows[e.tables[j].Name] = append(rows[e.tables[j].Name], values)
			at[e.tables[j].Name] = e.db
		}
	}
	for table, values := range rows {
		for len(values) > 0 {
			some := min(len(values), 2000)
			must(w, at[table].Exec("INSERT INTO "+table+" VALUES "+strings.Join(values[:some], ",")).Error, "filling")
			values = values[some:]
		}
	}
}

// write starts programs that write until they are told to stop. stop returns how many statements were acknowledged, and
// for how long one had to wait at the most.
func (w *world) write(n int) (stop func() (done int, longest time.Duration)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	var all sync.WaitGroup
	var total atomic.Int64
	var longest atomic.Int64
	w.started++ // No key comes twice.
	for i := range n {
		one := &writer{world: w, n: i, next: 1_000_000_000*int64(16*w.started+i) | 1, random: rand.New(rand.NewPCG(uint64(i), 7))}
		w.mu.Lock()
		for key := range w.rows {
			if int(key/2)%n == i {
				one.keys = append(one.keys, key)
			}
		}
		w.mu.Unlock()
		all.Go(func() {
			for ctx.Err() == nil {
				begun := time.Now()
				if err := one.step(); err != nil { //nolint:contextcheck // what has begun is not cut off
					w.Errorf("a writer: %v", err)
					return
				}
				// A busy machine slows the copying as much as the writers. So they rest for as long as they have
				// worked, or those who copy could fall behind for ever. SQLite is not fair to other writers.
				rest := time.Since(begun)
				if w.dbs[0].Name() == dialect.SQLite {
					rest = max(rest, 3*time.Millisecond)
				}
				<-time.After(rest)
			}
			total.Add(int64(one.done))
			for {
				was := longest.Load()
				if was >= int64(one.longest) || longest.CompareAndSwap(was, int64(one.longest)) {
					return
				}
			}
		})
	}
	return func() (int, time.Duration) {
		cancel()
		all.Wait()
		return int(total.Load()), time.Duration(longest.Load())
	}
}

// step does one thing until it is acknowledged.
func (o *writer) step() error {
	o.version++
	text := content(o.version*100 + o.n)
	var key, other int64
	if len(o.keys) > 0 {
		key = o.keys[o.random.IntN(len(o.keys))]
	}
	what := o.random.IntN(10)
	if key == 0 || what < 3 {
		what, key = min(what, 1), o.next
		o.next += 2
	}
	if what == 4 || what == 5 {
		other = o.next
		o.next += 4
		if int(key&mask)%4 != int(other&mask)%4 {
			other += 2 // It has to be in the same table afterwards.
			o.next += 4
		}
	}
	since := time.Now()
	err := o.acknowledged(func(e entry, tx *gorm.DB) error {
		orders, items, tags := e.tables[0].Name, e.tables[1].Name, e.tables[2].Name
		var statements []string
		insert := fmt.Sprintf("INTO %s VALUES (%d, '%s', 'mail%d', 1.5, '%s')", orders, key, text, key, text)
		children := []string{
			fmt.Sprintf("INSERT INTO %s VALUES (%d, %d, '%s')", items, key, key, text),
			fmt.Sprintf("INSERT INTO %s VALUES (%d, '%s'), (%d, 'second')", tags, key, text, key),
		}
		switch what {
		case 0:
			statements = append([]string{"INSERT " + insert}, children...)
		case 1:
			ignore := map[string]string{"mysql": "INSERT IGNORE " + insert}[tx.Name()]
			if ignore == "" {
				ignore = "INSERT " + insert + " ON CONFLICT DO NOTHING"
			}
			statements = append([]string{ignore}, children...)
		case 3:
			for _, table := range []string{orders, items} {
				statements = append(statements, fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, key))
			}
			statements = append(statements, fmt.Sprintf("DELETE FROM %s WHERE order_id = %d", tags, key))
		case 4: // another key
			statements = []string{
				fmt.Sprintf("UPDATE %s SET id = %d, email = 'mail%[2]d' WHERE id = %d", orders, other, key),
				fmt.Sprintf("UPDATE %s SET id = %d, order_id = %[2]d WHERE id = %d", items, other, key),
				fmt.Sprintf("UPDATE %s SET order_id = %d WHERE order_id = %d", tags, other, key),
			}
		case 5: // The unique value goes to another row.
			statements = []string{
				fmt.Sprintf("DELETE FROM %s WHERE id = %d", orders, key),
				fmt.Sprintf("INSERT INTO %s SELECT %d, note, 'mail%d', 1.5, '%s' FROM %s WHERE id = %d",
					orders, other, key, text, items, key),
				fmt.Sprintf("UPDATE %s SET email = 'mail%d' WHERE id = %[2]d", orders, other),
				fmt.Sprintf("UPDATE %s SET id = %d, order_id = %[2]d WHERE id = %d", items, other, key),
				fmt.Sprintf("UPDATE %s SET order_id = %d WHERE order_id = %d", tags, other, key),
			}
		default:
			statements = []string{
				fmt.Sprintf("UPDATE %s SET name = '%s', content = '%[2]s' WHERE id = %[3]d", orders, text, key),
				fmt.Sprintf("UPDATE %s SET note = '%s' WHERE id = %d", items, text, key),
				fmt.Sprintf("UPDATE %s SET tag = '%s' WHERE order_id = %d AND tag <> 'second'", tags, text, key),
			}
		}
		for _, statement := range statements {
			if err := tx.Exec(statement).Error; err != nil {
				return err
			}
		}
		return nil
	}, key)
	if err != nil {
		return err
	}
	o.done++
	o.longest = max(o.longest, time.Since(since))
	o.mu.Lock()
	defer o.mu.Unlock()
	switch what {
	case 3:
		delete(o.rows, key)
	case 4, 5:
		text = o.rows[key]
		delete(o.rows, key)
		o.rows[other] = text
	default:
		o.rows[key] = text
		if what > 1 {
			return nil
		}
		o.keys = append(o.keys, key)
		return nil
	}
	for i := range o.keys {
		if o.keys[i] == key {
			o.keys[i] = o.keys[len(o.keys)-1]
			o.keys = o.keys[:len(o.keys)-1]
			break
		}
	}
	if other != 0 {
		o.keys = append(o.keys, other)
	}
	return nil
}

// acknowledged runs a transaction where the key is, and again where the map says if the table is gone.
func (o *writer) acknowledged(do func(e entry, tx *gorm.DB) error, key int64) error {
	for {
		e := o.place(key, o.cut)
		err := e.db.WithContext(context.Background()).Transaction(func(tx *gorm.DB) error { return do(e, tx) })
		switch {
		case err == nil:
			return nil
		case dialect.Missing(err):
			cut, err := o.isCut(context.Background())
			if err != nil {
				return err
			}
			o.cut = cut
		case dialect.Busy(err):
		default:
			return err
		}
	}
}

// check compares all tables with what was acknowledged.
func (w *world) check(cut bool) {
	w.Helper()
	entries := w.from
	if cut {
		entries = w.to
	}
	seen := map[int64]int{}
	wrong := 0
	report := func(format string, args ...any) {
		if wrong++; wrong < 10 {
			w.Errorf(format, args...)
		}
	}
	for _, e := range entries {
		for i, query := range []string{"SELECT id, name FROM ", "SELECT id, note FROM ", "SELECT order_id, tag FROM "} {
			var rows []struct {
				ID, OrderID     int64
				Name, Note, Tag string
			}
			must(w, e.db.Raw(query+e.tables[i].Name).Scan(&rows).Error, "reading")
			for _, r := range rows {
				if r.Tag == "second" {
					seen[r.OrderID]++
					continue
				}
				key, text := r.ID+r.OrderID, r.Name+r.Note+r.Tag
				seen[key]++
				if int(key&mask)%e.Modulus != e.Residue {
					report("%d is misplaced in %s", key, e.tables[i].Name)
				}
				if w.rows[key] != text {
					report("%d in %s has %q, want %q", key, e.tables[i].Name, text, w.rows[key])
				}
			}
		}
	}
	for key := range w.rows {
		if seen[key] != 4 {
			report("%d is there %d times of 4", key, seen[key])
		}
	}
	if wrong > 0 || len(seen) != len(w.rows) {
		w.Errorf("%d faults; %d keys, want %d", wrong, len(seen), len(w.rows))
	}
}

// tables lists all tables of the databases.
func (w *world) tables() []string {
	w.Helper()
	var all []string
	for _, db := range w.dbs {
		names, err := db.Migrator().GetTables()
		must(w, err, "the tables")
		all = append(all, names...)
	}
	return all
}

// has reports whether a table is there whose name contains a word.
func (w *world) has(word string) bool {
	for _, name := range w.tables() {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
