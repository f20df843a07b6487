package opaque_test

import (
	"crypto/aes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/opaque"
)

// These keys are for tests.
var (
	first  = []byte("0123456789abcdef")
	second = []byte("fedcba9876543210")
)

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func newCodec(tb testing.TB, keys ...[]byte) *opaque.Codec {
	tb.Helper()
	codec, err := opaque.New(keys...)
	if err != nil {
		tb.Fatal(err)
	}
	return codec
}

func TestEveryIDComesBack(t *testing.T) {
	t.Parallel()
	codec := newCodec(t, first)
	seen := map[string]int64{}
	random := rand.New(rand.NewPCG(1, 2))
	ids := []int64{0, 1, -1, math.MaxInt64, math.MinInt64}
	for range 100_000 {
		ids = append(ids, int64(random.Uint64()))
	}
	for _, id := range ids {
		text := codec.Seal("order", id)
		if len(text) != opaque.Size || strings.Trim(text, digits) != "" {
			t.Fatalf("%d is sealed as %q", id, text)
		}
		if other, twice := seen[text]; twice && other != id {
			t.Fatalf("%d and %d are both sealed as %q", id, other, text)
		}
		seen[text] = id
		if got, err := codec.Open("order", text); err != nil || got != id {
			t.Fatalf("%q of %d opens as %d, %v", text, id, got, err)
		}
		if codec.Seal("order", id) != text {
			t.Fatalf("%d has two texts", id)
		}
	}
}

// The same text by other means: crypto/aes on a block that is put together here, and math/big.
func TestTheTextIsOneBlockOfAESInBase62(t *testing.T) {
	t.Parallel()
	codec := newCodec(t, first)
	block, err := aes.NewCipher(first)
	if err != nil {
		t.Fatal(err)
	}
	for id := int64(-500); id < 500; id++ {
		kind := "kind " + strconv.FormatInt(id%7, 10)
		sum := sha256.Sum256([]byte("snowflakeplugin/opaque\x00" + kind))
		plain := append(binary.BigEndian.AppendUint64(nil, uint64(id)), sum[:8]...)
		sealed := make([]byte, len(plain))
		block.Encrypt(sealed, plain)
		want := textOf(sealed)
		if got := codec.Seal(kind, id); got != want {
			t.Fatalf("%d of %q is sealed as %q, want %q", id, kind, got, want)
		}
	}
}

// Published addresses have to stay valid.
func TestSealedTextsStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	codec := newCodec(t, first)
	for id, want := range map[int64]string{1: sealedOne, 7_000_000_000_000_000_001: sealedLarge} {
		if got := codec.Seal("order", id); got != want {
			t.Errorf("%d is sealed as %q, want %q", id, got, want)
		}
	}
}

func TestATextOpensForItsKindAndKeyOnly(t *testing.T) {
	t.Parallel()
	old, both, other := newCodec(t, first), newCodec(t, second, first), newCodec(t, second)
	text := old.Seal("order", 42)
	if id, err := both.Open("order", text); err != nil || id != 42 {
		t.Errorf("after a change of the key the text opens as %d, %v", id, err)
	}
	if both.Seal("order", 42) == text || both.Seal("order", 42) != other.Seal("order", 42) {
		t.Error("the first key does not seal")
	}
	for what, err := range map[string]error{
		"another kind": second1(old.Open("user", text)), "no kind": second1(old.Open("", text)),
		"another case": second1(old.Open("Order", text)), "another key": second1(other.Open("order", text)),
	} {
		if !errors.Is(err, opaque.ErrInvalid) || err.Error() != opaque.ErrInvalid.Error() {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// keyedCodec is newCodec with options.
func keyedCodec(tb testing.TB, keys [][]byte, opts ...opaque.Option) *opaque.Codec {
	tb.Helper()
	codec, err := opaque.NewCodec(keys, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return codec
}

// Published addresses have to stay valid while processes of all steps run side by side.
func TestTheFormsOfTagsOpenStepByStep(t *testing.T) {
	t.Parallel()
	const id = 7_000_000_000_000_000_001
	keys := [][]byte{first}
	before, keyed := newCodec(t, first), keyedCodec(t, keys, opaque.WithKeyedTags(), nil)
	only := keyedCodec(t, keys, opaque.WithOnlyKeyedTags())
	old, text := before.Seal("order", id), keyed.Seal("order", id)
	if old != sealedLarge || text != keyedLarge || only.Seal("order", id) != text {
		t.Errorf("sealed as %q, %q and %q, want %q and twice %q", old, text, only.Seal("order", id), sealedLarge,
			keyedLarge)
	}
	rotated := keyedCodec(t, [][]byte{second, first}, opaque.WithKeyedTags())
	for what, codec := range map[string]*opaque.Codec{"old": before, "keyed": keyed, "rotated": rotated} {
		for _, address := range []string{old, text} {
			if got, err := codec.Open("order", address); err != nil || got != id {
				t.Errorf("%s: %q opens as %d, %v", what, address, got, err)
			}
		}
	}
	if got, err := only.Open("order", text); err != nil || got != id {
		t.Errorf("only keyed: %q opens as %d, %v", text, got, err)
	}
	for what, err := range map[string]error{
		"a plain tag": second1(only.Open("order", old)), "another kind": second1(only.Open("user", text)),
		"another kind of both forms": second1(keyed.Open("user", text)),
		"another key":                second1(newCodec(t, second).Open("order", text)),
	} {
		if !errors.Is(err, opaque.ErrInvalid) || err.Error() != opaque.ErrInvalid.Error() {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The tag of one key is not that of another, whose block somebody may be able to make.
	if swapped := keyedCodec(t, [][]byte{first, second}, opaque.WithOnlyKeyedTags()); swapped.Seal("order", id) != text {
		t.Error("another key changes the text")
	}
}

func second1(_ int64, err error) error { return err }

func TestEveryChangeOfOneCharacterIsRefused(t *testing.T) {
	t.Parallel()
	codec := newCodec(t, first, second)
	for id := range int64(200) {
		text := codec.Seal("order", id<<22)
		for at := range text {
			for c := range 256 {
				changed := text[:at] + string([]byte{byte(c)}) + text[at+1:]
				if got, err := codec.Open("order", changed); changed != text && !errors.Is(err, opaque.ErrInvalid) {
					t.Fatalf("%q, changed from %q, opens as %d, %v", changed, text, got, err)
				}
			}
			for _, other := range []string{text[:at], text[at:] + text, text[:at] + text[at+1:], text[:at] + "é" + text[at:]} {
				if _, err := codec.Open("order", other); other != text && err == nil {
					t.Fatalf("%q opens", other)
				}
			}
		}
	}
}

// textOf is a block in base 62, by math/big.
func textOf(block []byte) string {
	// math/big has the small letters before the capital ones.
	text := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return r
	}, new(big.Int).SetBytes(block).Text(62))
	return strings.Repeat("0", opaque.Size-len(text)) + text
}

// Whoever has the key for another purpose must not find a text that opens, so every bit of the kind counts.
func TestEveryBitOfTheKindIsCompared(t *testing.T) {
	t.Parallel()
	codec := newCodec(t, first)
	block, err := aes.NewCipher(first)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("snowflakeplugin/opaque\x00order"))
	for bit := range 65 {
		tag := binary.BigEndian.Uint64(sum[:]) ^ 1<<bit // the last one changes nothing
		plain := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 42), tag)
		sealed := make([]byte, len(plain))
		block.Encrypt(sealed, plain)
		id, err := codec.Open("order", textOf(sealed))
		if opened := err == nil; opened != (bit == 64) || opened && id != 42 {
			t.Errorf("with bit %d changed it opens as %d, %v", bit, id, err)
		}
	}
}

// A digit behind the last one could stand for 62, and carry: then an ID would have two addresses.
func TestAnIDHasNoSecondAddress(t *testing.T) {
	t.Parallel()
	codec := newCodec(t, first)
	block, err := aes.NewCipher(first)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for id := range int64(2_000) {
		text := codec.Seal("order", id)
		// 22 digits hold numbers beyond 128 bits, of which a careless program drops the rest.
		plain := binary.BigEndian.AppendUint64(nil, uint64(id))
		sum := sha256.Sum256([]byte("snowflakeplugin/opaque\x00order"))
		sealed := make([]byte, aes.BlockSize)
		block.Encrypt(sealed, append(plain, sum[:8]...))
		for over := byte(1); over < 7; over++ { // 7 x 2^128 is still below 62^22
			other := textOf(append([]byte{over}, sealed...))
			if got, err := codec.Open("order", other); len(other) != opaque.Size || !errors.Is(err, opaque.ErrInvalid) {
				t.Fatalf("%q is a second address of %d: %d, %v", other, id, got, err)
			}
		}
		for at := 1; at < len(text); at++ {
			digit := strings.IndexByte(digits, text[at-1])
			if text[at] != '0' || digit == 0 {
				continue
			}
			for _, behind := range []string{":", "[", "{", "@", "`", "/"} { // around the ranges of digits
				tried++
				other := text[:at-1] + digits[digit-1:digit] + behind + text[at+1:]
				if got, err := codec.Open("order", other); !errors.Is(err, opaque.ErrInvalid) {
					t.Fatalf("%q is a second address of %d: %d, %v", other, id, got, err)
				}
			}
		}
	}
	if tried < 1_000 {
		t.Errorf("only %d texts were tried", tried)
	}
}

// SNOWFLAKE_GUESSES makes the test larger: 10 million take a few seconds.
func TestNoGuessOpens(t *testing.T) {
	t.Parallel()
	guesses := 200_000
	if text := os.Getenv("SNOWFLAKE_GUESSES"); text != "" {
		var err error
		if guesses, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	codec := newCodec(t, first) // which opens both forms
	random := rand.New(rand.NewPCG(3, 4))
	var guess [opaque.Size]byte
	read := 0
	for range guesses {
		for i := range guess {
			guess[i] = digits[random.IntN(len(digits))]
		}
		if guess[0] < '7' {
			read++ // below 2^128, so it is a block
		}
		if id, err := codec.Open("order", string(guess[:])); !errors.Is(err, opaque.ErrInvalid) {
			t.Fatalf("%q opens as %d, %v", guess[:], id, err)
		}
	}
	t.Logf("of %d guesses, about %d were blocks, and none opened", guesses, read)
}

// One bit of the ID changes about half of the text's bits, so neighbors look unrelated.
func TestNeighborsLookUnrelated(t *testing.T) {
	t.Parallel()
	codec := newCodec(t, first)
	same := 0
	const pairs = 10_000
	for id := range int64(pairs) {
		a, b := codec.Seal("order", id), codec.Seal("order", id+1)
		for i := 1; i < len(a); i++ { // the first digit has few values
			if a[i] == b[i] {
				same++
			}
		}
	}
	if share := float64(same) / (pairs * (opaque.Size - 1)) * 62; share < 0.9 || share > 1.1 {
		t.Errorf("neighbors have %.2f times as many equal digits as by chance", share)
	}
}

func TestKeysThatCannotBeAreRefusedAndNotShown(t *testing.T) {
	t.Parallel()
	for what, keys := range map[string][][]byte{
		"no key": {}, "a short key": {first[:15]}, "a long key": {append(first[:16:16], 'x')}, "nil": {nil},
		"zeros": {make([]byte, 16)}, "one key twice": {first, second, first},
	} {
		_, err := opaque.New(keys...)
		if !errors.Is(err, opaque.ErrKey) || strings.Contains(err.Error(), string(first[:8])) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestSealAndOpenAllocateNoMoreThanTheText(t *testing.T) {
	codec := keyedCodec(t, [][]byte{first}, opaque.WithKeyedTags())
	text := codec.Seal("order", 42)
	if n := testing.AllocsPerRun(1000, func() { codec.Seal("order", 42) }); n > 3 {
		t.Errorf("Seal allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = codec.Open("order", text) }); n > 2 {
		t.Errorf("Open allocates %v times", n)
	}
}

func FuzzOpen(f *testing.F) {
	codec := newCodec(f, first, second)
	for _, text := range []string{codec.Seal("order", 1), strings.Repeat("z", 22), strings.Repeat("0", 22), ""} {
		f.Add("order", text)
	}
	f.Fuzz(func(t *testing.T, kind, text string) {
		id, err := codec.Open(kind, text)
		if err != nil {
			if !errors.Is(err, opaque.ErrInvalid) || id != 0 {
				t.Errorf("%q: %d, %v", text, id, err)
			}
			return
		}
		if again := codec.Seal(kind, id); again != text {
			// A text of the second key.
			if got, err := codec.Open(kind, again); err != nil || got != id {
				t.Errorf("%q opens as %d, which is sealed as %q", text, id, again)
			}
		}
	})
}

func FuzzSeal(f *testing.F) {
	plain, keyed := newCodec(f, first), keyedCodec(f, [][]byte{first}, opaque.WithOnlyKeyedTags())
	f.Add("order", int64(1))
	f.Fuzz(func(t *testing.T, kind string, id int64) {
		if text := keyed.Seal(kind, id); text == plain.Seal(kind, id) {
			t.Errorf("%d of %q is %q in both forms", id, kind, text)
		}
		codec := []*opaque.Codec{plain, keyed}[id&1]
		text := codec.Seal(kind, id)
		if got, err := codec.Open(kind, text); err != nil || got != id || len(text) != opaque.Size {
			t.Errorf("%d of %q is sealed as %q, which opens as %d, %v", id, kind, text, got, err)
		}
		if _, err := codec.Open(kind+"x", text); err == nil {
			t.Errorf("%q opens for another kind", text)
		}
	})
}

// The speeds are printed beside that of one block of AES, which both contain.
func BenchmarkOpaque(b *testing.B) {
	codec := newCodec(b, first)
	block, _ := aes.NewCipher(first)
	text := codec.Seal("order", 42)
	b.Run("AES", func(b *testing.B) {
		var data [16]byte
		for b.Loop() {
			block.Encrypt(data[:], data[:])
		}
	})
	b.Run("Seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			codec.Seal("order", 42)
		}
	})
	b.Run("Open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = codec.Open("order", text)
		}
	})
}
