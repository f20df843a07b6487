package policy_test

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/snowflakeplugin/snowflakeplugin"

// A rule says what the packages of a directory may import besides the standard library. Tests are
// exempt: what they may use is a matter of go.mod.
type rule struct {
	dir string   // from the top; "dir/..." is everything below dir
	may []string // "./dir" is that package of ours and "./..." any, else a path and all below it
	why string
}

// Imports point one way: generator, lease, the plugin; merge and the commands at the edge. A
// package that no rule knows is a fault, so that a new one begins with the question where it
// belongs.
var rules = []rule{
	{
		dir: "generator",
		why: "numbers need no database, and whoever wants only them should get only them",
	},
	{
		dir: "lease", may: []string{"./generator"},
		why: "a store in a nested module must not pull GORM in by way of the protocol",
	},
	{
		dir: "lease/leasetest", may: []string{"./generator", "./lease"},
		why: "every store runs the suite, in modules that know nothing of GORM",
	},
	{
		dir: "lease/gormlease", may: []string{"./generator", "./lease", "gorm.io/gorm"},
		why: "it works on the application's own database, whose driver the application chooses",
	},
	{
		dir: "lease/redislease", may: []string{"./generator", "./lease", "github.com/redis/go-redis"},
		why: "a store needs the protocol and one client",
	},
	{
		dir: "lease/etcdlease", may: []string{"./generator", "./lease", "go.etcd.io/etcd"},
		why: "a store needs the protocol and one client",
	},
	{
		dir: "lease/zklease", may: []string{"./generator", "./lease", "github.com/go-zookeeper/zk"},
		why: "a store needs the protocol and one client",
	},
	{
		dir: ".",
		may: []string{"./generator", "./lease", "./lease/gormlease", "gorm.io/gorm"},
		why: "the plugin works with every dialect, so it imports no driver",
	},
	{
		dir: "pgxid", may: []string{"./", "github.com/jackc/pgx/v5"},
		why: "pgx stays out of the builds of those who do not use it",
	},
	{
		dir: "segment", may: []string{"gorm.io/gorm"},
		why: "ranges of numbers know nothing of layouts and leases",
	},
	{
		dir: "merge/...", may: []string{"./", "./generator", "./merge", "go.yaml.in/yaml/v3"},
		why: "it works on database/sql, and the plugin must not come to depend on it",
	},
	{
		dir: "cmd/...", may: []string{"./...", "gorm.io", "github.com/jackc/pgx/v5"},
		why: "a command brings its drivers along",
	},
	{
		dir: "examples/...", may: []string{"./...", "gorm.io", "github.com/jackc/pgx/v5"},
		why: "an example shows what a user writes",
	},
	{
		dir: "internal/dbtest/...",
		may: []string{
			"./internal/dbtest", "./internal/testx/servers",
			"gorm.io", "github.com/jackc/pgx/v5", "github.com/go-sql-driver/mysql",
		},
		why: "opening databases is its only subject; nothing of ours that is tested with it",
	},
	{
		dir: "internal/testx/...", may: []string{"./generator"},
		why: "helpers of every package's tests, those of the generator included",
	},
	{
		dir: "internal/faults",
		why: "its processes, which bring everything along, are built from its tests",
	},
	{
		dir: "internal/gameworld", may: []string{"./generator"},
		why: "it makes databases with SQL alone, as they were before there was anything to merge them",
	},
	{
		dir: "internal/benchtable",
		why: "it reads text",
	},
	{
		dir: "internal/policy",
		why: "the rules look at the sources, they do not use them",
	},
}

// free are nested modules that compare and integrate; they may import what they are about.
var free = []string{"bench", "internal/ecosystem"}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	hold(t, imports, map[string]breach{
		"a package that nothing is said about": {
			tree: map[string]string{"novelty/n.go": "package novelty"},
			want: "no rule says what novelty may import",
		},
		"a database in the generator": {
			tree: map[string]string{"generator/g.go": `package generator; import "gorm.io/gorm"`},
			want: "generator/g.go imports gorm.io/gorm",
		},
		"the plugin in a lease": {
			tree: map[string]string{"lease/l.go": `package lease; import "` + module + `"`},
			want: "lease/l.go imports " + module,
		},
		"a driver in the plugin, behind a build tag": {
			tree: map[string]string{
				"p.go": "//go:build never\n\npackage p; import _ \"gorm.io/driver/sqlite\"",
			},
			want: "p.go imports gorm.io/driver/sqlite",
		},
		"test support in the plugin": {
			tree: map[string]string{"p.go": `package p; import "` + module + `/internal/dbtest"`},
			want: "p.go imports " + module + "/internal/dbtest",
		},
		"a package whose name only begins like one that is allowed": {
			tree: map[string]string{"lease/l.go": `package lease; import "` + module + `/generators"`},
			want: "generators",
		},
		"a store in the command's place": {
			tree: map[string]string{
				"lease/redislease/r.go": `package redislease; import "` + module + `"`,
			},
			want: "a store needs the protocol and one client",
		},
	})
}

func TestOnlyTestSupportImportsTesting(t *testing.T) {
	t.Parallel()
	hold(t, testingImports, map[string]breach{
		"testing in a library": {
			tree: map[string]string{"lease/l.go": `package lease; import "testing"`},
			want: "lease/l.go imports testing",
		},
	})
}

func imports(_ fs.FS, sources []source) []string {
	var faults []string
	unknown := map[string]bool{}
	for _, s := range sources {
		if s.isTest() || slices.ContainsFunc(free, func(dir string) bool { return below(s.dir(), dir) }) {
			continue
		}
		r, found := ruleOf(s.dir())
		if !found {
			if !unknown[s.dir()] {
				unknown[s.dir()] = true
				faults = append(faults, fmt.Sprintf("no rule says what %s may import: "+
					"add one, with its reason, to rules in internal/policy", s.dir()))
			}
			continue
		}
		for _, imported := range importsOf(s) {
			if !r.allows(imported) {
				faults = append(faults, fmt.Sprintf("%s imports %s, but %s may import %s only: %s",
					s.path, imported, s.dir(), strings.Join(append(r.may, "the standard library"), ", "), r.why))
			}
		}
	}
	return faults
}

// testingImports keeps the testing package, and whatever it brings, out of programs.
func testingImports(_ fs.FS, sources []source) []string {
	var faults []string
	for _, s := range sources {
		support := below(s.dir(), "internal") || path.Base(s.dir()) == "leasetest"
		if !support && !s.isTest() && slices.Contains(importsOf(s), "testing") {
			faults = append(faults, s.path+" imports testing, which belongs in tests and their support")
		}
	}
	return faults
}

// ruleOf finds the rule with the longest matching directory.
func ruleOf(dir string) (best rule, found bool) {
	for _, r := range rules {
		top, all := strings.CutSuffix(r.dir, "/...")
		if dir != r.dir && (!all || !below(dir, top)) {
			continue
		}
		if !found || len(r.dir) > len(best.dir) {
			best, found = r, true
		}
	}
	return best, found
}

func (r rule) allows(imported string) bool {
	// The first element of a path that is not in the standard library is a host, with a dot.
	host, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(host, ".") {
		return true
	}
	own, isOwn := strings.CutPrefix(imported+"/", module+"/")
	return slices.ContainsFunc(r.may, func(may string) bool {
		switch {
		case isOwn:
			return may == "./..." || may == "./"+strings.TrimSuffix(own, "/")
		default:
			return below(imported, may)
		}
	})
}

func importsOf(s source) []string {
	var paths []string
	for _, spec := range s.file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// below tells whether a path is top or in it.
func below(p, top string) bool { return p == top || strings.HasPrefix(p, top+"/") }
