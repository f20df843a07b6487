package main

import (
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
BenchmarkShardLatest/postgres-2    10  20 ns/op  1.5 of-by-hand
BenchmarkShardPointRead/postgres-2 10  20 ns/op  1.1 of-by-hand
BenchmarkShardPointRead/sqlite-2   10  20 ns/op  1.1 of-by-hand
BenchmarkShardConstraint/sqlite-2  10  20 ns/op  1.03 of-by-hand
BenchmarkShardConstraint/postgres-2 10  20 ns/op  1.03 of-by-hand
BenchmarkShardCreate/postgres-2    10  20 ns/op  2.0 of-by-hand
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
BenchmarkPair/sqlite-sqlite-portable-2 1  20 ns/op  0.5 x-of-by-hand
BenchmarkShareOfBatch-2      1  2000 ns/op  2.0 %of-gorm  3.0 share-allocs/statement  40.0 share-ns/row
BenchmarkShareOfCreate-2     1  2000 ns/op  3.0 %of-gorm  1.0 share-allocs/statement  300.0 share-ns/row
PASS
`

func TestTheTableShowsMediansAndRatios(t *testing.T) {
	var out strings.Builder
	if err := run(strings.NewReader(lines), &out, true); err != nil {
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

func TestAMissedTargetIsShownAndFailsOnlyWhenStrict(t *testing.T) {
	slow := strings.ReplaceAll(lines, "3.0 %of-gorm", "3.1 %of-gorm")
	var out strings.Builder
	if err := run(strings.NewReader(slow), &out, false); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "NO") != 1 {
		t.Errorf("want one missed target:\n%s", out.String())
	}
	if err := run(strings.NewReader(slow), &out, true); err == nil {
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
		if err := run(strings.NewReader(input), &strings.Builder{}, false); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The pattern is what go test makes of it: each half is matched by itself.
func TestThePatternRunsWhatHasATargetAndNothingElse(t *testing.T) {
	name, part, _ := strings.Cut(benchmarks(), "/")
	for benchmark, want := range map[string]bool{
		"BenchmarkNext": true, "BenchmarkFloor": true, "BenchmarkPair/sqlite-postgres": true,
		"BenchmarkNextLike": false, "BenchmarkRenames/sqlite": false, "BenchmarkPair/mysql-postgres": false,
	} {
		top, below, has := strings.Cut(benchmark, "/")
		runs := regexp.MustCompile(name).MatchString(top) && (!has || regexp.MustCompile(part).MatchString(below))
		if runs != want {
			t.Errorf("%s runs: %t, want %t", benchmark, runs, want)
		}
	}
}
