#!/usr/bin/env bash
# Disturbs processes that make IDs, and the servers of their leases, and checks that no ID and no
# tick of a node was used twice (test/chaos):
#
#     make chaos [STORE=postgres|mariadb|mysql|sqlite|etcd|zookeeper|redis|all] [SECONDS=180] [SEED=number]
#
# Each store takes that many seconds, one after the other. The servers belong to the tests: they run in
# directories of their own on ports of their own, and the programs have to be installed. SEED
# repeats the faults of a run that printed it. With postgres, mariadb and mysql, 1,024 keepers then start
# at once.
#
#     make count [STORE=postgres|mariadb|mysql|sqlite|redis|all] [SECONDS=180] [SEED=number]
#
# disturbs processes that take numbers from counters (WHAT=counters), and checks that no number was given
# out twice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

store=${STORE:-all}
readonly what=${WHAT:-leases}
export SNOWFLAKE_CHAOS=${LENGTH:-180} SNOWFLAKE_CHAOS_SEED=${SEED:-}
stores="postgres mariadb mysql sqlite etcd zookeeper redis"
if [ "$what" = counters ]; then
	stores="postgres mariadb mysql sqlite redis"
fi
readonly stores

# disturb DIRECTORY PATTERN runs the tests of a pattern. CI=true makes a missing program a failure.
disturb() {
	(cd "$1" && go test . -run "$2" -count 1 -v -timeout "$((SNOWFLAKE_CHAOS + 600))s")
}

run() {
	export SNOWFLAKE_REQUIRE=$1 CI=true SNOWFLAKE_NIGHTLY=1
	case $what-$1 in
	counters-postgres | counters-mariadb | counters-mysql | counters-sqlite)
		disturb test/faults "^TestChaosRepeatsNoNumber\$/^$1\$"
		;;
	counters-redis) disturb segment/redissegment '^TestChaosRepeatsNoNumber$' ;;
	leases-postgres | leases-mariadb | leases-mysql)
		disturb test/faults "^TestChaosRepeatsNoID\$/^$1\$" &&
			disturb test/faults "^TestAllNumbersAreLeasedAtOnce\$/^$1\$"
		;;
	leases-sqlite) disturb test/faults '^TestChaosRepeatsNoID$/^sqlite$' ;;
	leases-etcd) disturb lease/etcdlease '^TestChaosRepeatsNoID$' ;;
	leases-zookeeper) disturb lease/zklease '^TestChaosRepeatsNoID$' ;;
	leases-redis) disturb lease/redislease '^TestChaosRepeatsNoID$' ;;
	*)
		echo "chaos: no store is called \"$1\": say all or one of $stores" >&2
		exit 2
		;;
	esac
}

if [ "$store" != all ]; then
	run "$store"
	exit
fi
failed=""
for one in $stores; do
	run "$one" || failed+=" $one" # the others are disturbed all the same
done
if [ -n "$failed" ]; then
	echo "chaos: failed on$failed" >&2
	exit 1
fi
