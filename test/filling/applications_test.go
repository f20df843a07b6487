package filling_test

import (
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/migrate"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestApplications(t *testing.T) { run(t, applicationBehaviors()) }

// applicationBehaviors test what the authors of applications met who put the plugin into them.
func applicationBehaviors() []behavior {
	return []behavior{
		{
			Name: "keys that JSON writes as numbers are warned of once a model, with both remedies",
			Run:  roundedKeysAreWarnedOf,
		},
		{
			Name: "a hook that replaces a made ID is named at the first create",
			Run:  hooksThatReplaceAreNamed,
		},
		{
			Name: "AutoMigrate names a key that the database still counts, once a model", Everywhere: true,
			Run: countingKeysAreNamed,
		},
		{
			Name: "models without a tag are filled if they are named, and checked like others",
			Run:  namedModelsAreFilled,
		},
		{
			Name: "db.Use in a transaction is an error at once",
			Run:  useInTransactionIsRefused,
		},
		{
			Name: "without a logger nothing is said of what nobody has to know",
			Run:  quietByDefault,
		},
		{
			Name: "a lease ends with the pool of its database",
			Run:  leaseEndsWithItsPool,
		},
		{
			Name: "one plugin leases anew from the next database when the first was closed",
			Run:  leaseMovesToTheNextDatabase,
		},
		{
			Name: "a database that the lease has left says what to do", Only: []string{"sqlite"},
			Run: leaseThatLeftSaysWhatToDo,
		},
	}
}

// gormLines is a logger of GORM that keeps warnings and errors, but no statements.
type gormLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *gormLines) LogMode(logger.LogLevel) logger.Interface { return l }

func (l *gormLines) add(level, text string, args []any) {
	if strings.Contains(text, "TiDB stores the rows") { // which only TiDB's own tests look at
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, level+" "+fmt.Sprintf(text, args...))
}

// Info drops what GORM says of callbacks that are replaced, which its usual level drops as well.
func (*gormLines) Info(context.Context, string, ...any) {}

func (l *gormLines) Warn(_ context.Context, text string, args ...any)  { l.add("WARN", text, args) }
func (l *gormLines) Error(_ context.Context, text string, args ...any) { l.add("ERROR", text, args) }

func (*gormLines) Trace(context.Context, time.Time, func() (string, int64), error) {}

// taken returns the lines since it was last called, without what TiDB is told of every table.
func (l *gormLines) taken() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines, l.lines = l.lines, nil
	return slices.DeleteFunc(lines, func(line string) bool {
		return strings.Contains(line, "TiDB stores the rows of this table")
	})
}

// want fails unless there is one line since the last call, with all of the phrases.
func (l *gormLines) want(t *testing.T, phrases ...string) {
	t.Helper()
	lines := l.taken()
	if len(lines) != 1 {
		t.Fatalf("%d lines, want 1: %q", len(lines), lines)
	}
	for _, phrase := range phrases {
		if !strings.Contains(lines[0], phrase) {
			t.Errorf("the line %q does not say %q", lines[0], phrase)
		}
	}
}

func (l *gormLines) wantNone(t *testing.T) {
	t.Helper()
	if lines := l.taken(); len(lines) > 0 {
		t.Errorf("logged: %q", lines)
	}
}

type uintKeyed struct {
	ID   uint `gorm:"primaryKey" json:"id" snowflake:"true"`
	Name string
}

type pointerKeyed struct {
	ID   *int64 `gorm:"primaryKey" snowflake:"true"`
	Name string
}

type quotedKeyed struct {
	ID   int64 `gorm:"primaryKey" json:"id,string" snowflake:"true"`
	Name string
}

type hiddenKeyed struct {
	ID   uint64 `gorm:"primaryKey" json:"-" snowflake:"true"`
	Name string
}

type textKeyed struct {
	ID   string `gorm:"primaryKey;size:20" snowflake:"true"`
	Name string
}

func roundedKeysAreWarnedOf(t *testing.T, target dbtest.Target) {
	lines := &gormLines{}
	db := target.Open(t, &gorm.Config{Logger: lines})
	prepared := func(plugin *snowflakeplugin.Plugin, models ...any) {
		t.Helper()
		must(t, plugin.Prepare(db, models...), "Prepare")
	}
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	use(t, db, plugin)
	prepared(plugin, &account{}, &quotedKeyed{}, &hiddenKeyed{}, &textKeyed{})
	lines.wantNone(t)
	prepared(plugin, &pointerKeyed{})
	lines.want(t, "pointerKeyed.ID")
	must(t, db.AutoMigrate(&uintKeyed{}), "AutoMigrate")
	lines.taken() // the migration may have planned the model, or not
	fresh := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	prepared(fresh, &uintKeyed{})
	lines.want(t, "WARN", "uintKeyed.ID", "uint", "snowflakeplugin.ID", "generator.JavaScript()", "WithJSONNumbers()")
	prepared(fresh, &uintKeyed{})
	prepared(fresh, &uintKeyed{}, &account{})
	must(t, fresh.Prepare(db.Table("others"), &uintKeyed{}), "Prepare")
	lines.wantNone(t)
	other := target.Open(t, &gorm.Config{Logger: lines})
	must(t, other.AutoMigrate(&uintKeyed{}), "AutoMigrate")
	must(t, other.Use(snowflakeplugin.New(snowflakeplugin.WithNode(2))), "Use")
	must(t, other.Create(&uintKeyed{Name: "first"}).Error, "create without Prepare")
	must(t, other.Create(&uintKeyed{Name: "second"}).Error, "create without Prepare")
	lines.want(t, "uintKeyed.ID")
	prepared(snowflakeplugin.New(snowflakeplugin.WithJSONNumbers()), &uintKeyed{})
	prepared(snowflakeplugin.New(snowflakeplugin.WithLayout(generator.JavaScript())), &uintKeyed{})
	prepared(snowflakeplugin.New(snowflakeplugin.WithSource(newLedger(t))), &uintKeyed{})
	lines.wantNone(t)
}

// hookKeyed has a hook of the time before the plugin.
type hookKeyed struct {
	ID   int64 `gorm:"primaryKey" json:"id,string" snowflake:"true"`
	Name string
}

func (h *hookKeyed) BeforeCreate(*gorm.DB) error {
	switch h.Name {
	case "replaced":
		h.ID = time.Now().UnixNano()
	case "emptied":
		h.ID = 0
	}
	return nil
}

func hooksThatReplaceAreNamed(t *testing.T, target dbtest.Target) {
	lines := &gormLines{}
	db := target.Open(t, &gorm.Config{Logger: lines})
	use(t, db, snowflakeplugin.New(snowflakeplugin.WithNode(1)), &hookKeyed{})
	must(t, db.Create(&hookKeyed{Name: "as it is"}).Error, "create")
	must(t, db.Create(&hookKeyed{ID: 4711, Name: "given"}).Error, "create")
	must(t, db.Create(&hookKeyed{Name: "emptied"}).Error, "create")
	must(t, db.Create(&[]hookKeyed{{Name: "a"}, {Name: "emptied"}, {ID: 4712}}).Error, "create")
	lines.wantNone(t)
	must(t, db.Create(&[]hookKeyed{{Name: "b"}, {ID: 4713}, {Name: "replaced"}}).Error, "create")
	lines.want(t, "WARN", "hookKeyed.ID", "BeforeCreate", "Delete the hook")
	must(t, db.Create(&hookKeyed{Name: "replaced"}).Error, "create")
	lines.wantNone(t)
}

func countingKeysAreNamed(t *testing.T, target dbtest.Target) {
	lines := &gormLines{}
	dsn := target.DSN(t)
	opened := func(opts ...snowflakeplugin.Option) *gorm.DB {
		db := target.OpenDSN(t, dsn, &gorm.Config{Logger: lines})
		must(t, db.Use(snowflakeplugin.New(append(opts, snowflakeplugin.WithNode(1))...)), "Use")
		return db
	}
	must(t, target.OpenDSN(t, dsn, nil).AutoMigrate(&quotedKeyed{}, &account{}), "AutoMigrate of the old program")
	db := opened()
	must(t, db.AutoMigrate(&quotedKeyed{}, &account{}, &textKeyed{}), "AutoMigrate")
	lines.want(t, "WARN", "quoted_keyeds", "column: id", "snowflake migrate")
	must(t, db.AutoMigrate(&quotedKeyed{}), "AutoMigrate")
	must(t, opened(snowflakeplugin.WithoutDialector()).AutoMigrate(&quotedKeyed{}), "AutoMigrate without the dialector")
	lines.wantNone(t)

	plan, err := migrate.Read(t.Context(), db, &quotedKeyed{})
	must(t, err, "Read")
	must(t, db.Connection(func(tx *gorm.DB) error {
		plainExec(t, tx, plan.Forward...)
		return nil
	}), "the switch-over")
	must(t, opened().AutoMigrate(&quotedKeyed{}), "AutoMigrate after the switch-over")
	lines.wantNone(t)
	for _, ddl := range map[string][]string{
		"postgres": {
			"CREATE SEQUENCE counter", "ALTER TABLE quoted_keyeds ALTER COLUMN id SET DEFAULT nextval('counter')",
		},
		"sqlite": {
			"DROP TABLE quoted_keyeds", "CREATE TABLE quoted_keyeds (id integer PRIMARY KEY, name text)",
		},
		"mysql": {"ALTER TABLE quoted_keyeds MODIFY id bigint unsigned AUTO_INCREMENT"},
	}[target.Dialect] {
		plainExec(t, db, ddl)
	}
	must(t, opened().AutoMigrate(&quotedKeyed{}), "AutoMigrate of a table that was made by hand")
	lines.want(t, "quoted_keyeds")
	if target.Dialect == "sqlite" {
		plainExec(t, db, "DROP TABLE quoted_keyeds",
			"CREATE TABLE quoted_keyeds (id integer PRIMARY KEY, name text) WITHOUT ROWID")
		must(t, opened().AutoMigrate(&quotedKeyed{}), "AutoMigrate of a table without a rowid")
		lines.wantNone(t)
	}
}

// The models of an application that nobody wants to change, and those of a library that nobody can.
type (
	modelKeyed struct {
		gorm.Model
		Name string
		Tags []modelTag
	}
	modelTag struct {
		gorm.Model
		ModelKeyedID uint
		Name         string
	}
	libraryKeyed struct {
		ID   int64 `gorm:"primaryKey" json:"id,string"`
		Name string
	}
	untouched struct {
		ID   uint `gorm:"primaryKey"`
		Name string
	}
	excepted struct {
		ID   uint `gorm:"primaryKey" snowflake:"false"`
		Name string
	}
	pairKeyed struct {
		One, Two int64 `gorm:"primaryKey"`
	}
	smallKeyed struct {
		ID int32 `gorm:"primaryKey"`
	}
)

func namedModelsAreFilled(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1), silent(), snowflakeplugin.WithModels(gorm.Model{}),
		snowflakeplugin.WithModels(&libraryKeyed{}, excepted{}, pairKeyed{}, smallKeyed{}))
	use(t, db, plugin, models(&modelKeyed{}, &modelTag{}, &libraryKeyed{}, &untouched{}, &excepted{})...)

	row := modelKeyed{Name: "a", Tags: []modelTag{{Name: "x"}, {Name: "y"}}}
	must(t, db.Create(&row).Error, "create")
	same(t, "the node of a key of gorm.Model", nodeOf(t, snowflakeplugin.ID(row.ID)), 1)
	for _, tag := range row.Tags {
		same(t, "the node of a key of an association", nodeOf(t, snowflakeplugin.ID(tag.ID)), 1)
		same(t, "the foreign key", stored[modelTag](t, db, tag.ID).ModelKeyedID, row.ID)
	}
	known := libraryKeyed{Name: "a"}
	must(t, db.Create(&known).Error, "create")
	same(t, "the node of a named model", nodeOf(t, snowflakeplugin.ID(known.ID)), 1)
	must(t, db.Model(&libraryKeyed{}).Create(map[string]any{"name": "map"}).Error, "create from a map")
	same(t, "rows of the named model", len(allStored[libraryKeyed](t, db)), 2)
	for i := range 2 {
		plain, left := untouched{Name: "a"}, excepted{Name: "a"}
		must(t, db.Create(&plain).Error, "create")
		must(t, db.Create(&left).Error, "create")
		same(t, "the key of a model that nobody named", plain.ID, uint(i+1))
		same(t, "the key of a model with the tag false", left.ID, uint(i+1))
	}
	wantErr(t, plugin.Prepare(db, &pairKeyed{}), snowflakeplugin.ErrInvalidField, "2 fields")
	wantErr(t, plugin.Prepare(db, &smallKeyed{}), snowflakeplugin.ErrInvalidField, "smallKeyed.ID: type int32")
	for _, wrong := range []any{nil, 7, []account{}} {
		err := target.Open(t, nil).Use(snowflakeplugin.New(snowflakeplugin.WithModels(wrong)))
		wantErr(t, err, snowflakeplugin.ErrOptions, "a model is a struct")
	}
}

func useInTransactionIsRefused(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	must(t, db.AutoMigrate(&plainNote{}, &account{}), "AutoMigrate")
	plugin := snowflakeplugin.New(silent())
	err := db.Transaction(func(tx *gorm.DB) error {
		must(t, tx.Create(&plainNote{}).Error, "create")
		began := time.Now()
		err := tx.Use(plugin)
		wantErr(t, err, snowflakeplugin.ErrOptions, "call it on the *gorm.DB of gorm.Open")
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		return nil
	})
	must(t, err, "Transaction")
	wantErr(t, db.Create(&account{Email: "a"}).Error, snowflakeplugin.ErrNotInUse, "on a transaction")
	must(t, db.Use(plugin), "Use")
	must(t, db.Create(&account{Email: "a"}).Error, "create")
	must(t, plugin.Close(t.Context()), "Close")
}

func quietByDefault(t *testing.T, target dbtest.Target) {
	lines := &gormLines{}
	db := target.Open(t, &gorm.Config{Logger: lines})
	plugin := snowflakeplugin.New()
	use(t, db, plugin, &account{})
	must(t, db.Create(&account{Email: "a"}).Error, "create")
	must(t, plugin.Close(t.Context()), "Close")
	lines.wantNone(t)
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

func closePool(t *testing.T, db *gorm.DB) {
	t.Helper()
	pool, err := db.DB()
	must(t, err, "the pool")
	must(t, pool.Close(), "closing the pool")
}

func leaseEndsWithItsPool(t *testing.T, target dbtest.Target) {
	lines := &gormLines{}
	dsn := target.DSN(t)
	db := target.OpenDSN(t, dsn, &gorm.Config{Logger: lines})
	plugin := snowflakeplugin.New()
	use(t, db, plugin, &account{})
	must(t, db.Create(&account{Email: "a"}).Error, "create")
	closePool(t, db)
	eventually(t, "the end of the lease", func() bool { return plugin.Health(t.Context()).State == "closed" })
	other := target.OpenDSN(t, dsn, nil)
	eventually(t, "the number is given back", func() bool {
		rows := nodeRows(t, other)
		return len(rows) == 1 && rows[0].Owner == ""
	})
	_, err := plugin.NextID(t.Context())
	wantErr(t, err, snowflakeplugin.ErrClosed, "lease elsewhere (WithLease)")
	must(t, plugin.Close(t.Context()), "Close")
	lines.wantNone(t)
}

func leaseMovesToTheNextDatabase(t *testing.T, target dbtest.Target) {
	lines := &gormLines{}
	plugin := snowflakeplugin.New()
	var last snowflakeplugin.ID
	for range 3 {
		db := target.Open(t, &gorm.Config{Logger: lines})
		use(t, db, plugin, &account{})
		a := account{Email: "a"}
		must(t, db.Create(&a).Error, "create")
		accountStored(t, db, a)
		if a.ID <= last {
			t.Errorf("%d came after %d", a.ID, last)
		}
		id, err := plugin.NextID(t.Context())
		must(t, err, "NextID")
		last = id
		same(t, "the rows of the leases", len(nodeRows(t, db)), 1)
		closePool(t, db)
	}
	must(t, plugin.Close(t.Context()), "Close")
	lines.wantNone(t)
}

// A database in memory lies in the pool that its leases share.
func leaseThatLeftSaysWhatToDo(t *testing.T, target dbtest.Target) {
	lines := &gormLines{}
	opened := func() *gorm.DB {
		return target.OpenDSN(t, ":memory:", &gorm.Config{Logger: lines}, dbtest.MaxOpenConns(1))
	}
	plugin := snowflakeplugin.New()
	first, stays := opened(), opened()
	use(t, first, plugin, &account{})
	use(t, stays, plugin, &account{})
	must(t, stays.Create(&account{Email: "a"}).Error, "create")
	closePool(t, first)
	eventually(t, "the end of the lease", func() bool { return plugin.Health(t.Context()).State == "closed" })
	wantErr(t, stays.Create(&account{Email: "b"}).Error, snowflakeplugin.ErrClosed, "keep that database open")

	next := opened()
	use(t, next, plugin, &account{})
	must(t, next.Create(&account{Email: "c"}).Error, "create")
	same(t, "the state", plugin.Health(t.Context()).State, "leased")
	must(t, plugin.Close(t.Context()), "Close")
	lines.wantNone(t)
}

// The statistics of PostgreSQL count a statement that fails as a transaction that was rolled back.
func TestTheFirstStartHasNoStatementThatFails(t *testing.T) {
	nightly.Only(t, "the statistics of the server are a second late")
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		for name, opts := range map[string][]snowflakeplugin.Option{
			"leased":  {silent(), snowflakeplugin.WithLease(nil, lease.WithSpan(time.Minute))},
			"by hand": {silent(), snowflakeplugin.WithNode(1)},
		} {
			db := target.Open(t, nil)
			plugin := snowflakeplugin.New(opts...)
			use(t, db, plugin, &account{})
			must(t, db.Create(&account{Email: "a"}).Error, "create")
			must(t, plugin.Close(t.Context()), "Close")
			time.Sleep(2 * time.Second)
			same(t, "statements that have failed, "+name, plainOne[int64](t, db,
				"SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"), 0)
		}
	})
}

// The driver of MySQL has a goroutine for each connection. PostgreSQL drops no database that has one.
func TestAPoolThatIsClosedWithoutClosingThePluginLeavesNothing(t *testing.T) {
	t.Parallel()
	servers := slices.DeleteFunc(dbtest.Servers(), func(target dbtest.Target) bool { return target.Dialect == "sqlite" })
	dbtest.Run(t, servers, func(t *testing.T, target dbtest.Target) {
		dsn, admin := target.DSN(t), target.Open(t, nil)
		var name string
		pprof.Do(t.Context(), pprof.Labels("pool", t.Name()), func(context.Context) {
			db := target.OpenDSN(t, dsn, nil) //nolint:contextcheck // it takes the context of the test
			name = db.Migrator().CurrentDatabase()
			use(t, db, snowflakeplugin.New(silent()), &account{})
			must(t, db.Create(&account{Email: "a"}).Error, "create")
			if n := labeled(t); n == 0 {
				t.Error("the lease has no goroutine")
			}
			closePool(t, db)
		})
		eventually(t, "the end of all goroutines", func() bool { return labeled(t) == 0 })
		must(t, admin.Exec("DROP DATABASE "+name).Error, "DROP DATABASE")
	})
}

// labeled counts the goroutines that were started with the label of the test.
func labeled(t *testing.T) int {
	t.Helper()
	var profile strings.Builder
	must(t, pprof.Lookup("goroutine").WriteTo(&profile, 1), "the profile of goroutines")
	return strings.Count(profile.String(), fmt.Sprintf("%q", t.Name()))
}
