package filling_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// notInUseBehaviors test a plugin whose Use has failed.
func notInUseBehaviors() []behavior {
	return []behavior{
		{
			Name: "options that make no plugin are errors of Use",
			Run:  badOptionsFailUse,
		},
		{
			Name: "after a failed Use whatever needs an ID is refused",
			Run:  failedUseRefuses,
		},
		{
			Name: "after a failed Use a model with faulty tags is refused as it is otherwise",
			Run:  failedUseRefusesFaultyTags,
		},
		{
			Name: "after a failed Use everything else goes on",
			Run:  failedUseLetsPass,
		},
		{
			Name: "after a failed Use a better plugin may be used",
			Run:  betterPluginAfterFailedUse,
		},
	}
}

func sourcePanics(t *testing.T, target dbtest.Target) {
	for name, skip := range map[string]bool{"default transactions": false, "none": true} {
		t.Run(name, func(t *testing.T) {
			cfg := &gorm.Config{SkipDefaultTransaction: skip}
			db, numbers := target.Open(t, cfg, dbtest.MaxOpenConns(1)), newLedger(t)
			use(t, db, snowflakeplugin.New(snowflakeplugin.WithSource(numbers)), &account{})
			numbers.step = func(_ context.Context, call int) error {
				if call == 1 {
					panic("no numbers today")
				}
				return nil
			}
			// The handle is used again with the same statement that ended early.
			tx := db.Session(&gorm.Session{}).Where("1 = 1")
			a := account{Email: "ann@example.com"}
			how := outcome(func() error { return tx.Create(&a).Error })
			same(t, "how the create ended", how, "panic: no numbers today")
			same(t, "the ID after the panic", a.ID, 0)
			pool, err := db.DB()
			must(t, err, "the pool")
			same(t, "connections in use", pool.Stats().InUse, 0)
			must(t, tx.Create(&a).Error, "create again on the same handle")
			accountStored(t, db, a)
		})
	}
}

func dryRunGivesID(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &account{}, &ticket{})
	dry := db.Session(&gorm.Session{DryRun: true})
	a, list := account{Email: "ann@example.com"}, []ticket{{Title: "one"}, {Title: "two"}}

	tx := dry.Create(&a)
	must(t, tx.Error, "dry run of a struct")
	sentIn(t, tx, a.ID)
	tx = dry.Create(&list)
	must(t, tx.Error, "dry run of a slice")
	for _, v := range list {
		sentIn(t, tx, v.PublicID)
		sentIn(t, tx, snowflakeplugin.ID(v.ID))
	}
	same(t, "the reservations", fmt.Sprint(numbers.take()), "[1 4]")
	holds(t, db, &account{}, 0)
	holds(t, db, &ticket{}, 0)

	planned := a.ID
	must(t, db.Create(&a).Error, "create the struct")
	same(t, "the ID created after that planned", a.ID, planned)
	accountStored(t, db, a)
	must(t, db.Create(&list).Error, "create the slice")
	for _, v := range list {
		ticketStored(t, db, v)
	}
	same(t, "reservations for what has IDs", len(numbers.take()), 0)
}

// sentIn fails the test unless the statement that was built has the ID among its values.
func sentIn(t *testing.T, tx *gorm.DB, id snowflakeplugin.ID) {
	t.Helper()
	sql := tx.Explain(tx.Statement.SQL.String(), tx.Statement.Vars...)
	if id == 0 || !strings.Contains(sql, id.String()) {
		t.Errorf("ID %v is not in %s", id, sql)
	}
}

func toSQLGivesID(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &account{})
	a := account{Email: "ann@example.com"}
	sql := db.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Create(&a) })
	planned := a.ID
	if planned == 0 || !strings.Contains(sql, planned.String()) {
		t.Errorf("ID %v is not in %s", planned, sql)
	}
	holds(t, db, &account{}, 0)
	must(t, db.Create(&a).Error, "create")
	same(t, "the ID created after that planned", a.ID, planned)
	accountStored(t, db, a)
}

// badPlugins are plugins that cannot be used, each with the error that tells the reason.
var badPlugins = map[string]struct {
	options []snowflakeplugin.Option
	want    error
	says    []string
}{
	"no node": {
		[]snowflakeplugin.Option{snowflakeplugin.WithLease(&brokenStore{away: errAway})},
		snowflakeplugin.ErrNoNode, []string{errAway.Error()},
	},
	"a node out of range": {
		[]snowflakeplugin.Option{snowflakeplugin.WithNode(1024)}, generator.ErrNodeRange,
		[]string{"1024", "1023"},
	},
	"a layout that is none": {
		[]snowflakeplugin.Option{snowflakeplugin.WithLayout(generator.Layout{Name: "mine"})},
		generator.ErrInvalidLayout, []string{"mine"},
	},
	"a source and a node": {
		[]snowflakeplugin.Option{snowflakeplugin.WithSource(&ledger{}), snowflakeplugin.WithNode(1)},
		snowflakeplugin.ErrOptions, []string{"WithSource", "WithNode"},
	},
	"nil": {
		[]snowflakeplugin.Option{nil, snowflakeplugin.WithSource(nil)}, snowflakeplugin.ErrOptions,
		[]string{"option 0 is nil", "WithSource(nil)"},
	},
}

func badOptionsFailUse(t *testing.T, target dbtest.Target) {
	for name, c := range badPlugins {
		t.Run(name, func(t *testing.T) {
			plugin := snowflakeplugin.New(c.options...)
			err := target.Open(t, nil).Use(plugin)
			wantErr(t, err, c.want, "Use")
			says(t, err, c.says...)
			_, err = plugin.NextID(t.Context())
			wantErr(t, err, c.want, "NextID")
		})
	}
}

// openUnused returns a database on which Use of the plugin has failed.
func openUnused(t *testing.T, target dbtest.Target, list ...any) *gorm.DB {
	t.Helper()
	db := target.Open(t, nil)
	must(t, db.AutoMigrate(list...), "AutoMigrate")
	plugin := unreachable()
	wantErr(t, db.Use(plugin), snowflakeplugin.ErrNoNode, "Use without a node")
	wantErr(t, db.Use(plugin), snowflakeplugin.ErrNoNode, "Use without a node again")
	return db
}

func failedUseRefuses(t *testing.T, target dbtest.Target) {
	db, recorder := watch(openUnused(t, target, &account{}, &ticket{}))
	rows := func() (account, []account, []ticket, map[string]any) {
		return newAccount("one"), []account{newAccount("a"), {ID: 5, Email: "b"}, newAccount("c")},
			[]ticket{newTicket("a"), {ID: 5, Title: "b"}, {PublicID: 6, Title: "c"}}, map[string]any{"email": "map"}
	}
	one, list, tickets, m := rows()
	for shape, err := range map[string]error{
		"a struct": db.Create(&one).Error, "a slice": db.Create(&list).Error,
		"a map": db.Model(&account{}).Create(m).Error,
	} {
		wantErr(t, err, snowflakeplugin.ErrNotInUse, "create "+shape)
		wantErr(t, err, snowflakeplugin.ErrNoNode, "the cause, for "+shape)
		says(t, err, "Account.ID", errAway.Error())
	}
	says(t, db.Create(tickets).Error, "Ticket.ID", "Ticket.PublicID", errAway.Error())
	wantOne, wantList, wantTickets, wantMap := rows()
	got, want := []any{one, list, tickets, m}, []any{wantOne, wantList, wantTickets, wantMap}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("after the errors there is %+v, want %+v", got, want)
	}
	err := db.Create(&ticket{ID: 5, Title: "half given"}).Error
	wantErr(t, err, snowflakeplugin.ErrNotInUse, "create with one ID of two")
	says(t, err, "Ticket.PublicID")
	wantErr(t, db.Create(account{Email: "x"}).Error, snowflakeplugin.ErrNotInUse, "create a value")
	wantErr(t, db.Save(&account{Email: "x"}).Error, snowflakeplugin.ErrNotInUse, "Save")
	if sent := recorder.Inserts(); len(sent) > 0 {
		t.Errorf("INSERTs were sent: %q", sent)
	}
	holds(t, db, &account{}, 0)
	holds(t, db, &ticket{}, 0)
}

func failedUseRefusesFaultyTags(t *testing.T, target dbtest.Target) {
	db := openUnused(t, target, &tagParent{}, &tagUncle{}, &tagChild{})
	for name, c := range almostRight {
		t.Run(name, func(t *testing.T) {
			must(t, db.AutoMigrate(c.model), "AutoMigrate")
			refusesModel(t, db, unreachable(), c.model, c.names...)
		})
	}
	uncle := tagUncle{Child: &tagChild{}}
	err := db.Create(&uncle).Error
	wantErr(t, err, snowflakeplugin.ErrInvalidField, "create a tree")
	says(t, err, "tagChild.Model")
	holds(t, db, &tagUncle{}, 0)
}

func failedUseLetsPass(t *testing.T, target dbtest.Target) {
	db := openUnused(t, target, &account{}, &ticket{}, &plainNote{}, &walker{}, &walk{})
	note := plainNote{Text: "still here"}
	must(t, db.Create(&note).Error, "create an untagged model")
	same(t, "the note", stored[plainNote](t, db, note.ID), note)

	list := []account{{ID: 5, Email: "ann@example.com"}, {ID: 6, Email: "bob@example.com"}}
	must(t, db.Create(&list).Error, "create with IDs of one's own")
	for _, a := range list {
		accountStored(t, db, a)
	}
	given := map[string]any{"ID": 7, "email": "map@example.com"}
	must(t, db.Model(&account{}).Create(given).Error, "create a map with an ID")
	same(t, "the row of the map", stored[account](t, db, 7), account{ID: 7, Email: "map@example.com"})
	v := ticket{ID: 5, PublicID: 6, Title: "given"}
	must(t, db.Create(&v).Error, "create a ticket with both IDs")
	ticketStored(t, db, v)

	// The join rows of the walk have copies of the tagged keys, and both are set.
	w := walk{ID: 8, Walkers: []walker{{ID: 9}, {ID: 10}}}
	must(t, db.Create(&w).Error, "create many to many with IDs of one's own")
	same(t, "walkers of the walk", db.Model(&w).Association("Walkers").Count(), 2)
}

// walk and walker have a join table that GORM creates.
type (
	walk struct {
		ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Walkers []walker           `gorm:"many2many:walk_walkers"`
	}
	walker struct {
		ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	}
)

func betterPluginAfterFailedUse(t *testing.T, target dbtest.Target) {
	db := openUnused(t, target, &account{})
	wantErr(t, db.Create(&account{Email: "x"}).Error, snowflakeplugin.ErrNotInUse, "create")
	numbers := newLedger(t)
	must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithSource(numbers))), "Use of a better plugin")
	fillsOnce(t, db, numbers, "ann@example.com")
}
