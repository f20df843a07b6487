package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// pluginName is the name under which GORM knows the plugin, and the prefix of its callbacks.
const pluginName = "snowflake"

// yearsOfWarning is how long before the end of its layout the plugin begins to say so.
const yearsOfWarning = 5

// Plugin fills the fields tagged snowflake:"true" of every row that GORM creates. Make one with
// [New], pass it to db.Use, and share it: one plugin may serve several *gorm.DB, and all their
// rows then have IDs of one series. It must not be copied. Its methods are safe for concurrent
// use, except that db.Use itself belongs to start-up.
type Plugin struct {
	config    config
	configErr error
	plans     planCache
	closed    atomic.Bool

	mu        sync.Mutex
	generator *generator.Generator // guarded by mu until set, then immutable
}

var _ gorm.Plugin = (*Plugin)(nil)

// New returns a plugin. It does nothing yet and cannot fail: faults in the options surface in
// Initialize, that is, in the error of db.Use.
func New(opts ...Option) *Plugin {
	p := &Plugin{}
	p.config, p.configErr = configure(opts)
	p.plans.digits = maxDigits
	if p.configErr == nil && p.config.source == nil {
		p.plans.digits = digitsOf(p.config.layoutOrDefault())
	}
	return p
}

// Name returns "snowflake", the name under which GORM registers the plugin.
func (p *Plugin) Name() string { return pluginName }

// Initialize puts the plugin to work on db. GORM calls it from db.Use; calling it again on the
// same database does nothing. The application may hang callbacks of its own beside the plugin's,
// once it is in use: Before("snowflake:fill") runs before the IDs are there, and
// After("snowflake:fill").Before("gorm:create") with them.
//
// It returns an error wrapping [ErrOptions], [ErrNoNode] or [ErrCallbacks]. After an error no ID
// is ever filled on db; so that this cannot go unnoticed, creates that need one are refused with
// [ErrNotInUse] from then on.
func (p *Plugin) Initialize(db *gorm.DB) error {
	numbers, err := p.numbers()
	if err == nil {
		err = p.register(db, numbers)
	}
	if err != nil {
		p.guard(db, err)
		return err
	}
	p.warnOfEnd()
	return nil
}

// NextID returns a new ID of the same series that the rows get, for uses beside GORM, or to know
// the ID of a row before it is created. It returns the errors of [generator.Generator.Next],
// [ErrClosed], and those of Initialize about options.
func (p *Plugin) NextID(ctx context.Context) (ID, error) {
	numbers, err := p.numbers()
	if err != nil {
		return 0, err
	}
	id, err := numbers.next(ctx)
	return ID(id), err
}

// Prepare makes ready for the plugin what has to be known before the first create: call it after
// db.Use and before db.AutoMigrate, with every model. It checks every tagged field, and it tells
// GORM that tagged integer keys are plain columns: GORM takes a plain int64 primary key for an
// auto-increment one, gives it such a column and reads it back after every INSERT. Models whose
// keys are of type [ID] need no Prepare; they are plain columns by themselves. A model used
// without Prepare is prepared by its first create, which is too late for AutoMigrate only.
//
// It returns an error wrapping [ErrInvalidField] that lists the faults of all models, or what
// GORM says of a model that it cannot parse.
func (p *Plugin) Prepare(db *gorm.DB, models ...any) error {
	if p.configErr != nil {
		return p.configErr
	}
	var faults []error
	for _, model := range models {
		stmt := &gorm.Statement{DB: db}
		if err := stmt.Parse(model); err != nil {
			faults = append(faults, fmt.Errorf("snowflakeplugin: prepare %T: %w", model, err))
			continue
		}
		_, err := p.plans.prepare(stmt.Schema)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Close ends the plugin: from then on whatever needs an ID fails with [ErrClosed]. Creates that
// already have theirs go on. It may be called more than once.
func (p *Plugin) Close(ctx context.Context) error {
	p.closed.Store(true)
	return ctx.Err()
}

// Stats returns what the plugin's generator has done so far. It is the zero Stats before the
// first use, and with WithSource.
func (p *Plugin) Stats() generator.Stats {
	p.mu.Lock()
	g := p.generator
	p.mu.Unlock()
	if g == nil {
		return generator.Stats{}
	}
	return g.Stats()
}

// numbers returns where IDs come from, building the generator on first use.
func (p *Plugin) numbers() (*numbers, error) {
	switch {
	case p.configErr != nil:
		return nil, p.configErr
	case p.config.source != nil:
		return &numbers{source: p.config.source, closed: &p.closed}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generator == nil {
		g, err := p.config.newGenerator()
		if err != nil {
			return nil, err
		}
		p.generator = g
	}
	return &numbers{source: p.generator, generator: p.generator, closed: &p.closed}, nil
}

// warnOfEnd says in good time that the layout comes to its end.
func (p *Plugin) warnOfEnd() {
	stats := p.Stats()
	if stats.End.IsZero() || stats.YearsLeft > yearsOfWarning {
		return
	}
	logger := p.config.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Warn("snowflakeplugin: the time bits of the layout are nearly used up; plan a layout with more",
		"layout", p.config.layoutOrDefault().Name, "end", stats.End, "years_left", stats.YearsLeft)
}
