package suite

import (
	"errors"
	"strings"
	"testing"
)

// Must ends the test if err is not nil.
func Must(t *testing.T, err error, doing string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}

// WantErr ends the test unless err wraps want.
func WantErr(t *testing.T, err, want error, doing string) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s: no error, want %v", doing, want)
	}
	if want != nil && !errors.Is(err, want) {
		t.Fatalf("%s: %v, want one that is %v", doing, err, want)
	}
}

// Says fails the test for each word that the error text does not contain.
func Says(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
}

// Same fails the test if got differs from want.
func Same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
