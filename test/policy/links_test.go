package policy_test

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTheDocsPointAtWhatIsThere(t *testing.T) {
	t.Parallel()
	hold(t, links, map[string]breach{
		"a file that is not there": {
			tree: map[string]string{"README.md": "[a](docs/a.md)"},
			want: "README.md links to docs/a.md, which does not exist",
		},
		"a file that is looked for from the wrong directory": {
			tree: map[string]string{"docs/a.md": "[a](docs/a.md)"},
			want: "docs/a.md links to docs/a.md",
		},
		"a heading that is not there": {
			tree: map[string]string{"README.md": "# A title\n\n[a](#a-title)[b](#b)\n\n```sh\n# b\n```\n"},
			want: "README.md links to #b, but that heading does not exist",
		},
		"a heading that another document does not have": {
			tree: map[string]string{"CONTRIBUTING.md": "# A\n[a](docs/a.md#a)", "docs/a.md": "## B, `b` and c\n[a](#b-b-and-c)"},
			want: "CONTRIBUTING.md links to docs/a.md#a, but that heading does not exist",
		},
		"a package in a command": {
			tree: map[string]string{"CHANGELOG.md": "```sh\ngo run ./examples/a && go doc .\n```"},
			want: "CHANGELOG.md has a command for ./examples/a, which does not exist",
		},
		"a test that is not there": {
			tree: map[string]string{"README.md": "`TestA` holds, `TestB` does not", "a_test.go": "package a\n\nfunc TestA(t *testing.T) {}\n"},
			want: "README.md names TestB, which does not exist",
		},
		"no fault in code that looks like a link": {
			tree: map[string]string{"README.md": "`[a](b)`\n\n```go\nf[a](b)\n```\n[web](https://a.b/c#d) [c](d)"},
			want: "README.md links to d,",
		},
	})
}

var (
	inline  = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	named   = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	command = regexp.MustCompile(`go (?:run|test|doc|build) (\./[\w/]+)`)
)

// documents lists the documents for users, relative to the top of the tree.
func documents(t testing.TB, tree fs.FS) []string {
	t.Helper()
	list, err := listDocuments(tree)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func listDocuments(tree fs.FS) ([]string, error) {
	top, err := fs.Glob(tree, "*.md")
	if err != nil {
		return nil, err
	}
	below, err := fs.Glob(tree, "docs/*.md")
	return append(top, below...), err
}

// links returns the links, commands and names of tests in the documents that lead nowhere.
func links(tree fs.FS, sources []source) []string {
	list, err := listDocuments(tree)
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	texts := map[string]string{}
	for _, document := range list {
		text, err := fs.ReadFile(tree, document)
		if err != nil {
			return []string{err.Error()}
		}
		texts[document] = string(text)
	}
	for _, document := range list {
		prose := inline.ReplaceAllString(withoutBlocks(texts[document]), "")
		for _, match := range link.FindAllStringSubmatch(prose, -1) {
			target := match[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, anchored := strings.Cut(target, "#")
			if file == "" {
				file = document
			} else {
				file = path.Join(path.Dir(document), file)
			}
			if _, err := fs.Stat(tree, file); err != nil {
				fault("%s links to %s, which does not exist", document, target)
			} else if anchored && !slices.Contains(anchors(texts[file]), anchor) {
				fault("%s links to %s, but that heading does not exist", document, target)
			}
		}
		for _, match := range command.FindAllStringSubmatch(texts[document], -1) {
			if _, err := fs.Stat(tree, path.Clean(match[1])); err != nil {
				fault("%s has a command for %s, which does not exist", document, match[1])
			}
		}
		for _, match := range named.FindAllStringSubmatch(texts[document], -1) {
			if !slices.ContainsFunc(sources, func(s source) bool {
				return s.isTest() && strings.Contains(s.text, "\nfunc "+match[1]+"(")
			}) {
				fault("%s names %s, which does not exist", document, match[1])
			}
		}
	}
	return faults
}

// anchors returns the fragments that GitHub derives from the headings of a document.
func anchors(text string) []string {
	var list []string
	for _, match := range heading.FindAllStringSubmatch(withoutBlocks(text), -1) {
		words := regexp.MustCompile(`[^\pL\pN_ -]`).ReplaceAllString(strings.ToLower(match[1]), "")
		anchor := strings.ReplaceAll(words, " ", "-")
		again := anchor
		for n := 1; slices.Contains(list, again); n++ {
			again = fmt.Sprintf("%s-%d", anchor, n)
		}
		list = append(list, again)
	}
	return list
}

// withoutBlocks returns the text without its fenced code blocks.
func withoutBlocks(text string) string {
	var kept strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(strings.TrimLeft(line, " "), "```"):
			inside = !inside
		case !inside:
			kept.WriteString(line)
		}
	}
	return kept.String()
}
