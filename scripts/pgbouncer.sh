#!/bin/sh
# Prints where PgBouncer is, for the tests. Installs it from Debian's packages if
# it is missing, without a service that runs.
set -eu
here=$(dirname "$0")

find_it() {
	for program in "$(command -v pgbouncer || true)" /usr/sbin/pgbouncer; do
		if [ -x "$program" ]; then
			echo "PgBouncer: $program"
			return
		fi
	done
	return 1
}

if find_it; then
	exit 0
fi
sh "$here/install.sh" "PgBouncer" pgbouncer
# The package starts a service; the tests start their own.
if command -v systemctl >/dev/null 2>&1; then
	systemctl disable --now pgbouncer >/dev/null 2>&1 || true
fi
if ! find_it; then
	echo "PgBouncer: the package was installed, but pgbouncer is not where Debian puts it; add its folder to PATH." >&2
	exit 1
fi
