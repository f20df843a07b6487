package main

import (
	"context"
	"embed"
	"flag"
	"io"
	"strings"
)

// completeWord is the hidden command that the completion scripts call with the words of the command
// line up to the cursor. Because it reads the table of commands, no script has to list anything.
const completeWord = "__complete"

//go:embed completion
var completionScripts embed.FS

func shells() []string { return []string{"bash", "zsh", "fish"} }

func completionCommand() command {
	return command{
		name: "completion", args: "bash|zsh|fish", short: "print a completion script for a shell",
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
	if len(args) != 1 {
		return usagef("completion: exactly one shell is needed, one of: %s", strings.Join(shells(), ", "))
	}
	for _, shell := range shells() {
		if args[0] == shell {
			script, err := completionScripts.ReadFile("completion/snowflake." + shell)
			if err != nil {
				return err
			}
			_, err = e.out.Write(script)
			return err
		}
	}
	return usagef("completion: there is no script for %q, only for: %s", args[0], strings.Join(shells(), ", "))
}

// candidate is a word that can stand at the cursor, and what it means.
type candidate struct{ word, meaning string }

// printCandidates writes one candidate per line, with a tab before its meaning.
func printCandidates(w io.Writer, words []string) error {
	var b strings.Builder
	for _, c := range candidates(words) {
		b.WriteString(c.word + "\t" + c.meaning + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

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
	c, rest, err := find(before)
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
		return presetNames()
	case "until":
		return []string{"now"}
	}
	return nil
}
