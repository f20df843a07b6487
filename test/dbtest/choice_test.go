package dbtest_test

import (
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestTierOneMeetsSQLiteAndOneServerByTheNameOfTheTest(t *testing.T) {
	t.Setenv(nightly.Variable, "")
	candidates := dbtest.Targets()
	met := map[string]int{}
	for i := range 400 {
		name := fmt.Sprintf("Test%d/a behavior", i)
		chosen, again := dbtest.Chosen(name, candidates), dbtest.Chosen(name, candidates)
		servers := 0
		for j, target := range chosen {
			if again[j] != target {
				t.Fatalf("%s met %s and then %s", name, target.Name, again[j].Name)
			}
			met[target.Name]++
			if target.Name != "sqlite" && target.Name != "tidb" {
				servers++
			}
		}
		if chosen[0].Name != "sqlite" || servers != 1 {
			t.Fatalf("%s runs on %v", name, chosen)
		}
	}
	for _, target := range candidates {
		if met[target.Name] < 60 {
			t.Errorf("%d of 400 tests run on %s, so it is hardly tested: %v", met[target.Name], target.Name, met)
		}
	}
}

func TestTheNightMeetsEveryCandidate(t *testing.T) {
	t.Setenv(nightly.Variable, "1")
	if chosen := dbtest.Chosen(t.Name(), dbtest.Targets()); len(chosen) != len(dbtest.Targets()) {
		t.Errorf("only %v were chosen at night", chosen)
	}
}

func TestATestOfOneServerMeetsItInEveryTier(t *testing.T) {
	for _, tier := range []string{"", "1"} {
		t.Setenv(nightly.Variable, tier)
		for _, target := range dbtest.Targets() {
			chosen := dbtest.Chosen("a test", []dbtest.Target{target})
			if len(chosen) != 1 || chosen[0] != target {
				t.Errorf("%s alone became %v", target.Name, chosen)
			}
		}
	}
}
