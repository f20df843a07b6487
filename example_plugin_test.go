package snowflakeplugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Each example uses its own database in memory.
func exampleDB() *gorm.DB {
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Discard})
	exampleCheck(err)
	pool, err := db.DB()
	exampleCheck(err)
	pool.SetMaxOpenConns(1) // a second connection would be a second database
	return db
}

func exampleCheck(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ExamplePlugin() {
	db := exampleDB()
	putToUse := func() error {
		type Order struct {
			ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
			Total int64
		}

		plugin := snowflakeplugin.New() // leases a node number from this very database
		if err := db.Use(plugin); err != nil {
			return err
		}
		defer plugin.Close(context.Background()) // gives it back

		order := Order{Total: 990}
		err := db.Create(&order).Error // order.ID is set
		fmt.Println(order.ID.IsZero(), err)
		return err
	}
	exampleCheck(db.Exec("CREATE TABLE orders (id bigint PRIMARY KEY, total bigint)").Error)
	exampleCheck(putToUse())
	// Output: false <nil>
}

// After an upsert, the struct holds the ID of the row in the database.
func ExamplePlugin_upsert() {
	type User struct {
		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Email string             `gorm:"uniqueIndex"`
		Name  string
	}
	db := exampleDB()
	exampleCheck(db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))))
	exampleCheck(db.AutoMigrate(&User{}))

	first := User{Email: "ada@example.com", Name: "Ada"}
	exampleCheck(db.Create(&first).Error)

	again := User{Email: "ada@example.com", Name: "Ada Lovelace"}
	err := db.Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "email"}},
		DoUpdates: clause.AssignmentColumns([]string{"name"}),
	}).Create(&again).Error
	fmt.Println(again.ID == first.ID, err)
	// Output: true <nil>
}

// A table with an auto-increment key continues with keys of the plugin.
func ExamplePlugin_Prepare() {
	type Account struct {
		ID   int64 `gorm:"primaryKey" snowflake:"true"`
		Name string
	}
	type Entry struct {
		ID        int64 `gorm:"primaryKey" snowflake:"true"`
		AccountID int64
	}
	db := exampleDB()
	exampleCheck(db.Exec("CREATE TABLE accounts (id integer PRIMARY KEY AUTOINCREMENT, name text)").Error)
	exampleCheck(db.Exec("INSERT INTO accounts (name) VALUES ('old')").Error)

	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	prepare := func() error {
		if err := db.Use(plugin); err != nil {
			return err
		}
		if err := plugin.Prepare(db, &Account{}, &Entry{}); err != nil {
			return err
		}
		return db.AutoMigrate(&Account{}, &Entry{})
	}
	exampleCheck(prepare())
	exampleCheck(db.Create(&Account{Name: "new"}).Error)

	var accounts []Account
	exampleCheck(db.Order("id").Find(&accounts).Error)
	fmt.Println(accounts[0].ID, accounts[0].Name)
	fmt.Println(accounts[1].ID > 1_000_000_000, accounts[1].Name)
	// Output:
	// 1 old
	// true new
}

// This adds a column of IDs to a table that has rows. The column is NULL at first and then filled.
func ExamplePlugin_NextID() {
	type Document struct {
		ID       int64
		PublicID *snowflakeplugin.ID `gorm:"uniqueIndex" snowflake:"true"`
	}
	db, ctx := exampleDB(), context.Background()
	exampleCheck(db.Exec("CREATE TABLE documents (id integer PRIMARY KEY AUTOINCREMENT)").Error)
	exampleCheck(db.Exec("INSERT INTO documents (id) VALUES (1), (2), (3)").Error)

	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	exampleCheck(db.Use(plugin))
	exampleCheck(db.AutoMigrate(&Document{}))

	var batch []Document
	fill := func(tx *gorm.DB, _ int) error {
		for i := range batch {
			id, err := plugin.NextID(ctx)
			if err != nil {
				return err
			}
			if err := db.Model(&batch[i]).Update("public_id", id).Error; err != nil {
				return err
			}
		}
		return nil
	}
	err := db.Where("public_id IS NULL").FindInBatches(&batch, 1000, fill).Error

	var filled int64
	exampleCheck(db.Model(&Document{}).Distinct("public_id").Count(&filled).Error)
	fmt.Println(filled, err)
	// Output: 3 <nil>
}

// A server that is told to stop first finishes its requests, then gives its node number back, and
// then closes the database.
func ExamplePlugin_Close() {
	db := exampleDB()
	plugin := snowflakeplugin.New(snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))
	exampleCheck(db.Use(plugin))
	pool, err := db.DB()
	exampleCheck(err)
	server := &http.Server{Addr: "127.0.0.1:0", ReadHeaderTimeout: time.Second}

	serve := func(ctx context.Context) error {
		<-ctx.Done() // of signal.NotifyContext
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		return errors.Join(
			server.Shutdown(grace), // no new requests, and the last ones end
			plugin.Close(grace),    // no new IDs, and the number is free
			pool.Close(),           // of db.DB()
		)
	}

	ctx, stop := context.WithCancel(context.Background())
	stop()
	fmt.Println(serve(ctx))
	_, err = plugin.NextID(context.Background())
	fmt.Println(errors.Is(err, snowflakeplugin.ErrClosed))
	// Output:
	// <nil>
	// true
}

// The time is part of the key, so a range of times is a range of keys.
func ExampleID_range() {
	db := exampleDB()
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	exampleCheck(db.Use(plugin))
	exampleCheck(db.AutoMigrate(&Invoice{}, &Line{}))
	exampleCheck(db.Create(&[]Invoice{{Total: 1}, {Total: 2}}).Error)

	var invoices []Invoice
	yesterday := func() error {
		year, month, day := time.Now().Date()
		today := time.Date(year, month, day, 0, 0, 0, 0, time.Local)
		first, end, err := plugin.Range(today.AddDate(0, 0, -1), today)
		if err != nil {
			return err
		}
		return db.Where("id >= ? AND id < ?", first, end).Find(&invoices).Error
	}
	exampleCheck(yesterday())
	lastMinute := func() error {
		now := time.Now()
		first, _, err := generator.Default().Range(now.Add(-time.Minute), now)
		if err != nil {
			return err
		}
		return db.Where("id >= ?", first).Order("id DESC").Find(&invoices).Error // newest first
	}
	exampleCheck(lastMinute())
	fmt.Println(invoices[0].Total, invoices[1].Total)
	// Output: 2 1
}

func ExampleWithLayout() {
	plugin := snowflakeplugin.New(
		snowflakeplugin.WithLayout(generator.Game()),
		snowflakeplugin.WithNode(17), // the number of this game server
	)
	id, err := plugin.NextID(context.Background())
	exampleCheck(err)
	parts, err := generator.Game().Decompose(id.Int64())
	fmt.Println(parts.Node, err)
	// Output: 17 <nil>
}

// A custom generator may wait longer, run further ahead, or be shared with code that does not use
// GORM.
func ExampleWithSource() {
	source, err := generator.New(generator.Default(), generator.FixedNode(1),
		generator.WithMaxWait(5*time.Second))
	exampleCheck(err)
	db := exampleDB()
	exampleCheck(db.Use(snowflakeplugin.New(snowflakeplugin.WithSource(source))))
	exampleCheck(db.AutoMigrate(&Invoice{}, &Line{}))
	exampleCheck(db.Create(&Invoice{Total: 1}).Error)
	fmt.Println(source.Stats().Issued)
	// Output: 1
}

// Model replaces gorm.Model.
func ExampleModel() {
	type Article struct {
		snowflakeplugin.Model
		Title string
	}
	db := exampleDB()
	exampleCheck(db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))))
	exampleCheck(db.AutoMigrate(&Article{}))

	article := Article{Title: "Keys"}
	exampleCheck(db.Create(&article).Error)
	exampleCheck(db.Delete(&article).Error)

	err := db.First(&Article{}, article.ID).Error
	fmt.Println(errors.Is(err, gorm.ErrRecordNotFound))
	fmt.Println(db.Unscoped().First(&Article{}, article.ID).Error)
	// Output:
	// true
	// <nil>
}

func ExampleParseID() {
	id, err := snowflakeplugin.ParseID("1541815603606036480")
	fmt.Println(id, err)

	_, err = snowflakeplugin.ParseID("-1")
	fmt.Println(errors.Is(err, snowflakeplugin.ErrInvalidID))
	fmt.Println(err)
	// Output:
	// 1541815603606036480 <nil>
	// true
	// snowflakeplugin: invalid id "-1": it has a sign; an id is 1 to 19 decimal digits
}

func ExampleID_json() {
	type Order struct {
		ID    snowflakeplugin.ID
		Total int64
	}
	// JavaScript would read a number of this size as 9007199254740992.
	out, _ := json.Marshal(Order{ID: 9007199254740993, Total: 990})
	fmt.Println(string(out))

	var order Order
	err := json.Unmarshal([]byte(`{"ID":"9007199254740993","Total":990}`), &order)
	fmt.Println(order.ID, err)

	// A number of this size may have been rounded, so it is refused.
	err = json.Unmarshal([]byte(`{"ID":9007199254740993}`), &order)
	fmt.Println(order.ID, errors.Is(err, snowflakeplugin.ErrInvalidID))
	// Output:
	// {"ID":"9007199254740993","Total":990}
	// 9007199254740993 <nil>
	// 9007199254740993 true
}

func ExampleID_Base62() {
	id := snowflakeplugin.ID(1541815603606036480)
	short := id.Base62()
	fmt.Println(short)

	back, err := snowflakeplugin.ParseBase62(short)
	fmt.Println(back == id, err)
	// Output:
	// 1ptWyK4WgZU
	// true <nil>
}

// Count what happens to the lease.
func ExampleWithLease_notify() {
	events := expvar.NewMap("snowflake_lease_events")
	plugin := snowflakeplugin.New(snowflakeplugin.WithLease(nil, lease.WithNotify(func(e lease.Event) {
		events.Add(string(e.Kind), 1) // overdue, back, lost, changed
	})))
	fmt.Println(plugin.Health(context.Background()).State)
	// Output: idle
}
