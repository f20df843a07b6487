package census

import (
	"crypto/sha256"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A check does not believe what other code has written into plan.lock, so one more condition is enough for it to look
// at the data again.
// Comments and blanks judge nothing.
func TestTheEditionIsThatOfTheCode(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.New()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code := []byte(strings.Replace(string(source), fmt.Sprintf("Edition = %q", Edition), "Edition", 1))
		var s scanner.Scanner
		s.Init(token.NewFileSet().AddFile(file, -1, len(code)), code, nil, 0)
		for _, tok, text := s.Scan(); tok != token.EOF; _, tok, text = s.Scan() {
			fmt.Fprintln(hash, tok, text)
		}
	}
	if is := fmt.Sprintf("%.6x", hash.Sum(nil)); is != Edition {
		t.Errorf("the code of a census has changed: Edition is now %q", is)
	}
}
