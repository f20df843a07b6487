// Command service shows snowflaked with clients in several languages: two replicas on one database, a
// client in Go that loses one of them, and, where the programs are there, curl, redis-cli, Python and Node.
//
//	go run ./examples/service       # in the directory server
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// run tells the whole story.
func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "service")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	first, err := startReplica(ctx, dir)
	if err != nil {
		return err
	}
	defer first.kill()
	second, err := startReplica(ctx, dir)
	if err != nil {
		return err
	}
	defer second.kill()
	if err := losesAReplica(ctx, out, first, second); err != nil {
		return err
	}
	for _, p := range foreignClients() {
		ids, err := p.ask(ctx, second)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			fmt.Fprintf(out, "%s is not installed\n", p.name)
		case err != nil:
			return fmt.Errorf("%s: %w", p.name, err)
		default:
			fmt.Fprintf(out, "%s got %s\n", p.name, strings.Join(ids, " "))
		}
	}
	return nil
}

// losesAReplica takes IDs with the client in Go while one of the replicas is killed.
func losesAReplica(ctx context.Context, out io.Writer, first, second *replica) error {
	ids, err := client.New([]string{"http://" + first.http, "http://" + second.http})
	if err != nil {
		return err
	}
	defer ids.Close() //nolint:errcheck // it returns nil
	seen := map[int64]bool{}
	for i := range 20_000 {
		if i == 10_000 {
			first.kill()
		}
		id, err := ids.Next(ctx)
		if err != nil {
			return err
		}
		seen[id] = true
	}
	fmt.Fprintf(out, "Go got %d different IDs, and one of the two replicas was killed meanwhile\n", len(seen))
	return nil
}

// replica is a process of the service.
type replica struct {
	http, resp string
	command    *exec.Cmd
	ended      chan struct{} // closed at the end of its log
}

// startReplica starts a replica whose leases lie in the directory, and waits until it is ready.
func startReplica(ctx context.Context, dir string, args ...string) (*replica, error) {
	program := filepath.Join(dir, "snowflaked")
	if _, err := os.Stat(program); err != nil {
		build := exec.CommandContext(ctx, "go", "build", "-o", program,
			"github.com/snowflakeplugin/snowflakeplugin/server/cmd/snowflaked")
		if output, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, output)
		}
	}
	all := append([]string{
		"--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--dsn", "sqlite:" + filepath.Join(dir, "leases.db"),
	}, args...)
	r := &replica{command: exec.CommandContext(ctx, program, all...), ended: make(chan struct{})}
	log, err := r.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := r.command.Start(); err != nil {
		return nil, err
	}
	if err := r.follow(log); err != nil {
		r.kill()
		return nil, err
	}
	for {
		if _, err := get(ctx, "http://"+r.http+"/readyz"); err == nil {
			return r, nil
		}
		select {
		case <-r.ended:
			r.kill()
			return nil, errors.New("the replica ended before it was ready")
		case <-ctx.Done():
			r.kill()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// follow learns from the log on which ports the replica serves, and then reads the log to its end.
func (r *replica) follow(log io.Reader) error {
	lines := json.NewDecoder(log)
	for {
		var line struct{ Msg, HTTP, RESP, Error string }
		if err := lines.Decode(&line); err != nil {
			close(r.ended)
			return fmt.Errorf("the replica did not start: %w", err)
		}
		if line.Error != "" {
			fmt.Fprintln(os.Stderr, line.Msg, line.Error)
		}
		if line.HTTP != "" {
			r.http, r.resp = line.HTTP, line.RESP
			break
		}
	}
	go func() {
		defer close(r.ended)
		_, _ = io.Copy(io.Discard, log)
	}()
	return nil
}

func (r *replica) kill() {
	_ = r.command.Process.Kill()
	<-r.ended // Wait closes the log
	_ = r.command.Wait()
}
