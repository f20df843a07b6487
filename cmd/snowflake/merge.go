package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// mergeOptions are the flags of the merge commands alone.
type mergeOptions struct {
	servers            texts
	target, from       string
	renames, serverMap string
	conflicts          int
	quiet              bool
}

// texts is a flag that may be given several times. It takes everything: the package flag would repeat what
// was refused, and a DSN may hold a password.
type texts []string

func (t *texts) String() string { return "" }

func (t *texts) Set(text string) error {
	*t = append(*t, text)
	return nil
}

const mergeLater = `
A plan names each database by a DSN: postgres://user:password@host/database, for MySQL and MariaDB
mysql://user:password@host/database or user:password@tcp(host:3306)/database, or the path of a SQLite
file. $NAME stands for an environment variable. No DSN and no password is in any output.`

func quietFlags(set *flag.FlagSet, o *options) {
	jsonFlag(set, o)
	set.BoolVar(&o.merge.quiet, "quiet", false, "show no progress")
}

// merging is a merge that is open.
type merging struct {
	*merge.Merge
	plan    *merge.Plan
	path    string
	meter   *meter
	secrets secrets
}

// withMerge opens the plan that args name for the time of fn. Errors that come back hold no password, and
// are of the kind that decides about the exit code.
func withMerge(
	ctx context.Context, e *env, o *options, name string, args []string, fn func(m *merging) error,
) (err error) {
	path, err := planPath(name, args)
	if err != nil {
		return err
	}
	plan, err := merge.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("%s: there is no file %s; \"snowflake merge plan\" drafts a plan", name, path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m := &merging{plan: plan, path: path, meter: newMeter(e, o), secrets: secretsOf(plan)}
	opts := []merge.Option{
		merge.WithOpener(openDatabase), merge.WithProgress(m.meter.show), merge.WithLogger(m.logger(o)),
	}
	if o.merge.conflicts > 0 {
		opts = append(opts, merge.WithMaxConflicts(o.merge.conflicts))
	}
	if m.Merge, err = merge.Open(ctx, plan, opts...); err != nil {
		return m.ended(ctx, name, err)
	}
	defer func() {
		m.meter.end() // if it was interrupted
		err = m.ended(ctx, name, errors.Join(err, m.Close()))
	}()
	return fn(m)
}

// planPath is the one argument of most merge commands.
func planPath(name string, args []string) (string, error) {
	if len(args) != 1 {
		// What was given is not repeated, since it may be a DSN.
		return "", usagef("%s: one plan is needed, a file such as plan.yaml; here are %d", name, len(args))
	}
	return args[0], nil
}

// logger logs beside the progress, without secrets. It says only what somebody should know.
func (m *merging) logger(o *options) *slog.Logger {
	settings := &slog.HandlerOptions{Level: slog.LevelWarn}
	to := m.secrets.writer(m.meter)
	if o.json {
		return slog.New(slog.NewJSONHandler(to, settings))
	}
	return slog.New(slog.NewTextHandler(to, settings))
}

// openDatabase opens a database of a plan.
func openDatabase(_ context.Context, dsn string) (*sql.DB, error) {
	driver, native, err := driverOf(dsn)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), errUsage.Error()+": "))
	}
	return sql.Open(driver, native)
}

// serverNames lists servers for people.
func serverNames(plan *merge.Plan) string {
	names := make([]string, len(plan.Servers))
	for i, s := range plan.Servers {
		names[i] = fmt.Sprintf("%s (%d)", plain(s.Name), s.Number)
	}
	return strings.Join(names, ", ")
}

func targetName(plan *merge.Plan) string {
	return fmt.Sprintf("%s (%d)", plain(cmp.Or(plan.Target.Name, "the target")), plan.Target.Number)
}
