package merge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// parts returns what a row has in the columns of the reference, or nil if that is no reference.
func (l sourceLink) parts(r row) []any {
	values := make([]any, len(l.all))
	for i, at := range l.all {
		if values[i] = r.values[at]; values[i] == nil {
			return nil
		}
	}
	if !r.holds(l.when) {
		return nil
	}
	return values
}

// keys returns the keys inside a JSON document, a list or numbers.
func (l sourceLink) keys(values []any) ([]any, error) {
	var all []any
	_, err := l.replace(values, func(v any) (any, error) {
		all = append(all, v)
		return v, nil
	})
	return all, err
}

// replace calls fn for every key inside a JSON document, a list or numbers and puts what it returns in its
// place. All else stays as it is, to the byte.
func (l sourceLink) replace(values []any, fn func(any) (any, error)) ([]any, error) {
	if l.bits.used() {
		return l.bits.replace(values, fn)
	}
	text := sqldb.Text(values[0])
	var err error
	switch {
	case l.path != "":
		text, err = replaceInJSON(text, l.path, fn)
	case l.list == arrayList:
		inner, ok := strings.CutPrefix(text, "{")
		if inner, ok2 := strings.CutSuffix(inner, "}"); ok && ok2 {
			text, err = replaceInList(inner, ",", fn)
			text = "{" + text + "}"
		} else {
			err = fmt.Errorf("%q is no array", sqldb.Shorten(text))
		}
	default:
		text, err = replaceInList(text, l.list, fn)
	}
	if _, isBytes := values[0].([]byte); isBytes {
		return []any{[]byte(text)}, err
	}
	return []any{text}, err
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

// parsePath parses a path such as $.items[*].id. Names that hold dots or brackets are quoted: $."a.b".
func parsePath(path string) ([]jsonStep, error) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return nil, fmt.Errorf("the path %q does not begin with $", path)
	}
	var steps []jsonStep
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "[*]"):
			steps, rest = append(steps, jsonStep{all: true}), rest[3:]
		case strings.HasPrefix(rest, `."`):
			end := strings.Index(rest[2:], `"`)
			if end < 0 {
				return nil, fmt.Errorf("the path %q has a quotation mark too few", path)
			}
			steps, rest = append(steps, jsonStep{name: rest[2 : 2+end]}), rest[3+end:]
		case strings.HasPrefix(rest, ".") && len(rest) > 1:
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			if end == 0 {
				return nil, fmt.Errorf("the path %q has an empty name", path)
			}
			steps, rest = append(steps, jsonStep{name: rest[1 : 1+end]}), rest[1+end:]
		default:
			return nil, fmt.Errorf("the path %q is not understood at %q: use names and [*], as in $.items[*].id",
				path, rest)
		}
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
	case json.Number:
		if steps != nil && len(steps) == 0 {
			return r.key(keyWord(token.String()), token.String(), false)
		}
	case string:
		if steps != nil && len(steps) == 0 {
			return r.key(keyWord(token), token, true)
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

// key replaces the token that was just read.
func (r *jsonReplacer) key(v any, old string, quoted bool) error {
	changed, err := r.fn(v)
	if err != nil || sqldb.Text(changed) == old {
		return err
	}
	end := r.decoder.InputOffset()
	begin := end - int64(len(old))
	if quoted {
		// A text may be written with escapes, so its beginning is looked for: the mark before it that is open.
		for begin = end - 2; begin > r.copied; begin-- {
			var same string
			if r.text[begin] == '"' && json.Unmarshal(r.text[begin:end], &same) == nil && same == old {
				break
			}
		}
	}
	r.out.Write(r.text[r.copied:begin])
	if quoted || !staysNumber(changed) {
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
