package load_test

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkIncr asks for single IDs over RESP, and for numbers of INCR from Redis, in turns and without a pause.
func BenchmarkIncr(b *testing.B) {
	address := redisAddress(b)
	if address == "" {
		b.Skip("there is no Redis of this machine")
	}
	r := newReplica(b, postgres(b))
	const each = 1000 // requests of one connection in a turn
	var sides [2][workers]call
	for i, connect := range []maker{overRESP(b, r.resp, "INCR snowflake", ""), overRESP(b, address, "INCR snowflaketest_load", "")} {
		for n := range sides[i] {
			var err error
			if sides[i][n], err = connect(); err != nil {
				b.Fatal(err)
			}
		}
	}
	var took [2][]float64
	for turn := 0; b.Loop(); turn++ {
		for _, side := range []int{turn % 2, 1 - turn%2} {
			began := time.Now()
			var working sync.WaitGroup
			for _, one := range sides[side] {
				working.Go(func() {
					for range each {
						if ids, err := one(nil, 1); err != nil || len(ids) != 1 {
							b.Errorf("%v: %v", ids, err)
							return
						}
					}
				})
			}
			working.Wait()
			took[side] = append(took[side], time.Since(began).Seconds())
		}
	}
	var rate [2]float64
	for side := range took {
		slices.Sort(took[side])
		rate[side] = each * workers / took[side][len(took[side])/2]
	}
	b.ReportMetric(rate[0], "ours/s")
	b.ReportMetric(rate[1], "redis/s")
	b.ReportMetric(rate[0]/rate[1], "of-redis")
}
