#!/bin/sh
# Installs what `make bench` compares mneme with, and measures with, where it is
# missing: Debian's packages, and the servers that the tests use.
set -eu

"$(dirname "$0")/install-test-servers.sh"

# shellcheck source=scripts/debian-packages.sh
. "$(dirname "$0")/debian-packages.sh"
need etcd etcd-server
need findmnt util-linux
need git git
need fusermount3 fuse3
need python3 python3
need rclone rclone
need rg ripgrep
need s3fs s3fs
need strace strace
install_missing "The benchmarks"
