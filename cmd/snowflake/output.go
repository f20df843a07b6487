package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// printJSON writes one indented document.
func printJSON(w io.Writer, value any) error {
	e := newEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// newEncoder returns an encoder that leaves <, > and & as they are. The escapes of encoding/json
// protect HTML, and here they would only make a condition such as "id >= 5" hard to read.
func newEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// stamp is an instant as all commands print it, in UTC and with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// plain replaces characters that could control the terminal, in text that comes from a database.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// ago says for people how far an instant is from now.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	direction := "ago"
	if d < 0 {
		d, direction = t.Sub(now), "ahead"
	}
	return spell(d) + " " + direction
}

// spell rounds a duration to the precision that a reader needs.
func spell(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*365*day:
		return fmt.Sprintf("%.1f years", d.Hours()/24/365.25)
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= time.Second:
		return d.Round(time.Second / 10).String()
	}
	return d.Round(time.Millisecond).String()
}
