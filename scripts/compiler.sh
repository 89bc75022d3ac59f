#!/bin/sh
# Makes sure that a C compiler is there: Go's race detector needs one. agentd
# itself is pure Go and is built without.
set -eu

if [ -n "${CC:-}" ] || command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1; then
	exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "compiler.sh: the race detector needs a C compiler: install gcc or clang, or set CC" >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "compiler.sh: the race detector needs a C compiler; run as root: apt-get install gcc libc6-dev" >&2
	exit 1
fi
echo "installing gcc from Debian's packages"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null
