package load_test

import (
	"os"
	"strings"
	"testing"
)

// TestTheTable measures all protocols, and beside them what people use instead. Only failures decide it.
func TestTheTable(t *testing.T) {
	d, long := length(t)
	rate, batches := 500, 20
	if long {
		rate, batches = 10_000, 200
	}
	r := newReplica(t, postgres(t), "--max-time", "1m") // so that a slow machine cuts nothing off
	var table strings.Builder
	table.WriteString(heading)
	line := func(name string, rate, count, pid int, connect maker) {
		f := measure(t, rate, d, count, pid, connect)
		table.WriteString(f.row(name, count, pid))
		if f.failed != 0 || f.twice != 0 || f.requests == 0 {
			t.Errorf("%s, %d IDs: %d of %d requests failed, %d IDs came twice: %v", name, count, f.failed, f.requests,
				f.twice, f.first)
		}
	}
	for _, c := range []struct {
		name    string
		connect maker
	}{
		{"HTTP/JSON", overJSON(t, r.http)}, {"gRPC", overGRPC(t, r.http)},
		{"RESP", overRESP(t, r.resp, "INCR snowflake", "SNOWFLAKE.NEXT %d")},
	} {
		line(c.name, rate, 1, r.command.Process.Pid, c.connect)
		line(c.name, batches, 1000, r.command.Process.Pid, c.connect)
	}
	if address := redisAddress(t); address != "" {
		line("Redis INCR", rate, 1, os.Getpid(), overRESP(t, address, "INCR snowflaketest_load", ""))
	}
	line("PostgreSQL nextval", rate, 1, os.Getpid(), overSequence(t))
	t.Logf("%v each, %d connections, memory of the service %d MiB:\n%s", d, workers,
		memory(r.command.Process.Pid), &table)
}
