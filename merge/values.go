package merge

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Between databases a value is nil, int64, uint64, float64, string or []byte, whatever its type: yes and no
// are 1 and 0, decimals, times, JSON and UUIDs are texts, and times are in UTC. From SQLite to SQLite it is
// what the driver read, as there a column may hold anything.

// readExpression is what to select so that a driver hands over a column without a meaning of its own: times
// in particular, which drivers parse or not, by settings that the merge does not know. The table is called s.
func (k Kind) readExpression(c *column) string {
	name := "s." + k.quote(c.name)
	switch k {
	case SQLite:
		return "+" + name // an expression has no declared type that a driver could look at
	case MySQL:
		switch c.family {
		case familyTime, familyDate, familyClock, familyUUID:
			return "CAST(" + name + " AS CHAR)"
		case familyFloat:
			return name + " + 0e0" // a FLOAT is shown with six digits only
		case familyBool:
			return name + " + 0"
		case familyInt:
			if strings.HasPrefix(c.declared, "bit") {
				return name + " + 0"
			}
		}
		return name
	}
	switch c.family {
	case familyInt, familyBytes:
		return name
	case familyBool:
		return name + "::int"
	case familyFloat:
		return name + "::float8"
	case familyTime:
		if strings.HasSuffix(c.declared, "with time zone") {
			return "(" + name + " AT TIME ZONE 'UTC')::text"
		}
	}
	return name + "::text"
}

// canonical makes a value of what a driver read, for a column of the target.
func canonical(v any, to *column, raw bool) (any, error) {
	if b, ok := v.([]byte); ok && b == nil || v == nil {
		return nil, nil
	}
	if raw {
		return v, nil
	}
	var out any
	var err error
	switch to.family {
	case familyText, familyJSON, familyUUID:
		if _, ok := v.(string); ok {
			return v, nil // as it is, rather than packed once more
		}
		out = textOf(v)
	case familyInt, familyBool:
		out, err = integerOf(v)
	case familyFloat:
		out, err = floatOf(v)
	case familyDecimal:
		out, err = decimalOf(v)
	case familyBytes:
		if b, ok := v.([]byte); ok {
			return b, nil
		}
		return []byte(textOf(v)), nil
	case familyTime:
		out, err = timeOf(v, to.precision)
	case familyDate:
		out, err = timeOf(v, 0)
		if text, ok := out.(string); ok {
			out, _, _ = strings.Cut(text, " ")
		}
	case familyClock:
		out = trimFraction(textOf(v), to.precision)
	default:
		out = textOf(v)
	}
	if err != nil {
		return nil, fmt.Errorf("column %s: %q is no %s", to.name, shortened(textOf(v)), to.family)
	}
	return out, nil
}

func shortened(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "..."
	}
	return text
}

// textOf writes a value as text.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		if v {
			return "1"
		}
		return "0"
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.999999999")
	}
	return fmt.Sprint(v)
}

func integerOf(v any) (any, error) {
	switch v := v.(type) {
	case int64, uint64:
		return v, nil
	case int32:
		return int64(v), nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return nil, strconv.ErrSyntax
		}
		return int64(v), nil
	}
	text := textOf(v)
	switch text {
	case "t", "true", "TRUE":
		return int64(1), nil
	case "f", "false", "FALSE":
		return int64(0), nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	return strconv.ParseUint(text, 10, 64)
}

func floatOf(v any) (any, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case float32:
		return float64(v), nil
	}
	return strconv.ParseFloat(textOf(v), 64)
}

func decimalOf(v any) (any, error) {
	text := textOf(v)
	if f, ok := v.(float64); ok {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	_, err := strconv.ParseFloat(text, 64)
	return text, err
}

// timeOf reads the forms in which databases and their drivers keep times, and the numbers of seconds that
// some games keep in SQLite.
func timeOf(v any, precision int) (any, error) {
	switch v := v.(type) {
	case time.Time:
		return formatTime(v, precision), nil
	case int64:
		return formatTime(time.Unix(v, 0), precision), nil
	}
	text := textOf(v)
	if len(text) >= 10 && len(text) <= 29 && !strings.ContainsAny(text[10:], "TZ+-") {
		if len(text) == 10 {
			text += " 00:00:00"
		}
		if _, err := time.Parse("2006-01-02 15:04:05.999999999", text); err == nil || text[:4] == "0000" {
			return trimFraction(text, precision), nil
		}
	}
	for _, form := range []string{
		"2006-01-02 15:04:05.999999999-07:00", "2006-01-02T15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999",
		"2006-01-02 15:04:05.999999999 -0700 MST", "2006-01-02 15:04:05.999999999-07", "2006-01-02 15:04",
	} {
		if t, err := time.Parse(form, text); err == nil {
			return formatTime(t, precision), nil
		}
	}
	return nil, strconv.ErrSyntax
}

func formatTime(t time.Time, precision int) string {
	return trimFraction(t.UTC().Format("2006-01-02 15:04:05.999999999"), precision)
}

// trimFraction cuts the fraction of a second to so many digits, and takes away zeros at its end.
func trimFraction(text string, precision int) string {
	whole, fraction, found := strings.Cut(text, ".")
	if !found {
		return text
	}
	if precision >= 0 && len(fraction) > precision {
		fraction = fraction[:precision]
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// adapt makes of a value what the driver of the target is to bind.
func (k Kind) adapt(v any, to *column, raw bool) any {
	if v == nil || raw {
		return v
	}
	switch {
	case k == SQLite && to.family == familyTime:
		// As GORM and the usual drivers write it, so that they read it back as a time.
		return textOf(v) + "+00:00"
	case k == SQLite && to.family == familyDecimal:
		// The affinity of the column turns it into a number.
		return v
	case k == PostgreSQL && to.family == familyBytes:
		return v
	case k == PostgreSQL:
		return postgresText(v, to) // of which the server makes the type of the column
	}
	return v
}

// zoned tells whether a column of PostgreSQL holds times with a zone.
func (c *column) zoned() bool {
	return c.family == familyTime && strings.HasSuffix(c.declared, "with time zone")
}

// postgresText is the text form of a value that PostgreSQL reads.
func postgresText(v any, to *column) string {
	switch {
	case to.family == familyBytes:
		return `\x` + hex.EncodeToString([]byte(textOf(v)))
	case to.zoned():
		if text := textOf(v); strings.HasSuffix(text, "infinity") {
			return text
		}
		return textOf(v) + "+00"
	}
	return textOf(v)
}

// comparableText makes of a value a text that is the same on both sides of a copy: databases write decimals
// and JSON in their own ways.
func comparableText(v any, to *column) string {
	switch to.family {
	case familyDecimal:
		text := textOf(v)
		if f, ok := v.(float64); ok {
			text = strconv.FormatFloat(f, 'f', -1, 64)
		}
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	case familyJSON:
		var parsed any
		d := json.NewDecoder(strings.NewReader(textOf(v)))
		d.UseNumber()
		if d.Decode(&parsed) == nil {
			if text, err := json.Marshal(parsed); err == nil {
				return string(text)
			}
		}
	case familyUUID:
		return strings.ToLower(textOf(v))
	}
	return textOf(v)
}

// keyText names a row: its primary key as text, or a JSON array if it is not one number. It ends with
// no blank, which some collations would not see.
func keyText(key []any) string {
	if len(key) == 1 {
		switch key[0].(type) {
		case int64, uint64:
			return textOf(key[0])
		}
	}
	parts := make([]string, len(key))
	for i, v := range key {
		if b, ok := v.([]byte); ok {
			parts[i] = "0x" + hex.EncodeToString(b)
		} else {
			parts[i] = textOf(v)
		}
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return strings.Join(parts, "|")
	}
	return string(text)
}
