// Command testrun runs the tests of every module of this repository and ends with one table: part, tests,
// seconds, and the ten slowest tests. "make test" and "make nightly" call it from the top of the repository:
//
//	testrun            tier one: plain, and with the race detector where goroutines meet
//	testrun -nightly   everything with the race detector, and SNOWFLAKE_NIGHTLY=1
//	testrun lease ...  only the modules and packages whose path begins with one of these words
//
// A part is a package. In tier one a part that takes more than a fifth of the budget is a failure if CI=true,
// because the next one who adds to it would not notice otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/nightly"
)

// budget is how long tier one may take on two processors.
const budget = 6 * time.Minute

// raced lists what tier one runs with the race detector: the packages in which goroutines meet. They do not run
// without it as well. A module is named by its directory.
var raced = []string{"generator", "lease", "segment", "internal/fill", "internal/router", "server/..."} //nolint:gochecknoglobals // a constant

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout))
}

func run(ctx context.Context, args []string, out io.Writer) int {
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	flags.SetOutput(out)
	night := flags.Bool("nightly", false, "run everything, with the race detector")
	if flags.Parse(args) != nil {
		return 2
	}
	lanes, err := plan(ctx, *night, flags.Args())
	if err != nil {
		fmt.Fprintln(out, "testrun:", err)
		return 2
	}
	r := &report{began: time.Now(), out: out}
	var running sync.WaitGroup
	for _, lane := range lanes {
		running.Go(func() {
			for _, s := range lane {
				s.run(ctx, *night, r)
			}
		})
	}
	running.Wait()
	limit := budget / 5
	if *night || os.Getenv("CI") == "" {
		limit = 0
	}
	if !r.finish(limit) || ctx.Err() != nil {
		return 1
	}
	return 0
}

// A step is one call of go test in the directory of a module.
type step struct {
	dir      string
	packages []string // relative to dir
	race     bool
	workers  string // how many packages at a time
}

// plan returns the steps of each lane. Lanes run beside each other and the steps of a lane one after the other, so
// that the processors have something to do while tests wait for databases.
func plan(ctx context.Context, night bool, only []string) (lanes [][]step, err error) {
	modules, err := modules()
	if err != nil {
		return nil, err
	}
	var main, side []step
	for _, module := range modules {
		packages, err := tested(ctx, module)
		if err != nil {
			return nil, err
		}
		packages = slices.DeleteFunc(packages, func(p string) bool { return !wanted(path.Join(module, p), only) })
		with := func(race bool) (those []string) {
			for _, p := range packages {
				if race == (night || isRaced(path.Join(module, p))) {
					those = append(those, "./"+p)
				}
			}
			return those
		}
		for _, race := range []bool{false, true} {
			those := with(race)
			switch {
			case len(those) == 0:
			case module == "." && race == night:
				main = append(main, step{module, those, race, "2"})
			default:
				side = append(side, step{module, those, race, "1"})
			}
		}
	}
	return [][]step{main, side}, nil
}

// modules lists the directories of all modules, the root first.
func modules() (dirs []string, err error) {
	err = filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.Name() == "go.mod":
			dirs = append(dirs, filepath.ToSlash(filepath.Dir(file)))
		}
		return nil
	})
	slices.Sort(dirs)
	return dirs, err
}

// tested lists the packages of a module that have tests, relative to its directory.
func tested(ctx context.Context, module string) ([]string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f",
		"{{if or .TestGoFiles .XTestGoFiles}}{{.Module.Path}} {{.ImportPath}}{{end}}", "./...")
	list.Dir = module
	text, err := list.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return nil, fmt.Errorf("the packages of module %s: %w", module, err)
	}
	var packages []string
	for line := range strings.Lines(string(text)) {
		if root, p, found := strings.Cut(strings.TrimSpace(line), " "); found {
			packages = append(packages, strings.TrimPrefix(strings.TrimPrefix(p, root), "/"))
		}
	}
	return packages, nil
}

func wanted(p string, only []string) bool {
	return len(only) == 0 || slices.ContainsFunc(only, func(word string) bool { return strings.HasPrefix(p, word) })
}

func isRaced(p string) bool {
	return slices.ContainsFunc(raced, func(name string) bool {
		top, all := strings.CutSuffix(name, "/...")
		return p == name || all && (p == top || strings.HasPrefix(p, top+"/"))
	})
}

// run runs the step, and tells the report what happens.
func (s step) run(ctx context.Context, night bool, r *report) {
	args := []string{"test", "-json", "-count=1", "-vet=off", "-p", s.workers, "-parallel", "4", "-timeout", "10m"}
	what := "tests"
	if night {
		args[len(args)-1] = "3h"
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

// title is what a module is called in the report.
func title(dir string) string {
	if dir == "." {
		return "the root module"
	}
	return dir
}
