package filling_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// useBehaviors test db.Use the first time, the second time, on two databases, and when callbacks of
// the user leave no place for the plugin's callbacks.
func useBehaviors() []behavior {
	return []behavior{
		{
			Name: "a callback before the fill that was registered before Use makes Use fail aloud",
			Run:  earlyCallbackFailsUse,
		},
		{
			Name: "a callback of updates that leaves no place makes Use fail aloud as well",
			Run:  earlyUpdateCallbackFailsUse,
		},
		{
			Name: "a callback between fill and insert that was registered before Use is no obstacle",
			Run:  lateCallbackBeforeUse,
		},
		{
			Name: "a second Use is refused and changes nothing",
			Run:  secondUseIsRefused,
		},
		{
			Name: "a second Initialize changes nothing",
			Run:  secondInitialize,
		},
		{
			Name: "one plugin serves two databases",
			Run:  onePluginTwoDatabases,
		},
		{
			Name: "several databases may come into use at the same moment",
			Run:  usesAtTheSameMoment,
		},
		{
			Name: "the plugin may come through Config.Plugins",
			Run:  throughConfigPlugins,
		},
		{
			Name: "one Config for two handles is refused and named as the cause",
			Run:  oneConfigTwoHandles,
		},
		{
			Name: "the statement has its own context back when the create is over",
			Run:  contextIsGivenBack,
		},
	}
}

func earlyCallbackFailsUse(t *testing.T, target dbtest.Target) {
	for name, skip := range map[string]bool{"default transactions": false, "none": true} {
		t.Run(name, func(t *testing.T) {
			db := target.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			must(t, db.AutoMigrate(&account{}, &plainNote{}), "AutoMigrate")
			ran := 0
			err := db.Callback().Create().Before("snowflake:fill").
				Register("test:early", func(*gorm.DB) { ran++ })
			must(t, err, "register the callback")

			err = db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1)))
			wantErr(t, err, snowflakeplugin.ErrCallbacks, "Use")
			says(t, err, "snowflake:fill", "after db.Use")

			// Everything that needs no ID continues as before, including the user's callback.
			note := plainNote{Text: "still here"}
			must(t, db.Create(&note).Error, "create an untagged model")
			same(t, "the note", stored[plainNote](t, db, note.ID), note)
			given := account{ID: 5, Email: "given@example.com"}
			must(t, db.Create(&given).Error, "create with an ID of one's own")
			accountStored(t, db, given)
			same(t, "runs of the user's callback", ran, 2)

			// Everything that needs an ID is refused, because it would be stored as 0.
			a := account{Email: "ann@example.com"}
			err = db.Create(&a).Error
			wantErr(t, err, snowflakeplugin.ErrNotInUse, "create without an ID")
			wantErr(t, err, snowflakeplugin.ErrCallbacks, "its cause")
			says(t, err, "Account.ID")
			same(t, "the ID after the refusal", a.ID, 0)
			holds(t, db, &account{}, 1)
		})
	}
}

func earlyUpdateCallbackFailsUse(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	must(t, db.AutoMigrate(&account{}), "AutoMigrate")
	err := db.Callback().Update().Before("snowflake:track").Register("test:early", func(*gorm.DB) {})
	must(t, err, "register the callback")
	err = db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1)))
	wantErr(t, err, snowflakeplugin.ErrCallbacks, "Use")
	says(t, err, "snowflake:track", "after db.Use")

	a := account{ID: 5, Email: "ann@example.com"}
	must(t, db.Create(&a).Error, "create with an ID of one's own")
	a.Name = "Ann"
	must(t, db.Save(&a).Error, "update")
	accountStored(t, db, a)
	must(t, db.Model(&a).Update("name", "Anna").Error, "update a column")
	same(t, "the updated name", stored[account](t, db, 5).Name, "Anna")
	wantErr(t, db.Create(&account{Email: "x"}).Error, snowflakeplugin.ErrNotInUse, "create without an ID")
}

func lateCallbackBeforeUse(t *testing.T, target dbtest.Target) {
	for name, skip := range map[string]bool{"default transactions": false, "none": true} {
		t.Run(name, func(t *testing.T) {
			db := target.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			var saw snowflakeplugin.ID
			err := db.Callback().Create().After("snowflake:fill").Before("gorm:create").
				Register("test:late", func(db *gorm.DB) { saw = db.Statement.Dest.(*account).ID })
			must(t, err, "register the callback")
			use(t, db, snowflakeplugin.New(snowflakeplugin.WithNode(1)), &account{})

			a := account{Email: "ann@example.com"}
			must(t, db.Create(&a).Error, "create")
			same(t, "the ID that the callback saw", saw, a.ID)
			accountStored(t, db, a)
		})
	}
}

// fillsOnce creates an account and fails the test unless that used exactly one number.
func fillsOnce(t *testing.T, db *gorm.DB, numbers *ledger, email string) account {
	t.Helper()
	numbers.take()
	a := account{Email: email}
	must(t, db.Create(&a).Error, "create "+email)
	if taken := numbers.take(); !slices.Equal(taken, []int{1}) {
		t.Errorf("the create of one row made the reservations %v, want one of 1", taken)
	}
	accountStored(t, db, a)
	return a
}

func secondUseIsRefused(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &account{})
	other := snowflakeplugin.New(snowflakeplugin.WithNode(3))
	wantErr(t, db.Use(other), gorm.ErrRegistered, "a second Use")
	wantErr(t, db.Session(&gorm.Session{NewDB: true}).Use(other), gorm.ErrRegistered, "Use on a session")
	fillsOnce(t, db, numbers, "ann@example.com")
}

// warnings is a logger that keeps GORM's warnings, for example about a duplicate callback.
type warnings struct {
	logger.Interface
	texts []string
}

func (w *warnings) LogMode(logger.LogLevel) logger.Interface { return w }

func (w *warnings) Warn(_ context.Context, format string, args ...any) {
	w.texts = append(w.texts, fmt.Sprintf(format, args...))
}

func secondInitialize(t *testing.T, target dbtest.Target) {
	log := &warnings{Interface: logger.Discard}
	db, numbers := target.Open(t, &gorm.Config{Logger: log}), newLedger(t)
	plugin := snowflakeplugin.New(snowflakeplugin.WithSource(numbers))
	use(t, db, plugin, &account{})
	must(t, plugin.Initialize(db), "a second Initialize")
	if len(log.texts) > 0 {
		t.Errorf("GORM warns of %q", log.texts)
	}
	fillsOnce(t, db, numbers, "ann@example.com")
}

func onePluginTwoDatabases(t *testing.T, target dbtest.Target) {
	numbers := newLedger(t)
	plugin := snowflakeplugin.New(snowflakeplugin.WithSource(numbers))
	seen := map[snowflakeplugin.ID]bool{}
	var handles []*gorm.DB
	for range 2 {
		db := target.Open(t, nil)
		use(t, db, plugin, &account{})
		handles = append(handles, db)
	}
	for _, db := range append(handles, handles...) {
		a := fillsOnce(t, db, numbers, string(rune('a'+len(seen)))+"@example.com")
		if seen[a.ID] {
			t.Errorf("ID %v was given twice", a.ID)
		}
		seen[a.ID] = true
	}
	for _, db := range handles {
		holds(t, db, &account{}, 2)
	}
}

func usesAtTheSameMoment(t *testing.T, target dbtest.Target) {
	for name, plugin := range map[string]*snowflakeplugin.Plugin{
		"by hand": snowflakeplugin.New(snowflakeplugin.WithNode(1)),
		"leased":  leased(t, target.Open(t, nil)),
	} {
		t.Run(name, func(t *testing.T) {
			handles := []*gorm.DB{target.Open(t, nil), target.Open(t, nil), target.Open(t, nil)}
			start, uses := make(chan struct{}), make([]error, len(handles))
			var done sync.WaitGroup
			for i, db := range handles {
				done.Go(func() {
					<-start
					uses[i] = db.Use(plugin)
				})
			}
			close(start)
			done.Wait()
			for i, db := range handles {
				must(t, uses[i], "Use")
				same(t, "notes", noted(t, db)["rows"].Authority, noted(t, handles[0])["rows"].Authority)
			}
		})
	}
}

func throughConfigPlugins(t *testing.T, target dbtest.Target) {
	numbers := newLedger(t)
	plugin := snowflakeplugin.New(snowflakeplugin.WithSource(numbers))
	db := target.Open(t, &gorm.Config{Plugins: map[string]gorm.Plugin{plugin.Name(): plugin}})
	must(t, db.AutoMigrate(&account{}), "AutoMigrate")
	wantErr(t, db.Use(plugin), gorm.ErrRegistered, "Use after Config.Plugins")
	fillsOnce(t, db, numbers, "ann@example.com")
}

func oneConfigTwoHandles(t *testing.T, target dbtest.Target) {
	numbers, cfg := newLedger(t), &gorm.Config{}
	first := target.Open(t, cfg)
	must(t, first.Use(snowflakeplugin.New(snowflakeplugin.WithSource(numbers))), "Use")
	must(t, first.AutoMigrate(&account{}), "AutoMigrate")
	fillsOnce(t, first, numbers, "ann@example.com")
	// GORM would let both handles go to the second database.
	_, err := gorm.Open(first.Dialector, cfg)
	wantErr(t, err, snowflakeplugin.ErrOptions, "a second gorm.Open")
	says(t, err, "*gorm.Config", "twice")
}

func contextIsGivenBack(t *testing.T, target dbtest.Target) {
	type contextKey struct{}
	db, _ := open(t, target, nil, &account{})
	ctx := context.WithValue(t.Context(), contextKey{}, "mine")

	tx := db.WithContext(ctx).Create(&account{Email: "ann@example.com"})
	must(t, tx.Error, "create")
	same(t, "the context after a create", tx.Statement.Context, ctx)

	tx = db.WithContext(ctx).Create(&account{Email: "ann@example.com"})
	wantErr(t, tx.Error, nil, "create again")
	same(t, "the context after a failed create", tx.Statement.Context, ctx)
}
