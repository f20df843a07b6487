package filling_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

func TestErrors(t *testing.T) { run(t, errorBehaviors()) }

// errorBehaviors test the state after a failed create: nothing is in the database, no struct has an
// ID without a row, and the error tells the reason.
func errorBehaviors() []behavior {
	own := []behavior{
		{
			Name: "an error of the source sends nothing, comes through and needs no connection",
			Run:  sourceErrorSendsNothing,
		},
		{
			Name: "a context that is over sends nothing, and its cause comes through",
			Run:  contextOverSendsNothing,
		},
		{
			Name: "a context that ends while the create waits for an ID ends the create",
			Run:  contextEndsWait,
		},
		{
			Name: "a clock that is too far behind is an error of the create",
			Run:  clockBehind,
		},
		{
			Name: "a number that is no ID is refused",
			Run:  numberThatIsNoID,
		},
		{
			Name: "a source that panics leaves the connection free and the handle usable",
			Run:  sourcePanics,
		},
		{
			Name: "a closed plugin refuses whatever needs an ID and nothing else",
			Run:  closedPlugin,
		},
		{
			Name: "DryRun gives the ID that the later create stores",
			Run:  dryRunGivesID,
		},
		{
			Name: "ToSQL gives the ID that the later create stores",
			Run:  toSQLGivesID,
		},
	}
	return append(append(append(own, notInUseBehaviors()...), resetBehaviors()...), treeBehaviors()...)
}

var (
	errSource = errors.New("out of numbers")
	errCause  = errors.New("the server shuts down")
)

// takenEmail is the email or title of an existing row that makes a create fail.
const takenEmail = "taken@example.com"

// newRows returns rows that need IDs, in every shape that can be inspected afterwards. The last row
// has the taken email. It also has an ID if the name of the shape says so.
var newRows = map[string]func() any{
	"a struct": func() any { return &account{Email: takenEmail} },
	"a pointer to a pointer": func() any {
		a := &account{Email: takenEmail}
		return &a
	},
	"a slice": func() any { return []account{{Email: "ann@example.com"}, {Email: takenEmail}} },
	"a slice with an ID of its own": func() any {
		return &[]account{{Email: "ann@example.com", ID: 5}, {Email: "bob@example.com"}, {Email: takenEmail}}
	},
	"a slice of pointers": func() any {
		return []*account{{Email: "ann@example.com"}, {Email: "bob@example.com", ID: 5}, {Email: takenEmail}}
	},
	"an array": func() any {
		return &[2]account{{Email: "ann@example.com"}, {Email: takenEmail}}
	},
	"an array of pointers": func() any {
		return &[2]*account{{Email: "ann@example.com"}, {Email: takenEmail}}
	},
	"tickets": func() any {
		return []ticket{{Title: "one"}, {Title: "two", ID: 5}, {Title: "three", PublicID: 6}, {Title: takenEmail}}
	},
	"a map":             func() any { return map[string]any{"email": takenEmail} },
	"a map with a zero": func() any { return &map[string]any{"ID": 0, "email": takenEmail} },
	"a map with a nil":  func() any { return map[string]any{"Id": nil, "Email": takenEmail} },
	"a slice of maps": func() any {
		return []map[string]any{{"email": "ann@example.com"}, {"email": takenEmail}}
	},
	"maps, one with an ID of its own": func() any {
		return &[]map[string]any{{"id": 5, "email": "ann@example.com"}, {"email": takenEmail}}
	},
}

// createRows creates the rows of newRows.
func createRows(db *gorm.DB, rows any) error {
	switch rows.(type) {
	case map[string]any, *map[string]any, []map[string]any, *[]map[string]any:
		db = db.Model(&account{})
	}
	return db.Create(rows).Error
}

// unchanged fails the test unless rows equal the result of newRows.
func unchanged(t *testing.T, shape string, rows any) {
	t.Helper()
	if want := newRows[shape](); !reflect.DeepEqual(rows, want) {
		t.Errorf("%s: after the error it holds %+v, want %+v", shape, rows, want)
	}
}

// holdConnection takes the only connection of a handle, so everything else must wait for it. It
// returns a context that ends the wait.
func holdConnection(t *testing.T, db *gorm.DB) context.Context {
	t.Helper()
	pool, err := db.DB()
	must(t, err, "the pool")
	conn, err := pool.Conn(t.Context())
	must(t, err, "a connection")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(func() {
		cancel()
		must(t, conn.Close(), "give the connection back")
	})
	return ctx
}

func sourceErrorSendsNothing(t *testing.T, target dbtest.Target) {
	for name, skip := range map[string]bool{"default transactions": false, "none": true} {
		t.Run(name, func(t *testing.T) {
			cfg := &gorm.Config{SkipDefaultTransaction: skip}
			db, numbers := target.Open(t, cfg, dbtest.MaxOpenConns(1)), newLedger(t)
			numbers.step = func(context.Context, int) error { return errSource }
			use(t, db, snowflakeplugin.New(snowflakeplugin.WithSource(numbers)), &account{}, &ticket{})
			ctx := holdConnection(t, db)
			db, recorder := watch(db)
			for shape, fresh := range newRows {
				rows := fresh()
				err := createRows(db.WithContext(ctx), rows)
				wantErr(t, err, errSource, "create "+shape)
				if shape == "tickets" {
					says(t, err, "ticket.ID", "ticket.PublicID")
				} else {
					says(t, err, "account.ID")
				}
				unchanged(t, shape, rows)
			}
			if sent := recorder.Statements(); len(sent) > 0 {
				t.Errorf("statements were sent: %q", sent)
			}
		})
	}
}

func contextOverSendsNothing(t *testing.T, target dbtest.Target) {
	canceled := func(cause error) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			return ctx
		}
	}
	expired := func(cause error) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithDeadlineCause(ctx, time.Now().Add(-time.Second), cause)
			t.Cleanup(cancel)
			return ctx
		}
	}
	contexts := map[string]struct {
		end  func(context.Context) context.Context
		want []error
	}{
		"canceled":              {canceled(nil), []error{context.Canceled}},
		"canceled with a cause": {canceled(errCause), []error{context.Canceled, errCause}},
		"expired":               {expired(nil), []error{context.DeadlineExceeded}},
		"expired with a cause":  {expired(errCause), []error{context.DeadlineExceeded, errCause}},
	}
	plugins := map[string]*snowflakeplugin.Plugin{
		"generator": snowflakeplugin.New(snowflakeplugin.WithNode(1)),
		"source":    snowflakeplugin.New(snowflakeplugin.WithSource(newLedger(t))),
	}
	for name, plugin := range plugins {
		for how, c := range contexts {
			t.Run(name+" "+how, func(t *testing.T) {
				db := target.Open(t, nil, dbtest.MaxOpenConns(1))
				use(t, db, plugin, &account{})
				ctx := c.end(holdConnection(t, db))
				db, recorder := watch(db)
				a, b := account{Email: "ann@example.com"}, account{Email: "bob@example.com"}
				errs := map[string]error{
					"db.Create":     db.WithContext(ctx).Create(&a).Error,
					"gorm.G.Create": gorm.G[account](db).Create(ctx, &b),
				}
				for way, err := range errs {
					for _, want := range c.want {
						wantErr(t, err, want, way)
					}
					says(t, err, "account.ID")
				}
				same(t, "the IDs afterwards", a.ID|b.ID, 0)
				if sent := recorder.Statements(); len(sent) > 0 {
					t.Errorf("statements were sent: %q", sent)
				}
			})
		}
	}
}

func contextEndsWait(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &account{})
	watched, recorder := watch(db)
	numbers.step = func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	}
	impatient := watched.Session(&gorm.Session{})
	impatient.DefaultContextTimeout = time.Millisecond
	a := account{Email: "ann@example.com"}
	wantErr(t, impatient.Create(&a).Error, context.DeadlineExceeded, "create with DefaultContextTimeout")
	same(t, "the ID after DefaultContextTimeout", a.ID, 0)

	ctx, cancel := context.WithCancelCause(t.Context())
	numbers.step = func(ctx context.Context, _ int) error {
		cancel(errCause)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	wantErr(t, watched.WithContext(ctx).Create(&a).Error, errCause, "create with a context")
	same(t, "the ID after the cancellation", a.ID, 0)
	if sent := recorder.Statements(); len(sent) > 0 {
		t.Errorf("statements were sent: %q", sent)
	}
	holds(t, db, &account{}, 0)
}

func clockBehind(t *testing.T, target dbtest.Target) {
	now := time.Now()
	numbers, err := generator.New(generator.Default(), generator.FixedNode(1),
		generator.WithClock(func() time.Time { return now }))
	must(t, err, "a generator")
	db := target.Open(t, nil)
	use(t, db, snowflakeplugin.New(snowflakeplugin.WithSource(numbers)), &account{})
	now = now.Add(time.Second) // after the restart fence of a new generator
	must(t, db.Create(&account{Email: "ann@example.com"}).Error, "create before the step")

	now = now.Add(-time.Hour)
	b := account{Email: "bob@example.com"}
	err = db.Create(&b).Error
	wantErr(t, err, generator.ErrClockBehind, "create after the step")
	says(t, err, "account.ID")
	var clock *generator.ClockError
	if !errors.As(err, &clock) {
		t.Errorf("the error has no *ClockError in it: %v", err)
	}
	same(t, "the ID after the step", b.ID, 0)
	holds(t, db, &account{}, 1)

	now = now.Add(2 * time.Hour)
	must(t, db.Create(&b).Error, "create with the clock set right")
	accountStored(t, db, b)
}

// constantSource always returns the same number.
type constantSource int64

func (c constantSource) Fill(_ context.Context, ids []int64) error {
	for i := range ids {
		ids[i] = int64(c)
	}
	return nil
}

func numberThatIsNoID(t *testing.T, target dbtest.Target) {
	for name, number := range map[string]constantSource{"zero": 0, "negative": -7} {
		t.Run(name, func(t *testing.T) {
			db := target.Open(t, nil)
			use(t, db, snowflakeplugin.New(snowflakeplugin.WithSource(number)), &account{}, &ticket{})
			for shape, fresh := range newRows {
				rows := fresh()
				wantErr(t, createRows(db, rows), snowflakeplugin.ErrSource, "create "+shape)
				unchanged(t, shape, rows)
			}
			holds(t, db, &account{}, 0)
			holds(t, db, &ticket{}, 0)
		})
	}
}
