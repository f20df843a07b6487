package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// journal keeps what keepers log.
type journal struct {
	mu    sync.Mutex
	lines []line
}

// line is an entry of a journal.
type line struct {
	text  string // the level and the message
	attrs map[string]string
}

func (j *journal) option() lease.Option { return lease.WithLogger(slog.New(j)) }

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	l := line{text: r.Level.String() + " " + strings.TrimPrefix(r.Message, "lease: "), attrs: map[string]string{}}
	if l.text == r.Level.String()+" "+r.Message {
		l.text += " (without the prefix of the package)"
	}
	r.Attrs(func(a slog.Attr) bool {
		l.attrs[a.Key] = fmt.Sprint(a.Value.Any())
		return true
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, l)
	return nil
}

func (j *journal) WithAttrs([]slog.Attr) slog.Handler { return j }
func (j *journal) WithGroup(string) slog.Handler      { return j }

// all returns the lines so far.
func (j *journal) all() []line {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// want fails unless the journal has exactly these lines, each being given by the beginning of its
// text. It returns them.
func (j *journal) want(t testing.TB, texts ...string) []line {
	t.Helper()
	lines := j.all()
	var got []string
	same := len(lines) == len(texts)
	for i, l := range lines {
		got = append(got, l.text)
		same = same && strings.HasPrefix(l.text, texts[i])
	}
	if !same {
		t.Fatalf("logged:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(texts, "\n"))
	}
	return lines
}

// wantAttrs fails unless a line has these attributes, among others.
func (l line) wantAttrs(t testing.TB, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if l.attrs[name] != value {
			t.Errorf("%q has %s=%q, want %q", l.text, name, l.attrs[name], value)
		}
	}
}
