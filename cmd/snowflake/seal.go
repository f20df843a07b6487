package main

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/snowflakeplugin/snowflakeplugin/opaque"
)

const (
	keyVariable = "SNOWFLAKE_KEY"

	keyHelp = `
The keys come from a file that --key-file names, or from the environment variable ` + keyVariable + `,
and never from an argument, which other users of the machine can read. A key is 32 hexadecimal digits, as
"openssl rand -hex 16" prints them. Several keys have spaces or line ends between them: the first seals, and
all of them open.`
)

func sealFlags(set *flag.FlagSet, o *options) {
	set.StringVar(&o.kind, "kind", "", "the `KIND` of the IDs, which the program gives to package opaque")
	set.StringVar(&o.keyFile, "key-file", "", "the `FILE` with the keys (default $"+keyVariable+")")
}

func sealCommand() command {
	return command{
		name: "seal", args: "ID...", short: "turn IDs into texts that tell strangers nothing",
		needs: "at least one ID is needed", least: 1,
		help: `
Prints the sealed text of each ID: the text that package opaque makes of it for the kind. IDs are decimal
numbers. With --keyed it is the text of a program that uses WithKeyedTags or WithOnlyKeyedTags.
` + keyHelp + `

  snowflake seal --kind order 249168410316800512
  snowflake seal --kind order --key-file opaque.key 17 18 --json`,
		flags: func(set *flag.FlagSet, o *options) {
			sealFlags(set, o)
			set.BoolVar(&o.keyed, "keyed", false, "seal with a keyed tag")
		},
		run: runSeal,
	}
}

func openCommand() command {
	return command{
		name: "open", args: "TEXT...", short: "turn sealed texts back into IDs",
		needs: "at least one text is needed", least: 1,
		help: `
Prints the ID in each sealed text. A text that was sealed for another kind or with another key, or was made
up, does not open: the command then fails and prints no ID at all. Texts with plain and with keyed tags open.
` + keyHelp + `

  snowflake open --kind order 4qPDcXk7pKj0jttb3yvmPD
  snowflake open --kind order --key-file opaque.key --json 4qPDcXk7pKj0jttb3yvmPD`,
		flags: sealFlags,
		run:   runOpen,
	}
}

// sealedInfo is an ID and its text in JSON.
type sealedInfo struct {
	ID   int64  `json:"id,string"`
	Kind string `json:"kind"`
	Text string `json:"text"`
}

func runSeal(_ context.Context, e *env, o *options, args []string) error {
	codec, err := codecOf("seal", e, o)
	if err != nil {
		return err
	}
	sealed := make([]sealedInfo, 0, len(args))
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return usagef("seal: %q is not a decimal ID", arg)
		}
		sealed = append(sealed, sealedInfo{id, o.kind, codec.Seal(o.kind, id)})
	}
	return printSealed(e, o, sealed, func(s sealedInfo) (string, string) { return fmt.Sprint(s.ID), s.Text })
}

func runOpen(_ context.Context, e *env, o *options, args []string) error {
	codec, err := codecOf("open", e, o)
	if err != nil {
		return err
	}
	opened := make([]sealedInfo, 0, len(args))
	for _, arg := range args {
		id, err := codec.Open(o.kind, arg)
		if err != nil {
			return fmt.Errorf("%w: %.40q does not open as kind %q with these keys", err, arg, o.kind)
		}
		opened = append(opened, sealedInfo{id, o.kind, arg})
	}
	return printSealed(e, o, opened, func(s sealedInfo) (string, string) { return s.Text, fmt.Sprint(s.ID) })
}

// printSealed prints results. One result stands alone, so that a script can use it as it is, and of several
// each stands beside what it was made of.
func printSealed(e *env, o *options, all []sealedInfo, pair func(sealedInfo) (input, output string)) error {
	if o.json {
		return printJSON(e.out, all)
	}
	table := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	for _, s := range all {
		input, output := pair(s)
		if len(all) == 1 {
			say(table, "%s\n", output)
			continue
		}
		say(table, "%s\t%s\n", input, output)
	}
	return table.Flush()
}

// codecOf makes the codec with the keys of the file or the environment. No error repeats a key.
func codecOf(name string, e *env, o *options) (*opaque.Codec, error) {
	if o.kind == "" {
		return nil, usagef("%s: a kind is needed: give --kind", name)
	}
	text, origin := e.getenv(keyVariable), keyVariable
	if o.keyFile != "" {
		content, err := os.ReadFile(o.keyFile)
		if err != nil {
			return nil, fmt.Errorf("%s: the keys cannot be read: %w", name, err)
		}
		text, origin = string(content), o.keyFile
	}
	if strings.TrimSpace(text) == "" {
		if o.keyFile != "" {
			return nil, fmt.Errorf("%s: %s has no key", name, origin)
		}
		return nil, usagef("%s: a key is needed: give --key-file, or set %s", name, keyVariable)
	}
	var keys [][]byte
	for i, word := range strings.Fields(text) {
		key, err := hex.DecodeString(word)
		if err != nil || len(key) != opaque.KeySize {
			return nil, fmt.Errorf("%s: key %d in %s is not %d hexadecimal digits", name, i+1, origin,
				2*opaque.KeySize)
		}
		keys = append(keys, key)
	}
	var opts []opaque.Option
	if o.keyed {
		opts = append(opts, opaque.WithKeyedTags())
	}
	codec, err := opaque.NewCodec(keys, opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: the keys in %s cannot be used: %w", name, origin, err)
	}
	return codec, nil
}
