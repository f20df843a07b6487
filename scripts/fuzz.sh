#!/usr/bin/env bash
# Runs every fuzz target of the root module for FUZZTIME (10s by default), one after the other:
# go test -fuzz takes a single target of a single package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly fuzztime=${FUZZTIME:-10s}
found=0
packages=$(go list ./...)
for package in $packages; do
	# Apart from the loop, so that a package which does not build ends the script.
	listed=$(go test -list '^Fuzz' "$package")
	for target in $(printf '%s\n' "$listed" | grep '^Fuzz' || true); do
		found=$((found + 1))
		printf '== %s %s\n' "$package" "$target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package" </dev/null
	done
done
printf '%d fuzz targets, %s each\n' "$found" "$fuzztime"
[ "$found" -gt 0 ]
