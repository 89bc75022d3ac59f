#!/bin/sh
# Makes sure of everything that "make test" needs beyond Go, and installs it on
# Debian as root. What can't be had is named all at once, with what to do, so
# that nobody finds out piece by piece.
set -u
here=$(dirname "$0")

missing=0
for script in compiler.sh postgres.sh pgbouncer.sh haproxy.sh node.sh browser.sh; do
	sh "$here/$script" || missing=$((missing + 1))
done
# Few tests are about the keyring, and they skip without one.
sh "$here/keyring.sh" || echo "needs.sh: without it the tests of the keyring are skipped." >&2
if [ "$missing" -ne 0 ]; then
	echo "needs.sh: $missing of 6 are missing, see above. Once they are there, \"make test\" needs no root;" >&2
	echo "needs.sh: \"make test-unit\" runs without them and skips what needs them." >&2
	exit 1
fi
