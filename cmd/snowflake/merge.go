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

// mergeOptions are the flags that only the merge commands have.
type mergeOptions struct {
	servers            texts
	target, from       string
	renames, serverMap string
	conflicts          int
	only               texts
	rate               int
	all, quiet         bool
}

// texts is a flag that may be given several times. It accepts every text, because package flag repeats a text
// that is refused, and a DSN may contain a password.
type texts []string

func (t *texts) String() string { return "" }

func (t *texts) Set(text string) error {
	*t = append(*t, text)
	return nil
}

func mergeGroup() group {
	return group{
		name: "merge", short: "merge the databases of game servers",
		help: `
Merges the databases of several game servers into one. Draft a plan, review it, check it until nothing is
undecided, run it, and verify the result. Only "merge run" writes to a database, and only to the target.
` + mergeDSNHelp + `

  snowflake merge check plan.yaml`,
	}
}

const mergeDSNHelp = `
A plan names each database by a DSN: postgres://user:password@host/database, for MySQL and MariaDB
mysql://user:password@host/database, or the path of a SQLite file. $NAME stands for the value of an
environment variable. No output contains a DSN or a password.`

func quietFlags(set *flag.FlagSet, o *options) {
	jsonFlag(set, o)
	set.BoolVar(&o.merge.quiet, "quiet", false, "do not print progress to standard error")
}

// merging is an open merge.
type merging struct {
	*merge.Merge
	plan    *merge.Plan
	path    string
	meter   *meter
	secrets secrets
}

// withMerge opens the plan that args name and calls fn. Its errors contain no password, and they wrap
// errUsage or errRefused where those decide the exit code.
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
	for _, names := range o.merge.only {
		opts = append(opts, merge.WithOnly(strings.Split(names, ",")...))
	}
	opts = append(opts, merge.WithRate(o.merge.rate))
	if m.Merge, err = merge.Open(ctx, plan, opts...); err != nil {
		return m.explain(ctx, name, err)
	}
	defer func() {
		m.meter.end() // if it was interrupted
		err = m.explain(ctx, name, errors.Join(err, m.Close()))
	}()
	return fn(m)
}

// planPath returns the only argument that the merge commands have.
func planPath(name string, args []string) (string, error) {
	if len(args) != 1 {
		// The error does not repeat the arguments, because one of them may be a DSN.
		return "", usagef("%s: exactly one plan is needed, a file such as plan.yaml; there are %d", name,
			len(args))
	}
	return args[0], nil
}

// logger logs warnings and errors next to the progress, without secrets.
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
