package snowflakeplugin

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// maxExactNumber is the largest integer that a reader or writer of JSON is sure to keep exactly
// when it holds numbers as float64: one more, and two integers share a float.
const maxExactNumber = 1<<53 - 1

const (
	wantJSON = "send a JSON string of 1 to 19 decimal digits"

	// The json option ",string" takes the quotes away before UnmarshalJSON is called, so an exact
	// string then looks like a bare number. The hint costs a line and saves an afternoon.
	rounded = "a JSON number above 9007199254740991 may have been rounded on its way; " + wantJSON +
		`, and drop ",string" from the json tag of the field if it is there`
)

// AppendText appends the decimal digits of the ID to b; see [ID.MarshalText].
func (id ID) AppendText(b []byte) ([]byte, error) {
	if id < 0 {
		return b, id.errNegative()
	}
	return strconv.AppendInt(b, int64(id), 10), nil
}

// MarshalText returns the decimal digits of the ID. A negative number is an error wrapping
// [ErrInvalidID].
func (id ID) MarshalText() ([]byte, error) {
	if id < 0 {
		return nil, id.errNegative()
	}
	return strconv.AppendInt(make([]byte, 0, maxDigits), int64(id), 10), nil
}

// UnmarshalText reads the text that [ParseID] reads, with the same errors.
func (id *ID) UnmarshalText(text []byte) error {
	if id == nil {
		return errNilReceiver("UnmarshalText")
	}
	read, err := parseDigits(text)
	if err != nil {
		return err
	}
	*id = read
	return nil
}

// MarshalJSON returns the ID as a JSON string of decimal digits; the ID that is not set is "0".
// A negative number is an error wrapping [ErrInvalidID].
func (id ID) MarshalJSON() ([]byte, error) {
	if id < 0 {
		return nil, id.errNegative()
	}
	b := append(make([]byte, 0, maxDigits+2), '"')
	return append(strconv.AppendInt(b, int64(id), 10), '"'), nil
}

// UnmarshalJSON reads a JSON string that holds the text [ParseID] reads, or a JSON number that is
// a plain integer from 0 to 2^53-1; null leaves the ID as it was. A larger number is refused even
// if its digits look right: whoever sent it may have rounded it. Everything else is refused as
// well, and every refusal wraps [ErrInvalidID].
//
// Fields of this type need no ",string" in their json tag, and must not have it: encoding/json then
// hands the digits over without their quotes, which makes every ID above 2^53-1 such a number.
func (id *ID) UnmarshalJSON(data []byte) error {
	if id == nil {
		return errNilReceiver("UnmarshalJSON")
	}
	if string(data) == "null" {
		return nil
	}
	var (
		read ID
		err  error
	)
	if last := len(data) - 1; last > 0 && data[0] == '"' && data[last] == '"' {
		read, err = parseJSONString(data)
	} else {
		read, err = parseJSONNumber(data)
	}
	if err != nil {
		return err
	}
	*id = read
	return nil
}

// parseJSONString reads a JSON string, quotes included.
func parseJSONString(data []byte) (ID, error) {
	text := data[1 : len(data)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return parseDigits(text)
	}
	// "\u0031" is another spelling of "1" and as exact. Nobody writes it, so it may cost a copy,
	// but not an unbounded one.
	if len(text) > maxDigits*len(`\u0031`) {
		return 0, invalid(quote(data), wantJSON)
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return 0, invalid(quote(data), wantJSON)
	}
	return parseDigits(s)
}

// parseJSONNumber reads a JSON value that is not a string: only a plain integer passes.
func parseJSONNumber(data []byte) (ID, error) {
	for _, c := range data {
		if c < '0' || c > '9' {
			return 0, invalid(quote(data), "it is not a plain whole number; "+wantJSON)
		}
	}
	if len(data) == 0 || data[0] == '0' && len(data) > 1 {
		return 0, invalid(quote(data), "it is not a JSON number; "+wantJSON)
	}
	if len(data) > maxDigits {
		return 0, invalid(quote(data), rounded)
	}
	n, err := parseDigits(data)
	if err != nil {
		return 0, err
	}
	if n > maxExactNumber {
		return 0, invalid(quote(data), rounded)
	}
	return n, nil
}
