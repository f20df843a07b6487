package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// want is the output. Equal IDs have equal names.
const want = `COPY            1000 rows; one call made their IDs in <time>
                <id 1> to <id 2>
= ANY($1)       3 of 3 IDs found
                <id 1>  total   0
                <id 3>  total 500
                <id 2>  total 999
Batch           order <id 4> and its 3 items in one round trip
simple protocol 3 of 3 IDs found, after pgxid.Register
`

func TestOutputReadsAsItShould(t *testing.T) {
	dsn := postgres(t)
	var stdout, stderr bytes.Buffer
	for name, call := range map[string]func() int{
		"argument": func() int { return start(t.Context(), []string{dsn}, "", &stdout, &stderr) },
		"variable": func() int { return start(t.Context(), nil, dsn, &stdout, &stderr) },
	} {
		stdout.Reset()
		if code := call(); code != 0 || stderr.Len() > 0 {
			t.Fatalf("with the DSN in the %s: exit code %d, %s", name, code, &stderr)
		}
		if got := mask(stdout.String()); got != want {
			t.Errorf("with the DSN in the %s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	waitForNoTables(t, dial(t, dsn))
}

// waitForNoTables waits until the temporary tables are gone. That is the case when the server has
// noticed that their connection is closed.
func waitForNoTables(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for ; ; time.Sleep(10 * time.Millisecond) {
		var tables int
		err := conn.QueryRow(t.Context(),
			`SELECT count(*) FROM pg_class WHERE relname IN ('orders', 'items')`).Scan(&tables)
		if err != nil {
			t.Fatal(err)
		}
		if tables == 0 {
			return
		}
	}
}

func mask(text string) string {
	text = regexp.MustCompile(`(?m)in [0-9.]+(µs|ms|s)$`).ReplaceAllString(text, "in <time>")
	names := map[string]string{}
	return regexp.MustCompile(`\d{17,19}`).ReplaceAllStringFunc(text, func(id string) string {
		if names[id] == "" {
			names[id] = fmt.Sprintf("<id %d>", len(names)+1)
		}
		return names[id]
	})
}

func TestTablesHoldWhatTheOutputSays(t *testing.T) {
	conn := dial(t, postgres(t))
	var out bytes.Buffer
	if err := run(t.Context(), &out, conn); err != nil {
		t.Fatal(err)
	}
	result, err := conn.Query(t.Context(), `SELECT id, total FROM orders ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	orders, err := pgx.CollectRows(result, pgx.RowToStructByName[order])
	if err != nil {
		t.Fatal(err)
	}
	if len(orders) != rows+1 {
		t.Fatalf("%d orders, want the %d copied ones and that of the batch", len(orders), rows)
	}
	for i, o := range orders[:rows] {
		if o.Total != int64(i) {
			t.Fatalf("order %d by its key has total %d: keys are not in the order of creation", i, o.Total)
		}
	}
	var items, distinct int
	var parent snowflakeplugin.ID
	err = conn.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT id), min(order_id) FROM items`).
		Scan(&items, &distinct, &parent)
	if err != nil || items != 3 || distinct != 3 || parent != orders[rows].ID {
		t.Errorf("%d items, %d keys, of order %d; want 3 of %d; %v",
			items, distinct, parent, orders[rows].ID, err)
	}
}

func TestWithoutAServerItSaysWhatToDo(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, c := range map[string]struct {
		args      []string
		env, says string
	}{
		"nobody listens":         {args: []string{closedDSN(t, secret)}, says: "no connection"},
		"nobody listens, by env": {env: closedDSN(t, secret), says: "no connection"},
		"unreadable":             {args: []string{"postgres://me:" + secret + "@h:x/db"}, says: "cannot parse"},
		"two arguments":          {args: []string{secret, secret}, says: "2 arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if code := start(t.Context(), c.args, c.env, &stdout, &stderr); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			said := stderr.String()
			if !strings.Contains(said, c.says) || !strings.Contains(said, variable) {
				t.Errorf("it says %q, want %q and what to do", said, c.says)
			}
			for _, never := range []string{secret, "goroutine"} {
				if strings.Contains(said, never) {
					t.Errorf("it says %q: %s", never, said)
				}
			}
			if stdout.Len() > 0 {
				t.Errorf("it prints %q", &stdout)
			}
		})
	}
}

// closedDSN returns the DSN of a port on which nobody listens.
func closedDSN(t *testing.T, password string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return "postgres://me:" + password + "@" + address + "/db?sslmode=disable"
}

// postgres returns the DSN of a database that only this test uses.
func postgres(t *testing.T) string {
	t.Helper()
	for _, target := range dbtest.Targets() {
		if target.Name == "postgres" {
			return target.DSN(t)
		}
	}
	t.Fatal("there is no target called postgres")
	return ""
}

func dial(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := connect(t.Context(), []string{dsn}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return conn
}
