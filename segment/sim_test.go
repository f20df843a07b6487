package segment_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
	"github.com/snowflakeplugin/snowflakeplugin/test/simnet"
)

// The simulation runs real sources over simulated processes, networks and stores, and looks for a number that
// was given out twice, and for gaps that nothing explains. It has the injector of faults of the simulation of
// leases: requests and answers are lost, and claims arrive after their process has given them up or died.
//
//	go test ./segment -run Simulation                             some seeds
//	SNOWFLAKE_SIMULATE=2000 go test ./segment -run Simulation -v  many

const (
	simLength = 30 * time.Second
	simBlock  = 50
	simSlots  = 4
)

// A simMutant is what the store does wrong.
type simMutant int

const (
	noMutant simMutant = iota
	// answersAgain: a claim whose answer was lost is answered with the same numbers to whoever claims next.
	answersAgain
	// forgets: some claims are acknowledged and not kept.
	forgets
)

// simWorld is one simulation.
type simWorld struct {
	seed   uint64
	mutant simMutant
	memory *segmenttest.Memory
	began  time.Time
	random *simnet.Random // of the store
	tasks  sync.WaitGroup

	mu sync.Mutex
	// All below is guarded by mu.
	tally  map[string]int
	given  map[int64]string // each number, and who has got it
	faults []string
	unsent int64 // the first number of a claim that a mutant will repeat; 0 if there is none
}

func (w *simWorld) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally[what]++
}

// fault notes what must not happen.
func (w *simWorld) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// simAnswer is what the store answers to a claim.
type simAnswer struct {
	first int64
	err   error
}

// claim is the claim at the store itself.
func (w *simWorld) claim(name string, n int64, t segment.Terms) simAnswer {
	if w.mutant == forgets && w.random.Chance(0.02) {
		for _, c := range w.counters() {
			w.count("claims that were forgotten")
			return simAnswer{first: c.Next}
		}
	}
	w.mu.Lock()
	again := w.unsent
	w.unsent = 0
	w.mu.Unlock()
	if again != 0 {
		return simAnswer{first: again}
	}
	first, err := w.memory.ClaimOn(context.Background(), name, n, t)
	return simAnswer{first, err}
}

func (w *simWorld) counters() []segment.Counter {
	all, err := w.memory.Counters(context.Background(), "orders")
	if err != nil {
		w.fault("%v", err)
	}
	return all
}

// simProcess is a process with a source.
type simProcess struct {
	w      *simWorld
	name   string
	random *simnet.Random
	link   *simnet.Link
	probes *simnet.Link
	dead   chan struct{}
	cut    time.Time // until when nothing passes between it and the store
	way    simnet.State
}

func (w *simWorld) newProcess(slot, number int) *simProcess {
	stream := func(purpose int) *simnet.Random {
		return simnet.NewRandom(w.seed, uint64(10+purpose+10*(slot+simSlots*number)))
	}
	p := &simProcess{w: w, name: fmt.Sprintf("%d-%d", slot, number), random: stream(0), dead: make(chan struct{})}
	link := func(purpose int) *simnet.Link {
		return &simnet.Link{
			Random: stream(purpose), Latency: time.Millisecond, Span: 2 * time.Second, Faults: 0.1,
			State: p.state, Slow: func() bool { return false }, Step: func() {},
			Dead: p.dead, Count: w.count,
			Later: func(d time.Duration, do func() bool) {
				w.count("claims that arrived late")
				w.tasks.Go(func() {
					time.Sleep(d)
					do()
				})
			},
		}
	}
	p.link, p.probes = link(1), link(2)
	return p
}

// state is the way to the store. The spells of it are drawn by the calls, so it may not change by itself.
func (p *simProcess) state() simnet.State {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if time.Now().Before(p.cut) {
		return p.way
	}
	return simnet.Whole
}

// trouble begins a spell in which nothing, or no answer, passes.
func (p *simProcess) trouble() {
	d, way := p.random.About(3*time.Second), simnet.Cut
	if p.random.Chance(0.4) {
		way = simnet.OneWay
	}
	p.w.mu.Lock()
	p.cut, p.way = time.Now().Add(d), way
	p.w.mu.Unlock()
	p.w.count("spells without answers")
}

func (p *simProcess) Claim(ctx context.Context, name string, n int64) (int64, error) {
	return p.ClaimOn(ctx, name, n, segment.AnyTerms())
}

func (p *simProcess) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	done := int64(0)
	serve := func() simAnswer { //nolint:contextcheck // what has arrived is done, whoever waits
		a := p.w.claim(name, n, t)
		done = a.first
		return a
	}
	late := func() bool { return p.w.claim(name, n, t).err == nil } //nolint:contextcheck // likewise
	answer, err := simnet.Request(ctx, p.link, serve, late)
	if err == nil {
		return answer.first, answer.err
	}
	p.w.count("claims without an answer")
	if p.w.mutant == answersAgain && done != 0 {
		p.w.mu.Lock()
		p.w.unsent = done
		p.w.mu.Unlock()
	}
	return 0, err
}

func (p *simProcess) Probe(ctx context.Context) error {
	_, err := simnet.Request(ctx, p.probes, func() bool { return true }, nil)
	return err
}

// run takes numbers until the process dies. What it gets in that moment nobody hears of.
func (p *simProcess) run(lives time.Duration) {
	source, err := segment.New(p, "orders", segment.WithBlock(simBlock, simBlock),
		segment.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		p.w.fault("%v", err)
		return
	}
	die := sync.OnceFunc(func() { close(p.dead) })
	timer := time.AfterFunc(lives, die)
	defer timer.Stop()
	last := int64(0)
	for {
		time.Sleep(p.random.About(20 * time.Millisecond))
		if p.random.Chance(0.003) {
			p.trouble()
		}
		numbers := make([]int64, 1+p.random.Below(20))
		err := source.Fill(context.Background(), numbers)
		select {
		case <-p.dead:
			_ = source.Close() // only so that its goroutines end
			return
		default:
		}
		if err != nil {
			p.refused(err)
			if errors.Is(err, segment.ErrWentBack) {
				die() // as an application should
			}
			continue
		}
		last = p.take(numbers, last)
	}
}

// refused objects to an error that no fault of the simulation explains.
func (p *simProcess) refused(err error) {
	if !errors.Is(err, segment.ErrExhausted) {
		p.w.fault("%s: %v", p.name, err)
		return
	}
	p.w.count("calls without a number")
}

// take notes the numbers that were given out.
func (p *simProcess) take(numbers []int64, last int64) int64 {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, n := range numbers {
		if other, known := p.w.given[n]; known {
			p.w.faults = append(p.w.faults, fmt.Sprintf("%d was given to %s and to %s", n, other, p.name))
		}
		if n <= last {
			p.w.faults = append(p.w.faults, fmt.Sprintf("%s: %d came after %d", p.name, n, last))
		}
		p.w.given[n], last = p.name, n
	}
	return last
}

// simResult is what one simulation was and found.
type simResult struct {
	tally  map[string]int
	faults []string
	lost   int64 // numbers that nobody has got
	hash   uint64
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64, mutant simMutant) (result simResult) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := &simWorld{
			seed: seed, mutant: mutant, memory: segmenttest.NewMemory(), began: time.Now(),
			random: simnet.NewRandom(seed, 1), tally: map[string]int{}, given: map[int64]string{},
		}
		for slot := range simSlots {
			w.tasks.Go(func() {
				lives := simnet.NewRandom(seed, uint64(2+slot))
				for number := 0; time.Since(w.began) < simLength; number++ {
					w.count("processes")
					w.newProcess(slot, number).run(lives.About(15 * time.Second))
				}
			})
		}
		w.tasks.Wait()
		// A probe of an attempt that is over may still be on its way back, and it counts its answer.
		synctest.Wait()
		result = w.judge()
	})
	return result
}

// judge compares what was given out with what was claimed.
func (w *simWorld) judge() simResult {
	r := simResult{tally: w.tally, faults: w.faults}
	sum := fnv.New64a()
	for _, c := range w.counters() {
		for n := int64(1); n < c.Next; n++ {
			owner, given := w.given[n]
			if !given {
				r.lost++
			}
			_, _ = fmt.Fprintln(sum, n, owner)
		}
	}
	r.hash = sum.Sum64()
	r.tally["numbers"] = len(w.given)
	// A process that dies loses two blocks, and what it took in its last call. A claim without an answer may
	// have been done, and is lost then.
	explained := int64(w.tally["processes"])*(2*simBlock+20) + int64(w.tally["claims without an answer"])*simBlock
	if r.lost > explained {
		r.faults = append(r.faults, fmt.Sprintf("%d numbers are lost, and %d are explained: %v", r.lost, explained, w.tally))
	}
	return r
}

func TestSimulationGivesNoNumberTwice(t *testing.T) {
	t.Parallel()
	sum := map[string]int{}
	seeds := simnet.Seeds{Known: []uint64{0, 1}, New: 1, Night: 64}.Choose(t)
	for _, seed := range seeds {
		r := simulate(t, seed, noMutant)
		for what, n := range r.tally {
			sum[what] += n
		}
		if n := len(r.faults); n > 0 {
			t.Errorf("seed %d: %d faults: %.5q", seed, n, r.faults[:min(n, 5)])
		}
	}
	t.Logf("%d seeds: %v", len(seeds), sum)
	for _, what := range []string{
		"numbers", "answers lost", "requests lost", "claims that arrived late", "spells without answers",
		"calls without a number",
	} {
		if sum[what] < len(seeds) && !simnet.Alone() {
			t.Errorf("%d %s in %d seeds do not test much", sum[what], what, len(seeds))
		}
	}
}

func TestSimulationOfNumbersRepeatsItself(t *testing.T) {
	t.Parallel()
	for _, seed := range (simnet.Seeds{Known: []uint64{0}, Night: 8}).Choose(t) {
		first, again := simulate(t, seed, noMutant), simulate(t, seed, noMutant)
		if first.hash != again.hash || first.lost != again.lost {
			t.Errorf("seed %d: %x, then %x", seed, first.hash, again.hash)
		}
	}
}

// A store that breaks its promise must be found, or the simulation would find nothing.
func TestSimulationFindsAStoreThatRepeats(t *testing.T) {
	t.Parallel()
	seeds := simnet.Seeds{Known: []uint64{0}, Night: 16}.Choose(t)
	for _, mutant := range []simMutant{answersAgain, forgets} {
		found := 0
		for _, seed := range seeds {
			if len(simulate(t, seed, mutant).faults) > 0 {
				found++
			}
		}
		t.Logf("the mutant %d: faults in %d of %d seeds", mutant, found, len(seeds))
		if found < (len(seeds)+1)/2 {
			t.Errorf("of %d seeds with the mutant %d only %d have faults", len(seeds), mutant, found)
		}
	}
}
