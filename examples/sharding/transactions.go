package main

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

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
