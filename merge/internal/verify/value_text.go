package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
)

// instant returns a time in UTC. What is no time of the calendar, such as infinity, stays as it is.
func (f form) instant(v any) string {
	text := ""
	switch v := v.(type) {
	case int64, float64:
		// Applications that store times as numbers in SQLite count seconds, or milliseconds.
		n, _ := strconv.ParseFloat(textOf(v), 64)
		t := time.Unix(int64(n), 0)
		if math.Abs(n) > 1e12 {
			t = time.UnixMilli(int64(n))
		}
		text = t.UTC().Format("2006-01-02 15:04:05.999999999")
	default:
		text = textOf(v)
	}
	text = inUTC(text)
	if f.class == classDate {
		if len(text) > 10 && text[10] == ' ' && strings.Count(text, "-") == 2 &&
			!strings.HasSuffix(text, "BC") {
			return text[:10]
		}
		return text
	}
	if len(text) == 10 && text[4] == '-' {
		text += " 00:00:00"
	}
	return cutSecond(text, f.digits)
}

func inUTC(text string) string {
	if len(text) < 19 || text[4] != '-' || text[13] != ':' {
		return text
	}
	day, rest := text[:10], text[11:]
	zone := strings.IndexAny(rest, "Z+-")
	if zone < 0 || text[10] != ' ' && text[10] != 'T' {
		if text[10] == 'T' {
			return day + " " + rest
		}
		return text
	}
	clock, offset := strings.TrimSpace(rest[:zone]), strings.TrimPrefix(rest[zone:], "Z")
	offset, _, _ = strings.Cut(offset, " ") // the name of the zone may follow
	switch offset {
	case "", "+00:00", "+00", "+0000", "-00:00":
		return day + " " + clock
	}
	for _, layout := range []string{"-07:00", "-0700", "-07"} {
		if t, err := time.Parse("2006-01-02 15:04:05.999999999"+layout, day+" "+clock+offset); err == nil {
			return t.UTC().Format("2006-01-02 15:04:05.999999999")
		}
	}
	return text
}

// cutSecond removes the zeros at the end of the fraction of a second, and the digits that are not kept.
func cutSecond(text string, digits int) string {
	whole, fraction, found := strings.Cut(text, ".")
	if !found {
		return text
	}
	end := strings.IndexFunc(fraction, func(r rune) bool { return r < '0' || r > '9' })
	rest := ""
	if end >= 0 {
		fraction, rest = fraction[:end], fraction[end:]
	}
	if digits >= 0 && len(fraction) > digits {
		fraction = fraction[:digits]
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
		return whole + rest
	}
	return whole + "." + fraction + rest
}

func clockText(text string, digits int) string { return cutSecond(text, digits) }

// jsonText returns a document without blanks, with sorted keys and plain numbers. A key that is there twice
// stays twice. A text that is no document stays as it is.
func jsonText(text string) string {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var b strings.Builder
	if writeJSON(&b, d) != nil {
		return text
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return text
	}
	return b.String()
}

// writeJSON writes the next value of a document.
func writeJSON(b *strings.Builder, d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Number:
		b.WriteString(plainNumber(v.String()))
	case string:
		b.WriteString(strconv.Quote(v))
	case json.Delim:
		var names, parts []string
		for d.More() {
			var part strings.Builder
			if v == '{' {
				name, err := d.Token()
				if err != nil {
					return err
				}
				names = append(names, fmt.Sprint(name))
				part.WriteString(strconv.Quote(fmt.Sprint(name)) + ":")
			}
			if err := writeJSON(&part, d); err != nil {
				return err
			}
			parts = append(parts, part.String())
		}
		end, err := d.Token()
		if err != nil {
			return err
		}
		sort.Stable(byName{names, parts})
		b.WriteString(v.String() + strings.Join(parts, ",") + fmt.Sprint(end))
	default:
		fmt.Fprint(b, v)
	}
	return nil
}

// byName sorts the parts of an object by their names. A list has no names and stays as it is.
type byName struct{ names, parts []string }

func (l byName) Len() int           { return len(l.names) }
func (l byName) Less(i, j int) bool { return l.names[i] < l.names[j] }

func (l byName) Swap(i, j int) {
	l.names[i], l.names[j] = l.names[j], l.names[i]
	l.parts[i], l.parts[j] = l.parts[j], l.parts[i]
}
