//go:build unix

package faults_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
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

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// A flavor is what the private servers of one kind need.
type flavor struct {
	target   dbtest.Target
	account  string   // of the system, for servers that do not run as root; empty if they see to that
	programs []string // that have to be there
	folders  []string // patterns of where they are, beside PATH
	check    []string // arguments with which the first program fails if it cannot be used; may be nil
	quit     syscall.Signal
	crash    syscall.Signal

	// install and serve return the arguments of the first and the second program.
	install func(dir string) []string
	serve   func(dir string, port, connections int) []string
	// dsn is that of the database in it; admin that of one which is always there.
	driver     string
	admin, dsn func(port int) string
	patientDSN func(port int) string // dsn, but with a minute to connect, and any time to answer

	connections int // how many there may be; 0 for usualConnections
}

const usualConnections = 100

// privateServers are the kinds of servers that can be stopped.
func privateServers() []flavor {
	postgres := func(database, limits string) func(int) string {
		return func(port int) string {
			return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable&%s", port, database, limits)
		}
	}
	mariadb := func(database, limits string) func(int) string {
		return func(port int) string {
			return fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s?parseTime=true&%s", port, database, limits)
		}
	}
	// Without a time limit on reading, a ROLLBACK that the driver sends for a context that has ended
	// waits for a frozen server as long as that is frozen.
	const postgresLimits, mariadbLimits = "connect_timeout=2", "timeout=2s&readTimeout=3s"
	return []flavor{
		{
			target: dbtest.Named("postgres"), account: "postgres",
			programs: []string{"initdb", "postgres"},
			folders:  []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"},
			quit:     syscall.SIGINT,  // "fast": connections are closed
			crash:    syscall.SIGQUIT, // "immediate": the next start recovers
			install: func(dir string) []string {
				return []string{"-D", dir, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N"}
			},
			serve: func(dir string, port, connections int) []string {
				return []string{
					"-D", dir, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
					"-c", "unix_socket_directories=", "-c", "max_connections=" + strconv.Itoa(connections),
					"-c", "shared_buffers=16MB",
					// Among its files, so that a server that is killed leaves nothing in the memory of the machine.
					"-c", "dynamic_shared_memory_type=mmap",
				}
			},
			driver: "pgx", admin: postgres("postgres", "connect_timeout=60"), dsn: postgres("faults", postgresLimits),
			patientDSN: postgres("faults", "connect_timeout=60"),
		},
		{
			target: dbtest.Named("mariadb"), account: "mysql",
			programs: []string{"mariadb-install-db", "mariadbd"},
			folders:  []string{"/usr/sbin", "/usr/libexec", "/usr/local/sbin"},
			quit:     syscall.SIGTERM,
			crash:    syscall.SIGKILL,
			install: func(dir string) []string {
				return []string{
					"--no-defaults", "--datadir=" + dir, "--auth-root-authentication-method=normal", "--skip-test-db",
				}
			},
			serve: func(dir string, port, connections int) []string {
				return []string{
					"--no-defaults", "--datadir=" + dir, "--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1",
					"--socket=" + filepath.Join(dir, "s"), "--pid-file=" + filepath.Join(dir, "pid"),
					"--skip-name-resolve", "--innodb-buffer-pool-size=32M",
					"--max-connections=" + strconv.Itoa(connections),
				}
			},
			driver: "mysql", admin: mariadb("", "timeout=60s"), dsn: mariadb("faults", mariadbLimits),
			patientDSN: mariadb("faults", "timeout=60s"),
		},
		{
			// The script finds the server, beside MariaDB's, and the account that it runs as.
			target:   dbtest.Named("mysql"),
			programs: []string{"mysql.sh", "mysql.sh"},
			folders:  []string{"../../scripts"},
			check:    []string{"installed"},
			quit:     syscall.SIGTERM,
			crash:    syscall.SIGKILL,
			install:  func(dir string) []string { return []string{"init", dir} },
			serve: func(dir string, port, connections int) []string {
				return []string{
					"serve", dir, "--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1", "--mysqlx=OFF",
					"--socket=" + filepath.Join(dir, "s"), "--pid-file=" + filepath.Join(dir, "pid"),
					"--innodb-buffer-pool-size=32M", "--max-connections=" + strconv.Itoa(connections),
					// What servers of others have, and the server of the other tests has not.
					"--sql-require-primary-key=ON", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
					"--default-time-zone=+08:00", "--autocommit=0",
				}
			},
			driver: "mysql", admin: mariadb("", "timeout=60s"), dsn: mariadb("faults", mariadbLimits),
			patientDSN: mariadb("faults", "timeout=60s"),
		},
	}
}

// privateServer is the kind of private server of a target.
func privateServer(target string) flavor {
	all := privateServers()
	return all[slices.IndexFunc(all, func(f flavor) bool { return f.target.Name == target })]
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

// newServer starts a server with an empty database "faults".
func newServer(t *testing.T, f flavor) *server {
	t.Helper()
	s := startServer(t, f)
	s.admin("CREATE DATABASE faults")
	return s
}

// startServer makes the files of a server and starts it.
func startServer(t *testing.T, f flavor) *server {
	t.Helper()
	install, serve := f.find(t, f.programs[0]), f.find(t, f.programs[1])
	if f.check != nil {
		if err := exec.CommandContext(t.Context(), install, f.check...).Run(); err != nil {
			servers.NoProgram(t, f.target.Name, fmt.Errorf("%s %s: %w", install, strings.Join(f.check, " "), err))
		}
	}
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
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the server's account looks into it
		t.Fatal(err)
	}
	if os.Geteuid() == 0 && f.account != "" {
		s.credential = f.credential(t)
		if err := os.Chown(dir, int(s.credential.Uid), int(s.credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	s.dir = filepath.Join(dir, "data")
	port, err := strconv.Atoi(servers.Reserve(t))
	if err != nil {
		t.Fatal(err)
	}
	s.port = port
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
	return s
}

// find looks for a program, and ends the test where there is none.
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
		path, err := filepath.Abs(slices.Max(found))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	servers.NoProgram(t, f.target.Name, fmt.Errorf("the program %s is neither in PATH nor in %s: it comes with "+
		"the server of %s", name, strings.Join(f.folders, ", "), f.target.Name))
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
	if s.account != "" {
		cmd.Env = append(os.Environ(), "TMPDIR="+cmd.Dir)
	}
	return cmd
}

// start starts the server and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	s.Start()
	eventually(s.t, "the server does not answer", func() bool {
		if !s.runs() {
			s.t.Fatalf("the server has ended: %v", s.cmd.ProcessState)
		}
		return s.Answers() == nil
	}, s)
}

// Start, Answers and Kill make a server one that package chaos can restart.
func (s *server) Start() {
	s.t.Helper()
	s.cmd = s.command(s.program, s.serve(s.dir, s.port, cmp.Or(s.connections, usualConnections))...)
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
}

func (s *server) Answers() error { return s.ask(5*time.Second, "SELECT 1") }

func (s *server) Kill() {
	s.t.Helper()
	s.end(s.crash)
}

func (s *server) runs() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// ask runs a statement as the administrator, for some time at most.
func (s *server) ask(limit time.Duration, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	db, err := sql.Open(s.driver, s.flavor.admin(s.port))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// row asks for one row as the administrator.
func (s *server) row(query string, into ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	db, err := sql.Open(s.driver, s.flavor.admin(s.port))
	if err != nil {
		return err
	}
	defer db.Close()
	return db.QueryRowContext(ctx, query).Scan(into...)
}

func (s *server) admin(statement string) {
	s.t.Helper()
	if err := s.ask(forever, statement); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// end sends a signal that ends the server, and waits until nothing of it is left.
func (s *server) end(signal syscall.Signal) {
	s.t.Helper()
	s.endWhile(signal, func() {})
}

// endWhile is end, and does something meanwhile.
func (s *server) endWhile(signal syscall.Signal, do func()) {
	s.t.Helper()
	family := s.family()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
	do()
	eventually(s.t, "the server does not end", func() bool {
		return !s.runs() && !slices.ContainsFunc(family, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	}, s)
}

// signal sends a signal to all processes of the server, those that serve a connection included. To stop
// them, the one that starts more is stopped first: it could start another one while they are listed.
func (s *server) signal(signal syscall.Signal) {
	s.t.Helper()
	if !s.runs() {
		return
	}
	if signal == syscall.SIGSTOP {
		first := s.cmd.Process.Pid
		if err := syscall.Kill(first, signal); err != nil {
			s.t.Fatalf("signal %v to the server: %v", signal, err)
		}
		eventually(s.t, "the server does not stop", func() bool { return isStopped(first) }, s)
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
