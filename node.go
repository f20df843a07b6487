package snowflakeplugin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
)

// node is what the plugin's own generator needs. The zero node has nothing yet.
type node struct {
	generator *generator.Generator
	keeper    *lease.Keeper    // nil for a number given by hand
	store     *gormlease.Store // nil unless the plugin opened it
	leases    lease.Store      // where the number is leased; nil for a number given by hand
	origin    authority.Origin
	config    config
	// home is the database of the first Use, where it is known which schema that leads to, and schemas those of
	// it that have their notes, if it does not have to be looked at again. They are not written once there is a
	// generator, because from then on several Use may have the node.
	home    authority.Database
	schemas []string
	// end ends the look for the end of the pool, when nothing is left to be given back.
	end   context.CancelFunc
	ended context.Context // is over: see isHomeless
}

// lookForEnd is how often a node looks whether the pool is still open whose database has its leases.
const lookForEnd = time.Second

// start gives the node up when its pool was closed: an application, or a test, that closes its database and
// leaves the plugin as it is must not leave a connection behind.
func (n *node) start() {
	if n.store == nil {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	n.end = end
	ended, over := context.WithCancel(ctx)
	over()
	n.ended = ended
	go func() {
		ticker := time.NewTicker(lookForEnd)
		defer ticker.Stop()
		for !n.isHomeless() {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
		// Somebody else may close the node at the same time, which ends ctx, and not what is under way here.
		n.giveUp(context.WithoutCancel(ctx))
	}()
}

// isHomeless reports whether the application has closed the pool of the database where the number is leased.
func (n *node) isHomeless() bool {
	pool, _ := n.home.Pool.(*sql.DB)
	if n.store == nil || pool == nil {
		return false
	}
	// Of a pool that is open database/sql says that there was no time. It asks no server.
	return !errors.Is(pool.PingContext(n.ended), context.Canceled)
}

// giveUp closes a node whose pool was closed. What cannot be given back falls free by itself.
func (n *node) giveUp(ctx context.Context) {
	if n.close(ctx) != nil {
		_ = n.closeStore()
	}
}

// replace gives the node up for one of another database. The leases there know nothing of its number, so it
// waits until the clock has passed the last ID, and none is made again.
func (n *node) replace(ctx context.Context) error {
	n.giveUp(ctx)
	if attempt.Sleep(ctx, n.generator.Stats().Lead+n.config.layoutOrDefault().Tick) != nil {
		return errs.Ended(ctx)
	}
	return nil
}

// whyClosed is the error of whoever needs an ID of a node whose database was closed. It returns nil if that
// is not the reason.
func (n *node) whyClosed() error {
	if !n.isHomeless() {
		return nil
	}
	return fmt.Errorf("%w: the pool was closed of the database on which db.Use was called first, so the lease "+
		"of the node number there has ended: keep that database open as long as others use the plugin, give "+
		"each database a plugin of its own, or lease elsewhere (WithLease); db.Use on a further database "+
		"leases from that", errs.ErrClosed)
}

// health is that of a plugin with a generator of its own.
func (n *node) health() Health {
	if n.keeper == nil {
		return Health{State: stateByHand, Ready: true, Node: n.generator.Stats().Node}
	}
	s := n.keeper.Status()
	h := Health{
		State: stateLeased, Ready: true, Node: s.Window.Node, Owner: s.Owner,
		WindowFrom: s.Window.From.UTC(), WindowUntil: s.Window.Until.UTC(),
		LastError: s.Failure, FailingSince: s.FailingSince,
	}
	switch {
	case s.Closed:
		h.State, h.Ready, h.LastError = stateClosed, false, n.whyClosed()
	case s.Window.Until.IsZero():
		h.State, h.Ready = stateLost, false
	case s.Overdue:
		h.State, h.Ready = stateOverdue, false
	}
	return h
}

// newNode gets a node number and builds the generator. The configuration has a logger. db is nil where no
// database is known yet; otherwise it notes first where its IDs come from, so that no number is leased for a
// database that has another authority.
func newNode(ctx context.Context, c config, db *gorm.DB) (node, error) {
	if c.byHand == nil {
		return leaseNode(ctx, c, db)
	}
	n := node{origin: authority.ByHand(lease.Fingerprint(c.layoutOrDefault())), config: c}
	if _, err := n.noteHandle(ctx, db); err != nil && !errors.Is(err, authority.ErrReadOnly) {
		return node{}, err
	}
	var err error
	tenure := generator.FixedNode(*c.byHand)
	n.generator, err = generator.New(c.layoutOrDefault(), tenure, c.generatorOptions()...)
	if err != nil {
		return node{}, fmt.Errorf("%w: %w", errs.ErrOptions, err)
	}
	return n, nil
}

// leaseNode is newNode for a number that is leased.
func leaseNode(ctx context.Context, c config, db *gorm.DB) (n node, err error) {
	layout := c.layoutOrDefault()
	if n, err = openLeases(ctx, c, db); err != nil {
		return node{}, err
	}
	if _, err := n.noteHandle(ctx, db); err != nil && !errors.Is(err, authority.ErrReadOnly) {
		return node{}, errors.Join(err, n.closeStore())
	}
	leaseOpts := append([]lease.Option{lease.WithLogger(c.logger)}, c.leaseOpts...)
	if c.leasedNode != nil {
		leaseOpts = append(leaseOpts, lease.WithNodes(*c.leasedNode, *c.leasedNode))
	}
	if n.keeper, err = lease.Acquire(ctx, n.leases, layout, leaseOpts...); err != nil {
		return node{}, errors.Join(unleased(err), n.closeStore())
	}
	if n.generator, err = generator.New(layout, n.keeper, c.generatorOptions()...); err != nil {
		return node{}, errors.Join(fmt.Errorf("%w: %w", errs.ErrOptions, err), n.close(ctx))
	}
	return n, nil
}

// openLeases returns a node that has the store of the leases and its identity, and no number yet.
func openLeases(ctx context.Context, c config, db *gorm.DB) (n node, err error) {
	n.leases, n.config = c.leaseStore, c
	if n.leases == nil {
		if db == nil {
			return node{}, fmt.Errorf("%w yet: it is leased from the database of db.Use, so call that first, or "+
				"pass WithNode, WithLease with a store, or WithSource", errs.ErrNoNode)
		}
		if n.home, err = databaseOf(db).Locate(ctx); err != nil {
			return node{}, err
		}
		if err := n.home.CheckOwn(ctx); err != nil {
			return node{}, err
		}
		n.store, err = gormlease.New(db)
		if err != nil {
			return node{}, unleased(err)
		}
		n.leases = n.store
	}
	if n.origin, err = authority.Leased(ctx, n.leases); err != nil {
		return node{}, errors.Join(unleased(err), n.closeStore())
	}
	return n, nil
}

// noteHandle notes on the database of a handle that its IDs come from where the node comes from, or returns
// an error wrapping ErrAuthority if they come from somewhere else. It returns the schemas that have the note.
func (n *node) noteHandle(ctx context.Context, db *gorm.DB) (schemas []string, err error) {
	if db == nil || db.DryRun {
		return nil, nil
	}
	return n.noteDatabase(ctx, databaseOf(db))
}

func (n *node) noteDatabase(ctx context.Context, database authority.Database) (schemas []string, err error) {
	if pool, _ := database.Pool.(*sql.DB); pool != nil && pool == n.home.Pool && !database.IsLocated() {
		if database = n.home; n.schemas != nil {
			return n.schemas, nil
		}
	}
	if database, err = database.Locate(ctx); err != nil {
		return nil, err
	}
	is, err := database.Claim(ctx, n.origin)
	if err != nil {
		return nil, err
	}
	if is.Leases == "" && is.Place != "" && n.origin.Place != "" && is.Place != n.origin.Place {
		n.config.logger.Warn("snowflakeplugin: the leases have moved since it was noted that the IDs of a "+
			"database come from them; if they are a copy, and the first ones are in use, both grant the same "+
			"numbers",
			"noted", is.Place, "now", n.origin.Place)
	}
	schemas = database.Schemas(is.Leases != "")
	if n.generator == nil { // nobody else has the node yet
		if n.home = database; is.Leases == "" || n.store != nil {
			n.schemas = schemas
		}
	}
	if n.keeper == nil || is.Leases == "" {
		return schemas, nil
	}
	// The leases lie in this database, or it is a copy of the one where they lie. Then it does not have
	// the record that is held now. The number may be lost meanwhile, so look again.
	for range 3 {
		records, listing := n.leases.List(ctx)
		if listing != nil {
			return nil, unleased(fmt.Errorf("%w: %w", lease.ErrStore, listing))
		}
		held := n.keeper.Window().Node
		index := slices.IndexFunc(records, func(r lease.Record) bool { return r.Node == held })
		if index < 0 {
			continue
		}
		if err = database.CheckCopy(ctx, is.Leases, n.origin, records[index]); err == nil {
			break
		}
	}
	return schemas, err
}

// lateNoteTimeout bounds how long a create waits for the note of its schema. The create may hold the only
// connection, or the lock of SQLite.
const lateNoteTimeout = 5 * time.Second

// notes returns what notes where the IDs come from in the schemas to which the statements of a handle lead.
func (n *node) notes(db *gorm.DB) func(context.Context, fill.Destination) ([]string, error) {
	return func(ctx context.Context, d fill.Destination) (schemas []string, err error) {
		if n.config.isOwnSchema(d.Schema) {
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(ctx, lateNoteTimeout)
		defer cancel()
		database := databaseOf(db)
		if d.Pool != nil {
			database = authority.In(d.Dialect, d.Pool)
		}
		if d.Schema != "" {
			database = database.OfSchema(d.Schema)
		}
		if d.Pool == nil || !d.Pinned {
			return n.noteDatabase(ctx, database)
		}
		err = database.Beneath(ctx, d.Pool, func(ctx context.Context, database authority.Database) error {
			schemas, err = n.noteDatabase(ctx, database)
			return err
		})
		return schemas, err
	}
}

// noteOwn notes it on the database of the handle itself. If that is read-only, it is left to the first
// create.
func (n *node) noteOwn(db *gorm.DB, notes *fill.Notes) error {
	schemas, err := n.noteHandle(db.Statement.Context, db)
	if errors.Is(err, authority.ErrReadOnly) {
		return nil
	}
	if err == nil && !db.DryRun {
		own, _ := databaseOf(db).Pool.(*sql.DB)
		for _, pool := range []*sql.DB{nil, own} {
			notes.Add(pool, "")
			notes.Add(pool, schemas...)
		}
	}
	return err
}

// databaseOf returns the database that gorm.Open was given, whatever transaction or replica the handle
// leads to. It notes nothing where there is no database/sql behind the handle.
func databaseOf(db *gorm.DB) authority.Database {
	if db.Dialector == nil {
		return authority.In("", nil)
	}
	if pool, err := (&gorm.DB{Config: db.Config}).DB(); err == nil && pool != nil {
		return authority.In(db.Name(), pool)
	}
	// Another kind of pool will do, but not a transaction: a statement that fails would end it.
	switch db.ConnPool.(type) {
	case gorm.TxBeginner, gorm.ConnPoolBeginner:
		return authority.In(db.Name(), db.ConnPool)
	}
	return authority.In("", nil)
}

// unleased is the error when no number could be leased, because of the options or of the store.
func unleased(err error) error {
	if errors.Is(err, lease.ErrInvalidOption) {
		return fmt.Errorf("%w: %w", errs.ErrOptions, err)
	}
	return fmt.Errorf("%w could be leased: %w", errs.ErrNoNode, err)
}

// close gives the number back.
func (n *node) close(ctx context.Context) error {
	if n.keeper != nil {
		if err := n.keeper.Close(ctx); err != nil && !errors.Is(err, lease.ErrClosed) {
			return err
		}
	}
	if n.end != nil {
		n.end()
	}
	return n.closeStore()
}

func (n *node) closeStore() error {
	if n.store == nil {
		return nil
	}
	return n.store.Close()
}
