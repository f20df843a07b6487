package load_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// Idle connections beyond the limit, noise on both ports, and bodies that are too large: the service goes
// on, its memory is bounded, and its log holds nothing of what was sent.
func TestHostileClientsNeitherStopNorFillTheService(t *testing.T) {
	t.Parallel()
	_, long := length(t)
	idle, noise := 400, 300
	if long {
		idle, noise = 10_000, 5_000
	}
	limit := idle / 2
	r := newReplica(t, postgres(t), "--max-connections", strconv.Itoa(limit), "--log-level", "debug")
	before := memory(r.command.Process.Pid)

	const secret = "hunter2-secret-of-a-client"
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		address := []string{r.http, r.resp}[i%2]
		conn, err := net.Dial("tcp", address) //nolint:noctx // it is local
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, random.IntN(600))
		for j := range text {
			text[j] = byte(random.Uint32())
		}
		_, _ = io.WriteString(conn, []string{
			string(text), "*2\r\n$4\r\nAUTH\r\n$99999999\r\n" + secret, "*99999999\r\n", "AUTH " + secret + "\r\n",
			"POST /snowflake.v1.IDService/Next HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" +
				"Content-Length: 99999999999\r\n\r\n{\"source\":\"" + secret,
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + string(text), "GET /" + secret + " HTTP/1.1\r\n\r\n",
		}[random.IntN(7)])
		conn.Close()
	}
	for _, body := range []string{
		`{"count":-1}`, `{"count":9223372036854775808}`, `{"count":1e99}`, `{"count":"` + secret + `"}`, `[]`, "\x00",
		`{"source":"` + strings.Repeat("x", 1<<20) + `"}`, strings.Repeat(`{"a":`, 5000),
	} {
		answer, err := http.Post("http://"+r.http+"/snowflake.v1.IDService/Next", "application/json", strings.NewReader(body)) //nolint:noctx // local
		if err != nil {
			continue // the connection was closed under a body that is too large
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode < 400 || answer.StatusCode >= 500 || !strings.Contains(string(text), `"code":`) {
			t.Errorf("%.40q: %d %s", body, answer.StatusCode, text)
		}
	}
	for i := range idle {
		conn, err := net.Dial("tcp", []string{r.http, r.resp}[i%2]) //nolint:noctx // it is local
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	get := overJSON(t, r.http)
	servers.Eventually(t, func() error {
		one, err := get()
		if err != nil {
			return err
		}
		ids, err := one(nil, 10)
		if len(ids) != 10 && err == nil {
			err = fmt.Errorf("%d IDs", len(ids))
		}
		return err
	})
	const most = 512
	used := memory(r.command.Process.Pid)
	t.Logf("%d hostile requests and %d idle connections, of which %d may be open: memory at most %d MiB, %d MiB before",
		noise, idle, limit, used, before)
	if used > most {
		t.Errorf("the service has used %d MiB, want at most %d", used, most)
	}
	log, err := os.ReadFile(r.log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), "hunter2") || strings.Contains(string(log), "panic") {
		t.Errorf("the log has a secret or a panic:\n%s", log)
	}
}
