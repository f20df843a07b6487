//go:build unix

package faults_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

// A flavor is what the private servers of one kind need.
type flavor struct {
	target   dbtest.Target
	account  string   // of the system, for servers that do not run as root
	programs []string // that have to be there
	folders  []string // patterns of where they are, beside PATH
	quit     syscall.Signal
	crash    syscall.Signal

	// install and serve return the arguments of the first and the second program.
	install func(dir string) []string
	serve   func(dir string, port int) []string
	// dsn is that of the database in it; admin that of one which is always there.
	driver     string
	admin, dsn func(port int) string
}

// privateServers are the kinds of servers that can be stopped.
func privateServers() []flavor {
	targets := make(map[string]dbtest.Target)
	for _, target := range dbtest.Targets() {
		targets[target.Name] = target
	}
	postgres := func(database string) func(int) string {
		return func(port int) string {
			return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable&connect_timeout=2", port, database)
		}
	}
	mariadb := func(database string) func(int) string {
		return func(port int) string {
			// Without a time limit on reading, a ROLLBACK that the driver sends for a context that has
			// ended waits for a frozen server as long as that is frozen.
			return fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s?parseTime=true&timeout=2s&readTimeout=3s", port, database)
		}
	}
	return []flavor{
		{
			target: targets["postgres"], account: "postgres",
			programs: []string{"initdb", "postgres"},
			folders:  []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"},
			quit:     syscall.SIGINT,  // "fast": connections are closed
			crash:    syscall.SIGQUIT, // "immediate": the next start recovers
			install: func(dir string) []string {
				return []string{"-D", dir, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N"}
			},
			serve: func(dir string, port int) []string {
				return []string{
					"-D", dir, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
					"-c", "unix_socket_directories=", "-c", "max_connections=60", "-c", "shared_buffers=16MB",
				}
			},
			driver: "pgx", admin: postgres("postgres"), dsn: postgres("faults"),
		},
		{
			target: targets["mariadb"], account: "mysql",
			programs: []string{"mariadb-install-db", "mariadbd"},
			folders:  []string{"/usr/sbin", "/usr/libexec", "/usr/local/sbin"},
			quit:     syscall.SIGTERM,
			crash:    syscall.SIGKILL,
			install: func(dir string) []string {
				return []string{
					"--no-defaults", "--datadir=" + dir, "--auth-root-authentication-method=normal", "--skip-test-db",
				}
			},
			serve: func(dir string, port int) []string {
				return []string{
					"--no-defaults", "--datadir=" + dir, "--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1",
					"--socket=" + filepath.Join(dir, "s"), "--pid-file=" + filepath.Join(dir, "pid"),
					"--skip-name-resolve", "--innodb-buffer-pool-size=32M",
				}
			},
			driver: "mysql", admin: mariadb(""), dsn: mariadb("faults"),
		},
	}
}

// A server is a private one, which the test may treat as it likes.
type server struct {
	flavor
	t          *testing.T
	dir        string
	port       int
	program    string
	credential *syscall.Credential

	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has
	mu    sync.Mutex
	log   bytes.Buffer // guarded by mu
}

// newServer makes the files of a server and starts it, with an empty database "faults".
func newServer(t *testing.T, f flavor) *server {
	t.Helper()
	install, serve := f.find(t, f.programs[0]), f.find(t, f.programs[1])
	s := &server{flavor: f, t: t, program: serve}
	// Not the test's own directory: only root may look into that.
	dir, err := os.MkdirTemp("", "snowflakefaults")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if os.Geteuid() == 0 {
		s.credential = f.credential(t)
		if err := os.Chown(dir, int(s.credential.Uid), int(s.credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	s.dir = filepath.Join(dir, "data")
	s.port = freePort(t)
	making := s.command(install, f.install(s.dir)...)
	if out, err := making.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", install, err, out)
	}
	t.Cleanup(func() {
		if s.cmd == nil {
			return
		}
		s.signal(syscall.SIGKILL)
		<-s.ended
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("the %s server said:\n%s", f.target.Name, tail(s.log.String()))
		}
	})
	s.start()
	s.admin("CREATE DATABASE faults")
	return s
}

// find looks for a program, and skips the test, or fails it, where there is none.
func (f flavor) find(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	var found []string
	for _, folder := range f.folders {
		matches, err := filepath.Glob(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, matches...)
	}
	if len(found) > 0 {
		return slices.Max(found)
	}
	missing := fmt.Sprintf("the program %s is neither in PATH nor in %s: it comes with the server of %s",
		name, strings.Join(f.folders, ", "), f.target.Name)
	if slices.Contains(strings.Split(os.Getenv("SNOWFLAKE_REQUIRE"), ","), f.target.Name) {
		t.Fatal(missing + ", and SNOWFLAKE_REQUIRE names that")
	}
	t.Skip(missing)
	return ""
}

// credential is the account that the server runs as, where the test runs as root.
func (f flavor) credential(t *testing.T) *syscall.Credential {
	t.Helper()
	account, err := user.Lookup(f.account)
	if err != nil {
		t.Fatalf("the server does not run as root, and there is no other account for it: %v", err)
	}
	uid, errUID := strconv.ParseUint(account.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (s *server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), program, args...) // the clean-up ends it
	cmd.SysProcAttr = attributes()
	cmd.SysProcAttr.Credential = s.credential
	cmd.Dir = filepath.Dir(s.dir)
	// A directory of its own: when a MariaDB server starts it removes what it takes for left behind by
	// another one.
	cmd.Env = append(os.Environ(), "TMPDIR="+cmd.Dir)
	return cmd
}

// start starts the server and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	s.cmd = s.command(s.program, s.serve(s.dir, s.port)...)
	log := lockedWriter{&s.mu, &s.log}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // how it ended is of no interest
		close(ended)
	}(s.cmd, s.ended)
	eventually(s.t, "the server does not answer", func() bool {
		if !s.runs() {
			s.t.Fatalf("the server has ended: %v", s.cmd.ProcessState)
		}
		return s.ask("SELECT 1") == nil
	})
}

func (s *server) runs() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// ask runs a statement as the administrator.
func (s *server) ask(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	db, err := sql.Open(s.driver, s.flavor.admin(s.port))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

func (s *server) admin(statement string) {
	s.t.Helper()
	if err := s.ask(statement); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// end sends a signal that ends the server, and waits until nothing of it is left.
func (s *server) end(signal syscall.Signal) {
	s.t.Helper()
	family := s.family()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the server does not end", func() bool {
		return !s.runs() && !slices.ContainsFunc(family, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	})
}

// signal sends a signal to all processes of the server, those that serve a connection included.
// The first is the one that would start more.
func (s *server) signal(signal syscall.Signal) {
	s.t.Helper()
	if !s.runs() {
		return
	}
	for _, pid := range s.family() {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Errorf("signal %v to process %d of the server: %v", signal, pid, err)
		}
	}
}

// family lists the server's process and its children.
func (s *server) family() []int {
	s.t.Helper()
	out, err := exec.CommandContext(context.Background(), "ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		s.t.Fatalf("the processes cannot be listed: %v", err)
	}
	all := []int{s.cmd.Process.Pid}
	for line := range strings.Lines(string(out)) {
		var pid, parent int
		if _, err := fmt.Sscan(line, &pid, &parent); err == nil && parent == all[0] {
			all = append(all, pid)
		}
	}
	return all
}

// freePort finds a port that nobody uses.
func freePort(t *testing.T) int {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
