package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// modulePath is left out of the names of parts.
const modulePath = "github.com/snowflakeplugin/snowflakeplugin"

// An event is a line of go test -json, as "go doc test2json" describes it. ImportPath stands in the lines
// of a build.
type event struct {
	Action     string
	Package    string
	Test       string
	Elapsed    float64
	Output     string
	ImportPath string
}

// A part is a package and what its tests did. Tests that have sub-tests count as one with each of them.
type part struct {
	name                   string
	passed, failed, nights int
	skipped                int
	seconds                float64
}

// A report is fed with events from several goroutines.
type report struct {
	began time.Time

	mu     sync.Mutex
	out    io.Writer // guarded by mu, like everything below
	parts  map[string]*part
	output map[string][]string // what a test printed, until it ends
	slow   []event             // tests of the top level that have ended
	faults []string
}

func (r *report) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(format, args...)
}

// print prints a line with the seconds since the start, so that a run that is cut off says where. The lock
// is held.
func (r *report) print(format string, args ...any) {
	fmt.Fprintf(r.out, "%5.0f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// broken notes a fault that belongs to no test.
func (r *report) broken(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, what)
	r.print("%s", what)
}

// raw returns a writer whose lines go through the report.
func (r *report) raw() io.Writer { return rawWriter{r} }

type rawWriter struct{ r *report }

// Write is that of io.Writer.
func (w rawWriter) Write(p []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	return w.r.out.Write(p)
}

// read reads the events of one call of go test. A line that is none is printed as it is.
func (r *report) read(stream io.Reader) {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			e = event{Action: "build-output", Output: lines.Text() + "\n"}
		}
		r.take(e)
	}
	if err := lines.Err(); err != nil {
		r.broken(fmt.Sprintf("reading the events of go test: %v", err))
	}
}

func (r *report) take(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts, r.output = map[string]*part{}, map[string][]string{}
	}
	key := e.Package + " " + e.Test
	p := r.parts[e.Package]
	if p == nil && e.Package != "" {
		p = &part{name: short(e.Package)}
		r.parts[e.Package] = p
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.output[key] = append(r.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.end(p, e)
		} else {
			r.endTest(p, e)
		}
	}
}

// endTest counts a test that has ended. What a failed one printed is printed now.
func (r *report) endTest(p *part, e event) {
	key := e.Package + " " + e.Test
	lines := r.output[key]
	delete(r.output, key)
	switch e.Action {
	case "pass":
		p.passed++
	case "skip":
		if strings.Contains(strings.Join(lines, ""), "nightly: ") {
			p.nights++
		} else {
			p.skipped++
		}
	default:
		p.failed++
		r.print("FAILED %s: %s", p.name, e.Test)
		fmt.Fprint(r.out, strings.Join(lines, ""))
	}
	if !strings.Contains(e.Test, "/") {
		r.slow = append(r.slow, e)
	}
}

// end prints a line for a package that has ended. One that failed may have printed something outside of its
// tests, or may have died in the middle of some: a panic, a time-out, a race.
func (r *report) end(p *part, e event) {
	p.seconds = e.Elapsed
	r.print("%-5s %s (%d tests, %.1f s)", e.Action, p.name, p.passed+p.failed, p.seconds)
	keys := slices.Sorted(maps.Keys(r.output))
	for _, key := range keys {
		if pkg, _, _ := strings.Cut(key, " "); pkg != e.Package {
			continue
		}
		if e.Action == "fail" {
			fmt.Fprint(r.out, strings.Join(r.output[key], ""))
		}
		delete(r.output, key)
	}
	if e.Action == "fail" {
		r.faults = append(r.faults, p.name+" failed")
	}
}

// finish prints the table, and reports whether all is well. Parts that take longer than most are named,
// unless that is zero. If the report is strict, such a part must not take more than a quarter of all parts
// together.
func (r *report) finish(most time.Duration, strict bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all part
	var warnings []string
	parts := slices.SortedFunc(maps.Values(r.parts), func(a, b *part) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.name, b.name))
	})
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\nseconds\ttests\tskipped\tnightly\t  part\n")
	for _, p := range parts {
		fmt.Fprintf(table, "%.1f\t%d\t%d\t%d\t  %s\n", p.seconds, p.passed+p.failed, p.skipped, p.nights, p.name)
		all.passed, all.failed = all.passed+p.passed, all.failed+p.failed
		all.skipped, all.nights = all.skipped+p.skipped, all.nights+p.nights
		all.seconds += p.seconds
	}
	for _, p := range parts {
		if most == 0 || p.seconds <= most.Seconds() {
			continue
		}
		long := fmt.Sprintf("%s took %.0f s of %.0f, where a part should take at most %.0f: make it cheaper, or "+
			"move what is exhaustive to the nightly tier", p.name, p.seconds, all.seconds, most.Seconds())
		if strict && p.seconds > all.seconds/4 {
			r.faults = append(r.faults, long)
		} else {
			warnings = append(warnings, long)
		}
	}
	fmt.Fprint(table, "\nseconds\t  slowest tests\n")
	slices.SortStableFunc(r.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range r.slow[:min(10, len(r.slow))] {
		fmt.Fprintf(table, "%.1f\t  %s: %s\n", e.Elapsed, short(e.Package), e.Test)
	}
	if err := table.Flush(); err != nil {
		r.faults = append(r.faults, err.Error())
	}
	fmt.Fprintln(r.out)
	for _, warning := range warnings {
		fmt.Fprintln(r.out, warning)
	}
	for _, fault := range r.faults {
		fmt.Fprintln(r.out, fault)
	}
	took := time.Since(r.began).Seconds()
	fmt.Fprintf(r.out, "%.0f s in all, and %d tests are left to the night\n", took, all.nights)
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", all.passed, all.failed, all.skipped+all.nights)
	return all.failed == 0 && len(r.faults) == 0 && all.passed > 0
}

// short is the name of a package without the path of this repository.
func short(pkg string) string {
	if pkg == modulePath {
		return "."
	}
	return strings.TrimPrefix(pkg, modulePath+"/")
}
