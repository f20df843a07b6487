package opaque

import (
	"crypto/aes"
	"encoding/binary"
	"math/bits"
)

const (
	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base     = uint64(len(alphabet))
	// A chunk of 10 digits fits 64 bits, so a block takes few operations on 128 bits.
	chunkDigits = 10
	chunk       = 839_299_365_868_340_224 // base^chunkDigits
)

// encode writes 128 bits in base 62. 62^22 is greater than 2^128, so 22 digits are always enough.
func encode(b *[aes.BlockSize]byte) string {
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	high, rest := hi/chunk, hi%chunk
	low, bottom := bits.Div64(rest, lo, chunk)
	top, middle := bits.Div64(high, low, chunk) // high is less than 22
	var text [Size]byte
	// Each division of a chunk waits for the one before it, so two digits of both chunks are cut off.
	for i := Size - 2; i >= Size-chunkDigits; i -= 2 {
		two, other := uint32(bottom%(base*base)), uint32(middle%(base*base))
		bottom, middle = bottom/(base*base), middle/(base*base)
		text[i], text[i+1] = alphabet[two/uint32(base)], alphabet[two%uint32(base)]
		text[i-chunkDigits], text[i-chunkDigits+1] = alphabet[other/uint32(base)], alphabet[other%uint32(base)]
	}
	text[1], text[0] = alphabet[top%base], alphabet[top/base]
	return string(text[:])
}

// decode reads 22 digits of base 62. It returns false for other characters and for numbers that 128 bits do
// not hold, so that every block has one text.
func decode(text string, b *[aes.BlockSize]byte) bool {
	if len(text) != Size {
		return false
	}
	const first, second = Size - 2*chunkDigits, Size - chunkDigits
	top, ok1 := number(text[:first])
	middle, ok2 := number(text[first:second])
	bottom, ok3 := number(text[second:])
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	// (top x chunk + middle) x chunk + bottom
	high, low := bits.Mul64(top, chunk)
	low, carry := bits.Add64(low, middle, 0)
	high += carry
	over, hi := bits.Mul64(high, chunk)
	carried, lo := bits.Mul64(low, chunk)
	lo, carry = bits.Add64(lo, bottom, 0)
	hi, overflow := bits.Add64(hi, carried, carry)
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	return over == 0 && overflow == 0
}

// number reads up to 10 digits.
func number(text string) (n uint64, ok bool) {
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9':
			n = n*base + uint64(c-'0')
		case 'A' <= c && c <= 'Z':
			n = n*base + uint64(c-'A') + 10
		case 'a' <= c && c <= 'z':
			n = n*base + uint64(c-'a') + 36
		default:
			return 0, false
		}
	}
	return n, true
}
