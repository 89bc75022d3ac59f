#!/bin/sh
# Prints the version of Chromium, for the tests of the web console. Installs it from
# Debian's packages if it is missing.
set -eu
here=$(dirname "$0")

# version prints that of the first browser that there is, or fails.
version() {
	for name in chromium chromium-browser google-chrome; do
		if command -v "$name" >/dev/null 2>&1; then
			echo "Browser: $("$name" --version 2>/dev/null | head -n 1)"
			return
		fi
	done
	return 1
}

if version; then
	exit 0
fi
sh "$here/install.sh" "Chromium" chromium
if ! version; then
	echo "Browser: the package was installed, but chromium is not in PATH." >&2
	exit 1
fi
