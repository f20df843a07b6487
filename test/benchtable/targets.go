package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// target is one line of the table. It bounds a figure or the ratio of two figures.
type target struct {
	what    string
	figure  key
	over    key // the figure to divide by, if any
	atLeast bool
	bound   float64
	unit    string // printed after the number
}

// targets returns the speed targets of the project. Most of them are measured on a layout that a
// benchmark cannot exhaust. The exceptions measure what happens when a layout is exhausted.
func targets() []target {
	const (
		perOp = "ns/op"
		alloc = "allocs/op"
	)
	next, two := key{"BenchmarkNext", perOp}, key{"BenchmarkNextTwoGoroutines", perOp}
	list := []target{
		{what: "Next, one goroutine / (time.Since + mutex)", figure: next,
			over: key{"BenchmarkFloor", perOp}, bound: 0.5, unit: "x"},
		{what: "Next, allocations", figure: key{"BenchmarkNext", alloc}, bound: 0},
		{what: "Next, per ID from two goroutines / from one", figure: two, over: next, bound: 2, unit: "x"},
		{what: "Fill of 1000, per ID", figure: key{"BenchmarkFill1000", "ns/id"}, bound: 1, unit: " ns"},
		{what: "Fill of 1000, allocations", figure: key{"BenchmarkFill1000", alloc}, bound: 0},
		{what: "saturated Default, part of 4096 a millisecond",
			figure: key{"BenchmarkSaturated", "%capacity"}, atLeast: true, bound: 99, unit: " %"},
		{what: "saturated Default, part of one core",
			figure: key{"BenchmarkSaturated", "%core"}, bound: 25, unit: " %"},
		{what: "Next with a lease / with a number given by hand",
			figure: key{"BenchmarkNextLeased", "of-by-hand"}, bound: 1.05, unit: "x"},
		{what: "plugin's share of CreateInBatches(1000), part of GORM's own time",
			figure: key{"BenchmarkShareOfBatch", "%of-gorm"}, bound: 2, unit: " %"},
		{what: "plugin's share of CreateInBatches(1000), allocations a statement",
			figure: key{"BenchmarkShareOfBatch", "share-allocs/statement"}, bound: 3},
		{what: "plugin's share of Create, part of GORM's own time",
			figure: key{"BenchmarkShareOfCreate", "%of-gorm"}, bound: 3, unit: " %"},
		{what: "plugin's share of Create, allocations",
			figure: key{"BenchmarkShareOfCreate", "share-allocs/statement"}, bound: 1},
		{what: "plugin's share of Create of a map, part of GORM's own time",
			figure: key{"BenchmarkShareOfMap", "%of-gorm"}, bound: 5, unit: " %"},
		{what: "plugin's share of Create of a map, allocations",
			figure: key{"BenchmarkShareOfMap", "share-allocs/statement"}, bound: 0},
		{what: "segment, Next", figure: key{"BenchmarkSource/Next", perOp}, bound: 10, unit: " ns"},
		{what: "segment, Next, allocations", figure: key{"BenchmarkSource/Next", alloc}, bound: 0},
		{what: "segment, Fill of 1000, per number",
			figure: key{"BenchmarkSource/Fill1000", "ns/id"}, bound: 1, unit: " ns"},
		{what: "segment, Fill of 1000, allocations", figure: key{"BenchmarkSource/Fill1000", alloc}, bound: 0},
		{what: "opaque, Seal", figure: key{"BenchmarkOpaque/Seal", perOp}, bound: 100, unit: " ns"},
		{what: "opaque, Seal, allocations (the text)", figure: key{"BenchmarkOpaque/Seal", alloc}, bound: 1},
		{what: "opaque, Open", figure: key{"BenchmarkOpaque/Open", perOp}, bound: 100, unit: " ns"},
		{what: "opaque, Open, allocations", figure: key{"BenchmarkOpaque/Open", alloc}, bound: 0},
		{what: "shard and table of an ID", figure: key{"BenchmarkShardTable", perOp}, bound: 150, unit: " ns"},
		{what: "shard and table of an ID, allocations", figure: key{"BenchmarkShardTable", alloc}, bound: 1},
		{what: "1,000 rows into a table with the CHECK of its shard / without, on SQLite",
			figure: key{"BenchmarkShardConstraint/sqlite", "of-by-hand"}, bound: 1.03, unit: "x"},
		{what: "1,000 rows into a table with the CHECK of its shard / without, on PostgreSQL",
			figure: key{"BenchmarkShardConstraint/postgres", "of-by-hand"}, bound: 1.03, unit: "x"},
	}
	list = append(list, routes()...)
	for _, kind := range []string{"sqlite", "postgres", "mariadb"} {
		list = append(list, target{
			what:   "a shard of 64,000 rows split and joined while others may write / copied by hand, on " + kind,
			figure: key{"BenchmarkResharding/" + kind, "of-by-hand"}, bound: 8, unit: "x",
		})
	}
	list = append(list, target{
		what:   "requests for one ID over RESP, 16 connections / INCR of Redis",
		figure: key{"BenchmarkIncr", "of-redis"}, atLeast: true, bound: 1.5, unit: "x",
	})
	kinds := []string{"sqlite", "postgres", "mariadb"}
	for _, from := range kinds {
		for _, to := range kinds {
			list = append(list, target{
				what:   "rows a second merged from " + from + " into " + to + " / by hand",
				figure: key{"BenchmarkPair/" + from + "-" + to, "x-of-by-hand"}, atLeast: true, bound: 0.7, unit: "x",
			})
		}
	}
	for _, kind := range append(kinds, "mysql") {
		bound := 2.5
		if kind == "sqlite" {
			bound = 3.5 // It has no sums of hashes.
		}
		list = append(list, target{
			what:   "a merge within " + kind + ", from its draft until it is verified / copying by hand",
			figure: key{"BenchmarkWhole/" + kind, "x-of-by-hand"}, bound: bound, unit: "x",
		})
	}
	return append(list, target{
		what: "rows a second merged from mysql into mysql / by hand", atLeast: true, bound: 0.7, unit: "x",
		figure: key{"BenchmarkPair/mysql-mysql", "x-of-by-hand"},
	})
}

// routes returns the targets of a router beside GORM on one table that has all the rows.
func routes() (list []target) {
	shards := [...]int{4, 16, 64}
	for _, kind := range []struct {
		what, figure, database, name string
		bounds                       [len(shards)]float64
	}{
		{"a row by its ID", "point", "postgres", "PostgreSQL", [...]float64{1.05, 1.08, 1.1}},
		{"the newest 50 rows", "newest", "postgres", "PostgreSQL", [...]float64{1.3, 1.5, 3}},
		{"the newest 50 rows", "newest", "sqlite", "SQLite", [...]float64{2, 3, 6}},
		{"the newest 50 rows", "newest", "mariadb", "MariaDB", [...]float64{3, 4.5, 6}},
		{"Find of 20 rows", "find", "postgres", "PostgreSQL", [...]float64{1.2, 1.5, 2}},
		{"Create of 100 rows", "create", "postgres", "PostgreSQL", [...]float64{1.2, 1.5, 2.5}},
	} {
		for n, bound := range kind.bounds {
			benchmark := fmt.Sprintf("BenchmarkShards/of%d/%s/%s", shards[n], kind.database, kind.figure)
			list = append(list, target{
				what:   fmt.Sprintf("%s, %d shards / one table, on %s", kind.what, shards[n], kind.name),
				figure: key{benchmark, "of-by-hand"}, bound: bound, unit: "x",
			})
		}
	}
	const point = "BenchmarkShards/of16/postgres/point"
	return append(list, target{
		what:   "a row by its ID, 16 shards / one table, on PostgreSQL, allocations",
		figure: key{point, "routed-allocs"}, over: key{point, "by-hand-allocs"}, bound: 1.03, unit: "x",
	})
}

// benchmarks is the pattern of the benchmarks with a target, and of their parts. Those with as many parts
// make one alternative, level by level, because go test does not measure what a longer pattern matches in
// part.
func benchmarks() string {
	byDepth := map[int][]map[string]bool{}
	for _, t := range targets() {
		for _, k := range []key{t.figure, t.over} {
			names := strings.Split(k.benchmark, "/")
			if names[0] == "" {
				continue // a target that divides by nothing
			}
			levels := byDepth[len(names)]
			for level, name := range names {
				if level == len(levels) {
					levels = append(levels, map[string]bool{})
				}
				levels[level][name] = true
			}
			byDepth[len(names)] = levels
		}
	}
	var alternatives []string
	for _, depth := range slices.Sorted(maps.Keys(byDepth)) {
		var levels []string
		for _, names := range byDepth[depth] {
			levels = append(levels, "^("+strings.Join(slices.Sorted(maps.Keys(names)), "|")+")$")
		}
		alternatives = append(alternatives, strings.Join(levels, "/"))
	}
	return strings.Join(alternatives, "|")
}

// measure returns the median figure, or the ratio of two medians, and the number of runs.
func (t target) measure(f figures) (value float64, runs int, err error) {
	value, runs, err = f.median(t.figure)
	if err != nil || t.over == (key{}) {
		return value, runs, err
	}
	base, _, err := f.median(t.over)
	if err != nil {
		return 0, 0, err
	}
	return value / base, runs, nil
}

// met compares with the precision of the table: 1.004 counts as 1.00.
func (t target) met(value float64) bool {
	const half = 0.005
	if t.atLeast {
		return value >= t.bound-half
	}
	return value < t.bound+half
}

func (t target) show(value float64) string { return fmt.Sprintf("%.2f%s", value, t.unit) }

func (t target) goal() string {
	sign := "<="
	if t.atLeast {
		sign = ">="
	}
	return fmt.Sprintf("%s %g%s", sign, t.bound, t.unit)
}
