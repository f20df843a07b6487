package policy_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const maxLines = 450

// leftover finds the words for unfinished work. They are written in halves to not find themselves.
var leftover = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	hold(t, packageDocs, map[string]breach{
		"a package without a comment": {
			tree: map[string]string{"a/a.go": "package a", "a/b.go": "package a"},
			want: "no file of a has a comment",
		},
		"a comment that only a test has": {
			tree: map[string]string{"a/a.go": "package a", "a/a_test.go": "// Package a is.\npackage a"},
			want: "no file of a has a comment",
		},
		"a comment that godoc does not take for one": {
			tree: map[string]string{"a/a.go": "// Package a is.\n\npackage a"},
			want: "no file of a has a comment",
		},
		"a comment on something else": {
			tree: map[string]string{"a/a.go": "// Copyright somebody.\npackage a"},
			want: `begin with "Package a "`,
		},
		"two comments": {
			tree: map[string]string{
				"a/a.go": "// Package a is.\npackage a", "a/b.go": "// Package a is.\npackage a",
			},
			want: "2 files of a",
		},
	})
}

func TestNothingHappensAtImport(t *testing.T) {
	t.Parallel()
	hold(t, inits, map[string]breach{
		"an init": {
			tree: map[string]string{"a/a.go": "package a; func init() {}; type t int; func (t) init() {}"},
			want: "a/a.go has a func init",
		},
		"an init in a test": {
			tree: map[string]string{"a/a_test.go": "package a; func init() {}"},
			want: "a/a_test.go has a func init",
		},
	})
}

func TestAFileHasOneSubject(t *testing.T) {
	t.Parallel()
	hold(t, longFiles, map[string]breach{
		"a long file": {
			tree: map[string]string{
				"a.go": "package a\n" + strings.Repeat("\n", maxLines),
				"b.go": "package a\n" + strings.Repeat("\n", maxLines-1),
			},
			want: "a.go has 451 lines",
		},
	})
}

func TestNoWorkIsLeftForLater(t *testing.T) {
	t.Parallel()
	word := "TO" + "DO"
	hold(t, leftovers, map[string]breach{
		"a note to oneself": {
			tree: map[string]string{
				"a.go": "package a\n\n// " + word + ": the rest.\n",
				"b.go": "package a\n\nconst methodology = `" + word + "S`\n",
			},
			want: "a.go:3",
		},
	})
}

func packageDocs(_ fs.FS, sources []source) []string {
	type pkg struct{ dir, name string }
	docs := map[pkg][]string{} // the comments of each
	code := map[string]bool{}  // directories that hold more than tests
	for _, s := range sources {
		code[s.dir()] = code[s.dir()] || !s.isTest()
	}
	for _, s := range sources {
		// Tests speak for themselves, unless there is nothing else in the directory.
		if s.isTest() && code[s.dir()] {
			continue
		}
		key := pkg{s.dir(), s.file.Name.Name}
		texts := docs[key]
		if s.file.Doc != nil {
			texts = append(texts, s.file.Doc.Text())
		}
		docs[key] = texts
	}
	var faults []string
	for key, texts := range docs {
		want := "Package " + key.name + " "
		switch {
		case len(texts) == 0:
			faults = append(faults, fmt.Sprintf("no file of %s has a comment on package %s", key.dir, key.name))
		case len(texts) > 1:
			faults = append(faults, fmt.Sprintf("%d files of %s have a comment on package %s",
				len(texts), key.dir, key.name))
		case key.name != "main" && !strings.HasPrefix(texts[0], want):
			faults = append(faults, fmt.Sprintf("the comment on package %s in %s does not begin with %q",
				key.name, key.dir, want))
		}
	}
	slices.Sort(faults)
	return faults
}

func inits(_ fs.FS, sources []source) []string {
	var faults []string
	for _, s := range sources {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				faults = append(faults, s.path+" has a func init; make it a call that somebody makes")
			}
		}
	}
	return faults
}

func longFiles(_ fs.FS, sources []source) []string {
	var faults []string
	for _, s := range sources {
		if n := strings.Count(s.text, "\n"); n > maxLines {
			faults = append(faults, fmt.Sprintf("%s has %d lines; %d are the limit, so split it by subject",
				s.path, n, maxLines))
		}
	}
	return faults
}

func leftovers(_ fs.FS, sources []source) []string {
	var faults []string
	for _, s := range sources {
		for i, line := range strings.Split(s.text, "\n") {
			if word := leftover.FindString(line); word != "" {
				faults = append(faults, fmt.Sprintf("%s:%d says %s; do it, or file an issue", s.path, i+1, word))
			}
		}
	}
	return faults
}
