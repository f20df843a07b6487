package merge

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math/bits"
)

// digest is a checksum over rows in any order: the sum of a hash of every row. A sum, unlike an exclusive
// or, does not cancel out a row that is there twice.
type digest struct {
	rows      int64
	high, low uint64
	hash      hash.Hash
	buffer    [8]byte
}

func (d *digest) begin() {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	d.hash.Reset()
}

// value adds a value to the hash of a row, in a form that is the same on every kind of database.
func (d *digest) value(v any, c *column) {
	if v != nil {
		// What is no value of the column's type can be only in SQLite, and goes as it is.
		if same, err := canonical(v, c, false); err == nil {
			v = same
		}
	}
	if v == nil {
		d.hash.Write([]byte{0})
		return
	}
	text := comparableText(v, c)
	d.hash.Write([]byte{1})
	binary.BigEndian.PutUint64(d.buffer[:], uint64(len(text)))
	d.hash.Write(d.buffer[:])
	d.hash.Write([]byte(text))
}

func (d *digest) end() {
	var sum [sha256.Size]byte
	d.hash.Sum(sum[:0])
	d.rows++
	d.add(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16]))
}

func (d *digest) add(high, low uint64) {
	var carry uint64
	d.low, carry = bits.Add64(d.low, low, 0)
	d.high, _ = bits.Add64(d.high, high, carry)
}

// merge adds the rows of another digest.
func (d *digest) merge(other digest) {
	d.rows += other.rows
	d.add(other.high, other.low)
}

// subtract takes the rows of another digest away.
func (d *digest) subtract(other digest) {
	var borrow uint64
	d.rows -= other.rows
	d.low, borrow = bits.Sub64(d.low, other.low, 0)
	d.high, _ = bits.Sub64(d.high, other.high, borrow)
}

func (d *digest) String() string { return fmt.Sprintf("%016x%016x", d.high, d.low) }
