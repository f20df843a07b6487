#!/usr/bin/env bash
# Gets and runs MySQL's own server for the tests, beside whatever the system has installed:
#
#     scripts/mysql.sh installed                     succeeds if there is a server to run
#     scripts/mysql.sh install                       gets one
#     scripts/mysql.sh start PORT [ARGUMENT...]      starts one on 127.0.0.1:PORT, with arguments of mysqld
#     scripts/mysql.sh init DIRECTORY                makes the files of a server
#     scripts/mysql.sh serve DIRECTORY ARGUMENT...   becomes a server with these files
#
# MySQL and MariaDB share the names of their packages' files, so a system has one of them. For that
# reason nothing is installed here. The packages of MySQL are unpacked below one directory together
# with the C library that they need, and the loader of that library starts the server. No file and no
# package of the system changes, and no rights are needed. A mysqld of MySQL that the system has is used
# as it is.
#
# The packages come from the archive that the system's apt uses. If its own release does not have MySQL,
# as is so on Debian, they come from Debian's unstable release in the same archive. These variables
# change that:
#
#     SNOWFLAKE_MYSQL_DIR      where the packages are unpacked (/var/tmp/snowflake-mysql-USER)
#     SNOWFLAKE_MYSQL_MIRROR   the address of an archive of Debian, for a system that uses none
#     SNOWFLAKE_MYSQL_SUITE    its release (sid)
#     SNOWFLAKE_MYSQL_DATA     where "start" puts its data (memory if there is room, or the directory above)
#
# "start" is for tests: its server does not wait for the disk, and keeps nothing that matters. Otherwise it is
# as most users run it, with the binary log and GTIDs. It has three logins: root without a password; snowflake
# with the password snowflake, which may use databases named snowflaketest_ and more; and snowflake_trusted with
# the same password, which may also create triggers while the binary log is on, by the right SUPER. It ends with:
# kill "$(cat DATA/mysqld.pid)"
set -euo pipefail

readonly dir=${SNOWFLAKE_MYSQL_DIR:-/var/tmp/snowflake-mysql-$(id -u)}
self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/mysql.sh
readonly self
readonly start_seconds=120

say() { printf 'services: %3d s  %s\n' "$SECONDS" "$*" >&2; }
fail() { say "$@"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# claim DIRECTORY VARIABLE makes a directory that others may read and only this user may write. Its name
# can be guessed, so one that somebody else has made is not used.
claim() {
	mkdir -p "$1"
	if [ -L "$1" ] || [ ! -O "$1" ]; then
		say "$1 belongs to somebody else; set $2 to another directory"
		return 1
	fi
	chmod 755 "$1"
}

# --- Finding it -----------------------------------------------------------------------------------

unpacked() { [ -e "$dir/root/.complete" ]; }

# program prints the mysqld that the system has. The one of MariaDB, which may have the same name, is
# not taken.
program() {
	local candidate
	for candidate in mysqld /usr/sbin/mysqld /usr/libexec/mysqld \
		/opt/homebrew/opt/mysql*/bin/mysqld /usr/local/opt/mysql*/bin/mysqld; do
		candidate=$(command -v "$candidate") || continue
		case $("$candidate" --no-defaults --version 2>/dev/null) in
		*MariaDB*) ;;
		*" Ver "[89].* | *" Ver "[1-9][0-9].*) printf '%s\n' "$candidate" && return ;;
		esac
	done
	return 1
}

installed() { unpacked || program >/dev/null; }

# --- Getting it -----------------------------------------------------------------------------------

# The first that the archive has is taken.
readonly packages="mysql-server-core mysql-server-core-8.4 mysql-server-core-8.0"

# archives prints "URI ORIGIN RELEASE" of what the system's apt uses. Lists that were never read tell nothing.
archives() {
	# These dollars are apt's.
	# shellcheck disable=SC2016
	apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
		awk '$4 == "main" {print $1, $2, $3}'
}

# debian prints the address of Debian's archive, without its side rooms for updates.
debian() {
	if [ -n "${SNOWFLAKE_MYSQL_MIRROR:-}" ]; then
		printf '%s\n' "$SNOWFLAKE_MYSQL_MIRROR"
		return
	fi
	archives | awk '$2 == "Debian" && $3 !~ /-(security|updates|backports)/ && !n++ {print $1}' | grep .
}

# isolate DIRECTORY [URI SUITE] makes an apt of its own in a directory: with a list of installed packages
# that is empty, it resolves down to the C library and cannot change the system's. It reads the sources
# of the system, or only the one that is given.
isolate() {
	local apt=$1 key
	mkdir -p "$apt"/{lists/partial,cache/archives/partial,parts,preferences}
	# Perl is needed for a tool that nobody calls.
	cat >"$apt/status" <<-END
		Package: perl
		Status: install ok installed
		Architecture: $(dpkg --print-architecture)
		Multi-Arch: allowed
		Version: 99
		Maintainer: nobody <nobody@localhost>
		Description: stands in for perl
	END
	cat >"$apt/apt.conf" <<-END
		Dir::State::lists "$apt/lists";
		Dir::State::status "$apt/status";
		Dir::State::extended_states "$apt/extended_states";
		Dir::Cache "$apt/cache";
		APT::Sandbox::User "";
		APT::Architectures { "$(dpkg --print-architecture)"; };
		Acquire::Languages "none";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
		Debug::NoLocking "true";
	END
	export APT_CONFIG=$apt/apt.conf
	[ $# -eq 3 ] || return 0
	cat >>"$apt/apt.conf" <<-END
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$apt/parts";
		Dir::Etc::preferences "/dev/null";
		Dir::Etc::preferencesparts "$apt/preferences";
	END
	printf '%s\n' "Types: deb" "URIs: $2" "Suites: $3" "Components: main" >"$apt/parts/mysql.sources"
	# Without this file apt has its usual keys, which may do as well.
	for key in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
		[ ! -r "$key" ] || { printf 'Signed-By: %s\n' "$key" >>"$apt/parts/mysql.sources" && break; }
	done
}

# offered prints the first of the packages that the lists of apt have.
offered() {
	local package
	for package in $packages; do
		# The answer is read to its end: a reader that stops early would look like a failure of apt.
		if [ -n "$(apt-cache madison "$package" 2>/dev/null)" ]; then
			printf '%s\n' "$package"
			return
		fi
	done
	return 1
}

install() {
	local work package mirror suite=${SNOWFLAKE_MYSQL_SUITE:-sid} deb
	if have brew; then
		brew install mysql@8.4
		return
	fi
	if ! have apt-get || ! have dpkg-deb; then
		say "MySQL is unpacked from packages of apt, which this system does not have"
		return 1
	fi
	if [ -z "$(archives)" ]; then
		say "apt has no lists of packages; run apt-get update first"
		return 1
	fi
	claim "$dir" SNOWFLAKE_MYSQL_DIR || return 1
	work=$(mktemp -d "$dir/work.XXXXXX")
	# The directory has to be known when the shell ends, and not now.
	# shellcheck disable=SC2064
	trap "rm -rf '$work'" EXIT
	chmod 755 "$work"
	if package=$(offered); then
		isolate "$work/apt"
	elif mirror=$(debian); then
		isolate "$work/apt" "$mirror" "$suite"
	else
		say "the archive of this system has no MySQL; set SNOWFLAKE_MYSQL_MIRROR to an archive of Debian"
		return 1
	fi
	say "reading the lists of packages"
	apt-get -q update
	package=$(offered) || { say "the archive has none of: $packages"; return 1; }
	say "getting $package and the libraries that it needs"
	apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends --download-only "$package"
	mkdir "$work/root"
	for deb in "$work"/apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
	: >"$work/root/.complete"
	# If another process was faster, its files are as good as these.
	mv -T "$work/root" "$dir/root" 2>/dev/null || unpacked
}

# --- Running it -----------------------------------------------------------------------------------

# account prints the user that a server runs as when root starts it. A server refuses to run as root.
account() { if id mysql >/dev/null 2>&1; then echo mysql; else echo nobody; fi; }

# own gives a directory to the user of the server.
own() {
	mkdir -p "$1"
	[ "$(id -u)" -ne 0 ] || chown "$(account)" "$1"
}

# become DIRECTORY ARGUMENT... replaces this process by a server.
become() {
	local data=$1 root=$dir/root server loader libraries
	shift
	# When a server starts it removes temporary files that it takes for its own, also those of a MariaDB
	# that runs. So it has a directory of its own for them.
	own "$data.tmp"
	set -- --tmpdir="$data.tmp" "$@"
	[ "$(id -u)" -ne 0 ] || set -- "--user=$(account)" "$@"
	if ! unpacked; then
		server=$(program) || fail "there is no mysqld of MySQL; run: $0 install"
		exec "$server" --no-defaults --datadir="$data" --secure-file-priv=NULL "$@"
	fi
	loader=$(find "$root" -name 'ld-linux*.so.*' \( -type f -o -type l \) -path '*linux-gnu*' | sort | head -n 1)
	[ -n "$loader" ] || fail "there is no loader below $root; remove that directory"
	libraries=$(find "$root" -type d -name '*-linux-gnu*' -path '*lib*' | paste -sd:)
	exec "$loader" --library-path "$libraries" "$root/usr/sbin/mysqld" --no-defaults \
		--basedir="$root/usr" --lc-messages-dir="$root/usr/share/mysql" \
		--plugin-dir="$root/usr/lib/mysql/plugin" --datadir="$data" --secure-file-priv=NULL "$@"
}

initialize() {
	own "$1"
	become "$1" --initialize-insecure
}

# place prints where the data of a port lies.
place() {
	local memory=/dev/shm room=0
	if [ -n "${SNOWFLAKE_MYSQL_DATA:-}" ]; then
		printf '%s\n' "$SNOWFLAKE_MYSQL_DATA"
		return
	fi
	[ ! -w "$memory" ] || room=$(df -Pk "$memory" | awk 'NR == 2 {print $4}')
	if [ "$room" -gt 4000000 ]; then
		printf '%s\n' "$memory/snowflake-mysql-$(id -u)-$1"
	else
		printf '%s\n' "$dir/$1"
	fi
}

# answers PORT tells whether a server says something. It listens a while before that.
answers() (
	exec 3<>"/dev/tcp/127.0.0.1/$1" && IFS= read -r -t 2 -n 1 -u 3 _
) 2>/dev/null

# attempt DATA PORT ARGUMENT... starts a server and waits until it answers.
attempt() {
	local data=$1 port=$2 host login pid detach=env deadline=$((SECONDS + start_seconds))
	shift 2
	if [ ! -e "$data/.initialized" ]; then
		rm -rf "$data/files"
		(initialize "$data/files") || return 1
		: >"$data/.initialized"
	fi
	# The server runs these statements itself, so that no client is needed. The host of a TCP client
	# depends on whether the server resolves names.
	for host in localhost 127.0.0.1; do
		for login in snowflake snowflake_trusted; do
			echo "CREATE USER IF NOT EXISTS $login@'$host' IDENTIFIED BY 'snowflake';"
			echo "GRANT ALL ON \`snowflaketest\\_%\`.* TO $login@'$host';"
		done
		echo "GRANT SUPER ON *.* TO snowflake_trusted@'$host';"
	done >"$data/init.sql"
	chmod 644 "$data/init.sql"
	own "$data/run"
	! have setsid || detach=setsid # otherwise the interrupt key of a terminal ends the server, too
	"$detach" nohup "$self" serve "$data/files" --bind-address=127.0.0.1 --port="$port" \
		--socket="$data/run/s" --pid-file="$data/run/pid" --init-file="$data/init.sql" --mysqlx=OFF \
		--log-bin --server-id=1 --gtid-mode=ON --enforce-gtid-consistency=ON --sync-binlog=0 \
		--binlog-expire-logs-seconds=300 --max-binlog-size=64M --max-connections=500 \
		--innodb-flush-log-at-trx-commit=0 --innodb-flush-method=nosync --innodb-doublewrite=OFF "$@" \
		>"$data/output.log" 2>&1 </dev/null &
	pid=$!
	echo "$pid" >"$data/mysqld.pid"
	until answers "$port"; do
		if ! kill -0 "$pid" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
			tail -n 20 "$data/output.log" >&2
			return 1
		fi
		sleep 0.2
	done
}

start() {
	local data port=$1
	if answers "$port"; then
		say "a server answers on port $port already"
		return
	fi
	installed || fail "there is no mysqld of MySQL; run: $0 install"
	data=$(place "$port")
	claim "$data" SNOWFLAKE_MYSQL_DATA || return 1
	attempt "$data" "$@" && return
	# Files that a crash or another version left cannot always be used. They hold nothing that matters.
	say "starting once more, with new files"
	rm -f "$data/.initialized"
	attempt "$data" "$@"
}

case ${1:-} in
installed | install) "$1" ;;
start) [ $# -ge 2 ] || fail "usage: $0 start PORT [ARGUMENT...]" && shift && start "$@" ;;
init) [ $# -eq 2 ] || fail "usage: $0 init DIRECTORY" && initialize "$2" ;;
serve) [ $# -ge 2 ] || fail "usage: $0 serve DIRECTORY ARGUMENT..." && shift && become "$@" ;;
*) fail "usage: $0 installed|install|start|init|serve" ;;
esac
