package lease_test

import "time"

// simClock is the clock of a machine or of the store: true time, bent by skew, drift and steps.
// It never changes after it was drawn.
type simClock struct {
	began time.Time // in time of the bubble
	start time.Time // true time then
	drift float64
	steps []simStep
}

// simStep sets a clock to be wrong by so much, from an instant on.
type simStep struct {
	at time.Duration
	by time.Duration
}

// newSimClock draws a clock for a whole simulation.
func newSimClock(s simScenario, r *simRand, began time.Time) *simClock {
	c := &simClock{
		began: began,
		// Some months after the epochs, and in the middle of a tick.
		start: time.Date(2025, time.July, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s.seed) * 1234567 * time.Microsecond),
		drift: float64(r.Within(time.Millisecond)) / float64(time.Second) / 4,
		steps: []simStep{{by: s.offset(r)}},
	}
	if s.steps == 0 {
		return c
	}
	for at := r.About(s.steps); at < s.length; at += r.About(s.steps) {
		c.steps = append(c.steps, simStep{at: at, by: s.offset(r)})
		if last := len(c.steps) - 1; c.far(last) {
			// A clock that is wrong by hours is corrected some time later.
			at += r.About(s.span)
			c.steps = append(c.steps, simStep{at: at, by: s.offset(r)})
		}
	}
	return c
}

// far tells whether a step sets the clock to be wrong by more than any keeper allows.
func (c *simClock) far(step int) bool {
	return c.steps[step].by.Abs() > 6*time.Second
}

// offset draws how wrong a clock is.
func (s simScenario) offset(r *simRand) time.Duration {
	switch {
	case r.Chance(s.wrong):
		return r.Within(2 * time.Hour)
	case s.wrong > 0 && r.Chance(0.35):
		return r.Within(5 * time.Second)
	}
	return r.Within(s.skew)
}

// elapsed is true time since the simulation began.
func (c *simClock) elapsed() time.Duration { return time.Since(c.began) }

// now is what the clock shows. It has no monotonic reading.
func (c *simClock) now() time.Time {
	elapsed := c.elapsed()
	var by time.Duration
	for _, step := range c.steps {
		if step.at > elapsed {
			break
		}
		by = step.by
	}
	return c.start.Add(elapsed + time.Duration(float64(elapsed)*c.drift) + by)
}

// when is the instant at which the clock shows something, if it has no steps.
func (c *simClock) when(shown time.Time) time.Duration {
	return time.Duration(float64(shown.Sub(c.start)-c.steps[0].by) / (1 + c.drift))
}
