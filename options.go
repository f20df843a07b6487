package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Option sets one property of a [Plugin]. A fault in an option surfaces in Initialize, and so in
// the error of db.Use.
type Option interface{ apply(*config) error }

// Source makes numbers for the plugin in place of its own generator. Fill sets every element of
// ids to a positive number that was never handed out before, or returns an error. It is called
// once for the rows of a statement and must be safe for concurrent use.
type Source interface {
	Fill(ctx context.Context, ids []int64) error
}

// config is what the options say.
type config struct {
	node   *int64
	layout *generator.Layout
	shards *int
	source Source
	logger *slog.Logger

	leased     bool        // the number given by hand is to be leased; one that is not, always is
	leaseStore lease.Store // nil: the database of the first Use
	leaseOpts  []lease.Option
}

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// WithNode gives the node number by hand, from 0 to the greatest node of the layout (1,023 unless
// WithLayout says otherwise), in place of one that is leased. At any time at most one plugin may
// use a number: two that share one make duplicates, in one process or in several, and neither can
// notice, unless WithLease is given as well.
func WithNode(n int64) Option {
	return optionFunc(func(c *config) error {
		c.node = &n
		return nil
	})
}

// WithLease says where node numbers are leased, and how: in s, or, if s is nil, in the database
// of the first db.Use, in the table snowflake_nodes. That database and no options are the default
// too, so the option is needed for another store, for options such as [lease.Span] and
// [lease.Nodes], and together with WithNode: then exactly that number is leased, which detects a
// second process that wants it, and holds even if the clock is set back between two processes.
// Processes that write to the same tables have to lease from the same store.
func WithLease(s lease.Store, opts ...lease.Option) Option {
	return optionFunc(func(c *config) error {
		c.leased, c.leaseStore, c.leaseOpts = true, s, opts
		return nil
	})
}

// WithLayout sets how IDs are packed. By default it is [generator.Default]. Changing the layout
// of a table that holds rows can repeat their IDs.
func WithLayout(l generator.Layout) Option {
	return optionFunc(func(c *config) error {
		if err := l.Validate(); err != nil {
			return err
		}
		c.layout = &l
		return nil
	})
}

// WithShards declares how many shards rows are spread over by the low bits of their IDs; see
// [generator.WithShards], whose default is the default here too.
func WithShards(n int) Option {
	return optionFunc(func(c *config) error {
		c.shards = &n
		return nil
	})
}

// WithSource takes the numbers from s. It excludes WithNode, WithLease, WithLayout and WithShards,
// which describe the plugin's own generator.
func WithSource(s Source) Option {
	return optionFunc(func(c *config) error {
		if s == nil {
			return errors.New("WithSource(nil): a source is needed")
		}
		c.source = s
		return nil
	})
}

// WithLogger sets where the plugin reports what an operator should know: which node it leased,
// that a lease cannot be extended, a layout whose time runs out. By default it is slog.Default()
// at the time of Initialize.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(c *config) error {
		if l == nil {
			return errors.New("WithLogger(nil): to silence the plugin use slog.New(slog.DiscardHandler)")
		}
		c.logger = l
		return nil
	})
}

// configure applies the options and reports all faults at once.
func configure(opts []Option) (config, error) {
	var c config
	var faults []error
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, fmt.Errorf("option %d is nil", i))
			continue
		}
		faults = append(faults, opt.apply(&c))
	}
	if c.source != nil && (c.node != nil || c.leased || c.layout != nil || c.shards != nil) {
		faults = append(faults, errors.New("WithSource excludes WithNode, WithLease, WithLayout and WithShards"))
	}
	if err := errors.Join(faults...); err != nil {
		return c, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return c, nil
}

// layoutOrDefault is the layout of the plugin's own generator.
func (c config) layoutOrDefault() generator.Layout {
	if c.layout == nil {
		return generator.Default()
	}
	return *c.layout
}
