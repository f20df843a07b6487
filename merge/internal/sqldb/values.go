package sqldb

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Native converts what a driver returned for a column to the form described above. The value goes back to a
// database of the same kind and to a column of the same type, so its text is not looked at: whatever one
// database can store, such as infinity, the year 10000, or 0000-00-00, the other one can store too.
func Native(v any, target *Column) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch target.Family {
	case FamilyInt, FamilyBool, FamilyFloat, FamilyBytes:
		return Canonical(v, target, false)
	}
	if _, ok := v.(string); ok {
		return v, nil // the same interface value, which saves an allocation
	}
	return Text(v), nil
}

// Canonical converts what a driver returned to the form described above, for a column of the target. With raw
// the value stays as it is.
func Canonical(v any, target *Column, raw bool) (any, error) {
	if v == nil {
		return nil, nil
	}
	if raw {
		return v, nil
	}
	var out any
	var err error
	switch target.Family {
	case FamilyText, FamilyJSON, FamilyUUID:
		if _, ok := v.(string); ok {
			return v, nil // the same interface value, which saves an allocation
		}
		out = Text(v)
	case FamilyInt, FamilyBool:
		out, err = Integer(v)
	case FamilyFloat:
		out, err = floatOf(v)
	case FamilyDecimal:
		text := decimalText(v)
		_, err = strconv.ParseFloat(text, 64)
		out = text
	case FamilyBytes:
		if b, ok := v.([]byte); ok {
			return b, nil
		}
		return []byte(Text(v)), nil
	case FamilyTime:
		out, err = timeOf(v)
		if text, ok := out.(string); ok && err == nil {
			out, err = fraction(text, target)
		}
	case FamilyDate:
		out, err = timeOf(v)
		if text, ok := out.(string); ok {
			out, text, _ = strings.Cut(text, " ")
			if strings.Trim(text, "0:.") != "" && !target.Cuts {
				return nil, fmt.Errorf("column %s: %q has a time of day, which a date does not keep", target.Name,
					Shorten(Text(v)))
			}
		}
	case FamilyClock:
		out, err = fraction(Text(v), target)
	default:
		out = Text(v)
	}
	if errors.Is(err, errFraction) {
		return nil, fmt.Errorf("column %s: %q %w", target.Name, Shorten(Text(v)), err)
	}
	if err != nil {
		return nil, fmt.Errorf("column %s: %q is not a valid %s", target.Name, Shorten(Text(v)), target.Family)
	}
	return out, nil
}

// SizeOf returns how many bytes a row takes, about.
func SizeOf(values []any) int {
	const cell = 16
	n := cell * len(values)
	for _, v := range values {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// Shorten returns at most the first 60 characters of a text, for messages.
func Shorten(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "..."
	}
	return text
}

// Text returns a value as text.
func Text(v any) string {
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

// Integer converts a value to int64, or to uint64 if it is too large for that.
func Integer(v any) (any, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case uint64:
		if v <= math.MaxInt64 { // one number has one form, or keys of unsigned columns would be others
			return int64(v), nil
		}
		return v, nil
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return nil, strconv.ErrSyntax
		}
		return int64(v), nil
	}
	text := Text(v)
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
	return strconv.ParseFloat(Text(v), 64)
}

func decimalText(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return Text(v)
}

// errFraction says that a column keeps fewer digits of a second than a value has.
var errFraction = errors.New("has more digits of a second than the column keeps")

// maxSeconds is the greatest number that is taken as seconds since 1970: the year 5138. Greater numbers count
// milliseconds or less.
const maxSeconds = 100_000_000_000

// timeOf parses the forms in which databases and drivers represent times. A number counts seconds since 1970,
// as some applications store times in SQLite.
func timeOf(v any) (any, error) {
	switch v := v.(type) {
	case time.Time:
		return formatTime(v), nil
	case int64:
		if v >= maxSeconds || v <= -maxSeconds {
			return nil, strconv.ErrRange
		}
		return formatTime(time.Unix(v, 0)), nil
	}
	text := Text(v)
	if len(text) >= 10 && len(text) <= 29 && !strings.ContainsAny(text[10:], "TZ+-") {
		if len(text) == 10 {
			text += " 00:00:00"
		}
		if _, err := time.Parse("2006-01-02 15:04:05.999999999", text); err == nil || text[:4] == "0000" {
			return trimZeros(text), nil
		}
	}
	for _, form := range []string{
		"2006-01-02 15:04:05.999999999-07:00", "2006-01-02T15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999",
		"2006-01-02 15:04:05.999999999 -0700 MST", "2006-01-02 15:04:05.999999999-07", "2006-01-02 15:04",
	} {
		if t, err := time.Parse(form, text); err == nil {
			return formatTime(t), nil
		}
	}
	return nil, strconv.ErrSyntax
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999999999") }

// trimZeros removes the zeros at the end of a fraction.
func trimZeros(text string) string {
	if !strings.Contains(text, ".") {
		return text
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// fraction checks that a column keeps all digits of a fraction of a second. A column that may cut them does.
func fraction(text string, target *Column) (string, error) {
	text = trimZeros(text)
	whole, digits, _ := strings.Cut(text, ".")
	switch {
	case target.precision < 0 || len(digits) <= target.precision:
		return text, nil
	case !target.Cuts:
		return "", errFraction
	case target.precision == 0:
		return whole, nil
	}
	return trimZeros(whole + "." + digits[:target.precision]), nil
}

// postgresText returns the text form of a value that PostgreSQL reads.
func postgresText(v any, target *Column) string {
	switch {
	case target.Family == FamilyBytes:
		return `\x` + hex.EncodeToString([]byte(Text(v)))
	case target.zoned():
		if text := Text(v); strings.HasSuffix(text, "infinity") {
			return text
		}
		if text, ok := strings.CutSuffix(Text(v), " BC"); ok {
			return text + "+00 BC"
		}
		return Text(v) + "+00"
	}
	if f, ok := v.(float64); ok && math.IsInf(f, 0) {
		return strings.Replace(strconv.FormatFloat(f, 'g', -1, 64), "Inf", "Infinity", 1)
	}
	return Text(v)
}

// ComparableText returns the text of a decimal or of a UUID that is the same on both sides of a copy. Every
// kind of database formats them in its own way.
func ComparableText(v any, target *Column) string {
	if target.Family == FamilyUUID {
		return strings.ToLower(Text(v))
	}
	return trimZeros(decimalText(v))
}

// KeyText returns the primary key of a row as text: the number if the key is one integer, else a JSON array.
// The text never ends with a blank, which some collations ignore.
func KeyText(key []any) string {
	if len(key) == 1 {
		switch key[0].(type) {
		case int64, uint64:
			return Text(key[0])
		}
	}
	parts := make([]string, len(key))
	for i, v := range key {
		switch text := Text(v); {
		case v == nil:
			parts[i] = "0n"
		case isBytes(v):
			parts[i] = "0x" + hex.EncodeToString([]byte(text))
		case !utf8.ValidString(text) || isString(v) && marked(text):
			parts[i] = "0t" + hex.EncodeToString([]byte(text))
		default:
			parts[i] = text
		}
	}
	text, _ := json.Marshal(parts) // which never fails for texts
	return string(text)
}

func isBytes(v any) bool { _, ok := v.([]byte); return ok }

func isString(v any) bool { _, ok := v.(string); return ok }

// RowKey returns the key of a row as the tables of a merge hold it: as [KeyText], but so short that every
// database can index it. A hash stands for the end of a long one.
func RowKey(key []any) string { return ShortKey(KeyText(key)) }

// ShortKey shortens what [KeyText] returned to what [RowKey] returns.
func ShortKey(text string) string {
	const most, kept = 400, 60
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return string([]rune(text)[:kept]) + "#" + hex.EncodeToString(sum[:])
}

// KeyValues converts what [KeyText] returned for a key back to its values.
func KeyValues(text string, columns []*Column) ([]any, error) {
	parts, err := []string{text}, error(nil)
	if strings.HasPrefix(text, "[") {
		parts = nil
		err = json.Unmarshal([]byte(text), &parts)
	}
	if err != nil || len(parts) != len(columns) {
		return nil, fmt.Errorf("the key %s does not consist of %d columns", Shorten(text), len(columns))
	}
	values := make([]any, len(parts))
	for i, part := range parts {
		kind, digits := byte(0), ""
		if marked(part) {
			kind, digits = part[1], part[2:]
		}
		raw, bad := hex.DecodeString(digits)
		switch {
		case kind == 'n':
		case kind == 'x' && bad == nil:
			values[i] = raw
		case kind == 't' && bad == nil:
			values[i] = string(raw)
		default:
			if values[i], err = Native(part, columns[i]); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// Adapt converts a value to what the driver of the target has to bind.
func Adapt(k Kind, v any, target *Column, raw bool) any {
	if v == nil || raw {
		return v
	}
	switch {
	case k == SQLite && target.Family == FamilyTime:
		// As GORM and the usual drivers write it, so that they read it back as a time.
		return Text(v) + "+00:00"
	case k == PostgreSQL && target.Family != FamilyBytes:
		return postgresText(v, target) // the server converts it to the type of the column
	}
	return v
}

// marked tells whether a text begins like one of the marks of KeyText.
func marked(text string) bool {
	return len(text) > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 't' || text[1] == 'n')
}

// Same reports whether a column has given back the value that was written to it. Databases write numbers,
// JSON and UUIDs in forms of their own, and that is no difference.
func Same(wrote, got any, c *Column, raw bool) bool {
	if wrote == nil || got == nil {
		return wrote == nil && got == nil
	}
	a, b := Text(wrote), Text(got)
	if a == b && (!raw || isBytes(wrote) == isBytes(got)) {
		return true
	}
	if raw {
		return isNumber(wrote) && isNumber(got) && sameNumber(a, b)
	}
	if strings.HasPrefix(c.Declared, "set(") { // Its members are shown in the order of the column.
		members := func(text string) []string { return slices.Sorted(strings.SplitSeq(text, ",")) }
		return slices.Equal(members(a), members(b))
	}
	switch c.Family {
	case FamilyInt, FamilyBool, FamilyDecimal:
		n, err := Integer(got)
		return sameNumber(a, b) || err == nil && Text(n) == a
	case FamilyFloat:
		x, err := strconv.ParseFloat(a, 64)
		y, wrong := strconv.ParseFloat(b, 64)
		return err == nil && wrong == nil && (x == y || math.IsNaN(x) && math.IsNaN(y))
	case FamilyTime, FamilyDate, FamilyClock:
		read, err := Canonical(got, c, false)
		return err == nil && trimZeros(Text(read)) == trimZeros(a)
	case FamilyUUID:
		return strings.EqualFold(a, b)
	case FamilyJSON:
		return sameJSON(a, b)
	case FamilyOther:
		return true // the column has a form that only its database knows
	}
	return false
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, uint64, float64:
		return true
	}
	return false
}

// sameNumber compares two numbers by their value.
func sameNumber(a, b string) bool { return a == b || plainNumber(a) == plainNumber(b) }

// plainNumber returns one form for every number of a value. A number with an exponent of more digits than
// this is only equal to itself, because its digits would fill the memory. So is what is no number.
func plainNumber(text string) string {
	const maxExponent = 4
	if exponent := strings.IndexAny(text, "eE"); exponent >= 0 && len(text)-exponent > maxExponent+1 {
		return text
	}
	if n, ok := new(big.Rat).SetString(text); ok {
		return n.RatString()
	}
	return text
}

// sameJSON compares two documents. A text may repeat a name, of which a database may keep one value: then
// they differ in how many tokens they have.
func sameJSON(a, b string) bool {
	x, n := readJSON(a)
	y, m := readJSON(b)
	return n > 0 && n == m && sameParts(x, y)
}

// readJSON returns a document, and how many tokens it has: 0 if it is none.
func readJSON(text string) (document any, tokens int) {
	whole, parts := json.NewDecoder(strings.NewReader(text)), json.NewDecoder(strings.NewReader(text))
	whole.UseNumber()
	if whole.Decode(&document) != nil {
		return nil, 0
	}
	if _, err := whole.Token(); !errors.Is(err, io.EOF) { // something follows the document
		return nil, 0
	}
	for _, err := parts.Token(); err == nil; _, err = parts.Token() {
		tokens++
	}
	return document, tokens
}

func sameParts(x, y any) bool {
	switch x := x.(type) {
	case map[string]any:
		other, is := y.(map[string]any)
		return is && maps.EqualFunc(x, other, sameParts)
	case []any:
		other, is := y.([]any)
		return is && slices.EqualFunc(x, other, sameParts)
	case json.Number:
		other, is := y.(json.Number)
		return is && sameNumber(x.String(), other.String())
	}
	return x == y
}
