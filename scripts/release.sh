#!/usr/bin/env bash
# Makes a version that others can install:
#
#     scripts/release.sh v1.2.3               builds the version, tries it, and makes its tags
#     scripts/release.sh --dry-run v0.9.0-rc  does all of that except the tags
#
# The nested modules of this repository replace the root by ../.., so that a checkout builds by itself. Nobody can
# install such a module, because "go install MODULE@VERSION" refuses every replace. The version is therefore one
# commit beside the branch, whose parent is HEAD: no go.mod replaces anything there, each requires the other
# modules of this repository at the version, and each go.sum has their sums.
#
# The go command itself publishes the modules to a folder, from a repository that has the tags and stands where the
# real one will. From that folder and from modules that were downloaded before, and from nowhere else, the script
# installs each command, runs the examples of each library in a module of their own, and runs the minimal example.
# Only then it makes all tags in this repository, or none. Pushing them is left to you.
#
# Nothing but HEAD counts, and the work tree is not touched. The same HEAD gives the same commit, so a second run
# finds the tags that the first one has made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The modules that users need, each after those that it requires.
readonly published=". internal/redisstore lease/etcdlease lease/redislease lease/zklease segment/redissegment
	observe/promobserve observe/otelobserve server"
# Nobody imports these, and nobody installs a command of theirs.
readonly kept="bench examples/metrics observe/dashboards test/ecosystem"
readonly commands="cmd/snowflake server/cmd/snowflaked"
readonly minimal=examples/minimal

say() { printf 'release: %5d s  %s\n' "$SECONDS" "$*"; }
fail() {
	printf 'release: failed: %s\n' "$*" >&2
	exit 1
}

dry=""
if [ "${1:-}" = --dry-run ]; then
	dry=yes
	shift
fi
[ $# = 1 ] || fail "usage: $0 [--dry-run] VERSION"
readonly version=$1
[[ $version =~ ^v[01]\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$ ]] ||
	fail "\"$version\" is no version such as v1.2.3 or v1.2.3-rc.1; v2 would need another module path"

head=$(git rev-parse --verify HEAD)
root=$(git show "$head:go.mod" | sed -n 's/^module //p')
readonly head root

# path DIR prints the path of a module, and tag DIR its tag.
path() { if [ "$1" = . ]; then printf '%s\n' "$root"; else printf '%s\n' "$root/$1"; fi; }
tag() { if [ "$1" = . ]; then printf '%s\n' "$version"; else printf '%s\n' "$1/$version"; fi; }

for dir in $published; do
	if old=$(git rev-parse -q --verify "refs/tags/$(tag "$dir")^{commit}") &&
		[ "$(git rev-parse -q --verify "$old^1")" != "$head" ]; then
		fail "the tag $(tag "$dir") is there, and not made of HEAD. A version never changes: take the next one"
	fi
done
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
	[ -n "$dry" ] || fail "there are changes that are not committed, and would not be in the version"
	say "there are changes that are not committed: only HEAD is tried"
fi
if [ -z "$dry" ] && ! git show "$head:CHANGELOG.md" | grep -qF "## [${version#v}]"; then
	fail "CHANGELOG.md has no section \"## [${version#v}]\""
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/snowflake-release.XXXXXX")
# The files of modules are read-only, also for those who remove them.
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
readonly tree=$work/tree repository=$work/repository folder=$work/modules/cache/download
seed=$(go env GOMODCACHE)/cache/download
readonly seed

# ours VARIABLE=VALUE... COMMAND... runs a command with a module cache of its own, which the folder and the modules
# downloaded before can fill. There is nothing after these two: else the go command asks outside for every path that
# could be a module, and hangs. With -trimpath what is compiled does not depend on the directory, so it is compiled once
# for all runs.
ours() { env GOMODCACHE="$work/modcache" GOFLAGS="${GOFLAGS:-} -trimpath" GOPROXY="file://$folder,file://$seed" "$@"; }

# publish DIR has the go command make the module's zip in the folder, as a proxy does: from the tag.
publish() {
	(cd "$work/empty" && GIT_CONFIG_GLOBAL=$work/gitconfig GIT_CONFIG_NOSYSTEM=1 GOMODCACHE=$work/modules GOPROXY=direct \
		go mod download -json "$(path "$1")@$version" >"$work/download.json") ||
		fail "$(path "$1")@$version cannot be published: $(cat "$work/download.json")"
}

# entry KEY prints a field of the last publication.
entry() { sed -nE "s/^\t\"$1\": \"(.*)\",?\$/\1/p" "$work/download.json"; }

# store MESSAGE writes the tree as a commit after HEAD, and prints it. Its names and times are those of HEAD, so that it
# is the same commit in every run, whoever runs it.
store() {
	local name mail date
	{ read -r name && read -r mail && read -r date; } < <(git show -s --format='%cn%n%ce%n%cI' "$head")
	(
		export GIT_DIR=$repository GIT_WORK_TREE=$tree GIT_AUTHOR_NAME=$name GIT_AUTHOR_EMAIL=$mail
		export GIT_AUTHOR_DATE=$date GIT_COMMITTER_NAME=$name GIT_COMMITTER_EMAIL=$mail GIT_COMMITTER_DATE=$date
		git -C "$tree" add --update . && git commit-tree -p "$head" -m "$1" "$(git write-tree)"
	)
}

# require DIR lets the go.mod of a module require the others at the version, and adds their sums to its go.sum.
require() {
	local mod=$tree/$1/go.mod sums=$tree/$1/go.sum needed
	sed -n 's/^replace \([^ ]*\) => .*/\1/p' "$mod" | while read -r needed; do
		go mod edit -dropreplace="$needed" "$mod"
	done
	! grep -q '^\(replace\|exclude\)\b' "$mod" || fail "$1/go.mod keeps a replace or an exclude: $(grep -A3 '^replace\|^exclude' "$mod")"
	for needed in $(sed -nE "s|^(require)?[[:space:]]*($root[^ ]*) v.*|\2|p" "$mod"); do
		[ -f "$work/sums/${needed//\//_}" ] || fail "$1 requires $needed, which is not published before it"
		go mod edit -require="$needed@$version" "$mod"
		# The go command sorts by the path.
		LC_ALL=C awk -v path="$needed" -v lines="$(cat "$work/sums/${needed//\//_}")" '
			$1 == path {next}
			!done && $1 > path {print lines; done = 1}
			{print}
			END {if (!done) print lines}' "$sums" >"$work/go.sum"
		cp "$work/go.sum" "$sums"
	done
	! needed=$(grep "^[^/]*[[:space:]]$root[^ ]* v" "$mod" | grep -vF " $version") ||
		fail "$1/go.mod requires another version: $needed"
}

say "$version of $head"
mkdir -p "$tree" "$folder" "$work/empty" "$work/sums" "$work/bin"
git init -q --bare "$repository"
git rev-parse --path-format=absolute --git-path objects >"$repository/objects/info/alternates"
printf '[url "file://%s"]\n\tinsteadOf = https://%s\n' "$repository" "$root" >"$work/gitconfig"
GIT_DIR=$repository git read-tree "$head"
GIT_DIR=$repository GIT_WORK_TREE=$tree git checkout-index -a

# A module in neither list would be forgotten, or keep its replace.
for dir in $(GIT_DIR=$repository git ls-files '*go.mod' | grep -v testdata/ | xargs -n 1 dirname); do
	printf '%s\n' $published $kept | grep -qxF "$dir" || fail "the module $dir is in no list of $0"
done

say "download what the modules require"
export GOWORK=off
for dir in $published; do
	(cd "$tree/$dir" && go mod download) || fail "what $dir requires cannot be downloaded"
done
# From now on nobody outside is asked. Settings of the developer, such as private paths, must not decide what users get.
export GOENV=off GOSUMDB=off GOPRIVATE='' GONOPROXY='' GONOSUMDB='' GOVCS='*:git'

for dir in $published; do
	say "publish $(path "$dir")"
	require "$dir"
	commit=$(store "$dir")
	GIT_DIR=$repository git tag -f "$(tag "$dir")" "$commit" >/dev/null
	publish "$dir"
	printf '%s %s %s\n%s %s/go.mod %s\n' "$(path "$dir")" "$version" "$(entry Sum)" \
		"$(path "$dir")" "$version" "$(entry GoModSum)" >"$work/sums/$(path "$dir" | tr / _)"
done
for dir in $kept; do
	require "$dir"
done

# The modules were published one after the other. What users fetch comes from one commit that holds them all.
commit=$(store "Release $version

No module replaces another here, and each requires the others at this version.")
chmod -R u+w "$work/modules"
rm -rf "$work/modules"
mkdir -p "$folder"
for dir in $published; do
	GIT_DIR=$repository git tag -f "$(tag "$dir")" "$commit" >/dev/null
	publish "$dir"
	grep -qF "$(entry Sum)" "$work/sums/$(path "$dir" | tr / _)" ||
		fail "$(path "$dir") differs when it is published from the last commit"
done
say "all modules are published from $commit"

# Every package and test has to be found, with its sum in go.sum.
for dir in $published; do
	(cd "$tree/$dir" && ours go list -deps -test ./... >/dev/null) || fail "$dir lacks something of what it requires"
done

for command in $commands; do
	say "install $root/$command@$version"
	(cd "$work/empty" && ours GOBIN="$work/bin" go install "$root/$command@$version") || fail "$command cannot be installed"
	said=$("$work/bin/${command##*/}" --version)
	[[ " $said " == *" $version"[\ ,]* ]] || fail "$command says that it is \"$said\" instead of $version"
done

# examples DIR runs the examples of a module in another one that has them and nothing else.
examples() {
	local consumer=$work/consumer/$1/consumer from example
	mkdir -p "$consumer"
	cd "$consumer"
	ours go mod init example.com/consumer 2>/dev/null &&
		ours go get "$(path "$1")@$version" &&
		from=$(ours go list -m -f '{{.Dir}}' "$(path "$1")") || return
	for example in $(cd "$from" && find . -name 'example*_test.go' ! -path '*/testdata/*'); do
		mkdir -p "$(dirname "$example")"
		cp "$from/$example" "$example"
	done
	[ -n "$(find . -name '*_test.go')" ] || fail "$1 has no example"
	# "go mod tidy" would ask for what the tests of strangers need. The vet of names looks for what an example is about
	# in its own package, which lies elsewhere here.
	ours go get -t ./... && ours go test -count 1 -vet=off ./...
}

for dir in $published; do
	# Nobody but us can import what is internal.
	[[ $dir != internal/* ]] || continue
	say "run the examples of $(path "$dir") in another module"
	(examples "$dir") 2>&1 | sed 's/^/    /' || fail "the examples of $dir do not run in a module that requires it"
done

say "run $root/$minimal@$version"
id=$(cd "$work/empty" && ours go run "$root/$minimal@$version") || fail "$minimal does not run"
[[ $id =~ ^[0-9]+$ ]] || fail "$minimal prints \"$id\" instead of an ID"

if [ -n "$dry" ]; then
	say "$version can be installed. No tag was made"
	exit
fi
refs=()
for dir in $published; do
	refs+=("refs/tags/$(tag "$dir"):refs/tags/$(tag "$dir")")
done
git fetch -q --atomic --no-tags "$repository" "${refs[@]}"
say "$version can be installed, and its tags stand on $commit. Publish all of them together:"
printf '\n    git push --atomic origin'
for dir in $published; do printf ' %s' "$(tag "$dir")"; done
printf '\n'
