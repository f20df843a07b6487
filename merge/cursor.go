package merge

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
)

// A cursor is the key of the last row that was written, as the source has it. It is kept in the journal, so
// that it has to come back from text as exactly the same values.

type cursorValue struct {
	Int   *int64  `json:"i,omitempty"`
	Text  *string `json:"t,omitempty"`
	Bytes *string `json:"b,omitempty"`
	Float *string `json:"f,omitempty"`
	Large *string `json:"u,omitempty"`
}

func writeCursor(key []any) (string, error) {
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
		case string:
			values[i].Text = &v
		case []byte:
			text := base64.StdEncoding.EncodeToString(v)
			values[i].Bytes = &text
		default:
			return "", fmt.Errorf("a key of type %T cannot be kept", v)
		}
	}
	text, err := json.Marshal(values)
	return string(text), err
}

func readCursor(text string) ([]any, error) {
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
		case v.Text != nil:
			key[i] = *v.Text
		}
		if err != nil {
			return nil, fmt.Errorf("the journal holds the key %q: %w", text, err)
		}
	}
	return key, nil
}
