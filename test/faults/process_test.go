//go:build unix

package faults_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// within waits until something holds, or for so long.
func within(d time.Duration, holds func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// A process is one that the test has started, with what it has told so far.
type process struct {
	order
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   bytes.Buffer // its standard error; read it when it has ended, or under mu
	ended chan struct{}

	mu sync.Mutex
	// All below is guarded by mu.
	reports  int               // how many there were
	last     report            // the last of them
	heard    time.Time         // when it came
	node     int64             // of its last row, or what it was ready with; -1 before
	rows     int               // how many were acknowledged
	failures map[string]int    // of creates, by class
	errors   map[string]string // the last text of each class
	unmade   map[note]report   // the rows that failed
	refused  []report
	holding  []report
	released int      // how often it has heard that it is not to stop
	answers  []report // to the command next
	counted  []report // of creates of numbered rows
	ready    []int64  // numbers
	opened   bool
	closed   *report
}

// start starts a process that tells the ledger, if there is one, which rows it has.
func start(t *testing.T, o order, l *ledger) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{
		order: o, ended: make(chan struct{}), node: -1,
		failures: make(map[string]int), errors: make(map[string]string), unmade: make(map[note]report),
	}
	p.cmd = exec.CommandContext(t.Context(), program)
	p.cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	p.cmd.SysProcAttr = attributes()
	p.cmd.Stderr = lockedWriter{&p.mu, &p.log}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.read(out, l)
		_ = p.cmd.Wait() // how it ended stands in ProcessState
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		if t.Failed() {
			t.Logf("%s (pid %d) said:\n%s", p.Name, p.cmd.Process.Pid, tail(p.stderr()))
		}
	})
	return p
}

// tail keeps the log of a failed test readable.
func tail(text string) string {
	const most = 4000
	if len(text) > most {
		text = "... " + text[len(text)-most:]
	}
	return text
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// read takes reports until the process ends. A last line that was cut off by that does not count.
func (p *process) read(out io.Reader, l *ledger) {
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r report
		if err := json.Unmarshal(line, &r); err != nil {
			r = report{Kind: reportFailed, Class: classConflict, Error: fmt.Sprintf("unreadable report %q: %v", line, err)}
		}
		if r.Kind == reportRows && l != nil {
			l.acknowledge(p.Name, r)
		}
		p.take(r)
	}
}

func (p *process) take(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports, p.last, p.heard = p.reports+1, r, time.Now()
	switch r.Kind {
	case reportReady:
		p.ready, p.node = r.Nodes, r.Nodes[0]
	case reportRefused:
		p.refused = append(p.refused, r)
	case reportRows:
		p.rows += len(r.IDs)
		p.node = nodeOf(r.IDs[len(r.IDs)-1])
	case reportFailed:
		p.failures[r.Class]++
		p.errors[r.Class] = r.Error
		for _, count := range r.Count {
			p.unmade[note{r.Lane, count}] = r
		}
	case reportHolding:
		p.holding = append(p.holding, r)
	case reportReleased:
		p.released++
	case reportNext:
		p.answers = append(p.answers, r)
	case reportNumber:
		p.counted = append(p.counted, r)
	case reportOpened:
		p.opened = true
	case reportClosed:
		p.closed = &r
	}
}

// look reads what the process has told under its lock.
func look[T any](p *process, f func() T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return f()
}

func (p *process) acknowledged() int { return look(p, func() int { return p.rows }) }
func (p *process) current() int64    { return look(p, func() int64 { return p.node }) }
func (p *process) stderr() string    { return look(p, p.log.String) }
func (p *process) isReady() bool     { return look(p, func() bool { return p.ready != nil }) }

func (p *process) failed(class string) (n int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures[class], p.errors[class]
}

// failureOf is the report of the failed create of a row, or nil. The row has no ID any more: the plugin takes back
// what it has given to one that is not created.
func (p *process) failureOf(n note) *report {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, failed := p.unmade[n]; failed {
		return &r
	}
	return nil
}

// failedSoFar counts the failures of each class.
func (p *process) failedSoFar() map[string]int {
	return look(p, func() map[string]int { return maps.Clone(p.failures) })
}

// command gives a command to the process. One that has ended or is stopped does not hear it.
func (p *process) command(words ...string) {
	_, _ = io.WriteString(p.stdin, strings.Join(words, " ")+"\n")
}

// signal sends a signal to the process, which may have ended.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// await waits for the end of the process.
func (p *process) await(t *testing.T) {
	t.Helper()
	eventually(t, p.Name+" has not ended", func() bool { return !p.alive() }, p)
}

// kill ends the process as a crash does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(syscall.SIGKILL)
	p.await(t)
}

// end ends the process in good order.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	p.leave(t)
}

// leave waits for the end of a process that was told to end in good order.
func (p *process) leave(t *testing.T) {
	t.Helper()
	p.await(t)
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	// One that has just begun does not listen to signals yet; it had nothing to give back.
	tooEarly := !p.isReady() && status.Signaled() && status.Signal() == syscall.SIGTERM
	if !p.cmd.ProcessState.Success() && !tooEarly {
		t.Errorf("%s ended with %v; it said:\n%s", p.Name, p.cmd.ProcessState, tail(p.stderr()))
	}
	if p.isReady() && p.closed == nil {
		t.Errorf("%s did not say that it has closed", p.Name)
	}
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}
