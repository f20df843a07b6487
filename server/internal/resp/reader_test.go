package resp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/resp"
)

// encode writes a command as a client does.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

func TestCommandsAreReadAsClientsWriteThem(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", resp.MaxArg)
	for name, c := range map[string]struct {
		text string
		want [][]string
	}{
		"an array":              {encode("INCR", "orders"), [][]string{{"INCR", "orders"}}},
		"two that came at once": {encode("PING") + encode("INCR", "a"), [][]string{{"PING"}, {"INCR", "a"}}},
		"words on a line":       {"INCR  orders\r\nPING\n", [][]string{{"INCR", "orders"}, {"PING"}}},
		"an empty line":         {"\r\nPING\r\n", [][]string{{}, {"PING"}}},
		"an empty array":        {"*0\r\nPING\r\n", [][]string{{}, {"PING"}}},
		"an empty argument":     {encode("ECHO", ""), [][]string{{"ECHO", ""}}},
		"any byte":              {encode("ECHO", "\r\n*$\x00\xff"), [][]string{{"ECHO", "\r\n*$\x00\xff"}}},
		"the longest argument":  {encode("ECHO", long), [][]string{{"ECHO", long}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := resp.Commands(strings.NewReader(c.text))
			if !errors.Is(err, io.EOF) || !reflect.DeepEqual(got, c.want) {
				t.Errorf("read %q and %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestWhatIsNoCommandIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a length that is no number":      "*x\r\n",
		"a negative length":               "*-1\r\n",
		"a length with a sign":            "*+1\r\n$4\r\nPING\r\n",
		"no length":                       "*\r\n",
		"too many arguments":              fmt.Sprintf("*%d\r\n", resp.MaxArgs+1),
		"a length beyond every integer":   "*9223372036854775808\r\n",
		"an argument without its mark":    "*1\r\nPING\r\n",
		"an argument that is too long":    fmt.Sprintf("*1\r\n$%d\r\n", resp.MaxArg+1),
		"a huge argument":                 "*1\r\n$536870912\r\n",
		"a negative argument":             "*1\r\n$-1\r\n",
		"an argument longer than it says": "*1\r\n$4\r\nPINGS\r\n",
		"a line without an end":           strings.Repeat("a", 1<<20),
		"another protocol":                "\x16\x03\x01\x02\r\nPING\r\n",
		"letters that are not ASCII":      "PING \xc3\xa4\r\n",
		"too many words":                  strings.Repeat("a ", resp.MaxArgs+1) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, wrong, err := resp.Commands(strings.NewReader(text)); !wrong {
				t.Errorf("read %q and %v, want an error of the protocol", got, err)
			}
		})
	}
}

func TestACommandThatIsCutOffIsNoCommand(t *testing.T) {
	t.Parallel()
	whole := encode("SNOWFLAKE.NEXT", "1000")
	for end := 1; end < len(whole); end++ {
		got, _, err := resp.Commands(strings.NewReader(whole[:end]))
		if len(got) != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("of %q: read %q and %v", whole[:end], got, err)
		}
	}
}

// What a connection sends does not decide how much memory it needs.
func TestReadingNeedsAFixedAmountOfMemory(t *testing.T) {
	const most = 256 << 10
	for name, text := range map[string]string{
		"an array that claims to be huge":    "*2147483647\r\n",
		"an argument that claims to be huge": "*1\r\n$2147483647\r\n" + strings.Repeat("x", 1<<20),
		"a line that does not end":           strings.Repeat("x", 8<<20),
		"the largest command, many times":    strings.Repeat("*1\r\n$1024\r\n"+strings.Repeat("x", 1024), 1),
	} {
		source := strings.NewReader(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, _ = resp.Commands(source)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%s: %d bytes were allocated, want at most %d", name, used, most)
		}
	}
}

// FuzzReader: whatever comes, the reader ends, keeps its limits, and reads again what a client would write.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		encode("INCR", "orders"), "PING\r\n", "*1\r\n$4\r\nPING\r\n*", "*-1\r\n", "$5\r\nhello\r\n", "\x00\xff",
		"*3\r\n$1\r\na\r\n$0\r\n\r\n$2\r\n\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, _, err := resp.Commands(bytes.NewReader(data))
		if err == nil {
			t.Fatal("reading ended without an error")
		}
		var again strings.Builder
		for _, args := range all {
			if len(args) > resp.MaxArgs {
				t.Fatalf("a command has %d arguments", len(args))
			}
			for _, arg := range args {
				if len(arg) > resp.MaxArg {
					t.Fatalf("an argument has %d bytes", len(arg))
				}
			}
			again.WriteString(encode(args...))
		}
		got, _, err := resp.Commands(strings.NewReader(again.String()))
		if !errors.Is(err, io.EOF) || len(got) != len(all) {
			t.Fatalf("%d commands, and %d when they are written again: %v", len(all), len(got), err)
		}
		for i := range got {
			if len(got[i]) != len(all[i]) || len(got[i]) > 0 && !reflect.DeepEqual(got[i], all[i]) {
				t.Fatalf("command %d is %q, and %q when it is written again", i, all[i], got[i])
			}
		}
	})
}
