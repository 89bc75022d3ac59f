#!/bin/sh
# Prints the folder of PostgreSQL's programs (initdb, postgres), for the tests.
# Installs them from Debian's packages if they are missing, without creating or
# starting a system-wide cluster.
set -eu

# bin_dir prints the folder, or fails.
bin_dir() {
	if initdb=$(command -v initdb); then
		dir=$(dirname "$(readlink -f "$initdb")")
		if [ -x "$dir/postgres" ]; then
			echo "$dir"
			return
		fi
	fi
	for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV); do
		if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
			echo "$dir"
			return
		fi
	done
	return 1
}

if bin_dir; then
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "PostgreSQL is missing and there is no apt-get. Install PostgreSQL 14 or newer and put its bin folder into PATH." >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "PostgreSQL is missing, and installing it needs root. Run: sudo $0" >&2
	exit 1
fi

# postgresql-common creates and starts the cluster "main" on installation unless
# this file, which is there before it, says no.
conf=/etc/postgresql-common/createcluster.d
mkdir -p "$conf"
echo "create_main_cluster = false" >"$conf/agentd-tests.conf"
export DEBIAN_FRONTEND=noninteractive
apt-get update >&2
apt-get install -y --no-install-recommends postgresql >&2
if ! bin_dir; then
	echo "The package postgresql was installed, but initdb is not where Debian puts it." >&2
	exit 1
fi
