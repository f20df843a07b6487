package reshard

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// killVariable turns the test binary into a process that does a job until it is killed.
const killVariable = "SNOWFLAKE_TEST_RESHARD"

// A process is killed at each step of each kind of job, while others write. The next one goes on from there, or drops
// the job.
func TestAKilledJobGoesOnFromEveryStep(t *testing.T) {
	if spec := os.Getenv(killVariable); spec != "" {
		workUntilKilled(t, spec)
		return
	}
	t.Parallel()
	for _, k := range nightly.Pick([]kind{split, moved}, []kind{split, joined, moved, splitAway}) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
				target = target.Shared(t).Privileged()
				var met []step
				for s := stepTaken; s < lastStep; s++ {
					for i, then := range []string{"run", "drop"} {
						if !nightly.Enabled() && target.Name != "sqlite" && (k.name != "split" || int(s)%2 != i) {
							continue // A database of a server takes long to make.
						}
						if killedAt(t, target, k, s, then) {
							met = append(met, s)
						}
					}
				}
				t.Logf("it was killed at the steps %v", met)
			})
		})
	}
}

// killedAt lets a process do a job until a step, and goes on. It returns whether the process came to the step.
func killedAt(t *testing.T, target dbtest.Target, k kind, s step, then string) bool {
	t.Helper()
	dsns, dbs := open(t, target, k)
	w := newWorld(t, k, dbs)
	w.fill(250)
	stop := w.write(2)
	what := then
	if then == "drop" && s == stepDropped {
		what = "drop first"
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAKilledJobGoesOnFromEveryStep$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%d\n%s\n%s", killVariable, target.Name, k.name, s, what,
		strings.Join(dsns, "\n")))
	said, err := cmd.CombinedOutput()
	met := err != nil
	if met && !strings.Contains(err.Error(), "killed") || !met && !strings.Contains(string(said), "DONE") {
		t.Fatalf("step %d: the process ended with %v:\n%s", s, err, said)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	m := w.opened()
	at, err := m.phaseNow(ctx)
	must(t, err, "the phase")
	cut := at == phaseCut || at == phaseReplacing
	dropping := at == phaseDropping || what == "drop first" && at == ""
	switch {
	case !met: // It has come to the end of Clean.
	case then == "drop" && !cut || dropping:
		must(t, w.job.Drop(ctx), fmt.Sprintf("step %d: Drop in phase %s", s, at))
		stop()
		w.check(false)
		if w.has("_g1") || w.has("snowflake_t1") {
			t.Errorf("step %d: after Drop there are %v", s, w.tables())
		}
		return met
	case s == stepDropped && (at == phaseCut || at == ""):
	default:
		_, err := w.job.Run(ctx)
		must(t, err, fmt.Sprintf("step %d: Run in phase %s", s, at))
	}
	stop()
	w.check(true)
	must(t, w.job.Clean(ctx), "Clean")
	if w.has("_away") || w.has("snowflake_t1") {
		t.Errorf("step %d: after Clean there are %v", s, w.tables())
	}
	return met
}

// workUntilKilled is the process.
func workUntilKilled(t *testing.T, spec string) {
	t.Helper()
	words := strings.Split(spec, "\n")
	target := dbtest.Named(words[0]).Privileged()
	var dbs []*gorm.DB
	for _, dsn := range words[4:] {
		dbs = append(dbs, target.OpenDSN(t, dsn, nil))
	}
	for _, k := range []kind{split, joined, moved, splitAway} {
		if k.name != words[1] {
			continue
		}
		w := newWorld(t, k, dbs)
		w.job.reached = func(s step) {
			if fmt.Sprint(int(s)) == words[2] {
				must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL), "kill")
				select {}
			}
		}
		if words[3] == "drop first" {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			w.job.reached = func(s step) {
				if s == stepCopied {
					cancel()
				}
				if s == stepDropped {
					must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL), "kill")
				}
			}
			if _, err := w.job.Run(ctx); err == nil {
				t.Fatal("it was not stopped")
			}
			must(t, w.job.Drop(t.Context()), "Drop")
		} else {
			_, err := w.job.Run(t.Context())
			must(t, err, "Run")
			must(t, w.job.Clean(t.Context()), "Clean")
		}
	}
	fmt.Println("DONE")
}
