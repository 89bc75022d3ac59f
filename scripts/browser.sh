#!/bin/sh
# Prints the version of Chromium, for the tests of the web console. Installs it from
# Debian's packages if it is missing. It prefers the shell, which has no windows and needs
# about a third less processor time.
set -eu
here=$(dirname "$0")

# version prints that of the first of some browsers that there is, or fails.
version() {
	for name in "$@"; do
		if command -v "$name" >/dev/null 2>&1; then
			echo "Browser: $("$name" --version 2>/dev/null | head -n 1) ($name)"
			return
		fi
	done
	return 1
}

shell=chromium-headless-shell
if version $shell chromium chromium-browser google-chrome; then
	exit 0
fi
if sh "$here/install.sh" "Chromium's shell" $shell && version $shell; then
	exit 0
fi
sh "$here/install.sh" "Chromium" chromium
if ! version chromium; then
	echo "Browser: the package was installed, but chromium is not in PATH." >&2
	exit 1
fi
