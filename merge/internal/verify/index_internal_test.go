package verify

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestAnIndexKeepsMoreThanFitsIntoMemory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	x := newIndex(func(err error) { t.Fatal(err) })
	const many = 70_000 // so that the table in the file grows, too
	key := func(i int) sum { return sumOf([]byte(strconv.Itoa(i))) }
	for i := range many {
		x.set(key(i), "old")
		x.set(key(i), strconv.Itoa(i))
	}
	if x.memory != nil || x.len() != many {
		t.Errorf("the index has %d texts, %d of them in memory", x.len(), len(x.memory))
	}
	for i := range many {
		if text, ok := x.get(key(i)); !ok || text != strconv.Itoa(i) {
			t.Fatalf("the text of %d is %q", i, text)
		}
	}
	if text, ok := x.get(key(-1)); ok {
		t.Errorf("a key that was never set has the text %q", text)
	}
	x.close()
	if left, err := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 || err != nil {
		t.Errorf("these files are left: %v, %v", left, err)
	}
}

func TestAnIndexWithoutADiskSaysSo(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	var failed error
	x := newIndex(func(err error) { failed = err })
	defer x.close()
	for i := range 100 {
		x.set(sumOf([]byte(strconv.Itoa(i))), strings.Repeat("x", indexMemory/10))
	}
	_, ok := x.get(sumOf([]byte("0")))
	if ok || failed == nil || !strings.Contains(failed.Error(), "temporary file") {
		t.Errorf("a text is there: %t; it failed with %v", ok, failed)
	}
}
