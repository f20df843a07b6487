package chaos

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos/checker"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// enough is how many IDs of one tick two processes have to make so that some of them are the same. The first
// sequence number of a tick is drawn from the first 256.
const enough = 1000

// TakeOver does to two workers, step by step, what [Run] leaves to chance: the one number that there is goes
// from the first to the second while the first is cut off from the store, and then the clock of the first is
// set to a tick in which the second has made IDs. A worker that breaks the rules makes the same ones then.
// The second is killed, and the first takes the number back. Nothing here depends on how fast the machine is.
func TakeOver(tb testing.TB, c Config) Result {
	tb.Helper()
	c.Nodes, c.Workers = 1, 2
	r := newRunner(tb, c, false)
	r.stepwise = true
	first := r.hire(0)
	r.until(first.Name+" makes no ID", func() bool { return len(r.journal(first).Runs) > 0 })
	first.tell(tb, r, wordStop) // so that it cannot see the end of its window, nor use ticks after it
	first.tell(tb, r, wordShut)

	second := r.hire(1)
	r.until(second.Name+" does not get the number of "+first.Name, func() bool {
		return len(r.journal(second).Runs) > 0
	})
	second.tell(tb, r, wordStop)
	tick := int64(-1)
	r.until(second.Name+" does not make many IDs in one tick", func() bool {
		tick = fullTick(r.journal(second))
		return tick >= 0
	})

	layout := generator.Default()
	first.tell(tb, r, wordAt, layout.Epoch.Add(time.Duration(tick)*layout.Tick))
	refused := first.said.count(wordRefused)
	// A batch may have begun before the clock was set, but not a second one.
	r.until(first.Name+" neither makes IDs in that tick nor is refused any", func() bool {
		return first.said.count(wordRefused) >= refused+2 || ticksOf(r.journal(first))[tick] >= enough
	})
	if c.Mutant == Sound {
		h := happening{fault: fault{kind: kill, worker: 1}, began: time.Now()}
		if err := second.kill(); err != nil {
			tb.Error(err)
		}
		h.ended = time.Now()
		r.note(h)
		first.tell(tb, r, wordOff, time.Duration(0))
		first.tell(tb, r, wordOpen)
		r.until(first.Name+" does not get its number back", func() bool {
			runs := r.journal(first).Runs
			return tickOf(runs[len(runs)-1].First) > tick
		})
	}
	r.dismiss()
	return r.judge()
}

// tickOf returns the tick of an ID of the default layout.
func tickOf(id int64) int64 { return id >> 22 }

// ticksOf counts the IDs of each tick.
func ticksOf(j checker.Journal) map[int64]int64 {
	ticks := make(map[int64]int64)
	for _, run := range j.Runs {
		ticks[tickOf(run.First)] += run.Count
	}
	return ticks
}

// fullTick returns a tick with enough IDs, or -1.
func fullTick(j checker.Journal) int64 {
	for tick, n := range ticksOf(j) {
		if n >= enough {
			return tick
		}
	}
	return -1
}

// ClaimLate is [TakeOver] for workers that take numbers from one counter: the first is held when it is about
// to claim, until the second has claimed and was killed and its successor has numbers. Then both go on until
// they have so many numbers that losses can be told from what deaths explain.
func ClaimLate(tb testing.TB, c Config, open CounterOpener) CounterResult {
	tb.Helper()
	c.Workers = 2
	r := newRunner(tb, c, true)
	r.stepwise, r.shut = true, true
	first := r.hire(0)
	r.until(first.Name+" claims nothing", func() bool { return first.said.count(wordWaiting) > 0 })
	r.shut = false
	second := r.hire(1)
	r.until(second.Name+" gets no number", func() bool { return len(r.journal(second).Runs) > 0 })
	h := happening{fault: fault{kind: kill, worker: 1}, began: time.Now()}
	if err := second.kill(); err != nil {
		tb.Error(err)
	}
	second = r.hire(1)
	h.ended = time.Now()
	r.note(h)
	r.until(second.Name+" gets no number", func() bool { return len(r.journal(second).Runs) > 0 })
	first.tell(tb, r, wordOpen)
	r.until(first.Name+" gets no number", func() bool { return len(r.journal(first).Runs) > 0 })
	if c.Mutant != ReadsFirst {
		r.until("the workers do not take many numbers", func() bool {
			used := checker.CheckNumbers(r.journals()).Count
			return used >= (int64(4*len(r.all))+r.failed())*counterBlock
		})
	}
	r.dismiss()
	return r.judgeCounters(open)
}

// journal reads what a process has written so far.
func (r *runner) journal(p *process) checker.Journal {
	r.tb.Helper()
	file, err := os.Open(p.Journal)
	if os.IsNotExist(err) {
		return checker.Journal{Name: p.Name} // it has not begun, or was killed before
	}
	if err != nil {
		r.tb.Fatal(err)
	}
	j, err := checker.Read(p.Name, file)
	_ = file.Close() // it was only read
	if err != nil {
		r.tb.Fatal(err)
	}
	return j
}

// until waits until something holds. It gives up when no process has written or said anything for so long
// that none of them will.
func (r *runner) until(otherwise string, holds func() bool) {
	r.tb.Helper()
	state, since := "", time.Now()
	for !holds() {
		if now := r.state(); now != state {
			state, since = now, time.Now()
		}
		if silent := time.Since(since); silent > servers.Patience {
			for _, p := range r.all {
				r.tb.Logf("%s said last:\n%s", p.Name, p.log.tail())
			}
			r.tb.Fatalf("%s, and nothing else has happened for %v", otherwise, silent.Round(time.Second))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// state changes whenever a process writes or says something, or ends.
func (r *runner) state() string {
	state := ""
	for _, p := range r.all {
		size := int64(-1)
		if file, err := os.Stat(p.Journal); err == nil {
			size = file.Size()
		}
		state += fmt.Sprintln(p.Name, size, p.log.size(), p.said.size(), p.alive())
	}
	return state
}
