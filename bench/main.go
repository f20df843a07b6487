package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "", "folder for raw.json, tables.md and plots; empty: print the tables only")
	rounds := flag.Int("rounds", 45, "how often each measure visits each library")
	quick := flag.Bool("quick", false, "leave out the evenness and the set clock, which take minutes")
	only := flag.Bool("stepped", false, "set the clock only, and add that to the files of an earlier run")
	library := flag.String("probe", "", "used by this program itself: the library to probe, with -step")
	step := flag.String("step", "", "used by this program itself: how to set the clock of a probe")
	page := flag.String("page", "", "document whose tables are replaced, between the lines that mark them")
	flag.Parse()
	var err error
	switch {
	case *library != "":
		err = probe(os.Stdout, *library, *step)
	case *only:
		err = addStepped(*out, *page)
	default:
		err = run(*out, *page, *rounds, *quick)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(out, page string, rounds int, quick bool) error {
	r := report{
		Date: time.Now().UTC().Format(time.DateOnly), Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Processor: processorName(), Cores: runtime.GOMAXPROCS(0),
		Shards: []int{4, 16, 64, 256, 1024},
	}
	if err := r.measure(rounds); err != nil {
		return err
	}
	if !quick {
		var err error
		if r.Evenness, err = evenness(peers(), r.Shards, 5000); err != nil {
			return err
		}
		if r.Stepped, err = measureStepped(); err != nil {
			return err
		}
	}
	return r.publish(out, page)
}

// addStepped measures the stepped clock, and puts it into the report of an earlier run.
func addStepped(out, page string) error {
	var r report
	text, err := os.ReadFile(filepath.Join(out, "raw.json")) //nolint:gosec // the folder of the caller
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	if r.Stepped, err = measureStepped(); err != nil {
		return err
	}
	return r.publish(out, page)
}

// The lines between which the tables stand in a document.
const (
	beginMark = "<!-- tables: begin, made by bench -->\n"
	endMark   = "<!-- tables: end -->\n"
)

// processorName is what Linux calls the processor, or nothing.
func processorName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
