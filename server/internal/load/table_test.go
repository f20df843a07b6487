package load_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
)

// workers is how many requests are under way at most.
const workers = 32

// A call asks for count IDs and returns how many came. One worker uses it.
type call func(count int) (int, error)

// maker makes the call of one worker, on a connection of its own where the protocol has one for each.
type maker func() (call, error)

// figures are the result of a measurement.
type figures struct {
	requests, ids, failed int
	first                 error
	median, p99, longest  time.Duration
	took, cpu             time.Duration
}

// measure sends requests at a fixed rate. The time of a request counts from when it should have been sent,
// so a service that stalls cannot hide it.
func measure(t *testing.T, rate int, d time.Duration, count, pid int, connect maker) figures {
	t.Helper()
	total := int(float64(rate) * d.Seconds())
	var mu sync.Mutex
	var f figures
	var times []time.Duration
	before, _ := cpu(pid)
	ready, begin := new(sync.WaitGroup), make(chan struct{})
	var working sync.WaitGroup
	var started time.Time
	ready.Add(workers)
	for worker := range workers {
		working.Go(func() {
			one, err := connect()
			ready.Done()
			<-begin
			var own []time.Duration
			ids, failed := 0, 0
			var first error
			for at := worker; at < total && err == nil; at += workers {
				due := started.Add(time.Duration(at) * time.Second / time.Duration(rate))
				time.Sleep(time.Until(due))
				if time.Since(started) > 2*d {
					break // the rate is beyond what the machine can do, which the table shows
				}
				got, wrong := one(count)
				own = append(own, time.Since(due))
				ids += got
				if wrong != nil || got != count {
					failed++
					first = errors.Join(first, wrong)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			f.ids += ids
			f.failed += failed
			f.first = errors.Join(f.first, err, first)
		})
	}
	ready.Wait()
	started = time.Now()
	close(begin)
	working.Wait()
	f.took = time.Since(started)
	after, _ := cpu(pid)
	f.cpu = after - before
	f.requests = len(times)
	if len(times) > 0 {
		slices.Sort(times)
		f.median, f.p99, f.longest = times[len(times)/2], times[len(times)*99/100], times[len(times)-1]
	}
	return f
}

func (f figures) row(name string, count int, process bool) string {
	used := "-"
	if process && f.requests > 0 {
		used = fmt.Sprint((f.cpu / time.Duration(f.requests)).Round(time.Microsecond))
	}
	seconds := f.took.Seconds()
	return fmt.Sprintf("| %s | %d | %.0f | %.0f | %v | %v | %v | %s | %d |\n", name, count,
		float64(f.requests)/seconds, float64(f.ids)/seconds, f.median.Round(time.Microsecond),
		f.p99.Round(time.Microsecond), f.longest.Round(time.Microsecond), used, f.failed)
}

// TestTheTable measures all protocols, and beside them what people use instead. Only failures decide it.
func TestTheTable(t *testing.T) {
	d, long := length(t)
	rate, batches := 500, 20
	if long {
		rate, batches = 10_000, 200
	}
	r := newReplica(t, postgres(t), "--max-time", "1m") // so that a slow machine cuts nothing off
	pid := r.command.Process.Pid
	var table strings.Builder
	table.WriteString("\n| protocol | IDs a request | requests/s | IDs/s | median | p99 | longest | CPU a request | failed |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range []struct {
		name    string
		connect maker
	}{
		{"HTTP/JSON", overJSON(r.http)}, {"gRPC", overGRPC(t, r.http)},
		{"RESP", overRESP(r.resp, "INCR snowflake", "SNOWFLAKE.NEXT %d")},
	} {
		for _, size := range []int{1, 1000} {
			at := rate
			if size > 1 {
				at = batches
			}
			f := measure(t, at, d, size, pid, c.connect)
			table.WriteString(f.row(c.name, size, true))
			if f.failed != 0 || f.first != nil || f.requests == 0 {
				t.Errorf("%s, %d IDs: %d of %d requests failed: %v", c.name, size, f.failed, f.requests, f.first)
			}
		}
	}
	if address := redisAddress(t); address != "" {
		f := measure(t, rate, d, 1, os.Getpid(), overRESP(address, "INCR snowflaketest_load", ""))
		table.WriteString(f.row("Redis INCR", 1, false))
	}
	f := measure(t, rate, d, 1, os.Getpid(), overSequence(t))
	table.WriteString(f.row("PostgreSQL nextval", 1, false))
	t.Logf("%v each, %d workers, memory of the service %d MiB:\n%s", d, workers, memory(pid), &table)
}

func overJSON(address string) maker {
	transport := &http.Transport{MaxIdleConnsPerHost: workers}
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	return func() (call, error) {
		return func(count int) (int, error) {
			body := strings.NewReader(`{"count":` + strconv.Itoa(count) + `}`)
			answer, err := client.Post("http://"+address+"/snowflake.v1.IDService/Next", "application/json", body) //nolint:noctx // it has a time limit
			if err != nil {
				return 0, err
			}
			defer answer.Body.Close()
			var ids struct{ IDs []string }
			text, err := io.ReadAll(answer.Body)
			if err == nil {
				err = json.Unmarshal(text, &ids)
			}
			return len(ids.IDs), err
		}, nil
	}
}

func overGRPC(t *testing.T, address string) maker {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func() (call, error) {
		return func(count int) (int, error) {
			var answer snowflakev1.NextResponse
			err := conn.Invoke(context.Background(), "/snowflake.v1.IDService/Next",
				&snowflakev1.NextRequest{Count: int32(count)}, &answer)
			return len(answer.GetIds()), err
		}, nil
	}
}

// overRESP sends one command for single IDs and another one for many.
func overRESP(address, single, many string) maker {
	return func() (call, error) {
		conn, err := net.Dial("tcp", address) //nolint:noctx // it is local
		if err != nil {
			return nil, err
		}
		in := bufio.NewReader(conn)
		return func(count int) (int, error) {
			command := single
			if count > 1 {
				command = fmt.Sprintf(many, count)
			}
			if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
				return 0, err
			}
			line, err := in.ReadString('\n')
			if err != nil || line[0] == ':' {
				return 1, err
			}
			if line[0] != '*' {
				return 0, errors.New(line)
			}
			n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
			for range n {
				if _, err := in.ReadString('\n'); err != nil {
					return 0, err
				}
			}
			return n, err
		}, nil
	}
}

func overSequence(t *testing.T) maker {
	t.Helper()
	config, err := pgxpool.ParseConfig(postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "CREATE SEQUENCE load_ids"); err != nil {
		t.Fatal(err)
	}
	return func() (call, error) {
		return func(int) (int, error) {
			var id int64
			err := pool.QueryRow(context.Background(), "SELECT nextval('load_ids')").Scan(&id)
			return 1, err
		}, nil
	}
}

// redisAddress is the Redis of the tests, if that is on this machine and answers.
func redisAddress(t *testing.T) string {
	t.Helper()
	const address = "127.0.0.1:6379"
	if os.Getenv("SNOWFLAKE_REDIS_URL") != "" {
		return ""
	}
	conn, err := net.DialTimeout("tcp", address, time.Second) //nolint:noctx // it is local
	if err != nil {
		return ""
	}
	t.Cleanup(func() {
		if conn, err := net.Dial("tcp", address); err == nil { //nolint:noctx // it is local
			_, _ = io.WriteString(conn, "DEL snowflaketest_load\r\n")
			conn.Close()
		}
	})
	conn.Close()
	return address
}
