package main

import (
	"encoding/json"
	"errors"
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

// publish prints the tables, and writes them to where they are wanted.
func (r *report) publish(out, page string) error {
	fmt.Print(r.tables())
	if out != "" {
		if err := r.write(out); err != nil {
			return err
		}
	}
	if page != "" {
		return r.replace(page)
	}
	return nil
}

// The lines between which the tables stand in a document.
const (
	beginMark = "<!-- tables: begin, made by bench -->\n"
	endMark   = "<!-- tables: end -->\n"
)

// replace puts the tables into a document.
func (r *report) replace(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, begun := strings.Cut(string(text), beginMark)
	_, tail, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return fmt.Errorf("%s lacks the lines that mark the place of the tables", page)
	}
	return os.WriteFile(page, []byte(head+beginMark+r.tables()+endMark+tail), 0o600)
}

// measure makes every measure visit every library once a round, in turn. So each figure is made of moments
// from the whole run, and a machine that is slower for some seconds is slower for all libraries.
func (r *report) measure(rounds int) error {
	all := peers()
	for _, p := range all {
		r.Peers = append(r.Peers, library{p.name, p.version, p.bits, p.otherwise})
	}
	for _, p := range limits() {
		r.Limits = append(r.Limits, p.name)
	}
	kinds := measures()
	for _, m := range kinds {
		r.Figures = append(r.Figures, figure{Name: m.name, Unit: m.unit, Values: map[string][]float64{}})
	}
	for round := range rounds {
		for i, m := range kinds {
			if m.rounds > 0 && round >= m.rounds {
				continue
			}
			visited := all
			if m.name == "one goroutine" || m.name == "all cores" {
				visited = append(limits(), all...)
			}
			for _, p := range visited {
				value, err := m.of(p)
				if errors.Is(err, errNone) {
					continue
				}
				if err != nil {
					return fmt.Errorf("%s of %s: %w", m.name, p.name, err)
				}
				r.Figures[i].Values[p.name] = append(r.Figures[i].Values[p.name], value)
			}
		}
	}
	return nil
}

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

func (r *report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	raw, err := r.raw()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"raw.json": raw, "tables.md": r.tables(),
		"single.svg": r.plot("one goroutine"), "idle.svg": r.plot("1,000 from idle"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
