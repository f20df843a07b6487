package snowflakeplugin

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// ErrInvalidID is returned by [ParseID], [ParseBase62] and the methods of [ID] that read or write
// an ID, if the value is not a valid ID. Examples are malformed text, a negative number, a number
// of more than 63 bits, a JSON number that may have been rounded, NULL, and a column type that
// cannot hold an ID exactly. The error that wraps it quotes the value, shortened if it is long, and
// gives the reason. It may be shown to the sender of the value.
var ErrInvalidID = errs.ErrInvalidID

// ID is a 63-bit key. The zero value means "not set", and the plugin fills it. Negative numbers are
// not IDs. IDs of one generator sort by creation time and can be compared with < and ==.
//
// An ID keeps its exact value in every encoding:
//
//   - In SQL it is a bigint. [ID.Scan] accepts integers and decimal text. It refuses a float, which
//     has already lost digits. Use a *ID or a sql.Null[ID] for a column that can be NULL.
//   - In JSON it is a string of decimal digits, because JavaScript and many other readers keep only
//     53 bits of a number. Numbers up to 2^53-1 can still be read.
//   - As text (YAML, XML attributes, map keys, flags, forms, parameters of gin and echo) it is 1 to 19
//     decimal digits. Empty text, signs, spaces, underscores, prefixes, fractions and exponents are refused.
//   - In log/slog it is a string of the same digits.
//   - In pgx it works like an int64, also in arrays. For the simple and exec modes of pgx, see
//     package [github.com/snowflakeplugin/snowflakeplugin/pgxid].
//   - [ID.Base62] is a shorter text form for links and codes.
//
// A method that fails leaves its receiver unchanged.
//
// A conversion ID(n) checks nothing. Use it for numbers that the program itself created. For input
// from outside, use [ParseID] or one of the decoding methods. In fmt, the verbs %d and %v print the
// number. The verb %x prints the decimal digits in hex, as for every type with a String method. To
// print the number in hex, use %x with id.Int64().
type ID int64

const (
	maxDigits = 19                                   // digits of the largest ID
	wantText  = "an id is 1 to 19 decimal digits"    // ends the errors about malformed text
	wantNull  = "read it into a *ID or sql.Null[ID]" // ends the errors about NULL
)

// ParseID parses the decimal text of an ID: 1 to 19 ASCII digits, at most 9223372036854775807.
// Leading zeros are allowed, and "0" is the ID that is not set. For other text it returns 0 and an
// error that wraps [ErrInvalidID].
//
// Also use ParseID for text that you pass to GORM. GORM has its own rules for a string in an
// integer field: it reads "0123" as 83.
func ParseID(s string) (ID, error) {
	return parseDigits(s)
}

// Int64 returns the ID as a plain integer.
func (id ID) Int64() int64 { return int64(id) }

// String returns the ID in decimal. A negative number is not an ID, but String cannot return an
// error. It then returns the number with its sign, which [ParseID] refuses.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// IsZero reports whether the ID is not set. The option omitzero of encoding/json uses it.
func (id ID) IsZero() bool { return id == 0 }

// LogValue logs the ID as a string, so it stays exact in every handler. Like JavaScript, many tools
// that read logs round large numbers.
func (id ID) LogValue() slog.Value { return slog.StringValue(id.String()) }

// GormDataType makes the column a bigint on every database. GORM uses auto-increment only for its
// own types "int" and "uint", so a key of type ID never has it.
func (ID) GormDataType() string { return "bigint" }

// CreateClauses makes GORM refuse a create that would store 0 in a primary key of type ID. The
// error wraps [ErrZeroKey]. GORM calls CreateClauses when it parses a model, so this also works if
// the plugin is not in use. Two creates are refused only if it is: those under Unscoped of a map that
// names a zero, and those under Unscoped of a key of type *ID that points to a zero.
func (ID) CreateClauses(field *schema.Field) []clause.Interface { return fill.KeyClauses(field) }

// Value returns the ID as an int64 for database/sql. An ID that is not set is stored as 0 and not
// as NULL. For a negative number it returns an error that wraps [ErrInvalidID].
func (id ID) Value() (driver.Value, error) {
	if id < 0 {
		return nil, id.errNegative()
	}
	return int64(id), nil
}

// Scan reads an ID from a database column. It accepts an int64, a uint64, and a string or []byte
// with the text that [ParseID] accepts. For NULL, floats, booleans, times, negative numbers and
// numbers of more than 63 bits it returns an error that wraps [ErrInvalidID].
func (id *ID) Scan(src any) error {
	if id == nil {
		return errNilReceiver("Scan")
	}
	var (
		read ID
		err  error
	)
	switch v := src.(type) {
	case int64:
		if read = ID(v); read < 0 {
			err = read.errNegative()
		}
	case uint64:
		if v > math.MaxInt64 {
			err = invalid(strconv.FormatUint(v, 10), tooLarge)
		}
		read = ID(v)
	case string:
		read, err = parseDigits(v)
	case []byte:
		// A driver may pass NULL as a nil slice. Empty text is a different error.
		if v == nil {
			return invalid("NULL", wantNull)
		}
		read, err = parseDigits(v)
	case nil:
		return invalid("NULL", wantNull)
	case float64:
		return invalid(strconv.FormatFloat(v, 'g', -1, 64),
			"a float64 has lost digits already; make the column a bigint")
	default:
		return invalid(fmt.Sprintf("of type %T", src), "make the column a bigint, or text of digits")
	}
	return id.read(read, err)
}

// read takes what a method has read, unless it has failed.
func (id *ID) read(read ID, err error) error {
	if err == nil {
		*id = read
	}
	return err
}

const tooLarge = "the largest id is 9223372036854775807"

// parseDigits parses 1 to 19 decimal digits. It is generic so that reading a []byte needs no copy.
func parseDigits[T string | []byte](s T) (ID, error) {
	if len(s) == 0 {
		return 0, invalid(quote(s), "it is empty; "+wantText)
	}
	var n uint64
	for i := range min(len(s), maxDigits) {
		digit := s[i] - '0'
		if digit > 9 {
			return 0, errNotDigit(s, i)
		}
		n = n*10 + uint64(digit) // 19 nines are below 2^64, so this cannot overflow
	}
	if len(s) > maxDigits {
		return 0, invalid(quote(s), fmt.Sprintf("it is %d bytes long; %s", len(s), wantText))
	}
	if n > math.MaxInt64 {
		return 0, invalid(quote(s), tooLarge)
	}
	return ID(n), nil
}

// errNotDigit names the invalid character of s. It escapes non-ASCII characters, because a digit of
// another script may look like an ASCII digit.
func errNotDigit[T string | []byte](s T, offset int) error {
	if offset == 0 && (s[0] == '-' || s[0] == '+') {
		return invalid(quote(s), "it has a sign; "+wantText)
	}
	rest := string(s[offset:min(len(s), offset+utf8.UTFMax)])
	_, size := utf8.DecodeRuneInString(rest)
	return invalid(quote(s),
		fmt.Sprintf("%+q at offset %d is not a digit; %s", rest[:size], offset, wantText))
}

func (id ID) errNegative() error {
	return invalid(id.String(), "ids are never negative")
}

// errNilReceiver reports a mistake of the caller and not an invalid input, so it does not wrap
// [ErrInvalidID].
func errNilReceiver(method string) error {
	return fmt.Errorf("snowflakeplugin: %s on a nil *ID: pass the address of an ID", method)
}

func invalid(value, reason string) error {
	return fmt.Errorf("%w %s: %s", ErrInvalidID, value, reason)
}

// quote formats input for an error in ASCII and limits its length, because the input may be
// hostile.
func quote[T string | []byte](s T) string {
	const limit = 40
	if len(s) <= limit {
		return strconv.QuoteToASCII(string(s))
	}
	return strconv.QuoteToASCII(string(s[:limit])) + "..."
}

// Time returns the creation time of the ID in UTC, with a precision of one tick. l is the layout of
// the generator that issued the ID. Time returns the errors of [generator.Layout.Decompose].
func (id ID) Time(l generator.Layout) (time.Time, error) {
	parts, err := l.Decompose(int64(id))
	return parts.Time, err
}

// maxExactNumber is the largest integer that every JSON reader and writer keeps exactly, because
// many of them store numbers as float64. Above it, two integers can have the same float64.
const maxExactNumber = 1<<53 - 1

const (
	wantJSON = "send a JSON string of 1 to 19 decimal digits"

	// The clients of an API read this text, so it says only what they can do. The comment of
	// UnmarshalJSON tells the authors of the API about the json option ",string".
	rounded = "a JSON number above 9007199254740991 may have been rounded on its way; " + wantJSON
)

// AppendText appends the decimal digits of the ID to b. It returns the errors of [ID.MarshalText].
func (id ID) AppendText(b []byte) ([]byte, error) {
	if id < 0 {
		return b, id.errNegative()
	}
	return strconv.AppendInt(b, int64(id), 10), nil
}

// MarshalText returns the decimal digits of the ID. For a negative number it returns an error that
// wraps [ErrInvalidID].
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(make([]byte, 0, maxDigits)) }

// UnmarshalText parses the same text as [ParseID] and returns the same errors.
func (id *ID) UnmarshalText(text []byte) error {
	if id == nil {
		return errNilReceiver("UnmarshalText")
	}
	return id.read(parseDigits(text))
}

// UnmarshalParam parses the same text as [ParseID] and returns the same errors. gin and echo call it for a
// parameter of an address, a query or a form. Without it, gin would read "-5" and "" as numbers.
func (id *ID) UnmarshalParam(param string) error {
	if id == nil {
		return errNilReceiver("UnmarshalParam")
	}
	return id.read(parseDigits(param))
}

// MarshalJSON returns the ID as a JSON string of decimal digits. An ID that is not set is "0". For
// a negative number MarshalJSON returns an error that wraps [ErrInvalidID].
func (id ID) MarshalJSON() ([]byte, error) {
	if id < 0 {
		return nil, id.errNegative()
	}
	b := append(make([]byte, 0, maxDigits+2), '"')
	return append(strconv.AppendInt(b, int64(id), 10), '"'), nil
}

// UnmarshalJSON reads a JSON string with the text that [ParseID] accepts, or a JSON number that is
// a plain integer from 0 to 2^53-1. A JSON null leaves the ID unchanged. A larger number is refused
// even if its digits look correct, because the sender may have rounded it. Everything else is
// refused, too. Every such error wraps [ErrInvalidID].
//
// Do not use the option ",string" in the json tag of an ID field. It is not needed, and
// encoding/json then passes the digits without their quotes, so every ID above 2^53-1 is refused. The plugin
// refuses a model with such a field.
func (id *ID) UnmarshalJSON(data []byte) error {
	if id == nil {
		return errNilReceiver("UnmarshalJSON")
	}
	if string(data) == "null" {
		return nil
	}
	if last := len(data) - 1; last > 0 && data[0] == '"' && data[last] == '"' {
		return id.read(parseJSONString(data))
	}
	return id.read(parseJSONNumber(data))
}

// parseJSONString parses a JSON string, including its quotes.
func parseJSONString(data []byte) (ID, error) {
	text := data[1 : len(data)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return parseDigits(text)
	}
	// "\u0031" is another spelling of "1" and equally exact. Nobody writes it, so it may cost a
	// copy, but the size of the copy must be limited.
	if len(text) > maxDigits*len(`\u0031`) {
		return 0, invalid(quote(data), wantJSON)
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return 0, invalid(quote(data), wantJSON)
	}
	return parseDigits(s)
}

// parseJSONNumber parses a JSON value that is not a string. It accepts only a plain integer.
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
	if err == nil && n > maxExactNumber {
		return 0, invalid(quote(data), rounded)
	}
	return n, err
}

const (
	base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base62Width  = 11            // digits of the largest ID
	base62Max    = "AzL8n0Y58m7" // the largest ID
	wantBase62   = "the short form of an id is 11 characters of 0-9, A-Z and a-z"
)

// Base62 returns a short form of the ID for links and codes. It has 11 characters of the alphabet
// 0-9, A-Z, a-z, in this order, and is padded with zeros on the left. [ParseBase62] reads it back.
//
// The fixed width keeps the order: the short forms of two IDs compare byte by byte in the same way
// as the IDs. It also gives each ID exactly one spelling, whose length never grows. The short form
// is case-sensitive. Many collations and file systems ignore case, so two IDs may become equal
// there. Use a binary collation for such a column, or store the number.
//
// A negative number is not an ID, but Base62 cannot return an error. It then returns the number in
// decimal, which [ParseBase62] refuses.
func (id ID) Base62() string {
	if id < 0 {
		return id.String()
	}
	var b [base62Width]byte
	for i, n := base62Width-1, uint64(id); i >= 0; i-- {
		b[i] = base62Digits[n%62]
		n /= 62
	}
	return string(b[:])
}

// ParseBase62 parses the text that [ID.Base62] returns: exactly 11 characters of the alphabet, at
// most the largest ID. For other text it returns 0 and an error that wraps [ErrInvalidID].
func ParseBase62(s string) (ID, error) {
	if len(s) != base62Width {
		return 0, invalid(quote(s), fmt.Sprintf("it is %d bytes long; %s", len(s), wantBase62))
	}
	var n uint64
	for i := range len(s) {
		digit := strings.IndexByte(base62Digits, s[i])
		if digit < 0 {
			return 0, invalid(quote(s), fmt.Sprintf("%+q at offset %d is foreign; %s",
				s[i:i+1], i, wantBase62))
		}
		n = n*62 + uint64(digit) // this may overflow, but the check below then fails
	}
	if s > base62Max { // texts of this width compare like their numbers
		return 0, invalid(quote(s), tooLarge)
	}
	return ID(n), nil
}

// Model is gorm.Model with a key that the plugin fills. Embed it:
//
//	type Order struct {
//		snowflakeplugin.Model
//		Total int64
//	}
//
// Like gorm.Model it has soft deletion: Delete sets DeletedAt, and queries omit such rows. A model
// without soft deletion declares its own field instead:
//
//	ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
type Model struct {
	// ID is the primary key, set before the INSERT if it is zero.
	ID ID `gorm:"primaryKey" snowflake:"true"`
	// CreatedAt is the time of the INSERT by the clock of this process. GORM sets it.
	CreatedAt time.Time
	// UpdatedAt is the time of the last INSERT or UPDATE by the same clock. GORM sets it.
	UpdatedAt time.Time
	// DeletedAt is NULL until the row is deleted.
	DeletedAt gorm.DeletedAt `gorm:"index"`
}

func numbersOf(ids []ID) []int64 {
	numbers := make([]int64, len(ids))
	for i, id := range ids {
		numbers[i] = int64(id)
	}
	return numbers
}
