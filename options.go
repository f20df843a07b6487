package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
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
}

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// WithNode gives the node number by hand, from 0 to the greatest node of the layout (1,023 unless
// WithLayout says otherwise). At any time at most one plugin may use a number: two that share one
// make duplicates, in one process or in several, and neither can notice.
func WithNode(n int64) Option {
	return optionFunc(func(c *config) error {
		c.node = &n
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

// WithSource takes the numbers from s. It excludes WithNode, WithLayout and WithShards, which
// describe the plugin's own generator.
func WithSource(s Source) Option {
	return optionFunc(func(c *config) error {
		if s == nil {
			return errors.New("WithSource(nil): a source is needed")
		}
		c.source = s
		return nil
	})
}

// WithLogger sets where the plugin reports what an operator should know, such as a layout whose
// time runs out. By default it is slog.Default() at the time of Initialize.
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
	if c.source != nil && (c.node != nil || c.layout != nil || c.shards != nil) {
		faults = append(faults, errors.New("WithSource excludes WithNode, WithLayout and WithShards"))
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

// newGenerator builds the generator that the options describe.
func (c config) newGenerator() (*generator.Generator, error) {
	layout := c.layoutOrDefault()
	if c.node == nil {
		return nil, fmt.Errorf("%w: pass snowflakeplugin.WithNode(n) with a number from 0 to %d that "+
			"no other running process uses, or bring your own numbers with WithSource",
			ErrNoNode, layout.MaxNode())
	}
	var opts []generator.Option
	if c.shards != nil {
		opts = append(opts, generator.WithShards(*c.shards))
	}
	g, err := generator.New(layout, generator.Node(*c.node), opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return g, nil
}
