// Command testrun runs the tests of every module of this repository and ends with one table: part, tests,
// seconds, and the ten slowest tests. "make test" and "make nightly" call it from the top of the repository:
//
//	testrun            tier one: plain, and with the race detector where goroutines meet
//	testrun -services  the same, after scripts/services.sh has started or installed the servers
//	testrun -nightly   everything with the race detector, and SNOWFLAKE_NIGHTLY=1
//	testrun lease ...  only the modules and packages whose path begins with one of these words
//
// A part is a package. In tier one a part that takes more than a fifth of the budget is named. If it also
// takes more than a quarter of the time of all parts together, which does not depend on the speed of the
// machine, and CI=true, that is a failure.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// budget is how long tier one may take on two processors.
const budget = 6 * time.Minute

// raced lists what tier one runs with the race detector: the packages in which goroutines meet. They do not
// run without it as well. A module is named by its directory.
//
//nolint:gochecknoglobals // a constant
var raced = []string{
	"generator", "lease", "segment", "internal/fill", "internal/router", "internal/shardmap", "server/...",
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out io.Writer) int {
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	flags.SetOutput(out)
	night := flags.Bool("nightly", false, "run everything, with the race detector")
	services := flags.Bool("services", false, "start or install the servers of the tests first")
	if flags.Parse(args) != nil {
		return 2
	}
	steps, err := plan(*night, flags.Args())
	if err != nil {
		fmt.Fprintln(out, "testrun:", err)
		return 2
	}
	if *services {
		if err := serve(ctx, steps); err != nil {
			fmt.Fprintln(out, "testrun:", err)
			return 1
		}
	}
	r := &report{began: time.Now(), out: out}
	queue := make(chan step, len(steps))
	for _, s := range steps {
		queue <- s
	}
	close(queue)
	// Two steps run at a time, so that the processors have something to do while tests wait for databases.
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for s := range queue {
				s.run(ctx, *night, r)
			}
		})
	}
	running.Wait()
	most := budget / 5
	if *night || len(flags.Args()) > 0 {
		most = 0
	}
	if !r.finish(most, os.Getenv("CI") != "") || ctx.Err() != nil {
		return 1
	}
	return 0
}

// serve starts or installs the servers, and names them to the tests, which then fail where one is absent.
// On a new machine that is minutes of waiting for downloads, in which serve compiles what the steps need.
func serve(ctx context.Context, steps []step) error {
	waiting, ready := context.WithCancel(ctx)
	defer ready()
	var compiling sync.WaitGroup
	compiling.Go(func() {
		for _, s := range steps {
			s.compile(waiting)
		}
	})
	script := exec.CommandContext(ctx, "scripts/services.sh")
	script.Stderr = os.Stderr
	names, err := script.Output()
	ready()
	compiling.Wait()
	if err != nil {
		return fmt.Errorf("scripts/services.sh: %w", err)
	}
	return os.Setenv("SNOWFLAKE_REQUIRE", "sqlite,"+strings.TrimSpace(string(names)))
}

// A step is one call of go test in the directory of a module.
type step struct {
	dir      string
	packages []string // relative to dir
	race     bool
}

// chunk is how many packages of the root module make a step. With fewer, go itself takes longer than the
// tests do; with more, the last step runs alone for long.
const chunk = 5

// dearest lists the packages that take longest, so that they begin early and none is left alone at the end.
// The first ones wait much, which suits the tests with the race detector that run beside them.
//
//nolint:gochecknoglobals // a constant
var dearest = []string{"test/resharding", "test/faults", "lease/gormlease", "merge"}

// plan returns the steps in the order in which they begin: the dearest packages, what is not of the root
// module or not like the most of it, and the rest in pieces.
func plan(night bool, only []string) (steps []step, err error) {
	packages, err := tested(".")
	if err != nil {
		return nil, err
	}
	var rest []string
	for _, module := range slices.Sorted(maps.Keys(packages)) {
		chosen := func(race bool) (those []string) {
			for _, p := range packages[module] {
				name := path.Join(module, p)
				if wanted(name, only) && race == (night || isRaced(name)) {
					those = append(those, "./"+p)
				}
			}
			return those
		}
		for _, race := range []bool{false, true} {
			those := chosen(race)
			switch {
			case len(those) == 0:
			case module == "." && race == night:
				dear := slices.IndexFunc(those, func(p string) bool { return rank(path.Clean(p)) == len(dearest) })
				if dear < 0 {
					dear = len(those)
				}
				if rest = those[dear:]; dear > 0 {
					steps = append(steps, step{module, those[:dear], race})
				}
			default:
				steps = append(steps, step{module, those, race})
			}
		}
	}
	for those := range slices.Chunk(rest, chunk) {
		steps = append(steps, step{".", those, night})
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("no package with tests begins with %s: name them from the top, such as "+
			"lease/sqllease", strings.Join(only, " or "))
	}
	return steps, nil
}

// tested lists the packages with tests by the directories of their modules, and relative to these.
func tested(top string) (packages map[string][]string, err error) {
	var modules []string
	var dirs []string
	err = filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		dir := path.Dir(filepath.ToSlash(file))
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != top && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.Name() == "go.mod":
			modules = append(modules, dir)
		case strings.HasSuffix(d.Name(), "_test.go") && !slices.Contains(dirs, dir):
			dirs = append(dirs, dir)
		}
		return nil
	})
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	packages = map[string][]string{}
	for _, dir := range dirs {
		home := "."
		for _, module := range modules {
			if len(module) > len(home) && (dir == module || strings.HasPrefix(dir, module+"/")) {
				home = module
			}
		}
		packages[home] = append(packages[home], strings.TrimPrefix(strings.TrimPrefix(dir, home), "/"))
	}
	return packages, err
}

// rank is the place of a package in the order in which packages begin.
func rank(dir string) int {
	if place := slices.Index(dearest, dir); place >= 0 {
		return place
	}
	return len(dearest)
}

func wanted(p string, only []string) bool {
	begins := func(word string) bool { return strings.HasPrefix(p, word) }
	return len(only) == 0 || slices.ContainsFunc(only, begins)
}

func isRaced(p string) bool {
	return slices.ContainsFunc(raced, func(name string) bool {
		top, all := strings.CutSuffix(name, "/...")
		return p == name || all && (p == top || strings.HasPrefix(p, top+"/"))
	})
}

// run runs the step, and tells the report what happens.
func (s step) run(ctx context.Context, night bool, r *report) {
	what, timeout := "tests", "15m"
	if night {
		timeout = "3h"
	}
	args := []string{
		// One package at a time: the databases keep the processors busy.
		"test", "-json", "-count=1", "-vet=off", "-p", "1", "-parallel", "4", "-timeout", timeout,
	}
	if s.race {
		args = append(args, "-race")
		what += " with the race detector"
	}
	name := strings.TrimPrefix(s.dir, "./")
	r.say("%s of %s in %d packages", what, title(name), len(s.packages))
	test := exec.CommandContext(ctx, "go", append(args, s.packages...)...)
	test.Dir = s.dir
	if night {
		test.Env = append(os.Environ(), nightly.Variable+"=1")
	}
	pipe, err := test.StdoutPipe()
	if err == nil {
		test.Stderr = r.raw()
		err = test.Start()
	}
	if err == nil {
		r.read(pipe)
		err = test.Wait()
	}
	var failed *exec.ExitError
	if err != nil && (!errors.As(err, &failed) || ctx.Err() == nil) {
		r.broken(fmt.Sprintf("go test in %s: %v", title(name), err))
	}
}

// compile compiles what the step needs, but links nothing, until ctx is done. It reports no failure, because
// the step itself does.
func (s step) compile(ctx context.Context) {
	args := []string{"list", "-export", "-deps", "-test"}
	if s.race {
		args = append(args, "-race")
	}
	list := exec.CommandContext(ctx, "go", append(args, s.packages...)...)
	list.Dir = s.dir
	// After an interrupt go finishes the packages that it has begun, so no work is lost.
	list.Cancel = func() error { return list.Process.Signal(os.Interrupt) }
	_ = list.Run()
}

// title is what a module is called in the report.
func title(dir string) string {
	if dir == "." {
		return "the root module"
	}
	return dir
}
