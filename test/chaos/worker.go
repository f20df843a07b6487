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
	"strings"
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
	// Gated: it can be kept from its store, and if it is Shut that is so from the beginning.
	Gated, Shut bool
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

// A clock is the system's clock, wrong by an offset, or stopped. It is safe for concurrent use.
type clock struct {
	offset  atomic.Int64
	stopped atomic.Int64 // the time that it shows, in nanoseconds since 1970, or 0 if it goes
}

func (c *clock) now() time.Time {
	if stopped := c.stopped.Load(); stopped != 0 {
		return time.Unix(0, stopped)
	}
	return time.Now().Add(time.Duration(c.offset.Load()))
}

// Words that a worker is told, some of them with a number behind.
const (
	wordOff  = "off"  // its clock goes, and is wrong by so many nanoseconds
	wordAt   = "at"   // its clock shows so many nanoseconds since 1970, and does not go
	wordStop = "stop" // its clock shows what it shows now, and does not go
	wordShut = "shut" // it is kept from its store
	wordOpen = "open" // it is not any more
)

// Words that it says.
const (
	wordDone    = "done"    // the command was carried out
	wordRefused = "refused" // it has had no ID, or fewer than it wanted
	wordWaiting = "waiting" // it is kept from its store, and wants something of it
)

// say tells the test, which has started the process, a word.
func say(word string) { fmt.Println(word) }

// listen carries out each command that it reads. It ends the process when nobody is left to give any.
func (o order) listen(commands io.Reader, c *clock, g *gate) {
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		word, text, _ := strings.Cut(lines.Text(), " ")
		number, err := int64(0), error(nil)
		if text != "" {
			number, err = strconv.ParseInt(text, 10, 64)
		}
		switch {
		case err == nil && word == wordOff:
			c.offset.Store(number)
			c.stopped.Store(0)
		case err == nil && word == wordAt:
			c.stopped.Store(number)
		case word == wordStop:
			c.stopped.Store(c.now().UnixNano())
		case word == wordShut && o.Gated:
			g.shut()
		case word == wordOpen && o.Gated:
			g.open()
		default:
			fmt.Fprintf(os.Stderr, "this is no command: %q\n", lines.Text())
			os.Exit(2)
		}
		say(wordDone)
	}
	os.Exit(0)
}

// work is the whole life of a worker.
func (o order) work(ctx context.Context, open Opener) error {
	file, c, way, err := o.begin()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // every line was written at once
	if o.Gated {
		ungated := open
		open = func(store, address string) (lease.Store, error) {
			s, err := ungated(store, address)
			return gated{s, way}, err
		}
	}
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

// begin opens the journal and listens to commands. The gate is nil unless the order says otherwise.
func (o order) begin() (*os.File, *clock, *gate, error) {
	file, err := os.OpenFile(o.Journal, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, nil, err
	}
	c := new(clock)
	c.offset.Store(int64(o.Offset))
	var g *gate
	if o.Gated {
		g = newGate(o.Shut)
	}
	go o.listen(os.Stdin, c, g)
	return file, c, g, nil
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
		if err != nil {
			say(wordRefused)
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
