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

// A rule lists what the packages of a directory may import in addition to the standard library.
// Tests are exempt, because go.mod limits what they can use.
type rule struct {
	dir string   // relative to the top; "dir/..." means every directory below dir
	may []string // "./dir" is our package dir, "./..." any but those below test; else a path and all below
	why string
}

// Imports point in one direction: generator, lease, the plugin, and then merge and the commands. A
// package without a rule is a fault, so the author of a new package must first decide where it
// belongs.
var rules = []rule{
	{
		dir: "generator", may: []string{"./internal/errs", "./internal/limits"},
		why: "IDs need no database, and its ErrSealed must match the module's ErrClosed",
	},
	{
		dir: "lease", may: []string{"./generator", "./internal/attempt", "./internal/errs", "./internal/limits"},
		why: "a store in a nested module must not depend on GORM through the protocol, and its " +
			"ErrClosed must match the module's",
	},
	{
		dir: "lease/leasetest", may: []string{"./generator", "./lease", "./internal/errs"},
		why: "every store runs the suite, in modules that do not depend on GORM, and its errors are the module's",
	},
	{
		dir: "lease/sqllease", may: []string{
			"./generator", "./lease", "./internal/authority", "./internal/dialect", "./internal/errs",
			"./internal/leaseops", "./internal/sqltable",
		},
		why: "programs on database/sql lease from it without GORM, with the driver that they choose",
	},
	{
		dir: "lease/gormlease", may: []string{
			"./generator", "./lease", "./lease/sqllease", "./internal/authority", "./internal/gormpool", "gorm.io/gorm",
		},
		why: "it works on the application's own database, whose driver the application chooses",
	},
	{
		dir: "lease/redislease",
		may: []string{
			"./generator", "./lease", "./internal/leaseops", "./internal/redisstore", "github.com/redis/go-redis",
		},
		why: "a store needs the protocol and one client, and has the mark of all stores",
	},
	{
		dir: "lease/etcdlease",
		may: []string{
			"./generator", "./lease", "./internal/errs", "./internal/leaseops", "go.etcd.io/etcd",
		},
		why: "a store needs the protocol and one client, and has the mark of all stores",
	},
	{
		dir: "lease/zklease",
		may: []string{
			"./generator", "./lease", "./internal/attempt", "./internal/errs", "./internal/leaseops",
			"github.com/go-zookeeper/zk",
		},
		why: "a store needs the protocol and one client, and has the mark of all stores",
	},
	{
		dir: "internal/dialect",
		why: "it is what all that writes SQL knows of the databases, in every module, so it imports no other package",
	},
	{
		dir: "internal/sqltable", may: []string{"./internal/attempt", "./internal/dialect", "./internal/errs"},
		why: "stores of every kind make their requests with it, without GORM and without a driver",
	},
	{
		dir: "internal/gormpool", may: []string{"./internal/dialect", "./internal/sqltable", "gorm.io/gorm"},
		why: "it finds a connection for stores, and does not know them",
	},
	{
		dir: "opaque",
		why: "texts for strangers need a key and nothing else",
	},
	{
		dir: "segment", may: []string{"./internal/attempt", "./internal/errs"},
		why: "numbers need no database, and its ErrClosed must match the module's",
	},
	{
		dir: "segment/sqlsegment",
		may: []string{"./segment", "./internal/authority", "./internal/dialect", "./internal/errs", "./internal/sqltable"},
		why: "programs on database/sql count in it without GORM, with the driver that they choose",
	},
	{
		dir: "segment/gormsegment",
		may: []string{"./segment", "./segment/sqlsegment", "./internal/gormpool", "gorm.io/gorm"},
		why: "it works on the application's own database, whose driver the application chooses",
	},
	{
		dir: "segment/redissegment",
		may: []string{"./segment", "./internal/redisstore", "github.com/redis/go-redis"},
		why: "a store needs the counters and one client",
	},
	{
		dir: "segment/segmenttest", may: []string{"./segment"},
		why: "every store runs the suite, in modules that do not depend on GORM",
	},
	{
		dir: "internal/errs",
		why: "every package may wrap its errors, so it imports no other package",
	},
	{
		dir: "internal/limits",
		why: "the generator and the leases have bounds in common, so it imports no other package",
	},
	{
		dir: "internal/attempt", may: []string{"./internal/errs"},
		why: "a lease and a counter ask their stores alike, and it knows neither",
	},
	{
		dir: "internal/dsn",
		why: "the command and the service have drivers, and the merge has none",
	},
	{
		dir: "internal/layouts", may: []string{"./generator"},
		why: "the command, the merge and the service take the name of a preset",
	},
	{
		dir: "internal/leaseops", may: []string{"./lease", "./internal/errs", "./internal/limits"},
		why: "stores mark their records with it, and the merge, the command and the authority change records",
	},
	{
		dir: "internal/authority",
		may: []string{"./lease", "./internal/dialect", "./internal/errs", "./internal/leaseops", "./internal/sqltable"},
		why: "the stores in databases have their identity from it, those that do without GORM too",
	},
	{
		dir: "internal/fill", may: []string{"./generator", "./lease", "./internal/dialect", "./internal/errs", "gorm.io/gorm"},
		why: "it fills rows and does not know the routers or the plugin that use it",
	},
	{
		dir: "internal/shardmap",
		may: []string{"./generator", "./internal/dialect", "./internal/errs", "./internal/fill", "gorm.io/gorm"},
		why: "it says where rows are, and does not know the router that goes by it",
	},
	{
		dir: "internal/reshard",
		may: []string{"./internal/attempt", "./internal/dialect", "./internal/errs", "./internal/shardmap", "gorm.io/gorm"},
		why: "a job knows the entries of the shard map and their tables, and no router",
	},
	{
		dir: "internal/router",
		may: []string{
			"./generator", "./internal/dialect", "./internal/errs", "./internal/fill", "./internal/shardmap",
			"gorm.io/gorm",
		},
		why: "it routes rows, and the root package documents it and imports it",
	},
	{
		dir: "resharding",
		may: []string{
			"./", "./internal/errs", "./internal/fill", "./internal/reshard", "./internal/router", "./internal/shardmap",
			"gorm.io/gorm",
		},
		why: "it takes the router of the root, which does not know how shards are changed",
	},
	{
		dir: "partition",
		may: []string{
			"./", "./generator", "./internal/dialect", "./internal/errs", "./internal/fill", "gorm.io/gorm",
		},
		why: "it asks the plugin for the layout, and the plugin does not need it",
	},
	{
		dir: ".",
		may: []string{
			"./generator", "./lease", "./lease/gormlease", "./segment",
			"./internal/attempt", "./internal/authority", "./internal/errs",
			"./internal/fill", "./internal/router", "./internal/shardmap", "gorm.io/gorm",
		},
		why: "the plugin works with every dialect, so it imports no driver",
	},
	{
		dir: "test/suite", may: []string{"./", "./test/dbtest", "gorm.io/gorm"},
		why: "it tests the module as its users see it",
	},
	{
		dir: "snowflaketest", may: []string{"./", "./generator"},
		why: "the tests of applications use it on every database, and on none",
	},
	{
		dir: "migrate",
		may: []string{
			"./lease/sqllease", "./segment/sqlsegment", "./internal/dialect", "./internal/errs", "./internal/fill",
			"gorm.io/gorm",
		},
		why: "it reads the databases of applications with their drivers, and the plugin does not need it",
	},
	{
		dir: "pgxid", may: []string{"./", "github.com/jackc/pgx/v5"},
		why: "a program that does not use pgx must not link it",
	},
	{
		dir: "observe/promobserve",
		may: []string{
			"./", "./generator", "./internal/shardwatch", "./observe/promobserve/idcollector",
			"github.com/prometheus/client_golang", "gorm.io/gorm",
		},
		why: "it reads what the plugin says of itself, and counts the statements of shards, for one client",
	},
	{
		dir: "observe/promobserve/idcollector",
		may: []string{"./generator", "./segment", "github.com/prometheus/client_golang"},
		why: "the service has the metrics of the plugin, and needs no ORM",
	},
	{
		dir: "internal/shardwatch", may: []string{"gorm.io/gorm"},
		why: "modules for several clients count the statements of shards in the same way",
	},
	{
		dir: "observe/otelobserve",
		may: []string{"./", "./generator", "./internal/shardwatch", "go.opentelemetry.io/otel", "gorm.io/gorm"},
		why: "it reads what the plugin says of itself, for one client",
	},
	{
		dir: "observe/dashboards",
		why: "it has files for Grafana and Prometheus, and no code",
	},
	{
		dir: "merge/...",
		may: []string{
			"./", "./generator", "./internal/layouts", "./internal/leaseops", "./merge", "./merge/internal/census",
			"./merge/internal/sqldb", "./merge/internal/verify", "go.yaml.in/yaml/v3",
		},
		why: "it works on database/sql, and the plugin must not depend on it",
	},
	{
		dir: "merge/internal/census", may: []string{"./merge/internal/sqldb"},
		why: "it asks databases about their columns, and knows nothing of plans and policies",
	},
	{
		dir: "merge/internal/sqldb", may: []string{"./internal/dialect", "./internal/dsn"},
		why: "it reads and writes databases of every kind, and knows nothing of plans and policies",
	},
	{
		dir: "merge/internal/verify",
		why: "it proves the merge, so it shares no code with what copies, converts and renumbers",
	},
	{
		dir: "server/internal/...",
		may: []string{
			"./generator", "./internal/attempt", "./internal/dsn", "./internal/errs", "./internal/layouts", "./lease",
			"./lease/sqllease", "./observe/promobserve/idcollector",
			"./segment", "./segment/sqlsegment", "github.com/prometheus/client_golang",
			"./server/internal/access", "./server/internal/issue", "./server/internal/metrics",
			"./server/internal/netlimit", "./server/internal/resp", "./server/internal/settings", "./server/internal/sources",
			"./server/internal/unwrap", "./server/internal/web", "./server/snowflakev1", "./server/snowflakev1/snowflakev1connect",
			"connectrpc.com/connect", "connectrpc.com/grpcreflect", "google.golang.org/protobuf", "go.yaml.in/yaml/v3",
			"github.com/jackc/pgx/v5", "github.com/go-sql-driver/mysql", "github.com/mattn/go-sqlite3",
		},
		why: "the service needs no ORM, and has drivers because it is a program",
	},
	{
		dir: "server/internal/protogen", may: []string{"github.com/bufbuild/protocompile", "google.golang.org/protobuf"},
		why: "it generates code, and is no part of the service",
	},
	{
		dir: "server/client",
		may: []string{
			"./internal/attempt", "./internal/errs", "./server/snowflakev1", "./server/snowflakev1/snowflakev1connect",
			"connectrpc.com/connect",
		},
		why: "a program that asks the service links no driver and nothing of the server",
	},
	{
		dir: "server/snowflakev1/...",
		may: []string{"./server/snowflakev1", "connectrpc.com/connect", "google.golang.org/protobuf"},
		why: "it is generated",
	},
	{
		dir: "server/internal/load",
		why: "its processes are built from the command, and it holds tests only, which are exempt",
	},
	{
		dir: "server/examples/...", may: []string{"./server/client"},
		why: "an example shows what a user writes",
	},
	{
		dir: "server/cmd/...", may: []string{"./server/internal/daemon", "./server/internal/settings"},
		why: "the service is in packages, so that tests can run it",
	},
	{
		dir: "cmd/...", may: []string{"./...", "gorm.io", "github.com/jackc/pgx/v5", "golang.org/x/text/width"},
		why: "a command contains its drivers",
	},
	{
		dir: "examples/...", may: []string{"./...", "gorm.io", "github.com/jackc/pgx/v5"},
		why: "an example shows what a user writes",
	},
	{
		dir: "examples/merge", may: []string{"./...", "./test/gameworld", "gorm.io"},
		why: "it merges worlds that a user can look at",
	},
	{
		dir: "test/dbtest/...",
		may: []string{
			"./test/dbtest", "./test/nightly", "./test/servers",
			"gorm.io", "github.com/jackc/pgx/v5", "github.com/go-sql-driver/mysql",
		},
		why: "it only opens databases and imports none of the packages that are tested with it",
	},
	{
		dir: "test/nightly",
		why: "the tests of every package use it, including those of the generator",
	},
	{
		dir: "test/servers", may: []string{"./test/nightly"},
		why: "it starts servers for the tests of stores in every module",
	},
	{
		dir: "test/simnet", may: []string{"./test/nightly"},
		why: "a simulation runs more seeds at night",
	},
	{
		dir: "test/storetest", may: []string{"./lease", "./test/servers"},
		why: "it holds what the tests of several stores share, so it needs the interface of a store",
	},
	{
		dir: "test/testrun", may: []string{"./test/nightly"},
		why: "it runs the tests of every package, so it needs none of them",
	},
	{
		dir: "test/faults",
		why: "its processes are built from its tests, which are exempt",
	},
	{
		dir: "test/chaos", may: []string{
			"./generator", "./lease", "./segment", "./test/chaos/checker", "./test/servers",
		},
		why: "stores in nested modules are disturbed with it, and its processes know no more than the protocol",
	},
	{
		dir: "test/chaos/checker",
		why: "it shares no code with what it checks",
	},
	{
		dir: "test/gameworld", may: []string{"./generator"},
		why: "it creates databases with SQL only, as they were before a merge tool existed",
	},
	{
		dir: "internal/redisstore", may: []string{"./internal/attempt", "./internal/errs", "github.com/redis/go-redis"},
		why: "stores of every kind keep a key of Redis with it, in modules of their own",
	},
	{
		dir: "internal/redisstore/redistest", may: []string{"./test/servers", "github.com/redis/go-redis"},
		why: "it starts servers for the tests of those modules",
	},
	{
		dir: "test/benchtable",
		why: "it reads text",
	},
	{
		dir: "test/policy",
		why: "the rules read the sources but do not import them",
	},
}

// free lists nested modules for comparison and integration. They may import what they compare.
var free = []string{"test/ecosystem", "examples/metrics", "bench"}

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
			tree: map[string]string{"p.go": `package p; import "` + module + `/test/dbtest"`},
			want: "p.go imports " + module + "/test/dbtest",
		},
		"test support in a program": {
			tree: map[string]string{"cmd/c/main.go": `package main; import "` + module + `/test/dbtest"`},
			want: "cmd/c/main.go imports " + module + "/test/dbtest",
		},
		"a package whose name only begins like one that is allowed": {
			tree: map[string]string{"lease/l.go": `package lease; import "` + module + `/generators"`},
			want: "generators",
		},
		"the proof of a merge with the code of the merge": {
			tree: map[string]string{
				"merge/internal/verify/v.go": `package verify; import "` + module + `/merge/internal/sqldb"`,
			},
			want: "it shares no code with what copies",
		},
		"a store in the command's place": {
			tree: map[string]string{
				"lease/redislease/r.go": `package redislease; import "` + module + `"`,
			},
			want: "a store needs the protocol and one client",
		},
	})
}

// A rule for a directory that no longer exists has no effect, and nobody would notice it.
func TestEveryRuleIsForADirectoryThatIsThere(t *testing.T) {
	t.Parallel()
	all := slices.Clone(rules)
	for _, dir := range free {
		all = append(all, rule{dir: dir + "/..."})
	}
	sources := sourcesOf(t, repositorySources)
	for _, dir := range withoutSources(all, sources) {
		t.Errorf("a rule names %s, which has no Go files: delete or correct the rule", dir)
	}
	all = append(all, rule{dir: "internal/gone"}, rule{dir: "gone/..."}, rule{dir: "gener/..."})
	if found := withoutSources(all, sources); !slices.Equal(found, []string{"internal/gone", "gone/...", "gener/..."}) {
		t.Errorf("three directories do not exist, but only these were found: %q", found)
	}
}

// withoutSources returns the directories of the rules that have no Go files.
func withoutSources(rules []rule, sources []source) (dirs []string) {
	for _, r := range rules {
		top, all := strings.CutSuffix(r.dir, "/...")
		if !slices.ContainsFunc(sources, func(s source) bool { return s.dir() == top || all && below(s.dir(), top) }) {
			dirs = append(dirs, r.dir)
		}
	}
	return dirs
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
					"add one, with its reason, to rules in test/policy", s.dir()))
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

// testingImports finds packages that would bring the testing package into programs.
func testingImports(_ fs.FS, sources []source) []string {
	var faults []string
	for _, s := range sources {
		support := below(s.dir(), "internal") || below(s.dir(), "test") || slices.Contains([]string{"leasetest", "segmenttest"}, path.Base(s.dir()))
		if !support && !s.isTest() && slices.Contains(importsOf(s), "testing") {
			faults = append(faults, s.path+" imports testing, which belongs in tests and their support")
		}
	}
	return faults
}

// ruleOf returns the rule with the longest matching directory.
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
	if standard(imported) {
		return true
	}
	own, isOwn := strings.CutPrefix(imported+"/", module+"/")
	return slices.ContainsFunc(r.may, func(may string) bool {
		switch {
		case isOwn:
			return may == "./"+strings.TrimSuffix(own, "/") || may == "./..." && !below(own, "test")
		default:
			return below(imported, may)
		}
	})
}

// standard reports whether an import path is of the standard library. Outside it, the first element is a
// host name with a dot.
func standard(imported string) bool {
	host, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(host, ".")
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

// below reports whether a path equals top or is below it.
func below(p, top string) bool { return p == top || strings.HasPrefix(p, top+"/") }
