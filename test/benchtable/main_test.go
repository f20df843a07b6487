package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// lines is benchmark output that just meets every target.
const lines = `
goos: linux
BenchmarkFloor-2             100  100.0 ns/op
BenchmarkNext-2              100  40.0 ns/op  0 B/op  0 allocs/op
BenchmarkNext-2              100  50.0 ns/op  0 B/op  0 allocs/op
BenchmarkNext-2              100  900.0 ns/op  0 B/op  0 allocs/op
BenchmarkNextTwoGoroutines-2 100  100.2 ns/op
BenchmarkFill1000-2          100  1000 ns/op  1.0 ns/id  0 B/op  0 allocs/op
BenchmarkSaturated-2         1  2000 ns/op  99.0 %capacity  25.0 %core
BenchmarkNextLeased-2        100  2000 ns/op  1.05 of-by-hand
BenchmarkSource/Next-2       100  10.0 ns/op  0 B/op  0 allocs/op
BenchmarkSource/Fill1000-2   100  1000 ns/op  1.0 ns/id  0 B/op  0 allocs/op
BenchmarkOpaque/Seal-2       100  100.0 ns/op  24 B/op  1 allocs/op
BenchmarkOpaque/Open-2       100  100.0 ns/op  0 B/op  0 allocs/op
BenchmarkShardTable-2        100  150.0 ns/op  1 allocs/op
BenchmarkShardConstraint/sqlite-2  10  20 ns/op  1.03 of-by-hand
BenchmarkShardConstraint/postgres-2 10  20 ns/op  1.03 of-by-hand
BenchmarkShards/of4/postgres/point-2 10  20 ns/op  1.05 of-by-hand
BenchmarkShards/of16/postgres/point-2 10  20 ns/op  1.08 of-by-hand  68 routed-allocs  66 by-hand-allocs
BenchmarkShards/of64/postgres/point-2 10  20 ns/op  1.1 of-by-hand
BenchmarkShards/of4/postgres/newest-2 10  20 ns/op  1.3 of-by-hand
BenchmarkShards/of16/postgres/newest-2 10  20 ns/op  1.5 of-by-hand
BenchmarkShards/of64/postgres/newest-2 10  20 ns/op  3.0 of-by-hand
BenchmarkShards/of4/sqlite/newest-2 10  20 ns/op  2.0 of-by-hand
BenchmarkShards/of16/sqlite/newest-2 10  20 ns/op  3.0 of-by-hand
BenchmarkShards/of64/sqlite/newest-2 10  20 ns/op  6.0 of-by-hand
BenchmarkShards/of4/mariadb/newest-2 10  20 ns/op  3.0 of-by-hand
BenchmarkShards/of16/mariadb/newest-2 10  20 ns/op  4.5 of-by-hand
BenchmarkShards/of64/mariadb/newest-2 10  20 ns/op  6.0 of-by-hand
BenchmarkShards/of4/postgres/find-2 10  20 ns/op  1.2 of-by-hand
BenchmarkShards/of16/postgres/find-2 10  20 ns/op  1.5 of-by-hand
BenchmarkShards/of64/postgres/find-2 10  20 ns/op  2.0 of-by-hand
BenchmarkShards/of4/postgres/create-2 10  20 ns/op  1.2 of-by-hand
BenchmarkShards/of16/postgres/create-2 10  20 ns/op  1.5 of-by-hand
BenchmarkShards/of64/postgres/create-2 10  20 ns/op  2.5 of-by-hand
BenchmarkResharding/sqlite-2 1  20 ns/op  8.0 of-by-hand
BenchmarkResharding/postgres-2 1  20 ns/op  8.0 of-by-hand
BenchmarkResharding/mariadb-2 1  20 ns/op  8.0 of-by-hand
BenchmarkIncr-2 1  20 ns/op  1.5 of-redis
BenchmarkPair/sqlite-sqlite-2 1  20 ns/op  0.7 x-of-by-hand
BenchmarkPair/sqlite-postgres-2 1  20 ns/op  0.7 x-of-by-hand
BenchmarkPair/sqlite-mariadb-2 1  20 ns/op  0.7 x-of-by-hand
BenchmarkPair/postgres-sqlite-2 1  20 ns/op  0.7 x-of-by-hand
BenchmarkPair/postgres-postgres-2 1  20 ns/op  0.7 x-of-by-hand
BenchmarkPair/postgres-mariadb-2 1  20 ns/op  0.7 x-of-by-hand
BenchmarkPair/mariadb-sqlite-2 1  20 ns/op  0.7 x-of-by-hand
BenchmarkPair/mariadb-postgres-2 1  20 ns/op  0.7 x-of-by-hand
BenchmarkPair/mariadb-mariadb-2 1  20 ns/op  0.7 x-of-by-hand
BenchmarkPair/mysql-mysql-2 1  20 ns/op  0.7 x-of-by-hand
BenchmarkWhole/sqlite-2     1  20 ns/op  3.5 x-of-by-hand
BenchmarkWhole/postgres-2   1  20 ns/op  2.5 x-of-by-hand
BenchmarkWhole/mariadb-2    1  20 ns/op  2.5 x-of-by-hand
BenchmarkWhole/mysql-2      1  20 ns/op  2.5 x-of-by-hand
BenchmarkPair/sqlite-sqlite-portable-2 1  20 ns/op  0.5 x-of-by-hand
BenchmarkShareOfBatch-2      1  2000 ns/op  2.0 %of-gorm  3.0 share-allocs/statement  40.0 share-ns/row
BenchmarkShareOfMap-2        1  2000 ns/op  5.0 %of-gorm  0.0 share-allocs/statement  300.0 share-ns/row
BenchmarkShareOfCreate-2     1  2000 ns/op  3.0 %of-gorm  1.0 share-allocs/statement  300.0 share-ns/row
PASS
`

func TestTheTableShowsMediansAndRatios(t *testing.T) {
	var out strings.Builder
	if err := run(strings.NewReader(lines), &out, "", true); err != nil {
		t.Fatalf("every target is met, but run returned %v", err)
	}
	for _, want := range []string{"0.50x", "2.00x", "99.00 %", ">= 99 %", "<= 3 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "NO") {
		t.Errorf("a met target is shown as missed:\n%s", out.String())
	}
}

// On one processor go test adds none to the names, some of which have a dash of their own.
func TestNamesWithoutTheNumberOfProcessorsAreRead(t *testing.T) {
	of := func(text string) string {
		t.Helper()
		f, err := parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		value, _, err := f.median(key{"BenchmarkPair/sqlite-sqlite", "x-of-by-hand"})
		return fmt.Sprint(value, err)
	}
	for _, name := range []string{"BenchmarkPair/sqlite-sqlite", "BenchmarkPair/sqlite-sqlite-2"} {
		if got := of(name + " 1 20 ns/op 0.7 x-of-by-hand"); got != "0.7 <nil>" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestAMissedTargetIsShownAndFailsOnlyWhenStrict(t *testing.T) {
	slow := strings.ReplaceAll(lines, "3.0 %of-gorm", "3.1 %of-gorm")
	var out strings.Builder
	if err := run(strings.NewReader(slow), &out, "", false); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "NO") != 1 {
		t.Errorf("want one missed target:\n%s", out.String())
	}
	if err := run(strings.NewReader(slow), &out, "", true); err == nil {
		t.Error("with -strict, a missed target returned no error")
	}
}

func TestMissingOrBrokenInputIsAnError(t *testing.T) {
	for name, input := range map[string]string{
		"empty":        "",
		"one missing":  strings.ReplaceAll(lines, "BenchmarkFloor", "BenchmarkRoof"),
		"failed run":   lines + "FAIL\n",
		"not a number": lines + "BenchmarkNext-2 100 fast ns/op\n",
	} {
		if err := run(strings.NewReader(input), &strings.Builder{}, "", false); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTheTableIsWrittenIntoItsPlaceOnAPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + beginMark + "old\n" + endMark + "after\n")
	rows, err := rowsOf(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	if err := replace(page, rows); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n" + beginMark, "| segment, Next | 10.00 ns | <= 10 ns | yes |\n", endMark + "after\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Errorf("the old table is there:\n%s", text)
	}
	write("no marks\n")
	if err := replace(page, rows); err == nil {
		t.Error("a page without marks was written")
	}
}

// The pattern is what go test makes of it: alternatives, of which each matches its levels one by one.
func TestThePatternRunsWhatHasATargetAndNothingElse(t *testing.T) {
	for benchmark, want := range map[string]bool{
		"BenchmarkNext": true, "BenchmarkFloor": true, "BenchmarkPair/sqlite-postgres": true,
		"BenchmarkShards/of16/postgres/find": true, "BenchmarkShards/of16/mysql/find": false,
		"BenchmarkNextLike": false, "BenchmarkRenames/sqlite": false, "BenchmarkPair/mysql-postgres": false,
	} {
		names := strings.Split(benchmark, "/")
		runs := false
		for alternative := range strings.SplitSeq(benchmarks(), ")$|^(") {
			levels := strings.Split(alternative, ")$/^(")
			if len(levels) != len(names) {
				continue
			}
			all := true
			for n, name := range names {
				one := "^(" + strings.Trim(levels[n], "^()$") + ")$"
				all = all && regexp.MustCompile(one).MatchString(name)
			}
			runs = runs || all
		}
		if runs != want {
			t.Errorf("%s runs: %t, want %t", benchmark, runs, want)
		}
	}
}
