# Read by the scripts that install what tests and benchmarks use:
#	need COMMAND PACKAGE    notes a package whose command is missing
#	install_missing WHO     installs what was noted, WHO ("The tests") needs it

missing=
need() { # command package
	command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

install_missing() { # who
	[ -n "$missing" ] || return 0
	sudo=
	if [ "$(id -u)" -ne 0 ]; then
		if ! command -v sudo >/dev/null 2>&1 || ! sudo -n true 2>/dev/null; then
			echo "$1 need these packages, which only root can install: apt-get install$missing" >&2
			exit 1
		fi
		sudo="sudo -n"
	fi
	echo "$1 need packages; installing:$missing"
	export DEBIAN_FRONTEND=noninteractive
	$sudo apt-get update -qq
	# shellcheck disable=SC2086 # a list of packages
	$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
