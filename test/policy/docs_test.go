package policy_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Every block of code in the documents and in the package comment is compiled: it must appear, line
// for line, in an example that the tests build.
func TestCodeInTheDocsIsCompiled(t *testing.T) {
	t.Parallel()
	compiled := compiledExamples(t)
	blocksOf := map[string][]string{"doc.go": docCode(t, "doc.go")}
	for _, document := range documents(t, repository()) {
		blocksOf[document] = fencedGo(readFile(t, document))
	}
	for _, name := range []string{"doc.go", "README.md", "docs/leases.md", "docs/sharding.md"} {
		if len(blocksOf[name]) == 0 {
			t.Errorf("%s: no code blocks were found", name)
		}
	}
	for name, blocks := range blocksOf {
		for _, block := range blocks {
			if !slices.ContainsFunc(compiled, func(text string) bool { return containsBlock(text, block) }) {
				t.Errorf("%s: this block is in no example:\n%s", name, block)
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

// compiledExamples returns the text of the files that may contain the code of the docs.
func compiledExamples(t *testing.T) []string {
	t.Helper()
	tree := repository()
	files, err := fs.Glob(tree, "example*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"examples", "server/examples", "snowflaketest"} {
		err = fs.WalkDir(tree, dir, func(file string, _ fs.DirEntry, err error) error {
			if path.Ext(file) == ".go" {
				files = append(files, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var texts []string
	for _, file := range files {
		dir := filepath.Join("..", "..", filepath.FromSlash(path.Dir(file)))
		if built, err := build.Default.MatchFile(dir, path.Base(file)); err != nil || !built {
			t.Errorf("%s is not built on this platform: %v", file, err)
			continue
		}
		texts = append(texts, readFile(t, file))
	}
	return texts
}

// containsBlock reports whether text contains the lines of block in sequence, all of them indented
// by the same amount.
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

// fencedGo returns the Go code blocks of a Markdown text.
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
	parsed, err := parser.ParseFile(token.NewFileSet(), file, readFile(t, file), mode)
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

// The table of layouts has a row for every preset, and its numbers match the code.
func TestLayoutsInTheDocsAreThoseOfTheCode(t *testing.T) {
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
		FindAllStringSubmatch(readFile(t, "docs/layouts.md"), -1) {
		rows[match[1]] = match[2]
	}
	for name, layout := range presets {
		if got, want := rows[name], tableRow(layout); got != want {
			t.Errorf("the row of %s is\n%s\nwant\n%s", name, got, want)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/layouts.md has a layout %s that the code does not have", name)
	}
}

// presetNames lists the functions that return a layout, sorted. All others of that file are methods.
func presetNames(t *testing.T) []string {
	t.Helper()
	const file = "generator/layout.go"
	parsed, err := parser.ParseFile(token.NewFileSet(), file, readFile(t, file), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, decl := range parsed.Decls {
		if f, is := decl.(*ast.FuncDecl); is && f.Recv == nil && f.Name.IsExported() {
			names = append(names, f.Name.Name)
		}
	}
	slices.Sort(names)
	return names
}

// tableRow returns the row of the table for a layout.
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

// grouped formats 1048576 as 1,048,576.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// The README shows commands, and some sentences contain numbers of the default layout.
func TestTheDocsSayWhatIsSo(t *testing.T) {
	t.Parallel()
	readme := readFile(t, "README.md")
	commands := regexp.MustCompile(`go run \./(examples/\w+)`).FindAllString(readme, -1)
	if len(commands) < 3 {
		t.Errorf("only %d examples to run were found in the README", len(commands))
	}
	if !strings.Contains(readFile(t, "Makefile"), "\ntest:") {
		t.Error("the Makefile has no target test")
	}
	layout := generator.Default()
	for words, document := range map[string]string{
		"up to " + grouped(layout.MaxNode()+1) + " at a time":            "README.md",
		fmt.Sprintf("en ticks (%d ms)", 10*layout.Tick/time.Millisecond): "README.md",
		fmt.Sprintf("(id & %d) %% N", layout.MaxSequence()):              "docs/layouts.md",
	} {
		if !strings.Contains(readFile(t, document), words) {
			t.Errorf("%s does not say %q", document, words)
		}
	}
}

// readFile reads a file of the repository.
func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := fs.ReadFile(repository(), path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
