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
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# fuzz fuzzes one target. Before Go 1.27, the end of the time may be reported as a failure of the target, without an
# input that fails: https://go.dev/issue/75804.
fuzz() {
	go test -run '^$' -fuzz "^$1\$" -fuzztime "$fuzztime" "$2" </dev/null 2>&1 | tee "$output" && return
	grep -qx '    context deadline exceeded' "$output" && ! grep -q 'Failing input written' "$output" || return
	printf 'this is the end of the time, and no input has failed\n'
}

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
			fuzz "$target" "$package"
		done
	done
	cd "$root"
done
printf '%d fuzz targets, %s each\n' "$found" "$fuzztime"
[ "$found" -gt 0 ]
