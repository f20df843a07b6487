//go:build unix

package faults_test

import (
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestSwapsThatAreNotAnsweredNeitherRepeatNorLoseANumber(t *testing.T) {
	t.Parallel()
	eachNetwork(t, func(t *testing.T, target dbtest.Target) {
		span := nightly.Pick(time.Second, 1500*time.Millisecond)
		dsn := target.DSN(t)
		address, replaced := addressOf(t, dsn)
		p := newProxy(t, span/2, address)
		// Without a time limit on reading, a connection that is cut off is waited for.
		limits := map[string]string{
			"postgres": "connect_timeout=2", "mysql": "timeout=2s&readTimeout=3s",
		}[target.Dialect]
		proxied := replaced(net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port())))
		base := order{
			Target: target, DSN: withParameters(proxied, limits),
			Hi: 3, Span: span, Pace: usualPace(), Patience: 3 * time.Second,
		}
		c := newCrew(t, base, 3, dsn)
		c.also = append(c.also, p)
		c.fill()
		c.everyone("has not begun")
		before := c.numbers()

		c.refusedAfter(p.refuse)
		p.accept()
		c.everyone("does not go on after it was cut off")

		all := []fate{fateVeryLate, fateUnheard, fateLost, fateLate}
		for _, f := range all {
			c.suffer(p, f, nightly.Pick(1, 3)*len(before))
			c.everyone("does not go on after its swaps were: " + f.String())
		}
		c.kept(before)

		// The same happens to one worker, while others wait for its number.
		c.size = 6
		c.fill()
		for i := range max(rounds(t)/2, len(all)) {
			c.outlive(p, all[i%len(all)])
		}
		c.progress()
		sum := c.finish()
		c.complain(func(string, string) bool { return true })
		t.Logf("swaps: %v; %s; %s", p.met, c.summary(), sum)
	})
}

// eachNetwork runs fn on the servers that are reached by a network, as far as this tier does.
func eachNetwork(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	dbtest.Run(t, dbtest.Chosen(t.Name(), []dbtest.Target{
		dbtest.Named("postgres"), dbtest.Named("mariadb"), dbtest.Named("mysql"),
	}), fn)
}

// suffer lets the swaps of all workers meet a fate until so many have.
func (c *crew) suffer(p *proxy, f fate, swaps int) {
	c.t.Helper()
	before := p.count(f)
	p.decree(f, "")
	c.eventually("the workers do not swap", func() bool { return p.count(f) >= before+swaps })
	p.decree(fatePass, "")
}

// outlive lets the swaps of one worker meet a fate, until it has lost its number to another one if they do
// not arrive in time, or until some have met it. A worker that loses its number all the same may never swap
// again, because others wait for one too. Then the next one is the victim.
func (c *crew) outlive(p *proxy, f fate) {
	c.t.Helper()
	const enough = 4
	before := p.count(f)
	if f == fateLost || f == fateVeryLate {
		victim := c.holder()
		node := victim.current()
		p.decree(f, victim.Name)
		c.handedOver(node, victim)
	} else {
		var victim *process
		c.eventually("no worker that has a number swaps", func() bool {
			if victim == nil || !slices.Contains(c.holders(), victim) {
				if victim = c.anyHolder(); victim != nil {
					p.decree(f, victim.Name)
				}
			}
			return p.count(f) >= before+enough
		})
	}
	p.decree(fatePass, "")
	c.progress()
}
