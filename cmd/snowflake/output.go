package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// printJSON writes one document.
func printJSON(w io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// stamp is an instant as all commands print it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// plain is text from a database without what could command the terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// ago says how far an instant lies from now, for people.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	direction := "ago"
	if d < 0 {
		d, direction = t.Sub(now), "ahead"
	}
	return spell(d) + " " + direction
}

// spell rounds a duration to what a reader wants to know.
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
