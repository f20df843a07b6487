package segment

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

const (
	defaultLeast   = 1_000
	defaultMost    = 1_000_000
	defaultHorizon = 15 * time.Minute
	defaultMaxWait = time.Second

	// maxBlock keeps the numbers of a block and its residues far from the end of int64.
	maxBlock   = 1 << 40
	maxModulus = 1 << 20
)

// Option sets one property of a [Source]. All faults of the options surface in the error of [New].
type Option func(*config) error

type config struct {
	least, most        int64
	horizon            time.Duration
	start              int64
	remainder, modulus int64
	maxWait            time.Duration
	now                func() time.Time
	log                *slog.Logger
	text               func(int64) string
}

// WithBlock sets how many numbers a claim reserves at least and at most. The size adapts between both, so
// that a block lasts for the horizon. The default is from 1,000 to 1,000,000, and 1 for [Daily]. A call
// that needs more numbers than a block claims as many as it needs. With WithBlock(1, 1) nothing is claimed
// ahead: each number is one trip to the store, and there are no gaps as long as no answer is lost.
func WithBlock(least, most int64) Option {
	return errs.Option(func(c *config) { c.least, c.most = least, most },
		least < 1 || most < least || most > maxBlock, ErrInvalidOption,
		"WithBlock(%d, %d): at least 1, and not more than %d", least, most, int64(maxBlock))
}

// WithHorizon sets how long a block should last, and so how long an outage of the store may be that nobody
// notices: at a constant rate at least nine tenths of it, once the size of the blocks has adapted. The
// default is 15 minutes, and a larger horizon means larger gaps after a restart. It has to be positive.
func WithHorizon(d time.Duration) Option {
	return errs.Option(func(c *config) { c.horizon = d }, d <= 0, ErrInvalidOption,
		"WithHorizon(%v): a positive duration", d)
}

// WithStart sets the least number, which is 1 by default. It takes effect whenever the counter is below
// it, and never lowers a counter. For [Daily] it is the first number of each day.
func WithStart(first int64) Option {
	return errs.Option(func(c *config) { c.start = first }, first < 1 || first > maxNumber, ErrInvalidOption,
		"WithStart(%d): from 1 to %d", first, int64(maxNumber))
}

// WithResidue makes the source use only the numbers that leave this remainder when they are divided by the
// modulus, like auto-increment with a step and an offset. Counters in several databases then never give out
// the same number, if all have one modulus and each has a remainder of its own. The store notes both, and
// refuses another residue for the same counter with [ErrResidue]. For [Daily] it applies to the number
// within the day. The modulus is from 1 to 1,048,576, and the remainder from 0 to the modulus minus 1.
func WithResidue(remainder, modulus int64) Option {
	return errs.Option(func(c *config) { c.remainder, c.modulus = remainder, modulus },
		modulus < 1 || modulus > maxModulus || remainder < 0 || remainder >= modulus, ErrInvalidOption,
		"WithResidue(%d, %d): a modulus from 1 to %d, and a remainder from 0 to the modulus minus 1", remainder,
		modulus, maxModulus)
}

// WithMaxWait sets how long a call waits for the store when no numbers are left, before it fails with
// [ErrExhausted]. The default is 1 s. With 0 a call never waits, so the first call of a source fails, too.
func WithMaxWait(d time.Duration) Option {
	return errs.Option(func(c *config) { c.maxWait = d }, d < 0, ErrInvalidOption,
		"WithMaxWait(%v): not negative", d)
}

// WithText sets the text of a number for fields of kind string. See [Source.Text]. By default it is the
// number in decimal digits. The function must be safe for concurrent use, and must return different texts
// for different numbers.
func WithText(text func(number int64) string) Option {
	return errs.Option(func(c *config) { c.text = text }, text == nil, ErrInvalidOption,
		"WithText(nil): leave the option out for decimal digits")
}

// WithClock makes the source read the time from now, for tests. It decides how large the next block is, and
// which day it is for [Daily]. Waiting still takes real time. The function must be safe for concurrent use.
// By default it is time.Now.
func WithClock(now func() time.Time) Option {
	return errs.Option(func(c *config) { c.now = now }, now == nil, ErrInvalidOption,
		"WithClock(nil): a clock is needed")
}

// WithLogger sets where the source reports what an operator should know: that its store does not answer,
// and that it answers again. By default it is slog.Default() at the time of [New].
func WithLogger(l *slog.Logger) Option {
	return errs.Option(func(c *config) { c.log = l }, l == nil, ErrInvalidOption,
		"WithLogger(nil): to silence the source use slog.New(slog.DiscardHandler)")
}

// configure applies the options over the defaults and reports all faults at once.
func configure(s Store, name string, least, most int64, opts []Option) (config, error) {
	c := config{
		least: least, most: most, horizon: defaultHorizon, start: 1, modulus: 1,
		maxWait: defaultMaxWait, now: time.Now, log: slog.Default(),
		text: func(n int64) string { return strconv.FormatInt(n, 10) },
	}
	faults := []error{CheckName(name)}
	if s == nil {
		faults = append(faults, fmt.Errorf("%w: the store is nil", ErrInvalidOption))
	}
	faults = append(faults, errs.Options(&c, opts, ErrInvalidOption))
	return c, errors.Join(faults...)
}
