package filling_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestNotesOfNumbers(t *testing.T) {
	run(t, []behavior{
		{Name: "a second store of counters fills no column of the first", Everywhere: true, Run: secondStoreIsRefused},
		{Name: "a second counter of the store fills no unique column", Everywhere: true, Run: secondCounterIsRefused},
		{Name: "stores with remainders of their own share a column", Everywhere: true, Run: remaindersShareAColumn},
		{Name: "two processes that begin at once have one store", Everywhere: true, Run: oneStoreOfTwo},
		{Name: "a column of an emptied store is refused", Everywhere: true, Run: emptiedCountersAreRefused},
		{Name: "a note of numbers outlives the transaction of the application", Everywhere: true, Run: noteOfNumbersOutlives},
		{Name: "a column of a read-only database is noted before its first number", Everywhere: true, Run: numbersOfReadOnly},
		{Name: "numbers are noted in the schema of their rows", Everywhere: true, Run: numbersInAThirdSchema},
		{Name: "a source of the application is noted as one that nobody knows", Run: externalNumbers},
		{Name: "after a failover one create is refused before all know it", Everywhere: true, Run: counterGoesBack},
		{Name: "what is noted is not asked for again", Everywhere: true, Run: notedNumbersAreRemembered},
		{Name: "models without numbers note none", Run: noNumbersNoNote},
		{Name: "in memory nothing is noted", Only: []string{"sqlite"}, Run: numbersInMemory},
	})
}

// A crate has a number that every process takes from a counter.
type crate struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Serial int64              `gorm:"uniqueIndex" snowflake:"from:serial"`
}

// processes counts the handles of counted. Two that create a row in one millisecond would give it the same key
// if they had the same node number.
var processes atomic.Int64

// counted is a handle whose plugin takes serials from a source, in a process of its own.
func counted(t *testing.T, db *gorm.DB, source snowflakeplugin.Source) *gorm.DB {
	t.Helper()
	plugin := snowflakeplugin.New(silent(), snowflakeplugin.WithNode(processes.Add(1)%1024),
		snowflakeplugin.WithNumbers("serial", source))
	must(t, db.Use(closedAfter(t, plugin)), "Use")
	return db
}

// serials is a source of a counter in a store.
func serials(t *testing.T, store segment.Store, opts ...segment.Option) *segment.Source {
	t.Helper()
	source, err := segment.New(store, "crates", opts...)
	must(t, err, "a source")
	t.Cleanup(func() { must(t, source.Close(), "close the source") })
	return source
}

// storeIn opens a store of counters in a database.
func storeIn(t *testing.T, db *gorm.DB) *gormsegment.Store {
	t.Helper()
	store, err := gormsegment.New(db)
	must(t, err, "a store of counters")
	t.Cleanup(func() { must(t, store.Close(), "close the store") })
	return store
}

// crates makes a database with the table of crates, and says how processes open it.
func crates(t *testing.T, target dbtest.Target) (open func() *gorm.DB) {
	t.Helper()
	dsn := target.DSN(t)
	open = func() *gorm.DB { t.Helper(); return target.OpenDSN(t, dsn, nil) }
	must(t, open().AutoMigrate(&crate{}), "AutoMigrate")
	return open
}

// move runs the statement at the end of an error.
func move(t *testing.T, db *gorm.DB, err error) {
	t.Helper()
	_, statement, found := strings.Cut(err.Error(), "\n\n")
	if !found {
		t.Fatalf("the error has no statement: %v", err)
	}
	must(t, db.Exec(strings.TrimSuffix(statement, ";")).Error, "move the column")
}

func secondStoreIsRefused(t *testing.T, target dbtest.Target) {
	open := crates(t, target)
	first := counted(t, open(), serials(t, storeIn(t, open())))
	elsewhere := storeIn(t, target.Open(t, nil))
	second := counted(t, open(), serials(t, elsewhere))
	must(t, first.Create(&[]crate{{}, {}}).Error, "create of the first process")

	p := crate{}
	err := second.Create(&p).Error
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create of the second process")
	note := noted(t, first)["numbers crates.serial"]
	identity, ierr := elsewhere.Identity(t.Context())
	must(t, ierr, "the identity of the second store")
	says(t, err, "crates", "serial", note.Authority, identity.ID, "snowflake_segments", "SetResidues")
	same(t, "the row that was refused", p, crate{})
	same(t, "the rows", plainOne[int64](t, first, "SELECT count(*) FROM crates"), 2)
	must(t, first.Create(&crate{}).Error, "create of the first process")

	must(t, segment.Raise(t.Context(), elsewhere, "crates", 5000), "raise the counter")
	move(t, first, err)
	must(t, second.Create(&p).Error, "create after the column has moved")
	same(t, "the number", p.Serial, 5000)
	third := counted(t, open(), serials(t, storeIn(t, open())))
	wantErr(t, third.Create(&crate{}).Error, snowflakeplugin.ErrAuthority, "create from the store that it has left")
}

// A keyedCrate has a number in place of an ID.
type keyedCrate struct {
	Serial int64 `gorm:"primaryKey" snowflake:"from:serial"`
}

// A tenantCrate has a number that is unique for each tenant.
type tenantCrate struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Tenant int64              `gorm:"uniqueIndex:idx_serial_of_tenant"`
	Serial int64              `gorm:"uniqueIndex:idx_serial_of_tenant" snowflake:"from:serial"`
}

func secondCounterIsRefused(t *testing.T, target dbtest.Target) {
	open := crates(t, target)
	must(t, open().AutoMigrate(&tenantCrate{}, &keyedCrate{}), "AutoMigrate")
	of := func(counter string) *gorm.DB {
		t.Helper()
		source, err := segment.New(storeIn(t, open()), counter)
		must(t, err, "a source")
		t.Cleanup(func() { must(t, source.Close(), "close the source") })
		return counted(t, open(), source)
	}
	first, second := of("crates"), of(`a "second" one`)
	must(t, first.Create(&tenantCrate{Tenant: 1}).Error, "create of one tenant")
	must(t, second.Create(&tenantCrate{Tenant: 2}).Error, "create of another, whose number is the same")
	refused := func(table string, row func() any) {
		t.Helper()
		must(t, first.Create(row()).Error, "create from one counter in "+table)
		err := second.Create(row()).Error
		wantErr(t, err, snowflakeplugin.ErrAuthority, "create from the other in "+table)
		says(t, err, "rate.Serial", table, `counter "crates"`, `counter "a \"second\" one"`, `source "serial"`, "tenant")
		same(t, "the rows of "+table, plainOne[int64](t, first, "SELECT count(*) FROM "+table), 1)
		must(t, first.Create(row()).Error, "another create from the first counter in "+table)
		must(t, segment.Raise(t.Context(), storeIn(t, open()), `a "second" one`, 5000), "raise the counter")
		move(t, first, err)
		second = of(`a "second" one`)
		must(t, second.Create(row()).Error, "create after the column has moved")
		wantErr(t, of("crates").Create(row()).Error, snowflakeplugin.ErrAuthority, "create from the counter that it has left")
	}
	refused("crates", func() any { return &crate{} })
	refused("keyed_crates", func() any { return &keyedCrate{} })
}

func remaindersShareAColumn(t *testing.T, target dbtest.Target) {
	open := crates(t, target)
	fresh := func(opts ...segment.Option) *gorm.DB {
		t.Helper()
		return counted(t, open(), serials(t, storeIn(t, target.Open(t, nil)), opts...))
	}
	a, b := fresh(segment.WithResidue(0, 2)), fresh(segment.WithResidue(1, 2))
	for range 2 {
		must(t, a.Create(&[]crate{{}, {}}).Error, "create of one store")
		must(t, b.Create(&[]crate{{}, {}}).Error, "create of the other")
	}
	for what, other := range map[string]*gorm.DB{
		"without a remainder": fresh(), "with the same remainder": fresh(segment.WithResidue(1, 2)),
		"with another modulus": fresh(segment.WithResidue(1, 3)),
	} {
		err := other.Create(&crate{}).Error
		wantErr(t, err, snowflakeplugin.ErrAuthority, "create of a store "+what)
		says(t, err, "serial", "crates", "mod ")
	}
	same(t, "the rows", plainOne[int64](t, a, "SELECT count(*) FROM crates"), 8)

	// A source of several stores is noted for each of its remainders.
	open = crates(t, target)
	stores := []*gormsegment.Store{storeIn(t, target.Open(t, nil)), storeIn(t, target.Open(t, nil))}
	tickets, err := segment.Tickets(serials(t, stores[0], segment.WithResidue(0, 2)),
		serials(t, stores[1], segment.WithResidue(1, 2)))
	must(t, err, "tickets")
	db := counted(t, open(), tickets)
	must(t, db.Create(&crate{}).Error, "create of the tickets")
	same(t, "the notes", len(noted(t, db)), 4)
	// After the way from two ticket servers to three the column is told so.
	third := storeIn(t, target.Open(t, nil))
	must(t, segment.SetResidues(t.Context(), "crates", stores[0], stores[1], third), "SetResidues")
	three := counted(t, open(), serials(t, third, segment.WithResidue(2, 3)))
	err = three.Create(&crate{}).Error
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create with the new residue")
	move(t, db, err)
	must(t, three.Create(&crate{}).Error, "create after the column was told")
}

func oneStoreOfTwo(t *testing.T, target dbtest.Target) {
	for range 5 {
		open := crates(t, target)
		var processes []*gorm.DB
		for range 4 {
			processes = append(processes, counted(t, open(), serials(t, storeIn(t, target.Open(t, nil)))))
		}
		errs := make([]error, len(processes))
		var group sync.WaitGroup
		for i, db := range processes {
			group.Go(func() { errs[i] = db.Create(&crate{}).Error })
		}
		group.Wait()
		created := 0
		for _, err := range errs {
			if err == nil {
				created++
			} else if !errors.Is(err, snowflakeplugin.ErrAuthority) {
				t.Errorf("the error is %v", err)
			}
		}
		same(t, "the processes that created a row", created, 1)
	}
}

func emptiedCountersAreRefused(t *testing.T, target dbtest.Target) {
	open := crates(t, target)
	dsn := target.DSN(t)
	counters := func() *gorm.DB { t.Helper(); return target.OpenDSN(t, dsn, nil) }
	must(t, counted(t, open(), serials(t, storeIn(t, counters()))).Create(&crate{}).Error, "create")
	must(t, counters().Exec("DROP TABLE snowflake_segments").Error, "drop the counters")
	if _, err := gormsegment.New(counters()); !errors.Is(err, segment.ErrWentBack) {
		t.Errorf("the store is made anew: %v", err)
	}
	// Somebody has removed the note of the counters as well.
	must(t, counters().Exec("DROP TABLE snowflake_authority").Error, "drop the note")
	err := counted(t, open(), serials(t, storeIn(t, counters()))).Create(&crate{}).Error
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create from counters that begin again")
	says(t, err, "emptied or replaced")
}

func noteOfNumbersOutlives(t *testing.T, target dbtest.Target) {
	open := crates(t, target)
	db := counted(t, open(), serials(t, storeIn(t, target.Open(t, nil))))
	isNoted := func() bool {
		t.Helper()
		return noted(t, open())["numbers crates.serial"].Authority != ""
	}
	failed := errors.New("rolled back")
	create := func(end error) error {
		return db.Transaction(func(tx *gorm.DB) error {
			must(t, tx.Create(&crate{}).Error, "create in a transaction")
			must(t, tx.Create(&crate{}).Error, "create once more")
			return end
		})
	}
	wantErr(t, create(failed), failed, "the transaction")
	if target.Dialect == "sqlite" { // which has one writer: the note is there together with the rows
		same(t, "the note after a transaction that was rolled back", isNoted(), false)
		must(t, create(nil), "a transaction that is committed")
	}
	same(t, "the note", isNoted(), true)
	other := counted(t, open(), serials(t, storeIn(t, target.Open(t, nil))))
	err := other.Transaction(func(tx *gorm.DB) error { return tx.Create(&crate{}).Error })
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create of a second store in a transaction")
}

func numbersOfReadOnly(t *testing.T, target dbtest.Target) {
	f := freeze(t, target, &crate{})
	db := counted(t, f.db, serials(t, segmenttest.NewMemory()))
	p := crate{}
	err := db.Create(&p).Error
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create while it is read-only")
	says(t, err, "read-only")
	f.thaw()
	must(t, db.Create(&p).Error, "create")
	if noted(t, f.admin)["numbers crates.serial"].Authority == "" {
		t.Error("nothing is noted")
	}
}

func numbersInAThirdSchema(t *testing.T, target dbtest.Target) {
	s := share(t, target)
	must(t, s.admin.Exec("CREATE TABLE "+s.schema+".crates (id bigint NOT NULL PRIMARY KEY, serial bigint)").Error,
		"the table of crates")
	table := s.schema + ".crates"
	first, second := counted(t, s.open(t), serials(t, segmenttest.NewMemory())), s.open(t)
	counted(t, second, serials(t, storeIn(t, target.Open(t, nil))))
	must(t, first.Table(table).Create(&crate{}).Error, "create of the first program")
	wantErr(t, second.Table(table).Create(&crate{}).Error, snowflakeplugin.ErrAuthority, "create of the second")
	var subjects []string
	must(t, s.admin.Table(s.schema+".snowflake_authority").Order("subject").Pluck("subject", &subjects).Error, "the notes")
	same(t, "the notes of the schema", strings.Join(subjects, ", "), "numbers crates.serial, rows")
}

func externalNumbers(t *testing.T, target dbtest.Target) {
	open := crates(t, target)
	must(t, counted(t, open(), &series{next: 1}).Create(&crate{}).Error, "create of a source of the application")
	must(t, counted(t, open(), &series{next: 100}).Create(&crate{}).Error, "create of another one")
	err := counted(t, open(), serials(t, storeIn(t, open()))).Create(&crate{}).Error
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create of counters")
	says(t, err, "external, not identified", "series")
	move(t, open(), err)
	daily, err := segment.Daily(storeIn(t, target.Open(t, nil)), "crates", 6, time.UTC)
	must(t, err, "a daily source")
	defer daily.Close()
	db := counted(t, open(), daily)
	must(t, db.Create(&crate{}).Error, "create of a daily counter")
	must(t, db.CreateInBatches(make([]crate, 5), 2).Error, "create in batches")
	same(t, "the notes", len(noted(t, open())), 3) // rows, counters and numbers
}

func notedNumbersAreRemembered(t *testing.T, target dbtest.Target) {
	open := crates(t, target)
	db := counted(t, open(), serials(t, storeIn(t, target.Open(t, nil))))
	must(t, db.Create(&crate{}).Error, "create")
	must(t, open().Exec("DROP TABLE snowflake_authority").Error, "drop the notes")
	must(t, db.Create(&crate{}).Error, "create once more")
	must(t, db.Transaction(func(tx *gorm.DB) error { return tx.Create(&crate{}).Error }), "create in a transaction")
	if db.Migrator().HasTable("snowflake_authority") {
		t.Error("the notes were written again")
	}
}

func noNumbersNoNote(t *testing.T, target dbtest.Target) {
	open := crates(t, target)
	db := counted(t, open(), serials(t, storeIn(t, open())))
	must(t, db.AutoMigrate(&account{}), "AutoMigrate")
	must(t, db.Create(&account{Email: "ann@example.com"}).Error, "create a row without numbers")
	same(t, "the notes", len(noted(t, db)), 1)
}

func numbersInMemory(t *testing.T, target dbtest.Target) {
	db := target.OpenDSN(t, ":memory:", nil, dbtest.MaxOpenConns(1))
	must(t, db.AutoMigrate(&crate{}), "AutoMigrate")
	counted(t, db, serials(t, segmenttest.NewMemory()))
	must(t, db.Transaction(func(tx *gorm.DB) error { return tx.Create(&crate{}).Error }), "create in a transaction")
	if db.Migrator().HasTable("snowflake_authority") {
		t.Error("something is noted")
	}
}

// counterGoesBack lets a counter forget its last claims, as a failover to a server that lags behind does it.
func counterGoesBack(t *testing.T, target dbtest.Target) {
	open, dsn := crates(t, target), target.DSN(t)
	counters := target.OpenDSN(t, dsn, nil)
	ours := serials(t, storeIn(t, counters), segment.WithBlock(100, 100))
	running := counted(t, open(), ours)
	must(t, running.Create(make([]crate, 10)).Error, "create of the process that runs")
	for range 500 {
		if ours.Stats().Left == 190 {
			break // its second block is there
		}
		time.Sleep(10 * time.Millisecond)
	}
	must(t, counters.Exec("UPDATE snowflake_segments SET next = 11 WHERE name = 'crates'").Error, "go back")
	other := counted(t, open(), serials(t, storeIn(t, target.OpenDSN(t, dsn, nil)), segment.WithBlock(20, 20)))
	must(t, other.Create(make([]crate, 20)).Error, "create of a process that begins then")

	err := running.Create(&crate{}).Error
	if err == nil || errors.Is(err, segment.ErrWentBack) {
		t.Fatalf("the error of the create that is refused is %v", err)
	}
	says(t, err, "crate.Serial", `counter "crates"`, "11")
	for range 3 {
		wantErr(t, running.Create(&crate{}).Error, segment.ErrWentBack, "create after that")
	}
	// It takes what it has, and then nobody gets a number, whenever he began.
	for range 500 {
		if err = other.Create(&crate{}).Error; err != nil {
			break
		}
	}
	wantErr(t, err, segment.ErrWentBack, "create of the other process")
	says(t, err, "segments raise")
	later := counted(t, open(), serials(t, storeIn(t, target.OpenDSN(t, dsn, nil))))
	wantErr(t, later.Create(&crate{}).Error, segment.ErrWentBack, "create of a process that begins after that")
	must(t, segment.Raise(t.Context(), storeIn(t, counters), "crates", 5000), "raise the counter")
	c := crate{}
	must(t, running.Create(&c).Error, "create after the counter was raised")
	if c.Serial < 5000 {
		t.Errorf("the number is %d", c.Serial)
	}
}

func TestTwoKindsOnOneCounterAreRefused(t *testing.T) {
	t.Parallel()
	store := segmenttest.NewMemory()
	sources := func(one, other segment.Store) []snowflakeplugin.Option {
		t.Helper()
		daily, err := segment.Daily(other, "crates", 6, time.UTC)
		must(t, err, "a daily source")
		t.Cleanup(func() { must(t, daily.Close(), "close the daily source") })
		return []snowflakeplugin.Option{
			silent(), snowflakeplugin.WithNode(1), snowflakeplugin.WithNumbers("again", serials(t, one)),
			snowflakeplugin.WithNumbers("daily", daily), snowflakeplugin.WithNumbers("serial", serials(t, one)),
		}
	}
	db := func() *gorm.DB { return dbtest.Named("sqlite").Open(t, nil) }
	err := db().Use(snowflakeplugin.New(sources(store, store)...))
	wantErr(t, err, snowflakeplugin.ErrOptions, "Use")
	says(t, err, `WithNumbers("again")`, `WithNumbers("daily")`, `"crates"`, `"segment"`)
	must(t, db().Use(snowflakeplugin.New(sources(store, segmenttest.NewMemory())...)), "Use with two stores")

	// Handles of two programs are told apart by the store alone.
	plugin := snowflakeplugin.New(sources(store, store.Handle())...)
	handle := db()
	must(t, handle.AutoMigrate(&crate{}), "AutoMigrate")
	must(t, handle.Use(closedAfter(t, plugin)), "Use with two handles")
	must(t, handle.Create(&crate{}).Error, "create")
}
