package policy_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"strings"
	"testing"
)

// maxLines is large enough for a type with all its methods, because a type that is torn over several files
// is harder to read than a long file.
const maxLines = 900

func TestAFileHasOneSubject(t *testing.T) {
	t.Parallel()
	hold(t, longFiles, map[string]breach{
		"a long file": {
			tree: map[string]string{
				"a.go": "package a\n" + strings.Repeat("\n", maxLines),
				"b.go": "package a\n" + strings.Repeat("\n", maxLines-1),
			},
			want: "a.go has 901 lines",
		},
	})
}

func longFiles(_ fs.FS, sources []source) []string {
	var faults []string
	for _, s := range sources {
		if n := strings.Count(s.text, "\n"); n > maxLines && !ast.IsGenerated(s.file) {
			faults = append(faults, fmt.Sprintf("%s has %d lines; the limit is %d, so split it by subject",
				s.path, n, maxLines))
		}
	}
	return faults
}
