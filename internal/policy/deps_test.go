package policy_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Whoever leases without GORM does not compile it, nor a driver that he did not choose: nothing that
// the package needs, directly or not, lies outside the standard library and this module.
func TestLeasesWithoutGORMCompileNothingElse(t *testing.T) {
	t.Parallel()
	for _, pkg := range []string{"lease/sqllease", "segment/sqlsegment", "segment", "lease", "generator"} {
		if found := foreign(t, pkg); len(found) > 0 {
			t.Errorf("%s needs %q", pkg, found)
		}
	}
	if found := foreign(t, "lease/gormlease"); !slices.Contains(found, "gorm.io/gorm") {
		t.Errorf("the test does not find what lease/gormlease needs, only %q", found)
	}
}

// foreign lists the packages that are needed to build one of ours and come from other modules.
func foreign(t *testing.T, pkg string) (paths []string) {
	t.Helper()
	const format = "{{if not .Standard}}{{.ImportPath}}{{end}}"
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, module+"/"+pkg)
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(output)) {
		if !below(path, module) {
			paths = append(paths, path)
		}
	}
	return paths
}
