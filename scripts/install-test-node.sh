#!/bin/sh
# Installs the agents and MCP clients of others that tests/agents uses, the servers that tests/bench
# measures ours beside, and the Node that runs them,
# into ${MNEME_TEST_NODE:-${XDG_CACHE_HOME:-$HOME/.cache}/mneme-test-node}/SUM, where SUM is
# the SHA-256 of tests/agents/node/package-lock.json. The lock file has the sums of all
# packages, no script of any package is run, it does nothing when they are there, and two may
# run at once.
set -eu

source=$(cd "$(dirname "$0")/../tests/agents/node" && pwd)
dir=${MNEME_TEST_NODE:-${XDG_CACHE_HOME:-$HOME/.cache}/mneme-test-node}
sum=$(sha256sum <"$source/package-lock.json")
sum=${sum%% *}
[ ! -e "$dir/$sum" ] || exit 0

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/.lock"
flock 9 # whoever comes second finds everything there
[ ! -e "$dir/$sum" ] || exit 0
if ! command -v npm >/dev/null 2>&1; then
	# shellcheck source=scripts/debian-packages.sh
	. "$(dirname "$0")/debian-packages.sh"
	need npm npm
	install_missing "The tests"
fi
echo "Installing the MCP clients for the tests; this takes a minute, once"
tmp=$(mktemp -d "$dir/.tmp-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
cp "$source/package.json" "$source/package-lock.json" "$tmp"
npm ci --prefix "$tmp" --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null
mv "$tmp" "$dir/$sum"
