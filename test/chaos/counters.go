package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos/checker"
)

const (
	// counterName is the counter that all workers of a run use.
	counterName = "chaos"
	// counterBlock is how many numbers a claim reserves, and counterBatch how many a worker takes at a
	// time. So a worker claims several times a second.
	counterBlock, counterBatch = 20_000, 1_000
)

// A CounterOpener opens the store of the given name at an address. It is called in the worker's process,
// which calls it again after an error, and in the end in that of the test.
type CounterOpener func(store, address string) (segment.Ledger, error)

// Count is [Work] for processes that [RunCounters] has started.
func Count(open CounterOpener) {
	if o, ok := orderOf(true); ok {
		obey(func(ctx context.Context) error { return o.count(ctx, open) })
	}
}

// count is the whole life of a worker that takes numbers.
func (o order) count(ctx context.Context, open CounterOpener) error {
	file, c, way, err := o.begin()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // every line was written at once
	store, err := open(o.Store, o.Address)
	for ; err != nil; store, err = open(o.Store, o.Address) {
		slog.Info("no store yet", "error", err)
		if rest(ctx, 10*pace); ctx.Err() != nil {
			return nil // it was ended before it had one
		}
	}
	opts := []segment.Option{
		segment.WithBlock(counterBlock, counterBlock),
		segment.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))),
	}
	if !o.SystemClock {
		opts = append(opts, segment.WithClock(c.now))
	}
	failed, err := os.OpenFile(o.Journal+failedSuffix, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = failed.Close() }() // likewise
	source, err := segment.New(o.Mutant.counters(noting{store, failed, way}), counterName, opts...)
	if err != nil {
		return err
	}
	return errors.Join(take(ctx, source, file), source.Close())
}

// take takes numbers until ctx ends. A number counts when it is in the file: whoever was killed before has
// handed it to nobody.
func take(ctx context.Context, source *segment.Source, file io.Writer) error {
	var lines []byte
	numbers := make([]int64, counterBatch)
	for ctx.Err() == nil {
		err := source.Fill(ctx, numbers)
		if err == nil {
			lines = appendRuns(lines[:0], time.Now().UnixMicro(), numbers)
			if _, err := file.Write(lines); err != nil {
				return err
			}
		}
		if errors.Is(err, segment.ErrWentBack) || errors.Is(err, segment.ErrResidue) ||
			errors.Is(err, segment.ErrInvalidCounter) {
			return err // any other error passes
		}
		rest(ctx, pace)
	}
	return nil
}

// counters returns the store of such a worker.
func (m Mutant) counters(store noting) segment.Store {
	switch m {
	case ReadsFirst:
		return &readsFirst{Ledger: store}
	case ClaimsTwice:
		return claimsTwice{store}
	case Sound, SameNode, EndlessWindow:
	}
	return store
}

// failedSuffix ends the name of the file that has a byte for every claim of a process that ended with an
// error after it was sent, as far as the error tells. Such a claim may have been done, and then its block is
// lost.
const failedSuffix = ".failed"

// noting is a store that notes failed claims before anybody learns of them, so that none is missing if the
// process is killed.
type noting struct {
	segment.Ledger
	file io.Writer
	gate *gate
}

func (s noting) Claim(ctx context.Context, name string, n int64) (int64, error) {
	if err := s.gate.enter(ctx); err != nil {
		return 0, err
	}
	defer s.gate.leave()
	first, err := s.Ledger.Claim(ctx, name, n)
	return first, s.note(err)
}

func (s noting) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	store, ok := s.Ledger.(segment.TermsStore)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	if err := s.gate.enter(ctx); err != nil {
		return 0, err
	}
	defer s.gate.leave()
	first, err := store.ClaimOn(ctx, name, n, t)
	return first, s.note(err)
}

func (s noting) Probe(ctx context.Context) error {
	if prober, ok := s.Ledger.(segment.Prober); ok {
		return prober.Probe(ctx)
	}
	return errors.ErrUnsupported
}

func (s noting) note(err error) error {
	if dialing := new(net.OpError); err == nil || errors.As(err, &dialing) && dialing.Op == "dial" {
		return err // there was no connection, so nothing was sent
	}
	_, unwritten := s.file.Write([]byte{'x'})
	return errors.Join(err, unwritten)
}

// claimsTwice loses every other block.
type claimsTwice struct{ noting }

func (s claimsTwice) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	if first, err := s.noting.ClaimOn(ctx, name, n, t); err != nil {
		return first, err
	}
	return s.noting.ClaimOn(ctx, name, n, t)
}

// readsFirst gives out the numbers from where the counter was before the claim. If the claim fails, it does
// not read again.
type readsFirst struct {
	segment.Ledger
	mu   sync.Mutex
	read int64 // 0 before it has read; guarded by mu
}

func (s *readsFirst) Claim(ctx context.Context, name string, n int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == 0 {
		counters, err := s.Counters(ctx, name)
		if err != nil {
			return 0, err
		}
		s.read = 1
		for _, c := range counters {
			s.read = c.Next
		}
	}
	rest(ctx, pace) // so that others claim in between, however fast the store is
	if _, err := s.Ledger.Claim(ctx, name, n); err != nil {
		return 0, err
	}
	first := s.read
	s.read = 0
	return first, nil
}

// A CounterResult is what has happened to workers that take numbers, and what their journals say.
type CounterResult struct {
	Config
	Processes int // how many there were, one after the other included
	Counts    [kinds]int
	Verdict   checker.Numbers
	Claimed   int64 // numbers that were claimed, used or not
	Failed    int64 // claims that were sent and ended with an error, done or not
}

// RunCounters is [Run] for workers that take numbers from one counter. The store is opened once more in the
// end, at the address itself, to see how far the counter has come.
func RunCounters(tb testing.TB, c Config, open CounterOpener) CounterResult {
	tb.Helper()
	return play(tb, c, true).judgeCounters(open)
}

// String describes the result for people, in a few lines.
func (r CounterResult) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v with seed %d, %d workers, blocks of %d\n", r.Store, r.Length, r.Seed, r.Workers,
		counterBlock)
	fmt.Fprint(&b, "  faults:")
	for k, n := range r.Counts {
		fmt.Fprintf(&b, " %d %v,", n, kind(k))
	}
	fmt.Fprintf(&b, " %d processes\n", r.Processes)
	fmt.Fprintf(&b, "  numbers: %d used of %d claimed; lost: %d, or %.1f blocks for each process; "+
		"that and %d claims without an answer explain %d\n", r.Verdict.Count, r.Claimed, r.lost(),
		float64(r.lost())/counterBlock/float64(r.Processes), r.Failed, r.explained())
	fmt.Fprintf(&b, "  numbers given twice: %d\n", r.Verdict.Twice)
	return b.String()
}

func (r CounterResult) lost() int64 { return r.Claimed - r.Verdict.Count }

// explained is how many numbers may be lost. A process that ends loses two blocks at most, and what it had
// taken and not written down. A claim that ended with an error loses its block if the store has done it.
func (r CounterResult) explained() int64 {
	return int64(r.Processes)*(2*counterBlock+counterBatch) + r.Failed*counterBlock
}

// LosesTooMany tells whether more numbers were lost than deaths and lost answers explain.
func (r CounterResult) LosesTooMany() bool { return r.lost() > r.explained() }

// ShowsSomething tells whether enough has happened to show anything: every worker has claimed some blocks,
// and one was killed.
func (r CounterResult) ShowsSomething() bool {
	return r.Verdict.Count >= int64(r.Workers)*3*counterBlock && r.Counts[kill] > 0
}

// Check reports the result, and fails the test if a number was given twice, if more were lost than deaths
// and lost answers explain, or if too little has happened to show anything.
func (r CounterResult) Check(tb testing.TB) {
	tb.Helper()
	tb.Log(r)
	for _, fault := range r.Verdict.Faults {
		tb.Error(fault)
	}
	if !r.Verdict.OK() {
		tb.Errorf("%s: %d numbers were given twice, %d runs of numbers go back", r.Store, r.Verdict.Twice,
			r.Verdict.BackSteps)
	}
	if r.lost() < 0 {
		tb.Errorf("%s: %d numbers were used, and only %d claimed", r.Store, r.Verdict.Count, r.Claimed)
	}
	if r.LosesTooMany() {
		tb.Errorf("%s: %d numbers were lost, and %d processes and %d failed claims explain %d", r.Store,
			r.lost(), r.Processes, r.Failed, r.explained())
	}
	if !r.ShowsSomething() {
		tb.Errorf("%s: only %d numbers and %d deaths: too little to show anything", r.Store, r.Verdict.Count,
			r.Counts[kill])
	}
}
