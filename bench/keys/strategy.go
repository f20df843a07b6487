package keys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/xid"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

// A column is how a key is stored.
type column int

const (
	auto    column = iota // an integer that the database counts up
	integer               // an integer that comes with the row
	bytes16               // a UUID: the type of that name, or 16 bytes
	bytes12
	text26
)

// A strategy is a kind of key.
type strategy struct {
	name    string
	column  column
	ordered bool // the newest rows have the greatest keys
	// open returns the function that makes the keys of a batch, and one that ends it. It is nil if the
	// database makes the keys.
	open func(ctx context.Context, db *gorm.DB) (batch, func() error, error)
}

// A batch makes n keys.
type batch func(ctx context.Context, n int) ([]any, error)

// redisVariable names the environment variable with the URL of Redis.
const redisVariable = "SNOWFLAKE_REDIS_URL"

func strategies() []strategy {
	return []strategy{
		{"auto-increment", auto, true, nil},
		{"this library", integer, true, openSnowflake},
		{"segment numbers", integer, true, openSegment},
		{"two ticket counters", integer, false, openTickets},
		{"Redis INCR", integer, true, openRedis},
		{"UUIDv4", bytes16, false, each(uuid.NewRandom)},
		{"UUIDv7", bytes16, true, each(uuid.NewV7)},
		{"xid, like ObjectId", bytes12, true, each(func() ([]byte, error) { return xid.New().Bytes(), nil })},
		{"ULID as text", text26, true, each(func() (string, error) { return ulid.Make().String(), nil })},
	}
}

// each makes one key after the other.
func each[K any](next func() (K, error)) func(context.Context, *gorm.DB) (batch, func() error, error) {
	return func(context.Context, *gorm.DB) (batch, func() error, error) {
		return func(_ context.Context, n int) ([]any, error) {
			keys := make([]any, n)
			for i := range keys {
				key, err := next()
				if err != nil {
					return nil, err
				}
				keys[i] = key
			}
			return keys, nil
		}, func() error { return nil }, nil
	}
}

// A filler is a source of this module.
type filler interface {
	Fill(ctx context.Context, ids []int64) error
}

func fill(source filler) batch {
	return func(ctx context.Context, n int) ([]any, error) {
		ids, keys := make([]int64, n), make([]any, n)
		err := source.Fill(ctx, ids)
		for i, id := range ids {
			keys[i] = id
		}
		return keys, err
	}
}

func openSnowflake(context.Context, *gorm.DB) (batch, func() error, error) {
	g, err := generator.New(generator.Default(), generator.FixedNode(1))
	if err != nil {
		return nil, nil, err
	}
	return fill(g), func() error { return nil }, nil
}

func openSegment(ctx context.Context, db *gorm.DB) (batch, func() error, error) {
	store, err := gormsegment.New(db.WithContext(ctx))
	if err != nil {
		return nil, nil, err
	}
	source, err := segment.New(store, "rows")
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return fill(source), func() error { return errors.Join(source.Close(), store.Close()) }, nil
}

// openTickets opens two counters, one with the even numbers and one with the odd ones. Like segment numbers
// they are claimed in blocks.
func openTickets(ctx context.Context, db *gorm.DB) (batch, func() error, error) {
	var sources []*segment.Source
	var ends []func() error
	end := func() error {
		var faults []error
		for _, one := range slices.Backward(ends) {
			faults = append(faults, one())
		}
		return errors.Join(faults...)
	}
	for remainder := range int64(2) {
		table := fmt.Sprintf("tickets%d", remainder)
		store, err := gormsegment.New(db.WithContext(ctx), gormsegment.WithTable(table))
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		ends = append(ends, store.Close)
		source, err := segment.New(store, "rows", segment.WithResidue(remainder, 2))
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		sources = append(sources, source)
	}
	tickets, err := segment.Tickets(sources...)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	ends = append(ends, tickets.Close) // it closes the sources, before the stores are closed
	return fill(tickets), end, nil
}

// openRedis opens a counter of its own, which ends with the measurement.
func openRedis(ctx context.Context, _ *gorm.DB) (batch, func() error, error) {
	options := &redis.Options{Addr: "127.0.0.1:6379"}
	if address := os.Getenv(redisVariable); address != "" {
		var err error
		if options, err = redis.ParseURL(address); err != nil {
			return nil, nil, fmt.Errorf("%s is no URL of Redis", redisVariable) // it may hold a password
		}
	}
	client := redis.NewClient(options)
	counter := fmt.Sprintf("snowflaketest:keys:%d", time.Now().UnixNano())
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	next := func(ctx context.Context, n int) ([]any, error) {
		last, err := client.IncrBy(ctx, counter, int64(n)).Result()
		keys := make([]any, n)
		for i := range keys {
			keys[i] = last - int64(n-1-i)
		}
		return keys, err
	}
	end := func() error {
		return errors.Join(client.Del(context.WithoutCancel(ctx), counter).Err(), client.Close())
	}
	return next, end, nil
}
