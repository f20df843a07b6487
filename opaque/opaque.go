// Package opaque turns IDs into texts for strangers, and back. Snowflakes tell when and where a row was made,
// and the IDs of its neighbors can be guessed. A sealed ID tells nothing without the key, and almost no text
// that somebody makes up opens.
//
//	codec, err := opaque.New(key) // 16 bytes, from where you keep secrets
//	if err != nil { ... }
//	text := codec.Seal("order", int64(order.ID)) // 22 letters and digits
//	id, err := codec.Open("order", text)
//
// # How
//
// The text is one block of AES-128 in base 62. The block holds the ID and 8 bytes that are derived from the
// kind. Open decrypts the text and compares these 8 bytes. A text that was guessed, or that was made for
// another kind, opens with a probability of 2^-64.
//
// # Keys
//
// The first key seals, and all keys open. To change the key, first add the new one at the end in every
// process, then move it to the front, and remove the old one when no old address is in use any more.
//
// # What it is not
//
// It does not hide that two texts stand for the same row: the same ID of the same kind always has the same
// text, as an address needs. It does not say who may read the row, so a program still has to check that. And
// whoever has the key can open and seal everything.
package opaque

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

var (
	// ErrKey is returned by [New] for keys that cannot be used. It is not temporary.
	ErrKey = errors.New("opaque: invalid key")

	// ErrInvalid is returned by [Codec.Open] for every text that it does not open, and says nothing about
	// the reason. It is not temporary.
	ErrInvalid = errors.New("opaque: not a sealed ID")
)

const (
	// KeySize is how many bytes a key has.
	KeySize = 16
	// Size is how many characters a sealed ID has.
	Size = 22
)

// Codec seals and opens IDs. Make one with [New]. It is safe for concurrent use, and must not be copied.
type Codec struct {
	blocks []cipher.Block
	// tags of the kinds that were used. It is replaced as a whole by whoever adds to it.
	tags atomic.Pointer[map[string]uint64]
	// spare has *[aes.BlockSize]byte, which would be allocated otherwise, because they pass an interface.
	spare sync.Pool
}

// maxKinds limits how many tags are kept. Programs have few kinds.
const maxKinds = 1_000

// New returns a codec. Each key has 16 bytes, which should be random: the output of a password is not. The
// first key seals, and all of them open. It returns an error wrapping [ErrKey], which does not show the key,
// if there is no key, if one has another length or is all zeros, or if two are equal.
func New(keys ...[]byte) (*Codec, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: at least one key is needed", ErrKey)
	}
	c := &Codec{spare: sync.Pool{New: func() any { return new([aes.BlockSize]byte) }}}
	for i, key := range keys {
		switch {
		case len(key) != KeySize:
			return nil, fmt.Errorf("%w: key %d has %d bytes, and it needs %d", ErrKey, i, len(key), KeySize)
		case [KeySize]byte(key) == [KeySize]byte{}:
			return nil, fmt.Errorf("%w: key %d is all zeros, as if it had not been read", ErrKey, i)
		case slices.ContainsFunc(keys[:i], func(other []byte) bool { return bytes.Equal(other, key) }):
			return nil, fmt.Errorf("%w: key %d is there twice", ErrKey, i)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("%w: key %d: %w", ErrKey, i, err)
		}
		c.blocks = append(c.blocks, block)
	}
	return c, nil
}

// Seal returns the text of an ID for a kind, such as the name of the table: always 22 letters and digits. The
// same ID has the same text. Every int64 can be sealed.
func (c *Codec) Seal(kind string, id int64) string {
	b := c.spare.Get().(*[aes.BlockSize]byte)
	defer c.spare.Put(b)
	binary.BigEndian.PutUint64(b[:8], uint64(id))
	binary.BigEndian.PutUint64(b[8:], c.tag(kind))
	c.blocks[0].Encrypt(b[:], b[:])
	return encode(b)
}

// Open returns the ID in a text that Seal has made for the kind with one of the keys. For any other text it
// returns an error wrapping [ErrInvalid].
func (c *Codec) Open(kind, text string) (int64, error) {
	b := c.spare.Get().(*[aes.BlockSize]byte)
	defer c.spare.Put(b)
	want := c.tag(kind)
	for _, block := range c.blocks {
		if !decode(text, b) {
			break
		}
		block.Decrypt(b[:], b[:])
		if binary.BigEndian.Uint64(b[8:]) == want {
			return int64(binary.BigEndian.Uint64(b[:8])), nil
		}
	}
	return 0, ErrInvalid
}

// tag returns the 8 bytes of a kind.
func (c *Codec) tag(kind string) uint64 {
	known := c.tags.Load()
	if known != nil {
		if tag, ok := (*known)[kind]; ok {
			return tag
		}
	}
	tag := derive(kind)
	if known == nil {
		known = &map[string]uint64{}
	}
	if len(*known) < maxKinds {
		more := maps.Clone(*known)
		more[strings.Clone(kind)] = tag
		c.tags.Store(&more) // if another goroutine adds one now, either of them is derived again later
	}
	return tag
}

// derive returns 8 bytes for a kind. They are no secret. They only differ for different kinds.
func derive(kind string) uint64 {
	const domain = "snowflakeplugin/opaque\x00"
	var short [64]byte
	text := append(short[:0], domain...)
	text = append(text, kind...)
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}
