#!/bin/sh
# Installs the Debian packages of the tools that the mounted tests use, where
# they are missing.
set -eu

missing=
need() { # command package
	command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need ed ed
need fusermount3 fuse3
need gawk gawk
need git git
need nano nano
need node nodejs
need patch patch
need perl perl
need ps procps
need python3 python3
need rg ripgrep
need rsync rsync
need sqlite3 sqlite3
need strace strace
need tmux tmux
need vim vim
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true 2>/dev/null; then
		echo "The tests need these packages, which only root can install: apt-get install$missing" >&2
		exit 1
	fi
	sudo="sudo -n"
fi
echo "Installing for the tests:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086 # a list of packages
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
