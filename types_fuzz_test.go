package snowflakeplugin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// The oracles below share no code with the code that they check. They use a regular expression and
// math/big.
var (
	idText     = regexp.MustCompile(`\A[0-9]{1,19}\z`)
	idNumber   = regexp.MustCompile(`\A(0|[1-9][0-9]*)\z`)
	idShort    = regexp.MustCompile(`\A[0-9A-Za-z]{11}\z`)
	maxInt     = big.NewInt(math.MaxInt64)
	maxFloated = big.NewInt(1<<53 - 1)
)

// oracleText returns the ID that text represents, or nil.
func oracleText(text string) *big.Int {
	if !idText.MatchString(text) {
		return nil
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || n.Cmp(maxInt) > 0 {
		return nil
	}
	return n
}

// checkRead compares the result of reading an ID with the oracle. The receiver held 42 before.
func checkRead(t *testing.T, input any, want *big.Int, got snowflakeplugin.ID, err error) {
	t.Helper()
	if want == nil {
		if !errors.Is(err, snowflakeplugin.ErrInvalidID) {
			t.Fatalf("%q was read as %d, %v; want an error", input, got, err)
		}
		if got != 42 {
			t.Fatalf("%q was refused and changed the receiver to %d", input, got)
		}
		return
	}
	if err != nil || big.NewInt(got.Int64()).Cmp(want) != 0 {
		t.Fatalf("%q was read as %d, %v; want %v", input, got, err, want)
	}
}

// checkRoundTrips writes id in every form and reads it back.
func checkRoundTrips(t *testing.T, id snowflakeplugin.ID) {
	t.Helper()
	same := func(form string, got snowflakeplugin.ID, err error) {
		t.Helper()
		if err != nil || got != id {
			t.Fatalf("%d came back from its %s as %d, %v", id, form, got, err)
		}
	}
	got, err := snowflakeplugin.ParseID(id.String())
	same("string", got, err)
	got, err = snowflakeplugin.ParseBase62(id.Base62())
	same("short form", got, err)
	value, err := id.Value()
	same("value", id, err)
	same("value", got, got.Scan(value))
	text, err := id.MarshalText()
	same("text", id, err)
	same("text", got, got.UnmarshalText(text))
	data, err := json.Marshal(id)
	same("JSON", id, err)
	same("JSON", got, json.Unmarshal(data, &got))
}

// maxSeed keeps very long inputs out of the corpora, because they only slow down the mutation.
const maxSeed = 256

func addTexts(f *testing.F) {
	f.Helper()
	for _, bad := range badTexts {
		if len(bad.text) <= maxSeed {
			f.Add(bad.text)
		}
	}
	for text := range goodTexts {
		f.Add(text)
	}
}

func FuzzParseID(f *testing.F) {
	addTexts(f)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := snowflakeplugin.ParseID(text)
		if err != nil {
			if got != 0 {
				t.Fatalf("%q returned %d and an error", text, got)
			}
			got = 42
		}
		checkRead(t, text, oracleText(text), got, err)
		if err == nil {
			checkRoundTrips(t, got)
			if trimmed := strings.TrimLeft(text, "0"); trimmed != "" && trimmed != got.String() {
				t.Fatalf("%q became %s", text, got)
			}
		}
	})
}

func FuzzUnmarshalText(f *testing.F) {
	addTexts(f)
	f.Fuzz(func(t *testing.T, text string) {
		id := snowflakeplugin.ID(42)
		err := id.UnmarshalText([]byte(text))
		checkRead(t, text, oracleText(text), id, err)
		if err == nil {
			checkRoundTrips(t, id)
		}
	})
}

// FuzzScan passes one input as each Go type that a driver may use.
func FuzzScan(f *testing.F) {
	for _, bad := range badTexts {
		if len(bad.text) <= maxSeed {
			f.Add(bad.text, uint64(0))
		}
	}
	for text, id := range goodTexts {
		f.Add(text, uint64(id))
	}
	for _, n := range []uint64{1, 1 << 53, math.MaxInt64, 1 << 63, math.MaxUint64} {
		f.Add("", n)
	}
	f.Fuzz(func(t *testing.T, text string, n uint64) {
		unsigned := new(big.Int).SetUint64(n)
		if unsigned.Cmp(maxInt) > 0 {
			unsigned = nil
		}
		signed := big.NewInt(int64(n))
		if signed.Sign() < 0 {
			signed = nil
		}
		for _, c := range []struct {
			src  any
			want *big.Int
		}{
			{int64(n), signed},
			{n, unsigned},
			{text, oracleText(text)},
			{[]byte(text), oracleText(text)},
			{math.Float64frombits(n), nil},
			{n%2 == 0, nil},
			{nil, nil},
		} {
			id := snowflakeplugin.ID(42)
			err := id.Scan(c.src)
			checkRead(t, c.src, c.want, id, err)
			if err == nil {
				checkRoundTrips(t, id)
			}
		}
	})
}

// oracleJSON returns what a JSON document represents: an ID, nothing (null), or neither. It uses
// encoding/json to decode the string or the number.
func oracleJSON(data []byte) (want *big.Int, null bool) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil, false
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, false // there is more text after the document
	}
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		return oracleText(v), false
	case json.Number:
		if !idNumber.MatchString(v.String()) {
			return nil, false
		}
		if n, ok := new(big.Int).SetString(v.String(), 10); ok && n.Cmp(maxFloated) <= 0 {
			return n, false
		}
	}
	return nil, false
}

func FuzzUnmarshalJSON(f *testing.F) {
	for _, bad := range badJSON {
		if len(bad.data) <= maxSeed {
			f.Add([]byte(bad.data))
		}
	}
	for _, bad := range notJSON {
		f.Add([]byte(bad))
	}
	for text := range goodTexts {
		f.Add([]byte(`"` + text + `"`))
		f.Add([]byte(text))
	}
	f.Add([]byte("null"))
	f.Add([]byte(`"\u0031\u0032"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		want, null := oracleJSON(data)

		// encoding/json itself refuses text that is not JSON, with its own errors.
		id := snowflakeplugin.ID(42)
		err := json.Unmarshal(data, &id)
		switch {
		case null:
			if err != nil || id != 42 {
				t.Fatalf("null left %d, %v", id, err)
			}
		case !json.Valid(data):
			if err == nil || id != 42 {
				t.Fatalf("%q is not JSON and left %d, %v", data, id, err)
			}
		default:
			checkRead(t, data, want, id, err)
		}

		// A direct call gives the same result, except that UnmarshalJSON does not remove
		// surrounding space.
		direct := snowflakeplugin.ID(42)
		err = direct.UnmarshalJSON(data)
		switch {
		case null && len(data) == len("null"):
			if err != nil || direct != 42 {
				t.Fatalf("null left %d, %v", direct, err)
			}
		case len(bytes.TrimSpace(data)) != len(data):
			checkRead(t, data, nil, direct, err)
		default:
			checkRead(t, data, want, direct, err)
		}
	})
}

func FuzzParseBase62(f *testing.F) {
	for _, id := range goodTexts {
		f.Add(id.Base62())
		f.Add(id.String())
	}
	for _, text := range []string{"", "AzL8n0Y58m8", "LygHa16AHYG", "zzzzzzzzzzz", "0000000000-"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want *big.Int
		if idShort.MatchString(text) {
			// The alphabet of math/big begins with the lower-case letters.
			swapped := strings.Map(func(r rune) rune {
				switch {
				case r >= 'a' && r <= 'z':
					return r - 'a' + 'A'
				case r >= 'A' && r <= 'Z':
					return r - 'A' + 'a'
				}
				return r
			}, text)
			if n, ok := new(big.Int).SetString(swapped, 62); ok && n.Cmp(maxInt) <= 0 {
				want = n
			}
		}
		got, err := snowflakeplugin.ParseBase62(text)
		if err != nil {
			if got != 0 {
				t.Fatalf("%q returned %d and an error", text, got)
			}
			got = 42
		}
		checkRead(t, text, want, got, err)
		if err == nil {
			checkRoundTrips(t, got)
			if got.Base62() != text {
				t.Fatalf("%q is a second spelling of %q", text, got.Base62())
			}
		}
		// Many inputs are a number in some base. Any such number is checked for a round trip.
		if n, err := strconv.ParseUint(text, 36, 63); err == nil {
			checkRoundTrips(t, snowflakeplugin.ID(n))
		}
	})
}
