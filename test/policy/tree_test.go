// Package policy_test holds the rules of the repository that no compiler and no linter checks:
// which package may import which, what go.mod may contain, and how a source file looks. Each rule
// is a function that takes a tree of files and returns the faults in it. The same test therefore
// shows that the repository keeps the rule and that the rule finds a tree which breaks it.
package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// A source is one Go file of a tree. It may belong to a nested module and may have any build tags.
type source struct {
	path string // slash-separated, from the top of the repository
	text string
	file *ast.File // down to the imports, because no rule looks further
}

// dir is the directory of the file, "." for the top.
func (s source) dir() string { return path.Dir(s.path) }

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// A check lists the faults of a tree, one sentence for each. The sources are those of the tree.
type check func(tree fs.FS, sources []source) []string

// repository is the tree to which the rules apply.
func repository() fs.FS { return os.DirFS("../..") }

// repositorySources are the sources of the repository, read once for all rules.
var repositorySources = sync.OnceValues(func() ([]source, error) { return parse(repository()) })

// sourcesOf fails the test if the sources of a tree could not be read.
func sourcesOf(t *testing.T, read func() ([]source, error)) []source {
	t.Helper()
	sources, err := read()
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// hold fails for each fault that the check finds in the repository. It also fails for each breach
// in which the check does not find the one fault that the breach contains. The keys of broken name
// the faults.
func hold(t *testing.T, c check, broken map[string]breach) {
	t.Helper()
	sources := sourcesOf(t, repositorySources)
	if len(sources) < 10 {
		t.Fatalf("found only %d Go files, so this is not the repository", len(sources))
	}
	for _, fault := range c(repository(), sources) {
		t.Error(fault)
	}
	for name, b := range broken {
		t.Run("notices "+name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for file, text := range b.tree {
				tree[file] = &fstest.MapFile{Data: []byte(text)}
			}
			faults := c(tree, sourcesOf(t, func() ([]source, error) { return parse(tree) }))
			if len(faults) != 1 || !strings.Contains(faults[0], b.want) {
				t.Errorf("found %q, want one fault that says %q", faults, b.want)
			}
		})
	}
}

// A breach is a small tree with exactly one fault.
type breach struct {
	tree map[string]string // from a path to the text of that file
	want string            // a part of the message
}

// parse reads every Go file of a tree that the go command would look at.
func parse(tree fs.FS) (sources []source, _ error) {
	err := fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && ignored(entry.Name()) && file != "." {
			return fs.SkipDir
		}
		if entry.IsDir() || path.Ext(file) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		tokens := token.NewFileSet()
		parsed, err := parser.ParseFile(tokens, file, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		sources = append(sources, source{path: file, text: string(text), file: parsed})
		return nil
	})
	return sources, err
}

func ignored(dir string) bool {
	return strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_") ||
		slices.Contains([]string{"testdata", "vendor"}, dir)
}
