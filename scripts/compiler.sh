#!/bin/sh
# Prints the C compiler that Go's race detector needs, and installs gcc from
# Debian's packages if there is none. agentd itself is pure Go and is built
# without.
set -eu
here=$(dirname "$0")

for cc in "${CC:-}" gcc clang; do
	if [ -n "$cc" ] && command -v "${cc%% *}" >/dev/null 2>&1; then
		echo "C compiler: $cc"
		exit 0
	fi
done
if [ -n "${CC:-}" ]; then
	echo "C compiler: CC is \"$CC\", which is not in PATH; unset it or name another" >&2
	exit 1
fi
sh "$here/install.sh" "C compiler for the race detector (gcc or clang)" gcc libc6-dev
echo "C compiler: gcc"
