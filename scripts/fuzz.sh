#!/usr/bin/env bash
# Runs every fuzz target of every module in turn for FUZZTIME (10s by default), because go test -fuzz takes
# a single target of a single package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$PWD
readonly fuzztime=${FUZZTIME:-10s}
# A go.work of the developer must not change what is built here.
export GOWORK=off
found=0
# The root and every nested module, as in the Makefile. The pattern ./... of one module never enters another.
modules=$(find . -name go.mod -not -path './.*' -not -path '*/testdata/*' -not -path '*/vendor/*' | sort)
for module in $modules; do
	cd "$(dirname "$module")"
	# Only packages with a target are built. This is not part of the loop header, so a module that go list
	# cannot read and a package that does not build end the script.
	packages=$(go list -f '{{.Dir}}' ./...)
	for package in $packages; do
		grep -qs '^func Fuzz' "$package"/*_test.go || continue
		listed=$(go test -list '^Fuzz' "$package")
		for target in $(printf '%s\n' "$listed" | grep '^Fuzz' || true); do
			found=$((found + 1))
			printf '== %s %s\n' ".${package#"$root"}" "$target"
			go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package" </dev/null
		done
	done
	cd "$root"
done
printf '%d fuzz targets, %s each\n' "$found" "$fuzztime"
[ "$found" -gt 0 ]
