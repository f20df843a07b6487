package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A report is all that a run has measured. It is what raw.json holds, and all tables and plots are made
// of it.
type report struct {
	Date      string               `json:"date"`
	Go        string               `json:"go"`
	System    string               `json:"system"`
	Processor string               `json:"processor"`
	Cores     int                  `json:"cores"`
	Peers     []library            `json:"peers"`
	Limits    []string             `json:"limits"`
	Figures   []figure             `json:"figures"`
	Shards    []int                `json:"shards"`
	Evenness  map[string][]float64 `json:"evenness,omitempty"`
	Stepped   *stepped             `json:"stepped,omitempty"`
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
				value, err := m.figure(p)
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

type library struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Bits    int    `json:"bits"`
	// Otherwise is that of a peer.
	Otherwise string `json:"otherwise,omitempty"`
}

// A figure has the values of all rounds, by library.
type figure struct {
	Name   string               `json:"name"`
	Unit   string               `json:"unit"`
	Values map[string][]float64 `json:"values"`
}

func (r *report) raw() (string, error) {
	text, err := json.MarshalIndent(r, "", " ")
	return string(text) + "\n", err
}

// median is 0 without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// short writes a figure with three digits at most behind what matters.
func short(value float64) string {
	switch {
	case value >= 100 || value == float64(int64(value)):
		return strconv.FormatFloat(value, 'f', 0, 64)
	case value >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 2, 64)
}

func (r *report) figure(name string) figure {
	for _, f := range r.Figures {
		if f.Name == name {
			return f
		}
	}
	return figure{}
}

// tables is Markdown.
func (r *report) tables() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s with %s on %s, %d cores, %s. ",
		r.Date, r.Go, r.System, r.Cores, r.Processor)
	b.WriteString("Medians of one run, with the least and the most.\n")
	for _, table := range [][]string{
		{"one goroutine", "all cores", "1,000 from idle", "1,000,000 from idle", "batch of 1,000", "allocations"},
		{
			"CPU of one goroutine that wants more", "lead after 100 ms", "steps back in order",
			"repeated after a restart",
		},
	} {
		r.table(&b, table)
	}
	r.ahead(&b)
	b.WriteString("\nWhat the machine can do:\n\n| | one goroutine | all cores |\n|---|---|---|\n")
	for _, name := range r.Limits {
		one, all := r.figure("one goroutine").Values[name], r.figure("all cores").Values[name]
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, short(median(one)), short(median(all)))
	}
	if r.Evenness != nil {
		b.WriteString("\nThe fullest of N shards by the low bits, as a multiple of an even share.\n")
		b.WriteString("5,000 IDs, 2 ms apart:\n")
		b.WriteString("\n| library |")
		for _, n := range r.Shards {
			fmt.Fprintf(&b, " N = %d |", n)
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(r.Shards)) + "\n")
		for _, p := range r.Peers {
			fmt.Fprintf(&b, "| %s |", p.Name)
			for _, value := range r.Evenness[p.Name] {
				fmt.Fprintf(&b, " %s |", short(value))
			}
			b.WriteString("\n")
		}
	}
	if r.Stepped != nil {
		r.Stepped.table(&b)
	}
	return b.String()
}

// this is the name of this library in the report.
const this = "this"

// ahead lists where another library is faster than this one, and why that is no fair comparison.
func (r *report) ahead(b *strings.Builder) {
	b.WriteString("\nWhere another library is ahead of this one:\n\n" +
		"| measure | library | times as fast | but it |\n|---|---|---|---|\n")
	for _, f := range r.Figures {
		if f.Unit != perIDUnit {
			continue
		}
		own := median(f.Values[this])
		for _, p := range r.Peers {
			if other := median(f.Values[p.Name]); other > 0 && other < own {
				fmt.Fprintf(b, "| %s | %s | %s | %s |\n", f.Name, p.Name, short(own/other), p.Otherwise)
			}
		}
	}
}

func (r *report) table(b *strings.Builder, names []string) {
	b.WriteString("\n| library | bits |")
	for _, name := range names {
		fmt.Fprintf(b, " %s, %s |", name, r.figure(name).Unit)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(names)) + "\n")
	for _, p := range r.Peers {
		fmt.Fprintf(b, "| %s %s | %d |", p.Name, p.Version, p.Bits)
		for _, name := range names {
			values := r.figure(name).Values[p.Name]
			switch {
			case len(values) == 0:
				b.WriteString(" – |")
			case len(values) == 1:
				fmt.Fprintf(b, " %s |", short(values[0]))
			default:
				least, most := slices.Min(values), slices.Max(values)
				fmt.Fprintf(b, " %s (%s–%s) |", short(median(values)), short(least), short(most))
			}
		}
		b.WriteString("\n")
	}
}
