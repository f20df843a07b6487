//go:build unix

package faults_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// openStore opens the store of a worker in the database of the target that is called store.
func openStore(store, dsn string) (lease.Store, error) {
	target, err := targetOf(store)
	if err != nil {
		return nil, err
	}
	db, err := gorm.Open(target.Dialector(dsn), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	s, err := gormlease.New(db)
	if err != nil {
		pool, missing := db.DB()
		if missing == nil {
			missing = pool.Close()
		}
		return nil, errors.Join(err, missing)
	}
	return s, nil
}

func targetOf(name string) (dbtest.Target, error) {
	for _, target := range dbtest.Targets() {
		if target.Name == name {
			return target, nil
		}
	}
	return dbtest.Target{}, fmt.Errorf("there is no target %q", name)
}

// sqliteChaos disturbs processes on a database file. There is no server that could be restarted.
func sqliteChaos(t *testing.T, c chaos.Config) chaos.Config {
	t.Helper()
	target, err := targetOf("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	// A process that is stopped in the middle of a request holds the lock on the file meanwhile.
	c.Address = sqliteBusy(t, target.DSN(t), c.Span/2)
	return c
}

func TestChaosRepeatsNoID(t *testing.T) {
	// Not in parallel: what is measured are times.
	for _, f := range chaosServers() {
		t.Run(f.target.Name, func(t *testing.T) {
			c := chaos.Usual(f.target.Name).FromEnvironment(t)
			s := newServer(t, f)
			c.Server, c.Address, c.At = s, fmt.Sprintf("127.0.0.1:%d", s.port), dsnAt(t, f)
			chaos.Run(t, c).Check(t)
		})
	}
	t.Run("sqlite", func(t *testing.T) {
		c := sqliteChaos(t, chaos.Usual("sqlite").FromEnvironment(t))
		chaos.Run(t, c).Check(t)
	})
}

// brief is a run of a few seconds.
func brief() chaos.Config {
	return chaos.Config{
		Store: "sqlite", Workers: 4, Nodes: 5, Span: 300 * time.Millisecond, Length: 5 * time.Second, Seed: 1,
	}
}

// fewSeconds runs a few seconds of chaos with one seed after the other until a run has what is wanted. Only
// chance decides whether a number changes hands in one of them, so the tests with it are for the night. It
// returns the last result, and the seed of each is logged.
func fewSeconds(t *testing.T, mutant chaos.Mutant, wanted func(chaos.Result) bool) chaos.Result {
	t.Helper()
	const most = 48
	c := brief()
	c.Mutant = mutant
	for {
		result := chaos.Run(t, sqliteChaos(t, c))
		if wanted(result) || c.Seed == most {
			return result
		}
		t.Log(result)
		c.Seed++
	}
}

func TestAFewSecondsOfChaosRepeatNoID(t *testing.T) {
	nightly.Only(t, "chance decides what happens in them; TestANumberThatChangesHandsRepeatsNoID has two takeovers")
	t.Parallel()
	fewSeconds(t, chaos.Sound, func(r chaos.Result) bool { return !r.Verdict.OK() || r.ShowsSomething() }).Check(t)
}

// Faults that are drawn must be able to show a rule that is broken.
func TestAFewSecondsOfChaosFindProcessesThatBreakARule(t *testing.T) {
	nightly.Only(t, "chance decides what happens in them; TestTheCheckerFindsProcessesThatBreakARule goes by steps")
	t.Parallel()
	for _, mutant := range []chaos.Mutant{chaos.SameNode, chaos.EndlessWindow} {
		t.Run(string(mutant), func(t *testing.T) {
			t.Parallel()
			if result := fewSeconds(t, mutant, found); !found(result) {
				t.Errorf("nothing was found in any run, and in the last: %v", result)
			}
		})
	}
}

func found(r chaos.Result) bool {
	return r.Verdict.TicksTwice > 0 && r.Verdict.IDsTwice > 0 && len(r.Verdict.Faults) > 0
}

// bySteps lets a number go from one process to another on a target.
func bySteps(t *testing.T, target dbtest.Target, mutant chaos.Mutant) chaos.Result {
	t.Helper()
	return chaos.TakeOver(t, chaos.Config{
		Store: target.Name, Address: target.DSN(t), Span: 300 * time.Millisecond, Mutant: mutant,
	})
}

func TestANumberThatChangesHandsRepeatsNoID(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, target dbtest.Target) {
		result := bySteps(t, target, chaos.Sound)
		result.Check(t)
		if result.Verdict.Takeovers < 2 {
			t.Errorf("the number changed hands %d times, and not twice", result.Verdict.Takeovers)
		}
	})
}

// The checker has to find processes that break a rule, or it would find nothing in sound ones.
func TestTheCheckerFindsProcessesThatBreakARule(t *testing.T) {
	t.Parallel()
	for _, mutant := range []chaos.Mutant{chaos.SameNode, chaos.EndlessWindow} {
		t.Run(string(mutant), func(t *testing.T) {
			t.Parallel()
			if result := bySteps(t, dbtest.Named("sqlite"), mutant); !found(result) {
				t.Errorf("nothing was found: %v", result)
			}
		})
	}
}
