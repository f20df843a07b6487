#!/usr/bin/env bash
# Makes sure that the servers which the tests need answer:
#
#     scripts/services.sh [postgres] [mariadb] [redis] [etcd] [zookeeper]        (no argument: all)
#
# One that answers is used as it is. Otherwise an installed server is started; where none is
# installed the system's package manager installs it; where that cannot be done either, the script
# says what is missing and exits with status 1.
#
# A database that this script started or installed gets a login "snowflake" with the password
# "snowflake", which may create databases and nothing beside, unless the tests get in already. A
# server that was running before is not touched, except with CI=true, where the machine is
# thrown away afterwards.
#
# What the tests look for in a database, and the variables SNOWFLAKE_POSTGRES_DSN and
# SNOWFLAKE_MARIADB_DSN that point them elsewhere, is written in internal/dbtest/doc.go. The test
# is made with the very code of the tests (internal/dbtest/dbping), so nothing has to be handed
# over: the script prints to standard error only. The stores of leases are asked by TCP for a sign
# of life; SNOWFLAKE_REDIS_URL, SNOWFLAKE_ETCD_ENDPOINTS and SNOWFLAKE_ZOOKEEPER point elsewhere.
# SNOWFLAKE_NO_INSTALL=1 keeps the script from installing anything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly pinger=$PWD/.bin/dbping
readonly log=$PWD/.bin/services.log # what package managers and service managers had to say
readonly start_seconds=60
readonly absent=3 refused=4 # exit codes of dbping

say() { printf 'services: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# as_root runs a command as root, by sudo where it is needed. Without a terminal sudo may not ask.
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

# as_user USER COMMAND... runs a command as another user, for logins that go by the system's user.
as_user() {
	local user=$1
	shift
	if have runuser; then
		as_root runuser -u "$user" -- "$@"
	else
		as_root sudo -n -u "$user" "$@"
	fi
}

# quietly sends all output of a command to the log. A file, not a pipe: a server that was started
# keeps whatever it inherited, and a reader would wait for the end of the pipe as long as it runs.
quietly() { "$@" >>"$log" 2>&1 </dev/null; }

systemd_runs() { [ -d /run/systemd/system ] && have systemctl; }

# start_service NAME... starts the first of the services that the system knows.
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

# install_packages APT DNF APK BREW installs the packages of that name with whichever manager the
# system has; "" where a system has none. The names of several may stand in one argument.
# shellcheck disable=SC2086
install_packages() {
	if [ -n "${SNOWFLAKE_NO_INSTALL:-}" ]; then
		say "SNOWFLAKE_NO_INSTALL is set, so nothing is installed"
		return 1
	fi
	if have apt-get; then
		say "installing $1 with apt-get"
		# A package list that cannot be refreshed may still do.
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
	# Debian's own tools know each cluster and its port; the service starts all of them, and only
	# those that are set to start by themselves.
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
	# Fedora and its kin leave the data directory to be made by hand.
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
		quietly "${psql[@]}" # Homebrew: whoever installed it is the superuser
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

# mariadb_start_bare is for a machine without a service manager. The server outlives the script.
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
	# Databases of the tests carry a prefix, so the login need not reach any other. A client that
	# comes by TCP is one or the other host, as the server resolves names or not.
	local host sql=""
	for host in localhost 127.0.0.1; do
		sql+="CREATE USER IF NOT EXISTS snowflake@'$host';
			ALTER USER snowflake@'$host' IDENTIFIED BY 'snowflake';
			GRANT ALL ON \`snowflaketest\\_%\`.* TO snowflake@'$host';"
	done
	local client=mariadb
	have mariadb || client=mysql
	# The administrator's way in is the socket: as root, or with Homebrew as oneself.
	quietly as_root "$client" -u root -e "$sql" || quietly "$client" -e "$sql"
}

# --- Stores of leases -----------------------------------------------------------------------------

# detached DIRECTORY COMMAND... runs a server without a service manager, as this user. It outlives
# the script, and finds its data in the directory, which is thrown away with the others in /tmp.
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

# redis_ping HOST PORT. One that wants a password is alive.
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

# Debian has the program in an archive, apart from its service.
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

# exchange HOST PORT TEXT sends the text, with the escapes of printf, and prints the answer up to
# its end or until nothing comes for a while.
exchange() (
	exec 3<>"/dev/tcp/$1/$2" || exit 1
	# The text is a format on purpose.
	# shellcheck disable=SC2059
	printf "$3" >&3
	while IFS= read -r -t 3 line <&3 || [ -n "$line" ]; do
		printf '%s\n' "$line"
		line=""
	done
) 2>/dev/null

# store_ping SERVER SECONDS VARIABLE PORT waits so long for a sign of life of the server that the
# variable points to, the first if they are several, and says what it found.
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
		printf '%s is not looked at: %s names one that this script cannot talk to\n' "$server" "$3"
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

# --- All ------------------------------------------------------------------------------------------

# ping SERVER [WAIT] leaves the exit code in $state and the answer in $answer.
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

# start SERVER starts an installed server and waits until it answers. What counts is the answer
# and not the word of the service manager, some of which wait long or misjudge; so the starter
# runs beside, and is left behind when the server is there.
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
			# The starter itself, by its number; never what it has started.
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
		ping "$server" "${start_seconds}s" # a container may be on its way up
	fi
	if [ "$state" -ne 0 ] && [ -n "${!variable:-}" ]; then
		say "$answer"
		fail "$variable is set, but that server cannot be used. Mend it, or unset the variable for" \
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
			start "$server" || fail "$title is installed but could not be started; $log may say why." \
				"Start it on 127.0.0.1:$port, or set $variable."
			ours=yes
		fi
	fi
	if [ "$state" -eq "$refused" ]; then
		if [ -z "$ours" ] && [ -z "${CI:-}" ]; then
			say "$answer"
			fail "$title was running on 127.0.0.1:$port and is left as it is. Set $variable to a login" \
				"that may create databases, or make one: user snowflake, password snowflake" \
				"(with CI=true in the environment this script does)."
		fi
		say "making the login snowflake on $title"
		if ! "${server}_provision"; then
			tail -n 20 "$log" >&2
			fail "$title runs, but the login snowflake could not be made. Make one that may create" \
				"databases and set $variable."
		fi
		ping "$server"
	fi
	say "$answer"
	[ "$state" -eq 0 ] || fail "$title does not let the tests in on 127.0.0.1:$port."
}

mkdir -p .bin
: >"$log"
go build -o "$pinger" ./internal/dbtest/dbping

[ $# -gt 0 ] || set -- postgres mariadb redis etcd zookeeper
for server in "$@"; do
	case $server in
	postgres) ensure postgres PostgreSQL SNOWFLAKE_POSTGRES_DSN 5432 ;;
	mariadb) ensure mariadb MariaDB SNOWFLAKE_MARIADB_DSN 3306 ;;
	redis) ensure redis Redis SNOWFLAKE_REDIS_URL 6379 ;;
	etcd) ensure etcd etcd SNOWFLAKE_ETCD_ENDPOINTS 2379 ;;
	zookeeper) ensure zookeeper ZooKeeper SNOWFLAKE_ZOOKEEPER 2181 ;;
	*) fail "no server is called \"$server\": say postgres, mariadb, redis, etcd or zookeeper" ;;
	esac
done
