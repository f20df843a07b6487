#!/usr/bin/env bash
# Runs the benchmarks that have a target COUNT times (6 by default), and prints the median and the target of
# each figure (test/benchtable). If PAGE names a document, the table is written there, too. Each turn runs all of
# them once, so a temporary slowdown of the machine affects all. If BENCH is set to a pattern, the benchmarks with
# matching names run instead, and their output is shown unchanged.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly count=${COUNT:-6}

# Packages without benchmarks are left out, because each turn would link their tests.
packages=()
while read -r package dir; do
	if grep -qs '^func Benchmark' "$dir"/*_test.go; then
		packages+=("$package")
	fi
done < <(go list -f '{{.ImportPath}} {{.Dir}}' ./...)

run() {
	go test -run '^$' -bench "$1" -benchmem "${packages[@]}" &&
		(cd server && go test -run '^$' -bench "$1" -benchmem ./internal/load)
}

if [ -n "${BENCH:-}" ]; then
	for _ in $(seq "$count"); do run "$BENCH"; done
	exit
fi

pattern=$(go run ./test/benchtable -pattern)
readonly pattern
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for turn in $(seq "$count"); do
	printf 'turn %s of %s\n' "$turn" "$count" >&2
	if ! run "$pattern" >>"$results"; then
		cat "$results" >&2
		exit 1
	fi
done
go run ./test/benchtable ${PAGE:+-page "$PAGE"} <"$results"
