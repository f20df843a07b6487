package servers

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Daemon is a program that runs for one test. The test fails if the program cannot be started. The
// output of the program is logged if the test fails.
type Daemon struct {
	tb      testing.TB
	program string
	args    []string
	dir     string
	output  lockedBuffer
	command *exec.Cmd
}

// Start starts a program in a directory. The program ends with the test at the latest.
func Start(tb testing.TB, dir, program string, args ...string) *Daemon {
	tb.Helper()
	d := &Daemon{tb: tb, program: program, args: args, dir: dir}
	tb.Cleanup(func() {
		d.Kill()
		if tb.Failed() {
			tb.Logf("%s %s printed:\n%s", program, strings.Join(args, " "), d.output.tail())
		}
	})
	d.Restart()
	return d
}

// Restart starts the program again after Kill.
func (d *Daemon) Restart() {
	d.tb.Helper()
	// The context of the test ends before its cleanup. Kill ends the program instead.
	d.command = exec.CommandContext(context.Background(), d.program, d.args...)
	d.command.Dir = d.dir
	d.command.Stdout, d.command.Stderr = &d.output, &d.output
	if err := d.command.Start(); err != nil {
		d.command = nil
		d.tb.Fatalf("%s: %v", d.program, err)
	}
}

// Kill ends the program at once, as a power failure would, and waits until it has ended. Calling
// Kill again has no effect.
func (d *Daemon) Kill() {
	if d.command == nil {
		return
	}
	_ = d.command.Process.Kill()
	_ = d.command.Wait() // the error says that the program was killed
	d.command = nil
}

// lockedBuffer collects the output of a program. Its two streams come from two goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// tail returns the end of the output, which is enough for a reader.
func (b *lockedBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.text.String()
	return text[max(0, len(text)-8000):]
}
