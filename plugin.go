package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

	// turn is held by whoever gets a node or gives it back, which may take long.
	turn chan struct{}
	node atomic.Pointer[node]
}

var _ gorm.Plugin = (*Plugin)(nil)

// New returns a plugin. It does nothing yet and cannot fail: faults in the options surface in
// Initialize, that is, in the error of db.Use.
func New(opts ...Option) *Plugin {
	p := &Plugin{turn: make(chan struct{}, 1)}
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
// same database does nothing. The first call gets the node number: unless WithNode gives it, it is
// leased, which takes a few requests to the store. They end with the context of db, and by
// themselves after half a minute. The application may hang callbacks of its own beside the plugin's,
// once it is in use: Before("snowflake:fill") runs before the IDs are there, and
// After("snowflake:fill").Before("gorm:create") with them.
//
// It returns an error wrapping [ErrOptions], [ErrCallbacks], [ErrClosed], or [ErrNoNode] when no
// number could be leased; that wraps the error of package lease or gormlease, which says why and
// what to do. After an error no ID is filled on db until Use succeeds; so that this cannot go
// unnoticed, creates that need one are refused with [ErrNotInUse] until then.
func (p *Plugin) Initialize(db *gorm.DB) error {
	numbers, err := p.numbers(db.Statement.Context, db)
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
// the ID of a row before it is created. Before the first db.Use it works if the options say where
// the node number comes from. It returns the errors of [generator.Generator.Next], [ErrClosed], and
// those of Initialize about options and the node.
func (p *Plugin) NextID(ctx context.Context) (ID, error) {
	numbers, err := p.numbers(ctx, nil)
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
// already have theirs go on. Then it gives a leased node number back, so that another process can
// have it at once. Call it when the last create is done, before the database is closed; a process
// that ends without it leaves its number taken for the rest of the window, at most a span.
//
// It returns an error wrapping lease.ErrStore when the number could not be given back, and may be
// called again then. After it has succeeded it does nothing.
func (p *Plugin) Close(ctx context.Context) error {
	p.closed.Store(true)
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ended(ctx)
	}
	if n := p.node.Load(); n != nil {
		return n.close(ctx)
	}
	return nil
}

// Stats returns what the plugin's generator has done so far, and where its lease stands. It is the
// zero Stats before the first use, and with WithSource.
func (p *Plugin) Stats() generator.Stats {
	if n := p.node.Load(); n != nil {
		return n.generator.Stats()
	}
	return generator.Stats{}
}

// numbers returns where IDs come from, getting a node on first use: from db, or without one if db
// is nil.
func (p *Plugin) numbers(ctx context.Context, db *gorm.DB) (*numbers, error) {
	switch {
	case p.configErr != nil:
		return nil, p.configErr
	case p.config.source != nil:
		return &numbers{source: p.config.source, closed: &p.closed}, nil
	}
	n := p.node.Load()
	if n == nil {
		var err error
		if n, err = p.firstNode(ctx, db); err != nil {
			return nil, err
		}
	}
	return &numbers{source: n.generator, generator: n.generator, closed: &p.closed}, nil
}

// firstNode gets the node, if nobody else has meanwhile.
func (p *Plugin) firstNode(ctx context.Context, db *gorm.DB) (*node, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	if n := p.node.Load(); n != nil {
		return n, nil
	}
	if p.closed.Load() {
		return nil, ErrClosed
	}
	n, err := p.config.newNode(ctx, db)
	if err != nil {
		return nil, err
	}
	p.node.Store(&n)
	return &n, nil
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
