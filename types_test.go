package snowflakeplugin_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// maxID is the largest ID.
const maxID = snowflakeplugin.ID(math.MaxInt64)

// badTexts are inputs that resemble an ID but are not valid, each with a part of its error.
var badTexts = []struct{ text, why string }{
	{"", "empty"},
	{"-1", "sign"},
	{"+1", "sign"},
	{"-0", "sign"},
	{"-9223372036854775808", "sign"},
	{" 1", `" " at offset 0`},
	{"1 ", `" " at offset 1`},
	{"1\n", `"\n" at offset 1`},
	{"1\x00", `"\x00" at offset 1`},
	{"1_000", `"_" at offset 1`},
	{"1,000", `"," at offset 1`},
	{"1/", `"/" at offset 1`}, // the ASCII character before the digits
	{"1:", `":" at offset 1`},
	{"0x10", `"x" at offset 1`},
	{"0b1", `"b" at offset 1`},
	{"1.5", `"." at offset 1`},
	{"1.0", `"." at offset 1`},
	{"1e3", `"e" at offset 1`},
	{"12x", `"x" at offset 2`},
	{"null", `"n" at offset 0`},
	{"NaN", `"N" at offset 0`},
	{`"1"`, `"\"" at offset 0`},
	{"١٢", `"\u0661\u0662": "\u0661" at offset 0`},     // Arabic digits
	{"1２", `"\uff12" at offset 1`},                     // a full-width digit
	{"1\xff", `"\xff" at offset 1`},                    // not valid UTF-8
	{"9223372036854775808", "largest id"},              // 2^63
	{"9999999999999999999", "largest id"},              // the largest of 19 digits
	{"18446744073709551616", "20 bytes long"},          // 2^64
	{"00000000000000000001", "20 bytes long"},          // one zero too many
	{strings.Repeat("1", 1<<16), "65536 bytes long"},   // hostile
	{strings.Repeat("x", 1<<16), `"x" at offset 0`},    // hostile
	{strings.Repeat("1", 19) + "x", "20 bytes long"},   // an invalid character after the last digit
	{"1" + strings.Repeat("٢", 1<<15), "at offset 1"},  // hostile, and six times longer quoted
	{"https://example.com/1", `"h" at offset 0`},       // a value from the wrong field
	{"01890a5d-ac96-774b-bcce-b302099a8057", `"a" at`}, // a UUID
}

// goodTexts are valid texts of IDs and their numbers.
var goodTexts = map[string]snowflakeplugin.ID{
	"0":                   0,
	"1":                   1,
	"007":                 7,
	"0000000000000000000": 0,
	"9007199254740993":    1<<53 + 1,
	"1541815603606036480": 1541815603606036480,
	"9223372036854775807": maxID,
}

// wantInvalid checks that an error wraps the sentinel, contains the reason and is short.
func wantInvalid(t *testing.T, err error, why string) {
	t.Helper()
	if !errors.Is(err, snowflakeplugin.ErrInvalidID) {
		t.Errorf("error %v does not wrap ErrInvalidID", err)
		return
	}
	if !strings.Contains(err.Error(), why) {
		t.Errorf("error %q does not say %q", err, why)
	}
	if len(err.Error()) > 500 {
		t.Errorf("the error has %d bytes: %.200s...", len(err.Error()), err)
	}
}

func TestParseIDReadsDecimalDigits(t *testing.T) {
	for text, want := range goodTexts {
		got, err := snowflakeplugin.ParseID(text)
		if err != nil || got != want {
			t.Errorf("ParseID(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestParseIDRefusesWhatIsNotPlainDigits(t *testing.T) {
	for _, bad := range badTexts {
		t.Run(fmt.Sprintf("%.30q", bad.text), func(t *testing.T) {
			got, err := snowflakeplugin.ParseID(bad.text)
			wantInvalid(t, err, bad.why)
			if got != 0 {
				t.Errorf("ParseID returned %d and an error", got)
			}
		})
	}
}

func TestErrorsQuoteTheValue(t *testing.T) {
	_, err := snowflakeplugin.ParseID("12x")
	const want = `snowflakeplugin: invalid id "12x": "x" at offset 2 is not a digit; ` +
		`an id is 1 to 19 decimal digits`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestIDPrintsAsANumber(t *testing.T) {
	id := snowflakeplugin.ID(255)
	for format, want := range map[string]string{
		"%d": "255", "%v": "255", "%s": "255", "%q": `"255"`, "%+v": "255", "%05d": "00255",
		"%x": "323535", // the digits in hex; the doc of ID describes this
	} {
		if got := fmt.Sprintf(format, id); got != want {
			t.Errorf("Sprintf(%q) = %q, want %q", format, got, want)
		}
	}
	if got := fmt.Sprintf("%+v", struct{ ID snowflakeplugin.ID }{id}); got != "{ID:255}" {
		t.Errorf("in a struct: %s", got)
	}
	if got := fmt.Sprintf("%x", id.Int64()); got != "ff" {
		t.Errorf("Int64 in hex = %q", got)
	}
	if got := snowflakeplugin.ID(math.MinInt64).String(); got != "-9223372036854775808" {
		t.Errorf("String of the lowest number = %q", got)
	}
}

func TestIsZeroMeansNotSet(t *testing.T) {
	var id snowflakeplugin.ID
	if !id.IsZero() || snowflakeplugin.ID(1).IsZero() || snowflakeplugin.ID(-1).IsZero() {
		t.Error("IsZero must be true for 0 and only for 0")
	}
}

func TestScanReadsExactValues(t *testing.T) {
	sources := map[string]struct {
		src  any
		want snowflakeplugin.ID
	}{
		"int64":             {int64(math.MaxInt64), maxID},
		"int64 zero":        {int64(0), 0},
		"uint64":            {uint64(math.MaxInt64), maxID},
		"string":            {"1541815603606036480", 1541815603606036480},
		"bytes":             {[]byte("1541815603606036480"), 1541815603606036480},
		"string with zeros": {"0042", 42},
	}
	for name, c := range sources {
		t.Run(name, func(t *testing.T) {
			id := snowflakeplugin.ID(5)
			if err := id.Scan(c.src); err != nil || id != c.want {
				t.Errorf("Scan(%v) left %d, %v; want %d", c.src, id, err, c.want)
			}
		})
	}
}

func TestScanRefusesWhatIsNotAnExactID(t *testing.T) {
	sources := map[string]struct {
		src any
		why string
	}{
		"NULL":                {nil, "NULL: read it into a *ID or sql.Null[ID]"},
		"NULL as bytes":       {[]byte(nil), "NULL: read it into a *ID or sql.Null[ID]"},
		"empty bytes":         {[]byte{}, "empty"},
		"negative":            {int64(-1), "-1: ids are never negative"},
		"lowest":              {int64(math.MinInt64), "never negative"},
		"uint64 too large":    {uint64(math.MaxInt64) + 1, "9223372036854775808: the largest id"},
		"uint64 largest":      {uint64(math.MaxUint64), "18446744073709551615"},
		"float64":             {float64(7000000000000000001), "7e+18: a float64 has lost digits"},
		"float64 small":       {float64(7), "a float64 has lost digits"},
		"NaN":                 {math.NaN(), "NaN: a float64"},
		"bool":                {true, "type bool"},
		"time":                {time.Unix(0, 0), "type time.Time"},
		"int, not a driver's": {7, "type int:"},
	}
	for name, c := range sources {
		t.Run(name, func(t *testing.T) {
			id := snowflakeplugin.ID(42)
			wantInvalid(t, id.Scan(c.src), c.why)
			if id != 42 {
				t.Errorf("the refused value changed the receiver to %d", id)
			}
		})
	}
}

func TestScanRefusesBadText(t *testing.T) {
	for _, bad := range badTexts {
		for _, src := range []any{bad.text, []byte(bad.text)} {
			id := snowflakeplugin.ID(42)
			wantInvalid(t, id.Scan(src), bad.why)
			if id != 42 {
				t.Errorf("Scan(%.40q) changed the receiver to %d", bad.text, id)
			}
		}
	}
}

func TestMethodsOnANilIDReturnAnError(t *testing.T) {
	var id *snowflakeplugin.ID
	for method, err := range map[string]error{
		"Scan":          id.Scan(int64(1)),
		"UnmarshalText": id.UnmarshalText([]byte("1")),
		"UnmarshalJSON": id.UnmarshalJSON([]byte("1")),
	} {
		if err == nil || !strings.Contains(err.Error(), method+" on a nil *ID") {
			t.Errorf("%s on a nil *ID: %v", method, err)
		}
		if errors.Is(err, snowflakeplugin.ErrInvalidID) {
			t.Errorf("%s on a nil *ID blames the input: %v", method, err)
		}
	}
}

func TestValueIsAnInt64(t *testing.T) {
	for _, id := range []snowflakeplugin.ID{0, 1, maxID} {
		if v, err := id.Value(); err != nil || v != driver.Value(int64(id)) {
			t.Errorf("Value of %d = %T(%v), %v", id, v, v, err)
		}
	}
	v, err := snowflakeplugin.ID(-7).Value()
	wantInvalid(t, err, "-7: ids are never negative")
	if v != nil {
		t.Errorf("Value of a negative number = %v and an error", v)
	}
}

func TestNullIDKeepsNULLApartFromZero(t *testing.T) {
	var null sql.Null[snowflakeplugin.ID]
	if err := null.Scan(nil); err != nil || null.Valid {
		t.Errorf("Scan(nil) = %+v, %v", null, err)
	}
	if v, err := null.Value(); err != nil || v != nil {
		t.Errorf("Value of NULL = %v, %v", v, err)
	}
	if err := null.Scan(int64(0)); err != nil || !null.Valid {
		t.Errorf("Scan(0) = %+v, %v", null, err)
	}
	if v, err := null.Value(); err != nil || v != driver.Value(int64(0)) {
		t.Errorf("Value of zero = %T(%v), %v", v, v, err)
	}
	wantInvalid(t, null.Scan(int64(-1)), "never negative")
}

// These limits are part of the contract of the type, because it is used in every row.
func TestReadingAndWritingAllocateNoMoreThanTheirResult(t *testing.T) {
	id := snowflakeplugin.ID(1541815603606036480)
	var (
		src      any = id.Int64()
		unsigned any = uint64(id)
		text         = id.String()
		asText       = []byte(text)
		inBytes  any = asText
		inText   any = text
		quoted       = []byte(`"` + text + `"`)
		number       = []byte("9007199254740991")
		short        = id.Base62()
		buf          = make([]byte, 0, 32)
		into     snowflakeplugin.ID
		sink     any
		err      error
	)
	cases := []struct {
		name string
		want float64
		call func()
	}{
		{"String", 1, func() { text = id.String() }},
		{"MarshalJSON", 1, func() { asText, err = id.MarshalJSON() }},
		{"MarshalText", 1, func() { asText, err = id.MarshalText() }},
		{"AppendText", 0, func() { buf, err = id.AppendText(buf[:0]) }},
		{"Base62", 1, func() { short = id.Base62() }},
		{"Value", 1, func() { sink, err = id.Value() }},
		{"ParseID", 0, func() { into, err = snowflakeplugin.ParseID(text) }},
		{"ParseBase62", 0, func() { into, err = snowflakeplugin.ParseBase62(short) }},
		{"UnmarshalText", 0, func() { err = into.UnmarshalText(asText) }},
		{"UnmarshalJSON of a string", 0, func() { err = into.UnmarshalJSON(quoted) }},
		{"UnmarshalJSON of a number", 0, func() { err = into.UnmarshalJSON(number) }},
		{"Scan of an int64", 0, func() { err = into.Scan(src) }},
		{"Scan of a uint64", 0, func() { err = into.Scan(unsigned) }},
		{"Scan of bytes", 0, func() { err = into.Scan(inBytes) }},
		{"Scan of a string", 0, func() { err = into.Scan(inText) }},
	}
	for _, c := range cases {
		got := testing.AllocsPerRun(100, c.call)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got > c.want {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.want)
		}
	}
	_ = sink
}

func TestBase62IsElevenCharactersAndReadsBack(t *testing.T) {
	for id, want := range map[snowflakeplugin.ID]string{
		0:                   "00000000000",
		9:                   "00000000009",
		10:                  "0000000000A",
		35:                  "0000000000Z",
		36:                  "0000000000a",
		61:                  "0000000000z",
		62:                  "00000000010",
		839299365868340223:  "0zzzzzzzzzz", // 62^10 - 1
		839299365868340224:  "10000000000",
		1541815603606036480: "1ptWyK4WgZU",
		maxID:               "AzL8n0Y58m7",
	} {
		if got := id.Base62(); got != want {
			t.Errorf("Base62 of %d = %q, want %q", id, got, want)
		}
		if got, err := snowflakeplugin.ParseBase62(want); err != nil || got != id {
			t.Errorf("ParseBase62(%q) = %d, %v; want %d", want, got, err, id)
		}
	}
}

func TestBase62SortsAsTheIDsDo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		// The numbers have every length, and some are close pairs. A plain random int64 is nearly
		// always long.
		a := snowflakeplugin.ID(r.Int64() >> r.IntN(63))
		b := snowflakeplugin.ID(r.Int64() >> r.IntN(63))
		if r.IntN(4) == 0 && a < maxID {
			b = a + 1
		}
		if (a < b) != (a.Base62() < b.Base62()) {
			t.Fatalf("%d and %d sort differently as %q and %q", a, b, a.Base62(), b.Base62())
		}
	}
}

func TestParseBase62RefusesEverySecondSpelling(t *testing.T) {
	for _, bad := range []struct{ text, why string }{
		{"", "0 bytes long"},
		{"1", "1 bytes long"},
		{"0000000001", "10 bytes long"},
		{"000000000001", "12 bytes long"},
		{strings.Repeat("z", 1<<16), "65536 bytes long"},
		{"0000000000-", `"-" at offset 10`},
		{"-0000000001", `"-" at offset 0`},
		{"+0000000001", `"+" at offset 0`},
		{" 0000000001", `" " at offset 0`},
		{"0000000001_", `"_" at offset 10`},
		{"000000000é", `at offset 9`}, // eleven bytes
		{"AzL8n0Y58m8", "largest id"}, // 2^63
		{"Azzzzzzzzzz", "largest id"},
		{"LygHa16AHYF", "largest id"}, // 2^64 - 1
		{"LygHa16AHYG", "largest id"}, // 2^64: wraps to 0 in a careless sum
		{"LygHa16AHYH", "largest id"}, // wraps to 1
		{"zzzzzzzzzzz", "largest id"},
	} {
		got, err := snowflakeplugin.ParseBase62(bad.text)
		wantInvalid(t, err, bad.why)
		if got != 0 {
			t.Errorf("ParseBase62(%.20q) returned %d and an error", bad.text, got)
		}
	}
}

func TestBase62OfANegativeNumberReadsBackAsNoID(t *testing.T) {
	for _, n := range []snowflakeplugin.ID{-1, -1234567890, math.MinInt64} {
		short := n.Base62()
		if short != n.String() {
			t.Errorf("Base62 of %d = %q", n, short)
		}
		if _, err := snowflakeplugin.ParseBase62(short); err == nil {
			t.Errorf("ParseBase62 accepts %q", short)
		}
	}
}
