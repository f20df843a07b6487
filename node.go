package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
)

// node is what the plugin's own generator stands on. The zero node has none yet.
type node struct {
	generator *generator.Generator
	keeper    *lease.Keeper    // nil for a number given by hand
	store     *gormlease.Store // nil unless the plugin opened it
}

// newNode gets a node number and builds the generator. db is nil where none is known yet.
func (c config) newNode(ctx context.Context, db *gorm.DB) (node, error) {
	layout := c.layoutOrDefault()
	var opts []generator.Option
	if c.shards != nil {
		opts = append(opts, generator.WithShards(*c.shards))
	}
	if c.node != nil {
		// What is wrong with it does not depend on who else has it, so it is said before anybody is
		// asked.
		g, err := generator.New(layout, generator.Node(*c.node), opts...)
		if err != nil {
			return node{}, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		if !c.leased {
			return node{generator: g}, nil
		}
	}
	return c.leaseNode(ctx, db, layout, opts)
}

// leaseNode is newNode for a number that is leased.
func (c config) leaseNode(
	ctx context.Context, db *gorm.DB, layout generator.Layout, opts []generator.Option,
) (n node, err error) {
	store := c.leaseStore
	if store == nil {
		if db == nil {
			return node{}, fmt.Errorf("%w yet: it is leased from the database of db.Use, so call that first, or "+
				"pass WithNode, WithLease with a store, or WithSource", ErrNoNode)
		}
		n.store, err = gormlease.New(db) //nolint:contextcheck // it waits under the context of db
		if err != nil {
			return node{}, unleased(err)
		}
		store = n.store
	}
	leaseOpts := c.leaseOpts
	if c.node != nil {
		leaseOpts = append(leaseOpts[:len(leaseOpts):len(leaseOpts)], lease.Nodes(*c.node, *c.node))
	}
	if c.logger != nil {
		leaseOpts = append([]lease.Option{lease.Logger(c.logger)}, leaseOpts...)
	}
	if n.keeper, err = lease.Acquire(ctx, store, layout, leaseOpts...); err != nil {
		return node{}, errors.Join(unleased(err), n.closeStore())
	}
	if n.generator, err = generator.New(layout, n.keeper, opts...); err != nil {
		return node{}, errors.Join(fmt.Errorf("%w: %w", ErrOptions, err), n.close(ctx))
	}
	return n, nil
}

// unleased is the error when there is no lease: of the options, or of the store.
func unleased(err error) error {
	if errors.Is(err, lease.ErrInvalidOption) {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return fmt.Errorf("%w could be leased: %w", ErrNoNode, err)
}

// close gives the number back.
func (n node) close(ctx context.Context) error {
	if n.keeper != nil {
		if err := n.keeper.Close(ctx); err != nil {
			return err
		}
	}
	return n.closeStore()
}

func (n node) closeStore() error {
	if n.store == nil {
		return nil
	}
	return n.store.Close()
}
