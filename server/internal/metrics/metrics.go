// Package metrics counts what the service does, and writes the counts in the text format of Prometheus.
//
//	m := metrics.New()
//	m.Observe("resp", "ok", took)
//	m.WriteTo(w)
//
// The label values come from lists in the code, in the settings and in the token file, never from a request,
// so their number is bounded.
package metrics

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bounds are the upper ends of the buckets of latency.
func bounds() []time.Duration {
	return []time.Duration{
		100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond,
		2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
		100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second,
	}
}

// Set holds all metrics of a service. Make one with [New]. Its methods are safe for concurrent use.
type Set struct {
	bounds []time.Duration

	mu       sync.RWMutex
	requests map[requestKey]*series
	issued   map[issuedKey]*atomic.Uint64
	gauges   []gauge
}

type requestKey struct{ protocol, code string }

type issuedKey struct{ source, client string }

// series is the histogram of one protocol and result.
type series struct {
	buckets []atomic.Uint64 // one for each bound, and one for what is beyond
	count   atomic.Uint64
	nanos   atomic.Int64
}

type gauge struct {
	name, help, kind string
	read             func() []Value
}

// Value is one reading of a gauge. Labels is empty or of the form name="value".
type Value struct {
	Labels string
	Value  float64
}

// New returns an empty set.
func New() *Set {
	return &Set{
		bounds:   bounds(),
		requests: make(map[requestKey]*series),
		issued:   make(map[issuedKey]*atomic.Uint64),
	}
}

// Observe counts an answered request. The protocol and the code have to come from a fixed list.
func (s *Set) Observe(protocol, code string, took time.Duration) {
	key := requestKey{protocol, code}
	s.mu.RLock()
	one := s.requests[key]
	s.mu.RUnlock()
	if one == nil {
		s.mu.Lock()
		if one = s.requests[key]; one == nil {
			one = &series{buckets: make([]atomic.Uint64, len(s.bounds)+1)}
			s.requests[key] = one
		}
		s.mu.Unlock()
	}
	at, _ := slices.BinarySearch(s.bounds, took)
	one.buckets[at].Add(1)
	one.nanos.Add(int64(took))
	one.count.Add(1)
}

// Issued counts IDs of a source that is configured, for a client by the name of its token, which is empty
// where no token is required.
func (s *Set) Issued(source, client string, n int) {
	key := issuedKey{source, client}
	s.mu.RLock()
	counter := s.issued[key]
	s.mu.RUnlock()
	if counter == nil {
		s.mu.Lock()
		if counter = s.issued[key]; counter == nil {
			counter = new(atomic.Uint64)
			s.issued[key] = counter
		}
		s.mu.Unlock()
	}
	counter.Add(uint64(n)) //nolint:gosec // it is the length of a slice
}

// Gauge adds a metric that is read when somebody asks. The kind is "gauge" or "counter". Call it before
// the set is used.
func (s *Set) Gauge(name, kind, help string, read func() []Value) {
	s.gauges = append(s.gauges, gauge{name, help, kind, read})
}

// Number is a reading without labels.
func Number(v float64) []Value { return []Value{{Value: v}} }

// WriteTo writes all metrics.
func (s *Set) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	s.mu.RLock()
	requests, issued := maps.Clone(s.requests), maps.Clone(s.issued)
	s.mu.RUnlock()

	head(&b, "snowflaked_request_seconds", "histogram", "How long answered requests took, in seconds.")
	keys := slices.SortedFunc(maps.Keys(requests), func(a, b requestKey) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.code, b.code))
	})
	for _, key := range keys {
		s.histogram(&b, key, requests[key])
	}
	head(&b, "snowflaked_ids_total", "counter", "How many IDs were issued.")
	for _, key := range slices.SortedFunc(maps.Keys(issued), func(a, b issuedKey) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.client, b.client))
	}) {
		labels := fmt.Sprintf("source=%q", key.source)
		if key.client != "" {
			labels += fmt.Sprintf(",client=%q", key.client)
		}
		fmt.Fprintf(&b, "snowflaked_ids_total{%s} %d\n", labels, issued[key].Load())
	}
	for _, g := range s.gauges {
		head(&b, g.name, g.kind, g.help)
		for _, v := range g.read() {
			labels := ""
			if v.Labels != "" {
				labels = "{" + v.Labels + "}"
			}
			fmt.Fprintf(&b, "%s%s %g\n", g.name, labels, v.Value)
		}
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

func head(b *strings.Builder, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// histogram writes cumulative buckets. The count is that of the last bucket, so that a reader never finds
// them contradicting each other while requests go on.
func (s *Set) histogram(b *strings.Builder, key requestKey, one *series) {
	const name = "snowflaked_request_seconds"
	labels := fmt.Sprintf("protocol=%q,code=%q", key.protocol, key.code)
	var sum uint64
	for i := range one.buckets {
		sum += one.buckets[i].Load()
		bound := "+Inf"
		if i < len(s.bounds) {
			bound = fmt.Sprint(s.bounds[i].Seconds())
		}
		fmt.Fprintf(b, "%s_bucket{%s,le=%q} %d\n", name, labels, bound, sum)
	}
	fmt.Fprintf(b, "%s_sum{%s} %g\n", name, labels, time.Duration(one.nanos.Load()).Seconds())
	fmt.Fprintf(b, "%s_count{%s} %d\n", name, labels, sum)
}
