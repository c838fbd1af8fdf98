#!/bin/sh
# Installs the Debian packages of the tools that the mounted tests use, where
# they are missing.
set -eu

# shellcheck source=scripts/debian-packages.sh
. "$(dirname "$0")/debian-packages.sh"
need bwrap bubblewrap
need ed ed
need emacs emacs-nox
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
install_missing "The tests"
