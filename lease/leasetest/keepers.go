package leasetest

import (
	"context"
	"log/slog"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Keepers that must not interfere with a clause have long spans. Keepers whose extension or end the
// clause waits for have short spans.
const (
	long  = time.Minute
	short = time.Second
)

func layout() generator.Layout { return generator.Default() }

// acquire returns a keeper that is closed after the clause, or the error of [lease.Acquire].
func (p *probe) acquire(s lease.Store, l generator.Layout, opts ...lease.Option) (*lease.Keeper, error) {
	quiet := lease.WithLogger(slog.New(slog.DiscardHandler))
	k, err := lease.Acquire(p.ctx, s, l, append([]lease.Option{quiet}, opts...)...)
	if err != nil {
		return nil, err
	}
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 10*time.Second)
		defer cancel()
		_ = k.Close(ctx) // a node that is not given back disappears with the storage
	})
	return k, nil
}

func (p *probe) keeper(s lease.Store, opts ...lease.Option) *lease.Keeper {
	p.t.Helper()
	k, err := p.acquire(s, layout(), opts...)
	p.must("no node was acquired", err)
	return k
}

func (p *probe) generator(k *lease.Keeper) *generator.Generator {
	p.t.Helper()
	g, err := generator.New(layout(), k)
	if err != nil {
		p.failf("there is no generator for node %d: %v", k.Window().Node, err)
	}
	return g
}

func (p *probe) next(g *generator.Generator) (int64, generator.Parts) {
	p.t.Helper()
	id, err := g.Next(p.ctx)
	p.must("no ID", err)
	parts, err := layout().Decompose(id)
	p.must("the ID", err)
	return id, parts
}

// steal gives the record of a node to another owner, as if somebody had changed it by hand.
func (p *probe) steal(s lease.Store, node int64) lease.Record {
	p.t.Helper()
	for {
		prev := p.find(s, node)
		next := following(prev, "thief")
		next.Until = p.now(s).Add(time.Hour)
		ok, err := s.Swap(p.ctx, prev, next)
		p.must(describe(prev, next), err)
		if ok {
			return next
		}
	}
}
