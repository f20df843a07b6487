package lease_test

import (
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/simnet"
)

// simRand is a stream of random choices. Every goroutine of a simulation has streams of its own,
// so that what one of them draws does not depend on when the others run. Its lock is for the few
// that two goroutines of a process use in turn.
type simRand = simnet.Random

// simScenario is what one seed is about. All rates are per span or per step.
type simScenario struct {
	seed   uint64
	layout generator.Layout
	lo, hi int64
	fixed  bool // every process wants one number of its own choice
	within bool // the store looks at its clock and swaps in one request
	slots  int  // machines, with one process each, one after the other
	span   time.Duration
	length time.Duration // of the whole

	latency time.Duration // of a request, and again of its answer

	simWeather
}

// simWeather is how much goes wrong.
type simWeather struct {
	faults     float64       // of a request
	standstill float64       // of a process, at each of its steps
	pauses     time.Duration // between two pauses of a process
	cuts       time.Duration // between two partitions of a machine
	outages    time.Duration // between two outages of the store
	steps      time.Duration // between two steps of a clock
	skew       time.Duration // of a clock where it is not wrong
	wrong      float64       // of a step, that it sets the clock to something wrong
	life       time.Duration // of a process that has a number
	crash      float64       // of a process that ends
}

// newSimScenario draws what happens in a seed.
func newSimScenario(seed uint64) simScenario {
	r := simnet.NewRandom(seed, 0)
	s := simScenario{
		seed:   seed,
		layout: simLayouts()[seed%uint64(len(simLayouts()))],
		fixed:  r.Chance(0.15),
		within: r.Chance(0.5),
		slots:  int(2 + r.Below(31)),
		span:   time.Second + r.UpTo(14*time.Second),
	}
	if r.Chance(0.7) {
		s.span = time.Second + r.UpTo(time.Second) // so that clocks are wrong by more than that
	}
	// There are never enough numbers.
	numbers := min(1+r.Below(4), int64(s.slots-1))
	if s.fixed {
		numbers = min(numbers, int64(s.slots/2))
	}
	s.lo = r.Below(min(s.layout.MaxNode(), 1000) - 3)
	s.hi = s.lo + numbers - 1
	s.length = time.Duration(180/numbers) * s.span // for about as many holders in each seed
	s.latency = s.span/500 + r.UpTo(s.span/100)
	// Quiet, rough or stormy.
	rough := time.Duration(1 + r.Below(3))
	s.simWeather = simWeather{
		faults:     []float64{0.02, 0.04, 0.08}[rough-1],
		standstill: []float64{0.001, 0.003, 0.006}[rough-1],
		pauses:     12 * s.span / rough,
		cuts:       12 * s.span / rough,
		outages:    24 * s.span / rough,
		steps:      6 * s.span / rough,
		skew:       []time.Duration{5 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second}[r.Below(3)],
		wrong:      0.03,
		life:       6 * s.span / rough,
		crash:      0.6,
	}
	return s
}

// newHealthyScenario is one in which the store is well and clocks differ by little. Processes crash,
// end and are paused all the same.
func newHealthyScenario(seed uint64, slots int, numbers int64) simScenario {
	s := newSimScenario(seed)
	s.layout = simLayouts()[seed%3] // those with sixteen numbers and more
	s.lo, s.hi, s.fixed, s.slots = 0, numbers-1, false, slots
	s.length = 40 * s.span
	s.latency = s.span / 1000
	s.simWeather = simWeather{
		pauses: 10 * s.span,
		skew:   s.span / 20,
		life:   6 * s.span,
		crash:  0.6,
	}
	return s
}

// simLayouts are those of the seeds, in turn: milliseconds and tenths of seconds, many IDs a tick
// and few.
func simLayouts() []generator.Layout {
	return []generator.Layout{
		generator.Default(),
		generator.Game(),
		generator.JavaScript(),
		{
			Name: "small", Epoch: time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC),
			Tick: 10 * time.Millisecond, TimeBits: 36, Node: []generator.Field{{Name: "node", Bits: 3}},
			SequenceBits: 4,
		},
		{
			Name: "tiny", Epoch: time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC),
			Tick: time.Millisecond, TimeBits: 41, Node: []generator.Field{{Name: "node", Bits: 3}},
			SequenceBits: 2,
		},
	}
}

// simSpell is a time in which something is so. A spell that is odd is so in another way.
type simSpell struct {
	from, to time.Duration
	odd      bool
}

// simSpells are spells, one after the other.
type simSpells []simSpell

// drawSpells draws the spells of a whole simulation. A rate of zero means none.
func drawSpells(r *simRand, length, between, lasting time.Duration) simSpells {
	var spells simSpells
	if between == 0 {
		return nil
	}
	for at := r.About(between); at < length; at += r.About(between) {
		spell := simSpell{from: at, to: at + r.About(lasting), odd: r.Chance(0.4)}
		spells = append(spells, spell)
		at = spell.to
	}
	return spells
}

// at returns the spell that holds an instant; a zero one if there is none.
func (s simSpells) at(instant time.Duration) simSpell {
	for _, spell := range s {
		if instant < spell.from {
			break
		}
		if instant < spell.to {
			return spell
		}
	}
	return simSpell{}
}
