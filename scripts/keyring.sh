#!/bin/sh
# Prints where a session bus and a keyring are, for the tests. Installs them from
# Debian's packages if they are missing; tests start their own of both.
set -eu
here=$(dirname "$0")

find_them() {
	command -v dbus-daemon >/dev/null 2>&1 && command -v gnome-keyring-daemon >/dev/null 2>&1 || return 1
	echo "Keyring: $(command -v dbus-daemon), $(command -v gnome-keyring-daemon)"
}

if find_them; then
	exit 0
fi
sh "$here/install.sh" "Keyring" dbus-daemon gnome-keyring
find_them
