package main

import (
	"context"
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// resharding moves the rows to twice as many shards while another goroutine reads.
func (s *shop) resharding(ctx context.Context) error {
	s.shards = shards
	if s.drop != nil {
		_, err := s.router.Reshard(ctx, snowflakeplugin.ReshardConfig{})
		s.say("\nFrom %d shards to %d:\n\n", shards, 2*shards)
		s.check(errors.Is(err, snowflakeplugin.ErrSharding), "it is refused: the databases are of two kinds")
		return nil
	}
	s.shards = 2 * shards
	s.say("\nFrom %d shards to %d, while somebody reads:\n\n", shards, 2*shards)
	r := &reader{customers: s.customers, router: s.router, done: make(chan struct{})}
	r.ended.Go(func() { r.read(ctx) })

	err := s.reshard(ctx)
	close(r.done)
	r.ended.Wait()
	if err != nil {
		return err
	}
	s.check(r.wrong.Load() == nil && r.before.Load() > 0 && r.after.Load() > 0, "%s", r.verdict())
	return nil
}

// reshard runs all steps. Between them it writes, to show how Verify and Cutover handle late
// writes.
func (s *shop) reshard(ctx context.Context) error {
	router := s.router
	resharding, err := router.Reshard(ctx, snowflakeplugin.ReshardConfig{})
	if err != nil {
		return err
	}
	plan, err := resharding.Plan(ctx)
	if err != nil {
		return err
	}
	if err := s.sayPlan(ctx, plan); err != nil {
		return err
	}
	if err := resharding.Copy(ctx); err != nil { // during normal operation
		return err
	}
	s.say("  Copy     they are in the new tables, too\n")
	late, err := s.writeLate(ctx, resharding)
	if err != nil {
		return err
	}

	bigger, err := resharding.Cutover(ctx) // all routers of all processes follow
	if err != nil {
		return err
	}
	s.say("  Cutover  repaired the %d, compared every column, and goes by ID %% %d from now on\n",
		late, bigger.Shards())
	if err := resharding.Clean(ctx); err != nil { // during normal operation
		return err
	}
	s.say("  Clean    ended it: no table has rows of another shard\n\n")
	s.check(late == 2, "the copies of the two rows that were written late were noticed")
	return nil
}

// sayPlan prints how many rows will move.
func (s *shop) sayPlan(ctx context.Context, plan []snowflakeplugin.ReshardMove) error {
	var moving, all int64
	for _, move := range plan {
		moving += move.Rows
	}
	for _, model := range []any{&Customer{}, &Order{}, &Item{}, &Visit{}} {
		n, err := s.router.Count(ctx, model)
		if err != nil {
			return err
		}
		all += n
	}
	first := plan[0]
	s.say("  Plan     %d of %d rows go to %d new tables, the first from %s\n",
		moving, all, len(plan), first.FromTable)
	s.say("           to %s; the others stay\n", first.ToTable)
	return nil
}

// writeLate changes two rows that were already copied and returns how many copies are behind.
func (s *shop) writeLate(ctx context.Context, resharding *snowflakeplugin.Resharding) (int64, error) {
	var from, to snowflakeplugin.ID
	for _, c := range s.customers {
		switch shard := c.ID % (2 * shards); {
		case shard < shards: // it stays
		case from == 0:
			from = c.ID
		case shard == from%(2*shards):
			to = c.ID
		}
	}
	if err := s.give(ctx, from, to, 10); err != nil {
		return 0, err
	}
	err := resharding.Verify(ctx)
	var behind *snowflakeplugin.DifferenceError
	if !errors.As(err, &behind) {
		return 0, err
	}
	s.say("  Verify   10 gold have changed hands meanwhile, so %d copies are behind:\n", behind.Rows)
	for _, d := range behind.First {
		s.say("           %d in %s is %s\n", d.ID, d.Table, d.What)
	}
	return behind.Rows, nil
}
