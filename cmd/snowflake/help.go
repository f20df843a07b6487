package main

import (
	"flag"
	"io"
	"slices"
	"strings"
)

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

// help explains the command or the group that args name. Without args it prints the overview.
func help(w io.Writer, args []string) error {
	if len(args) == 0 || len(args) == 1 && (args[0] == "help" || isHelpFlag(args[0])) {
		overview(w)
		return nil
	}
	if g, ok := groupOf(args[0]); ok && len(args) == 1 {
		printGroup(w, g)
		return nil
	}
	c, rest, err := find(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usagef("help: unexpected argument %q", rest[0])
	}
	printCommand(w, c)
	return nil
}

// printGroup lists the commands of a group, with their flags and an example.
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
		flag *flag.Flag
		of   []string
	}
	var entries []entry
	for _, c := range list {
		words := strings.Fields(c.name)
		c.flagSet(&options{}).VisitAll(func(f *flag.Flag) {
			at := slices.IndexFunc(entries, func(e entry) bool { return e.flag.Name == f.Name })
			if at < 0 {
				at, entries = len(entries), append(entries, entry{flag: f})
			}
			entries[at].of = append(entries[at].of, words[len(words)-1])
		})
	}
	for _, e := range entries {
		value, text := flag.UnquoteUsage(e.flag)
		if initial := e.flag.DefValue; initial != "" && initial != "false" && initial != noNode {
			text += " (default " + initial + ")"
		}
		if len(list) > len(e.of) {
			text += " [" + strings.Join(e.of, ", ") + "]"
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
