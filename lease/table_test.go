package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// table is a store in memory that a test may alter by hand, as people alter a table, and whose
// requests it may delay and spoil. It cannot swap within; see quick.
type table struct {
	clock *wallClock

	mu sync.Mutex
	// All below is guarded by mu.
	records  map[int64]lease.Record
	twice    []lease.Record // listed as well
	requests []request
	spoil    spoiler
}

// quick is a table that swaps within.
type quick struct{ *table }

// probed is a table that swaps within, and can be probed.
type probed struct{ quick }

// slow is a table that asks for longer windows.
type slow struct {
	*table
	hint time.Duration
}

var (
	_ lease.Store         = (*table)(nil)
	_ lease.WithinSwapper = quick{}
	_ lease.Prober        = probed{}
	_ lease.SpanHinter    = slow{}
)

// request is what was asked of a table.
type request struct {
	kind       string // one of those below
	at         time.Time
	prev, next lease.Record // of a swap
}

const (
	asksNow    = "now"
	asksList   = "list"
	asksSwap   = "swap"
	asksWithin = "within"
	probes     = "probe"
)

// writes tells whether a request is a swap.
func (r request) writes() bool { return r.kind == asksSwap || r.kind == asksWithin }

// spoiler stands between a table and those who ask. It may serve a request at once, later or
// never, and answers it. Whether a swap was done is what serve returns; of other requests only the
// error counts.
type spoiler func(ctx context.Context, r request, serve func() bool) (bool, error)

// errDown is what a store says that does not work.
var errDown = errors.New("connection refused")

// down serves nothing.
func down(context.Context, request, func() bool) (bool, error) { return false, errDown }

// silent serves nothing and does not say so.
func silent(ctx context.Context, _ request, _ func() bool) (bool, error) {
	<-ctx.Done()
	return false, context.Cause(ctx)
}

// unanswered does every swap and loses the answer.
func unanswered(_ context.Context, r request, serve func() bool) (bool, error) {
	done := serve()
	if r.writes() {
		return false, errDown
	}
	return done, nil
}

// dropped loses every swap.
func dropped(_ context.Context, r request, serve func() bool) (bool, error) {
	if r.writes() {
		return false, errDown
	}
	return serve(), nil
}

func newTable(records ...lease.Record) *table {
	s := &table{clock: new(wallClock), records: map[int64]lease.Record{}}
	for _, r := range records {
		s.put(r)
	}
	return s
}

func (s *table) Now(ctx context.Context) (now time.Time, err error) {
	_, err = s.serve(ctx, request{kind: asksNow}, func() bool {
		now = s.clock.Now()
		return true
	})
	return now, err
}

func (s *table) List(ctx context.Context) (records []lease.Record, err error) {
	_, err = s.serve(ctx, request{kind: asksList}, func() bool {
		records = s.all()
		return true
	})
	return records, err
}

func (s *table) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	if err := lease.CheckSwap(prev, next); err != nil {
		return false, err
	}
	return s.serve(ctx, request{kind: asksSwap, prev: prev, next: next}, func() bool {
		return s.swap(prev, next)
	})
}

func (q quick) SwapWithin(
	ctx context.Context, prev, next lease.Record, earliest, latest time.Time,
) (bool, error) {
	if err := lease.CheckSwap(prev, next); err != nil {
		return false, err
	}
	return q.serve(ctx, request{kind: asksWithin, prev: prev, next: next}, func() bool {
		now := q.clock.Now()
		return !now.Before(earliest) && !now.After(latest) && q.swap(prev, next)
	})
}

func (p probed) Probe(ctx context.Context) error {
	_, err := p.serve(ctx, request{kind: probes}, func() bool { return true })
	return err
}

func (s slow) SpanHint() time.Duration { return s.hint }

func (s *table) serve(ctx context.Context, r request, serve func() bool) (bool, error) {
	r.at = time.Now()
	s.mu.Lock()
	s.requests = append(s.requests, r)
	spoil := s.spoil
	s.mu.Unlock()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if spoil != nil {
		return spoil(ctx, r, serve)
	}
	return serve(), nil
}

func (s *table) swap(prev, next lease.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.records[next.Node]
	if stored.Version != prev.Version || stored.Version != 0 && stored.Owner != prev.Owner {
		return false
	}
	s.records[next.Node] = next
	return true
}

// all returns the records in the order of their numbers.
func (s *table) all() []lease.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := slices.Clone(s.twice)
	for _, r := range s.records {
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b lease.Record) int { return int(a.Node - b.Node) })
	return records
}

// spoilWith sets or, with nil, ends what stands between the table and those who ask.
func (s *table) spoilWith(by spoiler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoil = by
}

// besides lists further records, as no table of this package can have them.
func (s *table) besides(records []lease.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.twice = records
}

// put and remove change the table by hand.
func (s *table) put(r lease.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[r.Node] = r
}

func (s *table) remove(node int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, node)
}

// of returns the record of a number.
func (s *table) of(t testing.TB, node int64) lease.Record {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	r, found := s.records[node]
	if !found {
		t.Fatalf("node %d has no record", node)
	}
	return r
}

// forget ends the count of requests.
func (s *table) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// asked returns the requests of some kinds, of all if none is named.
func (s *table) asked(kinds ...string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var asked []request
	for _, r := range s.requests {
		if len(kinds) == 0 || slices.Contains(kinds, r.kind) {
			asked = append(asked, r)
		}
	}
	return asked
}

// wantAsked fails unless exactly these kinds of requests came, in this order.
func (s *table) wantAsked(t testing.TB, kinds ...string) {
	t.Helper()
	var asked []string
	for _, r := range s.asked() {
		asked = append(asked, r.kind)
	}
	if fmt.Sprint(asked) != fmt.Sprint(kinds) {
		t.Errorf("the store was asked %v, want %v", asked, kinds)
	}
}
