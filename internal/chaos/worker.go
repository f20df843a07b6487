package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// orderVariable holds the order of a process that Run has started.
const orderVariable = "SNOWFLAKE_CHAOS_ORDER"

// An order is what a worker is told.
type order struct {
	Name    string // no two processes of a run have the same
	Store   string // of the Config
	Address string // where the worker finds the store
	Journal string // the file that it writes
	Span    time.Duration
	Nodes   int64         // it may lease the numbers below
	Offset  time.Duration // by which its clock is wrong at the beginning
	Mutant  Mutant
	// SystemClock: the worker has the clock of the system itself, and Offset is 0.
	SystemClock bool
	// Counters: it takes numbers from a counter, and the fields about nodes say nothing.
	Counters bool
}

const (
	// usualIDs and burstIDs are how many IDs a worker makes at a time. A burst is longer than a tick,
	// so that the generator runs ahead of its clock.
	usualIDs, burstIDs = 20, 6000
	// oneBurstIn is how many times there are to a burst.
	oneBurstIn = 100
	// pace is how long a worker rests after that, and after an error.
	pace = 5 * time.Millisecond
	// parting is how long a worker may take to give its number back.
	parting = 5 * time.Second
)

// An Opener opens the store of the given name at an address. It is called in the worker's process,
// which calls it again after an error.
type Opener func(store, address string) (lease.Store, error)

// Work is called by TestMain. In a process that Run has started it works until it is ended, and
// ends the process. In any other process it returns at once.
func Work(open Opener) {
	if o, ok := orderOf(false); ok {
		obey(func(ctx context.Context) error { return o.work(ctx, open) })
	}
}

// orderOf returns the order of this process, if it has one of that kind.
func orderOf(counters bool) (o order, ok bool) {
	text := os.Getenv(orderVariable)
	if text == "" {
		return o, false
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, "the order cannot be read:", err)
		os.Exit(2)
	}
	return o, o.Counters == counters
}

// obey works until the process is ended, and ends it.
func obey(work func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := work(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A clock is the system's clock, wrong by an offset. It is safe for concurrent use.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// obey sets the clock to each offset that it reads, in nanoseconds. It ends the process when nobody
// is left to say any.
func (c *clock) obey(commands io.Reader) {
	in := bufio.NewScanner(commands)
	for in.Scan() {
		offset, err := strconv.ParseInt(in.Text(), 10, 64)
		if err != nil {
			fmt.Fprintln(os.Stderr, "this is no offset:", err)
			os.Exit(2)
		}
		c.offset.Store(offset)
	}
	os.Exit(0)
}

// work is the whole life of a worker.
func (o order) work(ctx context.Context, open Opener) error {
	file, c, err := o.begin()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // every line was written at once
	keeper := o.acquire(ctx, open, c)
	if keeper == nil {
		return nil // it was ended before it had a number
	}
	var opts []generator.Option
	if !o.SystemClock {
		opts = append(opts, generator.WithClock(c.now))
	}
	g, err := generator.New(generator.Default(), o.Mutant.tenure(keeper), opts...)
	if err != nil {
		return err
	}
	if err := o.stamp(ctx, g, file); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	if err := keeper.Close(limited); err != nil {
		// The server may be away, and then the number falls free by itself.
		fmt.Fprintln(os.Stderr, "the number was not given back:", err)
	}
	return nil
}

// begin opens the journal and starts the clock.
func (o order) begin() (*os.File, *clock, error) {
	file, err := os.OpenFile(o.Journal, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	c := new(clock)
	c.offset.Store(int64(o.Offset))
	go c.obey(os.Stdin)
	return file, c, nil
}

// acquire opens the store and leases a number, until it has one or ctx ends.
func (o order) acquire(ctx context.Context, open Opener, c *clock) *lease.Keeper {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	opts := []lease.Option{
		lease.WithSpan(o.Span), lease.WithNodes(0, o.Nodes-1), lease.WithOwner(o.Name),
		lease.WithLogger(log),
	}
	if !o.SystemClock {
		opts = append(opts, lease.WithClock(c.now))
	}
	var store lease.Store
	var err error
	for ctx.Err() == nil {
		if store == nil {
			store, err = open(o.Store, o.Address)
		}
		if err == nil {
			var keeper *lease.Keeper
			keeper, err = lease.Acquire(ctx, store, generator.Default(), opts...)
			if err == nil {
				return keeper
			}
		}
		log.Info("no number yet", "error", err)
		rest(ctx, 10*pace)
		err = nil
	}
	return nil
}

// stamp makes IDs until ctx ends. An ID counts when it is in the file: whoever was killed before has
// handed it to nobody.
func (o order) stamp(ctx context.Context, g *generator.Generator, file io.Writer) error {
	var lines []byte
	for ctx.Err() == nil {
		count := usualIDs
		if rand.IntN(oneBurstIn) == 0 {
			count = burstIDs
		}
		ids, err := next(ctx, g, count)
		lines = appendRuns(lines[:0], time.Now().UnixMicro(), ids)
		if _, failed := file.Write(lines); failed != nil {
			return failed
		}
		switch {
		case errors.Is(err, generator.ErrSealed), errors.Is(err, generator.ErrInvalidOption):
			return err
		default:
			rest(ctx, pace) // any other error passes
		}
	}
	return nil
}

// next makes IDs up to the first error.
func next(ctx context.Context, g *generator.Generator, count int) ([]int64, error) {
	ids := make([]int64, 0, count)
	for range count {
		id, err := g.Next(ctx)
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// appendRuns appends a line for each run of IDs, as package checker reads them.
func appendRuns(lines []byte, at int64, ids []int64) []byte {
	for len(ids) > 0 {
		n := 1
		for n < len(ids) && ids[n] == ids[0]+int64(n) {
			n++
		}
		lines = fmt.Appendf(lines, "%d %d %d\n", at, ids[0], n)
		ids = ids[n:]
	}
	return lines
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
