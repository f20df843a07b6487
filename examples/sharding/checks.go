package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

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
		s.check(total(rows) == c.want && len(rows) == s.shards, "%d of %d rows of %s, from %d to %d on a shard",
			total(rows), c.want, c.name, slices.Min(rows), slices.Max(rows))
	}
	if err := s.checkPlaces(ctx); err != nil {
		return err
	}
	var gold, prices int64
	if err := s.router.Sum(ctx, &Customer{}, "Gold", &gold); err != nil {
		return err
	}
	if err := s.router.Sum(ctx, &Item{}, "Price", &prices); err != nil {
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
	if s.faults > 0 {
		return fmt.Errorf("%d checks failed", s.faults)
	}
	s.say("\n%s\n", "Nothing was lost, and no table changed its name.")
	return nil
}

// checkPlaces searches every table for rows that belong to another shard. It uses its own SQL, so
// the router cannot hide any rows.
func (s *shop) checkPlaces(ctx context.Context) error {
	var apart atomic.Int64
	for _, model := range []any{&Customer{}, &Order{}, &Item{}, &Visit{}} {
		err := s.router.Each(ctx, model, func(shard int, tx *gorm.DB) error { // several at a time
			table, err := s.router.Table(model, snowflakeplugin.ID(s.shards+shard)) // as of any row there
			if err != nil {
				return err
			}
			var n int64
			err = tx.Raw("SELECT count(*) FROM "+table+" WHERE id % ? <> ?", s.shards, shard).Scan(&n).Error
			apart.Add(n)
			return err
		})
		if err != nil {
			return err
		}
	}
	s.check(apart.Load() == 0, "every row is where ID %% %d says", s.shards)
	return nil
}
