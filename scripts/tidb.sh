#!/usr/bin/env bash
# Builds TiDB once, and runs the tests of this project that are meant for it:
#
#     scripts/tidb.sh build                                  builds the server, if that was not done
#     scripts/tidb.sh serve DIRECTORY PORT [ARGUMENT...]     becomes a server with these files
#     scripts/tidb.sh test                                   starts a server, runs the tests, and ends it
#
# The server stores its rows in files by itself ("unistore"), so nothing else is needed. It is built from
# the Go module proxy with the versions in scripts/testdata/tidb, and with the Go version that stands there,
# because TiDB does not start when another one has built it. The first build takes about ten minutes on two
# cores, and 4 GB for the modules and the cache of Go.
#
#     SNOWFLAKE_TIDB_DIR   where the program is kept (/var/tmp/snowflake-tidb-USER)
#     SNOWFLAKE_TIDB_DSN   a TiDB that is used instead, which "test" neither builds nor starts
#     LENGTH               for how many seconds "test" disturbs processes at the end (60; 0 leaves it out)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOWORK=off

readonly dir=${SNOWFLAKE_TIDB_DIR:-/var/tmp/snowflake-tidb-$(id -u)}
readonly module=$PWD/scripts/testdata/tidb
readonly start_seconds=180

say() { printf 'tidb: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

# pinned prints the version of a line in the go.mod.
pinned() { awk -v name="$1" '$1 == name {print $2; exit}' "$module/go.mod"; }

# program prints where the server is. The version is part of the name, so a changed pin builds the new one.
program() { printf '%s/tidb-server-%s\n' "$dir" "$(pinned github.com/pingcap/tidb)"; }

build() {
	local target work
	target=$(program)
	[ ! -x "$target" ] || return 0
	mkdir -p "$dir"
	# Its name can be guessed, so a directory that somebody else has made is not used.
	if [ -L "$dir" ] || [ ! -O "$dir" ]; then
		fail "$dir belongs to somebody else; set SNOWFLAKE_TIDB_DIR to another directory"
	fi
	work=$(mktemp -d "$dir/work.XXXXXX")
	# The directory has to be known when the shell ends, and not now.
	# shellcheck disable=SC2064
	trap "rm -rf '$work'" EXIT
	say "building TiDB, which takes about ten minutes"
	(cd "$module" && GOTOOLCHAIN=go$(pinned go) go build -o "$work/tidb-server" github.com/pingcap/tidb/cmd/tidb-server)
	mv "$work/tidb-server" "$target"
}

# answers PORT tells whether a server says something. It listens a while before that.
answers() (
	exec 3<>"/dev/tcp/127.0.0.1/$1" && IFS= read -r -t 2 -n 1 -u 3 _
) 2>/dev/null

# become DIRECTORY PORT ARGUMENT... replaces this process by a server.
become() {
	local data=$1 port=$2 server
	shift 2
	server=$(program)
	[ -x "$server" ] || fail "there is no TiDB in $dir; run: $0 build"
	mkdir -p "$data"
	# There is no socket: its name may have about 100 letters, and nobody needs one here.
	printf '%s\n' 'socket = ""' "tmp-storage-path = \"$data.tmp\"" '[log]' 'enable-slow-log = false' >"$data.toml"
	exec "$server" --config="$data.toml" --store=unistore --path="$data" --temp-dir="$data.tmp" \
		--host=127.0.0.1 -P "$port" --report-status=false -L=error "$@"
}

# idle prints a port on which nobody listens.
idle() {
	local port
	while :; do
		port=$((20000 + RANDOM % 12000))
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	printf '%s\n' "$port"
}

# launch starts a server that ends with this script, and points SNOWFLAKE_TIDB_DSN to it.
launch() {
	local port deadline pid
	data=$(mktemp -d "$dir/data.XXXXXX")
	port=$(idle)
	"$PWD/scripts/tidb.sh" serve "$data/files" "$port" >"$data/output.log" 2>&1 </dev/null &
	pid=$!
	# shellcheck disable=SC2064
	trap "kill $pid 2>/dev/null; wait $pid 2>/dev/null; rm -rf '$data'" EXIT
	deadline=$((SECONDS + start_seconds))
	until answers "$port"; do
		if ! kill -0 "$pid" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
			tail -n 20 "$data/output.log" >&2
			fail "TiDB does not start"
		fi
		sleep 0.2
	done
	export SNOWFLAKE_TIDB_DSN="root@tcp(127.0.0.1:$port)/"
	say "TiDB answers on port $port"
}

# The router has no place here: one table of TiDB is spread over servers by TiDB itself.
readonly packages="./test/dbtest ./test/filling ./test/statements
	./test/tidb ./lease/sqllease ./lease/gormlease ./segment/sqlsegment ./segment/gormsegment
	./cmd/snowflake"
# These sub-tests run on other databases, two to four names deep.
readonly others='^(sqlite|postgres|mariadb|mariadb-noreturning|mysql)(,.*)?$'
readonly skipped="/$others|//$others|///$others"

run_tests() {
	if [ -z "${SNOWFLAKE_TIDB_DSN:-}" ]; then
		build
		launch
	fi
	# The rows that move to TiDB come from MariaDB.
	scripts/services.sh mariadb
	# The packages are names, not patterns, and there are several.
	# shellcheck disable=SC2086
	SNOWFLAKE_REQUIRE=tidb,mariadb go test -p 2 -count 1 -timeout 30m -skip "$skipped" $packages
}

# disturb lets processes make IDs for a while, and stops and kills them and a server of their own.
disturb() {
	[ "${LENGTH:-60}" != 0 ] || return 0
	build
	SNOWFLAKE_REQUIRE=tidb CI=true SNOWFLAKE_CHAOS=${LENGTH:-60} go test ./test/faults \
		-run '^TestChaosRepeatsNoID$/^tidb$' -count 1 -v -timeout 15m
}

case ${1:-} in
build) build ;;
serve) [ $# -ge 3 ] || fail "usage: $0 serve DIRECTORY PORT [ARGUMENT...]" && shift && become "$@" ;;
test) run_tests && disturb ;;
*) fail "usage: $0 build|serve|test" ;;
esac
