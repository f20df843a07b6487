package load_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// lengthVariable says how long each measurement lasts, such as 60s. "make load" sets it.
const lengthVariable = "SNOWFLAKE_LOAD"

// length is how long a measurement lasts, and whether the long tests were asked for. It skips every test of
// this package in tier one: each of them links the command and starts processes of it on PostgreSQL. The same
// promises have tests in tier one in internal/daemon, internal/web and client, which run in one process.
func length(t *testing.T) (time.Duration, bool) {
	t.Helper()
	text := os.Getenv(lengthVariable)
	if text == "" {
		nightly.Only(t, "it links the command and starts processes, and "+lengthVariable+" is not set")
		return 200 * time.Millisecond, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > 10*time.Minute {
		t.Fatalf("%s is %q, but has to be a duration of at most 10m", lengthVariable, text)
	}
	return d, true
}

// program builds the command once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programDir(), "snowflaked")
	output, err := exec.Command("go", "build", "-o", path, "../../cmd/snowflaked").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return path, nil
})

// programDir is where the command of this run of the tests lies.
func programDir() string { return filepath.Join(os.TempDir(), fmt.Sprint("snowflaked-", os.Getpid())) }

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(programDir())
	os.Exit(code)
}

// replica is a process of the service on loopback.
type replica struct {
	t          testing.TB
	args       []string
	http, resp string
	log        string // the path
	command    *exec.Cmd
}

func newReplica(t testing.TB, dsn string, args ...string) *replica {
	t.Helper()
	r := &replica{
		t: t, http: "127.0.0.1:" + servers.Reserve(t), resp: "127.0.0.1:" + servers.Reserve(t),
		log: filepath.Join(t.TempDir(), "log"),
	}
	r.args = append([]string{"--listen", r.http, "--resp", r.resp, "--dsn", dsn}, args...)
	t.Cleanup(r.kill)
	r.start()
	r.awaitReady()
	return r
}

func (r *replica) start() {
	r.t.Helper()
	path, err := program()
	if err != nil {
		r.t.Fatal(err)
	}
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	r.command = exec.Command(path, r.args...) //nolint:noctx // the clean-up ends it
	r.command.Stderr = log
	if err := r.command.Start(); err != nil {
		r.t.Fatal(err)
	}
}

// awaitReady waits until the process gives IDs.
func (r *replica) awaitReady() {
	r.t.Helper()
	servers.Eventually(r.t, func() error {
		code, text := r.ready()
		if code != http.StatusOK {
			return fmt.Errorf("/readyz: %d %s", code, text)
		}
		return nil
	})
}

func (r *replica) ready() (code int, text string) {
	response, err := http.Get("http://" + r.http + "/readyz") //nolint:noctx // it is local
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	b := make([]byte, 200)
	n, _ := response.Body.Read(b)
	return response.StatusCode, string(b[:n])
}

// kill ends the process as a failure of power would.
func (r *replica) kill() {
	if r.command == nil {
		return
	}
	_ = r.command.Process.Kill()
	_ = r.command.Wait()
	r.command = nil
}

// terminate asks the process to end, and returns how it did.
func (r *replica) terminate() error {
	if err := r.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := r.command.Wait()
	r.command = nil
	return err
}

// cpu is the time that the process has used.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0 // this system has no such file
	}
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		t.Fatal("/proc/pid/stat has another form")
	}
	var ticks int64
	for _, field := range fields[11:13] { // user and system
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory is the greatest resident memory of the process so far, in MiB, or -1 where it is unknown.
func memory(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err == nil {
				return kib / 1024
			}
		}
	}
	return -1
}
