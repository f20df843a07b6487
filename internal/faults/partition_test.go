//go:build unix

package faults_test

import (
	"testing"
	"time"
)

func TestSwapsThatAreNotAnsweredNeitherRepeatNorLoseANumber(t *testing.T) {
	t.Parallel()
	eachPrivateServer(t, func(t *testing.T, f flavor) {
		const span = 1500 * time.Millisecond
		s := newServer(t, f)
		p := newProxy(t, s.port, span/2)
		base := order{
			Target: f.target, DSN: f.dsn(p.port()), Hi: 3,
			Span: span, Pace: usualPace, Patience: 3 * time.Second,
		}
		c := newCrew(t, base, 3, f.dsn(s.port))
		c.fill()
		c.everyone("has not begun")
		before := c.numbers()

		c.refusedAfter(p.refuse)
		p.accept()
		c.everyone("does not go on after it was cut off")

		all := []fate{fateVeryLate, fateUnheard, fateLost, fateLate}
		for _, f := range all {
			c.suffer(p, f, 3*len(before))
			c.everyone("does not go on after its swaps were: " + f.String())
		}
		c.kept(before)

		// The same happens to one worker, while others wait for its number.
		c.size = 6
		c.fill()
		for i := range rounds(t) / 2 {
			c.outlive(p, all[i%len(all)])
		}
		c.progress()
		sum := c.finish()
		c.complain(func(string, string) bool { return true })
		t.Logf("swaps: %v; %s; %s", p.met, c.summary(), sum)
	})
}

// suffer lets the swaps of all workers meet a fate until so many have.
func (c *crew) suffer(p *proxy, f fate, swaps int) {
	c.t.Helper()
	before := p.count(f)
	p.decree(f, "")
	eventually(c.t, "the workers do not swap", func() bool { return p.count(f) >= before+swaps })
	p.decree(fatePass, "")
}

// outlive lets the swaps of one worker meet a fate, until it has lost its number to another one if
// they do not arrive in time, or until some have met it.
func (c *crew) outlive(p *proxy, f fate) {
	c.t.Helper()
	const enough = 4
	victim := c.holder()
	node, before := victim.current(), p.count(f)
	p.decree(f, victim.Name)
	if f == fateLost || f == fateVeryLate {
		c.handedOver(node, victim)
	} else {
		eventually(c.t, victim.Name+" does not swap", func() bool { return p.count(f) >= before+enough })
	}
	p.decree(fatePass, "")
	c.progress()
}
