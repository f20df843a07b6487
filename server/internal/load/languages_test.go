package load_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// balance is a load balancer for TCP: it leads every connection to a replica that is ready. It returns its address.
func balance(t *testing.T, replicas []*replica) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is local
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // both are
	}
	var turn atomic.Int64
	choose := func() (server net.Conn, err error) {
		place := int(turn.Add(1))
		for i := range replicas {
			r := replicas[(place+i)%len(replicas)]
			code, text := r.ready()
			if err = errors.New(text); code != http.StatusOK {
				continue
			}
			if server, err = net.Dial("tcp", r.resp); err == nil { //nolint:noctx // it is local
				break
			}
		}
		return server, err
	}
	serve := func(client net.Conn) {
		defer client.Close()
		server, err := choose()
		if err != nil {
			return
		}
		defer server.Close()
		go pass(server, client)
		pass(client, server)
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(client)
		}
	}()
	return listener.Addr().String()
}

// lacks ends a test for which a program or a library is missing.
func lacks(t *testing.T, err error) {
	t.Helper()
	required, wrong := servers.Required("languages")
	if required || wrong != nil {
		t.Fatalf("docs/languages.md cannot be tried: %v", errors.Join(err, wrong))
	}
	t.Skip(err)
}

// output runs a program in a directory, and ends the test if that is missing.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	text, err := outputOf(dir, name, args...)
	if err != nil {
		lacks(t, err)
	}
	return text
}

func outputOf(dir, name string, args ...string) (string, error) {
	command := exec.Command(name, args...) //nolint:noctx // it ends by itself
	command.Dir = dir
	text, err := command.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, ended.Stderr)
	}
	return string(text), err
}

// python returns an interpreter that has redis-py. A version manager may hide that of the system.
func python(t *testing.T) string {
	t.Helper()
	var faults error
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		_, err := outputOf("", name, "-c", "import redis")
		if err == nil {
			return name
		}
		faults = errors.Join(faults, err)
	}
	lacks(t, faults)
	return ""
}

// grpcurl returns the path of grpcurl, which it builds if it is not installed.
func grpcurl(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("grpcurl"); err == nil {
		return path
	}
	dir := t.TempDir()
	output(t, "", "env", "GOBIN="+dir, "go", "install",
		"github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3")
	return filepath.Join(dir, "grpcurl")
}

// blocksOf returns what each block of the page in some languages has: all of it, the title above, the language,
// and the code.
func blocksOf(t *testing.T, languages string) [][]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/languages.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)\n## ([^\n]+)\n[^#]*?\n```(" + languages + ")\n(.*?)\n```\n")
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatalf("the page has no block of %s", languages)
	}
	return blocks
}

// exactly fails unless a program has printed three IDs, digit for digit.
func exactly(t *testing.T, text string, err error) {
	t.Helper()
	ids := regexp.MustCompile(`\d{15,}`).FindAllString(text, -1)
	if err != nil || len(ids) != 3 {
		t.Errorf("%v: it prints %q", err, text)
	}
	for _, one := range ids {
		id, err := strconv.ParseInt(one, 10, 64)
		if err == nil {
			_, err = generator.Default().Decompose(id)
		}
		if err != nil || id < 1<<53 {
			t.Errorf("%s is no exact ID: %v", one, err)
		}
	}
}

// Each block of the page runs as it is there, but for its addresses. Those in a loop run while the replicas are
// replaced, and every program has to end without an error.
func TestClientsOfOtherLanguagesDoAsThePageSays(t *testing.T) {
	t.Parallel()
	length(t)
	dsn := postgres(t)
	replicas := []*replica{newReplica(t, dsn), newReplica(t, dsn)}
	balancer := balance(t, replicas)
	_, port, err := net.SplitHostPort(balancer)
	if err != nil {
		t.Fatal(err)
	}
	addresses := strings.NewReplacer("127.0.0.1:7070", replicas[0].http, "127.0.0.1:7080", replicas[1].http,
		"7071", port)
	blocks := blocksOf(t, "sh|js|python")
	if len(blocks) != 5 {
		t.Fatalf("the page has %d blocks that can be run", len(blocks))
	}
	for _, block := range blocks {
		title, language, code := block[1], block[2], addresses.Replace(block[3])
		t.Run(title, func(t *testing.T) {
			var name string
			var args []string
			dir := t.TempDir()
			switch language {
			case "sh":
				name, args = "sh", []string{"-c", code}
				if strings.HasPrefix(code, "grpcurl") {
					args = []string{"-c", grpcurl(t) + strings.TrimPrefix(code, "grpcurl")}
				} else if _, err := exec.LookPath("curl"); err != nil {
					lacks(t, err)
				}
			case "js":
				name, args = "node", []string{"--input-type=module", "--eval", code}
				output(t, dir, "node", "--version")
				if strings.Contains(code, "ioredis") {
					output(t, dir, "npm", "install", "--no-audit", "--no-fund", "ioredis@5")
				}
			case "python":
				name, args = python(t), []string{"-c", code}
			}
			type result struct {
				text string
				err  error
			}
			ended := make(chan result, 1)
			go func() {
				text, err := outputOf(dir, name, args...)
				ended <- result{text, err}
			}()
			looped := strings.Contains(code, "while")
			for restarts := 0; ; {
				select {
				case got := <-ended:
					exactly(t, got.text, got.err)
					if looped && restarts == 0 {
						t.Error("the loop was over before a replica was replaced")
					}
					return
				default:
				}
				if !looped {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				r := replicas[restarts%2]
				if err := r.terminate(); err != nil {
					t.Errorf("a replica ended with %v", err)
				}
				r.start()
				r.awaitReady()
				restarts++
			}
		})
	}
}
