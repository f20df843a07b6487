package keys

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"gorm.io/gorm"
)

const (
	// writers is how many goroutines insert single rows.
	writers = 8
	// newest is how many rows a page has.
	newest = 100
)

// A contender is a kind of key at work on one server, in a database of its own.
type contender struct {
	table
	strategy strategy
	effort   effort
	db       *gorm.DB
	next     batch
	end      func() error
	sample   []any // the key of a row of each batch
	stored   int   // how many rows the table has
	indexed  bool  // the time has an index
	figure   figure
}

// enter creates the table of a kind of key in an empty database.
func enter(ctx context.Context, db *gorm.DB, server string, s strategy, e effort) (*contender, error) {
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	// Many contenders share a server. The writers of one need more connections only while it is their turn.
	pool.SetMaxIdleConns(2)
	pool.SetMaxOpenConns(writers + 4) // counters claim numbers beside the writers
	c := &contender{
		table:    table{pool: pool, dialect: db.Name(), name: "orders", column: s.column},
		strategy: s, effort: e, db: db,
		figure: figure{Server: server, Strategy: s.name, Samples: map[string][]float64{}},
		next:   func(_ context.Context, n int) ([]any, error) { return make([]any, n), nil },
		end:    func() error { return nil },
	}
	if err := c.create(ctx); err != nil || s.open == nil {
		return c, err
	}
	c.next, c.end, err = s.open(ctx, db)
	return c, err
}

func (c *contender) recreate(ctx context.Context) error {
	c.sample, c.stored = nil, 0
	return errors.Join(c.drop(ctx), c.create(ctx))
}

// grow inserts rows in batches by the driver, and returns how many a second.
func (c *contender) grow(ctx context.Context, batches int) (perSecond float64, err error) {
	size := c.effort.batch
	err = c.prepared(ctx, c.insertion(size), func(statement *sql.Stmt) error {
		began := time.Now()
		for range batches {
			keys, err := c.next(ctx, size)
			if err != nil {
				return err
			}
			if _, err := statement.ExecContext(ctx, c.values(keys, size)...); err != nil {
				return err
			}
			i := rand.IntN(len(keys))
			if c.column == auto {
				keys[i] = int64(c.stored + i + 1)
			}
			c.sample = append(c.sample, keys[i])
			c.stored += size
		}
		perSecond = rate(batches*size, began)
		return nil
	})
	return perSecond, err
}

// insertSingly inserts rows one by one for some time, each in its own transaction, from several goroutines
// with a connection each, and returns how many a second.
func (c *contender) insertSingly(ctx context.Context, spell time.Duration) (_ float64, err error) {
	statement := c.insertion(1)
	var all []*sql.Conn
	defer func() {
		for _, conn := range all {
			err = errors.Join(err, conn.Close())
		}
	}()
	for range writers {
		conn, err := c.pool.Conn(ctx)
		if err != nil {
			return 0, err
		}
		all = append(all, conn)
	}
	var faults [writers]error
	var stored [writers]int
	var work sync.WaitGroup
	began := time.Now()
	for w := range writers {
		work.Go(func() {
			for stored[w] == 0 || time.Since(began) < spell {
				keys, err := c.next(ctx, 1)
				if err == nil {
					_, err = all[w].ExecContext(ctx, statement, c.values(keys, 1)...)
				}
				if err != nil {
					faults[w] = err
					return
				}
				stored[w]++
			}
		})
	}
	work.Wait()
	rows := 0
	for _, n := range stored {
		rows += n
	}
	c.stored += rows
	return rate(rows, began), errors.Join(faults[:]...)
}

// weigh keeps the size of the table and of its indexes, and makes the table ready to be read.
func (c *contender) weigh(ctx context.Context) (err error) {
	c.figure.Rows, c.figure.Indexes, err = c.size(ctx)
	return errors.Join(err, c.tidy(ctx))
}

// read reads rows by their keys, and returns how many a second.
func (c *contender) read(ctx context.Context) (perSecond float64, err error) {
	const times = 250
	query := "SELECT total FROM " + c.name + " WHERE id = " + c.place(1)
	err = c.prepared(ctx, query, func(statement *sql.Stmt) error {
		began := time.Now()
		for range times {
			var total int64
			key := c.value(c.sample[rand.IntN(len(c.sample))])
			if err := statement.QueryRowContext(ctx, key).Scan(&total); err != nil {
				return fmt.Errorf("the row %v: %w", key, err)
			}
		}
		perSecond = rate(times, began)
		return nil
	})
	return perSecond, err
}

func (c *contender) index(ctx context.Context) error {
	_, err := c.pool.ExecContext(ctx, "CREATE INDEX orders_time ON "+c.name+" (created_at)")
	c.indexed = err == nil
	return err
}

// page reads the newest rows, and returns how many milliseconds that takes. A page that an index finds is
// read once before, so that it is in memory, and then several times.
func (c *contender) page(ctx context.Context, by string) (milliseconds float64, err error) {
	query := fmt.Sprintf("SELECT customer, total, note FROM %s ORDER BY %s DESC LIMIT %d", c.name, by, newest)
	err = c.prepared(ctx, query, func(statement *sql.Stmt) error {
		times := 1
		if by == "id" || c.indexed {
			times = c.effort.looks
			if err := c.newest(ctx, statement); err != nil {
				return err
			}
		}
		began := time.Now()
		for range times {
			if err := c.newest(ctx, statement); err != nil {
				return err
			}
		}
		milliseconds = float64(time.Since(began).Nanoseconds()) / 1e6 / float64(times)
		return nil
	})
	return milliseconds, err
}

// newest reads a page.
func (c *contender) newest(ctx context.Context, statement *sql.Stmt) (err error) {
	rows, err := statement.QueryContext(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Err(), rows.Close()) }()
	n := 0
	for ; rows.Next(); n++ {
		var customer, total int64
		var note string
		if err := rows.Scan(&customer, &total, &note); err != nil {
			return err
		}
	}
	if n != newest {
		return fmt.Errorf("a page has %d rows, not %d", n, newest)
	}
	return nil
}

// prepared prepares a statement for a round.
func (c *contender) prepared(ctx context.Context, text string, use func(*sql.Stmt) error) (err error) {
	statement, err := c.pool.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, statement.Close()) }()
	return use(statement)
}

// rate is how many rows a second there were.
func rate(n int, since time.Time) float64 { return float64(n) / time.Since(since).Seconds() }
