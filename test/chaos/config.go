package chaos

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

const (
	// lengthVariable says for how many seconds each store is disturbed.
	lengthVariable = "SNOWFLAKE_CHAOS"
	// seedVariable repeats the plan of a run.
	seedVariable = "SNOWFLAKE_CHAOS_SEED"
)

// A Server is one that may be killed, so it belongs to the test alone.
type Server interface {
	// Kill ends the server at once, and returns when it has ended.
	Kill()
	// Start starts the server again, and does not wait until it answers.
	Start()
	// Answers returns nil if the server answers a request.
	Answers() error
}

// A Config says what is disturbed, and for how long.
type Config struct {
	Store   string        // what an Opener calls the store, and what the report does
	Workers int           // how many processes make IDs at a time
	Nodes   int64         // how many numbers there are for them
	Span    time.Duration // of the leases
	Length  time.Duration // how long things happen
	Seed    uint64        // of the plan
	Mutant  Mutant        // what the workers do wrong

	// Address is where workers find the store. If there is a Server, it is the host and the port of
	// that, and each worker goes there by a relay of its own. At returns what a worker is told for the
	// host and the port of its relay; nil stands for these themselves.
	Address string
	Server  Server
	At      func(relay string) string
}

// Usual returns the configuration that "make chaos" runs: 8 processes with a span of 2 s.
func Usual(store string) Config {
	return Config{Store: store, Workers: 8, Nodes: 10, Span: 2 * time.Second}
}

// Enabled tells whether SNOWFLAKE_CHAOS asks for tests that take minutes.
func Enabled() bool { return os.Getenv(lengthVariable) != "" }

// FromEnvironment sets length and seed as SNOWFLAKE_CHAOS, a number of seconds, and
// SNOWFLAKE_CHAOS_SEED say. It skips the test if there is no length: a server that is killed again
// and again takes longer than a test of every day may.
func (c Config) FromEnvironment(tb testing.TB) Config {
	tb.Helper()
	if !Enabled() {
		tb.Skipf("this test disturbs a server for minutes; \"make chaos\" runs it, or %s=180", lengthVariable)
	}
	seconds, err := strconv.ParseUint(os.Getenv(lengthVariable), 10, 16)
	if err != nil || seconds < 20 {
		tb.Fatalf("%s: %q is no number of seconds from 20 up", lengthVariable, os.Getenv(lengthVariable))
	}
	c.Length, c.Seed = time.Duration(seconds)*time.Second, rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		if c.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("%s: %q is no seed", seedVariable, text)
		}
	}
	return c
}

// Daemon makes a server of a program that a test has started, and of a function that returns nil if
// it answers.
func Daemon(d *servers.Daemon, answers func() error) Server { return daemon{d, answers} }

type daemon struct {
	*servers.Daemon
	answers func() error
}

func (d daemon) Start() { d.Restart() }

func (d daemon) Answers() error { return d.answers() }
