package resharding_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

// workerVariable turns the test binary into a process that reshards until it is killed.
const workerVariable = "SNOWFLAKE_TEST_DOUBLES"

func TestAKilledReshardingContinues(t *testing.T) {
	if spec := os.Getenv(workerVariable); spec != "" {
		reshardUntilKilled(t, spec)
		return
	}
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		d := newDoubled(t, 60, target.OpenDSN(t, dsn, nil))
		for kills := 0; ; kills++ {
			if killAtChunk(t, target.Name+" "+dsn, 1+kills%3) {
				if kills < 3 {
					t.Errorf("it was killed %d times only", kills)
				}
				break
			}
			d.check(d.router, "after a kill")
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

// killAtChunk starts a process that copies, and kills it after it has reported a number of chunks.
// It returns true if the process ended by itself.
func killAtChunk(t *testing.T, spec string, chunks int) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAKilledReshardingContinues$", "-test.v")
	cmd.Env = append(os.Environ(), workerVariable+"="+spec)
	out, err := cmd.StdoutPipe()
	must(t, err, "a pipe")
	must(t, cmd.Start(), "the process")
	lines := bufio.NewScanner(out)
	seen, killed := "", false
	for lines.Scan() {
		seen += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "CHUNK") {
			if chunks--; chunks == 0 {
				killed = true // on a busy machine the process may already have finished
				if err := cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
					must(t, err, "kill")
				}
			}
		}
	}
	err = cmd.Wait()
	if err != nil && !killed || err == nil && !strings.Contains(seen, "DONE") {
		t.Fatalf("the process ended with %v:\n%s", err, seen)
	}
	return err == nil
}

func reshardUntilKilled(t *testing.T, spec string) {
	t.Helper()
	name, dsn, _ := strings.Cut(spec, " ")
	for _, target := range dbtest.Targets() {
		if target.Name != name {
			continue
		}
		d := &doubled{T: t, dbs: []*gorm.DB{target.OpenDSN(t, dsn, nil)}}
		leased(t, d.dbs[0])
		d.router = d.open(doubledFrom)
		told := func(snowflakeplugin.ReshardProgress) {
			fmt.Println("CHUNK")
			time.Sleep(2 * time.Millisecond) // so the kill can come before, during and after the next chunk
		}
		resharding := d.reshard(snowflakeplugin.ReshardConfig{Chunk: 5, Progress: told})
		must(t, resharding.Copy(t.Context()), "Copy")
		fmt.Println("DONE")
	}
}
