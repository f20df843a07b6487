package opaque

import (
	"crypto/aes"
	"encoding/hex"
	"testing"
)

// The examples of RFC 4493, section 4.
func TestCMACIsThatOfTheStandard(t *testing.T) {
	t.Parallel()
	block, err := aes.NewCipher(unhex(t, "2b7e151628aed2a6abf7158809cf4f3c"))
	if err != nil {
		t.Fatal(err)
	}
	message := unhex(t, "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"+
		"30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710")
	for length, want := range map[int]string{
		0:  "bb1d6929e95937287fa37d129b756746",
		16: "070a16b46b4d4144f79bdd9dd04a287c",
		40: "dfa66747de9ae63030ca32611497c827",
		64: "51f0bebf7e3b9d92fc49741779363cfe",
	} {
		sum := cmac(block, message[:length])
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("of %d bytes: %s, want %s", length, got, want)
		}
	}
	// And those of the keys that are made on the way.
	var subkey [aes.BlockSize]byte
	block.Encrypt(subkey[:], subkey[:])
	for _, want := range []string{"fbeed618357133667c85e08f7236a8de", "f7ddac306ae266ccf90bc11ee46d513b"} {
		if double(&subkey); hex.EncodeToString(subkey[:]) != want {
			t.Errorf("the subkey is %x, want %s", subkey, want)
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
