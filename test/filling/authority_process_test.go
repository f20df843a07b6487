package filling_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// authorityOrder holds, in the environment of a process that a test has started, what it is to do.
const authorityOrder = "SNOWFLAKE_AUTHORITY_ORDER"

// An issuer is a process that uses databases one after the other and then makes IDs with number 7.
type issuer struct {
	Target dbtest.Target
	DSNs   []string
	ByHand bool
}

// issued is what it says in the end.
type issued struct {
	Refused   string
	Authority bool // it was refused because of another authority
	IDs       []snowflakeplugin.ID
}

func TestProcessesWithTwoAuthoritiesRepeatNothing(t *testing.T) {
	if text := os.Getenv(authorityOrder); text != "" {
		var i issuer
		if err := json.Unmarshal([]byte(text), &i); err != nil {
			os.Exit(2)
		}
		i.work(t)
		return
	}
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for name, processes := range map[string]func(a, b string) []issuer{
			"they use two databases in different order": func(a, b string) []issuer {
				return []issuer{{DSNs: []string{a, b}}, {DSNs: []string{b, a}}}
			},
			"one leases its number and one has it by hand": func(a, _ string) []issuer {
				return []issuer{{DSNs: []string{a}}, {DSNs: []string{a}, ByHand: true}}
			},
		} {
			t.Run(name, func(t *testing.T) {
				var started []*issuing
				for _, i := range processes(target.DSN(t), target.DSN(t)) {
					i.Target = target
					started = append(started, i.start(t))
				}
				accepted, seen := 0, map[snowflakeplugin.ID]int{}
				for _, p := range started {
					p.await(t, "ready")
				}
				for _, p := range started {
					_, err := io.WriteString(p.in, "go\n")
					must(t, err, "start")
				}
				repeated := 0
				for n, p := range started {
					var said issued
					must(t, json.Unmarshal([]byte(p.line(t)), &said), "what a process says")
					if said.Refused == "" {
						accepted++
					} else if !said.Authority {
						t.Errorf("process %d was refused for another reason: %s", n, said.Refused)
					}
					for _, id := range said.IDs {
						if _, again := seen[id]; again {
							repeated++
						}
						seen[id] = n
					}
				}
				if repeated > 0 || accepted > 1 {
					t.Errorf("%d IDs are repeated, and %d processes were accepted", repeated, accepted)
				}
			})
		}
	})
}

// issuing is a process that was started.
type issuing struct {
	in  io.Writer
	out *bufio.Reader
}

func (i issuer) start(t *testing.T) *issuing {
	t.Helper()
	order, err := json.Marshal(i)
	must(t, err, "the order")
	program, err := os.Executable()
	must(t, err, "the program")
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestProcessesWithTwoAuthoritiesRepeatNothing$")
	cmd.Env = append(os.Environ(), authorityOrder+"="+string(order))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err, "stdin")
	out, err := cmd.StdoutPipe()
	must(t, err, "stdout")
	must(t, cmd.Start(), "start")
	t.Cleanup(func() {
		_ = in.Close() // it ends with its input
		_ = cmd.Wait()
	})
	return &issuing{in: in, out: bufio.NewReader(out)}
}

func (p *issuing) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	must(t, err, "read from a process")
	return strings.TrimSpace(line)
}

func (p *issuing) await(t *testing.T, word string) {
	t.Helper()
	same(t, "what a process says", p.line(t), word)
}

// work is the life of such a process. It uses the databases before it is ready.
func (i issuer) work(t *testing.T) {
	number := snowflakeplugin.WithLeasedNode(7)
	if i.ByHand {
		number = snowflakeplugin.WithNode(7)
	}
	plugin := snowflakeplugin.New(silent(), number)
	var said issued
	for _, dsn := range i.DSNs {
		if err := i.use(plugin, dsn); err != nil {
			said.Refused, said.Authority = err.Error(), strings.Contains(err.Error(), "another authority")
			break
		}
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	for end := time.Now().Add(200 * time.Millisecond); said.Refused == "" && time.Now().Before(end); {
		ids := make([]snowflakeplugin.ID, 100)
		if err := plugin.NextIDs(t.Context(), ids); err != nil {
			said.Refused = err.Error()
		}
		said.IDs = append(said.IDs, ids...)
	}
	text, err := json.Marshal(said)
	if err != nil {
		os.Exit(2)
	}
	fmt.Println(string(text))
	_, _ = in.ReadString('\n') // both live until the test ends
	os.Exit(0)
}

func (i issuer) use(plugin *snowflakeplugin.Plugin, dsn string) error {
	db, err := gorm.Open(i.Target.Dialector(dsn), &gorm.Config{Logger: logger.Discard})
	for try := 0; err != nil && strings.Contains(err.Error(), "locked") && try < 100; try++ {
		// The other process makes the file.
		time.Sleep(10 * time.Millisecond)
		db, err = gorm.Open(i.Target.Dialector(dsn), &gorm.Config{Logger: logger.Discard})
	}
	if err != nil {
		return err
	}
	return db.Use(plugin)
}
