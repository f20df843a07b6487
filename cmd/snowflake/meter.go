package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// linesEvery is the time between two lines, where no bar can be drawn.
const linesEvery = 5 * time.Second

// The ways to show progress.
const (
	meterNone = iota
	meterBar
	meterLines
	meterJSON
)

// meter shows the progress of a merge: as a bar on a terminal, and as a line every few seconds elsewhere.
type meter struct {
	w       io.Writer
	mode    int
	columns int
	now     func() time.Time

	last    merge.Progress
	pending bool // last has not been printed as a line
	printed time.Time
	drawn   bool // the cursor is on a line with a bar
}

func newMeter(e *env, o *options) *meter {
	m := &meter{w: e.err, mode: meterLines, columns: 80, now: time.Now}
	if n, err := strconv.Atoi(e.getenv("COLUMNS")); err == nil && n > 0 {
		m.columns = n
	}
	switch {
	case o.merge.quiet:
		m.mode = meterNone
	case terminal(e.err) && e.getenv("TERM") != "dumb":
		m.mode = meterBar
	case o.json:
		m.mode = meterJSON
	}
	return m
}

// terminal tells whether a stream goes to a terminal.
func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// show receives the progress of the merge, a few times per second.
func (m *meter) show(p merge.Progress) {
	if m.mode == meterNone || p.Total == 0 && p.Done == 0 {
		return
	}
	if p.Phase != m.last.Phase {
		m.done()
		m.printed = time.Time{}
	}
	m.last, m.pending = p, true
	switch now := m.now(); {
	case m.mode == meterBar:
		say(m.w, "\r%s\x1b[K", m.bar())
		m.drawn = true
	case now.Sub(m.printed) >= linesEvery:
		m.printed = now
		m.line()
	}
}

// done ends a phase that is complete. A check skips tables in which nothing can collide, so it may end before
// the total that was announced. Therefore done sets the total to what was reached.
func (m *meter) done() {
	if m.last.Phase != "" && m.last.Total != m.last.Done {
		m.last.Total, m.last.Left = m.last.Done, 0
		m.show(m.last)
	}
	m.end()
}

// end prints the last state of a phase and ends its line.
func (m *meter) end() {
	switch {
	case m.drawn:
		say(m.w, "\n")
		m.drawn = false
	case m.pending && m.mode != meterBar:
		m.line()
	}
	m.pending = false
}

func (m *meter) line() {
	m.pending = false
	p := m.last
	if m.mode == meterJSON {
		_ = newEncoder(m.w).Encode(p) // as in say, nobody is left to tell
		return
	}
	done := comma(p.Done)
	if p.Total > 0 {
		done = fmt.Sprintf("%d%%, %s of %s", percent(p), done, comma(p.Total))
	}
	say(m.w, "%s: %s rows%s%s\n", p.Phase, done, pace(p, ", "), where(p, ", at "))
}

// bar leaves the last column of the terminal free, so that the line never wraps.
func (m *meter) bar() string {
	const size = 20
	p := m.last
	full := size * percent(p) / 100
	text := fmt.Sprintf("%-6s %3d%% [%s%s] %s rows%s%s", p.Phase, percent(p), strings.Repeat("#", full),
		strings.Repeat(".", size-full), comma(p.Done), pace(p, "  "), where(p, "  "))
	return cut(text, m.columns-1)
}

func percent(p merge.Progress) int {
	if p.Total <= 0 {
		return 100
	}
	return int(min(100*p.Done/p.Total, 100))
}

func pace(p merge.Progress, between string) string {
	text := ""
	if p.RowsPerSecond >= 1 {
		text += between + comma(int64(p.RowsPerSecond)) + " rows/s"
	}
	if p.Left > 0 {
		text += between + spell(max(p.Left, time.Second).Round(time.Second)) + " left"
	}
	return text
}

func where(p merge.Progress, before string) string {
	switch {
	case p.Table == "" || p.Total > 0 && p.Done >= p.Total:
		return ""
	case p.Server == "":
		return before + plain(p.Table)
	}
	return before + plain(p.Table) + " of " + plain(p.Server)
}
