#!/bin/sh
# Prints where HAProxy is, for the tests. Installs it from Debian's packages if it
# is missing, without a service that runs.
set -eu
here=$(dirname "$0")

find_it() {
	for program in "$(command -v haproxy || true)" /usr/sbin/haproxy; do
		if [ -x "$program" ]; then
			echo "HAProxy: $program"
			return
		fi
	done
	return 1
}

if find_it; then
	exit 0
fi
sh "$here/install.sh" "HAProxy" haproxy
# The package starts a service; the tests start their own.
if command -v systemctl >/dev/null 2>&1; then
	systemctl disable --now haproxy >/dev/null 2>&1 || true
fi
if ! find_it; then
	echo "HAProxy: the package was installed, but haproxy is not where Debian puts it; add its folder to PATH." >&2
	exit 1
fi
