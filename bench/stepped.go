package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
)

// stepped is what the libraries do when the wall clock is set, by library.
type stepped struct {
	Date     string               `json:"date"`
	Go       string               `json:"go"`
	Steps    []string             `json:"steps"`
	Versions []string             `json:"libraries"` // in the order of the table
	Outcomes map[string][]outcome `json:"outcomes"`  // by library, in the order of the steps
}

// measureStepped runs a probe for each library and each step. Each is a process of its own, because a library
// may have one generator in a process, and because one that waits for an hour cannot be stopped.
func measureStepped() (*stepped, error) {
	dir, err := os.MkdirTemp("", "stepped")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	probe, err := buildProbe(dir)
	if err != nil {
		return nil, err
	}
	all, kinds := peers(), steps()
	s := &stepped{
		Date: time.Now().UTC().Format(time.DateOnly), Go: runtime.Version(), Outcomes: map[string][]outcome{},
	}
	for _, step := range kinds {
		s.Steps = append(s.Steps, step.name)
	}
	// Some libraries turn in a loop while they wait, so no more run at a time than there are cores.
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	failed := make([]error, len(all)*len(kinds))
	var group sync.WaitGroup
	for i, p := range all {
		s.Versions = append(s.Versions, p.name)
		results := make([]outcome, len(kinds))
		s.Outcomes[p.name] = results
		for j, step := range kinds {
			group.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				results[j], failed[i*len(kinds)+j] = runProbe(probe, p.name, step.name)
			})
		}
	}
	group.Wait()
	return s, errors.Join(failed...)
}

// runProbe measures one library and one step in a process.
func runProbe(probe, library, step string) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, probe, "-probe", library, "-step", step) //nolint:gosec // built above
	var told bytes.Buffer
	cmd.Stderr = &told
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return o, fmt.Errorf("probe of %s, %s: %w: %s", library, step, err, told.String())
	}
	return o, nil
}

// packageTime returns the file and the text of package time of the Go that builds.
func packageTime() (file, text string, err error) {
	out, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return "", "", fmt.Errorf("go env GOROOT: %w", err)
	}
	file = filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	read, err := os.ReadFile(file) //nolint:gosec // of the Go that builds
	return file, string(read), err
}

// buildProbe builds this program with a package time whose wall clock can be set. All libraries read
// time.Now, and a time namespace of Linux has no wall clock of its own.
func buildProbe(dir string) (string, error) {
	source, text, err := packageTime()
	if err != nil {
		return "", err
	}
	patched, err := withStep(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", source, err)
	}
	files := map[string]string{
		source: patched, filepath.Join(filepath.Dir(source), "step_wall_clock.go"): stepSource,
	}
	replace := map[string]string{}
	for target, text := range files {
		replace[target] = filepath.Join(dir, filepath.Base(target))
		if err := os.WriteFile(replace[target], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list, probe := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "probe")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	//nolint:gosec // the arguments are made here
	build := exec.CommandContext(context.Background(),
		"go", "build", "-tags", "stepped", "-overlay", list, "-o", probe, ".")
	if told, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the probe: %w: %s", err, told)
	}
	return probe, nil
}

// stepSource is added to package time.
const stepSource = `package time

import "sync/atomic"

var wallStep, passed atomic.Int64

// StepWallClock sets the wall clock of this process.
func StepWallClock(by Duration) { wallStep.Add(int64(by)) }

// PassTime moves both clocks of this process.
func PassTime(by Duration) {
	passed.Add(int64(by))
	wallStep.Add(int64(by))
}

func stepped(sec int64, nsec int32, mono int64) (int64, int32, int64) {
	nanos := wallStep.Load() + int64(nsec)
	sec, nanos = sec+nanos/1e9, nanos%1e9
	if nanos < 0 {
		sec, nanos = sec-1, nanos+1e9
	}
	return sec, int32(nanos), mono + passed.Load()
}
`

// beginOfNow is how time.Now begins. The reading has had two names.
var beginOfNow = regexp.MustCompile(`(?m)^func Now\(\) Time {\n\tsec, nsec, mono := (?:runtimeN|n)ow\(\)\n`)

// monotonic is how time.Since and time.Until read the monotonic clock.
const monotonic = "runtimeNano()-startNano"

// withStep returns the source of package time with clocks that can be set, or says that it does not know it.
func withStep(source string) (string, error) {
	if len(beginOfNow.FindAllString(source, -1)) != 1 || strings.Count(source, monotonic) != 2 {
		return "", fmt.Errorf("the package time of %s is not the one that is expected, so its clocks cannot be "+
			"set: adapt withStep in bench/stepped.go to it", runtime.Version())
	}
	source = beginOfNow.ReplaceAllString(source, "${0}\tsec, nsec, mono = stepped(sec, nsec, mono)\n")
	return strings.ReplaceAll(source, monotonic, "runtimeNano()+passed.Load()-startNano"), nil
}

// table is Markdown.
func (s *stepped) table(b *strings.Builder) {
	b.WriteString("\nWhat a generator does when the wall clock is set. ")
	fmt.Fprintf(b, "Measured on %s with %s.\n", s.Date, s.Go)
	b.WriteString("\n| library |")
	for _, step := range s.Steps {
		fmt.Fprintf(b, " %s |", step)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(s.Steps)) + "\n")
	for _, name := range s.Versions {
		fmt.Fprintf(b, "| %s |", name)
		for _, o := range s.Outcomes[name] {
			fmt.Fprintf(b, " %s |", o)
		}
		b.WriteString("\n")
	}
}
