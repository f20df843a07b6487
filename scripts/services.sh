#!/usr/bin/env bash
# Makes sure that the servers of the tests answer:
#
#     scripts/services.sh [postgres] [mariadb] [mysql] [redis] [etcd] [zookeeper] [pgbouncer] [chromium] [languages]
#
# Without an argument it looks after those that "make test" needs, which are all but ZooKeeper, Chromium
# and the languages. PgBouncer, Chromium and the languages are only installed: the tests start them. The languages are
# the programs of docs/languages.md: Node with npm, curl, and Python with redis-py.
#
# A server that answers is used as it is. Otherwise the script starts the installed server. What is not
# installed, it installs with the system's package manager, all packages in one go. MySQL is not installed
# but unpacked and started by scripts/mysql.sh, because a system has either MariaDB or MySQL. The names of
# the database servers and stores that answer are printed on standard output, joined by commas, as
# SNOWFLAKE_REQUIRE takes them. Everything else goes to standard error, with the seconds since the start.
#
# If a server is missing in the end, the script says so and exits with status 1. Without MySQL it goes on,
# because MySQL comes from Debian's next release, which not every machine can reach. Its tests are skipped
# then. With CI=true that is a failure as well.
#
# If the tests cannot log in to a database that this script started or installed, the script creates
# a login "snowflake" with the password "snowflake". This login may create databases and nothing
# else. The script does not change a server that was already running, except with CI=true, where the
# machine is discarded afterwards.
#
# The file test/dbtest/doc.go describes what the tests need from a database, and the variables
# SNOWFLAKE_POSTGRES_DSN, SNOWFLAKE_MARIADB_DSN and SNOWFLAKE_MYSQL_DSN, which select other servers.
# The script checks a database with the code of the tests (test/dbtest/dbping). It checks the lease
# stores over TCP. The variables SNOWFLAKE_REDIS_URL, SNOWFLAKE_ETCD_ENDPOINTS and SNOWFLAKE_ZOOKEEPER
# select other servers. With SNOWFLAKE_NO_INSTALL=1 the script installs nothing.
#
# It runs on Linux and macOS, with the bash that each of them has. Installing needs root or sudo, except with
# Homebrew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly pinger=$PWD/.bin/dbping
readonly log=$PWD/.bin/services.log # output of package managers and service managers
readonly start_seconds=60
readonly absent=3 refused=4 # exit codes of dbping

say() { printf 'services: %3d s  %s\n' "$SECONDS" "$*" >&2; }
fail() { say "$@"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# as_root runs a command as root and uses sudo if necessary. Without a terminal, sudo must not
# prompt.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif ! have sudo; then
		return 1
	elif [ -t 0 ]; then
		sudo "$@"
	else
		sudo -n "$@"
	fi
}

# as_user USER COMMAND... runs a command as another user, for logins that depend on the system user.
as_user() {
	local user=$1
	shift
	if have runuser; then
		as_root runuser -u "$user" -- "$@"
	else
		as_root sudo -n -u "$user" "$@"
	fi
}

# quietly sends all output of a command to the log. It uses a file and not a pipe, because a started
# server inherits the output: the reader of a pipe would wait until the server ends.
quietly() { "$@" >>"$log" 2>&1 </dev/null; }

systemd_runs() { [ -d /run/systemd/system ] && have systemctl; }

# start_service NAME... starts the first service that the system knows.
start_service() {
	local name
	for name in "$@"; do
		if systemd_runs && systemctl cat "$name.service" >/dev/null 2>&1; then
			quietly as_root systemctl start "$name" && return 0
		elif ! systemd_runs && [ -x "/etc/init.d/$name" ] && have service; then
			quietly as_root service "$name" start && return 0
		fi
	done
	return 1
}

# brew_formula NAME prints the newest installed formula NAME or NAME@version.
brew_formula() {
	have brew || return 1
	brew list --formula -1 2>/dev/null | grep -E "^$1(@[0-9.]+)?\$" | sort -V | tail -n 1 | grep .
}

start_brew() {
	local formula
	formula=$(brew_formula "$1") && quietly brew services start "$formula"
}

# package_of SERVER prints the packages that bring a server or program, for the package manager of this system.
# It fails if that manager does not have it.
package_of() {
	local manager
	manager=$(package_manager) || return 1
	case $manager-$1 in
	apt-postgres) echo postgresql ;;
	dnf-postgres) echo postgresql-server ;;
	apk-postgres) echo postgresql postgresql-contrib ;;
	brew-postgres) echo postgresql@17 ;;
	apt-mariadb | dnf-mariadb) echo mariadb-server ;;
	apk-mariadb) echo mariadb mariadb-client ;;
	brew-mariadb) echo mariadb ;;
	apt-redis) echo redis-server ;;
	*-redis) echo redis ;;
	apt-etcd) echo etcd-server ;;
	*-etcd) echo etcd ;;
	apt-zookeeper) echo libzookeeper-java default-jre-headless ;; # the program as an archive, without its service
	brew-zookeeper) echo zookeeper ;;
	*-pgbouncer) echo pgbouncer ;;
	brew-chromium) echo --cask chromium ;;
	apt-languages | dnf-languages) missing_languages python3-redis ;;
	apk-languages) missing_languages py3-redis ;;
	*-chromium) echo chromium ;;
	*) return 1 ;;
	esac
}

# missing_languages REDIS_PACKAGE leaves out what is there: a Node from elsewhere conflicts with the npm of the system.
missing_languages() {
	have node || echo nodejs
	have npm || echo npm
	have curl || echo curl
	have_redis_py || echo "$1"
}

package_manager() {
	local manager
	for manager in apt-get dnf apk brew; do
		have "$manager" && printf '%s\n' "${manager%-get}" && return
	done
	return 1
}

# refresh reads the package lists of apt once.
refreshed=""
refresh() {
	[ -z "$refreshed" ] || return 0
	refreshed=yes
	say "reading the package lists"
	# The old package lists may be good enough if they cannot be refreshed.
	quietly as_root apt-get update || say "apt-get update failed; going on with the old lists"
}

# install_packages PACKAGE... installs packages with the package manager of the system.
install_packages() {
	say "installing $*"
	case $(package_manager) in
	apt)
		refresh
		quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@"
		;;
	dnf) quietly as_root dnf install -y "$@" ;;
	apk) quietly as_root apk add "$@" ;;
	brew) quietly brew install "$@" ;;
	*) return 1 ;;
	esac
}

# --- PostgreSQL -----------------------------------------------------------------------------------

postgres_installed() {
	compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || have postgres ||
		have postgresql-setup || brew_formula postgresql >/dev/null
}

postgres_start() {
	local version name port _
	# Debian's tools know every cluster and its port. The service starts all of them, but only those
	# that are configured to start automatically.
	if have pg_lsclusters && have pg_ctlcluster; then
		if ! pg_lsclusters -h | grep -q . && have pg_createcluster; then
			version=$(cd /usr/lib/postgresql && printf '%s\n' * | sort -V | tail -n 1)
			quietly as_root pg_createcluster "$version" main || return 1
		fi
		while read -r version name port _; do
			if [ "$port" = 5432 ]; then
				quietly as_root pg_ctlcluster "$version" "$name" start
				return
			fi
		done < <(pg_lsclusters -h)
		say "no PostgreSQL cluster is set to port 5432; set SNOWFLAKE_POSTGRES_DSN for another port"
		return 1
	fi
	# On Fedora and similar systems the data directory must be created manually.
	if have postgresql-setup && ! as_root test -s /var/lib/pgsql/data/PG_VERSION; then
		quietly as_root postgresql-setup --initdb || return 1
	fi
	if [ -x /etc/init.d/postgresql ] && have rc-service; then # Alpine
		quietly as_root rc-service postgresql start
		return
	fi
	start_service postgresql || start_brew postgresql
}


postgres_provision() {
	# The tests of merges insert rows whose references lead nowhere. Before version 15 only a superuser may.
	local sql="
		DO \$\$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'snowflake') THEN
				CREATE ROLE snowflake;
			END IF;
			IF current_setting('server_version_num')::int < 150000 THEN
				ALTER ROLE snowflake SUPERUSER;
			ELSE
				EXECUTE 'GRANT SET ON PARAMETER session_replication_role TO snowflake';
			END IF;
		END \$\$;
		ALTER ROLE snowflake LOGIN CREATEDB PASSWORD 'snowflake';"
	local psql=(psql -X -q -v ON_ERROR_STOP=1 -d postgres -c "$sql")
	if id postgres >/dev/null 2>&1; then
		(cd / && quietly as_user postgres "${psql[@]}")
	else
		quietly "${psql[@]}" # Homebrew: the user who installed it is the superuser
	fi
}

# --- MariaDB --------------------------------------------------------------------------------------

mariadb_installed() { have mariadbd || have mysqld || [ -x /usr/sbin/mariadbd ] || [ -x /usr/sbin/mysqld ]; }

mariadb_start() {
	if [ -x /etc/init.d/mariadb ] && have rc-service; then # Alpine
		[ -d /var/lib/mysql/mysql ] || quietly as_root rc-service mariadb setup || return 1
		quietly as_root rc-service mariadb start
		return
	fi
	start_service mariadb mysql mysqld || start_brew mariadb || mariadb_start_bare
}

# mariadb_start_bare starts the server without a service manager. The server outlives the script.
mariadb_start_bare() {
	local safe detach=env
	! have setsid || detach=setsid
	for safe in mariadbd-safe mysqld_safe; do
		if have "$safe"; then
			as_root mkdir -p /run/mysqld && as_root chown mysql: /run/mysqld || return 1
			as_root "$detach" nohup "$safe" --user=mysql >/dev/null 2>&1 </dev/null &
			return 0
		fi
	done
	return 1
}


mariadb_provision() {
	# The test databases have a prefix, so the login needs no access to other databases. The host of
	# a TCP client depends on whether the server resolves names, so both hosts get the login.
	local host sql=""
	for host in localhost 127.0.0.1; do
		sql+="CREATE USER IF NOT EXISTS snowflake@'$host';
			ALTER USER snowflake@'$host' IDENTIFIED BY 'snowflake';
			GRANT ALL ON \`snowflaketest\\_%\`.* TO snowflake@'$host';"
	done
	local client=mariadb
	have mariadb || client=mysql
	# The administrator connects through the socket, as root or, with Homebrew, as the current user.
	quietly as_root "$client" -u root -e "$sql" || quietly "$client" -e "$sql"
}

# --- MySQL ----------------------------------------------------------------------------------------

mysql_installed() { scripts/mysql.sh installed; }

mysql_install() {
	say "unpacking MySQL"
	# Before its first update, apt knows no archive.
	if have apt-get && [ -z "$(apt-get indextargets 'Created-By: Packages' 2>/dev/null)" ]; then
		refresh
	fi
	quietly scripts/mysql.sh install
}

# The server that this starts has the logins already.
mysql_start() { scripts/mysql.sh start 3308; }

mysql_provision() { return 1; }

# --- Stores of leases -----------------------------------------------------------------------------

# detached DIRECTORY COMMAND... runs a server as this user, without a service manager. The server
# outlives the script. It keeps its data in the directory, which is a temporary directory in /tmp.
detached() {
	local directory=$1
	shift
	local detach=env
	! have setsid || detach=setsid # otherwise the interrupt key of a terminal ends the server, too
	(cd "$directory" && exec "$detach" nohup "$@" >output.log 2>&1 </dev/null) &
}

scratch() { mktemp -d "${TMPDIR:-/tmp}/snowflake-$1.XXXXXX"; }

redis_installed() { have redis-server || have valkey-server; }


redis_start() {
	local directory program=redis-server
	start_service redis-server redis valkey-server valkey || start_brew redis && return
	have redis-server || program=valkey-server
	directory=$(scratch redis) && detached "$directory" "$program" --bind 127.0.0.1 --port 6379
}

# redis_ping HOST PORT. A server that asks for a password counts as running.
redis_ping() {
	local heard
	heard=$(exchange "$1" "$2" 'PING\r\nQUIT\r\n')
	[[ $heard == +PONG* || $heard == -NOAUTH* ]]
}

etcd_installed() { have etcd; }


etcd_start() {
	local directory
	start_service etcd || start_brew etcd && return
	directory=$(scratch etcd) && detached "$directory" etcd --data-dir "$directory/data"
}

etcd_ping() { [[ $(exchange "$1" "$2" 'GET /health HTTP/1.0\r\n\r\n') == *'"health":"true"'* ]]; }

# Debian packages the program as an archive, separate from its service.
readonly zookeeper_jar=/usr/share/java/zookeeper.jar

zookeeper_installed() {
	[ -f "$zookeeper_jar" ] && have java || [ -x /etc/init.d/zookeeper ] || have zkServer
}


zookeeper_start() {
	local directory
	start_service zookeeper || start_brew zookeeper && return
	[ -f "$zookeeper_jar" ] && have java && directory=$(scratch zookeeper) || return 1
	printf '%s\n' tickTime=2000 "dataDir=$directory/data" clientPort=2181 \
		clientPortAddress=127.0.0.1 maxClientCnxns=0 admin.enableServer=false >"$directory/zoo.cfg"
	detached "$directory" java -Xmx256m -cp "$zookeeper_jar" \
		org.apache.zookeeper.server.quorum.QuorumPeerMain "$directory/zoo.cfg"
}

zookeeper_ping() { [[ $(exchange "$1" "$2" srvr) == *Mode:* ]]; }

# exchange HOST PORT TEXT sends the text, which may contain escapes of printf. It prints the answer
# until the answer ends or the server is silent for a while.
exchange() (
	exec 3<>"/dev/tcp/$1/$2" || exit 1
	# The text is used as a format intentionally.
	# shellcheck disable=SC2059
	printf "$3" >&3
	while IFS= read -r -t 3 line <&3 || [ -n "$line" ]; do
		printf '%s\n' "$line"
		line=""
	done
) 2>/dev/null

# store_ping SERVER SECONDS VARIABLE PORT waits up to SECONDS until the server answers and prints
# the result. VARIABLE points to the server. If it names several servers, only the first is asked.
store_ping() {
	local server=$1 deadline=$((SECONDS + $2)) address=${!3:-} host=127.0.0.1 port=$4 secret=""
	if [ -n "$address" ]; then
		case $address in
		https://* | rediss://* | unix:*) secret=yes ;;
		esac
		address=${address%%,*}
		address=${address#*://}
		address=${address%%[/?]*}
		address=${address##*@}
		host=${address%:*}
		[ "$host" = "$address" ] || port=${address##*:}
	fi
	if [ -n "$secret" ]; then
		printf '%s is not checked: %s selects a server with TLS or a socket, which this script does not support\n' "$server" "$3"
		return 0
	fi
	until "${server}_ping" "$host" "$port"; do
		if [ "$SECONDS" -ge "$deadline" ]; then
			printf '%s does not answer on %s:%s\n' "$server" "$host" "$port"
			return "$absent"
		fi
		sleep 0.2
	done
	printf '%s answers on %s:%s\n' "$server" "$host" "$port"
}

# PgBouncer, Chromium and the languages are programs that tests start.

pgbouncer_installed() { have pgbouncer; }

chromium_installed() { have chromium || have chromium-browser || have google-chrome; }

languages_installed() { have node && have npm && have curl && have_redis_py; }

# A version manager may hide the interpreter of the system, to which the packages belong.
have_redis_py() { { python3 -c 'import redis' || /usr/bin/python3 -c 'import redis'; } 2>/dev/null; }

# --- All ------------------------------------------------------------------------------------------

# ping SERVER [WAIT] stores the exit code in $state and the answer in $answer.
ping() {
	local wait=${2:-0s}
	state=0
	case $1 in
	redis) answer=$(store_ping redis "${wait%s}" SNOWFLAKE_REDIS_URL 6379) || state=$? ;;
	etcd) answer=$(store_ping etcd "${wait%s}" SNOWFLAKE_ETCD_ENDPOINTS 2379) || state=$? ;;
	zookeeper) answer=$(store_ping zookeeper "${wait%s}" SNOWFLAKE_ZOOKEEPER 2181) || state=$? ;;
	*) answer=$("$pinger" -wait "$wait" "$1" 2>&1) || state=$? ;;
	esac
}

# start SERVER starts an installed server and waits until it answers. Some service managers wait for
# a long time or report the wrong state, so only the answer of the server counts. The starter runs
# in the background and is killed when the server answers.
start() {
	local server=$1 starter deadline=$((SECONDS + start_seconds)) result=""
	if [ "$(id -u)" -ne 0 ] && [ -t 0 ] && have sudo; then
		sudo -v || true # the starter has no terminal to ask for a password
	fi
	"${server}_start" >>"$log" 2>&1 </dev/null &
	starter=$!
	while [ "$SECONDS" -lt "$deadline" ]; do
		ping "$server" 1s
		if [ "$state" -ne "$absent" ]; then
			# This ends only the starter, never the server that it started.
			kill "$starter" 2>/dev/null || true
			return 0
		fi
		if [ -z "$result" ] && ! kill -0 "$starter" 2>/dev/null; then
			result=0
			wait "$starter" || result=$?
			[ "$result" -eq 0 ] || break
		fi
	done
	grep '^services: ' "$log" >&2 || true
	return 1
}

# title SERVER, variable SERVER and port SERVER print what a server is called, the variable that selects another
# one, and its usual port.
title() {
	case $1 in
	postgres) echo PostgreSQL ;;
	mariadb) echo MariaDB ;;
	mysql) echo MySQL ;;
	redis) echo Redis ;;
	etcd) echo etcd ;;
	zookeeper) echo ZooKeeper ;;
	pgbouncer) echo PgBouncer ;;
	chromium) echo Chromium ;;
	languages) echo "one of Node, npm, curl and redis-py" ;;
	*) return 1 ;;
	esac
}

variable() {
	case $1 in
	postgres | mariadb | mysql) echo "SNOWFLAKE_$(tr '[:lower:]' '[:upper:]' <<<"$1")_DSN" ;;
	redis) echo SNOWFLAKE_REDIS_URL ;;
	etcd) echo SNOWFLAKE_ETCD_ENDPOINTS ;;
	zookeeper) echo SNOWFLAKE_ZOOKEEPER ;;
	*) echo SNOWFLAKE_NONE ;;
	esac
}

port() {
	case $1 in
	postgres) echo 5432 ;;
	mariadb) echo 3306 ;;
	mysql) echo 3308 ;;
	redis) echo 6379 ;;
	etcd) echo 2379 ;;
	zookeeper) echo 2181 ;;
	esac
}

# is_program SERVER tells a program that tests start from a server.
is_program() { [ "$1" = pgbouncer ] || [ "$1" = chromium ] || [ "$1" = languages ]; }

# missing SERVER tells whether something has to be installed for it.
missing() {
	local variable
	variable=$(variable "$1")
	[ -z "${!variable:-}" ] || return 1
	! "${1}_installed" || return 1
	is_program "$1" && return 0
	ping "$1"
	[ "$state" -eq "$absent" ]
}

# install SERVER... installs what is missing of all of them, in one go.
install() {
	local server package packages=()
	for server in "$@"; do
		missing "$server" || continue
		if [ -n "${SNOWFLAKE_NO_INSTALL:-}" ]; then
			say "$(title "$server") is missing, and SNOWFLAKE_NO_INSTALL prevents that it is installed"
		elif [ "$server" = mysql ]; then
			mysql_install || tail -n 20 "$log" >&2
		elif package=$(package_of "$server"); then
			installed+=" $server"
			# The list of one server may hold several names.
			# shellcheck disable=SC2206
			packages+=($package)
		else
			say "the package manager of this system has no $(title "$server")"
		fi
	done
	[ ${#packages[@]} -eq 0 ] || install_packages "${packages[@]}" && return
	tail -n 20 "$log" >&2
	# One package that cannot be had must not keep the others away.
	for package in "${packages[@]}"; do
		install_packages "$package" || true
	done
}

# lack SERVER WHY... is what happens if a server cannot be had. Without MySQL and the programs, the tests that
# need them are skipped, but not on a machine for continuous integration.
lack() {
	local server=$1
	shift
	if [ -z "${CI:-}" ] && { [ "$server" = mysql ] || is_program "$server"; }; then
		say "******** $* Its tests are SKIPPED. ********"
		return 0
	fi
	fail "$@"
}

# ensure SERVER makes sure that a server answers and takes a login of the tests, and adds its name to $answers.
ensure() {
	local server=$1 title variable port ours=""
	title=$(title "$server") variable=$(variable "$server") port=$(port "$server")
	if is_program "$server"; then
		if "${server}_installed"; then
			say "$server: installed"
			[ "$server" != languages ] || answers+=${answers:+,}languages # a test may be told to need them
		elif [ -n "${SNOWFLAKE_NO_INSTALL:-}" ]; then
			say "$title is missing; its tests are skipped"
		else
			lack "$server" "$title is missing and could not be installed."
		fi
		return 0
	fi
	ping "$server"
	if [ "$state" -ne 0 ] && [ -n "${!variable:-}" ]; then
		ping "$server" "${start_seconds}s" # a container may still be starting
	fi
	if [ "$state" -ne 0 ] && [ -n "${!variable:-}" ]; then
		say "$answer"
		fail "$variable is set, but that server cannot be used. Repair it, or unset the variable for" \
			"a server on 127.0.0.1:$port."
	fi
	if [ "$state" -eq "$absent" ]; then
		if ! "${server}_installed"; then
			lack "$server" "$title is missing and could not be installed. Install it, or run" \
				"\"docker compose up --wait\", or set $variable."
			return 0
		fi
		say "starting $title"
		if ! start "$server"; then
			lack "$server" "$title is installed but could not be started; see $log." \
				"Start it on 127.0.0.1:$port, or set $variable."
			return 0
		fi
		ours=yes
	fi
	if [ "$state" -eq "$refused" ]; then
		if [ -z "$ours" ] && [ -z "${CI:-}" ] && [[ " $installed " != *" $server "* ]]; then
			say "$answer"
			fail "$title was running on 127.0.0.1:$port and is not changed. Set $variable to a login" \
				"that may create databases, or create one: user snowflake, password snowflake" \
				"(with CI=true in the environment, this script creates it)."
		fi
		say "creating the login snowflake on $title"
		if ! "${server}_provision"; then
			tail -n 20 "$log" >&2
			fail "$title runs, but the login snowflake could not be created. Create one that may create" \
				"databases and set $variable."
		fi
		ping "$server"
	fi
	say "$answer"
	[ "$state" -eq 0 ] || fail "$title refuses the logins of the tests on 127.0.0.1:$port."
	answers+=${answers:+,}$server
}

[ $# -gt 0 ] || set -- postgres mariadb mysql redis etcd pgbouncer
for server in "$@"; do
	title "$server" >/dev/null || fail "unknown server \"$server\": use postgres, mariadb, mysql, redis, etcd," \
		"zookeeper, pgbouncer, chromium or languages"
done
mkdir -p .bin
: >"$log"
say "looking for $*"
go build -o "$pinger" ./test/dbtest/dbping
answers="" installed=""
install "$@"
for server in "$@"; do
	ensure "$server"
done
printf '%s\n' "$answers"
