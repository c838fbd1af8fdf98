#!/bin/sh
# Installs what `make bench` compares mneme with, and measures with, where it is
# missing: Debian's packages, and the servers that the tests use.
set -eu

"$(dirname "$0")/install-test-servers.sh"

missing=
need() { # command package
	command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need findmnt util-linux
need fusermount3 fuse3
need rclone rclone
need rg ripgrep
need s3fs s3fs
need strace strace
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true 2>/dev/null; then
		echo "The benchmarks need these packages, which only root can install: apt-get install$missing" >&2
		exit 1
	fi
	sudo="sudo -n"
fi
echo "Installing for the benchmarks:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086 # a list of packages
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
