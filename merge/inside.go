package merge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// bits says where a key lies within whole numbers: in so many bits of a column, from the bit low on, and, if
// one column is not enough, in the same bits of further columns, each of which has the next higher bits.
// Without a width, the columns are the key.
type bits struct {
	low, width int
	rest       string // the further columns, with a NUL between them
}

// parseBits reads the first and the last bit, such as 24-47.
func parseBits(text string, columns []string) (b bits, err error) {
	rest := strings.Join(columns[1:], "\x00")
	if text == "" {
		return bits{rest: rest}, nil
	}
	begin, end, _ := strings.Cut(text, "-")
	first, err1 := strconv.Atoi(begin)
	last, err2 := strconv.Atoi(end)
	b = bits{low: first, width: last - first + 1, rest: rest}
	if err1 != nil || err2 != nil || first < 0 || last < first || last > 63 || b.width*len(columns) > 63 {
		return bits{}, fmt.Errorf("the bits %q are not written as the first and the last one, such as 24-47, of "+
			"0 to 63, and 63 altogether", text)
	}
	return b, nil
}

func (b bits) used() bool { return b.width > 0 }

func (b bits) String() string { return fmt.Sprintf("%d-%d", b.low, b.low+b.width-1) }

func (b bits) mask() uint64 { return 1<<b.width - 1 }

// columns returns all columns, of which the first is given.
func (b bits) columns(first string) []string {
	if b.rest == "" {
		return []string{first}
	}
	return append([]string{first}, strings.Split(b.rest, "\x00")...)
}

// meets reports whether two places in one column have a bit in common.
func (b bits) meets(o bits) bool {
	return !b.used() || !o.used() || b.low < o.low+o.width && o.low < b.low+b.width
}

// replace puts what fn makes of the key in the place of the key. The other bits stay.
func (b bits) replace(values []any, fn func(any) (any, error)) ([]any, error) {
	numbers, key := make([]uint64, len(values)), uint64(0)
	for i, v := range values {
		switch n := v.(type) {
		case int64:
			numbers[i] = uint64(n)
		case uint64:
			numbers[i] = n
		default:
			return nil, fmt.Errorf("%q is no whole number", sqldb.Shorten(sqldb.Text(v)))
		}
		key |= numbers[i] >> b.low & b.mask() << (i * b.width)
	}
	v, err := fn(int64(key))
	if err != nil {
		return nil, err
	}
	now, err := sqldb.Integer(v)
	n, ok := now.(int64)
	if err != nil || !ok || n < 0 || n>>(b.width*len(values)) != 0 {
		return nil, fmt.Errorf("the new key %s is too large for its bits", sqldb.Text(v))
	}
	all := slices.Clone(values)
	for i := range values {
		whole := numbers[i]&^(b.mask()<<b.low) | uint64(n)>>(i*b.width)&b.mask()<<b.low
		if _, signed := values[i].(int64); signed {
			all[i] = int64(whole)
		} else {
			all[i] = whole
		}
	}
	return all, nil
}

// holds reports whether the columns of the target can hold a key.
func (b bits) holds(kind sqldb.Kind, columns []*sqldb.Column, key int64) bool {
	if key>>(b.width*len(columns)) != 0 {
		return false
	}
	for i, c := range columns {
		part := min(uint64(key)>>(i*b.width), b.mask()) << b.low
		if !c.Holds(kind, int64(min(part, math.MaxInt64))) {
			return false
		}
	}
	return true
}

// sql returns SQL for the key.
func (b bits) sql(kind sqldb.Kind, columns []string) string {
	var parts []string
	for i, name := range columns {
		parts = append(parts, fmt.Sprintf("((%s >> %d) & %d) * %d", sqldb.Wide(kind, kind.Quote(name)), b.low,
			b.mask(), uint64(1)<<(i*b.width)))
	}
	return "(" + strings.Join(parts, " + ") + ")"
}

// arrayList is the list of a column that is an array of PostgreSQL.
const arrayList = "array"

// replaceInList replaces the keys in a list. Elements that are empty, or NULL in an array, are no keys.
func replaceInList(text, separator string, fn func(any) (any, error)) (string, error) {
	parts := strings.Split(text, separator)
	for i, part := range parts {
		word := strings.TrimSpace(part)
		if word == "" || word == "NULL" {
			continue
		}
		v, err := fn(keyWord(word))
		if err != nil {
			return "", err
		}
		parts[i] = strings.Replace(part, word, sqldb.Text(v), 1)
	}
	return strings.Join(parts, separator), nil
}

// keyWord returns a key that is written as text: a number if it is one.
func keyWord(word string) any {
	if n, err := strconv.ParseInt(word, 10, 64); err == nil && strconv.FormatInt(n, 10) == word {
		return n
	}
	return word
}

// jsonStep is a step of a path: the name of a member, or all elements of an array.
type jsonStep struct {
	name string
	all  bool
}

// pathStep is a step with which a path begins.
var pathStep = regexp.MustCompile(`^(?:\[\*\]|\."([^"]*)"|\.([^".\[][^.\[]*))`)

// parsePath parses a path such as $.items[*].id. Names that hold dots or brackets are quoted: $."a.b".
func parsePath(path string) ([]jsonStep, error) {
	rest, ok := strings.CutPrefix(path, "$")
	steps := []jsonStep{} // of $ alone there are none: the document is the key
	for ok && rest != "" {
		found := pathStep.FindStringSubmatch(rest)
		if ok = found != nil; ok {
			steps = append(steps, jsonStep{name: found[1] + found[2], all: found[0] == "[*]"})
			rest = rest[len(found[0]):]
		}
	}
	if !ok {
		return nil, fmt.Errorf("the path %q is not understood at %q: begin with $, and use names and [*], as in "+
			"$.items[*].id", path, rest)
	}
	return steps, nil
}

// replaceInJSON replaces the numbers and texts that a path leads to.
func replaceInJSON(text, path string, fn func(any) (any, error)) (string, error) {
	steps, err := parsePath(path)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(text) == "" {
		return text, nil // There is no document.
	}
	r := &jsonReplacer{text: []byte(text), decoder: json.NewDecoder(strings.NewReader(text)), fn: fn}
	r.decoder.UseNumber()
	if err := r.value(steps); err != nil {
		return "", err
	}
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("it is not one JSON document")
	}
	r.out.Write(r.text[r.copied:])
	return r.out.String(), nil
}

// jsonReplacer walks through a document and replaces tokens where they stand.
type jsonReplacer struct {
	text    []byte
	decoder *json.Decoder
	fn      func(any) (any, error)
	out     bytes.Buffer
	copied  int64 // how much of the text is in out
}

// value walks through the next value. Without steps left it is a key; if nil, it is passed over.
func (r *jsonReplacer) value(steps []jsonStep) error {
	from := r.decoder.InputOffset()
	token, err := r.decoder.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		for r.decoder.More() {
			leads := len(steps) > 0 && steps[0].all
			if token == '{' {
				name, err := r.decoder.Token()
				if err != nil {
					return err
				}
				leads = len(steps) > 0 && !steps[0].all && name == steps[0].name
			}
			next := []jsonStep(nil)
			if leads {
				next = steps[1:len(steps):len(steps)]
			}
			if err := r.value(next); err != nil {
				return err
			}
		}
		_, err := r.decoder.Token()
		return err
	case json.Number, string:
		if steps != nil && len(steps) == 0 {
			return r.key(fmt.Sprint(token), from)
		}
	}
	return nil
}

// numberKey returns a key of a column of numbers so that it stays a number in a document. Decimals are texts
// everywhere else, lest they lose digits.
func numberKey(v any, c *sqldb.Column) any {
	if text, ok := v.(string); ok && (c.Family == sqldb.FamilyDecimal || c.Family == sqldb.FamilyFloat) {
		return json.Number(text)
	}
	return v
}

// staysNumber reports whether a key that stood in a document as a number can stand there as a number again. A
// text such as 05 or 1e2 would not be read as the same key again.
func staysNumber(key any) bool {
	if text, ok := key.(string); ok {
		_, whole := keyWord(text).(int64)
		return whole
	}
	return json.Valid([]byte(sqldb.Text(key)))
}

// key replaces the token that was just read, which is the first one behind a position.
func (r *jsonReplacer) key(old string, from int64) error {
	changed, err := r.fn(keyWord(old))
	if err != nil || sqldb.Text(changed) == old {
		return err
	}
	end := r.decoder.InputOffset()
	begin := end - int64(len(bytes.TrimLeft(r.text[from:end], " \t\r\n,:")))
	r.out.Write(r.text[r.copied:begin])
	if r.text[begin] == '"' || !staysNumber(changed) {
		written, err := json.Marshal(sqldb.Text(changed))
		if err != nil {
			return err
		}
		r.out.Write(written)
	} else {
		r.out.WriteString(sqldb.Text(changed))
	}
	r.copied = end
	return nil
}
