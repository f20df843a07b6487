package fill

import "testing"

// A database writes a key of several columns as one text. Values may hold what it writes between them.
func TestAKeyHasTheValueOfEachOfItsColumns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, text string
		has       bool
	}{
		{"5", "5", true}, {"15", "5", false},
		{"1-5", "5", true}, {"1-55", "5", false}, {"1, 5", "1", true},
		{"1-a-b", "a-b", true}, {"a, b, 1", "a, b", true}, {"1-a-b", "a-c", false},
		{"", "5", true}, // nobody knows the key
	} {
		if has := (duplicate{key: c.key}).has(c.text); has != c.has {
			t.Errorf("%q has %q: %v, want %v", c.key, c.text, has, c.has)
		}
	}
}
