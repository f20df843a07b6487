package lease

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/limits"
)

const (
	// MaxSkew is how far apart the local clock and the store's clock may be: 5 s. Beyond it the keeper
	// takes no number and extends no window ([ErrClockSkew]), so a machine with a wrong clock cannot
	// reserve a number for a year. Uniqueness does not depend on it.
	MaxSkew = limits.Skew

	// defaultSpan is short enough to wait for after a crash, and long enough for a store that is
	// restarted.
	defaultSpan = 15 * time.Second
	// minSpan and minTicks leave room for a request within a third of a span, and for a tick.
	minSpan  = 10 * time.Millisecond
	minTicks = 3
	maxSpan  = limits.Span

	// youngSpan is how long the windows of a process last at first where the store asks for longer ones, and
	// scarce how many numbers are so few that the default has to do: a process that ends at once must not keep
	// its number from those that start after it.
	youngSpan = time.Minute
	scarce    = 16

	// maxOwner is how many bytes a name may have, so that a whole owner fits 255.
	maxOwner = 160
)

// Option sets one property of a [Keeper].
type Option func(*config) error

// config is what the options say.
type config struct {
	ranged bool
	lo, hi int64
	span   time.Duration
	grown  time.Duration // what the span grows up to with the age of the keeper; 0: it does not
	name   string        // of the owner, without the random part
	log    *slog.Logger
	notify func(Event) // nil: nobody is told
	now    func() time.Time
	random func(n int64) int64 // from 0 to n-1
}

// WithNodes tells the keeper to take a number from lo to hi, both included, and no other. By default
// it may take any number of the layout. A layout whose node has several fields numbers a fixed
// value of the high ones by such a range; see [generator.Layout.PackNode].
//
// With lo equal to hi exactly that number is wanted: if a window of it still runs, [Acquire] waits
// for its end.
func WithNodes(lo, hi int64) Option {
	return errs.Option(func(c *config) { c.ranged, c.lo, c.hi = true, lo, hi }, lo < 0 || hi < lo,
		ErrInvalidOption, "WithNodes(%d, %d): from 0 up, the lesser number first", lo, hi)
}

// WithSpan tells the keeper how long a window lasts beyond the present. It is extended about every
// third of a span, so the store may fail to answer for two thirds of one; after a crash the number
// stays taken for a span at most. It is from 10 ms, and three ticks of the layout, to 24 hours. By
// default it is 15 s, or fifteen ticks if that is longer. Where the store asks for longer windows (see
// [SpanHinter]) and the keeper may take more than one number, a window lasts as long as the keeper has had
// one, up to what the store asks for, and at first a minute; but no longer than the default if there are 16
// numbers or fewer. So a process that ends soon after its start costs its number for a minute at most.
func WithSpan(d time.Duration) Option {
	return errs.Option(func(c *config) { c.span = d }, d < minSpan || d > maxSpan, ErrInvalidOption,
		"WithSpan(%v) is not between %v and %v", d, minSpan, maxSpan)
}

// WithOwner names the holder, for those who look at the store: up to 160 bytes of printable text. A
// random part is added, so that two processes of one name are two owners. By default it is made of
// the host's name, the process number and the time.
func WithOwner(name string) Option {
	name = strings.TrimSpace(name)
	printable := utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsPrint(r)
	})
	return errs.Option(func(c *config) { c.name = name }, name == "" || len(name) > maxOwner || !printable,
		ErrInvalidOption, "WithOwner(%.40q): from 1 to %d bytes of printable text", name, maxOwner)
}

// WithNotify makes the keeper call f when its number changes, is lost, is overdue or is back, for
// metrics and alerts. The first number, which [Acquire] takes, and [Keeper.Close] are no events.
//
// One goroutine makes the calls, one after the other, in the order of the events; no lock is held, so
// f may use the keeper, even close it. The keeper never waits for f: events that f has no time for are
// kept, the last 64 of them, and the log says once if an older one was dropped. Close does not wait
// for f either, so calls for what happened before may come after it. A panic in f ends the program,
// as in any goroutine.
func WithNotify(f func(Event)) Option {
	return errs.Option(func(c *config) { c.notify = f }, f == nil, ErrInvalidOption,
		"WithNotify(nil): leave the option out")
}

// WithLogger sets where the keeper reports what an operator should know: which number it took, that
// the store does not answer and answers again, that it lost a number. By default it is
// slog.Default() at the time of [Acquire].
func WithLogger(l *slog.Logger) Option {
	return errs.Option(func(c *config) { c.log = l }, l == nil, ErrInvalidOption,
		"WithLogger(nil): to silence the keeper use slog.New(slog.DiscardHandler)")
}

// WithClock makes the keeper read the local time from now, for tests and simulations. The function
// must be safe for concurrent use. Waiting still takes real time. By default it is time.Now.
func WithClock(now func() time.Time) Option {
	return errs.Option(func(c *config) { c.now = now }, now == nil, ErrInvalidOption,
		"WithClock(nil): a clock is needed")
}

// configure applies the options over the defaults and reports all faults at once.
func configure(s Store, l generator.Layout, opts []Option) (config, error) {
	c := config{log: slog.Default(), now: time.Now, random: mathrand.Int64N}
	var faults []error
	if s == nil {
		faults = append(faults, fmt.Errorf("%w: the store is nil", ErrInvalidOption))
	}
	faults = append(faults, errs.Options(&c, opts, ErrInvalidOption))
	if !c.ranged {
		c.hi = l.MaxNode()
	}
	if c.hi > l.MaxNode() {
		faults = append(faults, fmt.Errorf("%w: WithNodes(%d, %d): the greatest node of layout %s is %d",
			ErrInvalidOption, c.lo, c.hi, l.Name, l.MaxNode()))
	}
	if c.span == 0 {
		c.span = max(defaultSpan, ticks(l, int64(defaultSpan/time.Second)))
		if hinter, ok := s.(SpanHinter); ok && c.lo != c.hi {
			c.grown = min(hinter.SpanHint(), maxSpan)
			if c.hi-c.lo >= scarce {
				c.span = max(c.span, min(c.grown, youngSpan))
			}
		}
	}
	if least := ticks(l, minTicks); c.span < least {
		faults = append(faults, fmt.Errorf("%w: WithSpan(%v) is shorter than %d ticks of layout %s, which are %v",
			ErrInvalidOption, c.span, minTicks, l.Name, least))
	}
	return c, errors.Join(faults...)
}

// ticks is the length of n ticks, bounded so that it can be added to.
func ticks(l generator.Layout, n int64) time.Duration {
	const most = math.MaxInt64 / 4
	if int64(l.Tick) > most/n {
		return most
	}
	return l.Tick * time.Duration(n)
}

// ownerOf makes a name that no other tenure has.
func ownerOf(name string, now time.Time) string {
	if name == "" {
		name = fmt.Sprintf("%s pid %d since %s", hostName(), os.Getpid(), now.UTC().Format(time.RFC3339))
	}
	var token [8]byte
	_, _ = rand.Read(token[:]) // which never fails
	return fmt.Sprintf("%s #%x", name, token)
}

// hostName is the name of this machine in the names of its owners.
func hostName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = unknownHost
	}
	if len(host) > maxOwner/2 {
		host = strings.ToValidUTF8(host[:maxOwner/2], "")
	}
	return host
}

const unknownHost = "unknown host"

// seemsEnded tells whether the process that an owner names was on this machine and is there no more. An
// owner of another machine, or with a name from [WithOwner], tells nothing. Neither is it certain here: the
// process may be in a container that has this machine's name, and has its number there.
func seemsEnded(owner string) bool {
	host, rest, found := strings.Cut(owner, " pid ")
	number, rest, also := strings.Cut(rest, " since ")
	stamp, _, last := strings.Cut(rest, " #")
	pid, err := strconv.Atoi(number)
	since, unread := time.Parse(time.RFC3339, stamp)
	if !found || !also || !last || err != nil || pid <= 0 || unread != nil || host == unknownHost ||
		host != hostName() {
		return false
	}
	process, err := os.FindProcess(pid)
	if err != nil { // some systems look
		return !errors.Is(err, os.ErrPermission)
	}
	defer func() { _ = process.Release() }() // nothing was waited for
	if err := process.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) {
		return true
	}
	// A later process may have the number again, as each first process of a container has 1.
	began, known := startOf(pid)
	const exact = 2 * time.Second // both times are as exact as that
	return known && began.After(since.Add(exact))
}

// startOf returns when a process began, if the system tells, as Linux does.
func startOf(pid int) (began time.Time, known bool) {
	const (
		ticks     = 100 // in a second, whatever the machine is
		startedAt = 19  // behind the name, which may have blanks and brackets
	)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	system, unread := os.ReadFile("/proc/stat")
	_, booted, found := strings.Cut(string(system), "\nbtime ")
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if err != nil || unread != nil || !found || len(fields) <= startedAt {
		return time.Time{}, false
	}
	booted, _, _ = strings.Cut(booted, "\n")
	boot, err := strconv.ParseInt(booted, 10, 64)
	after, also := strconv.ParseInt(fields[startedAt], 10, 64)
	if err != nil || also != nil {
		return time.Time{}, false
	}
	return time.Unix(boot, 0).Add(time.Duration(after) * (time.Second / ticks)), true
}
