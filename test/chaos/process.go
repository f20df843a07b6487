package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is a worker that runs, or has run.
type process struct {
	order
	command *exec.Cmd
	stdin   io.WriteCloser
	log     lockedBuffer // its standard error
	said    lockedBuffer // its standard output, a word a line
	told    int          // how many commands it was given that it confirms
	ended   chan struct{}
	killed  bool
}

// start starts a worker. It ends with the test at the latest.
func start(tb testing.TB, o order) *process {
	tb.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		tb.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	p := &process{order: o, ended: make(chan struct{})}
	p.command = exec.CommandContext(context.Background(), program)
	p.command.Env = append(os.Environ(), orderVariable+"="+string(text))
	p.command.SysProcAttr = attributes()
	p.command.Stderr, p.command.Stdout = &p.log, &p.said
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait() // how it ended stands in ProcessState
	}()
	tb.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.ended
		if tb.Failed() {
			tb.Logf("%s said:\n%s", p.Name, p.log.tail())
		}
	})
	return p
}

// signal sends a signal to the process, which may have ended.
func (p *process) signal(s syscall.Signal) { _ = p.command.Process.Signal(s) }

// kill ends the process as a crash does. It returns an error if the process had already ended.
func (p *process) kill() error {
	if !p.alive() {
		return fmt.Errorf("%s has ended by itself with %v", p.Name, p.command.ProcessState)
	}
	p.killed = true
	p.signal(syscall.SIGKILL)
	<-p.ended
	return nil
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// setClock tells the process how wrong its clock is.
func (p *process) setClock(offset time.Duration) {
	p.say(wordOff, offset)
}

// say gives a command to the process, which may have ended.
func (p *process) say(word string, values ...any) {
	p.told++
	for _, value := range values {
		switch v := value.(type) {
		case time.Duration:
			word += fmt.Sprint(" ", v.Nanoseconds())
		case time.Time:
			word += fmt.Sprint(" ", v.UnixNano())
		}
	}
	_, _ = fmt.Fprintln(p.stdin, word)
}

// tell gives a command to the process, and waits until it has been carried out.
func (p *process) tell(tb testing.TB, r *runner, word string, values ...any) {
	tb.Helper()
	p.say(word, values...)
	r.until(p.Name+" does not obey: "+word, func() bool { return p.said.count(wordDone) >= p.told })
}

// leave ends the process in good order, or after a while without. It returns an error if the
// process had already ended by itself.
func (p *process) leave() error {
	if p.killed {
		return nil
	}
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(2 * parting):
		p.signal(syscall.SIGKILL) // it waits for a server that is away, unless it ends just now
		<-p.ended
	}
	if p.endedBy(syscall.SIGKILL) {
		return nil
	}
	if p.endedBy(syscall.SIGTERM) {
		return nil // it had not begun to listen for signals, so it had made no ID either
	}
	if !p.command.ProcessState.Success() {
		return fmt.Errorf("%s has ended with %v", p.Name, p.command.ProcessState)
	}
	return nil
}

// endedBy reports whether a signal has ended the process.
func (p *process) endedBy(signal syscall.Signal) bool {
	status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// lockedBuffer takes what a process writes.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

// size is how much there is of it.
func (b *lockedBuffer) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Len()
}

// count is how often a line is there.
func (b *lockedBuffer) count(line string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Count(b.text.Bytes(), []byte(line+"\n"))
}

// tail is the end of it, enough for a reader.
func (b *lockedBuffer) tail() string {
	const most = 2000
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.text.String()
	return text[max(0, len(text)-most):]
}
