//go:build unix

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	// stillness is for how long nothing at all may change before a test gives up waiting. It says nothing of
	// how long something may take.
	stillness = time.Minute
	// farewell is how long before the end of the test run a test gives up, so that it can say what it saw.
	farewell = 15 * time.Second
	// forever is a limit that is never met.
	forever = time.Hour
)

// A watched thing changes as long as there is hope for those who wait.
type watched interface {
	// state differs from what it was before if anything has happened.
	state() string
	// latest says for people what has happened last.
	latest() string
}

// eventually waits until something holds. It gives up if nothing has changed for a long time in any of those
// that are watched, and never because of how long it takes.
func eventually(t *testing.T, what string, holds func() bool, all ...watched) {
	t.Helper()
	began := time.Now()
	before, since := "", began
	end, limited := t.Deadline()
	// What takes long is looked at less often: each look at a server that starts costs a connection.
	for ; !holds(); time.Sleep(min(max(time.Since(began)/20, 10*time.Millisecond), 200*time.Millisecond)) {
		var now strings.Builder
		for _, w := range all {
			now.WriteString(w.state())
		}
		if now.String() != before {
			before, since = now.String(), time.Now()
		}
		silent := time.Since(since)
		if silent < stillness && (!limited || time.Until(end) > farewell) {
			continue
		}
		var last strings.Builder
		for _, w := range all {
			last.WriteString("\n" + w.latest())
		}
		t.Fatalf("%s; nothing has changed for %v. What was heard last:%s", what, silent.Round(time.Second),
			last.String())
	}
}

// patiently repeats what a busy server has not answered in time.
func patiently(t *testing.T, do func() error) {
	t.Helper()
	var tries attempts
	var err error
	eventually(t, "the server answers nothing in time", func() bool {
		err = do()
		tries++
		return !errors.Is(err, context.DeadlineExceeded)
	}, &tries)
	if err != nil {
		t.Fatal(err)
	}
}

// attempts count what is tried again and again, which ends with the test run at the latest.
type attempts int

func (a *attempts) state() string  { return fmt.Sprint(int(*a)) }
func (a *attempts) latest() string { return fmt.Sprint(int(*a), " attempts") }

func (p *process) state() string {
	return look(p, func() string { return fmt.Sprint(p.Name, p.reports, p.log.Len(), p.alive(), ";") })
}

func (p *process) latest() string {
	return look(p, func() string {
		if p.reports == 0 {
			return fmt.Sprintf("%s (alive: %t) has said nothing", p.Name, p.alive())
		}
		return fmt.Sprintf("%s (alive: %t), node %d, %d rows; %v ago: %s %s %.300s", p.Name, p.alive(), p.node, p.rows,
			time.Since(p.heard).Round(time.Millisecond), p.last.Kind, p.last.Class, p.last.Error)
	})
}

func (c *crew) state() string {
	var b strings.Builder
	for _, p := range c.all {
		b.WriteString(p.state())
	}
	for _, w := range c.also {
		b.WriteString(w.state())
	}
	return b.String()
}

func (c *crew) latest() string {
	var all []string
	for _, p := range c.all {
		if p.alive() {
			all = append(all, p.latest())
		}
	}
	for _, w := range c.also {
		all = append(all, w.latest())
	}
	return strings.Join(all, "\n")
}

// eventually waits until something holds, as long as anything happens to the crew.
func (c *crew) eventually(what string, holds func() bool) {
	c.t.Helper()
	eventually(c.t, what, holds, c)
}

func (s *server) state() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.log.Len(), s.runs(), ";")
}

func (s *server) latest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 500
	text := s.log.String()
	return "the server: " + text[max(0, len(text)-most):]
}

func (p *proxy) state() string { return p.latest() + ";" }
func (p *proxy) latest() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("the proxy: %d connections, swaps met %v", len(p.links), p.met)
}
