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
	lean := []string{"lease/sqllease", "segment/sqlsegment", "segment", "lease", "generator"}
	const withGORM = "lease/gormlease"
	needs := foreign(t, append(lean, withGORM)...)
	for _, pkg := range lean {
		if found, listed := needs[pkg]; len(found) > 0 || !listed {
			t.Errorf("%s needs %q, and was listed: %t", pkg, found, listed)
		}
	}
	if found := needs[withGORM]; !slices.Contains(found, "gorm.io/gorm") {
		t.Errorf("the test does not find what %s needs, only %q", withGORM, found)
	}
}

// foreign lists for each of our packages what is needed to build it and comes from other modules. One run
// of the go command answers for all, because it takes most of a second.
func foreign(t *testing.T, packages ...string) map[string][]string {
	t.Helper()
	args := []string{"list", "-f", `{{.ImportPath}} {{join .Deps " "}}`}
	for _, pkg := range packages {
		args = append(args, module+"/"+pkg)
	}
	output, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	needs := map[string][]string{}
	for line := range strings.Lines(string(output)) {
		paths := strings.Fields(line)
		needs[strings.TrimPrefix(paths[0], module+"/")] = slices.DeleteFunc(paths[1:], func(path string) bool {
			return standard(path) || below(path, module)
		})
	}
	return needs
}
