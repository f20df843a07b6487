package opaque

import (
	"strconv"
	"testing"
)

// Kinds may come from outside, so that they must not fill the memory.
func TestFewKindsAreRemembered(t *testing.T) {
	t.Parallel()
	codec, err := New([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxKinds {
		kind := strconv.Itoa(i)
		text := codec.Seal(kind, 1)
		if id, err := codec.Open(kind, text); err != nil || id != 1 {
			t.Fatalf("kind %s opens as %d, %v", kind, id, err)
		}
	}
	if n := len(*codec.tags.Load()); n != maxKinds {
		t.Errorf("%d kinds are remembered, want %d", n, maxKinds)
	}
}
