package resharding_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// workerVariable turns the test binary into a process that reshards until it is killed.
const workerVariable = "SNOWFLAKE_TEST_DOUBLES"

func TestAKilledReshardingContinues(t *testing.T) {
	if spec := os.Getenv(workerVariable); spec != "" {
		reshardUntilKilled(t, spec)
		return
	}
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		d := newDoubled(t, 60, target.OpenDSN(t, dsn, nil))
		kills := 0
		for {
			chunks := 1 + kills%3
			if kills == nightly.Pick(3, 1000) {
				chunks = 0
			}
			if !copyUntilKilled(t, target.Name, dsn, chunks) {
				break
			}
			d.check(d.router, "after a kill")
			kills++
		}
		if kills < 3 {
			t.Errorf("it was killed %d times only", kills)
		}
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		must(t, resharding.Verify(t.Context()), "Verify")
		r, err := resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		d.check(r, "after kills")
		must(t, resharding.Clean(t.Context()), "Clean")
		d.onShards()
	})
}

// copyUntilKilled starts a process that copies, and kills itself after a number of chunks, unless that is 0.
// It returns false if the process ended before.
func copyUntilKilled(t *testing.T, name, dsn string, chunks int) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAKilledReshardingContinues$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", workerVariable, name, chunks, dsn))
	said, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(said), "DONE") {
		return false
	}
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process ended with %v:\n%s", err, said)
	}
	return true
}

func reshardUntilKilled(t *testing.T, spec string) {
	t.Helper()
	words := strings.SplitN(spec, " ", 3)
	chunks, err := strconv.Atoi(words[1])
	must(t, err, "the chunks")
	d := &doubled{T: t, dbs: []*gorm.DB{named(words[0]).OpenDSN(t, words[2], nil)}}
	leased(t, d.dbs[0])
	d.router = d.open(doubledFrom)
	told := func(snowflakeplugin.ReshardProgress) {
		if chunks--; chunks == 0 {
			must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL), "kill")
			select {}
		}
	}
	resharding := d.reshard(snowflakeplugin.ReshardConfig{Chunk: 5, Progress: told})
	must(t, resharding.Copy(t.Context()), "Copy")
	fmt.Println("DONE")
}
