package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// The exit codes, see exitCodesHelp.
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

// exitCode ends the program with a code of its own, and prints nothing.
type exitCode int

func (exitCode) Error() string { return "" }

// env is everything that a command uses of the process, so that tests can replace it, and what the command
// has opened.
type env struct {
	input    io.Reader
	out, err io.Writer
	getenv   func(string) string
	opened   []io.Closer // to be closed when the command has ended, the last first
}

// command is one thing that the program does.
type command struct {
	name   string   // one word, or the name of a group and one word
	args   string   // the arguments, as the usage line shows them; empty if there are none
	needs  string   // which arguments are needed, for the error when there are others
	least  int      // how many arguments there have to be
	most   int      // how many there may be; 0 for any number
	short  string   // one line for the lists of commands
	help   string   // the explanation, and then the examples
	values []string // what the argument can be, for shell completion; nil if that is open
	// flags declares the flags beside --json, which goes with them. It is nil for a command without flags.
	flags func(*flag.FlagSet, *options)
	run   func(context.Context, *env, *options, []string) error
}

// group is a word that several commands begin with.
type group struct {
	name, short, help string
}

// options are the flags of all commands. Each command declares the flags that it has.
type options struct {
	json, base62, force bool
	dryRun, create      bool
	back                bool
	dir                 string
	count               int
	node                int64
	layout, dsn, table  string
	until               string
	kind, keyFile       string
	keyed               bool
	columns             texts // of --above
	purpose             string
	dsns                texts
	authority           authorityOptions
	merge               mergeOptions
}

// authorityOptions are the flags of "nodes authority".
type authorityOptions struct {
	target, targetTable, source, sourceTable string
	anotherLayout                            bool
}

// mergeOptions are the flags that only the merge commands have.
type mergeOptions struct {
	servers            texts
	target, base       string
	renames, serverMap string
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

// flagSet declares the flags of the command, which write to o.
func (c command) flagSet(o *options) *flag.FlagSet {
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	if c.flags != nil {
		c.flags(set, o)
		set.BoolVar(&o.json, "json", false, "print one JSON document instead of text")
	}
	return set
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

// onlyJSON stands for no flags beside --json.
func onlyJSON(*flag.FlagSet, *options) {}

func usagef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}
