//go:build unix

package faults_test

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// openCounters opens the counters of a worker in the database of the target that is called store.
func openCounters(store, dsn string) (segment.Ledger, error) {
	target, err := targetOf(store)
	if err != nil {
		return nil, err
	}
	db, err := gorm.Open(target.Dialector(dsn), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	s, err := gormsegment.New(db)
	if err != nil {
		pool, missing := db.DB()
		if missing == nil {
			missing = pool.Close()
		}
		return nil, errors.Join(err, missing)
	}
	return s, nil // it may use the pool: on a busy machine it may have got no connection of its own
}

// countBriefly runs a few seconds with one seed after the other until a run has what is wanted. On a busy
// machine one of them may have too few numbers. It returns the last result.
func countBriefly(
	t *testing.T, mutant chaos.Mutant, wanted func(chaos.CounterResult) bool,
) chaos.CounterResult {
	t.Helper()
	const most = 12
	c := chaos.Config{
		Store: "sqlite", Workers: 4, Span: 300 * time.Millisecond, Length: 3 * time.Second, Seed: 1, Mutant: mutant,
	}
	for {
		result := chaos.RunCounters(t, sqliteChaos(t, c), openCounters)
		if wanted(result) || c.Seed == most {
			return result
		}
		t.Log(result)
		c.Seed++
	}
}

func TestAFewSecondsOfChaosRepeatNoNumber(t *testing.T) {
	nightly.Only(t, "chance decides what happens in them; TestAClaimThatIsLateRepeatsNoNumber goes by steps")
	t.Parallel()
	countBriefly(t, chaos.Sound, func(r chaos.CounterResult) bool {
		return !r.Verdict.OK() || r.ShowsSomething()
	}).Check(t)
}

// lateClaim lets a process claim after another one that it has not heard of.
func lateClaim(t *testing.T, target dbtest.Target, mutant chaos.Mutant) chaos.CounterResult {
	t.Helper()
	return chaos.ClaimLate(t, chaos.Config{Store: target.Name, Address: target.DSN(t), Mutant: mutant}, openCounters)
}

func TestAClaimThatIsLateRepeatsNoNumber(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, target dbtest.Target) { lateClaim(t, target, chaos.Sound).Check(t) })
}

// The checker has to find processes that break a rule, or it would find nothing in sound ones.
func TestTheCheckerFindsNumbersThatWereReadBeforeTheyWereClaimed(t *testing.T) {
	t.Parallel()
	r := lateClaim(t, dbtest.Named("sqlite"), chaos.ReadsFirst)
	if r.Verdict.Twice == 0 || len(r.Verdict.Faults) == 0 {
		t.Errorf("nothing was found: %v", r)
	}
}

// Gaps have a bound, and a store that loses more must be found.
func TestTheCheckerFindsBlocksThatNothingExplains(t *testing.T) {
	t.Parallel()
	if r := lateClaim(t, dbtest.Named("sqlite"), chaos.ClaimsTwice); !r.LosesTooMany() {
		t.Errorf("nothing was found: %v", r)
	}
}

func TestChaosRepeatsNoNumber(t *testing.T) {
	// Not in parallel: the more numbers, the better.
	for _, f := range chaosServers() {
		t.Run(f.target.Name, func(t *testing.T) {
			c := chaos.Usual(f.target.Name).FromEnvironment(t)
			s := newServer(t, f)
			c.Server, c.Address, c.At = s, fmt.Sprintf("127.0.0.1:%d", s.port), dsnAt(t, f)
			chaos.RunCounters(t, c, openCounters).Check(t)
		})
	}
	t.Run("sqlite", func(t *testing.T) {
		c := sqliteChaos(t, chaos.Usual("sqlite").FromEnvironment(t))
		chaos.RunCounters(t, c, openCounters).Check(t)
	})
}

// dsnAt returns the function that makes a DSN of the host and the port of a relay.
func dsnAt(t *testing.T, f flavor) func(relay string) string {
	t.Helper()
	return func(relay string) string {
		_, text, err := net.SplitHostPort(relay)
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return f.dsn(port)
	}
}
