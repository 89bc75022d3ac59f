#!/bin/sh
# Prints where PostgreSQL's programs (initdb, postgres) are, for the tests.
# Installs them from Debian's packages if they are missing, without creating or
# starting a system-wide cluster.
set -eu
here=$(dirname "$0")

# bin_dir prints the folder, or fails.
bin_dir() {
	if initdb=$(command -v initdb); then
		dir=$(dirname "$(readlink -f "$initdb")")
		if [ -x "$dir/postgres" ]; then
			echo "PostgreSQL: $dir"
			return
		fi
	fi
	for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV); do
		if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
			echo "PostgreSQL: $dir"
			return
		fi
	done
	return 1
}

if bin_dir; then
	exit 0
fi

# postgresql-common creates and starts the cluster "main" on installation unless
# this file, which is there before it, says no.
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
	conf=/etc/postgresql-common/createcluster.d
	mkdir -p "$conf"
	echo "create_main_cluster = false" >"$conf/agentd-tests.conf"
fi
sh "$here/install.sh" "PostgreSQL 14 or newer (initdb and postgres)" postgresql
if ! bin_dir; then
	echo "PostgreSQL: the package was installed, but initdb is not where Debian puts it; add its folder to PATH." >&2
	exit 1
fi
