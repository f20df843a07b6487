#!/usr/bin/env bash
# Runs the benchmarks COUNT times (6) and prints the median of each figure that has a target, beside
# the target (internal/benchtable). The runs take turns, so that what slows the machine down for a
# while slows all of them. With BENCH set to a pattern, only the benchmarks whose names match run,
# and what they print is shown as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly count=${COUNT:-6}

# Only packages that have benchmarks, or each turn would link the tests of all the others.
packages=()
while read -r package dir; do
	if grep -qs '^func Benchmark' "$dir"/*_test.go; then
		packages+=("$package")
	fi
done < <(go list -f '{{.ImportPath}} {{.Dir}}' ./...)

run() { go test -run '^$' -bench "$1" -benchmem "${packages[@]}"; }

if [ -n "${BENCH:-}" ]; then
	for _ in $(seq "$count"); do run "$BENCH"; done
	exit
fi

results=$(mktemp)
trap 'rm -f "$results"' EXIT
for turn in $(seq "$count"); do
	printf 'turn %s of %s\n' "$turn" "$count" >&2
	if ! run . >>"$results"; then
		cat "$results" >&2
		exit 1
	fi
done
go run ./internal/benchtable <"$results"
