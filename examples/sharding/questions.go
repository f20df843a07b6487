package main

import (
	"context"
	"slices"
	"strings"

	"gorm.io/gorm"
)

// spread shows how many rows each shard has.
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

// total is the sum of the rows of all shards.
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

	items, on := 0, map[int]bool{}
	for _, order := range mine {
		items += len(order.Items)
	}
	for _, visit := range came {
		on[s.shardOf(visit.ID)] = true
	}
	table, err := s.router.Table(&Order{}, who.ID)
	if err != nil {
		return err
	}
	s.say("  %s: %d orders with %d items, all in %s and the items on the same shard\n",
		who.Name, len(mine), items, table)
	s.say("  %s: %d visits on %d shards, for which all %d were asked\n\n", who.Name, len(came), len(on), shards)
	all, err := s.router.Scopes(ofWho).Count(ctx, &Order{})
	if err != nil {
		return err
	}
	s.check(all == int64(len(mine)) && all == orders/customers && items == 2*len(mine),
		"the one shard has all orders, and the others have none")
	s.check(len(came) == visits/customers && len(on) > 1, "all shards together have all visits")
	return nil
}
