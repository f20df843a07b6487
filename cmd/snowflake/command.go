package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The exit codes. The package documentation and the overview describe them.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitRefused  = 3
	exitResolved = 4
)

var (
	// errUsage marks an error in the command line. Every such error ends the program with exitUsage.
	errUsage = errors.New("usage error")
	// errRefused marks something that would be possible but not safe.
	errRefused = errors.New("refused")
)

// command is one thing that the program does.
type command struct {
	name   string   // one word, or the name of a group and one word
	args   string   // the arguments, as the usage line shows them
	short  string   // one line for the lists of commands
	help   string   // the explanation, and then the examples
	values []string // what the argument can be, for shell completion; nil if that is open
	flags  func(*flag.FlagSet, *options)
	run    func(context.Context, *env, *options, []string) error
}

// group is a word that several commands begin with.
type group struct {
	name, short, help string
}

// options are the flags of all commands. Each command declares the flags that it has.
type options struct {
	json, base62, force bool
	dryRun, create      bool
	count               int
	node                int64
	layout, dsn, table  string
	until               string
	kind, keyFile       string
	purpose             string
	dsns                []string
	authority           authorityOptions
	merge               mergeOptions
}

// commands returns all commands in the order of the overview.
func commands() []command {
	return []command{
		newCommand(), inspectCommand(), rangeCommand(), layoutCommand(), listCommand(), releaseCommand(),
		authorityCommand(), reserveCommand(),
		segmentsListCommand(), segmentsShowCommand(), segmentsRaiseCommand(), segmentsResiduesCommand(),
		shardsStatusCommand(), shardsResumeCommand(), shardsUndoCommand(), shardsCleanCommand(),
		sealCommand(), openCommand(),
		mergePlanCommand(), mergeCheckCommand(), mergeRunCommand(), mergeVerifyCommand(),
		versionCommand(), completionCommand(),
	}
}

func groups() []group {
	return []group{nodesGroup(), segmentsGroup(), shardsGroup(), mergeGroup()}
}

// members returns the commands of a group.
func (g group) members() []command {
	return slices.DeleteFunc(commands(), func(c command) bool { return !strings.HasPrefix(c.name, g.name+" ") })
}

// exitError ends the program with its own exit code. It prints nothing if it wraps no error.
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
	if text := err.Error(); text != "" {
		say(e.err, "snowflake: %s\n", text)
	}
	var exit exitError
	switch {
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, errRefused):
		return exitRefused
	}
	return exitFailure
}

func dispatch(ctx context.Context, args []string, e *env) error {
	if len(args) == 0 {
		overview(e.err)
		return usagef("a command is missing")
	}
	switch first := args[0]; {
	case first == "help" || isHelpFlag(first):
		return help(e.out, args[1:])
	case first == "-version" || first == "--version":
		args = append([]string{"version"}, args[1:]...)
	case first == completeWord:
		return printCandidates(e.out, args[1:])
	}
	if g, ok := groupOf(args[0]); ok {
		switch {
		case len(args) == 1:
			printGroup(e.err, g)
			return usagef("%s: a command is missing, one of: %s", g.name, strings.Join(g.words(), ", "))
		case args[1] == "help" || isHelpFlag(args[1]):
			return help(e.out, append([]string{g.name}, args[2:]...))
		}
	}
	c, rest, err := find(args)
	if err != nil {
		return err
	}
	return c.call(ctx, e, rest)
}

func isHelpFlag(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, arg) }

// call runs the command with the arguments that follow its name.
func (c command) call(ctx context.Context, e *env, args []string) error {
	var o options
	set := c.flagSet(&o)
	positional, err := parse(set, args)
	if errors.Is(err, flag.ErrHelp) {
		printCommand(e.out, c)
		return nil
	}
	if err != nil {
		return usagef("%s: %s; see \"snowflake help %s\"", c.name, err, c.name)
	}
	return c.run(ctx, e, &o, positional)
}

// flagSet declares the flags of the command, which write to o.
func (c command) flagSet(o *options) *flag.FlagSet {
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	if c.flags != nil {
		c.flags(set, o)
	}
	return set
}

// find returns the command that the first words name, and the words that follow its name.
func find(args []string) (command, []string, error) {
	if len(args) == 0 || args[0] == "" {
		return command{}, nil, usagef("a command is missing; \"snowflake help\" lists all commands")
	}
	var near []string
	for _, c := range commands() {
		words := strings.Fields(c.name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == c.name {
			return c, args[len(words):], nil
		}
		if strings.HasPrefix(words[0], args[0]) || strings.HasPrefix(args[0], words[0]) ||
			slices.Contains(words, args[0]) {
			near = append(near, "\""+c.name+"\"")
		}
	}
	if g, ok := groupOf(args[0]); ok && len(args) > 1 {
		return command{}, nil, usagef("%s: there is no command %q, only: %s", g.name, args[1],
			strings.Join(g.words(), ", "))
	}
	if near != nil {
		return command{}, nil, usagef("there is no command %q; did you mean %s?", args[0],
			strings.Join(near, " or "))
	}
	return command{}, nil, usagef("there is no command %q; \"snowflake help\" lists all commands", args[0])
}

func groupOf(name string) (group, bool) {
	for _, g := range groups() {
		if g.name == name {
			return g, true
		}
	}
	return group{}, false
}

// words returns the commands of the group without its name.
func (g group) words() []string {
	var words []string
	for _, c := range g.members() {
		words = append(words, strings.TrimPrefix(c.name, g.name+" "))
	}
	return words
}

// parse reads flags before, between and after the arguments. A minus sign with a digit begins an
// argument and not a flag, because -24h is a time.
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
		switch known := set.Lookup(name); {
		case known == nil && name != "h" && name != "help":
			if strings.ContainsAny(name, ":/@ ") { // It is no flag but perhaps a DSN, so it is not repeated.
				return nil, errors.New("there is no such flag")
			}
			return nil, fmt.Errorf("there is no flag %.40q", "--"+name)
		case known != nil && !joined && !isSwitch(known):
			take = min(2, len(args))
		}
		if err := set.Parse(args[:take]); err != nil {
			return nil, err
		}
		args = args[take:]
	}
	return positional, nil
}

// isSwitch tells whether a flag takes no value.
func isSwitch(f *flag.Flag) bool {
	boolean, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && boolean.IsBoolFlag()
}

// say writes to a stream of the process. An error is ignored, because there is nobody left to tell.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

func usagef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}
