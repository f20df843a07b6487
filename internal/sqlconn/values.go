package sqlconn

import (
	"fmt"
	"strconv"
	"time"
)

// TimeForm is how times are written: all of one length, so that they sort as text.
const TimeForm = "2006-01-02T15:04:05.000000000Z"

// Integer reads a whole number, as which some drivers return it and others as its digits.
func Integer(value any) (int64, bool) {
	if n, ok := value.(int64); ok {
		return n, true
	}
	digits, ok := Text(value)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// Text reads a text, which some drivers return as bytes.
func Text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// Instant reads a time of the one form. Others would be instants too, but no longer sort.
func Instant(value any) (time.Time, bool) {
	form, ok := Text(value)
	if !ok || len(form) != len(TimeForm) {
		return time.Time{}, false
	}
	t, err := time.Parse(TimeForm, form)
	return t.UTC(), err == nil
}

// Shown is a value in a message.
func Shown(value any) string {
	if value == nil {
		return "NULL"
	}
	if s, ok := Text(value); ok {
		return fmt.Sprintf("%.60q", s)
	}
	return fmt.Sprintf("%.60v", value)
}
