package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// limits are the least that a generator can cost on this machine, as peers that make no IDs.
func limits() []peer {
	loop := func(step func()) func() (series, error) {
		return func() (series, error) {
			return series{run: func(n int) error {
				for range n {
					step()
				}
				return nil
			}}, nil
		}
	}
	var counter atomic.Int64
	var mutex sync.Mutex
	var plain int64
	begin := time.Now()
	return []peer{
		{name: "an atomic addition", open: loop(func() { counter.Add(1) })},
		{name: "a mutex and an addition", open: loop(func() {
			mutex.Lock()
			plain++
			mutex.Unlock()
		})},
		{name: "a monotonic reading of the clock", open: loop(func() { _ = time.Since(begin) })},
		{name: "a reading of the wall clock", open: loop(func() { _ = time.Now() })},
	}
}
