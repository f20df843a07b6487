package dbtest

import (
	"hash/fnv"
	"slices"

	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// Chosen returns the targets on which a test runs in this tier. At night these are all candidates. In tier
// one they are SQLite, TiDB, and one of the database servers, as far as they are candidates. The name of
// the test chooses the server: a test always meets the same one, and the tests of a package meet all of
// them. The name is that of a leaf, for example t.Name().
//
// A test of what only one database has, or of statements that differ from database to database, takes its
// targets from [Targets] or [Servers] in both tiers.
func Chosen(name string, candidates []Target) []Target {
	if nightly.Enabled() {
		return candidates
	}
	servers := slices.DeleteFunc(slices.Clone(candidates), Target.always)
	if len(servers) == 0 {
		return candidates
	}
	hash := fnv.New32a()
	hash.Write([]byte(name))
	server := servers[hash.Sum32()%uint32(len(servers))] //nolint:gosec // a handful of targets
	return slices.DeleteFunc(slices.Clone(candidates), func(t Target) bool {
		return !t.always() && t != server
	})
}

// always reports whether a target is met by every test in tier one: SQLite costs little, and TiDB is there
// only if somebody asked for it.
func (t Target) always() bool { return t.Dialect == dialectSQLite || t.Name == nameTiDB }
