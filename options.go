package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"reflect"
	"slices"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// Option sets one property of a [Plugin]. A fault in an option surfaces in Initialize, and so in
// the error of db.Use.
type Option func(*config) error

// Source makes numbers for the plugin in place of its own generator. The plugin calls Fill once for
// all rows of a statement. Fill sets every element of ids to a positive number that it has never
// handed out before, or it returns an error, which the create then returns. It must be safe for
// concurrent use.
type Source interface {
	Fill(ctx context.Context, ids []int64) error
}

var _ fill.Source = Source(nil)

// config is what the options say.
type config struct {
	named map[string]fill.Source // of WithNumbers

	byHand     *int64 // the number of WithNode
	leasedNode *int64 // the number of WithLeasedNode
	layout     *generator.Layout
	shards     *int
	source     Source
	logger     *slog.Logger
	bare       bool // WithoutDialector was given

	ownSchemas []string // the patterns of WithOwnSchemas

	models      map[reflect.Type]bool // of WithModels
	jsonNumbers bool                  // WithJSONNumbers was given

	leased     bool        // WithLease was given
	leaseStore lease.Store // nil: the database of the first Use
	leaseOpts  []lease.Option
}

// WithNode sets the node number by hand, in place of one that is leased. It is from 0 to the greatest
// node of the layout, which is 1,023 by default. You must then make sure that at any time at most one
// plugin uses the number: two plugins with one number make duplicates, in one process or in several,
// and neither of them can notice. [WithLeasedNode] has no such risk. A database where processes lease
// their numbers refuses such a number with [ErrAuthority], and the other way round. WithNode excludes
// WithLeasedNode and WithLease. The page docs/leases.md has a table of all ways to a number.
func WithNode(n int64) Option {
	return errs.Set(func(c *config) { c.byHand = &n })
}

// WithLeasedNode leases exactly this node number, from the database of the first db.Use or from the
// store of [WithLease]. It is from 0 to the greatest node of the layout, which is 1,023 by default.
// If another process holds the number, Initialize waits for the end of that process's last window,
// at most one span, and fails with lease.ErrNodeHeld if the process goes on. IDs do not repeat even
// if the clock is set back between two processes that use the number one after the other.
func WithLeasedNode(n int64) Option {
	return errs.Set(func(c *config) { c.leasedNode = &n })
}

// WithLease sets where node numbers are leased, and how: in s, or, if s is nil, in the database
// of the first db.Use, in the table snowflake_nodes. By default they are leased in that database
// without further options. So the option is needed for another store, and for options such as
// [lease.WithSpan] and [lease.WithNodes]. Processes that write to the same tables have to lease from
// the same store, or db.Use refuses them with [ErrAuthority]; but two stores that do not implement
// [lease.Identifier] are not told apart.
func WithLease(s lease.Store, opts ...lease.Option) Option {
	return errs.Set(func(c *config) { c.leased, c.leaseStore, c.leaseOpts = true, s, opts })
}

// WithOwnSchemas names schemas, on MySQL databases, which no other leases and no numbers by hand ever fill.
// By default the plugin notes where the IDs come from in each schema that gets rows and is not that of the
// leases, in a table snowflake_authority. In these schemas it notes and checks nothing: that is up to you.
// The patterns are those of [path.Match], such as "tenant_*". The option may be given several times.
func WithOwnSchemas(patterns ...string) Option {
	return func(c *config) error {
		for _, pattern := range patterns {
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("WithOwnSchemas(%q): %w", pattern, err)
			}
		}
		c.ownSchemas = append(c.ownSchemas, patterns...)
		return nil
	}
}

// WithLayout sets how IDs are packed. By default it is [generator.Default]. A table that holds rows
// must keep its layout, because IDs of another layout can repeat theirs.
func WithLayout(l generator.Layout) Option {
	return errs.Set(func(c *config) { c.layout = &l })
}

// WithShards sets over how many shards rows are spread by the low bits of their IDs. See
// [generator.WithShards] for its range and its default, which is a sixteenth of the sequence: 256
// with the default layout.
func WithShards(n int) Option {
	return errs.Set(func(c *config) { c.shards = &n })
}

// WithSource takes the numbers from s. The plugin knows nothing of them, so it notes no authority of keys in
// the database and accepts any: that no other process makes the same numbers is up to s. WithSource excludes
// WithNode, WithLeasedNode, WithLease, WithLayout and WithShards, which describe the plugin's own generator.
func WithSource(s Source) Option {
	return func(c *config) error {
		if s == nil {
			return errors.New("WithSource(nil): a source is needed")
		}
		c.source = s
		return nil
	}
}

// WithNumbers names a source of numbers. Fields with the tag snowflake:"from:NAME" get theirs from it, for
// example readable invoice numbers beside the plugin's own IDs. The option may be given for any number of
// names. A *generator.Generator is a source, too, and so are those of package segment.
//
// All sources of a create are asked before anything is written, once a statement for each. A source with a
// method Text(number int64) string says how its numbers look in fields of kind string. The fields may be
// integers of any size: a number that does not fit is an error before anything is written. The plugin does
// not close the source.
//
// A source with a method Refused(number int64) is told when a unique index has refused a row because somebody
// else's row has this number, which the source had just given: its numbers may repeat. The method must not
// wait. A source of package segment then gives up the numbers that it holds, and so learns at once whether
// its counter went back. This goes for the source of [WithSource] as well.
//
// Before a column gets its first number, the plugin notes in the table snowflake_authority which store of
// counters the numbers of this column come from. It refuses another store with [ErrAuthority], unless both
// have remainders of their own. In a column that is the primary key, or has a unique index by itself, it
// refuses another counter of the same store as well. A source that is not of package segment is noted as one
// that nobody knows. Two sources that use one counter of one store in different ways are refused with
// [ErrOptions].
func WithNumbers(name string, source Source) Option {
	return func(c *config) error {
		switch {
		case name == "":
			return errors.New("WithNumbers(\"\"): a name is needed")
		case source == nil:
			return fmt.Errorf("WithNumbers(%q, nil): a source is needed", name)
		case c.named[name] != nil:
			return fmt.Errorf("WithNumbers(%q): the name is given twice", name)
		}
		if c.named == nil {
			c.named = make(map[string]fill.Source)
		}
		c.named[name] = source
		return nil
	}
}

// WithModels has the primary keys of models filled that have no tag: of models of libraries, and of all
// models that embed gorm.Model if that is named. They are structs, or pointers to them. A tag still decides
// where there is one, so snowflake:"false" leaves a model out. The plugin treats such a key as it treats a
// tagged one, but nothing refuses its zeros in a database that does not use the plugin. A key of several
// fields is refused with [ErrInvalidField]: tag the one that is to be filled. The option may be given
// several times.
func WithModels(models ...any) Option {
	return func(c *config) error {
		for _, model := range models {
			t := reflect.TypeOf(model)
			for t != nil && t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			if t == nil || t.Kind() != reflect.Struct {
				return fmt.Errorf("WithModels(%T): a model is a struct", model)
			}
			if c.models == nil {
				c.models = map[reflect.Type]bool{}
			}
			c.models[t] = true
		}
		return nil
	}
}

// WithJSONNumbers says that the readers of your JSON keep all 63 bits of a number, or never get the keys.
// Then the plugin does not warn of keys that JSON writes as numbers. By default it does, once for each model:
// at Prepare or at the first create, if the key has an integer type such as uint or int64 in place of [ID],
// and the layout has more than 53 bits. JavaScript and many others round such a number, often to the key of
// another row.
func WithJSONNumbers() Option {
	return errs.Set(func(c *config) { c.jsonNumbers = true })
}

// WithLogger sets where the plugin reports what an operator should know: which node it leased,
// that a lease cannot be extended, and that the time of a layout runs out. By default it reports only what
// somebody must know, as warnings and errors: in the logger of the *gorm.DB on which db.Use was called first,
// or in slog.Default() before that.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error {
		if l == nil {
			return errors.New("WithLogger(nil): to silence the plugin use slog.New(slog.DiscardHandler)")
		}
		c.logger = l
		return nil
	}
}

// WithoutDialector leaves db.Dialector as the driver has made it. By default db.Use puts a dialector around
// it, by which db.AutoMigrate, and db.Migrator, make plain columns of tagged keys. It passes everything else
// on, and has a method Unwrap() gorm.Dialector that returns the driver's, as its migrators have one that
// returns a gorm.Migrator. The option is for programs and libraries that look at the type of db.Dialector or
// of db.Migrator(), such as gorm.io/datatypes on MySQL and MariaDB. They make their tables with
// [Plugin.AutoMigrate], or without AutoMigrate.
func WithoutDialector() Option {
	return errs.Set(func(c *config) { c.bare = true })
}

// isOwnSchema reports whether nothing is noted in a schema, as WithOwnSchemas says.
func (c *config) isOwnSchema(schema string) bool {
	return schema != "" && slices.ContainsFunc(c.ownSchemas, func(pattern string) bool {
		matched, err := path.Match(pattern, schema)
		return matched && err == nil
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
		faults = append(faults, opt(&c))
	}
	own := c.layout != nil || c.shards != nil || c.leased || c.byHand != nil || c.leasedNode != nil
	if c.source != nil && own {
		faults = append(faults, errors.New("WithSource excludes WithNode, WithLeasedNode, WithLease, "+
			"WithLayout and WithShards"))
	}
	switch {
	case c.byHand != nil && c.leasedNode != nil:
		faults = append(faults, errors.New("WithNode excludes WithLeasedNode: leave WithNode out"))
	case c.byHand != nil && c.leased:
		faults = append(faults, errors.New("WithNode excludes WithLease: use WithLeasedNode to lease the number"))
	}
	faults = append(faults, c.checkGenerator(), checkKinds(c.named))
	if err := errors.Join(faults...); err != nil {
		return c, fmt.Errorf("%w: %w", errs.ErrOptions, err)
	}
	return c, nil
}

// checkGenerator reports every option of the generator that its layout does not allow.
func (c config) checkGenerator() error {
	layout := c.layoutOrDefault()
	if err := layout.Validate(); err != nil {
		if c.shards != nil && *c.shards < 1 {
			err = errors.Join(err, fmt.Errorf("WithShards(%d): the least number is 1", *c.shards))
		}
		return err
	}
	var faults []error
	// The clock may be outside of the layout's life. That is no fault of an option.
	_, err := generator.New(layout, generator.FixedNode(0), c.generatorOptions()...)
	if errors.Is(err, generator.ErrInvalidOption) {
		faults = append(faults, err)
	}
	for _, number := range []*int64{c.byHand, c.leasedNode} {
		if number == nil {
			continue
		}
		if _, err := generator.New(layout, generator.FixedNode(*number)); errors.Is(err, generator.ErrNodeRange) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// generatorOptions are the options of the plugin's own generator.
func (c config) generatorOptions() []generator.Option {
	if c.shards == nil {
		return nil
	}
	return []generator.Option{generator.WithShards(*c.shards)}
}

// layoutOrDefault is the layout of the plugin's own generator.
func (c config) layoutOrDefault() generator.Layout {
	if c.layout == nil {
		return generator.Default()
	}
	return *c.layout
}

// checkKinds returns an error if two named sources of package segment have one counter of one store, and use
// it in different ways: each claim of one would be refused, or those of the other. Stores that are opened
// twice are only told apart by the claims.
func checkKinds(named map[string]fill.Source) error {
	type counter struct {
		store any
		name  string
	}
	type use struct{ kind, source string }
	uses := make(map[counter]use)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		counted, ok := named[name].(interface{ Counters() []segment.Origin })
		if !ok {
			continue
		}
		for _, o := range counted.Counters() {
			if !reflect.ValueOf(o.Store).Comparable() {
				continue
			}
			used := counter{o.Store, o.Counter}
			if other, taken := uses[used]; taken && other.kind != o.Kind {
				return fmt.Errorf("WithNumbers(%q) and WithNumbers(%q): both have the counter %q of one store, one "+
					"as a counter of the kind %q and the other of the kind %q: give one of them another name",
					other.source, name, o.Counter, other.kind, o.Kind)
			}
			uses[used] = use{o.Kind, name}
		}
	}
	return nil
}
