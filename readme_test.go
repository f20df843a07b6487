package snowflakeplugin_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// The code in the README and in the package comment is code that a compiler has seen: every block
// stands, line for line, in an example that the tests build.
func TestCodeInTheDocsIsCompiled(t *testing.T) {
	t.Parallel()
	compiled := compiledExamples(t)
	for name, blocks := range map[string][]string{
		"README.md":        fencedGo(readFile(t, "README.md")),
		"docs/leases.md":   fencedGo(readFile(t, "docs/leases.md")),
		"docs/sharding.md": fencedGo(readFile(t, "docs/sharding.md")),
		"doc.go":           docCode(t, "doc.go"),
	} {
		if len(blocks) < 1 {
			t.Errorf("%s: only %d blocks of code were found", name, len(blocks))
		}
		for _, block := range blocks {
			if !slices.ContainsFunc(compiled, func(text string) bool { return containsBlock(text, block) }) {
				t.Errorf("%s: this stands in no example:\n%s", name, block)
			}
		}
	}
}

func TestABlockIsFoundAtAnyIndentOnly(t *testing.T) {
	t.Parallel()
	text := "func f() {\n\tif a {\n\t\tb()\n\n\t\tc()\n\t}\n}\n"
	for block, want := range map[string]bool{
		"if a {\n\tb()\n\n\tc()\n}":      true,
		"b()\n\nc()":                     true,
		"func f() {":                     true,
		"b()\nc()":                       false, // a blank line is missing
		"if a {\nb()":                    false, // another shape
		"if a {\n\tb()\n\n\tc()\n}\nd()": false,
		"b(":                             false, // not a whole line
	} {
		if got := containsBlock(text, block); got != want {
			t.Errorf("containsBlock of %q is %t", block, got)
		}
	}
}

// compiledExamples returns the text of the files that may hold what the docs show.
func compiledExamples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("example*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("examples", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".go" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, file := range files {
		dir, name := filepath.Split(file)
		if built, err := build.Default.MatchFile(filepath.Clean(dir), name); err != nil || !built {
			t.Errorf("%s is not built here: %v", file, err)
			continue
		}
		texts = append(texts, readFile(t, file))
	}
	return texts
}

// containsBlock reports whether the lines of block stand in text one below the other, all of them
// indented by the same amount.
func containsBlock(text, block string) bool {
	lines, wanted := strings.Split(text, "\n"), strings.Split(block, "\n")
	for at := range lines {
		indent, found := strings.CutSuffix(lines[at], wanted[0])
		if found && strings.Trim(indent, "\t") == "" && startsWith(lines[at:], wanted, indent) {
			return true
		}
	}
	return false
}

func startsWith(lines, wanted []string, indent string) bool {
	if len(lines) < len(wanted) {
		return false
	}
	for i, line := range wanted {
		if line != "" {
			line = indent + line
		}
		if lines[i] != line {
			return false
		}
	}
	return true
}

// fencedGo returns the go blocks of a Markdown text.
func fencedGo(text string) []string {
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)\n```go\n(.*?)\n```\n").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, match[1])
	}
	return blocks
}

// docCode returns the code blocks of a package comment.
func docCode(t *testing.T, file string) []string {
	t.Helper()
	mode := parser.ParseComments | parser.PackageClauseOnly
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, block := range new(comment.Parser).Parse(parsed.Doc.Text()).Content {
		if code, is := block.(*comment.Code); is {
			blocks = append(blocks, strings.TrimSuffix(code.Text, "\n"))
		}
	}
	return blocks
}

// The table of layouts has a row for every preset, with the numbers of the code.
func TestLayoutsInTheREADMEAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	presets := map[string]generator.Layout{
		"Default": generator.Default(), "Twitter": generator.Twitter(),
		"ShardingSphere": generator.ShardingSphere(), "Business": generator.Business(),
		"JavaScript": generator.JavaScript(), "Game": generator.Game(), "GameLong": generator.GameLong(),
		"GameSecond": generator.GameSecond(), "Game16": generator.Game16(),
		"Game16Fast": generator.Game16Fast(),
	}
	if got, want := slices.Sorted(maps.Keys(presets)), presetNames(t); !slices.Equal(got, want) {
		t.Errorf("this test knows the presets %v, the code has %v", got, want)
	}
	rows := map[string]string{}
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\w+)\\(\\)` (\\|.*)$").
		FindAllStringSubmatch(readFile(t, "README.md"), -1) {
		rows[match[1]] = match[2]
	}
	for name, layout := range presets {
		if got, want := rows[name], tableRow(layout); got != want {
			t.Errorf("the row of %s is\n%s\nwant\n%s", name, got, want)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("the README has a layout %s, the code has none", name)
	}
}

// presetNames lists the functions that return a layout, sorted.
func presetNames(t *testing.T) []string {
	t.Helper()
	const file = "generator/presets.go"
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, decl := range parsed.Decls {
		if f, is := decl.(*ast.FuncDecl); is && f.Name.IsExported() {
			names = append(names, f.Name.Name)
		}
	}
	slices.Sort(names)
	return names
}

// tableRow writes what the README says of a layout.
func tableRow(l generator.Layout) string {
	var node []string
	for _, field := range l.Node {
		node = append(node, strconv.Itoa(field.Bits))
	}
	years := l.End().Sub(l.Epoch).Hours() / 24 / 365.25
	return fmt.Sprintf("| %d / %s / %d | %s in %s | %s | %s | %s | %.1f |",
		l.TimeBits, strings.Join(node, " + "), l.SequenceBits,
		grouped(l.MaxSequence()+1), l.Tick, grouped(l.MaxNode()+1),
		l.Epoch.UTC().Format("2006-01"), l.End().Format("2006-01"), years)
}

// grouped writes 1048576 as 1,048,576.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// The rest that a test can hold: commands, files and headings that are there, and the numbers of
// the default layout that stand in sentences.
func TestTheREADMEPointsAtWhatIsThere(t *testing.T) {
	t.Parallel()
	text := readFile(t, "README.md")
	prose := regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "") // code may look like a link
	for _, c := range []struct {
		what, text, pattern string
		atLeast             int
	}{
		{"examples to run", text, `go run \./(examples/\w+)`, 3},
		{"packages to read", text, `go doc \./(\w+)`, 2},
		{"links to files", prose, `\]\(([\w./]+)\)`, 3}, // those to the web have a colon
	} {
		found := regexp.MustCompile(c.pattern).FindAllStringSubmatch(c.text, -1)
		if len(found) < c.atLeast {
			t.Errorf("only %d %s were found", len(found), c.what)
		}
		for _, match := range found {
			if _, err := os.Stat(match[1]); err != nil {
				t.Error(err)
			}
		}
	}
	if !strings.Contains(readFile(t, "Makefile"), "\ntest:") {
		t.Error("there is no make test")
	}
	wantHeadings(t, "README.md", text)
	layout := generator.Default()
	for _, words := range []string{
		"up to " + grouped(layout.MaxNode()+1) + " at a time",
		fmt.Sprintf("(id & %d) %% N", layout.MaxSequence()),
		fmt.Sprintf("ten ticks (%d ms)", 10*layout.Tick/time.Millisecond),
	} {
		if !strings.Contains(text, words) {
			t.Errorf("the README does not say %q", words)
		}
	}
}

// The same of the documents that the README points at.
func TestTheDocsPointAtWhatIsThere(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, document := range documents {
		text := readFile(t, document)
		wantHeadings(t, document, text)
		for _, match := range regexp.MustCompile(`\]\((\.\.?/[\w./]+)\)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("docs", match[1])); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
		for _, match := range regexp.MustCompile(`go (?:run|test|doc) (\./[\w/]+)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(match[1]); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
	}
}

// wantHeadings fails for a link within a text to a heading that is not there.
func wantHeadings(t *testing.T, name, text string) {
	t.Helper()
	headings := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^##+ (.+)$`).FindAllStringSubmatch(text, -1) {
		anchor := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(match[1]), "")
		headings[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	for _, link := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(text, -1) {
		if !headings[link[1]] {
			t.Errorf("%s: no heading for the link #%s", name, link[1])
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
