package main

import (
	"context"
	"fmt"
)

// fill creates the rows.
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
