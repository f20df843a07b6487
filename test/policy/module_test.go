package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// required lists the modules that the root module may require, with a reason for each. A module
// that only tests and commands import is never part of a program that uses the plugin. It is still
// downloaded by every user's go mod tidy. The default answer to one more module is no.
var required = map[string]string{
	"gorm.io/gorm":                   "what the plugin is for",
	"gorm.io/driver/sqlite":          "tests and examples that need no server",
	"gorm.io/driver/mysql":           "tests on MariaDB and MySQL",
	"gorm.io/driver/postgres":        "tests on PostgreSQL",
	"github.com/go-sql-driver/mysql": "its DSNs, in tests; gorm.io/driver/mysql requires it anyway",
	"github.com/jackc/pgx/v5":        "pgxid; gorm.io/driver/postgres requires it anyway",
	"go.yaml.in/yaml/v3":             "the plan of a merge, a file that people review; it requires nothing itself",
	"golang.org/x/text":              "widths of characters in the tables of the command; pgx requires it anyway",
}

// A goMod is the part of the output of go mod edit -json that the rules need.
type goMod struct {
	Module  struct{ Path string }
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ Old, New struct{ Path string } }
	Tool    []struct{ Path string }
	Exclude []struct{ Path string }
}

func TestTheRootModuleCanBeConsumed(t *testing.T) {
	t.Parallel()
	head := "module " + module + "\n\ngo 1.25.0\n\n"
	breachOf := func(line, want string) breach {
		return breach{tree: map[string]string{"go.mod": head + line + "\n"}, want: want}
	}
	hold(t, rootModule, map[string]breach{
		"a replace":     breachOf("replace gorm.io/gorm => ../gorm", "replaces gorm.io/gorm"),
		"a tool":        breachOf("tool example.com/lint", "the tool example.com/lint"),
		"an exclude":    breachOf("exclude example.com/bad v1.0.0", "excludes example.com/bad"),
		"a new library": breachOf("require example.com/new v1.0.0", "requires example.com/new"),
		"a cycle with a nested module": breachOf(
			"require "+module+"/lease/redislease v1.0.0 // indirect", "a nested module of its own"),
		"testify": breachOf(
			"require github.com/stretchr/testify v1.0.0 // indirect", "testify"),
		"another name": {
			tree: map[string]string{"go.mod": "module example.com/other\n"}, want: "example.com/other",
		},
	})
}

// The page on what the module adds to a go.mod says which versions it requires, and why no lower ones do.
func TestTheVersionsInTheDocsAreThoseOfGoMod(t *testing.T) {
	t.Parallel()
	tree := map[string]string{
		"go.mod": "module " + module + "\n\nrequire example.com/a v1.2.0\n",
	}
	page := func(text string) map[string]string {
		return map[string]string{"go.mod": tree["go.mod"], versionsPage: text}
	}
	const row = "| `example.com/a` | v1.2.0 | lower ones lack a function |\n"
	hold(t, versionsInTheDocs, map[string]breach{
		"no row":          {tree: page("nothing\n"), want: "does not say that example.com/a v1.2.0 is required"},
		"a row too many":  {tree: page(row + "| `example.com/b` | v1.0.0 | a reason |\n"), want: "example.com/b v1.0.0"},
		"no reason":       {tree: page("| `example.com/a` | v1.2.0 |  |\n"), want: "does not say that example.com/a"},
		"an old go.mod":   {tree: page(row + "+\texample.com/a v1.1.0\n"), want: "shows example.com/a v1.1.0"},
		"another old one": {tree: page(row + " \texample.com/a v1.1.0\n"), want: "shows example.com/a v1.1.0"},
	})
}

const versionsPage = "docs/choosing.md"

var (
	versionRow  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (v[^ ]+) \\| [^| ]")
	versionLine = regexp.MustCompile(`(?m)^[+ ]\t(\S+) (v\S+)$`)
)

// versionsInTheDocs compares the direct requirements of go.mod with the page.
func versionsInTheDocs(tree fs.FS, _ []source) []string {
	mod, err := readGoMod(context.Background(), tree, "go.mod")
	if err != nil {
		return []string{err.Error()}
	}
	text, err := fs.ReadFile(tree, versionsPage)
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, versionsPage+" "+fmt.Sprintf(format, args...))
	}
	required, said := map[string]string{}, map[string]string{}
	for _, match := range versionRow.FindAllStringSubmatch(string(text), -1) {
		said[match[1]] = match[2]
	}
	for _, r := range mod.Require {
		if required[r.Path] = r.Version; !r.Indirect && said[r.Path] != r.Version {
			fault("does not say that %s %s is required, and why no lower version does", r.Path, r.Version)
		}
	}
	for path, version := range said {
		if required[path] != version {
			fault("says that %s %s is required, and go.mod has %q", path, version, required[path])
		}
	}
	for _, match := range versionLine.FindAllStringSubmatch(string(text), -1) {
		if version := required[match[1]]; version != "" && version != match[2] {
			fault("shows %s %s in a go.mod, and ours has %s", match[1], match[2], version)
		}
	}
	return faults
}

func TestNestedModulesBuildOnThisCheckout(t *testing.T) {
	t.Parallel()
	nested := func(text string) map[string]string {
		return map[string]string{"go.mod": "module " + module + "\n", "a/b/go.mod": text}
	}
	hold(t, nestedModules, map[string]breach{
		"another name": {
			tree: nested("module example.com/b\n\nreplace " + module + " => ../..\n"),
			want: "example.com/b",
		},
		"no replace": {
			tree: nested("module " + module + "/a/b\n"),
			want: "lacks \"replace " + module + " => ../..\"",
		},
		"a replace that points elsewhere": {
			tree: nested("module " + module + "/a/b\n\nreplace " + module + " => ..\n"),
			want: "lacks \"replace " + module + " => ../..\"",
		},
	})
}

// rootModule checks the go.mod of the root. A consumer's build ignores our replace and exclude
// directives, so code that builds here might not build there. Our tools would become requirements
// of every consumer.
func rootModule(tree fs.FS, _ []source) []string {
	ctx := context.Background()
	mod, err := readGoMod(ctx, tree, "go.mod")
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, "go.mod "+fmt.Sprintf(format, args...))
	}
	if mod.Module.Path != module {
		fault("names the module %s instead of %s", mod.Module.Path, module)
	}
	for _, r := range mod.Replace {
		fault("replaces %s; a consumer's build ignores that", r.Old.Path)
	}
	for _, r := range mod.Exclude {
		fault("excludes %s; a consumer's build ignores that", r.Path)
	}
	for _, r := range mod.Tool {
		fault("requires the tool %s, which every consumer would inherit; the Makefile installs tools", r.Path)
	}
	for _, r := range mod.Require {
		switch {
		case below(r.Path, module):
			fault("requires %s, a nested module of its own, so neither could be released first", r.Path)
		case strings.Contains(r.Path, "testify"):
			fault("requires %s; tests here use the standard library only", r.Path)
		case !r.Indirect && required[r.Path] == "":
			fault("requires %s; if it is necessary, add it with a reason to required in test/policy", r.Path)
		}
	}
	return faults
}

// nestedModules checks that a nested module replaces the root module with this checkout.
func nestedModules(tree fs.FS, _ []source) []string {
	ctx := context.Background()
	var faults []string
	err := fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && ignored(entry.Name()) && file != "." {
			return fs.SkipDir
		}
		dir := path.Dir(file)
		if path.Base(file) != "go.mod" || dir == "." {
			return nil
		}
		mod, err := readGoMod(ctx, tree, file)
		if err != nil {
			return err
		}
		if want := module + "/" + dir; mod.Module.Path != want {
			faults = append(faults, fmt.Sprintf("%s names the module %s instead of %s", file, mod.Module.Path, want))
		}
		up := strings.TrimSuffix(strings.Repeat("../", strings.Count(dir, "/")+1), "/")
		replaced := false
		for _, r := range mod.Replace {
			replaced = replaced || r.Old.Path == module && r.New.Path == up
		}
		if !replaced {
			faults = append(faults, fmt.Sprintf("%s lacks \"replace %s => %s\"", file, module, up))
		}
		return nil
	})
	if err != nil {
		faults = append(faults, err.Error())
	}
	return faults
}

// readGoMod parses the file with the go command, which knows every form of it.
func readGoMod(ctx context.Context, tree fs.FS, file string) (goMod, error) {
	var mod goMod
	text, err := fs.ReadFile(tree, file)
	if err != nil {
		return mod, err
	}
	dir, err := os.MkdirTemp("", "policy")
	if err != nil {
		return mod, err
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, "go.mod")
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		return mod, err
	}
	output, err := exec.CommandContext(ctx, "go", "mod", "edit", "-json", copied).CombinedOutput()
	if err != nil {
		return mod, fmt.Errorf("%s: %w: %s", file, err, output)
	}
	err = json.Unmarshal(output, &mod)
	return mod, err
}

// TestNoWorkspaceIsCommitted prevents a go.work in the tree. With a go.work, the go command of
// everyone who checks out the tree would first resolve the requirements of the nested modules,
// including unpublished ones.
func TestNoWorkspaceIsCommitted(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "git", "ls-files")
	list.Dir = "../.."
	output, err := list.Output()
	if err != nil {
		t.Skipf("git cannot list this tree, so it is not a checkout: %v", err)
	}
	for _, fault := range workspaces(strings.Fields(string(output))) {
		t.Error(fault)
	}
	if got := workspaces([]string{"go.mod", "a/go.work", "go.work.sum"}); len(got) != 2 {
		t.Errorf("there are two workspace files, but these were found: %q", got)
	}
}

func workspaces(files []string) []string {
	var faults []string
	for _, file := range files {
		if slices.Contains([]string{"go.work", "go.work.sum"}, path.Base(file)) {
			faults = append(faults, file+" is committed; a workspace is a developer's own affair")
		}
	}
	return faults
}
