package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

const (
	newOrders = 12 // orders that the story creates
	oldOrders = 3  // orders that it imports, an hour old

	// The import below creates IDs with a time of an hour ago. At that time nobody held a number of
	// this database, so any number is safe. If somebody may have held one, reserve a number for
	// imports: lease.WithNodes(1, 1023).
	importNode = 0
)

// run tells the story on a fresh database and leaves nothing behind.
func run(ctx context.Context, w io.Writer) (err error) {
	db, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDB(db)) }()
	return tell(ctx, w, db)
}

// open returns an empty database in memory. It exists as long as its only connection.
func open() (*gorm.DB, error) {
	db, err := gorm.Open(sqlite.Open(":memory:?_foreign_keys=1"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, fmt.Errorf("open SQLite, which needs cgo and a C compiler: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	return db, nil
}

func closeDB(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

// story holds what the chapters share.
type story struct {
	w      io.Writer
	db     *gorm.DB
	plugin *snowflakeplugin.Plugin
	layout generator.Layout
	ada    User
}

// tell uses the plugin on db and runs the chapters.
func tell(ctx context.Context, w io.Writer, db *gorm.DB) (err error) {
	plugin := snowflakeplugin.New() // leases a node number from this very database
	db = db.WithContext(ctx)
	if err := db.Use(plugin); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plugin.Close(ctx)) }() // gives it back
	if err := db.AutoMigrate(&User{}, &Order{}, &Item{}, &Tag{}); err != nil {
		return err
	}
	fmt.Fprint(w, "A small shop, on SQLite in memory: nothing is left behind.\n\n")
	s := &story{w: w, db: db, plugin: plugin, layout: generator.Default()}
	for i, chapter := range []struct {
		title string
		tell  func() error
	}{
		{"Create a row. Its key is set before the INSERT, so nothing has to be read back.", s.row},
		{"Create a tree of rows, in one call. Every row has its key, every child its parent's.", s.tree},
		{"Upsert. The struct gets the ID that is in the table, not a new one.", s.upsert},
		{"JSON. An ID is a string there: JavaScript keeps only 53 bits of a number.", s.json},
		{"Take an ID apart: when it was made, by which node, which of that millisecond.", s.diagram},
		{"Import old orders. An ID that is set stays; this one says when the order was made.", s.backfill},
		{"Orders of the last minute, by primary key alone: there is no time column.", s.lastMinute},
		{"The newest ten, by primary key alone.", s.newest},
		{"The node number came from this database. No other process can get it for that time.", s.lease},
	} {
		fmt.Fprintf(w, "%d. %s\n", i+1, chapter.title)
		if err := chapter.tell(); err != nil {
			return fmt.Errorf("chapter %d: %w", i+1, err)
		}
		fmt.Fprintln(w)
	}
	return nil
}

func (s *story) line(label, format string, args ...any) {
	fmt.Fprintf(s.w, "   %-11s %s\n", label, fmt.Sprintf(format, args...))
}

func (s *story) row() error {
	s.ada = User{Email: "ada@example.com", Name: "Ada"}
	if err := s.db.Create(&s.ada).Error; err != nil {
		return err
	}
	s.line("user", "%s, ID %d", s.ada.Name, s.ada.ID)
	return nil
}

func (s *story) tree() error {
	orders := make([]Order, newOrders)
	for i := range orders {
		orders[i] = Order{
			UserID: s.ada.ID,
			Number: oldOrders + i + 1,
			Items:  []Item{{Name: "book"}, {Name: "pen"}},
			Tags:   []Tag{{Word: "paid"}, {Word: []string{"post", "courier"}[i%2]}},
		}
	}
	if err := s.db.Create(&orders).Error; err != nil {
		return err
	}
	s.ada.Orders = orders
	for _, table := range []struct {
		name, note string
	}{
		{"users", "Ada, from before"},
		{"orders", "numbers 4 to 15, all hers"},
		{"items", "two in each order"},
		{"tags", "each order brought two by their words; equal words became one row"},
		{"order_tags", "the pairs; GORM made this table by itself"},
	} {
		var rows int64
		if err := s.db.Table(table.name).Count(&rows).Error; err != nil {
			return err
		}
		s.line(table.name, "%2d  %s", rows, table.note)
	}
	var dangling []map[string]any
	if err := s.db.Raw("PRAGMA foreign_key_check").Scan(&dangling).Error; err != nil {
		return err
	}
	s.line("dangling", "%2d  foreign keys that point nowhere", len(dangling))
	return nil
}

func (s *story) upsert() error {
	again := User{Email: s.ada.Email, Name: "Ada Lovelace"}
	err := s.db.Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "email"}},
		DoUpdates: clause.AssignmentColumns([]string{"name"}),
	}).Create(&again).Error
	if err != nil {
		return err
	}
	s.line("before", "%d  %s", s.ada.ID, s.ada.Name)
	s.line("after", "%d  %s", again.ID, again.Name)
	return nil
}

func (s *story) json() error {
	order := s.ada.Orders[0]
	text, err := json.Marshal(order)
	if err != nil {
		return err
	}
	s.line("out", "%s", text)

	var back Order
	if err := json.Unmarshal(text, &back); err != nil {
		return err
	}
	s.line("in", "%d, the same: %t", back.ID, back.ID == order.ID)

	err = json.Unmarshal(fmt.Appendf(nil, `{"id": %d}`, order.ID), &back)
	if !errors.Is(err, snowflakeplugin.ErrInvalidID) {
		return fmt.Errorf("a bare number of that size was not refused: %w", err)
	}
	s.line("refused", "the same digits without quotes, which may have been rounded on their way")
	s.line("in a link", "%s", order.ID.Base62())
	return nil
}

func (s *story) diagram() error {
	text := s.layout.Diagram(s.ada.Orders[0].ID.Int64())
	for line := range strings.Lines(text) {
		fmt.Fprint(s.w, "   ", line)
	}
	fmt.Fprintln(s.w, "   A quiet millisecond begins at a random sequence number, so that the low bits")
	fmt.Fprintln(s.w, "   spread rows evenly over shards: ID mod 2, mod 4, ... mod 256.")
	return nil
}

func (s *story) backfill() error {
	made := time.Now().Add(-time.Hour)
	for number := range oldOrders {
		id, err := s.layout.Compose(generator.Parts{Time: made, Node: importNode, Sequence: int64(number)})
		if err != nil {
			return err
		}
		order := Order{ID: snowflakeplugin.ID(id), UserID: s.ada.ID, Number: number + 1}
		if err := s.db.Create(&order).Error; err != nil {
			return err
		}
		s.line(fmt.Sprint("order ", order.Number), "%d  an hour old", order.ID)
	}
	return nil
}

func (s *story) lastMinute() error {
	now := time.Now()
	// The upper end stays open, because in a burst IDs may be some milliseconds ahead of the clock.
	first, _, err := s.layout.Range(now.Add(-time.Minute), now)
	if err != nil {
		return err
	}
	var all, recent int64
	if err := s.db.Model(&Order{}).Count(&all).Error; err != nil {
		return err
	}
	if err := s.db.Model(&Order{}).Where("id >= ?", first).Count(&recent).Error; err != nil {
		return err
	}
	s.line("where", "id >= %d, the first ID of that minute", first)
	s.line("found", "%d of %d orders", recent, all)
	return nil
}

func (s *story) newest() error {
	var orders []Order
	if err := s.db.Order("id DESC").Limit(10).Find(&orders).Error; err != nil {
		return err
	}
	var numbers []string
	for _, order := range orders {
		numbers = append(numbers, fmt.Sprint(order.Number))
	}
	s.line("order by", "id DESC, limit 10")
	s.line("found", "orders %s", strings.Join(numbers, ", "))
	return nil
}

func (s *story) lease() error {
	var lease struct {
		Node         int64
		Owner, Until string
	}
	// A row of the table is no number: it tells which table this is.
	numbers := s.db.Table("snowflake_nodes").Where("node <= ?", s.plugin.Layout().MaxNode())
	if err := numbers.Take(&lease).Error; err != nil {
		return err
	}
	if node := s.plugin.Stats().Node; node != lease.Node {
		return fmt.Errorf("the plugin has node %d, the database says %d", node, lease.Node)
	}
	s.line("node", "%d", lease.Node)
	s.line("until", "%s; it is extended long before, and given back at the end", lease.Until)
	s.line("owner", "%s", lease.Owner)
	return nil
}
