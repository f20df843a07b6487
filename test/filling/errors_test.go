package filling_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestErrors(t *testing.T) { run(t, errorBehaviors()) }

// errorBehaviors test the state after a failed create: nothing is in the database, no struct has an
// ID without a row, and the error tells the reason.
func errorBehaviors() []behavior {
	own := []behavior{
		{
			Name: "a context that ends while the create waits for an ID ends the create",
			Run:  contextEndsWait,
		},
		{
			Name: "a clock that is too far behind is an error of the create",
			Run:  clockBehind,
		},
		{
			Name: "a source that panics leaves the connection free and the handle usable",
			Run:  sourcePanics,
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
	says(t, err, "Account.ID")
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
