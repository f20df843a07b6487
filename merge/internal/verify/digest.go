package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// digest is the number of rows and the sum of their hashes. The order of the rows does not matter. It is a
// sum and not an exclusive or, in which a row that is there twice would vanish.
type digest struct {
	rows      int64
	high, low uint64
}

// sum is the hash of a row, or of a key.
type sum [16]byte

func sumOf(b []byte) (s sum) {
	full := sha256.Sum256(b)
	copy(s[:], full[:])
	return s
}

func (d *digest) add(s sum) {
	var carry uint64
	d.rows++
	d.low, carry = bits.Add64(d.low, binary.BigEndian.Uint64(s[8:]), 0)
	d.high, _ = bits.Add64(d.high, binary.BigEndian.Uint64(s[:8]), carry)
}

func (d *digest) merge(o digest) {
	var carry uint64
	d.rows += o.rows
	d.low, carry = bits.Add64(d.low, o.low, 0)
	d.high, _ = bits.Add64(d.high, o.high, carry)
}

func (d digest) String() string { return fmt.Sprintf("%016x%016x", d.high, d.low) }
