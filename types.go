package snowflakeplugin

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"unicode/utf8"
)

// ErrInvalidID is returned by [ParseID], [ParseBase62] and the methods of [ID] that read or write
// one when the value at hand is no ID: malformed text, a negative number, a number beyond 63 bits,
// a JSON number that may already have been rounded, NULL, or a column type that cannot hold an ID
// exactly. The error around it quotes the value, cut short if it is long, and says what is wrong
// with it, so it may be shown to whoever sent the value.
var ErrInvalidID = errors.New("snowflakeplugin: invalid id")

// ID is a 63-bit key. Its zero value means "not set" and is what the plugin fills; negative
// numbers are never IDs. IDs of one generator order by creation, and compare with < and ==.
//
// An ID stays exact on every way in and out:
//
//   - In SQL it is a bigint. [ID.Scan] takes integers and decimal text, and refuses a float, which
//     has lost digits before it gets here. A column that may be NULL is a *ID or a sql.Null[ID].
//   - In JSON it is a string of decimal digits, because JavaScript and many other readers keep
//     only 53 bits of a number. Numbers are still read, up to 2^53-1.
//   - As text (YAML, XML attributes, map keys, flags, forms) it is 1 to 19 decimal digits, and
//     nothing else: no sign, space, underscore, prefix, fraction or exponent.
//   - In log/slog it is the same digits, as a string.
//   - In pgx it is what an int64 is, arrays included; see package
//     [github.com/snowflakeplugin/snowflakeplugin/pgxid] for its simple and exec modes.
//   - [ID.Base62] is a shorter text form, for links and codes.
//
// Every method that fails leaves its receiver as it was.
//
// A conversion, ID(n), checks nothing. It is right for numbers the program made itself; whatever
// comes from outside goes through [ParseID] or one of the decoding methods. Among the verbs of fmt,
// %d and %v print the number, while %x prints the hex of its digits, as for every type with a
// String method: use %x with id.Int64().
type ID int64

const (
	maxDigits = 19                                   // of the largest ID, and of any text read as one
	wantText  = "an id is 1 to 19 decimal digits"    // ends the errors about malformed text
	wantNull  = "read it into a *ID or sql.Null[ID]" // ends the errors about NULL
)

// ParseID reads the decimal text of an ID: 1 to 19 ASCII digits, at most 9223372036854775807.
// Leading zeros are allowed, and "0" is the ID that is not set. Anything else is an error wrapping
// [ErrInvalidID], and the ID returned with it is 0.
//
// Use it for text on its way to GORM too. GORM has rules of its own for a string that it puts into
// an integer field, and in those "0123" is 83.
func ParseID(s string) (ID, error) {
	return parseDigits(s)
}

// Int64 returns the ID as a plain integer.
func (id ID) Int64() int64 { return int64(id) }

// String returns the ID in decimal. It reports no error, so a negative number, which is no ID,
// comes out as it is, sign included, in a form that [ParseID] refuses.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// IsZero reports whether the ID is not set. The omitzero option of encoding/json uses it.
func (id ID) IsZero() bool { return id == 0 }

// LogValue logs the ID as a string, exactly, whichever handler writes it: tools that read logs
// round large numbers as readily as JavaScript does.
func (id ID) LogValue() slog.Value { return slog.StringValue(id.String()) }

// GormDataType makes the column a bigint on every database. GORM gives auto-increment only to its
// own "int" and "uint", so a key of this type never has it.
func (ID) GormDataType() string { return "bigint" }

// Value returns the ID as an int64 for database/sql; the ID that is not set is 0, not NULL.
// A negative number is an error wrapping [ErrInvalidID].
func (id ID) Value() (driver.Value, error) {
	if id < 0 {
		return nil, id.errNegative()
	}
	return int64(id), nil
}

// Scan reads an ID from a database column: an int64, a uint64, or decimal text as [ParseID] reads
// it, from a string or []byte. NULL, floats, booleans, times, negative numbers and numbers beyond
// 63 bits are errors wrapping [ErrInvalidID].
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
		// A driver may hand out NULL as a nil slice; empty text is a different mistake.
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
	if err != nil {
		return err
	}
	*id = read
	return nil
}

const tooLarge = "the largest id is 9223372036854775807"

// parseDigits reads 1 to 19 decimal digits. It takes both kinds of text so that reading a []byte
// costs no copy.
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
		n = n*10 + uint64(digit) // 19 nines are below 2^64: this cannot wrap
	}
	if len(s) > maxDigits {
		return 0, invalid(quote(s), fmt.Sprintf("it is %d bytes long; %s", len(s), wantText))
	}
	if n > math.MaxInt64 {
		return 0, invalid(quote(s), tooLarge)
	}
	return ID(n), nil
}

// errNotDigit says which character of s is in the way. It escapes what is not ASCII: a digit of
// another script may look like one of ours.
func errNotDigit[T string | []byte](s T, at int) error {
	if at == 0 && (s[0] == '-' || s[0] == '+') {
		return invalid(quote(s), "it has a sign; "+wantText)
	}
	rest := string(s[at:min(len(s), at+utf8.UTFMax)])
	_, size := utf8.DecodeRuneInString(rest)
	return invalid(quote(s),
		fmt.Sprintf("%+q at offset %d is not a digit; %s", rest[:size], at, wantText))
}

func (id ID) errNegative() error {
	return invalid(id.String(), "ids are never negative")
}

// errNilReceiver is the caller's mistake and says nothing about the input, so it does not wrap
// [ErrInvalidID].
func errNilReceiver(method string) error {
	return fmt.Errorf("snowflakeplugin: %s on a nil *ID: pass the address of an ID", method)
}

func invalid(value, reason string) error {
	return fmt.Errorf("%w %s: %s", ErrInvalidID, value, reason)
}

// quote renders input for an error: in ASCII, and no longer than a line, for it may be hostile.
func quote[T string | []byte](s T) string {
	const limit = 40
	if len(s) <= limit {
		return strconv.QuoteToASCII(string(s))
	}
	return strconv.QuoteToASCII(string(s[:limit])) + "..."
}
