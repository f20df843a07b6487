//go:build unix

package faults_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

const (
	// again is how long a worker rests after an error.
	again = 100 * time.Millisecond
	// batch is how many rows one statement creates in the lane that does that.
	batch = 5
	// laneSingle is the lane that creates one row at a time.
	laneSingle = "single"
	// ownerPrefix begins the name of every owner, so that a swap is known by it on the wire.
	ownerPrefix = "owner-of-"
)

// An entry is a row of the one table that all workers insert into.
type entry struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Lane  string             `gorm:"size:60;not null"`
	Count int64              `gorm:"not null"`
}

// A numbered row has a number of a counter beside its ID.
type numbered struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Worker string             `gorm:"size:60;not null"`
	Number int64              `gorm:"uniqueIndex" snowflake:"from:numbers"`
}

// numbersBlock is how many numbers a worker claims at a time, so that each claim is a block of its own.
const numbersBlock = 50

// Places where a worker stops itself when it is told to.
const (
	holdNowhere = "nowhere"
	holdFilled  = "filled" // the row has its ID, nothing was sent
	holdOpen    = "open"   // in a transaction that has inserted one row of two
)

// A worker creates rows until it is ended.
type worker struct {
	order
	db     *gorm.DB
	plugin *snowflakeplugin.Plugin
	hold   atomic.Value // of string: where it is to stop
	number int64        // of the numbered row that is being created
}

// work is the whole life of a worker.
func work(o order) int {
	// The signals stay caught to the end: a second one must not interrupt what the first has begun.
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	w := &worker{order: o}
	w.hold.Store(holdNowhere)
	commands := make(chan string)
	go listen(commands)
	if !w.begin(ctx) {
		if ctx.Err() != nil {
			return 0 // it was ended while it waited for a number
		}
		return 1
	}
	go w.obey(ctx, commands)

	var lanes sync.WaitGroup
	lanes.Go(func() { w.lane(ctx, laneSingle, w.single) })
	lanes.Go(func() { w.lane(ctx, "batch", w.batch) })
	lanes.Go(func() { w.lane(ctx, "pair", w.pair) })
	if w.Counts {
		lanes.Go(func() { w.count(ctx) })
	}
	lanes.Wait()

	limited, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := w.plugin.Close(limited)
	report{Kind: reportClosed}.failure(err).say()
	if err != nil {
		return 1
	}
	return 0
}

// listen reads commands, and ends the process when there is nobody left to give them.
func listen(commands chan<- string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		commands <- in.Text()
	}
	os.Exit(0)
}

// obey carries commands out.
func (w *worker) obey(ctx context.Context, commands <-chan string) {
	for command := range commands {
		if command == reportNext {
			r := report{Kind: reportNext, At: time.Now(), WindowEnd: w.plugin.Stats().WindowEnd}
			id, err := w.plugin.NextID(ctx)
			r.IDs, r.Until = []int64{id.Int64()}, time.Now()
			r.failure(err).say()
			continue
		}
		w.hold.Store(command)
		if command == holdNowhere {
			report{Kind: reportReleased}.say()
		}
	}
}

// begin opens the database and gets a number, trying again unless it is to try once.
func (w *worker) begin(ctx context.Context) bool {
	for ctx.Err() == nil {
		err := w.use(ctx)
		if err == nil {
			report{Kind: reportReady, Nodes: []int64{w.plugin.Stats().Node}}.say()
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		report{Kind: reportRefused}.failure(err).say()
		if w.Role == roleOnce {
			return false
		}
		pause(ctx, again)
	}
	return false
}

func (o order) newPlugin(more ...snowflakeplugin.Option) *snowflakeplugin.Plugin {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	opts := []lease.Option{lease.WithSpan(o.Span), lease.WithOwner(fmt.Sprintf("%s%s pid %d", ownerPrefix, o.Name, os.Getpid()))}
	plugin := append([]snowflakeplugin.Option{snowflakeplugin.WithLogger(log)}, more...)
	if o.Narrow {
		plugin = append(plugin, snowflakeplugin.WithLayout(generator.JavaScript()))
	}
	if o.Fixed {
		plugin = append(plugin, snowflakeplugin.WithLeasedNode(o.Lo))
	} else {
		opts = append(opts, lease.WithNodes(o.Lo, o.Hi))
	}
	return snowflakeplugin.New(append(plugin, snowflakeplugin.WithLease(nil, opts...))...)
}

// open opens the database of the order.
func (o order) open(connections int) (*gorm.DB, error) {
	db, err := gorm.Open(o.Target.Dialector(o.DSN), &gorm.Config{Logger: logger.Discard, TranslateError: true})
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections - 1)
	return db, nil
}

// use opens the database, if it is not open yet, and puts the plugin to use on it.
func (w *worker) use(ctx context.Context) error {
	if w.db == nil {
		db, err := w.open(5)
		if err != nil {
			return err
		}
		w.db = db
	}
	if w.plugin == nil {
		var opts []snowflakeplugin.Option
		if w.Counts {
			store, err := gormsegment.New(w.db)
			if err != nil {
				return err
			}
			source, err := segment.New(store, "numbers", segment.WithBlock(numbersBlock, numbersBlock))
			if err != nil {
				return err
			}
			opts = append(opts, snowflakeplugin.WithNumbers("numbers", source))
		}
		w.plugin = w.newPlugin(opts...)
	}
	if err := w.db.WithContext(ctx).Use(w.plugin); err != nil {
		return err
	}
	return w.db.Callback().Create().After("snowflake:fill").Before("gorm:begin_transaction").
		Register("faults:hold", func(db *gorm.DB) {
			// Only where nothing else can fail afterwards: a pair needs a second ID.
			if e, ok := db.Statement.Dest.(*entry); ok && db.Error == nil && strings.HasSuffix(e.Lane, laneSingle) {
				w.holdAt(holdFilled, *e)
			}
			if n, ok := db.Statement.Dest.(*numbered); ok {
				w.number = n.Number
			}
		})
}

// holdAt stops the whole process if it is to stop here.
func (w *worker) holdAt(place string, e entry) {
	if w.hold.CompareAndSwap(place, holdNowhere) {
		report{Kind: reportHolding, Lane: e.Lane, Count: []int64{e.Count}, IDs: []int64{e.ID.Int64()}}.say()
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			os.Exit(2)
		}
	}
}

// lane creates rows until ctx ends. A row that failed is not tried again: its commit may have
// been applied, and then a second one would hide it.
func (w *worker) lane(ctx context.Context, name string, create func(*gorm.DB, func() entry) ([]entry, error)) {
	name = w.Name + "." + name
	var count int64
	fresh := func() entry {
		count++
		return entry{Lane: name, Count: count}
	}
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Patience)
		rows, err := create(w.db.WithContext(limited), fresh)
		cancel()
		r := report{Kind: reportRows, Lane: name}
		rest := w.Pace
		if err != nil {
			r.Kind, rest = reportFailed, again
		}
		for _, e := range rows {
			r.Count, r.IDs = append(r.Count, e.Count), append(r.IDs, e.ID.Int64())
		}
		r.failure(err).say()
		pause(ctx, rest)
	}
}

// count creates numbered rows until ctx ends.
func (w *worker) count(ctx context.Context) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Patience)
		w.number = 0
		r := report{Kind: reportNumber, At: time.Now()}
		err := w.db.WithContext(limited).Create(&numbered{Worker: w.Name}).Error
		cancel()
		r.IDs = []int64{w.number}
		r.failure(err).say()
		pause(ctx, again)
	}
}

// single creates a row.
func (w *worker) single(db *gorm.DB, fresh func() entry) ([]entry, error) {
	e := fresh()
	err := db.Create(&e).Error
	return []entry{e}, err
}

// batch creates rows with one statement.
func (w *worker) batch(db *gorm.DB, fresh func() entry) ([]entry, error) {
	rows := make([]entry, batch)
	for i := range rows {
		rows[i] = fresh()
	}
	err := db.Create(rows).Error
	return rows, err
}

// pair creates two rows in a transaction.
func (w *worker) pair(db *gorm.DB, fresh func() entry) ([]entry, error) {
	one, two := fresh(), fresh()
	if w.Target.Name == "sqlite" {
		// A transaction holds the lock on the file. One that waits in it for an extension, which
		// needs the lock, waits in vain, and keeps it from everybody else meanwhile.
		for _, e := range []*entry{&one, &two} {
			id, err := w.plugin.NextID(db.Statement.Context)
			if err != nil {
				return []entry{one, two}, err
			}
			e.ID = id
		}
	}
	err := db.Transaction(func(tx *gorm.DB) error {
		err := tx.Create(&one).Error
		if err == nil {
			w.holdAt(holdOpen, one)
			err = tx.Create(&two).Error
		}
		return err
	})
	return []entry{one, two}, err
}

// crowd leases many numbers at the same moment.
func crowd(o order) int {
	ctx := context.Background()
	commands := make(chan string)
	go listen(commands)
	plugins := make([]*snowflakeplugin.Plugin, o.Plugins)
	databases := make([]*gorm.DB, o.Plugins)
	for i := range plugins {
		db, err := o.open(1)
		if err != nil {
			report{Kind: reportRefused}.failure(err).say()
			return 1
		}
		plugins[i], databases[i] = o.newPlugin(), db
	}
	report{Kind: reportOpened}.say()
	<-commands

	nodes, faults := make([]int64, o.Plugins), make([]error, o.Plugins)
	var all sync.WaitGroup
	for i, p := range plugins {
		all.Go(func() {
			// A busy server may not answer in time. What such an attempt has taken falls free with its window,
			// so until then there may be no number for another one.
			faults[i] = databases[i].Use(p)
			for tooSlow(faults[i]) || errors.Is(faults[i], lease.ErrNoFreeNode) {
				report{Kind: reportRefused}.failure(faults[i]).say()
				pause(ctx, time.Second)
				faults[i] = databases[i].Use(p)
			}
			nodes[i] = p.Stats().Node
		})
	}
	all.Wait()
	if err := errors.Join(faults...); err != nil {
		report{Kind: reportRefused}.failure(err).say()
		return 1
	}
	report{Kind: reportReady, Nodes: nodes}.say()
	<-commands
	for _, p := range plugins {
		faults = append(faults, p.Close(ctx))
	}
	report{Kind: reportClosed}.failure(errors.Join(faults...)).say()
	return 0
}

// pause waits.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
