// Command snowflake inspects IDs, time ranges and layouts, manages the node leases and the counters in a
// database, shows the shards of a router, and merges the databases of several game servers into one.
//
//	go run github.com/snowflakeplugin/snowflakeplugin/cmd/snowflake help
//
// It explains its commands and its exit codes.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/snowflakeplugin/snowflakeplugin/internal/layouts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal kills the process, in case a database hangs.
	code := execute(ctx, os.Args[1:], &env{
		input: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv,
	})
	stop()
	os.Exit(code)
}

// execute runs the command that args name and returns the exit code.
func execute(ctx context.Context, args []string, e *env) int {
	err := dispatch(ctx, args, e)
	if err == nil {
		return exitOK
	}
	if text := err.Error(); text != "" {
		say(e.err, "snowflake: %s\n", text)
	}
	var exit exitCode
	switch {
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.As(err, &exit):
		return int(exit)
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
		return printHelp(e.out, args[1:])
	case first == "-version" || first == "--version":
		args = append([]string{"version"}, args[1:]...)
	case first == completeWord:
		for _, c := range candidates(args[1:]) {
			say(e.out, "%s\t%s\n", c.word, c.meaning)
		}
		return nil
	}
	if g, ok := groupOf(args[0]); ok {
		switch {
		case len(args) == 1:
			printGroup(e.err, g)
			return usagef("%s: a command is missing, one of: %s", g.name, strings.Join(g.words(), ", "))
		case args[1] == "help" || isHelpFlag(args[1]):
			return printHelp(e.out, append([]string{g.name}, args[2:]...))
		}
	}
	c, rest, err := findCommand(args)
	if err != nil {
		return err
	}
	return c.call(ctx, e, rest)
}

// commands returns all commands in the order of the overview.
func commands() []command {
	return []command{
		newCommand(), inspectCommand(), rangeCommand(), layoutCommand(), listCommand(), releaseCommand(),
		authorityCommand(), reserveCommand(),
		segmentsListCommand(), segmentsShowCommand(), segmentsRaiseCommand(), segmentsResiduesCommand(),
		migrateCommand(), migrateFilesCommand(),
		shardsStatusCommand(),
		sealCommand(), openCommand(),
		mergePlanCommand(), mergeCheckCommand(), mergeRunCommand(), mergeVerifyCommand(),
		versionCommand(), completionCommand(),
	}
}

func groups() []group {
	return []group{nodesGroup(), segmentsGroup(), shardsGroup(), mergeGroup()}
}

func (g group) members() []command {
	return slices.DeleteFunc(commands(), func(c command) bool { return !strings.HasPrefix(c.name, g.name+" ") })
}

// words returns the commands of the group without its name.
func (g group) words() []string {
	var words []string
	for _, c := range g.members() {
		words = append(words, strings.TrimPrefix(c.name, g.name+" "))
	}
	return words
}

func groupOf(name string) (group, bool) {
	for _, g := range groups() {
		if g.name == name {
			return g, true
		}
	}
	return group{}, false
}

// findCommand returns the command that the first words name, and the words that follow its name.
func findCommand(args []string) (command, []string, error) {
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
	if c.args == "" && len(positional) > 0 {
		return usagef("%s: unexpected argument %q: there are only flags", c.name, positional[0])
	}
	if n := len(positional); n < c.least || c.most > 0 && n > c.most {
		// It does not repeat the arguments, because one of them may be a DSN.
		return usagef("%s: %s; there are %d", c.name, c.needs, n)
	}
	err = c.run(ctx, e, &o, positional)
	for _, one := range slices.Backward(e.opened) {
		err = errors.Join(err, one.Close())
	}
	return err
}

const exitCodesHelp = `Exit codes:
  0  done
  1  failed
  2  usage error: a command, a flag or an argument is missing or cannot be understood
  3  refused: a live process could be hurt, numbers could repeat, a file would be overwritten,
     or a plan leaves something undecided
  4  only of "merge check": there are conflicts, and the plan resolves all of them
`

// overview lists all commands.
func overview(w io.Writer) {
	say(w, "snowflake inspects IDs, time ranges and layouts, manages the node leases and the counters in a\n"+
		"database, and merges the databases of several game servers into one.\n\n")
	printCommands(w, commands())
	say(w, "\n\"snowflake help COMMAND\" explains a command, with its flags and examples.\n"+
		"Every command accepts -h. All times are UTC.\n\n%s", exitCodesHelp)
}

func printCommands(w io.Writer, list []command) {
	for _, c := range list {
		say(w, "  snowflake %-17s %s\n", c.name, c.short)
	}
}

// printHelp explains the command or the group that args name. Without args it prints the overview.
func printHelp(w io.Writer, args []string) error {
	if len(args) == 0 || len(args) == 1 && (args[0] == "help" || isHelpFlag(args[0])) {
		overview(w)
		return nil
	}
	if g, ok := groupOf(args[0]); ok && len(args) == 1 {
		printGroup(w, g)
		return nil
	}
	c, rest, err := findCommand(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usagef("help: unexpected argument %q", rest[0])
	}
	printCommand(w, c)
	return nil
}

func printGroup(w io.Writer, g group) {
	say(w, "snowflake %s COMMAND [flags]\n\n%s\n\nCommands:\n", g.name, strings.TrimSpace(g.help))
	printCommands(w, g.members())
	say(w, "\nFlags:\n")
	printFlags(w, g.members())
	say(w, "\n\"snowflake help %s COMMAND\" explains a command.\n", g.name)
}

func printCommand(w io.Writer, c command) {
	usage := "snowflake " + c.name
	if c.flags != nil {
		usage += " [flags]"
	}
	say(w, "%s\n\n%s\n", strings.TrimSpace(usage+" "+c.args), strings.TrimSpace(c.help))
	if c.flags != nil {
		say(w, "\nFlags:\n")
		printFlags(w, []command{c})
	}
}

// printFlags lists the flags of commands. With several commands it says which of them have the flag.
func printFlags(w io.Writer, list []command) {
	type entry struct {
		flag     *flag.Flag
		commands []string
	}
	var entries []entry
	for _, c := range list {
		words := strings.Fields(c.name)
		c.flagSet(&options{}).VisitAll(func(f *flag.Flag) {
			index := slices.IndexFunc(entries, func(e entry) bool { return e.flag.Name == f.Name })
			if index < 0 {
				index, entries = len(entries), append(entries, entry{flag: f})
			}
			entries[index].commands = append(entries[index].commands, words[len(words)-1])
		})
	}
	for _, e := range entries {
		value, text := flag.UnquoteUsage(e.flag)
		if initial := e.flag.DefValue; initial != "" && initial != "false" && initial != noNode {
			text += " (default " + initial + ")"
		}
		if len(list) > len(e.commands) {
			text += " [" + strings.Join(e.commands, ", ") + "]"
		}
		say(w, "  %-18s %s\n", strings.TrimSpace(flagName(e.flag)+" "+value), text)
	}
}

// flagName is a flag as one types it.
func flagName(f *flag.Flag) string {
	if len(f.Name) == 1 {
		return "-" + f.Name
	}
	return "--" + f.Name
}

// completeWord is the hidden command that the completion scripts call with the words of the command
// line up to the cursor. Because it reads the table of commands, no script has to list anything.
const completeWord = "__complete"

//go:embed completion
var completionScripts embed.FS

func shells() []string { return []string{"bash", "zsh", "fish"} }

func completionCommand() command {
	return command{
		name: "completion", args: "bash|zsh|fish", short: "print a completion script for a shell",
		needs: "exactly one shell is needed, one of: " + strings.Join(shells(), ", "), least: 1, most: 1,
		values: shells(),
		help: `
Prints a script that makes the Tab key complete the commands, the flags and the names of layouts. Load
it when a shell starts:

  bash  echo 'source <(snowflake completion bash)' >> ~/.bashrc
  zsh   echo 'source <(snowflake completion zsh)' >> ~/.zshrc      # after the line with compinit
  fish  snowflake completion fish > ~/.config/fish/completions/snowflake.fish

To look at a script:

  snowflake completion bash
  snowflake completion zsh
  snowflake completion fish`,
		run: runCompletion,
	}
}

func runCompletion(_ context.Context, e *env, _ *options, args []string) error {
	script, err := completionScripts.ReadFile("completion/snowflake." + args[0])
	if err != nil {
		return usagef("completion: there is no script for %q, only for: %s", args[0],
			strings.Join(shells(), ", "))
	}
	_, err = e.out.Write(script)
	return err
}

// candidate is a word that can stand at the cursor, and what it means.
type candidate struct{ word, meaning string }

// candidates returns what can complete the last of the words. Where it returns nothing, the shell offers
// the names of files.
func candidates(words []string) []candidate {
	if len(words) == 0 {
		return nil
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	helping := len(before) > 0 && before[0] == "help"
	if helping {
		before = before[1:]
	}
	var found []candidate
	offer := func(word, meaning string) {
		if strings.HasPrefix(word, last) {
			found = append(found, candidate{word, meaning})
		}
	}
	if len(before) == 0 {
		for _, c := range commands() {
			if !strings.Contains(c.name, " ") {
				offer(c.name, c.short)
			}
		}
		for _, g := range groups() {
			offer(g.name, g.short)
		}
		if !helping {
			offer("help", "explain a command")
		}
		return found
	}
	if g, ok := groupOf(before[0]); ok && len(before) == 1 {
		for _, c := range g.members() {
			offer(strings.TrimPrefix(c.name, g.name+" "), c.short)
		}
		return found
	}
	c, rest, err := findCommand(before)
	if err != nil || helping {
		return nil
	}
	set := c.flagSet(&options{})
	switch f := waiting(set, rest); {
	case f != nil:
		for _, value := range flagValues(f) {
			offer(value, "")
		}
	case strings.HasPrefix(last, "-"):
		set.VisitAll(func(f *flag.Flag) {
			_, text := flag.UnquoteUsage(f)
			offer(flagName(f), text)
		})
	default:
		for _, value := range c.values {
			offer(value, "")
		}
	}
	return found
}

// waiting returns the flag whose value the cursor stands at, or nil.
func waiting(set *flag.FlagSet, words []string) *flag.Flag {
	if len(words) == 0 || !strings.HasPrefix(words[len(words)-1], "-") {
		return nil
	}
	f := set.Lookup(strings.TrimLeft(words[len(words)-1], "-"))
	if f == nil || isSwitch(f) {
		return nil
	}
	return f
}

// flagValues returns the values that a flag can have; nil if that is open.
func flagValues(f *flag.Flag) []string {
	switch f.Name {
	case "layout":
		return layouts.Names()
	case "until":
		return []string{"now"}
	}
	return nil
}
