// Command sharding spreads a shop over sixteen shards in two SQLite files, runs typical queries,
// and doubles the number of shards during reads:
//
//	go run ./examples/sharding
//
// The file models.go defines which rows are colocated. The file shop.go opens the databases and
// creates the router. The chapters follow here, in the order in which they run. The last one checks
// all rows.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sharding:", err)
		os.Exit(1)
	}
}

// run runs everything in its own directory and removes the directory afterwards.
func run(ctx context.Context, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "sharding")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := open(ctx, w, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	return s.tell(ctx)
}

func (s *shop) tell(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{
		s.fill, s.spread, s.pages, s.customer, s.transactions, s.resharding, s.checks,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *shop) fill(ctx context.Context) error {
	s.customers = make([]Customer, customers)
	for i := range s.customers {
		s.customers[i] = Customer{Name: fmt.Sprintf("customer %d", i), Gold: 100}
	}
	if err := s.router.Create(ctx, s.customers); err != nil { // each gets an ID, and with it a shard
		return err
	}
	for first := 0; first < orders; first += perBatch {
		batch := make([]Order, perBatch)
		for i := range batch {
			number := first + i
			batch[i] = Order{
				CustomerID: s.customers[number%customers].ID,
				Number:     number,
				Items:      []Item{{Price: int64(number)}, {Price: 1}},
			}
		}
		if err := s.router.Create(ctx, batch); err != nil { // to the customers' shards, with their items
			return err
		}
	}
	came := make([]Visit, visits)
	for i := range came {
		came[i].CustomerID = s.customers[i%customers].ID
	}
	if err := s.router.Create(ctx, came); err != nil {
		return err
	}
	s.say("%d shards in %d databases: %d customers, %d orders with %d items, %d visits.\n",
		shards, len(s.dbs), customers, orders, 2*orders, visits)
	return nil
}

func (s *shop) spread(ctx context.Context) error {
	s.say("\nThe shard of a row is its ID %% %d. How many there are on each:\n\n", shards)
	var rows [4][]int64
	var least, most [4]int64
	for i, model := range []any{&Customer{}, &Order{}, &Item{}, &Visit{}} {
		var err error
		if rows[i], err = s.router.Distribution(ctx, model); err != nil {
			return err
		}
		least[i], most[i] = slices.Min(rows[i]), slices.Max(rows[i])
	}
	s.say("  shard  database  customers  orders   items  visits\n")
	for shard, n := range rows[1] {
		s.say("  %5d  %-8s  %9d  %6d  %6d  %6d  %s\n", shard, s.names[shard%len(s.dbs)],
			rows[0][shard], n, rows[2][shard], rows[3][shard], strings.Repeat("#", int(n/32)))
	}
	s.say("  min              %9d  %6d  %6d  %6d\n", least[0], least[1], least[2], least[3])
	s.say("  max              %9d  %6d  %6d  %6d\n\n", most[0], most[1], most[2], most[3])
	s.check(most[0]-least[0] <= 1 && most[3]-least[3] <= 1,
		"customers and visits go anywhere: no shard has two more than another")
	perCustomer := int64(orders / customers)
	s.check(most[1]-least[1] <= perCustomer && most[2]-least[2] <= 2*perCustomer,
		"orders and items go to their customer, who has %d and %d of them", perCustomer, 2*perCustomer)
	s.check(total(rows[1]) == orders && total(rows[2]) == 2*orders, "every order and every item is there once")
	return nil
}

func total(rows []int64) (sum int64) {
	for _, n := range rows {
		sum += n
	}
	return sum
}

// pages reads the newest orders of all shards, and those before.
func (s *shop) pages(ctx context.Context) error {
	s.say("\nThe newest five orders of all shards, and the next five:\n\n")
	var page, next []Order
	if err := s.router.Latest(ctx, &page, 5); err != nil {
		return err
	}
	cursor := page[len(page)-1].ID
	// A row that is added meanwhile does not shift the pages.
	late := Order{CustomerID: s.customers[0].ID, Number: orders, Items: []Item{{}, {}}}
	if err := s.router.Create(ctx, &late); err != nil {
		return err
	}
	if err := s.router.Before(ctx, &next, cursor, 5); err != nil {
		return err
	}
	s.say("         order                  ID  shard\n")
	inOrder := len(page) == 5 && len(next) == 5
	for i, order := range append(page, next...) {
		s.say("  %4d  %6d  %18d  %5d\n", i+1, order.Number, order.ID, s.shardOf(order.ID))
		inOrder = inOrder && order.Number == orders-1-i
	}
	s.say("\n")
	s.check(inOrder, "no row is repeated or left out, although one was added in between")
	return nil
}

// customer reads what belongs to one customer. Rows that are keyed like the customer come from one shard,
// and the others come from all shards.
func (s *shop) customer(ctx context.Context) error {
	who := s.customers[7]
	ofWho := func(db *gorm.DB) *gorm.DB { return db.Where("customer_id = ?", who.ID) }
	s.say("\nWhat to key by what: orders are colocated with their customer, visits are anywhere.\n\n")

	db, err := s.router.DB(ctx, &Order{}, who.ID) // the shard of the customer
	if err != nil {
		return err
	}
	var mine []Order
	if err := db.Preload("Items").Where("customer_id = ?", who.ID).Find(&mine).Error; err != nil {
		return err
	}

	var came []Visit
	if err := s.router.Scopes(ofWho).Latest(ctx, &came, 100); err != nil { // all shards
		return err
	}

	items, seen := 0, map[int]bool{}
	for _, order := range mine {
		items += len(order.Items)
	}
	for _, visit := range came {
		seen[s.shardOf(visit.ID)] = true
	}
	table, err := s.router.Table(&Order{}, who.ID)
	if err != nil {
		return err
	}
	s.say("  %s: %d orders with %d items, all in %s and the items on the same shard\n",
		who.Name, len(mine), items, table)
	s.say("  %s: %d visits on %d shards, for which all %d were asked\n\n",
		who.Name, len(came), len(seen), shards)
	all, err := s.router.Scopes(ofWho).Count(ctx, &Order{})
	if err != nil {
		return err
	}
	s.check(all == int64(len(mine)) && all == orders/customers && items == 2*len(mine),
		"the one shard has all orders, and the others have none")
	s.check(len(came) == visits/customers && len(seen) > 1, "all shards together have all visits")
	return nil
}

// transactions moves gold within a shard, and then tries to move it across two shards.
func (s *shop) transactions(ctx context.Context) error {
	s.say("\nA transaction is on one shard:\n\n")
	who := s.customers[7]
	var colocated, away Customer
	for _, c := range s.customers {
		switch {
		case c.ID != who.ID && s.shardOf(c.ID) == s.shardOf(who.ID):
			colocated = c
		case s.shardOf(c.ID) != s.shardOf(who.ID):
			away = c
		}
	}
	err := s.give(ctx, who.ID, colocated.ID, 40)
	s.check(err == nil, "40 gold go from one customer of shard %d to another", s.shardOf(who.ID))
	err = s.give(ctx, who.ID, away.ID, 40)
	s.check(errors.Is(err, snowflakeplugin.ErrCrossShard),
		"40 gold do not go to one of shard %d:", s.shardOf(away.ID))
	s.say("       %v\n", err)
	var found []Customer
	if err := s.router.Find(ctx, &found, []snowflakeplugin.ID{who.ID, colocated.ID, away.ID}); err != nil {
		return err
	}
	s.check(found[0].Gold == 60 && found[1].Gold == 140 && found[2].Gold == 100,
		"they have %d, %d and %d: what was taken for the second was rolled back",
		found[0].Gold, found[1].Gold, found[2].Gold)
	return nil
}

// give takes gold from one customer and gives it to another, or does neither.
func (s *shop) give(ctx context.Context, from, to snowflakeplugin.ID, gold int64) error {
	return s.router.Transaction(ctx, from, func(tx *snowflakeplugin.ShardTx) error {
		if err := add(tx, from, -gold); err != nil {
			return err
		}
		return add(tx, to, gold)
	})
}

func add(tx *snowflakeplugin.ShardTx, id snowflakeplugin.ID, gold int64) error {
	customer, err := tx.DB(&Customer{}, id) // an error for one of another shard
	if err != nil {
		return err
	}
	return customer.Where("id = ?", id).Update("gold", gorm.Expr("gold + ?", gold)).Error
}

// resharding splits every shard in two while another goroutine reads.
func (s *shop) resharding(ctx context.Context) error {
	s.say("\nFrom %d shards to %d, while somebody reads:\n\n", shards, 2*shards)
	r := &reader{
		customers: s.customers, router: s.router, begun: make(chan struct{}), done: make(chan struct{}),
	}
	r.ended.Go(func() { r.read(ctx) })
	<-r.begun // so that there are reads by the old map, however slow the machine

	err := s.reshard(ctx)
	close(r.done)
	r.ended.Wait()
	if err != nil {
		return err
	}
	right, says := r.verdict()
	s.check(right, "%s", says)
	return nil
}

// reshard splits one shard after the other. All routers of all processes follow.
func (s *shop) reshard(ctx context.Context) error {
	if _, err := resharding.Resize(ctx, s.router, 2*shards); err != nil { // during normal operation
		return err
	}
	table, err := s.router.Table(&Customer{}, s.customers[0].ID)
	if err != nil {
		return err
	}
	s.say("  Resize   the rows of each shard are in two new tables, such as %s\n", table)
	if err := resharding.Clean(ctx, s.router); err != nil {
		return err
	}
	s.say("  Clean    the old tables are dropped\n\n")
	return nil
}

// wantPrices is the sum of the prices of all items.
const wantPrices = orders*(orders-1)/2 + orders

// checks examines all rows once more.
func (s *shop) checks(ctx context.Context) error {
	s.say("\nEverything once more:\n\n")
	for _, c := range []struct {
		name  string
		model any
		want  int64
	}{
		{"Customer", &Customer{}, customers}, {"Order", &Order{}, orders + 1}, {"Item", &Item{}, 2*orders + 2},
		{"Visit", &Visit{}, visits},
	} {
		rows, err := s.router.Distribution(ctx, c.model)
		if err != nil {
			return err
		}
		s.check(total(rows) == c.want && len(rows) == 2*shards, "%d of %d rows of %s, from %d to %d on a shard",
			total(rows), c.want, c.name, slices.Min(rows), slices.Max(rows))
	}
	var gold, prices int64
	if _, err := s.router.Aggregate(ctx, &Customer{}, "sum", "Gold", &gold); err != nil {
		return err
	}
	if _, err := s.router.Aggregate(ctx, &Item{}, "sum", "Price", &prices); err != nil {
		return err
	}
	s.check(gold == 100*customers && prices == wantPrices, "the sums are what they were: %d gold, prices of %d",
		gold, prices)
	var ids []snowflakeplugin.ID
	for _, c := range s.customers {
		ids = append(ids, c.ID)
	}
	var found []Customer
	err := s.router.Find(ctx, &found, ids)
	s.check(err == nil && len(found) == customers, "every customer is found by the ID")
	s.check(s.router.Check(ctx) == nil, "all tables have the columns and the indexes of their models")
	if len(s.faults) > 0 {
		return fmt.Errorf("%d checks failed: %s", len(s.faults), strings.Join(s.faults, "; "))
	}
	s.say("\nNothing was lost.\n")
	return nil
}
