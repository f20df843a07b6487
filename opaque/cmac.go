package opaque

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
)

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
