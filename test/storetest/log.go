package storetest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// Log collects what a store logs. The zero value is ready.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// Logger returns a logger whose lines are collected.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Want fails the test unless the log has as many lines, all of one level, and the phrases.
func (l *Log) Want(tb testing.TB, level string, lines int, phrases ...string) {
	tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.buf.String()
	if n := strings.Count(text, "\n"); n != lines || strings.Count(text, "level="+level) != lines {
		tb.Errorf("logged: %q, want %d lines of level %s", text, lines, level)
	}
	for _, phrase := range phrases {
		if !strings.Contains(text, phrase) {
			tb.Errorf("the log does not say %q: %s", phrase, text)
		}
	}
}
