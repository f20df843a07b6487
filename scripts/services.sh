#!/usr/bin/env bash
# Makes sure that the databases which the tests need answer:
#
#     scripts/services.sh [postgres] [mariadb]        (no argument: both)
#
# One that answers is used as it is. Otherwise an installed server is started; where none is
# installed the system's package manager installs it; where that cannot be done either, the script
# says what is missing and exits with status 1.
#
# A server that this script started or installed gets a login "snowflake" with the password
# "snowflake", which may create databases and nothing beside, unless the tests get in already. A
# server that was running before is not touched, except with CI=true, where the machine is
# thrown away afterwards.
#
# What the tests look for, and the variables SNOWFLAKE_POSTGRES_DSN and SNOWFLAKE_MARIADB_DSN that
# point them elsewhere, is written in internal/dbtest/doc.go. The test is made with the very code
# of the tests (internal/dbtest/dbping), so nothing has to be handed over: the script prints to
# standard error only. SNOWFLAKE_NO_INSTALL=1 keeps it from installing anything.
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

# install_packages APT DNF APK BREW installs the package of that name with whichever manager the
# system has.
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
			apt-get install -y --no-install-recommends "$1"
	elif have dnf; then
		say "installing $2 with dnf"
		quietly as_root dnf install -y "$2"
	elif have apk; then
		say "installing $3 with apk"
		# The names of several packages may stand in one argument.
		# shellcheck disable=SC2086
		quietly as_root apk add $3
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

# --- Both -----------------------------------------------------------------------------------------

# ping SERVER [WAIT] leaves the exit code in $state and the answer in $answer.
ping() {
	state=0
	answer=$("$pinger" -wait "${2:-0s}" "$1" 2>&1) || state=$?
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

[ $# -gt 0 ] || set -- postgres mariadb
for server in "$@"; do
	case $server in
	postgres) ensure postgres PostgreSQL SNOWFLAKE_POSTGRES_DSN 5432 ;;
	mariadb) ensure mariadb MariaDB SNOWFLAKE_MARIADB_DSN 3306 ;;
	*) fail "no server is called \"$server\": say postgres or mariadb" ;;
	esac
done
