package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/bwmarrin/snowflake"
	godruoyi "github.com/godruoyi/go-snowflake"
	"github.com/google/uuid"
	influx "github.com/influxdata/influxdb/pkg/snowflake"
	"github.com/muyo/sno"
	"github.com/oklog/ulid/v2"
	"github.com/rs/xid"
	"github.com/sony/sonyflake/v2"
	"github.com/yitter/idgenerator-go/idgen"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// A key is an ID as bytes, high to low, so that keys compare as their library means it. IDs of 64 bits
// stand in the last eight bytes.
type key [16]byte

// low returns the low 64 bits, by which shards would be chosen.
func (k key) low() uint64 { return binary.BigEndian.Uint64(k[8:]) }

func of64[T int64 | uint64](n T) (k key) {
	binary.BigEndian.PutUint64(k[8:], uint64(n))
	return k
}

// A series is one generator of a library.
type series struct {
	// run makes n IDs and drops them.
	run func(n int) error
	// next makes one ID.
	next func() (key, error)
	// fill makes a batch in one call; nil if the library has no such call.
	fill func(n int) error
}

// runFor makes IDs for some time, and returns how many.
func (s series) runFor(d time.Duration) (made int, err error) {
	const part = 64
	for begin := time.Now(); time.Since(begin) < d && err == nil; made += part {
		err = s.run(part)
	}
	return made, err
}

// each calls visit with up to so many IDs, for a second at most.
func (s series) each(most int, visit func(id key)) error {
	for begin, n := time.Now(), 0; n < most && time.Since(begin) < time.Second; n++ {
		id, err := s.next()
		if err != nil {
			return err
		}
		visit(id)
	}
	return nil
}

// A peer is a library in one configuration.
type peer struct {
	name, version string
	bits          int
	// otherwise says what the library gives up for its speed, as far as this library does not: the order, a
	// bounded lead, or 63 bits. It is empty if the two can be compared as they are.
	otherwise string
	// timeOf tells the time in an ID; nil if the ID has none that can be compared with the clock.
	timeOf func(key) time.Time
	// shared is set if the library has one generator in a process, so that none can be restarted.
	shared bool
	open   func() (series, error)
}

// seriesOf builds a series from one function, so that all libraries are called in the same way.
func seriesOf[T any](next func() (T, error), bytes func(T) key) series {
	return series{
		run: func(n int) error {
			for range n {
				if _, err := next(); err != nil {
					return err
				}
			}
			return nil
		},
		next: func() (key, error) {
			id, err := next()
			return bytes(id), err
		},
	}
}

// certain turns a call that cannot fail into one that does not.
func certain[T any](next func() T) func() (T, error) {
	return func() (T, error) { return next(), nil }
}

// millis returns the function that reads a time of milliseconds at the top of the low 64 bits.
func millis(epoch time.Time, shift uint, tick time.Duration) func(key) time.Time {
	return func(k key) time.Time {
		return epoch.Add(time.Duration(k.low()>>shift) * tick) //nolint:gosec // 41 bits
	}
}

func peers() []peer {
	twitter := time.UnixMilli(snowflake.Epoch)
	ours := generator.Default()
	return []peer{
		{
			name: this, version: "checkout", bits: 63,
			timeOf: millis(ours.Epoch, 22, time.Millisecond), open: openOurs,
		},
		{
			name: "bwmarrin/snowflake", version: "v0.3.0", bits: 63,
			timeOf: millis(twitter, 22, time.Millisecond),
			open: func() (series, error) {
				node, err := snowflake.NewNode(7)
				if err != nil {
					return series{}, err
				}
				return seriesOf(certain(node.Generate), func(id snowflake.ID) key { return of64(int64(id)) }), nil
			},
		},
		{
			name: "sony/sonyflake", version: "v2.2.0", bits: 63,
			timeOf: millis(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), 24, 10*time.Millisecond),
			open: func() (series, error) {
				flake, err := sonyflake.New(sonyflake.Settings{MachineID: func() (int, error) { return 7, nil }})
				if err != nil {
					return series{}, err
				}
				return seriesOf(flake.NextID, of64[int64]), nil
			},
		},
		{
			name: "godruoyi/go-snowflake", version: "v0.0.2", bits: 63, shared: true,
			timeOf: millis(time.Date(2008, 11, 10, 23, 0, 0, 0, time.UTC), 22, time.Millisecond),
			open:   func() (series, error) { return seriesOf(godruoyi.NextID, of64[uint64]), nil },
		},
		{
			name: "yitter/idgenerator", version: "v1.3.3, 10 + 12 bits", bits: 63,
			otherwise: "borrows up to 2,000 ticks by default, and goes back in order when the clock is set back",
			open: func() (series, error) {
				options := idgen.NewIdGeneratorOptions(7)
				options.WorkerIdBitLength, options.SeqBitLength = 10, 12
				made := idgen.NewDefaultIdGenerator(options)
				return seriesOf(certain(made.NewLong), of64[int64]), nil
			},
		},
		{
			name: "influxdb/pkg/snowflake", version: "v1.12.2", bits: 63,
			otherwise: "its lead has no bound",
			timeOf:    millis(time.UnixMilli(1491696000000), 22, time.Millisecond),
			open:      func() (series, error) { return seriesOf(certain(influx.New(7).Next), of64[uint64]), nil },
		},
		{
			name: "muyo/sno", version: "v1.2.1", bits: 80,
			otherwise: "has 80 bits, and goes back in order when the clock is set back",
			open: func() (series, error) {
				made, err := sno.NewGenerator(nil, nil)
				if err != nil {
					return series{}, err
				}
				next := func() sno.ID { return made.New(0) }
				return seriesOf(certain(next), func(id sno.ID) (k key) { copy(k[6:], id[:]); return k }), nil
			},
		},
		{
			name: "rs/xid", version: "v1.6.0", bits: 96, shared: true,
			otherwise: "has 96 bits, counts within a second, and goes back in order when the clock is set back",
			open: func() (series, error) {
				return seriesOf(certain(xid.New), func(id xid.ID) (k key) { copy(k[4:], id[:]); return k }), nil
			},
		},
		{
			name: "oklog/ulid", version: "v2.1.1, Make", bits: 128, shared: true, timeOf: uuidTime,
			otherwise: "has 128 bits, most of them random, and goes back in order when the clock is set back",
			open: func() (series, error) {
				return seriesOf(certain(ulid.Make), func(id ulid.ULID) key { return key(id) }), nil
			},
		},
		{
			name: "google/uuid v7", version: "v1.6.0", bits: 128, shared: true, timeOf: uuidTime,
			otherwise: "has 128 bits, most of them random",
			open: func() (series, error) {
				return seriesOf(uuid.NewV7, func(id uuid.UUID) key { return key(id) }), nil
			},
		},
	}
}

// uuidTime reads the 48 bits of milliseconds at the top of a ULID or a UUIDv7.
func uuidTime(k key) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(k[:8]) >> 16)) //nolint:gosec // 48 bits
}

func openOurs() (series, error) {
	made, err := generator.New(generator.Default(), generator.FixedNode(7), generator.WithMaxWait(time.Minute))
	if err != nil {
		return series{}, fmt.Errorf("this generator: %w", err)
	}
	ctx := context.Background()
	s := seriesOf(func() (int64, error) { return made.Next(ctx) }, of64[int64])
	batch := make([]int64, 1<<20)
	s.fill = func(n int) error { return made.Fill(ctx, batch[:n]) }
	return s, nil
}
