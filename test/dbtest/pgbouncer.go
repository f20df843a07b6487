package dbtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// PgBouncer starts a PgBouncer before the database of a DSN, and returns a DSN that leads through it. Its
// mode is "transaction" or "statement". It has two sessions of the server for all clients.
func PgBouncer(tb testing.TB, dsn, mode string) string {
	tb.Helper()
	program := servers.Program(tb, "postgres", "pgbouncer")
	server, err := pgconn.ParseConfig(dsn)
	if err != nil {
		tb.Fatal("the DSN of the tests cannot be read") // without the error, which quotes it
	}
	quoted := func(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }
	port := servers.Reserve(tb)
	database := fmt.Sprintf("shop = host=%s port=%d dbname=%s user=%s pool_size=2", quoted(server.Host),
		server.Port, quoted(server.Database), quoted(server.User))
	if server.Password != "" {
		database += " password=" + quoted(server.Password)
	}
	lines := []string{
		"[databases]", database,
		"[pgbouncer]",
		"listen_addr = 127.0.0.1", "listen_port = " + port, "unix_socket_dir =", "auth_type = any",
		"pool_mode = " + mode, "ignore_startup_parameters = extra_float_digits,search_path",
	}
	// Since 1.21 it can learn the prepared statements, if it is told to or, since 1.24, is not told otherwise.
	if version, err := exec.CommandContext(tb.Context(), program, "--version").Output(); err == nil &&
		!regexp.MustCompile(`PgBouncer 1\.(1?\d|20)\.`).Match(version) {
		lines = append(lines, "max_prepared_statements = 0")
	}
	if os.Getuid() == 0 {
		lines = append(lines, "user = nobody") // it does not run as root
	}
	dir := tb.TempDir()
	config := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	servers.Start(tb, dir, program, config)
	servers.Eventually(tb, func() error {
		conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return "postgres://shop@127.0.0.1:" + port + "/shop?sslmode=disable"
}
