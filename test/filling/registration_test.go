package filling_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestRegistration(t *testing.T) { run(t, registrationBehaviors()) }

// registrationBehaviors test when the plugin's callbacks run in relation to those of the user.
func registrationBehaviors() []behavior {
	return append([]behavior{
		{
			Name: "the struct and the row have the same ID, with default transactions and without",
			Run:  inEveryMode(models(&account{}, &ticket{}), sameIDInEveryMode),
		},
		{
			Name: "a create that waits for an ID holds no connection",
			Run:  waitHoldsNoConnection,
		},
		{
			Name: "hooks see the IDs",
			Run:  inEveryMode(models(&hooked{}), hooksSeeIDs),
		},
		{
			Name: "hooks may set IDs of their own",
			Run:  inEveryMode(models(&hooked{}), hooksOverrideIDs),
		},
		{
			Name: "an ID that a hook has zeroed is filled again",
			Run:  inEveryMode(models(&hooked{}), zeroedIDsAreRefilled),
		},
		{
			Name: "SkipHooks does not switch the fill off",
			Run:  inEveryMode(models(&hooked{}), skipHooksStillFills),
		},
		{
			Name: "callbacks of the user run before and after the fill, where they ask to",
			Run:  inEveryMode(models(&account{}), userCallbacksInPlace),
		},
	}, useBehaviors()...)
}

func sameIDInEveryMode(t *testing.T, db *gorm.DB) {
	db, recorder := watch(db)
	a := account{Email: "ann@example.com", Name: "Ann"}
	must(t, db.Create(&a).Error, "create an account")
	v := ticket{Title: "broken"}
	must(t, db.Create(&v).Error, "create a ticket")

	if sent := recorder.Statements(); len(sent) != 2 || len(recorder.Inserts()) != 2 {
		t.Errorf("two creates sent %q, want two INSERTs", sent)
	}
	for _, sql := range recorder.Inserts() {
		if strings.Contains(sql, "RETURNING") {
			t.Errorf("the INSERT asks for a key that is known: %s", sql)
		}
	}
	accountStored(t, db, a)
	ticketStored(t, db, v)
	holds(t, db, &account{}, 1)
	holds(t, db, &ticket{}, 1)
}

func waitHoldsNoConnection(t *testing.T, target dbtest.Target) {
	for name, skip := range map[string]bool{"default transactions": false, "none": true} {
		t.Run(name, func(t *testing.T) {
			cfg := &gorm.Config{SkipDefaultTransaction: skip}
			db := target.Open(t, cfg, dbtest.MaxOpenConns(1))
			waiting, release := make(chan struct{}), make(chan struct{})
			numbers := newLedger(t)
			numbers.step = func(context.Context, int) error {
				close(waiting)
				<-release
				return nil
			}
			use(t, db, snowflakeplugin.New(snowflakeplugin.WithSource(numbers)), &account{})

			a := account{Email: "ann@example.com"}
			created := make(chan error)
			go func() { created <- db.Create(&a).Error }()
			select {
			case <-waiting:
			case err := <-created:
				t.Fatalf("the create has ended without an ID: %v", err)
			}
			// This ends only if the create itself holds the only connection.
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var one int
			err := db.WithContext(ctx).Raw("SELECT 1").Scan(&one).Error
			close(release)
			must(t, <-created, "create")
			must(t, err, "a query while the create waits")
			same(t, "SELECT 1", one, 1)
			accountStored(t, db, a)
		})
	}
}

// hooked runs hooks that do what its field Order says, and records the IDs that they saw.
type hooked struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	PublicID snowflakeplugin.ID `gorm:"index" snowflake:"true"`
	Order    string             `gorm:"size:100"` // what to do

	SaveSaw, SaveSawPublic, CreateSaw, CreateSawPublic snowflakeplugin.ID
}

// These are the values of Order.
const (
	setInSave        = "set in BeforeSave"
	setInCreate      = "set in BeforeCreate"
	zeroInSave       = "zero in BeforeSave"
	zeroInCreate     = "zero in BeforeCreate"
	failBeforeCreate = "fail in BeforeCreate"
	failAfterCreate  = "fail in AfterCreate"
)

// hooked sets these IDs itself.
const hookedID, hookedPublicID snowflakeplugin.ID = 42, 43

var errHooked = errors.New("told to fail")

func (h *hooked) BeforeSave(*gorm.DB) error {
	h.SaveSaw, h.SaveSawPublic = h.ID, h.PublicID
	switch h.Order {
	case setInSave:
		h.ID, h.PublicID = hookedID, hookedPublicID
	case zeroInSave:
		h.ID, h.PublicID = 0, 0
	}
	return nil
}

func (h *hooked) BeforeCreate(*gorm.DB) error {
	h.CreateSaw, h.CreateSawPublic = h.ID, h.PublicID
	switch h.Order {
	case setInCreate:
		h.ID, h.PublicID = hookedID, hookedPublicID
	case zeroInCreate:
		h.ID, h.PublicID = 0, 0
	case failBeforeCreate:
		return errHooked
	}
	return nil
}

func (h *hooked) AfterCreate(*gorm.DB) error {
	if h.Order == failAfterCreate {
		return errHooked
	}
	return nil
}

// hookedStored fails the test unless the row equals the struct.
func hookedStored(t *testing.T, db *gorm.DB, h hooked) {
	t.Helper()
	if h.ID == 0 || h.PublicID == 0 || h.ID == h.PublicID {
		t.Fatalf("the IDs are %d and %d, want two different ones", h.ID, h.PublicID)
	}
	same(t, "the stored row", stored[hooked](t, db, h.ID), h)
}

func hooksSeeIDs(t *testing.T, db *gorm.DB) {
	list := []*hooked{{}, {}}
	must(t, db.Create(list).Error, "create a slice")
	one := hooked{}
	must(t, db.Create(&one).Error, "create a struct")
	for _, h := range append(list, &one) {
		hookedStored(t, db, *h)
		same(t, "the ID in BeforeSave", h.SaveSaw, h.ID)
		same(t, "the public ID in BeforeSave", h.SaveSawPublic, h.PublicID)
		same(t, "the ID in BeforeCreate", h.CreateSaw, h.ID)
		same(t, "the public ID in BeforeCreate", h.CreateSawPublic, h.PublicID)
	}
}

func hooksOverrideIDs(t *testing.T, db *gorm.DB) {
	for _, order := range []string{setInSave, setInCreate} {
		h := hooked{Order: order}
		must(t, db.Create(&h).Error, order)
		same(t, order+": the ID", h.ID, hookedID)
		same(t, order+": the public ID", h.PublicID, hookedPublicID)
		hookedStored(t, db, h)
		must(t, db.Delete(&h).Error, "delete")
	}
	list := []hooked{{}, {Order: setInCreate}, {}}
	must(t, db.Create(&list).Error, "create a slice")
	same(t, "the ID that was set among others", list[1].ID, hookedID)
	for _, h := range list {
		hookedStored(t, db, h)
	}
}

func zeroedIDsAreRefilled(t *testing.T, db *gorm.DB) {
	list := []hooked{{Order: zeroInSave}, {}, {Order: zeroInCreate}}
	must(t, db.Create(&list).Error, "create a slice")
	one := hooked{Order: zeroInCreate}
	must(t, db.Create(&one).Error, "create a struct")
	seen := map[snowflakeplugin.ID]bool{}
	for _, h := range append(list, one) {
		hookedStored(t, db, h)
		if h.Order != "" && (h.ID == h.SaveSaw || h.PublicID == h.SaveSawPublic) {
			t.Errorf("%s: the IDs are the ones that were taken away", h.Order)
		}
		if seen[h.ID] || seen[h.PublicID] {
			t.Errorf("%s: an ID was given twice", h.Order)
		}
		seen[h.ID], seen[h.PublicID] = true, true
	}
	holds(t, db, &hooked{}, 4)
}

func skipHooksStillFills(t *testing.T, db *gorm.DB) {
	h := hooked{Order: setInCreate}
	must(t, db.Session(&gorm.Session{SkipHooks: true}).Create(&h).Error, "create")
	hookedStored(t, db, h)
	if h.ID == hookedID || h.CreateSaw != 0 {
		t.Error("the hook has run, so this test shows nothing")
	}
	// No row has this key, so Save inserts it and skips the hooks.
	saved := hooked{ID: 7}
	must(t, db.Save(&saved).Error, "save")
	same(t, "the ID given to Save", saved.ID, 7)
	hookedStored(t, db, saved)
}

func userCallbacksInPlace(t *testing.T, db *gorm.DB) {
	var order []string
	note := func(what string) func(*gorm.DB) {
		return func(db *gorm.DB) {
			a, is := db.Statement.Dest.(*account)
			if !is {
				return
			}
			if a.ID == 0 {
				order = append(order, what+" without ID")
			} else {
				order = append(order, what+" with ID")
			}
			a.Name += what
		}
	}
	creates := db.Callback().Create()
	err := creates.After("snowflake:fill").Before("gorm:create").Register("test:late", note("late"))
	must(t, err, "register after the fill")
	must(t, creates.Before("snowflake:fill").Register("test:early", note("early")),
		"register before the fill")

	a := account{Email: "ann@example.com"}
	must(t, db.Create(&a).Error, "create")
	if want := []string{"early without ID", "late with ID"}; !reflect.DeepEqual(order, want) {
		t.Errorf("the callbacks ran as %q, want %q", order, want)
	}
	same(t, "what the callbacks made of the row", a.Name, "earlylate")
	accountStored(t, db, a)
}
