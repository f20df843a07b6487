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
	"text/tabwriter"
)

func main() {
	strict := flag.Bool("strict", false, "fail if a target is missed")
	pattern := flag.Bool("pattern", false, "print the pattern of the benchmarks with a target")
	flag.Parse()
	if *pattern {
		fmt.Println(benchmarks())
		return
	}
	if err := run(os.Stdin, os.Stdout, *strict); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

// run prints the table for the benchmark output in r.
func run(r io.Reader, w io.Writer, strict bool) error {
	figures, err := parse(r)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "what\tmeasured\ttarget\treached\truns\n")
	missed := 0
	for _, t := range targets() {
		value, runs, err := t.measure(figures)
		if err != nil {
			return err
		}
		reached := "yes"
		if !t.met(value) {
			reached = "NO"
			missed++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\n", t.what, t.show(value), t.goal(), reached, runs)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if strict && missed > 0 {
		return fmt.Errorf("%d targets missed", missed)
	}
	return nil
}
