package snowflakeplugin

import (
	"fmt"
	"strings"
)

const (
	base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base62Width  = 11            // digits of the largest ID
	base62Max    = "AzL8n0Y58m7" // the largest ID
	wantBase62   = "the short form of an id is 11 characters of 0-9, A-Z and a-z"
)

// Base62 returns a short form of the ID, for links and codes: 11 characters of the alphabet
// 0-9, A-Z, a-z, in that order, padded with zeros on the left. [ParseBase62] reads it back.
//
// The width is fixed because that keeps the order: the short forms of two IDs compare byte by byte
// as the IDs do, and no ID has a second spelling or one that grows with the years. Case matters.
// Wherever text is compared without case, as in many a collation and file system, two IDs may
// become one: give such a column a binary collation, or keep the number.
//
// It reports no error, so a negative number, which is no ID, comes out in decimal, in a form that
// [ParseBase62] refuses.
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

// ParseBase62 reads what [ID.Base62] writes and nothing else: exactly 11 characters, none foreign,
// at most the largest ID. Anything else is an error wrapping [ErrInvalidID], and the ID returned
// with it is 0.
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
		n = n*62 + uint64(digit) // may wrap; what is returned below cannot have
	}
	if s > base62Max { // text of this width compares as its number does
		return 0, invalid(quote(s), tooLarge)
	}
	return ID(n), nil
}
