package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// A step is one way to set the wall clock.
type step struct {
	name string
	// passes is how much time passes before the clock is set back to when the first IDs were made, so that
	// repeated IDs would show. In addition, IDs are made for a second before it passes, and after it.
	passes time.Duration
	// forward is how far the clock is set forward instead.
	forward time.Duration
	// restarts: another generator with the same number takes over at the step, as in a new process.
	restarts bool
}

func steps() []step {
	return []step{
		{name: "back by 1 s"},
		{name: "back by 1 h", passes: time.Hour},
		{name: "forward by 1 h", forward: time.Hour},
		{name: "back by 1 s, and a restart", restarts: true},
	}
}

const (
	// making is how long IDs are made before a step, and watching how long they are asked for after it.
	making, watching = time.Second, 3 * time.Second
	// atOnce is how many IDs are made in a millisecond.
	atOnce = 20
	// noticed is the shortest silence, and the shortest distance from the clock, that the table mentions.
	noticed = 250 * time.Millisecond
)

// An outcome is what one library did in the three seconds after a step.
type outcome struct {
	None     bool `json:"none,omitempty"` // the library has one generator in a process, and cannot restart
	Made     int  `json:"made"`
	Repeated int  `json:"repeated"`
	Behind   int  `json:"behind"` // IDs that are not greater than all that were made before the step

	Refused int    `json:"refused"` // calls that ended in an error
	Error   string `json:"error,omitempty"`

	SilentMS float64 `json:"silent_ms"` // the longest time without an ID that ended with one
	LastMS   float64 `json:"last_ms"`   // when the last ID was made, since the step
	// LeadMS is how far the time in the last ID was ahead of the clock; none where no time can be read.
	LeadMS *float64 `json:"lead_ms,omitempty"`
}

// String is the cell of a table.
func (o outcome) String() string {
	if o.None {
		return "–"
	}
	var words []string
	switch ended := o.LastMS < ms(watching-noticed); {
	case ended && o.Refused > 0:
		words = append(words, fmt.Sprintf("refuses after %.0f ms", o.LastMS))
	case ended:
		words = append(words, "waits for more than "+lasting(ms(watching)))
	case o.SilentMS < ms(noticed):
		words = append(words, "goes on")
	case o.Refused > 0:
		words = append(words, "refuses for "+lasting(o.SilentMS))
	default:
		words = append(words, "waits for "+lasting(o.SilentMS))
	}
	switch {
	case o.Repeated > 0:
		words = append(words, fmt.Sprintf("**%d of %d repeated**", o.Repeated, o.Made))
	case o.Behind > 0:
		words = append(words, "not in order")
	}
	switch lead := o.LeadMS; {
	case lead == nil || o.LastMS < ms(watching-noticed):
	case *lead > ms(noticed):
		words = append(words, lasting(*lead)+" ahead of the clock")
	case *lead < -ms(noticed):
		words = append(words, lasting(-*lead)+" behind the clock")
	}
	return strings.Join(words, ", ")
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// lasting writes a number of milliseconds.
func lasting(millis float64) string {
	if hour := ms(time.Hour); millis > hour/2 {
		return fmt.Sprintf("%.0f h", millis/hour)
	}
	return fmt.Sprintf("%.1f s", millis/1000)
}

// probe measures one library and one step in this process, and writes the outcome as JSON.
func probe(out io.Writer, library, name string) error {
	all, kinds := peers(), steps()
	p := slices.IndexFunc(all, func(p peer) bool { return p.name == library })
	k := slices.IndexFunc(kinds, func(s step) bool { return s.name == name })
	if p < 0 || k < 0 {
		return fmt.Errorf("there is no library %q, or no step %q", library, name)
	}
	o, err := observe(all[p], kinds[k])
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(o)
}

// observe makes IDs, sets the clock, and makes IDs again.
func observe(p peer, kind step) (outcome, error) {
	if kind.restarts && p.shared {
		return outcome{None: true}, nil
	}
	s, err := p.open()
	if err != nil {
		return outcome{}, err
	}
	seen, greatest, begin := map[key]bool{}, key{}, time.Now()
	remember := func(id key) {
		seen[id] = true
		if bytes.Compare(id[:], greatest[:]) > 0 {
			greatest = id
		}
	}
	if err := for1s(s, remember); err != nil {
		return outcome{}, err
	}
	if kind.passes > 0 {
		if err := passTime(kind.passes); err != nil {
			return outcome{}, err
		}
		if err := for1s(s, remember); err != nil {
			return outcome{}, err
		}
	}
	set := cmp.Or(kind.forward, -time.Since(begin)) // by the monotonic clock, which has passed as well
	if err := stepClock(set); err != nil {
		return outcome{}, err
	}
	if kind.restarts {
		if s, err = p.open(); err != nil {
			return outcome{}, err
		}
	}
	w := &watch{seen: seen, greatest: greatest, set: time.Now()}
	go w.run(s) // A call may wait for an hour, and nothing ends it but the end of the process.
	time.Sleep(watching)
	return w.outcome(p), nil
}

// A watch looks at what is made after a step.
type watch struct {
	seen     map[key]bool
	greatest key
	set      time.Time // when the clock was set, by the monotonic clock

	mu   sync.Mutex
	o    outcome // guarded by mu, like the following
	last key
	made time.Time // of last
}

func (w *watch) run(s series) {
	for range time.Tick(time.Millisecond) {
		for range atOnce {
			id, err := s.next()
			if !w.note(id, err) {
				break
			}
		}
	}
}

func (w *watch) note(id key, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.o.Refused, w.o.Error = w.o.Refused+1, err.Error()
		return false
	}
	since := ms(time.Since(w.set))
	w.o.SilentMS, w.o.LastMS = max(w.o.SilentMS, since-w.o.LastMS), since
	w.o.Made++
	if w.seen[id] {
		w.o.Repeated++
	}
	w.seen[id] = true
	if bytes.Compare(id[:], w.greatest[:]) <= 0 {
		w.o.Behind++
	}
	w.last, w.made = id, time.Now()
	return true
}

func (w *watch) outcome(p peer) outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := &w.o; p.timeOf != nil && o.Made > 0 {
		lead := ms(p.timeOf(w.last).Sub(w.made.Round(0))) // by the wall clock
		o.LeadMS = &lead
	}
	return w.o
}

// for1s makes some IDs in each millisecond of a second.
func for1s(s series, each func(key)) error {
	for begin := time.Now(); time.Since(begin) < making; time.Sleep(time.Millisecond) {
		for range atOnce {
			id, err := s.next()
			if err != nil {
				return err
			}
			each(id)
		}
	}
	return nil
}
