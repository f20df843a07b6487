package sqldb

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// cursorValue is one value of a cursor. A cursor is the primary key of the last row that was written, with
// the values of the source. It is stored as text and must come back as exactly the same values.
type cursorValue struct {
	Int   *int64  `json:"i,omitempty"`
	Text  *string `json:"t,omitempty"`
	Bytes *string `json:"b,omitempty"`
	Float *string `json:"f,omitempty"`
	Large *string `json:"u,omitempty"`
	Raw   *string `json:"r,omitempty"` // a text that is not valid UTF-8
	Null  bool    `json:"n,omitempty"`
}

// WriteCursor returns a key as text that [ReadCursor] understands.
func WriteCursor(key []any) (string, error) {
	values := make([]cursorValue, len(key))
	for i, v := range key {
		switch v := v.(type) {
		case int64:
			values[i].Int = &v
		case uint64:
			text := strconv.FormatUint(v, 10)
			values[i].Large = &text
		case float64:
			text := strconv.FormatFloat(v, 'g', -1, 64)
			values[i].Float = &text
		case nil:
			values[i].Null = true
		case string:
			if utf8.ValidString(v) {
				values[i].Text = &v
				continue
			}
			text := base64.StdEncoding.EncodeToString([]byte(v))
			values[i].Raw = &text
		case []byte:
			text := base64.StdEncoding.EncodeToString(v)
			values[i].Bytes = &text
		default:
			return "", fmt.Errorf("a key of type %T cannot be stored", v)
		}
	}
	text, err := json.Marshal(values)
	return string(text), err
}

// ReadCursor returns the key that [WriteCursor] wrote. The key of "" is nil.
func ReadCursor(text string) ([]any, error) {
	if text == "" {
		return nil, nil
	}
	var values []cursorValue
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		return nil, fmt.Errorf("the journal holds the key %q: %w", text, err)
	}
	key := make([]any, len(values))
	for i, v := range values {
		var err error
		switch {
		case v.Int != nil:
			key[i] = *v.Int
		case v.Large != nil:
			key[i], err = strconv.ParseUint(*v.Large, 10, 64)
		case v.Float != nil:
			key[i], err = strconv.ParseFloat(*v.Float, 64)
		case v.Bytes != nil:
			key[i], err = base64.StdEncoding.DecodeString(*v.Bytes)
		case v.Raw != nil:
			var raw []byte
			raw, err = base64.StdEncoding.DecodeString(*v.Raw)
			key[i] = string(raw)
		case v.Text != nil:
			key[i] = *v.Text
		}
		if err != nil {
			return nil, fmt.Errorf("the journal holds the key %q: %w", text, err)
		}
	}
	return key, nil
}
