#!/usr/bin/env bash
# Runs everything that is statistical, exhaustive or slow, one part after the other. It takes hours:
#
#     make nightly [PARTS="tests plain declared newest simulate chaos count reshard hostile load fuzz bench release"]
#
# A part that fails does not keep the others from running. The name of each part is printed with the seconds since
# the start when it begins, so that a run that is cut off says where.
#
#     tests      every test on every server, with the race detector: all seeds, kills and pairs of databases
#     plain      the generator, without the race detector, which makes it create a tenth of its IDs
#     declared   the tests of tier one on the Go version of go.mod
#     newest     the tests of tier one with the newest GORM, drivers and pgx, in a clone
#     simulate   the simulations of leases and counters, over many seeds
#     chaos      processes that make IDs, and the servers of their leases, killed and frozen
#     count      the same with counters
#     reshard    reshardings that are interrupted at every step
#     hostile    merges of random schemas
#     load       the service under load, with kills and outages
#     fuzz       every fuzz target
#     bench      the benchmarks that guard a ratio
#     release    a version with a made-up name, in a clone: installed, and used by other modules, without its tags
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly all="tests plain declared newest simulate chaos count reshard hostile load fuzz bench release"
parts=${PARTS:-$all}
failed=""

say() { printf 'nightly: %5d s  %s\n' "$SECONDS" "$*"; }

require=$(scripts/services.sh postgres mariadb mysql redis etcd zookeeper pgbouncer chromium languages)
export SNOWFLAKE_REQUIRE=sqlite,$require

part() {
	case $1 in
	tests) go run ./test/testrun -nightly ;;
	plain) SNOWFLAKE_NIGHTLY=1 go test -count 1 -timeout 60m ./generator ;;
	declared) make declared && GOTOOLCHAIN=go$(sed -n 's/^DECLARED_GO := //p' Makefile) go test -count 1 -timeout 60m ./... ;;
	newest) newest ;;
	simulate) make simulate ;;
	chaos) make chaos SECONDS=60 ;;
	count) make count SECONDS=60 ;;
	reshard) make reshard ;;
	hostile) make hostile SEEDS=20 ;;
	load) make load LOAD=20s ;;
	fuzz) make fuzz FUZZTIME=20s ;;
	bench) make bench COUNT=3 ;;
	release) release ;;
	*)
		say "there is no part \"$1\": use $all"
		return 2
		;;
	esac
}

# release tries a version in a clone, so that it cannot leave anything here.
release() (
	clone=$(mktemp -d)
	trap 'rm -rf "$clone"' EXIT
	git clone -q . "$clone" && cd "$clone" && scripts/release.sh --dry-run v0.9.0-night
)

# newest tests the root with the newest versions, where go.mod has the lowest, of which the documents tell.
newest() (
	clone=$(mktemp -d)
	trap 'rm -rf "$clone"' EXIT
	git clone -q . "$clone" && cd "$clone" &&
		go get gorm.io/gorm@latest gorm.io/driver/{mysql,postgres,sqlite}@latest \
			github.com/{go-sql-driver/mysql,mattn/go-sqlite3,jackc/pgx/v5}@latest &&
		go mod tidy && go test -count 1 -timeout 60m -skip '^TestTheVersionsInTheDocsAreThoseOfGoMod$' ./...
)

for name in $parts; do
	say "$name"
	part "$name" || failed+=" $name"
done
say "the end${failed:+; failed:$failed}"
[ -z "$failed" ]
