package filling_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// contextBehaviors test that the user's context reaches every part of a create.
func contextBehaviors() []behavior {
	return []behavior{
		{
			Name: "values of the context reach every nested create and the join insert",
			Run:  contextValuesReachAll,
		},
		{
			Name: "settings reach nested creates as without the plugin",
			Run:  settingsReachAll,
		},
		{
			Name: "a tracing plugin that wraps the context of the statement hides nothing",
			Run:  wrappedContext,
		},
		{
			// The driver of MySQL asks every context for its error, so a nil pointer does not work there.
			Name: "a nil pointer that does for a context of plain GORM does with the plugin",
			Only: []string{"sqlite", "postgres"},
			Run:  contextThatIsNil,
		},
	}
}

// contextLogger records, for every statement, the test's value in the statement's context.
type contextLogger struct {
	logger.Interface
	mu    sync.Mutex
	notes []string // guarded by mu: the value and the statement
}

func (l *contextLogger) LogMode(logger.LogLevel) logger.Interface { return l }

func (l *contextLogger) Trace(ctx context.Context, _ time.Time, fc func() (string, int64), _ error) {
	sql, _ := fc()
	value, _ := ctx.Value(contextMark{}).(string)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, value+": "+sql)
}

func contextValuesReachAll(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, personModels...)
	var inCallbacks []any
	err := db.Callback().Create().Before("gorm:create").Register("test:context", func(db *gorm.DB) {
		inCallbacks = append(inCallbacks, db.Statement.Context.Value(contextMark{}))
	})
	must(t, err, "register a callback")
	notes := &contextLogger{Interface: logger.Discard}
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), contextMark{}, "mine"), time.Hour)
	defer cancel()
	deadline, _ := ctx.Deadline()
	numbers.step = func(ctx context.Context, call int) error {
		if got, _ := ctx.Deadline(); got != deadline {
			t.Errorf("reservation %d has the deadline %v, want %v", call, got, deadline)
		}
		return nil
	}
	p := newPerson("ann")
	must(t, db.Session(&gorm.Session{Logger: notes}).WithContext(ctx).Create(p).Error, "create")
	personStored(t, db, p)

	marks := numbers.marks()
	same(t, "reservations", len(marks), 7)
	// These are the same seven creates and the rows of the join table.
	same(t, "calls of the callback", len(inCallbacks), 8)
	for i, value := range append(marks, inCallbacks...) {
		if value != "mine" {
			t.Errorf("context %d has the value %v", i, value)
		}
	}
	joins := 0
	for _, note := range notes.notes {
		if !strings.HasPrefix(note, "mine: ") {
			t.Errorf("a statement without the value%s", note)
		}
		if strings.Contains(note, "person_clubs") {
			joins++
		}
	}
	same(t, "inserts into the join table", joins, 1)
	if len(notes.notes) < 8 {
		t.Errorf("only %d statements: %q", len(notes.notes), notes.notes)
	}
}

func settingsReachAll(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, personModels...)
	var with, without []string
	err := db.Callback().Create().Before("gorm:create").Register("test:settings", func(db *gorm.DB) {
		if value, _ := db.Get("test:key"); value == "mine" {
			with = append(with, db.Statement.Table)
		} else {
			without = append(without, db.Statement.Table)
		}
	})
	must(t, err, "register a callback")
	must(t, db.Set("test:key", "mine").Create(newPerson("ann")).Error, "create")
	same(t, "creates with the setting", strings.Join(with, " "),
		"towns people passports dogs toys towns clubs")
	same(t, "creates without, as GORM has it", strings.Join(without, " "), "person_clubs")
}

// tracedContext replaces the context of a statement, as a tracing plugin does.
type tracedContext struct {
	context.Context
	was context.Context
}

func wrappedContext(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, append(personModels, &account{})...)
	// The opentelemetry plugin works in this way: its second callback runs at the very end.
	creates := db.Callback().Create()
	err := creates.Before("gorm:create").Register("test:begin span", func(db *gorm.DB) {
		ctx := context.WithValue(db.Statement.Context, contextMark{}, "span")
		db.Statement.Context = tracedContext{ctx, db.Statement.Context}
	})
	must(t, err, "register the begin")
	err = creates.After("gorm:create").Register("test:end span", func(db *gorm.DB) {
		if traced, is := db.Statement.Context.(tracedContext); is {
			db.Statement.Context = traced.was
		}
	})
	must(t, err, "register the end")

	there := newAccount("ann")
	must(t, db.Create(&there).Error, "create")
	accountStored(t, db, there)
	met := newAccount("ann")
	must(t, db.Clauses(doNothing()).Create(&met).Error, "create what is there")
	same(t, "the ID of what is there", met.ID, there.ID)

	p := newPerson("ann").withGivenIDs()
	flaw := &p.Clubs[0].Note
	note := *flaw
	*flaw = nil
	wantErr(t, db.Create(p).Error, nil, "create a tree that fails late")
	p.withoutIDs(t)
	noRows(t, db)
	*flaw = note
	must(t, db.Create(p).Error, "create again")
	personStored(t, db, p)

	// One statement is used for two creates, and the second create fails.
	tx := db.Where("1 = 1")
	first, second := newAccount("bob"), newAccount("bob")
	must(t, tx.Create(&first).Error, "create on a statement")
	wantErr(t, tx.Create(&second).Error, nil, "create a duplicate on the same statement")
	accountStored(t, db, first)
	same(t, "the ID of the duplicate", second.ID, 0)
}

// request is a context of an application. Its nil pointer never ends. The driver of SQLite asks Done or Err for
// that, as its version is; nothing else may be asked of it.
type request struct{ cause error }

func (r *request) Done() <-chan struct{} {
	if r == nil {
		return nil
	}
	return make(chan struct{})
}
func (r *request) Err() error {
	if r == nil {
		return nil
	}
	return r.cause
}
func (r *request) Deadline() (time.Time, bool) { return time.Time{}, r.cause != nil }
func (r *request) Value(any) any               { return r.cause }

func contextThatIsNil(t *testing.T, target dbtest.Target) {
	byHand, _ := open(t, target, nil, append(personModels, &account{}, &ticket{})...)
	fromSource, _ := openLedger(t, target, nil, append(personModels, &account{}, &ticket{})...)
	for name, db := range map[string]*gorm.DB{"a generator": byHand, "a source": fromSource} {
		t.Run(name, func(t *testing.T) {
			db := db.WithContext((*request)(nil))
			plain := account{ID: 5, Email: "plain@example.com"}
			must(t, db.Create(&plain).Error, "create a row that needs no ID")
			one, list := newAccount("one"), []account{newAccount("two"), newAccount("three")}
			must(t, db.Create(&one).Error, "create a struct")
			must(t, db.Create(&list).Error, "create a slice")
			must(t, db.Create(&[]ticket{newTicket("a")}).Error, "create two IDs a row")
			must(t, db.Model(&account{}).Create(map[string]any{"email": "map"}).Error, "create a map")
			must(t, db.Clauses(doNothing()).Create(&account{Email: "upserted"}).Error, "create with ON CONFLICT")
			must(t, db.Create(newPerson("ann")).Error, "create a tree")
			holds(t, db, &account{}, 6)
		})
	}
}
