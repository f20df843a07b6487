// Command benchtable reads the output of go test -bench from standard input and prints a table of
// the project's speed targets. Each row shows the measured value, the target and whether the target
// was reached. Every figure is the median over the runs in the input. A comparison is the ratio of
// two medians of the same input, so the speed of the machine does not matter. The exit status is 1
// if a figure is missing. With -strict it is also 1 if a figure misses its target. With -pattern it reads
// nothing, and prints the pattern for go test -bench that runs what has a target.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	strict := flag.Bool("strict", false, "fail if a target is missed")
	pattern := flag.Bool("pattern", false, "print the pattern of the benchmarks with a target")
	page := flag.String("page", "", "a document that gets the table, too, between its marks")
	flag.Parse()
	if *pattern {
		fmt.Println(benchmarks())
		return
	}
	if err := run(os.Stdin, os.Stdout, *page, *strict); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

// run prints the table for the benchmark output in r.
func run(r io.Reader, w io.Writer, page string, strict bool) error {
	rows, err := rowsOf(r)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "what\tmeasured\ttarget\treached\truns\n")
	missed := 0
	for _, row := range rows {
		if !row.met {
			missed++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\n", row.what, row.measured, row.goal, row.reached(), row.runs)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if page != "" {
		if err := replace(page, rows); err != nil {
			return err
		}
	}
	if strict && missed > 0 {
		return fmt.Errorf("%d targets missed", missed)
	}
	return nil
}

// row is a line of the table.
type row struct {
	what, measured, goal string
	met                  bool
	runs                 int
}

func (r row) reached() string {
	if r.met {
		return "yes"
	}
	return "NO"
}

func rowsOf(r io.Reader) ([]row, error) {
	figures, err := parse(r)
	if err != nil {
		return nil, err
	}
	rows := make([]row, 0, len(targets()))
	for _, t := range targets() {
		value, runs, err := t.measure(figures)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{
			what: t.what, measured: t.show(value), goal: t.goal(), met: t.met(value), runs: runs,
		})
	}
	return rows, nil
}

const (
	beginMark = "<!-- ratios: begin, made by test/benchtable -->\n"
	endMark   = "<!-- ratios: end -->\n"
)

// replace writes the table into a document, in the place of an earlier one.
func replace(page string, rows []row) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, begun := strings.Cut(string(text), beginMark)
	_, tail, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return fmt.Errorf("%s lacks the lines that mark the place of the table", page)
	}
	runs := "One run"
	if n := rows[0].runs; n > 1 {
		runs = fmt.Sprintf("Medians of %d runs", n)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "Measured on %s with %s on %d cores. %s.\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), runs)
	table.WriteString("| what | measured | goal | reached |\n|---|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", row.what, row.measured, row.goal, row.reached())
	}
	return os.WriteFile(page, []byte(head+beginMark+table.String()+endMark+tail), 0o600)
}
