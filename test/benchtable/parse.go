package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// processors is how a name ends where there is more than one.
var processors = regexp.MustCompile(`-[0-9]+$`)

// key identifies a figure by its benchmark, without the number of processors, and its unit.
type key struct{ benchmark, unit string }

// figures holds the values of every figure, one value for each run.
type figures map[key][]float64

// parse reads the output of go test -bench. A line of a benchmark has a name, the number of
// iterations, and then pairs of a value and its unit. parse skips other lines, but returns an error
// for a line that reports a failure.
func parse(r io.Reader) (figures, error) {
	f := figures{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 0 && (fields[0] == "FAIL" || fields[0] == "---") {
			return nil, fmt.Errorf("the benchmarks failed: %s", lines.Text())
		}
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := processors.ReplaceAllString(fields[0], "")
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q is not a line of go test -bench: %w", lines.Text(), err)
			}
			k := key{name, fields[i+1]}
			f[k] = append(f[k], value)
		}
	}
	return f, lines.Err()
}

// median returns the median of a figure and the number of its runs.
func (f figures) median(k key) (value float64, runs int, err error) {
	values := slices.Sorted(slices.Values(f[k]))
	n := len(values)
	if n == 0 {
		return 0, 0, fmt.Errorf("no figure %s of %s in the input", k.unit, k.benchmark)
	}
	return (values[(n-1)/2] + values[n/2]) / 2, n, nil
}
