package fill_test

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestRefused(t *testing.T) { run(t, refusedBehaviors()) }

// refusedBehaviors test the state after a create of any shape has failed: nothing is in the database, no
// struct has an ID without a row, and the error tells the reason.
func refusedBehaviors() []behavior {
	return []behavior{
		{
			Name: "an error of the source sends nothing, comes through and needs no connection",
			Run:  sourceErrorSendsNothing,
		},
		{
			Name: "a context that is over sends nothing, and its cause comes through",
			Run:  contextOverSendsNothing,
		},
		{
			Name: "a number that is no ID is refused",
			Run:  numberThatIsNoID,
		},
		{
			Name: "a closed plugin refuses whatever needs an ID and nothing else",
			Run:  closedPlugin,
		},
		{
			Name: "a failed create takes back the IDs it gave, and no others",
			Run:  inEveryMode(models(&account{}, &ticket{}), failedCreateTakesBack),
		},
		{
			Name: "a failed create empties fields of every kind",
			Run:  inEveryMode(models(&manyKinds{}), failedCreateEmptiesKinds),
		},
	}
}

var (
	errSource = errors.New("out of numbers")
	errCause  = errors.New("the server shuts down")
)

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

func sourceErrorSendsNothing(t *testing.T, target database) {
	for name, skip := range map[string]bool{"default transactions": false, "none": true} {
		t.Run(name, func(t *testing.T) {
			cfg := &gorm.Config{SkipDefaultTransaction: skip}
			db, numbers := target.Open(t, cfg, dbtest.MaxOpenConns(1)), newCounter()
			numbers.step = func() error { return errSource }
			use(t, db, snowflakeplugin.New(snowflakeplugin.WithSource(numbers)), &account{}, &ticket{})
			ctx := holdConnection(t, db)
			db, recorder := watch(db)
			for shape, fresh := range newRows {
				rows := fresh()
				err := createRows(db.WithContext(ctx), rows)
				wantErr(t, err, errSource, "create "+shape)
				if shape == "tickets" {
					says(t, err, "Ticket.ID", "Ticket.PublicID")
				} else {
					says(t, err, "Account.ID")
				}
				unchanged(t, shape, rows)
			}
			if sent := recorder.Statements(); len(sent) > 0 {
				t.Errorf("statements were sent: %q", sent)
			}
		})
	}
}

func contextOverSendsNothing(t *testing.T, target database) {
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
		"source":    snowflakeplugin.New(snowflakeplugin.WithSource(newCounter())),
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
					says(t, err, "Account.ID")
				}
				same(t, "the IDs afterwards", a.ID|b.ID, 0)
				if sent := recorder.Statements(); len(sent) > 0 {
					t.Errorf("statements were sent: %q", sent)
				}
			})
		}
	}
}

func numberThatIsNoID(t *testing.T, target database) {
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

func closedPlugin(t *testing.T, target database) {
	for name, option := range map[string]snowflakeplugin.Option{
		"generator": snowflakeplugin.WithNode(1),
		"source":    snowflakeplugin.WithSource(newCounter()),
	} {
		t.Run(name, func(t *testing.T) {
			db, plugin := target.Open(t, nil), snowflakeplugin.New(option)
			use(t, db, plugin, &account{}, &ticket{}, &plainNote{})
			must(t, db.Create(&account{Email: takenEmail}).Error, "create before Close")
			must(t, plugin.Close(t.Context()), "Close")
			must(t, plugin.Close(t.Context()), "Close again")

			for shape, fresh := range newRows {
				rows := fresh()
				wantErr(t, createRows(db, rows), snowflakeplugin.ErrClosed, "create "+shape)
				unchanged(t, shape, rows)
			}
			_, err := plugin.NextID(t.Context())
			wantErr(t, err, snowflakeplugin.ErrClosed, "NextID")
			given := account{ID: 5, Email: "given@example.com"}
			must(t, db.Create(&given).Error, "create with an ID of one's own")
			accountStored(t, db, given)
			must(t, db.Create(&plainNote{Text: "x"}).Error, "create an untagged model")
			holds(t, db, &account{}, 2)
			holds(t, db, &ticket{}, 0)
		})
	}
}

func failedCreateTakesBack(t *testing.T, db *gorm.DB) {
	taken := account{Email: takenEmail}
	must(t, db.Create(&taken).Error, "create the account in the way")
	must(t, db.Create(&ticket{Title: takenEmail}).Error, "create the ticket in the way")
	for shape, fresh := range newRows {
		rows := fresh()
		wantErr(t, createRows(db, rows), nil, "create "+shape)
		unchanged(t, shape, rows)
	}
	holds(t, db, &account{}, 1)
	holds(t, db, &ticket{}, 1)

	list := []account{{Email: "ann@example.com"}, {Email: takenEmail}}
	wantErr(t, db.Create(&list).Error, nil, "create a slice")
	list[1].Email = "bob@example.com"
	must(t, db.Create(&list).Error, "create it again without the duplicate")
	for _, a := range list {
		accountStored(t, db, a)
	}
}

// manyKinds has a tagged field of every kind.
type manyKinds struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Pointer  *snowflakeplugin.ID
	Optional *snowflakeplugin.ID          `snowflake:"true"`
	Null     sql.Null[snowflakeplugin.ID] `snowflake:"true"`
	Int64    sql.NullInt64                `snowflake:"true"`
	Text     string                       `gorm:"size:20" snowflake:"true"`
	NullText sql.NullString               `gorm:"size:20" snowflake:"true"`
	Unsigned uint64                       `snowflake:"true"`
	Bytes    []byte                       `gorm:"size:8" snowflake:"true"`
	Email    string                       `gorm:"size:100;uniqueIndex"`
}

func failedCreateEmptiesKinds(t *testing.T, db *gorm.DB) {
	first := manyKinds{Email: takenEmail}
	must(t, db.Create(&first).Error, "create the row in the way")
	if row := stored[manyKinds](t, db, first.ID); !reflect.DeepEqual(row, first) {
		t.Errorf("the stored row is %+v, want %+v", row, first)
	}

	second := manyKinds{Email: takenEmail}
	wantErr(t, db.Create(&second).Error, nil, "create a duplicate")
	if want := (manyKinds{Email: takenEmail}); !reflect.DeepEqual(second, want) {
		t.Errorf("after the error the struct is %+v, want %+v", second, want)
	}

	given := first
	given.Null = sql.Null[snowflakeplugin.ID]{}
	want := given
	wantErr(t, db.Create(&given).Error, nil, "create with most IDs given")
	if !reflect.DeepEqual(given, want) {
		t.Errorf("after the error the struct is %+v, want %+v", given, want)
	}
	holds(t, db, &manyKinds{}, 1)
}

// constantSource always returns the same number.
type constantSource int64

func (c constantSource) Fill(_ context.Context, ids []int64) error {
	for i := range ids {
		ids[i] = int64(c)
	}
	return nil
}
