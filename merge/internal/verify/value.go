package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// class is what two values of different databases are compared as.
type class int

const (
	classText class = iota // bytes of a text
	classNumber
	classFloat
	classBytes
	classInstant
	classDate
	classClock
	classJSON
	classUUID
	classSet // members of a set, whose order is that of their column
)

// textOf returns what a driver returned as text.
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
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
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

// form is how the values of one column are written into a digest, the same for both sides of a merge.
type form struct {
	class class
	exact bool // SQLite to SQLite: the type that a value is stored in counts as well, and its text
	typed bool // the type counts, and the value as its class says
	// digits are those that the target keeps of a second, if the plan says that values may be converted; else
	// -1.
	digits int
}

// append appends a value so that equal values have equal bytes, and no value is the beginning of another.
func (f form) append(b []byte, v any) []byte {
	if v == nil {
		return append(b, 0)
	}
	kind, tag := f.class, byte(1)
	if f.exact {
		kind = classText
	}
	if f.exact || f.typed {
		tag = storedAs(v)
	}
	b = append(b, tag, 0, 0, 0, 0)
	begin := len(b)
	switch kind {
	case classNumber:
		b = appendNumber(b, v)
	case classFloat:
		b = appendFloat(b, v)
	case classInstant, classDate:
		b = append(b, f.instant(v)...)
	case classClock:
		b = append(b, cutSecond(textOf(v), f.digits)...)
	case classJSON:
		b = append(b, jsonText(textOf(v))...)
	case classUUID:
		b = append(b, strings.ToLower(strings.Trim(textOf(v), "{}"))...)
	case classSet:
		members := strings.Split(textOf(v), ",")
		slices.Sort(members)
		b = append(b, strings.Join(members, ",")...)
	default:
		b = f.appendText(b, v)
	}
	binary.BigEndian.PutUint32(b[begin-4:], uint32(len(b)-begin)) //nolint:gosec // a value is below 4 GiB
	return b
}

func (f form) appendText(b []byte, v any) []byte {
	switch v := v.(type) {
	case []byte:
		return append(b, v...)
	case string:
		return append(b, v...)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		if f.exact {
			return strconv.AppendUint(b, math.Float64bits(v), 16)
		}
	}
	return append(b, textOf(v)...)
}

// storedAs tells the types apart in which SQLite stores values.
func storedAs(v any) byte {
	switch v.(type) {
	case int64:
		return 'i'
	case float64:
		return 'f'
	case string:
		return 't'
	case []byte:
		return 'b'
	}
	return 'x'
}

// appendNumber writes whole and decimal numbers without trailing zeros.
func appendNumber(b []byte, v any) []byte {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return append(b, plainNumber(strconv.FormatFloat(v, 'f', -1, 64))...)
	}
	return append(b, plainNumber(textOf(v))...)
}

func plainNumber(text string) string {
	switch strings.ToLower(text) {
	case "t", "true":
		return "1"
	case "f", "false":
		return "0"
	}
	if strings.ContainsAny(text, "eE") {
		if r, ok := new(big.Rat).SetString(text); ok {
			text = r.FloatString(40)
		}
	}
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	text = strings.TrimPrefix(text, "+")
	sign, digits := "", text
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		sign, digits = "-", rest
	}
	if trimmed := strings.TrimLeft(digits, "0"); trimmed == "" {
		return "0"
	} else if trimmed[0] == '.' {
		return sign + "0" + trimmed
	} else if trimmed[0] >= '0' && trimmed[0] <= '9' {
		return sign + trimmed
	}
	return text
}

func appendFloat(b []byte, v any) []byte {
	f, ok := v.(float64)
	if !ok {
		var err error
		if f, err = strconv.ParseFloat(textOf(v), 64); err != nil {
			return append(b, textOf(v)...)
		}
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

// restored returns the values that an exact form has appended.
func restored(b []byte) (values []any) {
	for len(b) > 0 {
		if b[0] == 0 {
			values, b = append(values, nil), b[1:]
			continue
		}
		end := 5 + binary.BigEndian.Uint32(b[1:])
		var v any = string(b[5:end])
		switch b[0] {
		case 'i':
			v, _ = strconv.ParseInt(string(b[5:end]), 10, 64)
		case 'f':
			n, _ := strconv.ParseUint(string(b[5:end]), 16, 64)
			v = math.Float64frombits(n)
		case 'b':
			v = slices.Clone(b[5:end])
		}
		values, b = append(values, v), b[end:]
	}
	return values
}

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
	if len(text) < 19 || text[4] != '-' || text[13] != ':' || text[10] != ' ' && text[10] != 'T' {
		return text
	}
	clock, offset := text[:10]+" "+text[11:], ""
	if zone := strings.IndexAny(clock[11:], "Z+-"); zone >= 0 {
		clock, offset = strings.TrimSpace(clock[:11+zone]), strings.TrimPrefix(clock[11+zone:], "Z")
		offset, _, _ = strings.Cut(offset, " ") // the name of the zone may follow
	}
	switch offset {
	case "", "+00:00", "+00", "+0000", "-00:00":
		return clock
	}
	for _, layout := range []string{"-07:00", "-0700", "-07"} {
		if t, err := time.Parse("2006-01-02 15:04:05.999999999"+layout, clock+offset); err == nil {
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

// jsonText returns a document without blanks, with sorted names and plain numbers. A text stays as it is if
// it is no document, or if an object in it has a name twice.
func jsonText(text string) string {
	document, whole, is := readDocument(text)
	if !is || !whole {
		return text
	}
	names := 0
	written, err := json.Marshal(plain(document, &names))
	if err != nil || names != namesIn(text) {
		return text
	}
	return string(written)
}

// readDocument reports whether a text begins with a document, and whether nothing comes after that. Bytes
// that are no UTF-8 become letters for private use, since the decoder makes the same letter of all of them.
func readDocument(text string) (document any, whole, is bool) {
	const private = 0x10FF00
	if !utf8.ValidString(text) {
		var valid strings.Builder
		for rest := text; rest != ""; {
			letter, size := utf8.DecodeRuneInString(rest)
			if letter == utf8.RuneError && size == 1 {
				letter = private + rune(rest[0])
			}
			valid.WriteRune(letter)
			rest = rest[size:]
		}
		text = valid.String()
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	is = d.Decode(&document) == nil
	_, err := d.Token()
	return document, is && errors.Is(err, io.EOF), is
}

// plain gives the numbers of a document one form, and counts the names of its objects.
func plain(document any, names *int) any {
	switch v := document.(type) {
	case json.Number:
		return json.Number(plainNumber(v.String()))
	case []any:
		for i := range v {
			v[i] = plain(v[i], names)
		}
	case map[string]any:
		*names += len(v)
		for name := range v {
			v[name] = plain(v[name], names)
		}
	}
	return document
}

// namesIn counts the names in the text of a document, each of which has a colon behind it.
func namesIn(text string) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ':' && !quoted:
			n++
		}
	}
	return n
}

// digest is the number of rows and the sum of their hashes. The order of the rows does not matter. It is a
// sum and not an exclusive or, in which a row that is there twice would vanish.
type digest struct {
	rows      int64
	high, low uint64
}

// sum is the hash of a row, or of a key.
type sum [16]byte

func sumOf(b []byte) (s sum) {
	full := sha256.Sum256(b)
	copy(s[:], full[:])
	return s
}

func (d *digest) add(s sum) {
	d.merge(digest{rows: 1, high: binary.BigEndian.Uint64(s[:8]), low: binary.BigEndian.Uint64(s[8:])})
}

func (d *digest) merge(o digest) {
	var carry uint64
	d.rows += o.rows
	d.low, carry = bits.Add64(d.low, o.low, 0)
	d.high, _ = bits.Add64(d.high, o.high, carry)
}

func (d digest) String() string { return fmt.Sprintf("%016x%016x", d.high, d.low) }

// compareTexts compares numbers as numbers and everything else as text.
func compareTexts(a, b string) int {
	if x, ok := new(big.Rat).SetString(a); ok {
		if y, ok := new(big.Rat).SetString(b); ok {
			return x.Cmp(y)
		}
	}
	return strings.Compare(a, b)
}
