package lease_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// The table of schedules in docs/leases-reference.md has all of them, and names tests that there are.
func TestTheDocsNameTheTestsOfAllSchedules(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile(filepath.Join("..", "docs", "leases-reference.md"))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 36; n++ {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| S%d \|.*\| (.*) \|$`, n)).FindSubmatch(docs)
		if row == nil {
			t.Errorf("S%d is not in the table", n)
			continue
		}
		if tests := string(row[1]); tests != "none" && !regexp.MustCompile(fmt.Sprintf(`S%02d`, n)).MatchString(tests) {
			t.Errorf("the tests of S%d are said to be %s", n, tests)
		}
	}
	files, err := filepath.Glob("schedule_*_test.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("the files of the schedules are %v, %v", files, err)
	}
	var tests []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^func Test(S\d\w+)\(`).FindAllSubmatch(source, -1) {
			tests = append(tests, string(match[1]))
		}
	}
	var named []string
	for _, match := range regexp.MustCompile("`(S\\d\\w+)`").FindAllSubmatch(docs, -1) {
		named = append(named, string(match[1]))
	}
	for _, list := range []*[]string{&tests, &named} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if !slices.Equal(tests, named) {
		t.Errorf("the docs name\n%v\nthere are\n%v", named, tests)
	}
}
