package keys

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"gorm.io/gorm"
)

const (
	// rowsOfBatch is how many rows an INSERT has.
	rowsOfBatch = 500
	// parts is into how many parts the growth of a table is divided.
	parts = 10
	// writers is how many goroutines insert single rows.
	writers = 8
	// newest is how many rows a page has.
	newest = 100
)

// A figure is what was measured of one kind of key on one server.
type figure struct {
	Server   string `json:"server"`
	Strategy string `json:"strategy"`

	Growth  []float64 `json:"rows_per_second"`      // in each tenth of the rows, in batches by the driver
	GORM    float64   `json:"gorm_rows_per_second"` // in batches by GORM
	Single  float64   `json:"single_rows_per_second"`
	Rows    int64     `json:"bytes_of_rows"`
	Indexes int64     `json:"bytes_of_indexes"`
	Read    float64   `json:"point_reads_per_second"`
	ByKey   float64   `json:"newest_by_key_ms"` // 0 if the order of the keys is not that of the rows
	Scan    float64   `json:"newest_by_time_ms"`
	ByTime  float64   `json:"newest_by_indexed_time_ms"`
}

// A contender is a kind of key at work on one server, in a database of its own.
type contender struct {
	table
	strategy strategy
	db       *gorm.DB
	next     batch
	end      func() error
	sample   []any // keys of some rows
	figure   figure
}

// enter creates the table of a kind of key in an empty database.
func enter(ctx context.Context, db *gorm.DB, server string, s strategy) (*contender, error) {
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	c := &contender{
		table:    table{pool: pool, dialect: db.Name(), name: "orders", column: s.column},
		strategy: s, db: db, figure: figure{Server: server, Strategy: s.name},
		next: func(_ context.Context, n int) ([]any, error) { return make([]any, n), nil },
		end:  func() error { return nil },
	}
	if err := c.create(ctx); err != nil || s.open == nil {
		return c, err
	}
	c.next, c.end, err = s.open(ctx, db)
	return c, err
}

// compete measures all kinds of keys in turn, one figure after the other, so that a slow moment of the
// machine meets all of them.
func compete(ctx context.Context, all []*contender, rows int) error {
	steps := make([]func(c *contender) error, 0, parts+4)
	for range parts {
		steps = append(steps, func(c *contender) error { return c.grow(ctx, max(rows/parts/rowsOfBatch, 1)) })
	}
	steps = append(steps,
		func(c *contender) error { return c.insertSingly(ctx, max(rows/100/writers, 1)) },
		func(c *contender) (err error) {
			c.figure.Rows, c.figure.Indexes, err = c.size(ctx)
			return err
		},
		func(c *contender) error { return c.read(ctx) },
		func(c *contender) error { return c.pages(ctx) },
		func(c *contender) error { return c.growByGORM(ctx, max(rows/parts/rowsOfBatch, 1)) },
	)
	for _, step := range steps {
		for _, c := range all {
			if err := step(c); err != nil {
				return fmt.Errorf("%s: %w", c.strategy.name, err)
			}
		}
	}
	return nil
}

// grow inserts a part of the rows, in batches.
func (c *contender) grow(ctx context.Context, batches int) (err error) {
	statement, err := c.pool.PrepareContext(ctx, c.insertion(rowsOfBatch))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, statement.Close()) }()
	began := time.Now()
	for range batches {
		keys, err := c.next(ctx, rowsOfBatch)
		if err != nil {
			return err
		}
		if _, err := statement.ExecContext(ctx, c.values(keys, rowsOfBatch)...); err != nil {
			return err
		}
		c.sample = append(c.sample, keys[rand.IntN(len(keys))])
	}
	c.figure.Growth = append(c.figure.Growth, rate(batches*rowsOfBatch, began))
	if c.column == auto {
		for i := range c.sample {
			c.sample[i] = rand.Int64N(int64(len(c.sample)*rowsOfBatch)) + 1
		}
	}
	return nil
}

// insertSingly inserts rows one by one, each in its own transaction, from several goroutines.
func (c *contender) insertSingly(ctx context.Context, rowsOfWriter int) error {
	statement := c.insertion(1)
	faults := make([]error, writers)
	var all sync.WaitGroup
	began := time.Now()
	for w := range writers {
		all.Go(func() {
			for range rowsOfWriter {
				keys, err := c.next(ctx, 1)
				if err == nil {
					_, err = c.pool.ExecContext(ctx, statement, c.values(keys, 1)...)
				}
				if err != nil {
					faults[w] = err
					return
				}
			}
		})
	}
	all.Wait()
	c.figure.Single = rate(rowsOfWriter*writers, began)
	return errors.Join(faults...)
}

// read reads rows by their keys.
func (c *contender) read(ctx context.Context) (err error) {
	statement, err := c.pool.PrepareContext(ctx, "SELECT total FROM "+c.name+" WHERE id = "+c.place(1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, statement.Close()) }()
	const reads = 2000
	began := time.Now()
	for range reads {
		var total int64
		key := c.value(c.sample[rand.IntN(len(c.sample))])
		if err := statement.QueryRowContext(ctx, key).Scan(&total); err != nil {
			return fmt.Errorf("the row %v: %w", key, err)
		}
	}
	c.figure.Read = rate(reads, began)
	return nil
}

// pages reads the newest rows by key, by time without an index, and by time with one.
func (c *contender) pages(ctx context.Context) (err error) {
	if c.strategy.ordered {
		if c.figure.ByKey, err = c.page(ctx, "id"); err != nil {
			return err
		}
	}
	if c.figure.Scan, err = c.page(ctx, "created_at"); err != nil {
		return err
	}
	if _, err := c.pool.ExecContext(ctx, "CREATE INDEX orders_time ON "+c.name+" (created_at)"); err != nil {
		return err
	}
	c.figure.ByTime, err = c.page(ctx, "created_at")
	return err
}

// page returns the median time of reading the newest rows, in milliseconds.
func (c *contender) page(ctx context.Context, by string) (float64, error) {
	const times = 9
	took := make([]float64, times)
	for i := range took {
		began := time.Now()
		n, err := c.newest(ctx, by)
		if err != nil {
			return 0, err
		}
		if n != newest {
			return 0, fmt.Errorf("a page by %s has %d rows, not %d", by, n, newest)
		}
		took[i] = float64(time.Since(began).Microseconds()) / 1000
	}
	slices.Sort(took)
	return took[times/2], nil
}

// newest reads the newest rows and counts them.
func (c *contender) newest(ctx context.Context, by string) (n int, err error) {
	rows, err := c.pool.QueryContext(ctx,
		fmt.Sprintf("SELECT customer, total, note FROM %s ORDER BY %s DESC LIMIT %d", c.name, by, newest))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Err(), rows.Close()) }()
	for ; rows.Next(); n++ {
		var customer, total int64
		var note string
		if err := rows.Scan(&customer, &total, &note); err != nil {
			return n, err
		}
	}
	return n, nil
}

// rate is how many rows a second there were.
func rate(n int, since time.Time) float64 { return float64(n) / time.Since(since).Seconds() }
