package verify

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// passage is what a reference made of the keys at one place of a column.
type passage struct {
	place string // the steps of the path; all lists are one place
	whole string // the column, if only this reference led out of it
}

// inside makes the keys inside a column follow their parents: those in a document or in a list. A key moves
// once, however many references lead from its place, and they have to agree where it is now.
func (e *expecter) inside(r reference, parent *job, values []any, changes map[int]any) error {
	at := e.at[r.columns[0]]
	here := passage{place: "list"}
	if r.list == "" {
		here.place = "path\x00" + strings.Join(steps(r.path), "\x00")
	}
	alone, isDocument, err := e.followed(r, parent, textOf(values[at]))
	if err != nil || !isDocument {
		return err
	}
	here.whole = alone
	for _, other := range e.passed[at] {
		if other.place != here.place && other.place != "list" && here.place != "list" {
			continue // no key is at two places of a document
		}
		if other.whole != alone {
			return fmt.Errorf("table %s, column %s: two references lead the same keys to different rows", e.j.name,
				r.columns[0])
		}
		return nil
	}
	now := alone
	if len(e.passed[at]) > 0 { // by other references, which lead from other places
		if now, _, err = e.followed(r, parent, textOf(changes[at])); err != nil {
			return err
		}
	}
	changes[at] = now
	e.passed[at] = append(e.passed[at], here)
	return nil
}

// followed returns a column after its keys have followed one reference. It returns false if the column should
// be a document and is none, so it stays.
func (e *expecter) followed(r reference, parent *job, text string) (string, bool, error) {
	if r.list != "" {
		now, err := e.list(r, parent, text)
		return now, true, err
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var document any
	if d.Decode(&document) != nil {
		return "", false, nil
	}
	document, err := e.walk(r, parent, document, steps(r.path))
	if err != nil {
		return "", true, err
	}
	now, err := json.Marshal(document)
	return string(now), true, err
}

// list moves the keys of a list.
func (e *expecter) list(r reference, parent *job, text string) (string, error) {
	separator, begin, end := r.list, "", ""
	if r.list == "array" {
		separator, begin, end = ",", "{", "}"
		text = strings.TrimSuffix(strings.TrimPrefix(text, begin), end)
	}
	if text == "" {
		return begin + end, nil
	}
	parts := strings.Split(text, separator)
	for i, part := range parts {
		key := strings.TrimSpace(part)
		now, err := e.one(r, parent, key)
		if err != nil {
			return "", err
		}
		if key != "" {
			parts[i] = strings.Replace(part, key, now, 1)
		}
	}
	return begin + strings.Join(parts, separator) + end, nil
}

// one moves one key.
func (e *expecter) one(r reference, parent *job, key string) (string, error) {
	whole := reference{link: link{columns: r.columns, parent: r.parent, targets: r.targets}}
	changes, values := map[int]any{}, make([]any, len(e.s.columns))
	at := e.at[r.columns[0]]
	values[at] = key
	err := e.moved(whole, parent, values, changes)
	now, ok := changes[at]
	switch {
	case !ok:
		return key, err
	case e.keys(r, parent) == classNumber:
		return plainNumber(textOf(now)), err
	}
	return textOf(now), err
}

// keys is what the keys that a reference holds are compared as.
func (e *expecter) keys(r reference, parent *job) class {
	if c := parent.to.column(r.targets[0]); c != nil {
		return c.class
	}
	return classText
}

// steps splits a path such as $.items[*]."a.b".
func steps(path string) (all []string) {
	path = strings.TrimPrefix(path, "$")
	for path != "" {
		if rest, ok := strings.CutPrefix(path, "[*]"); ok {
			all, path = append(all, "[*]"), rest
			continue
		}
		path = strings.TrimPrefix(path, ".")
		if rest, ok := strings.CutPrefix(path, `"`); ok {
			name, after, _ := strings.Cut(rest, `"`)
			all, path = append(all, name), after
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		all, path = append(all, path[:end]), path[end:]
	}
	return all
}

// walk moves the keys that a path leads to.
func (e *expecter) walk(r reference, parent *job, document any, path []string) (any, error) {
	if len(path) == 0 {
		switch v := document.(type) {
		case json.Number:
			now, err := e.one(r, parent, v.String())
			n, broken := strconv.ParseInt(now, 10, 64)
			keys := e.keys(r, parent)
			if keys == classNumber || keys == classFloat || broken == nil && strconv.FormatInt(n, 10) == now {
				return json.Number(now), err
			}
			return now, err // a text that is no number, or is one in another form
		case string:
			return e.one(r, parent, v)
		}
		return document, nil
	}
	switch v := document.(type) {
	case map[string]any:
		if part, ok := v[path[0]]; ok {
			now, err := e.walk(r, parent, part, path[1:])
			v[path[0]] = now
			return v, err
		}
	case []any:
		if path[0] == "[*]" {
			for i := range v {
				now, err := e.walk(r, parent, v[i], path[1:])
				if v[i] = now; err != nil {
					return v, err
				}
			}
		}
	}
	return document, nil
}
