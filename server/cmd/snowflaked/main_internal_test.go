package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/settings"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// output collects what a program writes while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// file returns the path of a new file.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// local are settings with which a service can start beside others.
func local(t *testing.T) []string {
	t.Helper()
	return []string{
		"--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--dsn", "sqlite:" + filepath.Join(t.TempDir(), "leases.db"),
	}
}

func TestTheExitCodeTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // after the sub-tests, which run in parallel
	port := servers.Reserve(t)
	free := "127.0.0.1:" + port
	open := file(t, "shop 0123456789abcdef-a-secret\n")
	if err := os.Chmod(open, 0o644); err != nil { //nolint:gosec // that is the fault
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args    []string
		environ []string
		code    int
		says    string // in either output
	}{
		"help":                   {args: []string{"--help"}, code: 0, says: "-listen"},
		"the version":            {args: []string{"--version"}, code: 0, says: "snowflaked "},
		"a right configuration":  {args: append(local(t), "--check-config"), code: 0, says: "the configuration is right"},
		"an unknown flag":        {args: []string{"--color"}, code: 2, says: "color"},
		"a value of no kind":     {args: []string{"--span", "soon"}, code: 2, says: "span"},
		"a wrong variable":       {environ: []string{"SNOWFLAKED_SPAN=soon"}, code: 2, says: "SNOWFLAKED_SPAN"},
		"a file that is absent":  {args: []string{"--config", filepath.Join(t.TempDir(), "none")}, code: 2, says: "none"},
		"a file with a new word": {args: []string{"--config", file(t, "color: red\n")}, code: 2, says: "color"},
		"an open address":        {args: append(local(t), "--listen", "0.0.0.0:0"), code: 2, says: "insecure"},
		"an unknown layout":      {args: append(local(t), "--layout", "no-such"), code: 2, says: "no-such"},
		"a wrong configuration to check": {
			args: append(local(t), "--check-config", "--tls-cert", file(t, "no certificate"), "--tls-key", file(t, "no key")),
			code: 2, says: "the configuration is wrong",
		},
		"a span that the layout does not allow, to check": {
			args: append(local(t), "--check-config", "--layout", "gamesecond", "--span", "1s"), code: 2, says: "span",
		},
		"a table that has no such name, to check": {
			args: append(local(t), "--check-config", "--table", "a..b"), code: 2, says: "empty name",
		},
		"a token file that all may read, to check": {
			args: append(local(t), "--check-config", "--token-file", open), code: 2, says: "chmod",
		},
		"a host that is not there, to check": {
			args: append(local(t), "--check-config", "--insecure", "--listen", "192.0.2.1:7070"), code: 2, says: "listening for HTTP",
		},
		"one address for both, to check": {
			args: append(local(t), "--check-config", "--listen", free, "--resp", free), code: 2, says: free,
		},
		"one port for both, to check": {
			args: append(local(t), "--check-config", "--insecure", "--listen", free, "--resp", "0.0.0.0:"+port), code: 2, says: "listening",
		},
		"an address of a service that runs, to check": {
			args: append(local(t), "--check-config", "--listen", taken.Addr().String()), code: 0, says: "the configuration is right",
		},
		"an address that is taken": {args: append(local(t), "--listen", taken.Addr().String()), code: 1, says: "cannot start"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs output
			// A service that started in spite of it would end at once.
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			code := execute(ctx, c.args, c.environ, &out, &errs)
			if all := out.String() + errs.String(); code != c.code || !strings.Contains(all, c.says) {
				t.Errorf("the exit code is %d, want %d and the words %q; it said:\n%s", code, c.code, c.says, all)
			}
		})
	}
}

// A number without a unit is read as seconds by one and as milliseconds by the next.
func TestDurationsInTheLogHaveUnits(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		var text output
		newLogger(&settings.Settings{LogFormat: format}, &text).Info("a message", "delay", 1500*time.Millisecond,
			slog.Group("lease", "span", time.Minute))
		for _, want := range []string{"1.5s", "1m0s"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: there is no %s in %s", format, want, text.String())
			}
		}
	}
}

func TestAServiceThatIsToldToEndGivesItsNumberBackAndSucceeds(t *testing.T) {
	t.Parallel()
	args := local(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs output
	ended := make(chan int, 1)
	go func() { ended <- execute(ctx, args, nil, &output{}, &errs) }()
	servers.Eventually(t, func() error {
		if !strings.Contains(errs.String(), "lease: node taken") {
			return fmt.Errorf("the log says: %s", errs.String())
		}
		return nil
	})
	cancel()
	if code := <-ended; code != exitOK || !strings.Contains(errs.String(), "lease: node given back") {
		t.Errorf("the exit code is %d, and the log says:\n%s", code, errs.String())
	}
}

func TestAServiceWhoseTableHoldsNoLeasesFails(t *testing.T) {
	t.Parallel()
	args := local(t)
	path := strings.TrimPrefix(args[len(args)-1], "sqlite:")
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "CREATE TABLE snowflake_nodes (something text)")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	var errs output
	if code := execute(t.Context(), args, nil, &output{}, &errs); code != exitFailure {
		t.Errorf("the exit code is %d; the log says:\n%s", code, errs.String())
	}
}
