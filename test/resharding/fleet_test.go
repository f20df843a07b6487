package resharding_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// memberVariable turns the test binary into a process that writes and counts.
const memberVariable = "SNOWFLAKE_TEST_FLEET"

// Two processes write and count while a third one reshards. One of them is stopped during the cutover.
// Both go on afterwards without a restart, and neither sees or stores a row in the wrong place.
func TestOtherProcessesFollowAResharding(t *testing.T) {
	if spec := os.Getenv(memberVariable); spec != "" {
		beMember(t, spec)
		return
	}
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		d := newDoubled(t, 40, target.OpenDSN(t, dsn, nil))
		running, paused := startMember(t, target.Name+" running "+dsn), startMember(t, target.Name+" paused "+dsn)
		running.await("counted at 2")
		paused.await("counted at 2")
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		must(t, resharding.Copy(t.Context()), "Copy")
		paused.send("pause")
		paused.await("pausing")
		must(t, syscall.Kill(paused.cmd.Process.Pid, syscall.SIGSTOP), "SIGSTOP")
		r, err := resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		running.await("counted at 4")
		must(t, resharding.Clean(t.Context()), "Clean")
		must(t, syscall.Kill(paused.cmd.Process.Pid, syscall.SIGCONT), "SIGCONT")
		paused.send("go on")
		paused.await("counted at 4")
		stored := running.end() + paused.end()
		d.onShards()
		all, err := r.Count(t.Context(), &doubledOrder{})
		must(t, err, "Count")
		same(t, "orders", all, int64(len(d.live)+stored))
	})
}

// shortLease makes the leases on the shard map of some databases short, because each cutover waits for
// their end. No router may be in use yet.
func shortLease(t *testing.T, dbs ...*gorm.DB) {
	t.Helper()
	for _, db := range dbs {
		must(t, db.Exec("UPDATE snowflake_shards SET lease_millis = 300").Error, "a short lease")
	}
}

// member is a process that writes and counts.
type member struct {
	*testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Scanner
}

func startMember(t *testing.T, spec string) *member {
	t.Helper()
	return startProcess(t, "TestOtherProcessesFollowAResharding", memberVariable+"="+spec)
}

// startProcess starts the test binary with one test, which sees by a variable that it is a process.
func startProcess(t *testing.T, test, variable string) *member {
	t.Helper()
	m := &member{T: t}
	m.cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$")
	m.cmd.Env = append(os.Environ(), variable)
	in, err := m.cmd.StdinPipe()
	must(t, err, "a pipe")
	out, err := m.cmd.StdoutPipe()
	must(t, err, "a pipe")
	m.in, m.lines = in, bufio.NewScanner(out)
	must(t, m.cmd.Start(), "the process")
	return m
}

func (m *member) send(line string) {
	m.Helper()
	_, err := io.WriteString(m.in, line+"\n")
	must(m.T, err, "writing to the process")
}

// await reads lines until one begins with a text, and returns that.
func (m *member) await(begin string) string {
	m.Helper()
	for m.lines.Scan() {
		line := m.lines.Text()
		if strings.HasPrefix(line, begin) {
			return line
		}
		if strings.HasPrefix(line, "wrong") || strings.Contains(line, "FAIL") {
			m.Fatal(line)
		}
	}
	m.Fatalf("the process ended before it said %q", begin)
	return ""
}

// end lets the process end, and returns how many rows it has stored.
func (m *member) end() (stored int) {
	m.Helper()
	m.send("end")
	_, err := fmt.Sscanf(m.await("stored"), "stored %d", &stored)
	must(m.T, err, "the number of rows")
	for m.lines.Scan() {
	}
	must(m.T, m.cmd.Wait(), "the process")
	return stored
}

// beMember creates orders and counts its own until it is told to end. Its shards are two when it starts.
func beMember(t *testing.T, spec string) {
	t.Helper()
	target, rest, _ := strings.Cut(spec, " ")
	name, dsn, _ := strings.Cut(rest, " ")
	d := &doubled{T: t, dbs: []*gorm.DB{named(target).OpenDSN(t, dsn, nil)}}
	leased(t, d.dbs[0]) // It renews its node rarely, so hardly while the process stops itself.
	r := d.open(doubledFrom)
	own := r.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("name = ?", name) })
	told := make(chan string)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			told <- lines.Text()
		}
		os.Exit(1) // because the test is gone
	}()
	for stored := 0; ; {
		select {
		case line := <-told:
			if line == "end" {
				fmt.Println("stored", stored)
				return
			}
			// The test stops the process. If it stopped itself, some of its threads could go on for a moment, and
			// then stand still in a transaction for which everybody else on SQLite would wait.
			fmt.Println("pausing")
			<-told
		case <-time.After(20 * time.Millisecond): // SQLite is not fair to other writers
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := r.Create(ctx, &doubledOrder{Name: name, Items: []doubledItem{{Amount: 1}}})
		if err == nil {
			stored++
		}
		n, countErr := own.Count(ctx, &doubledOrder{})
		cancel()
		for _, err := range []error{err, countErr} {
			if err != nil && !errors.Is(err, snowflakeplugin.ErrShardMap) {
				fmt.Println("wrong:", err)
			}
		}
		if countErr == nil && n != int64(stored) {
			fmt.Printf("wrong: counted %d rows of %d at %d shards\n", n, stored, r.Shards())
		} else if countErr == nil {
			fmt.Println("counted at", r.Shards(), "shards")
		}
	}
}

// A statement is held up between the check of its lease and the database for as long as a whole resharding
// takes. Its answer would lack half of the rows, and its write would go to a table where nobody looks.
func TestAStatementThatTheCutoverOvertookIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		d := newDoubled(t, 40, target.OpenDSN(t, dsn, nil))
		gates := map[string]*gate{}
		statements := map[string]func(db *gorm.DB) error{
			"count": func(db *gorm.DB) error {
				var n int64
				return db.Count(&n).Error
			},
			"rows": func(db *gorm.DB) error {
				rows, err := db.Rows()
				if err == nil {
					err = rows.Close()
				}
				return err
			},
			"create": func(db *gorm.DB) error {
				return db.Create(&doubledOrder{Name: "overtaken"}).Error
			},
			"update": func(db *gorm.DB) error {
				return db.Where("name <> ?", "").Update("name", "overtaken").Error
			},
			"delete": func(db *gorm.DB) error {
				return db.Where("name <> ?", "").Delete(&doubledOrder{}).Error
			},
		}
		failures := map[string]chan error{}
		other := &doubled{T: t, dbs: []*gorm.DB{target.OpenDSN(t, dsn, nil)}}
		must(t, other.dbs[0].Use(d.dbs[0].Plugins["snowflake"]), "Use")
		before, calls := other.open(doubledFrom), other.dbs[0].Callback()
		must(t, errors.Join(
			calls.Query().Before("gorm:query").Register("gate", pass),
			calls.Row().Before("gorm:row").Register("gate", pass),
			calls.Create().Before("gorm:begin_transaction").Register("gate", pass),
			calls.Update().Before("gorm:begin_transaction").Register("gate", pass),
			calls.Delete().Before("gorm:begin_transaction").Register("gate", pass),
		), "the gate")
		for name, run := range statements {
			g := &gate{reached: make(chan struct{}), open: make(chan struct{})}
			handle, err := before.DB(context.WithValue(t.Context(), gateKey{}, g), &doubledOrder{}, d.live[0])
			must(t, err, "DB")
			failed := make(chan error, 1)
			gates[name], failures[name] = g, failed
			go func() { failed <- run(handle) }()
			<-g.reached
		}
		resharding := d.reshard(snowflakeplugin.ReshardConfig{})
		r, err := resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		must(t, resharding.Clean(t.Context()), "Clean")
		for name, g := range gates {
			close(g.open)
			wantErr(t, <-failures[name], snowflakeplugin.ErrShardMap, name)
		}
		d.check(r, "afterwards")
		n, err := r.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("name = ?", "overtaken") }).
			Count(t.Context(), &doubledOrder{})
		must(t, err, "Count")
		same(t, "overtaken rows", n, 0)
	})
}

// gate lets one statement wait, if it is in the context of that.
type gate struct {
	once          sync.Once
	reached, open chan struct{}
}

type gateKey struct{}

// pass is a callback.
func pass(db *gorm.DB) {
	if g, ok := db.Statement.Context.Value(gateKey{}).(*gate); ok {
		g.once.Do(func() {
			close(g.reached)
			<-g.open
		})
	}
}

// A process that is killed while Cutover records the new number of shards leaves databases that disagree.
func TestACutoverThatWasKilledBetweenTwoDatabasesCanBeFinished(t *testing.T) {
	t.Parallel()
	const before = "UPDATE snowflake_shards SET shards = 2, version = 0, stale_shards = 0, next_shards = 4, held = "
	each(t, func(t *testing.T, target dbtest.Target) {
		for _, state := range []struct {
			name   string
			shards int // of the program that goes on
			set    []string
		}{
			{"nothing", 2, []string{before + "'0'", before + "'1'"}},
			{"one database", 2, []string{"UPDATE snowflake_shards SET next_shards = 4", before + "'1'"}},
			{"the other database", 2, []string{before + "'0'", "UPDATE snowflake_shards SET next_shards = 4"}},
			{"both databases, and the program has the old number, so it", 2, []string{
				"UPDATE snowflake_shards SET next_shards = 4", "UPDATE snowflake_shards SET next_shards = 4",
			}},
			{"both databases", 4, []string{
				"UPDATE snowflake_shards SET next_shards = 4", "UPDATE snowflake_shards SET next_shards = 4",
			}},
			{"both databases, and one was opened", 4, []string{"UPDATE snowflake_shards SET next_shards = 4", ""}},
		} {
			t.Run(state.name+" had recorded it", func(t *testing.T) {
				t.Parallel()
				l := newLots(t, target, 2)
				dbs := l.open(0, 1)
				r := l.fill(2, dbs)
				shortLease(t, dbs...)
				d, err := r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
				must(t, err, "Reshard")
				_, err = d.Cutover(t.Context())
				must(t, err, "Cutover")
				for i, statement := range state.set {
					if state.set[1] != "" {
						// The moved rows were not removed from the old tables yet.
						must(t, dbs[i].Exec(fmt.Sprintf("INSERT INTO lots_%02d SELECT * FROM lots_%02d", i, i+2)).Error,
							"going back")
					}
					if statement != "" {
						must(t, dbs[i].Exec(statement).Error, "going back")
					}
				}
				dbs = l.open(0, 1)
				r, err = l.router(state.shards, nil, dbs)
				must(t, err, "NewRouter after the kill")
				if state.shards == 2 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					n, err := r.Count(ctx, &lot{})
					cancel()
					if err == nil {
						t.Errorf("while it is closed, %d rows were counted", n)
					}
					if !strings.HasPrefix(state.name, "both") {
						_, err = l.router(4, nil, l.open(0, 1))
						wantErr(t, err, snowflakeplugin.ErrSharding, "a router with the new number")
						says(t, err, "a cutover from 2 to 4 shards was interrupted", "configure a router with 2")
					}
					d, err = r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
					must(t, err, "Reshard")
					_, err = d.Cutover(t.Context())
					must(t, err, "Cutover again")
				}
				n, err := r.Count(t.Context(), &lot{})
				must(t, err, "Count")
				same(t, "rows", n, 2)
				pending, err := r.PendingCleanup()
				must(t, err, "PendingCleanup")
				must(t, pending.Clean(t.Context()), "Clean")
				l.has(2, 4, nil, l.open(0, 1))
			})
		}
	})
}
