package resharding_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// Each of the first reshardings makes the tables in which reshardings are recorded.
func TestTheFirstReshardingsMayBeginAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		target = mayMakeTriggers(target.Shared(t))
		for round := range nightly.Pick(1, 5) {
			t.Run(fmt.Sprint(round), func(t *testing.T) { splitAllAtOnce(t, target) })
		}
	})
}

func splitAllAtOnce(t *testing.T, target dbtest.Target) {
	t.Helper()
	dsn := target.DSN(t)
	var programs []*program
	for range splitFrom {
		programs = append(programs, startRouter(t, target.OpenDSN(t, dsn, nil)))
	}
	orders := programs[0].create(20)
	gate, errs := make(chan struct{}), make([]error, splitFrom)
	var all sync.WaitGroup
	for i, p := range programs {
		all.Go(func() {
			<-gate
			_, errs[i] = resharding.Split(t.Context(), p.router, resharding.Class{Residue: i, Modulus: splitFrom}, 2)
		})
	}
	close(gate)
	all.Wait()
	for i, p := range programs {
		must(t, errs[i], fmt.Sprintf("Split of shard %d", i))
		p.finds(orders, "afterwards")
	}
}
