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
// The text is one block of AES-128 in base 62. The block holds the ID and a tag of 8 bytes that is derived
// from the kind. Open decrypts the text and compares the tag. There are two forms of it:
//
//   - a keyed tag is AES-CMAC (RFC 4493) of the kind, under a key that is derived from the sealing key.
//     Whoever finds out what a text holds by other means cannot tell the tag of another kind;
//   - a plain tag is SHA-256 of the kind, which everybody can compute.
//
// For each key and form, a text that was guessed, or that was made for another kind, opens with a probability
// of 2^-64. So it is 2^-63 with one key as long as both forms open.
//
// # From plain tags to keyed ones
//
// [New] seals with plain tags and opens both forms, as every process has to that may get a keyed text. New
// programs take [NewCodec] with [WithOnlyKeyedTags]. A program whose texts are in use goes there in three
// steps, each in every process before the next one begins:
//
//  1. Run this version, which opens both forms.
//  2. Use [WithKeyedTags]. From then on the text of an ID is another one, and the old one stays valid.
//  3. When no old address is in use any more, use [WithOnlyKeyedTags].
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
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
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
	// ErrKey is returned by [New] and [NewCodec] for keys that cannot be used. It is not temporary.
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

// Codec seals and opens IDs. Make one with [New] or [NewCodec]. It is safe for concurrent use, and must not
// be copied.
type Codec struct {
	keys []key
	// keyed means that texts are sealed with keyed tags, and only that no others open.
	keyed, only bool
	// tags of the kinds that were used. It is replaced as a whole by whoever adds to it.
	tags atomic.Pointer[map[string]tags]
	// spare has *[aes.BlockSize]byte, which would be allocated otherwise, because they pass an interface.
	spare sync.Pool
}

// A key is what one key of the user does: it seals texts, and makes tags.
type key struct{ text, tag cipher.Block }

// tags are those of one kind.
type tags struct {
	plain uint64
	keyed []uint64 // for each key
}

// maxKinds limits how many tags are kept. Programs have few kinds.
const maxKinds = 1_000

// Option changes one property of a [Codec].
type Option interface{ apply(*Codec) }

type option func(*Codec)

func (o option) apply(c *Codec) { o(c) }

// WithKeyedTags makes the codec seal with keyed tags. So it seals an ID as another text than without the
// option, which opens as before. Every process that may get such a text needs a version that opens it, but
// not the option. By default a codec seals with plain tags.
func WithKeyedTags() Option { return option(func(c *Codec) { c.keyed = true }) }

// WithOnlyKeyedTags is [WithKeyedTags], and texts with plain tags do not open any more. By default a codec
// opens both.
func WithOnlyKeyedTags() Option { return option(func(c *Codec) { c.keyed, c.only = true, true }) }

// New is [NewCodec] without options.
func New(keys ...[]byte) (*Codec, error) { return NewCodec(keys) }

// NewCodec returns a codec. Each key has 16 bytes, which should be random: the output of a password is not.
// The first key seals, and all of them open. It returns an error wrapping [ErrKey], which does not show the
// key, if there is no key, if one has another length or is all zeros, or if two are equal. An option that is
// nil changes nothing.
func NewCodec(keys [][]byte, opts ...Option) (*Codec, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: at least one key is needed", ErrKey)
	}
	c := &Codec{spare: sync.Pool{New: func() any { return new([aes.BlockSize]byte) }}}
	for _, opt := range opts {
		if opt != nil {
			opt.apply(c)
		}
	}
	for i, secret := range keys {
		switch {
		case len(secret) != KeySize:
			return nil, fmt.Errorf("%w: key %d has %d bytes, and it needs %d", ErrKey, i, len(secret), KeySize)
		case [KeySize]byte(secret) == [KeySize]byte{}:
			return nil, fmt.Errorf("%w: key %d is all zeros, as if it had not been read", ErrKey, i)
		case slices.ContainsFunc(keys[:i], func(other []byte) bool { return bytes.Equal(other, secret) }):
			return nil, fmt.Errorf("%w: key %d is there twice", ErrKey, i)
		}
		k, err := newKey(secret)
		if err != nil {
			return nil, fmt.Errorf("%w: key %d: %w", ErrKey, i, err)
		}
		c.keys = append(c.keys, k)
	}
	return c, nil
}

// newKey derives the key of the tags, because one key should serve one purpose.
func newKey(secret []byte) (k key, err error) {
	if k.text, err = aes.NewCipher(secret); err != nil {
		return k, err
	}
	derived, err := hkdf.Key(sha256.New, secret, nil, "snowflakeplugin/opaque tag", KeySize)
	if err != nil {
		return k, err
	}
	k.tag, err = aes.NewCipher(derived)
	return k, err
}

// Seal returns the text of an ID for a kind, such as the name of the table: always 22 letters and digits. The
// same ID has the same text. Every int64 can be sealed.
func (c *Codec) Seal(kind string, id int64) string {
	b := c.spare.Get().(*[aes.BlockSize]byte)
	defer c.spare.Put(b)
	own := c.tagsOf(kind)
	tag := own.plain
	if c.keyed {
		tag = own.keyed[0]
	}
	binary.BigEndian.PutUint64(b[:8], uint64(id))
	binary.BigEndian.PutUint64(b[8:], tag)
	c.keys[0].text.Encrypt(b[:], b[:])
	return encode(b)
}

// Open returns the ID in a text that Seal has made for the kind with one of the keys. For any other text it
// returns an error wrapping [ErrInvalid].
func (c *Codec) Open(kind, text string) (int64, error) {
	b := c.spare.Get().(*[aes.BlockSize]byte)
	defer c.spare.Put(b)
	want := c.tagsOf(kind)
	for i, k := range c.keys {
		if !decode(text, b) {
			break
		}
		k.text.Decrypt(b[:], b[:])
		if tag := binary.BigEndian.Uint64(b[8:]); tag == want.keyed[i] || tag == want.plain && !c.only {
			return int64(binary.BigEndian.Uint64(b[:8])), nil
		}
	}
	return 0, ErrInvalid
}

// tagsOf returns the tags of a kind.
func (c *Codec) tagsOf(kind string) tags {
	known := c.tags.Load()
	if known != nil {
		if found, ok := (*known)[kind]; ok {
			return found
		}
	}
	made := tags{plain: plainTag(kind), keyed: make([]uint64, len(c.keys))}
	for i, k := range c.keys {
		sum := cmac(k.tag, []byte(kind))
		made.keyed[i] = binary.BigEndian.Uint64(sum[:])
	}
	if known == nil {
		known = &map[string]tags{}
	}
	if len(*known) < maxKinds {
		more := maps.Clone(*known)
		more[strings.Clone(kind)] = made
		c.tags.Store(&more) // if another goroutine adds one now, either of them is derived again later
	}
	return made
}

// plainTag returns 8 bytes for a kind. They are no secret. They only differ for different kinds.
func plainTag(kind string) uint64 {
	const domain = "snowflakeplugin/opaque\x00"
	var short [64]byte
	text := append(short[:0], domain...)
	text = append(text, kind...)
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// cmac returns the AES-CMAC of a message, as RFC 4493 defines it.
func cmac(block cipher.Block, message []byte) (sum [aes.BlockSize]byte) {
	var subkey [aes.BlockSize]byte
	block.Encrypt(subkey[:], subkey[:])
	double(&subkey)
	for len(message) > aes.BlockSize {
		subtle.XORBytes(sum[:], sum[:], message[:aes.BlockSize])
		block.Encrypt(sum[:], sum[:])
		message = message[aes.BlockSize:]
	}
	// The last block may be incomplete, and is the only one of an empty message.
	subtle.XORBytes(sum[:], sum[:], message)
	if len(message) < aes.BlockSize {
		sum[len(message)] ^= 0x80
		double(&subkey)
	}
	subtle.XORBytes(sum[:], sum[:], subkey[:])
	block.Encrypt(sum[:], sum[:])
	return sum
}

// double multiplies by x in the field of 2^128 elements.
func double(b *[aes.BlockSize]byte) {
	high, low := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	binary.BigEndian.PutUint64(b[:8], high<<1|low>>63)
	binary.BigEndian.PutUint64(b[8:], low<<1^high>>63*0x87)
}
