package verify

import (
	"encoding/json"
	"strings"
)

// inside makes the keys inside a column follow their parents: those in a document or in a list.
func (e *expecter) inside(r reference, parent *job, values []any, changes map[int]any) error {
	at := e.at[r.columns[0]]
	text := textOf(values[at])
	if before, ok := changes[at]; ok { // by another reference inside of the same column
		text = textOf(before)
	}
	if r.list != "" {
		now, err := e.list(r, parent, text)
		changes[at] = now
		return err
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var document any
	if d.Decode(&document) != nil {
		return nil // it is no document, so it stays
	}
	document, err := e.walk(r, parent, document, steps(r.path))
	if err != nil {
		return err
	}
	now, err := json.Marshal(document)
	changes[at] = string(now)
	return err
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
	if now, ok := changes[at]; ok {
		return textOf(now), err
	}
	return key, err
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
			return json.Number(now), err
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
