//go:build unix

package faults_test

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// chaosServers are the kinds of servers that chaos can kill: the private servers, and TiDB where that is
// tested.
func chaosServers() []flavor {
	all := privateServers()
	i := slices.IndexFunc(dbtest.Targets(), func(t dbtest.Target) bool { return t.Name == "tidb" })
	if i < 0 {
		return all
	}
	dsn := func(database, limits string) func(int) string {
		return func(port int) string {
			return fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s?parseTime=true&%s", port, database, limits)
		}
	}
	const limits = "timeout=2s&readTimeout=3s"
	return append(all, flavor{
		// The script builds the server. It has no files that would have to be made first.
		target:   dbtest.Targets()[i],
		programs: []string{"tidb.sh", "tidb.sh"},
		folders:  []string{"../../scripts"},
		quit:     syscall.SIGTERM,
		crash:    syscall.SIGKILL,
		install:  func(string) []string { return []string{"build"} },
		serve: func(dir string, port, connections int) []string {
			return []string{"serve", dir, strconv.Itoa(port), "--token-limit=" + strconv.Itoa(connections)}
		},
		driver: "mysql", admin: dsn("", limits), dsn: dsn("faults", limits),
		patientDSN: dsn("faults", "timeout=60s"),
	})
}
