#!/bin/sh
# install.sh WHAT PACKAGE... installs Debian packages for the tests, as root and
# with apt-get; elsewhere it fails and says what to do. WHAT names for people
# what is missing. What apt-get prints is shown only if it fails.
set -eu

if [ "$#" -lt 2 ]; then
	echo "usage: install.sh WHAT PACKAGE..." >&2
	exit 2
fi
what=$1
shift

if ! command -v apt-get >/dev/null 2>&1; then
	echo "$what: missing, and there is no apt-get. Install it by hand and put it into PATH (Debian's packages: $*)." >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "$what: missing, and installing it needs root. Run \"sudo make needs\", or install by hand: $*" >&2
	exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "$what: installing $* from Debian's packages" >&2
# A fresh machine often upgrades itself just now, so wait for the lock. A list
# that can't be fetched need not matter: the installation says whether it does.
apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=600 "$@" >>"$log" 2>&1
}
apt update || echo "apt-get update failed" >>"$log"
if ! apt install -y --no-install-recommends "$@"; then
	cat "$log" >&2
	echo "$what: apt-get could not install $* (its output is above)." >&2
	exit 1
fi
