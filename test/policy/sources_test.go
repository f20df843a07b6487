package policy_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// maxLines is large enough for a type with all its methods, because a type that is torn over several files
// is harder to read than a long file.
const maxLines = 1300

func TestAFileHasOneSubject(t *testing.T) {
	t.Parallel()
	hold(t, longFiles, map[string]breach{
		"a long file": {
			tree: map[string]string{
				"a.go": "package a\n" + strings.Repeat("\n", maxLines),
				"b.go": "package a\n" + strings.Repeat("\n", maxLines-1),
			},
			want: "a.go has 1301 lines",
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

func TestATypeLiesInAtMostTwoFiles(t *testing.T) {
	t.Parallel()
	method := func(file string) string { return "package a\n\nfunc (t *T[K]) M" + file + "() {}\n" }
	two := map[string]string{
		"a/a.go": method("a"), "a/b.go": method("b") + "func (t *T[K]) second() {}", "a/b_test.go": method("c"),
	}
	three := maps.Clone(two)
	three["a/c.go"] = method("c")
	hold(t, torn, map[string]breach{
		"a torn type": {tree: three, want: "a.T has methods in 3 files (a.go, b.go, c.go)"},
	})
}

// torn finds the types with methods in more than two files. Whoever reads such a type turns back again and
// again to a file that he has read. Tests do not count.
func torn(_ fs.FS, sources []source) (faults []string) {
	files := make(map[string][]string)
	for _, s := range sources {
		if s.isTest() || ast.IsGenerated(s.file) {
			continue
		}
		for _, name := range typesWithMethods(s) {
			files[name] = append(files[name], path.Base(s.path))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if n := len(files[name]); n > 2 {
			faults = append(faults, fmt.Sprintf("%s has methods in %d files (%s): put it whole into one, with its "+
				"constructor, in the order of its life", name, n, strings.Join(files[name], ", ")))
		}
	}
	return faults
}

// typesWithMethods names the types of which a file has a method, each once, with the directory.
func typesWithMethods(s source) (names []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), s.path, s.text, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler says so
	}
	for _, decl := range parsed.Decls {
		f, is := decl.(*ast.FuncDecl)
		if !is || f.Recv == nil {
			continue
		}
		name := s.dir() + "." + receiver(f.Recv.List[0].Type)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// receiver is the name of the type in a receiver.
func receiver(expr ast.Expr) string {
	switch t := expr.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
