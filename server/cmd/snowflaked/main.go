// Command snowflaked makes unique IDs for programs in every language: over gRPC, gRPC-Web, HTTP with JSON,
// and the protocol of Redis.
//
//	go run github.com/snowflakeplugin/snowflakeplugin/server/cmd/snowflaked
//
// # Exit codes
//
//	0  The service has answered all requests, and given its node number back.
//	1  The service failed, or had to cut requests off.
//	2  The configuration is wrong. Nothing was done.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/daemon"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/settings"
)

const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	tuneMemory()
	code := execute(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// tuneMemory lets the heap of the service, which is so small that it would be collected dozens of times a
// second, grow to some 64 MiB first. A heap that is large because there are many connections is collected as
// the limit demands. GOGC and GOMEMLIMIT in the environment are before this.
func tuneMemory() {
	const growth, limit = 1600, 512 << 20
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(growth)
		debug.SetMemoryLimit(limit)
	}
}

// execute is main with everything that it uses of the process.
func execute(ctx context.Context, args, environ []string, out, errs io.Writer) int {
	s, err := settings.Load(args, environ, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(errs, "snowflaked: the configuration is wrong:\n%v\n", err)
		return exitUsage
	case s.Version:
		fmt.Fprintln(out, "snowflaked", daemon.Version())
		return exitOK
	}
	log := newLogger(s, errs)
	if s.CheckConfig {
		return check(s, log, out, errs) //nolint:contextcheck // it does not wait
	}
	d, err := daemon.Start(s, log) //nolint:contextcheck // it does not wait
	if err != nil {
		log.Error("snowflaked: cannot start", "error", err)
		return exitFailure
	}
	defer reloadOnHangUp(d, log)()
	if err := d.Run(ctx); err != nil {
		log.Error("snowflaked: failed", "error", err)
		return exitFailure
	}
	return exitOK
}

func check(s *settings.Settings, log *slog.Logger, out, errs io.Writer) int {
	if err := s.Print(out); err != nil {
		fmt.Fprintln(errs, "snowflaked:", err)
		return exitFailure
	}
	if err := daemon.Check(s, log); err != nil {
		fmt.Fprintf(errs, "snowflaked: the configuration is wrong:\n%v\n", err)
		return exitUsage
	}
	fmt.Fprintln(out, "the configuration is right")
	return exitOK
}

func newLogger(s *settings.Settings, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.LogLevel, ReplaceAttr: withUnits}
	if s.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// withUnits writes a duration as 1.5s. In JSON it would be a number of nanoseconds, which does not say so.
func withUnits(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// reloadOnHangUp reads tokens and certificates again when the process is told to, and returns what ends
// that.
func reloadOnHangUp(d *daemon.Daemon, log *slog.Logger) (end func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for range signals {
			if err := d.Reload(); err != nil {
				log.Error("snowflaked: not reloaded; what was in force stays in force", "error", err)
				continue
			}
			log.Info("snowflaked: tokens and certificates are reloaded")
		}
	}()
	return func() {
		signal.Stop(signals) // after which nothing is sent
		close(signals)
	}
}
