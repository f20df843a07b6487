#!/usr/bin/env bash
# Makes sure that the servers of the tests answer:
#
#     scripts/services.sh [postgres] [mariadb] [mysql] [redis] [etcd] [zookeeper] [pgbouncer] [chromium]
#
# Without an argument it looks after all of them. PgBouncer and Chromium are only installed: the tests start
# them.
# MySQL is not installed but unpacked and started by scripts/mysql.sh, because a system has either
# MariaDB or MySQL.
#
# A server that answers is used as it is. Otherwise the script starts the installed server. If no
# server is installed, the script installs it with the system's package manager. If that fails, the
# script names what is missing and exits with status 1.
#
# If the tests cannot log in to a database that this script started or installed, the script creates
# a login "snowflake" with the password "snowflake". This login may create databases and nothing
# else. The script does not change a server that was already running, except with CI=true, where the
# machine is discarded afterwards.
#
# The file internal/dbtest/doc.go describes what the tests need from a database, and the variables
# SNOWFLAKE_POSTGRES_DSN, SNOWFLAKE_MARIADB_DSN and SNOWFLAKE_MYSQL_DSN, which select other servers.
# The script checks a database with the code of the tests (internal/dbtest/dbping), so it has no results
# to pass on and prints to standard error only. It checks the lease stores over TCP. The variables
# SNOWFLAKE_REDIS_URL, SNOWFLAKE_ETCD_ENDPOINTS and SNOWFLAKE_ZOOKEEPER select other servers. With
# SNOWFLAKE_NO_INSTALL=1 the script installs nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly pinger=$PWD/.bin/dbping
readonly log=$PWD/.bin/services.log # output of package managers and service managers
readonly start_seconds=60
readonly absent=3 refused=4 # exit codes of dbping

say() { printf 'services: %s\n' "$*" >&2; }
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

# install_packages APT DNF APK BREW installs packages with the package manager of the system. Each
# argument is the package name for one manager, or "" if that manager does not have it. An argument
# may hold several names.
# shellcheck disable=SC2086
install_packages() {
	if [ -n "${SNOWFLAKE_NO_INSTALL:-}" ]; then
		say "SNOWFLAKE_NO_INSTALL is set, so nothing is installed"
		return 1
	fi
	if have apt-get; then
		say "installing $1 with apt-get"
		# The old package list may be good enough if it cannot be refreshed.
		quietly as_root apt-get update || say "apt-get update failed; going on with the old lists"
		quietly as_root env DEBIAN_FRONTEND=noninteractive \
			apt-get install -y --no-install-recommends $1
	elif have dnf; then
		say "installing $2 with dnf"
		[ -n "$2" ] && quietly as_root dnf install -y "$2"
	elif have apk; then
		say "installing $3 with apk"
		[ -n "$3" ] && quietly as_root apk add $3
	elif have brew; then
		say "installing $4 with brew"
		quietly brew install "$4"
	else
		return 1
	fi
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

postgres_install() { install_packages postgresql postgresql-server "postgresql postgresql-contrib" postgresql@17; }

postgres_provision() {
	local sql="
		DO \$\$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'snowflake') THEN
				CREATE ROLE snowflake;
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
	local safe
	for safe in mariadbd-safe mysqld_safe; do
		if have "$safe"; then
			as_root mkdir -p /run/mysqld && as_root chown mysql: /run/mysqld || return 1
			as_root setsid nohup "$safe" --user=mysql >/dev/null 2>&1 </dev/null &
			return 0
		fi
	done
	return 1
}

mariadb_install() { install_packages mariadb-server mariadb-server "mariadb mariadb-client" mariadb; }

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
	if [ -n "${SNOWFLAKE_NO_INSTALL:-}" ]; then
		say "SNOWFLAKE_NO_INSTALL is set, so MySQL is not unpacked"
		return 1
	fi
	say "unpacking MySQL"
	# Before its first update, apt knows no archive.
	if have apt-get && [ -z "$(apt-get indextargets 'Created-By: Packages' 2>/dev/null)" ]; then
		quietly as_root apt-get update || say "apt-get update failed"
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
	(cd "$directory" && exec setsid nohup "$@" >output.log 2>&1 </dev/null) &
}

scratch() { mktemp -d "${TMPDIR:-/tmp}/snowflake-$1.XXXXXX"; }

redis_installed() { have redis-server || have valkey-server; }

redis_install() { install_packages redis-server redis redis redis; }

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

etcd_install() { install_packages etcd-server etcd etcd etcd; }

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

zookeeper_install() { install_packages "libzookeeper-java default-jre-headless" "" "" zookeeper; }

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

# pgbouncer_ensure installs the program, which some tests start by themselves. They are skipped without
# it, or fail if CI=true.
pgbouncer_ensure() {
	have pgbouncer || install_packages pgbouncer pgbouncer pgbouncer pgbouncer || true
	if have pgbouncer; then
		say "PgBouncer is installed"
	elif [ -n "${CI:-}" ]; then
		fail "PgBouncer is missing and could not be installed."
	else
		say "PgBouncer is missing; its tests are skipped"
	fi
}

# chromium_ensure installs the browser in which the pages of the examples are tested. The tests are
# skipped without it, or fail if CI=true.
chromium_ensure() {
	local found=""
	for found in chromium chromium-browser google-chrome; do
		have "$found" && break
		found=""
	done
	[ -n "$found" ] || install_packages chromium chromium chromium "--cask chromium" || true
	if [ -n "$found" ] || have chromium || have chromium-browser; then
		say "Chromium is installed"
	elif [ -n "${CI:-}" ] && [ -z "${SNOWFLAKE_NO_INSTALL:-}" ]; then
		fail "Chromium is missing and could not be installed."
	else
		say "Chromium is missing; its test is skipped"
	fi
}

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

# ensure SERVER TITLE VARIABLE PORT
ensure() {
	local server=$1 title=$2 variable=$3 port=$4 ours=""
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
			if ! "${server}_install"; then
				tail -n 20 "$log" >&2
				fail "$title is missing and could not be installed. Install it, or run" \
					"\"docker compose up --wait\", or set $variable."
			fi
			ours=yes
			ping "$server" # installing may have started it
		fi
		if [ "$state" -eq "$absent" ]; then
			say "starting $title"
			start "$server" || fail "$title is installed but could not be started; see $log." \
				"Start it on 127.0.0.1:$port, or set $variable."
			ours=yes
		fi
	fi
	if [ "$state" -eq "$refused" ]; then
		if [ -z "$ours" ] && [ -z "${CI:-}" ]; then
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
}

mkdir -p .bin
: >"$log"
go build -o "$pinger" ./internal/dbtest/dbping

[ $# -gt 0 ] || set -- postgres mariadb mysql redis etcd zookeeper pgbouncer chromium
for server in "$@"; do
	case $server in
	postgres) ensure postgres PostgreSQL SNOWFLAKE_POSTGRES_DSN 5432 ;;
	mariadb) ensure mariadb MariaDB SNOWFLAKE_MARIADB_DSN 3306 ;;
	mysql) ensure mysql MySQL SNOWFLAKE_MYSQL_DSN 3308 ;;
	redis) ensure redis Redis SNOWFLAKE_REDIS_URL 6379 ;;
	etcd) ensure etcd etcd SNOWFLAKE_ETCD_ENDPOINTS 2379 ;;
	zookeeper) ensure zookeeper ZooKeeper SNOWFLAKE_ZOOKEEPER 2181 ;;
	pgbouncer) pgbouncer_ensure ;;
	chromium) chromium_ensure ;;
	*) fail "unknown server \"$server\": use postgres, mariadb, mysql, redis, etcd, zookeeper, pgbouncer or chromium" ;;
	esac
done
