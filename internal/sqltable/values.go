package sqltable

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// timeForm is how times are written: all of one length, so that they sort as text.
const timeForm = "2006-01-02T15:04:05.000000000Z"

// Stamp is how a time is written.
func Stamp(t time.Time) string { return t.UTC().Format(timeForm) }

// Whole reads a whole number, as which some drivers return it and others as its digits.
func Whole(value any) (int64, bool) {
	if n, ok := value.(int64); ok {
		return n, true
	}
	digits, ok := textOf(value)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// textOf reads a text, which some drivers return as bytes.
func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// instantOf reads a time of the one form. Others would be instants too, but no longer sort.
func instantOf(value any) (time.Time, bool) {
	form, ok := textOf(value)
	if !ok || len(form) != len(timeForm) {
		return time.Time{}, false
	}
	t, err := time.Parse(timeForm, form)
	return t.UTC(), err == nil
}

// shown is a value in a message.
func shown(value any) string {
	if value == nil {
		return "NULL"
	}
	if s, ok := textOf(value); ok {
		return fmt.Sprintf("%.60q", s)
	}
	return fmt.Sprint(value)
}

// floorMicros is t in microseconds since 1970, or as much as the database understands.
func floorMicros(t time.Time) int64 {
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	switch {
	case t.Before(first):
		t = first
	case t.After(last):
		t = last
	}
	return t.UnixMicro()
}

func ceilMicros(t time.Time) int64 {
	return floorMicros(t.Add(time.Microsecond - time.Nanosecond))
}

// number asks for a single number.
func number(ctx context.Context, q Querier, statement string) (int64, error) {
	_, rows, err := dialect.Query[Row](ctx, q, statement)
	if err != nil {
		return 0, err
	}
	if len(rows) == 1 && len(rows[0]) == 1 {
		if n, ok := Whole(rows[0][0]); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("the answer to %s is not a number: %v", statement, rows)
}

// ConnectionName returns the name under which an administrator finds a connection of this process, such as
// "snowflakeplugin lease web-1:4711": its purpose, the name of the machine and the number of the process.
func ConnectionName(purpose string) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	what := "snowflakeplugin " + purpose + " "
	process := ":" + strconv.Itoa(os.Getpid())
	// Only letters that need no quoting anywhere.
	host = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '_'
	}, host)
	return what + host[:min(len(host), dialect.MaxName-len(what)-len(process))] + process
}
