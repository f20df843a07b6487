package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitRefused = 3
)

var (
	// errUsage is a mistake in how the program was called.
	errUsage = errors.New("usage")
	// errRefused is something that would be possible, but not safe.
	errRefused = errors.New("refused")
)

// command is one thing that the program does.
type command struct {
	name  string // one word or two
	args  string // what stands behind the flags
	short string // a line in the list
	help  string // the rest, with examples
	flags func(*flag.FlagSet, *options)
	run   func(context.Context, *env, *options, []string) error
	// mistake is the exit code of a wrong call, for a command whose code 2 has another meaning.
	mistake int
}

// options are the flags of all commands; each command declares those that it has.
type options struct {
	json, base62, force bool
	count               int
	node                int64
	layout, dsn, table  string
	until               string
	merge               mergeOptions
}

// commands is the list, in the order of the help.
func commands() []command {
	return []command{
		newCommand(), inspectCommand(), rangeCommand(), layoutCommand(), listCommand(), releaseCommand(),
		mergePlanCommand(), mergeCheckCommand(), mergeRunCommand(), mergeVerifyCommand(),
	}
}

// exitError ends the program with a code of its own. Without an error there is nothing more to say.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// execute runs the command that args name and returns the exit code.
func execute(ctx context.Context, args []string, e *env) int {
	err := dispatch(ctx, args, e)
	if err == nil {
		return exitOK
	}
	if text := strings.TrimPrefix(err.Error(), errUsage.Error()+": "); text != "" {
		say(e.err, "snowflake: %s\n", text)
	}
	var exit exitError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, errRefused):
		return exitRefused
	}
	return exitFailure
}

func dispatch(ctx context.Context, args []string, e *env) error {
	if len(args) == 0 {
		overview(e.err)
		return usagef("no command was given")
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return help(e, args[1:])
	}
	c, rest, err := find(args)
	if err != nil {
		return err
	}
	err = c.call(ctx, e, rest)
	if c.mistake != 0 && errors.Is(err, errUsage) {
		return exitError{c.mistake, err}
	}
	return err
}

// call runs the command with the words behind its name.
func (c command) call(ctx context.Context, e *env, args []string) error {
	var o options
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	if c.flags != nil {
		c.flags(set, &o)
	}
	positional, err := parse(set, args)
	if errors.Is(err, flag.ErrHelp) {
		return help(e, strings.Fields(c.name))
	}
	if err != nil {
		return usagef("%s: %s; see \"snowflake help %s\"", c.name, err, c.name)
	}
	return c.run(ctx, e, &o, positional)
}

// find returns the command that the first words name, and the words behind them.
func find(args []string) (command, []string, error) {
	var near []string
	for _, c := range commands() {
		words := strings.Fields(c.name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == c.name {
			return c, args[len(words):], nil
		}
		if words[0] == args[0] || strings.HasPrefix(words[0], args[0]) || strings.HasPrefix(args[0], words[0]) {
			near = append(near, "\""+c.name+"\"")
		}
	}
	if near != nil {
		return command{}, nil, usagef("there is no command %q; did you mean %s?",
			strings.Join(args[:min(2, len(args))], " "), strings.Join(near, " or "))
	}
	return command{}, nil, usagef("there is no command %q; \"snowflake help\" lists them", args[0])
}

// parse reads flags wherever they stand. A minus with a digit begins a value: -24h is a time.
func parse(set *flag.FlagSet, args []string) (positional []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--":
			return append(positional, args[1:]...), nil
		case len(arg) < 2 || arg[0] != '-' || arg[1] >= '0' && arg[1] <= '9':
			positional, args = append(positional, arg), args[1:]
			continue
		}
		take := 1
		name, _, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if known := set.Lookup(name); known != nil && !joined {
			if boolean, ok := known.Value.(interface{ IsBoolFlag() bool }); !ok || !boolean.IsBoolFlag() {
				take = min(2, len(args))
			}
		}
		if err := set.Parse(args[:take]); err != nil {
			return nil, err
		}
		args = args[take:]
	}
	return positional, nil
}

// overview lists the commands.
func overview(w io.Writer) {
	say(w, "snowflake looks at IDs, times and layouts, and at the node leases in a database, and makes one\n"+
		"game server of several.\n\n")
	for _, c := range commands() {
		say(w, "  snowflake %-14s %s\n", c.name, c.short)
	}
	say(w, "\n\"snowflake help COMMAND\" tells more, with examples. Exit codes: 0 done, 1 failed, 2 called\n"+
		"in a wrong way, 3 refused because a live process could be hurt, or because something is undecided.\n"+
		"\"snowflake help merge check\" tells the codes of that one.\n")
}

func help(e *env, args []string) error {
	if len(args) == 0 {
		overview(e.out)
		return nil
	}
	c, _, err := find(args)
	if err != nil {
		return err
	}
	usage := strings.TrimSpace("snowflake " + c.name + " [flags] " + c.args)
	say(e.out, "%s\n\n%s\n", usage, strings.TrimSpace(c.help))
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	if c.flags != nil {
		c.flags(set, &options{})
		say(e.out, "\nFlags:\n")
		set.VisitAll(func(f *flag.Flag) {
			value, text := flag.UnquoteUsage(f)
			dashes := "--"
			if len(f.Name) == 1 {
				dashes = "-"
			}
			say(e.out, "  %-16s %s\n", strings.TrimSpace(dashes+f.Name+" "+value), text)
		})
	}
	return nil
}

// say writes to a stream of the process, where there is nobody to tell of a failure.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

func usagef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}
